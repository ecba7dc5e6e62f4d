"""What of a listing can be asked of any moment: fields that are columns of the catalogue.

The server's functions that describe an object (`pg_get_triggerdef` and the like) speak of it as it
is now; rows of the catalogue follow the moment. Nothing here calls such a function.
"""

# ruff: noqa: S608, ISC004 - every query is built of text in this package
from __future__ import annotations

from typing import Final

from statediff_postgres.naming import CLASS, OWN_REL, REL

_OF_TABLE: Final = f"JOIN {CLASS} ON c.oid = "
_ROW_SECURITY: Final = (
    "CASE WHEN c.relforcerowsecurity AND c.relrowsecurity THEN 'forced'"
    " WHEN c.relrowsecurity THEN 'on' WHEN c.relforcerowsecurity THEN 'off, to be forced'"
    " ELSE 'off' END"
)
PLAIN: Final = {
    "db.column": (
        ("table", "name", "is_required"),
        f"SELECT {REL}, x.attname::text, x.attnotnull FROM pg_attribute x {_OF_TABLE} x.attrelid"
        " WHERE c.relkind IN ('r', 'p', 'm', 'f') AND x.attnum > 0 AND NOT x.attisdropped"
        f" AND {OWN_REL}",
    ),
    "db.constraint": (
        ("table", "name", "is_validated"),
        f"SELECT {REL}, x.conname::text, x.convalidated FROM pg_constraint x"
        f" {_OF_TABLE} x.conrelid WHERE {OWN_REL}",
    ),
    "db.index": (
        ("name", "is_valid"),
        f"SELECT {REL}, x.indisvalid AND x.indisready AND x.indislive FROM pg_index x"
        f" {_OF_TABLE} x.indexrelid WHERE {OWN_REL}",
    ),
    "db.policy": (
        ("table", "name", "command", "is_permissive"),
        f"SELECT {REL}, x.polname::text, x.polcmd::text, x.polpermissive FROM pg_policy x"
        f" {_OF_TABLE} x.polrelid WHERE {OWN_REL}",
    ),
    "db.rule": (
        ("table", "name", "enabled"),
        f"SELECT {REL}, x.rulename::text, x.ev_enabled::text FROM pg_rewrite x"
        f" {_OF_TABLE} x.ev_class WHERE {OWN_REL}"
        " AND (c.relkind NOT IN ('v', 'm') OR x.rulename <> '_RETURN' OR x.ev_enabled <> 'O')",
    ),
    "db.sequence": (
        ("name",),
        f"SELECT {REL} FROM pg_sequence x {_OF_TABLE} x.seqrelid WHERE {OWN_REL}",
    ),
    "db.table": (
        ("name", "is_unlogged", "row_security", "replica_identity"),
        f"SELECT {REL}, c.relpersistence = 'u', {_ROW_SECURITY}, c.relreplident::text"
        f" FROM {CLASS} WHERE c.relkind IN ('r', 'p', 'f') AND {OWN_REL}",
    ),
    "db.trigger": (
        ("table", "name", "enabled"),
        f"SELECT {REL}, x.tgname::text, x.tgenabled::text FROM pg_trigger x"
        f" {_OF_TABLE} x.tgrelid WHERE (NOT x.tgisinternal OR x.tgenabled <> 'O') AND {OWN_REL}",
    ),
    "db.view": (
        ("name",),
        f"SELECT {REL} FROM {CLASS} WHERE c.relkind IN ('v', 'm') AND {OWN_REL}",
    ),
}
"""Listing → fields of it, its key first, and the query whose columns they are."""
