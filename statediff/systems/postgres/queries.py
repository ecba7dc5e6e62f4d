"""Queries of PostgreSQL's catalogue: tables and columns, grants, settings, and all the rest.

They are read under `search_path = pg_catalog` and call nothing but the server's own functions, none
of which runs what a schema defines. Objects that the server comes with are left out.
"""

# ruff: noqa: S608 - every query is built of text in this file

from __future__ import annotations

from typing import Final

FIRST_OWN: Final = 16384
"""The first number that the server gives to an object it did not come with."""


def part(column: str) -> str:
    """SQL: the name, in quotation marks where it could be read as two or as a reserved one."""
    return (
        f"CASE WHEN {column} ~ '^[^.\"]+$' AND {column} NOT IN ('db', 'git') THEN {column}::text"
        f" ELSE '\"' || replace({column}::text, '\"', '\"\"') || '\"' END"
    )


def qualified(schema: str, name: str) -> str:
    """SQL: `orders` in the schema `public`, `archive.orders` elsewhere."""
    return f"(CASE {schema} WHEN 'public' THEN '' ELSE {part(schema)} || '.' END || {part(name)})"


REL: Final = qualified("n.nspname", "c.relname")
OWN_REL: Final = (
    f"c.oid >= {FIRST_OWN} AND c.relpersistence <> 't' AND n.nspname !~ '^pg_(toast|temp)'"
)
CLASS: Final = "pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"

TABLES: Final = f"""
SELECT c.oid, n.nspname::text, c.relname::text, {REL}, c.relkind::text, c.relispartition,
  coalesce(pg_relation_size(nullif(c.reltoastrelid, 0)), 0)::int8
  + coalesce((SELECT sum(pg_relation_size(nullif(f.reltoastrelid, 0)))
    FROM pg_partition_tree(c.oid) t JOIN pg_class f ON f.oid = t.relid), 0)::int8,
  EXISTS (SELECT FROM pg_partition_tree(c.oid) t JOIN pg_class f ON f.oid = t.relid
          WHERE f.relkind = 'f')
FROM {CLASS} WHERE c.relkind IN ('r', 'p', 'm', 'f') AND {OWN_REL} ORDER BY 4
"""
"""Every table: number, schema, name, its name as a type, kind, whether it is a partition, the size
of what is stored outside its rows, whether a part of it is foreign."""

PLANNED: Final = """
SELECT DISTINCT coalesce(pg_partition_root(u.oid), u.oid)::int8 FROM (
  SELECT coalesce(i.indrelid, s.stxrelid, d.objid) AS oid
  FROM pg_depend d
  LEFT JOIN pg_operator o ON d.refclassid = 'pg_operator'::regclass AND o.oid = d.refobjid
  JOIN pg_proc p ON p.oid = coalesce(o.oprcode, d.refobjid)
  LEFT JOIN pg_index i ON d.classid = 'pg_class'::regclass AND i.indexrelid = d.objid
  LEFT JOIN pg_statistic_ext s ON d.classid = 'pg_statistic_ext'::regclass AND s.oid = d.objid
  WHERE d.classid IN ('pg_class'::regclass, 'pg_statistic_ext'::regclass)
    AND d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass)
    AND p.oid >= 16384 AND p.prolang NOT IN
      (SELECT l.oid FROM pg_language l WHERE l.lanname IN ('internal', 'c'))
) u
"""
"""The tables whose indexes, statistics or partitions call a function that was written in the
database: the server runs it while it plans a statement on them, as whoever asks."""

COLUMNS: Final = f"""
SELECT a.attrelid, a.attname::text, a.atttypid, format_type(a.atttypid, a.atttypmod),
  a.attnotnull, t.typnamespace = 'pg_catalog'::regnamespace
FROM pg_attribute a JOIN {CLASS} ON c.oid = a.attrelid JOIN pg_type t ON t.oid = a.atttypid
WHERE c.relkind IN ('r', 'p', 'm', 'f') AND a.attnum > 0 AND NOT a.attisdropped AND {OWN_REL}
ORDER BY a.attrelid, a.attnum
"""

TYPES: Final = """
SELECT oid, typtype = 'd', typbasetype, CASE WHEN typcategory = 'A' THEN typelem ELSE 0 END
FROM pg_type WHERE typtype = 'd' OR typcategory = 'A'
"""
"""Domains and arrays: what they are made of."""

KEYS: Final = f"""
SELECT i.indrelid, array_agg(a.attname::text ORDER BY k.at)
FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY k(attnum, at)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE i.indisprimary AND i.indisvalid AND k.at <= i.indnkeyatts AND i.indrelid >= {FIRST_OWN}
GROUP BY i.indrelid
"""

REFERENCES: Final = f"""
SELECT r.conrelid, a.attname::text, r.confrelid, b.attname::text
FROM pg_constraint r
JOIN pg_attribute a ON a.attrelid = r.conrelid AND a.attnum = r.conkey[1]
JOIN pg_attribute b ON b.attrelid = r.confrelid AND b.attnum = r.confkey[1]
WHERE r.contype = 'f' AND cardinality(r.conkey) = 1 AND r.conrelid >= {FIRST_OWN}
ORDER BY r.conname DESC
"""

SEQUENCES: Final = f"""
SELECT {REL}, n.nspname::text, c.relname::text, s.seqstart
FROM pg_sequence s JOIN {CLASS} ON c.oid = s.seqrelid WHERE {OWN_REL}
"""

ROLE: Final = "CASE {0} WHEN 0 THEN 'public' ELSE pg_get_userbyid({0})::text END"


def _acl(object_name: str, acl: str, kind: str, owner: str, tables: str) -> str:
    return (
        f"SELECT {object_name} AS object, {acl} AS acl, acldefault('{kind}', {owner}) AS usual"
        f" FROM {tables}"
    )


_DATABASE: Final = "d.datname = current_database()"
_ACLS: Final = " UNION ALL ".join(
    (
        _acl(f"'table ' || {REL}", "c.relacl", "r", "c.relowner",
             f"{CLASS} WHERE c.relkind IN ('r', 'p', 'm', 'f', 'v') AND {OWN_REL}"),
        _acl(f"'sequence ' || {REL}", "c.relacl", "s", "c.relowner",
             f"{CLASS} WHERE c.relkind = 'S' AND {OWN_REL}"),
        _acl(f"'column ' || {REL} || '.' || {part('a.attname')}", "a.attacl", "c", "c.relowner",
             f"pg_attribute a JOIN {CLASS} ON c.oid = a.attrelid"
             f" WHERE a.attacl IS NOT NULL AND {OWN_REL}"),
        _acl(f"'schema ' || {part('n.nspname')}", "n.nspacl", "n", "n.nspowner",
             "pg_namespace n WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'"),
        _acl("'function ' || p.oid::regprocedure::text", "p.proacl", "f", "p.proowner",
             f"pg_proc p WHERE p.oid >= {FIRST_OWN}"),
        _acl(f"'type ' || {qualified('n.nspname', 't.typname')}", "t.typacl", "T", "t.typowner",
             "pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.typacl IS NOT NULL"),
        _acl("'database'", "d.datacl", "d", "d.datdba", f"pg_database d WHERE {_DATABASE}"),
        _acl("'language ' || l.lanname", "l.lanacl", "l", "l.lanowner",
             "pg_language l WHERE l.lanacl IS NOT NULL"),
        _acl("'large object ' || l.oid", "l.lomacl", "L", "l.lomowner",
             "pg_largeobject_metadata l WHERE l.lomacl IS NOT NULL"),
        "SELECT 'setting ' || parname, paracl, NULL::aclitem[] FROM pg_parameter_acl",
        (f"SELECT 'to come: ' || defaclobjtype::text || ' of ' || {ROLE.format('defaclrole')}"
        f" || coalesce(' in ' || {part('n.nspname')}, ''), defaclacl, CASE defaclnamespace WHEN 0"
        " THEN acldefault(CASE defaclobjtype WHEN 'S' THEN 's' ELSE defaclobjtype END, defaclrole)"
        " END FROM pg_default_acl LEFT JOIN pg_namespace n ON n.oid = defaclnamespace"),
    )
)  # fmt: skip
GRANTS: Final = f"""
WITH lists AS ({_ACLS}),
now AS (SELECT l.object, a.* FROM lists l, aclexplode(coalesce(l.acl, l.usual)) a),
usual AS (SELECT l.object, a.* FROM lists l, aclexplode(l.usual) a),
change AS (
  SELECT object, grantee, privilege_type, grantor, is_grantable FROM
    (SELECT * FROM now EXCEPT SELECT * FROM usual) more
  UNION ALL
  SELECT object, grantee, 'without ' || privilege_type, grantor, is_grantable FROM
    (SELECT * FROM usual EXCEPT SELECT * FROM now) fewer
)
SELECT {ROLE.format("grantee")}, object, privilege_type,
  string_agg(pg_get_userbyid(grantor)::text || CASE WHEN is_grantable THEN ' (may pass it on)'
  ELSE '' END, ', ' ORDER BY grantor, is_grantable)
FROM change GROUP BY grantee, object, privilege_type
"""

SETTINGS: Final = """
SELECT CASE setrole WHEN 0 THEN '' ELSE 'role ' || pg_get_userbyid(setrole) || ' ' END
  || CASE setdatabase WHEN 0 THEN '' ELSE 'database ' END || split_part(entry, '=', 1),
  substr(entry, strpos(entry, '=') + 1)
FROM pg_db_role_setting LEFT JOIN pg_database d ON d.oid = setdatabase, unnest(setconfig) entry
WHERE setdatabase = 0 OR d.datname = current_database()
UNION ALL
SELECT name, reset_val FROM pg_settings
WHERE reset_val IS DISTINCT FROM boot_val AND source <> 'client' AND context <> 'internal'
  AND category <> 'File Locations'
"""

_OTHER: Final = (
    "pg_am", "pg_cast", "pg_collation", "pg_conversion", "pg_default_acl",
    "pg_foreign_data_wrapper", "pg_foreign_server", "pg_language", "pg_opclass", "pg_operator",
    "pg_opfamily", "pg_publication", "pg_publication_namespace", "pg_publication_rel",
    "pg_statistic_ext", "pg_transform", "pg_ts_config", "pg_ts_dict", "pg_ts_parser",
    "pg_ts_template", "pg_user_mapping",
)  # fmt: skip
OBJECTS: Final = " UNION ALL ".join(
    f"SELECT i.type, i.identity, (to_jsonb(o) - 'oid')::text FROM {table} o,"
    f" pg_identify_object('{table}'::regclass, o.oid, 0) i WHERE o.oid >= {FIRST_OWN}"
    for table in _OTHER
)
COMMENTS: Final = """
SELECT 'comment', i.type || ' ' || i.identity, max(o.description) FROM pg_description o,
 pg_identify_object(o.classoid, o.objoid, o.objsubid) i
WHERE o.objoid >= 16384 GROUP BY 2
"""
