"""Sealing a bundle, taking pieces out of the copy, and opening what is left of it.

The copies for the public, for reviewers and for auditors carry the same manifest and the same
envelope; they differ only in which leaves they disclose. A copy is made by replacing leaves by
their hashes, which needs no key.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from statediff.atomic import sync_below, sync_folder, write_atomically
from statediff.errors import BundleError, NotReplayable, StorageError, UsageError
from statediff.evidence import verify as v
from statediff.evidence.canonical import read_base64, write_base64
from statediff.evidence.disclosure.review import FORM, review, same_review
from statediff.evidence.disclosure.settings import Settings
from statediff.evidence.leaf_partition import DERIVED, Piece, joined, pieces
from statediff.evidence.package import Bundle, files_of

SEED_BYTES: Final = 32
_SALT_BYTES: Final = 16
_BESIDE: Final = (v.RAW, v.UNDISCLOSED)
"""Tags of what is no part of a bundle."""

Sign = Callable[[bytes], bytes]
"""The Ed25519 signature over some bytes."""


@dataclass(frozen=True)
class Sealed:
    """A copy of a sealed bundle: its three files by name, and what is beside them."""

    files: Mapping[str, bytes]

    def archive(self) -> bytes:
        """The files as a zip: the same bytes for the same files."""
        return v.zipped(self.files)


def seal(
    bundle: Bundle,
    seed: bytes,
    sealed_at: datetime,
    key: bytes,
    sign: Sign,
    raw: Iterable[Piece] = (),
) -> Sealed:
    """The bundle with every leaf disclosed, sealed by `sign` under the public key `key`.

    `raw` are the pieces that are no part of it: raw captures, what it does not show, its review.

    `seed` is fresh for each bundle (32 random bytes): anyone who knows it can try values against
    the hashes of withheld leaves, so it is forgotten afterwards. `sealed_at` is aware UTC.
    """
    if len(seed) != SEED_BYTES:
        raise ValueError(f"a seed has {SEED_BYTES} bytes")
    tags = Counter[str]()
    told: dict[str, tuple[Any, bytes]] = {}
    with v.uncollected():
        cut = itertools.chain(pieces(bundle), raw)
        encoded = sorted(
            (v.leaf_hash(data), data) for data in _encoded(cut, _salts(seed), tags, told)
        )
        root = v.root([digest for digest, _ in encoded])
    tree = {"leaves": len(encoded), "root": root, "tags": dict(sorted(tags.items()))}
    facts = {name: bundle.manifest[name] for name in v.FACTS}
    manifest = {"format": v.FORMAT, **facts, "sealed_at": sealed_at.isoformat(), "tree": tree}
    contract = v.leaf_hash(told[v.CONTRACT][1]).hex()
    predicate = v.predicate_of(manifest, told[v.SUMMARY][0]["clauses"], contract)
    payload = v.statement(v.canonical(manifest), predicate)
    return Sealed({
        "envelope.json": enveloped(payload, key, sign),
        "leaves.json": v.leaves_file([data for _, data in encoded], ()),
        "manifest.json": v.canonical(manifest),
    })  # fmt: skip


def cosigned(sealed: Sealed, key: bytes, sign: Sign) -> Sealed:
    """The copy with one signature more, by `sign` under the public key `key`. `UsageError`."""
    envelope = v.parse(sealed.files["envelope.json"], "envelope.json")
    payload = read_base64(envelope["payload"], "envelope.json")
    if any(entry["keyid"] == v.key_id(key) for entry in envelope["signatures"]):
        raise UsageError("this key signed it already")
    if set(sealed.files) - set(v.FILES):
        raise UsageError(
            "a proof or a time stamp is beside it, of the envelope as it is; sign first"
        )
    own = _signature(payload, key, sign)
    signatures = sorted([*envelope["signatures"], own], key=lambda entry: entry["keyid"])
    changed = v.canonical({**envelope, "signatures": signatures})
    return Sealed({**sealed.files, "envelope.json": changed})


def signatures(sealed: Sealed) -> int:
    """How many signatures the envelope has. `BundleError` where it is none."""
    try:
        document = v.parse(sealed.files["envelope.json"], "envelope.json", v.MAX_HEAD_BYTES)
        return len(document["signatures"])
    except (v.Rejected, KeyError, TypeError) as error:
        raise BundleError(f"INVALID: {error}") from error


def enveloped(payload: bytes, key: bytes, sign: Sign) -> bytes:
    """The DSSE envelope of a Statement, under the one signature by `sign` of the key."""
    signed = [_signature(payload, key, sign)]
    return v.canonical(
        {"payload": write_base64(payload), "payloadType": v.PAYLOAD, "signatures": signed}
    )


def _signature(payload: bytes, key: bytes, sign: Sign) -> dict[str, str]:
    return {"keyid": v.key_id(key), "sig": write_base64(sign(v.signed_bytes(payload)))}


def redact(sealed: Sealed, verified: v.Verified, keep: Callable[[v.Leaf], bool]) -> Sealed:
    """The copy without the leaves that `keep` refuses, under the same manifest and envelope.

    `verified` is what `verify` found in `sealed`.
    """
    kept: list[bytes] = []
    gone = list(verified.hidden)
    for leaf, data in zip(verified.leaves, verified.disclosed, strict=True):
        if keep(leaf):
            kept.append(data)
        else:
            gone.append(v.leaf_hash(data).hex())
    return Sealed({**sealed.files, "leaves.json": v.leaves_file(kept, sorted(gone))})


def reviewed(bundle: Bundle, sign: Sign, settings: Settings) -> Iterator[Piece]:
    """The review of a bundle whose judgement is for auditors; nothing where reviewers see that.

    Its rows have one name in every bundle of a contract that `sign` signs.
    """
    rest = next(piece for piece in pieces(bundle) if piece.path == "judgement.json#")
    if rest.tag.startswith(v.TIERS[-1]):
        names = hashlib.sha256(sign(f"{FORM}\x00{bundle.manifest['contract']}".encode()))
        yield Piece("reviewer/review", v.REVIEW, review(bundle, names.digest(), settings))


def check_promise(bundle: Bundle, promised: Mapping[Any, str]) -> None:
    """The copy at the tier that is promised for the verdict suffices to replay. `UsageError`."""
    verdict = bundle.manifest["verdict"]
    tier = promised.get(verdict)
    if tier is None:
        return
    allowed = v.TIERS[: v.TIERS.index(tier) + 1]
    hidden = sorted({p.tag for p in pieces(bundle) if p.tag.partition("/")[0] not in allowed})
    if hidden:
        raise UsageError(
            f"the disclosure file promises that a {tier}'s copy suffices to replay {verdict}; the "
            f"contract withholds {', '.join(hidden)} from it: say `disclose: {tier}` for every "
            "source, and exclude nothing of it"
        )


def at_tier(tier: str) -> Callable[[v.Leaf], bool]:
    """True for a leaf that may be seen at the tier."""
    rank = v.TIERS.index(tier)
    return lambda leaf: v.TIERS.index(leaf.tier) <= rank


def opened(verified: v.Verified) -> Bundle:
    """The bundle that was sealed. `NotReplayable` if this copy withholds parts of it.

    What a bundle does not show is none of these; a replay needs it.

    `BundleError` if the manifest states other facts than the bundle, or its summary differs.
    """
    missing = {n: count for n, count in verified.withheld.items() if n not in _BESIDE}
    if missing:
        tags = ", ".join(f"{count} {tag}" for tag, count in missing.items())
        raise NotReplayable(f"this copy withholds leaves that the decision rests on: {tags}")
    with v.uncollected():
        leaves = [leaf for leaf in verified.leaves if leaf.tag not in _BESIDE]
        bundle = joined(leaves)
        _check(bundle)
        for name in v.FACTS:
            if verified.manifest[name] != bundle.manifest.get(name):
                raise BundleError(f"manifest.json: `{name}` is not what the sealed bundle says")
        # The bundle was joined from the leaves by their paths: equal paths hold equal values.
        expected = {piece.path: (piece.tag, _derived(piece)) for piece in pieces(bundle)}
        found = {leaf.path: (leaf.tag, _derived(leaf)) for leaf in leaves}
        if v.COUNTEREXAMPLE not in found:  # bundles were sealed without one
            expected.pop(v.COUNTEREXAMPLE, None)
        shown = found.pop(v.REVIEW, None)
        if shown is not None and not same_review(shown[1], bundle):
            raise BundleError("leaves.json: the bundle makes another review")
        if expected != found:
            raise BundleError("leaves.json: the bundle would be cut into other pieces")
    return bundle


def save(sealed: Sealed, path: Path, *, is_private: bool = False) -> None:
    """The copy at `path`, a zip or a new folder; a private one only we can read."""
    try:
        if path.suffix == ".zip":
            mode = 0o600 if is_private else None
            write_atomically(path, sealed.archive(), exclusive=True, durable=True, mode=mode)
            return
        if os.path.lexists(path):
            raise FileExistsError(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{os.urandom(8).hex()}.part")
        try:
            part.mkdir(mode=0o700 if is_private else 0o777)
            for name, data in sealed.files.items():
                (part / name).write_bytes(data)
            sync_below(part)
            part.rename(path)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        sync_folder(path.parent)
    except FileExistsError:
        raise StorageError(f"{path} exists already; nothing is overwritten") from None
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error.strerror}") from error


def load(path: Path) -> Sealed:
    """The copy at `path`, a folder or a zip, not yet verified.

    `UsageError` if nothing is there, `BundleError` if it is neither.
    """
    if not path.exists():
        raise UsageError(f"{path}: expected a sealed bundle, found nothing")
    try:
        return Sealed(v.read_copy(path))
    except v.Rejected as error:
        raise BundleError(f"{path}: {error}") from error
    except OSError as error:
        raise BundleError(f"{path}: cannot be read: {error.strerror}") from error


def is_sealed(path: Path) -> bool:
    """True if `path` looks like a sealed bundle: a zip, a `.kept`, or a folder with an envelope."""
    is_file = path.is_file() and path.suffix in (".zip", ".kept")
    return is_file or (path / "envelope.json").exists()


def _check(bundle: Bundle) -> None:
    digests = files_of(bundle.manifest, "manifest.json")
    for name, data in bundle.files.items():
        if hashlib.sha256(data).hexdigest() != digests[name]:
            raise BundleError(f"{name}: its digest is not the one in the sealed manifest")


def _derived(piece: Piece | v.Leaf) -> Any:
    return piece.value if piece.path in (*DERIVED, v.REVIEW) else None


def _encoded(
    cut: Iterable[Piece],
    salts: Iterator[str],
    tags: Counter[str],
    told: dict[str, tuple[Any, bytes]],
) -> Iterator[bytes]:
    """The bytes of each leaf; `tags` counts them meanwhile, so that no piece need be kept.

    What the predicate is made of is put into `told`: place → value and bytes.
    """
    for (tag, path, value), salt in zip(cut, salts, strict=False):
        tags[tag] += 1
        data = v.canonical([tag, salt, [path, value]])
        if path in (v.SUMMARY, v.CONTRACT):
            told[path] = value, data
        yield data


def _salts(seed: bytes) -> Iterator[str]:
    """Salts without end: what SHAKE256 makes of the seed and the number of each block of them."""
    width = 2 * _SALT_BYTES
    for block in itertools.count():
        digits = hashlib.shake_256(seed + block.to_bytes(8, "big")).hexdigest(64 * 1024)
        yield from (digits[at : at + width] for at in range(0, len(digits), width))
