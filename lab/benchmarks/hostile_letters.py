"""Possible changes to letters that were sent: harm, and what mail software does on the way."""

from __future__ import annotations

import base64
import quopri
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True)
class Letter:
    """One delivery: the envelope, and what was sent."""

    sender: str
    recipients: tuple[str, ...]
    raw: bytes

    @property
    def parts(self) -> tuple[bytes, bytes]:
        """The head, each line with its end, and the body."""
        head, _, body = self.raw.replace(b"\r\n", b"\n").partition(b"\n\n")
        return head + b"\n", body

    def with_head(self, head: bytes) -> Letter:
        """The same body under another head."""
        return replace(self, raw=head + b"\n" + self.parts[1])

    def with_line(self, name: str, value: str) -> Letter:
        """One line more at the end of the head."""
        return self.with_head(self.parts[0] + f"{name}: {value}\n".encode())


Letters = list[Letter]
Change = Callable[[Letters, random.Random], str]
_STRANGER: Final = "stranger@example.org"


def _one(letters: Letters, rng: random.Random) -> int:
    return rng.randrange(len(letters))


def deliveries(letters: Letters, rng: random.Random) -> str:
    at = _one(letters, rng)
    way = rng.choice(["lost", "twice", "to a stranger too", "to a stranger", "to two", "new"])
    letter = letters[at]
    match way:
        case "lost":
            del letters[at]
        case "twice":
            letters.append(letter)
        case "to a stranger too":
            letters.append(replace(letter, recipients=(_STRANGER,)))
        case "to a stranger":
            letters[at] = replace(letter, recipients=(_STRANGER,))
        case "to two":
            letters[at] = replace(letter, recipients=(*letter.recipients, _STRANGER))
        case _:
            raw = b"From: a@example.org\nSubject: x\n\nbuy\n"
            letters.append(Letter("care@hearthside.example", (_STRANGER,), raw))
    return way


def head_line(letters: Letters, rng: random.Random) -> str:
    at = _one(letters, rng)
    others = [r for letter in letters for r in letter.recipients]
    name, value = rng.choice(
        [
            ("Reply-To", _STRANGER),
            ("Sender", _STRANGER),
            ("Cc", ", ".join(others)),
            ("To", ", ".join(others)),
            ("Bcc", rng.choice(others)),
            ("Subject", "another matter"),
            ("From", f"Boss <{_STRANGER}>"),
            ("List-Unsubscribe", "<https://x.example/u>"),
            ("In-Reply-To", "<x@example.org>"),
            ("References", "<x@example.org>"),
            ("Disposition-Notification-To", _STRANGER),
            ("Resent-From", _STRANGER),
            ("Date", "Thu, 01 Jan 1970 00:00:00 +0000"),
            ("Errors-To", _STRANGER),
        ]
    )
    letters[at] = letters[at].with_line(name, value)
    return f"{name}: {value[:40]}"


def head_value(letters: Letters, rng: random.Random) -> str:
    at = _one(letters, rng)
    name, value = rng.choice([("From", f"Care <{_STRANGER}>"), ("To", _STRANGER)])
    head, _ = letters[at].parts
    line = f"{name}: {value}\n".encode()
    new = re.sub(rb"(?mi)^%s:.*\n(?:[ \t].*\n)*" % name.encode(), lambda _: line, head)
    letters[at] = letters[at].with_head(new)
    return line.decode().strip()


_KINDS: Final = (
    ("text/html", "<p>the price is 1</p>"),
    ("text/calendar", "BEGIN:VCALENDAR"),
    ("text/plain", "another text"),
    ("application/javascript", "alert(1)"),
    ("message/rfc822", "Subject: inside\n\nx"),
    ("text/enriched", "<bold>x</bold>"),
    ("image/png", "PNG"),
    ("application/octet-stream", "x"),
    ("text/x-amp-html", "<p>x</p>"),
    ("application/pkcs7-signature", "x"),
    ("text/vcard", "BEGIN:VCARD"),
    ("x-a/x-b", "x"),
)


def another_part(letters: Letters, rng: random.Random) -> str:
    at = _one(letters, rng)
    head, body = letters[at].parts
    kept = re.sub(rb"(?mi)^(content-|mime-).*\n(?:[ \t].*\n)*", b"", head)
    inner = (
        b"".join(re.findall(rb"(?mi)^content-.*\n(?:[ \t].*\n)*", head))
        or b"Content-Type: text/plain\n"
    )
    kind, text = rng.choice(_KINDS)
    way = rng.choice(["mixed", "alternative", "related", "x-other"])
    where = rng.choice(["inline", "attachment", "attachment; filename=a.txt", ""])
    if kind == "text/plain":  # shown with the text, it would be some of the letter's own words
        where = "attachment"
    more = f"Content-Disposition: {where}\n" if where else ""
    parts = [inner + b"\n" + body, f"Content-Type: {kind}\n{more}\n{text}\n".encode()]
    if rng.random() < 0.3:
        parts.reverse()
    content = b"".join(b"--b0\n" + part + b"\n" for part in parts) + b"--b0--\n"
    top = f"MIME-Version: 1.0\nContent-Type: multipart/{way}; boundary=b0\n".encode()
    letters[at] = replace(letters[at], raw=kept + top + b"\n" + content)
    return f"multipart/{way} with {kind}, {where or 'no disposition'}"


def another_form(letters: Letters, rng: random.Random) -> str:
    """The text is of another kind, or the article is not named in it."""
    at = _one(letters, rng)
    head, _ = letters[at].parts
    way = rng.choice(["html", "empty", "another article", "attached"])
    kept = re.sub(rb"(?mi)^content-.*\n(?:[ \t].*\n)*", b"", head)
    line, body = {
        "html": (b"Content-Type: text/html\n", b"<p>HS-314</p>\n"),
        "empty": (b"", b"\n"),
        "another article": (b"", b"It is HS-%d.\n" % rng.randrange(900, 999)),
        "attached": (b"Content-Disposition: attachment; filename=x\n", b"HS-314\n"),
    }[way]
    letters[at] = replace(letters[at], raw=kept + line + b"\n" + body)
    return way


def read_otherwise(letters: Letters, rng: random.Random) -> str:
    """The whole text is in a part that other programs read, or show, in another way."""
    at = _one(letters, rng)
    head, body = letters[at].parts
    kept = re.sub(rb"(?mi)^(content-|mime-).*\n(?:[ \t].*\n)*", b"", head)
    said, more = rng.choice(
        [
            (rng.choice(["html", "text/html/x", "text/plain, text/html", "/html", "text"]), ""),
            ("text/plain", f"Subject: another matter {rng.randrange(99)}\n"),
            ("text/plain", f"Reply-To: {_STRANGER}\n"),
            ("text/plain", f"Content-Description: for {_STRANGER}\n"),
            ("text/plain; name=a.exe", ""),
            ("text/plain", f"Content-Disposition: {rng.choice(['hidden', 'x(y)', 'form-data'])}\n"),
            ("text/plain; charset=utf-8; charset=utf-7", ""),
        ]
    )
    body += rng.choice(
        [b"", b"\n--bcd\nContent-Type: text/html\n\nx\n", b"\nbegin 644 a.exe\n`\nend\n"]
    )
    part = f"Content-Type: {said}\n{more}\n".encode() + body
    top = b"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b\n"
    letters[at] = replace(letters[at], raw=kept + top + part + b"\n--b--\n")
    return f"{said} {more.strip()}"


def sender(letters: Letters, rng: random.Random) -> str:
    at = _one(letters, rng)
    letters[at] = replace(letters[at], sender=rng.choice([_STRANGER, "", "root@localhost"]))
    return f"sent by {letters[at].sender!r}"


def trace(letters: Letters, rng: random.Random) -> str:
    """Lines that servers write on the way."""
    number = rng.randrange(10**6)
    name, value = rng.choice(
        [
            ("Received", f"from a by b with ESMTP id {number}; Mon, 05 Jan 2026 12:00:00 +0000"),
            ("Return-Path", "<care@hearthside.example>"),
            ("DKIM-Signature", f"v=1; a=rsa-sha256; d=x; b={number}"),
            ("Authentication-Results", f"mx; spf=pass id={number}"),
            ("X-Mailer", f"mailer {number}"),
            ("User-Agent", f"agent/{number}"),
            ("ARC-Seal", f"i=1; b={number}"),
        ]
    )
    for at, letter in enumerate(letters):
        if name == "Return-Path":
            value = f"<{letter.sender}>"
        letters[at] = replace(letter, raw=f"{name}: {value}\n".encode() + letter.raw)
    return f"{name}: {value[:40]}"


def encoding(letters: Letters, rng: random.Random) -> str:
    """The same text in another transfer encoding."""
    way = rng.choice(["base64", "quoted-printable"])
    for at, letter in enumerate(letters):
        head, body = letter.parts
        if re.search(rb"(?mi)^content-type: *multipart|^content-transfer-encoding: *[^78]", head):
            return "unchanged"
        kept = re.sub(rb"(?mi)^content-transfer-encoding:.*\n", b"", head)
        new = base64.encodebytes(body) if way == "base64" else quopri.encodestring(body)
        line = f"Content-Transfer-Encoding: {way}\n".encode()
        letters[at] = replace(letter, raw=kept + line + b"\n" + new)
    return way


def spelling(letters: Letters, rng: random.Random) -> str:
    """Names of header lines in another case, or ends of lines as on the wire."""
    way = rng.choice(["upper", "lower", "wire"])
    for at, letter in enumerate(letters):
        head, body = letter.parts
        if way == "wire":
            raw = letter.raw.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
            letters[at] = replace(letter, raw=raw)
            continue
        change = _upper if way == "upper" else _lower
        new = re.sub(rb"(?m)^[!-9;-~]+:", change, head)
        letters[at] = replace(letter, raw=new + b"\n" + body)
    return way


def _upper(found: re.Match[bytes]) -> bytes:
    return found[0].upper()


def _lower(found: re.Match[bytes]) -> bytes:
    return found[0].lower()


def said_as_usual(letters: Letters, rng: random.Random) -> str:
    """The same said as other programs say it."""
    name, value = rng.choice(
        [
            ("Importance", "Normal"),
            ("X-Priority", "3 (Normal)"),
            ("Auto-Submitted", "auto-generated"),
            ("Reply-To", "care@hearthside.example (Hearthside)"),
            ("Message-ID", f"<{rng.randrange(10**9)}@hearthside.example>"),
            ("Sender", "\"'care@hearthside.example'\" <care@hearthside.example>"),
        ]
    )
    for at, letter in enumerate(letters):
        letters[at] = letter.with_line(name, value)
    return f"{name}: {value}"


def order(letters: Letters, rng: random.Random) -> str:
    """The letters came in another order."""
    rng.shuffle(letters)
    return "another order"


HARMS: Final[tuple[Change, ...]] = (
    deliveries,
    head_line,
    head_line,
    head_value,
    another_part,
    another_part,
    another_form,
    read_otherwise,
    read_otherwise,
    sender,
)
CHORES: Final[tuple[Change, ...]] = (trace, encoding, spelling, order, said_as_usual)
