"""Each verdict that is left open says whether agent, environment or contract left it so."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, Final

import pytest

from statediff.model.explanation import BY_AGENT, BY_RUN, CAUSE_CODES, PARTED
from statediff.model.state import Coverage, Enumeration, State
from statediff.model.values import Digested, Unobserved
from statediff.reports.plain import brief_findings
from statediff.reports.wording.worded import worded_judgement
from tests.code import CHECKOUT, CORE
from tests.judging import DIVERGE, INCONCLUSIVE, run, state, user

READERS: Final = ("capture", "kernel/resolve", "systems")
_CALLS: Final = {"Unobserved", "unobserved", "unread", "Enumeration", "NotRead", "NotObserved",
                 "SourceUnavailable", "SourceRuined"}  # fmt: skip
"""What takes a cause."""


def _text(node: ast.expr) -> str:
    """A text as it is written in the code, with an `x` in the place of each value."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(map(_text, parts))
        case ast.FormattedValue():
            return "x"
        case _:
            return ""


def _causes() -> Iterator[str]:
    folders = [*(CORE / folder for folder in READERS), *CHECKOUT.glob("sandboxes/*/statediff_*")]
    for folder in folders:
        for path in folder.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call):
                    name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                    if name in _CALLS:
                        yield from filter(None, map(_text, node.args))


SPELLED: Final = sorted(set(_causes()))
WORDS: Final = sorted(CAUSE_CODES.keys() - {PARTED})
"""Not the one that leaves nothing open: readings that agreed before and part since DIVERGE."""


def _of_a_type(cause: str) -> State:
    return state({}, coverage={"user": Enumeration(Coverage.UNOBSERVED, cause)})


def _of_a_value(cause: str) -> State:
    return state({"user": [user(1, Unobserved(cause))]})


def _origins(*afters: State) -> set[Any]:
    """By whom the findings are left open."""
    found: set[Any] = set()
    for after in afters:
        done = run("forbid:\n  - {id: kept, any: user}\n", state({"user": [user(1)]}), after)
        assert done.judgement.verdict is INCONCLUSIVE
        open_ = [f for f in worded_judgement(done.bundle)["findings"] if f["truth"] == "UNKNOWN"]
        assert open_
        found |= {f["origin"] for f in open_}
    return found


@pytest.mark.parametrize("word", WORDS)
def test_every_registered_cause_says_whose_it_is(word: str) -> None:
    origin = CAUSE_CODES[word].origin
    cause = f"{word}: so it was"
    expected = "agent" if word in (BY_AGENT, BY_RUN) else origin and origin.value
    assert _origins(_of_a_type(cause), _of_a_value(cause)) == {expected}


def test_every_cause_that_a_source_gives_says_whose_it_is() -> None:
    """The run made unknown what was known before and is not known for what is there now."""
    assert len(SPELLED) > 100
    for cause in SPELLED:
        word = cause.partition(": ")[0]
        code = CAUSE_CODES.get(word)
        is_of_run = code is None or word in (BY_AGENT, BY_RUN)
        expected = "agent" if is_of_run or code.origin is None else code.origin.value
        assert _origins(_of_a_value(cause)) == {expected}, cause


BIG: Final = Digested.of("x" * 2_000_000)
ALL_MATCH: Final = """
require:
  - id: said
    that: all(matches(u.name, "x+y") for u in after.user)
allow:
  - any: user
"""


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([user(1)], [user(1) | {"name": BIG}], "agent"),
        ([], [user(1) | {"name": BIG}], "agent"),
        ([user(1) | {"name": BIG}], [user(1) | {"name": BIG, "role": "z"}], "environment"),
        ([user(1) | {"name": Unobserved("locked")}], [user(1) | {"name": BIG}], "environment"),
    ],
    ids=["written over", "written anew", "there before", "unknown before"],
)
def test_a_value_too_large_to_be_captured_is_of_the_agent_that_wrote_it(
    before: list[Any], after: list[Any], expected: str
) -> None:
    done = run(ALL_MATCH, state({"user": before}), state({"user": after}))
    if expected == "agent":  # it does not say what it must; nobody has to read it
        assert done.judgement.verdict is DIVERGE
        return
    assert done.judgement.verdict is INCONCLUSIVE
    found = {f["clause"]: f["origin"] for f in worded_judgement(done.bundle)["findings"]}
    assert found["said"] == expected
    assert [f["origin"] for f in brief_findings(done.bundle) if f["clause"] == "said"] == [expected]
