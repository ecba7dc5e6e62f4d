"""Witnesses: who signs a log's checkpoint only if it goes on from the one they signed before.

The protocol is C2SP's tlog-witness: a POST to `/add-checkpoint` says how many entries the witness
saw last, shows that the log goes on from there, and gives the checkpoint; the answer is the line
of a signature. A witness keeps one checkpoint of each log, and answers after it is on the disk.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Final

import httpx

from statediff.atomic import write_atomically
from statediff.errors import BundleError, StorageError, UsageError
from statediff.evidence.canonical import write_base64
from statediff.evidence.checkpoints import (
    MOST_STEPS,
    check_extends,
    checked,
    read_checkpoint,
    with_signatures,
)
from statediff.evidence.merkle import consistency_proof, extends
from statediff.evidence.notes import (
    MAX_BYTES,
    Note,
    cosign,
    read_hash,
    read_head,
    read_note,
    read_signatures,
    require_name,
    write_signature,
)
from statediff.evidence.verify import SEALING, Signer
from statediff.reports.loopback import PATIENCE, BoundedServer

if TYPE_CHECKING:
    from statediff.evidence.keys import SigningKey
    from statediff.evidence.log import Log

PATH: Final = "/add-checkpoint"
SIZE_TYPE: Final = "text/x.tlog.size"
ASK_SECONDS: Final = 20.0
_TIME_QUERY: Final = "application/timestamp-query"
_PLAIN_TYPE: Final = "text/plain; charset=utf-8"
_MAX_BODY: Final = MAX_BYTES + 64 * (MOST_STEPS + 1)
_POLL_SECONDS: Final = 0.05
_ATTEMPTS: Final = 3
"""Others may have asked the witness in between."""


def require_next(place: Path, log: Log, origin: str, key: SigningKey) -> None:
    """The log goes on from the checkpoint of it that lies at `place`, if one does.

    `BundleError` where it does not: nobody signs a log that went back without noticing.
    """
    if not place.is_file():
        return
    own = Signer("this key", key.public, (SEALING,), None, None)
    try:
        seen = read_checkpoint(place.read_bytes(), [own], origin)
    except BundleError:
        return  # of another log, or nothing of the sort
    check_extends(log, seen)


def ask(url: str, log: Log, signed: bytes) -> bytes:
    """The checkpoint with the signature of the witness at this URL.

    `BundleError` where the witness saw another history, `UsageError` where it does not answer.
    """
    note = read_note(signed)
    size, place = read_head(note).size, f"{url.rstrip('/')}{PATH}"
    old = 0
    for _ in range(_ATTEMPTS):
        steps = consistency_proof(log.hashes[:size], old)
        status, text = _post(place, [old, *map(write_base64, steps)], signed)
        if status == HTTPStatus.OK:
            return with_signatures(note, read_signatures(text)).written()
        if status != HTTPStatus.CONFLICT:
            raise UsageError(f"{place}: the witness refused: {status} {text[:200].strip()}")
        last = text.strip()
        if not (last.isascii() and last.isdigit() and len(last) < 19):
            raise UsageError(f"{place}: the witness did not say what it saw last: {last[:60]!r}")
        if int(last) > size or (int(last) == old and old == size):
            raise BundleError(
                f"{place}: the witness saw {last} entries of another history; the log has {size}: "
                "it was cut or rewritten"
            )
        old = int(last)
    raise UsageError(f"{place}: the witness changes its mind; ask again")


def ask_time(url: str, request: bytes) -> bytes:
    """The answer of the time stamping authority at this URL; `UsageError` where it gives none."""
    status, token = _sent(url, request, _TIME_QUERY)
    if status != HTTPStatus.OK:
        raise UsageError(f"{url}: the authority refused: {status}")
    return token


def _post(place: str, front: Sequence[int | str], signed: bytes) -> tuple[int, str]:
    first, *steps = front
    body = "\n".join([f"old {first}", *map(str, steps), "", ""]).encode() + signed
    status, found = _sent(place, body, _PLAIN_TYPE)
    return status, found.decode("utf-8", "replace")


def _sent(place: str, body: bytes, kind: str) -> tuple[int, bytes]:
    """The status and the answer to a POST; `UsageError` where there is none, or it is too long."""
    try:
        with httpx.stream(
            "POST", place, content=body, headers={"Content-Type": kind}, timeout=ASK_SECONDS
        ) as answer:
            found = b""
            for piece in answer.iter_bytes():
                found += piece
                if len(found) > MAX_BYTES:
                    raise UsageError(f"{place}: its answer has more than {MAX_BYTES} bytes")
            return answer.status_code, found
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise UsageError(f"{place}: it does not answer: {error}") from error


@dataclass(frozen=True)
class Answer:
    """The answer of a witness."""

    status: HTTPStatus
    text: bytes = b""
    kind: str = _PLAIN_TYPE


class Witness:
    """Signs checkpoints of logs by trusted keys, each log's only as it grows."""

    def __init__(
        self,
        folder: Path,
        name: str,
        key: SigningKey,
        trust: Sequence[Signer],
        origins: frozenset[str],
    ) -> None:
        """`folder` keeps the last checkpoint of each log. `UsageError`, `StorageError`."""
        require_name(name)
        self._folder, self._name, self._key = folder, name, key
        self._trust, self._origins = tuple(trust), origins
        self._lock = threading.Lock()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"{folder}: cannot be made: {error.strerror}") from error

    def add(self, body: bytes) -> Answer:
        """The answer to a request with this body."""
        try:
            old, steps, note = _request(body)
            head = read_head(note)
        except BundleError as error:
            return _refusal(HTTPStatus.BAD_REQUEST, error)
        if head.origin not in self._origins:
            return _refusal(HTTPStatus.NOT_FOUND, "no log that is signed here")
        try:
            checked(note, self._trust)
        except BundleError as error:
            return _refusal(HTTPStatus.FORBIDDEN, error)
        if old > head.size:
            return _refusal(HTTPStatus.BAD_REQUEST, "the old size is larger than the new one")
        with self._last(head.origin) as place:
            last = read_head(read_note(place.read_bytes())) if place.exists() else None
            size = 0 if last is None else last.size
            is_other = last is not None and old == head.size and last.root != head.root
            if old != size or is_other:
                return Answer(HTTPStatus.CONFLICT, f"{size}\n".encode(), SIZE_TYPE)
            if last is not None and not extends(size, last.root, head.size, head.root, steps):
                return _refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "the proof does not fit")
            if last is None and steps:
                return _refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "a proof from nothing is empty")
            write_atomically(place, note.written(), durable=True)
        now = datetime.now(UTC)
        return Answer(HTTPStatus.OK, write_signature(cosign(note.text, self._name, now, self._key)))

    @contextlib.contextmanager
    def _last(self, origin: str) -> Iterator[Path]:
        """The place of the log's last checkpoint; nobody else looks at it meanwhile."""
        place = self._folder / f"{hashlib.sha256(origin.encode()).hexdigest()}.checkpoint"
        with self._lock, (self._folder / "lock").open("w", encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield place


def _refusal(status: HTTPStatus, why: object) -> Answer:
    return Answer(status, f"{why}\n".encode())


def _request(body: bytes) -> tuple[int, list[bytes], Note]:
    """The old size, the proof and the checkpoint. `BundleError`."""
    front, gap, signed = body.partition(b"\n\n")
    try:
        lines = front.decode("ascii").split("\n")
    except UnicodeDecodeError as error:
        raise BundleError("request: its first lines are not ASCII") from error
    size = lines[0].removeprefix("old ")
    is_number = size.isdigit() and len(size) < 19 and str(int(size)) == size
    if not gap or not lines[0].startswith("old ") or not is_number:
        raise BundleError("request: expected `old SIZE`, a proof, an empty line, a checkpoint")
    if len(lines) > MOST_STEPS + 1:
        raise BundleError(f"request: more than {MOST_STEPS} lines of a proof")
    return int(size), [read_hash(line) for line in lines[1:]], read_note(signed)


@contextlib.contextmanager
def serve(witness: Witness, port: int = 0) -> Iterator[str]:
    """The witness answers at the URL until the block ends. `UsageError` if the port is taken."""

    class Handler(_Handler):
        add = witness.add

    try:
        server = BoundedServer(Handler, port)
    except OSError as error:
        raise UsageError(f"port {port} cannot be used: {error.strerror}") from error
    thread = threading.Thread(target=server.serve_forever, args=(_POLL_SECONDS,), name="witness")
    thread.start()
    try:
        yield server.origin
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    add: Callable[[bytes], Answer]
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE

    def do_POST(self) -> None:
        """One request; the connection stays if all of it was read."""
        self.close_connection = True
        length = self.headers.get("Content-Length", "")
        if self.path != PATH:
            self._answer(_refusal(HTTPStatus.NOT_FOUND, f"expected {PATH}"))
        elif not (length.isascii() and length.isdigit() and len(length) < 9):
            self._answer(_refusal(HTTPStatus.LENGTH_REQUIRED, "expected Content-Length"))
        elif int(length) > _MAX_BODY:
            why = f"more than {_MAX_BODY} bytes"
            self._answer(_refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, why))
        else:
            answer = self.add(self.rfile.read(int(length)))
            self.close_connection = False
            self._answer(answer)

    def _answer(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.text)))
        self.end_headers()
        self.wfile.write(answer.text)

    def version_string(self) -> str:
        return "statediff"

    def log_message(self, *_: object) -> None:
        """Nothing: who asks is no business of the log's."""
