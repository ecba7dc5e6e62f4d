"""The plan of a loop: tests of its elements in order, each of a kind that says who answers it.

`any(a.order == o.id and a.at <= o.at for a in before.approval)` relates two sets by an equality and
an inequality. Two operators answer a plan: an index over the elements (`joins`), and masks over
their columns (`columns`). Both pass over only what is certainly neutral: an element whose first
test that does not hold is certainly false, with everything before it decided. So the outcome, the
witness and the reasons are those of the row evaluator over all elements.

The tests of an element are its loop's conditions, in a quantifier also the parts of the element
that must hold (in `all`: fail) for it to matter. Each is of one kind:

* *outer*: it does not name the element, and is evaluated once for each question;
* *own*: it names nothing but the element, and is evaluated once for each element;
* *equality* and, as the last, *order*: one side is own, the other outer;
* anything else ends what an index answers, and is evaluated for each element that is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple, TypeGuard

from statediff.contract.language.context import FALSE, TRUE
from statediff.contract.language.syntax import (
    And,
    AnswerOf,
    Arithmetic,
    Compare,
    Const,
    FieldOf,
    InputOf,
    Items,
    Loop,
    Node,
    Not,
    Or,
    Variable,
    free_variables,
    walk,
)

_NEGATED: Final = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_TURNED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


class Test(NamedTuple):
    """One test of an element; `wanted` is the outcome with which the element still matters."""

    kind: str
    node: Node
    wanted: int
    own: Node
    other: Node
    op: str = "=="


@dataclass(frozen=True)
class Plan:
    """The tests of a loop's elements, and what is taken of those that pass."""

    loop: Loop
    every: tuple[Test, ...]
    answered: int
    """How many of the tests an index answers: the first ones."""
    element: Node | None
    """The expression that an aggregate takes of an element; None: nothing, or the element."""
    decides: Node | None
    """The element of a quantifier, which decides it where its outcome is `wanted`."""
    wanted: int

    @property
    def variable(self) -> str:
        """The name that an element has."""
        return self.loop.name

    @property
    def tests(self) -> tuple[Test, ...]:
        """The tests that an index answers."""
        return self.every[: self.answered]

    @property
    def is_whole(self) -> bool:
        """An element that passes them is decided: nothing else is asked of it."""
        return self.answered == len(self.every)

    @cached_property
    def is_related(self) -> bool:
        """An equality or an order ties the loop to what is outside, or its elements stand alone."""
        return self.is_whole or any(test.kind not in ("own", "outer") for test in self.tests)

    @cached_property
    def takes_own(self) -> bool:
        """True where the expression names nothing but the element."""
        return self.element is None or free_variables(self.element) <= {self.variable}

    @cached_property
    def _parts(self) -> list[Node]:
        return [*self.loop.conditions, *filter(None, (self.element, self.decides))]

    @cached_property
    def is_closed(self) -> bool:
        """It names nothing but the element; else it is another question for each outside."""
        return all(free_variables(part) <= {self.variable} for part in self._parts)

    @cached_property
    def fields(self) -> tuple[str, ...] | None:
        """The fields of the element that it reads; None where columns cannot hold all of it."""
        if not all(_is_plain(part, self.variable) for part in self._parts):
            return None
        nodes = (node for part in self._parts for node in walk(part))
        return tuple(sorted({node.field for node in nodes if is_own(node, self.variable)}))


def plan_of(loop: Loop, element: Node | None, wanted: int, name: str | None) -> Plan:
    """The plan of a loop, made once. `name` is an aggregate's; None: a quantifier's, or nobody's.

    `element` matters to a quantifier where its outcome is `wanted`; None: the conditions alone say.
    """
    place = Plan, element is None, wanted, name
    if place not in loop.worked_out:
        loop.worked_out[place] = _plan(loop, element, wanted, name)
    found: Plan = loop.worked_out[place]
    return found


def _plan(loop: Loop, element: Node | None, wanted: int, name: str | None) -> Plan:
    parts = [pair for each in loop.conditions for pair in _split(each, TRUE)]
    if element is not None and name is None:
        parts += _split(element, wanted)
    tests = tuple(_test(*part, loop.name) for part in parts)
    answered = 0
    for number, test in enumerate(tests):
        later = (each.kind not in ("own", "other") for each in tests[number + 1 :])
        # An order may be undefined: what would be compared by an equality after it may be, too.
        if test.kind == "other" or (test.kind == "order" and any(later)):
            break
        answered += 1
    is_itself = isinstance(element, Variable) and element.name == loop.name
    taken = None if name is None or (name == "count" and is_itself) else element
    return Plan(loop, tests, answered, taken, element if name is None else None, wanted)


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


def _test(node: Node, wanted: int, variable: str) -> Test:
    """The test that the part is."""
    names = free_variables(node)
    if variable not in names or names == {variable}:
        return Test("own" if variable in names else "outer", node, wanted, node, node)
    nothing = Test("other", node, wanted, node, node)
    if not isinstance(node, Compare):
        return nothing
    is_turned = variable in free_variables(node.right)
    own, other = (node.right, node.left) if is_turned else (node.left, node.right)
    if free_variables(own) != {variable} or variable in free_variables(other):
        return nothing
    if node.op == ("==" if wanted == TRUE else "!="):
        return Test("equality", node, wanted, own, other)
    if node.op not in _TURNED:
        return nothing
    op = _TURNED[node.op] if is_turned else node.op
    return Test("order", node, wanted, own, other, op if wanted == TRUE else _NEGATED[op])


def is_own(node: Node, variable: str) -> TypeGuard[FieldOf]:
    """True for a field of the element."""
    return (
        isinstance(node, FieldOf)
        and isinstance(node.entity, Variable)
        and node.entity.name == variable
    )


def _is_plain(node: Node, variable: str) -> bool:
    """True where all of it is the variable's own fields and what is at hand without reading."""
    match node:
        case FieldOf(entity=Variable(name=name), part=part):
            return name != variable or not part
        case Const() | InputOf() | AnswerOf():
            return True
        case And(parts=parts) | Or(parts=parts) | Items(items=parts):
            return all(_is_plain(part, variable) for part in parts)
        case Not(child=child):
            return _is_plain(child, variable)
        case Compare(left=left, right=right):
            return _is_plain(left, variable) and _is_plain(right, variable)
        case Arithmetic(op=op, left=left, right=right):
            return op not in ("/", "%") and _is_plain(left, variable) and _is_plain(right, variable)
        case _:
            return False
