"""Elements of a loop that can matter, found by an index over what the loop compares (`plans`).

Asked for many `o`, the approvals of `any(a.order == o.id and a.at <= o.at for a in …)`
are hashed by `a.order` and sorted by `a.at`; then each `o` costs what its own approvals cost.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import accumulate
from typing import Any, Final

from statediff.contract.evaluation.operations import (
    NOTHING,
    Partial,
    comparison_key,
    exact,
    finite,
    is_known,
    order_of,
)
from statediff.contract.evaluation.plans import Plan, Test, plan_of
from statediff.contract.language.context import (
    FALSE,
    TRUE,
    UNDEFINED,
    EntityRef,
    EntitySet,
    Env,
    EvalContext,
    Evaluator,
    Undefined,
    crowd_of,
)
from statediff.contract.language.syntax import Entities, Loop, Node
from statediff.model.view import Ledger, Reads, RecordingView

INDEXED_AFTER: Final = 4
"""Questions about the same elements before they are indexed."""


def narrowed(
    by: Evaluator, loop: Loop, element: Node | None, wanted: int, context: EvalContext, env: Env
) -> EntitySet | None:
    """The elements of the loop that can matter; None where all of them may."""
    among = crowd_of(loop.source, context, env)
    if among is None or are_few(among):
        return None
    found = indexed(by, plan_of(loop, element, wanted, None), None, context, env, among)
    return None if found is None else found[1]


def are_few(among: EntitySet) -> bool:
    """To look at all of them costs less than an index."""
    return isinstance(among.entity_refs, tuple) and len(among.entity_refs) <= INDEXED_AFTER


def indexed(
    by: Evaluator,
    plan: Plan,
    name: str | None,
    context: EvalContext,
    env: Env,
    among: EntitySet,
) -> tuple[Partial, EntitySet] | None:
    """The elements of an aggregate that an index decides, and those that are to be looked at.

    Of a quantifier (`name` None) it says nothing more. None where no index is there, or it leaves
    something to be asked of each element.
    """
    record = _record(by, plan, name, context, among) if plan.is_related else None
    if record is None or record.index is None:
        return None
    found = record.index.ask(by, context, env)
    if found is None:
        return None
    numbers, run, undefined = found
    if name is None:
        is_decided = plan.is_whole and plan.decides is not None
        return NOTHING, record.subset([*numbers, *(run.best() if is_decided else run)])
    is_counted = plan.is_whole and plan.takes_own
    if is_counted and name in ("min", "max"):
        return NOTHING, record.subset([*numbers, *run.best(min if name == "min" else max)])
    if not is_counted or name not in ("count", "sum"):
        return Partial(undefined=undefined), record.subset([*numbers, *run])
    total = run.total() if name == "sum" else 0
    return Partial(run.high - run.low, total, undefined), record.subset(numbers)


# ---------------------------------------------------------------- an index and its questions


@dataclass
class _Group:
    """Elements under one key, sorted by what they compare where an order is asked."""

    numbers: list[int] = field(default_factory=list)
    places: list[Any] = field(default_factory=list)
    kept: dict[Any, list[Any]] = field(default_factory=dict)

    def sort(self) -> None:
        pairs = sorted(zip(self.places, self.numbers, strict=True))
        self.places, self.numbers = ([pair[side] for pair in pairs] for side in (0, 1))


@dataclass(frozen=True)
class _Run:
    """Elements that pass every test: those of a group from its beginning, or to its end."""

    group: _Group
    elements: Mapping[int, Any]
    """The values that are counted or added up, by the number of the element."""
    low: int
    high: int

    def __iter__(self) -> Iterator[int]:
        return iter(self.group.numbers[self.low : self.high])

    def total(self) -> Fraction:
        """The sum of their elements."""
        kept = self.group.kept
        if "sums" not in kept:
            every = map(self.elements.__getitem__, self.group.numbers)
            kept["sums"] = list(accumulate(every, initial=Fraction(0)))
        return kept["sums"][self.high] - kept["sums"][self.low]  # type: ignore[no-any-return]

    def best(self, choose: Any = min) -> tuple[int, ...]:
        """The one whose element is chosen; the first, as the loop has them, of those alike."""
        if self.low == self.high:
            return ()
        value, is_up, kept = self.elements.get, self.low == 0, self.group.kept

        def better(a: int, b: int) -> int:
            return min(a, b) if value(a) == value(b) else choose((a, b), key=value)

        if is_up not in kept:  # by accumulation from whichever end the run reaches
            numbers = self.group.numbers if is_up else reversed(self.group.numbers)
            kept[is_up] = list(accumulate(numbers, better))
        return (kept[is_up][self.high - 1 if is_up else len(kept[is_up]) - 1 - self.low],)


@dataclass
class _Bucket:
    """The elements under one key of the equalities."""

    whole: _Group = field(default_factory=_Group)
    by_kind: dict[str, _Group] = field(default_factory=dict)
    reaching: dict[str, list[int]] = field(default_factory=dict)
    """By kind of order ("" none) the elements that come to be compared, as `_note` has them."""


@dataclass
class _Index:
    """The elements of a loop, by what decides whether they matter."""

    plan: Plan
    name: str | None
    open: list[int] = field(default_factory=list)
    """Elements that are always to be looked at: of them something is not known."""
    buckets: dict[Any, _Bucket] = field(default_factory=dict)
    reached: dict[tuple[int, tuple[Any, ...]], list[int]] = field(default_factory=dict)
    """By the place of a test and the key of the equalities before it, the elements there."""
    elements: dict[int, Any] = field(default_factory=dict)
    """The values that are counted or added up, by the number of the element."""
    kept: dict[Any, Any] = field(default_factory=dict)
    has_undefined: bool = False
    spared: int = 0
    """Elements that are undefined whatever is asked, beside the one that is always looked at."""
    kinds: set[str] = field(default_factory=set)

    def add(self, by: Evaluator, number: int, member: EntityRef, context: EvalContext) -> None:
        """Takes the next element of the loop in."""
        apart = context.apart()
        env = {self.plan.variable: member}
        key: list[Any] = []
        order: tuple[str, Any] | None = None
        is_joined, is_asked = False, False
        for place, test in enumerate(self.plan.tests):
            if test.kind != "own":
                self._note(self.reached, (place, tuple(key)), number)
            if test.kind == "outer":
                is_asked = True
                continue
            if test.kind == "own":
                mask = by.outcomes(test.node, apart, env)
                is_clean = not apart.causes and not apart.undefined
                if mask == test.wanted and is_clean:
                    continue
                if not (mask in (TRUE, FALSE) and is_clean):
                    is_first = not (is_joined or is_asked)
                    self._leave_open(number, is_undefined=mask == UNDEFINED and is_first)
                return
            value = by.evaluate(test.own, apart, env)
            is_undefined = isinstance(value, Undefined) and not apart.causes
            if not (is_undefined and test.kind == "order" and is_joined) and (
                apart.causes or apart.undefined or not is_known(value)
            ):
                is_first = not (is_joined or is_asked)
                self._leave_open(number, is_undefined=is_undefined and is_first)
                return
            is_joined = True
            if test.kind == "equality":
                key.append(comparison_key(value))
                continue
            order = order_of(value)
            self._note(self._bucket(key).reaching, order[0], number)
            if not order[0]:
                return  # compared with anything, it is undefined: one that is says it for all
        if not self._take_element(by, number, apart, env):
            self._leave_open(number, is_undefined=False)
            return
        bucket = self._bucket(key)
        bucket.whole.numbers.append(number)
        if order is not None:
            group = bucket.by_kind.setdefault(order[0], _Group())
            group.numbers.append(number)
            group.places.append(order[1])

    def _leave_open(self, number: int, *, is_undefined: bool) -> None:
        """One that is undefined whatever is asked says it for all that are."""
        if is_undefined and self.has_undefined:
            self.spared += 1
        else:
            self.open.append(number)
        self.has_undefined |= is_undefined

    def _note(self, found: dict[Any, list[int]], place: Any, number: int) -> None:
        """The first element of a place; where the number of undefined ones is asked, all."""
        numbers = found.setdefault(place, [])
        if not numbers or self.name == "count":
            numbers.append(number)

    def _take_element(self, by: Evaluator, number: int, apart: EvalContext, env: Env) -> bool:
        """True if what is counted or added up of the element is known, or is asked later."""
        plan = self.plan
        if plan.element is None or not (plan.is_whole and plan.takes_own):
            return True
        value = by.evaluate(plan.element, apart, env)
        if apart.causes or apart.undefined or not is_known(value):
            return False
        if self.name == "sum":
            if not finite(value):
                return False
            self.elements[number] = exact(value)
        elif self.name in ("min", "max"):
            kind, placed = order_of(value)
            self.kinds.add(kind)
            if not kind or len(self.kinds) > 1:
                return False
            self.elements[number] = placed
        return True

    def _bucket(self, key: list[Any]) -> _Bucket:
        return self.buckets.setdefault(tuple(key), _Bucket())

    def sort(self) -> None:
        """Called once, after the last element."""
        for bucket in self.buckets.values():
            for each in bucket.by_kind.values():
                each.sort()

    def ask(
        self, by: Evaluator, context: EvalContext, env: Env
    ) -> tuple[list[int], _Run, int] | None:
        """Elements that are to be looked at, those that pass every test, the number of others.

        The others are undefined, and one of them is looked at. None: look at all.
        """
        apart = context.apart()
        key: list[Any] = []
        order: tuple[Test, Any] | None = None
        nothing = self._run(_Group())
        for place, test in enumerate(self.plan.tests):
            if test.kind == "own":
                continue
            there = self.reached.get((place, tuple(key)))
            if there is None:
                return self.open, nothing, self.spared
            if test.kind == "outer":
                mask = by.outcomes(test.node, apart, env)
                if apart.causes or mask not in (TRUE, FALSE, UNDEFINED):
                    return None
                if mask != test.wanted:
                    numbers, undefined = self._with(there if mask == UNDEFINED else [])
                    return numbers, nothing, undefined
                continue
            value = by.evaluate(test.other, apart, env)
            if apart.causes or not (isinstance(value, Undefined) or is_known(value)):
                return None
            if isinstance(value, Undefined):
                numbers, undefined = self._with(there)
                return numbers, nothing, undefined
            if test.kind == "equality":
                key.append(comparison_key(value))
            else:
                order = test, value
        bucket = self.buckets.get(tuple(key))
        if bucket is None:
            return self.open, nothing, self.spared
        if order is None:
            return self.open, self._run(bucket.whole), self.spared
        return self._ordered(bucket, *order)

    def _ordered(self, bucket: _Bucket, test: Test, value: Any) -> tuple[list[int], _Run, int]:
        """Those that compare as the test wants, and the first that has no order with the value."""
        kind, placed = order_of(value)
        place = id(bucket), kind
        if place not in self.kept:
            others = (them for each, them in bucket.reaching.items() if each != kind or not kind)
            self.kept[place] = sorted(number for them in others for number in them)
        numbers, undefined = self._with(self.kept[place])
        of = bucket.by_kind.get(kind) if kind else None
        if of is None:
            return numbers, self._run(_Group()), undefined
        cut = (bisect_left if test.op in ("<", ">=") else bisect_right)(of.places, placed)
        ends = (0, cut) if test.op in ("<", "<=") else (cut, len(of.numbers))
        return numbers, _Run(of, self.elements, *ends), undefined

    def _run(self, group: _Group) -> _Run:
        return _Run(group, self.elements, 0, len(group.numbers))

    def _with(self, undefined: list[int]) -> tuple[list[int], int]:
        """All that is always looked at with the first of these, and how many are then not."""
        if not undefined:
            return self.open, self.spared
        place = id(undefined), "spared"
        if place not in self.kept:
            rest = len({*undefined} - {*self.open, undefined[0]})
            self.kept[place] = [*self.open, undefined[0]], self.spared + rest
        found: tuple[list[int], int] = self.kept[place]
        return found


# ---------------------------------------------------------------- the index at hand


@dataclass
class _Record:
    """A loop over certain entities: how often it was asked, and their index once it is made."""

    plan: Plan
    keeps: tuple[Any, ...]
    """The objects that the index is of; they stay in memory as long, so that no other has their
    identity.
    """
    asked: int = 0
    index: _Index | None = None
    members: tuple[EntityRef, ...] = ()
    entity_set: EntitySet = field(default_factory=lambda: EntitySet((), "", ""))
    reads: Reads = field(default_factory=Reads)
    """The reads of making the index, which every question has."""

    def make(self, by: Evaluator, name: str | None, entity_set: EntitySet, of: EvalContext) -> None:
        """Indexes the elements."""
        self.entity_set = entity_set
        ledger = _ledger(of)
        with nullcontext(Reads()) if ledger is None else ledger.reading_once() as self.reads:
            self.members = tuple(entity_set)
            self.index = _Index(self.plan, name)
            for number, member in enumerate(self.members):
                self.index.add(by, number, member, of)
        self.index.sort()

    def subset(self, numbers: list[int]) -> EntitySet:
        """The elements with these numbers, in order, and what may be beside them."""
        chosen = tuple(self.members[number] for number in sorted(set(numbers)))
        return replace(self.entity_set, entity_refs=chosen)


def _record(
    by: Evaluator, plan: Plan, name: str | None, context: EvalContext, entity_set: EntitySet
) -> _Record:
    """The record of the loop, with its index where it was asked often enough."""
    source = plan.loop.source
    is_listed = not (isinstance(source, Entities) and source.root in ("before", "after", "now"))
    world: tuple[Any, ...] = (
        entity_set if is_listed else context.view(entity_set.side),
        context.before,
        context.after,
        context.entity_sets,
        context.moments,
    )
    fields = () if is_listed else context.fields_of(entity_set.type)
    place = (id(plan), context.now, fields, *map(id, world))
    record: _Record = context.walks.setdefault(place, _Record(plan, world))
    record.asked += 1
    if record.index is None and record.asked > INDEXED_AFTER:
        record.make(by, name, entity_set, context)
    elif record.index is not None and (ledger := _ledger(context)) is not None:
        ledger.again(record.reads)
    return record


def _ledger(context: EvalContext) -> Ledger | None:
    return context.before.ledger if isinstance(context.before, RecordingView) else None
