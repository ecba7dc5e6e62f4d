"""The world of an evaluation and its results: outcomes, things in hand, the unknown.

The outcomes of a condition are a mask of TRUE, FALSE and UNDEFINED: every truth it can have over
all completions of what is unobserved. See `contract/evaluation/evaluate.py` for the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, TypeAlias

from statediff.contract.language.syntax import (
    Call,
    Compare,
    Entities,
    FieldIs,
    Hop,
    Node,
    Reaches,
    Variable,
)
from statediff.model.batches import Row
from statediff.model.explanation import Cause, Reason, cause
from statediff.model.readings import Timeline
from statediff.model.state import Enumeration
from statediff.model.trace import NoAnswer, RunEnding
from statediff.model.values import Digested, Key, Observed
from statediff.model.view import View

TRUE: Final = 1
FALSE: Final = 2
UNDEFINED: Final = 4


def either(may_be_undefined: bool) -> int:
    """The outcomes of what may be true or false."""
    return TRUE | FALSE | UNDEFINED if may_be_undefined else TRUE | FALSE


@dataclass(frozen=True, slots=True)
class EntityRef:
    """An entity in hand: where it was read and its row. `row` None means its fields are unknown."""

    side: str
    type: str
    key: Key
    row: Row | None
    cause: Cause = ""


@dataclass(frozen=True)
class Unknown:
    """Some value that was not observed. `maybe_null`/`maybe_undefined` widen what it may be.

    An entity that may be absent is `maybe_undefined`, for it has no fields then; it is `maybe_null`
    where even its existence may be undefined.
    """

    causes: frozenset[Cause]
    maybe_null: bool = True
    maybe_undefined: bool = False
    digest: Digested | None = None
    """The digest that tells it apart from others all the same."""


@dataclass(frozen=True)
class Undefined:
    """No value by the rules of the language."""

    reason: Cause


Result: TypeAlias = Any
"""A Value, Fraction, ABSENT, Thing, Unknown, Undefined, or a tuple of them for a list."""


@dataclass(frozen=True)
class EntitySet:
    """Entities ranged over: those known, and why there may be more."""

    entity_refs: tuple[EntityRef, ...] | Callable[[], Iterator[EntityRef]]
    type: str
    side: str
    incomplete: frozenset[Cause] = frozenset()

    def __iter__(self) -> Iterator[EntityRef]:
        return iter(self.entity_refs) if isinstance(self.entity_refs, tuple) else self.entity_refs()


@dataclass(frozen=True)
class Way:
    """The rows of a path that was found, in order, each with the entity that it leads to.

    No steps (None) where no path was found, whether there is none or nobody knows.
    """

    goal: EntityRef
    steps: tuple[tuple[Hop, EntityRef, Key], ...] | None
    length: int = 0
    """How many steps it has in all."""


class Seen(NamedTuple):
    """One comparison that took part in the outcome, with both sides as evaluated."""

    node: Compare | Call | Reaches | FieldIs
    left: Result
    right: Result
    mask: int
    entity_refs: tuple[EntityRef, ...]
    looked: Callable[[], Looked] | None = None
    """The entities that a quantifier looked at; asked for only where somebody is to read them."""


@dataclass(frozen=True)
class Looked:
    """The looks of a quantifier that fails, nearest first: (its entities, what was compared)."""

    number: int
    is_more: bool
    type: str
    elements: tuple[tuple[tuple[EntityRef, ...], tuple[Seen, ...]], ...]


@dataclass
class Trail:
    """Comparisons, causes and reasons that an evaluation notes for its explanation."""

    seen: list[Seen] = field(default_factory=list)
    causes: set[Cause] = field(default_factory=set)
    undefined: list[Cause] = field(default_factory=list)


@dataclass
class EvalContext:
    """The world of one evaluation, and its trail where the evaluation is to be explained.

    The outcomes are the same with and without a trail.
    """

    before: View
    after: View
    answer: Mapping[str, Observed] | NoAnswer
    entity_sets: Mapping[tuple[str, str], EntitySet] = field(default_factory=dict)
    """(created | updated | …, type) → the entities of these deltas."""
    fields_of: Callable[[str], tuple[str, ...]] = lambda _t: ()
    """The fields of a type that the clause at hand reads, for scans."""
    trail: Trail | None = None
    """None: the outcomes alone are asked for."""
    walks: dict[Any, Any] = field(default_factory=dict)
    """Paths and indexes that the clauses of one judgement have in common."""
    now: str = ""
    """The side that `now` is, in clauses that are judged along the run."""
    moments: Mapping[str, View] = field(default_factory=dict)
    """The states between the two, by the name of their side."""
    ending: RunEnding | None = None
    """How the run ended; None where nobody knows."""
    timeline: Timeline | None = None
    """When it began and ended; None where nobody knows."""
    is_strict: bool = False
    """True where a value that the run wrote and nobody can read is undefined, and not unknown."""

    def strict(self) -> EvalContext:
        """The same world, in which that is undefined."""
        walks = self.walks.setdefault("strict", {})
        trail = None if self.trail is None else Trail()
        return replace(self, trail=trail, walks=walks, is_strict=True)

    def apart(self) -> EvalContext:
        """The same world; a trail, where there is one, is another."""
        return self if self.trail is None else replace(self, trail=Trail())

    @property
    def seen(self) -> tuple[Seen, ...]:
        """The comparisons noted so far."""
        return () if self.trail is None else tuple(self.trail.seen)

    @property
    def causes(self) -> frozenset[Cause]:
        """Why something is not known."""
        return frozenset() if self.trail is None else frozenset(self.trail.causes)

    @property
    def undefined(self) -> tuple[Cause, ...]:
        """Why something is undefined, the last reason last."""
        return () if self.trail is None else tuple(self.trail.undefined)

    @property
    def last_undefined(self) -> Cause:
        """The last reason; where no trail is left, that some condition is undefined."""
        return (self.undefined or (Reason.CONDITION_UNDEFINED(),))[-1]

    def mark(self) -> int:
        """How much was seen so far."""
        return 0 if self.trail is None else len(self.trail.seen)

    def forget(self, mark: int, end: int | None = None) -> None:
        """Forget the reads since the mark (and before `end`): they decide nothing."""
        if self.trail is not None:
            del self.trail.seen[mark:end]

    def waits_for(self, causes: Iterable[Cause]) -> None:
        """Something is not known because of these."""
        if self.trail is not None:
            self.trail.causes.update(causes)

    def undefined_by(self, reason: Cause) -> int:
        """UNDEFINED, and why."""
        if self.trail is not None:
            self.trail.undefined.append(reason)
        return UNDEFINED

    def view(self, side: str) -> View:
        if side in self.moments:
            return self.moments[side]
        return self.before if side == "before" else self.after


Env: TypeAlias = Mapping[str, Result]


@dataclass(frozen=True)
class Evaluator:
    """The two halves of the recursive definition that elements are evaluated by."""

    outcomes: Callable[[Node, EvalContext, Env], int]
    evaluate: Callable[[Node, EvalContext, Env], Result]


def crowd_of(source: Node, context: EvalContext, env: Env) -> EntitySet | None:
    """The entities that the expression names; None where it names no collection."""
    match source:
        case Entities(root="before" | "after" | "now" as root, entity=entity):
            return whole(context.now if root == "now" else root, entity, context)
        case Entities(root=root, entity=entity):
            return context.entity_sets.get((root, entity), EntitySet((), entity, "after"))
        case Variable(name=name) if isinstance(env.get(name), EntitySet):
            entity_set: EntitySet = env[name]
            return entity_set
    return None


def whole(side: str, entity: str, context: EvalContext) -> EntitySet:
    """All entities of the type on that side."""
    view = context.view(side)
    enumeration = view.enumeration(entity)
    fields = context.fields_of(entity)
    incomplete = (
        frozenset()
        if enumeration.is_complete
        else frozenset({not_enumerated(entity, side, enumeration)})
    )
    return EntitySet(
        lambda: (EntityRef(side, entity, key, row) for key, row in view.rows(entity, fields)),
        entity,
        side,
        incomplete,
    )


def not_enumerated(entity: str, side: str, enumeration: Enumeration) -> Cause:
    """Why there may be other entities of the type on that side."""
    why = enumeration.explanation or cause(enumeration.cause)
    return Reason.ON_SIDE(entity_type=entity, side=side, cause=why)
