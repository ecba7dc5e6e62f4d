"""A bundle's files cut into pieces that can be disclosed one by one, and put together again.

Each file becomes one rest, at `name#`, and one piece for every element of the arrays named in
`CUTS`, at `name#/pointer/number`. The rest is `[document, [[pointer, length], …]]`, the named
arrays emptied; with every piece at hand the file comes out byte for byte.

A piece's tier is the strictest of the tiers that the contract's `disclose` gives to the sources
whose values can stand in it; what mixes sources (findings, the trace, the answer) counts as all.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from statediff.contract.parts import seconds
from statediff.errors import BundleError, NotReplayable
from statediff.evidence.canonical import write
from statediff.evidence.counterexample import COUNTEREXAMPLE, counterexample, types_read
from statediff.evidence.package import Bundle
from statediff.evidence.verify import TIERS, Leaf

Json = Any
_Owner = tuple[str, str] | None
"""A source or a type by name; None for what mixes them."""

_EACH: Final = "*"
CUTS: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "captures.json": (("before",), ("after",), ("enumerations", _EACH)),
    "fragments.json": ((_EACH, "rows"), (_EACH, "scans", _EACH, "members")),
    "judgement.json": (("clauses",), ("findings",), ("deltas",), ("hidden",), ("doubts",)),
    "resolution.json": (("mappings", _EACH), ("doubts",)),
    "trace.json": (("actions",),),
}
"""File → the arrays whose elements are pieces of their own, outer before inner."""
SUMMARY: Final = "summary#"
"""The place of what anybody may know."""
DERIVED: Final = (SUMMARY, COUNTEREXAMPLE)
"""The places of the pieces that are derived from the others."""
_TEXTS: Final = (".yaml",)
_OPEN: Final = frozenset({"contract.yaml", "schema.json", "timeline.json"})
"""Files without values of any source: what was asked for, and when."""


class Piece(NamedTuple):
    """One piece of a bundle: its tag `tier/kind`, its place and its JSON."""

    tag: str
    path: str
    value: Json


def pieces(bundle: Bundle) -> Iterator[Piece]:
    """Every piece of the bundle, and a public summary that names no value of any source.

    The bundle's files are taken to be canonical; those of another form would not come out the same.
    """
    documents: dict[str, Json] = {
        name: data.decode("utf-8") if name.endswith(_TEXTS) else json.loads(data)
        for name, data in sorted(bundle.files.items())
    }
    tiers = Owners(documents["schema.json"], bundle.manifest["keeping"])
    yield Piece("public/summary", SUMMARY, summary(documents["judgement.json"]))
    example = counterexample(documents["judgement.json"])
    if example is not None:
        read = types_read(example, [each["read_sets"] for each in documents["index.json"]])
        yield Piece(f"{tiers.of(read)}/counterexample", COUNTEREXAMPLE, example)
    yield Piece(tiers.tag("manifest.json", None), "manifest.json#", [dict(bundle.manifest), []])
    for name, document in documents.items():
        found = _cut(document, CUTS.get(name, ()))
        lengths = [[pointer, len(values)] for pointer, values in found]
        yield Piece(tiers.tag(name, None), f"{name}#", [document, lengths])
        for pointer, values in found:
            for number, value in enumerate(values):
                yield Piece(tiers.tag(name, value), f"{name}#{pointer}/{number}", value)


def summary(judgement: Json) -> Json:
    """What anybody may know: the verdict, and which clauses held. No value, no key, no sentence."""
    return {
        "results": judgement["results"],
        "clauses": [
            {"clause": c["clause"], "stage": c["stage"], "truth": c["truth"]}
            for c in judgement["clauses"]
        ],
        "codes": sorted({finding["code"] for finding in judgement["findings"]}),
    }


def joined(leaves: Iterable[Leaf]) -> Bundle:
    """The bundle that these pieces make.

    `NotReplayable` if one is missing, `BundleError` if one has no place.
    """
    at = {leaf.path: leaf.value for leaf in leaves}
    for place in DERIVED:
        at.pop(place, None)
    rests = {path: copy.deepcopy(at.pop(path)) for path in sorted(at) if path.endswith("#")}
    documents: dict[str, Json] = {}
    try:
        for path, (document, lengths) in rests.items():
            for pointer, length in lengths:
                values = [at.pop(f"{path}{pointer}/{number}") for number in range(length)]
                _place(document, pointer, values)
            documents[path.removesuffix("#")] = document
        manifest = documents.pop("manifest.json")
        missing = sorted(set(manifest["files"]) - set(documents))
    except KeyError as error:
        raise NotReplayable(f"this copy withholds {error.args[0]}") from None
    except (TypeError, ValueError, IndexError) as error:
        raise BundleError(f"the leaves contradict themselves: {error!r}") from error
    if missing:
        raise NotReplayable(f"this copy withholds {missing[0]}")
    if at or sorted(documents) != sorted(manifest["files"]):
        raise BundleError("the leaves hold more than the files of the bundle")
    files = {
        name: document.encode("utf-8") if name.endswith(_TEXTS) else write(document)
        for name, document in documents.items()
    }
    return Bundle(manifest, files)


def _cut(document: Json, patterns: Iterable[tuple[str, ...]]) -> list[tuple[str, list[Json]]]:
    """What stood in the arrays of a document, which are empty afterwards."""
    found: list[tuple[str, list[Json]]] = []
    for pattern in patterns:
        for pointer, array in list(_arrays(document, pattern, "")):
            found.append((pointer, list(array)))
            array.clear()
    return found


def _arrays(
    value: Json, pattern: tuple[str, ...], pointer: str
) -> Iterator[tuple[str, list[Json]]]:
    if not pattern:
        if isinstance(value, list):
            yield pointer, value
        return
    first, *others = pattern
    if first != _EACH:
        if isinstance(value, dict) and first in value:
            yield from _arrays(value[first], tuple(others), f"{pointer}/{first}")
        return
    for number, each in enumerate(value):
        yield from _arrays(each, tuple(others), f"{pointer}/{number}")


def _place(document: Json, pointer: str, values: list[Json]) -> None:
    place = document
    for step in pointer.split("/")[1:]:
        place = place[int(step)] if isinstance(place, list) else place[step]
    if place != [] or not isinstance(place, list):
        raise ValueError(f"{pointer} is no emptied array")
    place.extend(values)


class Owners:
    """Whose values stand in which piece, and so who may see it and how long it is kept.

    By the contract's `disclose` and `retain` of each source. What mixes sources is as closed as the
    most closed of them, and goes with the first of them.
    """

    def __init__(self, schema: Json, keeping: Json) -> None:
        self._tiers: dict[_Owner, str] = {}
        self._retain: dict[_Owner, float | None] = {}
        of_type: dict[str, list[str]] = {}
        for source, types in schema["sources"]:
            for name in types:
                of_type.setdefault(name, []).append(source)
        owned: dict[_Owner, list[str]] = {None: [source for source, _ in schema["sources"]]}
        owned |= {("source", source): [source] for source, _ in schema["sources"]}
        owned |= {("type", name): sources for name, sources in of_type.items()}
        for owner, sources in owned.items():
            rules = [keeping.get(source, {}) for source in sources]
            told = [rule.get("disclose", TIERS[-1]) for rule in rules]
            self._tiers[owner] = _strictest([*told, "reviewer"])
            kept = [_seconds(rule.get("retain")) for rule in rules]
            self._retain[owner] = min((s for s in kept if s is not None), default=None)
        self._mixed = self._tiers[None]
        self._opened = {
            name: _strictest(
                keeping.get(source, {}).get("disclose", TIERS[-1]) for source in sources
            )
            for name, sources in of_type.items()
        }

    def of(self, types: frozenset[str] | None) -> str:
        """Who may see one finding on values of all these types; of None, of every source.

        It is public where the contract opens each of their sources to the public.
        """
        if not types or not types <= set(self._opened):
            return self._mixed
        return _strictest(self._opened[name] for name in types)

    def tag(self, name: str, value: Json) -> str:
        """The tag of an element of a file, or with no value of what is left of the file."""
        kind = name.partition(".")[0]
        if name in _OPEN:
            return f"reviewer/{kind}"
        return f"{self._tiers.get(_owner(value), self._tiers[None])}/{kind}"

    def retain(self, path: str, value: Json) -> float | None:
        """For how many seconds the piece at a path is kept; None where nothing limits it."""
        if path.partition("#")[0] in _OPEN:
            return None
        owner = None if path.endswith("#") else _owner(value)
        return self._retain.get(owner, self._retain[None])


def _owner(value: Json) -> _Owner:
    match value:
        case {"reading": {"source": str(source)}}:
            return ("source", source)
        case {"type": str(of)} | [_, str(of), [_, _]]:
            return ("type", of)
        case _:
            return None


def _seconds(retain: str | None) -> float | None:
    return None if retain is None else float(seconds(retain))


def _strictest(tiers: Iterable[str]) -> str:
    return TIERS[max((TIERS.index(tier) for tier in tiers), default=len(TIERS) - 1)]
