"""A Redmine in a container: put back in place while it runs, proven by all its rows and files.

Its database and its files lie in a folder of this machine that the server shares; the base state
is made from the pack's seed, and kept in the evaluator's memory only, like the evaluator's key. A
reset copies the base over the live database (SQLite's backup, under its locks) and fixes the
files. A running Redmine remembers settings and the like: where anything but ordinary work had been
changed, or the server hangs or is gone, it is started anew.

The proof is a SHA-256 over every row, table definition and file; it asks neither the server nor
anything that captures state.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import sqlite3
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final

from statediff_containers.engine import MEBIBYTE, Shared, Spec, connect
from statediff_containers.images import image_tag
from statediff_containers.served import FolderServer

from statediff.capture.feed import Feed
from statediff.capture.source import Source
from statediff.errors import SandboxError
from statediff.model.values import printable
from statediff.packs import PackSource
from statediff.systems.base.folders import make_folder, remove
from statediff.systems.base.protocol import Drift, SourceProof
from statediff.systems.files.leaves import Leaf, files_digest, restore, scan
from statediff.systems.sqlite.pages import FileConnection
from statediff_trackers.redmine.api import ApiKey, RedmineApiSource
from statediff_trackers.redmine.seed import plant, stored_password
from statediff_trackers.redmine.source import RedmineSource
from statediff_trackers.roundup.sandbox import read_seed

Difference = tuple[str, str, str]
"""(what, expected, found)."""

WORK: Final = frozenset(
    {
        "attachments",
        "custom_values",
        "issue_relations",
        "issues",
        "journal_details",
        "journals",
        "sqlite_sequence",
        "tokens",
        "users",
        "watchers",
    }
)
"""Tables that ordinary work changes and of which a running Redmine remembers nothing."""
MAX_ROWS: Final = 1_000_000
_SECRETS: Final = frozenset(
    {"account_password", "hashed_password", "salt", "twofa_totp_key", "value"}
)
_NAMED: Final = {
    "settings": "setting",
    "roles": "role",
    "journals": "journal entry",
    "sqlite_sequence": "numbering",
}


@dataclass(frozen=True)
class TableDigest:
    """A table's digest: its definition, and SHA-256 over all rows in their order."""

    definition: str
    rows: str
    count: int

    def __str__(self) -> str:
        return f"{self.count} rows, digest {self.rows[:12]}"


Tables = Mapping[str, TableDigest]


def tables_of(db: sqlite3.Connection) -> dict[str, TableDigest]:
    """Every table, index, view and trigger of a database, read in one transaction.

    Only tables that are kept as rows are read: nothing that the file defines is executed.
    Raises `sqlite3.Error`.
    """
    found: dict[str, TableDigest] = {}
    db.execute("PRAGMA trusted_schema = OFF")
    with _one_transaction(db):
        listed = db.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY name").fetchall()
        for kind, name, sql in listed:
            definition = f"{kind}: {sql}"
            if kind != "table" or str(sql)[:20].upper().startswith("CREATE VIRTUAL"):
                found[str(name)] = TableDigest(definition, "", 0)
                continue
            hasher, count = hashlib.sha256(), 0
            for row in db.execute(f"SELECT * FROM {_quoted(name)} LIMIT {MAX_ROWS + 1}"):  # noqa: S608 - quoted
                hasher.update(repr(row).encode("utf-8", "surrogatepass") + b"\n")
                count += 1
            found[str(name)] = TableDigest(definition, hasher.hexdigest(), count)
    return found


def tables_digest(tables: Tables) -> str:
    """One digest of all tables."""
    hasher = hashlib.sha256()
    for name, table in sorted(tables.items()):
        hasher.update(f"{name}\0{table.definition}\0{table.rows}\0{table.count}\n".encode())
    return hasher.hexdigest()


def differing(one: Tables, other: Tables) -> list[str]:
    """The names of the tables that are not the same in both, sorted."""
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def described(
    before: sqlite3.Connection, after: sqlite3.Connection, names: list[str]
) -> Iterator[Difference]:
    """The differences in these tables, row by row where rows have an `id`."""
    for name in names:
        one, other = _rows(before, name), _rows(after, name)
        if one is None or other is None:
            kinds = [_kind(side, name) for side in (before, after)]
            words = [f"a {kind}" if kind else "not there" for kind in kinds]
            yield f"{kinds[0] or kinds[1] or 'table'} {printable(name)}", words[0], words[1]
            continue
        told = False
        for key in sorted(one.keys() | other.keys(), key=str):
            was, now = one.get(key), other.get(key)
            if was == now:
                continue
            told = True
            what = _row_name(name, key, was or now or {})
            if was is None or now is None:
                yield what, _present(was), _present(now)
                continue
            for column in was:
                if was[column] != now.get(column):
                    yield (
                        f"{column} of {what}",
                        _short_value(name, column, was[column]),
                        _short_value(name, column, now.get(column)),
                    )
        if not told:
            yield f"table {printable(name)}", "as it was defined", "defined otherwise"


def _kind(db: sqlite3.Connection, name: str) -> str:
    try:
        found = db.execute("SELECT type FROM sqlite_schema WHERE name = ?", (name,)).fetchone()
    except sqlite3.Error:
        return ""
    return "" if found is None else printable(str(found[0]))


def _row_name(table: str, key: object, row: Mapping[str, Any]) -> str:
    word = _NAMED.get(table, table.removesuffix("s"))
    name = row.get("name") if table in ("settings", "roles", "sqlite_sequence") else None
    return printable(f"{word} {key if name is None else name}"[:80])


def _present(row: object) -> str:
    return "not there" if row is None else "there"


def _short_value(table: str, column: str, value: object) -> str:
    # A receipt is shown to people: it holds no stored password and no key.
    if column in _SECRETS and table != "settings":
        return "a secret"
    return printable(str(value)[:60])


def _rows(db: sqlite3.Connection, name: str) -> dict[Any, dict[str, Any]] | None:
    try:
        sql = db.execute(
            "SELECT sql FROM sqlite_schema WHERE name = ? AND type = 'table'", (name,)
        ).fetchone()
        if sql is None or str(sql[0]).upper().startswith("CREATE VIRTUAL"):
            return None
        cursor = db.execute(f"SELECT * FROM {_quoted(name)} LIMIT {MAX_ROWS}")  # noqa: S608 - quoted
        columns = [each[0] for each in cursor.description]
        rows = [dict(zip(columns, row, strict=True)) for row in cursor]
    except sqlite3.Error:
        return None
    by_id = {row["id"]: row for row in rows} if "id" in columns else {}
    return by_id if len(by_id) == len(rows) else dict(enumerate(rows))


def _quoted(name: object) -> str:
    return '"' + str(name).replace('"', '""') + '"'


@contextlib.contextmanager
def _one_transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN")
    try:
        yield
    finally:
        db.execute("ROLLBACK")


AGENT: Final = "robin"
IMAGE: Final = "redmine"
PROGRAM: Final = "puma"
DATABASE: Final = "redmine.db"
FILES: Final = "files"
METHOD: Final = "sha256 over every row, table definition and file"
FIRST_READING: Final = "/issues.json?status_id=*&include=attachments,relations&limit=100"
PRISTINE: Final = "/usr/share/pristine/redmine.db"
_POLL_SECONDS: Final = 0.01
_IDLE_SECONDS: Final = 0.5
_BEGUN_SECONDS: Final = 5.0
_LOCK_SECONDS: Final = 0.5


class RedmineTracker:
    """A `System` of kind `redmine`: a Redmine that serves its REST interface on loopback."""

    FILES: ClassVar[Mapping[str, bool]] = {"seed": True}
    LOOKS: ClassVar[frozenset[str]] = frozenset({"redmine-api"})

    def __init__(self, source: PackSource, looks: tuple[PackSource, ...], folder: Path) -> None:
        self.source = source.name
        self.folder = folder
        self._seed = read_seed(source.files["seed"])
        self._key = secrets.token_hex(20)
        # Ready is what has read the issues once: the first time takes Redmine seconds.
        self._server = FolderServer(
            image_tag(IMAGE),
            source.name,
            PROGRAM,
            768 * MEBIBYTE,
            (FIRST_READING, {"X-Redmine-API-Key": self._key}),
        )
        self._password = ""
        self._base: sqlite3.Connection | None = None
        self._files: dict[str, Leaf] = {}
        own = frozenset({AGENT})
        self._own = read = RedmineSource(
            source.name, self.home, DATABASE, FILES, source.refinement(), own=own
        )
        self._sources: tuple[Source, ...] = (
            read,
            *(RedmineApiSource(look.name, self._account, read.learned) for look in looks),
        )

    @property
    def home(self) -> Path:
        """The folder that the server shares."""
        return self.folder / "home"

    @property
    def url(self) -> str:
        """With the agent's account of this trial in it."""
        return f"http://{AGENT}:{self._password}@127.0.0.1:{self._server.port}/"

    def start(self) -> None:
        if self._server.is_started:
            return
        self._build()
        self._renew()
        self._write()
        self._serve()

    def stop(self) -> None:
        self._server.stop()

    def failure(self) -> str | None:
        return self._server.failure()

    def sources(self) -> tuple[Source, ...]:
        return self._sources

    def unplug(self, source: str) -> None:
        """The server is killed for its interface, the database removed for itself."""
        if source == self.source:
            remove(self.home / DATABASE)
            self._own.database.is_unplugged = True
        else:
            self._server.stop()

    def reset(self) -> None:
        """Database and files are the base, under a new password for the agent; it is served."""
        self._own.database.is_unplugged = False
        self._renew()
        if self._may_stay() and self._copy_in_place():
            return
        self._server.stop()
        self._write()
        self._serve()

    def verify(self) -> tuple[SourceProof, tuple[Drift, ...]]:
        base = self._open_base()
        expected = tables_of(base)
        files = {path: leaf.summary() for path, leaf in self._files.items()}
        found_files = scan(self.home / FILES)
        drift = [self._drift(*each) for each in _file_drift(files, found_files)]
        found = "unread"
        try:
            with self._open_database() as live:
                tables = tables_of(live)
                found = _digest(tables, found_files)
                names = differing(expected, tables)
                drift += [self._drift(*each) for each in described(base, live, names)]
        except (OSError, sqlite3.Error) as error:
            drift.append(self._drift("its database", "a readable database", str(error)[:80]))
        drift += [self._drift(f"file {name}", "no such file", "there") for name in self._beside()]
        # A connection that is being closed takes a thread once more, after its request is over.
        if not self._is_idle_within(_IDLE_SECONDS) and (cause := self._busy()) is not None:
            drift.append(self._drift("its server", "idle", cause))
        proof = SourceProof(self.source, METHOD, _digest(expected, files), found, self._entities)
        return proof, tuple(drift)

    def feeds(self) -> tuple[Feed, ...]:
        """Nothing tells yet what happens in between."""
        return ()

    def unsettled(self, deadline: float) -> str | None:
        """Waits until no request is at work and nobody holds a write transaction."""
        while True:
            cause = self._busy() or self._lock_cause()
            if cause is None or time.monotonic() >= deadline:
                return cause
            time.sleep(_POLL_SECONDS)

    def _account(self) -> ApiKey:
        """The evaluator's own, which no agent is given."""
        return ApiKey(f"http://127.0.0.1:{self._server.port}/", self._key)

    @property
    def _entities(self) -> int:
        return len(self._seed["users"]) + len(self._seed["issues"])

    def _build(self) -> None:
        base = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        base.deserialize(_pristine(image_tag(IMAGE)))
        try:
            base.execute("BEGIN")
            attached = plant(base, self._seed, {}, self._key)
            base.execute("COMMIT")
        except (sqlite3.Error, ValueError, LookupError, TypeError) as error:
            base.close()
            raise SandboxError(f"{self.source}: the seed makes no tracker: {error!r}") from error
        self._base = base
        self._files = {each.path: Leaf.of(each.content) for each in attached}
        for path in list(self._files):
            for parent in Path(path).parents[:-1]:
                self._files.setdefault(str(parent), Leaf.folder())

    def _open_base(self) -> sqlite3.Connection:
        if self._base is None:
            raise SandboxError(f"{self.source}: the tracker is not started")
        return self._base

    def _renew(self) -> None:
        """The base has new secrets for the agent, and settings that no memory is newer than."""
        self._password = secrets.token_urlsafe(18)
        hashed, salt = stored_password(self._password)
        base = self._open_base()
        base.execute(
            "UPDATE users SET hashed_password = ?, salt = ? WHERE login = ?", (hashed, salt, AGENT)
        )
        # Anyone who was signed in could read a key, and use it later.
        base.execute(
            "UPDATE tokens SET value = lower(hex(randomblob(20))) WHERE value != ?", (self._key,)
        )
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
        base.execute("UPDATE settings SET updated_on = ? WHERE name = 'app_title'", (now,))

    def _may_stay(self) -> bool:
        """True if the server can go on: it runs, is idle, and remembers nothing of this trial."""
        if not self._server.sees(self.home) or self._beside():
            return False
        if not self._is_idle_within(_IDLE_SECONDS):
            return False
        try:
            with self._open_database() as live:
                strange = differing(tables_of(self._open_base()), tables_of(live))
        except (OSError, sqlite3.Error):
            return False
        with contextlib.suppress(ValueError):
            if self._only_renewed():
                strange.remove("settings")
        return set(strange) <= WORK

    def _beside(self) -> list[str]:
        """Further files in the home: left behind there, or a journal of SQLite's."""
        return sorted(set(_names(self.home)) - {DATABASE, FILES})

    def _only_renewed(self) -> bool:
        """True if the live settings differ from the base in the time of `_renew` alone."""
        query = "SELECT id, name, value FROM settings ORDER BY id"
        try:
            with self._open_database() as live:
                return live.execute(query).fetchall() == self._open_base().execute(query).fetchall()
        except (OSError, sqlite3.Error):
            return False

    def _copy_in_place(self) -> bool:
        """The live database is the base, page by page; False where it cannot be locked."""
        try:
            with self._open_database() as live:
                self._open_base().backup(live)
            self._mend_files()
        except (OSError, sqlite3.Error):
            return False
        return True

    def _mend_files(self) -> None:
        restore(self._files, self.home / FILES)
        self._server.give(self.home / FILES)
        (self.home / FILES).chmod(0o1777)  # as the home: no link can take its place

    def _write(self) -> None:
        """The folder is made anew."""
        try:
            remove(self.folder)
            make_folder(self.folder)
            make_folder(self.home)
            # Sticky, and the database is ours: the server may write it and its journal beside it,
            # and cannot put a link or another file in its place.
            self.home.chmod(0o1777)
            database = self.home / DATABASE
            database.write_bytes(self._open_base().serialize())
            database.chmod(0o666)
            self._mend_files()
        except OSError as error:
            raise SandboxError(
                f"{self.source}: the tracker cannot be put back at {self.home}: {error}"
            ) from error

    def _serve(self) -> None:
        self._server.start(
            (Shared(self.home, "/srv/tracker", is_read_only=False),),
            {"SECRET_KEY_BASE": secrets.token_hex(64)},
        )
        # The request that showed that it serves may not be over; `verify` tells of any other.
        self._is_idle_within(_BEGUN_SECONDS)

    def _is_idle_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self._busy() is not None:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    @contextlib.contextmanager
    def _open_database(self) -> Iterator[sqlite3.Connection]:
        file = self.home / DATABASE
        if file.is_symlink() or not file.is_file():
            raise OSError("the database file is gone")
        uri = f"{file.absolute().as_uri()}?mode=rw"
        with contextlib.closing(
            sqlite3.connect(
                uri,
                uri=True,
                timeout=_LOCK_SECONDS,
                isolation_level=None,
                factory=FileConnection,
            )
        ) as live:
            yield live

    def _lock_cause(self) -> str | None:
        try:
            with self._open_database() as probe:
                probe.execute("BEGIN IMMEDIATE")
                probe.execute("ROLLBACK")
        except (OSError, sqlite3.Error) as error:
            return f"the database cannot be locked: {error}"
        return None

    def _busy(self) -> str | None:
        """The server's present work; None where it runs and no request is in progress."""
        told = self._server.ask("control.sock", "/stats")
        try:
            stats: Any = json.loads(told[1] if told else b"")
            waiting, idle, most = (
                int(stats[key]) for key in ("backlog", "pool_capacity", "max_threads")
            )
        except (ValueError, LookupError, TypeError):
            return "it does not answer"
        at_work = waiting + most - idle
        return f"{at_work} requests are in progress" if at_work else None

    def _drift(self, what: str, expected: str, found: str) -> Drift:
        return Drift(self.source, what, expected, found)


@cache
def _pristine(image: str) -> bytes:
    """The empty database that comes with the image's Redmine."""
    container = connect().run(Spec(image, "redmine's image", command=("sleep", "60")))
    try:
        return container.read(PRISTINE)
    finally:
        container.remove()


def _digest(tables: Mapping[str, Any], files: Mapping[str, Leaf]) -> str:
    return f"{tables_digest(tables)[:32]}{files_digest(files)[:32]}"


def _file_drift(
    expected: Mapping[str, Leaf], found: Mapping[str, Leaf]
) -> Iterator[tuple[str, str, str]]:
    for path in sorted(expected.keys() | found.keys()):
        one, other = expected.get(path), found.get(path)
        if one != other:
            words = ["nothing there" if each is None else each.words() for each in (one, other)]
            yield f"attachment file {path}", words[0], words[1]


def _names(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in os.scandir(folder)]
    except OSError:
        return []
