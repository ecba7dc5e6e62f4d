"""A PostgreSQL server's state by bytes and by its cluster's catalogue: the proof of a reset.

A clone that was copied file by file is equal to its template file by file. So the database is
proven by a digest of each of its files, after a checkpoint has written what was in memory; what
capture reads (rows, through the executor) has no part in it.

A clone may be digested before its trial, while nobody can connect to it (`stand_still`). Its files
are then what they were as long as none was changed since: after a checkpoint the kernel's record
of the last change of each is the same, and there are no others. That record has no finer step than
a second here, so it counts only if the digest began in a later one; where it cannot vouch for the
files, they are digested again. What belongs to the whole server and
outlives a database (accounts, passwords, memberships, settings of roles, other databases,
tablespaces, configuration files) is listed by `cluster`, one label a thing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg import sql

Connection = psycopg.Connection[tuple[Any, ...]]
SECRET: Final = "password of role "  # noqa: S105 - a label
PIECE_BYTES: Final = 1024 * 1024
"""Read and digested at a time: memory that is used again costs half of fresh memory."""
IGNORED_FILES: Final = ("pg_internal.init",)
"""Written anew by anyone who connects first; it holds nothing that the catalogue does not."""

_FILES: Final = """
SELECT f.name, s.size, p.at, encode(sha256(pg_read_binary_file(
    'base/' || %(oid)s || '/' || f.name, p.at, %(piece)s::int8)), 'hex')
FROM pg_ls_dir('base/' || %(oid)s) f(name),
  pg_stat_file('base/' || %(oid)s || '/' || f.name) s,
  generate_series(0, greatest(s.size - 1, 0), %(piece)s) p(at)
WHERE f.name <> ALL (%(ignored)s)
"""
_TOUCHED: Final = """
SELECT f.name, s.size || ' ' || s.modification || ' ' || s.change, extract(epoch FROM s.change)
FROM pg_ls_dir('base/' || %(oid)s) f(name), pg_stat_file('base/' || %(oid)s || '/' || f.name) s
WHERE f.name <> ALL (%(ignored)s)
"""
_STEP_SECONDS: Final = 1.1
"""A change that comes so long after another has another second, with a tick to spare."""
_NAMES: Final = """
SELECT pg_relation_filenode(c.oid)::text, CASE c.relkind WHEN 'i' THEN 'index '
  WHEN 'S' THEN 'sequence ' WHEN 't' THEN 'values outside the rows of ' WHEN 'm' THEN 'view '
  ELSE 'table ' END || coalesce((SELECT t.relname FROM pg_class t WHERE t.reltoastrelid = c.oid),
  c.relname)
FROM pg_class c WHERE pg_relation_filenode(c.oid) IS NOT NULL
"""
_CLUSTER: Final = """
SELECT 'role ' || rolname, (to_jsonb(r) - 'oid' - 'rolpassword')::text FROM pg_authid r
UNION ALL
SELECT 'password of role ' || rolname, rolpassword FROM pg_authid
UNION ALL
SELECT 'membership of ' || pg_get_userbyid(member) || ' in ' || pg_get_userbyid(roleid),
  string_agg(pg_get_userbyid(grantor) || ' ' || admin_option, ', ' ORDER BY grantor)
FROM pg_auth_members GROUP BY roleid, member
UNION ALL
SELECT 'setting of role ' || CASE setrole WHEN 0 THEN '(all)' ELSE pg_get_userbyid(setrole) END
  || ' in ' || coalesce(d.datname, '(all databases)'), array_to_string(setconfig, ', ')
FROM pg_db_role_setting LEFT JOIN pg_database d ON d.oid = setdatabase
UNION ALL
SELECT 'database ' || datname,
  (to_jsonb(d) - 'oid' - 'datname' - 'datfrozenxid' - 'datminmxid')::text
FROM pg_database d
UNION ALL
SELECT 'tablespace ' || spcname, pg_get_userbyid(spcowner) || ' ' || pg_tablespace_location(oid)
FROM pg_tablespace
UNION ALL
SELECT 'privilege on setting ' || parname, paracl::text FROM pg_parameter_acl
UNION ALL
SELECT 'file ' || name, encode(sha256(pg_read_binary_file(name)), 'hex') FROM unnest(ARRAY[
  'postgresql.conf', 'postgresql.auto.conf', 'pg_hba.conf', 'pg_ident.conf']) name
UNION ALL
SELECT 'server setting ' || name, reset_val FROM pg_settings
WHERE reset_val IS DISTINCT FROM boot_val AND source <> 'client'
UNION ALL
SELECT 'replication slot ' || slot_name, slot_type FROM pg_replication_slots
UNION ALL
SELECT 'replication origin ' || roname, '' FROM pg_replication_origin
UNION ALL
SELECT 'subscription ' || subname, subconninfo FROM pg_subscription
UNION ALL
SELECT 'comment on ' || classoid::regclass || ' ' || objoid, description FROM pg_shdescription
UNION ALL
SELECT 'prepared transaction ' || gid, owner FROM pg_prepared_xacts
"""


@dataclass(frozen=True)
class Files:
    """The files of a database: the digest of each one's bytes, and when each was changed last."""

    digests: Mapping[str, str]
    touched: Mapping[str, str]
    """File → its size and times; empty where they do not vouch for the digests."""


def files_of(connection: Connection, database: str) -> dict[str, str]:
    """Each file of the database and the digest of its bytes, as they are after a checkpoint."""
    connection.execute("CHECKPOINT")
    return _digests(connection, _oid(connection, database))


def stand_still(
    connection: Connection, database: str, is_wanted: Callable[[float], bool]
) -> Files | None:
    """The files of a database that nobody changes meanwhile; None where it is wanted before.

    `is_wanted(seconds)` waits so long, or until somebody wants the database at once (True).
    """
    connection.execute("CHECKPOINT")
    oid = _oid(connection, database)
    if not oid:
        return None
    touched, last = _file_stamps(connection, oid)
    now: Any = connection.execute("SELECT extract(epoch FROM clock_timestamp())").fetchone()
    if is_wanted(max(0.0, last + _STEP_SECONDS - float(now[0]))):
        return None
    digests = _digests(connection, oid)
    return Files(digests, touched if _file_stamps(connection, oid)[0] == touched else {})


def files_since(connection: Connection, database: str, known: Files | None) -> dict[str, str]:
    """Each file and its digest: as `known`, if no file was changed since, else digested anew."""
    connection.execute("CHECKPOINT")
    oid = _oid(connection, database)
    if known is not None and known.touched and _file_stamps(connection, oid)[0] == known.touched:
        return dict(known.digests)
    return _digests(connection, oid)


def _oid(connection: Connection, database: str) -> str:
    """The number its folder is called by; "" where there is no such database."""
    found = connection.execute(
        "SELECT oid::text FROM pg_database WHERE datname = %s", (database,)
    ).fetchone()
    return "" if found is None else str(found[0])


def _file_stamps(connection: Connection, oid: str) -> tuple[dict[str, str], float]:
    """File → its size and times, and the latest second in which one was changed."""
    if not oid:
        return {}, 0.0
    given = {"oid": oid, "ignored": list(IGNORED_FILES)}
    rows = connection.execute(_TOUCHED, given).fetchall()
    return {name: times for name, times, _ in rows}, float(max(at for *_, at in rows))


def _digests(connection: Connection, oid: str) -> dict[str, str]:
    if not oid:
        return {}
    pieces: dict[str, list[tuple[int, str]]] = {}
    given = {"oid": oid, "piece": PIECE_BYTES, "ignored": list(IGNORED_FILES)}
    for name, _, at, digest in connection.execute(_FILES, given).fetchall():
        pieces.setdefault(name, []).append((at, digest))
    return {
        name: hashlib.sha256("".join(d for _, d in sorted(found)).encode()).hexdigest()
        for name, found in pieces.items()
    }


def names_of(connection: Connection) -> dict[str, str]:
    """File → what it holds, of the database that is connected to."""
    return dict(connection.execute(_NAMES).fetchall())


def count_rows(admin: Connection) -> int:
    """The rows of all tables that are not the system's."""
    tables = admin.execute(
        "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE c.relkind = 'r' AND c.oid >= 16384 AND n.nspname !~ '^pg_toast'"
    ).fetchall()
    total = 0
    for names in tables:
        rows = admin.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(*names)))
        total += int((rows.fetchone() or (0,))[0])
    return total


def cluster(connection: Connection, own: Container[str]) -> dict[str, str]:
    """All of the server that outlives a database; `own` databases are the sandbox's spares."""
    connection.execute("SET search_path = pg_catalog")
    found = {label: "" if value is None else value for label, value in connection.execute(_CLUSTER)}
    return {
        label: value
        for label, value in found.items()
        if label.removeprefix("database ") not in own or not label.startswith("database ")
    }


def begun_at(connection: Connection) -> str:
    """When the server's own processes began; they begin again whenever one of all has died."""
    found: Any = connection.execute(
        "SELECT coalesce(min(backend_start)::text, '') FROM pg_stat_activity"
        " WHERE backend_type = 'checkpointer'"
    ).fetchone()
    return str(found[0])
