"""The extent of a listing of PostgreSQL's catalogue: by the rights of who reads, and by scope.

Where the server is the sandbox's, all of it is the system. Of a server that has other databases,
the connected database is, with the accounts that can do something in it: who is mighty, who owns
or was granted something here, who is a member of such, and, where the reader itself can make
accounts, who may log in here. What others make elsewhere is no change of it.

An account that is no superuser reads what every account may: the same catalogues without a few
columns. What it may write all the same and not read is unobserved, with the cause; what it can
neither read nor write holds words that never change.
"""

# ruff: noqa: S608 - every query is built of text in this package
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from statediff.model.batches import Row
from statediff.model.values import Unobserved
from statediff_postgres import queries
from statediff_postgres.further import BUILT_IN, FURTHER_FOR_ALL
from statediff_postgres.naming import FIRST_OWN

THIS: Final = "the connected database"
"""Its name where it is one of several: what it is called is said by its URL."""
NOT_SHOWN: Final = "not shown to this account"
"""What stands for a value that the account can neither read nor write."""
_HERE: Final = "(SELECT oid FROM pg_database WHERE datname = current_database())"
_MAKES_ROLES: Final = (
    "EXISTS (SELECT FROM pg_roles g WHERE (g.rolcreaterole OR g.rolsuper)"
    " AND pg_has_role(g.oid, 'MEMBER'))"
)
INSIDE: Final = f"""
WITH RECURSIVE inside AS (
  SELECT r.oid FROM pg_roles r
  WHERE r.oid < {FIRST_OWN} OR r.rolsuper OR r.rolcreaterole OR r.rolbypassrls OR r.rolreplication
    OR r.rolname = current_user
    OR EXISTS (SELECT FROM pg_shdepend d WHERE d.refclassid = 'pg_authid'::regclass
      AND d.refobjid = r.oid AND (d.dbid = {_HERE} OR d.dbid = 0
      AND d.classid = 'pg_database'::regclass AND d.objid = {_HERE}))
    OR EXISTS (SELECT FROM pg_db_role_setting s WHERE s.setrole = r.oid AND s.setdatabase = {_HERE})
    OR r.rolcanlogin AND {_MAKES_ROLES}
      AND has_database_privilege(r.oid, current_database(), 'CONNECT')
  UNION
  SELECT m.member FROM pg_auth_members m JOIN inside i ON i.oid = m.roleid
)
"""
"""The accounts that can do something in the database that is read."""

_ROLE: Final = """SELECT rolname::text, rolcanlogin, rolsuper, rolcreatedb, rolcreaterole,
  rolreplication, rolbypassrls, rolinherit, rolconnlimit, rolvaliduntil::text"""
_OWN_ROLES: Final = f"(r.oid = 10 OR r.oid >= {FIRST_OWN})"


@dataclass(frozen=True)
class Reading:
    """How a type is read by an account that may not read its listing.

    The query's last column says of a row whether the `fields` are unobserved.
    """

    query: str
    fields: tuple[str, ...]
    cause: str

    def row(self, names: list[str], found: tuple[Any, ...]) -> Row:
        row: Row = dict(zip(names, found, strict=False))
        if found[-1]:
            row |= dict.fromkeys(self.fields, Unobserved(self.cause))
        return row


def _roles(names: str, digest: str, unread: str = "") -> str:
    return f"{_ROLE}, {digest}{unread} FROM {names} r WHERE {_OWN_ROLES}"


_DIGEST: Final = "encode(sha256(convert_to(rolpassword, 'UTF8')), 'hex')"
_AND_INSIDE: Final = " AND r.oid IN (SELECT oid FROM inside)"
_UNREAD: Final = f", (r.rolname = current_user OR {_MAKES_ROLES})"
PASSWORDS: Final = "only a superuser is shown passwords, and this account may set them"
SHARED: Final = {
    "db.role": INSIDE + _roles("pg_authid", _DIGEST) + _AND_INSIDE,
    "db.membership": INSIDE
    + """SELECT pg_get_userbyid(roleid)::text, pg_get_userbyid(member)::text, bool_or(admin_option)
      FROM pg_auth_members m WHERE member >= 16384 AND member IN (SELECT oid FROM inside)
      GROUP BY 1, 2""",
    "db.setting": INSIDE
    + queries.SETTINGS.replace(
        "WHERE setdatabase = 0",
        "WHERE (setrole = 0 OR setrole IN (SELECT oid FROM inside)) AND setdatabase = 0",
        1,
    ).replace(
        "OR d.datname = current_database()",
        "OR (setrole = 0 OR setrole IN (SELECT oid FROM inside))"
        " AND d.datname = current_database()",
        1,
    ),
}
"""Type → how it is listed where the server has other databases."""
_ROLES_SEEN: Final = _roles("pg_roles", f"'{NOT_SHOWN}'", _UNREAD)
_VALUE: Final = "has_sequence_privilege(s.seqrelid, 'SELECT, USAGE')"


def _seen_by_all(
    objects: str, mappings: str, sequences: str, is_shared: bool
) -> dict[str, Reading]:
    """Type → how an account reads it that may not read its listing.

    `objects` are those of `db.object` but for user mappings and subscriptions, `mappings` what says
    of a mapping's kind and name, `sequences` the listing of sequences.
    """
    roles = INSIDE + _ROLES_SEEN + _AND_INSIDE if is_shared else _ROLES_SEEN
    value = "pg_sequence_last_value(c.oid)"
    shown = f"to_jsonb(CASE WHEN {_VALUE} THEN {value} END)"
    hidden = f"CASE WHEN NOT {_VALUE} THEN to_jsonb('{NOT_SHOWN}'::text) ELSE {shown} END"
    told = sequences.replace(value, f"({hidden})", 1)
    select, _, rest = told.rpartition("FROM pg_sequence s")
    written = f", NOT {_VALUE} AND has_sequence_privilege(s.seqrelid, 'UPDATE') FROM pg_sequence s"
    return {
        "db.role": Reading(roles, ("password",), PASSWORDS),
        "db.sequence": Reading(
            select.rstrip() + written + rest, ("value",), "this account may set it and not read it"
        ),
        "db.large_object": Reading(
            _LARGE_OBJECTS, ("size_bytes", "digest"), "this account may write it and not read it"
        ),
        "db.object": Reading(
            f"SELECT u.*, false FROM ({objects} UNION ALL {mappings} UNION ALL {_SUBSCRIPTIONS}) u",
            (),
            "",
        ),
    }


def _may(privilege: str) -> str:
    return (
        "(pg_has_role(m.lomowner, 'USAGE') OR EXISTS (SELECT FROM aclexplode(m.lomacl) a"
        f" WHERE a.privilege_type = '{privilege}' AND (a.grantee = 0"
        " OR pg_has_role(a.grantee, 'USAGE'))))"
    )


_LARGE_OBJECTS: Final = f"""
SELECT m.oid::int8, pg_get_userbyid(m.lomowner)::text,
  CASE WHEN {_may("SELECT")} THEN octet_length(lo_get(m.oid)) ELSE -1 END::int8,
  CASE WHEN {_may("SELECT")} THEN encode(sha256(lo_get(m.oid)), 'hex') ELSE '{NOT_SHOWN}' END,
  NOT {_may("SELECT")} AND {_may("UPDATE")}
FROM pg_largeobject_metadata m
"""
MAPPINGS: Final = f"""
SELECT i.type, i.identity, coalesce(array_to_string(u.umoptions, ', '), '{NOT_SHOWN}')
FROM pg_user_mappings u, pg_identify_object('pg_user_mapping'::regclass, u.umid, 0) i
WHERE u.umid >= {FIRST_OWN}
"""
_SUBSCRIPTIONS: Final = """
SELECT 'subscription', subname::text, jsonb_build_object('owner', pg_get_userbyid(subowner),
  'enabled', subenabled, 'slot', subslotname, 'publications', subpublications)::text
FROM pg_subscription WHERE subdbid = (SELECT oid FROM pg_database
  WHERE datname = current_database())
"""


def listings(*, is_shared: bool) -> dict[str, str]:
    """Type → the query of its listing; of a server that has other databases, what is ours of it."""
    found = {listing.type.name: listing.query for listing in queries.LISTINGS}
    if is_shared:
        found |= SHARED
        whole = found["db.database"].replace("datname::text", f"'{THIS}'", 1)
        found["db.database"] = f"{whole} WHERE datname = current_database()"
    return found


def readings(*, is_shared: bool) -> dict[str, Reading]:
    """Type → how an account reads it that may not read its listing."""
    every = [table for table in queries.OTHER if table != "pg_user_mapping"]
    objects = f"{queries.objects(every)} UNION ALL {queries.COMMENTS} UNION ALL {BUILT_IN}"
    objects = f"{objects} UNION ALL {FURTHER_FOR_ALL}"
    sequences = next(each.query for each in queries.LISTINGS if each.type.name == "db.sequence")
    return _seen_by_all(objects, MAPPINGS, sequences, is_shared=is_shared)
