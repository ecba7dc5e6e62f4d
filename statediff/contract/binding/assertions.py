"""Steps, actions and turns bound to a state schema: what the judging stage evaluates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from statediff.contract.language.syntax import Node, Read
from statediff.model.delta import Op
from statediff.model.trace import ActionClass


@dataclass(frozen=True)
class Asserted:
    """What every assertion about the run has."""

    id: str
    sentence: str
    reads: frozenset[Read]


@dataclass(frozen=True)
class Always(Asserted):
    """A condition over `now` in every state of the run, the ends included."""

    node: Node
    text: str


@dataclass(frozen=True)
class AtCalls(Asserted):
    """A condition at every call of a tool, of a class, or both."""

    tool: str | None
    action_class: ActionClass | None
    node: Node
    text: str


@dataclass(frozen=True)
class AfterCalls(Asserted):
    """A condition over the state that each call left."""

    node: Node
    text: str


@dataclass(frozen=True)
class Happens:
    """A kind of effect on the world."""

    operations: frozenset[Op]
    type: str


@dataclass(frozen=True)
class Order(Asserted):
    """No `then` unless a `first` came before it, or with it in one commit."""

    first: Happens
    then: Happens


@dataclass(frozen=True)
class Occurrence(Asserted):
    """How many calls satisfy a condition; `high` None means unbounded."""

    node: Node
    low: int
    high: int | None


@dataclass(frozen=True)
class Permission(Asserted):
    """The calls that are allowed, or (with `forbids`) the calls that are not.

    `excepted` are tools allowed by name, of which a forbidden class need not be known.
    """

    forbids: bool
    classes: frozenset[ActionClass]
    tools: frozenset[str]
    excepted: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Attempts(Asserted):
    """Within how many attempts a call that failed must have succeeded."""

    most: int


@dataclass(frozen=True)
class Gate(Asserted):
    """One turn, by its number from 1, with the (condition, text) pairs that hold after it."""

    number: int
    of: int
    """How many turns the contract has."""
    message: str
    conditions: tuple[tuple[Node, str], ...]


Step: TypeAlias = Always | AtCalls | AfterCalls | Order | Occurrence
ActionRule: TypeAlias = Permission | Attempts
