"""What a plain scalar means, what a reader cannot see, and how a text is quoted in a message."""

from __future__ import annotations

from decimal import Decimal

import pytest

from statediff.contract.yaml.scalars import (
    NotAScalar,
    character_name,
    has_surrogate,
    hidden_character,
    quoted,
    resolve,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None), ("~", None), ("null", None), ("NULL", None), ("nil", "nil"),
        ("true", True), ("FALSE", False), ("tRUE", "tRUE"), ("no", "no"), ("on", "on"),
        ("0", 0), ("-0", 0), ("+7", 7), ("-12", -12), ("0o17", 15), ("0x1F", 31), ("0b1", "0b1"),
        ("0o8", "0o8"), ("0x", "0x"), ("1_000", "1_000"), ("2026-01-01", "2026-01-01"),
        ("1.50", Decimal("1.50")), (".5", Decimal("0.5")), ("1.", Decimal(1)),
        ("0.5", Decimal("0.5")),
        ("-1e3", Decimal("-1e3")), ("1e400", Decimal("1e400")), ("1e-400", Decimal("1e-400")),
        ("1e", "1e"), (".", "."), ("-.nan", "-.nan"), (".infinite", ".infinite"),
        ("9" * 100, int("9" * 100)), ("x" * 101, "x" * 101), ("01x", "01x"),
    ],
)  # fmt: skip
def test_a_plain_scalar_is_what_the_core_rules_say(text: str, value: object) -> None:
    found = resolve(text)
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize(
    "text",
    ["01", "-01", "+007", "00", "01.5", ".inf", "-.Inf", ".nan", ".NaN", "9" * 101, "." + "1" * 100,
     "1e401", "1e-401", "1e0400", "1e99999999999999999999"],
)  # fmt: skip
def test_a_number_that_readers_understand_differently_is_refused(text: str) -> None:
    with pytest.raises(NotAScalar) as caught:
        resolve(text)
    assert caught.value.args == (str(caught.value),)
    assert "quote it if it is text" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "in_text", "in_key"),
    [
        ("a b", None, None), ("größe", None, None), ("\U0001f600", None, None),
        ("a\tb", None, "U+0009"), ("a\nb", None, "U+000A"),
        ("a\rb", "U+000D", "U+000D"), ("\x7f", "U+007F", "U+007F"),
        ("a\xa0b", None, "U+00A0 NO-BREAK SPACE"),
        ("\u2028", "U+2028 LINE SEPARATOR", "U+2028 LINE SEPARATOR"),
        ("\u2029", "U+2029 PARAGRAPH SEPARATOR", "U+2029 PARAGRAPH SEPARATOR"),
        ("é\u200b\u2028", "U+200B ZERO WIDTH SPACE", "U+200B ZERO WIDTH SPACE"),
        ("\u3164", "U+3164 HANGUL FILLER", "U+3164 HANGUL FILLER"),
    ],
)  # fmt: skip
def test_the_first_character_that_nobody_sees_is_named(
    text: str, in_text: str | None, in_key: str | None
) -> None:
    assert hidden_character(text, is_key=False) == in_text
    assert hidden_character(text, is_key=True) == in_key


def test_half_a_character_is_found_anywhere() -> None:
    assert has_surrogate("a\ud800")
    assert not has_surrogate("a\U00010000")
    assert character_name("a") == "U+0061 LATIN SMALL LETTER A"


@pytest.mark.parametrize(
    ("text", "limit", "shown"),
    [
        ("a  b", 40, "`a  b`"), ("a  b\n   c", 40, "`a b c`"), ("a\u202eb", 40, "`a\\u202eb`"),
        ("x" * 40, 40, f"`{'x' * 40}`"), ("x" * 41, 40, f"`{'x' * 39}…`"), ("abcd", 3, "`ab…`"),
    ],
)  # fmt: skip
def test_a_quotation_is_one_short_line_with_nothing_hidden(
    text: str, limit: int, shown: str
) -> None:
    assert quoted(text, limit) == shown
    if limit == 40:
        assert quoted(text) == shown
