"""The page of a re-judgement: readable on every window, closed, and bounded."""

from pathlib import Path
from typing import Any

import pytest
from statediff_lab.importers.agreement import AgreementReport, RunTally, report
from statediff_lab.importers.recorded import BadLine, Half, Labels, TaskId
from statediff_lab.importers.rejudge import RejudgedRun, StillTask, Why
from statediff_lab.reports import agreement_page as agreement
from statediff_lab.reports.pages import agreement_html

from statediff.model.verdict import Verdict
from statediff.reports.html import MARK

HOSTILE = "<img src=//x onerror=alert(1)>\u202e" + "w" * 400


def made(runs: int = 12) -> AgreementReport:
    tally = RunTally()
    for number in range(runs):
        verdict = list(Verdict)[number % 3]
        why = Why("frame", "unexplained-change", "frame", HOSTILE, ("ticket.x",), ("ticket[1].x",))
        tally.add(
            RejudgedRun(
                f"run {number} {HOSTILE}",
                TaskId("desk", f"t{number % 4} {HOSTILE}"),
                "a",
                Half.DEVELOPED if number % 2 else Half.HELD_OUT,
                Labels(official=number % 4 < 2, corrected={"one": number % 5 < 2, "two": True}),
                verdict=verdict,
                why=() if verdict is Verdict.MATCH else (why,) * 9,
                reviewed=("read",) * (number % 2),
            )
        )
    tally.add(BadLine("runs.jsonl.gz", 7, HOSTILE))
    return report("agent-diff", "closed", tally, 0)


STILLS = (
    StillTask(TaskId("desk", "t1"), Half.DEVELOPED, False, Verdict.DIVERGE),
    StillTask(TaskId("desk", "t2"), Half.DEVELOPED, False, None, HOSTILE),
)


def test_the_page_says_what_agrees_and_why_the_rest_does_not() -> None:
    page = agreement_html(made(), STILLS)
    assert page.startswith(MARK)
    for text in (
        "verdicts agree with the official ones", "false pass", "false fail", "held-out half",
        "<b>Reviewed:</b> read", "line 7", "5 more findings", "What the official evaluator",
    ):  # fmt: skip
        assert text in page
    assert "<img" not in page
    assert "\u202e" not in page
    assert agreement_html(made(), STILLS) == page


def test_a_report_of_nothing_says_so() -> None:
    page = agreement_html(report("agent-diff", "closed", RunTally(), 0), ())
    assert "No run has an official verdict to compare with." in page


def test_a_long_list_is_cut_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "MAX_LISTED", 3)
    assert "more disagreements are not shown here" in agreement_html(made(60), STILLS)


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_it_fits_every_window_and_asks_nobody_for_anything(
    opened: Any, tmp_path: Path, width: int
) -> None:
    path = tmp_path / "page.html"
    path.write_text(agreement_html(made(), STILLS), encoding="utf-8")
    page = opened(path, viewport={"width": width, "height": 800})
    page.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
    assert page.overflow == 0
    assert page.requests == [path.as_uri()]
    assert (page.said, page.dialogs) == ([], [])
