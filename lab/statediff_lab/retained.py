"""The keys under which runs encrypted what they captured in the trial of one sealed bundle."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from statediff.errors import BundleError, StorageError
from statediff.evidence.canonical import write
from statediff.trial_folder import kept_names, kept_states, vault_of
from statediff.workspace.runfolders import is_run, run_of

if TYPE_CHECKING:
    from statediff.evidence.vault import Vault
    from statediff.evidence.verify import Verified

TIMES: Final = "timeline.json#"


@dataclass(frozen=True, kw_only=True)
class ChunkKey:
    """A key of the chunks of one source and trial: by what name, in which vault."""

    source: str
    name: str
    vault: Vault
    until: datetime
    trial: Path
    """The trial's folder."""


@dataclass(frozen=True, kw_only=True)
class ChunkKeys:
    """The keys that were found, and the files that were left untouched."""

    keys: tuple[ChunkKey, ...]
    untouched: tuple[str, ...]
    """Why a file that looks like such states is not taken for one."""


def chunk_keys(found: Verified, folders: Iterable[Path], vault: Vault) -> ChunkKeys:
    """The keys that are there of the bundle's own trial, in the runs at or below these folders.

    A trial is the bundle's if what its key opens says so: the trial's name and its times. The keys
    are in the vault, or in the one that the run names. Nothing is destroyed.
    """
    sealed_at = datetime.fromisoformat(found.manifest["sealed_at"])
    times = [leaf.value[0] for leaf in found.leaves if leaf.path == TIMES]
    expected = {
        "trial": found.manifest["trial"],
        "timeline": hashlib.sha256(write(times[0])).hexdigest() if times else None,
    }
    keys: dict[str, ChunkKey] = {}
    untouched: list[str] = []
    for folder in _trials(folders, found.manifest["trial"]):
        for key in _keys_in(folder, expected, vault, sealed_at, untouched):
            keys.setdefault(key.name, key)
    return ChunkKeys(keys=tuple(keys.values()), untouched=tuple(dict.fromkeys(untouched)))


def _keys_in(
    folder: Path,
    expected: dict[str, str | None],
    vault: Vault,
    sealed_at: datetime,
    untouched: list[str],
) -> Iterator[ChunkKey]:
    run = folder.parent.parent
    for name in kept_names(folder):
        for place in filter(None, (vault, vault_of(run))):
            try:
                kept = kept_states(folder, name, run / "chunks", place)
            except (BundleError, StorageError) as error:
                untouched.append(str(error))
                continue
            if kept is None:
                continue
            if {part: kept.about[part] for part in expected} != expected:
                untouched.append(f"{folder}: {name} is a key of another trial")
                break
            yield ChunkKey(
                source=kept.about["source"],
                name=name,
                vault=place,
                until=_later(sealed_at, kept.retain_seconds),
                trial=folder,
            )
            break


def _later(at: datetime, seconds: float) -> datetime:
    try:
        return at + timedelta(seconds=seconds)
    except OverflowError:
        return datetime.max.replace(tzinfo=at.tzinfo)


def _trials(folders: Iterable[Path], trial: str) -> Iterator[Path]:
    """The folders of trials of that name, in the runs at, around or just below these folders."""
    if Path(trial).name != trial:
        return
    runs: dict[Path, None] = {}
    for folder in folders:
        around = run_of(folder)
        near = [folder, *folder.glob("*"), *folder.glob("*/*")] if around is None else [around]
        runs |= {each.resolve(): None for each in near if is_run(each)}
    for run in runs:
        if (run / "trials" / trial).is_dir():
            yield run / "trials" / trial
