"""Keeping a chunk store: what nobody relies on is removed, and what is damaged is named.

Both may run while others write to the store: a chunk is removed only if it was put before the
oldest live lease began, and only behind a closed gate (see `leases`).
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from statediff.atomic import PART
from statediff.capture.leases import LEASES, closed_gate, oldest_use
from statediff.capture.store import DiskChunks
from statediff.errors import StorageError, UsageError
from statediff.model.values import printable

_FOLDER: Final = re.compile(r"[0-9a-f]{2}")
_CHUNK: Final = re.compile(r"([0-9a-f]{62})\.arrow")
_PART: Final = re.compile(rf"{PART.pattern}|\.[0-9]+-[0-9]+\.part")
"""What an interrupted writer leaves; the second form is in stores that exist already."""
_BATCH: Final = 256
"""Files that are looked at behind the closed gate at a time: writers wait no longer than that."""


@dataclass(frozen=True)
class Collected:
    """What a collection did."""

    removed: int
    removed_bytes: int
    kept: int
    is_in_use: bool
    """Whether someone holds a lease; then what it may rely on was kept."""


@dataclass(frozen=True)
class Checked:
    """What a check found."""

    chunks: int
    bytes: int
    damaged: tuple[str, ...]
    """What is wrong with each damaged chunk, and where it is."""
    left_over: int
    """Files of writers that were interrupted; a collection removes them."""


def collect(folder: Path, unused_since_ns: int) -> Collected:
    """The store without chunks last put before `unused_since_ns` that no one relies on.

    Raises `UsageError` where the folder is not a chunk store, `StorageError` where a file cannot
    be removed.
    """
    files = sorted(_files(folder))
    removed = removed_bytes = kept = 0
    is_in_use = False
    for start in range(0, len(files) + 1, _BATCH):
        with closed_gate(folder):
            in_use = oldest_use(folder)
            is_in_use = is_in_use or in_use is not None
            for path, is_part in files[start : start + _BATCH]:
                with contextlib.suppress(FileNotFoundError):
                    found = path.stat()
                    # What a writer was interrupted in is nobody's, however new it is.
                    until = None if is_part else unused_since_ns
                    limits = [limit for limit in (until, in_use) if limit is not None]
                    if limits and found.st_mtime_ns >= min(limits):
                        kept += not is_part
                        continue
                    _remove(path)
                    removed += 1
                    removed_bytes += found.st_size
    return Collected(removed, removed_bytes, kept, is_in_use)


def check(folder: Path) -> Checked:
    """Every chunk of the store read once and compared with its name. Changes nothing."""
    store = DiskChunks(folder, cache_bytes=0)
    damaged: list[str] = []
    chunks = size = left_over = 0
    for path, is_part in sorted(_files(folder)):
        if is_part:
            left_over += 1
            continue
        digest = f"{path.parent.name}{path.name.removesuffix('.arrow')}"
        try:
            size += path.stat().st_size
            store.verify(digest)
        except FileNotFoundError:
            continue  # collected meanwhile
        except StorageError as error:
            if not path.exists():
                continue
            damaged.append(str(error))
        chunks += 1
    return Checked(chunks, size, tuple(damaged), left_over)


def _files(folder: Path) -> Iterator[tuple[Path, bool]]:
    """(file, whether it is one that a writer was interrupted in) of all that is the store's own."""
    if not folder.is_dir() or not _is_store(folder):
        raise UsageError(
            f"{printable(str(folder))} is not a chunk store; expected a folder `chunks` of a run"
        )
    for parent in folder.iterdir():
        if _FOLDER.fullmatch(parent.name) and parent.is_dir() and not parent.is_symlink():
            for path in parent.iterdir():
                is_part = _PART.fullmatch(path.name) is not None
                if is_part or _CHUNK.fullmatch(path.name):
                    yield path, is_part


def _is_store(folder: Path) -> bool:
    names = {entry.name for entry in folder.iterdir()}
    return all(name == LEASES or _FOLDER.fullmatch(name) for name in names)


def _remove(path: Path) -> None:
    try:
        os.unlink(path)  # noqa: PTH108 - a directory of that name is not to be removed
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StorageError(
            f"{printable(str(path))} cannot be removed: {error.strerror}; check who owns the store"
        ) from error
