"""Signing keys: Ed25519, kept as PKCS #8 PEM, readable by their owner only."""

from __future__ import annotations

import json
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from statediff.atomic import write_atomically
from statediff.errors import UsageError
from statediff.evidence.verify import TRUST, Rejected, Signer, read_trust

_MAX_BYTES: Final = 1024 * 1024
_OTHERS: Final = 0o077


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


def generate(path: Path) -> SigningKey:
    """A new key, stored at `path` for its owner only. `UsageError` if something is there."""
    key = SigningKey(Ed25519PrivateKey.generate())
    data = key.secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        write_atomically(path, data, mode=0o600, exclusive=True, durable=True)
    except FileExistsError:
        raise UsageError(f"{path} exists already; a key is never overwritten") from None
    except OSError as error:
        raise UsageError(f"{path}: the key cannot be written: {error.strerror}") from error
    return key


def load_key(path: Path) -> SigningKey:
    """The key at `path`; `UsageError` if it is none, or if others may read it."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_BYTES:
            raise UsageError(f"{path}: expected a key as `statediff keygen` writes it")
        if status.st_mode & _OTHERS:
            raise UsageError(f"{path}: others can read this key; `chmod 600 {path}` first")
        secret = load_pem_private_key(path.read_bytes(), None)
    except OSError as error:
        raise UsageError(f"{path}: the key cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise UsageError(f"{path}: not an unencrypted PEM key: {error}") from error
    if not isinstance(secret, Ed25519PrivateKey):
        raise UsageError(f"{path}: not an Ed25519 key; make one with `statediff keygen`")
    return SigningKey(secret)


def trust_entry(name: str, public: bytes, roles: Sequence[str]) -> dict[str, Any]:
    """The entry of a trust file for a key, without limits of time."""
    return {"name": name, "key": public.hex(), "roles": list(roles), "from": None, "until": None}


def add_trust(path: Path, entry: dict[str, Any]) -> None:
    """The trust file at `path`, made if need be, holds the entry too. `UsageError`."""
    try:
        data = path.read_bytes() if path.exists() else None
        keys = [] if data is None else json.loads(data)["keys"] if read_trust(data) else []
        if any(known["name"] == entry["name"] for known in keys):
            raise UsageError(f"{path}: already trusts a key of {entry['name']!r}")
        text = json.dumps({"format": TRUST, "keys": [*keys, entry]}, indent=2, ensure_ascii=False)
        read_trust(data := f"{text}\n".encode())
        write_atomically(path, data, durable=True)
    except Rejected as error:
        raise UsageError(f"{path}: {error}") from error
    except OSError as error:
        raise UsageError(f"{path}: the trust file cannot be written: {error.strerror}") from error


def load_trust(path: Path) -> tuple[Signer, ...]:
    """The keys that the trust file at `path` holds. `UsageError`."""
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
