"""How the files of a first state are written, where the records alone do not say it.

A later state has to be written so, too. An instant that became a text in ISO form, or a column that
an empty table lost, is the same state to some programs and another one, or none, to others. What
departs is said in words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from statediff.systems.tables.inference import BESIDE, RESIDUE
from statediff.systems.tables.workbooks import Columns

_KINDS: Final = (
    (pa.types.is_boolean, "truth value"),
    (lambda of: pa.types.is_integer(of) or pa.types.is_floating(of), "number"),
    (pa.types.is_decimal, "number"),
    (lambda of: pa.types.is_string(of) or pa.types.is_large_string(of), "text"),
    (lambda of: pa.types.is_binary(of) or pa.types.is_large_binary(of), "bytes"),
    (pa.types.is_fixed_size_binary, "bytes"),
    (pa.types.is_timestamp, "instant"),
    (pa.types.is_date, "date"),
    (pa.types.is_time, "time"),
    (pa.types.is_duration, "duration"),
)


@dataclass
class Forms:
    """The forms of the files of the first state, by table."""

    numbers: set[tuple[str, str]] = field(default_factory=set)
    """The columns of CSV that hold numbers, as (table, column)."""
    columns: dict[str, frozenset[str]] = field(default_factory=dict)
    """The names that a file has of its columns, with or without records."""
    kinds: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """Place within a column of Parquet → the kind of value there."""
    said: dict[str, str] = field(default_factory=dict)
    """What the files of this state say beside their records: where → its digest."""
    spelled: list[dict[str, Any]] = field(default_factory=list)
    """How the records of each file are spelled."""
    sheets: dict[str, Columns] = field(default_factory=dict)
    """The columns of workbooks, by what their tables are called in front."""

    def leave(self, table: str, parts: Mapping[str, Any]) -> None:
        """The residue of a table, if it has any."""
        if parts:
            self.spelled.append({"id": table, **parts})

    @property
    def residue(self) -> dict[str, list[dict[str, Any]]]:
        """Type → the residue of all files, as records."""
        said = [{"id": place, "digest": digest} for place, digest in sorted(self.said.items())]
        return {RESIDUE: self.spelled, BESIDE: said}


def departure_of_columns(forms: Forms, table: str, names: Iterable[str]) -> str | None:
    """The departure of a table without records in its columns; records show it themselves."""
    known = forms.columns.get(table)
    if known is None or known == frozenset(names):
        return None
    changed = min(known.symmetric_difference(names))
    return f"it has no records, and {'lost' if changed in known else 'got'} the column {changed}"


def departure_of_kinds(forms: Forms, table: str, kinds: Mapping[str, str]) -> str | None:
    """Which column of Parquet holds another kind of value."""
    known = forms.kinds.get(table, {})
    for place in sorted(known.keys() & kinds.keys()):
        if known[place] != kinds[place]:
            return f"{place} is of the kind {kinds[place]}, and was of the kind {known[place]}"
    return None


def kinds_of(schema: pa.Schema) -> Mapping[str, str]:
    """Place → kind of value, for every place that has a kind."""
    return {place: kind for each in schema for place, kind in _places(each.name, each.type)}


def _places(place: str, of: pa.DataType) -> Iterator[tuple[str, str]]:
    if pa.types.is_dictionary(of):
        of = of.value_type
    kind = next((name for has, name in _KINDS if has(of)), None)
    if kind is not None:
        yield place, kind
    elif pa.types.is_map(of):
        yield from _places(f"{place}[key]", of.key_type)
        yield from _places(f"{place}[]", of.item_type)
    else:
        for at in range(of.num_fields):
            inner = of.field(at)
            name = f"{place}.{inner.name}" if pa.types.is_struct(of) else f"{place}[]"
            yield from _places(name, inner.type)
