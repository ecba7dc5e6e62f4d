"""A PostgreSQL database behind the gate: a prepared transaction, read by logical decoding.

1. A temporary slot for two-phase transactions (`test_decoding`) is made in a connection of the
   evaluator's, then the whole is read once in a snapshot: everything later comes from the slot. The
   slot ends with the connection, however that ends.
2. The agent's statements run in a transaction of another connection, with the agent's account.
3. Before it is prepared, the server's own counts of this transaction say which tables it wrote. A
   catalogue among them is a change of structure, which decoding does not show: then all is read by
   our reader in the open transaction itself.
4. `PREPARE TRANSACTION`. The slot gives what others committed before it, which moves the world on,
   and the rows of the prepared one. A row before comes from the world: a prepared transaction holds
   its rows, so that nobody else has changed them since.
5. `COMMIT PREPARED` or `ROLLBACK PREPARED`. A gate that was killed leaves a prepared transaction at
   most, which the next gate on the server ends (`Journal.reap`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.types.string import TextLoader
from statediff_postgres.catalogue import OBJECT_NAMES, Catalogue, read_catalogue
from statediff_postgres.session import Connection, cause_of, opened
from statediff_postgres.source import PostgresSource, Scan

from statediff.errors import InputError, UsageError
from statediff.model.patch import patched
from statediff.model.schema import COUNTERS
from statediff.model.state import LayeredChunks, MemoryChunks, State, Table
from statediff.model.values import key_order
from statediff.systems.base.plugin import Refinement
from statediff.systems.base.tool import MAX_SECONDS
from statediff.systems.relational.schema import Shelf, state_of
from statediff.systems.relational.tools import Scalar, with_percent_marks
from statediff_gate.course import Course, Own, Prepared, alike, key_of
from statediff_gate.decoding import Ended, Logged, RowLine, Unreadable, transactions
from statediff_gate.following import DECODES, Snapshot, Tables, read_world, require_settings
from statediff_gate.journal import Journal, number_of
from statediff_gate.participant import MOST_ROWS, Answer, Participant, Refused, refuse_ends
from statediff_gate.statements import POSTGRES

_SLOT: Final = "SELECT pg_create_logical_replication_slot(%s, 'test_decoding', true, true)"
_DECODE: Final = (
    "SELECT data FROM pg_logical_slot_get_changes(%s, NULL, NULL, 'skip-empty-xacts', '1')"
)
_COUNTS: Final = """
SELECT c.oid::pg_catalog.int8, n.count FROM pg_catalog.pg_class c,
  LATERAL (SELECT pg_catalog.pg_stat_get_xact_tuples_inserted(c.oid)
    OPERATOR(pg_catalog.+) pg_catalog.pg_stat_get_xact_tuples_updated(c.oid)
    OPERATOR(pg_catalog.+) pg_catalog.pg_stat_get_xact_tuples_deleted(c.oid) AS count) n
WHERE n.count OPERATOR(pg_catalog.>) 0
  AND c.relkind OPERATOR(pg_catalog.=) ANY ('{r,t,m}'::pg_catalog."char"[])
UNION ALL SELECT 0, 1 WHERE pg_catalog.pg_current_xact_id_if_assigned() IS NOT NULL
"""
"""Rows that this session's transaction wrote so far, by table; by the table 0 that it has a number.
Every name and operator is the server's own: the agent may have set a path to others."""
_FILES: Final = """
SELECT oid::pg_catalog.int8, relfilenode::pg_catalog.int8 FROM pg_catalog.pg_class
WHERE relkind OPERATOR(pg_catalog.=) ANY ('{r,t,m}'::pg_catalog."char"[])
"""
"""The place of each table: `TRUNCATE`, and what rewrites a table, gives it another."""
_MAY_ALL: Final = """
SELECT rolsuper OR rolreplication OR rolbypassrls FROM pg_catalog.pg_roles
WHERE rolname OPERATOR(pg_catalog.=) current_user
"""
_PREPARED: Final = "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()"
_END_OF_LOG: Final = "SELECT pg_current_wal_insert_lsn()::text"
_NEEDS: Final = (
    DECODES,
    ("max_prepared_transactions", "> 0", "ALTER SYSTEM SET max_prepared_transactions = 20"),
)
_FIRST_OWN: Final = 16384


class PostgresGate(Participant):
    """One database behind the gate."""

    is_durable: ClassVar[bool] = True
    is_single: ClassVar[bool] = False
    product: ClassVar[tuple[str, str] | None] = ("PostgreSQL", POSTGRES)

    def __init__(
        self, name: str, url: str, account: str, refine: Refinement | None, journal: Journal
    ) -> None:
        self.name = name
        self._journal = journal
        self._source = PostgresSource(name, url, refine)
        self._slot = f"statediff_gate_{journal.number}"
        self._prepared: str | None = None
        self._waiting: dict[str, Logged] = {}
        """Transactions that others prepared and have not committed."""
        try:
            self._own = opened(url)
            require_settings(self._own, name, _NEEDS)
            self._own.execute("SELECT pg_advisory_lock(%s)", (journal.number,))
            _reap(self._own, journal)
            self._own.execute(_SLOT, (self._slot,))
            self._agent = psycopg.connect(
                account, autocommit=True, connect_timeout=int(MAX_SECONDS),
                options=f"-c statement_timeout={int(MAX_SECONDS * 1000)} -c track_counts=on"
                if account == url else f"-c statement_timeout={int(MAX_SECONDS * 1000)}",
            )  # fmt: skip
        except psycopg.Error as error:
            raise InputError(f"{name}: no gate can stand before it: {cause_of(error)}") from error
        for kind in ("timestamp", "timestamptz", "date", "interval"):
            self._agent.adapters.register_loader(kind, TextLoader)
        self._own.prepare_threshold = 0
        state, catalogue, seen = read_world(self._source)
        self._seen = Snapshot.of(seen)
        self._tables = Tables(self._own, state, catalogue)
        self._course = Course(name, state)
        self._agent.execute("BEGIN")
        self._shape, self._files = self._read_catalogue()
        self._agent.execute("ROLLBACK")

    # ------------------------------------------------------------ the transaction

    def require_account(self) -> None:
        row: Any = self._agent.execute(_MAY_ALL.encode()).fetchone()
        if row is None or row[0]:
            raise UsageError(
                f"{self.name}: the agent's account may do everything on the server, and what it "
                "does past its transaction is seen by nobody; name another one as its account"
            )

    def begin(self, transaction: str) -> None:
        self._name = transaction
        try:
            with self._agent.pipeline():
                self._agent.execute("BEGIN")
                counts = self._agent.execute(_COUNTS.encode(), prepare=True)
            self._counts: dict[int, int] = dict(counts.fetchall())
        except psycopg.Error as error:
            raise Refused(f"{self.name}: no transaction can begin: {cause_of(error)}") from error

    def run(self, statement: str, values: Sequence[Scalar] = ()) -> Answer:
        refuse_ends(statement)
        cursor = self._agent.cursor()
        text = (with_percent_marks(statement) if values else statement).encode()
        try:
            cursor.execute(text, tuple(values) or None, prepare=True)
            names = tuple(column.name for column in cursor.description or ())
            rows = tuple(cursor.fetchmany(MOST_ROWS + 1)) if names else ()
        except (psycopg.Error, UnicodeError) as error:
            raise Refused(f"{self.name}: the database refuses it: {error}") from error
        touched = cursor.rowcount if cursor.rowcount >= 0 else None
        return Answer(names, rows[:MOST_ROWS], touched, len(rows) > MOST_ROWS)

    def prepare(self) -> Prepared:
        course, transaction = self._course, self._name
        if self._agent.info.transaction_status is not TransactionStatus.INTRANS:
            raise Refused(f"{self.name}: its transaction is not open any more")
        doubt, state = None, None
        try:
            written = self._written()
            is_structure = course.is_restructured or any(oid < _FIRST_OWN for oid in written)
            if is_structure:
                state, shape, doubt = self._read(written)
                self._next_shape = shape
            if self._has_written:
                self._agent.execute(f"PREPARE TRANSACTION '{transaction}'".encode())
                self._prepared = transaction
        except psycopg.Error as error:
            raise Refused(f"{self.name}: it cannot be prepared: {cause_of(error)}") from error
        unseen = [name for oid, name in self._tables.unlogged.items() if oid in written]
        doubt = f"{unseen[0]}: the server does not log it" if unseen else doubt
        mine, others = self._follow(transaction) if self._has_written else ([], False)
        is_read = state is not None
        if state is not None:
            own, changes = course.part_of(state)
            is_structure = state.schema != course.base.schema or not OBJECT_NAMES.isdisjoint(own)
            if others or not self._tables.types_of(mine) <= self._scanned:
                doubt = "others wrote while the agent changed the structure"
        else:
            changes, why = self._tables.edits(mine, course)
            doubt = doubt or why
            state, own = course.with_changes(changes)
        self._proposed: tuple[State, Own, bool] = state, own, is_structure
        self._changes, self._doubt = changes, doubt
        self._has_read = is_read
        return self._shown()

    def _shown(self) -> Prepared:
        course, state = self._course, self._proposed[0]
        return course.prepared(state, self._changes, self._doubt)

    def look_again(self) -> Prepared | None:
        if not self._has_written:
            return None
        if self._own.execute(_END_OF_LOG.encode()).fetchone() == (self._end,):
            return None
        _, others = self._follow(None)
        if not others:
            return None
        if self._has_read:
            self._doubt = "others wrote while the agent changed the structure"
        else:
            state, own = self._course.with_changes(self._changes)
            self._proposed = state, own, False
        return self._shown()

    def commit(self) -> None:
        try:
            end = f"COMMIT PREPARED '{self._prepared}'" if self._prepared else "ROLLBACK"
            self._agent.execute(end.encode())
        except psycopg.Error as error:
            raise Refused(f"{self.name}: nothing was committed: {cause_of(error)}") from error
        self._prepared = None
        self._course.accept(*self._proposed)
        if self._has_read:
            self._shape, self._files = self._next_shape

    def abort(self) -> None:
        with contextlib.suppress(psycopg.Error):
            if self._prepared is None:
                self._agent.execute("ROLLBACK")
                return
            self._agent.execute(f"ROLLBACK PREPARED '{self._prepared}'".encode())
            self._prepared = None

    def close(self) -> None:
        for each in ("_agent", "_own"):
            connection: Connection | None = getattr(self, each, None)
            if connection is not None:
                if each == "_agent":
                    self.abort()
                connection.close()

    # ------------------------------------------------------------ what was done

    def _written(self) -> frozenset[int]:
        """The tables that this transaction wrote, by the server's own counts of it."""
        counts: dict[int, int] = dict(
            self._agent.execute(_COUNTS.encode(), prepare=True).fetchall()
        )
        self._has_written = counts.pop(0, 0) > 0
        return frozenset(oid for oid, n in counts.items() if n != self._counts.get(oid, 0))

    def _read_catalogue(self) -> tuple[Catalogue, dict[int, int]]:
        """The catalogue as the agent's account sees it, and the place of each table."""
        for name, value in _READING.items():
            self._agent.execute(f"SET LOCAL {name} = '{value}'".encode())
        files: dict[int, int] = dict(self._agent.execute(_FILES.encode()).fetchall())
        return read_catalogue(self._agent), files

    def _read(
        self, written: frozenset[int]
    ) -> tuple[State, tuple[Catalogue, dict[int, int]], str | None]:
        """The world as the open transaction sees it, by our reader.

        Its account may see less of the catalogue than the evaluator's: what the transaction changed
        there shows beside what the same account saw before. Rows are read of tables that it wrote,
        or that are not as they were; all others are as they are known.
        """
        connection: Connection = self._agent
        course, doubt = self._course, None
        self._scanned: set[str] = set()
        with contextlib.ExitStack() as put_back:
            connection.execute("SAVEPOINT reading")
            put_back.callback(connection.execute, "ROLLBACK TO reading; RELEASE reading")
            shape, files = self._read_catalogue()
            moved = {oid for oid in files if files[oid] != self._files.get(oid)}
            touched = written | moved
            schema = self._source.schema_after(course.base, shape)
            held = {e.relation.oid: e.relation.unreadable for e in shape.tables.values()}
            scan = Scan(connection, shape, held, Shelf(MemoryChunks()))
            known = course.committed().tables
            tables = {}
            for entity in schema.types:
                old, new = (c.tables.get(entity.source_table) for c in (self._shape, shape))
                table = known.get(entity.name)
                if entity.name in shape.objects and table is not None:
                    try:
                        tables[entity.name] = _relisted(table, self._shape, shape)
                    except ValueError:
                        doubt = f"{entity.name}: not all of it is shown to the agent's account"
                        tables[entity.name] = table.unobserved(doubt)
                elif (
                    table is not None
                    and old == new
                    and (new is None or self._tables.parts(new.relation.oid).isdisjoint(touched))
                ):
                    tables[entity.name] = table
                else:
                    tables[entity.name] = scan.table(entity, table)
                    self._scanned.add(entity.name)
        return state_of(schema, tables), (shape, files), doubt

    def _follow(self, transaction: str | None) -> tuple[list[RowLine], bool]:
        """The rows of our transaction; whether others committed something, which is followed."""
        with self._own.pipeline():
            end = self._own.execute(_END_OF_LOG.encode())
            decoded = self._own.execute(_DECODE.encode(), (self._slot,))
        self._end = (end.fetchone() or ("",))[0]
        lines = (row[0] for row in decoded.fetchall())
        mine: list[RowLine] = []
        has_others = False
        try:
            for found in transactions(lines):
                if isinstance(found, Ended):
                    theirs = self._waiting.pop(found.prepared, None)
                    if theirs is None or not found.is_committed:
                        continue
                    has_others |= self._add_others(theirs.rows)
                    continue
                if found.prepared == transaction and transaction is not None:
                    mine = found.rows
                    continue
                if found.prepared is not None:
                    if number_of(found.prepared) != self._journal.number:
                        self._waiting[found.prepared] = found
                    continue
                if self._seen.has(found.xid):
                    continue
                has_others |= self._add_others(found.rows)
        except Unreadable as error:
            self._course.conflict = f"the log has a line that cannot be read: {error}"
        return mine, has_others

    def _add_others(self, rows: Sequence[RowLine]) -> bool:
        changes, doubt = self._tables.edits(rows, self._course)
        self._course.others(changes, doubt)
        return bool(rows)


def _relisted(table: Table, before: Catalogue, after: Catalogue) -> Table:
    """The list of the catalogue with what differs between two looks of one account.

    `ValueError` where it was not in the list so. Counters go on by themselves: only new ones and
    those that are gone count.
    """
    name, entity = table.type.name, table.type
    old, new = ({key_order(key_of(entity, r)): r for r in c.objects[name]} for c in (before, after))
    is_other = {key for key in {**old, **new} if not alike(old.get(key), new.get(key))}
    if name == COUNTERS:
        is_other = {key for key in is_other if key not in old or key not in new}
    gone = [row for key in is_other if (row := old.get(key)) is not None]
    come = [row for key in is_other if (row := new.get(key)) is not None]
    return patched(table, gone, come, LayeredChunks(table.store)) if is_other else table


_READING: Final[Mapping[str, str]] = {
    "search_path": "pg_catalog", "datestyle": "ISO, YMD", "timezone": "UTC",
    "intervalstyle": "postgres", "extra_float_digits": "1", "bytea_output": "hex",
    "xmlbinary": "base64", "lc_monetary": "C", "lc_numeric": "C", "lc_time": "C",
    "quote_all_identifiers": "off", "client_min_messages": "error", "array_nulls": "on",
}  # fmt: skip
"""How values are written while our reader reads in the agent's transaction, as in its own."""


def _reap(connection: Connection, journal: Journal) -> None:
    """The prepared transactions of gates that are gone are ended."""

    def of_lock(function: str, number: int) -> bool:
        row: Any = connection.execute(f"SELECT {function}(%s)".encode(), (number,)).fetchone()
        return bool(row[0])

    journal.reap(
        [gid for (gid,) in connection.execute(_PREPARED.encode()).fetchall()],
        lambda number: of_lock("pg_try_advisory_lock", number),
        lambda how, gid: connection.execute(f"{how} PREPARED '{gid}'".encode()),
        lambda number: of_lock("pg_advisory_unlock", number),
    )
