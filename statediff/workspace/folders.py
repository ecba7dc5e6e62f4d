"""Results are written whole or not at all; messages name a path in one way.

Bundles go under `.statediff/bundles`, runs under `runs`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from statediff.atomic import sync_below, sync_folder, write_atomically
from statediff.errors import BundleError, StorageError, UsageError
from statediff.evidence.package import FILES, Bundle, load, save, save_undisclosed
from statediff.model.values import printable

BUNDLES: Final = Path(".statediff") / "bundles"
DIGEST_DIGITS: Final = 12


def bundle_folder(bundle: Bundle) -> Path:
    """The default place of a bundle: the contract's name and the beginning of its digest."""
    name = str(bundle.manifest["contract"]).replace("/", "-")
    return BUNDLES / f"{name}-{bundle.digest[:DIGEST_DIGITS]}"


def require_writable(folder: Path) -> None:
    """`folder` can be made; asked before any work is done. `UsageError` says why not."""
    standing = folder.absolute()
    while not standing.exists() and standing != standing.parent:
        standing = standing.parent
    if not standing.is_dir():
        raise UsageError(
            f"{printable(str(folder))}: {printable(standing.name)} is not a folder; choose another"
        )
    try:
        with tempfile.TemporaryFile(dir=standing):
            pass
    except OSError as error:
        raise UsageError(
            f"{printable(str(folder))}: cannot be written: {error.strerror}; "
            "choose another folder with --out"
        ) from error


def require_free(folder: Path) -> None:
    """Nothing of anybody lies in `folder` that a bundle would overwrite or be mixed with."""
    if folder.is_dir():
        there = {entry.name for entry in folder.iterdir()}
        if "manifest.json" in there or there - set(FILES):
            raise UsageError(
                f"{printable(str(folder))}: holds files already and nothing is overwritten; "
                "choose another folder with --out, or remove it"
            )


def keep_bundle(bundle: Bundle, folder: Path) -> None:
    """The bundle lies in `folder`, whole. The same bundle may lie there already."""
    with contextlib.suppress(BundleError):
        if folder.is_dir() and (there := load(folder)).manifest == dict(bundle.manifest):
            if there.undisclosed not in (None, bundle.undisclosed):
                raise UsageError(
                    f"{printable(str(folder))}: a bundle that shows the same was judged by other "
                    "values, and nothing is overwritten; choose another folder with --out"
                )
            save_undisclosed(bundle, folder)
            return
    require_free(folder)
    if folder.parent == BUNDLES:
        make_own(BUNDLES.parent)
    part = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    try:
        save(replace(bundle, undisclosed=None), part)
        sync_below(part)
        if folder.is_dir():
            shutil.rmtree(folder)  # a torn one: a sound one was refused or is the same
        save_undisclosed(bundle, folder)
        part.replace(folder)
        sync_folder(folder.parent)
    except OSError as error:
        raise StorageError(
            f"{printable(str(folder))}: the bundle could not be written: {error.strerror}"
        ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def write_file(
    path: Path,
    content: bytes,
    *,
    option: str = "--out",
    exclusive: bool = False,
    durable: bool = False,
    mode: int | None = None,
) -> None:
    """The file holds the content, or is as it was.

    `StorageError` says why not, and that `option` names another place.
    """
    try:
        write_atomically(path, content, exclusive=exclusive, durable=durable, mode=mode)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise StorageError(
            f"{printable(str(path))}: cannot be written: there is no folder "
            f"{printable(str(path.parent))}; make it, or choose another place with {option}"
        ) from error
    except OSError as error:
        raise StorageError(
            f"{printable(str(path))}: cannot be written: {error.strerror}; "
            f"free some space or choose another place with {option}"
        ) from error


def remove_file(path: Path) -> None:
    """The file is not there. `UsageError` where it cannot be removed."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(
            f"{printable(str(path))}: cannot be written: {error.strerror}; name a file"
        ) from error


def new_run(base: Path, name: str) -> Path:
    """A folder name under `base` that is not taken: the name and the time, UTC."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    folder = base / f"{name}-{stamp}"
    number = 2
    while folder.exists():
        folder = base / f"{name}-{stamp}-{number}"
        number += 1
    return folder


def make_own(folder: Path) -> None:
    """The folder is there; a new one is ours: others keep out, and git leaves it alone."""
    if folder.is_dir():
        return
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_file(folder / ".gitignore", b"*\n")
    except OSError as error:
        raise StorageError(f"{printable(str(folder))}: cannot be made: {error.strerror}") from error


def shown(path: Path) -> str:
    """A path as a person would type it: relative to the current directory where it lies in it."""
    try:
        return str(path.absolute().relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)
