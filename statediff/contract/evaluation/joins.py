"""Elements of a loop that can matter, found by an index over what the loop compares.

`any(a.order == o.id and a.at <= o.at for a in before.approval)` relates two sets by an equality and
an inequality. Asked for many `o`, its approvals are hashed by `a.order` and sorted by `a.at`; then
each `o` costs what its own approvals cost. Passed over is only what is certainly neutral: an
element whose first test that does not hold is certainly false, with everything before it decided.
The outcome is that of all elements, whatever the index leaves out.

The tests of an element are its loop's conditions, in a quantifier also the parts of the element
that must hold (in `all`: fail) for it to matter. Each is of one kind:

* *outer*: it does not name the element, and is evaluated once for each question;
* *own*: it names nothing but the element, and is evaluated once for each element;
* *equality* and, as the last, *order*: one side is own, the other outer;
* anything else ends the list, and is evaluated for each element that is left.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from fractions import Fraction
from itertools import accumulate
from typing import Any, Final, NamedTuple

from statediff.contract.evaluation.columnar import NOTHING, Partial
from statediff.contract.evaluation.operations import comparison_key, exact, finite, plain
from statediff.contract.language.context import (
    FALSE,
    TRUE,
    UNDEFINED,
    EntityRef,
    EntitySet,
    Env,
    EvalContext,
    Evaluator,
    Result,
    Undefined,
    Unknown,
    crowd_of,
)
from statediff.contract.language.syntax import (
    And,
    Compare,
    Comprehension,
    Entities,
    Loop,
    Node,
    Not,
    Or,
    free_variables,
)
from statediff.model.view import Ledger, Reads, RecordingView

INDEXED_AFTER: Final = 4
"""Questions about the same elements before they are indexed."""

_NEGATED: Final = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_TURNED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


class _Test(NamedTuple):
    """One test of an element; `wanted` is the outcome with which the element still matters."""

    kind: str
    node: Node
    wanted: int
    own: Node
    other: Node
    op: str = "=="


@dataclass(frozen=True)
class _Plan:
    """The tests of a loop's elements, in order."""

    variable: str
    tests: tuple[_Test, ...]
    is_whole: bool
    """An element that passes them all is decided: nothing else is asked of it."""
    element: Node | None
    """An aggregate's element, where it names nothing else; None in any other case."""


def narrowed(
    by: Evaluator,
    loop: Loop,
    element: Node | None,
    wanted: int,
    context: EvalContext,
    env: Env,
) -> EntitySet | None:
    """The elements of the loop that can matter; None where all of them may.

    `element` matters where its outcome is `wanted`; None: the loop's conditions alone say.
    """
    found = _found(by, loop, element, wanted, None, context, env)
    if found is None:
        return None
    record, numbers, run, _ = found
    chosen = [*numbers, *run.first()] if record.plan.is_whole and element else [*numbers, *run]
    return record.subset(chosen)


def summed(
    by: Evaluator, name: str, body: Comprehension, context: EvalContext, env: Env
) -> tuple[Partial, EntitySet] | None:
    """An aggregate over elements that are known to count, and the elements that are not.

    None where no index is there, or it leaves something to be asked of each element.
    """
    if len(body.loops) != 1:
        return None
    found = _found(by, body.loops[0], body.element, TRUE, name, context, env)
    if found is None:
        return None
    record, numbers, run, undefined = found
    is_known = record.plan.is_whole and record.plan.element is not None
    if is_known and name in ("min", "max"):
        return NOTHING, record.subset([*numbers, *run.extreme(name)])
    if not is_known or name not in ("count", "sum"):
        return Partial(undefined=undefined), record.subset([*numbers, *run])
    total = run.total() if name == "sum" else 0
    return Partial(len(run), total, undefined=undefined), record.subset(numbers)


def is_related(loop: Loop, element: Node | None, wanted: int) -> bool:
    """An equality or an order ties the loop to what is outside, or its elements stand alone."""
    return _plan(loop, element, wanted, None) is not None


# ---------------------------------------------------------------- plans


def _plan(loop: Loop, element: Node | None, wanted: int, name: str | None) -> _Plan | None:
    """The plan of a loop; None where it has no test that an index could answer."""
    parts = [pair for each in loop.conditions for pair in _split(each, TRUE)]
    if element is not None and name is None:
        parts += _split(element, wanted)
    tests: list[_Test] = []
    for number, (node, outcome) in enumerate(parts):
        test = _test(node, outcome, loop.name)
        later = (_test(*part, loop.name) for part in parts[number + 1 :])
        # An order may be undefined: what would be compared by an equality after it may be, too.
        if test is None or (
            test.kind == "order" and any(each and each.kind != "own" for each in later)
        ):
            break
        tests.append(test)
    is_own = name is not None and element is not None and free_variables(element) <= {loop.name}
    is_whole = len(tests) == len(parts)
    if not is_whole and all(test.kind in ("own", "outer") for test in tests):
        return None
    return _Plan(loop.name, tuple(tests), is_whole, element if is_own else None)


def _split(node: Node, wanted: int) -> Iterator[tuple[Node, int]]:
    """The parts that must all have the outcome beside them, for the whole to have `wanted`."""
    match node:
        case Not(child=child):
            yield from _split(child, FALSE if wanted == TRUE else TRUE)
        case And(parts=parts) | Or(parts=parts) if isinstance(node, And) == (wanted == TRUE):
            for part in parts:
                yield from _split(part, wanted)
        case _:
            yield node, wanted


def _test(node: Node, wanted: int, variable: str) -> _Test | None:
    """The test that the part is; None where no index can answer it."""
    names = free_variables(node)
    if variable not in names:
        return _Test("outer", node, wanted, node, node)
    if names == {variable}:
        return _Test("own", node, wanted, node, node)
    if not isinstance(node, Compare):
        return None
    is_turned = variable in free_variables(node.right)
    own, other = (node.right, node.left) if is_turned else (node.left, node.right)
    if free_variables(own) != {variable} or variable in free_variables(other):
        return None
    if node.op == ("==" if wanted == TRUE else "!="):
        return _Test("equality", node, wanted, own, other)
    if node.op not in _TURNED:
        return None
    op = _TURNED[node.op] if is_turned else node.op
    return _Test("order", node, wanted, own, other, op if wanted == TRUE else _NEGATED[op])


# ---------------------------------------------------------------- an index and its questions


class _Run:
    """Elements that pass every test, in order of what they are sorted by."""

    def __init__(self, numbers: list[int], index: _Index, low: int = 0, high: int = -1) -> None:
        self._numbers = numbers
        self._index = index
        self._low, self._high = low, len(numbers) if high < 0 else high

    def __len__(self) -> int:
        return self._high - self._low

    def __iter__(self) -> Iterator[int]:
        return iter(self._numbers[self._low : self._high])

    def first(self) -> tuple[int, ...]:
        """The first of them as the loop has them."""
        return self._best(min, None)

    def total(self) -> Fraction:
        """The sum of their elements."""
        sums = self._kept("sums", self._sums)
        return sums[self._high] - sums[self._low] if len(self) else Fraction(0)

    def extreme(self, name: str) -> tuple[int, ...]:
        """The one whose element is the least or greatest; the first of those that are equal."""
        return self._best(min if name == "min" else max, self._index.elements)

    def _sums(self) -> list[Fraction]:
        of = self._index.elements
        return list(accumulate((of[n] for n in self._numbers), initial=Fraction(0)))

    def _best(self, choose: Any, values: dict[int, Any] | None) -> tuple[int, ...]:
        """By accumulation from whichever end the run reaches."""
        if not len(self):
            return ()

        def better(a: int, b: int) -> int:
            if values is None or values[a] == values[b]:
                return min(a, b)
            return int(choose((a, b), key=values.__getitem__))

        if self._low == 0:
            found = self._kept(("up", choose), lambda: list(accumulate(self._numbers, better)))
            return (found[self._high - 1],)
        found = self._kept(
            ("down", choose), lambda: list(accumulate(reversed(self._numbers), better))
        )
        return (found[len(self._numbers) - 1 - self._low],)

    def _kept(self, what: Any, make: Any) -> Any:
        place = id(self._numbers), what
        if place not in self._index.kept:
            self._index.kept[place] = make()
        return self._index.kept[place]


@dataclass
class _Sorted:
    """Elements of one kind of order under one key: `values[i]` is what `numbers[i]` compares."""

    pairs: list[tuple[Any, int]] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)

    def sort(self) -> None:
        self.pairs.sort()
        self.values = [value for value, _ in self.pairs]
        self.numbers = [number for _, number in self.pairs]


@dataclass
class _Bucket:
    """The elements under one key of the equalities."""

    numbers: list[int] = field(default_factory=list)
    by_kind: dict[str, _Sorted] = field(default_factory=dict)
    reaching: dict[str, list[int]] = field(default_factory=dict)
    """By kind of order ("" none) the elements that come to be compared, as `_note` has them."""


@dataclass
class _Index:
    """The elements of a loop, by what decides whether they matter."""

    plan: _Plan
    name: str | None
    open: list[int] = field(default_factory=list)
    """Elements that are always to be looked at: of them something is not known."""
    buckets: dict[Any, _Bucket] = field(default_factory=dict)
    reached: dict[tuple[int, tuple[Any, ...]], list[int]] = field(default_factory=dict)
    """By the place of a test and the key of the equalities before it, the elements there."""
    elements: dict[int, Any] = field(default_factory=dict)
    """What is counted or added up, by the number of its element."""
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
                apart.causes or apart.undefined or not _is_known(value)
            ):
                is_first = not (is_joined or is_asked)
                self._leave_open(number, is_undefined=is_undefined and is_first)
                return
            is_joined = True
            if test.kind == "equality":
                key.append(comparison_key(value))
                continue
            order = _order_of(value)
            self._note(self._bucket(key).reaching, order[0], number)
            if not order[0]:
                return  # compared with anything, it is undefined: one that is says it for all
        if not self._take_element(by, number, apart, env):
            self._leave_open(number, is_undefined=False)
            return
        bucket = self._bucket(key)
        bucket.numbers.append(number)
        if order is not None:
            pairs = bucket.by_kind.setdefault(order[0], _Sorted()).pairs
            pairs.append((order[1], number))

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
        """Whether what is counted or added up of the element is known, or is asked later."""
        if self.plan.element is None or not self.plan.is_whole:
            return True
        value = by.evaluate(self.plan.element, apart, env)
        if apart.causes or apart.undefined or not _is_known(value):
            return False
        if self.name == "sum":
            if not finite(value):
                return False
            self.elements[number] = exact(value)
        elif self.name in ("min", "max"):
            kind, placed = _order_of(value)
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
        order: tuple[_Test, Any] | None = None
        nothing = _Run([], self)
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
            if apart.causes or not (isinstance(value, Undefined) or _is_known(value)):
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
            return self.open, _Run(bucket.numbers, self), self.spared
        return self._ordered(bucket, *order)

    def _ordered(self, bucket: _Bucket, test: _Test, value: Any) -> tuple[list[int], _Run, int]:
        """Those that compare as the test wants, and the first that has no order with the value."""
        kind, placed = _order_of(value)
        place = id(bucket), kind
        if place not in self.kept:
            others = (them for each, them in bucket.reaching.items() if each != kind or not kind)
            self.kept[place] = sorted(number for them in others for number in them)
        numbers, undefined = self._with(self.kept[place])
        of = bucket.by_kind.get(kind) if kind else None
        if of is None:
            return numbers, _Run([], self), undefined
        cut = (bisect_left if test.op in ("<", ">=") else bisect_right)(of.values, placed)
        is_below = test.op in ("<", "<=")
        run = _Run(of.numbers, self, 0 if is_below else cut, cut if is_below else -1)
        return numbers, run, undefined

    def _with(self, undefined: list[int]) -> tuple[list[int], int]:
        """What is always looked at with the first of these, and how many are then not."""
        if not undefined:
            return self.open, self.spared
        place = id(undefined), "spared"
        if place not in self.kept:
            rest = len({*undefined} - {*self.open, undefined[0]})
            self.kept[place] = [*self.open, undefined[0]], self.spared + rest
        found: tuple[list[int], int] = self.kept[place]
        return found


def _is_known(value: Result) -> bool:
    """A value that every comparison decides, by itself and all through."""
    if isinstance(value, tuple):
        return all(map(_is_known, value))
    if isinstance(value, EntityRef):
        return bool(value.key)
    return not isinstance(value, (Unknown, Undefined))


def _order_of(value: Result) -> tuple[str, Any]:
    """Which values it has an order with, and its place among them; "" where with none."""
    value = plain(value)
    if finite(value):
        return "number", exact(value)
    if isinstance(value, str):
        return "text", value
    if isinstance(value, datetime):
        return ("local" if value.tzinfo is None else "instant"), value
    return ("date", value) if type(value) is date else ("", None)


# ---------------------------------------------------------------- the index at hand


@dataclass
class _Record:
    """A loop over certain entities: how often it was asked, and their index once it is made."""

    plan: _Plan
    keeps: tuple[Any, ...]
    """What the index is of; it stays in memory as long, so that no other is taken for it."""
    asked: int = 0
    index: _Index | None = None
    members: tuple[EntityRef, ...] = ()
    entity_set: EntitySet = field(default_factory=lambda: EntitySet((), "", ""))
    reads: Reads = field(default_factory=Reads)
    """What making the index read, which every question reads."""

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


def _found(
    by: Evaluator,
    loop: Loop,
    element: Node | None,
    wanted: int,
    name: str | None,
    context: EvalContext,
    env: Env,
) -> tuple[_Record, list[int], _Run, int] | None:
    """The loop's record and what its index answers; None without an index, or an answer."""
    record = _record(by, loop, element, wanted, name, context, env)
    found = None
    if record is not None and record.index is not None:
        found = record.index.ask(by, context, env)
    return None if record is None or found is None else (record, *found)


def _record(
    by: Evaluator,
    loop: Loop,
    element: Node | None,
    wanted: int,
    name: str | None,
    context: EvalContext,
    env: Env,
) -> _Record | None:
    """The record of the loop, with its index where it was asked often enough; None without one."""
    of = _Plan, element is None, wanted, name
    if of not in loop.worked_out:
        loop.worked_out[of] = _plan(loop, element, wanted, name)
    plan: _Plan | None = loop.worked_out[of]
    if plan is None:
        return None
    entity_set = crowd_of(loop.source, context, env)
    if entity_set is None or entity_set.entity_refs == ():
        return None
    source = loop.source
    is_listed = not (isinstance(source, Entities) and source.root in ("before", "after", "now"))
    world: tuple[Any, ...] = (
        entity_set if is_listed else context.view(entity_set.side),
        context.before,
        context.after,
        context.entity_sets,
        context.moments,
    )
    fields = () if is_listed else context.fields_of(entity_set.type)
    place = (id(loop), *of, context.now, fields, *map(id, world))
    record: _Record = context.walks.setdefault(place, _Record(plan, world))
    record.asked += 1
    if record.index is None and record.asked > INDEXED_AFTER:
        record.make(by, name, entity_set, context)
    elif record.index is not None and (ledger := _ledger(context)) is not None:
        ledger.again(record.reads)
    return record


def _ledger(context: EvalContext) -> Ledger | None:
    return context.before.ledger if isinstance(context.before, RecordingView) else None
