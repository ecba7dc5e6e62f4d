"""Which rows of the catalogue say whether a listing is the same at two moments, and what of it.

Each entry is SQL: a row `c` of one of the catalogue's tables as it is digested, and which rows are.
What belongs to temporary objects is left out: no listing has them. `PLAIN` are fields of listings
that are columns of the catalogue, which follow the moment: the server's functions that describe an
object speak of it as it is now, and none is called here.
"""

# ruff: noqa: S608, ISC004 - every query is built of text in this package
from __future__ import annotations

from typing import Final

from statediff_postgres.naming import CLASS, FIRST_OWN, OWN_REL, REL

WHOLE: Final = ("c::text", "")
_HIDDEN_SCHEMAS: Final = "(SELECT n.oid FROM pg_namespace n WHERE n.nspname ~ '^pg_(toast|temp)')"
_HIDDEN: Final = f"(SELECT r.oid FROM pg_class r WHERE r.relnamespace IN {_HIDDEN_SCHEMAS})"
_HIDDEN_TYPES: Final = f"(SELECT y.oid FROM pg_type y WHERE y.typnamespace IN {_HIDDEN_SCHEMAS})"
_HIDDEN_FUNCTIONS: Final = (
    f"(SELECT p.oid FROM pg_proc p WHERE p.pronamespace IN {_HIDDEN_SCHEMAS})"
)
_SHOWN_SCHEMA: Final = "WHERE c.nspname !~ '^pg_(toast|temp)'"
_COUNTED: Final = (
    "relpages,reltuples,relallvisible,relfrozenxid,relminmxid,relfilenode,reltoastrelid,"
    "relhasindex,relhasrules,relhastriggers,relhassubclass,relacl"
)


def _own(number: str, left_out: str, condition: str = "") -> tuple[str, str]:
    """Rows of objects that the server did not come with."""
    left = f"to_jsonb(c) - '{{{left_out}}}'::text[]" if left_out else "c"
    return left, f"WHERE c.{number} >= {FIRST_OWN} {condition}"


ROWS: Final = {
    "pg_class": _own("oid", _COUNTED, f"AND c.relnamespace NOT IN {_HIDDEN_SCHEMAS}"),
    "pg_attribute": _own("attrelid", "attacl", f"AND c.attrelid NOT IN {_HIDDEN}"),
    "pg_attrdef": _own("adrelid", "", f"AND c.adrelid NOT IN {_HIDDEN}"),
    "pg_index": _own("indexrelid", "indisclustered", f"AND c.indexrelid NOT IN {_HIDDEN}"),
    "pg_type": _own("oid", "typacl", f"AND c.typnamespace NOT IN {_HIDDEN_SCHEMAS}"),
    "pg_proc": _own("oid", "proacl", f"AND c.pronamespace NOT IN {_HIDDEN_SCHEMAS}"),
    "pg_constraint": _own("oid", "", f"AND c.connamespace NOT IN {_HIDDEN_SCHEMAS}"),
    "pg_namespace": ("(c.oid, c.nspname, c.nspowner)", _SHOWN_SCHEMA),
    "pg_depend": (
        "c",
        f"""WHERE c.classid = 'pg_class'::regclass AND c.deptype IN ('a', 'i')
           AND c.refobjsubid > 0 AND c.objid IN (SELECT s.seqrelid FROM pg_sequence s)
           AND c.objid NOT IN {_HIDDEN}""",
    ),
    "pg_description": (
        "c",
        f"""WHERE NOT (c.classoid = 'pg_class'::regclass AND c.objoid IN {_HIDDEN}
           OR c.classoid = 'pg_type'::regclass AND c.objoid IN {_HIDDEN_TYPES}
           OR c.classoid = 'pg_proc'::regclass AND c.objoid IN {_HIDDEN_FUNCTIONS})""",
    ),
    **{
        catalogue: ("c", f"WHERE c.{column} NOT IN {hidden}")
        for hidden, columns in (
            (
                _HIDDEN,
                {
                    "pg_inherits": "inhrelid",
                    "pg_partitioned_table": "partrelid",
                    "pg_policy": "polrelid",
                    "pg_rewrite": "ev_class",
                    "pg_sequence": "seqrelid",
                    "pg_trigger": "tgrelid",
                },
            ),
            (_HIDDEN_TYPES, {"pg_enum": "enumtypid", "pg_range": "rngtypid"}),
            (_HIDDEN_FUNCTIONS, {"pg_aggregate": "aggfnoid::oid"}),
            (_HIDDEN_SCHEMAS, {"pg_statistic_ext": "stxnamespace"}),
        )
        for catalogue, column in columns.items()
    },
}
"""Catalogue → what a listing may rest on: no counts that the server keeps, no privileges (they are
listed for themselves), nothing that is hidden from listings."""
NAMES: Final = {
    "pg_authid": ("(c.oid, c.rolname)", ""),
    "pg_proc": (
        "(c.oid, c.proname, c.pronamespace, c.proargtypes)",
        f"WHERE c.pronamespace NOT IN {_HIDDEN_SCHEMAS}",
    ),
    "pg_type": (
        "(c.oid, c.typname, c.typnamespace)",
        f"WHERE c.typnamespace NOT IN {_HIDDEN_SCHEMAS}",
    ),
    "pg_namespace": ("(c.oid, c.nspname)", _SHOWN_SCHEMA),
}
"""Catalogue → what the server's functions need to name its objects."""

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
