"""The agent's own part of a run in which others worked in the same systems.

The sandbox's writers say which transactions of a history they made (`OthersWork`); all others are
the run's. What is judged is a pair of states that differ by the agent's own transactions only:

* A type that no writer changed is as it was captured, on both sides.
* An entity that the agent changed is, before, as the agent found it and, after, as it left it. What
  writers did to it earlier or later is in neither. Where they came in between, each field is
  composed of what the agent itself wrote to it: from what it first found to what it last left. A
  field that both wrote in turns is unobserved, unless it is an amount, to which each adds its part;
  so is an entity that both made or removed in turns.
* Whatever else writers changed is the same on both sides. There are two admissible readings of it:
  as the agent's first transaction found it, and as its last one left it. Without a transaction of
  the agent's these are the two ends of the run.

`OwnParts` has both readings and, for the case that they lead to different verdicts, one in which
what they differ in is unobserved. Where the history or the writers' log is not whole, the source is
unobserved after the run.

This module may not decide whether a change matters.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final, TypeAlias

from statediff.capture.feed import read_of
from statediff.capture.source import unread
from statediff.capture.take import unobserved_state
from statediff.model.batches import batch_rows, encode_rows
from statediff.model.columns import table_changes
from statediff.model.readings import Capture, SourceCapture, Transaction
from statediff.model.schema import COUNTERS, EntityType
from statediff.model.state import ChunkStore, State, Table
from statediff.model.values import ABSENT, Key, Observed, Unobserved, key_order

IN_TURNS: Final = "the agent and others wrote it in turns"
BETWEEN: Final = (
    "unsettled: others changed it while the agent worked, and when it is read decides the verdict"
)

Row: TypeAlias = Mapping[str, Observed]
Amounts: TypeAlias = frozenset[tuple[str, str]]
"""(type, field) of fields to which several add."""


@dataclass(frozen=True, kw_only=True)
class OthersWork:
    """The work of a sandbox's writers in one source, by their own record."""

    source: str
    transactions: frozenset[str] = frozenset()
    """A name of each transaction that they made, as its history has them."""
    gap: str | None = None
    """Why they may have made more."""


@dataclass(frozen=True)
class OwnPart:
    """The captures of one reading; the history of the one after is the agent's own."""

    before: Capture
    after: Capture


@dataclass(frozen=True, kw_only=True)
class OwnParts:
    """The readings of the agent's own part. `left` alone counts where `found` is None."""

    left: OwnPart
    """The changes of others, as the agent's last transaction left them."""
    found: OwnPart | None = None
    """The same, as the agent's first transaction found it."""
    open: OwnPart | None = None
    """The part in which both differ, which is unobserved."""


def own_parts(
    before: Capture,
    after: Capture,
    others: Sequence[OthersWork],
    amounts: Amounts,
    store: ChunkStore,
) -> OwnParts:
    """The agent's own part. Captures in whose sources nobody else worked are left as they are."""
    left = found = unsure = OwnPart(before, after)
    for work in others:
        if not work.transactions and work.gap is None:
            continue
        cause = _gap(before, after, work)
        if cause is not None:
            left, found, unsure = (
                _without(p, work.source, cause, store) for p in (left, found, unsure)
            )
            continue
        course = _Course.of(before, after, work, amounts, store)
        left = _with(left, work.source, *course.reading(is_late=True))
        found = _with(found, work.source, *course.reading(is_late=False))
        unsure = _with(unsure, work.source, *course.open_reading())
    if left == found:
        return OwnParts(left=left)
    return OwnParts(left=left, found=found, open=unsure)


def _gap(before: Capture, after: Capture, work: OthersWork) -> str | None:
    """Why it is not known which changes of the source are the agent's."""
    if read_of(before, work.source) is None or read_of(after, work.source) is None:
        return "others worked in it, and it was not read at both ends"
    gap = after.history.gap(work.source)
    if gap is not None:
        return f"{gap}; others worked in it, and what is theirs is not known"
    if work.gap is not None:
        return f"others worked in it, and what is theirs is not known: {work.gap}"
    made = [_names(t) & work.transactions for t in after.history.of(work.source)]
    if (
        sum(map(len, made)) != len(work.transactions)
        or frozenset().union(*made) != work.transactions
    ):
        return "others worked in it, and its history does not have their transactions as they do"
    return None


def _without(part: OwnPart, source: str, cause: str, store: ChunkStore) -> OwnPart:
    """The part with nothing known of the source after the run."""
    found = []
    for each in part.after.parts:
        if each.reading.source != source:
            found.append(each)
            continue
        first = read_of(part.before, source)
        like = each.state if first is None else first.state
        state = unobserved_state(like.schema, store, cause, like)
        reading = unread(each.reading.id, source, each.reading.as_of, cause)
        found.append(SourceCapture(reading, state))
    return OwnPart(part.before, replace(part.after, parts=tuple(found)))


def _with(
    part: OwnPart, source: str, before: State, after: State, own: tuple[Transaction, ...]
) -> OwnPart:
    history = part.after.history
    at = next((n for n, t in enumerate(history.transactions) if t.source == source), 0)
    rest = [t for t in history.transactions if t.source != source]
    readings = tuple(
        replace(r, digest=after.digest(), position=own[-1].position if own else None)
        if r.source == source
        else r
        for r in history.readings
    )
    history = replace(history, readings=readings, transactions=(*rest[:at], *own, *rest[at:]))
    later = replace(part.after, parts=_replaced(part.after, source, after), history=history)
    return OwnPart(replace(part.before, parts=_replaced(part.before, source, before)), later)


def _replaced(capture: Capture, source: str, state: State) -> tuple[SourceCapture, ...]:
    return tuple(
        replace(each, state=state, reading=replace(each.reading, digest=state.digest()))
        if each.reading.source == source
        else each
        for each in capture.parts
    )


# ---------------------------------------------------------------- one source


@dataclass(frozen=True)
class _Touch:
    """The change of one entity by one of the agent's transactions; None where there is no row."""

    before: Row | None
    after: Row | None


@dataclass(frozen=True, kw_only=True)
class _Shared:
    """A type that both changed: by key, what each of the agent's transactions did, by number."""

    touches: Mapping[Key, tuple[tuple[int, _Touch], ...]]


@dataclass(frozen=True, kw_only=True)
class _Course:
    """The states of one source in their order, and who made which."""

    states: tuple[State, ...]
    """The state before, then the one after each transaction."""
    own: tuple[int, ...]
    """The numbers of the agent's transactions, from 1."""
    transactions: tuple[Transaction, ...]
    by_others: frozenset[str]
    """Types that others changed and the agent did not."""
    shared: Mapping[str, _Shared]
    unclear: Mapping[str, str]
    """Types of which nobody can say what the agent's part is, with the cause."""
    after: State
    amounts: Amounts
    store: ChunkStore

    @staticmethod
    def of(
        before: Capture, after: Capture, work: OthersWork, amounts: Amounts, store: ChunkStore
    ) -> _Course:
        [first] = (p.state for p in before.parts if p.reading.source == work.source)
        [last] = (p.state for p in after.parts if p.reading.source == work.source)
        transactions = after.history.of(work.source)
        states = (first, *(t.state for t in transactions))
        own = tuple(
            n for n, t in enumerate(transactions, start=1) if not _names(t) & work.transactions
        )
        course = _Course(
            states=states,
            own=own,
            transactions=transactions,
            by_others=frozenset(),
            shared={},
            unclear={},
            after=last,
            amounts=amounts,
            store=store,
        )
        return course._sorted()

    def _sorted(self) -> _Course:
        """With each type among those of others, of both, or unclear; the rest are the agent's."""
        by_others: set[str] = set()
        shared: dict[str, _Shared] = {}
        unclear: dict[str, str] = {}
        mine = frozenset(self.own)
        for name in sorted({name for state in self.states for name in state.tables}):
            tables = [state.tables.get(name) for state in self.states]
            moved = [n for n in range(1, len(tables)) if _is_moved(tables[n - 1], tables[n])]
            if all(n in mine for n in moved):
                continue
            if not _is_moved(tables[0], self.after.tables.get(name)):
                whole = [t for t in tables if t is not None and t.enumeration.is_complete]
                if len(whole) < len(tables):
                    continue  # not seen in between, and nothing is left of what was done
            whole = [t for t in tables if t is not None and t.enumeration.is_complete]
            if len(whole) < len(tables) or any(not _is_alike(whole[0], t) for t in whole):
                unclear[name] = "others changed it, and it was not seen whole or was defined anew"
            elif not any(n in mine for n in moved):
                by_others.add(name)
            elif whole[0].type.is_keyless:
                unclear[name] = (
                    "unsettled: the agent and others changed it, and its rows have no key"
                )
            else:
                shared[name] = self._touches(name, [n for n in moved if n in mine])
        return replace(self, by_others=frozenset(by_others), shared=shared, unclear=unclear)

    def _touches(self, name: str, numbers: Sequence[int]) -> _Shared:
        found: dict[Key, list[tuple[int, _Touch]]] = {}
        for number in numbers:
            one, two = (self.states[n].tables[name] for n in (number - 1, number))
            for change in table_changes(one, two):
                if change.before != change.after:
                    touch = _Touch(change.before, change.after)
                    found.setdefault(change.key, []).append((number, touch))
        return _Shared(touches={key: tuple(each) for key, each in found.items()})

    def reading(self, *, is_late: bool) -> tuple[State, State, tuple[Transaction, ...]]:
        """Before, after and the agent's transactions, with what others changed read late or early.

        The early reading is the world that the agent's first transaction found.
        """
        ends = (self.own[0] - 1, self.own[-1]) if self.own else (0, len(self.states) - 1)
        world = self.states[ends[1] if is_late else ends[0]]
        tables = {name: world.tables[name] for name in self.by_others}
        steps: dict[str, dict[int, dict[Key, Row | None]]] = {}
        for name, both in self.shared.items():
            of, first = world.tables[name].type, dict[Key, Row | None]()
            by_number = steps.setdefault(name, {})
            for key, touches in both.touches.items():
                rows = _rows(of, [t for _, t in touches], self.amounts, is_late=is_late)
                first[key] = rows[0]
                for (number, _), row in zip(touches, rows[1:], strict=True):
                    by_number.setdefault(number, {})[key] = row
            tables[name] = _with_rows(world.tables[name], first, self.store)
        before = self._state(self.states[0], tables, is_after=False)
        made = []
        for number in self.own:
            for name, by_number in steps.items():
                tables[name] = _with_rows(tables[name], by_number.get(number, {}), self.store)
            state = self._state(self.states[number], tables, is_after=True)
            made.append(replace(self.transactions[number - 1], state=state))
        after = self._state(self.after, tables, is_after=True)
        if made:  # the last state of a history is the one after
            made[-1] = replace(made[-1], state=after)
        return before, after, tuple(made)

    def open_reading(self) -> tuple[State, State, tuple[Transaction, ...]]:
        """The late reading; unobserved after is each type in which the early one is another."""
        before, after, steps = self.reading(is_late=True)
        early_before, early_after, _ = self.reading(is_late=False)
        tables = {
            name: table.unobserved(BETWEEN)
            if _is_moved(early_before.tables.get(name), before.tables.get(name))
            or _is_moved(early_after.tables.get(name), table)
            else table
            for name, table in after.tables.items()
        }
        after = replace(after, tables=tables)
        if steps:
            steps = (*steps[:-1], replace(steps[-1], state=after))
        return before, after, steps

    def _state(self, real: State, tables: Mapping[str, Table], *, is_after: bool) -> State:
        """The state of the agent's own course beside a real one: with the tables of others."""
        unclear = self.unclear if is_after else {}
        found = {
            name: table.unobserved(unclear[name]) if name in unclear else tables.get(name, table)
            for name, table in real.tables.items()
        }
        return replace(real, tables=found)


def _rows(
    of: EntityType, touches: Sequence[_Touch], amounts: Amounts, *, is_late: bool
) -> list[Row | None]:
    """An entity before the agent's touches, and after each of them, as its own part of them."""
    if not _is_interrupted(touches):
        return [touches[0].before, *(touch.after for touch in touches)]
    first = touches[0].before
    found_rows, left_rows = [t.before for t in touches], [t.after for t in touches]
    if not any(found_rows):  # it made the entity each time, and others removed it
        return [None, *left_rows]
    if not any(left_rows):  # it removed the entity each time, and others made it again
        return [found_rows[-1 if is_late else 0], *left_rows]
    if not all((*found_rows[1:], *left_rows[:-1])):  # whose doing it is that it is there?
        known = next(row for row in (*found_rows, *left_rows) if row is not None)
        unknown = {f: v if f in of.key else Unobserved(IN_TURNS) for f, v in known.items()}
        return [known, *([unknown] * len(touches))]
    beside = (touches[-1].before if is_late else first) or {}
    columns = {
        field.name: _values(
            touches,
            field.name,
            beside.get(field.name, ABSENT),
            is_amount=(of.name, field.name) in amounts,
            is_counter=of.name == COUNTERS,  # what both took from one is in the rows
        )
        for field in of.fields
    }
    found: list[Row | None] = [
        {f: column[at] for f, column in columns.items()} for at in range(len(touches) + 1)
    ]
    found[0] = None if first is None else found[0]
    found[-1] = None if left_rows[-1] is None else found[-1]
    return found


def _values(
    touches: Sequence[_Touch], field: str, beside: Observed, *, is_amount: bool, is_counter: bool
) -> list[Observed]:
    """A field before the agent's touches and after each; `beside`: if it wrote to it in none."""
    pairs = [None if t.after is None else _pair(t, field) for t in touches]
    wrote = [pair for pair in pairs if pair is not None]
    value = wrote[0][0] if wrote else beside
    in_turns = any(one[1] != two[0] for one, two in itertools.pairwise(wrote))
    found = [value]
    for pair in pairs:
        if pair is not None:
            if not in_turns or is_counter or pair is wrote[0]:
                value = pair[1]
            else:
                value = _sum(value, pair) if is_amount else Unobserved(IN_TURNS)
        found.append(value)
    return found


def _names(transaction: Transaction) -> frozenset[str]:
    return frozenset({transaction.position, *transaction.names})


def _pair(touch: _Touch, field: str) -> tuple[Observed, Observed] | None:
    was = ABSENT if touch.before is None else touch.before.get(field, ABSENT)
    now = ABSENT if touch.after is None else touch.after.get(field, ABSENT)
    return None if was == now and type(was) is type(now) else (was, now)


def _sum(value: Observed, step: tuple[Observed, Observed]) -> Observed:
    """The value with what a step added; unobserved where one of them is no number."""
    total, was, now = map(_number, (value, *step))
    if total is None or was is None or now is None:
        return Unobserved(IN_TURNS)
    return total + (now - was)


def _number(value: Observed) -> int | Decimal | None:
    if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        return value
    return None


def _is_interrupted(touches: Sequence[_Touch]) -> bool:
    """True if others changed the entity between two of the agent's changes."""
    return any(one.after != two.before for one, two in itertools.pairwise(touches))


def _is_moved(one: Table | None, two: Table | None) -> bool:
    if one is None or two is None:
        return one is not two
    if one is two or (one.chunks == two.chunks and one.enumeration == two.enumeration):
        return not _is_alike(one, two)
    return True


def _is_alike(one: Table, two: Table) -> bool:
    return one.type == two.type and one.partition == two.partition


def _with_rows(table: Table, rows: Mapping[Key, Row | None], store: ChunkStore) -> Table:
    """The table with these entities as they are here; None: there is none under the key."""
    if not rows:
        return table
    by_chunk: dict[int, dict[Key, Row | None]] = {}
    for key, row in rows.items():
        at = bisect.bisect_right(table.cuts, key_order(key))
        by_chunk.setdefault(at, {})[key] = row
    chunks = list(table.chunks)
    for at, changed in by_chunk.items():
        chunks[at] = store.put(encode_rows(table.type, _merged(table, at, changed)))
    return replace(table, chunks=tuple(chunks), store=store, origin=None)


def _merged(table: Table, at: int, changed: Mapping[Key, Row | None]) -> Iterator[tuple[Key, Row]]:
    rows: dict[Key, Row] = dict(batch_rows(table.type, table.store.get(table.chunks[at]), None))
    for key, row in changed.items():
        if row is None:
            rows.pop(key, None)
        else:
            rows[key] = row
    return iter(sorted(rows.items(), key=lambda entry: key_order(entry[0])))
