"""A form of instants has one spelling for each, so that nothing is forgotten by reading it."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.model.instants import (
    NO_FORM,
    form_of_all,
    form_of_texts,
    has_offset,
    is_form,
    is_written_in,
    parse_instant,
    spelling_of,
)

OFFSETS = ["", "Z", "+00:00", "-00:00", "+01:00", "-05:30"]
FRACTIONS = ["", ".0", ".5", ".50", ".500", ".123456", ".120000", ".000", ".000000"]
FORMS = [
    f"YYYY-MM-DD{separator}hh:mm{seconds}{offset}"
    for separator in "T "
    for seconds in ("", ":ss", ":ss.fff", ":ss.ffffff", ":ss[.ffffff]", ":ss[.fff]", ":ss[.f*]")
    for offset in OFFSETS
]
texts = st.builds(
    lambda at, separator, fraction, offset, has_seconds: (
        at.strftime(f"%Y-%m-%d{separator}%H:%M:%S").zfill(19) + fraction + offset
        if has_seconds
        else at.strftime(f"%Y-%m-%d{separator}%H:%M").zfill(16) + offset
    ),
    st.datetimes(datetime(2026, 1, 1), datetime(2026, 1, 1, 3)),  # noqa: DTZ001 - as text
    st.sampled_from("T "),
    st.sampled_from(FRACTIONS),
    st.sampled_from(OFFSETS),
    st.booleans(),
)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_one(form: str) -> None:
    assert is_form(form)
    assert has_offset(form) == form.endswith(("Z", "00", "30"))


@given(texts, texts, st.sampled_from(FORMS))
def test_two_texts_of_one_form_are_one_instant_only_if_they_are_one_text(
    one: str, other: str, form: str
) -> None:
    if is_written_in(one, form) and is_written_in(other, form):
        assert (parse_instant(one) == parse_instant(other)) == (one == other)


@given(st.lists(texts, min_size=1))
def test_the_form_that_is_found_reads_every_text(found: list[str]) -> None:
    form = form_of_all(spelling for text in found if (spelling := spelling_of(text)) is not None)
    assert form is None or all(is_written_in(text, form) for text in found)
    assert form_of_texts(found) == (form or NO_FORM)


@given(st.datetimes(), st.sampled_from(["", "Z", "+01:00"]))
def test_what_python_writes_is_of_one_form(at: datetime, offset: str) -> None:
    assert is_written_in(at.isoformat(" ") + offset, f"YYYY-MM-DD hh:mm:ss[.ffffff]{offset}")


@given(st.text(max_size=40))
def test_other_texts_have_no_form(text: str) -> None:
    assert spelling_of(text) is None or parse_instant(text) is not None
    assert not is_written_in(text, NO_FORM)


@pytest.mark.parametrize(
    "text", ["2026-01-31T24:00:00Z", "2026-02-30T00:00:00Z", "0001-01-01T00:00:00+14:00", "",
             "2026-01-31", "2026-01-31T09:00:00.1234567Z", "\uff12026-01-31T09:00:00Z"],
)  # fmt: skip
def test_no_such_instant(text: str) -> None:
    assert parse_instant(text) is None
    assert spelling_of(text) is None
