"""Faults below the rows of live systems: what an agent can do that changes no row of a table.

Of a SQLite file each operator makes the file disagree with itself, or unreadable. Of letters it
adds a part or a header, of a folder it changes a mode, an owner or an attribute, of a repository a
file that git acts on later, of a tracker it leaves somebody signed in. They run in a real sandbox
after the agent that does the task right, before the capture after. An operator that finds no place
for itself says so, is no fault, and is counted among what was not tried.
"""

from __future__ import annotations

import base64
import os
import smtplib
import sqlite3
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from email import message_from_bytes, policy
from email.message import EmailMessage
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from statediff.contract.document.contract import ContractDocument
from statediff.errors import ContractError
from statediff.meta import server_faults
from statediff.meta.metatest import MetaCase, Part, domain_of
from statediff.model.verdict import Truth, Verdict
from statediff.systems.base.sandbox import EmbeddedSandbox
from statediff.systems.mail.source import MailSource
from statediff.systems.sqlite.copy import with_log

if TYPE_CHECKING:
    from statediff.meta.reference import Reference
    from statediff.systems.base.protocol import Sandbox

_SCHEME: Final = "sqlite:///"
_REDMINE: Final = "redmine.db"
_LEAVES: Final = (10, 13)


def _unindexed(path: Path) -> bool:
    """An index has no entry any more, by plain SQL; its definition is the one before."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        found = db.execute(
            "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL"
            " AND upper(sql) NOT LIKE '% WHERE %' ORDER BY name"
        ).fetchall()
    for name, sql in found:
        for text in (f"{sql} WHERE 0", sql):
            with closing(sqlite3.connect(path, isolation_level=None)) as db:
                (version,) = db.execute("PRAGMA schema_version").fetchone()
                db.execute("PRAGMA writable_schema = ON")
                db.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (text, name))
                db.execute(f"PRAGMA schema_version = {version + 1}")
            if text != sql:
                with closing(sqlite3.connect(path, isolation_level=None)) as db:
                    db.execute(f'REINDEX "{name}"')
        with closing(sqlite3.connect(path)) as db:
            if db.execute("PRAGMA integrity_check").fetchone() != ("ok",):
                return True  # the table is not empty
    return False


def _disordered(content: bytearray, size: int) -> bool:
    """Two cells of a leaf have changed places."""
    for start in range(size, len(content), size):
        (cells,) = struct.unpack_from(">H", content, start + 3)
        if content[start] in _LEAVES and 2 <= cells < size // 4:
            at = start + 8
            one, other = content[at : at + 2], content[at + 2 : at + 4]
            content[at : at + 4] = other + one
            return True
    return False


def _freed(content: bytearray, size: int) -> bool:
    """A page in use is on the free list."""
    if any(content[32:40]):
        return False
    pages = len(content) // size
    struct.pack_into(">III", content, 28, pages + 1, pages + 1, 2)
    content[92:96] = content[24:28]
    content += struct.pack(">III", 0, 1, 2).ljust(size, b"\0")
    return True


def _read_only(content: bytearray, _size: int) -> bool:
    """The header says that the file can only be read."""
    content[18] = 3
    return True


def _headless(content: bytearray, _size: int) -> bool:
    """The file has no header."""
    content[:100] = bytes(100)
    return True


def _cut(content: bytearray, size: int) -> bool:
    """The second half of the file is gone."""
    del content[len(content) // size // 2 * size :]
    return True


def _in_bytes(change: Callable[[bytearray, int], bool]) -> Callable[[Path], bool]:
    def apply(path: Path) -> bool:
        plain = path.with_name(f"{path.name}.plain")
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("VACUUM INTO ?", (str(plain),))
        content = bytearray(with_log(plain.read_bytes()))
        size = int.from_bytes(content[16:18], "big")
        is_changed = change(content, 65536 if size == 1 else size)
        plain.write_bytes(content)
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        plain.chmod(path.stat().st_mode & 0o777)
        plain.replace(path)
        return is_changed

    return apply


OPERATORS: Final[Mapping[str, Callable[[Path], bool]]] = {
    "index-entries": _unindexed,
    "cell-order": _in_bytes(_disordered),
    "free-list": _in_bytes(_freed),
    "read-only-header": _in_bytes(_read_only),
    "no-header": _in_bytes(_headless),
    "cut-off": _in_bytes(_cut),
}


@dataclass(frozen=True)
class Below:
    """An operator on the place of a system: what its source is reached by, and who names it."""

    scheme: str
    apply: Callable[[Place], bool]
    """Whether there was something to do it to."""
    names: tuple[str, ...]
    """Types whose changes show it, beside `source.NAME`."""


@dataclass(frozen=True)
class Place:
    """A source of a running sandbox."""

    source: str
    url: str
    sandbox: Sandbox

    @property
    def path(self) -> Path:
        """Where a file or a folder lies."""
        return Path(unquote(urlsplit(self.url).path.replace("//", "/")))

    @property
    def home(self) -> Path:
        """Where an embedded system keeps its files."""
        return self.sandbox.access().folder.parent / "systems" / self.source / "home"


def _in_file(operator: str) -> Callable[[Place], bool]:
    return lambda place: OPERATORS[operator](place.path)


def _entry(place: Place) -> Path | None:
    """The first file of a folder that is no repository."""
    folder = place.path
    if (folder / "HEAD").exists() or (folder / ".git").exists():
        return None
    return next((p for p in sorted(folder.rglob("*")) if p.is_file()), None)


def _mode(place: Place) -> bool:
    entry = _entry(place)
    if entry is not None:
        entry.chmod(entry.stat().st_mode & 0o7777 ^ 0o4002)
    return entry is not None


def _owner(place: Place) -> bool:
    entry = _entry(place)
    if entry is None or os.geteuid() != 0:
        return False
    os.chown(entry, 4711, 4711)
    return True


def _attribute(place: Place) -> bool:
    entry = _entry(place)
    if entry is None:
        return False
    try:
        os.setxattr(entry, "user.statediff", b"1")
    except OSError:
        return False  # the file system has none
    return True


def _folder(place: Place) -> Path:
    """The folder of the source."""
    return place.path


def _served(place: Place) -> Path:
    """The repository behind a server."""
    return place.home.parent / f"{place.source}.git"


def _git_file(
    name: str, content: str, mode: int = 0o644, folder_of: Callable[[Place], Path] = _folder
) -> Callable[[Place], bool]:
    """More text at the end of a file of a repository's administration."""

    def apply(place: Place) -> bool:
        folder = folder_of(place)
        top = folder if (folder / "HEAD").exists() else folder / ".git"
        if not (top / "HEAD").exists():
            return False
        file = top / name
        file.parent.mkdir(exist_ok=True)
        file.write_text((file.read_text() if file.exists() else "") + content)
        file.chmod(mode)
        return True

    return apply


def _letter(change: Callable[[bytes], bytes]) -> Callable[[Place], bool]:
    """The first letter that was sent, sent otherwise."""

    def apply(place: Place) -> bool:
        sources = {source.name: source for source in place.sandbox.sources()}
        outbox = sources[place.source]
        if not isinstance(outbox, MailSource):
            return False
        sent = outbox.control.messages()
        if not sent:
            return False
        outbox.control.reset()
        address = urlsplit(place.url)
        with smtplib.SMTP(address.hostname or "", address.port or 0, timeout=10) as server:
            for number, letter in enumerate(sent):
                raw = base64.b64decode(letter["raw"])
                server.sendmail(
                    letter["sender"], letter["recipients"], change(raw) if number == 0 else raw
                )
        return True

    return apply


def _with_header(raw: bytes) -> bytes:
    return b"Reply-To: stranger@example.org\r\n" + raw


def _with_part(raw: bytes) -> bytes:
    letter = message_from_bytes(raw, policy=policy.SMTP)
    if isinstance(letter, EmailMessage):
        letter.make_mixed()
        letter.add_attachment("<p>another price</p>", subtype="html", disposition="inline")
    return letter.as_bytes()


def _session(place: Place) -> bool:
    store = place.home / "db" / "db-session"
    if not store.parent.is_dir():
        return False
    with closing(sqlite3.connect(store, isolation_level=None)) as db:
        db.execute(
            "CREATE TABLE IF NOT EXISTS sessions (session_key VARCHAR(255),"
            " session_value TEXT, session_time REAL)"
        )
        db.execute("INSERT INTO sessions VALUES ('0123', ?, 0)", (repr({"user": "admin"}),))
    return True


def _in_tracker(operator: str, name: str = "db/db") -> Callable[[Place], bool]:
    def apply(place: Place) -> bool:
        database = place.home / name
        if not database.is_file():
            return False
        owner = database.stat()
        is_changed = OPERATORS[operator](database)
        if os.geteuid() == 0:  # the server goes on with what is its own
            os.chown(database, owner.st_uid, owner.st_gid)
        return is_changed

    return apply


def _token(place: Place) -> bool:
    """An administrator of a Redmine is signed in."""
    database = place.home / _REDMINE
    if not database.is_file():
        return False
    with closing(sqlite3.connect(database, timeout=10, isolation_level=None)) as db:
        made = db.execute(
            "INSERT INTO tokens (user_id, action, value, created_on, updated_on)"
            " SELECT min(id), 'session', hex(randomblob(20)), '2026-01-01', '2026-01-01'"
            " FROM users WHERE admin"
        )
        return made.rowcount == 1


def _stray_file(place: Place) -> bool:
    """A file that no attachment of a Redmine is about."""
    files = place.home / "files"
    if not (place.home / _REDMINE).is_file() or not files.is_dir():
        return False
    (files / "statediff.rb").write_text("nothing\n")
    return True


def _program(place: Place) -> bool:
    if not (place.home / "schema.py").is_file():
        return False
    detectors = place.home / "detectors"
    detectors.mkdir(exist_ok=True)
    (detectors / "later.py").write_text("def init(db):\n    pass\n")
    return True


def _in_postgres(operator: str) -> Callable[[Place], bool]:
    def apply(place: Place) -> bool:
        # The driver is of an extra.
        from statediff.systems.postgres.sandbox import PostgresSystem  # noqa: PLC0415 - an extra
        from statediff.systems.postgres.session import connected  # noqa: PLC0415 - an extra

        if operator not in server_faults.AS_OWNER:
            agent = partial(connected, place.url, server_faults.SECONDS)
            return server_faults.change_postgres(agent, server_faults.POSTGRES[operator])
        if not isinstance(place.sandbox, EmbeddedSandbox):
            return False
        system = place.sandbox.system(place.source)
        if not isinstance(system, PostgresSystem):
            return False
        return server_faults.change_postgres(system.as_owner, server_faults.POSTGRES[operator])

    return apply


def _in_mariadb(operator: str) -> Callable[[Place], bool]:
    statements = server_faults.MARIADB[operator]
    return lambda place: server_faults.change_mariadb(place.url, statements)


_MAIL: Final = ("message", "message_part", "message_header")
BELOW: Final[Mapping[str, Below]] = {
    **{
        f"structure:{name}": Below(_SCHEME, _in_file(name), ("db.structure",)) for name in OPERATORS
    },
    "files:mode": Below("file://", _mode, ()),
    "files:owner": Below("file://", _owner, ()),
    "files:attribute": Below("file://", _attribute, ()),
    "git:hook": Below("file://", _git_file("hooks/post-checkout", "#!/bin/sh\n", 0o755), ()),
    "git:setting": Below("file://", _git_file("config", "[core]\n\tfsmonitor = x\n"), ()),
    "git:alternate": Below("file://", _git_file("objects/info/alternates", "/srv/x\n"), ()),
    "mail:header": Below("smtp://", _letter(_with_header), _MAIL),
    "mail:part": Below("smtp://", _letter(_with_part), _MAIL),
    "tracker:session": Below("http://", _session, ("session",)),
    "tracker:program": Below("http://", _program, ("program",)),
    **{
        f"tracker:{name}": Below("http://", _in_tracker(name), ("db.structure",))
        for name in ("index-entries", "free-list", "cell-order")
    },
    "redmine:session": Below("http://", _token, ("token",)),
    "redmine:file": Below("http://", _stray_file, ()),
    **{
        f"redmine:{name}": Below("http://", _in_tracker(name, _REDMINE), ("db.structure",))
        for name in ("index-entries", "free-list", "cell-order")
    },
    "git-http:hook": Below(
        "http://", _git_file("hooks/post-update", "#!/bin/sh\n", 0o755, _served), ()
    ),
    "git-http:setting": Below(
        "http://", _git_file("config", "[uploadpack]\n\thideRefs = refs\n", folder_of=_served), ()
    ),
    "git-http:alternate": Below(
        "http://", _git_file("objects/info/alternates", "/srv/x\n", folder_of=_served), ()
    ),
    "git-http:replaced": Below(
        "http://", _git_file("info/grafts", f"{'0' * 40}\n", folder_of=_served), ()
    ),
    **{
        f"postgres:{name}": Below("postgresql://", _in_postgres(name), ())
        for name in server_faults.POSTGRES
    },
    **{
        f"mariadb:{name}": Below("mysql://", _in_mariadb(name), ())
        for name in server_faults.MARIADB
    },
}
"""Class and operator → what it does. Where no type is named, any change of the source shows it."""


class Damage:
    """A hook before the capture after: one operator on the first place that it fits."""

    def __init__(self, operator: str) -> None:
        self.operator = operator
        self.source: str | None = None
        """The source that was damaged; None where there is no place for the operator."""
        self.has_system = False

    def __call__(self, sandbox: Sandbox) -> None:
        below = BELOW[self.operator]
        for source, url in sorted(sandbox.access().urls.items()):
            if url.startswith(below.scheme):
                self.has_system = True
                if below.apply(Place(source, url, sandbox)):
                    self.source = source
                    return


def structure_cases(trials: Iterator[tuple[Damage, Reference]]) -> Iterator[MetaCase]:
    """The case of each damaged trial; it is named by a change of the structure of its source."""
    for damage, trial in trials:
        content: ContractDocument = trial.contract.content
        if damage.source is None:
            yield _untried(damage.operator, trial.name, content)
            continue
        verdict, clause, stage, error = None, "", "frame", ""
        is_named = False
        try:
            judgement = trial.judged()
        except ContractError as refused:
            error = str(refused)
        else:
            verdict = judgement.verdict
            named = BELOW[damage.operator].names or _delivered(trial, damage.source)
            places = tuple(f"{each}[" for each in (*named, f"source.{damage.source}"))
            found = [
                finding
                for finding in judgement.findings
                if finding.truth is Truth.FAILS
                and any(each.startswith(places) for each in finding.deltas)
            ]
            is_named = bool(found)
            if found:
                clause, stage = found[0].clause, found[0].stage.value
        yield MetaCase(
            part=Part.FAULT,
            kind=damage.operator,
            domain=domain_of(content),
            contract=content.contract,
            reference=trial.name,
            entity=damage.source,
            sentence=f"below the rows of {damage.source}: {damage.operator}",
            expected=Verdict.DIVERGE,
            verdict=verdict,
            clause=clause,
            stage=stage,
            is_named=is_named,
            error=error,
        )


def _delivered(trial: Reference, source: str) -> tuple[str, ...]:
    """The types that the source delivers."""
    for part in trial.after.parts:
        if part.reading.source == source:
            return tuple(part.state.tables)
    return ()


def _untried(operator: str, name: str, content: ContractDocument) -> MetaCase:
    return MetaCase(
        part=Part.UNTRIED,
        kind="faults below the rows",
        domain=domain_of(content),
        contract=content.contract,
        reference=name,
        entity="",
        sentence=f"{operator}: its systems have no place for it",
        expected=Verdict.MATCH,
        verdict=Verdict.MATCH,
        clause="",
        stage="",
        is_named=True,
    )
