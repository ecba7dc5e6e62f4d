import contextlib
import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.errors import InputError
from statediff.model.strictjson import read_json
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
