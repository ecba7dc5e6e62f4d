"""Options of commands that judge many runs: a recorded one in place of agents, and processes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

MAX_JOBS: Final = 64

Before = Annotated[
    list[str] | None,
    typer.Option(
        "--before", metavar="[NAME=]STATE",
        help="Instead of agents, a recorded run: its state before, once a source.",
    ),
]  # fmt: skip
After = Annotated[
    list[str] | None, typer.Option("--after", metavar="[NAME=]STATE", help="Its state after.")
]
Answer = Annotated[Path | None, typer.Option("--answer", metavar="FILE", help="Its answer, JSON.")]
Jobs = Annotated[
    int, typer.Option("-j", "--jobs", metavar="N", min=1, max=MAX_JOBS, help="Processes.")
]
Keep = Annotated[
    Path | None,
    typer.Option(
        "--keep",
        metavar="FOLDER",
        help="Keep what each piece of the work gave, and go on from there the next time.",
    ),
]
