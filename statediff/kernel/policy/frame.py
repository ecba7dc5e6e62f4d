"""The frame: every delta must be explained (docs/design.md §3).

Under `history: required` so must be what each transaction of a source changed. Such a change is
explained if a pattern explains it there, if it left what the net change of the place, which is
explained, left too, or if it is of a field that the system derives and shows what that is at some
moment of the run.

A counter that the system keeps is explained without a clause: a source says which `db.sequence`
entity counts the inserts of which type (`EntityType.counter`), and it must be exactly the greater
of what it was and the highest key that the run created. What it moved beyond that, or back, nothing
explains: a key that was given and taken back shows in a history, and else nowhere. The creations
themselves are changes like any other. A forbid clause over `db.sequence` forbids the counter all
the same.

What a database does by itself after an explained change is explained with it, as far as its
catalogue ties the two (`contract.clauses.causes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias

from statediff.contract.binding.bound import Contract
from statediff.contract.clauses.causes import following, times_of
from statediff.contract.clauses.derive import Derived
from statediff.contract.clauses.patterns import Pattern
from statediff.contract.language.context import FALSE, TRUE
from statediff.kernel.policy.clauses import further, qualified, that_of_all
from statediff.kernel.policy.findings import Outcome, at
from statediff.kernel.policy.history import IntermediateStates
from statediff.kernel.policy.matching import (
    JudgingContext,
    Match,
    doubt_causes,
    relevant,
    selects,
)
from statediff.kernel.policy.relation import COME, GONE
from statediff.kernel.policy.witness import change, first_change, witness_of_place
from statediff.model.codes import FindingCode
from statediff.model.delta import Delta, Doubt, Entity, Op, delta_id
from statediff.model.explanation import PARTED, Cause, Reason, cause, is_by_agent
from statediff.model.schema import COUNT, COUNTERS
from statediff.model.values import ABSENT, Digested, Key, Unobserved, is_value, key_order, same
from statediff.model.verdict import OF_CATALOGUE, OF_COUNTERS, Finding, Stage, Truth

SURE: Final = Outcome(TRUE)
NEVER: Final = Outcome(FALSE)


def counter_votes(
    context: JudgingContext, created: Iterable[Delta] = ()
) -> Iterator[ExplanationVote]:
    """The changes of counters that the keys of created entities explain, or may.

    `created` are deltas beside the context's own: those outside Ω, and of transactions.
    """
    changes, numbers = context.changes, context.changes.by_type.get(COUNTERS, ())
    moved = [delta for number in numbers for delta in changes[number].deltas]
    if not moved:
        return
    counted: dict[Key, str] = {
        (t.counter,): t.name for t in context.after.schema.types if t.counter is not None
    }
    come: dict[str, list[Key]] = {}
    for each in (*(d for one in context.changes for d in one.deltas), *created):
        if each.op in COME:
            come.setdefault(each.type, []).append(each.key)
    for delta in moved:
        name = counted.get(delta.key)
        ends = _ends(delta)
        if name is None or ends is None:
            continue
        keys = come.get(name, [])
        doubts = [d for d in context.doubts if d.type == name and d.path is None]
        possible = (keys, *([*keys, key] for key in _unseen(doubts, ends)))
        if any(_is_exact(ends, each) for each in possible):
            waiting = frozenset(cause(doubt.cause) for doubt in doubts)
            yield ExplanationVote(delta, OF_COUNTERS, TRUE | FALSE if waiting else TRUE, waiting)


def _ends(delta: Delta) -> tuple[int, int] | None:
    """The counter before and after; None where it is no whole number, or is gone."""
    before: object = 0
    after: object = ABSENT
    if delta.op is Op.UPDATE and delta.path == COUNT and not delta.steps:
        before, after = delta.before, delta.after
    elif delta.op is Op.CREATE and isinstance(delta.after, Entity):
        after = dict(delta.after.fields).get(COUNT, ABSENT)
    if type(before) is not int or type(after) is not int:
        return None
    return before, after


def _is_exact(ends: tuple[int, int], keys: Iterable[Key]) -> bool:
    """True if the counter is what it was, raised to the highest key that came."""
    before, after = ends
    listed = [key[0] for key in keys if len(key) == 1]
    numbers = [key for key in listed if type(key) is int]
    return bool(numbers) and len(numbers) == len(listed) and after == max(before, *numbers)


def _unseen(doubts: Iterable[Doubt], ends: tuple[int, int]) -> Iterator[Key]:
    """The key that the counter stands at, where a row that has it may be there unseen."""
    highest = (ends[1],)
    if any(doubt.key in (None, highest) for doubt in doubts):
        yield highest


class ExplainedDelta(NamedTuple):
    """A delta with the clauses that explain it, or may."""

    delta: Delta
    by: tuple[str, ...]
    truth: Truth
    causes: frozenset[Cause] = frozenset()


class ExplanationVote(NamedTuple):
    """One clause's word on whether it explains one delta: TRUE, FALSE, or what that waits for."""

    delta: Delta
    by: str
    mask: int
    causes: frozenset[Cause] = frozenset()


def explain(
    patterns: Sequence[Pattern], context: JudgingContext, more: Iterable[ExplanationVote] = ()
) -> tuple[ExplainedDelta, ...]:
    """Each delta, in order, with the truth of its being explained by some pattern or by `more`."""
    by: dict[int, tuple[str, ...]] = {}
    shared: dict[tuple[str, ...], tuple[str, ...]] = {}
    open_: dict[int, list[ExplanationVote]] = {}
    for votes in [_said(pattern, context) for pattern in patterns] + [more]:
        for said in votes:
            place = id(said.delta)
            if said.mask == TRUE:
                known = (*by.get(place, ()), said.by)
                by[place] = shared.setdefault(known, known)
            elif said.mask != FALSE:
                open_.setdefault(place, []).append(said)
    deltas = [delta for change in context.changes for delta in change.deltas]
    explained = [
        ExplainedDelta(each, by[id(each)], Truth.HOLDS)
        if id(each) in by
        else _unexplained_delta(each, open_.get(id(each), ()))
        for each in deltas
    ]
    if context.tied:
        _add_causes(explained, context)
    return tuple(explained)


def _add_causes(explained: list[ExplainedDelta], context: JudgingContext) -> None:
    """Explains what the database does by itself after an explained change."""
    truths = [(each.delta, each.truth) for each in explained]
    found = following(context.after.schema, truths, times_of(context.timeline))
    for number, (truth, reason) in found.items():
        delta = explained[number].delta
        by = (OF_CATALOGUE,) if truth is Truth.HOLDS else ()
        waits = [] if by else [e.causes for e in explained if e.delta in reason]
        explained[number] = ExplainedDelta(delta, by, truth, frozenset[Cause]().union(*waits))


def _unexplained_delta(delta: Delta, open_: Sequence[ExplanationVote]) -> ExplainedDelta:
    if not open_:
        return ExplainedDelta(delta, (), Truth.FAILS)
    causes = frozenset[Cause]().union(*(entry.causes for entry in open_))
    causes = causes or frozenset({Reason.WHETHER_EXPLAINED(clause=open_[0].by)})
    return ExplainedDelta(delta, (), Truth.UNKNOWN, causes)


def _said(pattern: Pattern, context: JudgingContext) -> Iterator[ExplanationVote]:
    """The votes of the pattern on the deltas that it matches."""
    matches, bound = _candidates(pattern, context)
    for match in matches:
        for delta in match.change.deltas:
            covers = _covers(pattern, delta, context)
            if FALSE in (covers.mask, bound.mask):
                continue
            if match.mask == covers.mask == bound.mask == TRUE:
                yield ExplanationVote(delta, pattern.id, TRUE)
                continue
            why = frozenset[Cause]() if match.holds else match.why
            yield ExplanationVote(
                delta, pattern.id, TRUE | FALSE, covers.causes | bound.causes | why
            )


def _candidates(pattern: Pattern, context: JudgingContext) -> tuple[list[Match], Outcome]:
    """The changes that the pattern matches, and whether it may explain each.

    A require clause explains whatever it matches: that there are too many, or that `that` fails of
    them, is its own finding. An allow clause explains nothing beyond its `count` and `that`.
    """
    matches = context.matches(pattern)
    if pattern.section is Stage.REQUIRE:
        return matches, SURE
    doubts = relevant(pattern, context, ~FALSE)
    waiting = doubt_causes(doubts)
    matches = qualified(pattern, context, matches, waiting)
    definite = sum(m.holds for m in matches)
    causes: set[Cause] = set()
    if pattern.high is not None:
        if definite > pattern.high:
            return matches, NEVER
        more = further(pattern, matches, doubts)
        if more is None or len(matches) + more > pattern.high:
            causes |= waiting.union(*(m.why for m in matches if not m.holds))
    if not pattern.speaks_of_each:
        that = that_of_all(pattern, context, matches, waiting)
        if that.mask == FALSE:
            return matches, NEVER
        if that.mask != TRUE:
            causes |= that.causes or {that.undefined or Reason.WHETHER_THAT(clause=pattern.id)}
    return matches, Outcome(TRUE | FALSE, causes=frozenset(causes)) if causes else SURE


def _covers(pattern: Pattern, delta: Delta, context: JudgingContext) -> Outcome:
    """The outcome of the pattern's paths including the delta's, made by its principal."""
    if pattern.by is not None:
        mask, why = context.attribution.by(delta, pattern.by)
        if mask != TRUE:
            return Outcome(mask, causes=frozenset({why}))
    if pattern.fields is None:
        return SURE
    if delta.op is Op.UPDATE:
        return SURE if selects(pattern, delta) else NEVER
    if not pattern.names_fields:
        return SURE
    if delta.is_of_mark:
        return SURE if pattern.selects(_mark_of(delta.type, context), ()) else NEVER
    value = delta.after if delta.op in COME else delta.before
    key = context.after.schema.by_name[delta.type].key
    cells = value.fields if isinstance(value, Entity) else ()
    outside = [
        (name, cell)
        for name, cell in cells
        if name not in key and not pattern.selects(name, (), cell)
    ]
    if any(isinstance(c, Digested) or (c is not None and is_value(c)) for _, c in outside):
        return NEVER
    causes = frozenset[Cause](
        Reason.IN(place=f"{delta.id}.{name}", cause=cause(cell.cause))
        for name, cell in outside
        if isinstance(cell, Unobserved)
    )
    return Outcome(TRUE | FALSE, causes=causes) if causes else SURE


def _mark_of(type_name: str, context: JudgingContext) -> str:
    """The field that tells of the deletion of the type's entities."""
    schemas = context.after.schema, context.before.schema
    types = (schema.by_name.get(type_name) for schema in schemas)
    return next(t.deleted_when for t in types if t is not None and t.deleted_when is not None)


def frame(
    explanations: tuple[ExplainedDelta, ...], patterns: Sequence[Pattern], context: JudgingContext
) -> tuple[Finding, ...]:
    """The findings of the frame: one per entity with an unexplained change, or one that holds."""
    findings = readings_parted(context)
    groups: dict[object, list[Delta]] = {}
    for entry in explanations:
        if entry.truth is Truth.FAILS:
            d = entry.delta
            groups.setdefault((d.type, key_order(d.key), d.op), []).append(d)
    for group in groups.values():
        deltas = tuple(group)
        why = partial(first_change, deltas)
        code = FindingCode.UNEXPLAINED_CHANGE
        findings.append(context.tell.fails("frame", code, Stage.FRAME, why, deltas))
    unsure = [e for e in explanations if e.truth is Truth.UNKNOWN]
    doubts = list(_unexplained(context, patterns)) if context.doubts else []
    if unsure or doubts:
        waiting = chain(doubt_causes(doubts), _waiting(unsure))
        changed = (e.delta for e in unsure)
        findings.append(context.tell.unknown("frame", Stage.FRAME, waiting, (), changed))
    if not findings:
        explained = partial(Reason.ALL_EXPLAINED, number=len(explanations))
        everything = map(attrgetter("delta"), explanations)
        findings.append(context.tell.holds("frame", Stage.FRAME, explained, everything))
    return tuple(findings)


def _waiting(unsure: Iterable[ExplainedDelta]) -> Iterator[Cause]:
    """The observations that the question waits for whether each of the changes is explained."""
    for entry in unsure:
        for why in entry.causes:
            yield Reason.OF_CHANGE(change=change(entry.delta), cause=cause(why))


def _unexplained(context: JudgingContext, patterns: Iterable[Pattern]) -> Iterator[Doubt]:
    """The doubts that may be a change which none of the patterns explains."""
    waiting = {n: doubt for n, doubt in enumerate(context.doubts) if not is_parted(doubt)}
    for pattern in filter(_explains_any_number, patterns) if waiting else ():
        for number, mask in context.doubted(pattern, waiting):
            if mask == TRUE:
                del waiting[number]
    yield from waiting.values()


def readings_parted(context: JudgingContext) -> list[Finding]:
    """One finding for each place where readings agreed before the run and contradict each other.

    One of them is not as it was before. No clause explains that: nobody can say which change it is.
    """
    found = []
    for doubt in filter(is_parted, context.doubts):
        why = Reason.READINGS_PARTED(place=doubt.where, cause=cause(doubt.cause))
        finding = context.tell.fails("frame", FindingCode.READINGS_PARTED, Stage.FRAME, why)
        if doubt.key is not None:
            sides = [
                context.entity_ref(side, doubt.type, doubt.key) for side in ("before", "after")
            ]
            finding = replace(finding, witness=witness_of_place(sides, doubt.path))
        found.append(finding)
    return found


def is_parted(doubt: Doubt) -> bool:
    """True if readings of the place agreed before the run, and contradict each other now."""
    return doubt.cause.partition(": ")[0] == PARTED


def _explains_any_number(pattern: Pattern) -> bool:
    """True if the pattern explains each change it matches, however many there are."""
    if pattern.section is Stage.REQUIRE:
        return True
    return pattern.high is None and all(node is None for node in pattern.that.values())


Kept: TypeAlias = Callable[[Derived, Key, str], bool]
"""(rule, key, side) → whether the field may show there what the system keeps."""


def frame_within(
    contract: Contract,
    patterns: Sequence[Pattern],
    net: tuple[ExplainedDelta, ...],
    context: JudgingContext,
    moments: IntermediateStates,
    kept: Kept,
) -> Iterator[Finding]:
    """The findings of the frame over the transactions of the sources whose history is required.

    `net` is what the patterns explain at the ends.
    """
    asked = [rule for rule in contract.evidence if rule.needs_history]
    explained = {
        delta_id(e.delta.type, e.delta.key, e.delta.place): e
        for e in (net if asked else ())
        if e.truth is Truth.HOLDS
    }
    for rule in asked:
        types = dict(contract.schema.sources).get(rule.source) or ("",)
        known = context.tell.holds("frame", Stage.FRAME, Reason.ALL_TRANSACTIONS_EXPLAINED())
        gaps = moments.gaps(types)
        within: list[Finding] = []
        # What the run kept from being seen is its change, which nothing explains.
        broken = sorted(gap for gap in gaps if is_by_agent(gap))
        if broken:
            why = Reason.HISTORY_BROKEN(cause=cause(broken[0]))
            yield context.tell.fails("frame", FindingCode.HISTORY_BROKEN, Stage.FRAME, why)
        if contract.frame_is_open:
            yield context.tell.over_the_run(known, (), gaps)
            continue
        for stretch in moments.stretches(types, context):
            if not stretch.is_own:
                continue
            votes = _votes_within(stretch.context, explained, contract.derived, kept)
            said = chain(votes, counter_votes(stretch.context))
            found = frame(explain(patterns, stretch.context, said), patterns, stretch.context)
            within += [at(each, stretch.where) for each in found]
        failing = [each for each in within if each.truth is Truth.FAILS]
        yield from failing or [context.tell.over_the_run(known, within, gaps)]


def _votes_within(
    there: JudgingContext,
    explained: dict[str, ExplainedDelta],
    derived: Sequence[Derived],
    kept: Kept,
) -> Iterator[ExplanationVote]:
    side = there.names[1]
    for delta in (each for moved in there.changes for each in moved.deltas):
        if delta.op is Op.UPDATE:
            for rule in derived:
                if rule.keeps(delta) and kept(rule, delta.key, side):
                    yield ExplanationVote(delta, rule.id, TRUE)
        net = explained.get(delta_id(delta.type, delta.key, delta.place))
        if net is not None and _brought(delta, net.delta):
            yield ExplanationVote(delta, net.by[0], TRUE)
        whole = explained.get(delta_id(delta.type, delta.key, ""))
        # What is deleted in the end may have been deleted softly first, and then purged.
        if whole is not None and whole.delta.op in GONE and delta.after is ABSENT:
            yield ExplanationVote(delta, whole.by[0], TRUE)


def _brought(delta: Delta, net: Delta) -> bool:
    """True if the transaction's change is the net one."""
    if delta.op is not net.op:
        return False
    if isinstance(delta.after, Entity) or isinstance(net.after, Entity):
        return delta.after == net.after
    return same(delta.after, net.after)
