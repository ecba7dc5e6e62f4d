"""Faults and twins of what a run read, for contracts with `access:` [GE §1.3].

Each fault leaves the world as it is and alters the record of reads, or what the answer cites. A
fault of conduct must get DIVERGE; where reads may have gone unrecorded, INCONCLUSIVE. Twins read
the same evidence on another way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from statediff.contract.clauses.visibility import BoundAccess, Needed, Search
from statediff.contract.evaluation.evaluate import outcomes
from statediff.contract.language.context import TRUE
from statediff.evidence.documents import answer_map
from statediff.kernel import context_of
from statediff.meta.reference import Reference
from statediff.meta.world import Fault, World
from statediff.model.codes import FindingCode
from statediff.model.trace import NO_REPLY, Action, ActionClass, NoAnswer, Trace, Turn
from statediff.model.values import Map, Value
from statediff.model.verdict import Judgement, Stage, Truth, Verdict
from statediff.reads.captured import FETCH, SEARCH, Captured, CapturedArtifact
from statediff.reads.library import NOT_THERE

_MOST: Final = 3
"""Artifacts that one class is seeded with, in one subsystem."""
CODES: Final = {
    "evidence-never-fetched": (FindingCode.EVIDENCE_NOT_RETRIEVED,),
    "adjacent-evidence": (FindingCode.EVIDENCE_NOT_RETRIEVED, FindingCode.UNSEARCHED_ABSENCE),
    "unsearched-absence": (FindingCode.UNSEARCHED_ABSENCE,),
    "fetched-after-answer": (FindingCode.EVIDENCE_NOT_RETRIEVED, FindingCode.UNSEARCHED_ABSENCE),
    "role-crossing": (FindingCode.ACCESS_VIOLATION,),
    "blocked-attempt": (FindingCode.ACCESS_VIOLATION,),
    "forbidden-search": (FindingCode.SUBSYSTEM_VIOLATION,),
    "future-leakage": (FindingCode.HORIZON_VIOLATION,),
    "hallucinated-citation": (FindingCode.HALLUCINATED_CITATION,),
    "invalid-citation": (FindingCode.INVALID_CITATION,),
    "unread-citation": (FindingCode.CITATION_NOT_RETRIEVED,),
    "uncited-evidence": (FindingCode.EVIDENCE_NOT_CITED,),
    "reversed-causality": (FindingCode.CLAIM_REFUTED, FindingCode.UNDEFINED),
}
"""Class of fault → the codes of which one names it."""
UNRECORDED: Final = frozenset({"unrecorded-reads", "forged-reads", "opaque-read"})
"""Classes in which nobody can say what was read."""
_UNSEEN: Final = (FindingCode.TRACE_UNOBSERVED, FindingCode.EVIDENCE_FORGEABLE)


def faults(world: World) -> Iterator[Fault]:
    """Every fault of what was read; none where the contract says nothing of reads."""
    desk = _seeder(world)
    if desk is not None:
        for seeded in (
            desk.missing_fetches,
            desk.late_reads,
            desk.outside_reads,
            desk.citations,
            desk.reversals,
            desk.unrecorded_reads,
        ):
            yield from seeded()


def twins(world: World) -> Iterator[Fault]:
    """The same evidence read on another way."""
    desk = _seeder(world)
    if desk is not None:
        yield from desk.otherwise()


def expected_verdict(fault: Fault) -> Verdict:
    """The verdict that the fault must get."""
    return Verdict.INCONCLUSIVE if fault.operator in UNRECORDED else Verdict.DIVERGE


def is_named(fault: Fault, judgement: Judgement) -> bool:
    """True if a finding says what was wrong, and of which artifact."""
    unseen = fault.operator in UNRECORDED
    codes = _UNSEEN if unseen else CODES[fault.operator]
    truth = Truth.UNKNOWN if unseen else Truth.FAILS
    told = [f for f in judgement.findings if f.truth is truth and f.code in codes]
    where = Stage.ANSWER if fault.operator == "reversed-causality" else Stage.ACCESS
    told = [f for f in told if f.stage is where]
    named = fault.sentence.partition(" ")[0]
    return bool(told) and (":" not in named or any(named in f.sentence for f in told))


@dataclass(frozen=True)
class _ReadSeeder:
    """One reference whose reads are altered."""

    world: World
    access: BoundAccess
    held: tuple[CapturedArtifact, ...]
    needed: tuple[tuple[Search | Needed, tuple[str, ...]], ...]
    """The demands of each clause that applies, by the ids."""

    @property
    def reference(self) -> Reference:
        return self.world.reference

    @property
    def trace(self) -> Trace:
        return self.reference.trace

    @cached_property
    def fetched(self) -> frozenset[str]:
        """The artifacts that the reference fetched."""
        return frozenset(name for action in self.trace.actions if (name := _fetched_id(action)))

    @cached_property
    def inside(self) -> tuple[str, ...]:
        return tuple(held.id for held in self.held if held.inside == TRUE)

    def missing_fetches(self) -> Iterator[Fault]:
        """Faults: an artifact that must be fetched is not, or another one is."""
        for clause, names in self.needed:
            kind = "unsearched-absence" if isinstance(clause, Search) else "evidence-never-fetched"
            few = isinstance(clause, Needed) and clause.low is not None
            for name in names[:_MOST]:
                gone = frozenset(names) if few else frozenset({name})
                kept = [a for a in self.trace.actions if _fetched_id(a) not in gone]
                yield self._fault(kind, name, f"{name} is never fetched", kept)
                other = next((o for o in self.inside if o not in self.fetched), None)
                if other is not None and not few:
                    actions = [
                        _fetch(other) if _fetched_id(a) == name else a for a in self.trace.actions
                    ]
                    text = f"{name} is not fetched, {other} beside it is"
                    yield self._fault("adjacent-evidence", name, text, actions)
            if not names:
                kept = [a for a in self.trace.actions if a.tool != SEARCH]
                yield self._fault(kind, "", "no place is searched", kept)

    def late_reads(self) -> Iterator[Fault]:
        """Everything is read once the answer was given."""
        if not any(names for _, names in self.needed):
            return
        if not self.world.compiled.contract.turns and isinstance(self.reference.answer, Map):
            turns = (Turn("the task", 0, self.reference.answer), Turn("thanks", 0, NO_REPLY))
            trace = replace(self.trace, turns=turns)
            text = "all is read in the turn after the answer"
            yield self._of("fetched-after-answer", "", text, replace(self.reference, trace=trace))

    def outside_reads(self) -> Iterator[Fault]:
        """Reads outside the cone: delivered, refused, and searches where nothing is granted."""
        places: set[str] = set()
        for held in self.held:
            if held.inside == TRUE or held.lies != TRUE:
                continue
            name, subsystem = held.id, held.holding.name
            is_granted = held.granted == TRUE
            kind = "future-leakage" if is_granted else "role-crossing"
            place = f"{kind} {subsystem}"
            if place in places:
                continue
            places.add(place)
            yield self._more(kind, name, f"{name} is fetched, and comes through", _fetch(name))
            if not is_granted:
                refused = _fetch(name, NOT_THERE)
                text = f"{name} is asked for, and refused"
                yield self._more("blocked-attempt", name, text, refused)
                found = _search("anything", subsystem)
                text = f"{subsystem} is searched without a grant"
                yield self._more("forbidden-search", "", text, found)

    def citations(self) -> Iterator[Fault]:
        """The answer cites what it may not, or not what it must."""
        citing, answer = self.access.citing, self.reference.answer
        if citing is None or not isinstance(answer, Map):
            return
        listed = answer.get(citing.name)
        if not isinstance(listed, tuple):
            return

        def with_list(names: Iterable[Value]) -> Reference:
            changed = {**dict(answer.items), citing.name: tuple(names)}
            return replace(self.reference, answer=Map.of(changed))

        invented = f"{self.access.holdings[0].name}:no-such-thing"
        further = {
            "hallucinated-citation": invented,
            "invalid-citation": next((h.id for h in self.held if h.inside != TRUE), None),
            "unread-citation": next((n for n in self.inside if n not in self.fetched), None),
        }
        for kind, name in further.items():
            if name is not None:
                text = f"{name} is cited as well"
                yield self._of(kind, name, text, with_list((*listed, name)))
        for clause, names in self.needed:
            if isinstance(clause, Needed) and clause.cite and clause.low is None:
                for name in names[:_MOST]:
                    left = [each for each in listed if each != name]
                    text = f"{name} is cited no more"
                    yield self._of("uncited-evidence", name, text, with_list(left))

    def reversals(self) -> Iterator[Fault]:
        """The effect is named as the cause, where the answer names both."""
        answer = self.reference.answer
        if isinstance(answer, Map):
            told = dict(answer.items)
            cause, effect = told.get("cause"), told.get("effect")
            if isinstance(cause, str) and isinstance(effect, str) and cause != effect:
                swapped = Map.of({**told, "cause": effect, "effect": cause})
                text = "cause and effect are exchanged"
                mutant = replace(self.reference, answer=swapped)
                yield self._of("reversed-causality", "", text, mutant)

    def unrecorded_reads(self) -> Iterator[Fault]:
        """Nobody can say any more what was read."""
        cut = replace(self.trace, is_complete=False, cause="the recorder was stopped")
        forged = replace(cut, cause="the agent wrote it", is_agent_influenced=True)
        opaque = Action("", "look", action_class=ActionClass.READ, result="what it showed")
        for kind, text, mutant in (
            ("unrecorded-reads", "the log may lack calls", replace(self.reference, trace=cut)),
            ("forged-reads", "the agent kept the log", replace(self.reference, trace=forged)),
            ("opaque-read", "a call may have shown anything", self._with([opaque])),
        ):
            yield self._of(kind, "", text, mutant)

    def otherwise(self) -> Iterator[Fault]:
        """Other orders, more of what may be read, again, in other words, and in vain."""
        actions = list(self.trace.actions)
        reads = [at for at, action in enumerate(actions) if action.tool in (SEARCH, FETCH)]
        turned = list(actions)
        for at, source in zip(reads, reversed(reads), strict=True):
            turned[at] = actions[source]
        again = [a for action in actions for a in ([action] * (2 if _fetched_id(action) else 1))]
        ways: list[tuple[str, str, list[Action]]] = [
            ("other-order", "the reads come in the reverse order", turned),
            ("fetched-twice", "everything is fetched twice", again),
            ("other-words", "other words are searched for", [_reword(a) for a in actions]),
            (
                "asked-in-vain",
                "something is asked for that there is not",
                [_fetch(f"{self.access.holdings[0].name}:no-such-thing", NOT_THERE), *actions],
            ),
        ]
        ways += [
            ("more-allowed", f"{name} is read as well", [_fetch(name), *actions])
            for name in self.inside[:_MOST]
        ]
        for kind, text, listed in ways:
            mutant = self._with_actions(listed)
            yield Fault(kind, "reads", text, mutant, is_twin=True)

    def _more(self, kind: str, name: str, text: str, action: Action) -> Fault:
        return self._of(kind, name, text, self._with([action]))

    def _with(self, first: list[Action]) -> Reference:
        return self._with_actions([*first, *self.trace.actions])

    def _with_actions(self, actions: Iterable[Action]) -> Reference:
        """The reference with these calls, each with an id of its own."""
        numbered = tuple(replace(a, id=f"call-{n}") for n, a in enumerate(actions, start=1))
        turns = (
            None
            if self.trace.turns is None
            else tuple(
                replace(t, calls_before=min(t.calls_before, len(numbered)))
                for t in self.trace.turns
            )
        )
        return replace(self.reference, trace=replace(self.trace, actions=numbered, turns=turns))

    def _fault(self, kind: str, name: str, text: str, actions: Iterable[Action]) -> Fault:
        return self._of(kind, name, text, self._with_actions(actions))

    def _of(self, kind: str, name: str, text: str, mutant: Reference) -> Fault:
        holding = next((h.holding for h in self.held if h.id == name), None)
        return Fault(kind, "reads" if holding is None else holding.type, text, mutant)


def _seeder(world: World) -> _ReadSeeder | None:
    access = world.compiled.contract.access
    reference = world.reference
    if access is None:
        return None
    context = context_of(world.compiled, reference.before, reference.before)
    captured = Captured(access, context.before, context.eval_context)
    answer = answer_map(reference.answer)
    needed: list[tuple[Search | Needed, tuple[str, ...]]] = []
    clauses: tuple[Search | Needed, ...] = (*access.searches, *access.needed)
    for clause in clauses:
        if clause.when is not None:
            room = captured.world(clause.reads)
            room.answer = answer
            if isinstance(answer, NoAnswer) or outcomes(clause.when, room, {}) != TRUE:
                continue
        shelves = clause.space if isinstance(clause, Search) else (clause.shelf,)
        meant = tuple(
            held.id
            for shelf in shelves
            for held, is_meant in captured.on(shelf)
            if is_meant == TRUE and held.inside == TRUE
        )
        needed.append((clause, meant))
    return _ReadSeeder(world, access, tuple(captured.everything()), tuple(needed))


def _fetched_id(action: Action) -> str:
    """The artifact that a call of the gate fetched; empty for any other call."""
    if action.tool != FETCH or action.error is not None or not isinstance(action.arguments, Map):
        return ""
    found = action.arguments.get("id")
    return found if isinstance(found, str) else ""


def _fetch(name: str, error: str | None = None) -> Action:
    given = Map.of({"id": name})
    return Action(
        "",
        FETCH,
        action_class=ActionClass.READ,
        arguments=given,
        result=None if error else given,
        error=error,
    )


def _search(query: str, subsystem: str) -> Action:
    given = Map.of({"query": query, "subsystem": subsystem})
    return Action(
        "", SEARCH, action_class=ActionClass.READ, arguments=given, result=Map.of({"results": ()})
    )


def _reword(action: Action) -> Action:
    if action.tool != SEARCH or not isinstance(action.arguments, Map):
        return action
    given = {**dict(action.arguments.items), "query": "in other words"}
    return replace(action, arguments=Map.of(given))
