"""Mail as a source: an outbox that really receives it over SMTP, and the reading of what arrived.

`OutboxProcess` starts and stops the sink (`mail.sink`) in a process of its own, so that an
outbox that is down is really down. `MailSource` reads it over the sink's control connection. One
entity of type `message` is one delivery: a message to three recipients is three of them.

A message shows what a plain letter has: its envelope, subject, text and attachments, and what the
headers say that people act on. Whatever else it carries is an entity of its own, so that a clause
that explains a message does not explain what came with it: a `message_part` is a part that is
neither the body nor an attachment, a `message_header` a line of the head that says something else
than the envelope.
"""

from __future__ import annotations

import base64
import hmac
import json
import secrets
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, ClassVar, Final, Self

import blake3

from statediff.capture.source import Clock, SourceUnavailable, scanned
from statediff.errors import SandboxError
from statediff.model.batches import Row
from statediff.model.patch import patched
from statediff.model.readings import SourceCapture
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.state import (
    COMPLETE,
    ChunkStore,
    Coverage,
    Enumeration,
    State,
    build_table,
)
from statediff.systems.base.rows import source_schema
from statediff_office.mail.handshake import sign
from statediff_office.mail.headers import BOOKKEEPING, departures
from statediff_office.mail.parsing import Parsed, Part, parse_message
from statediff_office.mail.sinks import Sink, begin

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
        Field("headers", Kind.MAP, is_nullable=False),
        Field("digest", Kind.TEXT, is_nullable=False),
        Field("size", Kind.INT, is_nullable=False),
    ),
)
"""One delivery. `id` counts deliveries in the order of acceptance, from 1; `to` and `sender` are
the envelope's; `body` is the plain text, null where a message has none; `attachments` are maps
{name, type, disposition, size, digest, text}; `headers` is a map {from, sender, reply_to, to, cc,
subject, date, in_reply_to} of lists, each value of a header in order; `digest` (BLAKE3) and `size`
are of the raw bytes."""

PART: Final = EntityType(
    "message_part",
    ("message", "number"),
    (
        Field("message", Kind.INT, is_nullable=False, reference=MESSAGE.name),
        Field("number", Kind.INT, is_nullable=False),
        Field("type", Kind.TEXT, is_nullable=False),
        Field("disposition", Kind.TEXT, is_nullable=False),
        Field("name", Kind.TEXT),
        Field("size", Kind.INT, is_nullable=False),
        Field("digest", Kind.TEXT, is_nullable=False),
        Field("text", Kind.TEXT),
    ),
)
"""A part of a delivery that is neither its body nor an attachment; see `parsing.Part`. `digest`
(BLAKE3) and `size` are of the decoded content."""

HEADER: Final = EntityType(
    "message_header",
    ("message", "number"),
    (
        Field("message", Kind.INT, is_nullable=False, reference=MESSAGE.name),
        Field("number", Kind.INT, is_nullable=False),
        Field("name", Kind.TEXT, is_nullable=False),
        Field("value", Kind.TEXT, is_nullable=False),
        Field("addresses", Kind.LIST),
    ),
)
"""A line of a delivery's head that says something else than the envelope; see
`headers.departures`. `name` is in lower case, `number` its place in the head; `addresses` are those
that it names, null where it is no list of mailboxes."""

TYPES: Final = (MESSAGE, HEADER, PART)
MAX_BESIDE: Final = 100_000
"""Parts of all deliveries, and headers, that are listed one by one."""


@dataclass(frozen=True)
class OutboxStatus:
    """The outbox's counts, with what may still come: `in_flight` messages are begun, not done."""

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


@dataclass(frozen=True)
class Deliveries:
    """The rows of some messages: their deliveries, and what each carries beside."""

    messages: list[Row] = field(default_factory=list)
    headers: list[Row] = field(default_factory=list)
    parts: list[Row] = field(default_factory=list)

    def extend(self, other: Deliveries) -> None:
        """These and the others, which come after them."""
        self.messages.extend(other.messages)
        self.headers.extend(other.headers)
        self.parts.extend(other.parts)

    def __len__(self) -> int:
        return len(self.messages) + len(self.headers) + len(self.parts)


class MailSource:
    """The deliveries of one outbox as a source."""

    not_observed: ClassVar[tuple[str, ...]] = (
        "mail that was begun and given up, or refused by the server",
        "within the parts of a message: `Content-ID`, `Content-Language` and headers of `X-…`",
        *(
            f"headers, because {why}: {', '.join(n for n, w in BOOKKEEPING.items() if w == why)}"
            for why in dict.fromkeys(BOOKKEEPING.values())
        ),
    )

    def __init__(self, name: str, control: OutboxControl) -> None:
        self._name = name
        self.control = control
        self._parsed: dict[str, Parsed] = {}

    @property
    def name(self) -> str:
        return self._name

    def schema(self) -> Schema:
        return source_schema(self._name, TYPES)

    def status(self) -> OutboxStatus:
        """For settle: whether anything is still on its way. Raises `SourceUnavailable`."""
        return self.control.status()

    def read(self, store: ChunkStore, clock: Clock, like: State | None) -> SourceCapture:
        as_of = clock()
        rows = Deliveries()
        for each in self.deliveries(self.control.messages()):
            rows.extend(each)
        state = self.state(rows, store, like)
        return scanned(self._name, as_of, state, position=str(len(rows.messages)))

    def state(self, rows: Deliveries, store: ChunkStore, like: State | None) -> State:
        """The state of an outbox that holds these deliveries."""
        tables = {}
        for entity, found in zip(TYPES, (rows.messages, rows.headers, rows.parts), strict=True):
            most = len(found) if entity is MESSAGE else MAX_BESIDE
            known = COMPLETE
            if len(found) > most:
                cause = f"{len(found)} of {entity.name}, of which {most} are listed"
                known = Enumeration(Coverage.INCOMPLETE, cause)
            tables[entity.name] = build_table(
                entity,
                found[:most],
                store,
                like=None if like is None else like.tables.get(entity.name),
                enumeration=known,
                is_sorted=True,
            )
        return State(self.schema(), tables)

    def with_more(self, state: State, rows: Deliveries, new: Deliveries) -> State:
        """The state of an outbox that holds `rows`, of which all but the `new` ones are in it."""
        tables = {}
        for entity, found in zip(TYPES, (new.messages, new.headers, new.parts), strict=True):
            table = state.tables[entity.name]
            if len(rows) > MAX_BESIDE or not table.enumeration.is_complete:
                return self.state(rows, table.store, state)
            tables[entity.name] = patched(table, (), found)
        return State(self.schema(), tables)

    def deliveries(self, messages: list[dict[str, Any]]) -> Iterator[Deliveries]:
        """The rows of each message and of what it carries; deliveries are numbered through."""
        number = 0
        for message in messages:
            rows = Deliveries()
            parsed = self._parse(message["raw"])
            accepted = accepted_at(message)
            sender, recipients = message["sender"], message["recipients"]
            beside = list(departures(parsed.lines, sender, recipients, accepted))
            parts = [part_row(part) for part in parsed.parts]
            for recipient in recipients:
                number += 1
                rows.messages.append(
                    {
                        "id": number,
                        "to": _address(recipient),
                        "sender": _address(sender),
                        "subject": parsed.subject,
                        "body": parsed.body,
                        "received_at": accepted,
                        "message_id": parsed.message_id,
                        "attachments": parsed.attachments,
                        "headers": parsed.headers,
                        "digest": parsed.digest,
                        "size": parsed.size,
                    }
                )
                rows.parts.extend({"message": number, **part} for part in parts)
                rows.headers.extend(
                    {
                        "message": number,
                        "number": place,
                        "name": line.name,
                        "value": line.value,
                        "addresses": line.addresses,
                    }
                    for place, line in beside
                )
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
        """The port for the agent's mail, on 127.0.0.1."""
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


def part_row(part: Part) -> Row:
    """The fields of a further part, without those that say whose it is."""
    return {
        "number": part.number,
        "type": part.type,
        "disposition": part.disposition,
        "name": part.name,
        "size": len(part.content),
        "digest": blake3.blake3(part.content).hexdigest(),
        "text": part.text,
    }


def _address(text: str) -> str | bytes:
    """An address of the envelope; its bytes where they are not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogateescape" if _is_escaped(text) else "surrogatepass")
    return text


def _is_escaped(text: str) -> bool:
    return all(not "\ud800" <= c <= "\udfff" or "\udc80" <= c <= "\udcff" for c in text)
