"""Mail as a source: an outbox that really receives it over SMTP, and the reading of what arrived.

`OutboxProcess` starts and stops the sink (`sources.sink`) in a process of its own, so that an
outbox that is down is really down. `MailSource` reads it over the sink's control connection. One
entity of type `message` is one delivery: a message to three recipients is three of them.
"""

from __future__ import annotations

import base64
import hmac
import json
import secrets
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Final, Self

from statediff.capture.source import Clock, SourceUnavailable, scanned
from statediff.errors import SandboxError
from statediff.model.batches import Row
from statediff.model.readings import SourceCapture
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.state import ChunkStore, State, build_table
from statediff.systems.mail.handshake import sign
from statediff.systems.mail.mime import Parsed, parse_message
from statediff.systems.mail.sinks import Sink, begin

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
        return Schema(self._name, "0", (MESSAGE,), ((self._name, (MESSAGE.name,)),))

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

    It ends with `stop`, with `kill`, or when this process ends in whatever way (`sources.sinks`).
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
