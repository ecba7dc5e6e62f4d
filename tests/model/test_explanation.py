"""Explanations: what words a reason says no more than its arguments, and no less."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from statediff.errors import InputError
from statediff.model.codes import FindingCode
from statediff.model.explanation import Explanation, Reason, cause, causes, explanation_from
from statediff.model.sentences import WORDED, sentence, sentence_of

CODE = Path(__file__).resolve().parents[2] / "statediff"
MAKERS = ("kernel", "contract", "reads", "model/explanation.py")


@pytest.mark.parametrize("reason", WORDED)
def test_a_function_that_words_a_reason_takes_its_arguments_and_no_others(reason: Reason) -> None:
    parameters = inspect.signature(WORDED[reason]).parameters.values()
    needed = [p.name for p in parameters if p.default is inspect.Parameter.empty]
    assert set(needed) == set(reason.arguments)


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason not in WORDED])
def test_every_other_reason_says_its_arguments_once_in_a_text(reason: Reason) -> None:
    plain = {name: 0 if name == "more" else name.upper() for name in reason.arguments}
    words = sentence(reason(**plain))
    assert [words.count(name.upper()) for name in reason.arguments if name != "more"] == (
        [1] * (len(reason.arguments) - ("more" in reason.arguments))
    )
    assert words.strip()


def test_every_reason_is_given_somewhere() -> None:
    files = [path for maker in MAKERS for path in sorted((CODE / maker).rglob("*.py"))]
    files += [CODE / maker for maker in MAKERS if maker.endswith(".py")]
    used = {
        node.attr
        for path in files
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "Reason"
    }
    assert used == set(Reason.__members__)


def test_the_texts_of_reasons_are_stable_words_and_different() -> None:
    texts = [reason.value for reason in Reason]
    assert len(set(texts)) == len(texts) == len(Reason.__members__)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", text) for text in texts)
    assert not any("is" in reason.arguments for reason in Reason), "the member of the reason itself"


def test_an_explanation_has_the_arguments_of_its_reason() -> None:
    with pytest.raises(TypeError, match="too-few"):
        Reason.TOO_FEW(number=1)
    with pytest.raises(TypeError, match="enough"):
        Reason.ENOUGH(number=1)


DEEP = Reason.AT(
    place=Reason.SIDE(side="moment 2 of db"),
    what=Reason.TWICE(value=Reason.VALUE(value=("text", "a")), entities=()),
)


def test_an_explanation_comes_back_from_its_json() -> None:
    assert explanation_from(DEEP.document()) == DEEP
    assert DEEP.document() == {
        "is": "at",
        "place": {"is": "side", "side": "moment 2 of db"},
        "what": {
            "is": "twice", "value": {"is": "value", "value": ["text", "a"]}, "entities": [],
        },
    }  # fmt: skip
    assert sentence(DEEP) == sentence_of(DEEP.document()) == 'moment 2 of db: "a" is not unique'


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        7,
        {},
        {"is": "at"},
        {"is": "recorded", "code": "", "words": "x"},
        {"is": "side", "side": None},
        {"is": "side", "side": 1.5},
        {"is": "side", "side": "x", "more": 1},
        {"side": "x"},
    ],
)
def test_what_is_no_explanation_is_refused(document: Any) -> None:
    with pytest.raises(InputError):
        explanation_from(document)


def test_a_reason_of_another_version_is_shown_by_its_code() -> None:
    assert sentence_of({"is": "of-tomorrow", "n": 1}) == "of-tomorrow"
    assert sentence_of({"is": "\u202ex"}) == "\\u202ex"


def test_a_recorded_cause_has_its_code_apart_and_only_at_its_head() -> None:
    assert cause("stale: read before") == Reason.RECORDED(code="stale", words="read before")
    assert cause("stale: read before").code is FindingCode.EVIDENCE_STALE
    for text in ("hidden", "it said stale: read before", "stale"):
        assert cause(text) == Reason.RECORDED(code="", words=text)
        assert cause(text).code is None
        assert sentence(cause(text)) == text
    held: Explanation = Reason.IN(place="item", cause=cause("unsettled: it moved"))
    assert held.code is FindingCode.EVIDENCE_UNSETTLED
    assert Reason.NO_HISTORY(cause=held).code is FindingCode.HISTORY_UNOBSERVED


def test_a_recorded_cause_is_its_text_in_json() -> None:
    for text in ("hidden", "stale: read before"):
        held = Reason.IN(place="item[1].n", cause=cause(text))
        assert held.document() == {"is": "in", "place": "item[1].n", "cause": text}
        assert explanation_from(held.document()) == held
        assert explanation_from(cause(text).document()) == cause(text)


def test_causes_stand_once_and_by_place_however_they_are_given() -> None:
    last = Reason.NO_PARTS(part="x")
    first = Reason.IN(place="item", cause=cause("hidden"))
    assert causes([last, "b", first, "b"]) == causes(["b", first, last])
    assert causes([last, "b", first]) == (cause("b"), first, last)


def test_of_a_source_that_was_not_read_its_own_words_are_said_wherever_they_are() -> None:
    unread = Explanation(Reason.RECORDED, ("unread", "the server is gone"))
    somebody = Explanation(Reason.SOMEBODY, ())
    of_change = Explanation(Reason.OF_CHANGE, (somebody, unread))
    needed = Explanation(Reason.NEEDED, (of_change, "frame"))
    assert sentence(needed) == "the server is gone; needed by frame"
