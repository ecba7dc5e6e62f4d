"""The registry of finding codes: it holds what the stages emit, and nothing that none emits."""

from __future__ import annotations

import ast
import copy
import json
import pickle
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from statediff_lab.reads.verdict import WORDS

from statediff.evidence import canonical, documents
from statediff.model.codes import FindingCode, meaning_of, origin_of
from statediff.model.explanation import Reason
from statediff.model.verdict import Finding, Stage, Truth
from tests.code import CHECKOUT, CORE, PACKAGES

EMITTERS = (
    *sorted((CORE / "kernel" / "policy").rglob("*.py")),
    CORE / "model" / "explanation.py",
    CHECKOUT / "lab" / "statediff_lab" / "reads" / "verdict.py",
)
"""Only these make findings, the causes of findings, and rulings; everything else reads them."""
TEXTS = {code.value for code in FindingCode}
ELSEWHERE = {
    "meta/fault_classes.py": {"missing-change"},  # a class of seeded faults
    "meta/read_faults.py": {"unsearched-absence", "hallucinated-citation", "invalid-citation",
                      "unrecorded-reads"},  # as above
    "lab/statediff_lab/labels.py": {"contract-ambiguity"},  # a reviewer's answer
}  # fmt: skip
"""Texts of other vocabularies that are spelled like a code."""


def test_every_open_question_has_one_cause() -> None:
    for code in FindingCode:
        is_question = bool(code.stages.get(Truth.UNKNOWN))
        assert (code.origin is not None) == is_question, code
        assert origin_of(code.value) is code.origin
    assert origin_of("a-code-of-another-version") is None


def named(trees: Iterable[ast.AST]) -> Iterator[str]:
    """The members of FindingCode that the sources name other than to compare with them."""
    for tree in trees:
        compared = {
            id(inner)
            for node in ast.walk(tree)
            if isinstance(node, ast.Compare)
            for inner in ast.walk(node)
        }
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "FindingCode"
                and id(node) not in compared
            ):
                yield node.attr


def hyphenated(tree: ast.AST) -> set[str]:
    """The texts in a source that are spelled like codes of several words."""
    texts = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)}
    return {text for text in texts & TEXTS if "-" in text}


def parsed(path: Path) -> ast.AST:
    return ast.parse(path.read_text(encoding="utf-8"))


def test_every_code_is_emitted_and_every_emitted_code_is_registered() -> None:
    assert set(named(map(parsed, EMITTERS))) == set(FindingCode.__members__)


def test_a_code_that_is_only_compared_with_is_not_emitted() -> None:
    source = "fails(FindingCode.UNDEFINED)\nif code is FindingCode.HOLDS: pass\n"
    assert list(named([ast.parse(source)])) == ["UNDEFINED"]


@pytest.mark.slow
def test_no_source_spells_a_code_out() -> None:
    registry = CORE / "model" / "codes.py"
    found = {
        path.relative_to(CORE if path.is_relative_to(CORE) else CHECKOUT).as_posix(): texts
        for package in PACKAGES
        for path in package.rglob("*.py")
        if path != registry and (texts := hyphenated(parsed(path)))
    }
    assert found == ELSEWHERE


def some(code: FindingCode) -> Iterator[Finding]:
    """A finding of the code for each truth and stage that it may have."""
    for truth, stages in code.stages.items():
        for stage in stages:
            yield Finding("c", code, stage, truth, Reason.ENOUGH())


def test_a_finding_has_a_registered_code() -> None:
    for text in ("made-up", "missing-change"):
        with pytest.raises(TypeError, match="no FindingCode"):
            Finding("c", text, Stage.REQUIRE, Truth.FAILS, Reason.ENOUGH())  # type: ignore[arg-type]


def test_a_finding_has_a_truth_and_a_stage_that_its_code_may_have() -> None:
    made = {(f.code, f.stage, f.truth) for code in FindingCode for f in some(code)}
    for code in FindingCode:
        for stage in Stage:
            for truth in Truth:
                if (code, stage, truth) not in made:
                    with pytest.raises(ValueError, match=f"{code} may not be"):
                        Finding("c", code, stage, truth, Reason.ENOUGH())
    missing = next(some(FindingCode.MISSING_CHANGE))
    with pytest.raises(ValueError, match="may not be FAILS at the stage forbid"):
        replace(missing, stage=Stage.FORBID)


def test_only_codes_of_rulings_have_no_stage() -> None:
    assert {c for c in FindingCode if not any(c.stages.values())} == {
        FindingCode.WRONG_ANSWER, FindingCode.NOT_A_READ, FindingCode.UNRECORDED_READS,
    }  # fmt: skip
    for code in WORDS:
        assert set(code.stages.get(Truth.FAILS, ())) <= {Stage.ACCESS}


def test_every_code_says_what_it_means() -> None:
    meanings = [code.meaning for code in FindingCode]
    assert all(meaning and meaning == meaning.strip().rstrip(".") for meaning in meanings)
    assert len(set(meanings)) == len(meanings)
    assert {code.component for code in FindingCode} == {"capture", "resolve", "policy"}
    assert all(code.meaning == meaning_of(code.value) for code in FindingCode)
    assert meaning_of("a-code-of-another-version") == ""


def test_outside_of_what_must_happen_only_two_violations_are_omissions() -> None:
    omissions = {code for code in FindingCode if code.is_omission}
    assert all(set(code.stages) == {Truth.FAILS} for code in omissions)
    excused = {Stage.REQUIRE, Stage.ANSWER}
    assert {c for c in omissions if not set(c.stages[Truth.FAILS]) <= excused} == {
        FindingCode.ACTION_UNREPAIRED, FindingCode.TOO_FEW_CALLS,
    }  # fmt: skip


@pytest.mark.parametrize("code", FindingCode)
def test_a_code_is_its_text_wherever_it_is_written(code: FindingCode) -> None:
    text = code.value
    assert type(text) is str
    assert (code, hash(code), str(code), f"{code:>40}") == (
        text, hash(text), text, f"{text:>40}",
    )  # fmt: skip
    assert json.dumps({code: [code]}) == json.dumps({text: [text]})
    assert canonical.write({code: [code]}) == canonical.write({text: [text]})
    assert sorted([code, "m"]) == sorted([text, "m"])
    assert pickle.loads(pickle.dumps(code)) is copy.deepcopy(code) is code
    for finding in some(code):
        document = documents.finding_document(finding)
        assert (type(document["code"]), document["code"]) == (str, text)
        assert document["component"] == finding.component == code.component
