"""A raw message as fields: what a reader sees of it, and every part beside that.

A message is a tree of parts; its leaves are what it carries. The text/plain leaves that a mail
program shows are the body, what a reader saves is an attachment, and any other leaf is a *further
part*: another text for the same letter, an invitation, a script, a message within the message.
What stands around the parts of a message, and a message that is not taken apart, is one too.

Senders are part of the run, so reading a message may not raise, hang or guess. Text is decoded
exactly or kept as bytes, and a part whose encoding is broken keeps the bytes that were received.
The digest and size of the whole are those of the raw bytes and are always known.
"""

from __future__ import annotations

import base64
import binascii
import quopri
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from email.errors import MessageError
from email.feedparser import (  # type: ignore[attr-defined]  # the stubs leave one out
    BufferedSubFile,
    FeedParser,
)
from email.message import Message
from email.policy import compat32
from typing import Any, Final

import blake3

from statediff.model.values import Map, Observed, Unobserved, Value
from statediff_office.mail.ambiguous import (
    begins_as_head,
    has_boundary,
    is_ambiguous,
    is_escaped_badly,
    is_text_ambiguous,
    said_beside,
)
from statediff_office.mail.headers import (
    MAX_HEADERS,
    SHOWN,
    HeaderLine,
    decode,
    exact,
    first_value,
    header_lines,
    raw_header,
)

MAX_PARSED_BYTES: Final = 4 * 1024 * 1024
MAX_PART_HEADER_CHARACTERS: Final = 4 * 1024
"""Of a part's `Content-…` header: its parameters name codecs of Python, some of them quadratic."""
MAX_PARAMETERS: Final = 200
"""Of such a header: the library reads all of them for each one that is asked for."""
MAX_PARTS: Final = 200
MAX_NESTING: Final = 32

_SPACE: Final = b" \t\n\r\x0b\x0c"
_MARGINS: Final = ("head", "preamble", "epilogue")
_USUAL: Final = re.compile(
    rb"(?:This is a (?:multi-?part|cryptographically signed) message in MIME format\.?)?"
)
"""What programs write before the parts."""


@dataclass(frozen=True)
class Part:
    """One further part. `number` is its place among all the message's leaves, from 1."""

    number: int
    type: str
    """E.g. `text/html`; empty for bytes that are no part by themselves."""
    disposition: str
    """`inline`, or as the part says; `head`, `preamble`, `epilogue`, `whole` are ours."""
    name: Value
    content: bytes
    """Decoded from its transfer encoding; as received where that is broken."""
    text: Value
    """None where it is no text, or not in the charset that it declares."""


@dataclass(frozen=True)
class Parsed:
    """One message as fields: text, null where there is none, bytes, or unobserved."""

    subject: Observed
    body: Observed
    message_id: Observed
    attachments: Observed
    digest: str
    size: int
    headers: Observed
    """A map of the headers of `SHOWN`, each with the list of its values in order."""
    lines: tuple[HeaderLine, ...]
    parts: tuple[Part, ...]


def parse_message(raw: bytes) -> Parsed:
    """The fields of a raw message. Never raises on what a sender can write."""
    digest = blake3.blake3(raw).hexdigest()
    if len(raw) > MAX_PARSED_BYTES:
        return _unread(digest, raw, f"a message of {len(raw)} bytes is not parsed")
    try:
        return _read(_Parser().message(raw), digest, len(raw))
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


def _read(message: Message, digest: str, size: int) -> Parsed:
    lines = header_lines(message)
    leaves = list(_leaves(message))
    if len(leaves) > MAX_PARTS:
        raise _TooMuch(f"more than {MAX_PARTS} parts")
    texts = [_text(leaf) for leaf in leaves if leaf.is_body]
    return Parsed(
        subject=first_value(lines, "subject"),
        body=_body(texts),
        message_id=first_value(lines, "message-id"),
        attachments=tuple(_attachment(leaf) for leaf in leaves if leaf.is_attachment),
        digest=digest,
        size=size,
        headers=Map.of(
            {
                name.replace("-", "_"): tuple(line.value for line in lines if line.name == name)
                for name in SHOWN
            }
        ),
        lines=lines + _defects(message),
        parts=tuple(
            _part(number, leaf) for number, leaf in enumerate(leaves, 1) if leaf.is_further
        ),
    )


def _unread(digest: str, raw: bytes, cause: str) -> Parsed:
    unknown = Unobserved(cause)
    whole = Part(1, "", "whole", None, raw, None)
    return Parsed(
        subject=unknown,
        body=unknown,
        message_id=unknown,
        attachments=unknown,
        digest=digest,
        size=len(raw),
        headers=unknown,
        lines=(),
        parts=(whole,),
    )


def _defects(message: Message) -> tuple[HeaderLine, ...]:
    """A head that programs may read in other ways than we: what is odd in it, as a line."""
    separator = message.get_unixfrom()
    if separator is not None:
        return (HeaderLine("", exact(separator.encode("utf-8", "surrogateescape")), None),)
    content = message.get_payload()
    found = sorted({type(each).__name__ for each in message.defects})
    if not message.keys():
        if not (isinstance(content, str) and begins_as_head(content)):
            return ()  # only text, as programs write it by hand
        found = found or ["its text begins as a head"]
    return tuple(HeaderLine("", f"a malformed message: {name}", None) for name in found)


class _TooMuch(Exception):
    """The structure of a message is larger than we walk."""


class _Entity(Message):
    """A part; a message within it is a leaf, so that its own bytes are kept as received."""

    def get_content_type(self) -> str:
        declared = super().get_content_type()
        return "application/octet-stream" if declared.startswith("message/") else declared


class _Parser(FeedParser):
    """The library's parser, which asks of each line whether it ends any part around it.

    The library tries the boundaries one by one, so that a message cost its levels times its lines;
    here they are looked up, and their number is bounded while the message is read.
    """

    def __init__(self) -> None:
        super().__init__(_Entity, policy=compat32)
        self._input = _Lines(lambda: str(self._cur.get_boundary()))  # type: ignore[attr-defined]  # the library's own

    def message(self, raw: bytes) -> Message:
        """The tree of parts. Raises `_TooMuch`, and what the library raises."""
        self.feed(raw.decode("ascii", "surrogateescape"))
        whole: Message = self.close()
        return whole

    def _parse_headers(self, lines: list[str]) -> None:
        """The head of a part, bounded before the library asks it for a boundary."""
        if sum(not line.startswith((" ", "\t")) for line in lines) > MAX_HEADERS:
            raise _TooMuch(f"more than {MAX_HEADERS} headers")
        super()._parse_headers(lines)  # type: ignore[misc]  # the library's own
        for name, value in self._cur.raw_items():  # type: ignore[attr-defined]
            if not name.lower().startswith("content-"):
                continue
            if len(value) > MAX_PART_HEADER_CHARACTERS:
                raise _TooMuch(f"a header of more than {MAX_PART_HEADER_CHARACTERS} characters")
            if value.count(";") > MAX_PARAMETERS:
                raise _TooMuch(f"a header of more than {MAX_PARAMETERS} parameters")


class _Lines(BufferedSubFile):  # type: ignore[misc]  # the stubs leave it out
    """The lines of a message; a boundary of any part around the current one ends that one."""

    def __init__(self, boundary: Callable[[], str]) -> None:
        super().__init__()
        self._boundary = boundary
        self._around: list[str] = []
        self._ends: frozenset[str] = frozenset()

    def push_eof_matcher(self, pred: object) -> None:
        if len(self._around) >= MAX_NESTING:
            raise _TooMuch(f"more than {MAX_NESTING} levels")
        self._around.append(f"--{self._boundary()}")
        self._ends = frozenset(self._around)

    def pop_eof_matcher(self) -> None:
        self._around.pop()
        self._ends = frozenset(self._around)

    def readline(self) -> Any:
        line = super().readline()  # the library's own stack is empty
        if not isinstance(line, str) or not line.startswith("--"):
            return line
        bare = line.removesuffix("\n").removesuffix("\r").rstrip(" \t")
        if bare in self._ends or (bare.endswith("--") and bare[:-2] in self._ends):
            self.unreadline(line)
            return ""
        return line


@dataclass(frozen=True)
class _Leaf:
    """A part without parts: its headers and its content, decoded from the transfer encoding."""

    headers: Message
    content: bytes
    is_broken: bool = False
    """The content is not in the encoding that it declares, and is as received."""
    is_second: bool = False
    """It is in one of several forms of the same letter, and not the first with plain text."""
    is_ambiguous: bool = False
    """Programs differ in how they read it (`mail.ambiguous`)."""
    disposition: str = ""

    @property
    def type(self) -> str:
        """In ASCII; empty for what is no part by itself."""
        if self._is_marginal:
            return ""
        declared = Message.get_content_type(self.headers)
        return declared.encode("ascii", "replace").decode("ascii")

    @property
    def is_attachment(self) -> bool:
        """A reader saves it: it says so, or it is neither text nor a message."""
        if self._is_marginal:
            return False
        is_shown = self.type.startswith(("text/", "message/"))
        # What a program does not know it takes for `attachment` (RFC 2183, section 2.8).
        return self.disposition not in ("", "inline") or not is_shown

    @property
    def is_body(self) -> bool:
        return self.type == "text/plain" and not self.is_second and not self.is_attachment

    @property
    def is_further(self) -> bool:
        if self.is_attachment or self.is_body:
            return self.is_ambiguous or (self.is_body and _file_name(self.headers) is not None)
        return True

    @property
    def _is_marginal(self) -> bool:
        return self.disposition in _MARGINS


def _leaves(
    message: Message, within: tuple[str, ...] = (), *, is_second: bool = False
) -> Iterator[_Leaf]:
    """The leaves in order; `within` are the boundaries of the parts around it."""
    if len(within) > MAX_NESTING:
        raise _TooMuch(f"more than {MAX_NESTING} levels")
    beside = said_beside(message) if within else b""
    if beside:
        yield _Leaf(_Entity(), beside, disposition="head")
    is_odd = is_ambiguous(message) or (bool(within) and bool(message.defects))
    if not message.is_multipart():
        leaf = _leaf(message, within)
        yield replace(leaf, is_second=is_second, is_ambiguous=is_odd or leaf.is_ambiguous)
        return
    parts: Any = message.get_payload()
    if len(parts) > MAX_PARTS:
        raise _TooMuch(f"more than {MAX_PARTS} parts")
    own = str(message.get_boundary(""))
    if is_odd or _shows_another(message, parts) or own.startswith(within):
        yield _Leaf(_Entity(), _field(message, "content-type"), disposition="head")
    said = _field(message, "content-disposition")
    if said.strip().lower() not in (b"", b"inline"):  # a program may save all of it, and show none
        yield _Leaf(_Entity(), said, disposition="head")
    yield from _around(message.preamble, "preamble")
    shows_all = message.get_content_type() == "multipart/mixed"
    for part in parts:
        inner = list(_leaves(part, (*within, own), is_second=is_second))
        yield from inner
        is_second = is_second or (not shows_all and any(leaf.is_body for leaf in inner))
    yield from _around(message.epilogue, "epilogue")


def _shows_another(message: Message, parts: list[Message]) -> bool:
    """It names a part to begin with, and that is not the first."""
    start = message.get_param("start")
    return start is not None and [start] != [each.get("content-id") for each in parts[:1]]


def _around(text: str | None, where: str) -> Iterator[_Leaf]:
    """The text before or after the parts, where no mail program of today shows it."""
    content = (text or "").encode("utf-8", "surrogateescape")
    # In pieces, for an expression over all of it tries every length of the space at its begin.
    if _USUAL.sub(b"", content.lstrip(), count=1).strip(_SPACE + b"-"):
        yield _Leaf(_Entity(), content, disposition=where)


def _field(message: Message, name: str) -> bytes:
    return (raw_header(message, name) or "").encode("utf-8", "surrogateescape")


def _leaf(message: Message, within: tuple[str, ...]) -> _Leaf:
    encoding = (raw_header(message, "content-transfer-encoding") or "7bit").strip().lower()
    said = raw_header(message, "content-disposition") or ""
    shown = said.partition(";")[0].strip().lower()[:100]
    disposition = shown.encode("ascii", "backslashreplace").decode("ascii")
    # Without the header the library hands over the bytes as received; with it, it guesses.
    del message["content-transfer-encoding"]
    stored = message.get_payload(decode=True)
    if not isinstance(stored, bytes):
        return _Leaf(message, b"", True, disposition=disposition)
    is_odd = has_boundary(stored, within)
    content: bytes | None
    match encoding:
        case "7bit" | "8bit" | "binary":
            content = stored
        case "quoted-printable":
            content = quopri.decodestring(stored)
            is_odd = is_odd or is_escaped_badly(stored)
        case "base64":
            try:
                content = base64.b64decode(re.sub(rb"\s+", b"", stored), validate=True)
            except binascii.Error:
                content = None
        case _:
            content = None
    leaf = _Leaf(
        message,
        stored if content is None else content,
        content is None,
        disposition=disposition,
    )
    text = _text_or_none(leaf)
    return replace(
        leaf,
        is_ambiguous=is_odd or (isinstance(text, str) and is_text_ambiguous(text, message)),
    )


def _body(texts: list[Value]) -> Value:
    if not texts:
        return None
    if len(texts) == 1:
        return texts[0]
    if all(isinstance(text, str) for text in texts):
        return "\n".join(str(text) for text in texts)
    return b"\n".join(text if isinstance(text, bytes) else str(text).encode() for text in texts)


def _text(leaf: _Leaf) -> Value:
    """The text of a leaf; its bytes where it is not in the encoding and charset it declares."""
    if leaf.is_broken:
        return leaf.content
    try:
        charset = leaf.headers.get_param("charset", "utf-8")
        named = charset if isinstance(charset, str) else charset[2]
        text = decode(leaf.content, named.partition("(")[0])  # a comment may stand behind it
        text.encode()  # a codec may give lone surrogates, which are not text
    except (LookupError, ValueError, TypeError):
        return leaf.content
    return text.replace("\r\n", "\n")


def _text_or_none(leaf: _Leaf) -> Value:
    if not leaf.type.startswith(("text/", "message/")):
        return None
    text = _text(leaf)
    return text if isinstance(text, str) else None


def _attachment(leaf: _Leaf) -> Map:
    return Map.of(
        {
            "name": _file_name(leaf.headers),
            "type": leaf.type,
            "disposition": leaf.disposition or None,
            "size": len(leaf.content),
            "digest": blake3.blake3(leaf.content).hexdigest(),
            "text": _text_or_none(leaf),
        }
    )


def _part(number: int, leaf: _Leaf) -> Part:
    disposition = leaf.disposition or "inline"
    name = _file_name(leaf.headers)
    return Part(number, leaf.type, disposition, name, leaf.content, _text_or_none(leaf))


def _file_name(headers: Message) -> Value:
    """The name; null where there is none or it cannot be decoded: the part's digest stands."""
    try:
        name = headers.get_filename()
        return None if name is None else exact(name.encode("utf-8", "surrogateescape"))
    except (LookupError, ValueError, TypeError, AttributeError, MessageError):
        return None
