"""Queries of PostgreSQL's catalogue: tables and columns, schema objects, roles, grants, settings.

They are read under `search_path = pg_catalog` and call nothing but the server's own functions, none
of which runs what a schema defines. `LISTINGS` has one query for each entity type. Grants are
differences from what an owner has anyway; objects that the server comes with are left out.
"""

# ruff: noqa: S608 - every query is built of text in this file and `postgres.queries`
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from statediff.model.schema import EntityType, Field, Kind
from statediff_postgres.further import BUILT_IN, FURTHER, rest
from statediff_postgres.naming import (
    CLASS,
    FIRST_OWN,
    OWN_FUNCTION,
    OWN_REL,
    REL,
    part,
    qualified,
)

TABLES: Final = f"""
SELECT c.oid, n.nspname::text, c.relname::text, {REL}, c.relkind::text, c.relispartition,
  coalesce(pg_relation_size(nullif(c.reltoastrelid, 0)), 0)::int8
  + coalesce((SELECT sum(pg_relation_size(nullif(f.reltoastrelid, 0)))
    FROM pg_partition_tree(c.oid) t JOIN pg_class f ON f.oid = t.relid), 0)::int8,
  EXISTS (SELECT FROM pg_partition_tree(c.oid) t JOIN pg_class f ON f.oid = t.relid
          WHERE f.relkind = 'f'),
  NOT has_table_privilege(c.oid, 'SELECT') AND NOT has_any_column_privilege(c.oid, 'SELECT')
  AND (has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')
    OR has_any_column_privilege(c.oid, 'INSERT, UPDATE'))
FROM {CLASS} WHERE c.relkind IN ('r', 'p', 'm', 'f') AND {OWN_REL} ORDER BY 4
"""
"""Every table: number, schema, name, its name as a type, kind, whether it is a partition, the size
of what is stored outside its rows, whether a part of it is foreign, and whether the account may
write it and not read it."""

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
database: the server runs it while it plans a statement on them, with the caller's rights."""

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
  AND has_sequence_privilege(s.seqrelid, 'SELECT') AND has_schema_privilege(n.oid, 'USAGE')
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
        _acl(
            f"'table ' || {REL}",
            "c.relacl",
            "r",
            "c.relowner",
            f"{CLASS} WHERE c.relkind IN ('r', 'p', 'm', 'f', 'v') AND {OWN_REL}",
        ),
        _acl(
            f"'sequence ' || {REL}",
            "c.relacl",
            "s",
            "c.relowner",
            f"{CLASS} WHERE c.relkind = 'S' AND {OWN_REL}",
        ),
        _acl(
            f"'column ' || {REL} || '.' || {part('a.attname')}",
            "a.attacl",
            "c",
            "c.relowner",
            f"pg_attribute a JOIN {CLASS} ON c.oid = a.attrelid"
            f" WHERE a.attacl IS NOT NULL AND {OWN_REL}",
        ),
        _acl(
            f"'schema ' || {part('n.nspname')}",
            "n.nspacl",
            "n",
            "n.nspowner",
            "pg_namespace n WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'",
        ),
        _acl(
            "'function ' || p.oid::regprocedure::text",
            "p.proacl",
            "f",
            "p.proowner",
            f"pg_proc p WHERE {OWN_FUNCTION}",
        ),
        _acl(
            f"'type ' || {qualified('n.nspname', 't.typname')}",
            "t.typacl",
            "T",
            "t.typowner",
            "pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.typacl IS NOT NULL",
        ),
        _acl("'database'", "d.datacl", "d", "d.datdba", f"pg_database d WHERE {_DATABASE}"),
        _acl(
            "'language ' || l.lanname",
            "l.lanacl",
            "l",
            "l.lanowner",
            "pg_language l WHERE l.lanacl IS NOT NULL",
        ),
        _acl(
            "'large object ' || l.oid",
            "l.lomacl",
            "L",
            "l.lomowner",
            "pg_largeobject_metadata l WHERE l.lomacl IS NOT NULL",
        ),
        "SELECT 'setting ' || parname, paracl, NULL::aclitem[] FROM pg_parameter_acl",
        (
            f"SELECT 'to come: ' || defaclobjtype::text || ' of ' || {ROLE.format('defaclrole')}"
            f" || coalesce(' in ' || {part('n.nspname')}, ''), defaclacl,"
            " CASE defaclnamespace WHEN 0 THEN"
            " acldefault(CASE defaclobjtype WHEN 'S' THEN 's' ELSE defaclobjtype END, defaclrole)"
            " END FROM pg_default_acl LEFT JOIN pg_namespace n ON n.oid = defaclnamespace"
        ),
    )
)
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

OTHER: Final = (
    "pg_am",
    "pg_cast",
    "pg_collation",
    "pg_conversion",
    "pg_default_acl",
    "pg_foreign_data_wrapper",
    "pg_foreign_server",
    "pg_language",
    "pg_opclass",
    "pg_operator",
    "pg_opfamily",
    "pg_publication",
    "pg_publication_namespace",
    "pg_publication_rel",
    "pg_statistic_ext",
    "pg_tablespace",
    "pg_transform",
    "pg_ts_config",
    "pg_ts_dict",
    "pg_ts_parser",
    "pg_ts_template",
    "pg_user_mapping",
)
_MEMBERS: Final = {
    "pg_opfamily": """|| jsonb_build_object(
      'operators', (SELECT jsonb_agg(to_jsonb(m) - '{oid,amopfamily}'::text[] ORDER BY amoppurpose,
        amopstrategy, amoplefttype, amoprighttype) FROM pg_amop m WHERE amopfamily = o.oid),
      'functions', (SELECT jsonb_agg(to_jsonb(m) - '{oid,amprocfamily}'::text[] ORDER BY amprocnum,
        amproclefttype, amprocrighttype) FROM pg_amproc m WHERE amprocfamily = o.oid))""",
    "pg_ts_config": """|| jsonb_build_object('map', (SELECT jsonb_agg(to_jsonb(m) - 'mapcfg'
      ORDER BY maptokentype, mapseqno) FROM pg_ts_config_map m WHERE mapcfg = o.oid))""",
}
"""Catalogue → what belongs to one of its objects and has no name of its own."""


def objects(tables: Iterable[str]) -> str:
    """The query for the objects of the catalogues, whole."""
    return " UNION ALL ".join(
        f"SELECT i.type, i.identity, (to_jsonb(o) - 'oid' {_MEMBERS.get(table, '')})::text"
        f" FROM {table} o, pg_identify_object('{table}'::regclass, o.oid, 0) i"
        f" WHERE o.oid >= {FIRST_OWN}"
        for table in tables
    )


OBJECTS: Final = objects(OTHER)
COMMENTS: Final = """
(SELECT 'comment', i.type || ' ' || i.identity, max(o.description) FROM pg_description o,
 pg_identify_object(o.classoid, o.objoid, o.objsubid) i
WHERE o.objoid >= 16384 GROUP BY 2)
"""


@dataclass(frozen=True)
class Listing:
    """One `db.` type and the query for its rows, whose columns are the type's fields in order."""

    type: EntityType
    query: str


def _text(name: str, *, optional: bool = False, to: str | None = None) -> Field:
    return Field(name, Kind.TEXT, is_nullable=optional, reference=to)


def _flag(name: str) -> Field:
    return Field(name, Kind.BOOL, is_nullable=False)


def _number(name: str, *, optional: bool = False) -> Field:
    return Field(name, Kind.INT, is_nullable=optional)


_NOTHING: Final = "('', '')"
_NAME: Final = _text("name")
_OWNER: Final = _text("owner", to="db.role")
_TABLE: Final = _text("table", to="db.table")
_DEFINITION: Final = _text("definition", optional=True)

_LOCALE: Final = rest(
    "d",
    "oid,datname,datdba,encoding,datcollate,datallowconn,datconnlimit,datistemplate,datacl,"
    "datfrozenxid,datminmxid,datlastsysoid,dathasloginevt",
    "('datctype', datcollate), ('datlocprovider', 'c'), ('dattablespace', '1663')",
)
_RANGE: Final = (
    f"(SELECT {rest('r', 'rngtypid,rngmultitypid', _NOTHING)} FROM pg_range r"
    " WHERE r.rngtypid = t.oid)"
)
_BASE_TYPE: Final = rest(
    "t",
    "oid,typname,typnamespace,typowner,typtype,typarray,typacl,typrelid,typelem,typdefaultbin",
    _NOTHING,
)
LISTINGS: Final = (
    Listing(
        EntityType(
            "db.column",
            ("table", "name"),
            (
                _TABLE,
                _NAME,
                _number("position"),
                _text("declared_type"),
                _flag("is_required"),
                _text("default", optional=True),
                _number("key_position"),
                _text("generated", optional=True),
                _text("collation", optional=True),
            ),
        ),
        f"""SELECT {REL}, a.attname::text,
              row_number() OVER (PARTITION BY c.oid ORDER BY a.attnum) - 1,
              CASE WHEN t.typnamespace = 'pg_catalog'::regnamespace
                THEN upper(format_type(a.atttypid, a.atttypmod))
                ELSE format_type(a.atttypid, a.atttypmod) END,
              a.attnotnull,
              CASE a.attgenerated WHEN '' THEN pg_get_expr(d.adbin, d.adrelid) END,
              coalesce(array_position(i.indkey::int2[], a.attnum) + 1, 0),
              CASE WHEN a.attgenerated <> '' THEN 'stored: ' || pg_get_expr(d.adbin, d.adrelid)
                WHEN a.attidentity = 'a' THEN 'identity, always'
                WHEN a.attidentity = 'd' THEN 'identity, by default' END,
              CASE WHEN a.attcollation <> t.typcollation THEN l.collname::text END
            FROM pg_attribute a JOIN {CLASS} ON c.oid = a.attrelid
            JOIN pg_type t ON t.oid = a.atttypid
            LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
            LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
            LEFT JOIN pg_collation l ON l.oid = a.attcollation
            WHERE c.relkind IN ('r', 'p', 'm', 'f') AND a.attnum > 0 AND NOT a.attisdropped
              AND {OWN_REL}""",
    ),
    Listing(
        EntityType(
            "db.constraint",
            ("table", "name"),
            (_TABLE, _NAME, _DEFINITION, _flag("is_validated")),
        ),
        f"""SELECT {REL}, r.conname::text, pg_get_constraintdef(r.oid), r.convalidated
            FROM pg_constraint r JOIN {CLASS} ON c.oid = r.conrelid WHERE {OWN_REL}""",
    ),
    Listing(
        EntityType(
            "db.database",
            ("name",),
            (
                _NAME,
                _OWNER,
                _text("encoding"),
                _text("collate"),
                _flag("allows_connections"),
                _number("connection_limit"),
                _flag("is_template"),
                _text("acl", optional=True),
            ),
        ),
        f"""SELECT datname::text, pg_get_userbyid(datdba)::text,
             pg_encoding_to_char(encoding)::text, concat_ws(' ', datcollate, {_LOCALE}),
             datallowconn, datconnlimit, datistemplate, datacl::text
           FROM pg_database d""",
    ),
    Listing(
        EntityType(
            "db.event_trigger",
            ("name",),
            (
                _NAME,
                _OWNER,
                _text("event"),
                _text("function"),
                _text("enabled"),
                _text("tags", optional=True),
            ),
        ),
        """SELECT evtname::text, pg_get_userbyid(evtowner)::text, evtevent::text,
             evtfoid::regprocedure::text, evtenabled::text, evttags::text FROM pg_event_trigger""",
    ),
    Listing(
        EntityType("db.extension", ("name",), (_NAME, _text("version"), _OWNER, _text("schema"))),
        """SELECT extname::text, extversion, pg_get_userbyid(extowner)::text, n.nspname::text
           FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace""",
    ),
    Listing(
        EntityType(
            "db.function",
            ("name",),
            (_NAME, _OWNER, _text("kind"), _DEFINITION, _flag("is_security_definer")),
        ),
        f"""SELECT p.oid::regprocedure::text, pg_get_userbyid(p.proowner)::text, p.prokind::text,
              CASE p.prokind WHEN 'a' THEN (SELECT to_jsonb(a)::text FROM pg_aggregate a
              WHERE a.aggfnoid = p.oid) ELSE pg_get_functiondef(p.oid) END, p.prosecdef
            FROM pg_proc p WHERE {OWN_FUNCTION}""",
    ),
    Listing(
        EntityType(
            "db.grant",
            ("role", "object", "privilege"),
            (_text("role", to="db.role"), _text("object"), _text("privilege"), _text("by")),
        ),
        GRANTS,
    ),
    Listing(
        EntityType("db.index", ("name",), (_NAME, _TABLE, _DEFINITION, _flag("is_valid"))),
        f"""SELECT {REL}, {qualified("m.nspname", "t.relname")}, pg_get_indexdef(c.oid),
              i.indisvalid AND i.indisready AND i.indislive
            FROM {CLASS} JOIN pg_index i ON i.indexrelid = c.oid
            JOIN pg_class t ON t.oid = i.indrelid JOIN pg_namespace m ON m.oid = t.relnamespace
            WHERE {OWN_REL}""",
    ),
    Listing(
        EntityType(
            "db.large_object",
            ("id",),
            (_number("id"), _OWNER, _number("size_bytes"), _text("digest", optional=True)),
        ),
        """SELECT m.oid::int8, pg_get_userbyid(m.lomowner)::text,
             coalesce(sum(octet_length(l.data)), 0)::int8,
             encode(sha256(string_agg(int4send(l.pageno) || sha256(l.data), ''::bytea
               ORDER BY l.pageno)), 'hex')
           FROM pg_largeobject_metadata m LEFT JOIN pg_largeobject l ON l.loid = m.oid
           GROUP BY m.oid, m.lomowner""",
    ),
    Listing(
        EntityType(
            "db.membership",
            ("role", "member"),
            (_text("role", to="db.role"), _text("member", to="db.role"), _flag("is_admin")),
            is_association=True,
        ),
        """SELECT pg_get_userbyid(roleid)::text, pg_get_userbyid(member)::text,
             bool_or(admin_option) FROM pg_auth_members WHERE member >= 16384 GROUP BY 1, 2""",
    ),
    Listing(
        EntityType("db.object", ("kind", "name"), (_text("kind"), _NAME, _DEFINITION)),
        f"{OBJECTS} UNION ALL {COMMENTS} UNION ALL {BUILT_IN} UNION ALL {FURTHER}",
    ),
    Listing(
        EntityType(
            "db.policy",
            ("table", "name"),
            (
                _TABLE,
                _NAME,
                _text("command"),
                _flag("is_permissive"),
                _text("roles"),
                _text("using", optional=True),
                _text("check", optional=True),
            ),
        ),
        f"""SELECT {REL}, p.polname::text, p.polcmd::text, p.polpermissive,
              (SELECT string_agg({ROLE.format("r")}, ', ' ORDER BY r) FROM unnest(p.polroles) r),
              pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid)
            FROM pg_policy p JOIN {CLASS} ON c.oid = p.polrelid WHERE {OWN_REL}""",
    ),
    Listing(
        EntityType(
            "db.role",
            ("name",),
            (
                _NAME,
                _flag("can_log_in"),
                _flag("is_superuser"),
                _flag("may_create_databases"),
                _flag("may_create_roles"),
                _flag("may_replicate"),
                _flag("bypasses_row_security"),
                _flag("inherits"),
                _number("connection_limit"),
                _text("valid_until", optional=True),
                _text("password", optional=True),
            ),
        ),
        f"""SELECT rolname::text, rolcanlogin, rolsuper, rolcreatedb, rolcreaterole,
              rolreplication, rolbypassrls, rolinherit, rolconnlimit, rolvaliduntil::text,
              encode(sha256(convert_to(rolpassword, 'UTF8')), 'hex')
            FROM pg_authid WHERE oid = 10 OR oid >= {FIRST_OWN}""",
    ),
    Listing(
        EntityType("db.rule", ("table", "name"), (_TABLE, _NAME, _DEFINITION, _text("enabled"))),
        f"""SELECT {REL}, r.rulename::text, pg_get_ruledef(r.oid), r.ev_enabled::text
            FROM pg_rewrite r JOIN {CLASS} ON c.oid = r.ev_class
            WHERE (c.relkind NOT IN ('v', 'm') OR r.rulename <> '_RETURN' OR r.ev_enabled <> 'O')
              AND {OWN_REL}""",
    ),
    Listing(
        EntityType("db.schema", ("name",), (_NAME, _OWNER)),
        """SELECT nspname::text, pg_get_userbyid(nspowner)::text FROM pg_namespace
           WHERE nspname !~ '^pg_(toast|temp)'""",
    ),
    Listing(
        EntityType(
            "db.sequence",
            ("name",),
            (_NAME, Field("value", Kind.ANY), _text("owned_by", optional=True), _DEFINITION),
        ),
        f"""SELECT {REL}, pg_sequence_last_value(c.oid),
              (SELECT i.identity FROM pg_depend d, pg_identify_object(d.refclassid, d.refobjid,
               d.refobjsubid) i WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
               AND d.deptype IN ('a', 'i') AND d.refobjsubid > 0 LIMIT 1),
              (to_jsonb(s) - 'seqrelid' || jsonb_build_object('owner',
               pg_get_userbyid(c.relowner), 'is_unlogged', c.relpersistence = 'u'))::text
            FROM pg_sequence s JOIN {CLASS} ON c.oid = s.seqrelid WHERE {OWN_REL}""",
    ),
    Listing(
        EntityType("db.setting", ("name",), (_NAME, Field("value", Kind.ANY))),
        SETTINGS,
    ),
    Listing(
        EntityType(
            "db.table",
            ("name",),
            (
                _NAME,
                _text("kind"),
                _DEFINITION,
                _OWNER,
                _flag("is_unlogged"),
                _text("row_security"),
                _text("replica_identity"),
            ),
        ),
        f"""SELECT {REL}, CASE WHEN c.relispartition THEN 'partition' ELSE
              CASE c.relkind WHEN 'p' THEN 'partitioned' WHEN 'f' THEN 'foreign' ELSE 'table' END
              END,
              nullif(concat_ws(' ', 'partition by ' || pg_get_partkeydef(c.oid),
              pg_get_expr(c.relpartbound, c.oid),
              (SELECT 'inherits ' || string_agg(h.inhparent::regclass::text, ', '
                ORDER BY h.inhseqno) FROM pg_inherits h WHERE h.inhrelid = c.oid),
              'with ' || array_to_string(c.reloptions, ', ')), ''),
              pg_get_userbyid(c.relowner)::text, c.relpersistence = 'u',
              CASE WHEN c.relforcerowsecurity AND c.relrowsecurity THEN 'forced'
                WHEN c.relrowsecurity THEN 'on' WHEN c.relforcerowsecurity THEN 'off, to be forced'
                ELSE 'off' END,
              c.relreplident::text
            FROM {CLASS} WHERE c.relkind IN ('r', 'p', 'f') AND {OWN_REL}""",
    ),
    Listing(
        EntityType(
            "db.trigger",
            ("table", "name"),
            (_TABLE, _NAME, _DEFINITION, _text("enabled")),
        ),
        f"""SELECT {REL}, t.tgname::text, pg_get_triggerdef(t.oid), t.tgenabled::text
            FROM pg_trigger t JOIN {CLASS} ON c.oid = t.tgrelid
            WHERE (NOT t.tgisinternal OR t.tgenabled <> 'O') AND {OWN_REL}""",
    ),
    Listing(
        EntityType("db.type", ("name",), (_NAME, _text("kind"), _DEFINITION, _OWNER)),
        f"""SELECT {qualified("n.nspname", "t.typname")}, t.typtype::text,
              concat_ws(' ',
              (SELECT string_agg(quote_literal(e.enumlabel), ', ' ORDER BY e.enumsortorder)
               FROM pg_enum e WHERE e.enumtypid = t.oid),
              CASE t.typtype WHEN 'd' THEN format_type(t.typbasetype, t.typtypmod) END,
              CASE WHEN t.typnotnull THEN 'not null' END, 'default ' || t.typdefault,
              (SELECT string_agg(concat_ws(' ', 'constraint', k.conname,
               pg_get_constraintdef(k.oid)), ' ' ORDER BY k.conname)
               FROM pg_constraint k WHERE k.contypid = t.oid),
              (SELECT string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ', '
               ORDER BY a.attnum) FROM pg_attribute a WHERE a.attrelid = t.typrelid
               AND NOT a.attisdropped),
              {_RANGE}, (SELECT 'collate ' || l.collname FROM pg_collation l
               WHERE l.oid = t.typcollation AND t.typtype = 'd'),
              CASE t.typtype WHEN 'b' THEN {_BASE_TYPE} END),
              pg_get_userbyid(t.typowner)::text
            FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
            LEFT JOIN pg_class c ON c.oid = t.typrelid
            WHERE t.oid >= {FIRST_OWN} AND t.typcategory <> 'A' AND n.nspname !~ '^pg_(toast|temp)'
              AND (c.oid IS NULL OR c.relkind = 'c')""",
    ),
    Listing(
        EntityType(
            "db.view",
            ("name",),
            (_NAME, _DEFINITION, _OWNER, _text("kind"), _text("options", optional=True)),
        ),
        f"""SELECT {REL}, pg_get_viewdef(c.oid), pg_get_userbyid(c.relowner)::text,
              CASE c.relkind WHEN 'v' THEN 'view' ELSE 'materialized' ||
              CASE WHEN c.relispopulated THEN '' ELSE ', empty' END END,
              nullif(concat_ws(', ', array_to_string(c.reloptions, ', '),
              (SELECT string_agg(a.attname || ' default ' || pg_get_expr(d.adbin, d.adrelid), ', '
               ORDER BY a.attnum) FROM pg_attrdef d JOIN pg_attribute a ON a.attrelid = d.adrelid
               AND a.attnum = d.adnum WHERE d.adrelid = c.oid)), '')
            FROM {CLASS} WHERE c.relkind IN ('v', 'm') AND {OWN_REL}""",
    ),
)
