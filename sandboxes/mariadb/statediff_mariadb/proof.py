"""A MariaDB server's state by digests and by its catalogue: the proof of a reset.

Rows are proven by SHA-256 of each, made by the server, which has no part in what capture reads. Its
own `CHECKSUM TABLE` adds up 32 bits a row: anyone who writes a row can choose what those are, and
so leave for the next trial what nobody sees. Definitions are proven by what the server would have
to be asked to make them; accounts, privileges, global variables and other databases are listed, one
label a thing.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from pymysql import Connection
from pymysql.cursors import SSCursor

from statediff_mariadb.session import fetched, literal, quoted

_ACCOUNTS: Final = {
    "account": "SELECT CONCAT(user, '@', host), priv FROM mysql.global_priv",
    "privileges on": "SELECT CONCAT('database ', db, ' of ', user, '@', host), {all} FROM mysql.db",
    "privileges on table": "SELECT CONCAT(db, '.', table_name, ' of ', user), {all}"
    " FROM mysql.tables_priv",
    "privileges on column": "SELECT CONCAT(db, '.', table_name, '.', column_name, ' of ', user),"
    " {all} FROM mysql.columns_priv",
    "privileges on routine": "SELECT CONCAT(db, '.', routine_name, ' of ', user), {all}"
    " FROM mysql.procs_priv",
    "proxy": "SELECT CONCAT(user, '@', host, ' for ', proxied_user), {all} FROM mysql.proxies_priv",
    "membership": "SELECT CONCAT(user, '@', host, ' in ', role), {all} FROM mysql.roles_mapping",
    "routine": "SELECT CONCAT(db, '.', name), {all} FROM mysql.proc WHERE db <> 'sys'",
    "event": "SELECT CONCAT(db, '.', name), {all} FROM mysql.event",
    "plugin": "SELECT CONCAT(name), {all} FROM mysql.plugin",
    "server": "SELECT CONCAT(server_name), {all} FROM mysql.servers",
    "function": "SELECT CONCAT(name), {all} FROM mysql.func",
    "database": "SELECT schema_name, CONCAT(default_character_set_name, ' ',"
    " default_collation_name) FROM information_schema.schemata",
    "server setting": "SELECT LOWER(variable_name), global_value FROM"
    " information_schema.system_variables WHERE global_value IS NOT NULL"
    " AND variable_name NOT LIKE 'GTID%' AND variable_name NOT LIKE 'INNODB_BUFFER_POOL_%_NOW'",
    "trigger": "SELECT CONCAT(trigger_schema, '.', trigger_name), CONCAT_WS(' ', definer,"
    " action_timing, event_manipulation, event_object_table, action_order, sql_mode,"
    " action_statement) FROM information_schema.triggers WHERE trigger_schema <> 'sys'",
}
_COLUMNS: Final = """
SELECT column_name, LOWER(data_type) FROM information_schema.columns
WHERE table_schema = {database} AND table_name = {table} AND extra NOT LIKE '%VIRTUAL%'
ORDER BY ordinal_position
"""
_WIDE: Final = frozenset({"mediumtext", "mediumblob", "longtext", "longblob", "json"})
_PLAIN: Final = frozenset(
    {
        "tinyint",
        "smallint",
        "mediumint",
        "int",
        "bigint",
        "decimal",
        "double",
        "date",
        "datetime",
        "timestamp",
        "time",
        "year",
    }
)
_GEOMETRIES: Final = frozenset(
    {
        "geometry",
        "point",
        "linestring",
        "polygon",
        "multipoint",
        "multilinestring",
        "multipolygon",
        "geometrycollection",
    }
)
_CHANGING: Final = frozenset({"created", "modified", "last_executed", "timestamp"})
"""Columns that tell when, not what."""


def look(connection: Connection[Any], database: str) -> dict[str, str]:
    """All of the server that a reset promises: label → what it is."""
    columns: dict[str, list[str]] = {}
    for table, column in fetched(
        connection,
        "SELECT table_name, column_name FROM information_schema.columns"
        " WHERE table_schema = 'mysql' ORDER BY ordinal_position",
    ):
        if column.lower() not in _CHANGING:
            columns.setdefault(table, []).append(
                f"COALESCE(QUOTE(CAST({quoted(column)} AS CHAR)), 'NULL')"
            )
    found: dict[str, str] = {}
    for label, query in _ACCOUNTS.items():
        table = query.rpartition("mysql.")[2].split(" ")[0]
        whole = f"CONCAT_WS(', ', {', '.join(columns.get(table, ['1']))})"
        for name, value in fetched(connection, query.replace("{all}", whole)):
            found[f"{label} {_text(name)}"] = _text(value)
    tables = fetched(
        connection,
        "SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = {db}",
        database,
    )
    places = {name: f"{quoted(database)}.{quoted(name)}" for name, kind in tables if kind != "VIEW"}
    for name, kind in tables:
        found[f"definition of {name}"] = definition_of(connection, database, name, kind)
    for name in places:
        found[f"table {_text(name)}"] = rows_of(connection, database, name)
    if places:
        counts = " UNION ALL ".join(
            f"SELECT {literal(name)}, COUNT(*) FROM {place}"  # noqa: S608 - quoted
            for name, place in places.items()
        )
        for name, count in fetched(connection, counts):
            found[f"rows of {_text(name)}"] = _text(count)
    return found


def rows_of(connection: Connection[Any], database: str, table: str) -> str:
    """A digest of a table's rows, in whatever order they are, as `look` has it."""
    cells = [
        _cell(quoted(column), data_type)
        for column, data_type in fetched(
            connection,
            _COLUMNS.format(database=literal(database), table=literal(table)),
        )
    ]
    row = f"UNHEX(COALESCE(SHA2(CONCAT({', '.join(cells)}), 256), SHA2(UUID(), 256)))"
    with connection.cursor(SSCursor) as cursor:
        cursor.execute(f"SELECT {row} FROM {quoted(database)}.{quoted(table)}")  # noqa: S608 - quoted
        digests = sorted(digest for (digest,) in cursor)
    return f"sha256 {hashlib.sha256(b''.join(digests)).hexdigest()}"


def _cell(column: str, data_type: str) -> str:
    """SQL: what a cell holds, as bytes that no other cell of its column begins with.

    What the server cannot put together (it gives null for what is longer than it sends) makes the
    whole row null, and that is never what it was.
    """
    content = column
    if data_type in _PLAIN:
        return f"IFNULL(CONCAT({column}, _binary';'), 'N')"
    if data_type == "float":  # as text it has six digits only
        return f"IFNULL(CONCAT(CAST({column} AS DOUBLE), _binary';'), 'N')"
    if data_type in _GEOMETRIES:
        content = f"CONCAT(ST_SRID({column}), ' ', ST_ASWKB({column}))"
    elif data_type not in _WIDE:
        return f"IFNULL(CONCAT(OCTET_LENGTH({column}), _binary':', {column}), 'N')"
    # Rows of these may be longer than what the server puts together.
    return f"IF({column} IS NULL, 'N', CONCAT(SHA2({content}, 256), _binary';'))"


def definition_of(
    connection: Connection[Any], database: str, name: str, kind: str = "BASE TABLE"
) -> str:
    """The statement that would make a table or view on the server, as `look` has it."""
    what = "VIEW" if kind == "VIEW" else "TABLE"
    shown = fetched(connection, f"SHOW CREATE {what} {quoted(database)}.{quoted(name)}")
    return _text(shown[0][1])


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return "NULL" if value is None else str(value)
