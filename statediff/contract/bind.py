"""Binding: a contract document and a state schema become a `Contract`, or a list of problems."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from dataclasses import field as default
from decimal import Decimal
from typing import Any, Final, TypeAlias

from statediff.contract.bound import Condition, Contract, Effect, EvidenceRule, Pattern
from statediff.contract.document import Claim, Clause, ContractDocument, Count, seconds
from statediff.contract.english import PatternWords, pattern_sentence, phrase
from statediff.contract.kinds import comparable, describe, suggest, type_of, type_of_field
from statediff.contract.parser import ExpressionError, Scope, parse
from statediff.contract.syntax import (
    Canonical,
    CollectionT,
    Const,
    EntityT,
    Node,
    Read,
    Type,
    footprint,
)
from statediff.errors import ContractError, Problem
from statediff.model.delta import Label, Op
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.values import Map, Observed, Value
from statediff.model.verdict import Stage

Path: TypeAlias = tuple[str | int, ...]
Locate: TypeAlias = Callable[[Path, int], tuple[str, int, int]]
"""(path in the document, character of the scalar) → (file, line, column)."""

_OPERATIONS: Final[dict[str, frozenset[Op]]] = {
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


def nowhere(_path: Path, _offset: int) -> tuple[str, int, int]:
    """A place for documents that come from no file."""
    return "contract", 1, 1


def bind(
    document: ContractDocument,
    digest: str,
    schema: Schema,
    policy: Policy = Policy(),
    locate: Locate = nowhere,
) -> Contract:
    """The contract over `schema`. Raises `ContractError` with every problem found."""
    return _Binder(document, schema, policy, locate).bind(digest)


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
class _Binder:
    document: ContractDocument
    schema: Schema
    policy: Policy
    locate: Locate
    problems: list[Problem] = default(default_factory=list)

    def bind(self, digest: str) -> Contract:
        document = self.document
        inputs = {name: plain_value(raw) for name, raw in document.inputs.items()}
        self.scope = Scope(
            self.schema,
            inputs,
            document.answer.schema_,
            {},
            self.policy.literal,
            self.policy.kind_of,
            self.policy.excluded,
        )
        self.ids: dict[str, Path] = {}
        forbid = self.section("forbid", Stage.FORBID, document.forbid)
        require = self.section("require", Stage.REQUIRE, document.require)
        allow = self.section("allow", None, document.allow)
        claims = tuple(
            c
            for i, claim in enumerate(document.answer.claims)
            if (c := self.claim(i, claim)) is not None
        )
        effects = tuple(
            e for i, _ in enumerate(document.effects) if (e := self.effect(i)) is not None
        )
        evidence = tuple(
            EvidenceRule(
                source,
                None if rule.max_age is None else seconds(rule.max_age),
                rule.authority,
                rule.acknowledgement == "sufficient",
                rule.history == "required",
            )
            for source, rule in sorted(document.evidence.items())
        )
        self.check_evidence()
        self.check_distinct()
        if self.problems:
            raise ContractError(tuple(self.problems))
        return Contract(
            document,
            digest,
            self.schema,
            inputs,
            forbid,
            require,
            tuple(p for p in allow if isinstance(p, Pattern)),
            claims,
            effects,
            evidence,
            document.frame != "closed",
            self.policy.excluded,
        )

    def problem(
        self, path: Path, message: str, hint: str = "", offset: int = 0, code: str = "contract"
    ) -> None:
        file, line, column = self.locate(path, offset)
        self.problems.append(Problem(file, line, column, message, code, hint))

    def name(self, section: str, index: int, given: str | None) -> str:
        name = given or f"{section}-{index + 1}"
        if name in self.ids:
            self.problem(
                (section, index, "id") if given else (section, index),
                f"two clauses are called `{name}`",
                "give each its own id",
            )
        self.ids[name] = (section, index)
        return name

    def section(
        self, key: str, stage: Stage | None, clauses: tuple[Clause, ...]
    ) -> tuple[Pattern | Condition, ...]:
        bound: list[Pattern | Condition] = []
        for index, clause in enumerate(clauses):
            name = self.name(key, index, clause.id)
            path: Path = (key, index)
            if clause.operation is None:
                if stage is None:
                    self.problem(path, "an allow clause names an operation and a type")
                    continue
                condition = self.condition(name, stage, (*path, "that"), clause.that or "")
                if condition is not None:
                    bound.append(condition)
                continue
            pattern = self.pattern(name, stage, path, clause)
            if pattern is not None:
                bound.append(pattern)
        return tuple(bound)

    def expression(
        self, path: Path, text: str, variables: Mapping[str, Type], boolean: bool = True
    ) -> Node | None:
        try:
            return parse(text, replace(self.scope, variables=variables), boolean=boolean)
        except ExpressionError as error:
            self.problem(path, str(error), error.hint, error.offset, "expression")
            return None

    def condition(self, name: str, stage: Stage, path: Path, text: str) -> Condition | None:
        node = self.expression(path, text, {})
        if node is None:
            return None
        sentence = phrase(node)
        if stage is Stage.FORBID:
            sentence = f"It must not be that {sentence}"
        elif stage is Stage.ANSWER:
            sentence = f"The answer is true: {sentence}"
        else:
            sentence = sentence[:1].upper() + sentence[1:]
        return Condition(name, stage, node, text, sentence + ".", footprint(node))

    def claim(self, index: int, claim: str | Claim) -> Condition | None:
        text = claim if isinstance(claim, str) else claim.that
        given = None if isinstance(claim, str) else claim.id
        name = self.name("claim", index, given)
        path: Path = ("answer", "claims", index)
        return self.condition(
            name, Stage.ANSWER, path if isinstance(claim, str) else (*path, "that"), text
        )

    # ------------------------------------------------------------ patterns

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
                if spec is not None and spec.reference is not None:
                    found.append(self.schema.by_name[holder])
                    relation = member
                    continue
            self.problem(
                (*path, key),
                f"unknown entity type `{name}`",
                suggest(name, self.schema.by_name)
                or "known: "
                + ", ".join(t for t in self.schema.by_name if not t.startswith("db."))[:200],
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
        key = clause.operation or "any"
        before = len(self.problems)
        entities, relation = self.types(path, key, clause.types)
        if len(self.problems) > before or not entities:
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
        if clause.by is not None and stage is None and len(self.problems) > before:
            return None
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
                section,
                "update" if relation else key,
                tuple(e.name for e in entities),
                _conditions(where[first], sets[first], froms[first], own),
                (relation,) if relation else clause.fields,
                low,
                high,
                every,
                "" if first_that is None else phrase(first_that, own),
            )
        )
        return Pattern(
            name,
            stage,
            frozenset({Op.UPDATE}) if relation else _OPERATIONS[key],
            tuple(e.name for e in entities),
            where,
            sets,
            froms,
            fields,
            low,
            high,
            every,
            that,
            clause.by,
            clause.during == "run",
            sentence,
            frozenset(reads),
            clause.distinct or (),
            f"{key}:{relation}" if relation else None,
            clause.fields is not None,
        )

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
        if named is None:
            return None
        for index, name in enumerate(named):
            for entity in entities:
                if name not in entity.by_name and entity.is_open:
                    continue
                if name not in entity.by_name:
                    at: Path = (*path, "fields", index) if clause.fields else path
                    self.problem(
                        at, f"{entity.name} has no field `{name}`", suggest(name, entity.by_name)
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
                )
                continue
            node: Node | None
            if isinstance(value, dict) and set(value) == {"is"} and isinstance(value["is"], str):
                node = self.expression((*path, key, name, "is"), value["is"], variables, False)
                if node is None:
                    continue
            else:
                plain = plain_value(value)
                node = Const(type_of(plain), 0, plain)
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
                node = Canonical(node.type, 0, node, entity.name, name, apply)
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
                return low, high, False
            case bool():
                self.problem((*path, "count"), "count is a number, {min, max} or `every`")
            case int() as n:
                if n < 0:
                    self.problem((*path, "count"), "count is not negative")
                return n, n if stage is not Stage.FORBID else None, False
            case _:
                pass
        if stage is Stage.REQUIRE:
            return 1, 1, False
        return (1 if stage is Stage.FORBID else 0), None, False

    # ------------------------------------------------------------ the rest

    def effect(self, index: int) -> Effect | None:
        raw = self.document.effects[index]
        key, _, type_name = raw.on.partition(" ")
        path: Path = ("effects", index)
        if type_name not in self.schema.by_name:
            self.problem(
                (*path, "on"),
                f"unknown entity type `{type_name}`",
                suggest(type_name, self.schema.by_name),
            )
            return None
        node: Node | None = None
        if raw.authorized_by is not None:
            variables = {"it": EntityT(type_name), "new": EntityT(type_name)}
            node = self.expression((*path, "authorized_by"), raw.authorized_by, variables)
            if node is None:
                return None
        label = None if raw.reversibility is None else Label(raw.reversibility)
        own = f"the {type_name.replace('_', ' ')}"
        sentence = f"Every {key} of {own.removeprefix('the ')} is authorized" + (
            f": {phrase(node, own)}." if node is not None else "."
        )
        return Effect(
            f"authorized-{key}-{type_name}",
            _OPERATIONS[key],
            type_name,
            label,
            node,
            raw.authorized_by or "",
            raw.compensation,
            raw.retry_safe,
            sentence,
            footprint(node) if node is not None else frozenset(),
        )

    def check_evidence(self) -> None:
        owners: dict[str, str] = {}
        for source, rule in self.document.evidence.items():
            for name in rule.authority:
                if name not in self.schema.by_name:
                    self.problem(
                        ("evidence", source, "authority"),
                        f"unknown entity type `{name}`",
                        suggest(name, self.schema.by_name),
                    )
                if name in owners:
                    self.problem(
                        ("evidence", source, "authority"),
                        f"{owners[name]} already has the authority over {name}",
                    )
                owners[name] = source

    def check_distinct(self) -> None:
        for section in ("forbid", "require", "allow"):
            for index, clause in enumerate(getattr(self.document, section)):
                for name in clause.distinct or ():
                    if name not in self.ids:
                        self.problem(
                            (section, index, "distinct"),
                            f"no clause is called `{name}`",
                            suggest(name, self.ids),
                        )


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
