"""The verifier: whether a sealed bundle is what its signer sealed. Imports nothing of statediff.

One file, longer than any other here: an auditor gets it alone, to read before trusting a verdict.

A sealed bundle is three files of canonical JSON:

* `manifest.json`: public facts of the trial, how many leaves of each tag there are, and the root
  of the tree over all of them
* `leaves.json`: the leaves this copy discloses, and the bare hashes of those it withholds
* `envelope.json`: a DSSE envelope with an in-toto Statement over the manifest's digest, whose
  predicate is in-toto's test-result

Two more files may be there, made after the signature and about it:

* `log.tlog-proof`: that a log has an entry over the SHA-256 of `envelope.json` [C2SP tlog-proof]
* `stamp.tsr`: a time stamp over the bytes of `envelope.json` [RFC 3161]

The order of the checks; the first that fails makes the copy INVALID:

1. The envelope's payload names this manifest, and its one signature is by a key that the trust file
   holds for sealing; a trust file with a threshold asks for so many, in the order of their keys.
   The trust file never comes from the bundle. Nothing else is read before that; the envelope, the
   manifest and the trust file have at most 1 MiB each.
2. Every file is canonical JSON of the expected shape: encoding what was read gives the same bytes.
   The key was valid at the time of sealing. The tree has every kind of leaf a bundle is made of.
3. The hashes of the disclosed leaves and the withheld hashes together give the signed root; there
   are as many of each tag as was signed, no two leaves have one place, and each has the tag of its
   place. The set of leaves is closed: each is at a place of `PIECES` that its file has, and there
   are as many of a file as the file says.
4. What is disclosed agrees: the truths of the clauses fold to the manifest's verdict, and the
   summary, the judgement and the two manifests say the same. The predicate says the result of the
   verdict and the truth of each clause in order, and names the contract by the hash of its leaf.
5. Where everything the decision rests on is disclosed, the copy is VALID; where some of it is
   withheld, NOT_REPLAYABLE_AT_TIER: what is disclosed is genuine, but does not decide by itself.
   Raw captures (tag `auditor/raw`) are kept beside the evidence; no decision rests on them, so a
   copy that withholds these alone holds every piece of every file.
6. A VALID copy of a bundle of format 1.1 has state roots, and what it shows of the states is under
   them (`bound_states`), with as many members of each type that was ranged over as there were; an
   older one has none, and its `states` says so.
7. An observation is by the one key that the trust file holds for observing, which did not seal the
   copy, of this trial and of before the sealing. Each part of it that the copy shows has a salted
   digest that was signed.
8. A proof shows an entry over this envelope to be in a log whose checkpoint a trusted key signed; a
   time stamp is over this envelope. Who signed the stamp is not checked here: that takes the
   authority's certificates. Neither is from before the sealing.

Tree: leaf = SHA-256(0x00 ‖ canonical [tag, salt, [path, value]]), node = SHA-256(0x01 ‖ l ‖ r),
leaves sorted by hash and padded with zeros to a power of two. A tag is `tier/kind`; the kind is the
name of the file that the leaf is from, without its ending.

State roots, in `roots.json` and `captures.json`: the rows of a type that a source delivered are the
leaves of a prefix tree, each at its path, SHA-256(paths ‖ canonical [source, type, key]), as near
to the top as it is alone. Leaf = SHA-256(0x00 ‖ path ‖ SHA-256(salt ‖ canonical fields)), node =
SHA-256(0x01 ‖ l ‖ r), zeros where nothing is. A root is SHA-256(statediff/state-root/1 0x00 ‖ paths
‖ canonical list of [source, type, coverage, root of its rows, digest of its columns]). A type is
opened by the rows that were read or changed, before and after, and by what stays beside them:
lone leaves, and the nodes of all others. From the same rest, both roots come out.

A copy is a folder of these files, or the one zip that `zipped` makes of them.

    python verify.py SEALED TRUST    prints one JSON object; 0 VALID, 3 NOT_REPLAYABLE_AT_TIER,
                                     4 INVALID, 2 nothing was verified
"""

from __future__ import annotations

import base64
import gc
import hashlib
import json
import re
import stat
import struct
import sys
import zlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

FORMAT: Final = "statediff/sealed/1.1"
TRUST: Final = "statediff/trust/1"
TRUST_OF_SEVERAL: Final = "statediff/trust/1.1"
"""The format of trust files with a threshold."""
FILES: Final = ("envelope.json", "leaves.json", "manifest.json")
PROOF: Final = "log.tlog-proof"
STAMP: Final = "stamp.tsr"
MORE: Final = (PROOF, STAMP)
"""Files that may be in a copy beside `FILES`."""
STATEMENT: Final = "https://in-toto.io/Statement/v1"
PREDICATE: Final = "https://in-toto.io/attestation/test-result/v0.1"
CONTRACT: Final = "contract.yaml#"
"""The place of the contract; the predicate names the hash of this leaf, which is salted."""
CONTRACT_DIGEST: Final = "statediffLeaf"
"""The kind of that digest: the SHA-256 of a leaf, as the tree has it."""
PAYLOAD: Final = "application/vnd.in-toto+json"
TIERS: Final = ("public", "reviewer", "auditor")
RAW: Final = "auditor/raw"
BOUND: Final = "statediff/bundle/1.1"
"""The format of bundles with state roots."""
UNBOUND: Final = "statediff/bundle/1"
"""The format of bundles that bind their judgement, and not what was captured."""
ROOTS: Final = "statediff/roots/1"
SUMMARY: Final = "summary#"
"""The place of what anybody may know; its tag is always `public/summary`."""
FACTS: Final = ("contract", "contract_version", "kernel", "statediff", "trial", "verdict")
"""The facts of the bundle that the sealed manifest repeats."""
PIECES: Final[Mapping[str, tuple[str, ...]]] = {
    "answer.json": (),
    "captures.json": ("/before", "/after", "/enumerations/*"),
    "contract.yaml": (),
    "fragments.json": ("/*/rows", "/*/scans/*/members"),
    "index.json": (),
    "judgement.json": ("/clauses", "/findings", "/deltas", "/hidden", "/doubts"),
    "manifest.json": (),
    "observation.json": ("/opened",),
    "resolution.json": ("/mappings/*", "/doubts"),
    "roots.json": (),
    "schema.json": (),
    "timeline.json": (),
    "trace.json": ("/actions",),
    "trial.json": (),
}
"""File of a bundle → the arrays whose elements are leaves of their own, at `name#/pointer/number`.

The arrays are empty in the rest of the file, at `name#`; `*` stands for each element of an array.
"""
STATE_ROOTS: Final = "roots.json"
"""The file of a bundle with state roots."""
OBSERVATION: Final = "observation.json"
"""The file of a bundle with what an observer signed before anything was judged."""
PARTS: Final = tuple(name for name in PIECES if name not in (STATE_ROOTS, OBSERVATION))
"""The files that every bundle has."""
COUNTEREXAMPLE: Final = "counterexample#"
"""The place of the finding that shows why a run was not right."""
REVIEW: Final = "review#"
"""The place of what a reviewer sees where the judgement is for auditors."""
UNDISCLOSED: Final = "auditor/undisclosed"
"""The tag of what a bundle does not show."""
WITHHELD: Final = "undisclosed.json#"
"""Its place."""
RESULTS: Final = ("outcome", "task", "tool")
VERDICTS: Final = ("MATCH", "INCONCLUSIVE", "DIVERGE")
"""From the mildest: the verdict over several is the last of theirs."""
_FOLD: Final = dict(zip(("HOLDS", "UNKNOWN", "FAILS"), VERDICTS, strict=True))
_RESULT: Final = dict(zip(VERDICTS, ("PASSED", "WARNED", "FAILED"), strict=True))
_TESTS: Final = {"passedTests": "HOLDS", "warnedTests": "UNKNOWN", "failedTests": "FAILS"}
_CLAUSE: Final = "judgement.json#/clauses/"
SEALING: Final = "evaluator"
"""The role a key needs to seal bundles."""
OBSERVING: Final = "observer"
"""The role a key needs for what it observed."""
OBSERVED: Final = "urn:statediff:observation:1"
OBSERVABLE: Final[Mapping[str, str]] = {
    "agent": "trial.json", "answer": "answer.json", "ending": "trial.json",
    "schema": "schema.json", "states": "captures.json", "times": "timeline.json",
    "trace": "trace.json", "trial": "trial.json", "undisclosed": "trace.json",
}  # fmt: skip
"""Part of an observation → the file that shows it, or whose readers may see it."""
AGENT: Final = "agent"
"""The first part, whose value is in the observation alone."""
UNSHOWN: Final = "undisclosed"
"""The part that no copy shows: calls and answer as they were judged, where those differ."""

MAX_BYTES: Final = 512 * 1024 * 1024
MAX_HEAD_BYTES: Final = 1024 * 1024
"""The most that is read before a signature was checked: of the envelope, manifest, trust file."""
MAX_MORE_BYTES: Final = 64 * 1024
"""The most bytes of a proof, and of a time stamp."""
MAX_STEPS: Final = 63
"""The most steps of a proof."""
EARLY: Final = timedelta(minutes=5)
"""By how much clocks may differ: what is earlier than the sealing by more is not of it."""
MAX_LEAVES: Final = 2_000_000
MAX_DEPTH: Final = 256
_SAFE: Final = 2**53 - 1
_PRIME: Final = 2**255 - 19
_EIGHTH: Final = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_WEAK: Final = frozenset({0, 1, _PRIME - 1, _EIGHTH, _PRIME - _EIGHTH})
"""The heights of the 8 points of Ed25519 of small order: under such a key anybody can sign."""
_HEX: Final = re.compile(r"[0-9a-f]{64}")
_DIGITS: Final = re.compile(r"(?:[0-9a-f]{2})*")
_SALT: Final = re.compile(r"[0-9a-f]{32}")
_TAG: Final = re.compile(rf"({'|'.join(TIERS)})/[a-z]+")
_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?\+00:00", re.ASCII)
_BINDING: Final = ("captures.json#", "manifest.json#", "resolution.json#/map", "roots.json#")
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,6}", re.ASCII)
_ROW: Final = re.compile(r"fragments\.json#/([0-9]+)/rows/[0-9]+")
_COVERED: Final = re.compile(r"captures\.json#/enumerations/([0-9]+)/[0-9]+")
_MAPPED: Final = re.compile(r"resolution\.json#/mappings/([0-9]+)/[0-9]+")
_NAME: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]{1,200}")
"""Names of people and roles: no control character, no end of a line, no half of a character."""
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_LEAD: Final = '{"disclosed":['
_THEN: Final = '"withheld":'
_ROUND: Final = bytes.maketrans(b"{}", b"[]")
_REST: Final = bytes(set(range(256)) - set(b"[]{}"))
# RFC 8785 orders keys by UTF-16 units, Python by code points: the same below the surrogates.
_BEYOND: Final = re.compile("[\ue000-\U0010ffff]")
_ENCODER: Final = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False, check_circular=False
)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has two members of one name")
    return found


def _integer(text: str) -> int:
    if len(text) > 17 or abs(int(text)) > _SAFE:
        _no_number(text)
    return int(text)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"the number {text[:40]} is not allowed")


_DECODER: Final = json.JSONDecoder(
    parse_float=_no_number, parse_constant=_no_number, parse_int=_integer,
    object_pairs_hook=_distinct,
)  # fmt: skip


class Rejected(Exception):
    """The bundle or trust file is not what it claims to be; the message says where."""


@dataclass(frozen=True)
class Signer:
    """A trusted key: who holds it, for which roles, and from when until when (aware UTC)."""

    name: str
    key: bytes
    roles: tuple[str, ...]
    valid_from: datetime | None
    valid_until: datetime | None
    needed: int = 1
    """How many keys of its trust file have to sign a bundle together."""


@dataclass(frozen=True)
class Logged:
    """Which entry of which log has the seal, and who signed how many entries of it when."""

    origin: str
    entry: int
    entries: int
    signer: str
    at: datetime


@dataclass(frozen=True)
class Observed:
    """Who signed what there was of a trial, when, and how much of that the copy shows to be so."""

    signer: str
    at: datetime
    shown: tuple[str, ...]
    withheld: tuple[str, ...]
    agent: Mapping[str, Any] | None
    """Name, version, model and digest of the configuration, each null where nobody knows it."""
    of_several: tuple[tuple[str, int, int], ...] = ()
    """Parts of which several were signed: the name, which of them is shown (from 1), how many."""


class Leaf(NamedTuple):
    """One disclosed piece. `path` is its place, e.g. `fragments.json#/0/rows/3`."""

    tag: str
    salt: str
    path: str
    value: Any

    @property
    def tier(self) -> str:
        return self.tag.partition("/")[0]


@dataclass(frozen=True)
class Verified:
    """A copy that is genuine: its manifest, its leaves, and who sealed it."""

    status: str
    """`VALID`, or `NOT_REPLAYABLE_AT_TIER` where something the decision rests on is withheld."""
    manifest: Mapping[str, Any]
    disclosed: tuple[bytes, ...]
    """The canonical bytes of each disclosed leaf, in the order of their hashes."""
    hidden: tuple[str, ...]
    """The hashes of the withheld leaves, in order."""
    withheld: Mapping[str, int]
    """Tag → how many of its leaves are withheld; only tags with some."""
    signers: tuple[str, ...]
    states: Mapping[str, str] | None = None
    """The roots of the states, by side, that all it shows is under; None if it has none."""
    logged: Logged | None = None
    """The log that has the seal; None if the copy has no proof of that."""
    stamped_at: datetime | None = None
    """The instant of the time stamp, no matter who signed it; None if the copy has none."""
    observed: Observed | None = None
    """What an observer signed; None if the copy shows nothing of that."""

    @cached_property
    def leaves(self) -> tuple[Leaf, ...]:
        """The disclosed leaves, read; a verified bundle may be large and is read only if asked."""
        with uncollected():
            known: set[tuple[str, str]] = set()
            return tuple(_leaf(json.loads(data), known) for data in self.disclosed)


def verify(files: Mapping[str, bytes], trust: Sequence[Signer]) -> Verified:
    """The facts of a sealed bundle, once every check has passed. Raises `Rejected`."""
    check_names(files)
    signers, predicate = _signed(files["envelope.json"], files["manifest.json"], trust)
    manifest = _manifest(parse(files["manifest.json"], "manifest.json", MAX_HEAD_BYTES))
    sealed_at = datetime.fromisoformat(manifest["sealed_at"])
    for signer in signers:
        check_time(signer, sealed_at, "envelope.json")
    tree = manifest["tree"]
    with uncollected():
        disclosed, hidden, seen = _leaves(files["leaves.json"], tree["leaves"])
        hashes = [*map(leaf_hash, disclosed), *map(bytes.fromhex, hidden)]
        if hashes[: len(disclosed)] != sorted(hashes[: len(disclosed)]):
            _reject("leaves.json: the leaves are not in the order of their hashes")
        if len(set(hashes)) != len(hashes):
            _reject("leaves.json: a leaf stands twice")
        if len(hashes) != tree["leaves"]:
            _reject(f"leaves.json: {len(hashes)} leaves, where {tree['leaves']} were signed")
        if root(hashes) != tree["root"]:
            _reject("leaves.json: the leaves do not give the signed root")
    withheld = _withheld(seen.tags, tree["tags"])
    cuts = _check_closed(seen, tree["tags"], disclosed)
    is_whole = not set(withheld) - {RAW}
    if is_whole:
        _check_whole(seen, cuts)
    _check_agreement(manifest, seen.said)
    _check_files(seen.said, tree["tags"])
    _check_predicate(predicate, manifest, seen, hidden)
    states = bound_states({**seen.binding, **seen.said}) if is_whole else None
    observed = _observed(seen, disclosed, manifest, trust, signers)
    status = "VALID" if is_whole else "NOT_REPLAYABLE_AT_TIER"
    names = tuple(signer.name for signer in signers)
    logged = stamp = None
    if PROOF in files:
        logged = _logged(files[PROOF], files["envelope.json"], manifest, trust)
        _check_not_before(logged.at, sealed_at, PROOF)
    if STAMP in files:
        stamp = _stamped_at(files[STAMP], files["envelope.json"])
        _check_not_before(stamp, sealed_at, STAMP)
    return Verified(
        status, manifest, tuple(disclosed), tuple(hidden), withheld, names, states, logged, stamp,
        observed,
    )  # fmt: skip


def check_names(names: Iterable[str]) -> None:
    """These are the names of the files of a sealed bundle. Raises `Rejected`."""
    found = set(names)
    if not set(FILES) <= found <= {*FILES, *MORE}:
        _reject(
            f"a sealed bundle has exactly the files {', '.join(FILES)}, and may have "
            f"{' and '.join(MORE)}"
        )


def read_copy(path: Path) -> dict[str, bytes]:
    """The files of the copy at a path, a folder or a zip. Raises `Rejected`, or `OSError`."""
    if not path.is_dir():
        return unzipped(_file(path))
    check_names(names := sorted(each.name for each in path.iterdir()))
    return {name: _file(path / name) for name in names}


_LOCAL: Final = struct.Struct("<4s5H3L2H")
_CENTRAL: Final = struct.Struct("<4s6H3L5H2L")
_END: Final = struct.Struct("<4s4H2LH")
_STORED: Final = (20, 0, 0, 0, 0x21)
"""The version that is needed, no flags, no method, no time, the first day that a zip can say."""


def zipped(files: Mapping[str, bytes]) -> bytes:
    """The files as a zip: stored, in order, undated; the same bytes for the same files."""
    parts, directory, at = list[bytes](), list[bytes](), 0
    for name, data in sorted(files.items()):
        sizes = (zlib.crc32(data), len(data), len(data), len(name), 0)
        head = _LOCAL.pack(b"PK\3\4", *_STORED, *sizes) + name.encode()
        rest = (0, 0, 0, 0o600 << 16, at)
        entry = _CENTRAL.pack(b"PK\1\2", 0x0314, *_STORED, *sizes, *rest)
        directory.append(entry + name.encode())
        parts += (head, data)
        at += len(head) + len(data)
    size, count = sum(map(len, directory)), len(files)
    return b"".join((*parts, *directory, _END.pack(b"PK\5\6", 0, 0, count, count, size, at, 0)))


def unzipped(data: bytes) -> dict[str, bytes]:
    """The files of a zip, which is byte for byte what `zipped` makes of them. Raises `Rejected`."""
    files, at = dict[str, bytes](), 0
    while data.startswith(b"PK\3\4", at) and len(files) < len((*FILES, *MORE)):
        *_, size, length, _ = _LOCAL.unpack(data[at : at + _LOCAL.size].ljust(_LOCAL.size, b"\0"))
        at += _LOCAL.size + length
        name = data[at - length : at].decode("ascii", "replace")
        files[name] = data[at : at + size]
        at += size
    if not files:
        _reject("not a zip as statediff writes it, and no folder")
    check_names(files)
    if zipped(files) != data:
        _reject("not a zip as statediff writes it: the bytes differ")
    return files


def read_trust(data: bytes) -> tuple[Signer, ...]:
    """The keys of a trust file. Raises `Rejected`.

    `{"format": "statediff/trust/1", "keys": [{"name", "key" (hex), "roles", "from", "until"}]}`;
    `from` and `until` are instants in UTC or null. In `statediff/trust/1.1` there is `threshold`
    too: how many of these keys have to sign a bundle.
    """
    document = _loose(data, "trust file", MAX_HEAD_BYTES)
    several = isinstance(document, dict) and document.get("format") == TRUST_OF_SEVERAL
    more = {"threshold": int} if several else {}
    _shape(document, {"format": str, "keys": list, **more}, "trust file")
    if document["format"] not in (TRUST, TRUST_OF_SEVERAL):
        _reject(f"trust file: expected format {TRUST}, found {document['format']!r}")
    needed = document.get("threshold", 1)
    signers = tuple(_signer(entry, needed) for entry in document["keys"])
    if several and not 1 <= needed <= sum(SEALING in signer.roles for signer in signers):
        _reject(f"trust file: {needed} is no number of its keys that are trusted as {SEALING}")
    if len({signer.key for signer in signers}) != len(signers):
        _reject("trust file: one key stands twice; give it one entry, with all its roles")
    return signers


def key_id(public: bytes) -> str:
    """How envelopes name a key: the SHA-256 of its 32 raw bytes."""
    return hashlib.sha256(public).hexdigest()


def canonical(document: Any) -> bytes:
    """The RFC 8785 bytes of a document without floats. `ValueError` for what has none."""
    text = _ENCODER.encode(document)
    if not text.isascii() and _BEYOND.search(text):
        text = _ordered(document)
    return text.encode("utf-8")


def parse(data: bytes, name: str, most: int | None = None) -> Any:
    """The document in at most so many canonical bytes. Raises `Rejected` for any other bytes."""
    document = _loose(data, name, MAX_BYTES if most is None else most)
    try:
        again = canonical(document)
    except (ValueError, RecursionError) as error:
        raise Rejected(f"{name}: not canonical JSON: {error}") from error
    if again != data:
        _reject(f"{name}: the bytes are not in canonical form")
    _shallow(data, name, MAX_DEPTH)
    return document


def leaf_bytes(leaf: Leaf) -> bytes:
    """The leaf as it stands in `leaves.json` and as it is hashed."""
    return canonical([leaf.tag, leaf.salt, [leaf.path, leaf.value]])


def leaf_hash(encoded: bytes) -> bytes:
    """The hash of a leaf's bytes; the prefix keeps leaves and nodes apart."""
    return hashlib.sha256(b"\x00" + encoded).digest()


def root(hashes: Sequence[bytes]) -> str:
    """The root of the tree over these leaves, whatever their order, in hex."""
    level = sorted(hashes)
    level += [bytes(32)] * ((1 << max(len(level) - 1, 0).bit_length()) - len(level))
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=True)
        level = [hashlib.sha256(b"\x01" + left + right).digest() for left, right in pairs]
    return level[0].hex()


def signed_bytes(payload: bytes) -> bytes:
    """The pre-authentication encoding of DSSE: what a signature is made over."""
    kind = PAYLOAD.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def statement(manifest: bytes, predicate: Any, kind: str = PREDICATE) -> bytes:
    """The in-toto Statement over a manifest's bytes: the predicate, and of which kind it is."""
    digest = hashlib.sha256(manifest).hexdigest()
    subject = [{"digest": {"sha256": digest}, "name": "manifest.json"}]
    return canonical(
        {"_type": STATEMENT, "predicate": predicate, "predicateType": kind, "subject": subject}
    )


def predicate_of(
    manifest: Mapping[str, Any], clauses: Sequence[Mapping[str, Any]], contract: str
) -> dict[str, Any]:
    """The test-result predicate: the manifest's verdict, the summary's clauses, the contract.

    `contract` is the hash of the contract's leaf, in hex.
    """
    name = f"{manifest['contract']}@{manifest['contract_version']}"
    tests = {
        tests: [clause["clause"] for clause in clauses if clause["truth"] == truth]
        for tests, truth in _TESTS.items()
    }
    configuration = [{"digest": {CONTRACT_DIGEST: contract}, "name": name}]
    return {"configuration": configuration, "result": _RESULT[manifest["verdict"]], **tests}


def bound_states(at: Mapping[str, Any]) -> dict[str, str] | None:
    """The state roots that all that the pieces of a bundle, by their places, show is under.

    None for a bundle of a format without roots. Raises `Rejected`.
    """
    match at.get("manifest.json#"):
        case [{"format": str(form)}, *_] if form == BOUND:
            pass
        case _:
            return None
    captures, roots = _rest(at, "captures.json#"), _rest(at, "roots.json#")
    keys = {"form": str, "opened": list, "paths": str, "scanned": list, "types": list}
    _shape(roots, keys, "roots.json")
    if roots["form"] != ROOTS or not _HEX.fullmatch(roots["paths"]):
        _reject(f"roots.json: not of form {ROOTS}")
    paths, heads = bytes.fromhex(roots["paths"]), [_head(entry) for entry in roots["types"]]
    found = {}
    for number, side in enumerate(SIDES):
        own = [[*head[:2], *head[2 + number]] for head in heads if head[2 + number] is not None]
        found[side] = state_root(paths, own)
    if captures.get("roots") != found:
        _reject("roots.json: the types do not give the roots in captures.json")
    types = {_place(*head[:2]): head for head in heads}
    if len(types) != len(heads):
        _reject("roots.json: a type stands twice")
    shown: dict[bytes, _Shown] = {}
    for entry in roots["opened"]:
        place, rows = _opening(entry, paths, types)
        if shown.setdefault(place, rows) is not rows:
            _reject("roots.json: a type is opened twice")
    owners: dict[str, list[bytes]] = {}
    for place, head in types.items():
        owners.setdefault(head[1], []).append(place)
    _check_fragments(at, captures, types, shown, owners)
    _check_scans(at, roots["scanned"], types, owners)
    return found


def _observed(
    seen: _Seen, disclosed: Sequence[bytes], manifest: Mapping[str, Any],
    trust: Sequence[Signer], sealers: Sequence[Signer],
) -> Observed | None:  # fmt: skip
    """An observer's statement about the trial, compared with what the copy shows of it."""
    rest = seen.said.get(f"{OBSERVATION}#")
    if rest is None:
        return None
    _shape(rest[0], {"envelope": dict, "opened": list}, OBSERVATION)
    signer, at, trial, bound = observation(rest[0]["envelope"], trust)
    if signer in sealers:
        _reject(f"{OBSERVATION}: {signer.name} sealed the copy too; an observer has another key")
    if trial != manifest["trial"]:
        _reject(f"{OBSERVATION}: of the trial {trial[:80]!r}, not of this one")
    if at - datetime.fromisoformat(manifest["sealed_at"]) > EARLY:
        _reject(f"{OBSERVATION}: of {at}, after the sealing at {manifest['sealed_at']}")
    if dict(cuts_of(rest, OBSERVATION)).get("/opened") != len(bound):
        _reject(f"{OBSERVATION}: not an opening for each part")
    match seen.said.get("manifest.json#"):
        case [dict(inner), *_] if ("undisclosed" in inner) != (UNSHOWN in bound):
            _reject(f"{OBSERVATION}: what is not shown is not said where it has to be")

    def value(path: str) -> Any:
        number = seen.paths.get(path)
        return ... if number is None else json.loads(disclosed[number])[2][1]

    def document(name: str) -> Any:
        found = seen.said.get(f"{name}#")
        if found is None:
            return ...
        document, cuts = found[0], dict(cuts_of(found, name))
        for key in _LISTED.get(name, ()):
            paths = [f"{name}#/{key}/{number}" for number in range(cuts.get(f"/{key}", 0))]
            if not all(path in seen.paths for path in paths):
                return ...
            document = {**document, key: [value(path) for path in paths]}
        return document

    opened = [value(f"{OBSERVATION}#/opened/{number}") for number in range(len(bound))]
    shown = compared(bound, opened, document)
    agent = opened[0][2] if AGENT in shown else None
    withheld = tuple(name for name in bound if name not in shown)
    several = tuple((n, 1 + which, len(bound[n])) for n, which in shown.items() if bound[n][1:])
    return Observed(signer.name, at, tuple(shown), withheld, agent, several)


_LISTED: Final = {"captures.json": ("before", "after"), "trace.json": ("actions",)}
"""The arrays of files that are cut into leaves, of those that observations bind."""


def observation(
    envelope: Any, trust: Sequence[Signer]
) -> tuple[Signer, datetime, str, dict[str, list[str]]]:
    """Who signed an observation, when, of which trial, and the digests of each part of it."""
    payload, signatures = _enveloped(canonical(envelope), OBSERVATION)
    if len(signatures) != 1:
        _reject(f"{OBSERVATION}: expected one signature")
    _shape(signatures[0], {"keyid": str, "sig": str}, f"{OBSERVATION}: signature")
    signer = _signer_of(signatures[0], payload, trust, OBSERVING, OBSERVATION)
    said = parse(payload, f"{OBSERVATION}: payload", MAX_HEAD_BYTES)
    keys = {"_type": str, "predicate": dict, "predicateType": str, "subject": list}
    _shape(said, keys, f"{OBSERVATION}: payload")
    if (said["_type"], said["predicateType"]) != (STATEMENT, OBSERVED):
        _reject(f"{OBSERVATION}: the payload is another statement")
    _shape(said["predicate"], {"at": str, "trial": str}, f"{OBSERVATION}: predicate")
    at = instant(said["predicate"]["at"], f"{OBSERVATION}: at")
    check_time(signer, at, OBSERVATION)
    return signer, at, said["predicate"]["trial"], parts_in(said["subject"])


def parts_in(subject: Sequence[Any]) -> dict[str, list[str]]:
    """The digests of each part of an observation; of several, each would do. Raises `Rejected`."""
    bound: dict[str, list[str]] = {}
    for entry in subject:
        match entry:
            case {"digest": {"sha256": str(digest), **other}, "name": str(name), **more} if (
                not other and not more and _HEX.fullmatch(digest)
            ):
                part = name.partition("/")[0]
                digests = bound.setdefault(part, [])
                if name != (f"{part}/{len(digests)}" if digests else part):
                    _reject(f"{OBSERVATION}: {name[:80]!r} is not the next name of a part")
                digests.append(digest)
            case _:
                _reject(f"{OBSERVATION}: a part is a name with one SHA-256")
    if [*bound] not in ([*OBSERVABLE], [*OBSERVABLE][:-1]):
        _reject(f"{OBSERVATION}: expected the parts {', '.join(OBSERVABLE)}, the last if need be")
    return bound


def compared(
    bound: Mapping[str, Sequence[str]], opened: Sequence[Any], document: Callable[[str], Any]
) -> dict[str, int]:
    """The parts that are shown by their opening, as they were observed, each with which of several.

    `document` gives a file by its name, and `...` where it is not all shown. Raises `Rejected`.
    """
    shown = dict[str, int]()
    for (name, digests), opening in zip(bound.items(), opened, strict=True):
        if opening is ... or name == UNSHOWN:
            continue
        match opening:
            case [str(part), str(salt), *rest] if (
                part == name and _SALT.fullmatch(salt) and len(rest) == (name == AGENT)
            ):
                found = rest[0] if rest else part_of(name, document(OBSERVABLE[name]))
            case _:
                raise Rejected(f"{OBSERVATION}: an opening is [part, salt], of the agent with it")
        if found is ...:
            continue
        if name == AGENT:
            known: Any = dict.fromkeys(("configuration", "model", "name", "version"), str | None)
            _shape(found, known, f"{OBSERVATION}: agent")
        if (digest := part_digest(salt, found)) not in digests:
            if found is None and name == "ending":
                continue  # it was known, and the contract may not ask
            _reject(f"{OBSERVATION}: {OBSERVABLE[name]}: {name}: not what was observed")
        shown[name] = digests.index(digest)
    return shown


def part_digest(salt: str, value: Any) -> str:
    """The salted digest of a part of an observation, in hex."""
    return hashlib.sha256(bytes.fromhex(salt) + canonical(value)).hexdigest()


def part_of(name: str, document: Any) -> Any:
    """A part of an observation out of its file; `...` where that is not all shown."""
    if name not in ("ending", "states", "trial") or document is ...:
        return document
    if not isinstance(document, dict):
        _reject(f"{OBSERVABLE[name]}: is no object")
    if name == "ending":
        return document.get("ending")
    if name == "trial":
        return {key: value for key, value in document.items() if key != "ending"}
    history = document.get("history")
    if not isinstance(history, dict):
        _reject("captures.json: has no history")
    seen = {key: history.get(key) for key in ("readings", "transactions")}
    return {"history": seen, **{key: document.get(key) for key in ("after", "before", "roots")}}


SIDES: Final = ("before", "after")
_EMPTY: Final = bytes(32)
_Shown = dict[bytes, tuple[str, str | None, str | None]]
"""Canonical key → salt, and the digest of the row on each side."""


def state_root(paths: bytes, heads: Sequence[Any]) -> str:
    """The root over the types of one side, each `[source, type, coverage, rows, columns]`."""
    return hashlib.sha256(
        b"statediff/state-root/1\x00" + paths + canonical(list(heads))
    ).hexdigest()


def row_path(paths: bytes, key: bytes) -> bytes:
    """The path of a row in the tree of its type: `key` is canonical [source, type, key]."""
    return hashlib.sha256(paths + key).digest()


def row_leaf(path: bytes, digest: bytes) -> bytes:
    """The hash of a leaf of a tree of rows; `digest` is the salted digest of the row."""
    return hashlib.sha256(b"\x00" + path + digest).digest()


def row_node(left: bytes, right: bytes) -> bytes:
    """The hash of a node of a tree of rows."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def tree_of(entries: Sequence[tuple[str, bytes]], depth: int = 0) -> bytes:
    """The root of the tree with these leaves (of 256 bits) and nodes (of fewer), sorted by bits."""
    if not entries:
        return _EMPTY
    bits, digest = entries[0]
    if len(entries) == 1 and len(bits) in (depth, _BITS):
        return digest
    if len(bits) == depth:
        _reject("roots.json: two pieces of a tree are at one place")
    middle = bisect_left(entries, True, key=lambda entry: entry[0][depth] == "1")
    return row_node(tree_of(entries[:middle], depth + 1), tree_of(entries[middle:], depth + 1))


_BITS: Final = 256


def _bits(data: bytes) -> str:
    return f"{int.from_bytes(data):0{8 * len(data)}b}" if data else ""


def _rest(at: Mapping[str, Any], path: str) -> dict[str, Any]:
    found = at.get(path)
    cuts_of(found, path.removesuffix("#"))
    if not isinstance(found, list) or not isinstance(found[0], dict):
        _reject(f"{path}: is no object")
    return found[0]


def _place(source: str, name: str) -> bytes:
    return canonical([source, name])


def _head(entry: Any) -> list[Any]:
    """[source, type, before, after], each side [coverage, rows, columns] or None."""
    match entry:
        case [str(), str(), before, after]:
            sides = [before, before if after is True else after]
            if before is not after and all(map(_is_head, sides)) and sides != [None, None]:
                return [*entry[:2], *sides]
        case _:
            pass
    raise Rejected("roots.json: a type is [source, type, before, after]")


def _is_head(side: Any) -> bool:
    if side is None:
        return True
    match side:
        case [str(), str(rows), str(columns)]:
            return bool(_HEX.fullmatch(rows) and _HEX.fullmatch(columns))
        case _:
            return False


def _opening(entry: Any, paths: bytes, types: Mapping[bytes, Any]) -> tuple[bytes, _Shown]:
    """The rows of a type that are opened, once both trees are made of them and of the rest."""
    keys = {"nodes": str, "others": list, "rows": list, "source": str, "type": str}
    _shape(entry, keys, "roots.json: opened")
    place = _place(entry["source"], entry["type"])
    if place not in types:
        _reject("roots.json: what is opened is no type of it")
    rest, at = [], 0
    if not _DIGITS.fullmatch(entry["nodes"]):
        _reject("roots.json: nodes are no bytes")
    nodes = bytes.fromhex(entry["nodes"])
    while at < len(nodes):
        depth, at = nodes[at], at + 1
        end = at + (depth + 7) // 8
        bits = _bits(nodes[at:end])
        if end + 32 > len(nodes) or "1" in bits[depth:]:
            _reject("roots.json: nodes are cut short, or written in two ways")
        rest.append((bits[:depth], nodes[end : end + 32]))
        at = end + 32
    for other in entry["others"]:
        match other:
            case [str(start), str(digest)] if _HEX.fullmatch(start) and _HEX.fullmatch(digest):
                alone = bytes.fromhex(start)
                rest.append((_bits(alone), row_leaf(alone, bytes.fromhex(digest))))
            case _:
                _reject("roots.json: another leaf is [path, digest]")
    shown: _Shown = {}
    leaves: tuple[list[tuple[str, bytes]], ...] = ([], [])
    covered = {bits for bits, _ in rest}
    depths = sorted({len(bits) for bits in covered})
    for row in entry["rows"]:
        key, salt, *digests = _row(row)
        name = canonical(key)
        if name in shown:
            _reject("roots.json: a row is opened twice")
        shown[name] = salt, digests[0], digests[1]
        path = row_path(paths, canonical([entry["source"], entry["type"], key]))
        bits = _bits(path)
        if any(bits[:depth] in covered for depth in depths):
            _reject("roots.json: a row is where something else is")
        for side, digest in zip(leaves, digests, strict=True):
            if digest is not None:
                side.append((bits, row_leaf(path, bytes.fromhex(digest))))
    for side, head in zip(leaves, types[place][2:], strict=True):
        expected = _EMPTY.hex() if head is None else head[1]
        if tree_of(sorted(rest + side)).hex() != expected:
            _reject(f"roots.json: the rows of {entry['type']!r} do not give their root")
    return place, shown


def _row(row: Any) -> Any:
    match row:
        case [list(), str(salt), before, after] if _SALT.fullmatch(salt):
            digests = [side for side in (before, after) if side is not None]
            if all(isinstance(each, str) and _HEX.fullmatch(each) for each in digests):
                return row
        case _:
            pass
    raise Rejected("roots.json: a row is [key, salt, before, after]")


def _check_fragments(
    at: Mapping[str, Any],
    captures: Mapping[str, Any],
    types: Mapping[bytes, Any],
    shown: Mapping[bytes, _Shown],
    owners: Mapping[str, list[bytes]],
) -> None:
    """Each row that a matching shows is as its leaf, and each that differs is shown on both sides.

    Of types that one source delivered; of others none is opened, and no row that no matching shows.
    Rows under other keys than they were read by, which a rule of identity gives, are left to the
    replay.
    """
    unseen, rekeyed = _exempt(at)
    dark = {(case, name) for case, name, _ in unseen}
    seen: set[tuple[str, str, bytes, str]] = set()
    for path, row in at.items():
        found = _ROW.fullmatch(path)
        if found is None:
            continue
        case = found[1]
        side, name, key, presence, fields = _fragment(row)
        if side not in SIDES or (side == "after" and (case, name) in rekeyed):
            continue
        seen.add((case, name, canonical(key), side))
        own = owners.get(name, [])
        if presence == "UNOBSERVED" or len(own) > 1 or (not own and presence == "ABSENT"):
            continue
        leaf = shown.get(own[0], {}).get(canonical(key)) if own else None
        if leaf is None:
            _reject(f"{path}: no row of the state roots")
        expected = None
        if presence == "PRESENT":
            expected = hashlib.sha256(bytes.fromhex(leaf[0]) + canonical(fields)).hexdigest()
        if leaf[1 + SIDES.index(side)] != expected:
            _reject(f"{path}: not the row that the state roots have")
    cases = captures["enumerations"]
    for name, own in owners.items():
        sides = types[own[0]][2:]
        roots = [_EMPTY.hex() if head is None else head[1] for head in sides]
        if len(own) > 1 or roots[0] == roots[1]:
            continue
        changed = [key for key, leaf in shown.get(own[0], {}).items() if leaf[1] != leaf[2]]
        for case in map(str, range(len(cases))):
            if (case, name) in dark or (case, name) in rekeyed:
                continue
            pairs = ((case, name, key, side) for key in changed for side in SIDES)
            if own[0] not in shown or not all(pair in seen for pair in pairs):
                _reject(f"fragments.json: what changed of {name!r} is not all there")
    keys, paired = {(name, key) for _, name, key, _ in seen}, {name for _, name in rekeyed}
    for place, rows in shown.items():
        name = types[place][1]
        if len(owners[name]) > 1 or any(
            leaf[1] == leaf[2] and (name, key) not in keys and name not in paired
            for key, leaf in rows.items()
        ):
            _reject(f"roots.json: {name!r} has rows opened that no matching shows")


def _check_scans(
    at: Mapping[str, Any],
    scanned: Sequence[Any],
    types: Mapping[bytes, Any],
    owners: Mapping[str, list[bytes]],
) -> None:
    """Each type that a clause ranged over has as many members as its root's columns have rows.

    Of types that one source delivered. That the members are those of the columns is left to the
    replay.
    """
    members: dict[tuple[str, str], int] = {}
    for entry in scanned:
        place, count = _scanned(entry, types)
        if place in members or len(owners[place[0]]) > 1:
            _reject(f"roots.json: {place[0]!r} {place[1]} is scanned twice, or of several sources")
        members[place] = count
    unseen, _ = _exempt(at)
    cuts, used = dict(cuts_of(at["fragments.json#"], "fragments.json")), set()
    for case, fragments in enumerate(at["fragments.json#"][0]):
        for number, scan in enumerate(fragments["scans"]):
            match scan:
                case {"side": str(side), "type": str(name)}:
                    own = owners.get(name, [])
                case _:
                    raise Rejected("fragments.json: a scan is of another shape")
            used.add((name, side))
            if side not in SIDES or len(own) > 1 or (str(case), name, side) in unseen:
                continue
            is_there = own and types[own[0]][2 + SIDES.index(side)] is not None
            expected = members.get((name, side)) if is_there else 0
            if cuts.get(f"/{case}/scans/{number}/members", 0) != expected:
                _reject(f"fragments.json: {name!r} {side} has another number of members than rows")
    if members.keys() - used:
        _reject("roots.json: a type is scanned that no matching ranges over")


def _scanned(entry: Any, types: Mapping[bytes, Any]) -> tuple[tuple[str, str], int]:
    """The type and side that were ranged over, and the rows there, once their root is made."""
    keys = {"source": str, "type": str, "side": str, "salt": str, "counts": list, "columns": list}
    _shape(entry, keys, "roots.json: scanned")
    name, side, counts = entry["type"], entry["side"], entry["counts"]
    head = types.get(_place(entry["source"], name), [None] * 4)
    own = head[2 + SIDES.index(side)] if side in SIDES else None
    if own is None or not all(type(count) is int and count >= 0 for count in counts):
        _reject("roots.json: what is scanned is no type of it, or has no counts")
    columns = []
    for column in entry["columns"]:
        match column:
            case [str(label), str(digest), None | str()]:
                columns.append([label, digest])
            case _:
                _reject("roots.json: a column is [name, digest, salt]")
    listed = canonical([entry["salt"], counts, columns])
    if hashlib.sha256(listed).hexdigest() != own[2]:
        _reject(f"roots.json: the columns of {name!r} {side} do not give their root")
    return (name, side), sum(counts)


def _exempt(at: Mapping[str, Any]) -> tuple[set[tuple[str, str, str]], set[tuple[str, str]]]:
    """The types that a matching says nothing of, on which side, and those that it has rekeyed."""
    unseen, rekeyed, known = set(), set(), set[tuple[str, str, str]]()
    types = value_at(at.get("schema.json#"), ["0", "types"])
    listed = types if isinstance(types, list) else []
    keyless = [value_at(each, ["name"]) for each in listed if value_at(each, ["key"]) == []]
    for path, value in at.items():
        match value:
            case [str(side), str(name), *rest] if found := _COVERED.fullmatch(path):
                if (place := (found[1], name, side)) in known:
                    _reject(f"captures.json: {name!r} {side} is enumerated twice")
                known.add(place)
                match rest:
                    case [["unobserved", _]] if side in SIDES:
                        unseen.add(place)
            case {"type": str(name)} if found := _MAPPED.fullmatch(path):
                if name not in keyless:
                    _reject(f"resolution.json: {name[:80]!r} is no type without a key")
                rekeyed.add((found[1], name))
            case _:
                pass
    return unseen, rekeyed


def _fragment(row: Any) -> tuple[str, str, list[Any], str, Any]:
    match row:
        case {
            "side": str(side), "type": str(name), "key": list(key), "presence": str(presence),
            "fields": fields,
        }:  # fmt: skip
            return side, name, key, presence, fields
        case _:
            pass
    raise Rejected("fragments.json: a row is of another shape")


def _manifest(document: Any) -> Mapping[str, Any]:
    _shape(
        document,
        {
            "format": str, "kernel": str, "statediff": str, "trial": str, "contract": str,
            "contract_version": str, "verdict": str, "sealed_at": str, "tree": dict,
        },
        "manifest.json",
    )  # fmt: skip
    tree = document["tree"]
    _shape(tree, {"leaves": int, "root": str, "tags": dict}, "manifest.json: tree")
    if document["format"] != FORMAT:
        _reject(f"manifest.json: expected format {FORMAT}, found {document['format']!r}")
    if document["verdict"] not in VERDICTS:
        _reject(f"manifest.json: {document['verdict']!r} is no verdict")
    instant(document["sealed_at"], "manifest.json: sealed_at")
    if not 0 < tree["leaves"] <= MAX_LEAVES or not _HEX.fullmatch(tree["root"]):
        _reject("manifest.json: tree: not a number of leaves and a root")
    counts = tree["tags"].values()
    if not all(_TAG.fullmatch(tag) for tag in tree["tags"]) or not all(
        type(count) is int and count > 0 for count in counts
    ):
        _reject("manifest.json: tree: tags are tier/kind, each with how many leaves it has")
    if sum(counts) != tree["leaves"]:
        _reject("manifest.json: tree: the tags do not add up to the leaves")
    kinds = kinds_of(tree["tags"])
    for name in PARTS:
        if not kinds[_kind(name)]:
            _reject(f"manifest.json: tree: no leaf of {name} was sealed")
    if kinds["summary"] != 1 or tree["tags"].get("public/summary") != 1:
        _reject("manifest.json: tree: expected one summary, for the public")
    for tag, count in tree["tags"].items():
        kind = tag.partition("/")[2]
        if kind not in _KINDS or (kind not in _MANY and kinds[kind] > 1):
            _reject(f"manifest.json: tree: {count} leaves of {tag!r} belong to no bundle")
        if kind in _AUDITORS and tag != f"auditor/{kind}":
            _reject(f"manifest.json: tree: {tag!r} is for auditors")
        if kind == "review" and tag != "reviewer/review":
            _reject(f"manifest.json: tree: {tag!r} is for reviewers")
    return dict(document)


def _signed(envelope: bytes, manifest: bytes, trust: Sequence[Signer]) -> tuple[list[Signer], Any]:
    """The trusted keys that signed this manifest, and the predicate."""
    if len(manifest) > MAX_HEAD_BYTES:
        _reject(f"manifest.json: more than {MAX_HEAD_BYTES} bytes")
    payload, signatures = _enveloped(envelope)
    match parse(payload, "envelope.json: payload", MAX_HEAD_BYTES):
        case {"predicate": predicate} if payload == statement(manifest, predicate):
            pass
        case _:
            _reject("envelope.json: what was signed is another manifest")
    return _signers(signatures, payload, trust), predicate


def signers_of(envelope: bytes, expected: bytes, trust: Sequence[Signer]) -> list[Signer]:
    """The keys, trusted to seal, that signed the expected payload. Raises `Rejected`."""
    payload, signatures = _enveloped(envelope)
    if payload != expected:
        _reject("envelope.json: what was signed is another manifest")
    return _signers(signatures, payload, trust)


def _enveloped(envelope: bytes, where: str = "envelope.json") -> tuple[bytes, list[Any]]:
    """The payload of a DSSE envelope, and its signatures."""
    document = parse(envelope, where, MAX_HEAD_BYTES)
    _shape(document, {"payload": str, "payloadType": str, "signatures": list}, where)
    if document["payloadType"] != PAYLOAD:
        _reject(f"{where}: expected payloadType {PAYLOAD}")
    return _base64(document["payload"], "payload", where), document["signatures"]


def _signers(signatures: list[Any], payload: bytes, trust: Sequence[Signer]) -> list[Signer]:
    needed = max((signer.needed for signer in trust), default=1)
    if len(signatures) != needed:  # a further one could be taken away without being missed
        _reject(f"envelope.json: expected {'one signature' if needed == 1 else needed}")
    for entry in signatures:
        _shape(entry, {"keyid": str, "sig": str}, "envelope.json: signature")
    names = [entry["keyid"] for entry in signatures]
    if names != sorted(set(names)):
        _reject("envelope.json: the signatures are not in the order of their keys")
    return [_signer_of(entry, payload, trust) for entry in signatures]


def _signer_of(
    entry: Mapping[str, str], payload: bytes, trust: Sequence[Signer],
    role: str = SEALING, where: str = "envelope.json",
) -> Signer:  # fmt: skip
    signer = next((s for s in trust if key_id(s.key) == entry["keyid"]), None)
    if signer is None:
        _reject(f"{where}: key {entry['keyid'][:16]!r} is not trusted")
    if role not in signer.roles:
        _reject(f"{where}: {signer.name} is not trusted as {role}")
    require_fit(signer, _base64(entry["sig"], "sig", where), signed_bytes(payload), where)
    return signer


def require_fit(signer: Signer, signature: bytes, message: bytes, where: str) -> None:
    """The signature over the message is by that key. Raises `Rejected`."""
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - a judgement needs none
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415 - as above
        Ed25519PublicKey,
    )

    try:
        Ed25519PublicKey.from_public_bytes(signer.key).verify(signature, message)
    except InvalidSignature:
        _reject(f"{where}: the signature of {signer.name} does not fit")


def check_time(signer: Signer, at: datetime, where: str) -> None:
    """The key was valid at that time. Raises `Rejected`."""
    early = signer.valid_from is not None and at < signer.valid_from
    late = signer.valid_until is not None and at >= signer.valid_until
    if early or late:
        _reject(f"{where}: the key of {signer.name} was not valid at {at}")


def _check_not_before(at: datetime, sealed_at: datetime, where: str) -> None:
    if sealed_at - at > EARLY:
        _reject(f"{where}: of {at}, before the sealing at {sealed_at}")


def _logged(
    proof: bytes, envelope: bytes, manifest: Mapping[str, Any], trust: Sequence[Signer]
) -> Logged:
    """The entry over this envelope, in a log whose checkpoint a trusted key signed."""
    front, _, note = _lines_of(proof).partition("\n\n")
    lines, steps = front.split("\n")[:3], front.split("\n")[3:]
    if len(lines) < 3 or lines[0] != _TLOG or [each[:6] for each in lines[1:]] != _MARKS:
        _reject(f"{PROOF}: expected the lines of the entry and of its index")
    number = lines[2][6:]
    if not _NUMBER.fullmatch(number) or len(steps) > MAX_STEPS:
        _reject(f"{PROOF}: no index of an entry, or too many steps")
    line = _base64(lines[1][6:], "entry", PROOF)
    _check_entry(parse(line, f"{PROOF}: entry", MAX_MORE_BYTES), envelope, manifest)
    text, gap, signatures = note.rpartition("\n\n")
    head = text.split("\n")
    if not gap or not signatures.endswith("\n") or len(head) < 3 or not all(head):
        _reject(f"{PROOF}: it has no checkpoint")
    origin, size = head[:2]
    if not _ORIGIN.fullmatch(origin) or not _NUMBER.fullmatch(size):
        _reject(f"{PROOF}: its checkpoint has no origin and number of entries")
    path, log_root = [_hash(step) for step in steps], _hash(head[2])
    if not includes(leaf_hash(line), int(number), int(size), log_root, path):
        _reject(f"{PROOF}: the entry is not in the log of its checkpoint")
    signer, at = _note_signer(f"{text}\n", origin, signatures, trust)
    return Logged(origin, int(number), int(size), signer, at)


_TLOG: Final = "c2sp.org/tlog-proof@v1"
_MARKS: Final = ["extra ", "index "]
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,14}", re.ASCII)
_ORIGIN: Final = re.compile(r"[!-*,-~]{1,200}")
_SIGNED_BY: Final = "\u2014 "
_TIME_BYTES: Final = 8
_MAX_SAID: Final = 4000
"""Characters of a text in an entry."""
_LATEST: Final = 253_402_300_799
"""The last second that a date can say."""


def _lines_of(proof: bytes) -> str:
    if len(proof) > MAX_MORE_BYTES:
        _reject(f"{PROOF}: more than {MAX_MORE_BYTES} bytes")
    try:
        text = proof.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Rejected(f"{PROOF}: not UTF-8: {error}") from error
    if any(each < " " and each != "\n" for each in text):
        _reject(f"{PROOF}: a control character stands in it")
    return text


def _check_entry(entry: Any, envelope: bytes, manifest: Mapping[str, Any]) -> None:
    """The log's entry is over this envelope, and says of it what the manifest says."""
    where = f"{PROOF}: entry"
    keys = dict.fromkeys(("about", "at", "digest", "form", "kind"), str)
    _shape(entry, {**keys, "said": dict}, where)
    _shape(entry["said"], dict.fromkeys(("by", "contract", "verdict"), str), where)
    if any(len(text) > _MAX_SAID for text in (entry["at"], *entry["said"].values())):
        _reject(f"{where}: a text of more than {_MAX_SAID} characters")
    contract = f"{manifest['contract']}@{manifest['contract_version']}"
    expected = {
        "about": manifest["tree"]["root"], "digest": hashlib.sha256(envelope).hexdigest(),
        "form": "statediff/entry/1", "kind": "seal",
    }  # fmt: skip
    if expected.items() - {name: entry[name] for name in expected}.items():
        _reject(f"{where}: not over this envelope")
    if (entry["said"]["contract"], entry["said"]["verdict"]) != (contract, manifest["verdict"]):
        _reject(f"{where}: it says another thing than the manifest")


def includes(entry: bytes, index: int, size: int, root: bytes, proof: Sequence[bytes]) -> bool:
    """True if the proof shows that the hash `entry` stands at `index` of the log with `root`."""
    if not 0 <= index < size:
        return False
    at, last, found = index, size - 1, entry
    for step in proof:
        if last == 0:
            return False
        if at % 2 or at == last:
            found = row_node(step, found)
            while at % 2 == 0 and at:
                at, last = at // 2, last // 2
        else:
            found = row_node(found, step)
        at, last = at // 2, last // 2
    return last == 0 and found == root


def _hash(text: str) -> bytes:
    found = _base64(text, "hash", PROOF)
    if len(found) != hashlib.sha256().digest_size:
        _reject(f"{PROOF}: {text[:60]!r} is no SHA-256 in base64")
    return found


def _note_signer(
    text: str, origin: str, signatures: str, trust: Sequence[Signer]
) -> tuple[str, datetime]:
    """The trusted key that signed a checkpoint plainly and with the time, and that time."""
    found: list[bytes] = []
    for line in signatures.removesuffix("\n").split("\n"):
        name, gap, data = line.removeprefix(_SIGNED_BY).partition(" ")
        if not line.startswith(_SIGNED_BY) or not gap or not _ORIGIN.fullmatch(name):
            _reject(f"{PROOF}: {line[:60]!r} is no line of a signature")
        signature = _base64(data, "a signature", PROOF)
        if len(signature) <= len(b"hash"):
            _reject(f"{PROOF}: {line[:60]!r} has no signature")
        found += [signature] if name == origin else []
    for signer in (each for each in trust if SEALING in each.roles):
        kinds = (hashlib.sha256(origin.encode() + b"\n" + kind + signer.key).digest()[:4]
                 for kind in (b"\x01", b"\x04"))  # fmt: skip
        plain, timed = ([each[4:] for each in found if each[:4] == kind] for kind in kinds)
        if not plain:
            continue
        if not timed:
            _reject(f"{PROOF}: {signer.name} does not say when it was signed")
        for signature in plain:
            require_fit(signer, signature, text.encode(), PROOF)
        seconds = 0
        for signature in timed:
            seconds = int.from_bytes(signature[:_TIME_BYTES], "big")
            if seconds > _LATEST:
                _reject(f"{PROOF}: signed at no time: {seconds}")
            message = f"cosignature/v1\ntime {seconds}\n{text}".encode()
            require_fit(signer, signature[_TIME_BYTES:], message, PROOF)
        at = datetime.fromtimestamp(seconds, UTC)
        check_time(signer, at, PROOF)
        return signer.name, at
    raise Rejected(f"{PROOF}: no signature of its log by a key that is trusted as {SEALING}")


def _stamped_at(token: bytes, envelope: bytes) -> datetime:
    """When the time stamp says that the envelope was there; its signature is not checked."""
    if len(token) > MAX_MORE_BYTES:
        _reject(f"{STAMP}: more than {MAX_MORE_BYTES} bytes")
    [answer] = _parts(token, _SEQUENCE)
    state, content = _parts(answer, _SEQUENCE, _SEQUENCE)
    [status] = _parts(state, _INTEGER, has_more=True)
    kind, wrapped = _parts(content, _NAME_OF, _OWN)
    [signed] = _parts(wrapped, _SEQUENCE)
    *_, told = _parts(signed, _INTEGER, _SET, _SEQUENCE, has_more=True)
    sort, quoted = _parts(told, _NAME_OF, _OWN)
    [text] = _parts(quoted, _OCTETS)
    [info] = _parts(text, _SEQUENCE)
    *_, imprint, _, time = _parts(
        info, _INTEGER, _NAME_OF, _SEQUENCE, _INTEGER, _TIME, has_more=True
    )
    algorithm, digest = _parts(imprint, _SEQUENCE, _OCTETS)
    [name] = _parts(algorithm, _NAME_OF, has_more=True)
    names = [kind, sort, name]
    if status not in (b"\x00", b"\x01") or names != [_SIGNED_DATA, _TST_INFO, _SHA256]:
        _reject(f"{STAMP}: not a time stamp over a SHA-256")
    if digest != hashlib.sha256(envelope).digest():
        _reject(f"{STAMP}: over another envelope")
    return _general_time(time)


def _parts(data: bytes, *tags: int, has_more: bool = False) -> list[bytes]:
    """The contents of the elements with these tags; others follow only where `has_more`."""
    found = _der(data)
    kinds = [tag for tag, _ in found]
    if kinds[: len(tags)] != list(tags) or (len(kinds) > len(tags) and not has_more):
        _reject(f"{STAMP}: not an answer with a token")
    return [content for _, content in found[: len(tags)]]


_INTEGER, _OCTETS, _NAME_OF, _TIME, _SEQUENCE, _SET, _OWN = 0x02, 0x04, 0x06, 0x18, 0x30, 0x31, 0xA0
_SIGNED_DATA: Final = bytes.fromhex("2a864886f70d010702")
_TST_INFO: Final = bytes.fromhex("2a864886f70d0109100104")
_SHA256: Final = bytes.fromhex("608648016503040201")
_GENERAL_TIME: Final = re.compile(rb"([0-9]{14})(?:\.[0-9]{1,9})?Z")


def _general_time(data: bytes) -> datetime:
    """The time to its second."""
    found = _GENERAL_TIME.fullmatch(data)
    if found is None:
        _reject(f"{STAMP}: it says no time")
    try:
        return datetime.strptime(found[1].decode(), "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError as error:
        raise Rejected(f"{STAMP}: it says no time: {error}") from error


def _der(data: bytes) -> list[tuple[int, bytes]]:
    """(tag, content) of the elements that stand after each other in DER."""
    found, at = [], 0
    while at < len(data):
        head = data[at : at + 2]
        at += 2
        length = head[-1]
        if length >= _LONG:
            digits = data[at : at + length - _LONG]
            at += length - _LONG
            length = int.from_bytes(digits, "big")
            if not digits or len(digits) > 4 or digits[0] == 0 or length < _LONG:
                _reject(f"{STAMP}: not DER")
        if len(head) < 2 or at + length > len(data):
            _reject(f"{STAMP}: not DER")
        found.append((head[0], data[at : at + length]))
        at += length
    return found


_LONG: Final = 0x80


def _check_predicate(
    predicate: Any, manifest: Mapping[str, Any], seen: _Seen, hidden: Sequence[str]
) -> None:
    """The predicate is what the manifest and the summary make, as far as they are disclosed."""
    where = "envelope.json: predicate"
    kinds = {"configuration": list, "result": str, **dict.fromkeys(_TESTS, list)}
    _shape(predicate, kinds, where)
    told = [
        {"clause": name, "stage": "", "truth": truth}
        for tests, truth in _TESTS.items()
        for name in predicate[tests]
    ]
    if not all(isinstance(each["clause"], str) for each in told):
        _reject(f"{where}: a test has no name")
    if fold(told) != manifest["verdict"]:
        _reject(f"{where}: its tests do not make the manifest's {manifest['verdict']}")
    if SUMMARY in seen.said:
        told = seen.said[SUMMARY]["clauses"]
    match predicate["configuration"]:
        case [{"digest": {"statediffLeaf": str(contract)}}]:
            pass
        case _:
            raise Rejected(f"{where}: its configuration is not the contract, by its leaf")
    if predicate != predicate_of(manifest, told, contract):
        _reject(f"{where}: not what the manifest and the summary say")
    if contract not in (seen.contract or hidden):
        _reject(f"{where}: no leaf is the contract that it names")


class _Seen(NamedTuple):
    """The leaves met so far, while the disclosed ones are read."""

    paths: dict[str, int]
    """Place → the number of its leaf among the disclosed."""
    tags: Counter[str]
    said: dict[str, Any]
    """Place → value of each rest, of the summary, and of each clause of the judgement."""
    binding: dict[str, Any]
    """Place → value of what the states are bound by, and of the rows that are shown."""
    contract: list[str]
    """The hash of the contract's leaf; empty where that is withheld."""


def _leaves(data: bytes, most: int) -> tuple[list[bytes], list[str], _Seen]:
    """The bytes of the disclosed leaves, the withheld hashes, and what was met meanwhile.

    Leaf by leaf: read, checked, encoded again and let go. That what was encoded makes the very
    bytes of the file shows that the whole is canonical, however it was taken apart.
    """
    if len(data) > MAX_BYTES:
        _reject(f"leaves.json: more than {MAX_BYTES} bytes")
    encoded, at = list[bytes](), len(_LEAD)
    paths, tags, said, binding, contract = seen = _Seen({}, Counter(), {}, {}, [])
    known: set[tuple[str, str]] = set()
    try:
        text = data.decode("utf-8")
        while text.startswith("[", at):
            if len(encoded) == most:
                _reject(f"leaves.json: more leaves than the {most} that were signed")
            entry, end = _DECODER.raw_decode(text, at)
            tag, _salt, path, value = _leaf(entry, known)
            paths[path] = len(encoded)
            tags[tag] += 1
            if path.endswith("#") or path.startswith(_CLAUSE):
                said[path] = value
            if "/rows/" in path or path.startswith(_BINDING):
                binding[path] = value
            encoded.append(canonical(entry))
            if path == CONTRACT:
                contract.append(leaf_hash(encoded[-1]).hex())
            _shallow(encoded[-1], "leaves.json", MAX_DEPTH - 2)
            at = end + 1
        rest = _DECODER.decode("{" + text[text.index(_THEN, at) :])
    except (ValueError, RecursionError) as error:
        raise Rejected(f"leaves.json: not canonical JSON: {error}") from error
    _shape(rest, {"withheld": list}, "leaves.json")
    hidden = rest["withheld"]
    if not all(isinstance(entry, str) and _HEX.fullmatch(entry) for entry in hidden):
        _reject("leaves.json: what is withheld is not a list of hashes")
    if leaves_file(encoded, hidden) != data:
        _reject("leaves.json: the bytes are not in canonical form")
    if hidden != sorted(hidden):
        _reject("leaves.json: the hashes are not in order")
    if len(paths) != len(encoded):
        _reject("leaves.json: two leaves stand at one place")
    return encoded, hidden, seen


def leaves_file(encoded: Sequence[bytes], withheld: Sequence[str]) -> bytes:
    """The bytes of `leaves.json`; both lists in the order of the leaves' hashes."""
    return b'{"disclosed":[%s],"withheld":%s}' % (b",".join(encoded), canonical(list(withheld)))


def _loose(data: bytes, name: str, most: int) -> Any:
    """The document in JSON without floats, large numbers and names that stand twice."""
    if len(data) > most:
        _reject(f"{name}: more than {most} bytes")
    try:
        return _DECODER.decode(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Rejected(f"{name}: not canonical JSON: {error}") from error


def _shallow(data: bytes, name: str, depth: int) -> None:
    """JSON with no more brackets than that, or none that stand deeper."""
    if data.count(b"[") + data.count(b"{") <= depth:
        return
    brackets = _STRING.sub(b"", data).translate(_ROUND, _REST)
    for _ in range(depth):
        brackets = brackets.replace(b"[]", b"")  # takes the innermost level away
    if brackets:
        _reject(f"{name}: nested deeper than {MAX_DEPTH} levels")


@contextmanager
def uncollected() -> Iterator[None]:
    """Nothing looks for cycles meanwhile: JSON has none, and looking takes half of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _leaf(entry: Any, known: set[tuple[str, str]]) -> Leaf:
    """The leaf. `known` are the tags that were found right, each with its file."""
    match entry:
        case [str(tag), str(salt), [str(path), value]] if _SALT.fullmatch(salt):
            name, mark, _ = path.partition("#")
            if mark and (tag, name) in known:
                return Leaf(tag, salt, path, value)
            if mark and _TAG.fullmatch(tag):
                if tag.partition("/")[2] != _kind(path):
                    _reject(f"leaves.json: a leaf at {path[:80]!r} has the tag {tag[:80]!r}")
                known.add((tag, name))
                return Leaf(tag, salt, path, value)
        case _:
            pass
    raise Rejected("leaves.json: a leaf is [tier/kind, salt, [path, value]]")


def _kind(path: str) -> str:
    """The kind of the leaves at a place: `fragments` at `fragments.json#/0/rows/3`."""
    if path.startswith("raw/"):
        return "raw"
    return path.partition("#")[0].partition(".")[0]


def kinds_of(tags: Mapping[str, int]) -> Counter[str]:
    """Kind → how many leaves of it there are, at all tiers."""
    found = Counter[str]()
    for tag, count in tags.items():
        found[tag.partition("/")[2]] += count
    return found


def _check_closed(
    seen: _Seen, tags: Mapping[str, int], disclosed: Sequence[bytes]
) -> dict[str, dict[str, int]]:
    """Each leaf is at a place that its file has, and each file has as many leaves as it says.

    As far as the rest of the file is disclosed, whose cuts are returned by its name.
    """
    kinds, cuts = kinds_of(tags), dict[str, dict[str, int]]()
    for name in PIECES:
        if f"{name}#" not in seen.paths:
            continue
        rest = seen.said[f"{name}#"]
        cuts[name] = dict(cuts_of(rest, name))
        if kinds[_kind(name)] != 1 + sum(cuts[name].values()):
            _reject(f"leaves.json: {name} has another number of leaves than it says")
        _check_cuts(name, rest[0], cuts[name], seen, disclosed)
    lengths: dict[str, int] = {}
    for path in seen.paths:
        if path.endswith("#") and (path.startswith("raw/") or path in _LONE):
            continue
        array, _, number = path.rpartition("/")
        length = lengths.get(array)
        if length is None:
            name, _, pointer = array.partition("#")
            is_place = _is_cut(name, pointer)
            length = cuts.get(name, {pointer: MAX_LEAVES}).get(pointer, 0) if is_place else 0
            lengths[array] = length
        if not _INDEX.fullmatch(number) or int(number) >= length:
            _reject(f"leaves.json: no file has a place for a leaf at {path[:80]!r}")
    return cuts


_LONE: Final = frozenset(
    {SUMMARY, COUNTEREXAMPLE, REVIEW, WITHHELD, *(f"{name}#" for name in PIECES)}
)
"""The places of leaves that are no element of an array."""
_KINDS: Final = frozenset(_kind(place) for place in _LONE) | {"raw"}
_MANY: Final = frozenset(_kind(name) for name, cut in PIECES.items() if cut) | {"raw"}
"""The kinds of which there may be more leaves than one."""
_AUDITORS: Final = ("raw", "undisclosed")


def _is_cut(name: str, pointer: str) -> bool:
    """True if `PIECES` has an array at that pointer."""
    places = PIECES.get(name, ())
    steps = pointer.split("/")
    return any(
        len(steps) == len(wanted)
        and all(
            _INDEX.fullmatch(step) if want == "*" else step == want
            for step, want in zip(steps, wanted, strict=True)
        )
        for wanted in (place.split("/") for place in places)
    )


def _check_cuts(
    name: str, document: Any, cuts: Mapping[str, int], seen: _Seen, disclosed: Sequence[bytes]
) -> None:
    """The cuts in a file are all that have to be, each array from where it is empty now."""
    for place in PIECES[name]:
        if any(array != [] for _, array in arrays_at(document, place, name)):
            _reject(
                f"leaves.json: {name}# holds elements of {place}, which are leaves of their own"
            )
    for pointer in cuts:
        value, steps = document, pointer.split("/")[1:]
        for at in range(1, len(steps)):
            holder = "/" + "/".join(steps[:at])
            if holder in cuts:
                number = seen.paths.get(f"{name}#{holder}/{steps[at]}")
                value = None if number is None else json.loads(disclosed[number])[2][1]
                steps = [] if number is None else steps[at + 1 :]
                break
        if not _is_cut(name, pointer) or (steps and value_at(value, steps) != []):
            _reject(f"leaves.json: {name}# has no empty array at {pointer[:80]!r}")


def value_at(value: Any, steps: Sequence[str]) -> Any:
    """The value at the end of these steps; None where there is none."""
    for step in steps:
        if isinstance(value, list):
            is_there = _INDEX.fullmatch(step) and int(step) < len(value)
            value = value[int(step)] if is_there else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value


def arrays_at(value: Any, place: str, name: str, pointer: str = "") -> Iterator[tuple[str, Any]]:
    """(pointer, array) of each array of a file at a place of `PIECES`. Raises `Rejected`."""
    _, _, rest = place.partition("/")
    first, mark, others = rest.partition("/")
    others = f"/{others}" if mark else ""
    if not place:
        if not isinstance(value, list):
            _reject(f"{name}: no array of its pieces at {pointer[:80]!r}")
        yield pointer, value
    elif first == "*" and isinstance(value, list):
        for number, each in enumerate(value):
            yield from arrays_at(each, others, name, f"{pointer}/{number}")
    elif first != "*" and isinstance(value, dict) and first in value:
        yield from arrays_at(value[first], others, name, f"{pointer}/{first}")
    else:
        _reject(f"{name}: no array of its pieces at '{pointer[:80]}{place}'")


def _check_whole(seen: _Seen, cuts: Mapping[str, Mapping[str, int]]) -> None:
    """Every file is there, and so every piece that was cut out of it; its matchings are as many.

    For all leaves of the kind of a file are disclosed, as many as it says, each at its own place.
    Otherwise evidence would be withheld under the tag of raw captures, which no decision needs.
    """
    for name in PARTS:
        if name not in cuts:
            _reject(f"leaves.json: nothing but raw captures is withheld, and {name} is missing")
    told = {name: seen.said[f"{name}#"][0] for name in _MATCHINGS}
    counts = {
        name: len(each) if isinstance(each, list) else -1
        for name, each in {
            **told,
            "captures.json": told["captures.json"]["enumerations"],
            "resolution.json": told["resolution.json"]["mappings"],
        }.items()
    }
    if len(set(counts.values())) != 1:
        _reject("leaves.json: the files of the bundle have different numbers of matchings")


_MATCHINGS: Final = ("captures.json", "fragments.json", "index.json", "resolution.json")


def _check_files(said: Mapping[str, Any], tags: Mapping[str, int]) -> None:
    """The inner manifest, where it is disclosed, lists the files that there are leaves of."""
    if "manifest.json#" not in said:
        return
    inner = said["manifest.json#"][0]
    form, files = inner.get("format"), inner.get("files")
    if form not in (BOUND, UNBOUND) or not isinstance(files, dict):
        _reject(f"manifest.json: not of format {BOUND}, with its files")
    kinds = kinds_of(tags)
    more = (STATE_ROOTS, *([OBSERVATION] if kinds[_kind(OBSERVATION)] else []))
    expected = {*PARTS, *(more if form == BOUND else ())} - {"manifest.json"}
    if set(files) != expected or any(
        (name in files) != bool(kinds[_kind(name)]) for name in (STATE_ROOTS, OBSERVATION)
    ):
        _reject("manifest.json: its files are not those that there are leaves of")


def cuts_of(rest: Any, name: str) -> list[tuple[str, int]]:
    """(pointer, length) of every array that was cut out of a file; a rest is [document, these].

    Raises `Rejected`.
    """
    match rest:
        case [_, [*cuts]] if all(
            isinstance(cut, list) and [type(each) for each in cut] == [str, int]
            and 0 <= cut[1] <= MAX_LEAVES for cut in cuts
        ) and len(dict(cuts)) == len(cuts):  # fmt: skip
            return [(pointer, length) for pointer, length in cuts]
    raise Rejected(f"leaves.json: {name}# is not [document, [[pointer, length], ...]]")


def _check_agreement(manifest: Mapping[str, Any], said: Mapping[str, Any]) -> None:
    """Reject leaves that say anything else of the verdict than the manifest does.

    A verdict that does not follow from its evidence is for a replay to find.
    """
    verdict = manifest["verdict"]
    clauses = results = None
    if SUMMARY in said:
        _shape(said[SUMMARY], {"clauses": list, "codes": list, "results": dict}, SUMMARY)
        clauses, results = said[SUMMARY]["clauses"], said[SUMMARY]["results"]
        if fold(clauses) != verdict:
            _reject(f"{SUMMARY}: its clauses do not make the manifest's {verdict}")
        _check_results(results, verdict)
    if "judgement.json#" in said:
        cuts = cuts_of(said["judgement.json#"], "judgement.json")
        judgement = said["judgement.json#"][0]
        if not isinstance(judgement, dict) or judgement.get("verdict") != verdict:
            _reject(f"judgement.json: it does not say the manifest's {verdict}")
        if results is not None and judgement.get("results") != results:
            _reject("judgement.json: its results are not those of the summary")
        if clauses is not None and dict(cuts).get("/clauses") != len(clauses):
            _reject("judgement.json: its clauses are not those of the summary")
    if clauses is not None:
        summed = {f"{_CLAUSE}{number}": clause for number, clause in enumerate(clauses)}
        for place, clause in said.items():
            if place.startswith(_CLAUSE) and not _says(clause, summed.get(place)):
                _reject(f"{place[:80]!r}: not what the summary says of it")
    if "manifest.json#" in said:
        inner = said["manifest.json#"]
        cuts_of(inner, "manifest.json")
        for name in FACTS:
            if not isinstance(inner[0], dict) or inner[0].get(name) != manifest[name]:
                _reject(f"manifest.json: `{name}` is not what the sealed bundle says")


def fold(clauses: Sequence[Any]) -> str:
    """The verdict over clauses: a violation beats what is unknown; no clause at all is unknown."""
    worst = -1
    for clause in clauses:
        _shape(clause, {"clause": str, "stage": str, "truth": str}, f"{SUMMARY}: clause")
        if clause["truth"] not in _FOLD:
            _reject(f"{SUMMARY}: {clause['truth'][:80]!r} is no truth")
        worst = max(worst, VERDICTS.index(_FOLD[clause["truth"]]))
    return VERDICTS[worst] if clauses else "INCONCLUSIVE"


def _check_results(results: Any, verdict: str) -> None:
    """The three results beside the verdict, each null or one; the worst of them is the verdict."""
    _shape(results, dict.fromkeys(RESULTS, object), f"{SUMMARY}: results")
    given = [each for each in results.values() if each is not None]
    if any(each not in VERDICTS for each in given):
        _reject(f"{SUMMARY}: a result is no verdict")
    if given and VERDICTS[max(map(VERDICTS.index, given))] != verdict:
        _reject(f"{SUMMARY}: its results do not make the manifest's {verdict}")


def _says(clause: Any, summed: Mapping[str, Any] | None) -> bool:
    if summed is None or not isinstance(clause, dict):
        return False
    return all(clause.get(name) == told for name, told in summed.items())


def _withheld(found: Mapping[str, int], tags: Mapping[str, int]) -> dict[str, int]:
    """How many of each tag are withheld: as many in all as there are withheld hashes.

    For the signed tags add up to the leaves, there are as many leaves as were signed, and no tag
    has more than was signed.
    """
    for tag, count in found.items():
        if count > tags.get(tag, 0):
            _reject(f"leaves.json: more leaves of {tag!r} than were signed")
    missing = {tag: count - found.get(tag, 0) for tag, count in sorted(tags.items())}
    return {tag: count for tag, count in missing.items() if count}


def _signer(entry: Any, needed: int) -> Signer:
    keys = {"name": str, "key": str, "roles": list, "from": object, "until": object}
    _shape(entry, keys, "trust file: key")
    if not _HEX.fullmatch(entry["key"]):
        _reject(f"trust file: the key of {entry['name']!r} is not 64 hexadecimal digits")
    if not _is_strong(bytes.fromhex(entry["key"])):
        _reject(f"trust file: the key of {entry['name']!r} is of small order, or encoded otherwise")
    if not _NAME.fullmatch(entry["name"]):
        _reject("trust file: a name has 1 to 200 characters, and no control character")
    if not all(isinstance(role, str) and _NAME.fullmatch(role) for role in entry["roles"]):
        _reject(f"trust file: the roles of {entry['name']!r} are not a list of words")
    limits = [
        None if entry[side] is None else instant(entry[side], f"trust file: {side}")
        for side in ("from", "until")
    ]
    key, roles = bytes.fromhex(entry["key"]), tuple(entry["roles"])
    return Signer(entry["name"], key, roles, limits[0], limits[1], needed)


def _is_strong(key: bytes) -> bool:
    """True if libraries agree about this key: its one encoding, and of more than 8 points."""
    height = int.from_bytes(key, "little") % 2**255
    return height < _PRIME and height not in _WEAK


def instant(text: object, where: str) -> datetime:
    """The instant that a text names in the one form of bundles, aware UTC. Raises `Rejected`."""
    if not isinstance(text, str) or not _INSTANT.fullmatch(text):
        _reject(f"{where}: expected an instant such as 2026-01-31T09:00:00+00:00")
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise Rejected(f"{where}: {error}") from error


def _shape(document: Any, keys: Mapping[str, type], where: str) -> None:
    if not isinstance(document, dict) or set(document) != set(keys):
        _reject(f"{where}: expected exactly {', '.join(sorted(keys))}")
    for key, kind in keys.items():
        value = document[key]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            _reject(f"{where}: {key} is not of its kind")


def _base64(text: str, name: str, where: str = "envelope.json") -> bytes:
    try:
        data = base64.b64decode(text)
    except ValueError as error:
        raise Rejected(f"{where}: {name} is not base64") from error
    if base64.b64encode(data).decode() != text:
        _reject(f"{where}: {name} is not the one base64 of its bytes")
    return data


def _ordered(document: Any) -> str:
    if isinstance(document, dict):
        members = sorted(document.items(), key=lambda member: member[0].encode("utf-16-be"))
        return "{" + ",".join(f"{_ordered(k)}:{_ordered(v)}" for k, v in members) + "}"
    if isinstance(document, list | tuple):
        return "[" + ",".join(map(_ordered, document)) + "]"
    return _ENCODER.encode(document)


def _reject(why: str) -> NoReturn:
    raise Rejected(why)


def main(arguments: Sequence[str]) -> int:
    """Print a copy's facts as one JSON object; the exit code."""
    if len(arguments) != 2:
        sys.stderr.write("usage: python verify.py SEALED TRUST\n")
        return 2
    sealed, trust = map(Path, arguments)
    try:
        known = read_trust(_file(trust.resolve()))
        found = verify(read_copy(sealed), known)
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except Rejected as error:
        sys.stdout.write(json.dumps({"status": "INVALID", "why": str(error)}) + "\n")
        return 4
    answer = {
        "status": found.status, "signers": found.signers, "verdict": found.manifest["verdict"],
        "withheld": found.withheld, "states": found.states, "logged": None, "stamp": None,
        "observed": None,
    }  # fmt: skip
    if found.observed is not None:
        answer["observed"] = {**vars(found.observed), "at": found.observed.at.isoformat()}
    if found.logged is not None:
        answer["logged"] = {**vars(found.logged), "at": found.logged.at.isoformat()}
    if found.stamped_at is not None:
        answer["stamp"] = {"at": found.stamped_at.isoformat(), "authority": "not checked"}
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0 if found.status == "VALID" else 3


def _file(path: Path) -> bytes:
    """The bytes of a regular file; a link, a pipe or a very large one is no part of a copy."""
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
        _reject(f"{path.name}: not a regular file of at most {MAX_BYTES} bytes")
    return path.read_bytes()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
