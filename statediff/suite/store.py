"""A store: an index of run folders, in SQLite or PostgreSQL, that many may write to at once.

The folders stay the truth. A trial's row is keyed by its run and the name of its folder, so
that indexing again changes nothing, and a writer that is killed leaves rows that the next one
completes. Every write is one short transaction.

`rows` and `at_once` take plain SQL, in which `?` stands for each value.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from statediff.errors import UsageError
from statediff.suite.databases import Database, Values, connect, shown, unusable
from statediff.suite.records import Ended, Loose, Run, Trial

FORM: Final = 1
"""The version of the tables below; a store of another form is refused."""
TABLES: Final = (
    """
    CREATE TABLE runs (
        id TEXT NOT NULL PRIMARY KEY, location TEXT NOT NULL UNIQUE, name TEXT NOT NULL,
        statediff TEXT NOT NULL, kernel TEXT NOT NULL, facts TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE trials (
        run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE, name TEXT NOT NULL,
        ended TEXT NOT NULL, domain TEXT NOT NULL, contract TEXT NOT NULL, version TEXT NOT NULL,
        digest TEXT NOT NULL, kernel TEXT NOT NULL, agent TEXT NOT NULL, number INTEGER,
        seed BIGINT, tool TEXT, task TEXT, outcome TEXT, started_at TEXT,
        agent_microseconds BIGINT, cost_nano BIGINT,
        attempts INTEGER NOT NULL, is_retried INTEGER NOT NULL,
        cause TEXT NOT NULL, bundle TEXT NOT NULL, why TEXT NOT NULL, stamp TEXT NOT NULL,
        turns INTEGER NOT NULL, turns_first INTEGER NOT NULL, turns_after INTEGER NOT NULL,
        turns_failed INTEGER NOT NULL,
        precision_nano BIGINT, recall_nano BIGINT, forbidden_nano BIGINT, along TEXT, whole TEXT,
        calls INTEGER NOT NULL, calls_wrong INTEGER NOT NULL, calls_unknown INTEGER NOT NULL,
        PRIMARY KEY (run, name)
    )
    """,
    "CREATE INDEX trials_ended ON trials (run, ended)",
    "CREATE INDEX trials_number ON trials (run, contract, number)",
    # In the order in which `overview.groups` asks: nothing is sorted for it.
    """
    CREATE INDEX trials_case ON trials (
        run, contract, version, digest, kernel, agent, ended, tool, task, outcome, along, whole
    )
    """,
    """
    CREATE TABLE findings (
        run TEXT NOT NULL, trial TEXT NOT NULL, at INTEGER NOT NULL, clause TEXT NOT NULL,
        code TEXT NOT NULL, stage TEXT NOT NULL, truth TEXT NOT NULL,
        PRIMARY KEY (run, trial, at),
        FOREIGN KEY (run, trial) REFERENCES trials (run, name) ON DELETE CASCADE
    )
    """,
    "CREATE INDEX findings_clause ON findings (run, clause, code)",
    # Below which URLs a run's folder is copied; no URL in here holds a credential.
    """
    CREATE TABLE copies (
        run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE, url TEXT NOT NULL,
        PRIMARY KEY (run, url)
    )
    """,
    # What reviewers signed, file by file as it lies beside bundles; who asks checks by whom.
    """
    CREATE TABLE opinions (
        run TEXT NOT NULL, trial TEXT NOT NULL, name TEXT NOT NULL, content TEXT NOT NULL,
        PRIMARY KEY (run, trial, name),
        FOREIGN KEY (run, trial) REFERENCES trials (run, name) ON DELETE CASCADE
    )
    """,
    # What `measures` adds up. 2pr is an integer below 2**62; 0 and 0 would divide by 0.
    """
    CREATE VIEW measured AS SELECT *,
        CASE WHEN precision_nano + recall_nano > 0
            THEN 2 * precision_nano * recall_nano / (precision_nano + recall_nano)
            ELSE precision_nano + recall_nano END AS f1_nano,
        CASE WHEN calls_wrong > 0 AND outcome = 'MATCH' THEN 1 ELSE 0 END AS only_calls,
        CASE WHEN calls > 0 AND calls_unknown = 0 AND calls_wrong = 0 AND outcome = 'DIVERGE'
            THEN 1 ELSE 0 END AS only_end,
        CASE WHEN attempts > 1 THEN 1 ELSE 0 END AS is_repeated
    FROM trials
    """,
)

KEPT: Final = tuple(each.name for each in fields(Trial) if each.name != "loose")
"""The columns of a trial, in the order of its fields; the other, `domain`, follows from them."""
FOUND: Final = "run, trial, at, clause, code, stage, truth"
"""The columns of a finding, in the order of `Loose`."""
ENDS: Final = {each.value: each for each in Ended}
_NAME, _ENDED, _RETRIED = map(KEPT.index, ("name", "ended", "is_retried"))
_ROW: Final = (*KEPT, "domain")
_PUT: Final = f"INSERT INTO trials ({', '.join(_ROW)}) VALUES ({', '.join('?' * len(_ROW))})"
_REPLACED: Final = ", ".join(f"{n} = excluded.{n}" for n in _ROW if n not in ("run", "name"))
Query = tuple[str, Values]
"""SQL and its values."""


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
    """An open store. Any number of processes may have it open, and threads take turns."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.name = shown(url)
        self._turn = threading.Lock()
        self._database = connect(url)

    def close(self) -> None:
        """It is no longer used."""
        self._database.close()

    def prepare(self) -> None:
        """The tables are there; `UsageError` where there are others."""
        database = self._database
        try:
            if database.form() is None:
                database.make(TABLES, FORM)
            found = database.form()
        except database.errors as error:
            raise unusable(self._url, error) from error
        if found != FORM:
            raise UsageError(
                f"{self.name}: expected a store of form {FORM}, found "
                f"{f'form {found}' if found else 'tables that are none of ours'}: another "
                "statediff made it, or another program; use that one, or move the store away and "
                "index again"
            )

    def put_run(self, run: Run) -> None:
        """The run is known.

        Another run that was kept at the same location is forgotten.
        """
        row = (run.id, run.location, run.name, run.statediff, run.kernel, run.facts)
        with self._transaction(writes=True) as database:
            gone = "DELETE FROM runs WHERE location = ? AND id <> ?"
            database.put(gone, [(run.location, run.id)])
            # The update takes the row's lock: writers of one run come one after the other.
            database.put(
                "INSERT INTO runs (id, location, name, statediff, kernel, facts)"
                " VALUES (?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (id) DO UPDATE SET location = excluded.location",
                [row],
            )

    def put_opinions(
        self, run: str, new: Sequence[tuple[str, str, str]], gone: Sequence[tuple[str, str]]
    ) -> None:
        """The files (trial, name, content) are known, and those (trial, name) are not."""
        if not new and not gone:
            return
        with self._transaction(writes=True) as database:
            deleted = "DELETE FROM opinions WHERE run = ? AND trial = ? AND name = ?"
            database.put(deleted, [(run, *each) for each in gone])
            database.put(
                "INSERT INTO opinions (run, trial, name, content) VALUES (?, ?, ?, ?)"
                " ON CONFLICT DO NOTHING",
                [(run, *each) for each in new],
            )

    def put_copy(self, run: str, url: str) -> None:
        """A copy of the run is known to lie below the URL, which holds no credential."""
        known = "INSERT INTO copies (run, url) VALUES (?, ?) ON CONFLICT DO NOTHING"
        with self._transaction(writes=True) as database:
            database.put(known, [(run, url)])

    def copies_of(self, location: str) -> tuple[str, ...]:
        """Below which URLs the run at the location is copied."""
        wanted = "SELECT url FROM copies JOIN runs ON runs.id = run WHERE location = ? ORDER BY url"
        return tuple(url for (url,) in self.rows(wanted, [location]))

    def runs_with(self, digest: str) -> tuple[str, ...]:
        """The locations of the runs in which a trial's bundle has the digest."""
        wanted = (
            "SELECT DISTINCT location FROM runs JOIN trials ON run = id WHERE bundle = ?"
            " ORDER BY location"
        )
        return tuple(place for (place,) in self.rows(wanted, [digest]))

    def copied_runs(self, url: str) -> tuple[tuple[str, str], ...]:
        """(id, location) of every run that is copied below the URL."""
        wanted = "SELECT id, location FROM runs JOIN copies ON run = id WHERE url = ?"
        return tuple((found, place) for found, place in self.rows(wanted, [url]))

    def put_new(self, trials: Sequence[Trial]) -> None:
        """The trials are known; those that somebody put before stay as they are."""
        if not trials:
            return
        with self._transaction(writes=True) as database:
            database.put(f"{_PUT} ON CONFLICT DO NOTHING", map(_row, trials))

    def put_trials(self, trials: Sequence[Trial]) -> None:
        """The trials are as given, whatever was known of them; their runs are known."""
        if not trials:
            return
        # In one order everywhere, so that two writers never wait for each other's rows.
        rows = map(_row, sorted(trials, key=lambda trial: trial.name))
        loose = [
            (trial.run, trial.name, at, *found)
            for trial in trials
            for at, found in enumerate(trial.loose)
        ]
        with self._transaction(writes=True) as database:
            database.put(f"{_PUT} ON CONFLICT (run, name) DO UPDATE SET {_REPLACED}", rows)
            keys = [(trial.run, trial.name) for trial in trials]
            database.put("DELETE FROM findings WHERE run = ? AND trial = ?", keys)
            database.put(f"INSERT INTO findings ({FOUND}) VALUES (?, ?, ?, ?, ?, ?, ?)", loose)

    def forget(self, run: str, names: Iterable[str]) -> None:
        """The trials of the run by these names are not known."""
        with self._transaction(writes=True) as database:
            deleted = "DELETE FROM trials WHERE run = ? AND name = ?"
            database.put(deleted, [(run, name) for name in names])

    def rows(self, sql: str, values: Values = ()) -> list[tuple[Any, ...]]:
        """The rows that the query finds, read at one moment."""
        return self.at_once((sql, values))[0]

    def at_once(self, *wanted: Query) -> list[list[tuple[Any, ...]]]:
        """The rows that each query finds, all read at one moment."""
        with self._transaction(writes=False) as database:
            return [database.rows(*each) for each in wanted]

    @staticmethod
    def trial_of(row: Sequence[Any], loose: tuple[Loose, ...] = ()) -> Trial:
        """The trial in a row of `KEPT`."""
        values = [*row, loose]
        values[_ENDED], values[_RETRIED] = ENDS[row[_ENDED]], bool(row[_RETRIED])
        return Trial(*values)

    def stamps(self, run: str) -> tuple[dict[str, str], set[str]]:
        """The stamps of every known trial of the run, by name; and those that were not run."""
        stamps, names = self.at_once(
            ("SELECT name, stamp FROM trials WHERE run = ?", [run]),
            ("SELECT name FROM trials WHERE run = ? AND ended = ?", [run, Ended.NOT_RUN.value]),
        )
        return dict(stamps), {name for (name,) in names}

    def runs(self) -> tuple[RunCounts, ...]:
        """Every run that is known, by location."""
        ends, runs = self.at_once(
            ("SELECT run, ended, count(*) FROM trials GROUP BY run, ended", ()),
            ("SELECT id, name, location, statediff, kernel FROM runs ORDER BY location", ()),
        )
        counts = {(run, ended): number for run, ended, number in ends}
        return tuple(
            RunCounts(
                *(run, name, location, made, kernel),
                {each: counts.get((run, each.value), 0) for each in Ended},
            )
            for run, name, location, made, kernel in runs
        )

    def trials(self, run: str, *, with_findings: bool = False) -> tuple[Trial, ...]:
        """Every trial of the run, by contract, version, number and name."""
        order = "contract, version, number IS NOT NULL, number, name"
        wanted = f"SELECT {', '.join(KEPT)} FROM trials WHERE run = ? ORDER BY {order}"
        findings = [(f"SELECT {FOUND} FROM findings WHERE run = ? ORDER BY trial, at", [run])]
        rows, *found = self.at_once((wanted, [run]), *(findings if with_findings else ()))
        loose = loose_by_trial(*found) if found else {}
        return tuple(self.trial_of(row, loose.get(row[_NAME], ())) for row in rows)

    @contextmanager
    def _transaction(self, *, writes: bool) -> Iterator[Database]:
        with self._turn:
            if not self._database.is_open():
                self._database = connect(self._url)  # the server was started anew
            database = self._database
            try:
                database.begin(writes=writes)
                try:
                    yield database
                    database.commit()
                except BaseException:
                    with suppress(database.errors):
                        database.rollback()
                    raise
            except database.errors as error:
                raise unusable(self._url, error) from error


@contextmanager
def open_store(url: str) -> Iterator[Store]:
    """The store at the URL, with its tables; an SQLite file is made where there is none.

    `UsageError` where the URL names no store, `StorageError` where it cannot be used.
    """
    store = Store(url)
    try:
        store.prepare()
        yield store
    finally:
        store.close()


def file_url(path: Path) -> str:
    """The URL of the store in an SQLite file."""
    return f"sqlite:///{path}"


def within(runs: Sequence[str] | None, column: str = "run") -> Query:
    """The condition that the column names one of the runs (None: any)."""
    if runs is None:
        return "1 = 1", ()
    return f"{column} IN ({', '.join('?' * len(runs))})" if runs else "1 = 0", runs


def loose_by_trial(findings: Iterable[Sequence[Any]]) -> dict[str, tuple[Loose, ...]]:
    """The clauses that do not hold in each trial, by its name; the rows are `FOUND`, in order."""
    kinds: dict[tuple[str, ...], Loose] = {}
    found: dict[str, tuple[Loose, ...]] = {}
    for _, trial, _, *rest in findings:
        kind = tuple(rest)
        if kind not in kinds:
            kinds[kind] = Loose(*rest)
        found[trial] = (*found.get(trial, ()), kinds[kind])
    return found


def _row(trial: Trial) -> Values:
    row = [getattr(trial, name) for name in _ROW]
    row[_ENDED], row[_RETRIED] = trial.ended.value, int(trial.is_retried)
    return row
