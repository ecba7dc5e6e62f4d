"""A database's own changes after a change, as its catalogue says: one model for all who ask.

A change follows from others where the catalogue ties it to them:

1. A counter (`Counted`) moves on with rows that take numbers from it. Numbers that no row has were
   lost to a rollback or a conflict, and are at most as many as `Counted.lost`.
2. A generated field (`Field.computed_from`) changes with the fields of its row that it reads.
3. A stamp (`Field.is_stamp`) shows when another field of its row was changed: a moment of the run.
4. A row goes, or no longer refers to anything, with the row that it refers to (`ForeignKey`), or
   refers to it under its new key.

A change follows only from changes that are themselves explained. The database keeps generated
values and references right; another expression or action is a change of the structure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Final, TypeAlias

from statediff.model.codes import Truth
from statediff.model.delta import Delta, Entity, Op
from statediff.model.readings import Timeline
from statediff.model.schema import COUNT, COUNTERS, Counted, Effect, ForeignKey, Schema
from statediff.model.values import ABSENT, Key, is_value, key_order, same

Reason: TypeAlias = tuple[Delta, ...]
"""Changes that together bring another one about."""
Times: TypeAlias = tuple[datetime | None, datetime | None]
"""When the run began and ended, as far as that is known."""
NO_TIMES: Final[Times] = (None, None)


def times_of(timeline: Timeline | None) -> Times:
    """When the agent began, and when its systems were at rest."""
    if timeline is None:
        return NO_TIMES
    return timeline.agent_started_at, timeline.settled_at or timeline.agent_finished_at


_COME: Final = (Op.CREATE, Op.LINK)
_GONE: Final = (Op.DELETE, Op.UNLINK)
_CLOCK: Final = timedelta(seconds=2)
"""How far the clock of a database may be from ours, with what a stamp in seconds leaves out."""
_ZONES: Final = timedelta(hours=26)
"""The same for a stamp that does not say its zone: a day is 50 hours long somewhere."""
_BEST: Final = {Truth.FAILS: 0, Truth.UNKNOWN: 1, Truth.HOLDS: 2}


def following(
    schema: Schema, explained: Sequence[tuple[Delta, Truth]], times: Times = NO_TIMES
) -> dict[int, tuple[Truth, Reason]]:
    """Which of the changes follow from explained ones: by their place, the truth and the reason.

    `explained` are all changes, each with the truth of its being explained otherwise.
    """
    waiting = [
        n
        for n, (d, truth) in enumerate(explained)
        if truth is not Truth.HOLDS and d.type in schema.tied
    ]
    if not waiting:
        return {}
    known = {id(delta): truth for delta, truth in explained}
    run = Tied(schema, [delta for delta, _ in explained], times)
    reasons = {n: run.reasons(explained[n][0]) for n in waiting}
    found: dict[int, tuple[Truth, Reason]] = {}
    # A reason that waits for what it explains explains nothing: the truths only rise.
    while True:
        risen = False
        for n, given in reasons.items():
            delta = explained[n][0]
            if not given or known[id(delta)] is Truth.HOLDS:
                continue
            truths = (min((known[id(d)] for d in r), key=_BEST.__getitem__) for r in given)
            truth, reason = max(zip(truths, given, strict=True), key=lambda each: _BEST[each[0]])
            if _BEST[truth] > _BEST[known[id(delta)]]:
                known[id(delta)], found[n], risen = truth, (truth, reason), True
        if not risen:
            return found


def first_causes(schema: Schema, deltas: Sequence[Delta]) -> list[Delta]:
    """The changes that no others bring about: what somebody did, and not the database after it."""
    if not schema.tied:
        return [*deltas]
    run = Tied(schema, deltas)
    truths = [(d, Truth.FAILS if run.reasons(d) else Truth.HOLDS) for d in deltas]
    found = following(schema, truths)
    return [delta for number, delta in enumerate(deltas) if number not in found]


@dataclass(frozen=True)
class Tied:
    """The changes of a run, by what ties them."""

    schema: Schema
    deltas: Sequence[Delta]
    times: Times = NO_TIMES

    def reasons(self, delta: Delta) -> tuple[Reason, ...]:
        """Each set of changes from which the change follows, if all of them are explained."""
        return tuple(self._reasons(delta))

    def _reasons(self, delta: Delta) -> Iterator[Reason]:
        """By its counter, or by its row itself and the rows that it refers to."""
        entity = self.schema.by_name.get(delta.type)
        if delta.type == COUNTERS:
            yield from self._of_counter(delta)
        elif entity is not None:
            if delta.op is Op.UPDATE and not delta.steps:
                field = entity.by_name.get(delta.path)
                if field is not None and (field.computed_from or field.is_stamp):
                    yield from self._of_row(delta, field.computed_from)
            for foreign in entity.foreign:
                yield from self._of_reference(delta, foreign)

    # ------------------------------------------------------------ the row itself

    @cached_property
    def _updates(self) -> dict[Any, list[Delta]]:
        found: dict[Any, list[Delta]] = {}
        for delta in self.deltas:
            if delta.op is Op.UPDATE:
                found.setdefault((delta.type, key_order(delta.key)), []).append(delta)
        return found

    def _of_row(self, delta: Delta, reads: tuple[str, ...]) -> Iterator[Reason]:
        """A generated field follows what it reads, a stamp any field that is not kept itself."""
        fields = self.schema.by_name[delta.type].by_name
        if not reads and not self._is_now(delta):
            return
        for other in self._updates.get((delta.type, key_order(delta.key)), ()):
            field = fields.get(other.path)
            if other.path == delta.path or field is None:
                continue
            if other.path in reads or not (reads or field.is_stamp or field.computed_from):
                yield (other,)

    def _is_now(self, delta: Delta) -> bool:
        """True if the stamp shows a moment of the run, later than it was."""
        was, now = delta.raw_before, delta.raw_after
        if not isinstance(now, datetime):
            return False
        if isinstance(was, datetime) and not _later(was, now):
            return False
        slack = _CLOCK if now.tzinfo is not None else _ZONES
        moment = now if now.tzinfo is not None else now.replace(tzinfo=UTC)
        began, ended = self.times
        if began is not None and moment < began - slack:
            return False
        return ended is None or moment <= ended + slack

    # ------------------------------------------------------------ references

    @cached_property
    def _rows(self) -> dict[Any, list[Delta]]:
        """(operation, type) → the rows that came or went as a whole."""
        found: dict[Any, list[Delta]] = {}
        for delta in self.deltas:
            if delta.op is not Op.UPDATE and not delta.is_of_mark:
                found.setdefault((delta.op in _GONE, delta.type), []).append(delta)
        return found

    @cached_property
    def _by_values(self) -> dict[Any, dict[Any, Delta]]:
        return {}

    def _row(
        self, is_gone: bool, type_name: str, fields: tuple[str, ...], key: Key
    ) -> Delta | None:
        """The row that came or went, whose fields have the values."""
        place = is_gone, type_name, fields
        if place not in self._by_values:
            self._by_values[place] = {
                key_order(values): delta
                for delta in self._rows.get((is_gone, type_name), ())
                if (values := _values(delta, fields)) is not None
            }
        return self._by_values[place].get(key_order(key))

    def _of_reference(self, delta: Delta, foreign: ForeignKey) -> Iterator[Reason]:
        if delta.op in _GONE and not delta.is_of_mark:
            values = _values(delta, foreign.fields)
            if values is not None and foreign.on_delete is Effect.CASCADE:
                parent = self._row(True, foreign.type, foreign.targets, values)
                if parent is not None and parent is not delta:
                    yield (parent,)
        if delta.op is not Op.UPDATE or delta.path not in foreign.fields or delta.steps:
            return
        own = {d.path: d for d in self._updates[delta.type, key_order(delta.key)] if not d.steps}
        if not own.keys() >= {*foreign.fields}:
            return
        old = tuple(own[name].before for name in foreign.fields)
        new = tuple(own[name].after for name in foreign.fields)
        if any(part is None or isinstance(part, Entity) for part in old):
            return
        if all(part is None for part in new) and foreign.on_delete is Effect.SET_NULL:
            parent = self._row(True, foreign.type, foreign.targets, old)  # type: ignore[arg-type]
            if parent is not None:
                yield (parent,)
        elif foreign.on_update is Effect.CASCADE:
            yield from self._of_new_key(foreign, old, new)

    def _of_new_key(
        self, foreign: ForeignKey, old: tuple[Any, ...], new: tuple[Any, ...]
    ) -> Iterator[Reason]:
        """The row that is referred to has another key: it went and came, or its fields changed."""
        gone = self._row(True, foreign.type, foreign.targets, old)
        come = self._row(False, foreign.type, foreign.targets, new)
        if gone is not None and come is not None:
            yield (gone, come)
        for (type_name, _), updates in self._updates.items():
            if type_name != foreign.type:
                continue
            by_path = {d.path: d for d in updates if not d.steps}
            found = tuple(by_path[name] for name in foreign.targets if name in by_path)
            if len(found) == len(old) and all(
                same(d.before, was) and same(d.after, now)  # type: ignore[arg-type]
                for d, was, now in zip(found, old, new, strict=True)
            ):
                yield found

    # ------------------------------------------------------------ counters

    @cached_property
    def _counted(self) -> dict[str, list[tuple[str, Counted]]]:
        found: dict[str, list[tuple[str, Counted]]] = {}
        for entity in self.schema.types:
            for counted in entity.counted:
                found.setdefault(counted.counter, []).append((entity.name, counted))
        return found

    def _of_counter(self, delta: Delta) -> Iterator[Reason]:
        """A counter that moved on, no further than its rows and the numbers lost with them."""
        named = delta.key[0] if len(delta.key) == 1 else None
        counted = self._counted.get(named, []) if isinstance(named, str) else []
        if not counted or delta.op is not Op.UPDATE or delta.path != COUNT or delta.steps:
            return
        how = counted[0][1]
        was = how.start - how.step if delta.before is None else delta.before
        if type(was) is not int or type(delta.after) is not int or not how.step:
            return
        steps, odd = divmod(delta.after - was, how.step)
        if steps <= 0 or (odd and not how.rises):
            return
        causes, numbers = self._taking(counted)
        taken = {n for n in numbers if 0 < (n - was) * how.sign <= (delta.after - was) * how.sign}
        if how.rises:  # a number that was given raises it past all before
            top = max([n * how.sign for n in numbers], default=was * how.sign) + abs(how.step)
            lost = (delta.after * how.sign - max(top, was * how.sign)) // abs(how.step)
        else:
            lost = steps - len(taken)
        if lost <= how.lost + (len(numbers) if how.rises else 0):
            yield from ((each,) for each in causes)

    def _taking(self, counted: Iterable[tuple[str, Counted]]) -> tuple[list[Delta], set[int]]:
        """The changes of rows that may have taken numbers, and the numbers that new rows have."""
        causes: list[Delta] = []
        numbers: set[int] = set()
        for name, how in counted:
            for delta in self.deltas:
                if delta.type != name or delta.op in _GONE:
                    continue
                causes.append(delta)
                values = _values(delta, (how.field,)) if delta.op in _COME else None
                if values is not None and type(values[0]) is int:
                    numbers.add(values[0])
        return causes, numbers


def _values(delta: Delta, fields: tuple[str, ...]) -> Key | None:
    """The values of a row that came or went; None where one is null or not known."""
    row = delta.before if delta.op in _GONE else delta.after
    if not isinstance(row, Entity):
        return None
    known = dict(row.fields)
    values: Any = tuple(known.get(name, ABSENT) for name in fields)
    return values if all(each is not None and is_value(each) for each in values) else None


def _later(was: datetime, now: datetime) -> bool:
    return (was.tzinfo is None) == (now.tzinfo is None) and was <= now
