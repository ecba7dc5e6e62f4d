"""The state after each committed transaction, read from a copy of the database.

States are read with the code that scans the database itself, so that types, schema objects and
canonical forms are the same. Only the tables that own a page the commit wrote are read again, and
of those whose key is the row id only the chunks with rows on these pages. Where the pages tell
which rows are others, and these are few, they take the place of those before, and nothing is read.
All are read if the commit touched the catalogue, or if the pages do not form trees.

`before`, whose chunks stand for those that nobody touched, is checked where that matters: a chunk
is read from the copy before the first commit that touches it, and must be what `before` says.

The same pages say whether the structure is as sound as it was (`sqlite.preserved`); where
they do not tell, the whole file is checked.
"""

from __future__ import annotations

import bisect
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, Final

from statediff.capture.source import SourceUnavailable, SourceUnfollowed
from statediff.model.explanation import by_run
from statediff.model.patch import patched
from statediff.model.schema import EntityType
from statediff.model.state import ChunkStore, State, Table
from statediff.systems.relational.schema import quoted, with_types
from statediff.systems.relational.structure import STRUCTURE, is_established
from statediff.systems.sqlite.btree import Tangled, node_of, signed, varint
from statediff.systems.sqlite.catalogue import OBJECT_NAMES, Catalogue, folded, kind_of
from statediff.systems.sqlite.copy import DatabaseCopy, without_log
from statediff.systems.sqlite.entries import TableIndexes, Uncertain, read_indexes
from statediff.systems.sqlite.order import RowIds, Tree, check_order
from statediff.systems.sqlite.owners import PageOwners, Rewritten
from statediff.systems.sqlite.preserved import Preservation, check_places
from statediff.systems.sqlite.records import FewRows, RowReader
from statediff.systems.sqlite.scan import Scan, Scanner, prepare
from statediff.systems.sqlite.searches import search_index
from statediff.systems.sqlite.stored import as_before
from statediff.systems.sqlite.wal import Commit


def row_range(content: bytes, page: int, usable: int) -> tuple[int, int] | None:
    """The least and the greatest row id of a node of a table; None if it holds no rows.

    Raises `Tangled` for a node of an index or of a table that is one.
    """
    node = node_of(content, page, usable)
    if not node.is_of_table:
        raise Tangled("a node of an index holds no row ids")
    if node.children or not node.starts:
        return None
    try:
        first, last = (varint(content, varint(content, node.starts[at])[1])[0] for at in (0, -1))
    except IndexError as error:
        raise Tangled("a node is damaged") from error
    return signed(first), signed(last)


MAX_READ_BYTES: Final = 512 * 1024 * 1024
"""Bytes of tables that are read for all commits together: half a minute's work."""
ROW_BYTES: Final = 64
"""A row that is read counts as so many bytes at least: short rows take as long."""
MAX_READ_TABLES: Final = 100_000
"""Tables looked at for all commits that changed the catalogue: some seconds' work."""
_MANY: Final = 4
"""Where more than this part of a table's chunks changed, all of it is read at once, in columns."""
_SCHEMA_ROOT: Final = 1
_LISTED: Final = ("db.column", "db.index", "db.table", "db.trigger", "db.view")
"""The schema objects of which the catalogue's own lines tell."""
_MOVED: Final = "the capture before does not show the state in which the feed was attached"


@dataclass
class _Layout:
    """The catalogue at some moment, and whose each page is; `owners` is None if nobody can say."""

    catalogue: Catalogue
    owners: PageOwners | None
    tables: Mapping[int, str]
    """Root page → folded name, tables only: what an index holds is no state of its own."""
    parts: Mapping[int, str] = field(default_factory=dict)
    """Root page → name of the table that it is, or is an index of."""
    row_ids: Mapping[str, str] = field(default_factory=dict)
    """Folded name → the column that is the row id, so that a leaf's rows are a range of keys."""
    indexes: Mapping[int, TableIndexes] | None = None
    """Root page → the table that it belongs to, with all of its indexes; None until asked for."""
    readers: dict[str, RowReader | None] = field(default_factory=dict)
    """Type → what tells its rows from their records, as far as it was asked for."""
    ordered: Collection[int] = ()
    """The roots whose row ids were found in order, as far as their pages were not written since."""


_Chunks = frozenset[int] | None
"""Which chunks of a table a commit may have changed; None if that may be all."""


class Replay:
    """The states of one run, in order. `copy` holds the database as it was at the start."""

    def __init__(
        self,
        copy: DatabaseCopy,
        scanner: Scanner,
        store: ChunkStore,
        before: State,
        *,
        is_of_copy: bool = False,
    ) -> None:
        """With `is_of_copy`, `before` was read in the transaction whose pages the copy has."""
        self._copy = copy
        self._scanner = scanner
        self._store = store
        self._before = before
        self._state = before
        self._layout: _Layout | None = None
        self._next: Mapping[int, bytes] = {}
        self._unchecked: set[int] = set()
        """Pages written since somebody could say whose each page is."""
        self._checked: dict[str, set[int]] = {}
        self._is_all_checked = is_of_copy
        self._bytes_read = 0
        self._tables_read = 0
        self._bytes_checked = 0
        self._left_alone: dict[str, int] = {}
        """The tables, with their roots, that a commit to the catalogue wrote no page of."""
        self._rewritten: Mapping[int, Rewritten] = {}
        """Root → what the present commit did to its tree."""
        self._preserved: Preservation | None = None
        """What tells whether it left the structure as sound as it was; None: nothing does."""

    def apply(self, commit: Commit, *, is_last: bool = True) -> State:
        """The state after the commit. Raises `SourceUnavailable` if it cannot be known.

        Where checking the structure of every state would take too long, only the last is known.
        """
        if not self._before.schema.types:  # even an empty database has those of schema objects
            raise SourceUnavailable(_MOVED)
        if self._layout is None:
            with closing(self._copy.connect()) as connection:
                self._layout = self._layout_of(connection, self._copy.begin(connection))
        touched = self._changed_types(commit, self._layout)
        if touched is None:
            self._check_all()
            self._copy.write(commit)
            self._unchecked.update(commit.pages)
            self._read_all(commit)
        else:
            self._check(touched)
            few = self._few(touched, self._layout)
            self._copy.write(commit)
            structure = self._structure(is_last)
            tables = {} if few is None or structure else few.patched(self._store)
            rest = {each: at for each, at in touched.items() if each.name not in tables}
            tables |= self._tables(rest, self._state) | structure
            schema = with_types(self._state.schema, {n: t.type for n, t in tables.items()})
            self._state = State(schema, {**self._state.tables, **tables})
        return self._state

    def _preservation(self, layout: _Layout, commit: Commit) -> Preservation | None:
        """What tells whether the structure stays as sound as it is, and row ids in order."""
        if layout.owners is None or not is_established(self._state.tables.get(STRUCTURE)):
            return None
        try:
            if layout.indexes is None:
                layout.indexes = self._indexes(layout)
            check_places(self._page, self._copy.page_size, commit, layout.owners, self._rewritten)
            found = Preservation(
                commit,
                layout.owners.usable,
                self._rewritten,
                layout.indexes,
                self._copy.page,
                lambda page: commit.pages.get(page) or self._copy.page(page),
            )
            found.subtract(self._prepared, -1)
            return found
        except (Uncertain, Tangled, sqlite3.Error):
            return None

    @contextmanager
    def _prepared(self) -> Iterator[sqlite3.Connection]:
        with closing(self._copy.connect()) as connection:
            prepare(connection)
            yield connection

    def _indexes(self, layout: _Layout) -> dict[int, TableIndexes]:
        with closing(self._copy.connect()) as connection:
            prepare(connection)
            listed = connection.execute("SELECT name, rootpage FROM main.sqlite_schema").fetchall()
            roots = {name: root for name, root in listed if isinstance(name, str) and root}
            found = read_indexes(connection, self._copy.page(1), roots)
        return {root: found[name] for root, name in layout.parts.items() if name in found}

    def _structure(self, is_last: bool) -> dict[str, Table]:
        """What is new about the structure: nothing, where a sound file was changed soundly."""
        each = self._state.schema.by_name.get(STRUCTURE)
        if each is None:
            return {}
        if self._preserved is not None:
            try:
                self._preserved.subtract(self._prepared, 1)
                if self._preserved.holds():
                    return {}
            except (Uncertain, Tangled, sqlite3.Error):
                pass  # the whole file is checked
        self._bytes_checked += self._copy.size
        if is_last or self._bytes_checked <= MAX_READ_BYTES:
            return self._tables({each: None}, self._before)
        cause = by_run(f"checking every commit takes more than {MAX_READ_BYTES >> 20} MiB")
        return {STRUCTURE: self._state.tables[STRUCTURE].unobserved(cause)}

    def _few(self, touched: Collection[EntityType], layout: _Layout) -> FewRows | None:
        """The rows that the commit changed, where pages tell them."""
        if self._preserved is None or layout.owners is None:
            return None
        tables = [self._state.tables[each.name] for each in touched]
        return FewRows(
            tables,
            layout.readers,
            layout.catalogue,
            self._preserved.differences,
            self._copy.page,
            layout.owners.usable,
        )

    # What a commit touched

    def _changed_types(self, commit: Commit, layout: _Layout) -> dict[EntityType, _Chunks] | None:
        """The types whose rows the commit may have changed, and where; None if that may be all."""
        first = commit.pages.get(1)
        self._left_alone = {}
        if layout.owners is None:
            return None
        written = [page for page in commit.pages if page != 1]
        roots = layout.owners.touched(written, commit.page_count)
        one, two = self._copy.page(1), None if first is None else without_log(first)
        is_meant = two is not None and _meaning(two) != _meaning(one)
        if is_meant or _SCHEMA_ROOT in roots:
            if two is None or _header(two) == _header(one):
                named = layout.tables.items()
                self._left_alone = {n: r for r, n in named if r not in roots}
            return None
        self._next = commit.pages
        try:
            self._rewritten = layout.owners.update(roots, commit.pages, commit.page_count)
            self._preserved = self._preservation(layout, commit)
            if self._preserved is None:
                for root, nodes in self._rewritten.items():
                    self._check_row_ids(layout.owners, root, nodes)
        except Tangled:
            return None
        finally:
            self._next = {}
        found: dict[EntityType, _Chunks] = {}
        for root in roots & layout.tables.keys():
            name = layout.tables[root]
            index = search_index(layout.catalogue, name)
            names = {name} if index is None else {name, *index.parts}
            for each in self._state.schema.types:
                if folded(each.source_table) in names:
                    is_alone, nodes = index is None, self._rewritten[root]
                    chunks = self._chunks(each, layout, nodes, commit) if is_alone else None
                    found[each] = chunks
                    self._spend(layout.owners.size(root), each, chunks)
        return found

    def _chunks(
        self, each: EntityType, layout: _Layout, rewritten: Rewritten, commit: Commit
    ) -> _Chunks:
        table, earlier = self._state.tables[each.name], self._before.tables.get(each.name)
        if (
            layout.owners is None
            or not _is_by_row_id(each, layout)
            or earlier is None
            or not (table.enumeration.is_complete and earlier.enumeration.is_complete)
        ):
            return None
        cuts = list(table.partition)
        found: set[int] = set()
        contents = [(self._copy.page(p), p) for p in rewritten.before]
        contents += [(commit.pages.get(p) or self._copy.page(p), p) for p in rewritten.after]
        usable = layout.owners.usable
        try:
            for content, page in contents:
                if (keys := row_range(content, page, usable)) is not None:
                    first, last = (bisect.bisect_right(cuts, (key,)) for key in keys)
                    found.update(range(first, last + 1))
        except Tangled:
            return None
        is_most = len(found) > len(table.chunks) // _MANY
        return None if is_most and len(found) > 1 else frozenset(found)

    def _check_row_ids(self, owners: PageOwners, root: int, nodes: Rewritten) -> None:
        """The row ids of a table are in order. Raises `Tangled`.

        A caller that asks for a range of row ids is shown what a search finds: a row in a wrong
        place is in the table and in no range.
        """
        if not node_of(self._page(root), root, owners.usable).is_of_table:
            return
        before, after = (
            Tree(read, owners.usable, are_row_ids=True) for read in (self._copy.page, self._page)
        )
        former = (before, nodes.above_before)
        check_order(after, root, RowIds(), nodes.after, nodes.above_after, former)

    def _page(self, number: int) -> bytes:
        return self._next.get(number) or self._copy.page(number)

    def _layout_of(
        self,
        connection: sqlite3.Connection,
        catalogue: Catalogue,
        earlier: _Layout | None = None,
        written: Collection[int] = (),
    ) -> _Layout:
        """The layout now; of the `earlier` one all stands that the written pages do not touch."""
        tables: dict[int, str] = {}
        parts: dict[int, str] = {}
        size = self._copy.page_size
        try:
            usable = size - self._copy.page(1)[20]
            owners = PageOwners(self._page, usable, self._copy.size // size)
            ordered: Collection[int] = ()
            if earlier is not None and earlier.owners is not None:
                owners.learn(earlier.owners, written)
                ordered = earlier.ordered
            owners.grow(_SCHEMA_ROOT)
            listed = connection.execute(
                "SELECT type, name, tbl_name, rootpage FROM main.sqlite_schema WHERE rootpage <> 0"
            )
            for kind, name, table, root in listed.fetchall():
                owners.grow(root)
                parts[root] = str(table)
                own = owners.of_tree(root)
                is_open = root not in ordered or not self._unchecked.isdisjoint(own)
                is_open &= bool(self._unchecked)
                if is_open and node_of(self._page(root), root, usable).is_of_table:
                    above = owners.with_above({root, *self._unchecked} & {*own})
                    tree = Tree(self._page, usable, are_row_ids=True)
                    check_order(tree, root, RowIds(), above, above)
                if kind_of(kind) == "table":
                    tables[root] = folded(name)
        except (Tangled, TypeError, AttributeError, IndexError):
            return _Layout(catalogue, None, {})  # not as SQLite would have written it
        ordered = parts.keys() if self._unchecked else ()
        self._unchecked.clear()
        row_ids = _row_ids(connection, catalogue, earlier)
        return _Layout(catalogue, owners, tables, parts, row_ids, ordered=ordered)

    # Reading

    def _check_all(self) -> None:
        """`before` is right about all that nobody touched so far; raises if it is not."""
        if not self._is_all_checked:
            self._is_all_checked = True
            unknown = {
                t: None
                for t in self._before.schema.types
                if t.name not in self._checked and t.name != STRUCTURE
            }
            known = {
                t: frozenset(range(len(self._before.tables[t.name].chunks))) - done
                for t in self._before.schema.types
                if (done := self._checked.get(t.name)) is not None
            }
            self._compare({**unknown, **known})

    def _check(self, touched: Mapping[EntityType, _Chunks]) -> None:
        """`before` is right about what is about to change for the first time; raises if not."""
        if self._is_all_checked:
            return
        new: dict[EntityType, _Chunks] = {}
        for each, chunks in touched.items():
            table = self._before.tables.get(each.name)
            if table is None:
                raise SourceUnavailable(_MOVED)
            every = frozenset(range(len(table.chunks)))
            done = self._checked.setdefault(each.name, set())
            left = (every if chunks is None else chunks) - done
            if left:
                new[each] = None if chunks is None and not done else left
            done |= left
        self._compare(new)

    def _compare(self, touched: Mapping[EntityType, _Chunks]) -> None:
        tables = self._tables(touched, self._before)
        for each, chunks in touched.items():
            table, expected = tables[each.name], self._before.tables[each.name]
            at = range(len(expected.chunks)) if chunks is None else chunks
            if table.enumeration != expected.enumeration or any(
                table.chunks[i] != expected.chunks[i] for i in at
            ):
                raise SourceUnavailable(_MOVED)

    def _read_all(self, commit: Commit) -> None:
        self._bytes_read += self._copy.size
        self._limit()
        with closing(self._copy.connect()) as connection:
            known = None if self._layout is None else self._layout.catalogue
            catalogue = self._copy.begin(connection, known)
            self._tables_read += len(catalogue.tables)
            if self._tables_read > MAX_READ_TABLES:
                raise SourceUnfollowed(
                    f"its commits change the catalogue of more than {MAX_READ_TABLES} tables in all"
                )
            earlier = self._layout
            self._layout = self._layout_of(connection, catalogue, earlier, commit.pages)
            kept = {**self._kept(earlier, self._layout), **self._objects(known, catalogue)}
            found = self._scanner.scan(connection, catalogue, self._store, self._before, kept)
            self._state = found.state

    def _kept(self, earlier: _Layout | None, layout: _Layout) -> dict[str, Table]:
        """By their folded names, the tables that a commit to the catalogue left as they were."""
        if earlier is None or layout.owners is None:
            return {}
        one, two = (_definitions(each.catalogue) for each in (earlier, layout))
        same = {
            name
            for name, root in self._left_alone.items()
            if layout.tables.get(root) == name
            and name in one
            and one[name] == two.get(name)
            # Its parts are read together.
            and search_index(layout.catalogue, name) is None
        }
        return {
            name: table
            for table in self._state.tables.values()
            if (name := folded(table.type.source_table)) in same and table.enumeration.is_complete
        }

    def _objects(self, known: Catalogue | None, catalogue: Catalogue) -> dict[str, Table]:
        """The tables of schema objects: of one commit, only what it changed is encoded."""
        found: dict[str, Table] = {}
        if known is None:
            return found
        changed = sorted(
            name
            for name in known.lines.keys() | catalogue.lines.keys()
            if known.lines.get(name) != catalogue.lines.get(name)
        )
        for name in _LISTED:
            table = self._state.tables.get(name)
            if table is None or not table.enumeration.is_complete:
                continue
            before = self._before.tables.get(name)
            gone, come = (
                as_before(
                    (row for at in changed for kind, row in each.rows.get(at, ()) if kind == name),
                    before,
                )
                for each in (known, catalogue)
            )
            key = itemgetter(*table.type.key)
            if any(len({key(row) for row in rows}) < len(rows) for rows in (gone, come)):
                continue  # some share a key: nobody can say which one it is
            found[folded(table.type.source_table)] = patched(table, gone, come)
        return found

    def _tables(self, touched: Mapping[EntityType, _Chunks], base: State) -> dict[str, Table]:
        """The tables as the copy has them; where chunks are named, the others are as in `base`."""
        if not touched or self._layout is None:
            return {}
        with closing(self._copy.connect()) as connection:
            prepare(connection)
            scan = Scan(connection, self._layout.catalogue, self._store)
            return {
                each.name: self._table(scan, each, chunks, base.tables.get(each.name))
                for each, chunks in touched.items()
            }

    def _table(self, scan: Scan, each: EntityType, chunks: _Chunks, base: Table | None) -> Table:
        if chunks is not None and base is not None:
            refs = list(base.chunks)
            cuts: list[Any] = [None, *(cut[0] for cut in base.partition), None]  # row ids
            for at in chunks:
                ref = scan.between(each, cuts[at], cuts[at + 1])
                if ref is None:
                    break
                refs[at] = ref
            else:
                return replace(base, chunks=tuple(refs))
        return scan.table(each, self._before.tables.get(each.name))

    def _spend(self, pages: int, each: EntityType, chunks: _Chunks) -> None:
        known = self._state.tables[each.name].chunks
        read = known if chunks is None else [known[at] for at in chunks]
        size = pages * self._copy.page_size * len(read) // len(known)
        self._bytes_read += max(size, ROW_BYTES * sum(ref.rows for ref in read))
        self._limit()

    def _limit(self) -> None:
        if self._bytes_read > MAX_READ_BYTES:
            raise SourceUnfollowed(
                f"following its commits takes more than {MAX_READ_BYTES >> 20} MiB of reading"
            )


def _row_ids(
    connection: sqlite3.Connection, catalogue: Catalogue, earlier: _Layout | None
) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, entry in catalogue.tables.items():
        if earlier is not None and earlier.catalogue.tables.get(name) is entry:
            if name in earlier.row_ids:
                found[name] = earlier.row_ids[name]
        elif len(entry.key) == 1 and entry.key[0].declared.upper() == "INTEGER":
            # Where the key is not the row id itself there is an index for it, or the table is one.
            listed = connection.execute(f"PRAGMA main.index_list({quoted(entry.name)})").fetchall()
            if not any(origin == "pk" for _, _, _, origin, _ in listed):
                found[name] = folded(entry.key[0].name)
    return found


def _is_by_row_id(each: EntityType, layout: _Layout) -> bool:
    column = layout.row_ids.get(folded(each.source_table))
    if column is None or each.name in OBJECT_NAMES or len(each.key) != 1:
        return False
    return folded(each.by_name[each.key[0]].source_column) == column


def _definitions(catalogue: Catalogue) -> dict[str, tuple[object, ...]]:
    """How each table is read, by its folded name."""
    texts = {folded(str(row["name"])): row for row in catalogue.objects.get("db.table", ())}
    return {name: (entry, texts.get(name)) for name, entry in catalogue.tables.items()}


def _header(first_page: bytes) -> bytes:
    """What of the first page says how every other is read: not the number of the schema."""
    return first_page[:24] + first_page[44:92]


def _meaning(first_page: bytes) -> bytes:
    """What of the first page says anything of the schema: not the counters, nor the free list."""
    return first_page[:24] + first_page[40:92] + first_page[100:]
