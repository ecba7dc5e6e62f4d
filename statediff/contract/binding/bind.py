"""Binding: a contract document and a state schema become a `Contract`, or a list of problems."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as default
from typing import Final

from statediff.contract.binding.access import AccessBinder
from statediff.contract.binding.bound import (
    Alternatives,
    Branch,
    Condition,
    Contract,
    Effect,
    EvidenceRule,
    Pattern,
)
from statediff.contract.binding.derived import derived_field
from statediff.contract.binding.patterns import (
    OPERATIONS,
    Locate,
    Path,
    PatternBinder,
    Policy,
    plain_value,
)
from statediff.contract.binding.run import RunBinder
from statediff.contract.binding.transition import bound_transition
from statediff.contract.document.contract import BranchClauses, Clause, ContractDocument, seconds
from statediff.contract.document.sections import Approval, Claim
from statediff.contract.language.english import branches_sentence, phrase
from statediff.contract.language.kinds import suggest
from statediff.contract.language.parser import Scope
from statediff.contract.language.syntax import EntityT, Node, Read, footprint
from statediff.errors import ContractError
from statediff.model.delta import Label
from statediff.model.schema import Schema
from statediff.model.verdict import Stage

__all__ = ["Policy", "bind", "plain_value"]

RESERVED: Final = ("frame", "answer", "any_of", "disputed", "transition", "access")
"""Names of clauses that a contract has without giving them an id."""


def bind(
    document: ContractDocument,
    digest: str,
    schema: Schema,
    policy: Policy,
    locate: Locate,
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
        forbid = self.section(("forbid",), Stage.FORBID, document.forbid)
        require = self.section(("require",), Stage.REQUIRE, document.require)
        allow = self.section(("allow",), None, document.allow)
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
        derived = tuple(
            d
            for i, raw in enumerate(document.derive)
            if (d := derived_field(self, i, raw, self.name(("derive", i), raw.id))) is not None
        )
        branches = self.alternatives()
        run = RunBinder(self, self.name)
        steps = run.steps(document.steps)
        actions = run.actions(document.actions)
        turns = run.turns(document.turns)
        transition = bound_transition(self, document.transition)
        access = AccessBinder(self, self.name, document.answer.schema_).bound(document.access)
        self.check_evidence()
        self.check_distinct()
        if self.problems:
            raise ContractError(tuple(self.problems))
        return Contract(
            document=document,
            digest=digest,
            schema=self.schema,
            inputs=self.scope.inputs,
            forbid=forbid,
            require=require,
            allow=tuple(p for p in allow if isinstance(p, Pattern)),
            claims=claims,
            effects=effects,
            evidence=evidence,
            frame_is_open=document.frame != "closed",
            excluded=self.policy.excluded,
            derived=derived,
            alternatives=branches,
            steps=steps,
            actions=actions,
            turns=turns,
            transition=transition,
            access=access,
        )

    def name(self, path: Path, given: str | None, within: str = "") -> str:
        """The clause's id; clauses of a branch are `BRANCH/ID`."""
        section, index = path[-2:]
        own = given or f"{section}-{int(index) + 1}"
        name = within + own
        if own in RESERVED:
            self.problem(
                (*path, "id"),
                f"`{own}` is the name of a clause that every contract has",
                "choose another id",
            )
        if name in self.ids:
            self.problem(
                (*path, "id") if given else path,
                f"two clauses are called `{own}`",
                "give each its own id",
            )
        self.ids[name] = path
        return name

    def section(
        self, at: Path, stage: Stage | None, clauses: tuple[Clause, ...], within: str = ""
    ) -> tuple[Pattern | Condition, ...]:
        bound: list[Pattern | Condition] = []
        for index, clause in enumerate(clauses):
            path: Path = (*at, index)
            name = self.name(path, clause.id, within)
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

    def alternatives(self) -> Alternatives | None:
        """The branches of `any_of` or the readings of `disputed`, if the contract has either."""
        document = self.document
        disputed = document.disputed
        written = document.any_of if disputed is None else disputed.readings
        if not written:
            return None
        at: Path = ("any_of",) if disputed is None else ("disputed", "readings")
        branches = tuple(
            Branch(
                name,
                self.section((*at, name, "forbid"), Stage.FORBID, branch.forbid, f"{name}/"),
                self.section((*at, name, "require"), Stage.REQUIRE, branch.require, f"{name}/"),
                tuple(
                    p
                    for p in self.section((*at, name, "allow"), None, branch.allow, f"{name}/")
                    if isinstance(p, Pattern)
                ),
            )
            for name, branch in written.items()
        )
        because = "" if disputed is None else disputed.because
        names = [branch.name for branch in branches]
        return Alternatives(str(at[0]), branches, branches_sentence(names, because), because)

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
        if during_run:
            sentence += ", at any moment of the run"
        return Condition(name, stage, node, text, sentence + ".", footprint(node), during_run)

    def claim(self, index: int, claim: str | Claim) -> Condition | None:
        text = claim if isinstance(claim, str) else claim.that
        given = None if isinstance(claim, str) else claim.id
        name = self.name(("claim", index), given)
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
        if raw.retry_safe is False:
            self.ids[f"retried-{key}-{type_name}"] = path
        if type_name not in self.schema.by_name:
            self.problem(
                (*path, "on"),
                f"unknown entity type `{type_name}`",
                suggest(type_name, self.schema.by_name),
                code="unknown-name",
            )
            return None
        node: Node | None = None
        approval = raw.authorized_by if isinstance(raw.authorized_by, Approval) else None
        if raw.authorized_by is not None:
            variables = {"it": EntityT(type_name), "new": EntityT(type_name)}
            where: Path = (*path, "authorized_by")
            text = raw.authorized_by if approval is None else approval.where
            if approval is not None:
                where = (*where, "where")
                if not self.types((*path, "authorized_by"), "approval", (approval.approval,))[0]:
                    return None
                variables["approval"] = EntityT(approval.approval)
            node = self.expression(where, str(text), variables)
            if node is None:
                return None
        label = None if raw.reversibility is None else Label(raw.reversibility)
        own = f"the {type_name.replace('_', ' ')}"
        by = "" if approval is None else " by an approval from before the run that it left alone"
        sentence = f"Every {key} of {own.removeprefix('the ')} is authorized{by}" + (
            f": {phrase(node, own)}." if node is not None else "."
        )
        reads = footprint(node) if node is not None else frozenset()
        if approval is not None:
            reads |= {Read("before", approval.approval, "")}
        return Effect(
            id=name,
            operations=OPERATIONS[key],
            type=type_name,
            label=label,
            authorized_by=node,
            text=str(raw.authorized_by or "") if approval is None else approval.where,
            compensation=raw.compensation,
            is_retry_safe=raw.retry_safe,
            sentence=sentence,
            reads=reads,
            approval=None if approval is None else approval.approval,
            tool=raw.tool,
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
        self.check_distinct_in((), self.document, frozenset())
        for name, branch in (self.document.any_of or {}).items():
            self.check_distinct_in(("any_of", name), branch, _counted(self.document))
        if self.document.disputed is not None:
            for name, branch in self.document.disputed.readings.items():
                above = ("disputed", "readings", name)
                self.check_distinct_in(above, branch, _counted(self.document))

    def check_distinct_in(
        self, at: Path, within: ContractDocument | BranchClauses, outer: frozenset[str | None]
    ) -> None:
        counted = outer | _counted(within)
        known = {*self.ids, *(name.partition("/")[2] for name in self.ids)} if at else self.ids
        for section in ("forbid", "require", "allow"):
            for index, clause in enumerate(getattr(within, section)):
                for name in clause.distinct or ():
                    path: Path = (*at, section, index, "distinct")
                    if name not in known:
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


def _counted(within: ContractDocument | BranchClauses) -> frozenset[str | None]:
    """The required patterns that need a number of entities of their own."""
    return frozenset(
        clause.id
        for clause in within.require
        if clause.operation is not None and clause.count != "every"
    )
