"""Binding: a contract document and a state schema become a `Contract`, or a list of problems.

Each kind of clause binds its own. Here the kinds are asked in their order, and what
concerns several of them is checked.
"""

from __future__ import annotations

from typing import Any

from statediff.contract.binding.bound import Contract, EvidenceRule
from statediff.contract.clauses.kind import Binder, JudgedAs, Locate, Policy, plain_value
from statediff.contract.document.contract import KINDS, ContractDocument
from statediff.contract.language.names import Scope
from statediff.contract.parts import seconds
from statediff.errors import ContractError
from statediff.model.schema import Schema

__all__ = ["Policy", "bind", "plain_value"]


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
        document.answer.names,
        {},
        policy.literal,
        policy.kind_of,
        policy.excluded,
        policy.misread,
    )
    reserved = frozenset({"frame"}).union(*(kind.reserved for kind in KINDS))
    binder = Binder(schema, policy, locate, scope, reserved)
    bound: dict[JudgedAs, list[Any]] = {judged: [] for judged in JudgedAs}
    for kind in KINDS:
        written = (getattr(document, section) for section in kind.sections)
        bound[kind.judged] += kind.bind(binder, *written)
    _check_evidence(binder, document)
    if binder.problems:
        raise ContractError(tuple(binder.problems))
    return Contract(
        document=document,
        digest=digest,
        schema=schema,
        inputs=scope.inputs,
        forbid=tuple(bound[JudgedAs.FORBIDDEN]),
        require=tuple(bound[JudgedAs.REQUIRED]),
        allow=tuple(bound[JudgedAs.ALLOWED]),
        claims=tuple(bound[JudgedAs.CLAIM]),
        effects=tuple(bound[JudgedAs.EFFECT]),
        evidence=tuple(_evidence(document)),
        frame_is_open=document.frame != "closed",
        excluded=policy.excluded,
        derived=tuple(bound[JudgedAs.DERIVED]),
        alternatives=next(iter(bound[JudgedAs.ALTERNATIVES]), None),
        steps=tuple(bound[JudgedAs.STEP]),
        actions=tuple(bound[JudgedAs.ACTION]),
        turns=tuple(bound[JudgedAs.TURN]),
        access=next(iter(bound[JudgedAs.ACCESS]), None),
    )


def _evidence(document: ContractDocument) -> list[EvidenceRule]:
    return [
        EvidenceRule(
            source,
            None if rule.max_age is None else seconds(rule.max_age),
            rule.authority,
            rule.acknowledgement == "sufficient",
            rule.history == "required",
        )
        for source, rule in sorted(document.evidence.items())
    ]


def _check_evidence(binder: Binder, document: ContractDocument) -> None:
    owners: dict[str, str] = {}
    for source, rule in document.evidence.items():
        place = ("evidence", source, "authority")
        for name in rule.authority:
            binder.entity(place, name)
            if name in owners:
                binder.problem(place, f"{owners[name]} already has the authority over {name}")
            owners[name] = source
