"""One cell of a column is what the whole column says of it, in every form."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from statediff.model.batches import TAGGED, decode_cell, decode_column, encode_column
from statediff.model.schema import Kind
from statediff.model.values import ABSENT, Unobserved

INDIA = timezone(timedelta(hours=5, minutes=30))
COLUMNS: list[tuple[Kind, str, list[Any]]] = [
    (Kind.BOOL, "bool", [True, None, False]),
    (Kind.INT, "int", [0, None, -(2**63), 2**63 - 1]),
    (Kind.INT, TAGGED, [2**63, None]),
    (Kind.DECIMAL, "decimal", [Decimal("1.50"), None, Decimal("-0"), Decimal("1E+5")]),
    (Kind.FLOAT, "float", [-0.0, None, float("inf")]),
    (Kind.TEXT, "text", ["", None, "ä\U0001f600", "line\nline"]),
    (Kind.BYTES, "bytes", [b"", None, b"\x00\xff"]),
    (
        Kind.TIMESTAMP,
        "timestamp",
        [
            datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
            None,
            datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
            datetime(1, 1, 1, tzinfo=UTC),
            datetime(2026, 3, 29, 2, 30, 0, 1, tzinfo=INDIA),
        ],
    ),
    (Kind.LOCAL_TIMESTAMP, "local_timestamp", [datetime(2026, 3, 29, 2, 30, 0, 1), None]),  # noqa: DTZ001 - it has no zone
    (Kind.DATE, "date", [date(1, 1, 1), None, date(9999, 12, 31)]),
    (Kind.TEXT, TAGGED, ["a", ABSENT, Unobserved("stale"), None, ("list",)]),
]


@pytest.mark.parametrize(("kind", "form", "values"), COLUMNS)
def test_a_cell_is_what_its_column_says(kind: Kind, form: str, values: list[Any]) -> None:
    column, found = encode_column(kind, values)
    assert found == form
    whole = decode_column(column, form)
    cells = [decode_cell(column, at, form) for at in range(len(values))]
    assert cells == whole == values
    assert list(map(repr, cells)) == list(map(repr, whole))
    part = column.slice(1)
    assert repr(decode_cell(part, 0, form)) == repr(whole[1])


def test_a_keyless_cell_is_a_digest_and_a_number() -> None:
    column, _ = encode_column(Kind.TEXT, ["ab#0", "ab#12"])
    assert decode_cell(column, 1, "keyless") == ("ab", 12)
