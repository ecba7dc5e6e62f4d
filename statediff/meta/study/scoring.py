"""Every case judged by every evaluator, one after the other; what cannot judge one says why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from statediff.errors import StatediffError
from statediff.meta.cases import Cases
from statediff.meta.reference import Reference
from statediff.meta.study.evaluators import Evaluator, opinion_of
from statediff.meta.study.trials import Case, Gold, Opinion, Origin, Scored
from statediff.suite.review_terms import Label


def scored(case: Case, evaluators: Sequence[Evaluator]) -> Scored:
    """The case with the opinions on it; its captures are let go."""
    opinions: dict[str, Opinion] = {}
    errors: dict[str, str] = {}
    for evaluator in evaluators:
        try:
            opinions[evaluator.name] = opinion_of(evaluator, case, opinions)
        except StatediffError as error:
            errors[evaluator.name] = str(error)
    return Scored(
        domain=case.domain,
        task=case.task,
        name=case.name,
        origin=case.origin,
        kind=case.kind,
        sentence=case.sentence,
        label=case.label,
        is_variant=case.is_variant,
        opinions=opinions,
        errors=errors,
    )


def live_cases(
    trials: Iterable[Reference], cases: Cases, gold: Sequence[Reference]
) -> Iterator[Case]:
    """The trials of a contract's faulty agents, labelled as `cases.yaml` has it."""
    wrong = {each.agent: each for each in cases.faulty}
    for trial in trials:
        content = trial.contract.content
        kind = f"agent:{cases.drift.get(trial.name, 'faulty')}"
        yield Case(
            domain=content.sandbox or "recorded",
            task=content.contract,
            name=f"agent {trial.name}",
            origin=Origin.LIVE,
            kind=kind,
            sentence=wrong[trial.name].why,
            label=Label.INCORRECT,
            run=trial,
            gold=Gold(tuple(gold)),
        )
