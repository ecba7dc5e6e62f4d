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
from collections.abc import Iterable, Iterator, Mapping
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
    tiers = Owners(documents["schema.json"], bundle.manifest["keeping"], _private(bundle.manifest))
    yield Piece("public/summary", v.SUMMARY, summary(documents["judgement.json"]))
    # Its changes are those of the file, of which fields may be cut out.
    example = copy.deepcopy(counterexample(documents["judgement.json"]))
    if example is not None:
        read = types_read(example, [each["read_sets"] for each in documents["index.json"]])
        yield Piece(f"{tiers.of(read)}/counterexample", v.COUNTEREXAMPLE, example)
    yield Piece(tiers.tag("manifest.json", None), "manifest.json#", [dict(bundle.manifest), []])
    for name, document in documents.items():
        inner = _emptied(name, document, tiers)
        found = _cut(name, document)
        lengths = [[pointer, len(values)] for pointer, values in found]
        lengths += [[pointer, len(values)] for pointer, values, _ in inner]
        yield Piece(tiers.tag(name, None), f"{name}#", [document, lengths])
        for pointer, values in found:
            for number, value in enumerate(values):
                tag = tiers.tag(name, value, pointer)
                yield Piece(tag, f"{name}#{pointer}/{number}", value)
        for pointer, values, of in inner:
            for number, value in enumerate(values):
                tag = f"{tiers.of_field(of, value[0])}/{name.partition('.')[0]}"
                yield Piece(tag, f"{name}#{pointer}/{number}", value)


def _private(manifest: Mapping[str, Json]) -> list[tuple[str, str, str, bool]]:
    """What the manifest says of fields that fewer may see than their source; `BundleError`."""
    found = []
    for entry in manifest.get("private") or ():
        match entry:
            case [str(of), str(field), str(tier), bool(is_excluded)] if tier in TIERS:
                found.append((of, field, tier, is_excluded))
            case _:
                raise BundleError("manifest.json: `private` has another form")
    return found


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
    """What stood in the arrays of a file that are pieces; they are empty afterwards."""
    found: list[tuple[str, list[Json]]] = []
    for place in v.PIECES[name]:
        for pointer, array in list(v.arrays_at(document, place, name)):
            found.append((pointer, list(array)))
            array.clear()
    return found


def _emptied(name: str, document: Json, tiers: Owners) -> list[tuple[str, list[Json], str]]:
    """(pointer, fields, type) of the entities with a field that fewer may see; emptied afterwards.

    The fields are `[name, value]`; each becomes a piece of its own.
    """
    found: list[tuple[str, list[Json], str]] = []
    if not tiers.has_private():
        return found
    for pointer, fields, of in _entities(name, document):
        if tiers.has_private(of):
            found.append((pointer, list(fields), of))
            fields.clear()
    return found


def _entities(name: str, document: Json) -> Iterator[tuple[str, list[Json], str]]:
    """Every list of fields that is in a file, with its pointer and the entity type."""
    if name == "fragments.json":
        for n, case in enumerate(document):
            for at, row in enumerate(case["rows"]):
                if row["fields"] is not None:
                    yield f"/{n}/rows/{at}/fields", row["fields"], row["type"]
            for at, scan in enumerate(case["scans"]):
                for number, (_, fields) in enumerate(scan["members"]):
                    yield f"/{n}/scans/{at}/members/{number}/1", fields, scan["type"]
    if name == "judgement.json":
        for part in ("deltas", "during"):
            for at, delta in enumerate(document.get(part, ())):
                for side in ("before", "after", "raw_before", "raw_after"):
                    if isinstance(delta[side], dict) and "entity" in delta[side]:
                        yield f"/{part}/{at}/{side}/entity", delta[side]["entity"], delta["type"]


class Owners:
    """Whose values stand in which piece, and so who may see it and how long it is kept.

    By the contract's `disclose` and `retain` of each source. What mixes sources is as closed as the
    most closed of them, and goes with the first of them. `private` are `[type, field, tier,
    whether it is excluded]`: a field that fewer may see than its source, of "" the whole type. What
    holds a digest of such values is as closed as they are.
    """

    def __init__(
        self, schema: Json, keeping: Json, private: Iterable[tuple[str, str, str, bool]] = ()
    ) -> None:
        private = tuple(private)
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
        self._private = {(of, field): tier for of, field, tier, _ in private}
        self._holders = {of for of, field, _, _ in private if field}
        keyless = {entity["name"] for entity in schema["types"] if not entity["key"]}
        tiers_of: dict[str, str] = {}
        for of, field, tier, is_excluded in private:
            tiers_of[of] = _strictest([tiers_of.get(of, TIERS[0]), tier])
            is_named = of in keyless  # by the digest of the whole row
            if not field or is_named:
                self._raise(("type", of), tier)
            for source in of_type.get(of, ()):
                self._raise(("source", source), tier)
            if not is_excluded or is_named:  # findings and calls may say it
                self._raise(None, tier)
        self._digests = _strictest([self._tiers[None], *self._private.values()])
        self._mixed = self._tiers[None]
        self._opened = {
            name: _strictest(
                keeping.get(source, {}).get("disclose", TIERS[-1]) for source in sources
            )
            for name, sources in of_type.items()
        }
        for of, tier in tiers_of.items():
            if of in self._opened:
                self._opened[of] = _strictest([self._opened[of], tier])

    def _raise(self, owner: _Owner, tier: str) -> None:
        self._tiers[owner] = _strictest([self._tiers.get(owner, TIERS[-1]), tier])

    def has_private(self, of: str | None = None) -> bool:
        """Whether fewer may see a field of the type, or of any, than the type."""
        return bool(self._holders) if of is None else of in self._holders

    def of_field(self, of: str, field: str) -> str:
        """Who may see a field of the type."""
        own = self._tiers.get(("type", of), self._mixed)
        return _strictest([own, self._private.get((of, field), own)])

    def _of_delta(self, value: Json) -> str | None:
        """Who may see a change of a field that fewer may see; None where it is of no such field."""
        match value:
            case {"type": str(of), "path": str(path)}:
                found = [
                    tier
                    for (owner, field), tier in self._private.items()
                    if owner == of
                    and field
                    and path.startswith(field)
                    and path[len(field) : len(field) + 1] in ("", ".", "[")
                ]
                return _strictest(found) if found else None
            case _:
                return None

    def of(self, types: frozenset[str] | None) -> str:
        """Who may see one finding on values of all these types; of None, of every source.

        It is public where the contract opens each of their sources to the public.
        """
        if not types or not types <= set(self._opened):
            return self._mixed
        return _strictest(self._opened[name] for name in types)

    def tag(self, name: str, value: Json, pointer: str = "") -> str:
        """The tag of an element of a file, or with no value of what is left of the file."""
        kind = name.partition(".")[0]
        if DOCUMENTS[name].is_open:
            return f"reviewer/{kind}"
        owner = _owner(value)
        tier = self._tiers.get(owner, self._tiers[None])
        if (pointer or "#") in DOCUMENTS[name].digests:
            tier = self._digests
        own = self._of_delta(value) if self._private else None
        return f"{tier if own is None else _strictest([tier, own])}/{kind}"

    def retain(self, path: str, value: Json) -> float | None:
        """For how many seconds the piece at a path is kept; None where nothing limits it."""
        name = path.partition("#")[0]
        if name in DOCUMENTS and DOCUMENTS[name].is_open:
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
