"""Faults below the rows of live systems, as plug-ins name them, each judged as a case.

An operator that finds no place for itself says so, is no fault, and is counted among what was not
tried; see `statediff.systems.base.faults`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

from statediff.contract.document.contract import ContractDocument
from statediff.errors import ContractError
from statediff.meta.metatest import MetaCase, Part, domain_of
from statediff.model.verdict import Truth, Verdict
from statediff.systems.base.faults import Below, Place
from statediff.systems.base.registry import plugins

if TYPE_CHECKING:
    from statediff.meta.reference import Reference
    from statediff.systems.base.protocol import Sandbox


@cache
def faults_below() -> Mapping[str, Below]:
    """Class and operator → what it does, of the systems whose libraries are installed.

    Where no type is named, any change of the source shows it.
    """
    found: dict[str, Below] = {}
    for plugin in plugins().values():
        if plugin.faults is not None:
            with suppress(ModuleNotFoundError):
                found |= plugin.faults()
    return found


class Damage:
    """A hook before the capture after: one operator on the first place that it fits."""

    def __init__(self, operator: str) -> None:
        self.operator = operator
        self.source: str | None = None
        """The source that was damaged; None where there is no place for the operator."""
        self.has_system = False

    def __call__(self, sandbox: Sandbox) -> None:
        below = faults_below()[self.operator]
        for source, url in sorted(sandbox.access().urls.items()):
            if url.startswith(below.scheme):
                self.has_system = True
                if below.apply(Place(source, url, sandbox)):
                    self.source = source
                    return


def structure_cases(trials: Iterator[tuple[Damage, Reference]]) -> Iterator[MetaCase]:
    """The case of each damaged trial; it is named by a change of the structure of its source."""
    for damage, trial in trials:
        content: ContractDocument = trial.contract.content
        if damage.source is None:
            yield _untried(damage.operator, trial.name, content)
            continue
        verdict, clause, stage, error = None, "", "frame", ""
        is_named = False
        try:
            judgement = trial.judged()
        except ContractError as refused:
            error = str(refused)
        else:
            verdict = judgement.verdict
            named = faults_below()[damage.operator].names or _delivered(trial, damage.source)
            places = tuple(f"{each}[" for each in (*named, f"source.{damage.source}"))
            found = [
                finding
                for finding in judgement.findings
                if finding.truth is Truth.FAILS
                and any(each.startswith(places) for each in finding.deltas)
            ]
            is_named = bool(found)
            if found:
                clause, stage = found[0].clause, found[0].stage.value
        yield MetaCase(
            part=Part.FAULT,
            kind=damage.operator,
            domain=domain_of(content),
            contract=content.contract,
            reference=trial.name,
            entity=damage.source,
            sentence=f"below the rows of {damage.source}: {damage.operator}",
            expected=Verdict.DIVERGE,
            verdict=verdict,
            clause=clause,
            stage=stage,
            is_named=is_named,
            error=error,
        )


def _delivered(trial: Reference, source: str) -> tuple[str, ...]:
    """The types that the source delivers."""
    for part in trial.after.parts:
        if part.reading.source == source:
            return tuple(part.state.tables)
    return ()


def _untried(operator: str, name: str, content: ContractDocument) -> MetaCase:
    return MetaCase(
        part=Part.UNTRIED,
        kind="faults below the rows",
        domain=domain_of(content),
        contract=content.contract,
        reference=name,
        entity="",
        sentence=f"{operator}: its systems have no place for it",
        expected=Verdict.MATCH,
        verdict=Verdict.MATCH,
        clause="",
        stage="",
        is_named=True,
    )
