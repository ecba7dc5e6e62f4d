"""What an evaluation may read and what it yields: outcomes, things in hand, the unknown.

The outcomes of a condition are a mask of TRUE, FALSE and UNDEFINED: every truth it can have over
all completions of what is unobserved. See `contract/evaluation/evaluate.py` for the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from statediff.contract.language.syntax import Call, Compare, FieldIs, Hop, Node, Reaches
from statediff.model.batches import Row
from statediff.model.explanation import Cause
from statediff.model.trace import NoAnswer
from statediff.model.values import Digested, Key, Observed
from statediff.model.view import View

TRUE: Final = 1
FALSE: Final = 2
UNDEFINED: Final = 4
MAX_STEPS: Final = 20_000_000
"""Evaluation steps one clause may take; beyond, the clause is UNKNOWN, never guessed."""


def either(may_be_undefined: bool) -> int:
    """The outcomes of what may be true or false."""
    return TRUE | FALSE | UNDEFINED if may_be_undefined else TRUE | FALSE


class TooCostly(Exception):
    """The clause needs more steps than one clause may take."""


@dataclass(frozen=True)
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
    """What tells it apart from others all the same."""


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
    """What was found of a path: the rows it takes first, each with the entity that it leads to.

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
    """Of a quantifier, what it looked at; asked for only where somebody is to read it."""


@dataclass(frozen=True)
class Looked:
    """What a quantifier that fails looked at, nearest first: (its entities, what was compared)."""

    number: int
    is_more: bool
    type: str
    elements: tuple[tuple[tuple[EntityRef, ...], tuple[Seen, ...]], ...]


@dataclass(frozen=True)
class Kept:
    """What an expression came to, what was seen on the way, and what it cost."""

    result: Result
    seen: tuple[Seen, ...]
    steps: int


@dataclass(frozen=True)
class Memory:
    """What expressions over one state before came to, in a run that touched these types."""

    touched: frozenset[str] = frozenset()
    kept: dict[tuple[int, bool], Kept] = field(default_factory=dict)
    """By the id of the node, and whether its steps were paid for already."""
    grounds: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    """Each node by its id, which it keeps, with what it stands on."""
    changed: Mapping[str, tuple[Key, ...]] = field(default_factory=dict)
    """Of touched types, the keys of all entities that may differ from the state before."""


@dataclass
class EvalContext:
    """What one evaluation may read. Mutable parts collect the explanation."""

    before: View
    after: View
    answer: Mapping[str, Observed] | NoAnswer
    entity_sets: Mapping[tuple[str, str], EntitySet] = field(default_factory=dict)
    """(created | updated | …, type) → the entities of these deltas."""
    fields_of: Callable[[str], tuple[str, ...]] = lambda _t: ()
    """The fields of a type that the clause at hand reads, for scans."""
    seen: list[Seen] = field(default_factory=list)
    causes: set[Cause] = field(default_factory=set)
    undefined: list[Cause] = field(default_factory=list)
    walks: dict[Any, Any] = field(default_factory=dict)
    """What `reaching` keeps of the states that clauses of one judgement walk through."""
    walked: set[Any] = field(default_factory=set)
    """What of it this evaluation has paid for."""
    steps: int = 0
    is_paid: bool = False
    """Set while the rows of a swept type are evaluated: they cost a step each, however read."""
    now: str = ""
    """The side that `now` is, in clauses that are judged along the run."""
    moments: Mapping[str, View] = field(default_factory=dict)
    """The states between the two, by the name of their side."""
    memory: Memory | None = None
    """What earlier judgements came to; None where each clause is to read for itself."""

    def view(self, side: str) -> View:
        if side in self.moments:
            return self.moments[side]
        return self.before if side == "before" else self.after

    def step(self) -> None:
        """One step more, unless what is evaluated was paid for by `charge`."""
        if not self.is_paid:
            self.steps += 1
            if self.steps > MAX_STEPS:
                raise TooCostly

    def charge(self, steps: int) -> None:
        """That many steps more; `TooCostly` where the clause has used up its own."""
        self.steps += steps
        if self.steps > MAX_STEPS:
            raise TooCostly


Env: TypeAlias = Mapping[str, Result]


@dataclass(frozen=True)
class Evaluator:
    """The two halves of the recursive definition that elements are evaluated by."""

    outcomes: Callable[[Node, EvalContext, Env], int]
    evaluate: Callable[[Node, EvalContext, Env], Result]


def note(result: Unknown, context: EvalContext) -> None:
    """Remembers why the value is not known."""
    context.causes.update(result.causes)
