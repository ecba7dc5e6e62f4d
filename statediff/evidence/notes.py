"""Signed notes, and checkpoints of logs as witnesses elsewhere read them.

A note is a text, an empty line, and one line a signature [C2SP signed-note]. A checkpoint is a
note whose text is the log's origin, its size and its root [C2SP tlog-checkpoint]. Who signs a log
signs its checkpoint twice: once as any reader expects it, and once with the time, which is what a
witness signs as well [C2SP tlog-cosignature].
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from statediff.errors import BundleError, UsageError
from statediff.evidence.canonical import read_base64, write_base64
from statediff.evidence.keys import SigningKey

MAX_BYTES: Final = 64 * 1024
"""The most bytes of a note; one with sixteen signatures has about 3,000."""
_PLAIN: Final = b"\x01"
_WITH_TIME: Final = b"\x04"
_MARK: Final = "\u2014 "
_NAME: Final = re.compile(r"[^\s+\x00-\x1f]{1,200}")
_SIZE: Final = re.compile(r"0|[1-9][0-9]{0,18}")
_HASH_BYTES: Final = 32
_ID_BYTES: Final = 4
_TIME_BYTES: Final = 8
_LATEST: Final = 253_402_300_799
"""The last second that a date can say."""


@dataclass(frozen=True)
class Signature:
    """A signature line: who says to have signed, with which key, and what they signed with."""

    name: str
    key: bytes
    """The first 4 bytes of a digest over the name, the kind of signature and the public key."""
    data: bytes


@dataclass(frozen=True)
class Note:
    """A note as read; no signature is checked yet."""

    text: str
    """With its last newline, without the empty line."""
    signatures: tuple[Signature, ...]

    def written(self) -> bytes:
        """The bytes of the note."""
        return f"{self.text}\n{''.join(map(_line, self.signatures))}".encode()

    def is_signed(self, name: str, public: bytes) -> bool:
        """True if this key signed it under this name. `BundleError` where that does not fit."""
        found = list(self._of(name, public, _PLAIN))
        for signature in found:
            _require_fit(public, signature.data, self.text.encode(), signature)
        return bool(found)

    def signed_at(self, public: bytes, name: str | None = None) -> datetime | None:
        """When this key signed it with a time, under this name or any; None if it did not.

        `BundleError` for a signature of this key's that does not fit.
        """
        found = None
        for signature in self._of(name, public, _WITH_TIME):
            at = int.from_bytes(signature.data[:_TIME_BYTES], "big")
            if at > _LATEST:
                raise BundleError(f"checkpoint: {signature.name!r} signed at no time: {at}")
            _require_fit(public, signature.data[_TIME_BYTES:], _timed(self.text, at), signature)
            found = datetime.fromtimestamp(at, UTC)
        return found

    def _of(self, name: str | None, public: bytes, kind: bytes) -> Iterator[Signature]:
        for signature in self.signatures:
            is_meant = name is None or signature.name == name
            if is_meant and signature.key == _key_id(signature.name, kind, public):
                yield signature


@dataclass(frozen=True)
class Head:
    """The head in the text of a checkpoint."""

    origin: str
    size: int
    root: bytes

    def text(self) -> str:
        """The text of the note."""
        return f"{self.origin}\n{self.size}\n{write_base64(self.root)}\n"


def sign_head(head: Head, at: datetime, key: SigningKey) -> bytes:
    """The checkpoint, signed by the log's key under its origin, and once more with the time."""
    require_name(head.origin)
    text = head.text()
    plain = Signature(
        head.origin, _key_id(head.origin, _PLAIN, key.public), key.sign(text.encode())
    )
    return Note(text, (plain, cosign(text, head.origin, at, key))).written()


def cosign(text: str, name: str, at: datetime, key: SigningKey) -> Signature:
    """The signature that says: under this name the key saw this text at that second."""
    seconds = int(at.timestamp())
    data = seconds.to_bytes(_TIME_BYTES, "big") + key.sign(_timed(text, seconds))
    return Signature(name, _key_id(name, _WITH_TIME, key.public), data)


def read_note(data: bytes) -> Note:
    """The note in a file's bytes. `BundleError` says what is wrong with it."""
    if len(data) > MAX_BYTES:
        raise BundleError(f"checkpoint: more than {MAX_BYTES} bytes")
    try:
        whole = data.decode()
    except UnicodeDecodeError as error:
        raise BundleError(f"checkpoint: not UTF-8: {error}") from error
    if any(each < " " and each != "\n" for each in whole):
        raise BundleError("checkpoint: a control character stands in it")
    text, gap, lines = whole.rpartition("\n\n")
    if not gap or not lines.endswith("\n"):
        raise BundleError("checkpoint: expected a text, an empty line, and lines of signatures")
    return Note(f"{text}\n", read_signatures(lines))


def read_signatures(lines: str) -> tuple[Signature, ...]:
    """The signatures in lines that each end with a newline. `BundleError`."""
    return tuple(_signature(line) for line in lines.removesuffix("\n").split("\n"))


def write_signature(signature: Signature) -> bytes:
    """The line of a signature."""
    return _line(signature).encode()


def read_head(note: Note) -> Head:
    """The head in the text; further lines are somebody else's and say nothing. `BundleError`."""
    lines = note.text.split("\n")[:-1]
    if len(lines) < 3 or not all(lines):
        raise BundleError("checkpoint: expected the lines of an origin, a size and a root")
    if not _SIZE.fullmatch(lines[1]):
        raise BundleError(f"checkpoint: {lines[1][:40]!r} is no number of entries")
    return Head(lines[0], int(lines[1]), read_hash(lines[2]))


def read_hash(text: str) -> bytes:
    """The 32 bytes that a line of base64 says. `BundleError`."""
    found = read_base64(text, f"checkpoint: {text[:60]!r}")
    if len(found) != _HASH_BYTES:
        raise BundleError(f"checkpoint: {text[:60]!r} is no SHA-256 in base64")
    return found


def require_name(name: str) -> None:
    """`UsageError` where this cannot name a log or a witness."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name[:60]!r}: expected a name of at most 200 characters without spaces and '+', "
            "like a URL without its scheme: example.com/verdicts"
        )


def _signature(line: str) -> Signature:
    name, gap, text = line.removeprefix(_MARK).partition(" ")
    if not line.startswith(_MARK) or not gap or not _NAME.fullmatch(name):
        raise BundleError(f"checkpoint: {line[:60]!r} is no line of a signature")
    data = read_base64(text, f"checkpoint: {text[:60]!r}")
    if len(data) <= _ID_BYTES:
        raise BundleError(f"checkpoint: {line[:60]!r} has no signature")
    return Signature(name, data[:_ID_BYTES], data[_ID_BYTES:])


def _line(signature: Signature) -> str:
    return f"{_MARK}{signature.name} {write_base64(signature.key + signature.data)}\n"


def _timed(text: str, seconds: int) -> bytes:
    return f"cosignature/v1\ntime {seconds}\n{text}".encode()


def _key_id(name: str, kind: bytes, public: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + kind + public).digest()[:_ID_BYTES]


def _require_fit(public: bytes, signature: bytes, message: bytes, of: Signature) -> None:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError) as error:
        raise BundleError(f"checkpoint: the signature of {of.name!r} does not fit") from error
