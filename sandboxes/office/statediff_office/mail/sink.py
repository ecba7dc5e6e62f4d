"""The mail sink's own process: an SMTP server that accepts mail for anyone and keeps it in memory.

`python -m statediff_office.mail.sink` is the nursery of `systems.mail.sinks`: it forks a sink for
each line that it is given over standard input, a socket, and ends with it. It imports only the
standard library and aiosmtpd, so that it is ready quickly, and no sink looks inside a message:
reading hostile MIME is the evaluator's task, where a failure has a name.

1. A sink's line is a socket to the evaluator. Its first line is the token, in hex. It stands in no
   argument and no environment variable, where the agent could read it.
2. One line of JSON says that both sockets listen: `{"smtp": port, "control": port, "pid": pid}`,
   and comes with a handle of the process where the system has such. Both are bound to loopback.
3. The end of its line ends the sink: it cannot outlive its caller.

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
import gc
import hmac
import json
import logging
import os
import secrets
import signal
import socket
import time
import traceback
from dataclasses import dataclass, field
from typing import Any, Final

from aiosmtpd.smtp import SMTP, Envelope, Session

from statediff_office.mail.handshake import sign

MAX_MESSAGE_BYTES: Final = 10 * 1024 * 1024
MAX_TOTAL_BYTES: Final = 256 * 1024 * 1024
MAX_DELIVERIES: Final = 10_000
MAX_RECIPIENTS: Final = 100
MAX_CONNECTIONS: Final = 200
CONTROL_SECONDS: Final = 5.0


@dataclass
class Outbox:
    """The accepted messages, in order of acceptance, one entry each with all its recipients."""

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
        pass  # ValueError: a line beyond the limit, which the evaluator never sends
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
    # Bound before aiosmtpd sees it: its own controller fails with port 0 (docs/facts.md §J).
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.bind(("127.0.0.1", 0))
    bound.listen(128)
    bound.setblocking(False)
    return bound


async def _serve(line: socket.socket, token: bytes) -> None:
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
    ports = {"smtp": smtp.getsockname()[1], "control": control.getsockname()[1]}
    ready = json.dumps({**ports, "pid": os.getpid()}).encode() + b"\n"
    if hasattr(os, "pidfd_open"):
        handle = os.pidfd_open(os.getpid())
        socket.send_fds(line, [ready], [handle])
        os.close(handle)
    else:
        line.sendall(ready)
    line.setblocking(False)
    while await loop.sock_recv(line, 4096):
        pass


def _sink(line: socket.socket, complaints: int) -> None:
    """A new process's life: it ends with its line, and complains in the file `complaints`."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(complaints, 2)
    os.close(complaints)
    with line, line.makefile("rb", buffering=0) as said:
        token = bytes.fromhex(said.readline(200).strip().decode("ascii"))
        asyncio.run(_serve(line, token))


def main() -> None:
    """The nursery: it ends with standard input."""
    logging.disable(logging.CRITICAL)  # what a client sends is kept, never printed
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends with its starter, not before
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for its children
    gc.freeze()  # what is loaded is shared with every sink
    with socket.socket(fileno=0) as requests:
        while True:
            said, given, _, _ = socket.recv_fds(requests, 1, 2)
            if not said:
                return
            if len(given) == 2 and os.fork() == 0:
                requests.close()
                status = 1
                try:
                    _sink(socket.socket(fileno=given[0]), given[1])
                    status = 0
                except BaseException:  # noqa: BLE001 - reported, as by any program that ends so
                    traceback.print_exc()
                finally:
                    os._exit(status)
            for each in given:
                os.close(each)


if __name__ == "__main__":
    main()
