"""The typed form of an expression: what the parser yields and everything else reads.

A node is frozen and knows its type. Nothing here is ever executed by Python; `evaluation` gives a
node its three-valued truth, `footprint` what it reads, `english` a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import product
from typing import Any, Final, TypeAlias

from statediff.model.paths import FieldPath, Step, Steps
from statediff.model.schema import Kind
from statediff.model.values import Observed, Value


@dataclass(frozen=True)
class ScalarT:
    """A value of one kind. `reference` names the entity type whose key it is, if any.

    `kind` None is the type of `null` alone; Kind.DECIMAL stands for every exact number.
    """

    kind: Kind | None
    reference: str | None = None


@dataclass(frozen=True)
class EntityT:
    """An entity of `type` that may be absent."""

    type: str


@dataclass(frozen=True)
class CollectionT:
    """A collection of entities of `type`; `has_keys` where it can be asked by key."""

    type: str
    has_keys: bool = False


@dataclass(frozen=True)
class ListT:
    """A list of values."""

    item: ScalarT


Type: TypeAlias = ScalarT | EntityT | CollectionT | ListT
CALL_TYPE = "@call"
"""The type of a call in an expression; no contract can write the name of a type like this."""
TURN_TYPE = "@turn"
"""The type of a message of the user."""

BOOL = ScalarT(Kind.BOOL)
NUMBER = ScalarT(Kind.DECIMAL)
TEXT = ScalarT(Kind.TEXT)
ANY = ScalarT(Kind.ANY)
NULL = ScalarT(None)


UNWRITTEN: Final = 0
"""The offset of a node that stands in no text."""


class TreePart:
    """A part of the tree; what evaluation works out of it once is kept with it."""

    @cached_property
    def worked_out(self) -> dict[Any, Any]:
        """By what was asked; no part of its value."""
        return {}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "worked_out"}


@dataclass(frozen=True)
class Node(TreePart):
    """An expression. `offset` is the character of the source text where it begins."""

    type: Type
    offset: int


@dataclass(frozen=True)
class Const(Node):
    """A literal."""

    value: Value


@dataclass(frozen=True)
class InputOf(Node):
    """`input.NAME`: fixed when the contract is bound, so it carries its value."""

    name: str
    value: Value


@dataclass(frozen=True)
class AnswerOf(Node):
    """`answer.NAME`, from the agent's structured answer."""

    name: str


@dataclass(frozen=True)
class RunOf(Node):
    """`run.NAME`: a fact about the run that its states do not show."""

    name: str


@dataclass(frozen=True)
class Entities(Node):
    """`before.TYPE`, `after.TYPE`, `created.TYPE`, `updated.TYPE`, …; `root` is the first word."""

    root: str
    entity: str


@dataclass(frozen=True)
class Variable(Node):
    """`it`, `new`, `them`, or the variable of a comprehension."""

    name: str


@dataclass(frozen=True)
class Lookup(Node):
    """`before.order[KEY]`; one key expression per key field."""

    collection: Node
    keys: tuple[Node, ...]


@dataclass(frozen=True)
class FieldOf(Node):
    """`ENTITY.field`."""

    entity: Node
    entity_type: str
    field: str
    is_nullable: bool
    part: Steps = ()
    """The way inside the value: keys of objects, indexes of lists."""


@dataclass(frozen=True)
class PartOf(Node):
    """`VALUE.name` or `VALUE[2]` inside a value that is no field: an answer, a reply, an item."""

    whole: Node
    step: Step


@dataclass(frozen=True)
class ItemOf(Node):
    """`LIST[EXPRESSION]`: the item at a computed index, from 0; absent outside the list."""

    whole: Node
    index: Node


@dataclass(frozen=True)
class Follow(Node):
    """The entity that a reference points to, on the side of the entity that holds it."""

    reference: FieldOf


@dataclass(frozen=True)
class Canonical(Node):
    """A literal put through the rules of the field it is compared with."""

    child: Node
    entity_type: str
    field: str
    apply: Callable[[Value], Observed]


class _Told:
    """An expression of which a witness shows the entities whose fields it compares."""

    @cached_property
    def holders(self) -> tuple[Node, ...]:
        """The expressions of those entities, in the order of the text."""
        found: list[Node] = []
        stack: list[Any] = [self]
        while stack:
            match stack.pop():
                case Compare(left=left, right=right) | Arithmetic(left=left, right=right):
                    stack += [right, left]
                case ItemOf(whole=whole, index=index):
                    stack += [index, whole]
                case Call(arguments=arguments):
                    stack += arguments
                case FieldOf(entity=holder):
                    found.append(holder)
                    if isinstance(holder, Follow):
                        stack.append(holder.reference)
                case Canonical(child=child):
                    stack.append(child)
                case _:
                    pass
        return tuple(found)


@dataclass(frozen=True)
class Compare(_Told, Node):
    """`left op right` with op in == != < <= > >= in, not in."""

    op: str
    left: Node
    right: Node
    text: str


@dataclass(frozen=True)
class FieldIs(Node):
    """One value of a clause's `set` or `from` (the key): what the place has to be equal to."""

    key: str
    place: FieldPath


@dataclass(frozen=True)
class And(Node):
    """Every part, left to right."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Or(Node):
    """Some part, left to right."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Not(Node):
    """The opposite."""

    child: Node


@dataclass(frozen=True)
class Arithmetic(Node):
    """`left op right` with op in + - * / %; exact. `+` also joins two texts, or two lists."""

    op: str
    left: Node
    right: Node


@dataclass(frozen=True)
class Items(Node):
    """A list display `[a, b]`."""

    items: tuple[Node, ...]


@dataclass(frozen=True)
class Loop(TreePart):
    """One `for NAME in COLLECTION if …` of a comprehension."""

    name: str
    source: Node
    conditions: tuple[Node, ...]


@dataclass(frozen=True)
class Comprehension(Node):
    """`ELEMENT for … in …`; the argument of an aggregate or quantifier."""

    element: Node
    loops: tuple[Loop, ...]


@dataclass(frozen=True)
class Call(_Told, Node):
    """A function of the closed list (`contract/language/names.py`)."""

    name: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True)
class Hop:
    """A directed step through one row of `entity`, from what `source` names to what `target` does.

    Each is a reference field, or "" for the row itself, whose key it then is.
    """

    entity: str
    source: str
    target: str
    source_type: str
    target_type: str
    text: str
    """As it is written: `user.manager` or `(membership.user, membership.group)`."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The reference fields that it reads."""
        return tuple(filter(None, (self.source, self.target)))


@dataclass(frozen=True)
class Reaches(Node):
    """`reaches(start, goal, via=[hops])`: some chain of the hops leads from one to the other."""

    start: Node
    goal: Node
    hops: tuple[Hop, ...]
    text: str


def children(node: Node) -> Iterator[Node]:
    """The nodes directly below, in source order."""
    for spec in fields(node):
        value = getattr(node, spec.name)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Node):
                yield item
            elif isinstance(item, Loop):
                yield item.source
                yield from item.conditions


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it."""
    yield node
    for child in children(node):
        yield from walk(child)


def free_variables(node: Node) -> frozenset[str]:
    """The variables that the expression takes from outside."""
    found: frozenset[str] | None = node.worked_out.get("free")
    if found is None:
        found = node.worked_out["free"] = _free_variables(node)
    return found


def _free_variables(node: Node) -> frozenset[str]:
    if isinstance(node, Variable):
        return frozenset({node.name})
    if not isinstance(node, Comprehension):
        return frozenset[str]().union(*map(free_variables, children(node)))
    taken, bound = frozenset[str](), frozenset[str]()
    for loop in node.loops:
        taken |= free_variables(loop.source) - bound
        bound |= {loop.name}
        taken |= frozenset[str]().union(*map(free_variables, loop.conditions)) - bound
    return taken | (free_variables(node.element) - bound)


@dataclass(frozen=True, order=True)
class Read:
    """A value that a clause reads; `root` is before, after, delta, trace, run, input or answer.

    An empty `field` is the presence of the entity.
    """

    root: str
    type: str
    field: str


_SIDES = {
    "created": ("after",),
    "linked": ("after",),
    "updated": ("after",),
    "deleted": ("before",),
    "unlinked": ("before",),
    "before": ("before",),
    "after": ("after",),
    "now": ("before", "after"),
}


def footprint(node: Node) -> frozenset[Read]:
    """The reads of the expression. An entity whose side depends on the delta counts for both."""
    reads: set[Read] = set()
    for part in walk(node):
        match part:
            case Entities(root=root, entity=entity):
                reads.update(Read(side, entity, "") for side in _SIDES[root])
                if root not in ("before", "after", "now"):
                    reads.add(Read("delta", entity, ""))
            case Variable(type=CollectionT(type="@call") | EntityT(type="@call")):
                reads.add(Read("trace", CALL_TYPE, ""))
            case FieldOf(entity_type="@call", field=name):
                reads.add(Read("trace", CALL_TYPE, name))
            case Variable(type=CollectionT(type="@turn")):
                reads.add(Read("trace", "turn", ""))
            case FieldOf(entity_type="@turn"):
                pass
            case Variable(name="reply"):
                reads.add(Read("trace", "reply", ""))
            case FieldOf(entity=holder, entity_type=entity, field=name):
                reads.update(Read(side, entity, name) for side in _sides(holder))
            case Follow(reference=reference, type=EntityT(type=entity)):
                reads.update(Read(side, entity, "") for side in _sides(reference.entity))
            case Reaches(start=start, hops=hops):
                for side, hop in product(_sides(start), hops):
                    reads.update(Read(side, hop.entity, name) for name in ("", *hop.fields))
            case InputOf(name=name):
                reads.add(Read("input", "", name))
            case AnswerOf(name=name):
                reads.add(Read("answer", "", name))
            case RunOf(name=name):
                reads.add(Read("run", "", name))
            case _:
                pass
    return frozenset(reads)


def _sides(node: Node) -> tuple[str, ...]:
    match node:
        case Lookup(collection=Entities(root=root)):
            return _SIDES[root]
        case Follow(reference=reference):
            return _sides(reference.entity)
        case Variable(name="new"):
            return ("after",)
        case _:
            pass
    return ("before", "after")
