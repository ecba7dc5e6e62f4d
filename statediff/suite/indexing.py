"""Index a run's folder as it is now: every scheduled trial, and how it ended.

A trial is read again only where the file it was read from is another than before: its place on
the disk, length, and times of change tell. Reading happens outside the store's transactions.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from statediff.evidence.package import Bundle
from statediff.suite.records import (
    Ended,
    Run,
    Trial,
    judged_trial,
    read_attempt,
    run_record,
    scheduled_trials,
    without_bundle,
)
from statediff.suite.store import Store

BATCH: Final = 200


@dataclass(frozen=True)
class TrialContent:
    """The content of a trial's folder: a bundle, or why there is none."""

    bundle: Bundle | None
    ended: Ended
    """How it ended if it has no bundle."""
    why: str = ""


def index_run(
    store: Store,
    folder: Path,
    facts: Mapping[str, Any],
    look: Callable[[Path], TrialContent],
) -> Run:
    """The run in `folder`, whose `run.json` says `facts`, as the store knows it from now on.

    `look` reads what is in the folder of one trial.
    """
    run = run_record(facts, location(folder))
    store.put_run(run)
    # Before the folder is listed: nothing new can seem to be gone.
    known, unrun = store.stamps(run.id)
    is_whole = len(known) >= max(run.scheduled, 1)
    kept = folder / "trials"
    names = os.listdir(kept) if kept.is_dir() else []  # noqa: PTH208 - many, and in time
    changed = sorted(_changed_names(kept, names, known))
    gone = known.keys() - unrun - set(names)
    if not changed and not gone and is_whole:
        return run
    planned = scheduled_trials(run)
    store.put_new([trial for name, trial in planned.items() if name not in known])
    store.forget(run.id, [name for name in gone if name not in planned])
    batch = [planned[name] for name in gone if name in planned]
    for trial in _read_trials(kept, changed, run, planned, look):
        batch.append(trial)
        if len(batch) >= BATCH:
            store.put_trials(batch)
            batch = []
    store.put_trials(batch)
    return run


def _changed_names(kept: Path, names: list[str], known: Mapping[str, str]) -> list[str]:
    """The names of those that are not known as they are on the disk."""
    if not names:
        return []
    # Relative to the folder: a hundred thousand paths are walked in half the time.
    folder = os.open(kept, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return [
            name
            for name in names
            if not (seen := known.get(name)) or stamp_of(name, folder) != seen
        ]
    finally:
        os.close(folder)


def _read_trials(
    kept: Path,
    names: list[str],
    run: Run,
    planned: Mapping[str, Trial],
    look: Callable[[Path], TrialContent],
) -> Iterator[Trial]:
    """The trials that are not in the store as they are on the disk."""
    for name in names:
        seen = stamp_of(kept / name)
        plan = planned.get(name) or Trial(run.id, name, Ended.UNFINISHED, kernel=run.kernel)
        found = look(kept / name)
        if found.bundle is not None:
            trial = judged_trial(plan, found.bundle, seen)
        else:
            trial = without_bundle(plan, found.ended, found.why)
        known = read_attempt(kept / name)
        is_fault = trial.ended is Ended.FAULT and known.fault is not None
        yield replace(
            trial,
            attempts=known.number,
            is_retried=known.is_retried,
            cost_nano=known.cost_nano,
            cause=str(known.fault) if is_fault else "",
        )


def stamp_of(trial: Path | str, folder: int | None = None) -> str:
    """Place, length and times of the manifest of a trial's bundle; empty where there is none.

    The trial's folder is relative to `folder`, a descriptor, if that is given.
    """
    try:
        found = os.lstat(f"{trial}/bundle/manifest.json", dir_fd=folder)
    except OSError:
        return ""
    return f"{found.st_ino}:{found.st_size}:{found.st_mtime_ns}:{found.st_ctime_ns}"


def location(folder: Path) -> str:
    """The folder's address, that of the machine included: a store may be shared."""
    return folder.resolve().as_uri().replace("file://", f"file://{socket.gethostname()}", 1)


def folder_of(location: str) -> Path | None:
    """The folder at a location; None where it is another machine's."""
    parts = urlsplit(location)
    if parts.scheme != "file" or parts.netloc not in ("", socket.gethostname()):
        return None
    return Path(unquote(parts.path))
