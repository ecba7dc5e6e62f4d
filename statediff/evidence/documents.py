"""The JSON of everything a bundle holds, and back: one function a noun, values tagged and exact."""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction
from typing import Any, Final

from statediff.errors import BundleError, InputError
from statediff.model.delta import Delta, Doubt, Entity, HiddenDelta
from statediff.model.readings import Capture, Reading, ReadingKind, Timeline
from statediff.model.schema import EntityType, Field, Kind, Purpose, Schema
from statediff.model.state import Coverage, Enumeration, beginnings
from statediff.model.trace import NoAnswer, RunEnding
from statediff.model.values import Key, Map, Observed, Value, decode, encode, is_value
from statediff.model.verdict import Finding, Judgement, Verdict, Witness

Json = Any

TIMELINE: Final = (
    "reset_verified_at",
    "agent_started_at",
    "first_action_at",
    "agent_finished_at",
    "settled_at",
)
"""The steps of a trial that a timeline dates, in their order."""


def key_document(key: Key) -> Json:
    """The JSON of a key."""
    return [encode(part) for part in key]


def key_from(document: Json) -> Key:
    """What `key_document` turned into this JSON."""
    key = tuple(decode(part) for part in document)
    if not all(is_value(part) for part in key):
        raise InputError(f"not the key of an entity: {str(document)[:80]}")
    return key  # type: ignore[return-value]  # checked above


def fields_document(fields: tuple[tuple[str, Observed], ...]) -> Json:
    """The JSON of an entity's fields."""
    return [[name, encode(value)] for name, value in fields]


def fields_from(document: Json) -> dict[str, Observed]:
    """What `fields_document` turned into this JSON."""
    return {str(name): decode(value) for name, value in document}


def _side(value: Observed | Entity) -> Json:
    if isinstance(value, Entity):
        return {"entity": fields_document(value.fields)}
    return {"value": encode(value)}


def delta_document(delta: Delta) -> Json:
    """A delta with both forms of its sides."""
    return {
        "id": delta.id,
        "op": delta.op.value,
        "type": delta.type,
        "key": key_document(delta.key),
        "path": delta.place,
        "before": _side(delta.before),
        "after": _side(delta.after),
        "raw_before": _side(delta.raw_before),
        "raw_after": _side(delta.raw_after),
        "label": delta.label.value,
        "evidence": list(delta.evidence),
        "transaction": delta.transaction,
        "action": delta.action,
    }


def hidden_document(hidden: HiddenDelta) -> Json:
    """The JSON of a hidden."""
    return {
        "delta": delta_document(hidden.delta),
        "rule": hidden.rule,
        "by": "boundary" if hidden.by_boundary else "canonicalization",
    }


def doubt_document(doubt: Doubt) -> Json:
    """The JSON of a doubt."""
    return {
        "type": doubt.type,
        "key": None if doubt.key is None else key_document(doubt.key),
        "path": doubt.path,
        "cause": doubt.cause,
        "stage": doubt.stage,
        "source": doubt.source,
    }


def witness_document(witness: Witness) -> Json:
    """The JSON of a witness."""
    return {
        "rows": [
            {
                "side": r.side,
                "type": r.type,
                "key": key_document(r.key),
                "fields": fields_document(r.fields),
            }
            for r in witness.rows
        ],
        "comparisons": [
            {
                "text": c.text,
                "left": c.left.document(),
                "operator": c.operator,
                "right": c.right.document(),
            }
            for c in witness.comparisons
        ],
    }


def finding_document(finding: Finding) -> Json:
    """The JSON of a finding."""
    return {
        "clause": finding.clause,
        "code": finding.code.value,
        "stage": finding.stage.value,
        "truth": finding.truth.value,
        "explanation": finding.explanation.document(),
        "component": finding.component,
        "deltas": list(finding.deltas),
        "evidence": list(finding.evidence),
        "missing": [cause.document() for cause in finding.causes],
        "witness": witness_document(finding.witness),
    }


def _verdict(verdict: Verdict | None) -> Json:
    return None if verdict is None else verdict.value


def fraction_document(value: Fraction | None) -> Json:
    """The JSON of a fraction."""
    return None if value is None else f"{value.numerator}/{value.denominator}"


def judgement_document(judgement: Judgement) -> Json:
    """All that policy decided."""
    metrics = judgement.metrics
    return {
        "verdict": judgement.verdict.value,
        "results": {
            "tool": _verdict(judgement.tool),
            "task": _verdict(judgement.task),
            "outcome": _verdict(judgement.outcome),
        },
        "clauses": [
            {"clause": c.clause, "stage": c.stage.value, "truth": c.truth.value}
            for c in judgement.clauses
        ],
        "findings": [finding_document(f) for f in judgement.findings],
        "metrics": {
            "precision": fraction_document(metrics.precision),
            "recall": fraction_document(metrics.recall),
            "forbidden_effect_rate": fraction_document(metrics.forbidden_effect_rate),
        },
        "deltas": [delta_document(d) for d in judgement.deltas],
        "during": [delta_document(d) for d in judgement.during],
        "explained_by": [[d, list(by)] for d, by in judgement.explained_by],
        "hidden": [hidden_document(h) for h in judgement.hidden],
        "doubts": [doubt_document(d) for d in judgement.doubts],
    }


def schema_document(schema: Schema, known: dict[int, Json] | None = None) -> Json:
    """The JSON of a state schema; `known` has that of types, by their identity, and gets others."""
    known = {} if known is None else known
    for each in schema.types:
        if id(each) not in known:
            known[id(each)] = _type_document(each)
    return {
        "name": schema.name,
        "version": schema.version,
        "types": [known[id(each)] for each in schema.types],
        "sources": [[source, list(types)] for source, types in schema.sources],
    }


def _type_document(entity: EntityType) -> Json:
    return {
        "name": entity.name,
        "key": list(entity.key),
        "table": entity.table,
        "is_association": entity.is_association,
        "keys_are_reused": entity.keys_are_reused,
        "deleted_when": entity.deleted_when,
        "made_by": entity.made_by,
        "is_open": entity.is_open,
        # Where nothing is said, what was written before it could be said stands.
        **_told(is_json=entity.is_json, is_optional=entity.is_optional),
        **_told(outside=entity.outside, counter=entity.counter, is_late=entity.is_late),
        **({} if entity.holds is None else {"holds": entity.holds.value}),
        "fields": [
            {
                "name": f.name,
                "kind": f.kind.value,
                "is_nullable": f.is_nullable,
                "reference": f.reference,
                "column": f.column,
                "zone": f.zone,
                "is_immutable": f.is_immutable,
                **_told(form=f.form, digest_above_bytes=f.digest_above_bytes, is_late=f.is_late),
            }
            for f in entity.fields
        ],
    }


def _told(**members: object) -> Json:
    """The members that say something."""
    return {name: said for name, said in members.items() if said is not None and said is not False}


def schema_from(document: Json) -> Schema:
    """What `schema_document` turned into this JSON."""
    types = tuple(
        EntityType(
            t["name"],
            tuple(t["key"]),
            tuple(
                Field(
                    f["name"],
                    Kind(f["kind"]),
                    is_nullable=f["is_nullable"],
                    reference=f["reference"],
                    column=f["column"],
                    zone=f["zone"],
                    is_immutable=f["is_immutable"],
                    digest_above_bytes=f.get("digest_above_bytes"),
                    form=f.get("form"),
                    is_late=f.get("is_late", False),
                )
                for f in t["fields"]
            ),
            table=t["table"],
            is_association=t["is_association"],
            keys_are_reused=t["keys_are_reused"],
            deleted_when=t["deleted_when"],
            made_by=t["made_by"],
            is_open=t["is_open"],
            is_json=t.get("is_json", False),
            is_optional=t.get("is_optional", False),
            outside=t.get("outside"),
            counter=t.get("counter"),
            holds=Purpose(t["holds"]) if "holds" in t else None,
            is_late=t.get("is_late", False),
        )
        for t in document["types"]
    )
    sources = tuple((s, tuple(names)) for s, names in document["sources"])
    return Schema(document["name"], document["version"], types, sources)


def reading_document(reading: Reading) -> Json:
    """The JSON of a reading."""
    return {
        "id": reading.id,
        "source": reading.source,
        "kind": reading.kind.value,
        "as_of": encode(reading.as_of),
        "clock": reading.clock,
        "is_complete": reading.is_complete,
        "digest": reading.digest,
        "position": reading.position,
        "cause": reading.cause,
        "is_agent_influenced": reading.is_agent_influenced,
        "acknowledgement": reading.acknowledgement,
    }


def reading_from(document: Json) -> Reading:
    """What `reading_document` turned into this JSON."""
    return Reading(
        document["id"],
        document["source"],
        ReadingKind(document["kind"]),
        as_of=_instant(document["as_of"]),
        clock=document["clock"],
        is_complete=document["is_complete"],
        digest=document["digest"],
        position=document["position"],
        cause=document["cause"],
        is_agent_influenced=document["is_agent_influenced"],
        acknowledgement=document["acknowledgement"],
    )


def _instant(document: Json) -> datetime:
    moment = decode(document)
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise InputError(f"not an instant: {str(document)[:80]}")
    return moment


def instant_or_none(document: Json) -> datetime | None:
    """The instant in this JSON, None for its null; `InputError` for anything else."""
    return None if document == ["null"] else _instant(document)


def capture_document(capture: Capture) -> Json:
    """The readings of one moment with the digests of the states they delivered."""
    return [
        {
            "reading": reading_document(p.reading),
            "state": p.state.digest(),
            "entities": p.state.entity_count,
        }
        for p in capture.parts
    ]


def enumeration_document(enumeration: Enumeration) -> Json:
    """The JSON of an enumeration: coverage, cause and, where they are known, `below`."""
    more = [list(enumeration.below)] if enumeration.below else []
    return [enumeration.coverage.value, enumeration.cause, *more]


def enumeration_from(document: Json) -> Enumeration:
    """What `enumeration_document` turned into this JSON; `BundleError` where it could not have."""
    coverage, below = Coverage(document[0]), tuple(document[2]) if len(document) > 2 else ()
    if below and (coverage is not Coverage.INCOMPLETE or below != beginnings(below)):
        raise BundleError("an enumeration with beginnings of keys that cannot stand so")
    return Enumeration(coverage, document[1], below=below)


def timeline_document(timeline: Timeline | None) -> Json:
    """The JSON of a timeline."""
    if timeline is None:
        return None
    return {
        **{name: encode(getattr(timeline, name)) for name in TIMELINE},
        "unsettled": [[s, c] for s, c in timeline.unsettled],
    }


def timeline_from(document: Json) -> Timeline | None:
    """What `timeline_document` turned into this JSON."""
    if document is None:
        return None
    steps = {name: instant_or_none(document[name]) for name in TIMELINE}
    return Timeline(**steps, unsettled=tuple((s, c) for s, c in document["unsettled"]))


def ending_document(ending: RunEnding) -> Json:
    """The JSON of how a run ended."""
    return {"how": ending.how, "exit_code": ending.exit_code}


def ending_from(document: Json) -> RunEnding | None:
    """The ending that `ending_document` turned into this JSON; None where nobody recorded it."""
    return None if document is None else RunEnding(document["how"], document["exit_code"])


def answer_document(answer: Value | NoAnswer) -> Json:
    """The JSON of an answer."""
    return {"none": answer.cause} if isinstance(answer, NoAnswer) else {"answer": encode(answer)}


def answer_from(document: Json) -> Value | NoAnswer:
    """What `answer_document` turned into this JSON."""
    if "none" in document:
        return NoAnswer(document["none"])
    return decode(document["answer"])  # type: ignore[return-value]  # an answer is a value


def answer_map(answer: Value | NoAnswer) -> dict[str, Value] | NoAnswer:
    """The answer as the judging stage reads it: names to values."""
    if isinstance(answer, NoAnswer):
        return answer
    if isinstance(answer, Map):
        return dict(answer.items)
    return NoAnswer("the answer is not an object with names")
