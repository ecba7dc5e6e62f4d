"""A session with an IMAP server that reads and changes nothing: EXAMINE, BODY.PEEK.

`imaps://` is TLS from the first byte. `imap://` is plain on this machine, and begins TLS (STARTTLS)
to any other: no password goes over a network in the clear. `?ssl_ca=FILE` names who vouches for the
server.
"""

from __future__ import annotations

import base64
import contextlib
import imaplib
import re
import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from statediff.capture.source import SourceUnavailable
from statediff.errors import UsageError
from statediff.model.values import printable
from statediff.systems.base.urls import account_of, password_variable, without_passwords

SECONDS: Final = 60
AT_ONCE: Final = 50
"""Messages of one answer."""
MAX_CAUSE: Final = 200
_HERE: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_FOLDER: Final = re.compile(
    rb'\((?P<flags>[^)]*)\) (?:"(?:\\.|[^"\\])*"|NIL) (?P<name>.*)', re.DOTALL
)
_COUNT: Final = re.compile(rb"UID (\d+)")
_FLAGS: Final = re.compile(rb"FLAGS \(([^)]*)\)")
_SIZE: Final = re.compile(rb"RFC822\.SIZE (\d+)")
_DATE: Final = re.compile(rb'INTERNALDATE "([^"]*)"')
_SHIFTED: Final = re.compile(rb"&([A-Za-z0-9+,]*)-")
DERIVED: Final = frozenset(
    {"\\haschildren", "\\hasnochildren", "\\marked", "\\unmarked", "\\recent"}
)
"""Attributes and flags that follow from something else, or from who looked before."""


@dataclass(frozen=True)
class ListedFolder:
    """A folder as LIST shows it; `raw` is its name on the wire."""

    raw: bytes
    attributes: tuple[str, ...]

    @property
    def name(self) -> str:
        return folder_name(self.raw)

    @property
    def holds_messages(self) -> bool:
        return not {"\\noselect", "\\nonexistent"} & {each.lower() for each in self.attributes}


@dataclass(frozen=True)
class ListedMessage:
    """The server's listing of a message beside its content."""

    uid: int
    flags: tuple[str, ...]
    size: int
    received: str


class ImapSession:
    """Answers of a server, parsed. Raises `SourceUnavailable` where it says no or is odd."""

    def __init__(self, connection: imaplib.IMAP4) -> None:
        self._connection = connection

    def folders(self) -> list[ListedFolder]:
        """All folders, by name."""
        return self._named("LIST", self._connection.list())

    def subscribed(self) -> set[bytes]:
        """The names on the wire of the folders that are subscribed to."""
        return {each.raw for each in self._named("LSUB", self._connection.lsub('""', "*"))}

    def examine(self, folder: ListedFolder) -> int:
        """The folder is looked at, read only; its UIDVALIDITY."""
        name = folder.raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"').decode("ascii", "replace")
        _ok("EXAMINE", self._connection.select(f'"{name}"', readonly=True))
        _, found = self._connection.response("UIDVALIDITY")
        if not found or found[0] is None:
            raise SourceUnavailable(f"the server gives {printable(folder.name)} no UIDVALIDITY")
        return int(found[0])

    def messages(self) -> list[ListedMessage]:
        """All messages of the folder that is looked at, by UID."""
        answer = _ok("FETCH", self._connection.uid("FETCH", "1:*", _LISTED))
        found = {}
        for line in answer:
            text = line[0] if isinstance(line, tuple) else line
            if text is not None and (uid := _COUNT.search(text)) is not None:
                size, received, flags = _SIZE.search(text), _DATE.search(text), _FLAGS.search(text)
                if size is None or received is None or flags is None:
                    continue  # an unasked word of another session's change: the next look has it
                found[int(uid[1])] = ListedMessage(
                    int(uid[1]), flag_names(flags[1]), int(size[1]), received[1].decode("ascii")
                )
        return [found[uid] for uid in sorted(found)]

    def contents(self, uids: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """The bytes of each message that is still there."""
        for at in range(0, len(uids), AT_ONCE):
            wanted = ",".join(map(str, uids[at : at + AT_ONCE]))
            answer = _ok("FETCH", self._connection.uid("FETCH", wanted, "(UID BODY.PEEK[])"))
            for place, line in enumerate(answer):
                if isinstance(line, tuple):
                    rest = answer[place + 1] if place + 1 < len(answer) else b""
                    text = line[0] + (rest if isinstance(rest, bytes) else b"")
                    if (uid := _COUNT.search(text)) is not None:
                        yield int(uid[1]), line[1]

    def _named(self, verb: str, answer: tuple[str, Any]) -> list[ListedFolder]:
        found = []
        for line in _ok(verb, answer):
            if line is None:
                continue
            parts = _FOLDER.match(line[0] if isinstance(line, tuple) else line)
            if parts is None:
                raise SourceUnavailable(f"the server's answer to {verb} is none of IMAP")
            raw = line[1] if isinstance(line, tuple) else _unquoted(parts["name"])
            found.append(ListedFolder(raw, flag_names(parts["flags"])))
        return sorted(found, key=lambda each: each.raw)


_LISTED: Final = "(UID FLAGS INTERNALDATE RFC822.SIZE)"


def _ok(verb: str, answer: tuple[str, Any]) -> list[tuple[bytes, bytes] | bytes | None]:
    kind, lines = answer
    if kind != "OK":
        said = " ".join(str(line, "ascii", "replace") for line in lines if isinstance(line, bytes))
        raise SourceUnavailable(f"the server refused {verb}: {printable(said[:MAX_CAUSE])}")
    found: list[tuple[bytes, bytes] | bytes | None] = lines  # as imaplib documents
    return found


def flag_names(flags: bytes) -> tuple[str, ...]:
    """The flags, sorted, without those of `DERIVED`."""
    names = {each.decode("ascii", "backslashreplace") for each in flags.split()}
    return tuple(sorted(name for name in names if name.lower() not in DERIVED))


def folder_name(raw: bytes) -> str:
    """A name as people see it: modified UTF-7, as bytes where it is not in that form."""

    def shifted(found: re.Match[bytes]) -> bytes:
        if not found[1]:
            return b"&"
        code = found[1].replace(b",", b"/")
        return base64.b64decode(code + b"=" * (-len(code) % 4)).decode("utf-16-be").encode()

    try:
        return _SHIFTED.sub(shifted, raw).decode()
    except (ValueError, UnicodeError):
        return raw.decode("utf-8", "backslashreplace")


def _unquoted(name: bytes) -> bytes:
    if name[:1] == b'"' == name[-1:]:
        return re.sub(rb"\\(.)", rb"\1", name[1:-1])
    return name


@contextlib.contextmanager
def _ended(connection: imaplib.IMAP4) -> Iterator[None]:
    """Behind the block nothing of the connection is open, whether or not the line still holds."""
    try:
        yield
    finally:
        with contextlib.suppress(OSError, imaplib.IMAP4.error):
            connection.logout()
        with contextlib.suppress(OSError):
            connection.shutdown()


@contextlib.contextmanager
def imap_session(source: str, url: str) -> Iterator[ImapSession]:
    """A session that is logged in. Raises `SourceUnavailable`, and `UsageError` for a wrong URL."""
    parts = urlsplit(url)
    user, password = account_of(source, url)
    if parts.hostname is None or user is None:
        raise UsageError(f"the URL of {source}: expected {parts.scheme}://USER@HOST/")
    if password is None:
        raise UsageError(
            f"{source}: no password; put it into the environment as {password_variable(source)}"
        )
    files = parse_qs(parts.query).get("ssl_ca")
    context = ssl.create_default_context(cafile=files[0] if files else None)
    try:
        connection: imaplib.IMAP4
        if parts.scheme == "imaps":
            connection = imaplib.IMAP4_SSL(
                parts.hostname, parts.port or 993, ssl_context=context, timeout=SECONDS
            )
        else:
            connection = imaplib.IMAP4(parts.hostname, parts.port or 143, timeout=SECONDS)
        with _ended(connection):
            if parts.scheme == "imap" and parts.hostname not in _HERE:
                connection.starttls(context)
            connection.login(user, password)
            yield ImapSession(connection)
    except (imaplib.IMAP4.error, OSError) as error:
        said = str(error.args[0], "ascii", "replace") if _is_bytes(error) else str(error)
        raise SourceUnavailable(printable(without_passwords(said, [url])[:MAX_CAUSE])) from error


def _is_bytes(error: Exception) -> bool:
    return bool(error.args) and isinstance(error.args[0], bytes)
