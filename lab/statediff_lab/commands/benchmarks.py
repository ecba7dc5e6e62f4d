"""`lab bench`: what statediff costs on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from statediff.cli.faults import FAULT
from statediff.cli.options import JsonFlag
from statediff.cli.output import emit, progress, results

BENCH: Final = "statediff/bench/1"


def bench(
    only: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[WHAT]...",
            help="capture, delta, diff, reset, reward, verify, or a measure's name; else all.",
        ),
    ] = None,
    rows: Annotated[int, typer.Option("--rows", help="Rows of a state.")] = 1_000_000,
    slow_rows: Annotated[
        int, typer.Option("--slow-rows", help="Rows for peers that are slow.")
    ] = 100_000,
    large_rows: Annotated[
        int, typer.Option("--large-rows", help="Rows of the table for peak memory.")
    ] = 10_000_000,
    changes: Annotated[int, typer.Option("--changes", help="Changes between the states.")] = 10,
    repeats: Annotated[int, typer.Option("--repeats", help="Interleaved runs of each.")] = 5,
    as_json: JsonFlag = False,
) -> int:
    """Measure capture, delta, diff, reset, reward and verify here; 4 if a target is missed.

    Peers are measured where they are installed (`pip install 'statediff[bench]'`). What needs
    Docker says so where there is none.
    """
    import tempfile

    from statediff.api import judge
    from statediff.scoring import Judge
    from statediff_lab.bench import BenchPlan, Judging, machine, run
    from statediff_lab.reports.benchmarks import markdown

    here = machine()
    with tempfile.TemporaryDirectory(prefix="statediff-bench-") as folder:
        doors = Judging(Judge, judge)
        plan = BenchPlan(rows, slow_rows, large_rows, changes, repeats, Path(folder), doors)
        said = progress()
        found = tuple(run(plan, only or (), lambda name: said.print(f"measuring {name} …")))
    if as_json:
        emit({"schema": BENCH, "machine": here, "rows": [row.document() for row in found]})
    else:
        results().print(markdown(here, found), soft_wrap=True, end="")
    return FAULT if any(row.ok is False for row in found) else 0
