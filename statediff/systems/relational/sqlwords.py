"""The words of SQL that decide what a statement does where its grammar does not."""

from __future__ import annotations

import re
from typing import Final

from statediff.model.trace import ActionClass

_READ = ActionClass.READ
_SESSION = ActionClass.REVERSIBLE_UPDATE
_UPDATE = ActionClass.CONDITIONAL_UPDATE
_SCHEMA = ActionClass.SCHEMA_CHANGE
_GONE = ActionClass.IRREVERSIBLE_DELETION
_RIGHTS = ActionClass.PERMISSION_CHANGE
_SENT = ActionClass.NOTIFICATION
_OPEN = ActionClass.UNKNOWN

_ALL: Final = frozenset({"sqlite", "postgres", "mysql"})
MISLEADING: Final = (
    (re.compile(r"\x00"), "it holds a NUL, at which some systems stop reading", _ALL),
    (
        re.compile(r"/\*(?:(?!\*/).)*/\*", re.DOTALL),
        "a comment within a comment, which systems read differently", _ALL,
    ),
    (re.compile(r"/\*M?!"), "a comment that the server runs", frozenset({"mysql"})),
    (
        re.compile(r"--(?=[^\s-])"),
        "two dashes that the server does not take for a comment", frozenset({"mysql"}),
    ),
    (
        re.compile(r"(?m)^\s*\\"),
        "a command of the client's, not of the server's", _ALL,
    ),
)  # fmt: skip
"""(pattern, why it is not read, dialects): text that the parser and the server may read apart."""

COMMANDS: Final = {
    "create role": _RIGHTS, "alter role": _RIGHTS, "drop role": _RIGHTS,
    "create user": _RIGHTS, "alter user": _RIGHTS, "drop user": _RIGHTS, "rename user": _RIGHTS,
    "create group": _RIGHTS, "alter group": _RIGHTS, "drop group": _RIGHTS,
    "create policy": _RIGHTS, "alter policy": _RIGHTS, "drop policy": _RIGHTS,
    "alter default privileges": _RIGHTS, "reassign owned": _RIGHTS, "drop owned": _RIGHTS,
    "security label": _RIGHTS, "grant": _RIGHTS, "revoke": _RIGHTS, "set role": _RIGHTS,
    "set session authorization": _RIGHTS, "set password": _RIGHTS, "flush privileges": _RIGHTS,
    "notify": _SENT,
    "listen": _READ, "unlisten": _READ, "show": _READ, "savepoint": _READ, "release": _READ,
    "begin": _READ, "start transaction": _READ, "end": _READ, "abort": _READ, "fetch": _READ,
    "close": _READ,
    "vacuum into": _OPEN, "vacuum": _SESSION, "analyze": _SESSION, "reindex": _SESSION,
    "checkpoint": _SESSION,
    "lock": _SESSION, "unlock": _SESSION, "optimize": _SESSION, "discard": _SESSION,
    "replace": _GONE, "drop": _GONE, "truncate": _GONE,
    "alter sequence": _SCHEMA, "alter index": _SCHEMA, "refresh": _UPDATE,
}  # fmt: skip
"""The first words of statements that the parser hands through; all others are unknown."""

SETTINGS: Final = {
    "role": _RIGHTS, "authorization": _RIGHTS, "session_authorization": _RIGHTS,
    "password": _RIGHTS, "row_security": _RIGHTS,
    "standard_conforming_strings": _OPEN, "backslash_quote": _OPEN, "sql_mode": _OPEN,
    "session_replication_role": _OPEN, "global": _OPEN, "persist": _OPEN,
    "foreign_key_checks": _OPEN, "sql_log_bin": _OPEN, "check_function_bodies": _OPEN,
}  # fmt: skip

READING_PRAGMAS: Final = frozenset({
    "table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo",
    "foreign_key_list", "foreign_key_check", "database_list", "collation_list", "compile_options",
    "integrity_check", "quick_check", "data_version", "function_list", "page_count",
    "freelist_count",
})  # fmt: skip

"""Pragmas that read, whatever value they get."""

SHOWN_PRAGMAS: Final = frozenset({
    "application_id", "encoding", "foreign_keys", "journal_mode", "page_size", "query_only",
    "schema_version", "synchronous", "user_version",
})  # fmt: skip
"""Pragmas that read as long as they get no value."""

CATALOGUES: Final = (
    ("pg_authid", "pg_auth_members", "pg_roles", "pg_shadow", "pg_db_role_setting"),
    frozenset({"pg_catalog", "mysql", "information_schema"}),
)
"""Tables, and schemas, in which a write is a change of rights."""

EFFECTS: Final = {
    "nextval": _UPDATE, "setval": _UPDATE, "pg_notify": _SENT, "set_config": _RIGHTS,
    "lo_unlink": _GONE, "lo_create": _UPDATE, "lo_creat": _UPDATE, "lo_from_bytea": _UPDATE,
    "lo_put": _UPDATE, "lowrite": _UPDATE, "lo_truncate": _GONE,
    "last_insert_id": _SESSION, "get_lock": _SESSION, "release_lock": _SESSION,
    "pg_advisory_lock": _SESSION, "pg_advisory_xact_lock": _SESSION,
    "pg_advisory_unlock": _SESSION, "pg_try_advisory_lock": _SESSION,
}  # fmt: skip
"""Functions with an effect of a known class."""

PURE: Final = frozenset({
    # of all three
    "changes", "char", "concat_ws", "format", "hex", "ifnull", "instr", "lower", "ltrim", "max",
    "min", "nullif", "octet_length", "printf", "quote", "replace", "round", "rtrim", "sign",
    "sqrt", "substr", "total", "trim", "upper", "version", "abs", "avg", "coalesce", "count",
    "date", "datetime", "group_concat", "length", "sum", "time",
    # SQLite
    "glob", "iif", "json_each", "json_extract", "json_group_array", "json_group_object",
    "json_tree", "json_type", "json_valid", "julianday", "last_insert_rowid", "likelihood",
    "pragma_table_info", "random", "randomblob", "sqlite_version", "strftime", "total_changes",
    "typeof", "unicode", "unixepoch", "zeroblob",
    # PostgreSQL
    "age", "array_length", "array_position", "btrim", "cardinality", "clock_timestamp",
    "col_description",
    "current_database", "current_setting", "currval", "date_part", "encode", "gen_random_uuid",
    "has_table_privilege", "json_agg", "json_build_object", "jsonb_agg", "jsonb_array_elements",
    "jsonb_build_object", "jsonb_typeof", "lastval", "now", "obj_description", "pg_backend_pid",
    "pg_get_constraintdef", "pg_get_userbyid", "pg_get_viewdef", "pg_typeof", "quote_ident",
    "quote_literal", "row_to_json", "statement_timestamp", "string_agg", "to_json", "to_jsonb",
    "transaction_timestamp", "unnest",
    # MySQL and MariaDB
    "benchmark", "connection_id", "database", "field", "find_in_set", "found_rows", "json_arrayagg",
    "json_unquote", "row_count", "sysdate", "user", "utc_timestamp", "uuid",
})  # fmt: skip
"""Functions that the parser does not know and that change nothing."""
