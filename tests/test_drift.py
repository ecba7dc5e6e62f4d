"""Drift that output-only scoring accepts, live: each case answers as a right run does.

An agent of a case with `drift` hands in, value for value, what a reference of its task hands in, so
that no score of the answer alone can tell the two apart; statediff's verdict on it is DIVERGE.
"""

from io import StringIO

import pytest
from rich.console import Console

from statediff.errors import UsageError
from statediff.harness import JudgedTrial
from statediff.meta.cases import Drift, read_cases
from statediff.model.trace import NoAnswer
from statediff.model.verdict import Verdict
from statediff.packs import contract_folders
from statediff.reports.text import trial_report
from tests.tasks import needs, try_agent
from tests.tasks import running as running  # noqa: PLC0414 - a fixture

SHOWN = {folder: read_cases(folder.folder) for folder in contract_folders()}
DRIFTING = [
    pytest.param(folder, cases, id=folder.name, marks=needs(folder.name.partition("/")[0]))
    for folder, cases in SHOWN.items()
    if cases.drift
]


@pytest.mark.slow
@pytest.mark.parametrize(("folder", "cases"), DRIFTING)
def test_what_drifts_answers_as_a_reference_does_and_diverges(running, tmp_path, folder, cases):
    right = [try_agent(running, folder, name, tmp_path / name) for name in cases.references]
    assert {trial.evaluated.judgement.verdict for trial in right} == {Verdict.MATCH}
    for agent in cases.drift:
        trial = try_agent(running, folder, agent, tmp_path / agent)
        answer = trial.observed.run.answer
        assert not isinstance(answer, NoAnswer)
        assert answer in [reference.observed.run.answer for reference in right], agent
        assert trial.evaluated.judgement.verdict is Verdict.DIVERGE
        if trial.observed.after.history.transactions:
            assert localised(trial, cases.drift[agent]), agent


def localised(trial: JudgedTrial, drift: Drift) -> bool:
    """The report's first lines name who did it; what was forgotten nobody did."""
    report = StringIO()
    Console(file=report, width=200).print(trial_report(trial.evaluated.bundle))
    banner, _, rest = report.getvalue().partition("\nClauses\n")
    changes = rest.partition("\nChanges\n")[2]
    is_named = "\nDone by: transaction " in banner
    return "transaction " in changes and (is_named or drift is Drift.AMNESIA)


def test_every_class_of_drift_has_two_tasks():
    for drift in Drift:
        assert sum(drift in cases.drift.values() for cases in SHOWN.values()) >= 2, drift


def test_drift_needs_a_known_class_and_a_case_that_diverges(tmp_path):
    for case in ("verdict: DIVERGE, drift: tired", "verdict: MATCH, drift: stale-read"):
        (tmp_path / "cases.yaml").write_text(f"cases: [{{agent: a, {case}}}]\n")
        with pytest.raises(UsageError, match="`drift` of 'a': expected one of stale-read, "):
            read_cases(tmp_path)
