"""A mail server behind the gate: a letter that a client has given, and that no server has yet.

The letter is kept in a file beside the records, under the digest of its bytes and envelope; a
statement is `letter DIGEST`. What its transaction would do is the deliveries that the next server
would get. To commit is to give it to that server: to all recipients, or to nobody. The bytes that
are sent are those that were judged; no line is added.

What the run has sent is kept in a file. Before a letter is given away the file says so: a gate
that is killed meanwhile leaves a letter of which nobody knows whether it was sent. It counts as
sent, and everything after it is held.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import json
import os
import re
import smtplib
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from statediff_office.mail.source import Deliveries, MailSource, OutboxControl

from statediff.atomic import write_atomically
from statediff.errors import InputError, UsageError
from statediff.model.schema import Schema
from statediff.model.state import MemoryChunks, State
from statediff.systems.relational.tools import Scalar
from statediff_gate.course import Course, Prepared
from statediff_gate.participant import Answer, Participant, Refused
from statediff_gate.statements import Rewrite, RowEdit

LATER: Final = "not sent, and may be tried again: "
"""The beginning of a reason that says nothing against the letter."""
_WORD: Final = "letter "
_SECONDS: Final = 60.0
_ATOM: Final = r"[^\s\x00-\x1f\x7f<>()\[\]\\,;:\"@]+"
_PLAIN: Final = re.compile(rf"{_ATOM}(@({_ATOM}|\[[\w.:]+\]))?")
"""An address that every server reads alike: nothing in quotes, no comment, no route."""
_UNKNOWN: Final = "a letter was being sent when a gate ended, and nobody knows whether it was"


@dataclass
class _Sent:
    """The letters of one run."""

    letters: list[str] = field(default_factory=list)
    pending: str | None = None
    """The one that is being given away."""
    conflict: str | None = None


class MailGate(Participant):
    """The next server behind the gate, and what the run has sent to it.

    `folder` gets the letters. Several processes may use it, one transaction after the other.
    """

    def __init__(self, name: str, url: str, folder: Path) -> None:
        self.name = name
        place = urlsplit(url)
        if not place.hostname or place.path not in ("", "/") or place.username is not None:
            raise UsageError(f"{name}: expected smtp://HOST:PORT of the next server")
        self._next = place.hostname, place.port or 25
        self._folder, self._file = folder, folder / "sent.json"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # It only makes rows of letters; nothing is asked of an outbox.
        self._source = MailSource(name, OutboxControl(0, b""))
        self._turn: int | None = None
        self._letter: str | None = None
        self._begin_course()

    def keep(self, sender: str, recipients: Sequence[str], raw: bytes) -> str:
        """Keep a letter that has come. Gives the statement that sends it."""
        letter = {
            "sender": sender, "recipients": [*recipients], "received_at_ns": time.time_ns(),
            "raw": base64.b64encode(raw).decode("ascii"),
        }  # fmt: skip
        content = json.dumps(letter).encode("ascii")
        digest = hashlib.sha256(content).hexdigest()
        write_atomically(self._folder / f"{digest}.json", content, durable=True)
        return _WORD + digest

    def _read(self, digest: str) -> dict[str, Any]:
        try:
            content = (self._folder / f"{Path(digest).name}.json").read_bytes()
        except OSError as error:
            raise Refused(f"{self.name}: no such letter: {error.strerror}") from error
        if hashlib.sha256(content).hexdigest() != digest:
            raise Refused(f"{self.name}: the letter is not as it was kept")
        letter: dict[str, Any] = json.loads(content)
        return letter

    # ------------------------------------------------------------ what was sent

    def _begin_course(self) -> None:
        try:
            self._sent = _Sent(**json.loads(self._file.read_bytes()))
        except FileNotFoundError:
            self._sent = _Sent()
        except (OSError, TypeError, ValueError) as error:
            raise InputError(f"{self._file}: cannot be read: {error}") from error
        sent = self._sent
        if sent.pending is not None and self._turn is not None:
            sent.letters, sent.pending = [*sent.letters, sent.pending], None
            sent.conflict = _UNKNOWN
        self._course = Course(self.name, self._state([]))
        self._course.conflict = sent.conflict
        state = self._state(sent.letters)
        self._course.accept(state, self._course.part_of(state)[0])

    @property
    def is_pending(self) -> bool:
        """True where nobody knows whether the last letter was sent."""
        return self._sent.pending is not None

    def _state(self, letters: Sequence[str]) -> State:
        rows = Deliveries()
        for each in self._source.deliveries([self._read(digest) for digest in letters]):
            rows.extend(each)
        return self._source.state(rows, MemoryChunks(), None)

    def _write(self) -> None:
        write_atomically(self._file, json.dumps(vars(self._sent)).encode("ascii"), durable=True)

    def begin_run(self) -> None:
        self.begin("")
        try:
            self._sent = _Sent()
            self._write()
            self._begin_course()
        finally:
            self.abort()

    # ------------------------------------------------------------ the transaction

    def begin(self, transaction: str) -> None:
        self._turn = os.open(self._folder / "turn", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._turn, fcntl.LOCK_EX)
        self._letter = None
        try:
            self._begin_course()
        except BaseException:
            self._end()
            raise

    def run(self, statement: str, values: Sequence[Scalar] = ()) -> Answer:
        if self._letter is not None:
            raise Refused(f"{self.name}: one letter is one transaction")
        if not statement.startswith(_WORD):
            raise Refused(f"{self.name}: takes letters alone")
        digest = statement.removeprefix(_WORD)
        letter = self._read(digest)
        for each in (*filter(None, [letter["sender"]]), *letter["recipients"]):
            if not _PLAIN.fullmatch(each):
                raise Refused(f"{self.name}: {each!r} is no plain address")
        self._letter = digest
        return Answer()

    def rewriting(self, edits: Sequence[RowEdit], schema: Schema) -> Iterable[Rewrite]:
        raise UsageError("a letter that was sent cannot be taken back")

    def prepare(self) -> Prepared:
        more = [] if self._letter is None else [self._letter]
        state = self._state([*self._sent.letters, *more])
        own, changes = self._course.part_of(state)
        self._proposed = state, own
        return self._course.prepared(state, changes)

    def commit(self) -> None:
        sent, digest = self._sent, self._letter
        if digest is not None:
            sent.pending = digest
            self._write()
            try:
                self._give(self._read(digest))
                sent.letters.append(digest)
            except Refused:
                sent.pending = None
                self._write()
                raise
            sent.pending = None
            self._write()
        self._course.accept(*self._proposed)
        self._end()

    def _give(self, letter: dict[str, Any]) -> None:
        """The next server has the letter. Raises `Refused`."""
        raw, is_given = base64.b64decode(letter["raw"]), False
        people = [letter["sender"], *letter["recipients"]]
        try:
            # Closed without QUIT: nothing that it might answer says anything of the letter.
            with closing(smtplib.SMTP(*self._next, timeout=_SECONDS)) as server:
                server.ehlo_or_helo_if_needed()
                options = " BODY=8BITMIME" if server.has_extn("8bitmime") else ""
                if not all(each.isascii() for each in people):
                    if not server.has_extn("smtputf8"):
                        raise smtplib.SMTPNotSupportedError("it takes no SMTPUTF8")
                    options += " SMTPUTF8"
                    server.command_encoding = "utf-8"
                # `mail` and `rcpt` would make another address of some.
                _need(server.docmd("MAIL", f"FROM:<{people[0]}>{options}"), "the sender")
                for each in people[1:]:
                    _need(server.docmd("RCPT", f"TO:<{each}>"), each)
                is_given = True
                _need(server.data(raw), "the letter")
        except smtplib.SMTPResponseException as error:
            again = LATER if error.smtp_code < 500 else ""
            said = error.smtp_error
            text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
            raise Refused(f"{again}the next server refuses it: {text}") from error
        except (OSError, smtplib.SMTPException, UnicodeError) as error:
            if is_given:
                self._sent.letters.append(self._letter or "")
                self._sent.conflict = _UNKNOWN
                raise Refused(f"{self.name}: {_UNKNOWN}") from error
            raise Refused(f"{LATER}the next server cannot be reached: {error}") from error

    def abort(self) -> None:
        self._end()

    def _end(self) -> None:
        self._letter = None
        if self._turn is not None:
            os.close(self._turn)
            self._turn = None

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._end()


def _need(reply: tuple[int, bytes], what: str) -> None:
    """Raise `SMTPResponseException` where the server does not take it."""
    code, text = reply
    if code not in (250, 251):
        said = text.decode("utf-8", "replace")
        raise smtplib.SMTPResponseException(code, f"{what}: {said}")
