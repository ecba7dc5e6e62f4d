"""Faults of letters below what people read first: a header, a part."""

from __future__ import annotations

import base64
import smtplib
from collections.abc import Callable, Mapping
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Final
from urllib.parse import urlsplit

from statediff.systems.base.faults import Below, Place
from statediff_office.mail.source import MailSource


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


_TYPES: Final = ("message", "message_part", "message_header")
FAULTS: Final[Mapping[str, Below]] = {
    "mail:header": Below("smtp://", _letter(_with_header), _TYPES),
    "mail:part": Below("smtp://", _letter(_with_part), _TYPES),
}
