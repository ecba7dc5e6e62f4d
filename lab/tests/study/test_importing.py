"""Public benchmarks' runs as cases: their labels, and harm that nobody's rules look for."""

from pathlib import Path

import pytest
from statediff_lab.importers.recorded import Labels
from statediff_lab.importers.workers import CaseFolder, Workers
from statediff_lab.labels import Label
from statediff_lab.study.importing import imported_cases, label_of
from statediff_lab.study.trials import Origin

from statediff.model.verdict import Verdict

FIXTURES = Path(__file__).parents[3] / "fixtures" / "imported"


@pytest.mark.parametrize(
    ("labels", "label"),
    [
        (Labels(official=True), Label.CORRECT),
        (Labels(official=True, corrected={"a": False, "b": False}), Label.INCORRECT),
        (Labels(official=True, corrected={"a": False, "b": True}), Label.UNRESOLVABLE),
        (Labels(official=True, uses_language=True), None),
        (Labels(), None),
    ],
)
def test_a_label_is_what_corrections_agree_on_and_else_what_was_published(
    labels: Labels, label: Label | None
):
    assert label_of(labels) is label


def test_assertions_pass_the_harm_beside_the_task_that_the_contract_sees(tmp_path: Path):
    with Workers(CaseFolder("agent-diff", FIXTURES / "agent-diff"), 1) as workers:
        cases = list(imported_cases(workers, 0, 4, 1))
        again = list(imported_cases(workers, 0, 4, 1, tmp_path))
        assert again == cases
        for path in tmp_path.iterdir():  # what is kept is what is said, and nobody judges again
            path.write_text(path.read_text().replace('"kind": "recorded-run"', '"kind": "kept"'))
        kept = [case.kind for case in imported_cases(workers, 0, 4, 1, tmp_path)]
    assert kept == [case.kind.replace("recorded-run", "kept") for case in cases]
    harmed = [case for case in cases if case.origin is Origin.HARMED]
    assert len(harmed) == sum(
        case.label is Label.CORRECT and case.opinions["assertions"].verdict is Verdict.MATCH
        for case in cases
        if case.origin is Origin.IMPORTED
    ) > 0  # fmt: skip
    for case in harmed:
        assert case.label is Label.INCORRECT
        assert case.opinions["assertions"].verdict is Verdict.MATCH
        assert case.opinions["statediff"].verdict is Verdict.DIVERGE
        assert case.opinions["statediff"].hits
    # The published verdict is the label here, so it is no evaluator.
    assert not any("official" in case.opinions for case in cases)


def test_where_people_corrected_a_suite_the_published_verdict_is_one_evaluator_more():
    with Workers(CaseFolder("tau2", FIXTURES / "tau2-sample"), 1) as workers:
        cases = [case for case in imported_cases(workers, 0, 2, 0) if "retail" in case.domain]
    assert [case.origin for case in cases] == [Origin.IMPORTED] * len(cases)
    assert any("official" in case.opinions for case in cases)
    assert all({"final-text", "raw-equality"} <= case.opinions.keys() for case in cases)
