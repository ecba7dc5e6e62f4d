"""Every committed state of a PostgreSQL database, and the one after a run, read from its log.

1. `attach` opens a transaction, which keeps every version of every row, and reserves the log from
   there on. Nothing is made or set in the database that is watched: no publication, no trigger.
2. `establish` puts a barrier into the log and reads from it which transactions committed, in their
   order, and which pages each of them touched (`postgres.past`).
3. What lies on these pages is read before and after, in SQL, by the code that scans
   (`postgres.past`): rows without a key, values kept outside their row and
   computed columns need no care of their own. Schema objects, roles, grants, settings, sequences
   and large objects are always read whole, in the same snapshot; a table that was made anew,
   rewritten or truncated, or is unlogged, is scanned: that is the guard.
4. Between the ends, each transaction's state is described in the same way
   (`postgres.intermediate`).

What it cannot see: rolled-back work; states of unlogged tables, of sequences and of what was
rewritten, in between (unobserved, with the cause); what a server of another release logs. It needs
the server's owner, and `pg_walinspect` in that account's own database or the log's files.

What watching changes: old versions of rows are kept, so that tables grow. Anyone who waits for all
old snapshots to end (`CREATE INDEX CONCURRENTLY`) is waited for in turn: the feed lets go, and says
so.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from typing import Final

import psycopg

from statediff.capture.feed import Seen
from statediff.capture.guard import Doubt, Established
from statediff.capture.source import Clock, SourceUnavailable, replayed
from statediff.model.state import ChunkStore, State, Table
from statediff.systems.relational.schema import Shelf, state_of
from statediff_postgres.catalogue import OBJECT_NAMES
from statediff_postgres.intermediate import Moments
from statediff_postgres.past import (
    Commit,
    Delta,
    File,
    Held,
    Look,
    Snapshot,
    check_pages,
    commits_between,
    flushed,
)
from statediff_postgres.session import Connection, cause_of
from statediff_postgres.source import PostgresSource, Scan
from statediff_postgres.wal import ReadLog

Admin = Callable[[float], AbstractContextManager[Connection]]
"""Opens a connection of the server's owner, in the evaluator's database, for so many seconds."""
HOLD_SECONDS: Final = 86_400.0
_WATCH_SECONDS: Final = 0.1
_RELEASE: Final = range(150_000, 170_000)
_SLOT: Final = """
SELECT pg_create_physical_replication_slot('statediff_' || pg_backend_pid(), true, true)
"""
_UNSLOT: Final = "SELECT pg_drop_replication_slot('statediff_' || pg_backend_pid())"
_WAITING: Final = """
SELECT count(*) FROM pg_locks WHERE locktype = 'virtualxid' AND virtualxid = %s AND NOT granted
"""
_TRANSACTION: Final = """
SELECT virtualtransaction FROM pg_locks WHERE pid = %s AND locktype = 'virtualxid'
"""
_DATABASE: Final = "SELECT oid::text FROM pg_database WHERE datname = current_database()"
_CATALOGUES: Final = """
SELECT relisshared, pg_relation_filenode(oid)::int8, relname::text FROM pg_class
WHERE relkind = 'r' AND relnamespace = 'pg_catalog'::regnamespace
  AND pg_relation_filenode(oid) IS NOT NULL
"""


class PostgresFeed:
    """A `DeltaFeed` of one database."""

    def __init__(self, source: PostgresSource, admin: Admin, read_log: ReadLog) -> None:
        self._source = source
        self._admin = admin
        self._read_log = read_log
        self._hold: _Hold | None = None
        self._checks_pages = False

    @property
    def source(self) -> str:
        return self._source.name

    def attach(self) -> None:
        self.detach()
        try:
            self._hold = _Hold(self._source, self._admin, self._read_log)
        except psycopg.Error as error:
            raise SourceUnavailable(cause_of(error)) from error

    def detach(self) -> None:
        if self._hold is not None:
            self._hold.close()
            self._hold = None

    def check_pages(self) -> None:
        """`establish` refuses from now on where rows changed on a page that no commit touched."""
        self._checks_pages = True

    def finish(self, store: ChunkStore, clock: Clock, before: State) -> Seen:
        return self.establish(store, clock, before).seen

    def establish(self, store: ChunkStore, clock: Clock, before: State) -> Established:
        if self._hold is None:
            raise SourceUnavailable(f"no feed of {self.source} is attached")
        with self._hold.in_use() as hold, hold.looking() as now, hold.log() as log:
            as_of = clock()  # before the snapshot is taken
            held, catalogue = self._source.snapshot(now, hold.tables, log.ask)
            position, commits = log.told()
            delta = Delta(catalogue, hold.first, Look(now), commits, hold.catalogues)
            scan = Scan(now, catalogue, held, Shelf(store))
            schema = self._source.schema_after(before, catalogue)
            tables: dict[str, Table] = {}
            doubts: list[Doubt] = []
            for each in schema.types:
                like = before.tables.get(each.name)
                cause = None
                if each.name not in OBJECT_NAMES:
                    cause = delta.doubt(each, like)
                    if cause is None and like is not None:
                        if self._checks_pages:
                            check_pages(delta, each, hold.admin, now, hold.since)
                        found = delta.table(each, like, delta.first, delta.last, commits)
                        if isinstance(found, Table):
                            tables[each.name] = found
                            continue
                        cause = found
                    doubts.append(Doubt(each.name, cause or ""))
                tables[each.name] = scan.table(each, like)
            state = state_of(schema, tables)
            part = replayed(self.source, as_of, state, gaps=scan.shelf.failures, position=position)
            moments = Moments(
                delta,
                hold.start,
                hold.admin,
                hold.held,
                self._source.session,
                self._source.own_databases or (),
            )
            causes = {doubt.type: doubt.cause for doubt in doubts}
            seen = moments.told(self.source, store, before, state, position, causes)
            return Established(part, seen, tuple(doubts))


class _Hold:
    """The connections that a feed keeps open from `attach` on: the past, and the log since."""

    def __init__(self, source: PostgresSource, admin: Admin, read_log: ReadLog) -> None:
        self._stack = ExitStack()
        self._read_log = read_log
        self._in_use = threading.Lock()
        self._ended: str | None = None
        self._is_closing = threading.Event()
        try:
            self.admin = self._stack.enter_context(admin(HOLD_SECONDS))
            release = self.admin.info.server_version
            if release not in _RELEASE:
                raise SourceUnavailable(
                    f"its log can be read of PostgreSQL 15 and 16, not of {release}"
                )
            self.admin.execute("SET search_path = public, pg_catalog")
            self.admin.execute(_SLOT)
            self._stack.callback(self.admin.execute, _UNSLOT)  # before its connection is closed
            self.since = _text(self.admin, "SELECT pg_current_wal_insert_lsn()::text")
            self._now = self._stack.enter_context(source.session(HOLD_SECONDS))
            self._now.prepare_threshold = 0  # what is asked now is planned for when the run is over
            self.catalogues: dict[File, str] = {
                (is_shared, file): name
                for is_shared, file, name in self._now.execute(_CATALOGUES).fetchall()
            }
            database = int(_text(self._now, _DATABASE))
            with self.looking() as now:  # the server knows its catalogue by heart when asked again
                _, catalogue = source.snapshot(now)
                self.tables = tuple(entry.relation for entry in catalogue.tables.values())
                _ = Look(now).definitions
            self.past = self._stack.enter_context(source.session(HOLD_SECONDS))
            self.past.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            self.start = Snapshot.parse(_text(self.past, "SELECT pg_current_snapshot()::text"))
            self.first = Look(self.past)
            _ = self.first.definitions, self.first.sequence_files
            process = self.past.info.backend_pid
            row = self.admin.execute(_TRANSACTION, (process,)).fetchone()
            if row is None:
                raise SourceUnavailable("the transaction that keeps the past has ended")
            transaction = str(row[0])
            folder = _text(self.admin, "SELECT current_setting('data_directory')")
            self.held = Held(transaction, process, database, folder)
        except BaseException:
            self._stack.close()
            raise
        self._watcher = threading.Thread(
            target=self._watch, args=(admin,), name="waits for a feed", daemon=True
        )
        self._watcher.start()

    @contextlib.contextmanager
    def in_use(self) -> Iterator[_Hold]:
        """The past is there, and stays until this is left."""
        with self._in_use:
            if self._ended is not None:
                raise SourceUnavailable(self._ended)
            try:
                yield self
            except psycopg.Error as error:
                raise SourceUnavailable(cause_of(error)) from error

    @contextlib.contextmanager
    def looking(self) -> Iterator[Connection]:
        """A connection at the present; the transaction that is begun on it ends with this."""
        try:
            yield self._now
        finally:
            if not self._now.closed:
                self._now.execute("COMMIT")  # a rollback would unlearn what is prepared

    @contextlib.contextmanager
    def log(self) -> Iterator[_Log]:
        """A reader of the log, beside the one that reads the present meanwhile."""
        with ThreadPoolExecutor(1, "reads the log") as thread:
            yield _Log(self, thread)

    def commits(self, end: Snapshot) -> tuple[str, tuple[Commit, ...]]:
        """The log's present position, and all that committed since `attach` and before `end`."""
        position = flushed(self.admin)
        self.past.execute("SELECT 1")  # raises where it was ended: the past is not kept any more
        found = commits_between(
            self.admin, self._read_log, self.since, position, self.held.database
        )
        if any(c.xid in self.start.pending and _is_local(c) for c in found):
            raise SourceUnavailable("a transaction was under way when the feed was attached")
        # One that touched nothing, as far as the log says, may have written unlogged tables.
        return position, tuple(c for c in found if end.sees(c.xid))

    def close(self) -> None:
        """Nothing is kept any more."""
        self._is_closing.set()
        with self._in_use:
            self._let_go("the feed was let go of")
        self._watcher.join()

    def _let_go(self, cause: str) -> None:
        if self._ended is None:
            self._ended = cause
            with contextlib.suppress(SourceUnavailable, psycopg.Error):  # the server is gone
                self._stack.close()

    def _watch(self, admin: Admin) -> None:
        """Anyone who waits for our old snapshot to end does not wait for long."""
        try:
            with admin(HOLD_SECONDS) as connection:
                while not self._is_closing.wait(_WATCH_SECONDS):
                    row = connection.execute(_WAITING, (self.held.transaction,)).fetchone()
                    if row is not None and row[0] > 0:
                        break
            cause = (
                "a statement waited for all old snapshots to end, and the feed let go of its own"
            )
        except psycopg.Error as error:
            cause = f"nobody could see whether its snapshot was waited for: {cause_of(error)}"
        if not self._is_closing.is_set():
            with self._in_use:
                self._let_go(cause)


class _Log:
    """The commits before a snapshot, which are read while the present is listed."""

    def __init__(self, hold: _Hold, thread: Executor) -> None:
        self._hold = hold
        self._thread = thread
        self._asked: Future[tuple[str, tuple[Commit, ...]]] | None = None

    def ask(self, seen: str) -> None:
        """Ask for the commits before a snapshot that has been taken, as the server writes it."""
        if self._asked is not None:
            self._asked.exception()  # of one that was given up: one asks after the other
        self._asked = self._thread.submit(self._hold.commits, Snapshot.parse(seen))

    def told(self) -> tuple[str, tuple[Commit, ...]]:
        """The log's position then, and the commits in their order."""
        if self._asked is None:
            raise SourceUnavailable("the server does not say what its transactions are")
        return self._asked.result()


def _is_local(commit: Commit) -> bool:
    return any(not is_shared for is_shared, _ in commit.touched)


def _text(connection: Connection, query: str) -> str:
    row = connection.execute(query.encode()).fetchone()
    if row is None or row[0] is None:
        raise SourceUnavailable("the server does not say what its transactions are")
    return str(row[0])
