"""Binding a pattern: its types, fields, literals, counts and expressions over a state schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final, TypeAlias

from statediff.contract.binding.bound import Pattern
from statediff.contract.document.contract import Clause
from statediff.contract.document.parts import Count
from statediff.contract.language.english import PatternWords, pattern_sentence, phrase
from statediff.contract.language.kinds import comparable, describe, suggest, type_of, type_of_field
from statediff.contract.language.parser import ExpressionError, Scope, parse
from statediff.contract.language.syntax import (
    UNWRITTEN,
    Canonical,
    CollectionT,
    Const,
    EntityT,
    Node,
    Read,
    Type,
    footprint,
)
from statediff.errors import Problem
from statediff.model.delta import Op
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.values import Map, Observed, Value
from statediff.model.verdict import Stage

Path: TypeAlias = tuple[str | int, ...]
Locate: TypeAlias = Callable[[Path, int], tuple[str, int, int]]
"""(path in the document, character of the scalar) → (file, line, column)."""

MAX_KNOWN: Final = 200
"""Characters of the known names that the hint for an unknown one shows."""

OPERATIONS: Final[dict[str, frozenset[Op]]] = {
    "create": frozenset({Op.CREATE, Op.LINK}),
    "update": frozenset({Op.UPDATE}),
    "delete": frozenset({Op.DELETE, Op.UNLINK}),
    "link": frozenset({Op.LINK}),
    "unlink": frozenset({Op.UNLINK}),
    "any": frozenset(Op),
}


@dataclass(frozen=True)
class Policy:
    """What stage 3 and Ω tell the binder about fields; the contract layer knows neither."""

    literal: Callable[[str, str], Callable[[Value], Observed] | None] = lambda _t, _f: None
    kind_of: Callable[[str, str], Kind | None] = lambda _t, _f: None
    excluded: Callable[[str, str], str | None] = lambda _t, _f: None


def plain_value(raw: Any) -> Value:
    """A value of a document (input or literal) as a value of the model."""
    match raw:
        case list() | tuple():
            return tuple(plain_value(item) for item in raw)
        case dict():
            return Map.of({str(k): plain_value(v) for k, v in raw.items()})
        case None | bool() | int() | Decimal() | str():
            return raw
        case _:
            pass
    raise ValueError(f"not a plain value: {type(raw).__name__}")


@dataclass
class PatternBinder:
    """Binds patterns over one schema and collects the problems it meets."""

    schema: Schema
    policy: Policy
    locate: Locate
    scope: Scope
    problems: list[Problem]

    def problem(
        self, path: Path, message: str, hint: str = "", offset: int = 0, code: str = "contract"
    ) -> None:
        file, line, column = self.locate(path, offset)
        self.problems.append(Problem(file, line, column, message, code, hint))

    def expression(
        self, path: Path, text: str, variables: Mapping[str, Type], boolean: bool = True
    ) -> Node | None:
        try:
            return parse(text, replace(self.scope, variables=variables), boolean=boolean)
        except ExpressionError as error:
            self.problem(path, str(error), error.hint, error.offset, error.code)
            return None

    def types(
        self, path: Path, key: str, names: tuple[str, ...]
    ) -> tuple[tuple[EntityType, ...], str | None]:
        """The entity types; for `link: TYPE.field` also the relation."""
        found: list[EntityType] = []
        relation: str | None = None
        for name in names:
            if name in self.schema.by_name:
                rule = self.policy.excluded(name, "")
                if rule is not None:
                    self.problem(
                        (*path, key),
                        f"{name} lies outside the boundary ({rule})",
                        "drop the exclusion or the clause",
                        code="boundary",
                    )
                found.append(self.schema.by_name[name])
                continue
            holder, _, member = name.rpartition(".")
            if key in ("link", "unlink") and holder in self.schema.by_name:
                spec = self.schema.by_name[holder].by_name.get(member)
                if spec is not None and spec.reference is not None and len(names) > 1:
                    self.problem(
                        (*path, key),
                        f"`{name}` is a reference; a clause over one names nothing else",
                        "write a clause for each",
                    )
                if spec is not None and spec.reference is not None:
                    found.append(self.schema.by_name[holder])
                    relation = member
                    continue
            self.problem(
                (*path, key),
                f"unknown entity type `{name}`",
                suggest(name, self.schema.by_name)
                or "known: "
                + ", ".join(t for t in self.schema.by_name if not t.startswith("db."))[:MAX_KNOWN],
                code="unknown-name",
            )
        if key in ("link", "unlink") and relation is None:
            for entity in found:
                if not entity.is_association:
                    self.problem(
                        (*path, key),
                        f"{entity.name} is not an association",
                        f"write `{'create' if key == 'link' else 'delete'}: "
                        f"{entity.name}` or name a reference, `{entity.name}.field`",
                    )
        return tuple(found), relation

    def pattern(self, name: str, stage: Stage | None, path: Path, clause: Clause) -> Pattern | None:
        key = str(clause.operation)
        before = len(self.problems)
        entities, relation = self.types(path, key, clause.types)
        if len(self.problems) > before:
            return None
        fields = self.fields(path, key, clause, entities, relation)
        where: dict[str, Node | None] = {}
        that: dict[str, Node | None] = {}
        sets: dict[str, tuple[tuple[str, Node], ...]] = {}
        froms: dict[str, tuple[tuple[str, Node], ...]] = {}
        for entity in entities:
            variables: dict[str, Type] = {"it": EntityT(entity.name)}
            if key in ("update", "any", "link", "unlink"):
                variables["new"] = EntityT(entity.name)
            where[entity.name] = (
                None
                if clause.where is None
                else self.expression((*path, "where"), clause.where, variables)
            )
            wider = dict(variables)
            if len(entities) == 1:
                wider["them"] = CollectionT(entity.name)
            that[entity.name] = (
                None
                if clause.that is None
                else self.expression((*path, "that"), clause.that, wider)
            )
            sets[entity.name] = self.values(path, "set", clause.set, entity, variables)
            froms[entity.name] = self.values(path, "from", clause.from_, entity, variables)
        if clause.set is not None and key == "delete":
            self.problem((*path, "set"), "a deleted entity has no new values", "write `from:`")
        if clause.from_ is not None and key == "create":
            self.problem((*path, "from"), "a created entity has no old values", "write `set:`")
        low, high, every = self.count(path, stage, clause)
        cascade = self.cascade(path, stage, clause, entities)
        if len(self.problems) > before:
            return None
        reads = {Read("delta", e.name, f) for e in entities for f in (fields or ("",))}
        for node in (
            *where.values(),
            *that.values(),
            *(n for pairs in (*sets.values(), *froms.values()) for _, n in pairs),
        ):
            if node is not None:
                reads |= footprint(node)
        own = f"the {entities[0].name.replace('_', ' ')}"
        first = entities[0].name
        section = {Stage.FORBID: "forbid", Stage.REQUIRE: "require"}.get(
            stage or Stage.FRAME, "allow"
        )
        first_that = that[first]
        sentence = pattern_sentence(
            PatternWords(
                section=section,
                operation="update" if relation else key,
                types=tuple(e.name for e in entities),
                where=_conditions(where[first], sets[first], froms[first], own),
                fields=(relation,) if relation else clause.fields,
                low=low,
                high=high,
                is_every=every,
                that="" if first_that is None else phrase(first_that, own),
                cascade=cascade,
            )
        )
        if clause.during == "run":
            is_required = stage is Stage.REQUIRE
            more = "and never more than that" if is_required else "at any moment of the run"
            sentence = f"{sentence.removesuffix('.')}, {more}."
        return Pattern(
            id=name,
            section=stage,
            operations=frozenset({Op.UPDATE}) if relation else OPERATIONS[key],
            types=tuple(e.name for e in entities),
            where=where,
            sets=sets,
            froms=froms,
            fields=fields,
            low=low,
            high=high,
            is_every=every,
            that=that,
            by=clause.by,
            during_run=clause.during == "run",
            sentence=sentence,
            reads=frozenset(reads),
            distinct=clause.distinct or (),
            relation=f"{key}:{relation}" if relation else None,
            names_fields=clause.fields is not None,
            cascade=cascade,
        )

    def cascade(
        self, path: Path, stage: Stage | None, clause: Clause, entities: tuple[EntityType, ...]
    ) -> tuple[tuple[str, int], ...]:
        found: list[tuple[str, int]] = []
        matched = {entity.name for entity in entities}
        for name, bound in sorted((clause.cascade or {}).items()):
            spec = self.schema.by_name.get(name)
            place: Path = (*path, "cascade", name)
            if spec is None:
                known = suggest(name, self.schema.by_name)
                self.problem(place, f"unknown entity type `{name}`", known)
            elif stage is Stage.FORBID:
                self.problem(place, "a forbidden change explains nothing, so nothing goes with it")
            elif not matched & {field.reference for field in spec.fields}:
                self.problem(
                    place,
                    f"{name} refers to no {' or '.join(sorted(matched))}, so no row of it goes "
                    "with one",
                    "name the reference in the state schema, or write an allow clause",
                )
            else:
                found.append((name, bound.max))
        return tuple(found)

    def fields(
        self,
        path: Path,
        key: str,
        clause: Clause,
        entities: tuple[EntityType, ...],
        relation: str | None,
    ) -> tuple[str, ...] | None:
        if relation is not None:
            return (relation,)
        named = clause.fields
        if named is None and key in ("update", "any") and (clause.set or clause.from_):
            named = tuple(dict.fromkeys((*(clause.set or ()), *(clause.from_ or ()))))
        # What `set` and `from` name is checked where their values are.
        for index, name in enumerate(clause.fields or ()):
            for entity in entities:
                if name not in entity.by_name and entity.is_open:
                    continue
                if name not in entity.by_name:
                    self.problem(
                        (*path, "fields", index),
                        f"{entity.name} has no field `{name}`",
                        suggest(name, entity.by_name),
                        code="unknown-name",
                    )
                elif (rule := self.policy.excluded(entity.name, name)) is not None:
                    self.problem(
                        (*path, "fields", index),
                        f"{entity.name}.{name} lies outside the boundary ({rule})",
                        code="boundary",
                    )
        return named

    def values(
        self,
        path: Path,
        key: str,
        raw: Mapping[str, Any] | None,
        entity: EntityType,
        variables: Mapping[str, Type],
    ) -> tuple[tuple[str, Node], ...]:
        pairs: list[tuple[str, Node]] = []
        for name, value in (raw or {}).items():
            spec = entity.by_name.get(name)
            if spec is None and entity.is_open:
                spec = Field(name, Kind.ANY)
            if spec is None:
                self.problem(
                    (*path, key, name),
                    f"{entity.name} has no field `{name}`",
                    suggest(name, entity.by_name),
                    code="unknown-name",
                )
                continue
            rule = self.policy.excluded(entity.name, name)
            if rule is not None:
                self.problem(
                    (*path, key, name),
                    f"{entity.name}.{name} lies outside the boundary ({rule})",
                    code="boundary",
                )
                continue
            node: Node | None
            if isinstance(value, dict) and set(value) == {"is"} and isinstance(value["is"], str):
                node = self.expression((*path, key, name, "is"), value["is"], variables, False)
                if node is None:
                    continue
            else:
                plain = plain_value(value)
                node = Const(type_of(plain), UNWRITTEN, plain)
            kind = self.policy.kind_of(entity.name, name) or spec.kind
            held = type_of_field(kind, spec.reference)
            if not comparable(held, node.type):
                self.problem(
                    (*path, key, name),
                    f"{entity.name}.{name} is {describe(held)}, this is {describe(node.type)}",
                )
                continue
            apply = self.policy.literal(entity.name, name)
            if apply is not None:
                node = Canonical(node.type, UNWRITTEN, node, entity.name, name, apply)
            pairs.append((name, node))
        return tuple(pairs)

    def count(
        self, path: Path, stage: Stage | None, clause: Clause
    ) -> tuple[int, int | None, bool]:
        match clause.count:
            case "every":
                if stage is not Stage.REQUIRE or clause.operation not in ("update", "delete"):
                    self.problem((*path, "count"), "`every` is for required updates and deletions")
                return 0, None, True
            case Count(min=low, max=high):
                if stage is Stage.FORBID and high is not None:
                    self.problem(
                        (*path, "count"),
                        "a forbidden change stays one when there are more of them",
                        "give the least number that is forbidden, `min`",
                    )
                if stage is None and low > 0:
                    self.problem(
                        (*path, "count"),
                        "what is only allowed need not happen, so it has no `min`",
                        "write a require clause",
                    )
                return low, high, False
            case int() as n:
                if n == 0 and stage is Stage.FORBID:
                    self.problem((*path, "count"), "count is not 0 here")
                if stage is None:
                    return 0, n, False
                return n, n if stage is not Stage.FORBID else None, False
            case _:
                pass
        if stage is Stage.REQUIRE:
            return 1, 1, False
        return (1 if stage is Stage.FORBID else 0), None, False


def _conditions(
    where: Node | None,
    sets: Iterable[tuple[str, Node]],
    froms: Iterable[tuple[str, Node]],
    own: str,
) -> str:
    parts = [] if where is None else [phrase(where, own)]
    parts += [f"its {name.replace('_', ' ')} was {phrase(node, own)}" for name, node in froms]
    parts += [f"its {name.replace('_', ' ')} becomes {phrase(node, own)}" for name, node in sets]
    return " and ".join(parts)
