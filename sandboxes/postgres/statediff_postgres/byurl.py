"""Copies of a database of a PostgreSQL server that runs already, made of it as a template."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Final
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
from psycopg import sql

from statediff.capture.source import Source
from statediff.errors import SandboxError
from statediff.model.values import printable
from statediff.systems.relational.byurl import OURS, STEP_SECONDS, DatabaseByUrl
from statediff.systems.relational.urls import split_choice
from statediff_postgres.session import Connection, cause_of, connected
from statediff_postgres.source import PostgresSource

_ELSEWHERE: Final = f"""
SELECT datname::text FROM pg_database
WHERE datallowconn AND datname <> current_database() AND datname NOT LIKE '{OURS}%'
  AND has_database_privilege(oid, 'CONNECT')
ORDER BY datname <> 'postgres', datname LIMIT 1
"""  # noqa: S608 - a constant
_OTHERS: Final = """
SELECT coalesce(usename, 'somebody') || coalesce(' (' || nullif(application_name, '') || ')', '')
FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid() ORDER BY 1
"""
_BUSY: Final = """
SELECT state IS NULL FROM pg_stat_activity
WHERE datname = %s AND pid <> pg_backend_pid() AND backend_type = 'client backend'
  AND (state IS NULL OR state IN ('active', 'fastpath function call') OR backend_xid IS NOT NULL)
ORDER BY 1 LIMIT 1
"""
_SETTINGS: Final = """
SELECT split_part(s, '=', 1), substr(s, strpos(s, '=') + 1)
FROM pg_db_role_setting r JOIN pg_database d ON d.oid = r.setdatabase, unnest(r.setconfig) s
WHERE d.datname = %s AND r.setrole = 0
"""
_LISTS: Final = frozenset(
    {"search_path", "temp_tablespaces", "session_preload_libraries", "local_preload_libraries"}
)
"""Settings whose value is a list that is quoted as it is."""


WAIT_SECONDS: Final = 10.0
"""How long others may be in the database that is copied."""
_PAUSE_SECONDS: Final = 0.2


class PostgresByUrl(DatabaseByUrl):
    """A `System`: copies of one database of a PostgreSQL server."""

    FAILURES: ClassVar = (psycopg.Error,)
    ACCOUNT_VARIABLE: ClassVar = "PGPASSWORD"
    _elsewhere: str | None = None

    def admin(self) -> AbstractContextManager[Connection]:
        # The server copies no database that somebody is in, so that we stay in another one.
        if self._elsewhere is None:
            url = split_choice(self._url)[0]
            with connected(url, STEP_SECONDS) as connection:
                found: Any = connection.execute(_ELSEWHERE).fetchone()
            if found is None:
                raise SandboxError(
                    f"{self.source}: {self.original} is the only database that the account can "
                    "connect to, and none can be copied from within; let it connect to another: "
                    "GRANT CONNECT ON DATABASE postgres"
                )
            self._elsewhere = urlunsplit(urlsplit(url)._replace(path=f"/{quote(found[0])}"))
        return connected(self._elsewhere, STEP_SECONDS)

    def copy(self, admin: Connection, name: str, to: str) -> None:
        admin.execute("SET statement_timeout = 0")
        given = {"to": sql.Identifier(to), "name": sql.Identifier(name)}
        deadline = time.monotonic() + WAIT_SECONDS
        try:
            while True:
                try:
                    admin.execute(sql.SQL("CREATE DATABASE {to} TEMPLATE {name}").format(**given))
                    break
                except psycopg.errors.ObjectInUse:  # e.g. another run of ours reads it just now
                    if time.monotonic() >= deadline:
                        raise
                    time.sleep(_PAUSE_SECONDS)
        except psycopg.errors.ObjectInUse as error:
            others = [printable(str(who)) for (who,) in admin.execute(_OTHERS, (name,)).fetchall()]
            raise SandboxError(
                f"{self.source}: {name} cannot be copied while others are in it: "
                f"{', '.join(others[:5])}; end those sessions and start again"
            ) from error
        except psycopg.errors.InsufficientPrivilege as error:
            raise SandboxError(
                f"{self.source}: the account may not copy {name}; it has to own it and to make "
                f"databases: ALTER DATABASE … OWNER TO …; ALTER ROLE … CREATEDB ({cause_of(error)})"
            ) from error
        for setting, value in admin.execute(_SETTINGS, (name,)).fetchall():
            shown = sql.SQL(value) if setting in _LISTS else sql.Literal(value)
            change = sql.SQL("ALTER DATABASE {to} SET {setting} TO {value}")
            admin.execute(
                change.format(to=given["to"], setting=sql.Identifier(setting), value=shown)
            )
        if to == self.pristine:  # no agent changes what trials are copied from by connecting to it
            admin.execute(
                sql.SQL("ALTER DATABASE {} WITH ALLOW_CONNECTIONS false").format(given["to"])
            )

    def drop(self, admin: Connection, name: str) -> None:
        admin.execute(
            sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
        )

    def databases(self, admin: Connection) -> list[str]:
        return [name for (name,) in admin.execute("SELECT datname FROM pg_database").fetchall()]

    def busy(self, admin: Connection) -> str | None:
        found: Any = admin.execute(_BUSY, (self.trials,)).fetchone()
        if found is None:
            return None
        if found[0]:
            return "the account does not see what other accounts' sessions do"
        return "a statement or a write transaction of the agent's is still open"

    def reader(self, url: str) -> Source:
        plain, tables = split_choice(url)
        return PostgresSource(self.source, plain, self._refined, tables=tables)

    def cause_of(self, error: Any) -> str:
        return cause_of(error)
