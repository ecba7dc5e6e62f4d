"""Trials of run folders as labelled cases: the label is what reviewers settled.

A bundle holds what its own decision read, not the captures. What other evaluators would have said
is folded anew from its clauses, all of which are always evaluated: only those that drop whole
stages of the judgement can be told so, and no others are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from statediff.errors import BundleError
from statediff.evidence.package import Bundle
from statediff.meta.study.trials import Opinion, Origin, Scored
from statediff.model.verdict import ClauseTruth, Stage, Truth, Verdict
from statediff.policy.judge import fold
from statediff.suite.labels import Labelled
from statediff.suite.review_terms import Label

Keeps = Callable[[Stage], bool]
_FOLDS: Final[Mapping[str, Keeps]] = {
    "per-turn": lambda stage: stage in (Stage.STEPS, Stage.ACTIONS),
    "assertions": lambda stage: stage is Stage.REQUIRE,
    "statediff": lambda _: True,
    "without-labels": lambda stage: stage is not Stage.FORBID,
    "without-frame": lambda stage: stage is not Stage.FRAME,
}


def reviewed_case(bundle: Bundle, label: Label, labels: Sequence[Labelled]) -> Scored:
    """The trial with its settled label, and what can be told from its clauses. `BundleError`."""
    judgement = bundle.document("judgement.json")
    facts, trial = bundle.manifest, bundle.document("trial.json")
    try:
        clauses = [_clause(entry) for entry in judgement["clauses"]]
        contract = str(facts["contract"])
        domain = str(trial["sandbox"] or contract.partition("/")[0])
    except (KeyError, TypeError, ValueError) as error:
        raise BundleError(f"judgement.json: no judgement as bundles hold it: {error!r}") from error
    # Whether reviewers took the run as one that only looks different, they do not say.
    return Scored(
        domain=domain,
        task=contract,
        name=str(facts["trial"]),
        origin=Origin.REVIEWED,
        kind="reviewed",
        sentence="as reviewed",
        label=label,
        is_variant=False,
        opinions={name: _opinion(clauses, keeps) for name, keeps in _FOLDS.items()},
        errors={},
        seconds=tuple(each.given.seconds for each in labels if each.given.seconds),
        told=tuple(
            (each.given.stage, each.given.is_correctable, each.given.failures)
            for each in labels
            if each.given.stage is not None or each.given.failures
        ),
    )


def _opinion(clauses: Sequence[ClauseTruth], keeps: Keeps) -> Opinion:
    kept = [clause for clause in clauses if keeps(clause.stage)]
    verdict = fold(kept) if kept else Verdict.MATCH  # a check that asserts nothing passes all
    return Opinion(verdict, shows=True)


def _clause(entry: Mapping[str, Any]) -> ClauseTruth:
    return ClauseTruth(
        str(entry["clause"]), Stage(entry["stage"]), Truth(entry["truth"]), str(entry["sentence"])
    )
