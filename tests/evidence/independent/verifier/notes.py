"""Read checkpoints: signed notes (R-NOTE)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from .basics import Refused, need, sha, signed_by, unbase64
from .trust import Key

LAST = 253402300799
Line = tuple[str, bytes, bytes]


@dataclass
class Checkpoint:
    """A checkpoint that is accepted."""

    origin: str
    size: int
    root: bytes
    at: str
    by: str
    witnesses: list[list[str]] = field(default_factory=list)

    def answer(self) -> dict[str, Any]:
        """Return what is said of the checkpoint."""
        return {
            "origin": self.origin,
            "size": self.size,
            "root": self.root.hex(),
            "at": self.at,
            "by": self.by,
            "witnesses": self.witnesses,
        }


def key_hash(name: str, kind: int, raw: bytes) -> bytes:
    """Return the hash of a key for a name and a type."""
    return sha(name.encode() + b"\n" + bytes([kind]) + raw)[:4]


def _is_name(name: str) -> bool:
    if not 1 <= len(name) <= 200 or "+" in name:
        return False
    return not any(c.isspace() or ord(c) <= 0x1F for c in name)


def check_plain_text(data: bytes, why: str) -> str:
    """Return the text of a file in UTF-8 without control characters but newlines."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refused(why + " UTF-8") from error
    need(not any(ord(c) <= 0x1F and c != "\n" for c in text), why + " control characters")
    return text


def signature_lines(text: str, why: str) -> list[Line]:
    """Return the signature lines of a note: name, hash of the key, signature (R-NOTE-2)."""
    need(text.endswith("\n"), why + " no signature, or no newline")
    lines: list[Line] = []
    for line in text[:-1].split("\n"):
        parts = line.split(" ")
        need(len(parts) == 3 and parts[0] == "\u2014" and _is_name(parts[1]), why)
        raw = unbase64(parts[2], why)
        need(len(raw) >= 5, why)
        lines.append((parts[1], raw[:4], raw[4:]))
    return lines


def _split(data: bytes) -> tuple[str, list[Line]]:
    note = check_plain_text(data, "R-NOTE-1")
    end = note.rfind("\n\n")
    need(end >= 0, "R-NOTE-1 no empty line")
    return note[: end + 1], signature_lines(note[end + 2 :], "R-NOTE-2")


def _content(text: str) -> tuple[str, int, bytes]:
    lines = text[:-1].split("\n")
    need(len(lines) >= 3 and all(lines), "R-NOTE-3")
    need(re.fullmatch("0|[1-9][0-9]{0,18}", lines[1]) is not None, "R-NOTE-3 size")
    root = unbase64(lines[2], "R-NOTE-3 root")
    need(len(root) == 32, "R-NOTE-3 root")
    return lines[0], int(lines[1]), root


def moment(seconds: int) -> datetime:
    """Return the moment so many seconds after the beginning of 1970."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


def check_timed(key: Key, signature: bytes, text: str, why: str) -> int:
    """Return the seconds that a signature with a time names, if it fits."""
    need(len(signature) == 72, why + " length")
    seconds = int.from_bytes(signature[:8], "big")
    need(seconds <= LAST, why + " time")
    message = f"cosignature/v1\ntime {seconds}\n{text}".encode()
    need(signed_by(key.raw, signature[8:], message), why + " does not fit")
    return seconds


def _of_log(keys: list[Key], origin: str, text: str, lines: list[Line]) -> tuple[Key, int]:
    for key in keys:
        if "evaluator" not in key.roles:
            continue
        mine = [
            (kind, sig)
            for name, head, sig in lines
            for kind in (1, 4)
            if name == origin and head == key_hash(origin, kind, key.raw)
        ]
        if not any(kind == 1 for kind, _ in mine):
            continue
        for kind, sig in mine:
            need(kind == 4 or signed_by(key.raw, sig, text.encode()), "R-NOTE-4 does not fit")
        times = [check_timed(key, sig, text, "R-NOTE-5") for kind, sig in mine if kind == 4]
        need(len(times) > 0, "R-NOTE-5 no time")
        need(key.counts(moment(times[-1])), "R-NOTE-5 does not count")
        return key, times[-1]
    raise Refused("R-NOTE-4 no key")


def _witnesses(keys: list[Key], text: str, lines: list[Line]) -> list[list[str]]:
    witnesses: list[list[str]] = []
    for key in keys:
        if "witness" not in key.roles:
            continue
        times: list[int] = []
        for name, head, signature in lines:
            if head == key_hash(name, 4, key.raw):
                times.append(check_timed(key, signature, text, "R-NOTE-6"))
        if times:
            need(key.counts(moment(times[-1])), "R-NOTE-6 does not count")
            witnesses.append([key.name, moment(times[-1]).isoformat()])
    return witnesses


def read_checkpoint(data: bytes, keys: list[Key], origin: str | None) -> Checkpoint:
    """Return a checkpoint, or refuse it."""
    need(len(data) <= 65_536, "R-NOTE-1 size")
    text, lines = _split(data)
    named, size, root = _content(text)
    key, seconds = _of_log(keys, named, text, lines)
    at = moment(seconds).isoformat()
    checkpoint = Checkpoint(named, size, root, at, key.name, _witnesses(keys, text, lines))
    need(origin is None or checkpoint.origin == origin, "R-NOTE-7")
    return checkpoint
