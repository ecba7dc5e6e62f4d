"""Check that the set of leaves is closed (R-LEAF-8 to R-LEAF-10)."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from .basics import is_number, need
from .sealed import Copy, kind_of, rest

BUNDLE = (
    "answer.json captures.json contract.yaml fragments.json index.json judgement.json "
    "manifest.json observation.json resolution.json roots.json schema.json timeline.json "
    "trace.json trial.json"
).split()
ALONE = {"summary#", "counterexample#", "review#", "undisclosed.json#"}
ALONE |= {name + "#" for name in BUNDLE}
NUMBER = "(?:0|[1-9][0-9]{0,6})"
PUBLISHED = {
    "captures.json": f"/before|/after|/enumerations/{NUMBER}",
    "fragments.json": f"/{NUMBER}/rows|/{NUMBER}/scans/{NUMBER}/members",
    "judgement.json": "/clauses|/findings|/deltas|/hidden|/doubts",
    "observation.json": "/opened",
    "resolution.json": f"/mappings/{NUMBER}|/doubts",
    "trace.json": "/actions",
}


def array_of(value: Any, name: str, why: str) -> list[Any]:
    """Return the array that is a member of an object, or refuse."""
    need(isinstance(value, dict) and isinstance(value.get(name), list), why)
    found: list[Any] = value[name]
    return found


def cuts_of(name: str, document: Any, why: str) -> list[tuple[str, list[Any]]]:
    """Return the pointers at which a file is cut, with the pieces (the table of pieces)."""
    cuts: list[tuple[str, list[Any]]] = []
    if name == "captures.json":
        cuts += [(f"/{side}", array_of(document, side, why)) for side in ("before", "after")]
        for number, part in enumerate(array_of(document, "enumerations", why)):
            need(isinstance(part, list), why)
            cuts.append((f"/enumerations/{number}", part))
    elif name == "fragments.json":
        need(isinstance(document, list), why)
        for number, part in enumerate(document):
            cuts.append((f"/{number}/rows", array_of(part, "rows", why)))
            for place, scan in enumerate(array_of(part, "scans", why)):
                cuts.append((f"/{number}/scans/{place}/members", array_of(scan, "members", why)))
    elif name == "judgement.json":
        parts = "clauses findings deltas hidden doubts".split()
        cuts += [("/" + part, array_of(document, part, why)) for part in parts]
    elif name == "resolution.json":
        for number, part in enumerate(array_of(document, "mappings", why)):
            need(isinstance(part, list), why)
            cuts.append((f"/mappings/{number}", part))
        cuts.append(("/doubts", array_of(document, "doubts", why)))
    elif name == "observation.json":
        cuts.append(("/opened", array_of(document, "opened", why)))
    elif name == "trace.json":
        cuts.append(("/actions", array_of(document, "actions", why)))
    return cuts


def _is_place(name: str, pointer: str) -> bool:
    form = PUBLISHED.get(name)
    return form is not None and re.fullmatch(form, pointer) is not None


def _step(value: Any, token: str) -> Any:
    if isinstance(value, list):
        need(re.fullmatch(NUMBER, token) is not None and int(token) < len(value), "R-LEAF-10 place")
        return value[int(token)]
    need(isinstance(value, dict) and token in value, "R-LEAF-10 place")
    return value[token]


def _check_empty(copy: Copy, name: str, pointer: str, cuts: dict[str, int]) -> None:
    """Refuse a cut that is no empty array; one in a piece that is withheld is not looked at."""
    value, tokens = copy.document(name), pointer.split("/")[1:]
    for end in range(1, len(tokens)):
        outer = "".join("/" + token for token in tokens[:end])
        if outer in cuts:
            piece = f"{name}#{outer}/{tokens[end]}"
            if piece not in copy.leaves:
                return
            value, tokens = copy.leaves[piece], tokens[end + 1 :]
            break
    for token in tokens:
        value = _step(value, token)
    need(isinstance(value, list) and value == [], "R-LEAF-10 not an empty array")


def check_closed(copy: Copy) -> None:
    """Refuse a leaf without a place, and a file with other leaves than it says."""
    counts: Counter[str] = Counter()
    for tag, count in copy.manifest["tree"]["tags"].items():
        counts[tag.split("/")[1]] += count
    known: dict[str, dict[str, int]] = {}
    for name in BUNDLE:
        if name + "#" not in copy.leaves:
            continue
        document, listed = rest(copy.leaves[name + "#"])
        cuts = known[name] = dict(listed)
        need(counts[kind_of(name + "#")] == 1 + sum(cuts.values()), "R-LEAF-9 " + name)
        for _, array in cuts_of(name, document, "R-LEAF-10 " + name):
            need(array == [], "R-LEAF-10 an array that is not empty")
        for pointer in cuts:
            need(_is_place(name, pointer), "R-LEAF-10 a cut elsewhere")
            _check_empty(copy, name, pointer, cuts)
    for path in copy.leaves:
        if path in ALONE or (path.startswith("raw/") and path.endswith("#")):
            continue
        found = re.fullmatch(f"([^#]*)#(.*)/({NUMBER})", path, re.DOTALL)
        need(found is not None and _is_place(found[1], found[2]), "R-LEAF-8 no place")
        name, pointer, number = found.groups() if found is not None else ("", "", "0")
        length = known[name].get(pointer, 0) if name in known else 2_000_000
        need(int(number) < length, "R-LEAF-8 behind the end")


def check_matchings(copy: Copy) -> None:
    """Refuse a whole copy whose files have different numbers of matchings (R-ANS-5)."""
    counts = [
        array_of({"": value}, "", "R-ANS-5")
        for value in (
            copy.document("fragments.json"),
            copy.document("index.json"),
            copy.document("captures.json").get("enumerations"),
            copy.document("resolution.json").get("mappings"),
        )
    ]
    need(len({len(each) for each in counts}) == 1, "R-ANS-5")


def check_scans(copy: Copy, scanned: Any, owners: dict[str, list[Any]], exempt: set[Any]) -> None:
    """Refuse scans that have not as many members as there were rows (R-SCAN-1)."""
    members: dict[tuple[str, str], int] = {}
    for place, count in scanned:
        need(place not in members and len(owners.get(place[0], [])) == 1, "R-SCAN-1 entries")
        members[place] = count
    cuts = dict(rest(copy.leaves["fragments.json#"])[1])
    used: set[tuple[str, str]] = set()
    for case, matching in enumerate(copy.document("fragments.json")):
        for number, scan in enumerate(matching["scans"]):
            need(isinstance(scan, dict), "R-SCAN-1 a scan")
            side, kind = scan.get("side"), scan.get("type")
            need(isinstance(side, str) and isinstance(kind, str), "R-SCAN-1 a scan")
            used.add((kind, side))
            entries = owners.get(kind, [])
            if (
                side not in ("before", "after")
                or len(entries) > 1
                or (str(case), kind, side) in exempt
            ):
                continue
            wanted: int | None = 0
            if entries and entries[0][side] is not None:
                wanted = members.get((kind, side))
            need(cuts.get(f"/{case}/scans/{number}/members", 0) == wanted, "R-SCAN-1 counts")
    need(set(members) <= used, "R-SCAN-1 an entry of no scan")


def count_of(counts: list[Any]) -> int:
    """Return the sum of some numbers of rows, or refuse them."""
    need(all(is_number(count) and count >= 0 for count in counts), "R-SCAN-1 counts")
    return sum(counts)
