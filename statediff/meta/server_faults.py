"""Faults below the rows of database servers: what SQL can do there and no row of a table shows.

Each is a few statements about one table, which hold its name and a text column of its. They are
made by the agent's own account, those of `AS_OWNER` by the server's owner: no agent may, but one
that took the owner's place could. One that is refused had no place on this server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from typing import Any, Final

SECONDS: Final = 30.0
Statements = tuple[str, ...]

_POSTGRES_TEXTS: Final = b"""
SELECT format('public.%I', c.relname), quote_ident(a.attname) FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND a.attnum > 0
  AND a.atttypid = 'text'::regtype AND NOT a.attisdropped AND c.reltuples > 1
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.refobjid = c.oid
    AND d.refobjsubid = a.attnum AND d.deptype <> 'i')
ORDER BY c.relname, a.attnum LIMIT 1
"""
_MARIADB_TEXTS: Final = """
SELECT concat('`', t.table_name, '`'), concat('`', min(c.column_name), '`'),
  (SELECT min(s.index_name) FROM information_schema.statistics s
   WHERE s.table_schema = t.table_schema AND s.table_name = t.table_name
     AND s.index_name <> 'PRIMARY')
FROM information_schema.tables t JOIN information_schema.columns c USING (table_schema, table_name)
WHERE t.table_schema = DATABASE() AND t.table_type = 'BASE TABLE' AND t.table_rows > 1
  AND c.data_type IN ('varchar', 'text') AND c.column_key = ''
GROUP BY t.table_name ORDER BY 3 IS NULL, 1 LIMIT 1
"""
_FUNCTION: Final = (
    "FUNCTION public.statediff_f({0}) RETURNS {1} IMMUTABLE LANGUAGE sql AS 'SELECT {2}'"
)
_SAME: Final = _FUNCTION.format("text", "text", "$1")
_OTHER: Final = _FUNCTION.format("text", "text", "$1 || $1")
_EQUAL: Final = _FUNCTION.format("text, text", "boolean", "true")
_FIRST_INDEX: Final = (
    "indexrelid = (SELECT min(indexrelid) FROM pg_index WHERE indrelid = '{0}'::regclass)"
)

POSTGRES: Final[Mapping[str, Statements]] = {
    "index-entries": (
        f"CREATE {_SAME}",
        "CREATE INDEX statediff_i ON {0} (public.statediff_f({1}))",
        f"CREATE OR REPLACE {_OTHER}",
    ),
    "operator": (
        f"CREATE {_EQUAL}",
        "CREATE OPERATOR public.= (LEFTARG = text, RIGHTARG = text, FUNCTION = public.statediff_f)",
    ),
    "collation": ('ALTER TABLE {0} ALTER COLUMN {1} TYPE text COLLATE "C"',),
    "grant": ("GRANT SELECT ON {0} TO PUBLIC",),
    "row-security": ("ALTER TABLE {0} ENABLE ROW LEVEL SECURITY",),
    "rewriting": ("CREATE RULE statediff_r AS ON INSERT TO {0} DO INSTEAD NOTHING",),
    "role-setting": ("ALTER ROLE CURRENT_USER SET search_path = pg_temp",),
    "large-object": ("SELECT lo_create(0)",),
    "invalid-index": ("UPDATE pg_index SET indisvalid = false WHERE " + _FIRST_INDEX,),  # noqa: S608 - ours
    "event-trigger": (
        "CREATE FUNCTION statediff_e() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END'",
        "CREATE EVENT TRIGGER statediff_e ON ddl_command_end EXECUTE FUNCTION statediff_e()",
    ),
    "ownership": ("ALTER TABLE {0} OWNER TO pg_database_owner",),
}
AS_OWNER: Final = frozenset({"invalid-index", "event-trigger", "ownership"})
MARIADB: Final[Mapping[str, Statements]] = {
    "ignored-index": ("ALTER TABLE {0} ALTER INDEX `{2}` IGNORED",),
    "collation": ("ALTER TABLE {0} MODIFY {1} varchar(200) COLLATE utf8mb4_general_ci",),
    "database-collation": ("ALTER DATABASE CHARACTER SET latin1",),
    "event": ("CREATE EVENT statediff_e ON SCHEDULE EVERY 9 YEAR DO DELETE FROM {0}",),
    "function": ("CREATE FUNCTION statediff_f() RETURNS int RETURN 1",),
    "row-format": ("ALTER TABLE {0} ROW_FORMAT = COMPACT",),
    "password": ("SET PASSWORD = PASSWORD('another')",),
}


def change_postgres(
    connect: Callable[[], AbstractContextManager[Any]], statements: Statements
) -> bool:
    """Whether the server made the statements, of the first table with rows and a text."""
    import psycopg  # noqa: PLC0415 - of an extra

    try:
        with connect() as connection:
            found = connection.execute(_POSTGRES_TEXTS).fetchone()
            for statement in statements if found else ():
                connection.execute(statement.format(*found).encode())
    except psycopg.Error:
        return False
    return found is not None


def change_mariadb(url: str, statements: Statements) -> bool:
    """As `change_postgres`."""
    import pymysql  # noqa: PLC0415 - of an extra

    from statediff.systems.mariadb.session import connected  # noqa: PLC0415 - an extra

    try:
        connection, database = connected(url, SECONDS)
        with closing(connection):
            connection.select_db(database)
            with connection.cursor() as cursor:
                cursor.execute(_MARIADB_TEXTS)
                found: Sequence[Any] | None = cursor.fetchone()
                for statement in statements if found else ():
                    cursor.execute(statement.format(*(found or ())))
    except pymysql.Error:
        return False
    return found is not None
