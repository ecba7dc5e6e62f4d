"""Schema objects, accounts and settings of a MariaDB server as entity types, one query for each.

`information_schema` and the tables of `mysql` are read; nothing a schema defines is run. `{db}` is
the database that is observed, as a string. Other databases appear by name only.
"""

# ruff: noqa: S608 - every query is built of text in this file

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from statediff.model.schema import EntityType, Field, Kind


@dataclass(frozen=True)
class Listing:
    """One `db.` type and the query for its rows, whose columns are the type's fields in order."""

    type: EntityType
    query: str


def _text(name: str, *, optional: bool = False, to: str | None = None) -> Field:
    return Field(name, Kind.TEXT, is_nullable=optional, reference=to)


def _flag(name: str) -> Field:
    return Field(name, Kind.BOOL, is_nullable=False)


def _number(name: str) -> Field:
    return Field(name, Kind.INT, is_nullable=False)


_NAME: Final = _text("name")
_TABLE: Final = _text("table", to="db.table")
_DEFINITION: Final = _text("definition", optional=True)
_HERE: Final = "table_schema = {db}"

TABLES: Final = f"""
SELECT table_name, table_type, engine FROM information_schema.tables
WHERE {_HERE} AND table_type IN ('BASE TABLE', 'SYSTEM VERSIONED', 'SEQUENCE')
ORDER BY table_name
"""
COLUMNS: Final = f"""
SELECT table_name, column_name, data_type, column_type, is_nullable = 'NO', column_key = 'PRI',
  generation_expression IS NOT NULL AND extra LIKE 'VIRTUAL%%'
FROM information_schema.columns WHERE {_HERE} ORDER BY table_name, ordinal_position
"""
KEYS: Final = """
SELECT table_name, column_name, referenced_table_schema, referenced_table_name,
  referenced_column_name, constraint_name
FROM information_schema.key_column_usage WHERE table_schema = {db}
ORDER BY table_name, constraint_name, ordinal_position
"""

# A password's hash is told by its digest only: it must not be found in a bundle.
_WITHOUT_HASH: Final = (
    "JSON_REMOVE(priv, '$.authentication_string', '$.password_last_changed', '$.auth_or')"
)
_PRIVILEGES: Final = """
SELECT grantee, '*' AS object, privilege_type, is_grantable
FROM information_schema.user_privileges
UNION ALL
SELECT grantee, CONCAT('database ', table_schema), privilege_type, is_grantable
FROM information_schema.schema_privileges
UNION ALL
SELECT grantee, CONCAT('table ', table_schema, '.', table_name), privilege_type, is_grantable
FROM information_schema.table_privileges
UNION ALL
SELECT grantee, CONCAT('column ', table_schema, '.', table_name, '.', column_name),
  privilege_type, is_grantable
FROM information_schema.column_privileges
UNION ALL
SELECT CONCAT(user, '@', host), CONCAT('routine ', db, '.', routine_name), proc_priv, 'NO'
FROM mysql.procs_priv
UNION ALL
SELECT CONCAT(user, '@', host), CONCAT('proxy for ', proxied_user, '@', proxied_host), 'PROXY',
  IF(with_grant, 'YES', 'NO')
FROM mysql.proxies_priv
"""

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
                _text("extra"),
            ),
        ),
        f"""SELECT c.table_name, c.column_name, c.ordinal_position - 1,
              c.column_type,
              c.is_nullable = 'NO', NULLIF(c.column_default, 'NULL'), 0,
              c.generation_expression, c.collation_name, c.extra
            FROM information_schema.columns c JOIN information_schema.tables t
              USING (table_schema, table_name)
            WHERE c.{_HERE} AND t.table_type <> 'VIEW'""",
    ),
    Listing(
        EntityType("db.constraint", ("table", "name"), (_TABLE, _NAME, _DEFINITION)),
        """SELECT table_name, constraint_name, CONCAT('CHECK ', check_clause)
           FROM information_schema.check_constraints WHERE constraint_schema = {db}
           UNION ALL
           SELECT r.table_name, r.constraint_name, CONCAT('FOREIGN KEY (',
             (SELECT GROUP_CONCAT(k.column_name ORDER BY k.ordinal_position)
              FROM information_schema.key_column_usage k WHERE k.table_schema = {db}
              AND k.table_name = r.table_name AND k.constraint_name = r.constraint_name),
             ') REFERENCES ', r.referenced_table_name, ' ON UPDATE ', r.update_rule,
             ' ON DELETE ', r.delete_rule)
           FROM information_schema.referential_constraints r WHERE r.constraint_schema = {db}""",
    ),
    Listing(
        EntityType("db.database", ("name",), (_NAME, _text("encoding"), _text("collate"))),
        """SELECT schema_name, default_character_set_name, default_collation_name
           FROM information_schema.schemata""",
    ),
    Listing(
        EntityType("db.event", ("name",), (_NAME, _text("definer"), _text("status"), _DEFINITION)),
        """SELECT event_name, definer, status, CONCAT_WS(' ', execute_at, interval_value,
             interval_field, starts, ends, on_completion, event_definition)
           FROM information_schema.events WHERE event_schema = {db}""",
    ),
    Listing(
        EntityType(
            "db.function",
            ("name",),
            (_NAME, _text("kind"), _text("definer"), _DEFINITION, _text("security")),
        ),
        """SELECT CONCAT(LOWER(type), ' ', name), LOWER(type), definer,
             CONCAT(param_list, ' ', returns, ' ', body_utf8), security_type
           FROM mysql.proc WHERE db = {db}""",
    ),
    Listing(
        EntityType(
            "db.grant",
            ("role", "object", "privilege"),
            (
                _text("role", to="db.role"),
                _text("object"),
                _text("privilege"),
                _text("may_pass_on"),
            ),
        ),
        f"""SELECT REPLACE(grantee, '''', ''), object, privilege_type, MAX(is_grantable)
            FROM ({_PRIVILEGES}) given
            GROUP BY 1, 2, 3""",
    ),
    Listing(
        EntityType("db.index", ("table", "name"), (_TABLE, _NAME, _DEFINITION, _flag("is_unique"))),
        f"""SELECT table_name, index_name, CONCAT(MAX(index_type), ' (', GROUP_CONCAT(
              CONCAT(column_name, COALESCE(CONCAT('(', sub_part, ')'), ''), ' ', collation)
              ORDER BY seq_in_index), ')', IF(MAX(ignored) = 'YES', ' ignored', '')),
              MAX(non_unique) = 0
            FROM information_schema.statistics WHERE {_HERE} GROUP BY table_name, index_name""",
    ),
    Listing(
        EntityType(
            "db.membership",
            ("role", "member"),
            (_text("role", to="db.role"), _text("member", to="db.role"), _flag("is_admin")),
            is_association=True,
        ),
        """SELECT CONCAT(role, '@'), CONCAT(user, '@', host), MAX(admin_option = 'Y')
           FROM mysql.roles_mapping GROUP BY 1, 2""",
    ),
    Listing(
        EntityType(
            "db.role", ("name",), (_NAME, _text("attributes"), _text("password", optional=True))
        ),
        f"""SELECT CONCAT(user, '@', host), {_WITHOUT_HASH},
              SHA2(CONCAT_WS(' ', JSON_VALUE(priv, '$.authentication_string'),
              JSON_QUERY(priv, '$.auth_or')), 256)
            FROM mysql.global_priv""",
    ),
    Listing(
        EntityType("db.sequence", ("name",), (_NAME, Field("value", Kind.ANY))),
        f"""SELECT table_name, auto_increment FROM information_schema.tables
            WHERE {_HERE} AND auto_increment IS NOT NULL""",
    ),
    Listing(
        EntityType("db.setting", ("name",), (_NAME, Field("value", Kind.ANY))),
        """SELECT LOWER(variable_name), global_value FROM information_schema.system_variables
           WHERE global_value IS NOT NULL AND global_value_origin <> 'COMPILE-TIME'
           UNION ALL
           SELECT 'database character set', CONCAT(default_character_set_name, ' ',
             default_collation_name) FROM information_schema.schemata WHERE schema_name = {db}""",
    ),
    Listing(
        EntityType(
            "db.table",
            ("name",),
            (
                _NAME,
                _text("kind"),
                _DEFINITION,
                _text("engine", optional=True),
                _text("collation", optional=True),
                _text("comment"),
            ),
        ),
        f"""SELECT table_name, LOWER(REPLACE(table_type, 'BASE ', '')), NULLIF(create_options, ''),
              engine, table_collation, table_comment
            FROM information_schema.tables WHERE {_HERE} AND table_type <> 'VIEW'""",
    ),
    Listing(
        EntityType("db.trigger", ("name",), (_NAME, _TABLE, _DEFINITION, _text("definer"))),
        """SELECT trigger_name, event_object_table, CONCAT_WS(' ', action_timing,
             event_manipulation, action_order, sql_mode, action_statement), definer
           FROM information_schema.triggers WHERE trigger_schema = {db}""",
    ),
    Listing(
        EntityType("db.view", ("name",), (_NAME, _DEFINITION, _text("definer"), _text("security"))),
        f"""SELECT table_name, view_definition, definer, security_type
            FROM information_schema.views WHERE {_HERE}""",
    ),
)
