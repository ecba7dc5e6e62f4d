"""An SMTP server before the next one: each letter is judged after DATA and before the answer.

An allowed letter goes to the next server, and then the client hears 250. A denied one is answered
with 550 and the reason. A held one is kept and answered with 250 and its name, as by a list whose
letters a person looks at first: `statediff hold commit` sends it with an approval.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from aiosmtpd.smtp import SMTP, Envelope, Session

from statediff.errors import StatediffError, UsageError
from statediff.model.values import printable
from statediff.model.verdict import Decision
from statediff_gate.gate import Gate
from statediff_gate.mail import LATER, MailGate
from statediff_gate.participant import Refused

_MOST_BYTES: Final = 10 * 1024 * 1024
_MOST_RECIPIENTS: Final = 100
_REPLY: Final = 400
_IDLE_SECONDS: Final = 60.0
"""A client that says nothing for so long is hung up on."""


class _Handler:
    def __init__(self, gate: Gate, source: str, mail: MailGate) -> None:
        self._gate, self._source, self._mail = gate, source, mail

    async def handle_RCPT(  # noqa: N802 - the name is aiosmtpd's
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if len(envelope.rcpt_tos) >= _MOST_RECIPIENTS:
            return "452 4.5.3 Too many recipients"
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 OK"

    async def handle_DATA(  # noqa: N802 - the name is aiosmtpd's
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        raw = envelope.original_content or b""
        judging = asyncio.create_task(
            asyncio.to_thread(self._judged, envelope.mail_from or "", envelope.rcpt_tos, raw)
        )
        try:
            while not (await asyncio.wait({judging}, timeout=_IDLE_SECONDS / 4))[0]:
                server._reset_timeout()  # noqa: SLF001 - who is hung up on sends it again
            return judging.result()
        except (StatediffError, Refused, OSError) as error:
            return _line(f"451 4.3.0 {error}")

    def _judged(self, sender: str, recipients: list[str], raw: bytes) -> str:
        statement = self._mail.keep(sender, recipients, raw)
        outcome = self._gate.execute([(self._source, statement, ())])
        if outcome.is_committed:
            return "250 2.0.0 Sent"
        if outcome.decision is Decision.HOLD:
            return _line(f"250 2.0.0 Kept and not sent, for a person: {outcome.record}")
        if outcome.why.startswith(LATER):
            return _line(f"451 4.3.0 {outcome.why}")
        return _line(f"550 5.7.1 Denied: {outcome.why}")


def _line(text: str) -> str:
    return printable(text).encode("ascii", "replace").decode("ascii")[:_REPLY]


@contextmanager
def listening(gate: Gate, source: str, host: str, port: int) -> Iterator[int]:
    """The relay takes letters in a thread, for as long as the block. Gives its port."""
    logging.getLogger("mail.log").disabled = True  # what a client sends is kept, never printed
    mail: Any = gate.participant(source)
    if not isinstance(mail, MailGate):
        raise UsageError(f"{source}: is no mail server, which letters could be sent on to")
    try:
        bound = socket.create_server((host, port))
    except OSError as error:
        raise UsageError(f"{host}:{port}: cannot be listened at: {error.strerror}") from error
    loop = asyncio.new_event_loop()

    def session() -> SMTP:
        return SMTP(
            _Handler(gate, source, mail), data_size_limit=_MOST_BYTES, enable_SMTPUTF8=True,
            hostname="localhost", ident="statediff gate", timeout=_IDLE_SECONDS, loop=loop,
        )  # fmt: skip

    server = loop.run_until_complete(loop.create_server(session, sock=bound))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield bound.getsockname()[1]
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def serve(gate: Gate, place: str) -> None:
    """The relay takes letters at HOST:PORT until the program is asked to end."""
    host, _, port = place.rpartition(":")
    if not port.isdecimal() or int(port[:6]) > 65535:
        raise UsageError(f"{place}: expected HOST:PORT to listen at")
    systems = [gate.participant(source) for source in gate.sources]
    mail = next((each for each in systems if isinstance(each, MailGate)), None)
    if mail is None:
        raise UsageError("name the mail server that letters are sent on to: smtp://HOST:PORT")
    if not mail.is_pending:
        gate.begin_run()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with (
        listening(gate, mail.name, host or "127.0.0.1", int(port)),
        contextlib.suppress(KeyboardInterrupt),
    ):
        threading.Event().wait()
