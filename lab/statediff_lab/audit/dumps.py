"""Dumps of databases, loaded in a server that runs: each into a database of its own.

The server's own clients load them (`psql`, `pg_restore`, `mariadb`), so that a dump is what they
take it for. What is loaded is dropped at the end; where the audit was killed, by the next one.
"""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

from statediff.errors import InputError, UsageError
from statediff.model.values import printable
from statediff.systems.external.commands import end_of
from statediff.systems.relational.byurl import name_of_copy
from statediff_lab.audit.files import is_sqlite
from statediff_lab.audit.places import parts

_POSTGRES = frozenset({"postgresql", "postgres"})
_MARIADB = frozenset({"mysql", "mariadb"})
_ARCHIVE = b"PGDMP"
_GZIP = b"\x1f\x8b"
_SECONDS = 3600.0
_ELSEWHERE = re.compile(
    rb"^\s*(?:\\c(?:onnect)?\b|(?:CREATE|DROP)\s+DATABASE\b|USE\s+`)", re.IGNORECASE | re.MULTILINE
)
"""Lines by which a dump leaves the database that it is loaded into."""


class Dumps:
    """Databases made of dumps in one server; `close` drops them."""

    def __init__(self, server: str) -> None:
        self._url = urlsplit(server)
        self._secret = str(parts(server)["password"]) if server else ""
        self._loaded: dict[str, str] = {}
        if server and self._url.scheme not in _POSTGRES | _MARIADB:
            raise UsageError(f"server: expected postgresql:// or mysql://, found {server[:20]!r}")

    def place(self, state: str) -> str:
        """The state, or of a dump the URL of what it was loaded into, under the same name."""
        name, _, path = state.rpartition("=")
        if "://" in state or not is_dump(Path(path)):
            return state
        if not self._url.scheme:
            raise UsageError(f"{printable(path)}: a dump is loaded in a server; give one: --server")
        if path not in self._loaded:
            self._loaded[path] = self._load(Path(path))
        return f"{name}={self._loaded[path]}" if name else self._loaded[path]

    def close(self) -> None:
        """Nothing that was loaded is left on the server."""
        for url in self._loaded.values():
            self._ask(f"DROP DATABASE IF EXISTS {urlsplit(url).path[1:]}")
        self._loaded.clear()

    def _load(self, path: Path) -> str:
        name = name_of_copy()
        self._ask(f"CREATE DATABASE {name}")
        url = urlunsplit(self._url._replace(path=f"/{quote(name)}"))
        self._loaded[str(path)] = url
        try:
            content = path.read_bytes()
            content = gzip.decompress(content) if content.startswith(_GZIP) else content
        except (OSError, EOFError) as error:
            raise InputError(f"{printable(str(path))}: cannot be read: {error}") from error
        words = self._client(name)
        if content.startswith(_ARCHIVE):
            words = ["pg_restore", "--no-owner", "--no-privileges", "--exit-on-error", *words[-2:]]
        elif found := _ELSEWHERE.search(content):
            said = printable(found[0].decode(errors="replace").strip())
            raise InputError(
                f"{printable(str(path))}: its line `{said} …` names a database of its own; an "
                "audit loads it into another: leave such lines out"
            )
        self._run(words, content, printable(str(path)))
        return url

    def _ask(self, statement: str) -> None:
        self._run(self._client(""), statement.encode(), "server")

    def _client(self, database: str) -> list[str]:
        """The client that stops at the first statement that the server refuses."""
        host = self._url.netloc.rpartition("@")[2]
        user = self._url.netloc.rpartition("@")[0].partition(":")[0]
        if self._url.scheme in _POSTGRES:
            netloc = f"{user}@{host}" if user else host
            path = f"/{database}" if database else self._url.path.rstrip("/") or "/postgres"
            plain = urlunsplit(self._url._replace(netloc=netloc, path=path))
            return ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", plain]
        known = parts(urlunsplit(self._url))
        given = [f"--{part}={known[part]}" for part in ("host", "port", "user") if known[part]]
        return ["mariadb", *given, "--protocol=tcp", *([database] if database else [])]

    def _run(self, words: Sequence[str], given: bytes, what: str) -> None:
        secret = {"MYSQL_PWD": self._secret, "PGPASSWORD": self._secret} if self._secret else {}
        try:
            ended = end_of(words, Path.cwd(), _SECONDS, {**os.environ, **secret}, given=given)
        except OSError as error:
            raise UsageError(f"{what}: {words[0]} cannot be started: {error.strerror}") from error
        if ended.code != 0:
            raise InputError(f"{what}: {words[0]} cannot load it: {ended.said}")


def is_dump(path: Path) -> bool:
    """True if the path is one that programs dump databases to, and no SQLite file."""
    is_named = path.name.lower().endswith((".sql", ".sql.gz", ".dump", ".backup"))
    return is_named and path.is_file() and not is_sqlite(path)
