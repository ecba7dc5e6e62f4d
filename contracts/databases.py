"""One small way to use a database from Python, whichever server serves it: by URL, with `?`.

The agents of the packs' tasks write SQL that SQLite, PostgreSQL and MariaDB share. Where they
differ (triggers, foreign keys, who may write), `Database` has a word for what the agent wants.
"""

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, Self
from urllib.parse import unquote, urlsplit

QUOTED_OR_MARK = re.compile(r"'(?:[^']|'')*'|\?|%")


class Row(Sequence[Any]):
    """A row by position and by name, as `sqlite3.Row` is."""

    def __init__(self, names: tuple[str, ...], values: tuple[Any, ...]) -> None:
        self._names, self._values = names, values

    def __getitem__(self, at: Any) -> Any:
        return self._values[self._names.index(at) if isinstance(at, str) else at]

    def __len__(self) -> int:
        return len(self._values)

    def keys(self) -> tuple[str, ...]:
        return self._names


class Result:
    """The rows that a statement gave, one by one or all, and how many it touched."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor
        self._names = tuple(column[0] for column in cursor.description or ())
        self.rowcount: int = cursor.rowcount

    def fetchone(self) -> Row | None:
        values = self._cursor.fetchone()
        return None if values is None else self._row(values)

    def fetchall(self) -> list[Row]:
        return list(self)

    def __iter__(self) -> Iterator[Row]:
        for values in self._cursor:
            yield self._row(values)

    def _row(self, values: tuple[Any, ...]) -> Row:
        return Row(self._names, tuple(_plain(value) for value in values))


class Database:
    """A connection. `with` commits at its end, or rolls back; it does not close."""

    dialect = "sqlite"

    def __init__(self, url: str) -> None:
        self.place = url.removeprefix("sqlite:///")
        self._connection: Any = sqlite3.connect(self.place)
        self._connection.execute("PRAGMA foreign_keys = ON")

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Result:
        return Result(self._connection.execute(statement, tuple(values)))

    def executemany(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        for row in rows:
            self.execute(statement, row)

    def one(self, statement: str, *values: object) -> Row:
        """The one row; a task whose facts are not there cannot be done."""
        row = self.execute(statement, values).fetchone()
        if row is None:
            raise SystemExit(f"nothing found: {statement} {values}")
        return row

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if kind is None:
            self._connection.commit()
        else:
            self._connection.rollback()

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def meanwhile(self, table: str, column: str, row: str, value: object) -> Iterator[None]:
        """A field of one row holds the value until the block is over, then what it held before.

        Each is a transaction of its own, and no log has them.
        """
        statement = f"UPDATE {table} SET {column} = ? WHERE {row}"
        with self:
            held = self.one(f"SELECT {column} FROM {table} WHERE {row}")[0]
        with self:
            self.execute(statement, (value,))
        yield
        with self:
            self.execute(statement, (held,))
        self.close()

    def only_read(self) -> None:
        """This connection changes nothing from here on."""
        self.execute("PRAGMA query_only = ON")

    def without_foreign_keys(self) -> None:
        """Nothing checks or follows references any more."""
        self.execute("PRAGMA foreign_keys = OFF")

    def drop(self, table: str) -> list[str]:
        """The table is gone, and its rows; what to say once another one has its name.

        That gives back what the database lost with it: triggers, and references of other tables.

        A transaction of its own begins with it.
        """
        self.execute("PRAGMA foreign_keys = OFF")  # else dropping it empties what refers to it
        self.execute("BEGIN")
        self.execute(f"DROP TABLE {table}")
        return []

    def trigger(self, name: str) -> tuple[str, str]:
        """The statements that remove a trigger and that make it again as it was."""
        made = self.one("SELECT sql FROM sqlite_schema WHERE name = ?", name)[0]
        return f"DROP TRIGGER {name}", made

    def add_after_insert(self, name: str, table: str, statement: str) -> None:
        """Whenever a row is added to the table, the statement is run with it as `new`."""
        self.execute(f"CREATE TRIGGER {name} AFTER INSERT ON {table} BEGIN {statement}; END")


class _Server(Database):
    """A server's connection through a driver that marks values with `%s`."""

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Result:
        cursor = self._connection.cursor()
        cursor.execute(_marked(statement), tuple(values))
        return Result(cursor)


class Postgres(_Server):
    dialect = "postgresql"

    def __init__(self, url: str) -> None:
        import psycopg  # noqa: PLC0415 - not installed where no server is used
        from psycopg.types.string import TextLoader  # noqa: PLC0415

        self.place = url
        self._connection = psycopg.connect(url, cursor_factory=psycopg.ClientCursor)
        for kind in ("timestamp", "timestamptz", "date"):
            self._connection.adapters.register_loader(kind, TextLoader)

    def only_read(self) -> None:
        self._connection.read_only = True

    def without_foreign_keys(self) -> None:
        """PostgreSQL cannot switch them off for who is no superuser: they are dropped."""
        found = self.execute(
            "SELECT conrelid::regclass::text, conname FROM pg_constraint WHERE contype = 'f'"
        ).fetchall()
        for table, name in found:
            self.execute(f'ALTER TABLE {table} DROP CONSTRAINT "{name}"')

    def drop(self, table: str) -> list[str]:
        found = self.execute(
            "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
            " WHERE contype = 'f' AND confrelid = to_regclass(?)",
            (table,),
        ).fetchall()
        self.execute(f"DROP TABLE {table} CASCADE")
        return [
            f'ALTER TABLE {owner} ADD CONSTRAINT "{name}" {text}' for owner, name, text in found
        ]

    def trigger(self, name: str) -> tuple[str, str]:
        table, made = self.one(
            "SELECT tgrelid::regclass::text, pg_get_triggerdef(oid) FROM pg_trigger"
            " WHERE tgname = ?",
            name,
        )
        return f"DROP TRIGGER {name} ON {table}", made

    def add_after_insert(self, name: str, table: str, statement: str) -> None:
        self.execute(
            f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$ BEGIN {statement}; RETURN NULL; END $$"
        )
        self.execute(
            f"CREATE TRIGGER {name} AFTER INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION {name}()"
        )


class MariaDb(_Server):
    dialect = "mariadb"

    def __init__(self, url: str) -> None:
        import pymysql  # noqa: PLC0415 - as above
        from pymysql.constants import FIELD_TYPE  # noqa: PLC0415
        from pymysql.converters import conversions  # noqa: PLC0415

        as_text = (FIELD_TYPE.DATETIME, FIELD_TYPE.TIMESTAMP, FIELD_TYPE.DATE)
        parts = urlsplit(url)
        self.place = url
        self._connection = pymysql.connect(
            host=parts.hostname,
            port=parts.port or 3306,
            user=unquote(parts.username or ""),
            password=unquote(parts.password or ""),
            database=parts.path.removeprefix("/"),
            charset="utf8mb4",
            ssl_disabled=True,
            conv={k: v for k, v in conversions.items() if k not in as_text},
        )
        self.execute("SET SESSION sql_mode = CONCAT(@@sql_mode, ',PIPES_AS_CONCAT,ANSI_QUOTES')")

    def only_read(self) -> None:
        self.execute("SET SESSION TRANSACTION READ ONLY")

    def without_foreign_keys(self) -> None:
        self.execute("SET SESSION foreign_key_checks = 0")

    def drop(self, table: str) -> list[str]:
        names = self.execute(
            "SELECT trigger_name FROM information_schema.triggers"
            " WHERE event_object_schema = DATABASE() AND event_object_table = ?",
            (table,),
        ).fetchall()
        triggers = [self.trigger(name)[1] for (name,) in names]
        self.execute("SET SESSION foreign_key_checks = 0")
        self.execute(f"DROP TABLE {table}")
        return [*triggers, "SET SESSION foreign_key_checks = 1"]

    def trigger(self, name: str) -> tuple[str, str]:
        shown = self.one(f"SHOW CREATE TRIGGER {name}")
        made = f"SET STATEMENT sql_mode = '{shown['sql_mode']}' FOR {shown[2]}"
        return f"DROP TRIGGER {name}", made

    def add_after_insert(self, name: str, table: str, statement: str) -> None:
        self.execute(f"CREATE TRIGGER {name} AFTER INSERT ON {table} FOR EACH ROW {statement}")


def connect(url: str) -> Database:
    """The database at the URL that an agent was given."""
    match urlsplit(url).scheme:
        case "postgresql":
            return Postgres(url)
        case "mysql":
            return MariaDb(url)
        case _:
            return Database(url)


def _marked(statement: str) -> str:
    """`?` as `%s`, and `%` doubled; what stands in quotes keeps its question marks."""

    def mark(found: re.Match[str]) -> str:
        return "%s" if found[0] == "?" else found[0].replace("%", "%%")

    return QUOTED_OR_MARK.sub(mark, statement)


def _plain(value: Any) -> Any:
    """Whole numbers as `int`: servers give sums of them as decimals."""
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    return value
