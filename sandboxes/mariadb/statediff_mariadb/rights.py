"""The extent of a listing of MariaDB's catalogue: by the rights of who reads, and by scope.

An account that may read the tables of `mysql` sees everything. Of a server that is not the
sandbox's, only what is this database's is inside: the database itself, its objects, the grants on
it and on everything, and the accounts that can do something in it; where the reader itself can
make accounts, all that can log in. What others make elsewhere is no change of the database.

Another account is shown what it has rights to. `SHOW GRANTS` says of what that is the whole: with
the right TRIGGER on the database its triggers are all there are. What it may write and not read is
incomplete with that cause; what it can do neither with holds words that never change.
"""

# ruff: noqa: S608 - every query is built of text in this file
from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from statediff.model.batches import Row
from statediff.model.values import Unobserved
from statediff.systems.relational.schema import MAY_WRITE
from statediff_mariadb.session import Connection, fetched

THIS: Final = "the connected database"
"""Its name where it is one of several: what it is called is said by its URL."""
NOT_SHOWN: Final = "not shown to this account"
PASSWORDS: Final = "who may not read mysql.global_priv is shown no password, and may set its own"
_GRANT: Final = re.compile(
    r"GRANT (?P<rights>.+?) ON (?:TABLE |FUNCTION |PROCEDURE |PACKAGE )?(?P<object>\S+) TO .*",
    re.DOTALL,
)
_ANYTHING: Final = frozenset({"ALL PRIVILEGES"})


@dataclass(frozen=True)
class Rights:
    """The account's rights to the whole database, to single tables, and to accounts."""

    whole: frozenset[str]
    partly: frozenset[str]
    """What it may do with some tables only."""
    grants: bool
    """It may give rights to others."""

    def has(self, right: str) -> bool:
        """True if it may do so everywhere in the database."""
        return right in self.whole or bool(_ANYTHING & self.whole)

    def may(self, *rights: str) -> bool:
        """True if it may do any of it anywhere in the database."""
        return any(self.has(each) or each in self.partly for each in rights)


def rights_of(connection: Connection[Any], database: str) -> Rights:
    """The rights of the account and its roles by `SHOW GRANTS`. Raises `pymysql.Error`."""
    whole: set[str] = set()
    partly: set[str] = set()
    grants = False
    for (line,) in fetched(connection, "SHOW GRANTS"):
        found = _GRANT.fullmatch(str(line))
        if found is None:
            continue
        named = re.sub(r"\([^)]*\)", "", found["rights"])
        rights = {right.strip().upper() for right in named.split(",")}
        schema, _, table = found["object"].replace("`", "").replace('"', "").rpartition(".")
        if not _is_like(database, schema):
            continue
        grants = grants or "WITH GRANT OPTION" in str(line)
        (whole if table == "*" else partly).update(rights)
    if "ALL PRIVILEGES" in partly:
        partly |= {"TRIGGER", "CREATE VIEW", "SHOW VIEW", "SELECT", "INSERT", "UPDATE", "DELETE"}
    return Rights(frozenset(whole), frozenset(partly), grants)


def _is_like(database: str, pattern: str) -> bool:
    if pattern == "*":
        return True
    plain = re.sub(r"\\(.)|(%)|(_)|([^\\%_])", _as_expression, pattern)
    return re.fullmatch(plain, database, re.DOTALL) is not None


def _as_expression(found: re.Match[str]) -> str:
    if found[2]:
        return ".*"
    return "." if found[3] else re.escape(found[1] or found[4])


_ACCOUNT: Final = "SUBSTRING_INDEX(CURRENT_USER(), '@', 1)"
_ROLES: Final = """(
    SELECT user FROM mysql.global_priv WHERE JSON_VALUE(priv, '$.access') > 0
    UNION SELECT user FROM mysql.db WHERE {db} LIKE db
    UNION SELECT user FROM mysql.tables_priv WHERE db = {db})"""
_INSIDE: Final = f"""(
  SELECT user, host FROM mysql.global_priv WHERE JSON_VALUE(priv, '$.access') > 0
  UNION SELECT user, host FROM mysql.db WHERE {{db}} LIKE db
  UNION SELECT user, host FROM mysql.tables_priv WHERE db = {{db}}
  UNION SELECT user, host FROM mysql.columns_priv WHERE db = {{db}}
  UNION SELECT user, host FROM mysql.procs_priv WHERE db = {{db}}
  UNION SELECT m.user, m.host FROM mysql.roles_mapping m WHERE m.role IN {_ROLES}
  UNION SELECT user, host FROM mysql.global_priv WHERE CONCAT(user, '@', host) = CURRENT_USER()
)"""
_LOG_IN: Final = " OR JSON_VALUE(priv, '$.is_role') IS NULL"
_HERE: Final = (
    "(object = '*' AND privilege_type <> 'USAGE' OR object LIKE 'database %%' AND {db} LIKE"
    " SUBSTR(object, 10) OR object LIKE CONCAT('table ', {db}, '.%%') OR object LIKE"
    " CONCAT('column ', {db}, '.%%') OR object LIKE CONCAT('routine ', {db}, '.%%')"
    " OR object LIKE 'proxy %%')"
)


def scoped(name: str, query: str, *, makes_accounts: bool) -> str:
    """The query of a listing, for what is this database's on a server that has others."""
    match name:
        case "db.database":
            query = query.replace("SELECT schema_name", f"SELECT '{THIS}'", 1)
            return f"{query} WHERE schema_name = {{db}}"
        case "db.role":
            also = _LOG_IN if makes_accounts else ""
            return f"{query} WHERE (user, host) IN {_INSIDE}{also}"
        case "db.membership":
            # Who makes a role may pass it on, and has nothing of it where it may do nothing.
            inside = f"(user, host) IN {_INSIDE} AND (admin_option = 'N' OR role IN {_ROLES})"
            return query.replace(" GROUP BY 1, 2", f" WHERE {inside} GROUP BY 1, 2")
        case "db.grant":
            return query.replace("GROUP BY 1, 2, 3", f"WHERE {_HERE} GROUP BY 1, 2, 3")
        case _:
            return query


def local(row: Row, database: str) -> Row:
    """A grant on a server with other databases, without the name of the one that is read."""
    kind, space, place = str(row["object"]).partition(" ")
    if kind == "database" and _is_like(database, place):
        return {**row, "object": kind}
    if kind in ("table", "column", "routine"):
        return {**row, "object": kind + space + place.removeprefix(f"{database}.")}
    return row


OWN_ROLE: Final = f"SELECT CURRENT_USER(), '{NOT_SHOWN}', NULL"
OWN_ROUTINES: Final = f"""
SELECT CONCAT(LOWER(routine_type), ' ', routine_name), LOWER(routine_type), definer,
  CONCAT_WS(' ', (SELECT GROUP_CONCAT(CONCAT_WS(' ', parameter_mode, parameter_name,
    dtd_identifier) ORDER BY ordinal_position) FROM information_schema.parameters p
    WHERE p.specific_schema = {{db}} AND p.specific_name = r.specific_name),
  COALESCE(routine_definition, '{NOT_SHOWN}'), sql_data_access,
  IF(is_deterministic = 'YES', 'DETERMINISTIC', NULL), sql_mode, database_collation,
  NULLIF(routine_comment, '')), security_type
FROM information_schema.routines r WHERE routine_schema = {{db}}
"""
OWN_PRIVILEGES: Final = """
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
"""
OWN_GRANTS: Final = f"""
SELECT REPLACE(grantee, '''', ''), object, privilege_type, MAX(is_grantable)
FROM ({OWN_PRIVILEGES}) given GROUP BY 1, 2, 3
"""
OWN_MEMBERSHIPS: Final = """
SELECT CONCAT(role_name, '@'), grantee, MAX(is_grantable = 'YES')
FROM information_schema.applicable_roles GROUP BY 1, 2
"""
INSTEAD: Final = {
    "db.role": OWN_ROLE,
    "db.function": OWN_ROUTINES,
    "db.grant": OWN_GRANTS,
    "db.membership": OWN_MEMBERSHIPS,
}
"""Type → how an account lists it that may not read the tables of `mysql`."""


def missing(rights: Rights) -> Mapping[str, str]:
    """Type → why an account that may not read `mysql` may not be shown all of it."""
    found: dict[str, str] = {}
    if not rights.has("TRIGGER"):
        found["db.trigger"] = "this account has no right TRIGGER on the whole database"
    if not rights.has("EVENT"):
        found["db.event"] = "this account has no right EVENT on the database"
    routines = ("CREATE ROUTINE", "ALTER ROUTINE", "EXECUTE")
    if not any(rights.has(each) for each in routines):
        found["db.function"] = "this account has no right to the routines of the database"
    if not any(rights.has(each) for each in ("SELECT", "SHOW VIEW", "CREATE VIEW")):
        found["db.view"] = "this account has rights to single tables only"
    if rights.grants:
        found["db.grant"] = MAY_WRITE
    if "CREATE USER" in rights.whole:
        found |= dict.fromkeys(("db.role", "db.membership"), MAY_WRITE)
    return found


def seen(name: str, row: Row, rights: Rights) -> Row:
    """The row as the account is shown it; what it may write and not read is unobserved."""
    if name == "db.role":
        return {**row, "password": Unobserved(PASSWORDS)}
    hidden = name == "db.view" and not str(row["definition"] or "").strip()
    if name == "db.view" and (hidden or not rights.may("SHOW VIEW")):
        is_written = rights.may("CREATE VIEW") and not rights.has("SHOW VIEW")
        return {**row, "definition": Unobserved(MAY_WRITE) if is_written else NOT_SHOWN}
    return row
