"""Undefined by the run: a value that makes a condition undefined is one that the run wrote.

A run that writes null, or a text where a number was, must not choose that nobody can say whether it
did something forbidden. So what is undefined is traced to the values that make it so: to null where
something is null, else to all that is compared, computed or looked up. The run wrote a value where
its row came or went, or its field is another than before; it wrote the arguments of calls, and the
answer. Nothing is guessed: what may have been there before is not by the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from statediff.contract.evaluation.evaluate import EVALUATOR, evaluate, outcomes
from statediff.contract.evaluation.gathering import items_of
from statediff.contract.evaluation.joins import narrowed
from statediff.contract.evaluation.operations import finite, look, plain
from statediff.contract.evaluation.written import is_written
from statediff.contract.language.context import (
    FALSE,
    TRUE,
    UNDEFINED,
    EntityRef,
    Env,
    EvalContext,
    Result,
    Undefined,
    Unknown,
)
from statediff.contract.language.syntax import (
    And,
    AnswerOf,
    Call,
    Comprehension,
    Entities,
    EntityT,
    FieldOf,
    Follow,
    Lookup,
    Loop,
    Node,
    Not,
    Or,
    RunOf,
    Variable,
    children,
    walk,
)
from statediff.model.values import Absent

DECIDED: Final = (TRUE, FALSE)
_CHANGED: Final = ("created", "updated", "linked")


def settled(mask: int, by_run: int, node: Node, context: EvalContext, env: Env) -> int:
    """The outcomes of a condition, where they are `mask`; `by_run` where the run is to blame.

    It is where it left the condition undefined, or open by what nobody can read of what it wrote:
    with all of that undefined, the condition is undefined by the run. What does not hang on it, and
    what else nobody knows, stays as it is.
    """
    if mask in DECIDED or mask == by_run:
        return mask
    if mask == UNDEFINED:
        return by_run if is_by_run(node, context, env) else mask
    strict = context.strict()
    if outcomes(node, strict, env) != UNDEFINED or not is_by_run(node, strict, env):
        return mask
    for reason in strict.undefined[-1:]:
        context.undefined_by(reason)
    return by_run


def is_by_run(node: Node, context: EvalContext, env: Env) -> bool:
    """True where the run wrote what makes a condition, or a value, certainly undefined."""
    return _Tracing(context.apart()).is_by_run(node, env)


@dataclass(frozen=True)
class _Tracing:
    """The world in which what is undefined is traced to the values that make it so."""

    context: EvalContext

    def is_by_run(self, node: Node, env: Env) -> bool:
        match node:
            case And(parts=parts) | Or(parts=parts):
                go_on = TRUE if isinstance(node, And) else FALSE
                for part in parts:
                    mask = outcomes(part, self.context, env)
                    if mask != go_on:
                        return mask == UNDEFINED and self.is_by_run(part, env)
                return False
            case Not(child=child):
                return self.is_by_run(child, env)
            case Call(name=name, arguments=(Comprehension() as body, *_)):
                return self._in_elements(name, body, env)
            case _:
                pass
        operands = [part for part in children(node) if not isinstance(part, Entities)]
        values = [evaluate(part, self.context, env) for part in operands]
        undefined = [p for p, v in zip(operands, values, strict=True) if isinstance(v, Undefined)]
        if undefined:
            return any(self.is_by_run(part, env) for part in undefined)
        if isinstance(node, FieldOf | AnswerOf):
            return self._is_written(node, env)
        nothing = [p for p, v in zip(operands, values, strict=True) if _is_nothing(v)]
        known = [p for p, v in zip(operands, values, strict=True) if not isinstance(v, Unknown)]
        return any(self._is_written(part, env) for part in nothing or known)

    # ------------------------------------------------------------ elements

    def _in_elements(self, name: str, body: Comprehension, env: Env) -> bool:
        """True where it is so in an element or, with none undefined, in all of them together."""
        is_extreme = name in ("min", "max")
        number = written = 0
        has_nothing = False
        for node, inner in self._parts(name, body, body.loops, env):
            if node is not body.element or name in ("all", "any"):
                mask = outcomes(node, self.context, inner) if node is body.element else UNDEFINED
                if mask == UNDEFINED and self.is_by_run(node, inner):
                    return True
                continue
            value = evaluate(node, self.context, inner)
            if isinstance(value, Undefined) and self.is_by_run(node, inner):
                return True
            if (name == "sum" or is_extreme) and not isinstance(value, Undefined | Unknown):
                is_own, is_nothing = self._is_written(node, inner), _is_nothing(value)
                if is_own and (is_nothing or (name == "sum" and not finite(value))):
                    return True
                has_nothing |= is_nothing
                number, written = number + 1, written + is_own
        # An extreme of nothing, or of values without a common order.
        if not is_extreme or has_nothing:
            return False
        return bool(written) if number else self._is_of_changed(body.loops)

    def _parts(
        self, name: str, body: Comprehension, loops: tuple[Loop, ...], env: Env
    ) -> Iterator[tuple[Node, Env]]:
        """The element of each that counts; of any other what is undefined, its condition or list.

        What nobody has seen is left out.
        """
        loop, rest = loops[0], loops[1:]
        for item in self._items(name, body, loop, env, is_last=not rest):
            if isinstance(item, Undefined):
                yield loop.source, env
                continue
            inner = {**env, loop.name: item, _place(loop.name): (loop.source, env)}
            failing = None
            for test in loop.conditions:
                mask = outcomes(test, self.context, inner)
                if mask != TRUE:
                    failing = mask, test
                    break
            if failing is None and rest:
                yield from self._parts(name, body, rest, inner)
            elif failing is None:
                yield body.element, inner
            elif failing[0] == UNDEFINED:
                yield failing[1], inner

    def _items(
        self, name: str, body: Comprehension, loop: Loop, env: Env, *, is_last: bool
    ) -> Iterator[Result]:
        """The items that can matter; among those that are undefined, all that the run changed.

        An index shows one for all that are undefined alike. So it is asked only where an element
        is no more than its own row, and what changed is known.
        """
        source = loop.source
        found, changed = None, []
        if isinstance(source, Entities) and source.root == "after":
            sets = [self.context.entity_sets.get((root, source.entity)) for root in _CHANGED]
            changed = [each for each in sets if each is not None]
        is_known = isinstance(source, Entities) and source.root in ("before", "after")
        if is_known and not any(each.incomplete for each in changed) and not _looks_further(body):
            element = body.element if name in ("all", "any") and is_last else None
            wanted = FALSE if name == "all" else TRUE
            found = narrowed(EVALUATOR, loop, element, wanted, self.context, env)
        for item, is_more in items_of(EVALUATOR, source, self.context, env, found):
            if not is_more:
                yield item
        if found is not None:
            for each in changed:
                yield from each

    # ------------------------------------------------------------ what the run wrote

    def _is_written(self, node: Node, env: Env) -> bool:
        """True where the run wrote a value that the expression is made of."""
        match node:
            case FieldOf(entity=holder):
                held = evaluate(holder, self.context, env)
                if isinstance(held, EntityRef):
                    return is_written(held, node.field, node.part, self.context)
                return _is_nothing(held) and self._is_written(holder, env)
            case Follow(reference=reference, type=EntityT(type=entity)):
                holder = evaluate(reference.entity, self.context, env)
                key = (evaluate(reference, self.context, env),)
                is_gone = isinstance(holder, EntityRef) and self._is_gone(holder.side, entity, key)
                return is_gone or self._is_written(reference, env)
            case Lookup(collection=Entities(root=root, entity=entity), keys=keys):
                key = tuple(evaluate(part, self.context, env) for part in keys)
                is_gone = self._is_gone(root, entity, key)
                return is_gone or any(self._is_written(part, env) for part in keys)
            case AnswerOf() | RunOf():
                return True
            case Variable(name=name) if _place(name) in env:
                return self._is_written(*env[_place(name)])
            case Variable(name=name):
                return isinstance(env.get(name), Absent)  # the version after what the run deleted
            case Call(arguments=(Comprehension(loops=loops), *_)):
                return self._is_of_changed(loops)
            case Entities():
                return self._is_changed(node)
            case _:
                return any(self._is_written(part, env) for part in children(node))

    def _is_gone(self, side: str, entity: str, key: tuple[Result, ...]) -> bool:
        """True where the run took the entity away."""
        if side == "before" or any(isinstance(p, Unknown | Undefined | Absent | None) for p in key):
            return False
        place = tuple(map(plain, key))
        was, is_now = (look(each, entity, place, self.context) for each in ("before", side))
        return isinstance(was, EntityRef) and isinstance(is_now, Absent)

    def _is_of_changed(self, loops: tuple[Loop, ...]) -> bool:
        sources = (loop.source for loop in loops)
        return any(isinstance(each, Entities) and self._is_changed(each) for each in sources)

    def _is_changed(self, source: Entities) -> bool:
        """True where the run certainly changed some entity of the type."""
        roots = (*_CHANGED, "deleted", "unlinked")
        sets = (self.context.entity_sets.get((root, source.entity), ()) for root in roots)
        return source.root != "before" and any(any(True for _ in each) for each in sets)


def _is_nothing(value: Result) -> bool:
    return value is None or isinstance(value, Absent)


def _place(variable: str) -> str:
    """The key, no name of a variable, under which an item has the list that it is of."""
    return f"{variable} of"


def _looks_further(body: Comprehension) -> bool:
    """True where an element is more than its own row."""
    conditions = [each for loop in body.loops for each in loop.conditions]
    parts = (part for each in (*conditions, body.element) for part in walk(each))
    return any(isinstance(part, Follow | Lookup) for part in parts)
