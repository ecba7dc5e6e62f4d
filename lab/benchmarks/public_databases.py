"""Public databases: read whole, nothing is MATCH, a change by statements in each table is seen.

    python -m lab.benchmarks.public_databases FOLDER [ENGINE/NAME...]

FOLDER has `postgres`, `mariadb` and `sqlite`, in each a folder for a database, in it its files of
SQL in the order of their names; those of MariaDB also make the database, called as its folder. Each
is read, drafted with a sandbox (`init`), and judged there after an agent that does nothing. Then
each table gets an update of a column, a new row and a deletion, as far as its keys and checks let
any of many statements do it: each is a run of its own, judged under a closed frame. Printed are
seconds of a reading, what was seen, and by name what was not read, seen or allowed.
"""

# ruff: noqa: S608 - tables are named by the server
from __future__ import annotations

import argparse
import contextlib
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, product
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from sqlalchemy import Date, DateTime, Engine, Inspector, create_engine, inspect, text
from sqlalchemy.event import listen
from sqlalchemy.exc import SAWarning, SQLAlchemyError
from statediff_mariadb.source import MariaDbSource
from statediff_postgres.source import PostgresSource

from statediff.capture.source import Source
from statediff.model.readings import Capture
from statediff.model.verdict import Verdict
from statediff.systems.sqlite.source import SqliteSource
from tests.rebuilt import read, verdict
from tests.servers import mariadb, postgres

PLAIN: Final = ("'7'", "'~'", "'2001-02-03'", "'00000000-0000-4000-8000-000000000001'", "'~~/'")
OTHER: Final = ("{c} + 1", "1 - {c}", "NOT {c}", *PLAIN, "upper({c})", "lower({c})", "NULL")
FRESH: Final = ("(SELECT max({c}) + 1 FROM {t})", "{p}", *PLAIN)
DIFFERS: Final = {"postgresql": "{c} IS DISTINCT FROM {e}", "sqlite": "{c} IS NOT {e}"}
STATEMENTS: Final = 300  # tried for one change, at most
Statement: TypeAlias = tuple[str, dict[str, Any]]


class Table(NamedTuple):
    """A table, as SQL writes its name and those of its columns."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    unique: tuple[tuple[str, ...], ...]
    required: frozenset[str]
    parents: dict[str, str]  # column → a query for a value that it may refer to
    bounds: tuple[str, ...]  # the texts in its checks


@dataclass
class Place:
    """A database that is tried."""

    url: str
    source: Source
    engine: Engine
    seen: dict[str, int] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)

    def rows(self, statement: str) -> list[dict[str, Any]]:
        with self.engine.begin() as connection:
            return [dict(row) for row in connection.execute(text(statement)).mappings()]

    def does(self, statement: str, values: dict[str, Any]) -> bool:
        with contextlib.suppress(SQLAlchemyError), self.engine.begin() as connection:
            return connection.execute(text(statement), values).rowcount > 0
        return False

    def tables(self) -> list[Table]:
        """The tables of all schemas, those that are referred to first."""
        look = inspect(self.engine)
        named = set(look.get_schema_names()) - {"information_schema"}
        schemas = named if self.engine.dialect.name == "postgresql" else {None}
        named = [(s, look.get_sorted_table_and_fkc_names(s)) for s in sorted(schemas, key=str)]
        return [self._table(look, t, s) for s, listed in named for t, _ in listed if t]

    def _table(self, look: Inspector, table: str, schema: str | None) -> Table:
        quote = self.engine.dialect.identifier_preparer.quote

        def name(*parts: str | None) -> str:
            return ".".join(quote(part) for part in parts if part)

        def values_of(key: Any) -> Iterator[tuple[str, str]]:
            target = name(key["referred_schema"], key["referred_table"])
            own, others = key["constrained_columns"], key["referred_columns"]
            for here, there in zip(own, others, strict=True):
                yield quote(here), f"(SELECT {quote(there)} FROM {target} ORDER BY 1 DESC LIMIT 1)"

        columns = [c for c in look.get_columns(table, schema) if not c.get("computed")]
        indexes = [i for i in look.get_indexes(table, schema) if i["unique"]]
        once = [i["column_names"] for i in (*indexes, *look.get_unique_constraints(table, schema))]
        checks = " ".join(c["sqltext"] for c in look.get_check_constraints(table, schema))
        bounds = re.findall(r"'[^']+'", checks) or ["'2001-02-03'"]
        dates = [c["name"] for c in columns if isinstance(c["type"], Date | DateTime)]
        return Table(
            name(schema, table),
            tuple(quote(c["name"]) for c in columns),
            tuple(map(quote, look.get_pk_constraint(table, schema)["constrained_columns"])),
            tuple({tuple(quote(c) for c in names if c): 0 for names in once}),
            frozenset(quote(c["name"]) for c in columns if not c["nullable"]),
            {quote(date): bounds[0] for date in dates}
            | dict(pair for key in look.get_foreign_keys(table, schema) for pair in values_of(key)),
            tuple(bounds),
        )


def _where(table: Table, row: dict[str, Any]) -> Statement:
    names = {f"k{n}": row[column.strip('"`')] for n, column in enumerate(table.key)}
    return " AND ".join(f"{c} = :k{n}" for n, c in enumerate(table.key)) or "1 = 1", names


def updates(place: Place, table: Table) -> Iterator[Statement]:
    """Another value in a column of a row, of those in no key first."""
    differs = DIFFERS.get(place.engine.dialect.name, "NOT {c} <=> {e}")
    kept = {*table.key, *table.parents}.union(*table.unique)
    for row in place.rows(f"SELECT * FROM {table.name} LIMIT 1"):
        where, values = _where(table, row)
        for c in sorted(table.columns, key=lambda c: c in kept):
            for e in (other.format(c=c) for other in OTHER):
                is_other = differs.format(c=c, e=e)
                yield f"UPDATE {table.name} SET {c} = {e} WHERE {where} AND {is_other}", values


def inserts(place: Place, table: Table) -> Iterator[Statement]:
    """A row like two, like another with a key of its own, or of any values."""
    name, p = table.name, table.parents
    into = f"INSERT INTO {name} ({', '.join(table.columns)})"
    for each in table.key if len(table.key) > 1 else ():
        taken = " AND ".join(f"o.{k} = {'b' if k == each else 'a'}.{k}" for k in table.key)
        said = ", ".join(f"{'b' if c == each else 'a'}.{c}" for c in table.columns)
        free = f"NOT EXISTS (SELECT 1 FROM {name} o WHERE {taken})"
        yield f"{into} SELECT {said} FROM {name} a, {name} b WHERE {free} LIMIT 1", {}
    is_empty = not place.rows(f"SELECT 1 AS one FROM {name} LIMIT 1")
    for chosen in () if is_empty else product(table.key or ("",), *table.unique):
        own = tuple(dict.fromkeys(chosen))
        for given in product(FRESH, repeat=min(len(own), 3)):
            fresh = dict(zip(own, [*given, *given[-1:] * len(own)], strict=False))
            said = ", ".join(fresh.get(c, c).format(c=c, t=name, p=p.get(c)) for c in table.columns)
            yield f"{into} SELECT {said} FROM {name} LIMIT 1", {}
    needed = [c for c in table.columns if c in table.required or c in table.key] or table.columns
    own = tuple(c for c in needed if c not in p)
    for given in product((*PLAIN, *table.bounds, "true"), repeat=min(len(own), 3)):
        value = p | dict(zip(own, [*given, *given[-1:] * len(own)], strict=False))
        said = ", ".join(value[c] for c in needed)
        yield f"INSERT INTO {name} ({', '.join(needed)}) VALUES ({said})", {}


def deletions(place: Place, table: Table) -> Iterator[Statement]:
    """A row that nothing keeps."""
    order = ", ".join(f"{c} DESC" for c in table.key) or "1"
    for row in place.rows(f"SELECT * FROM {table.name} ORDER BY {order} LIMIT {STATEMENTS}"):
        where, values = _where(table, row)
        yield f"DELETE FROM {table.name} WHERE {where}", values


CHANGES: Final = {"insert": inserts, "update": updates, "delete": deletions}


def try_changes(place: Place, before: Capture) -> None:
    """One change of each kind in each table, each a run of its own."""
    place.seen, tables = dict.fromkeys(CHANGES, 0), place.tables()
    for name, ways in CHANGES.items():
        for table in tables if name == "insert" else reversed(tables):
            done = next((w for w in islice(ways(place, table), STATEMENTS) if place.does(*w)), None)
            if done is None:
                place.said.append(f"no {name} of {table.name} that its keys and checks allow")
                continue
            after = read(place.source, before)
            judged, before = verdict(before, after), after
            if judged is Verdict.DIVERGE:
                place.seen[name] += 1
            else:
                place.said.append(f"{judged.value}: {done[0]}")


def nothing_done(url: str, folder: Path) -> str:
    """The verdict on an agent that does nothing, in copies, under the draft of `init`."""

    def said(*words: str) -> str:
        command = [str(Path(sys.executable).parent / "statediff"), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    said("init", f"db={url}", "--sandbox", "--out", str(folder))
    contract = folder / "contract.yaml"
    contract.write_text(re.sub("(?m)^reviewed: false.*\n", "", contract.read_text("utf-8")))
    ran = said("run", str(contract), "--agent-cmd", "true", "--out", str(folder / "out"))
    return "/".join(dict.fromkeys(re.findall("MATCH|DIVERGE|INCONCLUSIVE", ran)))


def opened(kind: str, folder: Path, server: Any, aside: Path) -> Place:
    """The database of the folder, made on the server."""
    scripts, name = sorted(folder.glob("*.sql")), folder.name
    if kind == "sqlite":
        file = aside / f"{name}.db"
        with contextlib.closing(sqlite3.connect(file)) as connection:
            for each in scripts:
                connection.executescript(each.read_text("utf-8"))
        engine = create_engine(f"sqlite:///{file}")
        listen(engine, "connect", lambda raw, _: raw.execute("PRAGMA foreign_keys = ON"))
        return Place(str(file), SqliteSource("db", file), engine)
    if kind == "postgres":
        at = f"://postgres@127.0.0.1:{server}/"
        make = ["psql", "-q", f"postgresql{at}postgres", "-c", f'CREATE DATABASE "{name}"']
        subprocess.run(make, check=True, capture_output=True)
        url, client = f"postgresql{at}{name}", ["psql", "-q", f"postgresql{at}{name}"]
        source: Source = PostgresSource("db", url)
        engine = create_engine(f"postgresql+psycopg{at}{name}")
    else:
        url, client = f"mysql://root@127.0.0.1:{server[0]}/{name}", ["mariadb", "-uroot"]
        client.append(f"-S{server[1]}")
        source = MariaDbSource("db", url)
        engine = create_engine(url.replace("://", "+pymysql://"))
    for each in scripts:
        with each.open("rb") as script:
            subprocess.run(client, cwd=folder, stdin=script, check=True, capture_output=True)
    return Place(url, source, engine)


def tell(name: str, place: Place, aside: Path) -> int:
    """Print what became of a database; how much of it was not read or seen."""
    began = time.monotonic()
    before = read(place.source, None)
    took = time.monotonic() - began
    every = before.parts[0].state.tables.values()
    tables = [t for t in every if not t.type.name.startswith("db.")]
    gaps = [f"{t.type.name}: {t.enumeration.cause}" for t in every if not t.enumeration.is_complete]
    nothing = nothing_done(place.url, aside / name.replace("/", "-"))
    try_changes(place, before)
    missed = sum(not each.startswith("no ") for each in place.said)
    rows, seen = sum(t.row_count for t in tables), "".join(f"{n:8}" for n in place.seen.values())
    print(f"{name:28} {len(tables):6} {rows:8} {took:7.2f}  {nothing:12}{seen}{missed:8}")
    print(*(f"    {each[:180]}" for each in (*gaps, *place.said)), sep="\n", flush=True)
    return len(gaps) + missed + (nothing != "MATCH")


SERVERS: Final = {"postgres": postgres, "mariadb": mariadb, "sqlite": contextlib.nullcontext}


def main() -> int:
    """Print a line for each database; how much was not read or seen."""
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks.public_databases")
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("names", nargs="*", metavar="ENGINE/NAME", help="default: all")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", SAWarning)
    wrong = 0
    print(f"{'':28} tables     rows  read s  nothing       insert  update  delete  missed")
    for kind, server in SERVERS.items():
        folders = sorted((asked.folder / kind).glob("*"))
        chosen = [f for f in folders if not asked.names or f"{kind}/{f.name}" in asked.names]
        with contextlib.ExitStack() as stack:
            at = stack.enter_context(server()) if chosen else None
            aside = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="public-")))
            for folder in chosen:
                wrong += tell(f"{kind}/{folder.name}", opened(kind, folder, at, aside), aside)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
