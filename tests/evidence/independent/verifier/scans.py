"""Check whole types under the roots (R-SCAN)."""

from __future__ import annotations

import json
import struct
from itertools import accumulate
from typing import Any

from .basics import ZERO, is_hex, need, sha
from .blake3 import blake3
from .opening import Bundle, CannotTell

SIDES = ("before", "after")
FORMS = {"int": "int64", "text": "string"}


def _sort_key(key: list[Any]) -> list[Any]:
    parts: list[Any] = []
    for value in key:
        if value[0] == "int":
            parts.append(int(value[1]))
        elif value[0] == "text":
            parts.append(value[1])
        else:
            raise CannotTell("keys of other kinds")
    return parts


def _buffer(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + data


def _presence(nulls: list[bool]) -> bytes:
    """Return the buffer that says which rows have a value; none if all have one."""
    if not any(nulls):
        return b""
    bits = bytearray((len(nulls) + 7) // 8)
    for place, null in enumerate(nulls):
        bits[place // 8] |= (not null) << (place % 8)
    return _buffer(bytes(bits))


def chunk_digest(name: str, kind: str, values: list[list[Any]]) -> bytes:
    """Return the digest of one column of one chunk (R-SCAN-2)."""
    if all(value[0] == "absent" for value in values):
        return ZERO
    if any(value[0] not in ("null", kind) for value in values):
        raise CannotTell("a column of mixed kinds")
    nulls = [value[0] == "null" for value in values]
    head = json.dumps([name, kind, FORMS[kind]])[:-1]
    data = f"{head}, {len(values)}, {sum(nulls)}]".encode() + _presence(nulls)
    if kind == "int":
        numbers = [0 if value[0] == "null" else int(value[1]) for value in values]
        need(all(-(2**63) <= item < 2**63 for item in numbers), "R-SCAN-2 more than 64 bits")
        return blake3(data + _buffer(struct.pack(f"<{len(numbers)}q", *numbers)))
    texts = [b"" if value[0] == "null" else value[1].encode() for value in values]
    offsets = [0, *accumulate(len(item) for item in texts)]
    need(offsets[-1] < 2**31, "R-SCAN-2 too long")
    places = struct.pack(f"<{len(offsets)}I", *offsets)
    return blake3(data + _buffer(places) + _buffer(b"".join(texts)))


def _column(name: str, kind: str, members: list[Any], counts: list[int], entry: list[Any]) -> None:
    values: list[list[Any]] = []
    for _, fields in members:
        found = [value for field, value in fields if field == name]
        need(len(found) <= 1, "R-SCAN-2 a field twice")
        values.append(found[0] if found else ["absent"])
    content, place = b"", 0
    for count in counts:
        if count:
            content += chunk_digest(name, kind, values[place : place + count])
        place += count
    need(is_hex(entry[1], 64) and is_hex(entry[2], 32), "R-SCAN-2 a column that is not open")
    need(sha(bytes.fromhex(entry[2]) + content).hex() == entry[1], "R-SCAN-2")


def _entry(scan: dict[str, Any], scanned: list[Any]) -> dict[str, Any]:
    """Return the entry of `scanned` for a scan; a verified copy has one (R-SCAN-1)."""
    place = (scan["type"], scan["side"])
    entries = [entry for entry in scanned if (entry["type"], entry["side"]) == place]
    need(len(entries) == 1, "R-SCAN-1 no entry")
    found: dict[str, Any] = entries[0]
    return found


def _members(scan: dict[str, Any], schema: dict[str, Any]) -> list[Any]:
    """Return the members of a scan in the order of their keys."""
    if not schema["key"]:
        raise CannotTell("a scan of a type without a key")
    try:
        members = sorted(scan["members"], key=lambda member: _sort_key(member[0]))
    except TypeError as error:
        raise CannotTell("keys of several kinds") from error
    for key, fields in members:
        held = dict(fields)
        need([held.get(name) for name in schema["key"]] == key, "R-SCAN-2 key")
    return members


def _scan(scan: dict[str, Any], schema: dict[str, Any], scanned: list[Any]) -> None:
    entry = _entry(scan, scanned)
    members = _members(scan, schema)
    kinds = {field["name"]: field["kind"] for field in schema["fields"]}
    columns = {column[0]: column for column in entry["columns"]}
    need(len(columns) == len(entry["columns"]), "R-SCAN-1 a column twice")
    for name in sorted(set(scan["fields"]) | set(schema["key"])):
        need(name in kinds and name in columns, "R-SCAN-2 no such column")
        if kinds[name] not in FORMS:
            raise CannotTell("a column of another kind")
        _column(name, kinds[name], members, entry["counts"], columns[name])


def _check_coverage(matching: list[Any], owners: dict[str, list[Any]]) -> None:
    for side, kind, (coverage, *_) in matching:
        if coverage != "complete":
            continue
        need(kind in owners and side in SIDES, "R-SCAN-3")
        for entry in owners[kind]:
            found = entry[2] if side == "before" or entry[3] is True else entry[3]
            need(found is not None and found[0] == "complete", "R-SCAN-3")


def check_scans(bundle: Bundle) -> None:
    """Check scans and coverage against roots.json (R-SCAN)."""
    roots = bundle.documents.get("roots.json")
    if roots is None:
        return
    schemas = {entry["name"]: entry for entry in bundle.documents["schema.json"]["types"]}
    owners: dict[str, list[Any]] = {}
    for entry in roots["types"]:
        owners.setdefault(entry[1], []).append(entry)
    for part in bundle.documents["fragments.json"]:
        for scan in part["scans"]:
            if scan["side"] not in SIDES or len(owners.get(scan["type"], [])) != 1:
                raise CannotTell("a scan of a type of several sources, or of another side")
            need(scan["type"] in schemas, "R-SCAN-1 no such type")
            _scan(scan, schemas[scan["type"]], roots["scanned"])
    for matching in bundle.documents["captures.json"]["enumerations"]:
        _check_coverage(matching, owners)
