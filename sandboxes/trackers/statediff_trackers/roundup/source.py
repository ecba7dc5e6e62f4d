"""A Roundup tracker as a source: read from its database and files, independently of its server.

1. The SQLite file is read as any other (`sqlite.source`): one transaction, hostile or not.
2. Roundup's classes become entity types: an item is an entity with its properties, who made and
   last touched it and when (to the second, as the tracker itself tells it), and whether it is
   retired, which is how Roundup deletes. Texts and attachments come from the tracker's files.
3. A multilink is an association; one that lists messages or files is read from these instead: each
   says which item lists it, and which others do.
4. `journal` holds the history, one row a changed property. `setting` and `program` hold what
   makes the tracker what it is, `counter` the numbers it gives out next, `session` and
   `one_time_key` who may act without a password. Every entry of the home is reported somewhere.
5. All other tables stay as they are.

A password appears as the digest of its stored form. What a schema file says is laid over the types
once, when the source is first asked; a run cannot change how the tracker is read afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Final

from statediff.capture.source import Clock, SourceRuined, SourceUnavailable, scanned
from statediff.model.batches import Row
from statediff.model.readings import SourceCapture
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.state import (
    COMPLETE,
    ChunkStore,
    Coverage,
    Enumeration,
    MemoryChunks,
    State,
    Table,
)
from statediff.model.values import ABSENT, Observed, is_value, show
from statediff.systems.base.rows import keyed_table, source_schema
from statediff.systems.hosted.folder import PROGRAM
from statediff.systems.relational.structure import STRUCTURE, is_established
from statediff.systems.sqlite.source import SqliteSource
from statediff_trackers.roundup.home import Home
from statediff_trackers.roundup.stores import ONE_TIME_KEY, SESSION
from statediff_trackers.roundup.values import (
    ALSO_ON,
    DATABASE,
    Property,
    cell,
    changes,
    content_cells,
    declared_classes,
    entry_order,
    instant,
    is_of_kind,
    number,
    on_which,
    rows_digest,
    truth,
)

Refine = Callable[[Schema], Schema]

SEARCH_INDEX: Final = "__fts"
"""A virtual table; what it holds is in the tables beside it, which are read."""
_MADE: Final = (
    Field("creation", Kind.TIMESTAMP),
    Field("creator", Kind.INT, reference="user"),
    Field("activity", Kind.TIMESTAMP),
    Field("actor", Kind.INT, reference="user"),
    Field("retired", Kind.BOOL, is_nullable=False),
)
_OWN: Final = (
    EntityType(
        "counter",
        ("name",),
        (Field("name", Kind.TEXT, is_nullable=False), Field("value", Kind.INT)),
        table="ids",
    ),
    EntityType(
        "journal",
        ("on", "item", "at", "position"),
        (
            Field("on", Kind.TEXT, is_nullable=False),
            Field("item", Kind.INT, is_nullable=False),
            Field("at", Kind.TIMESTAMP, is_nullable=False),
            Field("position", Kind.INT, is_nullable=False),
            Field("by", Kind.INT, reference="user"),
            Field("action", Kind.TEXT),
            Field("field", Kind.TEXT),
            Field("before", Kind.TEXT),
        ),
    ),
    PROGRAM,
    EntityType(
        "setting",
        ("name",),
        (Field("name", Kind.TEXT, is_nullable=False), Field("value", Kind.TEXT)),
    ),
    ONE_TIME_KEY,
    SESSION,
)


@dataclass(frozen=True)
class TrackerClasses:
    """The tracker's classes by name, and which of them keep their content in files."""

    properties: dict[str, tuple[Property, ...]]
    in_files: frozenset[str]

    def listings(self, kind: str) -> list[tuple[str, str]]:
        """(class, multilink) of every multilink that lists messages or files of this class."""
        if kind not in self.in_files:
            return []
        return [
            (owner, p.name)
            for owner, properties in self.properties.items()
            for p in properties
            if p.is_multilink and p.target == kind
        ]

    def types(self) -> Iterable[EntityType]:
        """An entity type for each class, and one for each multilink between ordinary classes."""
        for kind, properties in self.properties.items():
            fields = [Field("id", Kind.INT, is_nullable=False)]
            fields += [self.field(kind, p) for p in properties if not p.is_multilink]
            if kind in self.in_files:
                fields += [Field("digest", Kind.TEXT), Field("size", Kind.INT)]
            owners = sorted({owner for owner, _ in self.listings(kind)})
            fields += [Field(owner, Kind.INT, reference=owner) for owner in owners]
            fields += [Field(ALSO_ON, Kind.LIST)] * bool(owners)
            yield EntityType(kind, ("id",), (*fields, *_MADE))
            for p in properties:
                if p.is_multilink and p.target not in self.in_files:
                    yield EntityType(
                        f"{kind}_{p.name}",
                        ("nodeid", "linkid"),
                        (
                            Field("nodeid", Kind.INT, is_nullable=False, reference=kind),
                            Field("linkid", Kind.INT, is_nullable=False, reference=p.target),
                        ),
                        is_association=True,
                    )

    def field(self, kind: str, p: Property) -> Field:
        """How the property of a class is reported.

        Roundup itself defines the roles of a user as names with commas between them.
        """
        is_roles = (kind, p.name) == ("user", "roles")
        return Field(p.name, Kind.LIST if is_roles else p.kind, reference=p.target)


@dataclass(frozen=True)
class _Rows:
    """The rows of one source table, by source column, and how completely they are known."""

    rows: list[Row]
    enumeration: Enumeration = COMPLETE


class RoundupSource:
    """The tracker in the folder `home` as a source."""

    not_observed: ClassVar[tuple[str, ...]] = (
        "when a session or a one-time key was used last: each request writes it",
        "sessions of the account that the agent was given, and of `anonymous`",
        "when old one-time keys were removed: the row `last_clean`",
        "fractions of the seconds in which items were made and changed",
        "modes of `config.ini`, of databases and of contents, but odd ones; times of files",
        "the tracker's index for search, which follows the texts",
        "next numbers of items beyond the last item: a request that failed takes one",
        "logs beside the databases of sessions and keys that SQLite does not take for theirs",
    )

    def __init__(
        self,
        name: str,
        home: Path,
        refine: Refine | None = None,
        own: frozenset[str] = frozenset(),
    ) -> None:
        self._name = name
        self._home = Home(home, own)
        self._refine = refine
        self.database = SqliteSource(name, home / DATABASE / "db")
        self._known: tuple[TrackerClasses, Schema] | None = None

    @property
    def name(self) -> str:
        return self._name

    @property
    def places(self) -> tuple[Path, ...]:
        """The places of its database."""
        return self.database.places

    @property
    def home(self) -> Home:
        """The home that it reads beside the database."""
        return self._home

    def schema(self) -> Schema:
        if self._known is None:
            self._learn(self.database.read(MemoryChunks(), _no_clock, None).state)
        return self._learned()[1]

    def read(self, store: ChunkStore, clock: Clock, like: State | None) -> SourceCapture:
        as_of = clock()
        # In memory: the run's folder never holds what the tables hold of passwords.
        raw = self.database.read(MemoryChunks(), clock, None).state
        state = self.told(raw, self._home, store, like)
        return scanned(self._name, as_of, state)

    def told(self, raw: State, home: Home, store: ChunkStore, like: State | None) -> State:
        """One raw state of the database in the tracker's own terms, with what its files say."""
        if self._known is None:
            self._learn(raw)
        classes, schema = self._learned()
        read = _Reader(raw, home, classes, schema)
        names = {t.source_table for t in schema.types}
        new = tuple(
            replace(t, name=f"main.{t.name}") if t.name in schema.by_name else t
            for t in read.others()
            if t.source_table not in names
        )
        types = tuple(sorted((*schema.types, *new), key=lambda t: t.name))
        schema = replace(schema, types=types, sources=((self._name, tuple(t.name for t in types)),))
        tables: dict[str, Table] = {}
        for each in types:
            earlier = None if like is None else like.tables.get(each.name)
            found = read.rows(each)
            if each.name == STRUCTURE and found.rows and is_established(earlier):
                found = _Rows(found.rows)  # it was read as if nothing were known before
            tables[each.name] = keyed_table(each, found.rows, found.enumeration, store, earlier)
        return State(schema, tables)

    def _learned(self) -> tuple[TrackerClasses, Schema]:
        if self._known is None:
            raise SourceUnavailable("the tracker's classes are not known")
        return self._known

    def _learn(self, raw: State) -> None:
        table = raw.tables.get("schema")
        rows = [] if table is None else [row for _, row in table.rows()]
        declared = declared_classes(rows[0].get("schema")) if len(rows) == 1 else None
        if declared is None:
            raise SourceRuined("its database declares no Roundup classes")
        # What Roundup calls a FileClass, and nothing else, has both of these.
        in_files = frozenset(
            kind
            for kind, properties in declared.items()
            if {"content", "type"} <= {p.name for p in properties}
        )
        classes = TrackerClasses(declared, in_files)
        reader = _Reader(raw, self._home, classes)
        types = tuple(sorted((*classes.types(), *_OWN, *reader.others()), key=lambda t: t.name))
        schema = source_schema(self._name, types)
        self._known = classes, schema if self._refine is None else self._refine(schema)


def _no_clock() -> datetime:
    return datetime.fromtimestamp(0, UTC)  # only the catalogue is wanted: nobody sees the reading


def _apart(raw_type: EntityType, told: set[str]) -> EntityType:
    """The type of a table, under another name where it is called like something of the tracker."""
    if raw_type.source_table not in told:
        return raw_type
    name = f"main.{raw_type.source_table}"
    return replace(raw_type, name=name, table=name)


class _Reader:
    """One raw state of the database, described in the tracker's own terms."""

    def __init__(
        self, raw: State, home: Home, classes: TrackerClasses, schema: Schema | None = None
    ) -> None:
        types = () if schema is None else schema.types
        self._named = {t.source_table: t for t in types}
        told = {*classes.properties, *(t.name for t in _OWN)}
        self._raw = {_apart(t.type, told).source_table: t for t in raw.tables.values()}
        self._types = [_apart(t, told) for t in raw.schema.types]
        self._home = home
        self._classes = classes
        self._ours = {"ids", SEARCH_INDEX}
        for kind, properties in classes.properties.items():
            self._ours |= {f"_{kind}", f"{kind}__journal"}
            self._ours |= {f"{kind}_{p.name}" for p in properties if p.is_multilink}
        self._lists = {
            f"{kind}_{p.name}": kind
            for kind, properties in classes.properties.items()
            for p in properties
            if p.is_multilink and p.target not in classes.in_files
        }
        """Multilink table between ordinary classes → the class whose items list others."""

    def others(self) -> list[EntityType]:
        """The tables that are not described in other terms: they stay as they are."""
        return [t for t in self._types if t.source_table not in self._ours]

    def rows(self, entity_type: EntityType) -> _Rows:
        table = entity_type.source_table
        if table in self._classes.properties:
            return self._items(table)
        match table:
            case "journal":
                return self._journal()
            case "setting":
                return _of_files(self._home.settings())
            case "program":
                return _of_files(self._programs())
            case SESSION.name | ONE_TIME_KEY.name:
                return _of_files(self._home.store(table).rows)
            case "ids":
                rows, known = self._of(table)
                return _Rows([{"name": r.get("name"), "value": r.get("num")} for r in rows], known)
            case _ if table in self._lists:
                rows, known = self._of(table)
                return _Rows(_usual_links(rows, self._numbers(self._lists[table])), known)
            case _:
                return _Rows(*self._of(table))

    def _of(self, raw_table: str) -> tuple[list[Row], Enumeration]:
        """A raw table's rows by column; a table that was dropped has none."""
        table = self._raw.get(raw_table)
        if table is None:
            return [], COMPLETE
        columns = [(f.name, f.source_column) for f in table.type.fields]
        rows = [{c: row[n] for n, c in columns if n in row} for _, row in table.rows()]
        return rows, table.enumeration

    def _contents(self) -> dict[str, set[int]]:
        """Class that keeps its content in files → the numbers of its items."""
        return {kind: self._numbers(kind) for kind in self._classes.in_files}

    def _numbers(self, kind: str) -> set[int]:
        return {id_ for row in self._of(f"_{kind}")[0] if type(id_ := row.get("id")) is int}

    def _programs(self) -> list[Row] | str:
        """The files of the home, and the parts of the database that no other type can say."""
        found = self._home.programs(self._contents())
        if isinstance(found, str):
            return found
        odd: list[Row] = [
            {"path": f"{DATABASE}/{DATABASE}#{table}", "mode": None, "content": rows_digest(rows)}
            for table, rows in self._left_over()
            if rows
        ]
        return [*found, *odd]

    def _left_over(self) -> Iterable[tuple[str, list[Row]]]:
        """Rows of the tracker's tables that belong to no item, or are not as the tracker writes.

        No interface shows these as they are, if at all.
        """
        contents = self._contents()
        counters, known = self._of("ids")
        given_out = {row.get("name"): row.get("num") for row in counters}
        yield (
            "ids",
            [*_odd_counters(counters, self._classes.properties)] if known.is_complete else [],
        )
        for kind in self._classes.properties:
            for owner, name in self._classes.listings(kind):
                table = f"{owner}_{name}"
                rows = self._of(table)[0]
                listed = [row for row in rows if _is_listing(row, contents[kind])]
                usual = _usual_links(listed, self._numbers(owner), twice=True)
                yield table, _without(rows, usual)
            table = f"{kind}__journal"
            yield table, [r for r in self._of(table)[0] if _entry_place(r) is None]
            next_id = given_out.get(kind)
            yield (
                f"_{kind}",
                [
                    row
                    for row in self._of(f"_{kind}")[0]
                    if not (
                        type(id_ := row.get("id")) is int
                        and (type(next_id) is not int or id_ < next_id)
                        and self._is_usual(kind, row)
                    )
                ],
            )
        for table, owner in self._lists.items():
            rows = self._of(table)[0]
            yield table, _without(rows, _usual_links(rows, self._numbers(owner)))

    def _is_usual(self, kind: str, row: Row) -> bool:
        """True if each cell of an item is of the form in which the tracker keeps it."""
        told = [(f.kind, self._made(f, row)) for f in _MADE]
        if told[-1][1] is None:  # whether it is retired is always there
            return False
        for p in self._classes.properties[kind]:
            if p.name == "content" and kind in self._classes.in_files:
                if row.get(f"_{p.name}") is not None:  # it is in a file
                    return False
            elif not p.is_multilink:
                value = cell(kind, p, row.get(f"_{p.name}", ABSENT))
                told.append((self._classes.field(kind, p).kind, value))
        return all(is_of_kind(each, value) for each, value in told)

    def _made(self, field: Field, row: Row) -> Observed:
        if field.name == "retired":
            return truth(row.get("__retired__"), row.get("id"))
        value = row.get(f"_{field.name}", ABSENT)
        return instant(value) if field.kind is Kind.TIMESTAMP else value

    def _items(self, kind: str) -> _Rows:
        rows, known = self._of(f"_{kind}")
        properties = [p for p in self._classes.properties[kind] if not p.is_multilink]
        owners, known = self._owners(kind, known)
        found: list[Row] = []
        for raw in rows:
            id_ = raw.get("id")
            item: Row = {"id": id_, **{f.name: self._made(f, raw) for f in _MADE}}
            for p in properties:
                item[p.name] = cell(kind, p, raw.get(f"_{p.name}", ABSENT))
            if kind in self._classes.in_files and isinstance(id_, int):
                item.update(content_cells(self._home.content(kind, id_)))
            for owner, listed in owners.items():
                item.update(on_which(owner, listed.get(id_, [])))
            found.append(item)
        return _Rows(found, known)

    def _owners(
        self, kind: str, known: Enumeration
    ) -> tuple[dict[str, dict[Any, list[int]]], Enumeration]:
        """Owner class → item of `kind` → the items of the owner class that list it."""
        owners: dict[str, dict[Any, list[int]]] = {}
        for owner, name in self._classes.listings(kind):
            rows, complete = self._of(f"{owner}_{name}")
            known = known if complete.is_complete else complete
            listed = owners.setdefault(owner, {})
            for row in _usual_links(rows, self._numbers(owner), twice=True):
                by = row["nodeid"]
                if type(by) is int:
                    listed.setdefault(row["linkid"], []).append(by)
        return owners, known

    def _journal(self) -> _Rows:
        found: list[Row] = []
        known, lost = COMPLETE, 0
        for kind, properties in self._classes.properties.items():
            rows, complete = self._of(f"{kind}__journal")
            known = known if complete.is_complete else complete
            secrets = frozenset(p.name for p in properties if p.is_secret)
            logical = self._named.get(kind)
            names = {} if logical is None else {f.source_column: f.name for f in logical.fields}
            position: dict[Any, int] = {}
            for row in sorted(rows, key=entry_order):
                place = _entry_place(row)
                if place is None:
                    lost += 1
                    continue
                item, at = place
                for field, before in changes(row, secrets):
                    moment = item, show(at)
                    position[moment] = position.get(moment, 0) + 1
                    found.append(
                        {
                            "on": kind if logical is None else logical.name,
                            "item": item,
                            "at": at,
                            "position": position[moment],
                            "by": number(row.get("tag")),
                            "action": row.get("action"),
                            "field": names.get(field, field) if type(field) is str else field,
                            "before": before,
                        }
                    )
        if lost and known.is_complete:
            cause = f"{lost} entries of the journal name no item or no time"
            known = Enumeration(Coverage.INCOMPLETE, cause)
        return _Rows(found, known)


def _odd_counters(rows: Sequence[Row], kinds: Iterable[str]) -> Iterator[Row]:
    """The classes without one next number: the tracker makes no item of them, or one twice."""
    for kind in kinds:
        numbers = [row.get("num") for row in rows if row.get("name") == kind]
        if len(numbers) != 1 or type(numbers[0]) is not int:
            yield {"name": kind, "num": repr(sorted(map(repr, numbers)))}


def _is_listing(row: Row, items: AbstractSet[int]) -> bool:
    """True if it says which item lists which of these."""
    return row.get("linkid") in items and type(row.get("nodeid")) is int


def _usual_links(rows: list[Row], items: AbstractSet[int], *, twice: bool = False) -> list[Row]:
    """The rows by which these items list others; each pair once, unless it may be there `twice`."""
    seen: set[tuple[int, int]] = set()
    found = []
    for row in rows:
        by, linked = row.get("nodeid"), row.get("linkid")
        if type(by) is not int or type(linked) is not int or by not in items:
            continue
        if twice or (by, linked) not in seen:
            seen.add((by, linked))
            found.append(row)
    return found


def _without(rows: list[Row], some: list[Row]) -> list[Row]:
    known = {id(row) for row in some}
    return [row for row in rows if id(row) not in known]


def _entry_place(row: Row) -> tuple[int, Observed] | None:
    """To which item an entry of the journal belongs, and when it was; None where nobody can say."""
    item, at = row.get("nodeid"), instant(row.get("date"), exact=True)
    return (item, at) if type(item) is int and is_value(at) and at is not None else None


def _of_files(found: list[Row] | str) -> _Rows:
    if isinstance(found, str):
        return _Rows([], Enumeration(Coverage.UNOBSERVED, found))
    return _Rows(found)
