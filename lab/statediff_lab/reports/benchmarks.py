"""A benchmark's rows as a Markdown table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from statediff_lab.bench import BenchRow

_HEAD = (
    "| measure | value | range | beside | ratio | target | |\n|---|---:|---:|---:|---:|---|---|\n"
)


def markdown(machine: Mapping[str, Any], rows: Sequence[BenchRow]) -> str:
    """The machine in one line, the table, and what there is to know about single rows."""
    versions = ", ".join(f"{name} {v}" for name, v in machine["packages"].items() if v)
    load = ", ".join(f"{each:g}" for each in machine["load"])
    lead = (
        f"{machine['cores']} cores, {machine['architecture']}, "
        f"{machine['memory_bytes'] / 2**30:.0f} GB, load {load} at the start; "
        f"Python {machine['python']}, {versions}.\n\n"
    )
    body = "".join(map(_line, rows))
    notes = "".join(f"- {row.measure}: {row.note}\n" for row in rows if row.note)
    return lead + _HEAD + body + ("\n" + notes if notes else "")


def _line(row: BenchRow) -> str:
    between = "" if row.low is None or row.high is None else f"{row.low:,g} – {row.high:,g}"
    cells = (
        row.measure,
        _number(row.value, row.unit),
        between,
        _number(row.floor, row.unit),
        "" if row.ratio is None else f"{row.ratio:,g}",
        "" if row.target is None else str(row.target),
        {True: "kept", False: "**missed**", None: ""}[row.ok],
    )
    return f"| {' | '.join(cells)} |\n"


def _number(value: float | None, unit: str) -> str:
    return "–" if value is None else f"{value:,g} {unit}".strip()
