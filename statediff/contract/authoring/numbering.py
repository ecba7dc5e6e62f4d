"""Numbers that an application gives its new rows, one after the other, and texts that repeat them.

A column is numbered where each row has another number, of all or of those with one reference, and
those that the run created have the next free ones. A text of such a row with that number in it is
numbered too. Both are judged by the state before each run, not by what one run happened to get.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from typing import Final, NamedTuple

from statediff.contract.language.written import name_text, type_text
from statediff.model.batches import Row
from statediff.model.schema import EntityType
from statediff.model.values import Observed

LEAST_ROWS: Final = 3
"""Rows before the run that show that a column is numbered."""
MAX_TEXT: Final = 300
_NUMBER: Final = re.compile(r"(?<![A-Za-z0-9])([0-9]+)(?![A-Za-z0-9])")


class Numbered(NamedTuple):
    """A numbered column, and by which reference its rows are counted; empty where all are."""

    field: str
    by: str

    def conditions(self, entity: EntityType) -> list[str]:
        """A new row has a free number that follows a taken one, and no other new row has it."""
        own, of, by = f"it.{name_text(self.field)}", type_text(entity.name), name_text(self.by)

        def held(name: str, is_at: str) -> str:
            alike = f" and {name}.{by} == it.{by}" if self.by else ""
            return f"{name}.{name_text(self.field)} == {is_at}{alike}"

        return [
            f"not any({held('b', own)} for b in before.{of})",
            f"any({held('a', f'{own} - 1')} for a in after.{of})",
            f"count(c for c in created.{of} if {held('c', own)}) == 1",
        ]


class Numbering:
    """What one run's new rows of a type show, beside those that were there."""

    def __init__(self, entity: EntityType, before: Sequence[Row], created: Sequence[Row]) -> None:
        self._entity, self._before, self._created = entity, before, created

    @cached_property
    def columns(self) -> Mapping[str, Numbered]:
        """The numbered columns by their names."""
        groups = ["", *(f.name for f in self._entity.fields if f.reference is not None)]
        found: dict[str, Numbered] = {}
        for field in self._entity.fields:
            if field.name in self._entity.key or field.reference is not None or not self._before:
                continue
            rows = (*self._before, *self._created)
            if not all(_is_whole(row.get(field.name)) for row in rows):
                continue
            by = next((by for by in groups if self._is_next(field.name, by)), None)
            if by is not None:
                found[field.name] = Numbered(field.name, by)
        return found

    def _is_next(self, name: str, by: str) -> bool:
        known, new = (_grouped(rows, name, by) for rows in (self._before, self._created))
        every = {of: [*held, *new.get(of, ())] for of, held in known.items()}
        return all(len({*held}) == len(held) for held in every.values()) and all(
            len(known.get(of, ())) >= LEAST_ROWS and {n - 1 for n in held} <= {*every[of]}
            for of, held in new.items()
        )

    @cached_property
    def texts(self) -> Mapping[tuple[str, str], str]:
        """(field, text) of a new row in which its number stands → what all of its kind match."""
        return {
            (name, value): pattern
            for row in self._created
            for name, value in row.items()
            if isinstance(value, str) and name not in self._entity.key
            if self._entity.by_name[name].reference is None
            for pattern in self._patterns(row, value)
        }

    def _patterns(self, row: Row, text: str) -> Iterator[str]:
        numbers = {str(int(row[name])) for name in self.columns}  # type: ignore[arg-type]  # whole numbers
        parts = _NUMBER.split(text) if len(text) <= MAX_TEXT else []
        if numbers & {*parts[1::2]} and "".join(parts[::2]).strip():
            yield "".join(
                f"[0-9]{{1,{len(part) + 2}}}" if n % 2 and part in numbers else escaped(part)
                for n, part in enumerate(parts)
            )


def escaped(text: str) -> str:
    """The text as a regular expression that matches it alone."""
    return re.sub(r"[][.^$*+?(){}|\\]", r"\\\g<0>", text)


def _is_whole(value: Observed) -> bool:
    if not isinstance(value, int | Decimal) or isinstance(value, bool):
        return False
    return value == int(value)


def _grouped(rows: Sequence[Row], name: str, by: str) -> Mapping[object, list[int]]:
    found: dict[object, list[int]] = {}
    for row in rows:
        value = row[name]
        assert isinstance(value, int | Decimal)  # noqa: S101 - `_is_whole` was asked
        found.setdefault(row.get(by) if by else "", []).append(int(value))
    return found
