"""Put the files of a copy together from its leaves, and cut them again (R-OPEN)."""

from __future__ import annotations

import copy as copies
import re
from dataclasses import dataclass
from typing import Any

from .answer import FILES, verify
from .basics import Refused, canonical, need, same, sha_hex
from .places import array_of, cuts_of
from .sealed import Copy, kind_of, rest
from .trust import Trust

BESIDE = ("auditor/raw", "auditor/undisclosed")
TIERS = ("public", "reviewer", "auditor")
FORMATS = ("statediff/bundle/1", "statediff/bundle/1.1")
FOR_REVIEWERS = ("contract.yaml", "schema.json", "timeline.json")
SHOWN = "clause code stage truth explanation sentence missing evidence witness".split()


class CannotTell(Exception):
    """The question is beyond the subset that this program knows."""


@dataclass
class Bundle:
    """A bundle put together from the leaves of a copy."""

    copy: Copy
    documents: dict[str, Any]
    data: dict[str, bytes]

    @property
    def inner(self) -> dict[str, Any]:
        """The inner manifest."""
        found: dict[str, Any] = self.documents["manifest.json"]
        return found


def _step(place: Any, token: str) -> Any:
    if isinstance(place, list):
        need(re.fullmatch("0|[1-9][0-9]{0,8}", token) is not None, "R-OPEN-2 place")
        need(int(token) < len(place), "R-OPEN-2 place")
        return place[int(token)]
    need(isinstance(place, dict) and token in place, "R-OPEN-2 place")
    return place[token]


def _put_together(copy: Copy, name: str, used: set[str]) -> Any:
    document, cuts = rest(copy.leaves[name + "#"])
    document = copies.deepcopy(document)
    for pointer, length in cuts:
        need(pointer.startswith("/"), "R-OPEN-2 pointer")
        place = document
        for token in pointer[1:].split("/"):
            place = _step(place, token)
        need(isinstance(place, list) and not place, "R-OPEN-2 not an empty array")
        for number in range(length):
            path = f"{name}#{pointer}/{number}"
            need(path in copy.leaves and path not in used, "R-OPEN-2 a piece")
            used.add(path)
            place.append(copies.deepcopy(copy.leaves[path]))
    return document


def put_together(copy: Copy) -> Bundle:
    """Put the files of a whole copy together (R-OPEN-2 to R-OPEN-4)."""
    aside = {path for path, tag in copy.tags.items() if tag in BESIDE}
    aside |= {"summary#", "counterexample#", "review#"} & set(copy.leaves)
    used: set[str] = set()
    documents: dict[str, Any] = {}
    data: dict[str, bytes] = {}
    for path in copy.order:
        if path in aside or not path.endswith("#") or path.count("#") != 1:
            continue
        name = path[:-1]
        used.add(path)
        documents[name] = _put_together(copy, name, used)
        if name.endswith(".yaml"):
            need(isinstance(documents[name], str), "R-OPEN-2 no text")
            data[name] = documents[name].encode("utf-8")
        else:
            data[name] = canonical(documents[name])
    need(used | aside == set(copy.leaves), "R-OPEN-2 a leaf left over")
    inner = documents["manifest.json"]
    need(isinstance(inner, dict) and isinstance(inner.get("files"), dict), "R-OPEN-2 files")
    need(set(inner["files"]) == set(documents) - {"manifest.json"}, "R-OPEN-2 names of files")
    for name, digest in inner["files"].items():
        need(sha_hex(data[name]) == digest, "R-OPEN-3")
    _check_names(documents)
    return Bundle(copy, documents, data)


def _check_names(documents: dict[str, Any]) -> None:
    form = documents["manifest.json"].get("format")
    need(isinstance(form, str) and form in FORMATS, "R-OPEN-4 format")
    expected = set(FILES) | ({"roots.json"} if form == FORMATS[1] else set())
    names = set(documents) - ({"observation.json"} if form == FORMATS[1] else set())
    need(names == expected, "R-OPEN-4 files")
    captures = documents["captures.json"]
    need(isinstance(captures, dict), "R-OPEN-4 captures")
    need(form == FORMATS[1] or "roots" not in captures, "R-OPEN-4 roots")


def _is_enumeration(value: Any) -> bool:
    """Tell whether a piece is an array `[x, type, [y, z]]`."""
    if not isinstance(value, list) or len(value) != 3:
        return False
    return isinstance(value[2], list) and len(value[2]) == 2


class Tiers:
    """The tiers of pieces under an inner manifest and a schema."""

    def __init__(self, bundle: Bundle) -> None:
        keeping: Any = bundle.inner.get("keeping")
        schema = bundle.documents["schema.json"]
        need(isinstance(keeping, dict) and isinstance(schema, dict), "R-OPEN-5 keeping or schema")
        self.of_source: dict[str, str] = {}
        self.sources: dict[str, list[str]] = {}
        for source, how in keeping.items():
            need(isinstance(how, dict) and how.get("disclose") in TIERS, "R-OPEN-5 keeping")
            self.of_source[source] = how["disclose"]
        for entry in array_of(schema, "sources", "R-OPEN-5 sources"):
            need(isinstance(entry, list) and len(entry) == 2, "R-OPEN-5 sources")
            need(isinstance(entry[0], str) and isinstance(entry[1], list), "R-OPEN-5 sources")
            self.of_source.setdefault(entry[0], "auditor")
            for kind in entry[1]:
                need(isinstance(kind, str), "R-OPEN-5 sources")
                self.sources.setdefault(kind, []).append(entry[0])
        self.mixed = self.strictest(["reviewer", *self.of_source.values()])

    @staticmethod
    def strictest(tiers: list[str]) -> str:
        """Return the strictest of some tiers."""
        return max(tiers, key=TIERS.index)

    def of_type(self, kind: str) -> list[str]:
        """Return the tiers of the sources that deliver a type."""
        return [self.of_source[source] for source in self.sources.get(kind, [])]

    def of_piece(self, name: str, value: Any) -> str:
        """Return the tier of a piece."""
        if name == "observation.json":
            part = value[0] if isinstance(value, list) else "schema"
            return "reviewer" if part in ("schema", "times") else self.mixed
        if name in FOR_REVIEWERS:
            return "reviewer"
        kind: Any = None
        if isinstance(value, dict):
            reading = value.get("reading")
            if isinstance(reading, dict) and isinstance(reading.get("source"), str):
                tier = self.of_source.get(reading["source"], "auditor")
                return self.strictest(["reviewer", tier])
            kind = value.get("type")
        elif _is_enumeration(value):
            kind = value[1]
        if isinstance(kind, str):
            tiers = self.of_type(kind)
            return self.strictest(["reviewer", *tiers]) if tiers else self.mixed
        return self.mixed


def make_summary(judgement: dict[str, Any]) -> dict[str, Any]:
    """Return the summary of a judgement."""
    names = ("clause", "stage", "truth")
    clauses = [{name: clause[name] for name in names} for clause in judgement["clauses"]]
    codes = sorted({finding["code"] for finding in judgement["findings"]})
    return {"clauses": clauses, "codes": codes, "results": judgement["results"]}


def make_counterexample(judgement: dict[str, Any]) -> dict[str, Any] | None:
    """Return the counterexample of a judgement, if it has one."""
    bad = [finding for finding in judgement["findings"] if finding["truth"] != "HOLDS"]
    if not bad:
        return None
    failing = [finding for finding in bad if finding["truth"] == "FAILS"]
    named = [finding for finding in bad if finding["clause"] != "frame"]
    chosen = (failing or named or bad)[0]
    result = {name: chosen[name] for name in SHOWN if name in chosen}
    first = chosen["deltas"][:10]
    result["deltas"] = [delta for delta in judgement["deltas"] if delta["id"] in first]
    result["more_deltas"] = max(0, len(chosen["deltas"]) - 10)
    return result


def _counterexample_tier(bundle: Bundle, tiers: Tiers, shown: dict[str, Any]) -> str:
    if shown.get("missing"):
        return tiers.mixed
    types = {part["type"] for part in [*shown["witness"]["rows"], *shown["deltas"]]}
    for matching in bundle.documents["index.json"]:
        entries = matching["read_sets"].get(shown["clause"])
        if entries is None:
            return tiers.mixed
        for entry in entries:
            found = re.fullmatch(r"(?:before|after):([^\[]+)\[.*", entry, re.DOTALL)
            if found is None or not tiers.of_type(found[1]):
                return tiers.mixed
            types.add(found[1])
    levels: list[str] = []
    for kind in types:
        levels += tiers.of_type(kind) or [tiers.mixed]
    return tiers.strictest(levels or [tiers.mixed])


def check_cut(bundle: Bundle) -> None:
    """Refuse a copy that is not cut as its bundle would be (R-OPEN-5)."""
    tiers, copy = Tiers(bundle), bundle.copy
    expected: dict[str, str] = {}
    for name, document in bundle.documents.items():
        expected[name + "#"] = f"{tiers.of_piece(name, None)}/{kind_of(name + '#')}"
        for pointer, pieces in cuts_of(name, document, "R-OPEN-5 no place"):
            for number, piece in enumerate(pieces):
                path = f"{name}#{pointer}/{number}"
                expected[path] = f"{tiers.of_piece(name, piece)}/{kind_of(path)}"
    judgement = bundle.documents["judgement.json"]
    try:
        summary, shown = make_summary(judgement), make_counterexample(judgement)
        tier = None if shown is None else _counterexample_tier(bundle, tiers, shown)
    except (KeyError, TypeError, AttributeError) as error:
        raise Refused("R-OPEN-5 the form of the judgement") from error
    expected["summary#"] = "public/summary"
    need("summary#" in copy.leaves, "R-OPEN-5 summary")
    need(same(copy.leaves["summary#"], summary), "R-OPEN-5 summary")
    if "counterexample#" in copy.leaves:
        need(same(copy.leaves["counterexample#"], shown), "R-OPEN-5 counterexample")
        need(shown is not None, "R-OPEN-5 counterexample")
        expected["counterexample#"] = f"{tier}/counterexample"
    aside = {"reviewer/review", *BESIDE}
    found = {path: tag for path, tag in copy.tags.items() if tag not in aside}
    need(found == expected, "R-OPEN-5 pieces")


def open_bundle(files: dict[str, bytes], trust: Trust) -> Bundle:
    """Take the first step of a replay."""
    copy, status, _ = verify(files, trust)
    need(status == "VALID", "R-OPEN-1")
    bundle = put_together(copy)
    if "undisclosed" in bundle.inner:
        raise CannotTell("what the documents do not show")
    check_cut(bundle)
    return bundle
