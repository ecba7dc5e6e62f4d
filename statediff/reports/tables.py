"""Terminal reports that need no bundle: a capture's summary, a diff without a contract."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from statediff.model.delta import Delta, Diff, Entity, Op
from statediff.reports.record import OPERATIONS, both_shown, entity_name, said, side_words

MAX_DELTAS = 200
_STYLES = {"+": "green", "−": "red", "~": "yellow"}


def grid(columns: int) -> Table:
    """A table without lines, whose columns wrap.

    Each is a character wide at least, also one that is empty: it is drawn so, and measured as none.
    """
    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(columns):
        table.add_column(min_width=1, overflow="fold")
    return table


def capture_report(summary: Any) -> Group:
    """Each source with its types, keys and numbers of entities."""
    parts: list[RenderableType] = []
    for source in summary["sources"]:
        head = Text(said(source["source"], 100), style="bold")
        head.append(f"  {source['entities']} entities", style="not bold")
        if source["cause"] is not None:
            head.append(f"  incomplete: {said(source['cause'])}", style="yellow not bold")
        parts.append(head)
        table = grid(4)
        for entry in source["types"]:
            key = ", ".join(entry["key"]) or "no key"
            note = "" if entry["cause"] is None else f"{entry['coverage']}: {entry['cause']}"
            table.add_row(
                Text(f"  {said(entry['type'], 100)}"),
                Text(str(entry["entities"])),
                Text(said(key, 100), style="dim"),
                Text(said(note), style="yellow"),
            )
        parts.append(table)
    return Group(*parts)


def diff_report(diff: Diff) -> Group:
    """Every delta on a line, then what cannot be known."""
    parts: list[RenderableType] = [Text(_headline(diff))]
    table = grid(3)
    for delta in diff.deltas[:MAX_DELTAS]:
        sign, _ = OPERATIONS[delta.op.value]
        name = entity_name(delta.type, delta.key)
        table.add_row(
            Text(sign, style=_STYLES[sign]),
            Text(f"{name} {said(delta.place)}".rstrip()),
            Text(_change(delta)),
        )
    if diff.deltas:
        parts.append(table)
    if len(diff.deltas) > MAX_DELTAS:
        parts.append(Text(f"and {len(diff.deltas) - MAX_DELTAS} more; --json lists all"))
    parts.extend(_unknown(diff))
    return Group(*parts)


def _headline(diff: Diff) -> str:
    number = len(diff.deltas)
    told = "no change" if not number else f"{number} change{'s' if number > 1 else ''}"
    doubts = len(diff.doubts)
    return told + (f", {doubts} place{'s' * (doubts != 1)} not known" if doubts else "")


def _change(delta: Delta) -> str:
    before, after = delta.before, delta.after
    if not isinstance(before, Entity) and not isinstance(after, Entity):
        return " → ".join(both_shown(before, after))
    return side_words(delta.after if delta.op in (Op.CREATE, Op.LINK) else delta.before)


def _unknown(diff: Diff) -> Iterator[Text]:
    for doubt in diff.doubts[:MAX_DELTAS]:
        yield Text(f"? {said(doubt.where)}: {said(doubt.cause)}", style="yellow")
