"""Binding: a contract document and a state schema become a `Contract`, or a list of problems.

Each kind of clause binds its own. Here the kinds are asked in their order, and what
concerns several of them is checked.
"""

from __future__ import annotations

from typing import Any

from statediff.contract.binding.bound import Contract, EvidenceRule
from statediff.contract.clauses.kind import Binder, JudgedAs, Locate, plain_value
from statediff.contract.document.contract import KINDS, ContractDocument
from statediff.contract.language.names import Policy, Scope
from statediff.contract.parts import seconds
from statediff.errors import ContractError
from statediff.model.schema import Schema


def bind(
    document: ContractDocument,
    digest: str,
    schema: Schema,
    policy: Policy,
    locate: Locate,
) -> Contract:
    """The contract over `schema`. Raises `ContractError` with every problem found."""
    inputs = {name: plain_value(raw) for name, raw in document.inputs.items()}
    scope = Scope(schema, inputs, document.answer.names, policy=policy)
    reserved = frozenset({"frame"}).union(*(kind.reserved for kind in KINDS))
    binder = Binder(locate, scope, reserved)
    bound: dict[JudgedAs, list[Any]] = {judged: [] for judged in JudgedAs}
    for kind in KINDS:
        written = (getattr(document, section) for section in kind.sections)
        bound[kind.judged] += kind.bind(binder, *written)
    _check_evidence(binder, document)
    if binder.problems:
        raise ContractError(tuple(binder.problems))
    single = (JudgedAs.ALTERNATIVES, JudgedAs.ACCESS)
    held: dict[str, Any] = {
        judged.value: next(iter(found), None) if judged in single else tuple(found)
        for judged, found in bound.items()
    }
    return Contract(
        document=document,
        digest=digest,
        schema=schema,
        inputs=inputs,
        evidence=tuple(_evidence(document)),
        frame_is_open=document.frame != "closed",
        excluded=policy.excluded,
        **held,
    )


def _evidence(document: ContractDocument) -> list[EvidenceRule]:
    return [
        EvidenceRule(
            source,
            None if rule.max_age is None else seconds(rule.max_age),
            rule.authority,
            rule.over == "acknowledged",
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
