"""Parts of a message that mail programs read in different ways, or show beside the part.

A program may believe the first of two headers or the last, take what it does not understand for
plain text or refuse it, find a file within a text, and show what the head of a part says. Nothing
here guesses which: a part of which it holds is listed beside the body.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from email.errors import MessageError
from email.message import Message
from email.utils import collapse_rfc2231_value
from typing import Final

from statediff_office.mail.headers import BOOKKEEPING, SHOWN, decoded, raw_header

_READING: Final = ("content-type", "content-transfer-encoding", "content-disposition")
_OF_PARTS: Final = frozenset({*_READING, "content-id", "content-language", "mime-version"})
"""Headers of a part that no program shows; nor does one show `X-…`."""
_QUOTED: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*("|\\?\Z)', re.DOTALL)
"""Quoted text, or all behind a quote that nothing ends: each character is looked at once."""
_COMMENT: Final = re.compile(r"\([^()]*\)")
_PARAMETER: Final = re.compile(
    r";\s*((?:charset|boundary)(?=[*\s=])|[!-:<>-~]++)[*0-9]*\s*=", re.IGNORECASE
)
"""A name in pieces (`filename*0`) has another name for each; a charset has none."""
_WORD: Final = r"[!#-'*+\-.0-9A-Z^-~]+"
_FORMS: Final = {
    "content-type": re.compile(rf"{_WORD}/{_WORD}\s*(;.*)?", re.DOTALL | re.IGNORECASE),
    "content-disposition": re.compile(rf"{_WORD}\s*(;.*)?", re.DOTALL | re.IGNORECASE),
}
_NO_ESCAPE: Final = re.compile(rb"=(?![0-9A-Fa-f]{2}|\r?\n|\Z)")
_FILE: Final = re.compile(
    r"^(?:begin [0-7]{3,4} \S|=ybegin [^\n]*name=|\(This file must be converted with BinHex)",
    re.MULTILINE,
)
"""Where a file begins within a text; programs show it as an attachment."""
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0d-\x1f\x7f\u202d\u202e]")
"""At some of these a program ends the text or writes over a line, others turn it around."""
_JOINED: Final = re.compile(r"\S \n[^\s>]")
"""A line and the next are one word to who knows `DelSp=yes` (RFC 3676), else two."""
_HEAD: Final = re.compile(
    rf"[^\w\r\n]{{0,4}}(?:{'|'.join((*SHOWN, *BOOKKEEPING))})[ \t]*:", re.IGNORECASE
)
_MALFORMED: Final = re.compile(r"[!-9;-~]+[ \t]+:")
_HEAD_CHARACTERS: Final = 16 * 1024


def is_ambiguous(message: Message) -> bool:
    """Its head says twice how it is to be read, or in no form that there is."""
    names = [str(name).lower() for name, _ in message.raw_items()]
    if any(names.count(name) > 1 for name in _READING):
        return True
    for header in _READING:
        said = raw_header(message, header)
        if said is None:
            continue
        bare = _QUOTED.sub(lambda found: '""' if found[1] == '"' else found[0], said)
        form = _FORMS.get(header)
        if form is not None and not form.fullmatch(_COMMENT.sub("", bare).strip()):
            return True
        parameters = Counter(found.lower() for found in _PARAMETER.findall(bare))
        if any(count > 1 for count in parameters.values()):
            return True
    return len(_names(message)) > 1


def _names(message: Message) -> set[object]:
    """The names of the file that it gives; honest programs give the same one twice."""
    found: set[object] = set()
    for header, parameter in (("content-disposition", "filename"), ("content-type", "name")):
        try:
            given = [v for key, v in message.get_params([], header) if key.lower() == parameter]
            found.update(decoded(collapse_rfc2231_value(value)) for value in given)
        except (LookupError, ValueError, TypeError, AttributeError, MessageError):
            found.add(header)  # a name that cannot be decoded is another one to each program
    return found


def has_boundary(content: bytes, boundaries: Sequence[str]) -> bool:
    """A line of it begins as one that parts what is around it; many compare no more than that."""
    begins = [b"--" + each.encode("utf-8", "surrogateescape") for each in boundaries]
    return any(
        content.startswith(begin) or b"\n" + begin in content or b"\r" + begin in content
        for begin in begins
    )


def said_beside(message: Message) -> bytes:
    """The lines of a part's head that say more than how it is to be read."""
    beside = [
        (str(name), str(value))
        for name, value in message.raw_items()
        if str(name).lower() not in _OF_PARTS and not str(name).lower().startswith("x-")
    ]
    is_described = [name.lower() for name, _ in beside] == ["content-description"]
    if is_described and decoded(beside[0][1].strip()) in _names(message):
        return b""  # the name of the file once more
    lines = "".join(f"{name}: {value}\n" for name, value in beside)
    return lines.encode("utf-8", "surrogateescape")


def is_text_ambiguous(text: str, message: Message) -> bool:
    """A text that programs end early, join in two ways, or take a file out of."""
    if _CONTROL.search(text) or _FILE.search(text):
        return True
    is_joined = str(message.get_param("delsp", "")).strip().lower() == "yes"
    return is_joined and _JOINED.search(text) is not None


def is_escaped_badly(content: bytes) -> bool:
    """Something in quoted-printable stands for nothing."""
    return _NO_ESCAPE.search(content) is not None


def begins_as_head(text: str) -> bool:
    """A text without a head, of which some programs take the begin for one."""
    return _MALFORMED.match(text) is not None or any(map(_HEAD.match, _first_lines(text)))


def _first_lines(text: str) -> Iterator[str]:
    for line in text[:_HEAD_CHARACTERS].lstrip("\ufeff\r\n\t ").splitlines():
        if not line.strip():
            return
        yield line
