"""Read time stamps beside a copy, without asking who signed them (R-MORE-8, R-MORE-9)."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from .basics import Refused, need, sha

INTEGER, OCTETS, OID, TIME, SEQUENCE, SET, CONTENT = 0x02, 0x04, 0x06, 0x18, 0x30, 0x31, 0xA0
SIGNED_DATA = bytes.fromhex("2a864886f70d010702")
TST_INFO = bytes.fromhex("2a864886f70d0109100104")
SHA_256 = bytes.fromhex("608648016503040201")


class Der:
    """The elements of DER, read one after the other."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.place = 0
        while self.place < len(data):
            self.take(None)
        self.place = 0

    def take(self, tag: int | None) -> bytes:
        """Return the content of the next element, which has the tag if one is given."""
        head = self.data[self.place : self.place + 2]
        need(len(head) == 2 and tag in (None, head[0]), "R-MORE-8 another element")
        self.place += 2
        length = head[1]
        if length >= 0x80:
            count = length - 0x80
            more = self.data[self.place : self.place + count]
            need(1 <= count <= 4 and len(more) == count, "R-MORE-8 length")
            length = int.from_bytes(more, "big")
            need(length >= 0x80 and more[0] != 0, "R-MORE-8 not the shortest length")
            self.place += count
        content = self.data[self.place : self.place + length]
        need(len(content) == length, "R-MORE-8 cut short")
        self.place += length
        return content

    def enter(self, tag: int) -> Der:
        """Return the elements inside the next one."""
        return Der(self.take(tag))

    def end(self) -> None:
        """Refuse what is left over."""
        need(self.place == len(self.data), "R-MORE-8 left over")


def _token(data: bytes) -> bytes:
    """Return the content of the token of a response: a TSTInfo."""
    outer = Der(data)
    response = outer.enter(SEQUENCE)
    outer.end()
    status = response.enter(SEQUENCE).take(INTEGER)
    need(status in (b"\0", b"\1"), "R-MORE-8 status")
    token = response.enter(SEQUENCE)
    response.end()
    need(token.take(OID) == SIGNED_DATA, "R-MORE-8 signed data")
    wrapped = token.enter(CONTENT)
    token.end()
    signed = wrapped.enter(SEQUENCE)
    wrapped.end()
    signed.take(INTEGER)
    signed.take(SET)
    inner = signed.enter(SEQUENCE)
    need(inner.take(OID) == TST_INFO, "R-MORE-8 TSTInfo")
    explicit = inner.enter(CONTENT)
    inner.end()
    content = explicit.take(OCTETS)
    explicit.end()
    return content


def read_stamp(data: bytes, envelope: bytes) -> datetime:
    """Return the time of a stamp over the envelope, or refuse it."""
    content = Der(_token(data))
    info = content.enter(SEQUENCE)
    content.end()
    info.take(INTEGER)
    info.take(OID)
    imprint = info.enter(SEQUENCE)
    need(imprint.enter(SEQUENCE).take(OID) == SHA_256, "R-MORE-9 algorithm")
    need(imprint.take(OCTETS) == sha(envelope), "R-MORE-9 another envelope")
    imprint.end()
    info.take(INTEGER)
    text = info.take(TIME).decode("ascii", "replace")
    need(re.fullmatch(r"[0-9]{14}(\.[0-9]{1,9})?Z", text) is not None, "R-MORE-9 time")
    try:
        return datetime.strptime(text[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError as error:
        raise Refused("R-MORE-9 no moment") from error
