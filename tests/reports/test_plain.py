"""The plain JSON of values: exact where a number can be, text where it cannot, never ambiguous."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.errors import BundleError
from statediff.evidence.canonical import write
from statediff.evidence.package import Bundle
from statediff.model.values import ABSENT, Excluded, Map, Observed, Unobserved
from statediff.reports.formats.published import judgement_schema
from statediff.reports.plain import dumps, plain, plain_judgement, plain_key
from statediff.reports.record import said
from tests.reports.test_html import BUNDLES
from tests.reports.test_turns import judged

DOUBLE_INTEGERS = 2**53


@pytest.mark.parametrize(
    ("observed", "text"),
    [
        (None, "null"), (True, "true"), (5, "5"), ("text", '"text"'),
        (Decimal("12.50"), "12.50"), (Decimal("0.1"), "0.1"),
        (Decimal("0.1000000000000000055511151231257827"), '"0.1000000000000000055511151231257827"'),
        (DOUBLE_INTEGERS + 1, '"9007199254740993"'), (1.5, "1.5"), (float("nan"), '"nan"'),
        (float("inf"), '"inf"'), (b"\x00", '{"bytes": "AA=="}'), (date(2026, 1, 2), '"2026-01-02"'),
        (datetime(2026, 1, 2, tzinfo=UTC), '"2026-01-02T00:00:00.000000Z"'),
        (ABSENT, '{"absent": true}'), (Excluded("r"), '{"excluded": "r"}'),
        (Unobserved("c"), '{"unobserved": "c"}'), ((1, None), "[1, null]"),
        (Map.of({"a": 1}), '{"a": 1}'),
        (Map.of({"unobserved": "c"}), '{"map": {"unobserved": "c"}}'),
        (Map.of({"map": Map.of({"absent": True})}), '{"map": {"map": {"map": {"absent": true}}}}'),
    ],
)  # fmt: skip
def test_a_value_is_written_as_plain_json(observed: Observed, text: str) -> None:
    assert dumps(plain(observed)) == text


def test_a_key_of_one_field_is_the_value_and_any_other_a_list() -> None:
    assert plain_key((7,)) == 7
    assert plain_key(("a", 1)) == ["a", 1]


@given(st.decimals(allow_nan=False, allow_infinity=False) | st.integers())
def test_a_number_that_is_written_as_one_is_read_back_exactly(number: Decimal | int) -> None:
    text = dumps(plain(number))
    exact = json.loads(text, parse_float=Decimal)
    assert Decimal(exact) == number
    if not isinstance(exact, str):
        assert Decimal(repr(json.loads(text))) == number


@given(st.recursive(st.none() | st.booleans() | st.text(), lambda inner: st.dictionaries(
    st.sampled_from(["absent", "unobserved", "excluded", "bytes", "map", "a"]), inner, max_size=2),
))  # fmt: skip
def test_no_value_passes_for_a_marker(document: object) -> None:
    def value(part: object) -> Observed:
        if isinstance(part, dict):
            return Map.of({name: value(inner) for name, inner in part.items()})
        return part  # type: ignore[return-value]

    found = plain(value(document))
    if isinstance(found, dict) and len(found) == 1:
        assert next(iter(found)) not in ("absent", "unobserved", "excluded", "bytes")


@given(st.text())
def test_what_is_said_never_steers_a_terminal(text: str) -> None:
    shown = said(text)
    assert shown.isprintable()
    assert not set(shown) & set("\x1b\u202e\u2066\u200b\ufeff\r\n")


@given(st.text() | st.recursive(st.integers(), st.lists))
def test_what_is_dumped_is_one_line_of_ascii_json(document: object) -> None:
    text = dumps(document)
    assert text.isascii()
    assert "\n" not in text
    assert json.loads(text) == document


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("metrics", {"precision": "1/0", "recall": None, "forbidden_effect_rate": None}),
        ("metrics", {"precision": "much"}),
        ("metrics", []),
        ("findings", [None]),
        ("findings", [{"code": "x"}]),
        ("deltas", [{"id": "d"}]),
        ("doubts", [{"key": [["int", "three"]]}]),
        ("explained_by", [["one"]]),
        ("hidden", {"delta": {}}),
        ("results", []),
    ],
)
def test_a_judgement_that_makes_no_sense_is_a_bundle_error(name: str, value: object) -> None:
    bundle = BUNDLES["match"]
    judged = {**bundle.document("judgement.json"), name: value}
    hostile = {**bundle.files, "judgement.json": write(judged)}
    with pytest.raises(BundleError, match="here: the bundle contradicts itself"):
        plain_judgement(Bundle(bundle.manifest, hostile), "here")


@pytest.mark.parametrize("bundle", [*BUNDLES.values(), judged().bundle])
def test_a_judgement_is_printed_as_its_schema_says(bundle: Bundle) -> None:
    printed = json.loads(dumps(plain_judgement(bundle, "kept")))
    jsonschema.validate(printed, judgement_schema())
    for call in printed["calls"]:
        assert {*call} == {*judgement_schema()["properties"]["calls"]["items"]["properties"]}
