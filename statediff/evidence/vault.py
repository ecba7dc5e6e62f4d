"""Sealed bundles at rest, which can be forgotten: what may have to go is encrypted, its key apart.

A kept bundle is one file of canonical JSON: the public copy, and *items*, each the leaves that go
at one instant, encrypted (ChaCha20-Poly1305) under a key of their own. The keys lie in a vault, a
folder elsewhere, and never in the file. To expire an item is to destroy its key: its leaves are
then withheld for good, under the signature they were sealed with, and the copy is as one that was
redacted: NOT_REPLAYABLE_AT_TIER. A signed record says what was destroyed, when and why.

An item is named by what the sealed root and its date hash to, and its name is authenticated with
what it encrypts. So no file can give an item another date, or list an item of another bundle: such
a file is refused before anything is destroyed.

When a leaf goes follows from `retain` of the contract: that of its source, counted from the
sealing; what mixes sources goes with the first of them; what no `retain` speaks of goes when asked.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from statediff.atomic import write_atomically
from statediff.errors import BundleError, StorageError, UsageError
from statediff.evidence import verify as v
from statediff.evidence.canonical import read, read_base64, write, write_base64
from statediff.evidence.keys import SigningKey
from statediff.evidence.leaf_partition import Owners
from statediff.evidence.seal import Sealed, opened, redact
from statediff.evidence.statements import read_statement, sign_statement

KEPT: Final = "statediff/kept/1"
EXPIRY: Final = "statediff/expiry/1"
SUFFIX: Final = ".kept"
KEY_BYTES: Final = 32
MAX_REASON: Final = 500
_NONCE: Final = bytes(12)
"""A key encrypts one item, so no nonce can repeat under it."""
_RECORD: Final = ("at", "because", "format", "items", "root")
_NAME: Final = re.compile(r"[0-9a-f]{32}")
_NEVER: Final = datetime.max.replace(tzinfo=UTC)

Fresh = Callable[[int], bytes]


@dataclass(frozen=True)
class Item:
    """Leaves that go together: at `until`, or only when asked."""

    name: str
    until: datetime | None
    data: bytes


@dataclass(frozen=True)
class Kept:
    """A bundle at rest: what of it is open, and what is encrypted."""

    copy: Sealed
    items: tuple[Item, ...]

    @property
    def root(self) -> str:
        """The root of the sealed tree, which names the bundle here."""
        found: str = v.parse(self.copy.files["manifest.json"], "manifest.json")["tree"]["root"]
        return found


@dataclass(frozen=True)
class Vault:
    """The folder with the keys, one file an item."""

    folder: Path

    def put(self, name: str, key: bytes) -> None:
        """The key lies in the vault, for its owner only. `StorageError`."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = self._path(name)
            write_atomically(path, key, mode=0o600, exclusive=True, durable=True)
        except OSError as error:
            raise StorageError(f"{self.folder}: no key can be kept: {error.strerror}") from error

    def get(self, name: str) -> bytes | None:
        """The key, None if it was destroyed. `StorageError` if it cannot be read."""
        try:
            return self._path(name).read_bytes()
        except FileNotFoundError:
            if not self.folder.is_dir():
                raise StorageError(f"{self.folder}: there is no vault") from None
            return None
        except OSError as error:
            raise StorageError(f"{self.folder}: cannot be read: {error.strerror}") from error

    def destroy(self, name: str) -> None:
        """The key is overwritten and gone. `StorageError`."""
        path = self._path(name)
        try:
            with path.open("r+b") as file:
                file.write(bytes(KEY_BYTES))
                os.fsync(file.fileno())
            path.unlink()
        except OSError as error:
            raise StorageError(f"{path}: the key cannot be destroyed: {error.strerror}") from error

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.key"


def keep(sealed: Sealed, verified: v.Verified, vault: Vault, fresh: Fresh) -> Kept:
    """The bundle at rest, its keys in the vault. `NotReplayable` if it is not the whole of it."""
    bundle = opened(verified)
    owners = Owners(bundle.document("schema.json"), bundle.manifest["keeping"])  # for `retain`
    sealed_at = datetime.fromisoformat(verified.manifest["sealed_at"])
    groups: dict[datetime, list[bytes]] = {}
    for leaf, data in zip(verified.leaves, verified.disclosed, strict=True):
        if leaf.path == v.SUMMARY:
            continue
        groups.setdefault(_until(owners.retain(leaf.path, leaf.value), sealed_at), []).append(data)
    root = verified.manifest["tree"]["root"]
    items = []
    for until, leaves in sorted(groups.items()):
        name = _name_of(root, until)
        key = fresh(KEY_BYTES)
        vault.put(name, key)
        plain = b"\n".join(leaves)  # canonical JSON has no newline in it
        data = ChaCha20Poly1305(key).encrypt(_NONCE, plain, _bound(root, name))
        items.append(Item(name, None if until == _NEVER else until, data))
    return Kept(redact(sealed, verified, lambda leaf: leaf.path == v.SUMMARY), tuple(items))


def kept_bytes(kept: Kept) -> bytes:
    """The file of a kept bundle."""
    return write({
        "format": KEPT,
        "copy": {name: write_base64(data) for name, data in kept.copy.files.items()},
        "items": [
            {"name": item.name, "data": write_base64(item.data),
             "until": None if item.until is None else item.until.isoformat()}
            for item in kept.items
        ],
    })  # fmt: skip


def read_kept(data: bytes) -> Kept:
    """The kept bundle in a file's bytes, not yet verified. `BundleError`."""
    document = read(data, "kept bundle")
    try:
        if sorted(document) != ["copy", "format", "items"] or document["format"] != KEPT:
            raise ValueError(f"not of format {KEPT}")
        if not isinstance(document["items"], list):
            raise TypeError("the items are a list")
        files = {name: read_base64(text, name) for name, text in document["copy"].items()}
        items = tuple(_item(entry) for entry in document["items"])
    except (v.Rejected, KeyError, TypeError, ValueError, AttributeError) as error:
        raise BundleError(f"kept bundle: {error}") from error
    kept = Kept(Sealed(files), items)
    try:
        names = [_name_of(kept.root, item.until or _NEVER) for item in items]
    except (v.Rejected, KeyError, TypeError) as error:
        raise BundleError(f"kept bundle: {error}") from error
    if names != [item.name for item in items] or len(set(names)) != len(names):
        raise BundleError("kept bundle: an item is not of this bundle, or its date was changed")
    return kept


def check_kept(kept: Kept, vault: Vault, trust: Sequence[v.Signer]) -> v.Verified:
    """The copy with all that still has a key, verified; each of its keys opens its item.

    `BundleError` for what is not genuine.
    """
    try:
        return v.verify(restored(kept, vault).files, trust)
    except v.Rejected as error:
        raise BundleError(f"INVALID: {error}") from error


def restored(kept: Kept, vault: Vault) -> Sealed:
    """The copy that discloses every item whose key is still there, not yet verified.

    `BundleError` if an item does not fit its key.
    """
    try:
        document: Any = v.parse(kept.copy.files["leaves.json"], "leaves.json")
        leaves = [v.canonical(leaf) for leaf in document["disclosed"]]
        hidden = set(document["withheld"])
        if sorted(hidden) != document["withheld"] or sorted(leaves, key=v.leaf_hash) != leaves:
            raise BundleError("kept bundle: its copy is not in order, or has a hash twice")
        root = kept.root
    except (v.Rejected, KeyError, TypeError) as error:
        raise BundleError(f"kept bundle: {error}") from error
    for item in kept.items:
        key = vault.get(item.name)
        if key is None:
            continue
        try:
            plain = ChaCha20Poly1305(key).decrypt(_NONCE, item.data, _bound(root, item.name))
        except (InvalidTag, ValueError) as error:
            raise BundleError(f"kept bundle: item {item.name} does not fit its key") from error
        found = plain.split(b"\n")
        own = {v.leaf_hash(leaf).hex() for leaf in found}
        if len(own) != len(found) or not own <= hidden:
            raise BundleError(f"kept bundle: item {item.name} has a leaf that is not withheld")
        leaves += found
        hidden -= own
    data = v.leaves_file(sorted(leaves, key=v.leaf_hash), sorted(hidden))
    return Sealed({**kept.copy.files, "leaves.json": data})


def due(kept: Kept, vault: Vault, now: datetime | None) -> tuple[Item, ...]:
    """The items whose time has come, all without a `now`, and whose key is still there."""
    return tuple(
        item for item in kept.items
        if (now is None or (item.until is not None and item.until <= now))
        and vault.get(item.name) is not None
    )  # fmt: skip


def expiry(
    kept: Kept,
    items: Sequence[Item],
    at: datetime,
    because: str,
    key: SigningKey,
    chunks: Sequence[str] = (),
) -> bytes:
    """The signed record that the keys of these items, and of `chunks`, are destroyed. `UsageError`.

    `chunks` are the names of keys under which a run encrypted what it captured in this trial.
    """
    names = sorted([*(item.name for item in items), *chunks])
    if not names:
        raise UsageError("nothing is due: no item's time has come, or its key is gone already")
    if not because.strip() or len(because) > MAX_REASON:
        raise UsageError(f"--because: say why, in at most {MAX_REASON} characters")
    payload = {
        "format": EXPIRY, "root": kept.root, "items": names,
        "at": at.isoformat(), "because": because,
    }  # fmt: skip
    return sign_statement(payload, "expiry", key)


def read_expiry(data: bytes, trust: Iterable[v.Signer]) -> tuple[Mapping[str, Any], str]:
    """The record of an erasure, and who signed it. `BundleError`."""
    payload, _at, signer = read_statement(data, "expiry", _RECORD, tuple(trust))
    items, texts = payload["items"], (payload["because"], payload["root"])
    if payload["format"] != EXPIRY or not isinstance(items, list):
        raise BundleError("expiry: the payload is of another form")
    if not all(isinstance(text, str) for text in (*texts, *items)):
        raise BundleError("expiry: items, because and root are texts")
    return payload, signer


def _until(seconds: float | None, sealed_at: datetime) -> datetime:
    try:
        return _NEVER if seconds is None else sealed_at + timedelta(seconds=seconds)
    except OverflowError:
        return _NEVER


def _name_of(root: str, until: datetime) -> str:
    return hashlib.sha256(write([root, until.isoformat()])).hexdigest()[:KEY_BYTES]


def _bound(root: str, name: str) -> bytes:
    return f"{KEPT}\x00{root}\x00{name}".encode()


def _item(entry: Any) -> Item:
    if sorted(entry) != ["data", "name", "until"]:
        raise ValueError("an item has exactly data, name and until")
    if not isinstance(entry["name"], str) or not _NAME.fullmatch(entry["name"]):
        raise ValueError("an item is named by 32 hexadecimal digits")
    until = None if entry["until"] is None else v.instant(entry["until"], "until")
    return Item(entry["name"], until, read_base64(entry["data"], "kept bundle: data"))
