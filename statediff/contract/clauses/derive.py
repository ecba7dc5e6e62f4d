"""`derive`: a field that the system keeps, typed once and read on either side of the run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Final, TypeVar

from pydantic import Field as Described

from statediff.contract.clauses.kind import Binder, ClauseKind, JudgedAs, Path
from statediff.contract.language.english import kind, operand, words
from statediff.contract.language.kinds import comparable, describe, type_of_field
from statediff.contract.language.syntax import (
    BOOL,
    UNWRITTEN,
    AnswerOf,
    Compare,
    Comprehension,
    Entities,
    EntityT,
    FieldOf,
    Follow,
    Lookup,
    Loop,
    Node,
    Read,
    RunOf,
    TreePart,
    Variable,
    footprint,
    walk,
)
from statediff.contract.language.written import text_of
from statediff.contract.parts import Expression, Identifier, Part, Reason
from statediff.model.boundary import RuleError, locate
from statediff.model.delta import Delta, Entity
from statediff.model.paths import Every, FieldPath, Selection, covers
from statediff.model.schema import EntityType, Field, Kind

_P = TypeVar("_P", bound=TreePart)

# ---------------------------------------------------------------- as written


class Derive(Part):
    """A field that the system itself keeps equal to an expression over the same state."""

    id: Identifier | None = None
    field: Annotated[str, Described(description="TYPE.FIELD, or TYPE.PATH inside one")]
    is_: Annotated[Expression, Described(alias="is")]
    because: Reason


# ---------------------------------------------------------------- as bound


@dataclass(frozen=True, kw_only=True)
class Derived:
    """A field that the system keeps equal to an expression: `after` and `before` compare the two.

    Both are `it.FIELD == EXPRESSION`, one over the state after the run, one over that before it.
    """

    id: str
    type: str
    field: str
    after: Compare
    before: Compare
    sentence: str
    reads: frozenset[Read]
    is_row_local: bool
    """True if the expression reads nothing but the entity's own fields."""
    ties: tuple[tuple[str, str], ...] | None = None
    """(type, field) of the rows that the expression ranges over, each for the entity it refers to.

    Every one is taken only where that field equals the entity's key. None: it reads others too.
    """

    steps: Selection = ()
    """The way inside the field to what the system keeps; none for all of it."""

    def keeps(self, delta: Delta) -> bool:
        """True if all that an update changed is what the system keeps."""
        sides = [side for side in (delta.before, delta.after) if not isinstance(side, Entity)]
        is_here = (delta.type, delta.path) == (self.type, self.field)
        return is_here and covers((self.steps,), delta.steps, *sides)


# ---------------------------------------------------------------- binding


def _bind(binder: Binder, written: tuple[Derive, ...]) -> Iterator[Derived]:
    for index, raw in enumerate(written):
        path: Path = ("derive", index)
        derived = _derived_field(binder, path, raw, binder.name(path, raw.id))
        if derived is not None:
            yield derived


def _derived_field(binder: Binder, path: Path, raw: Derive, name: str) -> Derived | None:
    found = _field(binder, path, raw.field)
    if found is None:
        return None
    entity, spec, inside = found
    node = binder.expression((*path, "is"), raw.is_, {"it": EntityT(entity.name)}, boolean=False)
    if node is None:
        return None
    kind = binder.scope.policy.kind_of(entity.name, spec.name) or spec.kind
    kind = Kind.ANY if inside.steps else kind
    held = type_of_field(kind, spec.reference)
    wrong = _not_of_one_state(node)
    if wrong is not None:
        hint = "write `it.FIELD` and `after.TYPE`; for the state before, statediff reads the same"
        binder.problem((*path, "is"), wrong, hint)
    elif kind is Kind.FLOAT:
        binder.problem(
            (*path, "field"),
            f"{raw.field} is a binary floating-point number, which equals nothing exactly",
            "canonicalize the field with decimal@1",
        )
    elif not comparable(held, node.type):
        binder.problem(
            (*path, "is"), f"{raw.field} is {describe(held)}, this is {describe(node.type)}"
        )
    else:
        return _bound(binder, entity, inside, raw, name, node)
    return None


def _bound(
    binder: Binder, entity: EntityType, path: FieldPath, raw: Derive, name: str, node: Node
) -> Derived:
    own = f"the {entity.name.replace('_', ' ')}"
    spec = entity.by_name.get(path.field)
    of_each = f"{words(str(path))} of each {kind(entity.name)}"
    sentence = f"{of_each} = {operand(node, own)} (kept by the system)."
    local = not any(isinstance(part, (Entities, Follow)) for part in walk(node))
    node = binder.through_rules(node, entity.name, path)
    it = Variable(EntityT(entity.name), UNWRITTEN, "it")
    is_nullable = bool(path.steps) or spec is None or spec.is_nullable
    field = FieldOf(node.type, UNWRITTEN, it, entity.name, path.field, is_nullable, path.place)
    after = Compare(BOOL, UNWRITTEN, "==", field, node, f"it.{path} == {raw.is_}")
    before = on_side(after, "before")
    reads = footprint(after) | footprint(before) | {Read("delta", entity.name, path.field)}
    ties = _ties(node, entity, binder)
    return Derived(
        id=name,
        type=entity.name,
        field=path.field,
        steps=path.steps,
        after=after,
        before=before,
        sentence=sentence,
        reads=reads,
        is_row_local=local,
        ties=ties,
    )


def _ties(node: Node, entity: EntityType, binder: Binder) -> tuple[tuple[str, str], ...] | None:
    """How every range of the expression is tied to the entity, as `Derived.ties` has it."""
    parts = list(walk(node))
    loops = [loop for part in parts if isinstance(part, Comprehension) for loop in part.loops]
    ranged = [loop for loop in loops if isinstance(loop.source, Entities)]
    everything = [part for part in parts if isinstance(part, Entities)]
    if len(ranged) != len(everything) or any(isinstance(p, Follow | Lookup) for p in parts):
        return None
    ties: list[tuple[str, str]] = []
    for loop in ranged:
        tie = _tie(loop, entity, binder)
        if tie is None:
            return None
        ties.append(tie)
    return tuple(ties)


def _tie(loop: Loop, entity: EntityType, binder: Binder) -> tuple[str, str] | None:
    """(type, field) where the first thing the loop asks is whether the field is the entity's key.

    Asked first, it decides of all other rows, whatever is undefined or unknown about them.
    """
    match loop.conditions:
        case (Compare(op="==", left=FieldOf() as left, right=FieldOf() as right), *_):
            pass
        case _:
            return None
    for one, own in ((left, right), (right, left)):
        if one.part or own.part or entity.key != (own.field,):
            continue
        if (_variable(one), _variable(own)) != (loop.name, "it"):
            continue
        keyless = binder.scope.schema.by_name[one.entity_type].is_keyless
        ruled = binder.scope.policy.literal(one.entity_type, one.field, one.part) is not None
        return None if keyless or ruled else (one.entity_type, one.field)
    return None


def _variable(field: FieldOf) -> str | None:
    return field.entity.name if isinstance(field.entity, Variable) else None


def _field(binder: Binder, path: Path, named: str) -> tuple[EntityType, Field, FieldPath] | None:
    """The type, its field and the one place in it that the system keeps."""
    at: Path = (*path, "field")
    try:
        entity, spec, steps = locate(binder.scope.schema, named, 0)
    except RuleError as error:
        binder.problem(at, error.message, "" if "." in named else "write TYPE.FIELD")
        return None
    if spec is None:
        binder.problem(at, f"{named} is a type", "write TYPE.FIELD")
        return None
    inside = FieldPath(spec.name, steps)
    rule = binder.scope.policy.excluded(entity.name, spec.name)
    wrong = binder.misread(entity, inside, is_whole=True)
    if entity.is_keyless:
        binder.problem(
            at, f"{entity.name} has no key, so none of its rows has a value before and after"
        )
    elif spec.name in entity.key:
        binder.problem(at, f"{named} is part of a key; a key is never derived")
    elif rule is not None:
        binder.problem(at, f"{named} lies outside the boundary ({rule})", code="boundary")
    elif wrong is not None:
        binder.problem(at, *wrong, code="path")
    elif any(isinstance(step, Every) for step in steps):
        binder.problem(at, f"{named} selects several places", "derive one place", code="path")
    else:
        return entity, spec, inside
    return None


def _not_of_one_state(node: Node) -> str | None:
    for part in walk(node):
        if isinstance(part, Entities) and part.root != "after":
            return f"`{part.root}.{part.entity}`: a derived field is a function of one state"
        if isinstance(part, AnswerOf | RunOf):
            return f"`{text_of(part)}`: a derived field is a function of one state"
    return None


def on_side(part: _P, side: str) -> _P:
    """The same expression with its whole types read on the other side of the run."""
    if isinstance(part, Entities):
        return replace(part, root=side)
    changed: dict[str, Any] = {}
    for spec in fields(part):  # type: ignore[arg-type]  # every part is a dataclass
        value = getattr(part, spec.name)
        if isinstance(value, TreePart):
            changed[spec.name] = on_side(value, side)
        elif isinstance(value, tuple):
            changed[spec.name] = tuple(
                on_side(item, side) if isinstance(item, TreePart) else item for item in value
            )
    return replace(part, **changed)  # type: ignore[type-var]


DERIVE: Final = ClauseKind(
    name="derive",
    sections=("derive",),
    judged=JudgedAs.DERIVED,
    bind=_bind,
    keys=("id", "field", "is"),
    heading="Kept by the system",
    attributes={"after": "is", "before": "is"},
    can_fail=False,
    must_hold=False,
)
