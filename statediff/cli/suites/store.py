"""`runs`, `stats` and `store`: what the folders of many trials hold and say."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from statediff.capture.store import check_store as look
from statediff.capture.store import collect
from statediff.cli.faults import FAULT
from statediff.cli.options import JsonFlag, RunArgument, StoreOption, argument, option
from statediff.cli.output import emit, print_result, results
from statediff.errors import UsageError
from statediff.suite.artifacts import CopyCounts, CopyPlace, check_url
from statediff.workspace.folders import shown
from statediff.workspace.runfolders import is_run
from statediff.workspace.stores import find_run, index_run, open_store

if TYPE_CHECKING:
    from rich.table import Table


CHECK: Final = "statediff/store-check/1"
COLLECTION: Final = "statediff/store-gc/1"
COPY: Final = "statediff/copy/1"
_WIDEST: Final = 500

PooledFlag = Annotated[
    bool, option("", "Also what is pooled over domains; it is no score of any.", "--pooled")
]


def runs(
    folder: Annotated[Path, argument("[DIR]", "The folder that holds the runs' folders.")] = Path(
        "runs"
    ),
    every: Annotated[
        bool, option("", "All runs that the store knows, not only those in DIR.", "--all")
    ] = False,
    store: StoreOption = None,
    as_json: JsonFlag = False,
) -> None:
    """List runs: how many trials were scheduled, and how they ended."""
    if not folder.is_dir() and not every:
        raise UsageError(f"{folder}: expected a folder that holds the folders of runs")
    there = sorted(filter(is_run, folder.iterdir())) if folder.is_dir() else []
    with open_store(store) as index:
        known = {index_run(index, place).id for place in there}
        listed = [each for each in index.runs() if every or each.id in known]
    from statediff.reports.suites import runs_document, runs_table

    if as_json:
        emit(runs_document(listed))
    else:
        print_tables(runs_table(listed, with_place=every))


def stats(
    folders: Annotated[list[Path], argument("RUN...", "Folders of runs.")],
    ks: Annotated[
        list[int] | None,
        option("", "For pass@k and pass^k; may be repeated [default: 1].", "-k", min=1, max=10_000),
    ] = None,
    store: StoreOption = None,
    pooled: PooledFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Count the trials of runs by contract and domain, with pass@k, pass^k and reruns' spread.

    Ends with 0 whatever the verdicts are: the exit code of `run` is the verdicts'.
    """
    from statediff.reports.suites import stats_document, stats_tables
    from statediff.suite.figures import figures
    from statediff.suite.overview import groups, passes

    with open_store(store) as index:
        # A run that is named twice is counted once.
        every = {run.id: run for run in (find_run(index, folder) for folder in folders)}
        wanted = list(every)
        found = figures(groups(index, wanted), passes(index, wanted), sorted(set(ks or [1])))
    if as_json:
        emit(stats_document(found, len(every), is_pooled=pooled))
        return
    print_tables(*stats_tables(found, is_pooled=pooled))


def print_tables(*told: Table | str) -> None:
    """The tables and lines, as wide as they are: figures that are cut short are other figures."""
    door = results()
    door.width = _WIDEST
    for each in told:
        door.print(each, soft_wrap=True)


# ---------------------------------------------------------------- store

FolderArgument = Annotated[Path, argument("FOLDER", "A chunk store: the folder `chunks` of a run.")]


def check(folder: FolderArgument, as_json: JsonFlag = False) -> int:
    """Read every chunk and compare it with its name; 4 if one is damaged."""
    found = look(folder)
    lines = [*found.damaged, f"{found.chunks:,} chunks, {found.bytes:,} bytes"]
    lines[-1] += f"; {len(found.damaged)} damaged" if found.damaged else "; all are sound"
    if found.encrypted:
        lines[-1] += f", but for {found.encrypted:,} that are encrypted and were not read"
    if found.left_over:
        lines.append(
            f"{found.left_over} files of interrupted writers; `statediff store gc` removes them"
        )
    document = {"schema": CHECK, "ok": not found.damaged, **asdict(found)}
    print_result(document, "\n".join(lines), as_json=as_json)
    return FAULT if found.damaged else 0


def gc(
    folder: FolderArgument,
    unused_hours: Annotated[
        float, option("", "Keep what a run put in so many last hours.", "--unused-hours", min=0)
    ] = 24.0,
    as_json: JsonFlag = False,
) -> None:
    """Remove the chunks that no run has put lately; what a running one relies on stays."""
    found = collect(folder, time.time_ns() - int(unused_hours * 3600e9))
    text = f"{found.removed:,} files removed, {found.removed_bytes:,} bytes; {found.kept:,} kept"
    text += "; the store is in use" if found.is_in_use else ""
    document = {
        "schema": COLLECTION,
        "removed": found.removed,
        "removed_bytes": found.removed_bytes,
        "kept": found.kept,
        "in_use": found.is_in_use,
    }
    print_result(document, text, as_json=as_json)


UrlArgument = Annotated[
    str, argument("URL", "s3://bucket/runs, file:///srv/runs, or what else fsspec reaches.")
]


def push(
    run: RunArgument,
    url: UrlArgument,
    store: StoreOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Copy a run's folder below a URL: what is not there yet, and whole."""
    place = CopyPlace(url)
    with open_store(store) as index:
        known, folder = index_run(index, run), run.resolve()
        found = place.push(folder)
        index.put_copy(known.id, place.url)
    _print_copy("url", f"{place.url}/{folder.name}", found, as_json=as_json)


def fetch(
    url: Annotated[str, argument("URL", "Of the run's copy.")],
    folder: Annotated[Path, argument("DIR", "Where the run's folder goes, a new one.")],
    as_json: JsonFlag = False,
) -> None:
    """Bring the copy of a run back; `replay` and `store check` say whether it is what it says."""
    place, _, name = check_url(url).rpartition("/")
    found = CopyPlace(place).fetch(name, folder)
    _print_copy("folder", shown(folder), found, as_json=as_json)


def _print_copy(what: str, where: str, found: CopyCounts, *, as_json: bool) -> None:
    text = f"{found.trials:,} trials, {found.files:,} files, {found.bytes:,} bytes; {where}"
    print_result({"schema": COPY, what: where, **asdict(found)}, text, as_json=as_json)


COMMANDS: Final[tuple[tuple[str, Callable[..., object]], ...]] = (
    ("check", check),
    ("gc", gc),
    ("push", push),
    ("fetch", fetch),
)
