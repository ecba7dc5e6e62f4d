"""Mail as a source: an outbox that really receives it over SMTP, and the reading of what arrived.

`OutboxProcess` starts and stops the sink (`mail.sink`) in a process of its own, so that an
outbox that is down is really down. `MailSource` reads it over the sink's control connection. One
entity of type `message` is one delivery: a message to three recipients is three of them.

Senders are part of the run, so reading a message may not raise, hang or guess. Text is decoded
exactly or kept as bytes; what cannot be read at all is unobserved with the cause. The digest and
size are those of the raw bytes and are always known.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import hmac
import json
import quopri
import re
import secrets
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.errors import HeaderParseError, MessageError
from email.header import decode_header
from email.message import Message
from email.parser import BytesParser
from email.policy import compat32
from types import TracebackType
from typing import Any, Final, Self

import blake3

from statediff.capture.source import Clock, SourceUnavailable, scanned
from statediff.errors import SandboxError
from statediff.model.batches import Row
from statediff.model.readings import SourceCapture
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.state import ChunkStore, State, build_table
from statediff.model.values import Map, Observed, Unobserved, Value
from statediff.systems.base.rows import source_schema
from statediff.systems.mail.handshake import sign
from statediff.systems.mail.sinks import Sink, begin

MAX_PARSED_BYTES: Final = 4 * 1024 * 1024
MAX_HEADER_CHARACTERS: Final = 16 * 1024
MAX_PART_HEADER_CHARACTERS: Final = 4 * 1024
"""Of a part's `Content-…` header: its parameters name codecs of Python, some of them quadratic."""
MAX_PARTS: Final = 200
MAX_NESTING: Final = 32

# Only charsets whose decoders are linear and give text: `punycode`, `zip` and their like are codecs
# of Python too.
_CHARSET: Final = re.compile(
    r"(us-?ascii|ascii|utf-?8|utf-?16(-?[bl]e)?|iso-?8859-?[0-9]{1,2}|latin-?1|windows-?125[0-8]"
    r"|cp125[0-8]|koi8-?[ru]|gb2312|gbk|gb18030|big5|shift_?jis|euc-?(jp|kr)|iso-2022-(jp|kr))"
)


@dataclass(frozen=True)
class Parsed:
    """One message as fields: text, null where there is none, bytes, or unobserved."""

    subject: Observed
    body: Observed
    message_id: Observed
    attachments: Observed
    digest: str
    size: int


def parse_message(raw: bytes) -> Parsed:
    """The fields of a raw message. Never raises on what a sender can write."""
    digest = blake3.blake3(raw).hexdigest()
    if len(raw) > MAX_PARSED_BYTES:
        return _unread(digest, raw, f"a message of {len(raw)} bytes is not parsed")
    try:
        message = BytesParser(policy=compat32).parsebytes(raw)
        leaves = list(_leaves(message))
    except (RecursionError, _TooMuch) as error:
        reason = str(error) if isinstance(error, _TooMuch) else f"more than {MAX_NESTING} levels"
        return _unread(digest, raw, f"its MIME structure is beyond the limit: {reason}")
    except (
        MessageError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        IndexError,
        AssertionError,
    ) as error:
        # What email.parser has been seen to raise on input that is not mail.
        return _unread(digest, raw, f"it is not readable as mail: {type(error).__name__}")
    return Parsed(
        _header(message, "subject"),
        _body(leaves),
        _header(message, "message-id"),
        _attachments(leaves),
        digest,
        len(raw),
    )


def _unread(digest: str, raw: bytes, cause: str) -> Parsed:
    unknown = Unobserved(cause)
    return Parsed(unknown, unknown, unknown, unknown, digest, len(raw))


class _TooMuch(Exception):
    """The structure of a message is larger than we walk."""


@dataclass(frozen=True)
class _Leaf:
    """A part without parts: its headers and its content, decoded from the transfer encoding."""

    headers: Message
    content: bytes | Unobserved


def _leaves(message: Message, depth: int = 0) -> Iterator[_Leaf]:
    if depth > MAX_NESTING:
        raise _TooMuch(f"more than {MAX_NESTING} levels")
    for name, value in message.raw_items():
        if len(value) > MAX_PART_HEADER_CHARACTERS and name.lower().startswith("content-"):
            raise _TooMuch(f"a header of more than {MAX_PART_HEADER_CHARACTERS} characters")
    if not message.is_multipart():
        yield _leaf(message)
        return
    parts = message.get_payload()
    if len(parts) > MAX_PARTS:
        raise _TooMuch(f"more than {MAX_PARTS} parts")
    for part in parts:
        if isinstance(part, Message):
            yield from _leaves(part, depth + 1)


def _raw_header(message: Message, name: str) -> str | None:
    # `raw_items` gives the text as received, bytes above 127 as surrogate escapes.
    for key, value in message.raw_items():
        if key.lower() == name:
            return str(value)
    return None


def _header(message: Message, name: str) -> Observed:
    found = _raw_header(message, name)
    if found is None:
        return None
    if len(found) > MAX_HEADER_CHARACTERS:
        return Unobserved(f"the {name} of {len(found)} characters exceeds the limit")
    unfolded = re.sub(r"\r?\n(?=[ \t])", "", found).strip(" \t\r\n")
    if not unfolded.isascii():
        return _exact(unfolded.encode("utf-8", "surrogateescape"))
    try:
        words = decode_header(unfolded)
        return "".join(_word(content, charset) for content, charset in words)
    except (HeaderParseError, LookupError, UnicodeDecodeError, ValueError, binascii.Error):
        return unfolded.encode("ascii")


def _word(content: str | bytes, charset: str | None) -> str:
    if isinstance(content, str):
        return content
    return _decode(content, charset or "ascii")


def _exact(content: bytes) -> Value:
    """The text, if the bytes are UTF-8, else the bytes."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


def _decode(content: bytes, charset: str) -> str:
    name = charset.strip().lower()
    if not _CHARSET.fullmatch(name):
        raise LookupError(f"charset {name[:40]!r} is not read")
    return codecs.lookup(name).decode(content)[0]


def _body(leaves: list[_Leaf]) -> Observed:
    texts = [_text(leaf) for leaf in leaves if _is_plain(leaf.headers)]
    if not texts:
        return None
    if len(texts) == 1:
        return texts[0]
    if all(isinstance(text, str) for text in texts):
        return "\n".join(str(text) for text in texts)
    for text in texts:
        if isinstance(text, Unobserved):
            return text
    return Unobserved("one of several text parts is not in the charset it declares")


def _is_plain(headers: Message) -> bool:
    return headers.get_content_type() == "text/plain" and not _is_attachment(headers)


def _is_attachment(headers: Message) -> bool:
    return headers.get_content_maintype() != "text" or _disposition(headers) == "attachment"


def _disposition(headers: Message) -> str:
    found = _raw_header(headers, "content-disposition") or ""
    return found.partition(";")[0].strip().lower()


def _text(leaf: _Leaf) -> Observed:
    if isinstance(leaf.content, Unobserved):
        return leaf.content
    try:
        charset = leaf.headers.get_param("charset", "utf-8")
        text = _decode(leaf.content, charset if isinstance(charset, str) else charset[2])
        text.encode()  # a codec may give lone surrogates, which are not text
    except (LookupError, ValueError, TypeError):
        return leaf.content
    return text.replace("\r\n", "\n")


def _leaf(message: Message) -> _Leaf:
    encoding = (_raw_header(message, "content-transfer-encoding") or "7bit").strip().lower()
    # Without the header the library hands over the bytes as received; with it, it guesses.
    del message["content-transfer-encoding"]
    stored = message.get_payload(decode=True)
    if not isinstance(stored, bytes):
        return _Leaf(message, Unobserved("a part without content"))
    match encoding:
        case "7bit" | "8bit" | "binary":
            return _Leaf(message, stored)
        case "quoted-printable":
            return _Leaf(message, quopri.decodestring(stored))
        case "base64":
            try:
                content = base64.b64decode(re.sub(rb"\s+", b"", stored), validate=True)
            except binascii.Error:
                return _Leaf(message, Unobserved("a part that is not the base64 it declares"))
            return _Leaf(message, content)
        case _:
            return _Leaf(message, Unobserved("a part in an unknown transfer encoding"))


def _attachments(leaves: list[_Leaf]) -> Observed:
    """A list of maps {name, type, size, digest}, in the order of the message."""
    listed: list[Value] = []
    for leaf in leaves:
        if not _is_attachment(leaf.headers):
            continue
        if isinstance(leaf.content, Unobserved):
            return leaf.content
        listed.append(
            Map.of(
                {
                    "name": _file_name(leaf.headers),
                    "type": leaf.headers.get_content_type()
                    .encode("ascii", "replace")
                    .decode("ascii"),
                    "size": len(leaf.content),
                    "digest": blake3.blake3(leaf.content).hexdigest(),
                }
            )
        )
    return tuple(listed)


def _file_name(headers: Message) -> Value:
    """The name; null where there is none or it cannot be decoded: the part's digest stands."""
    try:
        name = headers.get_filename()
        return None if name is None else _exact(name.encode("utf-8", "surrogateescape"))
    except (LookupError, ValueError, TypeError, AttributeError, MessageError):
        return None


STOP_SECONDS: Final = 2.0
CONTROL_SECONDS: Final = 5.0
MAX_REPLY_BYTES: Final = 512 * 1024 * 1024

MESSAGE: Final = EntityType(
    "message",
    ("id",),
    (
        Field("id", Kind.INT, is_nullable=False),
        Field("to", Kind.TEXT, is_nullable=False),
        Field("sender", Kind.TEXT, is_nullable=False),
        Field("subject", Kind.TEXT),
        Field("body", Kind.TEXT),
        Field("received_at", Kind.TIMESTAMP, is_nullable=False),
        Field("message_id", Kind.TEXT),
        Field("attachments", Kind.LIST, is_nullable=False),
        Field("digest", Kind.TEXT, is_nullable=False),
        Field("size", Kind.INT, is_nullable=False),
    ),
)
"""One delivery. `id` counts deliveries in the order of acceptance, from 1; `to` and `sender` are
the envelope's; `body` is the plain text, null where a message has none; `digest` (BLAKE3) and
`size` are of the raw bytes."""


@dataclass(frozen=True)
class OutboxStatus:
    """What the outbox holds, and what may still come: `in_flight` messages are begun, not done."""

    deliveries: int
    connections: int
    in_flight: int
    resets: int
    """How often it was emptied since it was started."""


@dataclass(frozen=True)
class OutboxControl:
    """The evaluator's side of the control connection. Raises `SourceUnavailable` with the cause."""

    port: int
    token: bytes

    def status(self) -> OutboxStatus:
        return _status(self._ask("status"))

    def reset(self) -> None:
        """Every message is gone, connections are cut, and deliveries count from 1 again."""
        self._ask("reset")

    def messages(self) -> list[dict[str, Any]]:
        """Accepted messages in order: sender, recipients, received_at_ns, raw (base64)."""
        found: list[dict[str, Any]] = self._ask("read")["messages"]
        return found

    def _ask(self, op: str) -> dict[str, Any]:
        try:
            with socket.create_connection(("127.0.0.1", self.port), CONTROL_SECONDS) as connection:
                return self._exchange(connection, op)
        except ConnectionRefusedError as error:
            raise SourceUnavailable("connection refused") from error
        except TimeoutError as error:
            raise SourceUnavailable(f"no answer within {CONTROL_SECONDS:g} s") from error
        except OSError as error:
            raise SourceUnavailable(f"connection failed: {error.strerror or error}") from error

    def _exchange(self, connection: socket.socket, op: str) -> dict[str, Any]:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        nonce = secrets.token_hex(16)
        try:
            with connection.makefile("rb") as stream:
                greeting = stream.readline(200).strip()
                mac = sign(self.token, b"request", greeting, nonce.encode(), op.encode())
                request = {"op": op, "nonce": nonce, "mac": mac}
                connection.sendall(json.dumps(request).encode() + b"\n")
                head = json.loads(stream.readline(1000))
                size, claimed = head["size"], head["mac"]
                if not isinstance(size, int) or not 0 <= size <= MAX_REPLY_BYTES:
                    raise ValueError("size")
                payload = stream.read(size)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise SourceUnavailable("what answers on its port is not the outbox") from error
        expected = sign(self.token, b"reply", nonce.encode(), payload)
        if not hmac.compare_digest(expected.encode(), str(claimed).encode("utf-8", "replace")):
            raise SourceUnavailable("what answers on its port is not the outbox")
        reply: dict[str, Any] = json.loads(payload)
        return reply


def _status(reply: dict[str, Any]) -> OutboxStatus:
    return OutboxStatus(
        reply["deliveries"], reply["connections"], reply["in_flight"], reply["resets"]
    )


def accepted_at(message: dict[str, Any]) -> datetime:
    """When the sink accepted the message, by the sink's clock."""
    since = timedelta(microseconds=message["received_at_ns"] // 1000)
    return datetime.fromtimestamp(0, UTC) + since


class MailSource:
    """The deliveries of one outbox as a source."""

    def __init__(self, name: str, control: OutboxControl) -> None:
        self._name = name
        self._control = control
        self._parsed: dict[str, Parsed] = {}

    @property
    def name(self) -> str:
        return self._name

    def schema(self) -> Schema:
        return source_schema(self._name, [MESSAGE])

    def status(self) -> OutboxStatus:
        """For settle: whether anything is still on its way. Raises `SourceUnavailable`."""
        return self._control.status()

    def read(self, store: ChunkStore, clock: Clock, like: State | None) -> SourceCapture:
        as_of = clock()
        rows = [row for rows in self.deliveries(self._control.messages()) for row in rows]
        state = self.state(rows, store, like)
        return scanned(self._name, as_of, state, position=str(len(rows)))

    def state(self, rows: Sequence[Row], store: ChunkStore, like: State | None) -> State:
        """The state of an outbox that holds these deliveries."""
        earlier = None if like is None else like.tables.get(MESSAGE.name)
        table = build_table(MESSAGE, rows, store, like=earlier, is_sorted=True)
        return State(self.schema(), {MESSAGE.name: table})

    def deliveries(self, messages: list[dict[str, Any]]) -> Iterator[list[Row]]:
        """The deliveries of each message, numbered through."""
        number = 0
        for message in messages:
            rows: list[Row] = []
            parsed = self._parse(message["raw"])
            accepted = accepted_at(message)
            for recipient in message["recipients"]:
                number += 1
                row: Row = {
                    "id": number,
                    "to": _address(recipient),
                    "sender": _address(message["sender"]),
                    "subject": parsed.subject,
                    "body": parsed.body,
                    "received_at": accepted,
                    "message_id": parsed.message_id,
                    "attachments": parsed.attachments,
                    "digest": parsed.digest,
                    "size": parsed.size,
                }
                rows.append(row)
            yield rows

    def _parse(self, encoded: str) -> Parsed:
        if len(encoded) > 100_000:
            return parse_message(base64.b64decode(encoded))
        parsed = self._parsed.get(encoded)
        if parsed is None:
            if len(self._parsed) >= 1000:
                self._parsed.clear()
            parsed = self._parsed[encoded] = parse_message(base64.b64decode(encoded))
        return parsed


class OutboxProcess:
    """The sink in a process of its own: `start`, then mail to `smtp_port` on 127.0.0.1 is accepted.

    It ends with `stop`, with `kill`, or when this process ends in whatever way (`mail.sinks`).
    """

    def __init__(self) -> None:
        self._sink: Sink | None = None
        self._token = b""
        self._ports: dict[str, int] = {}

    def start(self) -> OutboxProcess:
        """The sink listens. Raises `SandboxError` when it does not within `sinks.START_SECONDS`."""
        if self._sink is not None:
            raise SandboxError("the outbox is running: stop it before starting it again")
        self._sink = begin()
        self._ports, self._token = self._sink.ports, self._sink.token
        return self

    @property
    def pid(self) -> int:
        if self._sink is None:
            raise SandboxError("the outbox is not running: start it first")
        return self._sink.pid

    @property
    def smtp_port(self) -> int:
        """Where the agent sends mail, on 127.0.0.1."""
        return self._ports["smtp"]

    @property
    def is_running(self) -> bool:
        return self._sink is not None and not self._sink.has_ended()

    @property
    def control(self) -> OutboxControl:
        """The evaluator's access; it stays usable as an address after the outbox has stopped."""
        return OutboxControl(self._ports["control"], self._token)

    def source(self, name: str) -> MailSource:
        return MailSource(name, self.control)

    def stop(self) -> None:
        """The process has ended, by itself where it could; nothing listens on its ports."""
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.end(STOP_SECONDS)

    def kill(self) -> None:
        """The process has been ended at once, as in a crash."""
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.kill()

    def __enter__(self) -> Self:
        if self._sink is None:
            self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def _address(text: str) -> str | bytes:
    """An address of the envelope; its bytes where they are not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogateescape" if _is_escaped(text) else "surrogatepass")
    return text


def _is_escaped(text: str) -> bool:
    return all(not "\ud800" <= c <= "\udfff" or "\udc80" <= c <= "\udcff" for c in text)
