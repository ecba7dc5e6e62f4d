"""Recorded trials that a change of a contract, schema or pack affects, found by their bundles."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from statediff.errors import BundleError, UsageError
from statediff.evidence.package import load

MAX_DEPTH: Final = 8


@dataclass(frozen=True)
class Recorded:
    """One judged trial, and where its bundle lies."""

    folder: Path
    trial: str
    verdict: str


@dataclass(frozen=True)
class Affected:
    """The trials affected, and the bundles that could not be read to tell."""

    trials: tuple[Recorded, ...]
    unreadable: tuple[str, ...]


def affected(runs: Path, is_meant: Callable[[dict[str, Any], str | None], bool]) -> Affected:
    """Every bundle under `runs` that `is_meant` by its manifest and its trial's sandbox, sorted."""
    if not runs.is_dir():
        raise UsageError(f"{runs}: expected a folder of runs, found none")
    found: list[Recorded] = []
    unreadable: list[str] = []
    for folder in _bundles(runs):
        try:
            bundle = load(folder)
            trial = bundle.document("trial.json")
        except BundleError as error:
            unreadable.append(str(error))
            continue
        manifest = dict(bundle.manifest)
        if is_meant(manifest, trial.get("sandbox")):
            found.append(Recorded(folder, str(manifest["trial"]), str(manifest["verdict"])))
    return Affected(tuple(found), tuple(unreadable))


def _bundles(runs: Path) -> Iterator[Path]:
    for here, folders, files in os.walk(runs):
        folders.sort()
        depth = len(Path(here).relative_to(runs).parts)
        if depth >= MAX_DEPTH:
            folders.clear()
        if "manifest.json" in files:
            folders.clear()
            yield Path(here)
