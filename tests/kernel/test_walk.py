"""A second judgement of the same takes few calls, through few modules."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import statediff
from statediff.capture.take import take
from statediff.contract.file import load_contract
from statediff.kernel import TrialFacts, judgement_of
from statediff.model.state import MemoryChunks
from statediff.model.values import Map
from statediff.model.verdict import Judgement, Verdict
from statediff.systems.tables.source import TablesSource

PACKAGE = str(Path(statediff.__file__).parent)
PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
MOST_CALLS = 417
MOST_MODULES = 25


@pytest.fixture
def judge(tmp_path: Path) -> Callable[[], Judgement]:
    """Judges the two tickets of docs/architecture.md."""
    for name, text in re.findall(r"(?ms)^```\w+ file=(\S+)\n(.*?)^```$", PAGE.read_text("utf-8")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    one, two = ((tmp_path / f"desk-{side}.json").read_bytes() for side in ("before", "after"))
    chunks = MemoryChunks()

    def noon() -> datetime:
        return datetime(2026, 1, 5, 12, tzinfo=UTC)

    first = TablesSource("desk", one, companion=two)
    before = take([first], chunks, noon, None, "before")
    last = TablesSource("desk", two, companion=one, is_after=True)
    after = take([last], chunks, noon, before, "after")
    file = load_contract(tmp_path / "close-ticket.yaml")
    answer = Map((("closed", 1),))
    return lambda: judgement_of(file, before, after, answer=answer, facts=TrialFacts("trial-1"))


def walked(work: Callable[[], object]) -> Counter[str]:
    """How often code of each of statediff's modules was entered."""
    found: Counter[str] = Counter()

    def enter(frame: FrameType, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(PACKAGE):
            found[file.removeprefix(PACKAGE)] += 1

    known = sys.getprofile()
    sys.setprofile(enter)
    try:
        work()
    finally:
        sys.setprofile(known)
    return found


def test_two_tickets_are_judged_again_in_few_calls_through_few_modules(
    judge: Callable[[], Judgement],
) -> None:
    assert judge().verdict is Verdict.DIVERGE
    found = walked(judge)
    stages = ("diff", "resolve/__init__", "policy/judge")
    assert {f"/kernel/{stage}.py" for stage in stages} <= found.keys()
    assert found.total() <= MOST_CALLS, found.most_common()
    assert len(found) <= MOST_MODULES, sorted(found)
