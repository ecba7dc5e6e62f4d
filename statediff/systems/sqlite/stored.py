"""What a stored value of a SQLite column means: decimals of NUMERIC columns, nodes of R-trees.

A column declared DECIMAL or NUMERIC has NUMERIC affinity: SQLite keeps 98.70 as the double nearest
to it, and 100.00 as an integer. What people wrote is the shortest decimal that names this double,
and no two doubles share it, so that nothing is lost; the declared scale pads it with zeros. A
difference below the double's resolution was never stored. Columns of other affinities keep the
double, which is what their type says.

SQLite leaves bytes in such a column as they are. Programs that bind a decimal as the ASCII bytes of
its digits, as Python's are advised to, keep it exactly: it is read as that decimal.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any, Final

from statediff.model.schema import Field, Kind
from statediff.systems.base.rows import Convert, converter

DECIMALS: Final = frozenset({"DECIMAL", "DEC", "NUMERIC", "NUMBER", "MONEY"})
"""Declared types of NUMERIC affinity that mean decimal numbers."""
_DECLARED: Final = re.compile(r"\s*(\w+)\s*(?:\(\s*\d+\s*(?:,\s*(\d{1,2})\s*)?\))?\s*")
_DOUBLES: Final = re.compile("REAL|FLOA|DOUB", re.IGNORECASE)
_WRITTEN: Final = re.compile(rb"-?[0-9]{1,40}(\.[0-9]{1,40})?")
_MAX_PADDED: Final = 40
"""Digits before the point; a longer number is no amount, and is not padded."""


def column_reader(field: Field, declared: str) -> Convert | None:
    """How a stored value of this field is read, or None when it is taken as it is."""
    scale = decimal_scale(declared)
    if scale is None and _DOUBLES.search(declared):
        scale = 0  # who states that such a column holds decimals means those that people wrote
    if scale is not None and field.kind is Kind.DECIMAL:
        return lambda stored: written_decimal(stored, scale)
    return converter(field)


def decimal_scale(declared: str) -> int | None:
    """The digits after the point that a decimal column declares, 0 for none; None for others.

    >>> decimal_scale("decimal(12, 2)"), decimal_scale("NUMERIC"), decimal_scale("REAL")
    (2, 0, None)
    """
    found = _DECLARED.fullmatch(declared)
    if found is None or found[1].upper() not in DECIMALS:
        return None
    return int(found[2] or 0)


def written_decimal(stored: Any, scale: int) -> Any:
    """The decimal that a stored number stands for, with at least `scale` digits after the point.

    >>> written_decimal(98.7, 2), written_decimal(100, 2), written_decimal(0.125, 2)
    (Decimal('98.70'), Decimal('100.00'), Decimal('0.125'))
    >>> written_decimal(b"1850", 2), written_decimal(b"5.4000", 2), written_decimal(b"n/a", 2)
    (Decimal('1850.00'), Decimal('5.4000'), b'n/a')
    """
    if type(stored) is float and math.isfinite(stored):
        exact = Decimal(repr(stored))
    elif type(stored) is int:
        exact = Decimal(stored)
    elif type(stored) is bytes and _WRITTEN.fullmatch(stored):
        exact = Decimal(stored.decode())
    else:
        return stored  # null, text, bytes, and the infinities
    sign, digits, exponent = exact.as_tuple()
    if not isinstance(exponent, int) or exact.adjusted() > _MAX_PADDED:
        return exact
    padding = exponent + scale
    if padding <= 0:
        return exact
    return Decimal((sign, (*digits, *([0] * padding)), -scale))


def tree_node(stored: Any, cell_bytes: int) -> Any:
    """The node of an R-tree; what is left behind its last cell, which nothing reads, is zero.

    >>> tree_node(bytes.fromhex("0000 0001 01020304 99"), 4).hex()
    '000000010102030400'
    """
    if type(stored) is not bytes:
        return stored
    end = 4 + int.from_bytes(stored[2:4], "big") * cell_bytes
    return stored[:end] + bytes(max(0, len(stored) - end))
