"""Signing keys: Ed25519, kept as PKCS #8 PEM, readable by their owner only.

A key may be encrypted. Its passphrase is asked for at the terminal, or read from the file that
`STATEDIFF_PASSPHRASE_FILE` names: a passphrase in the environment could be read by other programs.
"""

from __future__ import annotations

import getpass
import json
import os
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from statediff.atomic import write_atomically
from statediff.errors import UsageError
from statediff.evidence.foreign.trustroot import published_trust
from statediff.evidence.verify import TRUST, Rejected, Signer, read_trust

_MAX_BYTES: Final = 1024 * 1024
_OTHERS: Final = 0o077
FROM_FILE: Final = "STATEDIFF_PASSPHRASE_FILE"
_ENCRYPTED: Final = b"-----BEGIN ENCRYPTED PRIVATE KEY-----"


@dataclass(frozen=True, repr=False)
class SigningKey:
    """A key that can sign; its text never shows what is secret."""

    secret: Ed25519PrivateKey

    @property
    def public(self) -> bytes:
        """The 32 raw bytes of the public key."""
        return self.secret.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)

    def sign(self, data: bytes) -> bytes:
        """The signature over `data`, 64 bytes."""
        return self.secret.sign(data)


def generate(path: Path, passphrase: bytes | None = None) -> SigningKey:
    """A new key, stored at `path` for its owner only, encrypted where there is a passphrase.

    `UsageError` if something is there.
    """
    key = SigningKey(Ed25519PrivateKey.generate())
    way: KeySerializationEncryption = NoEncryption()
    if passphrase is not None:
        way = BestAvailableEncryption(passphrase)
    data = key.secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, way)
    try:
        write_atomically(path, data, mode=0o600, exclusive=True, durable=True)
    except FileExistsError:
        raise UsageError(f"{path} exists already; a key is never overwritten") from None
    except OSError as error:
        raise UsageError(f"{path}: the key cannot be written: {error.strerror}") from error
    return key


def is_encrypted(path: Path) -> bool:
    """True if the key at `path` has a passphrase. `UsageError`."""
    return _own_file(path, "key").startswith(_ENCRYPTED)


def load_key(path: Path) -> SigningKey:
    """The key at `path`; `UsageError` if it is none, or if others may read it."""
    data = _own_file(path, "key")
    has_passphrase = data.startswith(_ENCRYPTED)
    secret_of_it = passphrase(path) if has_passphrase else None
    try:
        secret = load_pem_private_key(data, secret_of_it)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        if has_passphrase:
            raise UsageError(f"{path}: this passphrase does not open the key") from None
        raise UsageError(f"{path}: not a PEM key: {error}") from error
    if not isinstance(secret, Ed25519PrivateKey):
        raise UsageError(f"{path}: not an Ed25519 key; make one with `statediff keygen`")
    return SigningKey(secret)


def passphrase(path: Path, *, is_new: bool = False) -> bytes:
    """The passphrase of the key at `path`, asked for twice if it is new. `UsageError`."""
    if name := os.environ.get(FROM_FILE):
        found = _own_file(Path(name), "passphrase").removesuffix(b"\n")
    elif sys.stdin.isatty():
        found = getpass.getpass(f"Passphrase of {path}: ").encode()
        if is_new and getpass.getpass("Once more: ").encode() != found:
            raise UsageError("the two passphrases differ")
    else:
        raise UsageError(
            f"{path}: has a passphrase, and nobody can be asked; name a file with it in {FROM_FILE}"
        )
    if not found:
        raise UsageError(f"{path}: the passphrase is empty")
    return found


def _own_file(path: Path, what: str) -> bytes:
    """The bytes of a file that nobody else may read. `UsageError`."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_BYTES:
            made = "as `statediff keygen` writes it" if what == "key" else "in a file"
            raise UsageError(f"{path}: expected a {what} {made}")
        if status.st_mode & _OTHERS:
            raise UsageError(f"{path}: others can read this {what}; `chmod 600 {path}` first")
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: the {what} cannot be read: {error.strerror}") from error


def trust_entry(name: str, public: bytes, roles: Sequence[str]) -> dict[str, Any]:
    """The entry of a trust file for a key, without limits of time."""
    return {"name": name, "key": public.hex(), "roles": list(roles), "from": None, "until": None}


def add_trust(path: Path, entry: dict[str, Any]) -> None:
    """The trust file at `path`, made if need be, holds the entry too. `UsageError`."""
    try:
        document: dict[str, Any] = {"format": TRUST, "keys": []}
        if path.exists():
            data = path.read_bytes()
            read_trust(data)
            document = json.loads(data)
        if any(known["name"] == entry["name"] for known in document["keys"]):
            raise UsageError(f"{path}: already trusts a key of {entry['name']!r}")
        document["keys"].append(entry)
        text = json.dumps(document, indent=2, ensure_ascii=False)
        read_trust(data := f"{text}\n".encode())
        write_atomically(path, data, durable=True)
    except Rejected as error:
        raise UsageError(f"{path}: {error}") from error
    except OSError as error:
        raise UsageError(f"{path}: the trust file cannot be written: {error.strerror}") from error


def load_trust(path: Path) -> tuple[Signer, ...]:
    """The keys that the trust file at `path` holds, or that the metadata in a folder vouches for.

    `UsageError`.
    """
    if path.is_dir():
        return published_trust(path)
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise UsageError(f"{path}: more than {_MAX_BYTES} bytes; not a trust file")
        return read_trust(path.read_bytes())
    except OSError as error:
        raise UsageError(
            f"{path}: the trust file cannot be read: {error.strerror}; "
            "`statediff keygen` writes one beside the key"
        ) from error
    except Rejected as error:
        raise UsageError(f"{path}: {error}") from error
