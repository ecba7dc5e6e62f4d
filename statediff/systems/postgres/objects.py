"""Schema objects, roles and settings of a PostgreSQL server as entity types, one query for each.

Grants are told as differences from what an owner has anyway; objects that the server comes with are
left out.
"""

# ruff: noqa: S608 - every query is built of text in this file and `postgres_queries`

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from statediff.model.schema import EntityType, Field, Kind
from statediff.systems.postgres.queries import (
    CLASS,
    COMMENTS,
    FIRST_OWN,
    GRANTS,
    OBJECTS,
    OWN_REL,
    REL,
    ROLE,
    SETTINGS,
    qualified,
)


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


_NAME: Final = _text("name")
_OWNER: Final = _text("owner", to="db.role")
_TABLE: Final = _text("table", to="db.table")
_DEFINITION: Final = _text("definition", optional=True)

LISTINGS: Final = (
    Listing(
        EntityType(
            "db.column",
            ("table", "name"),
            (
                _TABLE, _NAME, _number("position"), _text("declared_type"), _flag("is_required"),
                _text("default", optional=True), _number("key_position"),
                _text("generated", optional=True), _text("collation", optional=True),
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
                _NAME, _OWNER, _text("encoding"), _text("collate"), _flag("allows_connections"),
                _number("connection_limit"), _flag("is_template"), _text("acl", optional=True),
            ),
        ),
        """SELECT datname::text, pg_get_userbyid(datdba)::text, pg_encoding_to_char(encoding)::text,
             datcollate, datallowconn, datconnlimit, datistemplate, datacl::text
           FROM pg_database""",
    ),
    Listing(
        EntityType(
            "db.event_trigger",
            ("name",),
            (_NAME, _OWNER, _text("event"), _text("function"), _text("enabled"),
             _text("tags", optional=True)),
        ),
        """SELECT evtname::text, pg_get_userbyid(evtowner)::text, evtevent::text,
             evtfoid::regprocedure::text, evtenabled::text, evttags::text FROM pg_event_trigger""",
    ),
    Listing(
        EntityType(
            "db.extension", ("name",), (_NAME, _text("version"), _OWNER, _text("schema"))
        ),
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
            FROM pg_proc p WHERE p.oid >= {FIRST_OWN}""",
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
        EntityType(
            "db.index", ("name",), (_NAME, _TABLE, _DEFINITION, _flag("is_valid"))
        ),
        f"""SELECT {REL}, {qualified("m.nspname", "t.relname")}, pg_get_indexdef(c.oid),
              i.indisvalid
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
        f"{OBJECTS} UNION ALL {COMMENTS}",
    ),
    Listing(
        EntityType(
            "db.policy",
            ("table", "name"),
            (
                _TABLE, _NAME, _text("command"), _flag("is_permissive"), _text("roles"),
                _text("using", optional=True), _text("check", optional=True),
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
                _NAME, _flag("can_log_in"), _flag("is_superuser"), _flag("may_create_databases"),
                _flag("may_create_roles"), _flag("may_replicate"), _flag("bypasses_row_security"),
                _flag("inherits"), _number("connection_limit"), _text("valid_until", optional=True),
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
            WHERE c.relkind NOT IN ('v', 'm') AND {OWN_REL}""",
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
              (to_jsonb(s) - 'seqrelid')::text
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
                _NAME, _text("kind"), _DEFINITION, _OWNER, _flag("is_unlogged"),
                _text("row_security"), _text("replica_identity"),
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
            WHERE NOT t.tgisinternal AND {OWN_REL}""",
    ),
    Listing(
        EntityType("db.type", ("name",), (_NAME, _text("kind"), _DEFINITION, _OWNER)),
        f"""SELECT {qualified("n.nspname", "t.typname")}, t.typtype::text,
              concat_ws(' ',
              (SELECT string_agg(quote_literal(e.enumlabel), ', ' ORDER BY e.enumsortorder)
               FROM pg_enum e WHERE e.enumtypid = t.oid),
              CASE t.typtype WHEN 'd' THEN format_type(t.typbasetype, t.typtypmod) END,
              CASE WHEN t.typnotnull THEN 'not null' END, 'default ' || t.typdefault,
              (SELECT string_agg(pg_get_constraintdef(k.oid), ' ' ORDER BY k.conname)
               FROM pg_constraint k WHERE k.contypid = t.oid),
              (SELECT string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ', '
               ORDER BY a.attnum) FROM pg_attribute a WHERE a.attrelid = t.typrelid
               AND NOT a.attisdropped),
              (SELECT format_type(r.rngsubtype, NULL) FROM pg_range r WHERE r.rngtypid = t.oid)),
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
              array_to_string(c.reloptions, ', ')
            FROM {CLASS} WHERE c.relkind IN ('v', 'm') AND {OWN_REL}""",
    ),
)  # fmt: skip
