"""The mail sink's own process: an SMTP server that accepts mail for anyone and keeps it in memory.

`python -m statediff.sources.sink` is started by `sources.mail.OutboxProcess`. It imports only the
standard library and aiosmtpd, so that it is ready quickly, and it never looks inside a message:
reading hostile MIME is the evaluator's task, where a failure has a name.

1. The first line of standard input is the token, in hex. It stands in no argument and no
   environment variable, where the agent could read it.
2. One line of JSON on standard output says that both sockets listen: `{"smtp": port, "control":
   port}`. Both are bound to loopback.
3. The end of standard input ends the process: it cannot outlive whoever started it.

Control protocol, one request a connection; all lines end in a newline:

    server  nonce
    client  {"op": "read" | "status" | "reset", "nonce": …, "mac": HMAC(token, nonces and op)}
    server  {"size": bytes of the payload, "mac": HMAC(token, client's nonce and payload)}
    server  payload (JSON)

Both sides prove that they know the token and neither sends it, so that a program that took over the
port of a dead outbox cannot pass for it.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import logging
import secrets
import socket
import sys
import time
from dataclasses import dataclass, field
from typing import IO, Any, Final

from aiosmtpd.smtp import SMTP, Envelope, Session

from statediff.sources.handshake import sign

MAX_MESSAGE_BYTES: Final = 10 * 1024 * 1024
MAX_TOTAL_BYTES: Final = 256 * 1024 * 1024
MAX_DELIVERIES: Final = 10_000
MAX_RECIPIENTS: Final = 100
MAX_CONNECTIONS: Final = 200
CONTROL_SECONDS: Final = 5.0


@dataclass
class Outbox:
    """What was accepted, in order of acceptance, one entry per message with all its recipients."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    deliveries: int = 0
    total_bytes: int = 0
    resets: int = 0
    connections: set[Connection] = field(default_factory=set)

    def accept(self, sender: str, recipients: list[str], raw: bytes) -> str:
        """The SMTP reply; the message is kept if and only if it begins with 250."""
        if (
            self.deliveries + len(recipients) > MAX_DELIVERIES
            or self.total_bytes + len(raw) > MAX_TOTAL_BYTES
        ):
            return "452 4.3.1 The outbox is full"
        self.deliveries += len(recipients)
        self.total_bytes += len(raw)
        self.messages.append(
            {
                "sender": sender,
                "recipients": recipients,
                "received_at_ns": time.time_ns(),
                "raw": base64.b64encode(raw).decode("ascii"),
            }
        )
        return "250 2.0.0 Message accepted"

    def status(self) -> dict[str, int]:
        """How much there is, how much may still come, and how often there was nothing again."""
        return {
            "deliveries": self.deliveries,
            "connections": len(self.connections),
            "in_flight": sum(connection.is_sending for connection in self.connections),
            "resets": self.resets,
        }

    def reset(self) -> None:
        """Nothing was ever accepted; connections that are open are cut."""
        self.messages.clear()
        self.deliveries = self.total_bytes = 0
        self.resets += 1
        for connection in tuple(self.connections):
            connection.cut()


class _Handler:
    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    async def handle_RCPT(  # noqa: N802 - the name is aiosmtpd's
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if len(envelope.rcpt_tos) >= MAX_RECIPIENTS:
            return "452 4.5.3 Too many recipients"
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 OK"

    async def handle_DATA(  # noqa: N802 - the name is aiosmtpd's
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        raw = envelope.original_content or b""
        return self._outbox.accept(envelope.mail_from or "", list(envelope.rcpt_tos), raw)


class Connection(SMTP):
    """One SMTP connection, counted while it lasts."""

    line_length_limit = 64 * 1024  # many programs send a paragraph as one line

    def __init__(self, outbox: Outbox, loop: asyncio.AbstractEventLoop) -> None:
        self._outbox = outbox
        super().__init__(
            _Handler(outbox),
            data_size_limit=MAX_MESSAGE_BYTES,
            enable_SMTPUTF8=True,
            hostname="localhost",
            ident="statediff outbox",
            timeout=60,
            loop=loop,
        )

    @property
    def is_sending(self) -> bool:
        """A message has been begun and is neither accepted nor given up."""
        return self.envelope is not None and self.envelope.mail_from is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._outbox.connections.add(self)
        if len(self._outbox.connections) > MAX_CONNECTIONS:
            self.cut()

    def cut(self) -> None:
        """The client sees its connection reset."""
        if isinstance(self.transport, asyncio.WriteTransport):
            self.transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self._outbox.connections.discard(self)
        super().connection_lost(error)


async def _control(
    outbox: Outbox, token: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    nonce = secrets.token_hex(16)
    try:
        async with asyncio.timeout(CONTROL_SECONDS):
            writer.write(nonce.encode() + b"\n")
            answer = _answer(outbox, token, nonce, await reader.readline())
            if answer is not None:
                writer.write(answer)
                await writer.drain()
    except (TimeoutError, OSError, ValueError):
        pass  # ValueError: a line beyond the limit; whoever it was, it was not the evaluator
    finally:
        writer.close()


def _answer(outbox: Outbox, token: bytes, nonce: str, line: bytes) -> bytes | None:
    try:
        request = json.loads(line)
        op, client_nonce, mac = request["op"], request["nonce"], request["mac"]
        expected = sign(token, b"request", nonce.encode(), client_nonce.encode(), op.encode())
        if not hmac.compare_digest(expected.encode(), mac.encode()):
            return None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    reply: dict[str, Any] = dict(outbox.status())
    if op == "read":
        reply["messages"] = outbox.messages
    elif op == "reset":
        outbox.reset()
    payload = json.dumps(reply).encode()
    head = {"size": len(payload), "mac": sign(token, b"reply", client_nonce.encode(), payload)}
    return json.dumps(head).encode() + b"\n" + payload


def _listen() -> socket.socket:
    # Bound before aiosmtpd sees it: its own controller fails with port 0 (FACTS.md §J).
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.bind(("127.0.0.1", 0))
    bound.listen(128)
    bound.setblocking(False)
    return bound


async def _serve(stdin: IO[bytes], token: bytes) -> None:
    loop = asyncio.get_running_loop()
    outbox = Outbox()
    smtp, control = _listen(), _listen()

    def smtp_connection() -> Connection:
        return Connection(outbox, loop)

    async def control_connection(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await _control(outbox, token, reader, writer)

    await loop.create_server(smtp_connection, sock=smtp)
    await asyncio.start_server(control_connection, sock=control)
    ready = {"smtp": smtp.getsockname()[1], "control": control.getsockname()[1]}
    sys.stdout.write(json.dumps(ready) + "\n")
    sys.stdout.flush()
    ended = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(ended), stdin)
    while await ended.read(4096):
        pass


def main() -> None:
    """The process: it ends with standard input."""
    logging.disable(logging.CRITICAL)  # what a client sends is kept, never printed
    stdin = open(0, "rb", buffering=0)  # noqa: SIM115 - the pipe that keeps us alive
    token = bytes.fromhex(stdin.readline(200).strip().decode("ascii"))
    asyncio.run(_serve(stdin, token))


if __name__ == "__main__":
    main()
