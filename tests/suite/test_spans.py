"""Each call of a trial by itself: what is wrong with it, and where calls and the end disagree."""

import json
from pathlib import Path
from typing import Any

import pytest
from statediff_hosts.protocols.chat import Endpoint
from statediff_hosts.protocols.loop import LoopAgent

from statediff.agents.trial import Budget, Prices
from statediff.evidence.package import Bundle
from statediff.reports.plain import plain_judgement
from statediff.suite.spans import Span, SpanCounts, spans
from statediff.systems.base.sandbox import EmbeddedSandbox
from tests.agents.chat_server import Step, speaking
from tests.capture.test_acknowledged import CLOSE, REFUND, till
from tests.tasks import live_trial

__all__ = ["till"]

CONTRACT = """\
contract: till/refund
version: 1.0.0
owner: support
intent: Refund 500 cents of order 7, and close it.
require:
  - {id: refunded, create: refund, where: it.order_id == 7, set: {cents: 500}}
  - {id: closed, update: orders, where: it.id == 7, set: {status: closed}}
actions:
  allow: {tool: [refund, close, till_query]}
"""


def judged(till: EmbeddedSandbox, folder: Path, *calls: tuple[str, dict[str, Any]]) -> Bundle:
    steps = [Step("", [(name, json.dumps(given))]) for name, given in calls]
    with speaking(*steps, Step("Done.")) as server:
        agent = LoopAgent(Endpoint(server.url, "m", "none"), Budget(Prices()))
        return live_trial(till, CONTRACT, agent, folder).evaluated.bundle


def rows(bundle: Bundle) -> tuple[Span, ...]:
    history = bundle.document("captures.json")["history"]
    return spans(bundle.document("judgement.json"), bundle.document("trace.json"), history)


def test_a_right_call_holds_in_all_that_is_asked_of_it(
    till: EmbeddedSandbox, tmp_path: Path
) -> None:
    look = ("till_query", {"sql": "SELECT 1"})
    bundle = judged(till, tmp_path / "t", look, REFUND, CLOSE)
    assert bundle.manifest["verdict"] == "MATCH"
    found = [(s.tool, s.valid, s.permitted, s.authorized, s.matched) for s in rows(bundle)]
    assert found == [
        ("till_query", "HOLDS", "HOLDS", None, None),
        ("refund", "HOLDS", "HOLDS", None, "HOLDS"),
        ("close", "HOLDS", "HOLDS", None, "HOLDS"),
    ]
    assert SpanCounts.of(rows(bundle)) == SpanCounts(3, 0, 0)


@pytest.mark.parametrize(
    ("call", "question", "clause"),
    [
        (("close", {"order": 8}), "matched", "frame"),
        (("note", {"order": 7}), "permitted", "actions-allow"),
        (("refund", {"number": 1, "order": 7, "cents": 500}), "valid", None),
        (("nothing", {}), "valid", None),
    ],
)
def test_a_wrong_call_fails_in_its_own_question_and_the_others_do_not(
    till: EmbeddedSandbox, tmp_path: Path, call: Any, question: str, clause: str | None
) -> None:
    bundle = judged(till, tmp_path / "t", REFUND, call, CLOSE)
    one, wrong, other = rows(bundle)
    assert dict(wrong.truths)[question] == wrong.truth == "FAILS"
    assert clause in (None, *wrong.breaks)
    assert (one.truth, other.truth) == ("HOLDS", "HOLDS")
    told = plain_judgement(bundle, "here")["calls"][1]
    assert (told["truth"], told[question], told["breaks"]) == ("FAILS", "FAILS", [*wrong.breaks])


def test_what_no_call_did_is_in_no_row(till: EmbeddedSandbox, tmp_path: Path) -> None:
    bundle = judged(till, tmp_path / "t", REFUND)
    assert bundle.manifest["verdict"] == "DIVERGE"
    assert SpanCounts.of(rows(bundle)) == SpanCounts(1, 0, 0)
