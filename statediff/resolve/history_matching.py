"""The course of the run: which states each source went through, and of which types they tell.

Of a type that one source delivers (or that it decides, by `authority`), its history tells. Of a
type that several deliver nothing is known in between, for the order of their commits is not known;
nor of one whose entities are paired by a declared rule, which pairs the two ends only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from statediff.errors import AdapterError
from statediff.model.readings import Capture, Reading, SourceCapture, Transaction
from statediff.model.state import State, Table
from statediff.model.timelines import SourceTimeline, Step, Timelines
from statediff.resolve.merge_sources import Scope, combine

Between = Mapping[str, State]


def course_of(
    before: Capture,
    after: Capture,
    states: tuple[State, ...],
    scope: Scope,
    paired: Collection[str],
) -> tuple[Timelines, Between]:
    """The course, and its states by the name of their side; `states` are the two resolved ends."""
    followed: dict[str, set[str]] = {}
    unfollowed: list[tuple[str, str]] = []
    for entity in scope.schema.types:
        name = entity.name
        sources = scope.delivered[name]
        tellers = sources & {scope.authority.get(name)} or sources
        if name in paired:
            cause = "ambiguous identity: its entities are paired at the two ends only"
            unfollowed.append((name, cause))
        elif len(tellers) == 1:
            followed.setdefault(next(iter(tellers)), set()).add(name)
        else:
            who = " and ".join(sorted(sources))
            unfollowed.append((name, f"{who} deliver it, and the order of their commits is open"))
    lines: list[SourceTimeline] = []
    between: dict[str, State] = {}
    for source, types in sorted(followed.items()):
        line, own = _line(source, frozenset(types), before, after, states, scope)
        lines.append(line)
        between.update(own)
    return Timelines(tuple(lines), tuple(unfollowed)), between


def _line(
    source: str,
    types: frozenset[str],
    before: Capture,
    after: Capture,
    states: tuple[State, ...],
    scope: Scope,
) -> tuple[SourceTimeline, Between]:
    refused = [cause for (_, name), cause in sorted(scope.refused.items()) if name == source]
    history = after.history
    gap = refused[0] if refused else history.gap(source)
    reading = next((r for r in history.readings if r.source == source), None)
    if refused or reading is None or reading.is_agent_influenced:
        return SourceTimeline(source, types, (), gap), {}
    transactions = history.of(source)
    if gap is None and not _agrees(transactions, source, before, after):
        raise AdapterError(
            f"the history of {source} does not end in the state that was captured after the run"
        )
    steps: list[Step] = []
    found: list[State] = []
    earlier = states[0]
    last: tuple[State, State] | None = None
    for transaction in transactions:
        state = _state(transaction, reading, types, scope, last)
        last = transaction.state, state
        touched = frozenset(
            name
            for name in types
            if earlier.tables.get(name) is not state.tables.get(name)
            and _differ(earlier.tables.get(name), state.tables.get(name))
        )
        steps.append(
            Step(
                transaction.id, transaction.position, transaction.committed_at, touched,
                transaction.names,
            )
        )  # fmt: skip
        found.append(state)
        earlier = state
    timeline = SourceTimeline(source, types, tuple(steps), gap)
    sides = {timeline.side(number): state for number, state in enumerate(found, start=1)}
    sides.pop("after", None)
    return timeline, sides


def _agrees(
    transactions: tuple[Transaction, ...], source: str, before: Capture, after: Capture
) -> bool:
    ends = [p.state for c in (before, after) for p in c.parts if p.reading.source == source]
    if len(ends) != 2:
        return False
    last = transactions[-1].state if transactions else ends[0]
    return last.digest() == ends[1].digest()


def _state(
    transaction: Transaction,
    reading: Reading,
    types: frozenset[str],
    scope: Scope,
    last: tuple[State, State] | None,
) -> State:
    """The types that the source tells of, as the transaction left them.

    A feed that may have missed transactions has seen this one whole. `last` is the state of the
    transaction before and what this made of it: a table that is the same leads to the same.
    """
    known: dict[str, Table] = {}
    if last is not None:
        tables, made = last[0].tables, last[1].tables
        now = transaction.state.tables
        known = {n: table for n, table in made.items() if tables.get(n) is now.get(n)}
    exact = replace(reading, is_complete=True, cause=None)
    capture = Capture((SourceCapture(exact, transaction.state),))
    return combine(capture, None, scope, types, known)


def _differ(one: Table | None, two: Table | None) -> bool:
    if one is None or two is None:
        return one is not two
    return (
        one.chunks != two.chunks
        or one.enumeration != two.enumeration
        or (one.type.fields != two.type.fields)
    )
