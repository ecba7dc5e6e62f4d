"""Binding: a contract document and a state schema become a `Contract`, or a list of problems."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as default
from typing import Final

from statediff.contract.bound import Condition, Contract, Effect, EvidenceRule, Pattern
from statediff.contract.document import Claim, Clause, ContractDocument, seconds
from statediff.contract.english import phrase
from statediff.contract.kinds import suggest
from statediff.contract.parser import Scope
from statediff.contract.patterns import (
    OPERATIONS,
    Locate,
    Path,
    PatternBinder,
    Policy,
    nowhere,
    plain_value,
)
from statediff.contract.syntax import EntityT, Node, footprint
from statediff.errors import ContractError
from statediff.model.delta import Label
from statediff.model.schema import Schema
from statediff.model.verdict import Stage

__all__ = ["Policy", "bind", "plain_value"]

NO_POLICY: Final = Policy()

RESERVED: Final = ("frame", "answer")
"""Names of clauses that every contract has without writing them."""


def bind(
    document: ContractDocument,
    digest: str,
    schema: Schema,
    policy: Policy = NO_POLICY,
    locate: Locate = nowhere,
) -> Contract:
    """The contract over `schema`. Raises `ContractError` with every problem found."""
    scope = Scope(
        schema,
        {name: plain_value(raw) for name, raw in document.inputs.items()},
        document.answer.schema_,
        {},
        policy.literal,
        policy.kind_of,
        policy.excluded,
    )
    return _Binder(schema, policy, locate, scope, [], document).bind(digest)


@dataclass
class _Binder(PatternBinder):
    document: ContractDocument
    ids: dict[str, Path] = default(default_factory=dict)

    def bind(self, digest: str) -> Contract:
        document = self.document
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
            self.scope.inputs,
            forbid,
            require,
            tuple(p for p in allow if isinstance(p, Pattern)),
            claims,
            effects,
            evidence,
            document.frame != "closed",
            self.policy.excluded,
        )

    def name(self, section: str, index: int, given: str | None) -> str:
        name = given or f"{section}-{index + 1}"
        if name in RESERVED:
            self.problem(
                (section, index, "id"),
                f"`{name}` is the name of a clause that every contract has",
                "choose another id",
            )
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
                condition = self.condition(
                    name, stage, (*path, "that"), clause.that or "", clause.during == "run"
                )
                if condition is not None:
                    bound.append(condition)
                continue
            pattern = self.pattern(name, stage, path, clause)
            if pattern is not None:
                bound.append(pattern)
        return tuple(bound)

    def condition(
        self, name: str, stage: Stage, path: Path, text: str, during_run: bool = False
    ) -> Condition | None:
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
        return Condition(name, stage, node, text, sentence + ".", footprint(node), during_run)

    def claim(self, index: int, claim: str | Claim) -> Condition | None:
        text = claim if isinstance(claim, str) else claim.that
        given = None if isinstance(claim, str) else claim.id
        name = self.name("claim", index, given)
        path: Path = ("answer", "claims", index)
        return self.condition(
            name, Stage.ANSWER, path if isinstance(claim, str) else (*path, "that"), text
        )

    # ------------------------------------------------------------ the rest

    def effect(self, index: int) -> Effect | None:
        raw = self.document.effects[index]
        key, _, type_name = raw.on.partition(" ")
        path: Path = ("effects", index)
        name = f"authorized-{key}-{type_name}"
        if name in self.ids:
            self.problem((*path, "on"), f"there is already a clause `{name}`", "keep one of them")
        self.ids[name] = path
        if type_name not in self.schema.by_name:
            self.problem(
                (*path, "on"),
                f"unknown entity type `{type_name}`",
                suggest(type_name, self.schema.by_name),
                code="unknown-name",
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
            name,
            OPERATIONS[key],
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
                        code="unknown-name",
                    )
                if name in owners:
                    self.problem(
                        ("evidence", source, "authority"),
                        f"{owners[name]} already has the authority over {name}",
                    )
                owners[name] = source

    def check_distinct(self) -> None:
        counted = {
            clause.id
            for clause in self.document.require
            if clause.operation is not None and clause.count != "every"
        }
        for section in ("forbid", "require", "allow"):
            for index, clause in enumerate(getattr(self.document, section)):
                for name in clause.distinct or ():
                    path: Path = (section, index, "distinct")
                    if name not in self.ids:
                        hint = suggest(name, self.ids)
                        self.problem(
                            path, f"no clause is called `{name}`", hint, code="unknown-name"
                        )
                    elif section != "require" or name not in counted:
                        self.problem(
                            path,
                            f"`distinct` tells required changes apart; `{name}` is none"
                            if section == "require"
                            else "`distinct` is for required changes",
                        )
