"""Faults below the rows of PostgreSQL: what SQL can do there and no row of a table shows.

Each is a few statements about one table, which hold its name and a text column of its. They are
made by the agent's own account, those of `AS_OWNER` by the server's owner: no agent may, but one
that took the owner's place could. One that is refused had no place on this server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final

import psycopg

from statediff.systems.base.faults import Below, Place
from statediff.systems.base.sandbox import EmbeddedSandbox
from statediff_postgres.sandbox import PostgresSystem
from statediff_postgres.session import connected

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


def _in_postgres(operator: str) -> Callable[[Place], bool]:
    def apply(place: Place) -> bool:
        if operator not in AS_OWNER:
            return _change(partial(connected, place.url, SECONDS), POSTGRES[operator])
        if not isinstance(place.sandbox, EmbeddedSandbox):
            return False
        system = place.sandbox.system(place.source)
        return isinstance(system, PostgresSystem) and _change(system.as_owner, POSTGRES[operator])

    return apply


def _change(connect: Callable[[], AbstractContextManager[Any]], statements: Statements) -> bool:
    """True if the server made the statements, of the first table with rows and a text."""
    try:
        with connect() as connection:
            found = connection.execute(_POSTGRES_TEXTS).fetchone()
            for statement in statements if found else ():
                connection.execute(statement.format(*found).encode())
    except psycopg.Error:
        return False
    return found is not None


FAULTS: Final[Mapping[str, Below]] = {
    f"postgres:{name}": Below("postgresql://", _in_postgres(name), ()) for name in POSTGRES
}
