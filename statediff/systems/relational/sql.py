"""The effects of a text of SQL, by the taxonomy of [SSD §V], before anybody runs it.

The text is parsed in the dialect of its source; the class of several statements is that of the
riskiest. It is a claim about the words, for clauses about conduct: what a trigger, a view's rule or
a function of the agent's own does behind them shows in the state alone. So nothing is taken to be
harmless for being unknown: what cannot be parsed, what the parser hands through unread, a function
that is not known to be pure, a comment that two systems read differently, all are `UNKNOWN`, which
ranks as the riskiest.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from statediff.model.trace import ActionClass
from statediff.model.values import printable

_READ = ActionClass.READ
_SESSION = ActionClass.REVERSIBLE_UPDATE
_UPDATE = ActionClass.CONDITIONAL_UPDATE
_SCHEMA = ActionClass.SCHEMA_CHANGE
_GONE = ActionClass.IRREVERSIBLE_DELETION
_RIGHTS = ActionClass.PERMISSION_CHANGE
_SENT = ActionClass.NOTIFICATION
_OPEN = ActionClass.UNKNOWN


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _classes(*rows: tuple[ActionClass, str]) -> dict[str, ActionClass]:
    """Word → class, of rows with words between commas; in the order of the rows."""
    return {word: kind for kind, words in rows for word in words.split(", ")}


_ALL: Final = frozenset({"sqlite", "postgres", "mysql"})
MISLEADING: Final = (
    (re.compile(r"\x00"), "it holds a NUL, at which some systems stop reading", _ALL),
    (
        re.compile(r"/\*(?:(?!\*/).)*/\*", re.DOTALL),
        "a comment within a comment, which systems read differently",
        _ALL,
    ),
    (re.compile(r"/\*M?!"), "a comment that the server runs", frozenset({"mysql"})),
    (
        re.compile(r"--(?=[^\s-])"),
        "two dashes that the server does not take for a comment",
        frozenset({"mysql"}),
    ),
    (
        re.compile(r"(?m)^\s*\\"),
        "a command of the client's, not of the server's",
        _ALL,
    ),
)
"""(pattern, why it is not read, dialects): text that the parser and the server may read apart."""

COMMANDS: Final = _classes(
    (
        _RIGHTS,
        "create role, alter role, drop role, create user, alter user, drop user, rename user",
    ),
    (_RIGHTS, "create group, alter group, drop group, create policy, alter policy, drop policy"),
    (
        _RIGHTS,
        "alter default privileges, reassign owned, drop owned, security label, grant, revoke",
    ),
    (_RIGHTS, "set role, set session authorization, set password, flush privileges"),
    (_SENT, "notify"),
    (_READ, "listen, unlisten, show, savepoint, release, begin, start transaction, end, abort"),
    (_READ, "fetch, close"),
    (_OPEN, "vacuum into"),
    (_SESSION, "vacuum, analyze, reindex, checkpoint, lock, unlock, optimize, discard"),
    (_GONE, "replace, drop, truncate"),
    (_SCHEMA, "alter sequence, alter index"),
    (_UPDATE, "refresh"),
)
"""The first words of statements that the parser hands through; all others are unknown."""

SETTINGS: Final = _classes(
    (_RIGHTS, "role, authorization, session_authorization, password, row_security"),
    (_OPEN, "standard_conforming_strings, backslash_quote, sql_mode, session_replication_role"),
    (_OPEN, "global, persist, foreign_key_checks, sql_log_bin, check_function_bodies"),
)

READING_PRAGMAS: Final = _words(
    """
    table_info table_xinfo table_list index_list index_info index_xinfo foreign_key_list
    foreign_key_check database_list collation_list compile_options integrity_check quick_check
    data_version function_list page_count freelist_count
    """
)
"""Pragmas that read, whatever value they get."""

SHOWN_PRAGMAS: Final = _words(
    """
    application_id encoding foreign_keys journal_mode page_size query_only schema_version
    synchronous user_version
    """
)
"""Pragmas that read as long as they get no value."""

CATALOGUES: Final = (
    ("pg_authid", "pg_auth_members", "pg_roles", "pg_shadow", "pg_db_role_setting"),
    frozenset({"pg_catalog", "mysql", "information_schema"}),
)
"""Tables, and schemas, in which a write is a change of rights."""

EFFECTS: Final = _classes(
    (_UPDATE, "nextval, setval"),
    (_SENT, "pg_notify"),
    (_RIGHTS, "set_config"),
    (_GONE, "lo_unlink"),
    (_UPDATE, "lo_create, lo_creat, lo_from_bytea, lo_put, lowrite"),
    (_GONE, "lo_truncate"),
    (_SESSION, "last_insert_id, get_lock, release_lock, pg_advisory_lock, pg_advisory_xact_lock"),
    (_SESSION, "pg_advisory_unlock, pg_try_advisory_lock"),
)
"""Functions with an effect of a known class."""

PURE: Final = (
    _words(  # of all three
        """
        changes char concat_ws format hex ifnull instr lower ltrim max min nullif octet_length
        printf quote replace round rtrim sign sqrt substr total trim upper version abs avg
        coalesce count date datetime group_concat length sum time
        """
    )
    | _words(  # SQLite
        """
        glob iif json_each json_extract json_group_array json_group_object json_tree json_type
        json_valid julianday last_insert_rowid likelihood pragma_table_info random randomblob
        sqlite_version strftime total_changes typeof unicode unixepoch zeroblob
        """
    )
    | _words(  # PostgreSQL
        """
        age array_length array_position btrim cardinality clock_timestamp col_description
        current_database current_setting currval date_part encode gen_random_uuid
        has_table_privilege json_agg json_build_object jsonb_agg jsonb_array_elements
        jsonb_build_object jsonb_typeof lastval now obj_description pg_backend_pid
        pg_get_constraintdef pg_get_userbyid pg_get_viewdef pg_typeof quote_ident quote_literal
        row_to_json statement_timestamp string_agg to_json to_jsonb transaction_timestamp unnest
        """
    )
    | _words(  # MySQL and MariaDB
        """
        benchmark connection_id database field find_in_set found_rows json_arrayagg json_unquote
        row_count sysdate user utc_timestamp uuid
        """
    )
)
"""Functions that the parser does not know and that change nothing."""


MAX_TEXT: Final = 100_000
DIALECTS: Final = {
    "sqlite": "sqlite",
    "postgres": "postgres",
    "mysql": "mysql",
    "mariadb": "mysql",
}
RISK: Final = (
    ActionClass.READ,
    ActionClass.REVERSIBLE_UPDATE,
    ActionClass.CONDITIONAL_UPDATE,
    ActionClass.SCHEMA_CHANGE,
    ActionClass.NOTIFICATION,
    ActionClass.IRREVERSIBLE_DELETION,
    ActionClass.PERMISSION_CHANGE,
    ActionClass.UNKNOWN,
)
"""Classes in rising order of risk."""

# What falls back to a command is known by its class; the parser's own warning would print the text.
logging.getLogger("sqlglot").addHandler(logging.NullHandler())

_PARSER_FAULTS: Final = (
    SqlglotError,
    RecursionError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
)
"""Errors of the parser at hostile text, its own among them."""

_SIMPLE: Final[tuple[tuple[tuple[type[exp.Expr], ...], ActionClass], ...]] = (
    ((exp.Query, exp.Values, exp.Show), ActionClass.READ),
    ((exp.Transaction, exp.Commit, exp.Rollback), ActionClass.READ),
    ((exp.Use, exp.Analyze), ActionClass.REVERSIBLE_UPDATE),
    ((exp.Insert, exp.Update, exp.Merge), ActionClass.CONDITIONAL_UPDATE),
    ((exp.Comment,), ActionClass.SCHEMA_CHANGE),
    ((exp.Delete, exp.TruncateTable, exp.Drop), ActionClass.IRREVERSIBLE_DELETION),
    ((exp.Grant, exp.Revoke), ActionClass.PERMISSION_CHANGE),
)
_PLAIN_KINDS: Final = frozenset({"TABLE", "VIEW", "INDEX", "SCHEMA", "SEQUENCE", "DATABASE"})
_WRITES: Final = (exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.TruncateTable)
_EXPLAINED: Final = re.compile(
    r"(query\s+plan\s+)?(select|insert|update|delete|with|values)\b", re.IGNORECASE
)


@dataclass(frozen=True)
class Sql:
    """The effects of a text of SQL. Names are those of the text, sorted; `why` tells of UNKNOWN."""

    action_class: ActionClass
    tables: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    why: str = ""


def classify(text: str, dialect: str) -> Sql:
    """The effects of the text; never an error. `KeyError` for a dialect that is not known."""
    language = DIALECTS[dialect]
    if len(text) > MAX_TEXT:
        return Sql(ActionClass.UNKNOWN, why=f"more than {MAX_TEXT} characters")
    for pattern, why, where in MISLEADING:
        if language in where and pattern.search(text):
            return Sql(ActionClass.UNKNOWN, why=why)
    try:
        statements = [s for s in sqlglot.parse(text, read=language) if s is not None]
        found = [
            _class_of(statement, language)
            for statement in statements
            if not isinstance(statement, exp.Semicolon)
        ]
        tables, columns = _names(statements)
    except _PARSER_FAULTS as error:
        first = str(error).partition("\n")[0]
        return Sql(ActionClass.UNKNOWN, why=f"it cannot be parsed: {printable(first[:200])}")
    if not found:
        return Sql(ActionClass.READ)
    action_class, why = max(found, key=lambda entry: RISK.index(entry[0]))
    return Sql(action_class, tables, columns, why if action_class is RISK[-1] else "")


_Told = tuple[ActionClass, str]


def _class_of(statement: exp.Expr, language: str) -> _Told:
    """The riskiest of what stands in one statement."""
    told = [_root(statement)]
    if isinstance(statement, exp.Pragma):
        return told[0]
    for node in statement.walk():
        if isinstance(node, exp.Func):
            told.append(_function(node))
        elif node is not statement and isinstance(node, (exp.DML, exp.DDL)):
            if not isinstance(node, exp.Query):
                told.append(_root(node))
        elif isinstance(node, exp.Command):
            told.append(_command(node))
        elif isinstance(node, exp.Into):
            told.append(_into(language))
        elif isinstance(node, exp.Lock):
            told.append((ActionClass.REVERSIBLE_UPDATE, ""))
    return max(told, key=lambda entry: RISK.index(entry[0]))


def _root(node: exp.Expr) -> _Told:
    match node:
        case exp.Command():
            return _command(node)
        case exp.Create():
            return _create(node)
        case exp.Alter():
            return _alter(node)
        case exp.Set():
            return _set(node)
        case exp.Pragma():
            return _pragma(node)
        case exp.Copy():
            return _copy(node)
        case exp.Describe():
            return _describe(node)
        case exp.Alias() if node.this.name.lower() == "notify":
            return ActionClass.NOTIFICATION, ""
        case _:
            pass
    for kinds, action_class in _SIMPLE:
        if isinstance(node, kinds):
            return _raise_class(node, action_class)
    return ActionClass.UNKNOWN, f"a statement of the kind {type(node).__name__}"


def _raise_class(node: exp.Expr, action_class: ActionClass) -> _Told:
    """A write that goes by the same words as a lesser one: of a catalogue, or over rows."""
    target = node.this.find(exp.Table) if isinstance(node.this, exp.Expr) else None
    if isinstance(node, _WRITES) and target is not None:
        if target.name.lower().startswith("sqlite_"):
            return ActionClass.UNKNOWN, "it writes to SQLite's own tables"
        is_catalogue = target.name.lower().startswith(CATALOGUES[0])
        if is_catalogue or target.db.lower() in CATALOGUES[1]:
            return ActionClass.PERMISSION_CHANGE, ""
    if isinstance(node, exp.Insert):
        replaces = str(node.args.get("alternative") or "").upper() == "REPLACE"
        if replaces or node.args.get("overwrite"):
            return ActionClass.IRREVERSIBLE_DELETION, ""
    if isinstance(node, exp.Merge) and re.search(r"\bdelete\b", node.sql(), re.IGNORECASE):
        return ActionClass.IRREVERSIBLE_DELETION, ""
    return action_class, ""


def _create(node: exp.Create) -> _Told:
    kind = str(node.args.get("kind") or "").upper()
    if kind not in _PLAIN_KINDS:
        return ActionClass.UNKNOWN, f"what {printable(kind[:40]) or 'it'} creates may do anything"
    if node.args.get("replace") and kind == "TABLE":
        return ActionClass.IRREVERSIBLE_DELETION, ""
    return ActionClass.SCHEMA_CHANGE, ""


def _alter(node: exp.Alter) -> _Told:
    actions = node.args.get("actions") or ()
    if any(isinstance(action, exp.Drop) for action in actions):
        return ActionClass.IRREVERSIBLE_DELETION, ""
    if not actions or any(isinstance(action, exp.Command) for action in actions):
        return ActionClass.UNKNOWN, "a change of a table that the parser does not read"
    return ActionClass.SCHEMA_CHANGE, ""


def _set(node: exp.Set) -> _Told:
    words = re.findall(r"\w+", node.sql().lower())
    for word in words[1:]:
        if word in SETTINGS:
            return SETTINGS[word], "it changes what later statements mean"
    return ActionClass.REVERSIBLE_UPDATE, ""


def _pragma(node: exp.Pragma) -> _Told:
    found = re.fullmatch(r"pragma (?:\w+\.)?(\w+)( = .*)?", node.sql().lower(), re.DOTALL)
    if found is not None:
        name, value = found.groups()
        if name in READING_PRAGMAS or (value is None and name in SHOWN_PRAGMAS):
            return ActionClass.READ, ""
    return ActionClass.UNKNOWN, "a pragma that may write"


def _copy(node: exp.Copy) -> _Told:
    files = {str(each.name or each.sql()).strip("'\"").upper() for each in node.args["files"]}
    if files == {"STDOUT"}:
        return ActionClass.READ, ""
    if files == {"STDIN"}:
        return ActionClass.CONDITIONAL_UPDATE, ""
    return ActionClass.UNKNOWN, "it reads or writes beyond the database"


def _describe(node: exp.Describe) -> _Told:
    if isinstance(node.this, (exp.DML, exp.DDL)) and not isinstance(node.this, exp.Query):
        return ActionClass.UNKNOWN, "an explanation may run what it explains"
    style = str(node.args.get("style") or "").upper()
    return (ActionClass.UNKNOWN, "it runs what it explains") if style else (ActionClass.READ, "")


def _into(language: str) -> _Told:
    if language == "postgres":
        return ActionClass.SCHEMA_CHANGE, ""
    return ActionClass.UNKNOWN, "it writes beyond the database"


def _command(node: exp.Command) -> _Told:
    """A statement that the parser hands through unread, by its first words."""
    text = f"{node.this} {node.args.get('expression') or ''}".lower()
    words = re.findall(r"\w+", text[:400])
    for length in (3, 2, 1):
        known = COMMANDS.get(" ".join(words[:length]))
        if known is not None:
            return known, "it goes beyond the database"
    if words[:1] == ["explain"] and _EXPLAINED.match(text.removeprefix("explain").lstrip(" '")):
        return ActionClass.READ, ""
    name = printable(" ".join(words[:2])[:40]).upper()
    return ActionClass.UNKNOWN, f"the parser does not read {name or 'it'}"


def _function(node: exp.Func) -> _Told:
    if isinstance(node, exp.NextValueFor):
        return ActionClass.CONDITIONAL_UPDATE, ""
    if not isinstance(node, (exp.Anonymous, exp.AnonymousAggFunc)):
        return ActionClass.READ, ""
    name = str(node.this).lower()
    if name in EFFECTS:
        return EFFECTS[name], ""
    if name in PURE:
        return ActionClass.READ, ""
    return ActionClass.UNKNOWN, f"the function {printable(name[:60])} is not known to be pure"


def _names(statements: Iterable[exp.Expr]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The tables and columns that stand in the statements, aliases resolved where plain."""
    tables: set[str] = set()
    columns: set[str] = set()
    for statement in statements:
        own = {cte.alias for cte in statement.find_all(exp.CTE)}
        found = [t for t in statement.find_all(exp.Table) if t.name and t.name not in own]
        called = {t.alias_or_name: _table(t) for t in found}
        tables |= set(called.values())
        only = next(iter(called.values())) if len(called) == 1 else ""
        columns |= set(_columns(statement, called, only))
    shown = [tuple(printable(n[:200]) for n in sorted(names)) for names in (tables, columns)]
    return shown[0], shown[1]


def _table(table: exp.Table) -> str:
    return ".".join(part for part in (table.catalog, table.db, table.name) if part)


def _columns(statement: exp.Expr, called: dict[str, str], only: str) -> Iterator[str]:
    for column in statement.find_all(exp.Column):
        table = called.get(column.table, column.table) or only
        yield f"{table}.{column.name}" if table else column.name
    for insert in statement.find_all(exp.Insert):
        if isinstance(insert.this, exp.Schema):
            table = _table(insert.this.this)
            for name in insert.this.expressions:
                yield f"{table}.{name.name}"
