"""A bundle's files cut into pieces that can be disclosed one by one, and put together again.

Each file becomes one rest, at `name#`, and one piece for every element of the arrays named in
`verify.PIECES`, at `name#/pointer/number`. The rest is `[document, [[pointer, length], …]]`, the
named arrays emptied; with every piece at hand the file comes out byte for byte.

A piece's tier is the strictest of the tiers that the contract's `disclose` gives to the sources
whose values can stand in it; what mixes sources (findings, the trace, the answer) counts as all.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from statediff.contract.parts import seconds
from statediff.errors import BundleError
from statediff.evidence import verify as v
from statediff.evidence.canonical import write
from statediff.evidence.counterexample import counterexample, types_read
from statediff.evidence.documents import DOCUMENTS
from statediff.evidence.package import Bundle
from statediff.evidence.verify import TIERS, Leaf

Json = Any
_Owner = tuple[str, str] | None
"""A source or a type by name; None for what mixes them."""

DERIVED: Final = (v.SUMMARY, v.COUNTEREXAMPLE)
"""The places of the pieces that are derived from the others."""
_TEXTS: Final = (".yaml",)


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
    yield Piece("public/summary", v.SUMMARY, summary(documents["judgement.json"]))
    example = counterexample(documents["judgement.json"])
    if example is not None:
        read = types_read(example, [each["read_sets"] for each in documents["index.json"]])
        yield Piece(f"{tiers.of(read)}/counterexample", v.COUNTEREXAMPLE, example)
    yield Piece(tiers.tag("manifest.json", None), "manifest.json#", [dict(bundle.manifest), []])
    for name, document in documents.items():
        found = _cut(name, document)
        lengths = [[pointer, len(values)] for pointer, values in found]
        yield Piece(tiers.tag(name, None), f"{name}#", [document, lengths])
        for pointer, values in found:
            for number, value in enumerate(values):
                tag = tiers.tag(name, value)
                yield Piece(tag, f"{name}#{pointer}/{number}", value)


def summary(judgement: Json) -> Json:
    """The public part: the verdict, and which clauses held. No value, no key, no sentence."""
    return {
        "results": judgement["results"],
        "clauses": [
            {"clause": c["clause"], "stage": c["stage"], "truth": c["truth"]}
            for c in judgement["clauses"]
        ],
        "codes": sorted({finding["code"] for finding in judgement["findings"]}),
    }


def joined(leaves: Iterable[Leaf]) -> Bundle:
    """The bundle that the leaves of a whole copy make; `verify` found that each is at its place.

    `BundleError` if the pieces cannot be put back in the order that the files say.
    """
    at = {leaf.path: leaf.value for leaf in leaves}
    documents: dict[str, Json] = {}
    for name in v.PIECES:
        if f"{name}#" not in at:
            continue
        document, cuts = copy.deepcopy(at[f"{name}#"])
        holders = {pointer.rpartition("/")[0] for pointer, _ in cuts}
        for pointer, length in cuts:
            values = [at[f"{name}#{pointer}/{number}"] for number in range(length)]
            if any(each.startswith(f"{pointer}/") for each in holders):  # more is put into these
                values = copy.deepcopy(values)
            place = v.value_at(document, pointer.split("/")[1:])
            if place != []:
                raise BundleError(f"{name}: {pointer} is put back into no empty array")
            place.extend(values)
        documents[name] = document
    manifest = documents.pop("manifest.json")
    files = {
        name: document.encode("utf-8") if name.endswith(_TEXTS) else write(document)
        for name, document in documents.items()
    }
    return Bundle(manifest, files)


def _cut(name: str, document: Json) -> list[tuple[str, list[Json]]]:
    """The pieces in the arrays of a file, cut out; the arrays are empty afterwards."""
    found: list[tuple[str, list[Json]]] = []
    for place in v.PIECES[name]:
        for pointer, array in list(v.arrays_at(document, place, name)):
            found.append((pointer, list(array)))
            array.clear()
    return found


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
        if name == v.OBSERVATION and value is not None:  # who may see a part may see its salt
            return f"{self.tag(v.OBSERVABLE[value[0]], None).partition('/')[0]}/{kind}"
        if DOCUMENTS[name].is_open:
            return f"reviewer/{kind}"
        return f"{self._tiers.get(_owner(value), self._mixed)}/{kind}"

    def retain(self, path: str, value: Json) -> float | None:
        """For how many seconds the piece at a path is kept; None where nothing limits it."""
        name = path.partition("#")[0]
        is_salt = name == v.OBSERVATION and not path.endswith("#")
        if name in DOCUMENTS and DOCUMENTS[name].is_open and not is_salt:
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
