"""`forbid`, `require` and `allow`: patterns over deltas, or expressions over the states.

The three share their keys, their bound forms and their binding. A kind of another name whose
clauses are bound to a `Pattern` or a `Condition` needs no judging of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import Field as Described
from pydantic import ValidationInfo, field_validator, model_validator

from statediff.contract.clauses.kind import (
    OPERATIONS,
    RELATIONS,
    Binder,
    ClauseKind,
    JudgedAs,
    Path,
    plain_value,
)
from statediff.contract.language.english import (
    condition,
    operand,
    pattern_sentence,
    together,
    words,
)
from statediff.contract.language.kinds import suggest, type_of
from statediff.contract.language.syntax import (
    UNWRITTEN,
    CollectionT,
    Const,
    EntityT,
    Node,
    Read,
    Type,
    Variable,
    footprint,
    walk,
)
from statediff.contract.parts import Count, Expression, Identifier, Part, Reason, TypeNames
from statediff.model.delta import Op
from statediff.model.json_values import canonical_json
from statediff.model.paths import (
    FieldPath,
    PathError,
    Selection,
    Steps,
    covers,
    parse_or_none,
    places_inside,
    touches,
)
from statediff.model.paths import parse as parse_path
from statediff.model.schema import EntityType
from statediff.model.values import Observed
from statediff.model.verdict import Stage

# ---------------------------------------------------------------- as written


class Clause(Part):
    """A pattern over deltas, or (with `that` alone) an expression over the states."""

    id: Identifier | None = None
    create: TypeNames | None = None
    update: TypeNames | None = None
    delete: TypeNames | None = None
    link: TypeNames | None = None
    unlink: TypeNames | None = None
    any: TypeNames | None = None
    where: Expression | None = None
    set: Annotated[
        dict[str, Any] | None, Described(description="a mapping of fields to their values after")
    ] = None
    from_: Annotated[
        dict[str, Any] | None,
        Described(alias="from", description="a mapping of fields to their values before"),
    ] = None
    fields: Annotated[tuple[str, ...] | None, Described(description="a list of field names")] = None
    count: Annotated[
        Annotated[int, Described(ge=0)] | Literal["every"] | Count | None,
        Described(description="a whole number of at least 0, `every`, or a mapping of min and max"),
    ] = None
    that: Expression | None = None
    by: Literal["agent", "user", "system"] | None = None
    during: Literal["run"] | None = None
    because: Reason | None = None

    @property
    def operation(self) -> str | None:
        return next((op for op in OPERATIONS if getattr(self, op) is not None), None)

    @property
    def types(self) -> tuple[str, ...]:
        named = getattr(self, self.operation) if self.operation else ()
        return (named,) if isinstance(named, str) else tuple(named)

    @field_validator("fields")
    @classmethod
    def _some_field(
        cls, fields: tuple[str, ...] | None, info: ValidationInfo
    ) -> tuple[str, ...] | None:
        # A guard that can never fire would pass every run.
        if fields == () and info.data.get("update") is not None:
            raise ValueError(
                "`fields` is empty, so no `update` is ever selected; name a field, or leave it out"
            )
        return fields

    @model_validator(mode="after")
    def _one_operation(self) -> Clause:
        named = [op for op in OPERATIONS if getattr(self, op) is not None]
        if len(named) > 1:
            raise ValueError(f"names both {named[0]} and {named[1]}; a clause has one operation")
        if not named and self.that is None:
            raise ValueError(f"needs one of {', '.join(OPERATIONS)}, or `that` with an expression")
        if not named:
            for key in ("where", "set", "from_", "fields", "count", "by"):
                if getattr(self, key) is not None:
                    raise ValueError(f"`{key.rstrip('_')}` needs an operation such as `update:`")
        return self


Clauses = tuple[Clause, ...]


# ---------------------------------------------------------------- as bound


class Pin(NamedTuple):
    """A value that an entity must have: `from` before the run, `set` after it."""

    key: Literal["from", "set"]
    path: FieldPath
    node: Node


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """The expressions of a pattern, each by the type that it is bound to."""

    where: Mapping[str, Node | None]
    that: Mapping[str, Node | None]
    pins: Mapping[str, tuple[Pin, ...]]

    def nodes(self) -> Iterator[Node]:
        """All of them."""
        yield from (node for node in (*self.where.values(), *self.that.values()) if node)
        yield from (pin.node for pins in self.pins.values() for pin in pins)


@dataclass(frozen=True, kw_only=True)
class Pattern(Conditions):
    """A clause over deltas.

    `fields` are the selected fields, None for all; `places` are the places inside them. `high` None
    means unbounded.
    """

    id: str
    section: Stage | None
    """FORBID, REQUIRE, or None for an allow clause, which explains and never fails by itself."""
    operations: frozenset[Op]
    types: tuple[str, ...]
    fields: tuple[str, ...] | None
    low: int
    high: int | None
    is_every: bool
    by: str | None
    during_run: bool
    sentence: str
    reads: frozenset[Read]
    relation: str | None = None
    """For `link: TYPE.field`, or `unlink`: the operation and the to-one reference.

    Where such a `link` or `unlink` is forbidden, it is a fact about the two states: somebody holds
    what they did not hold before, or no longer holds what they held, however that came about.
    """
    names_fields: bool = False
    """True if `fields:` was written out (then it also bounds what a create may fill in)."""
    places: tuple[tuple[str, Selection], ...] = ()
    """(field, what is selected inside it); a field that is not here is selected as a whole."""
    removed: tuple[tuple[str, Selection], ...] = ()
    """The selections that Ω or ν removes inside the selected fields: they come and go with the
    fields.
    """

    @cached_property
    def speaks_of_each(self) -> bool:
        """True if `that` is about each matched entity (`it`, `new`), not about all of them."""
        return any(
            isinstance(part, Variable) and part.name in ("it", "new")
            for node in self.that.values()
            if node is not None
            for part in walk(node)
        )

    @cached_property
    def forbidden_relation(self) -> tuple[str, str] | None:
        """(`link` or `unlink`, the reference) where the clause forbids such a fact."""
        kind, _, field = (self.relation or "").partition(":")
        is_fact = self.section is Stage.FORBID and kind in ("link", "unlink")
        return (kind, field) if is_fact else None

    @cached_property
    def whole(self) -> frozenset[str]:
        """The named fields that are selected with all that is in them."""
        return frozenset(self.fields or ()) - {name for name, _ in self.places}

    def selects(self, field: str, steps: Steps, *sides: Observed) -> bool:
        """True if all that is at the place, on each side, is selected."""
        if self.fields is None or field in self.whole:
            return True
        inside = [part for name, part in (*self.places, *self.removed) if name == field]
        return field in self.fields and covers(inside, steps, *sides)

    def touches(self, field: str, steps: Steps, before: Observed, after: Observed) -> bool:
        """True if something selected changed with the place."""
        if self.fields is None or field in self.whole:
            return True
        inside = [part for name, part in self.places if name == field]
        return field in self.fields and touches(inside, steps, before, after)


@dataclass(frozen=True)
class Condition:
    """A clause that is one expression over the states or the answer."""

    id: str
    section: Stage
    node: Node
    text: str
    sentence: str
    reads: frozenset[Read]
    during_run: bool = False


# ---------------------------------------------------------------- binding


def bind_clauses(
    binder: Binder, at: Path, stage: Stage | None, clauses: Clauses, within: str = ""
) -> Iterator[Pattern | Condition]:
    """The clauses of a list that can be bound; `within` stands before the ids of a branch's."""
    for index, clause in enumerate(clauses):
        path: Path = (*at, index)
        name = binder.name(path, clause.id, within)
        if clause.operation is not None:
            bound: Pattern | Condition | None
            bound = PatternBinder(binder, path, stage, clause).pattern(name)
        elif stage is None:
            binder.problem(path, "an allow clause names an operation and a type")
            continue
        else:
            during_run = clause.during == "run"
            bound = bind_condition(
                binder, name, stage, (*path, "that"), clause.that or "", during_run
            )
        if bound is not None:
            yield bound


def bind_patterns(
    binder: Binder, at: Path, clauses: Clauses, within: str = ""
) -> tuple[Pattern, ...]:
    """The patterns of a list of allow clauses."""
    bound = bind_clauses(binder, at, None, clauses, within)
    return tuple(clause for clause in bound if isinstance(clause, Pattern))


def bind_condition(
    binder: Binder, name: str, stage: Stage, path: Path, text: str, during_run: bool = False
) -> Condition | None:
    """The clause that is one expression; None with its problem noted."""
    node = binder.expression(path, text, {})
    if node is None:
        return None
    sentence = condition(node)
    if stage is Stage.FORBID:
        sentence = f"It must not be that {sentence}"
    elif stage is Stage.ANSWER:
        sentence = f"The answer is true: {sentence}"
    else:
        sentence = sentence[:1].upper() + sentence[1:]
    if during_run:
        sentence += ", at any moment of the run"
    return Condition(name, stage, node, text, sentence + ".", footprint(node), during_run)


def _sentence(found: Conditions, type_name: str, own: str) -> str:
    """The words that select the changes of a type, in English."""
    where = found.where[type_name]
    parts = [] if where is None else [condition(where, own)]
    for key, path, node in found.pins[type_name]:
        verb = "was" if key == "from" else "becomes"
        parts.append(f"its {words(str(path))} {verb} {operand(node, own)}")
    return together(parts)


@dataclass(frozen=True)
class PatternBinder:
    """Binds one pattern with the scope, and into the problems, of `binder`."""

    binder: Binder
    path: Path
    stage: Stage | None
    clause: Clause

    def pattern(self, name: str) -> Pattern | None:
        """The bound pattern; None with its problems noted."""
        binder, clause = self.binder, self.clause
        key = str(clause.operation)
        before = len(binder.problems)
        entities, relation = binder.types(self.path, key, clause.types)
        if len(binder.problems) > before:
            return None
        paths = self._paths(entities, relation)
        fields = None if paths is None else tuple(dict.fromkeys(path.field for path in paths))
        conditions = self._conditions(entities)
        if clause.set is not None and key == "delete":
            self._problem(("set",), "a deleted entity has no new values", "write `from:`")
        if clause.from_ is not None and key == "create":
            self._problem(("from",), "a created entity has no old values", "write `set:`")
        low, high, every = self._count()
        if len(binder.problems) > before:
            return None
        reads = {Read("delta", e.name, f) for e in entities for f in (fields or ("",))}
        sentence = self._sentence(entities, relation, conditions, (low, high, every))
        return Pattern(
            id=name,
            section=self.stage,
            operations=self._operations(key, relation),
            types=tuple(e.name for e in entities),
            where=conditions.where,
            pins=conditions.pins,
            fields=fields,
            low=low,
            high=high,
            is_every=every,
            that=conditions.that,
            by=clause.by,
            during_run=clause.during == "run",
            sentence=sentence,
            reads=frozenset(reads).union(
                self._presences(entities, key, relation),
                *(footprint(node) for node in conditions.nodes()),
            ),
            relation=f"{key}:{relation}" if relation else None,
            names_fields=clause.fields is not None,
            places=places_inside(paths or ()),
            removed=tuple(
                (field, steps)
                for field in dict.fromkeys(fields or ())
                for entity in entities
                for steps in binder.scope.policy.removed(entity.name, field)
            ),
        )

    def _operations(self, key: str, relation: str | None) -> frozenset[Op]:
        """The operations that it selects; a forbidden relation comes and goes with rows, too."""
        if relation is None:
            return OPERATIONS[key]
        rows = {"link": OPERATIONS["create"], "unlink": OPERATIONS["delete"]}
        is_forbidden = self.stage is Stage.FORBID
        return OPERATIONS["update"] | (rows.get(key, frozenset()) if is_forbidden else frozenset())

    def _presences(
        self, entities: tuple[EntityType, ...], key: str, relation: str | None
    ) -> Iterator[Read]:
        """Reads of a forbidden relation: who names a target, and that the target is there."""
        if relation is None or self.stage is not Stage.FORBID:
            return
        for entity in entities:
            target = entity.by_name[relation].reference
            for side in ("before", "after"):
                yield Read(side, entity.name, relation)
                yield from [Read(side, target, "")] if target else []

    def _problem(self, below: Path, message: str, hint: str = "", code: str = "contract") -> None:
        self.binder.problem((*self.path, *below), message, hint, code=code)

    def _sentence(
        self,
        entities: tuple[EntityType, ...],
        relation: str | None,
        conditions: Conditions,
        count: tuple[int, int | None, bool],
    ) -> str:
        clause, first = self.clause, entities[0].name
        own, that = f"the {first.replace('_', ' ')}", conditions.that[first]
        sentence = pattern_sentence(
            "allow" if self.stage is None else self.stage.value,
            str(clause.operation),
            tuple(e.name for e in entities),
            count,
            where=_sentence(conditions, first, own),
            fields=clause.fields,
            that="" if that is None else condition(that, own),
            relation=relation,
        )
        if clause.during != "run":
            return sentence
        is_required = self.stage is Stage.REQUIRE
        more = "and never more than that" if is_required else "at any moment of the run"
        return f"{sentence.removesuffix('.')}, {more}."

    def _conditions(self, entities: tuple[EntityType, ...]) -> Conditions:
        clause = self.clause
        where, that, pins = dict[str, Node | None](), dict[str, Node | None](), {}
        for entity in entities:
            name = entity.name
            variables: dict[str, Type] = {"it": EntityT(name)}
            if clause.operation in ("update", "any", *RELATIONS):
                variables["new"] = EntityT(name)
            wider = dict(variables)
            if len(entities) == 1:
                wider["them"] = CollectionT(name)
            at = self.path
            where[name] = self.binder.expression((*at, "where"), clause.where, variables)
            that[name] = self.binder.expression((*at, "that"), clause.that, wider)
            pins[name] = (
                *self._pins("from", clause.from_, entity, variables),
                *self._pins("set", clause.set, entity, variables),
            )
        return Conditions(where=where, that=that, pins=pins)

    def _paths(
        self, entities: tuple[EntityType, ...], relation: str | None
    ) -> tuple[FieldPath, ...] | None:
        """The paths that the clause selects; None for all of an entity."""
        if relation is not None:
            return (FieldPath(relation),)
        clause = self.clause
        if clause.fields is not None:
            found = (
                self._path(("fields", index), entity, name)
                for index, name in enumerate(clause.fields)
                for entity in entities
            )
        elif clause.operation in ("update", "any") and (clause.set or clause.from_):
            # They are checked where their values are.
            named = (*(clause.set or ()), *(clause.from_ or ()))
            found = (
                parse_or_none(name, entity.by_name, entity.late)
                for name in named
                for entity in entities
            )
        else:
            return None
        return tuple(dict.fromkeys(path for path in found if path is not None))

    def _path(self, below: Path, entity: EntityType, text: str) -> FieldPath | None:
        """The path that the text writes over the fields of the type; None with a problem."""
        try:
            found = parse_path(text, entity.by_name, entity.late)
        except PathError as error:
            self._problem(below, str(error), code="path")
            return None
        if not self._check_field(below, entity, found.field):
            return None
        wrong = self.binder.misread(entity, found, is_whole=below[0] != "fields")
        if wrong is not None:
            self._problem(below, *wrong, code="path")
        return found if wrong is None else None

    def _check_field(self, below: Path, entity: EntityType, name: str) -> bool:
        """True if the type has the field, inside the boundary."""
        if name not in entity.by_name and not entity.is_open:
            message = f"{entity.name} has no field `{name}`"
            self._problem(below, message, suggest(name, entity.by_name), code="unknown-name")
            return False
        rule = self.binder.scope.policy.excluded(entity.name, name)
        if rule is not None and (name in entity.by_name or below[0] != "fields"):
            message = f"{entity.name}.{name} lies outside the boundary ({rule})"
            self._problem(below, message, code="boundary")
            return False
        return True

    def _pins(
        self,
        key: Literal["from", "set"],
        raw: Mapping[str, Any] | None,
        entity: EntityType,
        variables: Mapping[str, Type],
    ) -> Iterator[Pin]:
        for name, value in (raw or {}).items():
            path = self._path((key, name), entity, name)
            node = None if path is None else self._written((key, name), value, variables)
            if path is None or node is None:
                continue
            if path.steps:
                node = self._inside((key, name), entity, path, node)
            else:
                at = (*self.path, key, name)
                node = self.binder.field_value(at, entity, path.field, node)
            if node is not None:
                yield Pin(key, path, node)

    def _written(self, below: Path, value: Any, variables: Mapping[str, Type]) -> Node | None:
        """A value as it is written, or the expression that computes it."""
        if isinstance(value, dict) and set(value) == {"is"} and isinstance(value["is"], str):
            place = (*self.path, *below, "is")
            return self.binder.expression(place, value["is"], variables, False)
        plain = plain_value(value)
        return Const(type_of(plain), UNWRITTEN, plain)

    def _inside(self, below: Path, entity: EntityType, path: FieldPath, node: Node) -> Node | None:
        """The value that one place inside a value must equal."""
        try:
            _ = path.place
        except PathError as error:
            self._problem(below, f"{error}; a value belongs to one place", code="path")
            return None
        if isinstance(node, Const):
            node = replace(node, value=canonical_json(node.value))
        return self.binder.through_rules(node, entity.name, path)

    def _count(self) -> tuple[int, int | None, bool]:
        """The least number, the most, and whether it is `every`."""
        stage = self.stage
        match self.clause.count:
            case "every":
                operation = self.clause.operation
                if stage is not Stage.REQUIRE or operation not in ("update", "delete"):
                    self._problem(("count",), "`every` is for required updates and deletions")
                return 0, None, True
            case Count(min=low, max=high):
                if stage is Stage.FORBID and high is not None:
                    self._problem(
                        ("count",),
                        "a forbidden change stays one when there are more of them",
                        "give the least number that is forbidden, `min`",
                    )
                if stage is None and low > 0:
                    self._problem(
                        ("count",),
                        "what is only allowed need not happen, so it has no `min`",
                        "write a require clause",
                    )
                return low, high, False
            case int() as n:
                if n == 0 and stage is Stage.FORBID:
                    self._problem(("count",), "count is not 0 here")
                if stage is None:
                    return 0, n, False
                return n, n if stage is not Stage.FORBID else None, False
            case _:
                pass
        if stage is Stage.REQUIRE:
            return 1, 1, False
        return (1 if stage is Stage.FORBID else 0), None, False


# ---------------------------------------------------------------- the kinds


def _bind(
    section: str, stage: Stage | None, binder: Binder, clauses: Clauses
) -> Iterable[Pattern | Condition]:
    return bind_clauses(binder, (section,), stage, clauses)


def _kind(section: str, stage: Stage | None, judged: JudgedAs, heading: str) -> ClauseKind:
    operations = ("create", "update", "delete", *RELATIONS, "any")
    which = ("by", "where", "from", "set", "fields")
    counted = ("count", "min", "max", "that", "during")
    return ClauseKind(
        name=section,
        sections=(section,),
        judged=judged,
        bind=partial(_bind, section, stage),
        keys=("id", *operations, *which, *counted),
        heading=heading,
        listed=(section,),
        attributes={"node": "that"},
        can_fail=stage is not None,
        must_hold=stage is Stage.REQUIRE,
    )


FORBID: Final = _kind("forbid", Stage.FORBID, JudgedAs.FORBIDDEN, "Forbidden")
REQUIRE: Final = _kind("require", Stage.REQUIRE, JudgedAs.REQUIRED, "Required")
ALLOW: Final = _kind("allow", None, JudgedAs.ALLOWED, "Everything else")
