"""Faults below the rows of MariaDB: what SQL can do there and no row of a table shows.

Each is a few statements about one table, which hold its name, a text column and an index of its,
made by the agent's own account. One that is refused had no place on this server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any, Final

import pymysql

from statediff.systems.base.faults import Below, Place
from statediff_mariadb.session import connected

SECONDS: Final = 30.0
Statements = tuple[str, ...]

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
MARIADB: Final[Mapping[str, Statements]] = {
    "ignored-index": ("ALTER TABLE {0} ALTER INDEX `{2}` IGNORED",),
    "collation": ("ALTER TABLE {0} MODIFY {1} varchar(200) COLLATE utf8mb4_general_ci",),
    "database-collation": ("ALTER DATABASE CHARACTER SET latin1",),
    "event": ("CREATE EVENT statediff_e ON SCHEDULE EVERY 9 YEAR DO DELETE FROM {0}",),
    "function": ("CREATE FUNCTION statediff_f() RETURNS int RETURN 1",),
    "row-format": ("ALTER TABLE {0} ROW_FORMAT = COMPACT",),
    "password": ("SET PASSWORD = PASSWORD('another')",),
}


def _in_mariadb(statements: Statements) -> Callable[[Place], bool]:
    def apply(place: Place) -> bool:
        """True if the server made the statements, of the first table with rows and a text."""
        try:
            connection, database = connected(place.url, SECONDS)
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

    return apply


FAULTS: Final[Mapping[str, Below]] = {
    f"mariadb:{name}": Below("mysql://", _in_mariadb(statements), ())
    for name, statements in MARIADB.items()
}
