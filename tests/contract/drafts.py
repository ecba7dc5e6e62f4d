"""The law of drafts over generated applications, and how far it holds.

    python -m tests.contract.drafts [--runs N] [--apps N] [--first N] [--form csv]

Of each application a contract is drafted from its right runs, as `init --after` does. From one run:
the draft MATCHes that run and the same at another hour, with other random keys. From two runs of a
busy application, in which more happens than the task asks for: it MATCHes both and a third one. It
has no lint error, but that nobody said yet who may give a right. Faults are seeded as `mutate`
does, and each that it lets pass is a survivor.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import re
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Container, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from statediff.contract.file import ContractFile, load_contract
from statediff.meta.mutate import MutationReport, mutate
from statediff.systems.captured.statefile import write_state
from statediff.workspace import drafts
from statediff.workspace.contracts import States, check
from statediff.workspace.inputs import one_capture, unrefined
from statediff.workspace.references import recorded_run
from tests.contract.applications import AGAIN, RIGHT, THIRD, Application, BusyApplication

BESIDE = ("searches", "signed_in", "receipts", "found_")
LEFT = {("off-by-one", "db.sequence.value"), ("schema-update", "db.sequence.value"),
        ("nested-added", "history.detail"), ("wrong-value", "history.detail")}  # fmt: skip
"""On servers: numbers lost to rollbacks; of a value with a stamp inside, all but its form."""
UNSAID = "unauthorized-privilege"
"""What lint says until a person has said who may give the right that the runs gave."""


@dataclass
class Tried:
    """The outcome of the draft of one application."""

    number: int
    actions: list[str]
    errors: list[str] = field(default_factory=list)
    own: str = ""
    again: str = ""
    seeded: dict[str, int] = field(default_factory=dict)
    survived: dict[str, int] = field(default_factory=dict)
    survivors: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return not self.errors and self.own == self.again == "MATCH"


def require_law(found: Tried, but: Container[tuple[str, ...]] = ()) -> None:
    """Right runs match, and of faults only values beside the task and near stamps do."""
    assert (found.errors, found.own, found.again) == ([], "MATCH", "MATCH")
    every = {tuple(line.split(":")[0].split(" ")[:2]) for line in found.survivors}
    left = [each for each in every if each not in but]
    assert {kind for kind, _ in left} <= {"off-by-one", "wrong-value", "look-alike", "duplicate"}
    ours = [at for _, at in left if not at.startswith(BESIDE)]
    assert all(re.search(r"(\bat|_at|modified|created)$", at) for at in ours), found.survivors


def drafted(folder: Path, before: list[str], after: list[str]) -> ContractFile:
    """The draft of right runs, written to the folder as `init --after` writes it."""
    read = drafts.runs_of_states(before, after)
    found = drafts.draft("drafts/first", read, lambda: one_capture(before, unrefined))
    drafts.write_drafts(folder, found.files)
    return load_contract(folder / "contract.yaml")


def judged(file: ContractFile, folder: Path, before: list[str], after: list[str]) -> str:
    """The verdict on a recorded run, with what does not hold."""
    judgement = _reference(file, folder, before, after).judged()
    if judgement.verdict.value == "MATCH":
        return "MATCH"
    wrong = [f"{f.clause}: {f.sentence}" for f in judgement.findings if f.truth.value != "HOLDS"]
    return f"{judgement.verdict.value} {'; '.join(wrong[:4])}"


def _reference(file: ContractFile, folder: Path, before: list[str], after: list[str]) -> Any:
    named = folder / "schema.yaml"
    return recorded_run(file, before, after, None, schema=named if named.exists() else None)


def exported(database: Path, folder: Path, form: str) -> str:
    """A database as a state of that form: a file of each table, or what was captured of it.

    Of another form than these, it is captured of the server at that URL, which gets its rows.
    """
    if form == "sqlite":
        return f"db={database}"
    if form == "csv":
        return f"db=tables://{_csv(database, folder)}"
    if form != "state":
        _mirror(database, form)
    captured = one_capture([f"db={database if form == 'state' else form}"], unrefined)
    write_state(captured, folder.with_suffix(".state"), is_refined=False)
    return f"db={folder.with_suffix('.state')}"


def _tables(db: sqlite3.Connection) -> list[str]:
    names = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL%'"
    beside = " AND name NOT LIKE 'found_%' AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
    return [name for (name,) in db.execute(names + beside)]


def _csv(database: Path, folder: Path) -> Path:
    folder.mkdir()
    with closing(sqlite3.connect(database)) as db:
        for name in _tables(db):
            rows = db.execute(f"SELECT * FROM {name}")
            with (folder / f"{name}.csv").open("w", newline="") as file:
                csv.writer(file).writerows([[c[0] for c in rows.description], *rows])
    return folder


TIME = "timestamp(3)"
KINDS = {"INTEGER": "bigint", "REAL": "double precision", "TEXT": "varchar(190)",
         "DATETIME": TIME, "TIMESTAMP": TIME}  # fmt: skip
GIVEN = {
    "psycopg": (" GENERATED BY DEFAULT AS IDENTITY",
                "SELECT setval(pg_get_serial_sequence('{0}', 'id'), {1})"),
    "pymysql": (" AUTO_INCREMENT", "ALTER TABLE {0} AUTO_INCREMENT = {1}"),
}  # fmt: skip
"""How the server gives keys, and is told the next one."""


def _mirror(database: Path, url: str) -> None:
    """The server's database has the tables and the rows of this one."""
    driver = "psycopg" if url.startswith("postgresql") else "pymysql"
    at, connect = urlsplit(url), importlib.import_module(driver).connect
    place = {"host": at.hostname, "port": at.port, "user": at.username, "autocommit": True}
    place["dbname" if driver == "psycopg" else "database"] = at.path[1:]
    told = 'SELECT name, type, pk, "notnull" FROM pragma_table_info(?)'
    with closing(sqlite3.connect(database)) as db, closing(connect(**place)) as server:
        to, tables = server.cursor(), _tables(db)
        for name in reversed(tables):
            to.execute(f"DROP TABLE IF EXISTS {name}")
        for name in tables:
            columns = db.execute(told, [name]).fetchall()
            parts = [f"{c} {KINDS.get(kind, kind)}{' NOT NULL' * m}" for c, kind, _, m in columns]
            is_given = columns[0][:3] == ("id", "INTEGER", 1)
            parts[0] += GIVEN[driver][0] * is_given
            keys = ", ".join(c for c, _, number, _ in columns if number)
            parts += [f"PRIMARY KEY ({keys})"] * bool(keys)
            for _, _, table, column, *_ in db.execute(f"PRAGMA foreign_key_list({name})"):
                own = db.execute(told + " WHERE pk", [table]).fetchone()[0]
                parts.append(f"FOREIGN KEY ({column}) REFERENCES {table} ({own})")
            to.execute(f"CREATE TABLE {name} ({', '.join(parts)})")
            plain = (
                f"replace(rtrim({c}, 'Z'), 'T', ' ')" if KINDS.get(kind) == TIME else c
                for c, kind, *_ in columns
            )  # fmt: skip
            insert = f"INSERT INTO {name} ({', '.join(c for c, *_ in columns)}) VALUES "
            insert += f"({', '.join(['%s'] * len(columns))})"
            for row in db.execute(f"SELECT {', '.join(plain)} FROM {name}"):
                to.execute(insert, row)
            if is_given:
                [(last,)] = db.execute(f"SELECT coalesce(max(id), 0) FROM {name}")
                to.execute(GIVEN[driver][1].format(name, last + 1))


def tried(number: int, *, is_seeded: bool = True, form: str = "sqlite", runs: int = 1) -> Tried:
    """Everything about one application's draft; `again` is a run that it was not drafted from."""
    application = Application(number) if runs == 1 else BusyApplication(number)
    found = Tried(number, [name for name, _ in application.actions])
    with tempfile.TemporaryDirectory(prefix="statediff-drafts-") as named:
        folder = Path(named)
        application.make(folder / "a.db")
        application.run(folder / "a.db", folder / "b.db", RIGHT)
        application.run(folder / "a.db", folder / "c.db", AGAIN, "again")
        if runs > 1:
            application.run(folder / "a.db", folder / "d.db", THIRD, "third")
        names = ("a", "b", "c", "d")[: runs + 2]
        first, *each = (exported(folder / f"{name}.db", folder / name, form) for name in names)
        before, after, again = [first], each[:1], each[-1:]
        task = folder / "task"
        try:
            file = drafted(task, before, each[:runs])
            lint = check(task / "contract.yaml", States(None, before)).problems
            found.errors = [
                f"{p.code}: {p.message}" for p in lint if p.severity == "error" and p.code != UNSAID
            ]
            found.own = judged(file, task, before, after)
            found.again = judged(file, task, before, again)
            if is_seeded and found.own == "MATCH":
                _count(found, mutate([_reference(file, task, before, after)], 0, {}))
        except Exception as error:  # noqa: BLE001 - any is a failure of the law, and is reported
            found.errors.append(f"{type(error).__name__}: {error}")
    return found


def _count(found: Tried, report: MutationReport) -> None:
    for outcome in report.outcomes:
        kind = "twin" if outcome.fault.is_twin else outcome.fault.operator
        found.seeded[kind] = found.seeded.get(kind, 0) + 1
        if not outcome.is_as_it_should:
            found.survived[kind] = found.survived.get(kind, 0) + 1
            found.survivors.append(
                f"{outcome.fault.id}: {outcome.fault.sentence} [{outcome.clause}]"
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--apps", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--form", choices=("sqlite", "csv", "state"), default="sqlite")
    parser.add_argument("--runs", type=int, choices=(1, 2), default=1)
    parser.add_argument("--no-faults", action="store_true", help="seed nothing")
    options = parser.parse_args()
    numbers = range(options.first, options.first + options.apps)
    with ProcessPoolExecutor(options.workers) as pool:
        work = partial(tried, is_seeded=not options.no_faults, form=options.form, runs=options.runs)
        every = []
        for one in pool.map(work, numbers, chunksize=4):
            every.append(one)
            if len(every) % 25 == 0:
                held = sum(each.holds for each in every)
                sys.stderr.write(f"{len(every)} of {len(numbers)}, {held} hold\n")
    sys.stdout.write("\n".join(_lines(every)) + "\n")
    return 0 if all(one.holds for one in every) else 1


def _lines(every: list[Tried]) -> Iterator[str]:
    count = len(every)
    yield f"lint without error: {sum(not one.errors for one in every)} of {count}"
    yield f"own run MATCHes: {sum(one.own == 'MATCH' for one in every)} of {count}"
    further = sum(one.again == "MATCH" for one in every)
    yield f"a right run that it was not drafted from MATCHes: {further} of {count}"
    total: Counter[str] = Counter()
    left: Counter[str] = Counter()
    for one in every:
        total.update(one.seeded)
        left.update(one.survived)
    twins, loose = total.pop("twin", 0), left.pop("twin", 0)
    faults, missed = total.total(), left.total()
    yield f"faults killed: {faults - missed} of {faults} ({1 - missed / max(1, faults):.2%})"
    yield f"twins that match: {twins - loose} of {twins}"
    for kind, number in left.most_common():
        yield f"  {kind}: {number} of {total[kind]} survive"


if __name__ == "__main__":
    sys.exit(main())
