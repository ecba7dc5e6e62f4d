"""Open sealed copies: files, envelope, manifest, leaves (R-BOX, R-ZIP, R-ENV, R-MAN, R-LEAF)."""

from __future__ import annotations

import re
import struct
import zlib
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from .basics import (
    COPY_DEPTH,
    ZERO,
    canonical,
    fold,
    instant,
    is_hex,
    is_number,
    members,
    need,
    read_canonical,
    sha,
    sha_hex,
    signed_by,
    texts,
    unbase64,
)
from .beside import PROOF, STAMP, check_beside
from .trust import Key, Trust, find_key

NAMES = ("envelope.json", "leaves.json", "manifest.json")
SMALL = 1_048_576
MOST_FILES = 5
LARGE = 536_870_912
MOST_LEAVES = 2_000_000
KINDS = (
    "answer captures contract fragments index judgement "
    "manifest resolution schema timeline trace trial"
).split()
OTHERS = "counterexample observation raw review roots summary undisclosed".split()
MANY = "captures fragments judgement observation raw resolution trace".split()
TAG = re.compile(r"(public|reviewer|auditor)/([a-z]+)")
PAYLOAD_TYPE = "application/vnd.in-toto+json"
RESULTS = {"MATCH": "PASSED", "INCONCLUSIVE": "WARNED", "DIVERGE": "FAILED"}
TYPES = {"statediff/sealed/1.1": "https://in-toto.io/attestation/test-result/v0.1"}


@dataclass
class Copy:
    """A sealed copy whose envelope, manifest and leaves are in order."""

    manifest: dict[str, Any]
    signers: list[str]
    keys: list[str]
    predicate: dict[str, Any]
    leaves: dict[str, Any] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    hashes: dict[str, str] = field(default_factory=dict)
    withheld: list[str] = field(default_factory=list)
    missing: dict[str, int] = field(default_factory=dict)

    def document(self, name: str) -> Any:
        """Return the document of the rest of a file that is disclosed (R-REST-1)."""
        return rest(self.leaves.get(name + "#"))[0]


def rest(value: Any) -> tuple[Any, list[tuple[str, int]]]:
    """Return the document and the cuts of a rest, or refuse its form (R-REST-1)."""
    need(isinstance(value, list) and len(value) == 2 and isinstance(value[1], list), "R-REST-1")
    cuts: list[tuple[str, int]] = []
    for pair in value[1]:
        need(isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str), "R-REST-1")
        need(is_number(pair[1]) and 0 <= pair[1] <= 2_000_000, "R-REST-1")
        cuts.append((pair[0], pair[1]))
    need(len(dict(cuts)) == len(cuts), "R-REST-1 a pointer twice")
    return value[0], cuts


def check_names(files: dict[str, bytes]) -> None:
    """Refuse a copy that has a file more or fewer (R-BOX-1)."""
    need(set(NAMES) <= set(files) <= {*NAMES, PROOF, STAMP}, "R-BOX-1")


def write_zip(files: dict[str, bytes]) -> bytes:
    """Write the one zip of some files (R-ZIP-1 to R-ZIP-4)."""
    body, directory = b"", b""
    for name in sorted(files):
        data, label = files[name], name.encode()
        crc, size = zlib.crc32(data), len(data)
        common = struct.pack("<HHHHHIIIHH", 20, 0, 0, 0, 0x21, crc, size, size, len(label), 0)
        directory += b"PK\1\2" + struct.pack("<H", 0x0314) + common
        directory += struct.pack("<HHHII", 0, 0, 0, 0x01800000, len(body)) + label
        body += b"PK\3\4" + common + label + data
    count = len(files)
    end = struct.pack("<HHHHIIH", 0, 0, count, count, len(directory), len(body), 0)
    return body + directory + b"PK\5\6" + end


def read_zip(data: bytes) -> dict[str, bytes]:
    """Return the files of a zip, if it is the one that is written of them."""
    need(len(data) <= LARGE, "R-CAP-1 zip")
    files: dict[str, bytes] = {}
    place = 0
    while data[place : place + 4] == b"PK\3\4":
        head = data[place : place + 30]
        need(len(head) == 30 and len(files) < MOST_FILES, "R-ZIP-2")
        size, length = struct.unpack("<IH", head[22:28])
        start = place + 30 + length
        need(start + size <= len(data), "R-ZIP-2")
        name = data[place + 30 : start].decode("ascii", "replace")
        files[name] = data[start : start + size]
        place = start + size
    check_names(files)
    need(write_zip(files) == data, "R-ZIP-1")
    return files


def check_manifest(data: bytes) -> dict[str, Any]:
    """Return the manifest, or refuse it (R-MAN)."""
    need(len(data) <= SMALL, "R-CAP-1 manifest")
    names = "format kernel statediff trial contract contract_version verdict sealed_at"
    manifest = members(read_canonical(data, COPY_DEPTH), names + " tree", "R-MAN-1")
    texts(manifest, names, "R-MAN-1")
    need(manifest["format"] in TYPES and manifest["verdict"] in RESULTS, "R-MAN-2")
    instant(manifest["sealed_at"], "R-MAN-2")
    tree = members(manifest["tree"], "leaves root tags", "R-MAN-3")
    need(is_number(tree["leaves"]) and 1 <= tree["leaves"] <= MOST_LEAVES, "R-MAN-3")
    need(is_hex(tree["root"], 64) and isinstance(tree["tags"], dict), "R-MAN-3")
    kinds: dict[str, int] = {}
    for tag, count in tree["tags"].items():
        found = TAG.fullmatch(tag)
        need(found is not None and is_number(count) and count >= 1, "R-MAN-4")
        tier, kind = tag.split("/")
        kinds[kind] = kinds.get(kind, 0) + count
        need(kind not in ("raw", "undisclosed") or tier == "auditor", "R-MAN-7")
        need(kind != "review" or tier == "reviewer", "R-MAN-7")
    need(sum(tree["tags"].values()) == tree["leaves"], "R-MAN-4")
    need(set(KINDS) <= set(kinds), "R-MAN-5")
    need(kinds.get("summary") == 1 and tree["tags"].get("public/summary") == 1, "R-MAN-6")
    need(set(kinds) <= {*KINDS, *OTHERS}, "R-MAN-8 a kind of no bundle")
    need(all(kinds[kind] == 1 or kind in MANY for kind in kinds), "R-MAN-8 several of a kind")
    return manifest


def _check_predicate(predicate: Any, manifest: dict[str, Any]) -> None:
    lists = "failedTests warnedTests passedTests"
    document = members(predicate, "configuration result " + lists, "R-PRED-1")
    need(isinstance(document["configuration"], list), "R-PRED-1")
    need(isinstance(document["result"], str), "R-PRED-1")
    truths: list[str] = []
    for name, truth in zip(lists.split(), ("FAILS", "UNKNOWN", "HOLDS"), strict=True):
        tests = document[name]
        need(isinstance(tests, list) and all(isinstance(test, str) for test in tests), "R-PRED-1")
        truths += [truth] * len(tests)
    need(fold(truths) == manifest["verdict"], "R-PRED-2")
    need(document["result"] == RESULTS[manifest["verdict"]], "R-PRED-3")


def _signers(signatures: Any, payload: bytes, trust: Trust) -> list[Key]:
    need(isinstance(signatures, list) and len(signatures) == trust.threshold, "R-ENV-4")
    kind = PAYLOAD_TYPE.encode()
    message = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
    signers: list[Key] = []
    last = ""
    for value in signatures:
        signature = members(value, "keyid sig", "R-ENV-4")
        texts(signature, "keyid sig", "R-ENV-4")
        key = find_key(trust.keys, signature["keyid"], "evaluator", "R-ENV-5")
        need(last < signature["keyid"], "R-ENV-8")
        last = signature["keyid"]
        need(signed_by(key.raw, unbase64(signature["sig"]), message), "R-ENV-6")
        signers.append(key)
    return signers


def check_envelope(data: bytes, manifest_data: bytes, trust: Trust) -> Copy:
    """Return the beginnings of a copy if envelope and manifest are in order (R-ENV)."""
    need(len(data) <= SMALL, "R-CAP-1 envelope")
    document = read_canonical(data, COPY_DEPTH)
    envelope = members(document, "payload payloadType signatures", "R-ENV-1")
    texts(envelope, "payload payloadType", "R-ENV-1")
    need(envelope["payloadType"] == PAYLOAD_TYPE, "R-ENV-2")
    payload = unbase64(envelope["payload"])
    signers = _signers(envelope["signatures"], payload, trust)
    manifest = check_manifest(manifest_data)
    statement = read_canonical(payload, COPY_DEPTH)
    need(isinstance(statement, dict) and isinstance(statement.get("predicate"), dict), "R-ENV-3")
    predicate = statement["predicate"]
    subject = [{"digest": {"sha256": sha_hex(manifest_data)}, "name": "manifest.json"}]
    expected = {
        "_type": "https://in-toto.io/Statement/v1",
        "predicate": predicate,
        "predicateType": TYPES[manifest["format"]],
        "subject": subject,
    }
    need(canonical(expected) == payload, "R-ENV-3")
    _check_predicate(predicate, manifest)
    moment = instant(manifest["sealed_at"])
    need(all(key.counts(moment) for key in signers), "R-ENV-7")
    names, ids = [key.name for key in signers], [key.id for key in signers]
    return Copy(manifest, names, ids, predicate)


def kind_of(path: str) -> str:
    """Return the kind that a leaf's path gives it (R-LEAF-2)."""
    if path.startswith("raw/"):
        return "raw"
    return path.split("#", 1)[0].split(".", 1)[0]


def tree_root(hashes: list[bytes]) -> bytes:
    """Return the root over sorted hashes (R-LEAF-7)."""
    level = list(hashes)
    width = 1
    while width < len(level):
        width *= 2
    level += [ZERO] * (width - len(level))
    while len(level) > 1:
        level = [sha(b"\1" + level[i] + level[i + 1]) for i in range(0, len(level), 2)]
    return level[0]


def split_leaf(leaf: Any) -> tuple[str, str, Any]:
    """Return tag, path and value of a leaf, or refuse its form (R-LEAF-1, R-LEAF-2)."""
    need(isinstance(leaf, list) and len(leaf) == 3, "R-LEAF-1")
    tag, salt, content = leaf
    need(isinstance(tag, str) and TAG.fullmatch(tag) is not None and is_hex(salt, 32), "R-LEAF-1")
    need(isinstance(content, list) and len(content) == 2, "R-LEAF-1")
    need(isinstance(content[0], str) and "#" in content[0], "R-LEAF-1")
    need(kind_of(content[0]) == tag.split("/")[1], "R-LEAF-2")
    return tag, content[0], content[1]


def read_leaves(copy: Copy, data: bytes) -> None:
    """Read the leaves into the copy, or refuse them (R-LEAF)."""
    need(len(data) <= LARGE, "R-CAP-1 leaves")
    document = members(read_canonical(data, COPY_DEPTH), "disclosed withheld", "R-LEAF leaves.json")
    disclosed, withheld = document["disclosed"], document["withheld"]
    need(isinstance(disclosed, list) and isinstance(withheld, list), "R-LEAF leaves.json")
    need(len(disclosed) + len(withheld) <= MOST_LEAVES, "R-CAP-2")
    need(all(is_hex(item, 64) for item in withheld), "R-LEAF-3")
    need(all(a < b for a, b in pairwise(withheld)), "R-LEAF-4 withheld")
    last = ""
    counts: dict[str, int] = {}
    for leaf in disclosed:
        tag, path, value = split_leaf(leaf)
        digest = sha_hex(b"\0" + canonical(leaf))
        need(last < digest, "R-LEAF-4 disclosed")
        need(path not in copy.leaves, "R-LEAF-5 a path twice")
        last = digest
        copy.leaves[path], copy.tags[path], copy.hashes[path] = value, tag, digest
        copy.order.append(path)
        counts[tag] = counts.get(tag, 0) + 1
    everything = sorted(set(copy.hashes.values()) | set(withheld))
    need(len(everything) == len(disclosed) + len(withheld), "R-LEAF-5 a hash twice")
    tree = copy.manifest["tree"]
    need(len(everything) == tree["leaves"], "R-LEAF-6")
    need(all(count <= tree["tags"].get(tag, 0) for tag, count in counts.items()), "R-LEAF-6")
    need(tree_root([bytes.fromhex(item) for item in everything]).hex() == tree["root"], "R-LEAF-7")
    copy.withheld = withheld
    left = {tag: count - counts.get(tag, 0) for tag, count in tree["tags"].items()}
    copy.missing = {tag: count for tag, count in left.items() if count > 0}


def open_copy(files: dict[str, bytes], trust: Trust) -> Copy:
    """Open the files of a copy."""
    check_names(files)
    copy = check_envelope(files["envelope.json"], files["manifest.json"], trust)
    check_beside(files, copy.manifest, trust.keys)
    read_leaves(copy, files["leaves.json"])
    return copy
