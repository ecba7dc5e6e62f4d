"""The state after each commit between a run's ends, as far as the server still shows it exactly.

Rows of tables that kept their files and columns follow from the pages each commit touched. A table
that was made, rewritten or altered is read whole at the moments at which it was as it is at the
end, and stands as before until something touches it; in between it is unobserved. So are unlogged
tables and, where one moved, sequences.

Rows of the catalogue follow the moment, the server's functions that describe them do not. A listing
is that of an end where the catalogue it rests on has the same rows as at that end; those of roles,
grants, memberships, settings, schemas, databases and large objects are asked anew, as their
functions look up nothing but names. Any other is unobserved, but for the objects whose plain fields
(`postgres.fingerprints`) are certainly other than before the run.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Final

import psycopg

from statediff.capture.feed import Seen
from statediff.capture.source import SourceUnavailable, gap_of
from statediff.model.batches import Row
from statediff.model.explanation import by_run
from statediff.model.readings import Transaction
from statediff.model.schema import COUNTERS, EntityType
from statediff.model.state import ChunkStore, State, Table
from statediff.model.values import Unobserved
from statediff.systems.relational.schema import Shelf, moved_rows
from statediff.systems.relational.structure import STRUCTURE
from statediff_postgres.catalogue import OBJECT_NAMES
from statediff_postgres.fingerprints import PLAIN
from statediff_postgres.past import (
    SILENT,
    VALUES_CHANGED,
    Commit,
    Definition,
    Delta,
    Held,
    Look,
    Snapshot,
)
from statediff_postgres.queries import LISTINGS
from statediff_postgres.session import Connection, cause_of
from statediff_postgres.source import Scan

MAX_TRANSACTIONS: Final = 2_000
MAX_READ_BYTES: Final = 64 * 1024 * 1024
"""Of tables that are read whole at moments of the past."""
_NAMES: Final = frozenset({"pg_authid"})
_BY_ROLES: Final[Mapping[str, frozenset[str]]] = {
    "db.role": frozenset({"pg_authid"}),
    "db.membership": frozenset({"pg_auth_members"}) | _NAMES,
    "db.setting": frozenset({"pg_db_role_setting"}) | _NAMES,
    "db.schema": frozenset({"pg_namespace"}) | _NAMES,
    "db.database": frozenset({"pg_database"}) | _NAMES,
    "db.large_object": frozenset({"pg_largeobject", "pg_largeobject_metadata"}) | _NAMES,
}
_GRANT_NAMES: Final = frozenset({"pg_proc", "pg_type", "pg_namespace"}) | _NAMES
_GRANTS: Final = _GRANT_NAMES | {
    "pg_class",
    "pg_attribute",
    "pg_database",
    "pg_language",
    "pg_largeobject_metadata",
    "pg_parameter_acl",
    "pg_default_acl",
}
_OF_NO_LISTING: Final = frozenset(
    {
        "pg_statistic",
        "pg_statistic_ext_data",
        "pg_largeobject",
        "pg_largeobject_metadata",
        "pg_database",
        "pg_db_role_setting",
        "pg_auth_members",
        "pg_depend",
        "pg_shdepend",
        "pg_init_privs",
        "pg_parameter_acl",
    }
)
"""What the listings that are not asked anew do not rest on."""
_QUERIES: Final = {listing.type.name: listing.query for listing in LISTINGS}
_SIZE: Final = "SELECT coalesce(sum(pg_table_size(oid::oid)), 0)::int8 FROM unnest(%s::int8[]) oid"

Open = Callable[[], AbstractContextManager[Connection]]


class Moments:
    """The moments of a run, from its two ends and from connections that look at any moment."""

    def __init__(
        self,
        delta: Delta,
        start: Snapshot,
        admin: Connection,
        held: Held,
        open_session: Open,
        own_databases: Container[str],
    ) -> None:
        self._delta = delta
        self._start = start
        self._admin = admin
        self._held = held
        self._open = open_session
        self._own = own_databases

    def told(
        self,
        source: str,
        store: ChunkStore,
        before: State,
        after: State,
        position: str,
        doubts: Mapping[str, str],
    ) -> Seen:
        """Every transaction that left another state; a gap where not each of them can be known."""
        commits = self._delta.commits
        told: list[Transaction] = []
        last = before.digest()

        def tell(state: State, lsn: str, commit: Commit | None, is_all_its_own: bool) -> None:
            nonlocal last
            digest = state.digest()
            if digest != last:
                last = digest
                at = None if commit is None else commit.at
                # Its number is what a connection that made it can ask for.
                names = (str(commit.xid),) if commit is not None and is_all_its_own else ()
                name = f"{source}/{len(told) + 1}"
                told.append(Transaction(name, source, lsn, at, state, names))

        if len(commits) > MAX_TRANSACTIONS:
            return Seen((), by_run(f"there are more than {MAX_TRANSACTIONS} transactions"))
        run = _Run(self._delta, store, before, after, doubts, self._own)
        try:
            with ExitStack() as stack:
                looks: list[Look] = []
                earlier = self._delta.first
                for number, commit in enumerate(commits[:-1], start=1):
                    if len(looks) < 2:
                        looks.append(Look(stack.enter_context(self._open())))
                    look = looks[(number - 1) % 2]
                    look.enter(self._admin, self._held, self._snapshot_after(number))
                    tell(run.state(number, earlier, look), commit.lsn, commit, True)
                    earlier = look
        except SourceUnavailable as error:
            return Seen(tuple(told), gap_of(error))
        except psycopg.Error as error:
            return Seen(tuple(told), cause_of(error))
        # What moves without a transaction, as a sequence may, has moved by the end.
        if commits:
            is_all_its_own = len(commits) > 1 or run.moved_the_sequences(commits[-1])
            tell(after, commits[-1].lsn, commits[-1], is_all_its_own)
        else:
            tell(after, position, None, False)
        return Seen(tuple(told))

    def _snapshot_after(self, number: int) -> Snapshot:
        """The snapshot that one has once so many commits are through."""
        done = {xid for commit in self._delta.commits[:number] for xid in commit.parts}
        top = max(self._start.top, max(done) + 1)
        under_way = {*self._start.pending, *range(self._start.top, top)}
        return Snapshot(top, frozenset(under_way - done))


class _Run:
    """The states between, in order."""

    def __init__(
        self,
        delta: Delta,
        store: ChunkStore,
        before: State,
        after: State,
        doubts: Mapping[str, str],
        own: Container[str],
    ) -> None:
        self._delta = delta
        self._store = store
        self._before = before
        self._after = after
        self._doubts = dict(doubts)
        self._own = own
        self._tables = dict(before.tables)
        self._bytes_left = MAX_READ_BYTES
        self._kept: dict[str, bool] = {}
        self._touched = [delta.touched(commit) for commit in delta.commits]
        self._writing = self._all_touched(0, None) - SILENT
        self._passing_now: dict[str, Table] = {}
        self._has_moved = self._sequences_moved()

    def state(self, number: int, earlier: Look, look: Look) -> State:
        """The state after so many commits; `earlier` sees the one before."""
        commit = self._delta.commits[number - 1]
        tables = dict(self._tables)
        for each in self._after.schema.types:
            if each.name in OBJECT_NAMES:
                tables[each.name] = self._listing(each, number, look)
            elif each.name in self._doubts:
                found = self._doubtful(each, number, look)
                if found is None:
                    tables.pop(each.name, None)
                else:
                    tables[each.name] = found
            else:
                told = self._delta.table(each, tables[each.name], earlier, look, (commit,))
                if isinstance(told, str):
                    self._doubts[each.name] = told
                    told = self._unknown(each, told)
                tables[each.name] = told
        self._tables = tables
        passing = self._passing(look) if self._touched[number - 1] else self._passing_now
        self._passing_now = passing
        shown = {**tables, **passing}
        schema = self._after.schema
        types = tuple(shown[name].type for name in sorted(shown))
        ((source, _),) = schema.sources
        delivered = ((source, tuple(sorted(shown))),)
        return State(replace(schema, types=types, sources=delivered), shown)

    def _passing(self, look: Look) -> dict[str, Table]:
        """The tables that are at neither end: there were some, and nothing else is known."""
        known = {t.source_table for t in self._after.schema.types}
        taken = self._after.schema.by_name
        found = {}
        for name in look.definitions.keys() - known:
            own = f"public.{name}" if name in taken else name
            empty = Shelf(self._store).empty(EntityType(own, (), (), table=name), None)
            found[own] = empty.unobserved(by_run("the table was made and dropped in it"))
        return found

    def _unknown(self, each: EntityType, cause: str) -> Table:
        shelf = Shelf(self._store)
        return shelf.empty(each, self._before.tables.get(each.name)).unobserved(cause)

    def _all_touched(self, first: int, end: int | None) -> frozenset[str]:
        """The tables of the catalogue that some of the commits wrote."""
        return frozenset().union(*self._touched[first:end])

    # Tables of which no delta tells

    def _doubtful(self, each: EntityType, number: int, look: Look) -> Table | None:
        """The table as it was then; None if there was none and never had been."""
        cause, name = self._doubts[each.name], each.source_table
        earlier = self._before.tables.get(each.name)
        first, last = (end.definitions.get(name) for end in (self._delta.first, self._delta.last))
        now = look.definitions.get(name)
        if now is None:
            if earlier is None or not earlier.enumeration.is_complete:
                return None if earlier is None else earlier
            return Shelf(self._store).empty(earlier.type, earlier)
        if any(d is not None and d.is_unlogged for d in (first, now, last)):
            return self._unknown(each, cause)
        if earlier is not None and now == first and self._is_as_before(now, cause, number):
            return earlier
        if name not in self._delta.catalogue.tables:
            return self._unknown(each, cause)
        if now != last and not self._keeps_versions(each, (first, now, last)):
            return self._unknown(each, cause)
        is_written_so = self._delta.needs_catalogue(each)
        if is_written_so and not self._same(look, self._delta.last, self._writing):
            return self._unknown(each, VALUES_CHANGED)
        found = self._read(each, look, now)
        if found is None:
            return self._unknown(each, by_run(f"{cause}, and too large to be read at each moment"))
        return found

    def _read(self, each: EntityType, look: Look, now: Definition) -> Table | None:
        """The table, whole, as it was at the moment; None where too much was read already."""
        files = [oid for oid, _ in now.files]
        (size,) = look.connection.execute(_SIZE, (files,)).fetchone() or (0,)
        self._bytes_left -= size
        if self._bytes_left < 0:
            return None
        scan = Scan(look.connection, self._delta.catalogue, {}, Shelf(self._store))
        return scan.table(each, self._before.tables.get(each.name))

    def _keeps_versions(self, each: EntityType, then: Sequence[Definition | None]) -> bool:
        """True if a table that is the same but for its file has every version of its rows.

        `VACUUM FULL` and `CLUSTER` carry over all that a snapshot may see; whatever else makes a
        new file carries over nothing, and the first moment finds an empty table in it.
        """
        if len({None if each is None else replace(each, files=()) for each in then}) > 1:
            return False
        (first, *_), earlier = then, self._before.tables.get(each.name)
        if each.name not in self._kept:
            found = None
            if first is not None and len(first.files) == 1 and earlier and earlier.row_count:
                found = self._read(each, self._delta.first, first)
            is_kept = found is not None and earlier is not None and found.chunks == earlier.chunks
            self._kept[each.name] = is_kept
        return self._kept[each.name]

    def _is_as_before(self, now: Definition, cause: str, number: int) -> bool:
        """True if nothing that decides its rows was touched yet."""
        is_written_so = cause != VALUES_CHANGED or not self._all_touched(0, number) - SILENT
        return is_written_so and not self._delta.pages(now, self._delta.commits[:number])

    # Schema objects, roles, grants, settings

    def _listing(self, each: EntityType, number: int, look: Look) -> Table:
        name = each.name
        earlier, later = self._before.tables.get(name), self._after.tables[name]
        rests_on, looks_up = _BY_ROLES.get(name, _GRANTS), _NAMES
        is_asked = name in _BY_ROLES or name == "db.grant"
        if name == "db.grant":
            looks_up = _GRANT_NAMES
        done, to_come = self._all_touched(0, number), self._all_touched(number, None)
        if is_asked:
            done, to_come = done & rests_on, to_come & rests_on
        else:
            # Of a sequence the owner, of other objects the extension.
            is_linked = name in (COUNTERS, "db.object")
            apart = _OF_NO_LISTING - ({"pg_depend"} if is_linked else set())
            done, to_come = done - apart, to_come - apart
        if name == STRUCTURE:
            if earlier == later and not self._delta.catalogue.at_risk:
                return later
            return self._unknown(each, "indexes are checked at the two ends of a run only")
        if name == COUNTERS and self._has_moved:
            return self._unknown(each, "a sequence moves without regard to transactions")
        if earlier is not None and not done:
            return earlier
        if not to_come:
            return later
        if not is_asked:
            if self._same(look, self._delta.last, to_come):
                return later
            if earlier is not None and self._same(look, self._delta.first, done):
                return earlier
        if not is_asked or not self._same(look, self._delta.last, to_come & looks_up, names=True):
            return self._in_part(each, look)
        names = [f.name for f in each.fields]
        query = _QUERIES[name].encode()
        rows = [
            dict(zip(names, row, strict=True)) for row in look.connection.execute(query).fetchall()
        ]
        if name == "db.database":
            rows = [row for row in rows if row["name"] not in self._own]
        return Shelf(self._store).distinct(each, rows, earlier)

    def _in_part(self, each: EntityType, look: Look) -> Table:
        """A listing of which nothing is known but what is certainly other than before the run."""
        cause = "the server describes such objects only as they are now"
        earlier = self._before.tables.get(each.name)
        if each.name not in PLAIN or earlier is None or not earlier.enumeration.is_complete:
            return self._unknown(each, cause)
        fields, query = PLAIN[each.name]
        found = set(look.connection.execute(query.encode()).fetchall())
        found -= {tuple(row[name] for name in fields) for _, row in earlier.rows()}
        if not found:
            return self._unknown(each, cause)
        unknown = {f.name: Unobserved(cause) for f in each.fields}
        rows: list[Row] = [{**unknown, **dict(zip(fields, f, strict=True))} for f in found]
        shelf = Shelf(self._store)
        return shelf.fail(shelf.distinct(each, rows, earlier), cause)

    def _same(
        self, one: Look, other: Look, catalogues: frozenset[str], *, names: bool = False
    ) -> bool:
        return all(
            one.fingerprint(c, names_only=names) == other.fingerprint(c, names_only=names)
            for c in sorted(catalogues)
        )

    def moved_the_sequences(self, commit: Commit) -> bool:
        """True if the log shows that the only commit moved every sequence that moved.

        A sequence also moves for a transaction that is rolled back, and mostly without a word in
        the log. Of several commits the states in between do not know the sequences at all.
        """
        earlier, later = (s.tables.get(COUNTERS) for s in (self._before, self._after))
        if earlier is None or later is None:
            return False
        return len(moved_rows(earlier, later)) <= sum(
            (False, file) in commit.touched for file in self._files()
        )

    def _sequences_moved(self) -> bool:
        earlier, later = (s.tables.get(COUNTERS) for s in (self._before, self._after))
        if earlier is None or later is None or earlier.chunks != later.chunks:
            return True
        files = self._files()
        return any(
            (False, file) in commit.touched for commit in self._delta.commits for file in files
        )

    def _files(self) -> frozenset[int]:
        """The files of the sequences of both ends."""
        return self._delta.first.sequence_files | self._delta.last.sequence_files
