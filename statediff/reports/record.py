"""A bundle read for a report: decoded, and nothing of it trusted.

Everything here was influenced by the run, so `said` is the only way into a report: it spells out
control, bidirectional and zero-width characters and bounds the length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final

from statediff.evidence.documents import answer_from, fields_from, key_from
from statediff.evidence.package import Bundle
from statediff.kernel import course_of
from statediff.model.delta import Entity
from statediff.model.trace import NoAnswer
from statediff.model.values import Key, Observed, Value, decode, show, show_both, show_key
from statediff.model.verdict import Moment
from statediff.reports.plain import reading as reading  # noqa: PLC0414 - had from here, too
from statediff.reports.plain import side_of
from statediff.reports.said import said as said  # noqa: PLC0414 - it is had from here, too
from statediff.reports.wording.worded import worded_judgement
from statediff.suite.records import levels

Json = Any
VALUE_LIMIT: Final = 60
OPERATIONS: Final = {
    "delete": ("−", "deleted"),
    "unlink": ("−", "unlinked"),
    "update": ("~", "updated"),
    "create": ("+", "created"),
    "link": ("+", "linked"),
}
"""Operation → its sign, and what was done; the gravest first."""
MAX_CLAUSES: Final = 4
"""Clauses that a line names."""


@dataclass(frozen=True)
class Parsed(Bundle):
    """A bundle whose documents are read once; some of them may be others than its files hold."""

    documents: dict[str, Json] = field(default_factory=dict)

    def document(self, name: str) -> Json:
        """The JSON of one of the files. Anyone who gets it changes nothing in it."""
        if name not in self.documents:
            self.documents[name] = super().document(name)
        return self.documents[name]

    @cached_property
    def worded(self) -> Json:
        """The judgement, worded. Anyone who gets it changes nothing in it."""
        return worded_judgement(self)


def parsed(bundle: Bundle) -> Parsed:
    """The bundle, for several reports: what one has read of it, the next need not read."""
    return bundle if isinstance(bundle, Parsed) else Parsed(bundle.manifest, bundle.files)


@dataclass(frozen=True)
class Reading:
    """One reading as a report shows it."""

    side: str
    source: str
    age: str
    state: str
    read_at: str
    kind: str
    position: str
    digest: str
    is_complete: bool
    is_refused: bool


def reservations(trial: Json) -> list[str]:
    """Notes on how the trial was made, for a reader of its verdict; mostly none."""
    receipt = trial.get("receipt")
    if not isinstance(receipt, dict):
        return []
    found = ["the agent's own trace is trusted"] if receipt.get("trace") == "trusted" else []
    if beside := receipt.get("others"):
        who = ", ".join(f"{said(name, VALUE_LIMIT)} ({n})" for name, n in sorted(beside.items()))
        found.append(f"beside others, whose transactions are not judged: {who}")
    if earlier := receipt.get("at_large"):
        first = said(str(earlier[0]), VALUE_LIMIT)
        found.append(f"a program of an earlier trial ({first}) may have acted in this one")
    if refused := receipt.get("refused"):
        asked = said(str(refused[0]), VALUE_LIMIT)
        more = f" and {len(refused) - 1} more" if len(refused) > 1 else ""
        found.append(f"the agent asked for {asked}{more}, which `network` does not name")
    return found


class Record:
    """A bundle, asked for what a report shows. Raises `BundleError` under `reading`."""

    def __init__(self, bundle: Bundle) -> None:
        self.manifest = bundle.manifest
        self._bundle = parsed(bundle)

    @cached_property
    def judgement(self) -> Json:
        return self._bundle.worded

    @property
    def course(self) -> tuple[str, ...]:
        """The sentences about the states between the two ends; none where they are not known."""
        return tuple(_course_lines(course_of(self._bundle)))

    @property
    def contract(self) -> bytes:
        """The contract's bytes."""
        return self._bundle.files["contract.yaml"]

    @cached_property
    def fragments(self) -> Json:
        """The rows of the matching that is reported."""
        return self._bundle.document("fragments.json")[0]

    @cached_property
    def trial(self) -> Json:
        return self._bundle.document("trial.json")

    @cached_property
    def answer(self) -> Value | NoAnswer:
        return answer_from(self._bundle.document("answer.json"))

    @cached_property
    def trace(self) -> Json:
        return self._bundle.document("trace.json")

    @cached_property
    def history(self) -> Json:
        return self._bundle.document("captures.json")["history"]

    @cached_property
    def explained(self) -> dict[str, list[str]]:
        return {str(name): [str(b) for b in by] for name, by in self.judgement["explained_by"]}

    def readings(self) -> Iterator[Reading]:
        """Every reading with its age: until the agent began, or since all had settled."""
        captures = self._bundle.document("captures.json")
        timeline = self._bundle.document("timeline.json")
        refused = {(r[0], r[1]): r[2] for r in _refusals(captures)}
        for side in ("before", "after"):
            for entry in captures[side]:
                facts = entry["reading"]
                cause = refused.get((side, facts["source"])) or facts["cause"]
                state = f"{entry['entities']} entities" if cause is None else f"not used: {cause}"
                yield _reading(side, facts, timeline, state, is_refused=cause is not None)
        for facts in captures["history"]["readings"]:  # what was seen in between
            name, cause = facts["source"], facts["cause"]
            number = sum(e["source"] == name for e in captures["history"]["transactions"])
            state = f"{number} transaction{'s' * (number != 1)}"
            state = state if cause is None else f"{state} known: {cause}"
            yield _reading("during", facts, timeline, state, is_refused=False)


def _reading(side: str, facts: Json, timeline: Json, state: str, *, is_refused: bool) -> Reading:
    return Reading(
        side,
        facts["source"],
        _age("before" if side == "before" else "after", facts, timeline),
        state,
        read_at=f"{show(decode(facts['as_of']))} by the {facts['clock']} clock",
        kind=facts["kind"],
        position=facts["position"] or "",
        digest=str(facts["digest"] or ""),
        is_complete=facts["is_complete"],
        is_refused=is_refused,
    )


def _refusals(captures: Json) -> Iterator[tuple[str, str, str]]:
    yield from ((side, source, cause) for side, source, cause in captures["refusals"])


def _age(side: str, reading: Json, timeline: Json) -> str:
    if timeline is None:
        return "age unknown: judged offline"
    as_of = _instant(reading["as_of"])
    other = _instant(timeline["agent_started_at" if side == "before" else "settled_at"])
    if as_of is None or other is None:
        return "age unknown"
    apart = other - as_of if side == "before" else as_of - other
    seconds = apart / timedelta(seconds=1)
    what = "before the agent began" if side == "before" else "after all had settled"
    return f"{seconds:.3f} s {what}"


def _instant(tagged: Json) -> datetime | None:
    value = None if tagged is None else decode(tagged)
    return value if isinstance(value, datetime) else None


def shown(value: Observed, limit: int = VALUE_LIMIT) -> str:
    """A value, bounded and safe."""
    return said(show(value, limit), limit * 10)


def entity_name(type_name: str, key: Key) -> str:
    """`order 1009`."""
    return said(f"{type_name} {show_key(key)}")


def named_entity(document: Json) -> str:
    """The entity of a delta or a witness row; a row without a key by its natural name."""
    if "named" in document:
        return said(f"{document['type']} {document['named']}")
    return entity_name(document["type"], key_from(document["key"]))


def delta_name(delta: Json) -> str:
    """`order 1009 status`."""
    name = named_entity(delta)
    return f"{name} {said(delta['path'])}".rstrip()


def delta_sides(delta: Json) -> tuple[str, str]:
    """Both sides in words; the values as captured beside them where they differ.

    Of two sides that a rule makes equal, only what was captured.
    """
    if delta["before"] == delta["after"]:
        delta = {**delta, "before": delta["raw_before"], "after": delta["raw_after"]}
    before, after = side_of(delta["before"]), side_of(delta["after"])
    if isinstance(before, Entity) or isinstance(after, Entity):
        words = side_words(before), side_words(after)
    else:
        words = both_shown(before, after)
    return _side(delta, "before", words[0]), _side(delta, "after", words[1])


def both_shown(before: Observed, after: Observed) -> tuple[str, str]:
    """Two values that differ, bounded around the first difference, and safe."""
    one, two = show_both(before, after, VALUE_LIMIT)
    return said(one, VALUE_LIMIT * 10), said(two, VALUE_LIMIT * 10)


def _side(delta: Json, name: str, text: str) -> str:
    canonical, raw = side_of(delta[name]), side_of(delta[f"raw_{name}"])
    is_entity = isinstance(canonical, Entity) or isinstance(raw, Entity)
    if is_entity or delta[name] == delta[f"raw_{name}"]:
        return text
    return f"{text} (captured as {side_words(raw)})"


def side_words(side: Observed | Entity) -> str:
    """One side of a change, short; of an entity its first fields."""
    if isinstance(side, Entity):
        filled = [(name, value) for name, value in side.fields if value is not None]
        listed = ", ".join(f"{said(name)} {shown(value, 30)}" for name, value in filled[:6])
        return listed + (", …" if len(filled) > 6 else "")
    return shown(side)


def fields_of(row: Json) -> dict[str, Observed]:
    """The fields of a witness row."""
    return fields_from(row["fields"])


def key_of(row: Json) -> Key:
    """The key of a witness row or delta."""
    return key_from(row["key"])


# ---------------------------------------------------------------- along the run


def _course_lines(moments: Sequence[Moment]) -> Iterator[str]:
    right = next((n for n, moment in enumerate(moments) if moment.is_right), None)
    later = [] if right is None else moments[right + 1 :]
    broken = next((moment for moment in later if moment.broken), None)
    if right is not None and broken is not None:
        yield (
            f"Right {_after(moments[right])}, and broken again {_after(broken)}: "
            f"{_names(broken.broken)}."
        )
    lost = next((moment for moment in moments if moment.lost), None)
    if lost is not None:
        yield f"Lost {_after(lost)}: from there no end could satisfy {_names(lost.lost)}."


def _after(moment: Moment) -> str:
    return f"after transaction {moment.number} of {said(moment.source, 80)}"


def _names(clauses: Sequence[str]) -> str:
    more = "" if len(clauses) <= MAX_CLAUSES else f" and {len(clauses) - MAX_CLAUSES} more"
    return ", ".join(said(clause, 100) for clause in clauses[:MAX_CLAUSES]) + more


_TOLD: Final[dict[tuple[str | None, str | None], str]] = {
    ("FAILS", "HOLDS"): (
        "Along the run something went wrong that its end does not show: it was repaired, or it "
        "left no trace in the state."
    ),
    ("HOLDS", "FAILS"): (
        "Every step was as it must be, and the end is wrong: no single step shows what all of "
        "them together did, or left undone."
    ),
    ("UNKNOWN", "HOLDS"): "The end is right; how the run came there is not known.",
    ("UNKNOWN", "FAILS"): "The end is wrong; whether a step shows where is not known.",
    ("HOLDS", "UNKNOWN"): "Every step was as it must be; whether the end is right is not known.",
    ("FAILS", "UNKNOWN"): "A step went wrong; whether the end is right is not known.",
}


def disagreement(clauses: Iterable[Json]) -> str:
    """The meaning where checks along the run and checks of its end disagree [STA]; else empty.

    Steps, turns and rules about calls look at single spans of the run; what is forbidden, framed
    and required is judged over the run as a whole. Neither overrides the other.
    """
    return _TOLD.get(levels(clauses), "")
