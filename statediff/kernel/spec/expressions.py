"""The truths of a condition and the value of an expression, by rows (docs/design.md §3).

A condition is undefined by the run where what makes it so is a value that the run wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from statediff.contract.language import syntax as s
from statediff.kernel.spec import values as v
from statediff.kernel.spec.values import FALSE, NO_VALUE, OPEN, TRUE, UNDEFINED, Some, Thing
from statediff.model import values as m
from statediff.model.batches import Row
from statediff.model.explanation import cause, is_by_agent
from statediff.model.paths import Step, Steps, at, is_ambiguous
from statediff.model.schema import Kind
from statediff.model.trace import NoAnswer
from statediff.model.values import ABSENT, Key, Unobserved, key_order

Element: TypeAlias = "tuple[Eval | None, v.Truths, bool]"
"""The world with its variables, whether it counts, and whether it is any number of elements."""
ROOTS: Final = ("created", "updated", "deleted", "linked", "unlinked")
_MOMENTS: Final = {"start": "agent_started_at", "end": "agent_finished_at"}
_ORDERED: Final = (Kind.INT, Kind.TEXT, Kind.DATE, Kind.TIMESTAMP, Kind.LOCAL_TIMESTAMP)


@dataclass(frozen=True)
class Eval:
    """Expressions in a world, with their variables."""

    world: v.World
    env: v.Env = field(default_factory=dict)

    def truths(self, node: s.Node) -> v.Truths:
        """The truths that the condition can have."""
        match node:
            case s.And(parts=parts) | s.Or(parts=parts):
                found = go_on = TRUE if isinstance(node, s.And) else FALSE
                for part in parts:
                    found = found & ~go_on | (self.truths(part) if found & go_on else 0)
                return found
            case s.Not(child=child):
                return v.opposite(self.truths(child))
            case s.Compare(op="!=" | "not in" as op):
                return v.opposite(self._compare({"!=": "=="}.get(op, "in"), node))
            case s.Compare(op=op):
                return self._compare(op, node)
            case s.Call(name="all" | "any" as name, arguments=(body, *_)):
                return self._quantifier(FALSE if name == "all" else TRUE, body)
            case s.Call(name="unique", arguments=(body, *_)):
                return v.unique(self.gather(body))
            case s.Call(name="exists", arguments=(entity, *_)):
                found = self.value(entity)
                if isinstance(found, Some):
                    return v.may(found.null)
                return UNDEFINED if found is NO_VALUE else v.there(found)
            case s.Call(name="same_items", arguments=(left, right)):
                return v.same_items(self.gather(left), self.gather(right))
            case s.Call(name=name, arguments=given) if name in v.TESTS:
                return v.truths_of_test(name, map(self.value, given))
            case s.Reaches():
                return self._reaches(node, [self.value(node.start), self.value(node.goal)])
            case _:
                return v.as_condition(self.value(node))

    def _compare(self, op: str, node: s.Compare) -> v.Truths:
        if op != "in" or not isinstance(node.right, s.Entities):
            left, right = self.reckoned(node.left), self.reckoned(node.right)
            decided = v.compare_bounds(op, left, right)
            return v.relate(op, left.result, right.result) if decided is None else decided
        key = self.value(node.left)
        if isinstance(key, Some) or v.is_nothing(key):
            return v.may(key.undefined) if isinstance(key, Some) else FALSE
        if key is NO_VALUE:
            return UNDEFINED
        return v.there(self.world.look(node.right.root, node.right.entity, (v.plain(key),)))

    def _quantifier(self, stop: v.Truths, body: s.Node) -> v.Truths:
        """An element that does not count, or is not there, is neutral."""
        if not isinstance(body, s.Comprehension):
            listed = self.value(body)
            if not isinstance(listed, tuple):
                return v.as_condition(listed)
            return v.over_items(stop, map(v.as_condition, listed))
        masks = []
        for inner, counts, may_be_more in self.elements(body.loops):
            is_left_out = counts & FALSE or may_be_more or (counts & TRUE and inner is None)
            mask = counts & UNDEFINED | (OPEN & ~stop if is_left_out else 0)
            masks.append(mask if inner is None else mask | inner.truths(body.element))
        return v.quantify(stop, masks)

    # ------------------------------------------------------------ what is ranged over

    def bind(self, name: str, item: v.Result, source: s.Node) -> Eval:
        """The world with one variable more, and what it ranges over."""
        return Eval(self.world, {**self.env, name: item, f"{name} of": (source, self)})

    def elements(self, loops: tuple[s.Loop, ...]) -> Iterator[Element]:
        """No variables where an element never counts, and of one of an outer loop.

        That counts as far as the loops inside it have elements.
        """
        loop, *rest = loops
        for item, may_be_more in self._items(loop.source):
            if item is NO_VALUE:
                yield None, UNDEFINED, may_be_more
                continue
            inner, counts = self.bind(loop.name, item, loop.source), TRUE
            for test in loop.conditions:
                counts = v.both(counts, inner.truths(test)) if counts & TRUE else counts
            for deeper, mask, more in inner.elements((*rest,)) if rest and counts & TRUE else ():
                yield deeper, v.both(counts, mask), may_be_more or more
            yield (None if rest or not counts & TRUE else inner), counts, may_be_more

    def _items(self, source: s.Node) -> Iterator[tuple[v.Result, bool]]:
        """The items, each with whether it stands for any number of items that nobody has seen."""
        crowd = self._crowd(source)
        listed = None if crowd is not None else self.value(source)
        if crowd is not None:
            yield from ((thing, False) for thing in crowd.things)
            if crowd.is_open:
                names = (source.root, source.entity) if isinstance(source, s.Entities) else ("", "")
                yield Thing(*names, (), None), True
        elif isinstance(listed, tuple):
            yield from ((item, False) for item in listed)
        elif isinstance(listed, Some):
            yield from ((each, True) for each in (Some(), *([NO_VALUE] if listed.may_fail else [])))
        else:
            yield NO_VALUE, False

    def _crowd(self, source: s.Node) -> v.Crowd | None:
        """The entities that the expression names; None where it names no collection."""
        match source:
            case s.Entities(root="before" | "after" | "now" as root, entity=name):
                table, side = (
                    self.world.table(root, name),
                    self.world.now if root == "now" else root,
                )
                known = (Thing(side, name, key, row) for key, row in table.rows.values())
                return v.Crowd(tuple(known), not table.is_complete)
            case s.Entities(root=root, entity=name):
                return self.world.changed.get((root, name), v.Crowd())
            case s.Variable(name=name) if isinstance(held := self.env[name], v.Crowd):
                return held
            case _:
                return None

    def gather(self, body: s.Node) -> v.Gathered | None:
        """The values of all elements; None where there is no list of them."""
        if isinstance(body, s.Comprehension):
            return self._gather_elements(body)
        crowd = self._crowd(body)
        if crowd is not None:
            of = v.Gathered(list(crowd.things))
            of.is_any = of.is_loose = of.is_wild = crowd.is_open
            return of
        listed = self.value(body)
        if not isinstance(listed, tuple | Some):
            return None
        if isinstance(listed, Some):
            of, may_fail = v.Gathered(doubted=[Some()]), listed.may_fail
            of.is_any = of.is_loose = of.is_wild = True
        else:
            of = v.Gathered(list(listed))
            may_fail = any(item.undefined for item in listed if isinstance(item, Some))
        of.is_undefined = of.may_be_none = may_fail
        return of

    def _gather_elements(self, body: s.Comprehension) -> v.Gathered:
        of = v.Gathered()
        for inner, counts, may_be_more in self.elements(body.loops):
            of.is_loose |= may_be_more or counts not in (TRUE, FALSE, UNDEFINED)
            if inner is None and not counts & UNDEFINED:
                continue  # it counts as far as the loops inside it have elements, beside it
            found = NO_VALUE if inner is None else inner.value(body.element)
            is_lacking = inner is not None and found is NO_VALUE
            if counts == TRUE and not may_be_more and not is_lacking:
                of.values.append(found)
            elif counts & (TRUE | UNDEFINED):
                of.maybe += 1
                of.doubted += [] if found is NO_VALUE else [found]
                is_sure = counts == UNDEFINED or (counts == TRUE and is_lacking)
                of.undefined += is_sure and not may_be_more
                held = [] if inner is None else [inner.env[loop.name] for loop in body.loops]
                of.is_wild |= found is not NO_VALUE and any(map(_is_unseen, held))
            of.is_any |= may_be_more
            of.is_uncounted |= len(body.loops) > 1 and bool(counts & UNDEFINED)
            is_open = isinstance(found, Some) and found.undefined
            of.is_undefined |= bool(counts & UNDEFINED) or is_lacking or is_open
        return of

    # ------------------------------------------------------------ values

    def reckoned(self, node: s.Node) -> v.Reckoned:
        """The value, and of an aggregate the bounds of what it may be."""
        match node:
            case (
                s.Call(name="count", arguments=(body,))
                | s.Call(name="sum" | "min" | "max", arguments=(body,))
            ):
                kind = body.element.type if isinstance(body, s.Comprehension) else None
                # Any two values of an element, null apart, have an order (and numbers a sum).
                is_plain = isinstance(kind, s.ScalarT) and kind.kind in _ORDERED
                return v.aggregate(node.name, self.gather(body), is_plain)
            case _:
                found = self.value(node)
                is_open = isinstance(found, Some) or found is NO_VALUE
                return v.Reckoned(found) if is_open else v.Reckoned(found, found, found)

    def value(self, node: s.Node) -> v.Result:  # noqa: C901 - a case for each node
        """The value of the expression: known, `Some` or NO_VALUE."""
        match node:
            case s.Const(value=known) | s.InputOf(value=known):
                return known
            case s.Variable(name=name):
                return self.env[name]
            case s.AnswerOf() | s.RunOf():
                return self._outcome(node)
            case s.FieldOf(entity=entity):
                holder = self.value(entity)
                found = _field_of(node, holder)
                is_open = self.world.is_strict and isinstance(found, Some)
                is_unread = (
                    is_open and isinstance(holder, Thing) and self.is_unread(holder, node.field)
                )
                return NO_VALUE if is_unread else found
            case s.Follow(reference=reference, type=s.EntityT(type=name)):
                key = self.value(reference)
                if isinstance(key, Some) or v.is_nothing(key):
                    return Some(undefined=True) if isinstance(key, Some) else ABSENT
                if key is NO_VALUE:
                    return key
                return self.world.look(self.value(reference.entity).side, name, (key,))
            case s.Lookup(collection=collection, keys=keys):
                return self._look_up(collection, map(self.value, keys))
            case s.PartOf(whole=whole, step=step):
                held = self.value(whole)
                if isinstance(held, Some):
                    return Some(undefined=True)
                return at(held, (step,)) if _has_part(held, step) else NO_VALUE
            case s.ItemOf(whole=whole, index=index):
                return v.item_at(self.value(whole), self.value(index))
            case s.Canonical(child=child, apply=apply):
                found = self.value(child)
                is_kept = found is NO_VALUE or isinstance(found, Some | m.Absent | Thing)
                return found if is_kept else apply(v.as_stored(found))
            case s.Arithmetic(left=left, right=right):
                sides = self.value(left), self.value(right)
                if node.type != s.TEXT and not isinstance(node.type, s.ListT):
                    return v.arithmetic(node.op, *sides)
                wanted = str if node.type == s.TEXT else tuple
                return v.apply(
                    lambda a, b: a + b, sides, fits=lambda each: isinstance(each, wanted)
                )
            case s.Items(items=items):
                listed = tuple(map(self.value, items))
                return NO_VALUE if NO_VALUE in listed else listed
            case s.Call(name="count", arguments=(_,)) | s.Call(name="sum" | "min" | "max"):
                return self.reckoned(node).result
            case s.Call(name=name, arguments=given) if name in v.FUNCTIONS:
                return v.function(name, [self.value(each) for each in given])
            case _:
                mask = self.truths(node)
        if mask in (TRUE, FALSE, UNDEFINED):
            return NO_VALUE if mask == UNDEFINED else mask == TRUE
        return Some(null=False, undefined=bool(mask & UNDEFINED))

    def _outcome(self, node: s.AnswerOf | s.RunOf) -> v.Result:
        """A value of the answer, or how the run ended; open where nobody could read it."""
        world, is_ending = self.world, node.name in ("ended", "exit_code")
        if isinstance(node, s.RunOf):
            told: Any = world.ending if is_ending else world.timeline
            name = {"ended": "how", **_MOMENTS}.get(node.name, node.name)
            found = None if told is None else getattr(told, name)
            is_open = told is None or (found is None and not is_ending)
            return Some(null=False) if is_open else found
        if isinstance(world.answer, NoAnswer):
            return Some(null=False) if world.answer.is_unread else NO_VALUE
        said = world.answer.get(node.name, ABSENT)
        return Some(null=False) if isinstance(said, Unobserved) else said

    def _look_up(self, collection: s.Node, parts: Iterable[v.Result]) -> v.Result:
        """The entity of the collection that the key names; absent only where all are known."""
        key = []
        for part in parts:
            if isinstance(part, Some):
                return Some(null=part.undefined, undefined=True)
            if v.is_nothing(part) or part is NO_VALUE:
                return part if part is NO_VALUE else ABSENT
            key.append(v.plain(part))
        if isinstance(collection, s.Entities):
            return self.world.look(collection.root, collection.entity, key)
        crowd, wanted = self._crowd(collection) or v.Crowd(), key_order(v.as_captured(key))
        if crowd.is_open:
            return Some(null=False, undefined=True)
        return next((each for each in crowd.things if key_order(each.key) == wanted), ABSENT)

    def _reaches(self, node: s.Reaches, ends: list[v.Result]) -> v.Truths:
        """Some chain of hops leads from one to the other; an entity reaches itself."""
        if any(v.is_nothing(end) or end is NO_VALUE for end in ends):
            return UNDEFINED
        if any(map(_is_unseen, ends)):
            return v.may(any(isinstance(end, Some) and end.may_fail for end in ends))
        first, last = ((end.type, v.likeness(end)) for end in ends)
        rows, gaps = [], []
        for hop in node.hops:
            sides = (hop.source_type, hop.source), (hop.target_type, hop.target)
            table = self.world.table(ends[0].side, hop.entity)
            of = list(table.rows.values())
            rows += [[(name, _end(row, key, way)) for name, way in sides] for key, row in of]
            own = {_end({}, key, "") for key, _ in of}
            gaps += [] if table.is_complete else [[(n, set() if way else own) for n, way in sides]]
        rows = [row for row in rows if all(key is not None for _, key in row)]
        named = {first, last, *(place for row in rows for place in row)}

        def others(name: str, known: Iterable[Any] = ()) -> set[Any]:
            """All keys of the type that are named anywhere, and one that stands for the rest."""
            keys = {key for type_name, key in named if type_name == name} - {*known}
            return {(name, key) for key in (*keys, _ANY)}

        sure = [[{place} for place in row] for row in rows if all(k is not _ANY for _, k in row)]
        perhaps = [[others(n) if key is _ANY else {(n, key)} for n, key in row] for row in rows]
        perhaps += [[others(*side) for side in sides] for sides in gaps]
        if last in _closure(first, sure):
            return TRUE
        return OPEN if last in _closure(first, perhaps) else FALSE

    # ------------------------------------------------------------ undefined by the run

    def settled(self, node: s.Node, by_run: v.Truths) -> v.Truths:
        """The truths of a condition; one that is undefined, or unread, by the run has `by_run`."""
        mask = self.truths(node)
        own = self if mask == UNDEFINED else Eval(replace(self.world, is_strict=True), self.env)
        is_open = mask not in (TRUE, FALSE) and own.truths(node) == UNDEFINED
        return by_run if is_open and own.is_by_run(node) else mask

    def is_by_run(self, node: s.Node) -> bool:
        """True where the run wrote what makes the condition, or the value, certainly undefined."""
        match node:
            case s.And(parts=parts) | s.Or(parts=parts):
                goes_on = TRUE if isinstance(node, s.And) else FALSE
                masks = ((part, self.truths(part)) for part in parts)
                part, mask = next((p, m) for p, m in masks if m != goes_on)
                return mask == UNDEFINED and self.is_by_run(part)
            case s.Not(child=child):
                return self.is_by_run(child)
            case s.Call(name=name, arguments=(s.Comprehension() as body, *_)):
                return self._is_by_run_within(name, body)
            case _:
                pass
        operands = [part for part in s.children(node) if not isinstance(part, s.Entities)]
        found = [(part, self.value(part)) for part in operands]
        if any(each is NO_VALUE for _, each in found):
            return any(self.is_by_run(part) for part, each in found if each is NO_VALUE)
        if isinstance(node, s.FieldOf | s.AnswerOf):
            return self.is_made(node)
        known = [part for part, each in found if not isinstance(each, Some)]
        return any(map(self.is_made, [part for part, each in found if v.is_nothing(each)] or known))

    def _is_by_run_within(self, name: str, body: s.Comprehension) -> bool:
        """It is so in an element; or all of them together have no least or greatest."""
        made, has_nothing = [], False
        for node, inner in self.parts(body, body.loops):
            is_element = node is body.element
            if name in ("all", "any") or not is_element:
                mask = inner.truths(node) if is_element else UNDEFINED
                if mask == UNDEFINED and inner.is_by_run(node):
                    return True
                continue
            found = inner.value(node)
            if found is NO_VALUE and inner.is_by_run(node):
                return True
            if (
                not isinstance(found, Some)
                and found is not NO_VALUE
                and name in ("sum", "min", "max")
            ):
                made.append(inner.is_made(node))
                is_wrong = v.is_nothing(found) or (name == "sum" and not v.is_finite(found))
                if is_wrong and made[-1]:
                    return True
                has_nothing |= v.is_nothing(found)
        if name not in ("min", "max") or has_nothing:
            return False
        return any(made) if made else self._are_changed(body.loops)

    def parts(
        self, body: s.Comprehension, loops: tuple[s.Loop, ...]
    ) -> Iterator[tuple[s.Node, Eval]]:
        """The element of each that certainly counts, and what else is undefined."""
        loop, *rest = loops
        for item, may_be_more in self._items(loop.source):
            if item is NO_VALUE and not may_be_more:
                yield loop.source, self
            if item is NO_VALUE or may_be_more:
                continue
            inner = self.bind(loop.name, item, loop.source)
            masks = ((test, inner.truths(test)) for test in loop.conditions)
            test, mask = next(((t, m) for t, m in masks if m != TRUE), (None, TRUE))
            if test is not None:
                yield from [(test, inner)] if mask == UNDEFINED else []
            elif rest:
                yield from inner.parts(body, (*rest,))
            else:
                yield body.element, inner

    def is_made(self, node: s.Node) -> bool:
        """True where the run wrote a value that the expression is made of."""
        match node:
            case s.FieldOf(entity=holder):
                held = self.value(holder)
                if isinstance(held, Thing):
                    return self.is_written(held, node.field, node.part)
                return v.is_nothing(held) and self.is_made(holder)
            case s.Follow(reference=reference, type=s.EntityT(type=name)):
                held, key = self.value(reference.entity), self.value(reference)
                is_gone = isinstance(held, Thing) and self._is_gone(held.side, name, [key])
                return is_gone or self.is_made(reference)
            case s.Lookup(collection=s.Entities(root=root, entity=name), keys=keys):
                is_gone = self._is_gone(root, name, [*map(self.value, keys)])
                return is_gone or any(map(self.is_made, keys))
            case s.AnswerOf() | s.RunOf():
                return True
            case s.Variable(name=name):
                source = self.env.get(f"{name} of")
                return source[1].is_made(source[0]) if source else self.env[name] is ABSENT
            case s.Call(arguments=(s.Comprehension(loops=loops), *_)):
                return self._are_changed(loops)
            case s.Entities():
                return self._is_changed(node)
            case _:
                return any(map(self.is_made, s.children(node)))

    def is_written(self, held: Thing, name: str, part: Steps = ()) -> bool:
        """True where the field, or the part of it, is certainly another than before."""
        if held.side == "before" or held.row is None:
            return False
        if held.type.startswith("@"):
            return True  # a call, a turn: the run made all of it
        table = self.world.table("before", held.type)
        was = table.rows.get(key_order(held.key))
        if was is None:
            return not table.may_miss(held.key)
        old, new = was[1].get(name, ABSENT), held.row.get(name, ABSENT)
        for step in part:
            if not (_has_part(old, step) and _has_part(new, step)):
                break
            old, new = at(old, (step,)), at(new, (step,))
        if isinstance(new, m.Digested):  # what could be read before, and cannot be now, was written
            was_seen = isinstance(old, m.Digested) or not isinstance(old, Unobserved)
            return was_seen and not m.told_apart(old, new)
        return not any(isinstance(e, Unobserved) for e in (old, new)) and not m.same(old, new)

    def is_unread(self, held: Thing, name: str) -> bool:
        """True where the run wrote the field, and what it wrote cannot be read."""
        cell = None if held.row is None else held.row.get(name, ABSENT)
        if isinstance(cell, m.Digested):
            return (held.type, name) not in self.world.kept_out and self.is_written(held, name)
        return isinstance(cell, Unobserved) and is_by_agent(cause(cell.cause))

    def _is_gone(self, side: str, name: str, key: list[v.Result]) -> bool:
        if side == "before" or any(
            isinstance(p, Some) or v.is_nothing(p) or p is NO_VALUE for p in key
        ):
            return False
        was, is_now = (self.world.look(each, name, map(v.plain, key)) for each in ("before", side))
        return isinstance(was, Thing) and is_now is ABSENT

    def _are_changed(self, loops: tuple[s.Loop, ...]) -> bool:
        sources = [loop.source for loop in loops]
        return any(isinstance(each, s.Entities) and self._is_changed(each) for each in sources)

    def _is_changed(self, source: s.Entities) -> bool:
        """True where the run certainly changed some entity of the type."""
        crowds = [self.world.changed.get((root, source.entity), v.Crowd()) for root in ROOTS]
        return source.root != "before" and any(crowd.things for crowd in crowds)


_ANY: Final = object()
"""The end of a hop that was not observed; as a key, one that is named nowhere."""


def _end(row: Row, key: Key, name: str) -> Any:
    """The end of a hop in a row: a key, _ANY where it was not observed, None where it is none."""
    held = row.get(name, ABSENT) if name else v.plain(Thing("", "", key, None))
    if isinstance(held, Unobserved | m.Excluded):
        return _ANY
    return None if v.is_nothing(held) else v.likeness(held)


def _closure(first: Any, steps: Iterable[list[set[Any]]]) -> set[Any]:
    """All that is reached from there, where each step leads from any of a set to all of another."""
    found = {first}
    while True:
        more = found.union(*(targets for sources, targets in steps if sources & found))
        if more == found:
            return found
        found = more


def _is_unseen(item: v.Result) -> bool:
    """Some item, or entity, that nobody has seen."""
    return isinstance(item, Some) or (isinstance(item, Thing) and not item.key)


def _has_part(held: m.Observed, step: Step) -> bool:
    return isinstance(held, m.Map | tuple) and not is_ambiguous(held, step)


def _field_of(node: s.FieldOf, holder: v.Result) -> v.Result:
    """The field of an entity; `node.part` is the way to the place inside it."""
    if v.is_nothing(holder) or holder is NO_VALUE:
        return NO_VALUE
    # A value nobody has seen may lack the part; the arguments of a call are always an object.
    lacks = len(node.part) > ((node.entity_type, node.field) == (s.CALL_TYPE, "arguments"))
    if isinstance(holder, Some) or holder.row is None:
        return Some(node.is_nullable, lacks or (isinstance(holder, Some) and holder.undefined))
    held: m.Observed = holder.row.get(node.field, ABSENT)
    for step in node.part:
        if not isinstance(held, Unobserved):
            if not _has_part(held, step):
                return NO_VALUE
            held = at(held, (step,))
    if isinstance(held, m.Digested) and not node.part:
        return Some(null=False, undefined=True, digest=held)
    if isinstance(held, Unobserved):
        return Some(node.is_nullable, lacks)
    return Some() if isinstance(held, m.Excluded) else held
