"""Materialized views whose rows are other than before: which of them have what their query gives.

Their queries are run in the reading's own transaction, but only such as call nothing that was
written in the database, and nothing that acts: a query is somebody else's, and here it has the
reader's rights. A view that cannot be asked so is left as what it is, changed rows.
"""

# ruff: noqa: S608 - every query is built of text in this package and of what the server says
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import psycopg

from statediff.model.state import State, Table
from statediff_postgres.catalogue import Catalogue, Connection, TableEntry
from statediff_postgres.naming import FIRST_OWN

_READS: Final = f"""
WITH RECURSIVE query(oid) AS (
  SELECT %s::oid
  UNION
  SELECT c.oid FROM query q JOIN pg_rewrite r ON r.ev_class = q.oid AND r.rulename = '_RETURN'
  JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
    AND d.refclassid = 'pg_class'::regclass
  JOIN pg_class c ON c.oid = d.refobjid AND c.relkind = 'v'
), rule AS (
  SELECT r.oid, r.ev_class, r.ev_action::text AS tree
  FROM query q JOIN pg_rewrite r ON r.ev_class = q.oid AND r.rulename = '_RETURN'
), read(oid) AS (
  SELECT d.refobjid FROM rule JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass
    AND d.objid = rule.oid AND d.refclassid = 'pg_class'::regclass
    AND d.refobjid <> rule.ev_class
  UNION
  SELECT i.inhrelid FROM read JOIN pg_inherits i ON i.inhparent = read.oid
)
SELECT ARRAY(SELECT DISTINCT coalesce(pg_partition_root(c.oid), c.oid)::int8
    FROM read JOIN pg_class c ON c.oid = read.oid AND c.relkind IN ('r', 'p', 'm')),
  NOT EXISTS (SELECT FROM read JOIN pg_class c ON c.oid = read.oid
    WHERE c.relkind NOT IN ('r', 'p', 'm', 'v') OR c.relrowsecurity)
  AND NOT EXISTS (SELECT FROM rule,
    regexp_matches(tree, ':(?:funcid|opfuncid|aggfnoid|winfnoid) (\\d+)', 'g') m
    LEFT JOIN pg_proc p ON p.oid = m[1]::oid AND p.oid < {FIRST_OWN}
      AND p.provolatile <> 'v' AND p.proname !~ '_to_xml'
    WHERE p.oid IS NULL)
  AND NOT EXISTS (SELECT FROM rule, regexp_matches(tree, ':(?:eqop|sortop) (\\d+)', 'g') m
    WHERE m[1]::oid >= {FIRST_OWN})
  AND NOT EXISTS (SELECT FROM rule JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass
    AND d.objid = rule.oid AND d.refclassid = 'pg_type'::regclass AND d.refobjid >= {FIRST_OWN}
    JOIN pg_type t ON t.oid = d.refobjid LEFT JOIN pg_type e ON e.oid = t.typelem
    WHERE t.typtype <> 'e' AND coalesce(e.typtype <> 'e', true)),
  pg_get_viewdef(%s::oid)
"""
"""The tables that a query reads, through views too; whether all that it calls is the server's own
and none of it acts, nor what its types or rights to rows would call; and the query."""


def refreshed(
    connection: Connection, catalogue: Catalogue, like: State | None, tables: Mapping[str, Table]
) -> dict[str, Table]:
    """The tables; a materialized view that has other rows than before says what filled it."""
    names = {table.type.source_table: name for name, table in tables.items()}
    by_oid = {entry.relation.oid: entry for entry in catalogue.tables.values()}
    queries = {row["name"]: row["definition"] for row in catalogue.objects["db.view"]}
    known = {} if like is None else _queries(like)
    found = dict(tables)
    for name, table in tables.items():
        entry = catalogue.tables.get(table.type.source_table)
        if entry is None or entry.relation.kind != "m":
            continue
        view, read = entry.relation.type_name, list[str]()
        is_other = like is not None and _is_other(like.tables.get(name), table)
        if is_other and known.get(view) == queries.get(view):
            read = _filled_from(connection, entry, by_oid)
        filled = tuple(sorted({name, *(names[each] for each in read if each in names)}))
        if filled != table.type.filled_from:
            found[name] = replace(table, type=replace(table.type, filled_from=filled))
    return found


def _is_other(before: Table | None, table: Table) -> bool:
    """Whether both were read whole, and the rows are not the same."""
    if before is None or not (before.enumeration.is_complete and table.enumeration.is_complete):
        return False
    return before.chunks != table.chunks


def _queries(state: State) -> Mapping[Any, Any]:
    """The query of each view."""
    views = state.tables.get("db.view")
    return {} if views is None else {key[0]: row["definition"] for key, row in views.rows()}


def _filled_from(
    connection: Connection, entry: TableEntry, by_oid: Mapping[int, TableEntry]
) -> list[str]:
    """The tables that its query reads, where that gives its rows and may be run; else none."""
    view = entry.relation
    asked = connection.execute(_READS.encode(), (view.oid, view.oid)).fetchone()
    read, is_safe, query = asked or ([], False, "")
    found = [by_oid[oid].relation for oid in read if oid in by_oid]
    if not is_safe or any(table.runs_functions for table in found):
        return []
    rows = f"SELECT r::text FROM {view.only} r"
    given = f"SELECT r::text FROM ({query.rstrip(';')}) r"
    differ = f"({rows} EXCEPT ALL {given}) UNION ALL ({given} EXCEPT ALL {rows})"
    connection.execute("SAVEPOINT filled")
    try:
        same = connection.execute(f"SELECT NOT EXISTS ({differ})".encode()).fetchone()
    except psycopg.Error:
        if connection.broken:
            raise
        connection.execute("ROLLBACK TO filled")
        return []
    return [table.type_name for table in found] if same == (True,) else []
