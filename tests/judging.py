"""A small world to judge contracts in: its schema, its states, and the judgement of a trial."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zlib import crc32

from statediff.contract.file import parse_contract
from statediff.evidence.documents import judgement_document
from statediff.kernel import Evaluated, TrialFacts, evaluate, prepare
from statediff.model.readings import Capture, Reading, ReadingKind, SourceCapture, Timeline
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.state import COMPLETE, Coverage, Enumeration, MemoryChunks, State, build_table
from statediff.model.trace import NO_TRACE, NoAnswer, Trace
from statediff.model.values import Map, Observed, Unobserved, Value
from statediff.model.verdict import Finding, Judgement, Truth, Verdict

MATCH, DIVERGE, INCONCLUSIVE = Verdict.MATCH, Verdict.DIVERGE, Verdict.INCONCLUSIVE
HOLDS, FAILS, UNKNOWN = Truth.HOLDS, Truth.FAILS, Truth.UNKNOWN
HIDDEN = Unobserved("hidden")
CUT = Enumeration(Coverage.INCOMPLETE, "cut short")
DARK = Enumeration(Coverage.UNOBSERVED, "not read")

USER = EntityType(
    "user",
    ("id",),
    (
        Field("id", Kind.INT, is_nullable=False),
        Field("name", Kind.TEXT),
        Field("role", Kind.TEXT),
    ),
)
ITEM = EntityType(
    "item",
    ("id",),
    (
        Field("id", Kind.INT, is_nullable=False),
        Field("n", Kind.INT),
        Field("t", Kind.TEXT),
        Field("owner", Kind.INT, reference="user"),
    ),
)
GRANT = EntityType(
    "grant",
    ("user", "item"),
    (Field("user", Kind.INT, reference="user"), Field("item", Kind.INT, reference="item")),
    is_association=True,
)
LOG = EntityType("log", (), (Field("what", Kind.TEXT), Field("n", Kind.INT)))
DOC = EntityType(
    "doc",
    ("id",),
    (
        Field("id", Kind.INT, is_nullable=False),
        Field("title", Kind.TEXT),
        Field("kind", Kind.TEXT, is_immutable=True),
        Field("deleted_at", Kind.TEXT),
    ),
    deleted_when="deleted_at",
)
TYPES = (DOC, GRANT, ITEM, LOG, USER)

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


SILENT = NoAnswer("none was given")
FACTS = TrialFacts("trial")
TIMELINE = Timeline(at(0), at(10), at(11), at(20), at(30))

Rows = Mapping[str, Iterable[Mapping[str, Observed]]]


def state(
    rows: Rows,
    coverage: Mapping[str, Enumeration] | None = None,
    types: Iterable[EntityType] = TYPES,
    source: str = "db",
) -> State:
    """The rows as a state; a field that is not given is null."""
    kinds = tuple(sorted(types, key=lambda t: t.name))
    schema = Schema("world", "1", kinds, ((source, tuple(t.name for t in kinds)),))
    tables = {}
    for entity in kinds:
        whole = [
            {f.name: row.get(f.name, None) for f in entity.fields}
            for row in rows.get(entity.name, ())
        ]
        enumeration = (coverage or {}).get(entity.name, COMPLETE)
        tables[entity.name] = build_table(entity, whole, MemoryChunks(), enumeration=enumeration)
    return State(schema, tables)


def part(moment: str, of: State, source: str = "db", **overrides: Any) -> SourceCapture:
    """The delivery of one source, read in its window of TIMELINE."""
    reading = Reading(
        f"{moment}/{source}",
        source,
        ReadingKind.SCAN,
        as_of=at(5) if moment == "before" else at(31),
        clock="trial",
        is_complete=True,
        digest=of.digest(),
    )
    return SourceCapture(replace(reading, **overrides), of)


def capture(_moment: str, *parts: SourceCapture) -> Capture:
    return Capture(tuple(sorted(parts, key=lambda p: p.reading.source)))


HEAD = "contract: tests/world\nversion: 1.0.0\nowner: tests\nintent: Change what the test says.\n"


def contract(body: str, noop: bool = True) -> str:
    return HEAD + ("noop: true\n" if noop else "") + body


def run(
    body: str,
    before: Rows | State | Capture,
    after: Rows | State | Capture,
    *,
    noop: bool = True,
    answer: Mapping[str, Value] | NoAnswer = SILENT,
    timeline: Timeline | None = None,
    facts: TrialFacts = FACTS,
    trace: Trace = NO_TRACE,
) -> Evaluated:
    """The judged trial of `body` (a contract without its head) over the two sides."""
    sides = []
    for moment, given in (("before", before), ("after", after)):
        if isinstance(given, Capture):
            sides.append(given)
            continue
        known = given if isinstance(given, State) else state(given)
        sides.append(capture(moment, part(moment, known)))
    said = answer if isinstance(answer, NoAnswer) else Map.of(dict(answer))
    file = parse_contract(contract(body, noop).encode(), "c.yaml")
    done = evaluate(
        file, sides[0], sides[1], answer=said, timeline=timeline, facts=facts, trace=trace
    )
    if crc32(repr((body, before, after)).encode()) % 4 == 0:  # each takes as long as the judgement
        prepared = prepare(file, sides[0], facts=facts)
        warm = prepared.judgement(sides[1], answer=said, timeline=timeline, trace=trace)
        assert document(warm) == document(done.judgement), "a prepared contract judges otherwise"
    return done


def judged(body: str, before: Any, after: Any, **rest: Any) -> Judgement:
    return run(body, before, after, **rest).judgement


def finding(judgement: Judgement, clause: str) -> Finding:
    """The first finding of a clause."""
    return next(f for f in judgement.findings if f.clause == clause)


def truths(judgement: Judgement) -> dict[str, Truth]:
    return {c.clause: c.truth for c in judgement.clauses}


def outcome(judgement: Judgement, expected: Verdict | Truth | str) -> Verdict | Truth | str:
    """The verdict, or the truth or the code of the clause `c`: whichever is expected."""
    if isinstance(expected, Verdict):
        return judgement.verdict
    found = finding(judgement, "c")
    return truths(judgement)["c"] if isinstance(expected, Truth) else found.code


def document(judgement: Judgement) -> Any:
    return judgement_document(judgement)


def user(key: int, role: Observed = "user", name: Observed = "Ada") -> dict[str, Observed]:
    return {"id": key, "name": name, "role": role}


def item(
    key: int, n: Observed = 1, t: Observed = "a", owner: Observed = None
) -> dict[str, Observed]:
    return {"id": key, "n": n, "t": t, "owner": owner}


def doc(
    key: int, title: Observed = "x", kind: Observed = "memo", deleted_at: Observed = None
) -> dict[str, Observed]:
    return {"id": key, "title": title, "kind": kind, "deleted_at": deleted_at}


__all__ = [name for name in dir() if not name.startswith("_") and name != "annotations"]
