"""The head of a message: the values of the headers people act on, and lines that say more.

A plain letter says in its head what its envelope says: it is from the sender, to recipients who
get it, with one subject and the time at which it is sent. A line that says anything else is a
*departure*. `BOOKKEEPING` lists headers that servers and programs add, with the reason why they are
exempt; such a line is exempt only if it names nobody but the sender and the recipients.

Addresses are read by a grammar of our own, stricter than a mail program's: a line that does not
fit it has no addresses, and is a departure.
"""

from __future__ import annotations

import binascii
import codecs
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Final

from statediff.model.values import Value

MAX_HEADER_CHARACTERS: Final = 16 * 1024
"""A longer value is kept as its bytes: encoded words in it are not decoded."""
MAX_HEADERS: Final = 1000

BOOKKEEPING: Final[dict[str, str]] = {
    **dict.fromkeys(
        (
            "arc-authentication-results",
            "arc-message-signature",
            "arc-seal",
            "authentication-results",
            "delivered-to",
            "dkim-signature",
            "domainkey-signature",
            "envelope-to",
            "received",
            "received-spf",
            "return-path",
            "x-original-to",
            "x-received",
        ),
        "servers on the way write them",
    ),
    **dict.fromkeys(("user-agent", "x-mailer"), "they name the program that wrote the message"),
    **dict.fromkeys(
        (
            "content-disposition",
            "content-id",
            "content-language",
            "content-transfer-encoding",
            "content-type",
            "mime-version",
        ),
        "the parts are read as they say",
    ),
    "message-id": "it is a field of the message",
}
"""Name of a header → why its first line is no departure; of a header of servers, no line is."""
_USUAL: Final[dict[str, re.Pattern[str]]] = {
    "auto-submitted": re.compile(r"no|auto-generated", re.IGNORECASE),
    "importance": re.compile(r"normal", re.IGNORECASE),
    "priority": re.compile(r"normal", re.IGNORECASE),
    "x-msmail-priority": re.compile(r"normal", re.IGNORECASE),
    "x-priority": re.compile(r"3( \(normal\))?", re.IGNORECASE),
}
"""Name of a header → the values with which it asks nothing of who gets the message."""
_FORM: Final[dict[str, re.Pattern[str]]] = {
    "content-id": re.compile(r"<[^\s<>]+>"),
    "content-language": re.compile(
        r"[a-z]{1,8}(-[a-z0-9]{1,8})*(, *[a-z]{1,8}(-[a-z0-9]{1,8})*)*", re.IGNORECASE
    ),
    "message-id": re.compile(r"<[^\s<>]+>"),
    "mime-version": re.compile(r"1\.0(\s*\([^@]*\))?"),
}
"""Name of a header → its values; with words beside it, it says more than is looked at."""
_ANYBODY: Final = re.compile(r"[^\s<>()\[\]\\,;:\"=@]+@[^\s<>()\[\]\\,;:\"=@]+")
"""An address in the lines that servers and programs write: those may say who else got a letter."""
_REPEATED: Final = frozenset(
    name for name, why in BOOKKEEPING.items() if why == "servers on the way write them"
)
SHOWN: Final = ("from", "sender", "reply-to", "to", "cc", "subject", "date", "in-reply-to")
"""The headers of which a message shows each value, plain or not."""
_BY_SERVERS: Final = frozenset({"delivered-to", "envelope-to", "return-path", "x-original-to"})
"""Headers of servers that name somebody and say nothing else."""
_ADDRESSES: Final = _BY_SERVERS | {"from", "sender", "reply-to", "to", "cc", "bcc"}
DATE_TOLERANCE: Final = timedelta(days=1)
_DATE: Final = re.compile(
    r"([a-z]{3},)?\s*\d{1,2}\s+[a-z]{3}\s+\d{4}\s+\d{1,2}:\d{2}(:\d{2})?"
    r"\s+([+-]\d{4}|[a-z]{1,5})(\s+\(([a-z]{1,5}|(gmt|utc)[+-]\d{2}:?\d{2})\))?",
    re.IGNORECASE,
)
"""A time with no words beside it, but the name of its zone."""

# Only charsets whose decoders are linear and give text: `punycode`, `zip` and their like are codecs
# of Python too.
_CHARSET: Final = re.compile(
    r"(us-?ascii|ascii|ansi_x3\.4-19(68|86)|iso646-us|utf[-_]?8|utf-?16(-?[bl]e)?"
    r"|iso[-_]?8859[-_]?[0-9]{1,2}|latin-?1|windows-?125[0-8]|cp125[0-8]|cp(437|850|874|932|949)"
    r"|mac(intosh|-roman)|tis-620|koi8-?[ru]|gb2312|gbk|gb18030|big5(-?hkscs)?|shift_?jis"
    r"|euc-?(jp|kr)|ks_c_5601-1987|iso-2022-(jp|kr))"
)
_ADDRESS: Final = re.compile(r"[^\s<>()\\,;:\"@]+@[^\s<>()\\,;:\"@]+")
_NAME: Final = re.compile(r'(?:[^"<>\\;:,]|"(?:[^"\\]|\\.)*")*')
_PIECE: Final = re.compile(r'(?:[^",]|"(?:[^"\\]|\\.)*")*')
_COMMENTED: Final = re.compile(r"([^\s<>()]+) +\(([^()\\]*)\)")
"""An address with a name behind it, as programs wrote it before names stood in front."""
_NOBODY: Final = re.compile(r"(?:(?:undisclosed|unlisted)[ -]recipients?\s*:\s*;)?", re.IGNORECASE)


@dataclass(frozen=True)
class HeaderLine:
    """One line of the head. `name` is in lower case; empty for what is no line of a head."""

    name: str
    value: Value
    """As a reader sees it; the bytes where it cannot be decoded."""
    addresses: tuple[str, ...] | None
    """The mailboxes it names, in order; None where it names none or cannot be read as such."""
    names: tuple[str, ...] = ()
    """The names that it shows for them, e.g. `Hearthside`."""


def header_lines(message: Message) -> tuple[HeaderLine, ...]:
    """Every line of the head, in order."""
    return tuple(_line(str(name), str(value)) for name, value in message.raw_items())


def raw_header(message: Message, name: str) -> str | None:
    """The first header of that name as received, bytes above 127 as surrogate escapes."""
    for key, value in message.raw_items():
        if key.lower() == name:
            return str(value)
    return None


def first_value(lines: Sequence[HeaderLine], name: str) -> Value:
    """The value of the first header of that name; None where there is none."""
    return next((line.value for line in lines if line.name == name), None)


def departures(
    lines: Sequence[HeaderLine], sender: str, recipients: Sequence[str], accepted: datetime
) -> Iterator[tuple[int, HeaderLine]]:
    """The lines that say something else than the envelope, each with its place, from 1."""
    seen: Counter[str] = Counter()
    receiving = frozenset(_folded(each) for each in recipients)
    sending = frozenset({_folded(sender)})
    for number, line in enumerate(lines, 1):
        seen[line.name] += 1
        is_first = seen[line.name] == 1 or line.name in _REPEATED
        if not (is_first and _is_plain(line, sending, receiving, accepted)):
            yield number, line


def _is_plain(
    line: HeaderLine, sending: frozenset[str], receiving: frozenset[str], accepted: datetime
) -> bool:
    match line.name:
        case "subject":
            return True
        case "date":
            return _is_near(line.value, accepted)
        case "from":
            return _names_only(line, sending) and len(line.addresses or ()) == 1
        case "sender" | "reply-to":
            return _names_only(line, sending)
        case "to" | "cc":
            return _names_only(line, receiving)
        case name if name in _BY_SERVERS:
            return line.value == "<>" or _names_only(line, sending | receiving)
        case name if name in _FORM or name in _USUAL:
            form = _FORM.get(name) or _USUAL[name]
            return isinstance(line.value, str) and form.fullmatch(line.value) is not None
        case name:
            return name in BOOKKEEPING and _mentions_only(line, sending | receiving)


def _mentions_only(line: HeaderLine, known: frozenset[str]) -> bool:
    value = line.value if isinstance(line.value, str) else repr(line.value)
    found = _ANYBODY.findall(unicodedata.normalize("NFKC", value))
    return known.issuperset(map(_folded, found))


def _names_only(line: HeaderLine, known: frozenset[str]) -> bool:
    """It names nobody else, and shows no other address in a name."""
    if line.addresses is None or not known.issuperset(map(_folded, line.addresses)):
        return False
    shown = (unicodedata.normalize("NFKC", name).strip(" \t'") for name in line.names)
    return not any("@" in name and _folded(name) not in known for name in shown)


def _folded(address: str) -> str:
    local, at, domain = address.rpartition("@")
    return local + at + domain.lower()


def _is_near(value: Value, accepted: datetime) -> bool:
    if not isinstance(value, str) or not _DATE.fullmatch(value):
        return False
    try:
        said = parsedate_to_datetime(value)
        said = said if said.tzinfo else said.replace(tzinfo=UTC)
        return abs(said - accepted) <= DATE_TOLERANCE
    except (ValueError, TypeError, IndexError, OverflowError):
        return False


def _line(name: str, received: str) -> HeaderLine:
    known = name.lower().encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    unfolded = re.sub(r"\r?\n(?=[ \t])", "", received).strip(" \t\r\n")
    value = decoded(unfolded)
    if known not in _ADDRESSES or len(unfolded) > MAX_HEADER_CHARACTERS:
        return HeaderLine(known, value, None)
    boxes = _mailboxes(unfolded)
    if boxes is None:
        return HeaderLine(known, value, None)
    names = [decoded(shown) for shown, _ in boxes if shown]
    if not all(isinstance(each, str) for each in names):
        return HeaderLine(known, value, None)
    shown_names = tuple(str(each) for each in names)
    return HeaderLine(known, value, tuple(address for _, address in boxes), shown_names)


def _mailboxes(text: str) -> list[tuple[str, str]] | None:
    """(name, address) of each mailbox; None where the text is no list of mailboxes."""
    if _NOBODY.fullmatch(text):
        return []
    found: list[tuple[str, str]] = []
    at = 0
    while True:
        piece = _PIECE.match(text, at)
        box = None if piece is None else _mailbox(piece[0].strip())
        if piece is None or box is None:
            return None
        found.append(box)
        if piece.end() == len(text):
            return found
        if text[piece.end()] != ",":
            return None
        at = piece.end() + 1


def _mailbox(text: str) -> tuple[str, str] | None:
    commented = _COMMENTED.fullmatch(text)
    if commented is not None:
        text = f"{commented[2]} <{commented[1]}>"
    name, angle, address = text.rpartition("<")
    if angle and address.endswith(">"):
        address = address[:-1]
    elif angle:
        return None
    name = name.strip()
    if not _ADDRESS.fullmatch(address) or not _NAME.fullmatch(name):
        return None
    return re.sub(r'\\(.)|"', r"\1", name), _text(address)


def _text(received: str) -> str:
    return received.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def decoded(unfolded: str) -> Value:
    """The text that a header shows; its bytes where that cannot be said."""
    if len(unfolded) > MAX_HEADER_CHARACTERS:
        return unfolded.encode("utf-8", "surrogateescape")
    if not unfolded.isascii():
        return exact(unfolded.encode("utf-8", "surrogateescape"))
    try:
        words = decode_header(unfolded)
        text = "".join(_word(content, charset) for content, charset in words)
        text.encode()  # a codec may give lone surrogates, which are not text
        return text
    except (HeaderParseError, LookupError, UnicodeError, ValueError, binascii.Error):
        return unfolded.encode("ascii")


def _word(content: str | bytes, charset: str | None) -> str:
    if isinstance(content, str):
        return content
    return decode(content, charset or "ascii")


def exact(content: bytes) -> Value:
    """The text, if the bytes are UTF-8, else the bytes."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


def decode(content: bytes, charset: str) -> str:
    """The text under the charset. `LookupError` for a charset that is not read."""
    name = charset.strip().lower()
    if not _CHARSET.fullmatch(name):
        raise LookupError(f"charset {name[:40]!r} is not read")
    return codecs.lookup(name).decode(content)[0]
