"""Faulty agents as cases of the meta-test: they ran, now or once, and their trials must diverge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from statediff.errors import ContractError
from statediff.evaluate import failed
from statediff.meta.cases import Cases
from statediff.meta.metatest import Case, Part, domain_of
from statediff.meta.reference import Reference
from statediff.model.verdict import Truth, Verdict


def lived(trials: Iterable[Reference], cases: Cases) -> Iterator[Case]:
    """The case of each faulty agent's trial, named after its agent.

    It is named if a finding that fails is of the stage, clause and code that `cases.yaml` tells.
    """
    wanted = {wrong.agent: wrong for wrong in cases.faulty}
    for trial in trials:
        wrong, content = wanted[trial.name], trial.contract.content
        verdict: Verdict | None = None
        clause = stage = error = ""
        is_named = False
        try:
            judgement = trial.judged()
        except ContractError as refused:
            error = str(refused)
        else:
            verdict = judgement.verdict
            clause = next(iter(failed(judgement)), "")
            stage = next((c.stage.value for c in judgement.clauses if c.clause == clause), "")
            is_named = any(
                (finding.clause, finding.code.value, finding.stage.value)
                == (wrong.clause, wrong.code, wrong.stage)
                for finding in judgement.findings
                if finding.truth is Truth.FAILS
            )
        yield Case(
            part=Part.FAULT,
            kind=f"agent:{cases.drift.get(wrong.agent, 'faulty')}",
            domain=domain_of(content),
            contract=content.contract,
            reference="",
            entity=wrong.agent,
            sentence=wrong.why,
            expected=Verdict.DIVERGE,
            verdict=verdict,
            clause=clause,
            stage=stage,
            is_named=is_named,
            error=error,
        )
