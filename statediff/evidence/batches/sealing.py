"""The files of a batch, the tree over its records, and what is checked before any is believed.

A batch is a folder:

* `manifest.json`: contract, kernel, how many rollouts, their verdicts, the root of the tree over
  their records, and the SHA-256 of every other file but these three
* `envelope.json`: a DSSE envelope with an in-toto Statement over the manifest's digest
* `rollouts`: the records, each a frame: its length (4 bytes), the state before that it is over
  (2 bytes; 0 for none, else its number and one), and its canonical JSON, deflated with that state's
  document as the dictionary
* `before-N.json`, `secret`, `contract.yaml` and what it names beside it
* `chunks`: the rows of the states before, and of states after in which many rows differ
* `whole/N`: the bundles that were kept whole
* `undisclosed.json`, for its owner only and not signed: what the records do not show of the
  answers, one document (`disclosure.undisclosed`) a rollout, each bound by its record

The tree is that of RFC 6962 over the canonical bytes of the records, in their order, so that none
can be left out, put in, changed or swapped. A record has a salt, so that its hash says nothing of
it to a reader of a proof. What was compressed how is not signed.

The order of the checks: the signature over a manifest of at most 1 MiB; its form and the key's
time; the digests of the files; the records, one after the other, each within its bounds; the root.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import struct
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from statediff.errors import BundleError, InputError, UsageError
from statediff.evidence import verify as v
from statediff.evidence.canonical import read, write
from statediff.evidence.keys import SigningKey
from statediff.evidence.merkle import entry_hash, log_root
from statediff.evidence.package import UNDISCLOSED, file_bytes
from statediff.evidence.seal import enveloped

Json = Any
BATCH: Final = "statediff/batch/1"
WITHHELD_FORM: Final = "statediff/batch-undisclosed/1"
STATEMENT: Final = "urn:statediff:batch:1"
MANIFEST, ENVELOPE, ROLLOUTS, SECRET = "manifest.json", "envelope.json", "rollouts", "secret"
WITHHELD: Final = "undisclosed.json"
SECRET_BYTES: Final = 32
MAX_ROLLOUTS: Final = 2_000_000
MAX_FILE_BYTES: Final = 2 * 1024 * 1024 * 1024
MAX_RECORD_BYTES: Final = 64 * 1024 * 1024
"""Bytes of a record, as it is and compressed."""
MAX_BEFORES: Final = 5_000
_FRAME: Final = struct.Struct(">IH")
_WINDOW: Final = 32 * 1024
_WBITS: Final = -15
_SALT_BYTES: Final = 16
_HEX: Final = re.compile(r"[0-9a-f]{64}")
_BESIDE: Final = re.compile(r"before-[0-9]{1,5}\.json|secret|contract\.yaml")
_KEYS: Final = {
    "at": str, "contract": str, "contract_version": str, "files": dict, "format": str,
    "kernel": str, "modules": str, "root": str, "size": int, "statediff": str, "verdicts": dict,
    "whole": list,
}  # fmt: skip
_RECORD: Final = {
    "after", "answer", "before", "expected", "judgement", "n", "parts", "reward", "roots", "salt",
    "verdict",
}  # fmt: skip
_RECORDS: Final = (_RECORD, _RECORD | {UNDISCLOSED})
_UNREAD: Final = {"expected", "n", "parts", "reward", "salt", "unread", "verdict"}
REWARDS: Final[Mapping[str, int | None]] = {"MATCH": 1, "DIVERGE": 0, "INCONCLUSIVE": None}
"""Verdict → what a trainer gets."""


def secret_of(key: SigningKey, head: Json, use: bytes = b"") -> bytes:
    """A secret of a batch: no file has to keep it, and the same key gives the same batch."""
    return hashlib.sha256(key.sign(b"statediff batch secret\x00" + use + write(head))).digest()


def salt_of(secret: bytes, number: int) -> str:
    """The salt of a record, in hex."""
    made = hmac.digest(secret, b"record %d" % number, "sha256")
    return made[:_SALT_BYTES].hex()


def frame(record: Json, befores: Sequence[bytes]) -> tuple[bytes, bytes]:
    """The frame of a record, and the record's hash. `UsageError` where it is too large."""
    data = write(record)
    place = 1 + record["before"] if "before" in record else 0
    dictionary = befores[place - 1][-_WINDOW:] if place else b""
    packer = zlib.compressobj(9, zlib.DEFLATED, _WBITS, 9, zdict=dictionary)
    packed = packer.compress(data) + packer.flush()
    if max(len(data), len(packed)) > MAX_RECORD_BYTES:
        raise UsageError(f"a rollout's record has at most {MAX_RECORD_BYTES} bytes")
    return _FRAME.pack(len(packed), place) + packed, entry_hash(data)


def sign_batch(manifest: Json, key: SigningKey) -> dict[str, bytes]:
    """The manifest and the envelope, by their names. `UsageError` where it is too large."""
    data = write(manifest)
    if len(data) > v.MAX_HEAD_BYTES:
        raise UsageError(f"the manifest of a batch has at most {v.MAX_HEAD_BYTES} bytes")
    envelope = enveloped(v.statement(data, {}, STATEMENT), key.public, key.sign)
    return {MANIFEST: data, ENVELOPE: envelope}


@dataclass(frozen=True, kw_only=True)
class Records:
    """The records of a batch as they are in its file, not yet compared with any root."""

    data: bytes
    places: tuple[tuple[int, int, int], ...]
    """(first byte, one past the last, number of the state before and one) of each."""
    befores: tuple[bytes, ...]

    def __len__(self) -> int:
        return len(self.places)

    def text(self, number: int) -> bytes:
        """The canonical bytes of a record. `BundleError`."""
        start, end, place = self.places[number]
        dictionary = self.befores[place - 1][-_WINDOW:] if place else b""
        opener = zlib.decompressobj(_WBITS, zdict=dictionary)
        try:
            found = opener.decompress(self.data[start:end], MAX_RECORD_BYTES)
        except zlib.error as error:
            raise BundleError(f"{ROLLOUTS}: record {number}: {error}") from error
        if not opener.eof or opener.unused_data:
            raise BundleError(f"{ROLLOUTS}: record {number} is cut short, too long or too large")
        return found

    def record(self, number: int) -> Mapping[str, Json]:
        """A record, of the expected shape. `BundleError`."""
        return _record(self.text(number), number, self.places[number][2])


def read_records(data: bytes, befores: Sequence[bytes]) -> Records:
    """The frames of a file of records. `BundleError` where it is cut short or has too many."""
    places: list[tuple[int, int, int]] = []
    at = 0
    while at < len(data):
        start = at + _FRAME.size
        if start > len(data):
            raise BundleError(f"{ROLLOUTS}: it ends within a record")
        length, place = _FRAME.unpack_from(data, at)
        at = start + length
        if length > MAX_RECORD_BYTES or at > len(data):
            raise BundleError(f"{ROLLOUTS}: it ends within a record, or one is too large")
        if place > len(befores) or len(places) == MAX_ROLLOUTS:
            raise BundleError(f"{ROLLOUTS}: too many records, or one over no state before")
        places.append((start, at, place))
    return Records(data=data, places=tuple(places), befores=tuple(befores))


@dataclass(frozen=True, kw_only=True)
class Withheld:
    """The parts of answers that the records of a batch do not show."""

    secret: bytes = b""
    """The keys of the documents are made from it; empty where they are not at hand."""
    rollouts: Mapping[int, bytes] = field(default_factory=dict)
    """The document of a rollout, by its number."""

    def data(self) -> bytes:
        """The bytes of its file."""
        found = {str(number): data.decode() for number, data in sorted(self.rollouts.items())}
        return write({"form": WITHHELD_FORM, "secret": self.secret.hex(), "rollouts": found})

    @staticmethod
    def read(folder: Path) -> Withheld:
        """The documents in the folder of a batch; none where their file is not. `BundleError`."""
        if not (folder / WITHHELD).exists():
            return Withheld()
        document = read(file_bytes(folder / WITHHELD, v.MAX_BYTES), WITHHELD)
        try:
            if document["form"] != WITHHELD_FORM:
                raise ValueError("it is of another form")
            found = {int(number): text.encode() for number, text in document["rollouts"].items()}
            return Withheld(secret=bytes.fromhex(document["secret"]), rollouts=found)
        except (InputError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise BundleError(f"{WITHHELD}: {error!r}"[:500]) from error


@dataclass(frozen=True, kw_only=True)
class Batch:
    """A batch that is genuine: signed by a trusted key, and every record under the root."""

    folder: Path
    manifest: Mapping[str, Json]
    signer: str
    secret: bytes
    files: Mapping[str, bytes]
    """The contract, and what it names beside it."""
    records: Records
    hashes: tuple[bytes, ...]
    withheld: Withheld


def read_batch(folder: Path, trust: Sequence[v.Signer]) -> Batch:
    """The batch in the folder, once every check has passed. `BundleError`."""
    try:
        return _checked(folder, trust)
    except v.Rejected as error:
        raise BundleError(str(error)) from error


def _checked(folder: Path, trust: Sequence[v.Signer]) -> Batch:
    envelope = file_bytes(folder / ENVELOPE, v.MAX_HEAD_BYTES)
    data = file_bytes(folder / MANIFEST, v.MAX_HEAD_BYTES)
    signers = v.signers_of(envelope, v.statement(data, {}, STATEMENT), trust)
    manifest = _manifest(read(data, MANIFEST))
    for signer in signers:
        v.check_time(signer, datetime.fromisoformat(manifest["at"]), ENVELOPE)
    files = {name: _beside(folder, name, digest) for name, digest in manifest["files"].items()}
    names = [f"before-{at}.json" for at in range(MAX_BEFORES) if f"before-{at}.json" in files]
    befores = [files.pop(f"before-{at}.json", b"") for at in range(len(names))]
    secret = files.pop(SECRET, b"")
    if len(secret) != SECRET_BYTES or not all(befores) or "contract.yaml" not in files:
        raise BundleError(f"{MANIFEST}: a state before, the secret or the contract is missing")
    records = read_records(file_bytes(folder / ROLLOUTS, MAX_FILE_BYTES), befores)
    if len(records) != manifest["size"]:
        raise BundleError(
            f"{ROLLOUTS}: {len(records)} records, where {manifest['size']} were signed"
        )
    hashes: list[bytes] = []
    verdicts: Counter[str] = Counter()
    for number in range(len(records)):
        text = records.text(number)
        hashes.append(entry_hash(text))
        verdicts[_record(text, number, records.places[number][2])["verdict"]] += 1
    if log_root(hashes).hex() != manifest["root"]:
        raise BundleError(f"{ROLLOUTS}: the records do not give the signed root")
    if dict(verdicts) != manifest["verdicts"]:
        raise BundleError(f"{MANIFEST}: its verdicts are not those of the records")
    return Batch(
        folder=folder,
        manifest=manifest,
        signer=", ".join(each.name for each in signers),
        secret=secret,
        files=files,
        records=records,
        hashes=tuple(hashes),
        withheld=Withheld.read(folder),
    )


def _beside(folder: Path, name: str, digest: Json) -> bytes:
    if not _BESIDE.fullmatch(name):
        raise BundleError(f"{MANIFEST}: {name[:80]!r} is no file of a batch")
    data = file_bytes(folder / name, v.MAX_BYTES)
    if hashlib.sha256(data).hexdigest() != digest:
        raise BundleError(f"{name}: its digest is not the one that was signed")
    return data


def _manifest(document: Json) -> Mapping[str, Json]:
    if not isinstance(document, dict) or document.keys() != _KEYS.keys():
        raise BundleError(f"{MANIFEST}: expected exactly {', '.join(sorted(_KEYS))}")
    for name, kind in _KEYS.items():
        if type(document[name]) is not kind:
            raise BundleError(f"{MANIFEST}: {name} is not of its kind")
    if document["format"] != BATCH:
        raise BundleError(f"{MANIFEST}: expected format {BATCH}, found {document['format'][:80]!r}")
    if not 0 <= document["size"] <= MAX_ROLLOUTS or not _HEX.fullmatch(document["root"]):
        raise BundleError(f"{MANIFEST}: not a number of rollouts and a root")
    if len(document["files"]) > MAX_BEFORES:
        raise BundleError(f"{MANIFEST}: too many files")
    for each in document["whole"]:
        match each:
            case [int(number), str(digest), [*reasons]] if (
                not isinstance(number, bool) and 0 <= number < document["size"]
                and _HEX.fullmatch(digest) and all(isinstance(why, str) for why in reasons)
            ):  # fmt: skip
                continue
        raise BundleError(f"{MANIFEST}: whole: expected [rollout, digest, reasons]")
    try:
        if datetime.fromisoformat(document["at"]).tzinfo is None:
            raise ValueError("without a zone")
    except ValueError as error:
        raise BundleError(f"{MANIFEST}: at: {error}") from error
    return document


def _record(data: bytes, number: int, place: int) -> Mapping[str, Json]:
    document = read(data, f"record {number}")
    if not isinstance(document, dict) or document.keys() not in (*_RECORDS, _UNREAD):
        raise BundleError(f"record {number}: expected exactly {', '.join(sorted(_RECORD))}")
    own = document.get("before", -1)
    if type(document["n"]) is not int or document["n"] != number or type(own) is not int:
        raise BundleError(f"record {number}: it is the record of another rollout")
    if own + 1 != place:
        raise BundleError(f"record {number}: expected `before` {place - 1}, found {own}")
    verdict = document["verdict"]
    if not isinstance(verdict, str) or verdict not in REWARDS:
        raise BundleError(f"record {number}: no verdict")
    reward = document["reward"]
    if reward != REWARDS[verdict] or isinstance(reward, bool):
        raise BundleError(f"record {number}: {verdict} has another reward")
    if "unread" in document and verdict != "INCONCLUSIVE":
        raise BundleError(f"record {number}: what was not read is INCONCLUSIVE")
    return document


def is_sampled(secret: bytes, number: int, share: float) -> bool:
    """True if a rollout is in the sample: a draw that only who has the secret can know."""
    drawn = int.from_bytes(hmac.digest(secret, b"whole %d" % number, "sha256")[:8])
    return drawn < share * 2**64
