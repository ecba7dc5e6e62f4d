"""Contracts bound to the schema of what was captured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial

from statediff.contract.binding.bind import bind
from statediff.contract.binding.bound import Contract
from statediff.contract.document.contract import Canonicalize, ContractDocument
from statediff.contract.file import ContractFile, parse_contract
from statediff.contract.language.names import Policy
from statediff.errors import ContractError
from statediff.kernel.canonicalize.book import RuleBook
from statediff.kernel.canonicalize.rules import rule_book
from statediff.kernel.diff import Scope
from statediff.kernel.resolve import IdentityRule, resolve
from statediff.model.boundary import Boundary, RuleError
from statediff.model.delta import Diff
from statediff.model.paths import Selection, may_meet, render, selects
from statediff.model.readings import Capture
from statediff.model.schema import EntityType, Schema, merge_schemas
from statediff.model.state import State
from statediff.model.timelines import Resolution
from statediff.model.view import Scoped


def contract_in(files: Mapping[str, bytes]) -> ContractFile:
    """The contract among the files of a bundle; `ContractError` where it is none."""
    return parse_contract(files["contract.yaml"], "contract.yaml")


@dataclass(frozen=True)
class Compiled:
    """A contract bound to the schema of a pair of captures."""

    contract: Contract
    book: RuleBook
    boundary: Boundary
    identities: tuple[IdentityRule, ...]

    def removed(self, type_name: str, field_name: str) -> tuple[Selection, ...]:
        """The places inside the field's values that Ω or ν removes."""
        return removed_inside(self.book, self.boundary, type_name, field_name)

    @cached_property
    def scoped(self) -> Scoped:
        """The part of a row that a viewer sees."""
        return Scoped(self.book, self.boundary, self.contract.schema)

    @cached_property
    def scope(self) -> Scope:
        """The scope that states are compared under; `over` the readings that they come from."""
        return Scope(self.book, self.boundary)

    def resolve(self, before: Capture, after: Capture) -> Resolution:
        """The states of both captures, each read by the sources that the contract believes."""
        return resolve(before, after, self.identities, self.contract.authority)

    def diff(
        self,
        before: State,
        after: State,
        readings_of: Iterable[tuple[str, Iterable[str], Iterable[str]]],
    ) -> Diff:
        """The deltas, hidden deltas and doubts between two states under ν and Ω.

        `readings_of` are (type, evidence ids before, evidence ids after).
        """
        evidence = {name: (tuple(b), tuple(a)) for name, b, a in readings_of}
        return self.scope.over(evidence).diff(before, after)


def removed_inside(
    book: RuleBook, boundary: Boundary, type_name: str, field_name: str
) -> tuple[Selection, ...]:
    """The places inside the field's values that Ω or ν removes."""
    outside = (steps for steps, _ in boundary.inside(type_name, field_name))
    rules = book.inside(type_name, field_name)
    return (*outside, *(steps for steps, _, is_removal in rules if is_removal))


@dataclass(frozen=True)
class _Case:
    """One contract over one schema, distinguished by what was read and by its place."""

    digest: str
    name: str
    schema: Schema = field(hash=False)  # a contract has few, and each hash goes through all types
    file: ContractFile = field(compare=False)


def compile_contract(file: ContractFile, schema: Schema) -> Compiled:
    """The contract over a schema. `ContractError` with every problem found in one stage."""
    return _compiled(_Case(file.digest, file.source.file, schema, file))


@lru_cache(maxsize=64)  # the trials of a task share both
def _compiled(case: _Case) -> Compiled:
    file, schema = case.file, case.schema
    content = file.content
    section = "exclude"
    try:
        boundary = Boundary(schema, [(e.what, e.because) for e in content.exclude])
        section = "unread"
        boundary.leave_unread(schema, [e.what for e in content.unread])
        section = "canonicalize"
        book = rule_book(schema, content.canonicalize)
        section = "exclude"
        for index, name, field, steps in boundary.paths:
            wrong = book.misplaced(name, field, steps)
            if wrong is not None:
                raise RuleError(index, wrong)
        section = "identify"
        identities = tuple(
            _identity(schema, i, content, book) for i in range(len(content.identify))
        )
    except RuleError as error:
        problem = file.source.problem((section, error.index), error.message, code=section)
        raise ContractError((problem,)) from error

    def excluded(type_name: str, field_name: str) -> str | None:
        return boundary.excludes(type_name, field_name) or (
            book.ignores(type_name, field_name) if field_name else None
        )

    def removed(type_name: str, field_name: str) -> tuple[Selection, ...]:
        return removed_inside(book, boundary, type_name, field_name)

    def misread(type_name: str, field_name: str, steps: Selection, is_whole: bool) -> str | None:
        place = f"{type_name}.{render(field_name, steps)}"
        inside = boundary.inside(type_name, field_name)
        rule = next((rule for where, rule in inside if selects(where, steps)), None)
        if rule is not None:
            return f"{place} lies outside the boundary ({rule})"
        without = removed(type_name, field_name) if is_whole else ()
        if any(len(where) > len(steps) and may_meet(where, steps) for where in without):
            return f"a part of {place} lies outside the boundary; read what is inside it"
        return book.misplaced(type_name, field_name, steps)

    policy = Policy(book.literal, book.kind_of, excluded, removed, misread)
    return Compiled(
        bind(content, file.digest, schema, policy, file.source.locate), book, boundary, identities
    )


def _identity(
    schema: Schema, index: int, content: ContractDocument, whole: RuleBook
) -> IdentityRule:
    rule = content.identify[index]
    entity = schema.by_name.get(rule.type)
    if entity is None:
        raise RuleError(index, f"unknown entity type `{rule.type}`")
    if not entity.is_keyless:
        raise RuleError(
            index,
            f"{rule.type} has a stable key ({', '.join(entity.key)}); "
            "identity is never matched on anything else",
        )
    fields = []
    for name, use in rule.match_on.items():
        if name not in entity.by_name:
            raise RuleError(index, f"{rule.type} has no field `{name}`")
        book = rule_book(
            schema,
            ()
            if use is None
            else (Canonicalize(use=use, on=(f"{rule.type}.{name}",), because=rule.because),),
        )
        fields.append((name, use or "", partial(book.value, rule.type, name)))
    opaque = frozenset(
        name
        for use in whole.uses
        if use.type == rule.type and use.rule.name == "opaque"
        for name in use.fields
    )
    return IdentityRule(rule.type, rule.version, rule.because, tuple(fields), opaque)


def schema_of(*captures: Capture) -> Schema:
    """One schema over every source of the captures, the state before first.

    What that does not have is late in it.
    """
    schemas = tuple([part.state.schema for capture in captures for part in capture.parts])
    before = schemas[: len(captures[0].parts)]
    whole = merge_schemas(schemas)
    if len(captures) == 1 or whole in before:
        return whole
    known = merge_schemas(before).by_name
    return replace(whole, types=tuple(_late(t, known.get(t.name)) for t in whole.types))


def _late(entity: EntityType, before: EntityType | None) -> EntityType:
    """The type with what it has only since the run."""
    if before is None:
        return replace(entity, is_late=True)
    if before.fields == entity.fields:
        return entity
    fields = [f if f.name in before.by_name else replace(f, is_late=True) for f in entity.fields]
    return replace(entity, fields=tuple(fields))
