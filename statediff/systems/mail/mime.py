"""What a received message says, read without trust: its subject, plain text and attachments.

Senders are part of the run, so nothing here may raise, hang or guess. Text is decoded exactly or
kept as bytes; what cannot be read at all is unobserved with the cause. The digest and size are
those of the raw bytes and are always known.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import quopri
import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.errors import HeaderParseError, MessageError
from email.header import decode_header
from email.message import Message
from email.parser import BytesParser
from email.policy import compat32
from typing import Final

import blake3

from statediff.model.values import Map, Observed, Unobserved, Value

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
    return _decoded(content, charset or "ascii")


def _exact(content: bytes) -> Value:
    """The text, if the bytes are UTF-8, else the bytes."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


def _decoded(content: bytes, charset: str) -> str:
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
        text = _decoded(leaf.content, charset if isinstance(charset, str) else charset[2])
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
