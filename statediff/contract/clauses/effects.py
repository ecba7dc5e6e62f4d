"""`effects`: what holds for a kind of change, Λ: reversibility, authorization, undoing, retries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import Field

from statediff.contract.clauses.kind import (
    OPERATIONS,
    Binder,
    ClauseKind,
    JudgedAs,
    Path,
    plain_value,
)
from statediff.contract.language.english import condition, doing, operand, words
from statediff.contract.language.syntax import EntityT, Node, Read, Type, footprint
from statediff.contract.parts import Expression, Happening, Part, Reason, TypeName
from statediff.model.delta import Label, Op
from statediff.model.values import Value, printable

# ---------------------------------------------------------------- as written


class Compensation(Part):
    """The call that undoes one effect, and what it leaves behind."""

    tool: Annotated[
        str, Field(min_length=1, max_length=200, description="a tool that the sandbox offers")
    ]
    arguments: Annotated[
        dict[str, Any],
        Field(
            default_factory=dict,
            description="a mapping of arguments; `{is: EXPRESSION}` over `it` computes one",
        ),
    ]
    leaves: Annotated[
        tuple[TypeName, ...],
        Field(description="a list of types whose changes the undoing leaves behind"),
    ] = ()


class Effect(Part):
    """The rule of one kind of effect: reversibility, authorization, compensation, retry safety."""

    on: Happening
    reversibility: Literal["reversible", "conditional", "irreversible"] | None = None
    because: Annotated[
        Reason | None, Field(description="why the label is below what such a change has by default")
    ] = None
    authorized_by: Annotated[
        Expression | None,
        Field(description="an expression, as `any(a.order == it.order for a in before.approval)`"),
    ] = None
    actor: Annotated[
        Expression | None,
        Field(description="in whose name it is done: a condition over `it` that must hold, too"),
    ] = None
    tool: Annotated[
        str | None,
        Field(min_length=1, max_length=200, description="the tool whose call has such an effect"),
    ] = None
    compensation: Annotated[
        Annotated[str, Field(min_length=1, max_length=200)] | Compensation | None,
        Field(description="the tool that undoes it, or a mapping of tool, arguments and leaves"),
    ] = None
    retry_safe: bool | None = None


# ---------------------------------------------------------------- as bound


@dataclass(frozen=True, kw_only=True)
class Computed:
    """An argument that is computed from the effect."""

    node: Node


Argument: TypeAlias = "Value | Computed | tuple[Argument, ...] | Mapping[str, Argument]"


@dataclass(frozen=True, kw_only=True)
class Undoing:
    """The call that undoes an effect: its tool, its arguments, the types that it leaves changed."""

    tool: str
    arguments: Mapping[str, Argument]
    leaves: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class BoundEffect:
    """Λ for an operation on a type. `authorized_by` None means that no authorization is needed."""

    id: str
    operations: frozenset[Op]
    type: str
    label: Label | None
    authorized_by: Node | None
    text: str
    compensation: str | None
    is_retry_safe: bool | None
    sentence: str
    reads: frozenset[Read]
    actor: Node | None = None
    """In whose name it must be done; None: in any."""
    undoing: Undoing | None = None
    """The call that undoes it, where the contract says how it is made."""
    tool: str | None = None
    """The tool each of whose calls has one such effect; None: any that does not only read."""

    @property
    def is_judged_for_retries(self) -> bool:
        """True if a retried call must not have brought the effect about twice."""
        return self.is_retry_safe is False and bool(self.operations & {Op.CREATE, Op.LINK})

    @property
    def retry_id(self) -> str:
        """The clause that no retried call repeated the effect."""
        return self.id.replace("authorized-", "retried-", 1)


# ---------------------------------------------------------------- binding


def _bind(binder: Binder, written: tuple[Effect, ...]) -> Iterator[BoundEffect]:
    for index, raw in enumerate(written):
        bound = _effect(binder, ("effects", index), raw)
        if bound is not None:
            yield bound


def _effect(binder: Binder, path: Path, raw: Effect) -> BoundEffect | None:
    key, _, type_name = raw.on.partition(" ")
    name = f"authorized-{key}-{type_name}"
    if name in binder.ids:
        binder.problem((*path, "on"), f"there is already a clause `{name}`", "keep one of them")
    binder.ids[name] = path
    if raw.retry_safe is False:
        binder.ids[f"retried-{key}-{type_name}"] = path
    if binder.entity((*path, "on"), type_name) is None:
        return None
    variables: dict[str, Type] = {"it": EntityT(type_name), "new": EntityT(type_name)}
    node = binder.expression((*path, "authorized_by"), raw.authorized_by, variables)
    actor = binder.expression((*path, "actor"), raw.actor, variables)
    if (raw.authorized_by and node is None) or (raw.actor and actor is None):
        return None
    undoing, compensation = None, raw.compensation
    if isinstance(compensation, Compensation):
        undoing = _undoing(binder, (*path, "compensation"), variables, compensation)
        compensation = compensation.tool
    nodes = [n for n in (node, actor, *_computed(undoing)) if n is not None]
    return BoundEffect(
        id=name,
        operations=OPERATIONS[key],
        type=type_name,
        label=None if raw.reversibility is None else Label(raw.reversibility),
        authorized_by=node,
        text=raw.authorized_by or "",
        compensation=compensation,
        is_retry_safe=raw.retry_safe,
        sentence=_sentence(key, type_name, node, actor),
        reads=frozenset[Read]().union(*map(footprint, nodes)),
        actor=actor,
        undoing=undoing,
        tool=raw.tool,
    )


def _sentence(key: str, type_name: str, node: Node | None, actor: Node | None) -> str:
    own = f"the {type_name.replace('_', ' ')}"
    sentence = f"{doing(key, type_name)} needs an authorization"
    if node is not None:
        sentence += f": {condition(node, own)}"
    return sentence + ("." if actor is None else f"; in whose name: {operand(actor, own)}.")


def _undoing(
    binder: Binder, path: Path, variables: Mapping[str, Type], raw: Compensation
) -> Undoing:
    def bound(place: Path, value: Any) -> Argument | None:
        if isinstance(value, dict) and set(value) == {"is"} and isinstance(value["is"], str):
            node = binder.expression((*place, "is"), value["is"], variables, False)
            return None if node is None else Computed(node=node)
        if isinstance(value, dict):
            return {str(k): bound((*place, k), v) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return tuple(bound((*place, i), v) for i, v in enumerate(value))
        return plain_value(value)

    arguments = {k: bound((*path, "arguments", k), v) for k, v in raw.arguments.items()}
    for index, name in enumerate(raw.leaves):
        binder.entity((*path, "leaves", index), name)
    return Undoing(tool=raw.tool, arguments=arguments, leaves=raw.leaves)


def _computed(undoing: Undoing | None) -> Iterator[Node]:
    """The expressions of the arguments."""
    stack: list[Argument | None] = [] if undoing is None else [*undoing.arguments.values()]
    while stack:
        match stack.pop():
            case Computed(node=node):
                yield node
            case Mapping() as held:
                stack += held.values()
            case tuple() as held:
                stack += held
            case _:
                pass


# ---------------------------------------------------------------- the kind


def _describe(clause: BoundEffect) -> str:
    is_judged = clause.authorized_by is not None or clause.actor is not None
    parts = [clause.sentence] if is_judged else []
    key = clause.id.removeprefix("authorized-").partition("-")[0]
    subject = "It" if parts else doing(key, clause.type)
    if clause.label is not None:
        parts.append(f"{subject} counts as {clause.label.value}.")
    if clause.undoing is not None:
        left = ", ".join(map(words, clause.undoing.leaves))
        beside = f", which may leave changes of {left}" if left else ""
        tool = printable(clause.undoing.tool)
        parts.append(f"It is undone by a call of the tool {tool}{beside}.")
    elif clause.compensation is not None:
        parts.append(f"It is undone by “{words(clause.compensation)}”.")
    if clause.is_retry_safe is not None:
        parts.append(f"Doing it twice is {'harmless' if clause.is_retry_safe else 'not harmless'}.")
    return " ".join(parts) or clause.sentence


def _id_of(written: Mapping[str, Any]) -> str | None:
    on = written.get("on")
    return f"authorized-{on}".replace(" ", "-", 1) if isinstance(on, str) else written.get("id")


EFFECTS: Final = ClauseKind(
    name="effects",
    sections=("effects",),
    judged=JudgedAs.EFFECT,
    bind=_bind,
    keys=(
        "on",
        "reversibility",
        "because",
        "authorized_by",
        "actor",
        "tool",
        "compensation",
        "retry_safe",
    ),
    heading="Needs an authorization",
    describe=_describe,
    id_of=_id_of,
    can_fail=False,
    must_hold=False,
)
