"""The view of a reader who has one evaluator alone: never what only another one shows."""

from __future__ import annotations

import pytest
from rich.console import Console
from statediff_lab.reports.evaluator_views import VIEWS, view

from statediff.meta.reference import Rows
from statediff.meta.stage_cases import bundle_of
from tests.meta.test_mutate import TIGHT, watched


def first_is_gone(rows: Rows) -> None:
    del rows[min(rows)]


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    bundle = bundle_of(watched(TIGHT).edited({"user": first_is_gone}))
    console = Console(width=160, no_color=True)
    found = {}
    for name in VIEWS:
        with console.capture() as shown:
            console.print(view(bundle, name))
        found[name] = shown.get()
    return found


def test_every_evaluator_of_the_paper_has_a_view_of_its_own(texts: dict[str, str]) -> None:
    assert set(texts) == {"final-text", "raw-equality", "contract-diff", "statediff"}
    assert len(set(texts.values())) == 4
    assert all("Intent" in text for text in texts.values())


def test_the_answer_alone_shows_no_change_and_raw_states_no_clause(texts: dict[str, str]) -> None:
    assert "user" not in texts["final-text"].split("What the agent answered")[1]
    assert "− user" in texts["raw-equality"]
    for name in ("final-text", "raw-equality"):
        assert "DIVERGE" not in texts[name]
        assert "stands against it" not in texts[name]


def test_the_diff_names_what_is_against_it_and_only_the_judge_its_verdict(
    texts: dict[str, str],
) -> None:
    against = texts["contract-diff"].split("What stands against it")[1].split("What changed")[0]
    assert "frame" in against
    assert "user" in against
    assert "DIVERGE" not in texts["contract-diff"]
    assert "DIVERGE" in texts["statediff"]
