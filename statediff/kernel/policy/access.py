"""Access: whether a right answer was validly reached [GE §1.2].

Each read is held against the visibility cone, whatever the gate did with it: to have asked for what
may not be read is a violation, and what came through is a leak besides. What must be read is read
only if it was fetched validly before the answer. A right answer on an invalid way has a finding of
its own, `state-invalid-correct`. Calls that nobody recorded, or can tie to artifacts, decide
nothing: they may have read what is missing, or what is forbidden. So may a call of a tool that
nobody ties to artifacts, unless its tool is said to show nothing of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final, TypeAlias

from statediff.contract.clauses.visibility import (
    ACCESS,
    BoundAccess,
    Citing,
    Needed,
    ReadBy,
    Search,
    Shelf,
    key_part,
)
from statediff.contract.evaluation.by_run import settled
from statediff.contract.evaluation.evaluate import outcomes
from statediff.contract.language.context import FALSE, TRUE, EntityRef
from statediff.contract.language.syntax import Node, Read
from statediff.kernel.policy.findings import WHOLE
from statediff.kernel.policy.run import CallContext, at_call, decided
from statediff.kernel.policy.steps import shown_call
from statediff.model.codes import FindingCode
from statediff.model.explanation import Argument, Cause, Explanation, Reason
from statediff.model.trace import Action, NoAnswer, Trace
from statediff.model.values import Absent, Map, Observed, Unobserved, Value
from statediff.model.verdict import MAX_CALLS_SHOWN, Finding, Stage, Truth
from statediff.reads.captured import (
    FETCH,
    SEARCH,
    WINDOW,
    Captured,
    CapturedArtifact,
    broken_by_asking,
    broken_by_citing,
    conjunction,
)

UNCITED: Final = Reason.READ_UNCITED()


@dataclass(frozen=True)
class RecordedRead:
    """One read: the call at `position`, the artifacts it named and whether they were delivered."""

    position: int
    call: EntityRef
    names: tuple[str, ...]
    is_delivered: bool
    subsystem: str | None = None
    """The subsystem that a search looked in; None for everywhere, and for what is no search."""
    is_search: bool = False


@dataclass(frozen=True)
class RecordedReads:
    """All reads of one run."""

    all: tuple[RecordedRead, ...]
    window: frozenset[str] | None
    """The artifacts that were offered in a window; None where none was."""
    causes: frozenset[Cause]
    """Why something may have been read that is not here."""
    answered_at: int
    """The calls before this position came before the answer."""

    def before_answer(self) -> Iterator[RecordedRead]:
        """The reads that the answer can rest on."""
        return (look for look in self.all if look.position < self.answered_at)


def recorded_reads(access: BoundAccess, run: CallContext) -> RecordedReads:
    """The reads that the trace tells of."""
    found: list[RecordedRead] = []
    causes: set[Cause] = set() if run.gap is None else {run.gap}
    window: set[str] | None = None
    readers = {reader.tool: reader for reader in access.readers}
    for position, (call, action) in enumerate(zip(run.calls, run.trace.actions, strict=True)):
        reader = readers.get(action.tool)
        silent = Reason.WHICH_ARTIFACTS(call=shown_call(call))
        if reader is None and action.tool == WINDOW:
            names = _texts(_at(action.result, ("artifacts", "[]", "id")))
            window = (window or set()) | set(names or ())
            causes.add(UNCITED if names is not None else silent)
        elif reader is not None or action.tool in (SEARCH, FETCH):
            read = _gated(action) if reader is None else _mapped(action, reader, access)
            if read is None:
                causes.add(silent)
            else:
                found.append(RecordedRead(position, call, *read))
        elif action.tool not in access.aside:
            causes.add(Reason.MAY_HAVE_SHOWN(call=shown_call(call)))
    shown = None if window is None else frozenset(window)
    return RecordedReads(
        tuple(found), shown, frozenset(causes), _replied_at(run.trace, run.context.answer)
    )


_What: TypeAlias = tuple[tuple[str, ...], bool, str | None, bool]
"""What a call read: the members of a `RecordedRead` after the call."""
_REFUSED: Final[_What] = ((), False, None, False)
"""A call that was refused, and named nothing."""


def _gated(action: Action) -> _What | None:
    """A call of the gate; None where the log does not tell what it was about."""
    arguments = action.arguments
    is_delivered = action.error is None
    if isinstance(arguments, Unobserved):
        return None
    if action.tool == FETCH:
        asked = arguments.get("id")
        if not isinstance(asked, str):  # the gate refuses a call without one
            return None if is_delivered else _REFUSED
        return (asked,), is_delivered, None, False
    subsystem = arguments.get("subsystem")
    names = _texts(_at(action.result, ("results", "[]", "id"))) if is_delivered else ()
    if names is None or not isinstance(subsystem, str | None | Absent):
        return None if is_delivered else _REFUSED
    return names, is_delivered, subsystem if isinstance(subsystem, str) else None, True


def _mapped(action: Action, reader: ReadBy, access: BoundAccess) -> _What | None:
    """A call of a tool that the contract ties to artifacts."""
    is_delivered = action.error is None
    root, *path = reader.path
    if root == "result" and not is_delivered:
        return _REFUSED
    holding = access.holding(reader.subsystem)
    values = _at(action.arguments if root == "arguments" else action.result, tuple(path))
    if holding is None or values is None:
        return None
    keys = [key_part(value, holding.key_kinds[0]) for value in values]
    if None in keys:
        return None
    names = tuple(holding.id_of((key,)) for key in keys)
    where = reader.subsystem if reader.is_search else None
    return names, is_delivered, where, reader.is_search


def _at(whole: Observed, path: tuple[str, ...]) -> tuple[Value, ...] | None:
    """The values at a path; None where it leads nowhere, or somewhere that was not recorded."""
    if isinstance(whole, Unobserved):
        return None
    if not path:
        return (whole,)  # type: ignore[return-value]  # what is no value there is no artifact's name
    step, rest = path[0], path[1:]
    if step == "[]":
        if not isinstance(whole, tuple):
            return None
        found: list[Value] = []
        for each in whole:
            inner = _at(each, rest)
            if inner is None:
                return None
            found += inner
        return tuple(found)
    return _at(whole.get(step), rest) if isinstance(whole, Map) else None


def _texts(values: Iterable[Value] | None) -> tuple[str, ...] | None:
    if values is None:
        return None
    listed = tuple(values)
    return tuple(str(v) for v in listed) if all(isinstance(v, str) for v in listed) else None


def _replied_at(trace: Trace, answer: Mapping[str, Observed] | NoAnswer) -> int:
    """The number of calls before the answer; a log with turns shows which one gave it."""
    turns = trace.turns or ()
    if isinstance(answer, NoAnswer):
        return len(trace.actions)
    replied = [
        number
        for number, turn in enumerate(turns)
        if (isinstance(turn.reply, Map) and dict(turn.reply.items) == answer)
        or (isinstance(turn.reply, str) and turn.reply == answer.get("text"))
    ]
    if replied and replied[-1] + 1 < len(turns):
        return turns[replied[-1] + 1].calls_before
    return len(trace.actions)


_STAGE: Final = Stage.ACCESS
"""How many violating calls get a finding of their own; the last says how many more there are."""
_NAMED: Final = 3
_MAX_NAME: Final = 80
"""Characters of an artifact's name that an explanation keeps."""

Begin = Callable[[str, frozenset[Read]], None]
"""Called with the clause that is judged next, and what it reads beside the state."""


def judge_access(
    access: BoundAccess, run: CallContext, begin: Begin, others: Iterable[Finding]
) -> Iterator[Finding]:
    """The findings of every clause about reads.

    `others` are the findings of all other clauses: they say whether the answer is right.
    """
    room = _Room(access, run)
    begin(access.id, access.reads)
    found = list(room.cone())
    for clause in access.clauses:
        begin(clause.id, clause.reads)
        found.append(room.clause(clause))
    wrong = [finding for finding in found if finding.truth is Truth.FAILS]
    if wrong and _is_right(others):
        codes = tuple(dict.fromkeys(finding.code.value for finding in wrong))
        why = Reason.INVALIDLY_REACHED(codes=codes)
        reached = replace(
            WHOLE.fails(access.id, FindingCode.STATE_INVALID_CORRECT, _STAGE, why), rank=0
        )
        found.insert(0, reached)
        found = [f for f in found if f.clause != access.id or f.truth is not Truth.HOLDS]
    for finding in found:
        yield run.own_word(finding, access)


def cone(access: BoundAccess, run: CallContext) -> tuple[Finding, ...]:
    """A finding for each call that asked for what may not be read, or one that there was none."""
    return _Room(access, run).cone()


def _is_right(others: Iterable[Finding]) -> bool:
    """True if the answer, or where none is judged what the run was to bring about, is right."""
    listed = list(others)
    for stage in (Stage.ANSWER, Stage.REQUIRE):
        truths = [finding.truth for finding in listed if finding.stage is stage]
        if truths:
            return all(truth is Truth.HOLDS for truth in truths)
    return False


_Stray: TypeAlias = tuple[FindingCode, Callable[..., Explanation]]
"""A rule that a call broke, and how; that takes the number of further such calls, `more`."""


@dataclass(frozen=True)
class _Room:
    """One run's reads, and the artifacts they are held against."""

    access: BoundAccess
    run: CallContext

    @cached_property
    def looks(self) -> RecordedReads:
        return recorded_reads(self.access, self.run)

    @cached_property
    def corpus(self) -> Captured:
        return Captured(self.access, self.run.context.before, self.run.context.eval_context)

    @cached_property
    def fetched(self) -> frozenset[str]:
        """The artifacts delivered before the answer; a search names, and delivers nothing."""
        return frozenset(
            each
            for look in self.looks.before_answer()
            if look.is_delivered and not look.is_search
            for each in look.names
        )

    # ------------------------------------------------------------ the cone

    def cone(self) -> tuple[Finding, ...]:
        """A finding for each call outside the cone, or one that there was none."""
        causes = {cause for cause in self.looks.causes if cause != UNCITED}
        found: list[tuple[RecordedRead, _Stray]] = []
        for look in self.looks.all:
            stray, why = self._strays(look)
            causes |= why
            if stray is not None:
                found.append((look, stray))
        if not found:
            return (decided(ACCESS, _STAGE, causes, Reason.ALL_READS(number=len(self.looks.all))),)
        findings = []
        for number, (look, stray) in enumerate(found[:MAX_CALLS_SHOWN], start=1):
            more = len(found) - MAX_CALLS_SHOWN if number == MAX_CALLS_SHOWN else 0
            code, why_not = stray
            broken = WHOLE.fails(ACCESS, code, _STAGE, why_not(more=more))
            findings.append(at_call(broken, look.call))
        return tuple(findings)

    def _strays(self, look: RecordedRead) -> tuple[_Stray | None, frozenset[Cause]]:
        """The first rule that a call breaks; why it may break one."""
        actor, call = self.access.actor, shown_call(look.call)
        outcome = "leaked" if look.is_delivered else "refused"
        if look.subsystem is not None and not self._may_search(look.subsystem):
            outcome = "empty" if look.is_delivered and not look.names else outcome
            closed = partial(Reason.SUBSYSTEM_CLOSED, call=call, subsystem=_cut(look.subsystem))
            why = partial(closed, actor=actor, outcome=outcome)
            return (FindingCode.SUBSYSTEM_VIOLATION, why), frozenset()
        causes: set[Cause] = set()
        for each in look.names:
            held = self.corpus.artifact(each)
            asked: dict[str, Argument] = {
                "call": call, "is_search": look.is_search, "artifact": _cut(each),
                "outcome": outcome,
            }  # fmt: skip
            code = next(broken_by_asking(held), None)
            if code is FindingCode.ACCESS_VIOLATION:
                return (code, partial(Reason.ARTIFACT_CLOSED, **asked, actor=actor)), frozenset()
            if code is not None:
                return (code, partial(Reason.ARTIFACT_LATER, **asked)), frozenset()
            if held is not None and held.lies != FALSE and held.inside != TRUE:
                causes |= held.causes or {Reason.WHETHER_READABLE(artifact=_cut(each))}
        return None, frozenset(causes)

    def _may_search(self, subsystem: str) -> bool:
        """True if something there may be granted; what a search names is held against the cone."""
        holding = self.access.holding(subsystem)
        by_taking_part = holding is not None and holding.authorized_by is not None
        return subsystem in self.access.sees or by_taking_part

    # ------------------------------------------------------------ what must have been read

    def clause(self, clause: Search | Needed | Citing) -> Finding:
        """The finding of one clause."""
        if isinstance(clause, Citing):
            return self._citing(clause)
        applies, causes = self._applies(clause.when, clause.reads)
        if applies == FALSE:
            return decided(clause.id, _STAGE, (), Reason.DOES_NOT_APPLY())
        found = self._search(clause) if isinstance(clause, Search) else self._needed(clause)
        if applies != TRUE and found.truth is not Truth.HOLDS:
            return WHOLE.unknown(clause.id, _STAGE, causes)
        return found

    def _applies(self, when: Node | None, reads: frozenset[Read]) -> tuple[int, set[Cause]]:
        """Without an answer nothing is claimed; that there is none is the answer's own fault."""
        if when is None:
            return TRUE, set()
        answer = self.run.context.answer
        if isinstance(answer, NoAnswer):
            return (TRUE | FALSE, {answer.cause}) if answer.is_unread else (FALSE, set())
        eval_context = self.run.context.eval_context(reads)
        mask = settled(outcomes(when, eval_context, {}), TRUE, when, eval_context, {})
        why = {*eval_context.causes, *eval_context.undefined}
        return mask, why or {Reason.WHETHER_APPLIES()}

    def _search(self, clause: Search) -> Finding:
        """Every artifact that the cone holds of the space was fetched; an empty place, searched."""
        causes: set[Cause] = set()
        missed: list[str | Explanation] = []
        number = 0
        for shelf in clause.space:
            causes |= self._gap(shelf)
            needed = [(h, conjunction(meant, h.inside)) for h, meant in self.corpus.on(shelf)]
            needed = [(held, need) for held, need in needed if need != FALSE]
            number += len(needed)
            for held, need in needed:
                if held.id in self.fetched:
                    continue
                if need == TRUE:
                    missed.append(held.id)
                else:
                    causes |= held.causes
            if not needed and not self._searched(shelf.subsystem):
                missed.append(Reason.NOTHING_SEARCHED(subsystem=shelf.subsystem))
        return self._found(clause.id, FindingCode.UNSEARCHED_ABSENCE, missed, number, causes)

    def _needed(self, clause: Needed) -> Finding:
        """All that is meant was fetched or, with a number, so many."""
        artifacts = list(self.corpus.on(clause.shelf))
        causes = self._gap(clause.shelf)
        counts = [(held, meant, self._got(held)) for held, meant in artifacts]
        missed: list[str | Explanation] = [
            held.id for held, meant, got in counts if meant == TRUE and got == FALSE
        ]
        if clause.low is None:
            open_ = [
                h
                for h, meant, got in counts
                if TRUE not in (meant, got) or got not in (TRUE, FALSE)
            ]
            if not artifacts and not causes:
                missed = [Reason.ANYTHING_MEANT(subsystem=clause.shelf.subsystem)]
        else:
            sure = sum(conjunction(meant, got) == TRUE for _, meant, got in counts)
            open_ = [h for h, meant, got in counts if conjunction(meant, got) == TRUE | FALSE]
            if sure >= clause.low:
                open_, causes, missed = [], set(), []
            elif sure + len(open_) >= clause.low or causes:
                missed = []
            else:
                missed = missed or [
                    Reason.SO_MANY_OF(number=clause.low, subsystem=clause.shelf.subsystem)
                ]
        causes |= {cause for held in open_ for cause in held.causes}
        code = FindingCode.EVIDENCE_NOT_RETRIEVED
        found = self._found(clause.id, code, missed, len(artifacts), causes)
        if not clause.cite or found.truth is Truth.FAILS:
            return found
        return self._uncited(clause, artifacts) or found

    def _uncited(
        self, clause: Needed, artifacts: list[tuple[CapturedArtifact, int]]
    ) -> Finding | None:
        """FAILS where too few of the evidence are cited."""
        cited = set(self._cited())
        certain = [held.id for held, meant in artifacts if meant == TRUE]
        left = [each for each in certain if each not in cited]
        if clause.low is None:
            enough = not left
        else:
            enough = sum(held.id in cited for held, _ in artifacts) >= clause.low
        if enough:
            return None
        uncited = Reason.NOT_CITED(artifacts=_listed(left), number=len(left))
        return WHOLE.fails(clause.id, FindingCode.EVIDENCE_NOT_CITED, _STAGE, uncited)

    def _found(
        self,
        clause: str,
        code: FindingCode,
        missed: list[str | Explanation],
        number: int,
        causes: set[Cause],
    ) -> Finding:
        """FAILS where something was missed that no unrecorded call may have read."""
        unseen = self.looks.causes
        if missed and not unseen:
            never = Reason.NEVER_FETCHED(
                missed=len(missed), of=max(number, len(missed)), artifacts=_listed(missed)
            )
            return WHOLE.fails(clause, code, _STAGE, never)
        if missed:
            causes = causes | unseen
        return decided(clause, _STAGE, causes, Reason.ALL_FETCHED(number=number))

    def _gap(self, shelf: Shelf) -> set[Cause]:
        """Why there may be more artifacts than those known."""
        gap = self.corpus.gap(shelf)
        return set() if gap is None else {gap}

    def _got(self, held: CapturedArtifact) -> int:
        """The truth of whether it was fetched validly, before the answer."""
        return held.inside if held.id in self.fetched else FALSE

    def _searched(self, subsystem: str) -> bool:
        return any(
            look.is_search and look.is_delivered and look.subsystem in (None, subsystem)
            for look in self.looks.before_answer()
        )

    # ------------------------------------------------------------ citations

    def _cited(self) -> tuple[str, ...]:
        """The citations of the answer, in order; none where it has no such list."""
        citing, answer = self.access.citing, self.run.context.answer
        if citing is None or isinstance(answer, NoAnswer):
            return ()
        listed = answer.get(citing.name)
        return tuple(map(_text, listed)) if isinstance(listed, tuple) else ()

    def _citing(self, clause: Citing) -> Finding:
        cited = tuple(dict.fromkeys(self._cited()))
        causes: set[Cause] = set()
        answer = self.run.context.answer
        if isinstance(answer, NoAnswer) and answer.is_unread:
            causes.add(answer.cause)
        for each in cited:
            held, window = self.corpus.artifact(each), self.looks.window
            code = broken_by_citing(
                held,
                was_offered=window is None or each in window,
                was_fetched=window is not None or each in self.fetched,
            )
            if code is FindingCode.CITATION_NOT_RETRIEVED and self.looks.causes:
                causes |= self.looks.causes
            elif code is not None:
                return WHOLE.fails(clause.id, code, _STAGE, self._uncitable(code, held, _cut(each)))
            elif held is not None and held.inside != TRUE:
                causes |= held.causes
        return decided(clause.id, _STAGE, causes, Reason.ALL_CITED(number=len(cited)))

    def _uncitable(
        self, code: FindingCode, held: CapturedArtifact | None, shown: str
    ) -> Explanation:
        if code is FindingCode.HALLUCINATED_CITATION:
            exists = held is not None and held.lies != FALSE
            return Reason.CITED_UNKNOWN(artifact=shown, was_offered=exists)
        if code is FindingCode.CITATION_NOT_RETRIEVED:
            return Reason.CITED_UNFETCHED(artifact=shown)
        if held is not None and held.granted == FALSE:
            return Reason.CITED_CLOSED(artifact=shown, actor=self.access.actor)
        return Reason.CITED_LATER(artifact=shown)


def _text(value: Value) -> str:
    return value if isinstance(value, str) else f"{value!r}"


def _cut(text: str) -> str:
    return text[:_MAX_NAME]


def _listed(names: Sequence[str | Explanation]) -> Explanation:
    named = tuple(_cut(each) if isinstance(each, str) else each for each in names[:_NAMED])
    return Reason.NAMES(names=named, more=max(0, len(names) - _NAMED))
