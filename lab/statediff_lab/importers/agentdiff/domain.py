"""The tables of an Agent-Diff domain, in one form, and the states its runs began in.

Seeds and recorded diffs spell the same rows in several ways: to this benchmark a missing column
is null, numbers come with and without a fraction, and a diff may hold JSON columns as text. Records
are brought into one form here, so that none of this is ever a difference. What columns there are
and of what kind follows from all seeds of the suite, its assertions and the pack; keys and
references are inferred by `states.Base`, and a column called `…At` or `…_at` whose values are naive
timestamps is a timestamp. What the pack's schema says comes on top.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from typing import Any, Final

from statediff.contract.document.schemafile import SchemaFile, parse_schema_file
from statediff.errors import InputError
from statediff.model.schema import EntityType, Kind
from statediff.model.values import Value
from statediff.systems.base.rows import instant
from statediff.systems.tables.shape import Record
from statediff_lab.importers.agentdiff.format import Assertion, RawRow, TaskSuite
from statediff_lab.importers.pack import DomainPack, compose_yaml
from statediff_lab.importers.recorded import NotARun, RunLine, parse
from statediff_lab.importers.states import Base, value_of

Seed = Mapping[str, list[RawRow]]

_SAMPLES: Final[Mapping[Kind, Value]] = {
    Kind.BOOL: False,
    Kind.INT: 0,
    Kind.DECIMAL: Decimal("0.5"),
    Kind.TEXT: "",
    Kind.LIST: (),
    Kind.MAP: value_of({}),
}
"""A value of each kind that the inference of JSON tables tells apart."""
_TEXT_OPERATORS: Final = frozenset(
    {
        "contains",
        "not_contains",
        "i_contains",
        "starts_with",
        "ends_with",
        "i_starts_with",
        "i_ends_with",
        "regex",
    }
)


class Domain:
    """The layout of one suite's tables, and the states before its runs."""

    def __init__(self, suite: TaskSuite, seeds: Mapping[str, Seed], pack: DomainPack) -> None:
        self.name = suite.name
        self._seeds = seeds
        self.columns = _columns(suite, seeds, pack)
        """Table → column → kind; ANY where nothing says more."""
        self._schema = _schema(suite, seeds, pack, self.columns)
        self._grounds: dict[str, Ground] = {}

    def record(self, table: str, row: RawRow) -> Record:
        """The row with every known column, in the one form its values have here."""
        known = self.columns.get(table, {})
        record: Record = {
            name: None if (value := row.get(name)) is None else _in_form(value, kind)
            for name, kind in known.items()
        }
        record.update((name, value_of(row[name])) for name in row if name not in known)
        return record

    def ground(self, template: str) -> Ground:
        """The state of a seed, made once. `InputError` if there is no such seed."""
        if template not in self._seeds:
            known = ", ".join(sorted(self._seeds)) or "none"
            raise InputError(f"{self.name}: no seed {template!r}; there are: {known}")
        if template not in self._grounds:
            records = {
                table: [self.record(table, row) for row in rows]
                for table, rows in self._seeds[template].items()
            }
            hints = {table: list(_hints(known)) for table, known in self.columns.items()}
            base = Base(self.name, records, self._schema, hints)
            self._grounds[template] = Ground(self, base, self._seeds[template], records)
        return self._grounds[template]


class Ground:
    """One seed as a state, and how its records are found again."""

    def __init__(
        self, domain: Domain, base: Base, raw: Seed, records: Mapping[str, Sequence[Record]]
    ) -> None:
        self.domain = domain
        self.base = base
        self.raw = raw
        self.records = records
        self.types: Mapping[str, EntityType] = {t.source_table: t for t in base.schema.types}
        self.keys = {
            table: tuple(t.by_name[part].source_column for part in t.key)
            for table, t in self.types.items()
        }
        """Table → its key columns; none for tables whose rows have no key."""

    @cached_property
    def by_key(self) -> Mapping[str, Mapping[tuple[str, ...], Record]]:
        """The records of tables with keys, by table and `place`."""
        return {
            table: {self.place(table, record): record for record in records}
            for table, records in self.records.items()
            if self.keys.get(table)
        }

    def key(self, table: str, record: Record) -> tuple[Value, ...]:
        """The key of a record; empty for a table whose rows have none."""
        return tuple(record.get(part) for part in self.keys.get(table, ()))

    def place(self, table: str, record: Record) -> tuple[str, ...]:
        """The key as something to look up by: 1 and true stay two."""
        return tuple(map(repr, self.key(table, record)))


def _hints(columns: Mapping[str, Kind]) -> Iterator[Record]:
    """Records that show each column's kind, and that it may be null."""
    yield dict.fromkeys(columns)
    yield {name: _SAMPLES.get(kind, "") for name, kind in columns.items()}
    yield {
        name: 0 if kind is Kind.ANY else _SAMPLES.get(kind, "") for name, kind in columns.items()
    }


def _in_form(value: Any, kind: Kind) -> Value:
    if kind in (Kind.LIST, Kind.MAP) and isinstance(value, str):
        return _from_text(value, list if kind is Kind.LIST else dict)
    if kind is Kind.DECIMAL and isinstance(value, int | Decimal) and not isinstance(value, bool):
        return _plain_number(Decimal(value))
    if kind is Kind.INT and isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    return value_of(value)


def _plain_number(number: Decimal) -> Decimal:
    """The number without a notation of its own: 5, 5.0 and 5e0 are one."""
    whole = number.to_integral_value()
    return Decimal(int(whole)) if number == whole else number.normalize()


def _from_text(text: str, wanted: type) -> Value:
    """A JSON column that was written as text; whatever is no such JSON stays text."""
    try:
        tree = parse(RunLine("", 0, b'{"":' + text.encode() + b"}"))[""]
    except NotARun:
        return text
    return value_of(tree) if isinstance(tree, wanted) else text


# --- columns -------------------------------------------------------------------------------------


def _columns(
    suite: TaskSuite, seeds: Mapping[str, Seed], pack: DomainPack
) -> dict[str, dict[str, Kind]]:
    found: dict[str, dict[str, set[Kind]]] = {}
    for seed in seeds.values():
        for table, rows in seed.items():
            columns = found.setdefault(table, {})
            for row in rows:
                for name, value in row.items():
                    columns.setdefault(name, set()).update(_kinds(value))
    for table, name, kinds in _named_columns(suite):
        columns = found.setdefault(table, {})
        if not columns.get(name):
            columns[name] = set(kinds)
    for name, entity in (pack.schema.content.entities if pack.schema else {}).items():
        columns = found.setdefault(entity.table or name, {})
        for field_name, field in entity.fields.items():
            columns.setdefault(field.column or field_name, set())
            if field.type is not None:
                columns[field.column or field_name] = {_stored_kind(Kind(field.type))}
    return {
        table: {name: _one(kinds) for name, kinds in sorted(columns.items())}
        for table, columns in sorted(found.items())
    }


def _stored_kind(kind: Kind) -> Kind:
    """How JSON holds values of a declared kind."""
    return kind if kind in _SAMPLES else Kind.ANY if kind is Kind.ANY else Kind.TEXT


def _kinds(value: Any) -> Iterator[Kind]:
    match value:
        case None:
            return
        case bool():
            yield Kind.BOOL
        case int():
            yield Kind.INT
        case Decimal():
            yield Kind.DECIMAL
        case str():
            yield Kind.TEXT
        case list():
            yield Kind.LIST
        case _:
            yield Kind.MAP


def _one(kinds: set[Kind]) -> Kind:
    if kinds == {Kind.INT, Kind.DECIMAL}:
        return Kind.DECIMAL
    return next(iter(kinds)) if len(kinds) == 1 else Kind.ANY


def _named_columns(suite: TaskSuite) -> Iterator[tuple[str, str, set[Kind]]]:
    """Every column that an assertion names, with the kinds that its predicates speak of."""
    for assertion in _assertions(suite):
        for path, predicate in assertion.where:
            name, dot, _ = path.partition(".")
            yield assertion.entity, name, {Kind.MAP} if dot else set(_meant(predicate))
        for change in assertion.changes:
            for wanted in (change.old, change.new):
                yield assertion.entity, change.field, set(_meant(wanted or {}))


def _assertions(suite: TaskSuite) -> Iterator[Assertion]:
    return (assertion for test in suite.tests for assertion in test.assertions)


def _meant(predicate: RawRow) -> Iterator[Kind]:
    for operator, expected in predicate.items():
        if operator in _TEXT_OPERATORS:
            yield Kind.TEXT
        elif operator in ("has_any", "has_all"):
            yield Kind.LIST
        elif operator in ("in", "not_in") and isinstance(expected, list):
            for item in expected:
                yield from _kinds(item)
        elif operator != "exists":
            yield from _kinds(expected)


# --- the schema ----------------------------------------------------------------------------------


def _schema(
    suite: TaskSuite,
    seeds: Mapping[str, Seed],
    pack: DomainPack,
    columns: Mapping[str, Mapping[str, Kind]],
) -> SchemaFile:
    """The pack's state schema over one that knows the timestamps among the columns."""
    told: dict[str, Any] = {}
    if pack.schema is not None:
        told = pack.schema.content.model_dump(by_alias=True, exclude_unset=True)
    texts = {
        (a.entity, path.partition(".")[0])
        for a in _assertions(suite)
        for path, predicate in (*a.where, *((c.field, c.new or {}) for c in a.changes))
        if any(isinstance(expected, str) for expected in predicate.values())
    }
    entities: dict[str, Any] = {}
    for table, known in columns.items():
        moments = [
            name
            for name in known
            if (table, name) not in texts
            and _is_moment(
                name, (row.get(name) for s in seeds.values() for row in s.get(table, []))
            )
        ]
        entities[table] = {"fields": {name: {"type": "local_timestamp"} for name in moments}}
    for name, refined in told.get("entities", {}).items():
        table = refined.get("table", name)
        fields = {**entities.pop(table, {}).get("fields", {}), **refined.get("fields", {})}
        entities[name] = {**refined, "fields": fields}
    document = {
        "schema": told.get("schema", suite.name),
        "version": told.get("version", pack.version),
        "entities": entities,
    }
    return parse_schema_file(compose_yaml(document), f"the state schema of {suite.name}")


def _is_moment(column: str, values: Iterable[Any]) -> bool:
    if not column.endswith(("At", "_at")):
        return False
    read = [instant(value, None) for value in values if value is not None]
    return all(isinstance(moment, datetime) and moment.tzinfo is None for moment in read)
