"""Numbers that an application gives its new rows, one after the other, and texts that repeat them.

A column is numbered where each row has another number, of all or of those with one reference, and
those that the run created have the next free ones. A text of such a row with that number in it is
numbered too. Both are judged by the state before each run, not by what one run happened to get.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from typing import Final

from statediff.contract.language.written import name_text, type_text
from statediff.model.batches import Row
from statediff.model.schema import EntityType

LEAST_ROWS: Final = 3
"""Rows before the run that show that a column is numbered."""
_NUMBER: Final = re.compile(r"(?<![A-Za-z0-9])([0-9]+)(?![A-Za-z0-9])")


class Numbering:
    """The numbers of one run's new rows of a type, beside those that were there."""

    def __init__(self, entity: EntityType, before: Sequence[Row], created: Sequence[Row]) -> None:
        self._entity, self._before, self.created = entity, before, created

    @cached_property
    def columns(self) -> Mapping[str, str]:
        """The reference by which the rows of each numbered column are counted; empty for all."""
        references = [f.name for f in self._entity.fields if f.reference is not None]
        names = [
            f.name for f in self._entity.fields if f.name not in (*self._entity.key, *references)
        ]
        found = {n: [by for by in ("", *references) if self._is_next(n, by)] for n in names}
        return {name: by[0] for name, by in found.items() if by}

    def _is_next(self, name: str, by: str) -> bool:
        held: dict[object, list[int]] = {}
        new: dict[object, list[int]] = {}
        for number, row in enumerate((*self._before, *self.created)):
            value = row.get(name)
            if not isinstance(value, int | Decimal) or isinstance(value, bool):
                return False
            if isinstance(value, Decimal) and not (value.is_finite() and value % 1 == 0):
                return False
            for kept in (held, new) if number >= len(self._before) else (held,):
                kept.setdefault(row.get(by), []).append(int(value))
        return all(len({*each}) == len(each) for each in held.values()) and all(
            len(held[of]) - len(each) >= LEAST_ROWS and {n - 1 for n in each} <= {*held[of]}
            for of, each in new.items()
        )

    def fills_gaps(self, name: str) -> bool:
        """True if a new row has a number below one that was taken."""
        by = self.columns[name]
        return any(
            row[name] < kept[name]  # type: ignore[operator]  # numbers
            for row in self.created
            for kept in self._before
            if kept.get(by) == row.get(by)
        )

    def conditions(self, name: str, *, fills_gaps: bool) -> list[str]:
        """A new row alone has the next number, or a free one behind one that is or was there."""
        own, of, by = f"it.{name_text(name)}", type_text(self._entity.name), self.columns[name]
        alike = f" and {{0}}.{name_text(by)} == it.{name_text(by)}" if by else ""
        at = f"{{0}}.{name_text(name)} == {{1}}{alike}".format
        spec = self._entity.by_name[name]
        guard = f"b.{name_text(name)} != null and " if spec.is_nullable else ""
        above = f"{guard}b.{name_text(name)} >= {own}{alike.format('b')}"
        taken = at("b", own) if fills_gaps else above
        behind = (f"any({at('a', f'{own} - 1')} for a in {e}.{of})" for e in ("before", "created"))
        return [
            f"not any({taken} for b in before.{of})",
            f"({' or '.join(behind)})",
            f"count(c for c in created.{of} if {at('c', own)}) == 1",
        ]

    @cached_property
    def texts(self) -> Mapping[tuple[str, str], str]:
        """(field, text) of a new row in which its number stands → what all of their kind match."""
        found: dict[tuple[str, str], str] = {}
        fields = [f for f in self._entity.fields if f.reference is None and self._repeats(f.name)]
        for row in self.created:
            numbers = {f"{row[name]:.0f}" for name in self.columns}
            for field in fields:
                text = row.get(field.name)
                if isinstance(text, str) and numbers:
                    parts = _NUMBER.split(text)
                    if numbers & {*parts[1::2]} and "".join(parts[::2]).strip():
                        wide = [f"[0-9]{{1,{len(p) + 2}}}" if p in numbers else p for p in parts]
                        parts[::2] = map(escaped, parts[::2])
                        parts[1::2] = wide[1::2]
                        found[field.name, text] = "".join(parts)
        return found

    def _repeats(self, field: str) -> bool:
        """True if the text of each earlier row repeats its own number."""
        return bool(self._before) and all(
            isinstance(text := row.get(field), str)
            and {f"{row[name]:.0f}" for name in self.columns} & {*_NUMBER.findall(text)}
            for row in self._before
        )


def escaped(text: str) -> str:
    """The text as a regular expression that matches it alone."""
    return re.sub(r"[][.^$*+?(){}|\\]", r"\\\g<0>", text)
