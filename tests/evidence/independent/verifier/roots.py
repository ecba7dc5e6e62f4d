"""Check state roots and the rows under them (R-ROOT, R-ROW)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product
from typing import Any

from .basics import ZERO, Refused, canonical, is_hex, members, need, sha, texts
from .places import check_scans, count_of
from .sealed import Copy

SIDES = ("before", "after")
Piece = tuple[bytes, int, bytes]  # path, depth (256 for a leaf), hash
Pair = tuple[str, str]


@dataclass
class Opened:
    """One opened type: its rows by the canonical JSON of their key."""

    rows: dict[bytes, tuple[str, dict[str, str | None]]]


@dataclass
class Roots:
    """The content of roots.json, after its rules were checked."""

    paths: bytes
    types: dict[tuple[str, str], dict[str, Any]]
    opened: dict[tuple[str, str], Opened]
    scanned: list[Any]

    def owners(self, name: str) -> list[tuple[str, str]]:
        """Return the entries of types with this name."""
        return [entry for entry in self.types if entry[1] == name]


def _side(value: Any) -> None:
    if value is None:
        return
    need(isinstance(value, list) and len(value) == 3 and isinstance(value[0], str), "R-ROOT-2")
    need(is_hex(value[1], 64) and is_hex(value[2], 64), "R-ROOT-2")


def _types(listed: list[Any]) -> dict[tuple[str, str], dict[str, Any]]:
    types: dict[tuple[str, str], dict[str, Any]] = {}
    for entry in listed:
        need(isinstance(entry, list) and len(entry) == 4, "R-ROOT-2")
        source, name, before, after = entry
        need(isinstance(source, str) and isinstance(name, str), "R-ROOT-2")
        _side(before)
        if after is True:
            after = before
        _side(after)
        need(before is not None or after is not None, "R-ROOT-2")
        need((source, name) not in types, "R-ROOT-2")
        types[(source, name)] = {"before": before, "after": after}
    return types


def state_root(paths: str, types: dict[tuple[str, str], dict[str, Any]], side: str) -> str:
    """Return the root of one side (R-ROOT-3)."""
    listed = [[*name, *sides[side]] for name, sides in types.items() if sides[side] is not None]
    return sha(b"statediff/state-root/1\0" + bytes.fromhex(paths) + canonical(listed)).hex()


def _bits(path: bytes) -> int:
    return int.from_bytes(path, "big")


def _nodes(text: Any) -> list[Piece]:
    need(isinstance(text, str) and re.fullmatch("(?:[0-9a-f]{2})*", text) is not None, "R-ROOT-5")
    data = bytes.fromhex(text)
    pieces: list[Piece] = []
    place = 0
    while place < len(data):
        depth = data[place]
        size = (depth + 7) // 8
        prefix = data[place + 1 : place + 1 + size]
        digest = data[place + 1 + size : place + 33 + size]
        need(len(prefix) == size and len(digest) == 32, "R-ROOT-5")
        path = prefix + bytes(32 - size)
        need(_bits(path) & ((1 << (256 - depth)) - 1) == 0, "R-ROOT-5")
        pieces.append((path, depth, digest))
        place += 33 + size
    return pieces


def _tree(pieces: list[Piece], depth: int) -> bytes:
    if not pieces:
        return ZERO
    if len(pieces) == 1 and pieces[0][1] in (256, depth):
        return pieces[0][2]
    need(depth < 256 and all(piece[1] > depth for piece in pieces), "R-ROOT-8")
    sides: tuple[list[Piece], list[Piece]] = ([], [])
    for piece in pieces:
        sides[piece[0][depth // 8] >> (7 - depth % 8) & 1].append(piece)
    return sha(b"\1" + _tree(sides[0], depth + 1) + _tree(sides[1], depth + 1))


def _others(listed: list[Any]) -> list[Piece]:
    pieces: list[Piece] = []
    for pair in listed:
        need(isinstance(pair, list) and len(pair) == 2, "R-ROOT-6")
        need(is_hex(pair[0], 64) and is_hex(pair[1], 64), "R-ROOT-6")
        path = bytes.fromhex(pair[0])
        pieces.append((path, 256, sha(b"\0" + path + bytes.fromhex(pair[1]))))
    return pieces


def _row(row: Any) -> None:
    need(isinstance(row, list) and len(row) == 4, "R-ROOT-7")
    key, salt, before, after = row
    need(isinstance(key, list) and is_hex(salt, 32), "R-ROOT-7")
    need(all(side is None or is_hex(side, 64) for side in (before, after)), "R-ROOT-7")


def _open(entry: dict[str, Any], paths: bytes, sides: dict[str, Any]) -> Opened:
    nodes, others = _nodes(entry["nodes"]), _others(entry["others"])
    taken = {piece[0] for piece in others}
    prefixes = {(piece[1], _bits(piece[0]) >> (256 - piece[1])) for piece in nodes}
    depths = {piece[1] for piece in nodes}
    rows: dict[bytes, tuple[str, dict[str, str | None]]] = {}
    leaves: dict[str, list[Piece]] = {"before": [], "after": []}
    for row in entry["rows"]:
        _row(row)
        key, salt, before, after = row
        name = canonical(key)
        need(name not in rows, "R-ROOT-7")
        path = sha(paths + canonical([entry["source"], entry["type"], key]))
        need(path not in taken, "R-ROOT-7")
        need(all((d, _bits(path) >> (256 - d)) not in prefixes for d in depths), "R-ROOT-7")
        rows[name] = (salt, {"before": before, "after": after})
        for side, digest in rows[name][1].items():
            if digest is not None:
                leaves[side].append((path, 256, sha(b"\0" + path + bytes.fromhex(digest))))
    for side in SIDES:
        expected = ZERO.hex() if sides[side] is None else sides[side][1]
        need(_tree(nodes + others + leaves[side], 0).hex() == expected, "R-ROOT-8")
    return Opened(rows)


def read_roots(copy: Copy) -> tuple[Roots, dict[str, str]]:
    """Check what roots.json says, and return it with the roots of the states (R-ROOT)."""
    document = members(copy.document("roots.json"), "form paths types opened scanned", "R-ROOT-1")
    need(document["form"] == "statediff/roots/1" and is_hex(document["paths"], 64), "R-ROOT-1")
    lists = ("types", "opened", "scanned")
    need(all(isinstance(document[name], list) for name in lists), "R-ROOT-1")
    captures = copy.document("captures.json")
    need(isinstance(captures, dict), "R-ROOT-1")
    types = _types(document["types"])
    states = {side: state_root(document["paths"], types, side) for side in SIDES}
    need(captures.get("roots") == states, "R-ROOT-3")
    paths = bytes.fromhex(document["paths"])
    opened: dict[tuple[str, str], Opened] = {}
    for entry in document["opened"]:
        members(entry, "source type nodes others rows", "R-ROOT-4")
        texts(entry, "source type nodes", "R-ROOT-4")
        need(isinstance(entry["others"], list) and isinstance(entry["rows"], list), "R-ROOT-4")
        name = (entry["source"], entry["type"])
        need(name in types and name not in opened, "R-ROOT-4")
        opened[name] = _open(entry, paths, types[name])
    scanned = [_scanned(entry, types) for entry in document["scanned"]]
    return Roots(paths, types, opened, scanned), states


def _scanned(
    entry: Any, types: dict[tuple[str, str], dict[str, Any]]
) -> tuple[tuple[str, str], int]:
    """Return the type and side that were ranged over, and how many rows there were (R-SCAN-1)."""
    members(entry, "source type side salt counts columns", "R-SCAN-1")
    texts(entry, "source type side salt", "R-SCAN-1")
    need(isinstance(entry["counts"], list) and isinstance(entry["columns"], list), "R-SCAN-1")
    head = types.get((entry["source"], entry["type"]), {}).get(entry["side"])
    if head is None:
        raise Refused("R-SCAN-1 no such type and side")
    for column in entry["columns"]:
        need(isinstance(column, list) and len(column) == 3, "R-SCAN-1 columns")
        need(all(isinstance(part, str) for part in column[:2]), "R-SCAN-1 columns")
        need(column[2] is None or isinstance(column[2], str), "R-SCAN-1 columns")
    columns = [column[:2] for column in entry["columns"]]
    listed = canonical([entry["salt"], entry["counts"], columns])
    need(sha(listed).hex() == head[2], "R-SCAN-1 columns digest")
    return (entry["type"], entry["side"]), count_of(entry["counts"])


def _exempt(copy: Copy) -> tuple[set[tuple[str, str, str]], set[Pair]]:
    dark: set[tuple[str, str, str]] = set()
    known: set[tuple[str, str, str]] = set()
    keyless: set[str] = set()
    schema = copy.document("schema.json")
    types = schema.get("types") if isinstance(schema, dict) else None
    for entry in types if isinstance(types, list) else []:
        if (
            isinstance(entry, dict)
            and isinstance(entry.get("name"), str)
            and entry.get("key") == []
        ):
            keyless.add(entry["name"])
    rekeyed: set[Pair] = set()
    covered = re.compile(r"captures\.json#/enumerations/([0-9]+)/[0-9]+")
    mapped = re.compile(r"resolution\.json#/mappings/([0-9]+)/[0-9]+")
    for path, value in copy.leaves.items():
        found = mapped.fullmatch(path)
        if found is not None and isinstance(value, dict) and isinstance(value.get("type"), str):
            need(value["type"] in keyless, "R-ROW-6")
            rekeyed.add((found[1], value["type"]))
        found = covered.fullmatch(path)
        if found is None:
            continue
        if not isinstance(value, list) or not all(isinstance(x, str) for x in value[:2]):
            continue
        if len(value) < 2:
            continue
        place = (found[1], value[1], value[0])
        need(place not in known, "R-ROW-5")
        known.add(place)
        how = value[2] if len(value) == 3 and value[0] in SIDES else None
        if isinstance(how, list) and len(how) == 2 and how[0] == "unobserved":
            dark.add(place)
    return dark, rekeyed


def _check_row(roots: Roots, row: dict[str, Any], fields: Any) -> None:
    owners = roots.owners(row["type"])
    if row["presence"] == "UNOBSERVED" or len(owners) > 1:
        return
    if not owners:
        need(row["presence"] == "ABSENT", "R-ROW-2 no owner")
        return
    need(owners[0] in roots.opened, "R-ROW-2 not opened")
    rows = roots.opened[owners[0]].rows
    name = canonical(row["key"])
    need(name in rows, "R-ROW-2 no such key")
    salt, digests = rows[name]
    expected = None
    if row["presence"] == "PRESENT":
        expected = sha(bytes.fromhex(salt) + canonical(fields)).hex()
    need(digests[row["side"]] == expected, "R-ROW-2 digest")


def check_states(copy: Copy) -> dict[str, str]:
    """Check roots and rows of a whole copy, and return the roots of its states."""
    roots, states = read_roots(copy)
    dark, rekeyed = _exempt(copy)
    seen: set[tuple[str, str, bytes, str]] = set()
    form = re.compile(r"fragments\.json#/([0-9]+)/rows/[0-9]+")
    for path, row in copy.leaves.items():
        found = form.fullmatch(path)
        if found is None:
            continue
        need(isinstance(row, dict) and "fields" in row, "R-ROW-1")
        need(isinstance(row.get("key"), list), "R-ROW-1")
        texts(row, "side type presence", "R-ROW-1")
        side, kind = row["side"], row["type"]
        if side not in SIDES or (side == "after" and (found[1], kind) in rekeyed):
            continue
        seen.add((found[1], kind, canonical(row["key"]), side))
        _check_row(roots, row, row["fields"])
    captures = copy.document("captures.json")
    matchings = captures["enumerations"]
    _check_changes(
        roots, [str(n) for n in range(len(matchings))], {one[:2] for one in dark} | rekeyed, seen
    )
    _check_opened(roots, {kind for _, kind in rekeyed}, {(kind, key) for _, kind, key, _ in seen})
    owners: dict[str, list[Any]] = {}
    for (_, kind), sides in roots.types.items():
        owners.setdefault(kind, []).append(sides)
    check_scans(copy, roots.scanned, owners, dark)
    return states


def _check_opened(roots: Roots, rekeyed: set[str], seen: set[tuple[str, bytes]]) -> None:
    for entry, opened in roots.opened.items():
        need(len(roots.owners(entry[1])) == 1, "R-ROW-4 several owners")
        for key, (_, row) in opened.rows.items():
            used = row["before"] != row["after"] or (entry[1], key) in seen
            need(used or entry[1] in rekeyed, "R-ROW-4 a row that nothing shows")


def _check_changes(
    roots: Roots, matchings: list[str], exempt: set[Pair], seen: set[tuple[str, str, bytes, str]]
) -> None:
    for entry, sides in roots.types.items():
        kind = entry[1]
        digests = [ZERO.hex() if sides[side] is None else sides[side][1] for side in SIDES]
        asked = [matching for matching in matchings if (matching, kind) not in exempt]
        if len(roots.owners(kind)) != 1 or digests[0] == digests[1] or not asked:
            continue
        need(entry in roots.opened, "R-ROW-3 not opened")
        rows = roots.opened[entry].rows.items()
        changed = [key for key, (_, row) in rows if row["before"] != row["after"]]
        for matching, key, side in product(asked, changed, SIDES):
            need((matching, kind, key, side) in seen, "R-ROW-3 not seen")
