"""`store`: the chunks of a run, checked and tidied; both may run beside whoever writes to them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import typer

from statediff.cli.output import JsonFlag

CHECK: Final = "statediff/store-check/1"
COLLECTION: Final = "statediff/store-gc/1"
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


COMMANDS: Final[tuple[tuple[str, Callable[..., object]], ...]] = (("check", check), ("gc", gc))
