"""The check that a PostgreSQL database's indexes have what their tables have: `db.structure`.

An account without more rights than its own tables can make only those indexes disagree that call
what the database itself defines: a function that was another one while a row was written, or an
operator class over such functions. Indexes over the server's own functions are the server's work.

The extension `amcheck` computes every entry of a B-tree anew and looks for it. That runs functions
of the database: as the owner of the table, restricted, in a connection of its own that can only
read, and whatever they raise is a problem of the index. Without the extension, or the right to call
it, nobody knows.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple

import psycopg

from statediff.model.values import printable
from statediff.systems.relational.structure import SOUND, Checked
from statediff_postgres.naming import CLASS, FIRST_OWN, OWN_REL, REL
from statediff_postgres.session import Connection

MAX_SECONDS: Final = 60
_WRITTEN_HERE: Final = (
    f"p.oid >= {FIRST_OWN} AND p.prolang NOT IN"  # noqa: S608 - numbers and names
    " (SELECT l.oid FROM pg_language l WHERE l.lanname IN ('internal', 'c'))"
)
WRITTEN: Final = f"SELECT EXISTS (SELECT FROM pg_proc p WHERE {_WRITTEN_HERE})"  # noqa: S608 - ours
"""Whether any function was written in the database: without one, no index is at risk."""
AT_RISK: Final = f"""
WITH family AS (
  SELECT s.amprocfamily AS oid FROM pg_amproc s JOIN pg_proc p ON p.oid = s.amproc
  WHERE {_WRITTEN_HERE}
  UNION
  SELECT s.amopfamily FROM pg_amop s JOIN pg_operator o ON o.oid = s.amopopr
  JOIN pg_proc p ON p.oid = o.oprcode WHERE {_WRITTEN_HERE}
)
SELECT c.oid::int8, {REL}, m.amname = 'btree'
FROM pg_index i JOIN {CLASS} ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam
WHERE {OWN_REL} AND c.relkind = 'i' AND i.indisvalid AND (
  EXISTS (
    SELECT FROM pg_depend d
    LEFT JOIN pg_operator o ON d.refclassid = 'pg_operator'::regclass AND o.oid = d.refobjid
    JOIN pg_proc p ON p.oid = coalesce(o.oprcode, d.refobjid)
    WHERE d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid
      AND d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass) AND {_WRITTEN_HERE})
  OR EXISTS (SELECT FROM family) AND (
    EXISTS (
      SELECT FROM unnest(i.indclass::oid[]) k JOIN pg_opclass o ON o.oid = k
      WHERE o.opcfamily IN (SELECT oid FROM family))
    OR EXISTS (
      SELECT FROM pg_attribute a WHERE a.attrelid = i.indexrelid AND a.atttypid >= {FIRST_OWN}))
)
ORDER BY 2
"""  # noqa: S608 - of text in this file and `postgres.naming`
"""Indexes whose entries rest on what was written in the database: number, name, whether B-tree.

A type of the database's own may order its values by another type's operator class."""
_CHECK: Final = """
SELECT p.oid::regprocedure::text FROM pg_proc p
JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND e.oid = d.refobjid
WHERE e.extname = 'amcheck' AND p.proname = 'bt_index_check' AND p.pronargs = 2
  AND p.prolang = (SELECT oid FROM pg_language WHERE lanname = 'c')
  AND has_function_privilege(p.oid, 'EXECUTE')
"""


class Risk(NamedTuple):
    """An index that might not have what its table has."""

    oid: int
    name: str
    is_btree: bool


def check(
    connect: Callable[[], AbstractContextManager[Connection]], indexes: tuple[Risk, ...]
) -> Checked:
    """The problems of the indexes, in connections of their own. Raises `SourceUnavailable`."""
    if not indexes:
        return SOUND
    other = next((each.name for each in indexes if not each.is_btree), None)
    cause = None
    if other is not None:
        cause = f"the index {printable(other)} calls functions, and is no B-tree"
    problems: list[dict[str, Any]] = []
    with connect() as connection:
        function = connection.execute(_CHECK).fetchone()
    if function is None:
        first = printable(indexes[0].name)
        return Checked((), f"the index {first} calls functions, and amcheck cannot be asked")
    name = str(function[0]).split("(", maxsplit=1)[0]
    for each in indexes:
        if not each.is_btree:
            continue
        with connect() as connection:
            connection.execute(f"SET statement_timeout = '{MAX_SECONDS}s'")
            try:
                connection.execute(f"SELECT {name}(%s::oid, true)".encode(), (each.oid,))
            except psycopg.Error as error:
                if connection.broken:
                    raise
                problems.append(
                    {"problem": _problem(each.name, error), "object": each.name, "page": None}
                )
    return Checked(tuple(problems), cause)


def _problem(name: str, error: psycopg.Error) -> str:
    """In words that are the same each time: the server's name pages and numbers."""
    is_damage = isinstance(error, psycopg.errors.IndexCorrupted | psycopg.errors.DataCorrupted)
    what = "does not have what its table has" if is_damage else "cannot be checked"
    return f"the index {printable(name)} {what}"
