"""PostgreSQL's catalogue beyond the listings: of what the server came with, and the rest.

A relation, a column or an index has a row only where something is not as usual, so that what
is made in the usual way is in its own listing alone.
"""

# ruff: noqa: S608, ISC004 - every query is built of text in this file
from __future__ import annotations

from typing import Final

from statediff_postgres.naming import CLASS, FIRST_OWN, OWN_REL, REL, part, qualified

_SERVERS_OWN: Final = {
    **dict.fromkeys(
        (
            "pg_am",
            "pg_amop",
            "pg_amproc",
            "pg_cast",
            "pg_collation",
            "pg_conversion",
            "pg_opclass",
            "pg_opfamily",
            "pg_proc",
            "pg_tablespace",
            "pg_ts_config",
            "pg_ts_dict",
            "pg_ts_parser",
            "pg_ts_template",
            "pg_type",
        ),
        ("oid", "x::text"),
    ),
    "pg_aggregate": ("aggfnoid", "x::text"),
    "pg_attribute": ("attrelid", "x.attname || x.attacl::text"),
    "pg_class": ("oid", "concat_ws(' ', x.relname, x.relkind, x.relowner, x.relacl, x.reloptions)"),
    "pg_language": ("oid", "(to_jsonb(x) - 'lanacl')::text"),
    "pg_operator": (
        "oid",
        "concat_ws(' ', x.oprname, x.oprnamespace, x.oprowner, x.oprkind, x.oprcanmerge,"
        " x.oprcanhash, x.oprleft, x.oprright, x.oprresult, x.oprcom, x.oprnegate,"
        " x.oprcode::oid, x.oprrest::oid, x.oprjoin::oid)",  # as names they take ten times as long
    ),
    "pg_range": ("rngtypid", "x::text"),
    "pg_ts_config_map": ("mapcfg", "x::text"),
}
"""Catalogue → the number of the object that a row speaks of, and what of the row is reported."""
BUILT_IN: Final = " UNION ALL ".join(
    f"SELECT 'what the server came with', '{table}',"
    f" md5(string_agg(line, E'\\n' ORDER BY at, line COLLATE \"C\"))"
    f" FROM (SELECT x.{number}::oid AS at, {line} AS line FROM {table} x"
    f" WHERE x.{number}::oid < {FIRST_OWN} OFFSET 0) y"
    for table, (number, line) in _SERVERS_OWN.items()
)
"""One digest for each catalogue of functions, types, operators and their kin: of what the server
came with, which only its owner can change."""


def rest(row: str, said: str, usual: str) -> str:
    """SQL: the columns of a row that are in no other field and not as usual."""
    return (
        f"(SELECT string_agg(key || ' ' || value, ', ' ORDER BY key) FROM"
        f" jsonb_each_text(to_jsonb({row}) - '{{{said}}}'::text[])"
        f" WHERE value IS NOT NULL AND (key, value) NOT IN ({usual}))"
    )


_RELATION_SAID: Final = (
    "oid,relname,relnamespace,reltype,relowner,relfilenode,relpages,reltuples,relallvisible,"
    "relallfrozen,reltoastrelid,relhasindex,relisshared,relnatts,relchecks,relhasrules,"
    "relhastriggers,relhassubclass,relrowsecurity,relforcerowsecurity,relreplident,relispartition,"
    "relrewrite,relfrozenxid,relminmxid,relacl,relpartbound,relkind,relpersistence"
)
_COLUMN_SAID: Final = (
    "attrelid,attname,atttypid,attlen,attnum,attcacheoff,atttypmod,attbyval,attalign,attnotnull,"
    "atthasdef,atthasmissing,attidentity,attgenerated,attisdropped,attislocal,attinhcount,attacl,"
    "attcollation,attmissingval,attoptions"
)
_INDEX_SAID: Final = (
    "indexrelid,indrelid,indnatts,indnkeyatts,indisunique,indnullsnotdistinct,indisprimary,"
    "indisexclusion,indimmediate,indisclustered,indisvalid,indcheckxmin,indisready,indislive,indkey,indcollation,"
    "indclass,indoption,indexprs,indpred"
)
_FURTHER: Final = (
    (
        f"'further of ' || CASE c.relkind WHEN 't' THEN 'values outside the rows of ' ELSE '' END"
        f" || 'relation', {qualified('n.nspname', 'coalesce(t.relname, c.relname)')}",
        rest(
            "c",
            _RELATION_SAID,
            "('relam', CASE WHEN c.relkind IN ('r', 'm', 't') THEN '2' ELSE c.relam::text END),"
            " ('reloptions', CASE c.relkind WHEN 't' THEN '' ELSE to_jsonb(c)->>'reloptions' END),"
            " ('reltablespace', '0'), ('reloftype', '0'), ('relispopulated', 'true'),"
            " ('relispopulated', CASE c.relkind WHEN 'm' THEN 'false' ELSE '' END)",
        ),
        "pg_class c LEFT JOIN pg_class t ON t.reltoastrelid = c.oid"
        " JOIN pg_namespace n ON n.oid = coalesce(t.relnamespace, c.relnamespace)"
        f" WHERE c.oid >= {FIRST_OWN} AND c.relpersistence <> 't'",
    ),
    (
        f"'further of column', {REL} || '.' || {part('a.attname')}",
        "nullif(concat_ws(', ', (SELECT string_agg(o, ', ') FROM unnest(a.attoptions) o"
        " WHERE o NOT LIKE 'pg\\_attver=%'), "  # which the server itself counts
        + rest(
            "a",
            _COLUMN_SAID,
            "('attstattarget', '-1'), ('attcompression', ''),"
            " ('attndims', (y.typcategory = 'A')::int::text), ('attndims', a.attndims::text),"
            " ('attstorage', y.typstorage::text)",
        )
        + "), '')",
        f"pg_attribute a JOIN {CLASS} ON c.oid = a.attrelid JOIN pg_type y ON y.oid = a.atttypid"
        f" WHERE a.attnum > 0 AND NOT a.attisdropped AND {OWN_REL}",
    ),
    (
        f"'further of index', {REL}",
        rest("i", _INDEX_SAID, "('indisreplident', 'false')"),
        f"pg_index i JOIN {CLASS} ON c.oid = i.indexrelid WHERE {OWN_REL}",
    ),
    (
        "'further of extension', e.extname::text",
        rest(
            "e",
            "oid,extname,extowner,extnamespace,extversion,extcondition,extrelocatable,extconfig",
            "('', '')",
        ),
        "pg_extension e",
    ),
    (
        f"'further of foreign table', {REL}",
        rest("f", "ftrelid", "('', '')"),
        f"pg_foreign_table f JOIN {CLASS} ON c.oid = f.ftrelid WHERE {OWN_REL}",
    ),
    (
        "'further of inheritance', i.inhrelid::regclass || ' of ' || i.inhparent::regclass",
        rest("i", "inhrelid,inhparent,inhseqno", "('inhdetachpending', 'false')"),
        "pg_inherits i",
    ),
    ("'replication origin', roname", "''", "pg_replication_origin"),
    (
        "'comment on the server', i.type || ' ' || i.identity",
        "d.description",
        "pg_shdescription d, pg_identify_object(d.classoid, d.objoid, 0) i"
        " WHERE d.classoid <> 'pg_database'::regclass OR d.objoid = "
        "(SELECT oid FROM pg_database WHERE datname = current_database())",
    ),
    (
        "'subscription', subname::text",
        "(to_jsonb(s) - '{oid,subdbid,subname,subskiplsn}'::text[])::text",
        "pg_subscription s WHERE subdbid = (SELECT oid FROM pg_database"
        " WHERE datname = current_database())",
    ),
    (
        "'depends on extension', pg_describe_object(d.classid, d.objid, d.objsubid)",
        "string_agg(pg_describe_object(d.refclassid, d.refobjid, 0) || ' ' || d.deptype::text,"
        " ', ' ORDER BY d.refobjid, d.deptype)",
        f"pg_depend d WHERE d.objid >= {FIRST_OWN} AND d.deptype IN ('x', 'e') GROUP BY 2",
    ),
)
_SUBSCRIPTION: Final = "'subscription'"


def _further(left_out: str = "") -> str:
    listed = (
        f"SELECT {name}, {rest} FROM {rows}"
        for name, rest, rows in _FURTHER
        if not left_out or not name.startswith(left_out)
    )
    whole = f"SELECT kind, name, rest FROM ({' UNION ALL '.join(listed)}) g (kind, name, rest)"
    return f"{whole} WHERE rest IS NOT NULL"


FURTHER: Final = _further()
"""What no field of another type says of a relation, a column or an index, where it is not usual."""
FURTHER_FOR_ALL: Final = _further(_SUBSCRIPTION)
"""The same as far as every account may read it."""
