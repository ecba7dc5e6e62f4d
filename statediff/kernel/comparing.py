"""Two captures compared without a contract: all of both, under the equality of their types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from statediff.kernel.canonicalize.rules import equality_of_types
from statediff.kernel.diff import diff
from statediff.kernel.resolve import resolve
from statediff.model.delta import Diff
from statediff.model.graph import Changed, Graph, Known, change_content, references, references_of
from statediff.model.readings import Capture
from statediff.model.schema import Schema, merge_schemas
from statediff.model.state import Coverage, State, Table
from statediff.model.values import Key, key_order


@dataclass(frozen=True)
class Comparison:
    """Two states, and the differences between them."""

    diff: Diff
    before: State
    after: State

    @property
    def schema(self) -> Schema:
        """The types of both."""
        return merge_schemas((self.before.schema, self.after.schema))

    def graph(self) -> Graph:
        """The changes, with what they refer to and what refers to them on either side."""
        related = references(self.schema)
        unobserved = {doubt.where: doubt.cause for doubt in self.diff.doubts}
        sides = {"before": _seen(self.before), "after": _seen(self.after)}
        wanted: dict[_Place, Key] = {}
        for tables in sides.values():
            wanted |= _near(tables, self.diff, related)
        near = (
            Known(side, name, key, row)
            for side, tables in sides.items()
            for (name, _), key in wanted.items()
            if name in tables and (row := tables[name].row(key)) is not None
        )
        return change_content(
            map(Changed.by, self.diff.deltas), near, related, unobserved
        ).as_graph()


def comparison(before: Capture, after: Capture) -> Comparison:
    """Everything that changed, with nothing excluded; entities are paired by their keys alone."""
    resolution = resolve(before, after)
    matching = resolution.matchings[0]
    rules = equality_of_types(matching.before.schema, matching.after.schema)
    evidence = {name: (one, two) for name, one, two in resolution.readings_of}
    found = diff(matching.before, matching.after, rules, evidence=evidence)
    return Comparison(found, matching.before, matching.after)


def state_of(captured: Capture) -> State:
    """The state that all sources show together; nothing of it where they contradict each other."""
    return resolve(captured, captured).matchings[0].before


_Place: TypeAlias = tuple[str, tuple[Any, ...]]
"""A type and the order of a key: to Python the keys 1 and True are one."""


def _seen(state: State) -> dict[str, Table]:
    return {
        name: table
        for name, table in state.tables.items()
        if table.enumeration.coverage is not Coverage.UNOBSERVED
    }


def _near(
    tables: dict[str, Table], found: Diff, related: dict[str, tuple[tuple[str, str], ...]]
) -> dict[_Place, Key]:
    """The changed entities, what they refer to in that state, and what refers to them there."""
    changed = {(d.type, key_order(d.key)): d.key for d in found.deltas}
    wanted: dict[_Place, Key] = dict(changed)
    for (name, _), key in changed.items():
        row = (tables[name].row(key) if name in tables else None) or {}
        wanted |= {(t, key_order(k)): k for _, t, k in references_of(name, row, related)}
    types = {name for name, _ in changed}
    for name in (n for n in related if n in tables and types & {t for _, t in related[n]}):
        fields = tuple(dict.fromkeys((*tables[name].type.key, *(f for f, _ in related[name]))))
        for key, row in tables[name].rows(fields):
            ends = references_of(name, row, related)
            if any((target, key_order(other)) in changed for _, target, other in ends):
                wanted[name, key_order(key)] = key
    return wanted
