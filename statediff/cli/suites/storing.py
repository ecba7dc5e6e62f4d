"""`store`: the chunks of a run, checked and tidied, and runs copied to a URL and back.

All may run beside whoever writes there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer

from statediff.cli.output import JsonFlag
from statediff.cli.suites.listing import StoreOption

CHECK: Final = "statediff/store-check/1"
COLLECTION: Final = "statediff/store-gc/1"
COPY: Final = "statediff/copy/1"
FolderArgument = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="A chunk store: the folder `chunks` of a run.")
]


def check(folder: FolderArgument, as_json: JsonFlag = False) -> int:
    """Read every chunk and compare it with its name; 4 if one is damaged."""
    from statediff.capture.collect import check as look
    from statediff.cli.faults import FAULT
    from statediff.cli.output import emit, results

    found = look(folder)
    if as_json:
        emit({
            "schema": CHECK, "ok": not found.damaged, "chunks": found.chunks,
            "bytes": found.bytes, "damaged": list(found.damaged), "left_over": found.left_over,
        })  # fmt: skip
    else:
        lines = [*found.damaged, f"{found.chunks:,} chunks, {found.bytes:,} bytes"]
        lines[-1] += f"; {len(found.damaged)} damaged" if found.damaged else "; all are sound"
        if found.left_over:
            lines.append(
                f"{found.left_over} files of interrupted writers; `statediff store gc` removes them"
            )
        results().print("\n".join(lines), soft_wrap=True)
    return FAULT if found.damaged else 0


def gc(
    folder: FolderArgument,
    unused_hours: Annotated[
        float,
        typer.Option("--unused-hours", min=0, help="Keep what a run put in so many last hours."),
    ] = 24.0,
    as_json: JsonFlag = False,
) -> None:
    """Remove the chunks that no run has put lately; what a running one relies on stays."""
    import time

    from statediff.capture.collect import collect
    from statediff.cli.output import emit, results

    found = collect(folder, time.time_ns() - int(unused_hours * 3600e9))
    if as_json:
        emit({
            "schema": COLLECTION, "removed": found.removed, "removed_bytes": found.removed_bytes,
            "kept": found.kept, "in_use": found.is_in_use,
        })  # fmt: skip
        return
    said = f"{found.removed:,} files removed, {found.removed_bytes:,} bytes; {found.kept:,} kept"
    said += "; the store is in use" if found.is_in_use else ""
    results().print(said, soft_wrap=True)


UrlArgument = Annotated[
    str,
    typer.Argument(
        metavar="URL", help="s3://bucket/runs, file:///srv/runs, or what else fsspec reaches."
    ),
]


def push(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    url: UrlArgument,
    store: StoreOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Copy a run's folder below a URL: what is not there yet, and whole."""
    from statediff.cli.output import emit, results
    from statediff.suite.artifacts import Place
    from statediff.workspace.stores import indexed, opened_store

    place = Place(url)
    with opened_store(store) as index:
        known, folder = indexed(index, run), run.resolve()
        found = place.push(folder)
        index.put_copy(known.id, place.url)
    where = f"{place.url}/{folder.name}"
    if as_json:
        emit({"schema": COPY, "url": where, **asdict(found)})
        return
    told = f"{found.trials:,} trials, {found.files:,} files, {found.bytes:,} bytes; {where}"
    results().print(told, soft_wrap=True)


def fetch(
    url: Annotated[str, typer.Argument(metavar="URL", help="Of the run's copy.")],
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Where the run's folder goes, a new one."),
    ],
    as_json: JsonFlag = False,
) -> None:
    """Bring the copy of a run back; `replay` and `store check` say whether it is what it says."""
    from statediff.cli.output import emit, results, shown
    from statediff.suite.artifacts import Place, checked

    place, _, name = checked(url).rpartition("/")
    found = Place(place).fetch(name, folder)
    if as_json:
        emit({"schema": COPY, "folder": shown(folder), **asdict(found)})
        return
    told = f"{found.trials:,} trials, {found.files:,} files, {found.bytes:,} bytes; {shown(folder)}"
    results().print(told, soft_wrap=True)


COMMANDS: Final[tuple[tuple[str, Callable[..., object]], ...]] = (
    ("check", check), ("gc", gc), ("push", push), ("fetch", fetch),
)  # fmt: skip
