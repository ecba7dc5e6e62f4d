"""The catalogue of a SQLite database: its tables, other schema objects and settings.

Only the catalogue is read. No view, virtual table, default, trigger or generated column is
evaluated: a hostile schema gets nothing to run. A virtual generated column holds no state of its
own, so it is a `db.column` and not a field.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from statediff.model.batches import KEYLESS_KEY, Row
from statediff.model.schema import (
    SCHEMA_OBJECT_PREFIXES,
    EntityType,
    Field,
    ForeignKey,
    Kind,
    Rules,
    Schema,
)
from statediff.systems.base.rows import source_schema
from statediff.systems.relational.meaning import COVERED
from statediff.systems.relational.schema import quoted
from statediff.systems.relational.ties import action
from statediff.systems.sqlite.definitions import (
    Reference,
    checks_of,
    constraints_of,
    folded,
    plain_name,
    reads_of,
    references_of,
    text_of,
    unique_of,
)
from statediff.systems.sqlite.object_types import CATALOGUED, OBJECT_TYPES, SEQUENCES, STATISTICS

_NO_STATE: Final = {
    module: f"its rows {what}, which are captured"
    for what, modules in (
        ("are those of its shadow tables", "fts3 fts4 fts5 geopoly rtree rtree_i32 spellfix1 vec0"),
        ("show what other tables hold", "dbstat fts3tokenize fts4aux fts5vocab"),
    )
    for module in modules.split()
}
"""Modules whose virtual tables keep nothing themselves, and where it is kept."""
_MODULE: Final = re.compile(r"\bUSING\s+(\w+)", re.IGNORECASE)
ROW_IDS: Final = ("rowid", "_rowid_", "oid")
"""The names of the number of a row, where no column has them."""
_BY_ROW_ID: Final = re.compile(r"\b(?:rowid|_rowid_|oid)\b|\bcontent\s*=", re.IGNORECASE)
_WITHOUT_ROW_IDS: Final = re.compile(r"\bWITHOUT\s+ROWID\b", re.IGNORECASE)
_DESCENDING: Final = re.compile(r"\bPRIMARY\s+KEY\s+DESC\b", re.IGNORECASE)
_TREE: Final = re.compile(r"\bUSING\s+(?:rtree|rtree_i32)\s*\(", re.IGNORECASE)
_VIRTUAL_COLUMN: Final = 2  # `hidden` in PRAGMA table_xinfo
STORED_COLUMN: Final = 3
_LINES: Final = "SELECT type, name, tbl_name, rootpage, sql FROM main.sqlite_schema"
_SETTINGS: Final = ("application_id", "auto_vacuum", "encoding", "user_version")

DECIMALS: Final = frozenset({"DECIMAL", "DEC", "NUMERIC", "NUMBER", "MONEY"})
"""Declared types of NUMERIC affinity that mean decimal numbers."""
_KINDS: Final = {
    **dict.fromkeys(("INT", "INTEGER", "BIGINT", "SMALLINT", "TINYINT", "MEDIUMINT"), Kind.INT),
    **dict.fromkeys(("INT2", "INT4", "INT8", "UNSIGNED BIG INT"), Kind.INT),
    "REAL": Kind.FLOAT,
    "FLOAT": Kind.FLOAT,
    "DOUBLE": Kind.FLOAT,
    "DOUBLE PRECISION": Kind.FLOAT,
    "BLOB": Kind.BYTES,
    "JSON": Kind.JSON,
    "JSONB": Kind.JSON,
    "BOOLEAN": Kind.BOOL,
    "BOOL": Kind.BOOL,
    "DATE": Kind.DATE,
    "DATETIME": Kind.LOCAL_TIMESTAMP,
    "TIMESTAMP": Kind.LOCAL_TIMESTAMP,
    "TIMESTAMPTZ": Kind.TIMESTAMP,
    "TIMESTAMP WITH TIME ZONE": Kind.TIMESTAMP,
    **dict.fromkeys(DECIMALS, Kind.DECIMAL),
}
_JSON_VALID: Final = re.compile(
    r"""json_valid\s*\(\s*("(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]|\w+)\s*[,)]""", re.IGNORECASE
)
_COUNTED: Final = re.compile(r"\bAUTOINCREMENT\b", re.IGNORECASE)
_PARSED: Final = frozenset(
    {Kind.BOOL, Kind.DECIMAL, Kind.JSON, Kind.DATE, Kind.LOCAL_TIMESTAMP, Kind.TIMESTAMP}
)


@dataclass(frozen=True)
class Column:
    """A column as the catalogue declares it; `hidden` is SQLite's own code for generated ones."""

    name: str
    declared: str
    is_required: bool
    default: str | None
    key_position: int
    """1-based position in the primary key; 0 outside it."""
    hidden: int
    is_json: bool = False
    """A check of the table asks `json_valid` of it."""

    @property
    def is_stored(self) -> bool:
        return self.hidden != _VIRTUAL_COLUMN


@dataclass(frozen=True)
class TableEntry:
    """A table of the catalogue. `unreadable` says why its rows may not or cannot be read."""

    name: str
    columns: tuple[Column, ...]
    foreign: tuple[Reference, ...] = ()
    unique: tuple[tuple[str, ...], ...] = ()
    checks: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    """All that it asks of its rows, in words."""
    reads: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Generated columns with those that they are computed from, by folded names."""
    unreadable: str | None = None
    is_counted: bool = False
    """The highest row id ever inserted is kept in `sqlite_sequence`."""
    outside: str | None = None
    """Why it is outside Ω by default."""
    is_own: bool = False
    """It is SQLite's own, which one of `OBJECT_TYPES` shows."""
    is_by_index: bool = False
    """Its key is no row id, though it is one `INTEGER`: it was declared `DESC`."""
    has_row_ids: bool = False
    """Its rows have numbers, which may be one of its columns."""
    node_cell_bytes: int | None = None
    """The bytes of a cell in the nodes of an R-tree."""

    @property
    def key(self) -> tuple[Column, ...]:
        ordered = sorted(self.columns, key=lambda c: c.key_position)
        return tuple(c for c in ordered if c.key_position)

    def column(self, name: str) -> Column | None:
        """The column of this name, which may be one of the names of the row id."""
        found = self._by_name.get(folded(name))
        is_row_id = found is None and self.has_row_ids and folded(name) in ROW_IDS
        return Column(name, "INTEGER", True, None, 0, 0, False) if is_row_id else found

    @property
    def references(self) -> tuple[tuple[str, str, str | None], ...]:
        """Foreign keys of one column: (column, table, its column or None for its primary key)."""
        return tuple(
            (each.columns[0], each.table, each.targets[0] if each.targets else None)
            for each in self.foreign
            if len(each.columns) == 1
        )

    @property
    def row_id(self) -> str | None:
        """A name by which the table tells its row ids; None where all are taken, or it has none."""
        free = (name for name in ROW_IDS if name not in self._by_name)
        return next(free, None) if self.has_row_ids else None

    @property
    def hidden_row_id(self) -> str | None:
        """The same; None where a column is the row id."""
        key = self.key
        is_column = len(key) == 1 and key[0].declared.upper() == "INTEGER" and not self.is_by_index
        return None if is_column else self.row_id

    @cached_property
    def _by_name(self) -> Mapping[str, Column]:
        return {folded(column.name): column for column in reversed(self.columns)}


@dataclass(frozen=True)
class Catalogue:
    """Everything in the catalogue: `tables` by folded name, and the rows of each `db.` type."""

    tables: dict[str, TableEntry]
    objects: dict[str, list[Row]]
    lines: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    """The lines of the catalogue about each name, folded: they decide how a table is described."""
    types: dict[str, tuple[TableEntry, tuple[Any, ...], EntityType]] = field(default_factory=dict)
    """The types that were made of tables, with what they were made of; shared by catalogues."""
    rows: dict[str, list[tuple[str, Row]]] = field(default_factory=dict)
    """Folded name → (type, row) of each schema object that the lines about it describe."""


def read_catalogue(connection: sqlite3.Connection, known: Catalogue | None = None) -> Catalogue:
    """The catalogue, inside the caller's transaction. Raises `sqlite3.Error`.

    A table of which it says what the catalogue `known` of this database says is described alike.
    """
    tables: dict[str, TableEntry] = {}
    objects: dict[str, list[Row]] = {name: [] for name in CATALOGUED}
    every = connection.execute(_LINES).fetchall()
    lines: dict[str, list[tuple[Any, ...]]] = {}
    for line in every:
        lines.setdefault(folded(text_of(line[1])), []).append(line)
    rows: dict[str, list[tuple[str, Row]]] = {}
    for line in every:
        at = folded(text_of(line[1]))
        if known is not None and known.lines.get(at) == lines[at]:
            if at not in rows:
                rows[at] = known.rows[at]
                if at in known.tables:
                    tables[at] = known.tables[at]
            continue
        table = _table_of(connection, line)
        if table is not None:
            tables[at] = table
        rows.setdefault(at, []).extend(_object_rows(line, table))
    _know_nodes(tables, every)
    for own in rows.values():
        for type_name, row in own:
            objects[type_name].append(row)
    for type_name, names in (("db.setting", _SETTINGS), ("db.storage", ("journal_mode",))):
        objects[type_name] = [
            {"name": name, "value": connection.execute(f"PRAGMA main.{name}").fetchone()[0]}
            for name in names
        ]
    objects.update({"db.role": [], "db.grant": [], "db.membership": []})
    return Catalogue(tables, objects, lines, {} if known is None else known.types, rows)


def _know_nodes(tables: dict[str, TableEntry], lines: Iterable[tuple[Any, ...]]) -> None:
    """The tables that hold the nodes of R-trees say how long a cell is: 8 bytes, and 4 a side."""
    cells: dict[str, int] = {}
    for _, name, _, root, definition in lines:
        text = "" if root or definition is None else COVERED.sub(" ", text_of(definition))
        tree = _TREE.search(text)
        if tree is not None:
            columns = text[tree.end() : text.rfind(")")].split(",")
            sides = [column for column in columns if not column.lstrip().startswith("+")]
            cells[f"{folded(text_of(name))}_node"] = 4 + 4 * len(sides)
    for name, table in tables.items():
        if table.node_cell_bytes != cells.get(name):
            tables[name] = replace(table, node_cell_bytes=cells.get(name))


def _table_of(connection: sqlite3.Connection, line: tuple[Any, ...]) -> TableEntry | None:
    """The table that a line of the catalogue is about, if it is one."""
    stored_kind, raw_name, _, root, definition = line
    if kind_of(stored_kind) != "table":
        return None
    table = _table(connection, raw_name, not root, text_of(definition or ""))
    is_own = root and STATISTICS.get(text_of(raw_name)) == definition and not _oddly(line)
    return replace(table, is_own=True) if is_own else table


def _object_rows(line: tuple[Any, ...], table: TableEntry | None) -> Iterator[tuple[str, Row]]:
    """(type, row) of the schema objects that a line of the catalogue describes."""
    stored_kind, raw_name, owner, root, definition = line
    name, kind = text_of(raw_name), kind_of(stored_kind)
    entry: Row = {"name": name, "definition": definition}
    oddly = _oddly(line)
    if table is not None:
        if not table.is_own:
            yield "db.table", {**entry, "kind": ("table" if root else "virtual") + oddly}
            for row in _column_rows(table):
                yield "db.column", row
            for each in table.constraints:
                yield "db.constraint", {"table": name, "name": each}
        return
    if oddly:
        yield "db.table", {**entry, "kind": f"unknown: {kind}{oddly}"}
    if kind in ("index", "trigger"):
        yield f"db.{kind}", {**entry, "table": text_of(owner)}
    elif kind == "view":
        yield "db.view", entry
    elif not oddly:  # e.g. an automatic index, whose kind SQLite does not look at
        yield "db.table", {**entry, "kind": f"unknown: {kind}"}


def _oddly(line: tuple[Any, ...]) -> str:
    """How a line of the catalogue is written where SQLite writes it otherwise; else nothing.

    SQLite works as before with it. Programs that ask the catalogue for tables, such as those that
    make copies, find none of that kind, and a table is dropped without its line.
    """
    stored_kind, name, owner, root, _ = line
    kind = kind_of(stored_kind)
    odd = [f"type {stored_kind!r}"] if stored_kind != kind else []
    if kind in ("table", "view") and owner != name:
        odd.append(f"tbl_name {owner!r}")
    if not isinstance(root, int | None):
        odd.append(f"rootpage {root!r}")
    return f", entered with {' and '.join(odd)}" if odd else ""


def kind_of(stored: Any) -> str:
    """The kind of an entry of the catalogue, as SQLite understands it.

    SQLite compares it without regard to case, and takes a blob for text: a trigger whose kind
    `writable_schema` made `TRIGGER` works on.
    """
    return folded(text_of(stored))


def _table(
    connection: sqlite3.Connection, raw_name: Any, is_virtual: bool, definition: str
) -> TableEntry:
    name = text_of(raw_name)
    if is_virtual:
        module = _MODULE.search(COVERED.sub(" ", definition))
        why = None if module is None else _NO_STATE.get(folded(module[1]))
        return TableEntry(name, (), unreadable="a virtual table is not evaluated", outside=why)
    if not isinstance(raw_name, str):
        return TableEntry(name, (), unreadable="the table's name is not UTF-8")
    described = connection.execute(f"PRAGMA main.table_xinfo({quoted(name)})").fetchall()
    if not all(isinstance(row[1], str) for row in described):
        return TableEntry(name, (), unreadable="a column's name is not UTF-8")
    checked = {folded(plain_name(name)) for name in _JSON_VALID.findall(definition)}
    columns = tuple(
        Column(
            row[1],
            text_of(row[2] or ""),
            bool(row[3]),
            None if row[4] is None else text_of(row[4]),
            row[5],
            row[6],
            folded(row[1]) in checked,
        )
        for row in described
    )
    listed = connection.execute(f"PRAGMA main.foreign_key_list({quoted(name)})").fetchall()
    unreadable = None if any(c.is_stored for c in columns) else "the table has no stored column"
    plain = COVERED.sub(" ", definition)
    foreign, unique = references_of(listed), unique_of(connection, name)
    made = [c.name for c in columns if c.hidden in (_VIRTUAL_COLUMN, STORED_COLUMN)]
    return TableEntry(
        name,
        columns,
        foreign,
        tuple(names for _, names in unique),
        checks_of(definition),
        constraints_of(
            definition,
            [c.name for c in columns],
            foreign,
            [names for origin, names in unique if origin == "u"],
            made,
        ),
        tuple(reads_of(definition, made, [c.name for c in columns]).items()),
        unreadable,
        is_counted=bool(_COUNTED.search(plain)),
        is_by_index=bool(_DESCENDING.search(plain)),
        has_row_ids=not _WITHOUT_ROW_IDS.search(plain),
    )


def _column_rows(table: TableEntry) -> Iterable[Row]:
    generated = {_VIRTUAL_COLUMN: "virtual", STORED_COLUMN: "stored"}
    for position, column in enumerate(table.columns):
        yield {
            "table": table.name,
            "name": column.name,
            "position": position,
            "declared_type": column.declared,
            "is_required": column.is_required,
            "default": column.default,
            "key_position": column.key_position,
            "generated": generated.get(column.hidden),
        }


def catalogue_schema(name: str, catalogue: Catalogue, *, is_continued: bool = False) -> Schema:
    """The schema as the catalogue declares it, before any refinement.

    Row ids by which something else finds rows are a field; not where an earlier state says of which
    tables they are one.
    """
    found_by = frozenset() if is_continued else _found_by_row_id(catalogue)
    types = [
        _with_row_id(_entity_type(table, catalogue), table, found_by)
        for table in catalogue.tables.values()
        if table.name != SEQUENCES and not table.is_own
    ]
    types.extend(OBJECT_TYPES)
    return source_schema(name, sorted(types, key=lambda t: t.name))


def _found_by_row_id(catalogue: Catalogue) -> frozenset[str]:
    """The folded names of the tables whose row ids are written down elsewhere.

    An index for search over the content of another table has them, and so has what a view or a
    trigger that names row ids shows or writes: with them exchanged, it is about other rows.
    """
    texts = [
        folded(text_of(definition))
        for lines in catalogue.lines.values()
        for kind, _, _, root, definition in lines
        if definition is not None and (not root or kind_of(kind) != "table")
    ]
    asked = "\n".join(text for text in texts if _BY_ROW_ID.search(text))
    if not asked:
        return frozenset()
    words = frozenset(re.findall(r"[\w$]+", asked))
    return frozenset(
        name
        for name, table in catalogue.tables.items()
        if table.hidden_row_id is not None
        and (name in words if re.fullmatch(r"[\w$]+", name) else name in asked)
    )


def _with_row_id(
    entity_type: EntityType, table: TableEntry, found_by: Collection[str]
) -> EntityType:
    name = table.hidden_row_id if folded(table.name) in found_by else None
    if name is None or name in entity_type.by_name:
        return entity_type
    row_id = Field(name, Kind.INT, is_nullable=False, column=name)
    return replace(entity_type, fields=(*entity_type.fields, row_id))


def _type_name(table: str) -> str:
    # "main." too, so that no two tables ever get one name.
    return f"main.{table}" if table.startswith((*SCHEMA_OBJECT_PREFIXES, "main.")) else table


def _entity_type(table: TableEntry, catalogue: Catalogue) -> EntityType:
    targets = tuple(_target(t, to, catalogue) for _, t, to in table.references)
    foreign = tuple(filter(None, (_foreign(each, table, catalogue) for each in table.foreign)))
    made = catalogue.types.get(table.name)
    if made is None or made[0] is not table or made[1] != (targets, foreign):
        plain = _type_of(table, targets)
        names = {folded(f.source_column): f.name for f in plain.fields}
        unique = tuple(tuple(names.get(folded(c), c) for c in each) for each in table.unique)
        computed = {f.name: f.computed_from for f in plain.fields}
        rules = Rules(foreign, unique, table.checks)
        entity = plain.with_ties(computed, foreign=foreign, rules=rules)
        made = catalogue.types[table.name] = (table, (targets, foreign), entity)
    return made[2]


def _foreign(each: Reference, table: TableEntry, catalogue: Catalogue) -> ForeignKey | None:
    """The foreign key by the names of fields; None where it refers to what is not there."""
    target = catalogue.tables.get(folded(each.table))
    if target is None:
        return None
    named = each.targets or tuple(column.name for column in target.key)
    ends = [table.column(c) for c in each.columns], [target.column(c) for c in named]
    if len(named) != len(each.columns) or None in (*ends[0], *ends[1]):
        return None
    own, other = (tuple(_field_name(c.name) for c in end if c is not None) for end in ends)
    does = action(each.on_delete), action(each.on_update)
    return ForeignKey(own, _type_name(target.name), other, *does)


def _type_of(table: TableEntry, targets: tuple[str | None, ...]) -> EntityType:
    reads = dict(table.reads)
    named = zip(table.references, targets, strict=True)
    references = {folded(column): target for (column, _, _), target in reversed([*named])}
    key = tuple(_field_name(c.name) for c in table.key)
    is_rowid = len(key) == 1 and table.key[0].declared.upper() == "INTEGER"
    fields = tuple(
        Field(
            _field_name(column.name),
            _kind(column, is_identity=bool(column.key_position or target)),
            is_nullable=not (column.is_required or (column.key_position and is_rowid)),
            reference=target,
            column=column.name,
            computed_from=tuple(
                _field_name(c.name)
                for c in table.columns
                if folded(c.name) in reads.get(folded(column.name), ())
            ),
        )
        for column in table.columns
        if column.is_stored
        for target in [references.get(folded(column.name))]
    )
    if not set(key) <= {f.name for f in fields}:
        key = ()
    is_association = len(key) == 2 and len(table.columns) == 2 and all(f.reference for f in fields)
    return EntityType(
        _type_name(table.name),
        key,
        fields,
        table=table.name,
        is_association=is_association,
        counter=table.name if is_rowid and key and table.is_counted else None,
        outside=table.outside,
    )


def _field_name(column: str) -> str:
    return f"{column}_" if column.startswith(KEYLESS_KEY) else column


def _target(table: str, column: str | None, catalogue: Catalogue) -> str | None:
    target = catalogue.tables.get(folded(table))
    if target is None or len(target.key) != 1:
        return None
    if column is not None and folded(column) != folded(target.key[0].name):
        return None
    return _type_name(target.name)


def _kind(column: Column, *, is_identity: bool) -> Kind:
    declared = re.sub(r"\s*\(.*", "", column.declared.strip().upper(), flags=re.DOTALL)
    kind = Kind.JSON if column.is_json else _KINDS.get(declared)
    if kind is None:
        is_text = any(word in declared for word in ("CHAR", "CLOB", "TEXT"))
        return Kind.TEXT if is_text and "INT" not in declared else Kind.ANY
    # Keys and references keep what is stored: two spellings of one instant stay two keys.
    return Kind.ANY if is_identity and kind in _PARSED else kind
