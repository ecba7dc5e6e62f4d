import contextlib
import json
import time
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.errors import InputError
from statediff.model.strictjson import (
    Flaw,
    FlawKind,
    Limits,
    freeze,
    read_json,
    read_tree,
    read_with_flaws,
)
from statediff.model.values import Map

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=20,
)


def plain(value):
    if isinstance(value, Map):
        return {name: plain(item) for name, item in value.items}
    return [plain(item) for item in value] if isinstance(value, tuple) else value


@given(PLAIN)
def test_what_json_writes_without_fractions_reads_back_the_same(value):
    assert plain(read_json(json.dumps(value).encode(), "it")) == value


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-1e9, max_value=1e9, places=3))
def test_a_fraction_keeps_every_digit(number):
    found = read_json(str(number).encode(), "it")
    assert isinstance(found, Decimal)
    assert found.as_tuple() == number.as_tuple()


@given(st.binary(max_size=40))
def test_any_bytes_are_a_value_or_an_input_error(raw):
    with contextlib.suppress(InputError):
        plain(read_json(raw, "it"))


def test_the_depth_allowed_is_the_depth_asked_for():
    assert read_json(b"[[1]]", "it", max_depth=2) == ((1,),)
    with pytest.raises(InputError, match="deeper than 1 levels"):
        read_json(b"[[1]]", "it", max_depth=1)


def flaw(raw, limits):
    with pytest.raises(Flaw) as found:
        read_tree(raw, limits)
    return found.value.kind


@pytest.mark.parametrize(
    ("raw", "limits", "kind"),
    [
        (b"[1]", Limits(max_bytes=2), FlawKind.TOO_LARGE),
        (b"[[1]]", Limits(max_depth=1), FlawKind.TOO_DEEP),
        (b"123", Limits(max_digits=2), FlawKind.TOO_MANY_DIGITS),
        (b"1.5", Limits(max_exponent=None), FlawKind.NO_NUMBER),
        (b"1e0", Limits(max_exponent=None), FlawKind.NO_NUMBER),
        (b"1e9", Limits(max_exponent=8), FlawKind.OUT_OF_RANGE),
        (b"0e-9", Limits(max_exponent=8), FlawKind.OUT_OF_RANGE),
        (b"1e99999999999999999999", Limits(), FlawKind.OUT_OF_RANGE),
        (b"-8", Limits(max_integer=7), FlawKind.OUT_OF_RANGE),
        (b"NaN", Limits(), FlawKind.NO_NUMBER),
        (b'{"a":1,"\\u0061":2}', Limits(), FlawKind.KEY_TWICE),
        (b'["\\uD800"]', Limits(), FlawKind.HALF_PAIR),
        (b'{"\\\\\\udc00":1}', Limits(), FlawKind.HALF_PAIR),
        (b"\xef\xbb\xbf1", Limits(), FlawKind.NOT_JSON),
        (b"\xef\xbb\xbf\xef\xbb\xbf1", Limits(takes_mark=True), FlawKind.NOT_JSON),
        (b'"\xed\xa0\x80"', Limits(), FlawKind.NOT_UTF8),
        (b"", Limits(), FlawKind.NOT_JSON),
    ],
)
def test_what_goes_beyond_a_limit_is_refused_for_that(raw, limits, kind):
    assert flaw(raw, limits) is kind


def test_what_is_at_the_limit_is_read():
    limits = Limits(
        max_bytes=30, max_depth=2, max_digits=3, max_exponent=8, max_integer=7, takes_mark=True
    )
    assert read_tree(b"\xef\xbb\xbf[[-7,1e8]]", limits) == [[-7, Decimal("1e8")]]
    assert read_tree(b'["\\ud83d\\ude00","\\\\ud800"]', limits) == ["\U0001f600", "\\ud800"]


@pytest.mark.parametrize("text", ["[", '"[', '\\"[', "\\", '\\\\"{', "\n["])
def test_brackets_in_a_text_are_no_levels(text):
    raw = json.dumps([[text * 400]]).encode()
    assert read_tree(raw, Limits(max_depth=2)) == [[text * 400]]
    assert flaw(raw, Limits(max_depth=1)) is FlawKind.TOO_DEEP


@given(PLAIN, st.integers(1, 6))
def test_a_tree_is_as_deep_as_walking_it_says(value, depth):
    def outcome(read):
        try:
            return freeze(read(), depth)
        except Flaw as found:
            return found.kind

    raw = json.dumps(value).encode()
    walked = outcome(lambda: json.loads(raw))
    assert outcome(lambda: read_tree(raw, Limits(max_depth=depth))) == walked


@pytest.mark.parametrize("end", [b"", b'"' + b"]" * 300])
@pytest.mark.parametrize("unit", [b'\\"', b"\\\\", b"\\", b'"', b'\\"['])
def test_hostile_quotes_cost_time_in_proportion(unit, end):
    raw = b"[" * 300 + b'"' + unit * 500_000 + end
    began = time.process_time()
    with contextlib.suppress(Flaw):
        read_tree(raw, Limits(max_bytes=10_000_000, max_depth=300))
    assert time.process_time() - began < 3.0  # hours, if every quote were looked at from there on


def test_flaws_stay_in_their_places_for_callers_that_name_them():
    tree = read_with_flaws(b'{"a": [1, NaN], "b": {"c": 1, "c": 2}, "d": "\\ud800"}', Limits())
    assert tree["a"][0] == 1
    assert [tree["a"][1].text, tree["b"].text] == ["NaN", "c"]
    for name, kind in zip(
        "abd", (FlawKind.NO_NUMBER, FlawKind.KEY_TWICE, FlawKind.HALF_PAIR), strict=True
    ):
        with pytest.raises(Flaw) as found:
            freeze(tree[name], 9)
        assert found.value.kind is kind
