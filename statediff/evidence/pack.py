"""The reads of one decision as the documents of a bundle, and the checks that tie them together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, TypeAlias

from statediff.errors import BundleError
from statediff.evidence import documents as doc
from statediff.evidence.canonical import write
from statediff.evidence.fragments import Collected, collect, fragment_id, scan_id
from statediff.evidence.histories import history_document
from statediff.evidence.roots import CapturedKeys, Roots
from statediff.model.delta import Diff
from statediff.model.readings import Capture, Timeline
from statediff.model.state import Coverage
from statediff.model.timelines import Matching, Resolution
from statediff.model.trace import NoAnswer, Trace
from statediff.model.values import Key, Value, key_order
from statediff.model.verdict import Judgement
from statediff.model.view import Ledger, Look

Json: TypeAlias = Any
Refused: TypeAlias = tuple[tuple[str, str, str], ...]
"""((side, source, cause), …): readings that may not be used."""

Touched: TypeAlias = Mapping[tuple[str, int], tuple[tuple[str, Key], ...]]
"""(source, number of its transaction) → the entities it touched, of types that clauses ask about"""

SIDES: Final = ("before", "after")


@dataclass(frozen=True)
class Decided:
    """One matching with its judgement and all that was read for it."""

    matching: Matching
    judgement: Judgement
    ledger: Ledger
    touched: Touched = field(default_factory=dict)


@dataclass(frozen=True)
class Heard:
    """The evidence of a trial beside its states."""

    before: Capture
    after: Capture
    refused: Refused
    trace: Trace
    answer: Value | NoAnswer
    timeline: Timeline | None


def documents(
    decided: Iterable[Decided],
    resolution: Resolution,
    heard: Heard,
    trial: Mapping[str, Json],
    leaves: Callable[[str, Iterable[str]], bool],
    roots: Roots,
) -> dict[str, Json]:
    """Every document of the bundle but the judgement, the contract and the manifest.

    The largest as its bytes.
    """
    cases = tuple(decided)
    fragments, shown = [], []
    for case in cases:
        keys, names = CapturedKeys.of(case.matching), _compared(case.matching)
        moved = tuple(roots.differing(keys, names))
        fragments.append(_fragments(case, resolution, leaves, moved))
        shown.append((fragments[-1], keys, names))
    proofs = write(roots.document(shown))
    written = b"[%b]" % b",".join([each.written() for each in fragments])
    del fragments, shown
    return {
        "schema.json": doc.schema_document(resolution.matchings[0].before.schema),
        "captures.json": {
            "before": doc.capture_document(heard.before),
            "after": doc.capture_document(heard.after),
            "roots": dict(roots.by_side),
            "enumerations": [_enumerations(case.matching, resolution) for case in cases],
            "refusals": [list(refusal) for refusal in heard.refused],
            "history": history_document(heard.after.history, resolution.course),
        },
        "resolution.json": {
            "mappings": [
                [doc.MAPPING.encode(pair) for pair in case.matching.pairs] for case in cases
            ],
            "ambiguous": [list(entry) for entry in resolution.ambiguous],
            "differ_only_in_opaque_ids": resolution.differ_only_in_opaque_ids,
            "doubts": [],  # kept for the form of the bundle: what is in doubt is unobserved
            "readings_of": [[n, list(b), list(a)] for n, b, a in resolution.readings_of],
        },
        "fragments.json": written,
        "roots.json": proofs,
        "index.json": write([index(c.judgement, c.ledger, c.touched) for c in cases]),
        "trace.json": doc.trace_document(heard.trace),
        "answer.json": doc.answer_document(heard.answer),
        "timeline.json": doc.timeline_document(heard.timeline),
        "trial.json": dict(trial),
    }


def index(judgement: Judgement, ledger: Ledger, touched: Touched) -> Json:
    """The index of a bundle: changed entities, deltas of each type, the read-set per clause.

    Also the entities that each transaction touched.
    """
    return {
        "changed": doc.PLACES.encode(changed(judgement)),
        "touched": [
            [source, number, doc.PLACES.encode(places)]
            for (source, number), places in sorted(touched.items())
        ],
        "deltas": _count(d.type for d in judgement.deltas),
        "hidden": _count(h.delta.type for h in judgement.hidden),
        "read_sets": _read_sets(ledger),
    }


def check_refusals(refused: Refused, captures: Json, schema: Json, must: Iterable[str]) -> None:
    """`BundleError` unless the recorded refusals are those, and what they refuse is unobserved."""
    if [list(entry) for entry in refused] != captures["refusals"]:
        raise BundleError("captures.json: the readings are refused for other reasons than recorded")
    delivered = dict(schema["sources"])
    needed = set(must)
    for side, source, _ in refused:
        if needed and source not in needed:
            continue
        for enumerations in captures["enumerations"]:
            for at, name, (coverage, *_) in enumerations:
                if (
                    at == side
                    and name in delivered.get(source, ())
                    and (coverage != Coverage.UNOBSERVED.value)
                ):
                    raise BundleError(
                        f"captures.json: {name} {side} is {coverage}, but {source} was refused"
                    )


def touched_from(document: Json) -> Touched:
    """The entities that each transaction touched, as an index names them."""
    return {
        (source, number): doc.PLACES.decode(places)
        for source, number, places in document["touched"]
    }


def _compared(matching: Matching) -> tuple[str, ...]:
    """The types that something is known of on both sides."""
    tables = matching.before.tables, matching.after.tables
    names = (name for name in sorted({*tables[0], *tables[1]}))
    dark = Coverage.UNOBSERVED
    return tuple(
        name
        for name in names
        if all(name not in side or side[name].enumeration.coverage is not dark for side in tables)
    )


def _fragments(
    case: Decided,
    resolution: Resolution,
    leaves: Callable[[str, Iterable[str]], bool],
    moved: tuple[tuple[str, Key], ...],
) -> Collected:
    distinct = {id(each): each for sets in case.ledger.looks.values() for each in sets}
    looks = set(chain(*distinct.values()))
    scans = {scan for scans in case.ledger.scans.values() for scan in scans}
    states = dict(zip(SIDES, (case.matching.before, case.matching.after), strict=True))
    lines = {line.source: line for line in resolution.course.lines}
    for (source, number), places in case.touched.items():
        looks |= {
            Look(lines[source].side_of(name, at), name, key)
            for name, key in places for at in (0, number - 1, number)
        }  # fmt: skip
    places = (*changed(case.judgement), *moved)
    return collect({**resolution.between, **states}, looks, scans, places, leaves)


def _enumerations(matching: Matching, resolution: Resolution) -> Json:
    ends = [
        [side, name, doc.enumeration_document(table.enumeration)]
        for side, state in zip(SIDES, (matching.before, matching.after), strict=True)
        for name, table in sorted(state.tables.items())
    ]
    within = [
        [line.side(number), name, doc.enumeration_document(table.enumeration)]
        for line in resolution.course.lines
        for number, step in enumerate(line.steps, start=1)
        for name in sorted(step.touched)
        if line.side(number) != "after"
        and (table := resolution.between[line.side(number)].tables.get(name)) is not None
    ]
    return ends + within


def changed(found: Judgement | Diff) -> tuple[tuple[str, Key], ...]:
    """Every entity with a delta, a hidden delta or a doubt of its own, in a fixed order."""
    places = [(d.type, d.key) for d in found.deltas]
    places += [(h.delta.type, h.delta.key) for h in found.hidden]
    places += [(d.type, d.key) for d in found.doubts if d.key is not None]
    return distinct_places(places)


def distinct_places(places: Iterable[tuple[str, Key]]) -> tuple[tuple[str, Key], ...]:
    """Each entity once, in a fixed order."""
    distinct = {(name, key_order(key)): (name, key) for name, key in places}
    return tuple(distinct[place] for place in sorted(distinct))


def _count(types: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name in types:
        counts[name] = counts.get(name, 0) + 1
    return counts


def _read_sets(ledger: Ledger) -> dict[str, list[str]]:
    """The reads of each clause, in order; clauses that looked at the same rows share a list."""
    more: dict[str, set[str]] = {}
    for clause, scans in ledger.scans.items():
        more.setdefault(clause, set()).update(map(scan_id, scans))
    for clause, names in ledger.heard.items():
        more.setdefault(clause, set()).update(names)
    shared: dict[tuple[int, ...], list[str]] = {}
    found: dict[str, list[str]] = {}
    looks = ledger.looks
    for clause in sorted({*looks, *more}):
        parts = [part for part in looks.get(clause, ()) if part]
        place = tuple(map(id, parts))
        if place not in shared:
            distinct = {fragment_id(x.side, x.type, x.key) for part in parts for x in part}
            shared[place] = sorted(distinct)
        extra = more.get(clause)
        ids = sorted({*shared[place], *extra}) if extra else shared[place]
        if ids:
            found[clause] = ids
    return found
