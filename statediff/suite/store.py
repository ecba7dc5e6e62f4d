"""A store: an index of run folders, in SQLite or PostgreSQL, that many may write to at once.

The folders stay the truth. A trial's row is keyed by its run and the name of its folder, so
that indexing again changes nothing, and a writer that is killed leaves rows that the next one
completes. Every write is one short transaction.

SQLite keeps a write-ahead log; a writer takes its lock when it begins (a transaction that reads
first and writes later could not wait for another writer) and waits for up to 30 seconds.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)

from statediff.errors import StorageError, UsageError
from statediff.suite.records import Ended, Loose, Run, Trial

HEAD: Final = "0001"
"""The newest migration."""
METADATA: Final = MetaData()

RUNS: Final = Table(
    "runs",
    METADATA,
    Column("id", String(32), primary_key=True),
    Column("location", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("statediff", Text, nullable=False),
    Column("kernel", Text, nullable=False),
    Column("facts", Text, nullable=False),
)

TRIALS: Final = Table(
    "trials",
    METADATA,
    Column("run", ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("name", Text, primary_key=True),
    Column("ended", Text, nullable=False),
    Column("domain", Text, nullable=False),
    Column("contract", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("kernel", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("number", Integer),
    Column("seed", BigInteger),
    Column("tool", Text),
    Column("task", Text),
    Column("outcome", Text),
    Column("started_at", Text),
    Column("agent_microseconds", BigInteger),
    Column("cost_nano", BigInteger),
    Column("attempts", Integer, nullable=False),
    Column("is_retried", Boolean, nullable=False),
    Column("cause", Text, nullable=False),
    Column("bundle", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("stamp", Text, nullable=False),
    Column("turns", Integer, nullable=False, server_default="0"),
    Column("turns_first", Integer, nullable=False, server_default="0"),
    Column("turns_after", Integer, nullable=False, server_default="0"),
    Column("turns_failed", Integer, nullable=False, server_default="0"),
    Column("precision_nano", BigInteger),
    Column("recall_nano", BigInteger),
    Column("forbidden_nano", BigInteger),
    Column("along", Text),
    Column("whole", Text),
    Column("calls", Integer, nullable=False, server_default="0"),
    Column("calls_wrong", Integer, nullable=False, server_default="0"),
    Column("calls_unknown", Integer, nullable=False, server_default="0"),
    Index("trials_ended", "run", "ended"),
    Index("trials_number", "run", "contract", "number"),
    # In the order in which `overview.groups` asks: nothing is sorted for it.
    Index(
        "trials_case",
        *("run", "contract", "version", "digest", "kernel", "agent", "ended"),
        *("tool", "task", "outcome", "along", "whole"),
    ),
)

FINDINGS: Final = Table(
    "findings",
    METADATA,
    Column("run", String(32), primary_key=True),
    Column("trial", Text, primary_key=True),
    Column("at", Integer, primary_key=True),
    Column("clause", Text, nullable=False),
    Column("code", Text, nullable=False),
    Column("stage", Text, nullable=False),
    Column("truth", Text, nullable=False),
    ForeignKeyConstraint(["run", "trial"], ["trials.run", "trials.name"], ondelete="CASCADE"),
    Index("findings_clause", "run", "clause", "code"),
)

COPIES: Final = Table(
    "copies",
    METADATA,
    Column("run", ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("url", Text, primary_key=True),
)
"""Below which URLs a run's folder is copied; no URL in here holds a credential."""

OPINIONS: Final = Table(
    "opinions",
    METADATA,
    Column("run", String(32), primary_key=True),
    Column("trial", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("content", Text, nullable=False),
    ForeignKeyConstraint(["run", "trial"], ["trials.run", "trials.name"], ondelete="CASCADE"),
)
"""What reviewers signed, file by file as it lies beside bundles; the caller checks by whom."""


BUSY_SECONDS: Final = 30
_MIGRATIONS: Final = Path(__file__).with_name("migrations")
_MIGRATING: Final = 7_366_244_102  # the advisory lock for migrating a store on PostgreSQL
_SLICE: Final = 500
KEPT: Final = tuple(TRIALS.c[each.name] for each in fields(Trial) if each.name != "loose")
"""The columns of a trial, in the order of its fields; the others follow from these."""
ENDS: Final = {each.value: each for each in Ended}
_NAME: Final = [column.name for column in KEPT].index("name")
_ENDED: Final = [column.name for column in KEPT].index("ended")


@dataclass(frozen=True)
class RunCounts:
    """A run in a list of runs; its counts add up to the trials that were scheduled."""

    id: str
    name: str
    location: str
    statediff: str
    kernel: str
    counts: Mapping[Ended, int]


class Store:
    """An open store. Any number of processes may have it open; see `opened`."""

    def __init__(self, engine: sa.Engine, name: str) -> None:
        self.name = name
        # PostgreSQL would show every statement of a reader another moment.
        self._reading = (
            engine.execution_options(isolation_level="REPEATABLE READ")
            if engine.dialect.name == "postgresql"
            else engine
        )
        self._writing = engine.execution_options(statediff_writes=True)

    def put_run(self, run: Run) -> None:
        """The run is known.

        Another run that was kept at the same location is forgotten.
        """
        row = {
            "id": run.id,
            "location": run.location,
            "name": run.name,
            "statediff": run.statediff,
            "kernel": run.kernel,
            "facts": run.facts,
        }
        with self._write() as connection:
            connection.execute(
                sa.delete(RUNS).where(RUNS.c.location == run.location, RUNS.c.id != run.id)
            )
            insert = self._insert(connection, RUNS)
            # The update takes the row's lock: writers of one run come one after the other.
            connection.execute(
                insert.on_conflict_do_update(
                    index_elements=["id"], set_={"location": insert.excluded.location}
                ),
                row,
            )

    def put_opinions(
        self, run: str, new: Sequence[tuple[str, str, str]], gone: Sequence[tuple[str, str]]
    ) -> None:
        """The files (trial, name, content) are known, and those (trial, name) are not."""
        if not new and not gone:
            return
        with self._write() as connection:
            for trial, name in gone:
                connection.execute(
                    sa.delete(OPINIONS).where(
                        OPINIONS.c.run == run, OPINIONS.c.trial == trial, OPINIONS.c.name == name
                    )
                )
            insert = self._insert(connection, OPINIONS).on_conflict_do_nothing()
            names = ("run", "trial", "name", "content")
            for part in _slices([dict(zip(names, (run, *each), strict=True)) for each in new]):
                connection.execute(insert, part)

    def put_copy(self, run: str, url: str) -> None:
        """A copy of the run is known to lie below the URL, which holds no credential."""
        with self._write() as connection:
            insert = self._insert(connection, COPIES).on_conflict_do_nothing()
            connection.execute(insert, {"run": run, "url": url})

    def copies_of(self, location: str) -> tuple[str, ...]:
        """Below which URLs the run at the location is copied."""
        wanted = (
            sa.select(COPIES.c.url)
            .join(RUNS)
            .where(RUNS.c.location == location)
            .order_by(COPIES.c.url)
        )
        return tuple(url for (url,) in self.rows(wanted))

    def runs_with(self, digest: str) -> tuple[str, ...]:
        """The locations of the runs in which a trial's bundle has the digest."""
        wanted = (
            sa.select(RUNS.c.location)
            .distinct()
            .join(TRIALS, TRIALS.c.run == RUNS.c.id)
            .where(TRIALS.c.bundle == digest)
            .order_by(RUNS.c.location)
        )
        return tuple(place for (place,) in self.rows(wanted))

    def copied_runs(self, url: str) -> tuple[tuple[str, str], ...]:
        """(id, location) of every run that is copied below the URL."""
        wanted = sa.select(RUNS.c.id, RUNS.c.location).join(COPIES).where(COPIES.c.url == url)
        return tuple((found, place) for found, place in self.rows(wanted))

    def put_new(self, trials: Sequence[Trial]) -> None:
        """The trials are known; those that somebody put before stay as they are."""
        if not trials:
            return
        with self._write() as connection:
            insert = self._insert(connection, TRIALS).on_conflict_do_nothing()
            for part in _slices([_row(trial) for trial in trials]):
                connection.execute(insert, part)

    def put_trials(self, trials: Sequence[Trial]) -> None:
        """The trials are as given, whatever was known of them; their runs are known."""
        if not trials:
            return
        keys = [(trial.run, trial.name) for trial in trials]
        loose = [
            {"run": trial.run, "trial": trial.name, "at": at, **found._asdict()}
            for trial in trials
            for at, found in enumerate(trial.loose)
        ]
        with self._write() as connection:
            insert = self._insert(connection, TRIALS)
            replaced = {
                column.name: insert.excluded[column.name]
                for column in TRIALS.c
                if not column.primary_key
            }
            upsert = insert.on_conflict_do_update(index_elements=["run", "name"], set_=replaced)
            # In one order everywhere, so that two writers never wait for each other's rows.
            connection.execute(upsert, [_row(t) for t in sorted(trials, key=lambda t: t.name)])
            connection.execute(
                sa.delete(FINDINGS).where(
                    FINDINGS.c.run == sa.bindparam("r"), FINDINGS.c.trial == sa.bindparam("t")
                ),
                [{"r": run, "t": name} for run, name in keys],
            )
            if loose:
                connection.execute(sa.insert(FINDINGS), loose)

    def forget(self, run: str, names: Iterable[str]) -> None:
        """The trials of the run by these names are not known."""
        with self._write() as connection:
            for name in names:
                connection.execute(
                    sa.delete(TRIALS).where(TRIALS.c.run == run, TRIALS.c.name == name)
                )

    def rows(self, wanted: sa.Select[Any]) -> list[tuple[Any, ...]]:
        """What the query finds, read at one moment."""
        with self._read() as connection:
            return [tuple(row) for row in connection.execute(wanted)]

    def at_once(self, *wanted: sa.Select[Any]) -> list[list[tuple[Any, ...]]]:
        """What each query finds, all at one moment.

        For plain text and numbers, past the library's own rows: there are many.
        """
        with self._read() as connection:
            return [list(connection.execute(each).cursor.fetchall()) for each in wanted]

    def in_order(self, column: sa.Column[str]) -> sa.ColumnElement[str]:
        """The column, by which rows come as Python orders text."""
        return sa.collate(column, "C" if self._reading.dialect.name == "postgresql" else "BINARY")

    @staticmethod
    def trial_of(row: Sequence[Any]) -> Trial:
        """The trial in a row of `KEPT`."""
        return _trial(row)

    def stamps(self, run: str) -> tuple[dict[str, str], set[str]]:
        """What every known trial of the run was read from, by name; and those that were not run."""
        known = sa.select(TRIALS.c.name, TRIALS.c.stamp).where(TRIALS.c.run == run)
        unrun = sa.select(TRIALS.c.name).where(
            TRIALS.c.run == run, TRIALS.c.ended == Ended.NOT_RUN.value
        )
        stamps, names = self.at_once(known, unrun)
        return dict(stamps), {name for (name,) in names}

    def runs(self) -> tuple[RunCounts, ...]:
        """Every run that is known, by location."""
        wanted = sa.select(TRIALS.c.run, TRIALS.c.ended, sa.func.count()).group_by(
            TRIALS.c.run, TRIALS.c.ended
        )
        runs = sa.select(
            RUNS.c.id, RUNS.c.name, RUNS.c.location, RUNS.c.statediff, RUNS.c.kernel
        ).order_by(RUNS.c.location)
        counts: dict[str, dict[Ended, int]] = {}
        with self._read() as connection:
            for run, ended, number in connection.execute(wanted):
                counts.setdefault(run, {})[Ended(ended)] = number
            return tuple(
                RunCounts(*row, {each: counts.get(row[0], {}).get(each, 0) for each in Ended})
                for row in connection.execute(runs)
            )

    def trials(self, run: str, *, with_findings: bool = False) -> tuple[Trial, ...]:
        """Every trial of the run, by contract, version, number and name."""
        order = (TRIALS.c.contract, TRIALS.c.version, TRIALS.c.number, TRIALS.c.name)
        wanted = sa.select(*KEPT).where(TRIALS.c.run == run).order_by(*order)
        findings = (
            sa.select(*FINDINGS.c)
            .where(FINDINGS.c.run == run)
            .order_by(FINDINGS.c.trial, FINDINGS.c.at)
        )
        with self._read() as connection:
            rows = connection.execute(wanted).all()
            loose = loose_by_trial(connection.execute(findings).all() if with_findings else ())
        return tuple(_trial(row, loose.get(row[_NAME], ())) for row in rows)

    def _insert(self, connection: sa.Connection, table: sa.Table) -> Any:
        """An `INSERT` that can say what a conflict does; both dialects say it alike."""
        # Imported where they are needed: one takes a while, and nobody needs both.
        if connection.dialect.name == "postgresql":
            from sqlalchemy.dialects.postgresql import insert  # noqa: PLC0415 - as above

            return insert(table)
        from sqlalchemy.dialects.sqlite import insert as lite  # noqa: PLC0415 - as above

        return lite(table)

    @contextmanager
    def _read(self) -> Iterator[sa.Connection]:
        with _storage_errors(self.name), self._reading.connect() as connection:
            yield connection

    @contextmanager
    def _write(self) -> Iterator[sa.Connection]:
        with _storage_errors(self.name), self._writing.begin() as connection:
            yield connection


@contextmanager
def open_store(url: str | sa.URL) -> Iterator[Store]:
    """The store at the URL, with the newest tables; an SQLite file is made where there is none.

    `UsageError` where the URL names no store, `StorageError` where it cannot be used.
    """
    address = _address(url)
    name = address.render_as_string(hide_password=True)
    engine = _engine(address, name)
    try:
        with _storage_errors(name):
            _migrate(engine, name)
        yield Store(engine, name)
    finally:
        engine.dispose()


def file_url(path: Path) -> sa.URL:
    """The URL of the store in an SQLite file."""
    return sa.URL.create("sqlite", database=str(path))


def _address(url: str | sa.URL) -> sa.URL:
    try:
        address = sa.make_url(url)
        kind = address.get_backend_name()
    except sa.exc.ArgumentError:
        raise UsageError(
            "the store: expected an SQLAlchemy URL such as sqlite:///store.sqlite or "
            "postgresql://user@host/name, found something else"
        ) from None
    if kind == "postgresql":
        return address.set(drivername="postgresql+psycopg")
    if address.drivername in ("sqlite", "sqlite+pysqlite"):
        return address
    raise UsageError(
        f"the store: expected SQLite or PostgreSQL, found {address.drivername!r}; say "
        "sqlite:///FILE or postgresql://user@host/name"
    )


def _engine(address: sa.URL, name: str) -> sa.Engine:
    if address.get_backend_name() == "postgresql":
        try:
            return sa.create_engine(address)
        except ModuleNotFoundError as error:
            raise UsageError(
                f"{name}: PostgreSQL needs {error.name}: pip install 'statediff[docker]'"
            ) from error
    engine = sa.create_engine(address, connect_args={"timeout": BUSY_SECONDS})
    sa.event.listen(engine, "connect", _prepare_connection)
    sa.event.listen(engine, "begin", _begin_transaction)
    return engine


def _prepare_connection(connection: sqlite3.Connection, _record: object) -> None:
    # The driver would begin transactions only before some statements, and never before a CREATE.
    connection.isolation_level = None
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.execute("PRAGMA synchronous=FULL")
    until = time.monotonic() + BUSY_SECONDS
    # Two who switch at once would wait for each other; SQLite tells one of them without waiting.
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.01)


def _begin_transaction(connection: sa.Connection) -> None:
    writes = connection.get_execution_options().get("statediff_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _migrate(engine: sa.Engine, name: str) -> None:
    """The tables are those of the newest migration, by one transaction; one writer at a time."""
    with engine.connect() as connection:
        if _version(connection) == HEAD:
            return
    # Imported where it is needed, which is once in the life of a store: it takes a while.
    from alembic import command  # noqa: PLC0415 - slow, and only to migrate
    from alembic.config import Config  # noqa: PLC0415 - as above
    from alembic.script import ScriptDirectory  # noqa: PLC0415 - as above

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    scripts = ScriptDirectory.from_config(config)
    with engine.execution_options(statediff_writes=True).begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATING)))
        found = _version(connection)
        if found is not None and found not in {each.revision for each in scripts.walk_revisions()}:
            raise UsageError(
                f"{name}: the store was made by another statediff (its tables are {found!r}); "
                "use that one, or move the store away and index again"
            )
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _version(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    found = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
    return None if found is None else str(found)


@contextmanager
def _storage_errors(name: str) -> Iterator[None]:
    """Within it, what a database refuses is a `StorageError` that names the store."""
    try:
        yield
    except sa.exc.SQLAlchemyError as error:
        cause = str(getattr(error, "orig", None) or error).strip().splitlines()
        raise StorageError(
            f"{name}: the store cannot be used: {cause[0] if cause else type(error).__name__}; "
            "it is only an index of run folders: name another, or move it away and index again"
        ) from error


def loose_by_trial(findings: Iterable[Sequence[Any]]) -> dict[str, tuple[Loose, ...]]:
    """What does not hold in each trial, by its name; the rows are all columns, in order."""
    kinds: dict[tuple[str, ...], Loose] = {}
    found: dict[str, tuple[Loose, ...]] = {}
    for _, trial, _, *rest in findings:
        kind = tuple(rest)
        if kind not in kinds:
            kinds[kind] = Loose(*rest)
        found[trial] = (*found.get(trial, ()), kinds[kind])
    return found


def _row(trial: Trial) -> Mapping[str, Any]:
    return {column.name: getattr(trial, column.name) for column in TRIALS.c}


def _trial(row: Sequence[Any], loose: tuple[Loose, ...] = ()) -> Trial:
    values: tuple[Any, ...] = (*row[:_ENDED], ENDS[row[_ENDED]], *row[_ENDED + 1 :], loose)
    return Trial(*values)


def _slices(rows: Sequence[Any]) -> Iterator[Sequence[Any]]:
    yield from (rows[at : at + _SLICE] for at in range(0, len(rows), _SLICE))
