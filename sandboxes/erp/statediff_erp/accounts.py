"""The agent's account: how Tryton stores a password, and where."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from typing import Final

from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

ROUNDS: Final = 1
LANES: Final = 1
MEMORY_KIB: Final = 64
"""Not stretched: a password is random and lives for one trial, so that nobody guesses it."""
_SALT_BYTES: Final = 16
_HASH_BYTES: Final = 32


def stored(password: str) -> str:
    """The password as Tryton stores it: Argon2id, as a PHC string."""
    derived = Argon2id(
        salt=os.urandom(_SALT_BYTES),
        length=_HASH_BYTES,
        iterations=ROUNDS,
        lanes=LANES,
        memory_cost=MEMORY_KIB,
    )
    return derived.derive_phc_encoded(password.encode())


def with_password(image: bytes, login: str, password: str) -> bytes:
    """The database's bytes, of a file without a log, with another password of one user."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.deserialize(image)
        changed = connection.execute(
            "UPDATE res_user SET password_hash = ? WHERE login = ?", (stored(password), login)
        )
        if changed.rowcount != 1:
            raise ValueError(f"the base has no user {login}")
        return connection.serialize()
