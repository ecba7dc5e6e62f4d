"""Runs in a store and in their folders: indexed as they are now, and their bundles found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from statediff.errors import UsageError
from statediff.suite import indexing
from statediff.suite import store as stores
from statediff.suite.artifacts import check_url, url_in_path
from statediff.suite.indexing import TrialContent
from statediff.suite.records import Ended, Run
from statediff.suite.store import Store, file_url
from statediff.workspace.bundles import bundle_in_copies
from statediff.workspace.folders import make_own, require_writable
from statediff.workspace.runfolders import FAULT_NAME, is_run, read_trial, run_facts

if TYPE_CHECKING:
    from statediff.evidence.package import Bundle

DEFAULT: Final = Path(".statediff") / "store.sqlite"


@contextmanager
def open_store(url: str | None) -> Iterator[Store]:
    """The store that was named, or the one of the folder that one works in."""
    if url is None:
        require_writable(DEFAULT.parent)
        make_own(DEFAULT.parent)
    with stores.open_store(file_url(DEFAULT) if url is None else url) as store:
        yield store


def index_run(store: Store, folder: Path) -> Run:
    """The run in the folder, as it is now, is in the store."""
    if not is_run(folder):
        raise UsageError(
            f"{folder}: expected the folder of a run, with its run.json; `statediff run` makes one"
        )
    return indexing.index_run(store, folder, run_facts(folder), look)


@dataclass(frozen=True)
class KnownRun:
    """A run that somebody named: the store knows its trials, and its bundles can be had."""

    id: str
    location: str
    folder: Path | None
    """None where only a copy was named."""
    copies: tuple[str, ...]

    def bundle(self, trial: str) -> tuple[Bundle | None, str]:
        """The bundle of a trial, or why there is none."""
        if self.folder is not None:
            kept = read_trial(self.folder / "trials" / trial)
            return kept.bundle, kept.why
        return bundle_in_copies(self.copies, self.location, trial), "no copy of its run has it"


def find_run(store: Store, path: Path) -> KnownRun:
    """The run in a folder, as it is now, or the one that was copied to a URL, as it was indexed."""
    url = url_in_path(str(path))
    if url is None:
        run = index_run(store, path)
        return KnownRun(run.id, run.location, path, ())
    place, _, name = check_url(url).rpartition("/")
    for found, location in store.copied_runs(place):
        if unquote(location.rpartition("/")[2]) == name:
            return KnownRun(found, location, None, (place,))
    raise UsageError(
        f"{check_url(url)}: the store knows of no run that was copied there; "
        f"`statediff store fetch {check_url(url)} DIR` brings it here"
    )


def look(trial: Path) -> TrialContent:
    """The content of a trial's folder, for the index."""
    kept = read_trial(trial)
    if kept.is_broken:
        return TrialContent(None, Ended.DAMAGED, kept.why)
    has_reason = (trial / FAULT_NAME).is_file()
    return TrialContent(kept.bundle, Ended.FAULT if has_reason else Ended.UNFINISHED, kept.why)
