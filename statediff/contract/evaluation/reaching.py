"""`reaches`: whether a chain of hops leads from one entity to another, in one state.

A hop joins the keys that a row names, whether the entities are there or not, as comparing them
would; a row that is marked deleted is a row, as everywhere in expressions. An entity reaches
itself.

Three-valued: a row of which a field is unknown may lead from or to any entity of the type, and so
may rows of a type that was not enumerated completely. A path over what is known decides for; that
there is none, even over what may be, decides against.

The walk goes backwards from the goal and is kept, so that asking of many entities costs one walk.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import accumulate
from typing import Any, Final, TypeAlias

import pyarrow as pa

from statediff.contract.evaluation.operations import comparison_key
from statediff.contract.language.context import (
    FALSE,
    TRUE,
    EntityRef,
    EvalContext,
    Result,
    Seen,
    Undefined,
    Unknown,
    Way,
    either,
    not_enumerated,
)
from statediff.contract.language.syntax import EntityT, Hop, Reaches
from statediff.model.batches import Row, batch_keys, batch_rows, decode_column, form_of
from statediff.model.explanation import Cause, Reason, cause
from statediff.model.schema import EntityType, Kind
from statediff.model.values import ABSENT, Absent, Excluded, Key, Observed, Unobserved
from statediff.model.view import ColumnarView, Columns, View

Name: TypeAlias = Any
"""A key, equal to another exactly where the language says that they are equal."""


@dataclass(frozen=True)
class _Mark:
    word: str


NOWHERE: Final = _Mark("nowhere")
"""The end of a hop whose field is null or absent."""
ALL: Final = _Mark("all")
"""Every entity of the type, seen or not."""
UNSEEN: Final = _Mark("unseen")
"""Every entity of the type of which no row is known."""


MAX_STEPS_SHOWN: Final = 10
"""Steps of a path that are kept; the others are counted."""


@dataclass(frozen=True)
class _Step:
    """How the goal is reached from here: in so many hops, next by this thing."""

    distance: int
    next: tuple[str, Name]
    causes: frozenset[Cause]
    """Why it is not known that one can go on; none where it is."""


_Walk: TypeAlias = dict[str, dict[Name, _Step]]


def reaching(node: Reaches, start: Result, goal: Result, context: EvalContext) -> int:
    """The outcomes of `reaches` between two evaluated ends."""
    ends = [_end(end, given) for end, given in ((node.start, start), (node.goal, goal))]
    for end in ends:
        if isinstance(end, Undefined):
            return context.undefined_by(end.reason)
    unknown = [end for end in ends if isinstance(end, Unknown)]
    if unknown:
        for end in unknown:
            context.waits_for(end.causes)
        return either(any(end.maybe_undefined or end.maybe_null for end in unknown))
    first, last = ends
    roads = _roads(node.hops, first.side, context)
    at, target = (first.type, _name_of(first.key)), (last.type, _name_of(last.key))
    known = _walk(roads, target, False)
    way = _way(roads, known, at, last)
    mask = FALSE if way.steps is None else TRUE
    if way.steps is None and roads.has_doubts:
        causes = roads.causes_between(_walk(roads, target, True), at)
        context.waits_for(causes)
        mask = TRUE | FALSE if causes else FALSE
    if context.trail is not None:
        rows = tuple(row for _, row, _ in way.steps or ())
        context.trail.seen.append(Seen(node, first, way, mask, (first, *rows, last)))
    return mask


def _end(node: Any, given: Result) -> Result:
    """An end of the path: an entity with a key, `Unknown` or `Undefined`."""
    if given is None or isinstance(given, Absent):
        entity_type = node.type.type if isinstance(node.type, EntityT) else ""
        return Undefined(Reason.NO_END(entity_type=entity_type))
    if isinstance(given, EntityRef) and not given.key:  # one that may be there beside those known
        return Unknown(frozenset({given.cause}), maybe_null=False)
    return given


def _name_of(key: Key) -> Name:
    return _name(key[0]) if len(key) == 1 else tuple(map(_name, key))


def _name(value: Any) -> Name:
    if type(value) is int or type(value) is str:
        return value
    if isinstance(value, Decimal) and value.is_finite() and value == value.to_integral_value():
        return int(value)
    return comparison_key(value)


# ---------------------------------------------------------------- the rows of a hop


class _Road:
    """All rows of one hop in one state, as columns of names."""

    def __init__(self, hop: Hop, view: View, side: str, fields: tuple[str, ...]) -> None:
        self.hop = hop
        self._entity = view.schema.by_name[hop.entity]
        self._fields = fields
        self._batches: list[pa.RecordBatch] = []
        self._rows: list[tuple[Key, Row]] = []
        self.sources: list[Name] = []
        self.targets: list[Name] = []
        self.to_any: list[tuple[Name, Cause]] = []
        """Rows that lead from this to an entity that is not known."""
        self.from_any: dict[Name, Cause] = {}
        """Entities that a row leads to from one that is not known."""
        columns = look(hop, view, fields)
        if columns is None:
            self._rows = list(view.rows(hop.entity, fields))
            for end, field in ((self.sources, hop.source), (self.targets, hop.target)):
                end += [self._observe(key, row, field) for key, row in self._rows]
        else:
            for batch in columns.batches:
                self._batches.append(batch)
                self.sources += _names(self._entity, batch, hop.source)
                self.targets += _names(self._entity, batch, hop.target)
        if any(Unknown in set(map(type, end)) for end in (self.sources, self.targets)):
            self._set_doubts_aside(side)

    def __len__(self) -> int:
        return len(self.sources)

    @staticmethod
    def _observe(key: Key, row: Row, field: str) -> Name:
        return _seen_name(row.get(field, ABSENT)) if field else _name_of(key)

    def _set_doubts_aside(self, side: str) -> None:
        """Rows of which an end is not known are no known hops: they may be several."""
        hop = self.hop
        ends = ((self.sources, hop.source), (self.targets, hop.target))
        for at in sorted({at for end, _ in ends for at, n in enumerate(end) if type(n) is Unknown}):
            field, unknown = next((f, end[at]) for end, f in ends if type(end[at]) is Unknown)
            [said] = unknown.causes
            why = Reason.FIELD(entity_type=hop.entity, field=field, side=side, cause=cause(said))
            source, target = self.sources[at], self.targets[at]
            self.sources[at] = self.targets[at] = NOWHERE
            if source is NOWHERE or target is NOWHERE:
                continue
            if type(target) is Unknown:
                self.to_any.append((ALL if type(source) is Unknown else source, why))
            else:
                self.from_any.setdefault(target, why)

    @cached_property
    def into(self) -> Mapping[Name, list[int]]:
        """The rows that lead to each entity, in key order."""
        return _places(self.targets)

    @cached_property
    def out_of(self) -> Mapping[Name, list[int]]:
        """The rows that lead away from each entity, in key order."""
        return _places(self.sources)

    @cached_property
    def rows_known(self) -> frozenset[Name]:
        """The entities whose row is this hop's; of use where one end is the row itself."""
        if not self.hop.source:
            return frozenset(self.sources)
        return frozenset(() if self.hop.target else self.targets)

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(batch.num_rows for batch in self._batches))

    def row(self, at: int) -> tuple[Key, Row]:
        """One of its rows."""
        if self._rows:
            return self._rows[at]
        which = bisect_right(self._ends, at)
        start = self._ends[which] - self._batches[which].num_rows
        piece = self._batches[which].slice(at - start, 1)
        return next(iter(batch_rows(self._entity, piece, self._fields)))


def look(hop: Hop, view: View, fields: tuple[str, ...]) -> Columns | None:
    """The hop's type as columns, where it can be read so. What was read is noted either way."""
    columns = view.columns(hop.entity, fields) if isinstance(view, ColumnarView) else None
    if columns is None:
        view.rows(hop.entity, fields)
    return columns


def _names(entity: EntityType, batch: pa.RecordBatch, field: str) -> list[Name]:
    if not field and len(entity.key) != 1:
        return [_name_of(key) for key in batch_keys(entity, batch)]
    index = batch.schema.get_field_index(field or entity.key[0])
    if index < 0:
        return [NOWHERE] * batch.num_rows
    array, form = batch.column(index), form_of(batch, index)
    if form in (Kind.INT.value, Kind.TEXT.value) and not array.null_count:
        names: list[Name] = array.to_numpy(zero_copy_only=False).tolist()
        return names
    return list(map(_seen_name, decode_column(array, form)))


def _seen_name(observed: Observed) -> Name:
    if observed is None or isinstance(observed, Absent):
        return NOWHERE
    if isinstance(observed, Excluded):
        return Unknown(frozenset({observed.rule}))
    if isinstance(observed, Unobserved):
        return Unknown(frozenset({observed.cause}))
    return _name(observed)


def _places(names: list[Name]) -> Mapping[Name, list[int]]:
    found: dict[Name, list[int]] = {}
    for at, name in enumerate(names):
        found.setdefault(name, []).append(at)
    return found


# ---------------------------------------------------------------- walks


class _Roads:
    """All hops of one expression in one state, and the walks that were made through them."""

    def __init__(self, hops: tuple[Hop, ...], side: str, context: EvalContext) -> None:
        self.view = context.view(side)
        self.all = tuple(_Road(hop, self.view, side, context.fields_of(hop.entity)) for hop in hops)
        self.gaps: dict[str, Cause] = {}
        """Types of which there may be other rows, and why."""
        for hop in hops:
            enumeration = self.view.enumeration(hop.entity)
            if not enumeration.is_complete:
                self.gaps[hop.entity] = not_enumerated(hop.entity, side, enumeration)
        self.size = sum(map(len, self.all))
        self.side = side
        self.walks: dict[tuple[str, Name, bool], _Walk] = {}

    @cached_property
    def rows_known(self) -> dict[str, frozenset[Name]]:
        """The entities of each type of which a row is known, where a hop reads it."""
        own = (r for r in self.all if "" in (r.hop.source, r.hop.target))
        return {road.hop.entity: road.rows_known for road in own}

    @cached_property
    def has_doubts(self) -> bool:
        """True if there may be other hops than those known."""
        return bool(self.gaps) or any(road.to_any or road.from_any for road in self.all)

    @cached_property
    def led_to(self) -> frozenset[str]:
        """The types that a hop leads to; of others no path but one's own can come."""
        return frozenset(road.hop.target_type for road in self.all)

    def walk(self, goal: tuple[str, Name], with_doubts: bool) -> _Walk:
        """Everything from which the goal is reached, nearest first; with what may be, if asked.

        Without doubts, entities that no hop leads to are left out: their own rows say it.
        """
        hops = [road.hop for road in self.all]
        ends = {goal[0]}.union(*({hop.source_type, hop.target_type} for hop in hops))
        found: _Walk = {name: {} for name in ends}
        found[goal[0]][goal[1]] = _Step(0, goal, frozenset())
        wanted = ends if with_doubts else self.led_to
        roads = [road for road in self.all if road.hop.source_type in wanted]
        into = {t: [road for road in roads if road.hop.target_type == t] for t in ends}
        queue = [goal]
        fired: set[Hop] = set()
        for thing in queue:
            type_name, name = thing
            distance = found[type_name][name].distance + 1
            step = _Step(distance, thing, frozenset())
            for road in into[type_name]:
                source_type, sources = road.hop.source_type, road.sources
                here = found[source_type]
                for at in self._rows_into(road, name):
                    source = sources[at]
                    if source not in here and source is not NOWHERE:
                        here[source] = step
                        queue.append((source_type, source))
                if with_doubts:
                    for source, why in self._doubts_into(road, name, fired):
                        if source not in here:
                            here[source] = _Step(distance, thing, frozenset({why}))
                            queue.append((source_type, source))
        return found

    def _rows_into(self, road: _Road, name: Name) -> Iterable[int]:
        if name is ALL or name is UNSEEN:
            known = self.rows_known[road.hop.target_type] if name is UNSEEN else frozenset()
            others = enumerate(road.targets)
            return (at for at, to in others if to is not NOWHERE and to not in known)
        return road.into.get(name, ())

    def _doubts_into(
        self, road: _Road, name: Name, fired: set[Hop]
    ) -> Iterator[tuple[Name, Cause]]:
        """The rows that may lead to the thing and are not, or not fully, known."""
        hop = road.hop
        if hop not in fired:
            fired.add(hop)
            yield from road.to_any
        if name is ALL or name is UNSEEN:
            yield from ((ALL, why) for why in list(road.from_any.values())[:1])
        elif name in road.from_any:
            yield ALL, road.from_any[name]
        gap = self.gaps.get(hop.entity)
        if gap is not None and (hop.target or not self._has_row(hop.entity, name)):
            yield (ALL if hop.source else UNSEEN), gap

    def _has_row(self, type_name: str, name: Name) -> bool:
        return name in self.rows_known.get(type_name, ())

    def causes_between(self, walk: _Walk, at: tuple[str, Name]) -> frozenset[Cause]:
        """Why it is not known whether the goal is reached from there; none where it never is."""
        causes: set[Cause] = set()
        while True:
            step = self._next(walk, at)
            if step is None:
                return frozenset()
            causes |= step.causes
            if step.distance == 0:
                return frozenset(causes)
            at = step.next

    def _next(self, walk: _Walk, at: tuple[str, Name]) -> _Step | None:
        type_name, name = at
        here = walk.get(type_name, {})
        names = [name, ALL] if self._has_row(type_name, name) else [name, ALL, UNSEEN]
        steps = [here[each] for each in names if each in here]
        return min(steps, key=lambda step: step.distance, default=None)


def _roads(hops: tuple[Hop, ...], side: str, context: EvalContext) -> _Roads:
    """The hops in that state, read once a judgement."""
    view = context.view(side)
    fields = tuple(context.fields_of(hop.entity) for hop in hops)
    found: _Roads | None = context.walks.get((id(view), hops, fields))
    if found is None or found.view is not view:
        found = context.walks[id(view), hops, fields] = _Roads(hops, side, context)
    else:
        for hop, read in zip(hops, fields, strict=True):
            look(hop, view, read)
    return found


def _walk(roads: _Roads, goal: tuple[str, Name], with_doubts: bool) -> _Walk:
    key = (*goal, with_doubts)
    found = roads.walks.get(key)
    if found is None:
        found = roads.walks[key] = roads.walk(goal, with_doubts)
    return found


def _way(roads: _Roads, walk: _Walk, at: tuple[str, Name], last: EntityRef) -> Way:
    """A shortest path, the first by the keys it goes through; its first steps are kept."""
    goal, length = (last.type, _name_of(last.key)), 0
    found: list[tuple[Hop, EntityRef, Key]] = []
    if at[0] in roads.led_to and at[1] not in walk.get(at[0], {}):
        return Way(last, () if at == goal else None)
    while at != goal:
        nearer = []
        for number, road in enumerate(roads.all):
            if road.hop.source_type != at[0]:
                continue
            type_name, there = road.hop.target_type, walk[road.hop.target_type]
            for place in road.out_of.get(at[1], ()):
                target = road.targets[place]
                if target in there:
                    rank = there[target].distance, type_name, _order(target), number, place
                    nearer.append((rank, target))
        if not nearer:
            return Way(last, None)
        (_, type_name, _, number, place), target = min(nearer, key=lambda each: each[0])
        length += 1
        if length <= MAX_STEPS_SHOWN:
            hop = roads.all[number].hop
            key, row = roads.all[number].row(place)
            led = (row[hop.target],) if hop.target else key
            ref = EntityRef(roads.side, hop.entity, key, row)
            found.append((hop, ref, led))  # type: ignore[arg-type]  # a known key
        at = type_name, target
    return Way(last, tuple(found), length)


def _order(name: Name) -> tuple[int, Any]:
    if type(name) is int:
        return 0, name
    return (1, name) if type(name) is str else (2, "")
