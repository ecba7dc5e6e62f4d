"""The pipeline: one trial judged and packed.

The manifest says of each rule of ν what it was given and what it made of it, as digests [SSD §VII].
Values stay in the bundle in both forms; the digests fix which of them each rule stood between.

A contract prepared over a state before judges any number of states after it, by the same stages.
Kept between them are the clauses that hold as long as what they read is as it was before the run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, Final, NamedTuple

from statediff._version import __version__
from statediff.capture.bounds import bound_captures
from statediff.contract.binding.bound import Contract
from statediff.contract.file import ContractFile
from statediff.errors import AdapterError, ContractError
from statediff.evidence.canonical import write
from statediff.evidence.disclosure.settings import opened_to
from statediff.evidence.disclosure.undisclosed import Shown, withheld
from statediff.evidence.documents import (
    delta_document,
    ending_document,
    judgement_bytes,
    judgement_document,
)
from statediff.evidence.pack import Decided, Heard, documents
from statediff.evidence.package import NO_BUNDLE, UNDISCLOSED, Bundle, make
from statediff.evidence.roots import NO_SECRET, Roots
from statediff.kernel.along import TO_COME, Whole, moments_of, touched
from statediff.kernel.canonicalize.book import BoundRule
from statediff.kernel.contracts import Compiled, compile_contract, schema_of
from statediff.kernel.judging_modules import modules_digest
from statediff.kernel.policy.admission import Refusal, admit, read_answer
from statediff.kernel.policy.findings import combine
from statediff.kernel.policy.held import Held, sharing, touched_by
from statediff.kernel.policy.history import IntermediateStates
from statediff.kernel.policy.judge import Evidence, Rest, judge
from statediff.kernel.policy.so_far import contract_so_far, stand
from statediff.kernel.resolve import RESOLVER, resolve
from statediff.later import Later, later
from statediff.model.delta import Delta, Diff
from statediff.model.readings import NO_HISTORY, Capture, Timeline
from statediff.model.schema import Schema
from statediff.model.timelines import Matching, Resolution, SourceTimeline, Timelines
from statediff.model.trace import BY_ITSELF, NO_ANSWER, NO_TRACE, NoAnswer, RunEnding, Trace, Turn
from statediff.model.values import Value
from statediff.model.verdict import Finding, Judgement, SoFar, Truth, Verdict
from statediff.model.view import Ledger, RecordingView, StateView, View
from statediff.uncollected import uncollected

KERNEL: Final = "13"
"""Version of the judging kernel; raised by hand when any judgement could change."""
RELEASES: Final[Mapping[str, str]] = {"6": "0.1.0", "7": "0.2.0", "13": "1.0.0"}
"""Kernel → the first released statediff that has it; others were in no release."""


@dataclass(frozen=True)
class TrialFacts:
    """The facts of a trial that its bundle states. Ids and seeds are given, never made up here."""

    id: str
    agent: str = "none"
    sandbox: str | None = None
    isolation: str = "none"
    seed: int = 0
    receipt: Mapping[str, Any] = field(default_factory=dict)
    """The reset's receipt as a document without floats; empty where there was no sandbox."""
    sources: tuple[str, ...] = ()
    """Every source of the sandbox; those in the captures where none are given."""
    secret: bytes = field(default=NO_SECRET, repr=False)
    """The secret that salts the state roots, one for both captures; no bundle has it."""
    ending: RunEnding | None = None
    """How the run ended; None where nobody knows. A bundle says it where a clause asks."""

    @staticmethod
    def offline(ended: str | None = None) -> TrialFacts:
        """Those of a run that somebody else made, who may say how it ended. `UsageError`."""
        ending = None if ended is None else RunEnding.named(ended)
        return TrialFacts("offline", agent="unknown", isolation="unknown", ending=ending)

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "agent": self.agent,
            "sandbox": self.sandbox,
            "isolation": self.isolation,
            "seed": str(self.seed),  # a seed may have 64 bits, a number in a bundle 53
            "receipt": dict(self.receipt),
            "sources": sorted(self.sources),
            **({} if self.ending is None else {"ending": ending_document(self.ending)}),
        }


NOTHING_HELD: Final[Mapping[str, Finding]] = {}
NO_FACTS: Final = TrialFacts("trial")


@dataclass(frozen=True)
class Evaluated(Later):
    """A judged trial: the judgement, as it is shown to people, and its bundle."""

    judgement: Judgement
    bundle: Bundle
    contract: Contract


def evaluate(  # noqa: PLR0913 - the door of the pipeline, whose options are all given by name
    file: ContractFile,
    before: Capture,
    after: Capture,
    *,
    trace: Trace = NO_TRACE,
    answer: Value | NoAnswer = NO_ANSWER,
    timeline: Timeline | None = None,
    facts: TrialFacts = NO_FACTS,
    roots: Roots | None = None,
    packs_later: bool = False,
) -> Evaluated:
    """The judged trial; `roots` are those of its captures, where they were made before.

    With `packs_later` it is decided now, and explained and packed when somebody asks; the captures
    are kept until then.
    `ContractError` if the contract does not fit, or would match a run in which nothing happened
    without saying `noop: true`.
    """
    captures = bound_captures(before, after)
    said = _Said(trace, answer, timeline)
    tried = _tried(file, captures, said, facts, explains=not packs_later)
    heard = Heard(*captures, triples(tried.refusals), trace, answer, timeline)
    shown = Shown(trace, answer)
    done = Evaluated(as_shown(tried.judgement, shown), NO_BUNDLE, tried.compiled.contract)
    if not packs_later:
        return replace(done, bundle=_packed(file, tried, heard, facts, roots, shown))

    def pack() -> Bundle:
        return _packed(file, _tried(file, captures, said, facts), heard, facts, roots, shown)

    return later(done, "bundle", pack)


@uncollected()
def _packed(
    file: ContractFile,
    tried: _Tried,
    heard: Heard,
    facts: TrialFacts,
    roots: Roots | None,
    shown: Shown,
) -> Bundle:
    """The bundle of a judged trial, and beside it what it does not show."""
    compiled = tried.compiled
    if not compiled.contract.asks_how_it_ended:
        facts = replace(facts, ending=None)
    content = documents(
        tried.decided,
        tried.resolution,
        heard,
        facts.as_json(),
        compiled.scoped.leaves,
        roots or Roots.of(heard.before, heard.after, facts.secret),
    )
    manifest = facts_of(file, compiled, tried.judgement, facts.id)
    manifest |= {"statediff": __version__, "modules": modules_digest()}
    other = shown.documents(as_shown(tried.judgement, shown))
    made = judgement_document if other else judgement_bytes
    content["judgement.json"] = made(tried.judgement)
    hidden = withheld(content, other, facts.id, facts.secret)
    if hidden is None:
        return make(content, file.data, manifest)
    manifest[UNDISCLOSED], undisclosed = hidden
    return make(content | other, file.data, manifest, undisclosed)


def judgement_of(
    file: ContractFile,
    before: Capture,
    after: Capture,
    *,
    trace: Trace = NO_TRACE,
    answer: Value | NoAnswer = NO_ANSWER,
    timeline: Timeline | None = None,
    facts: TrialFacts = NO_FACTS,
    kept: Kept | None = None,
) -> Judgement:
    """The judgement alone, as `evaluate` makes it: nothing is packed. Raises as that does.

    `kept` is what judgements of this contract over this state before have in common.
    """
    captures = bound_captures(before, after)
    said = _Said(trace, answer, timeline)
    tried = _tried(file, captures, said, facts, explains=False, kept=kept)
    return as_shown(tried.judgement, Shown(trace, answer))


def as_shown(judgement: Judgement, shown: Shown) -> Judgement:
    """The judgement, whose findings show no more than the calls and the answer do."""
    return replace(
        judgement,
        explain=lambda: replace(judgement.explained, findings=shown.findings(judgement.findings)),
        explain_open=lambda: shown.findings(judgement.open),
    )


def gates_now(
    file: ContractFile,
    before: Capture,
    now: Capture,
    *,
    trace: Trace,
    timeline: Timeline,
    facts: TrialFacts,
) -> Mapping[str, Truth]:
    """The truths if the run ends with the last message of the trace, by the id of the gate.

    Of the turn that the message belongs to: its gate, and those of its rules for replies.
    """
    captures = bound_captures(before, now)
    compiled = compile_contract(file, schema_of(*captures))
    turn = (trace.turns or ())[-1]
    asked = [gate for gate in compiled.contract.turns if gate.number == turn.gate]
    gates = (*asked, *(rule for gate in asked for rule, _ in gate.replies))
    compiled = replace(compiled, contract=replace(compiled.contract, turns=gates))
    said = _Said(trace, NO_ANSWER, timeline)
    tried = _tried(file, captures, said, facts, compiled, explains=False)
    return {gate.id: tried.judgement.truth_of(gate.id) for gate in gates}


class Kept:
    """The part that judgements of one contract over one state before have in common."""

    def __init__(self) -> None:
        self._held: tuple[Compiled, Held] | None = None
        self._so_far: tuple[Compiled, Compiled] | None = None

    def so_far(self, compiled: Compiled) -> Compiled:
        """The contract as it judges a run that is not over."""
        known = self._so_far
        if known is None or known[0] is not compiled:
            open_ = replace(compiled, contract=contract_so_far(compiled.contract))
            known = self._so_far = compiled, open_
        return known[1]

    def held(self, compiled: Compiled) -> Held:
        """The clauses that are known to hold, under the schema of the states at hand."""
        known = self._held
        if known is None or known[0] is not compiled:
            zipped = (use.type for use in compiled.book.uses if len(use.fields) > 1)
            known = self._held = compiled, Held(compiled.contract, zipped)
        return known[1]


class _Tried(NamedTuple):
    compiled: Compiled
    refusals: tuple[Refusal, ...]
    resolution: Resolution
    decided: list[Decided]
    judgement: Judgement


class _Said(NamedTuple):
    """The record of a run beside its states."""

    trace: Trace
    answer: Value | NoAnswer
    timeline: Timeline | None


@uncollected()
def _tried(
    file: ContractFile, captures: tuple[Capture, Capture], said: _Said, facts: TrialFacts,
    instead: Compiled | None = None, *, explains: bool = True, kept: Kept | None = None,
) -> _Tried:  # fmt: skip
    """The trial, judged; `instead` is judged under where only a part of the contract is asked.

    What is not to be explained notes no reads, and cannot be packed.
    """
    before, after = captures
    compiled = instead or compile_contract(file, schema_of(before, after))
    contract = compiled.contract
    refusals = admit(
        before.readings, after.readings, said.timeline, contract.evidence, facts.sources
    )
    resolution = resolve(
        before,
        after,
        compiled.identities,
        contract.authority,
        {(r.side, r.source): r.cause for r in refusals},
        contract.must_report,
    )
    if instead is None:
        require_action(file, compiled, resolution, refusals)
    answered = read_answer(contract.document.answer, said.answer)
    rest = Rest(refusals, answered, said.trace, facts.ending, said.timeline)
    held = kept.held(compiled) if kept is not None and len(resolution.matchings) == 1 else None
    decided = [
        _judge_states(compiled, matching, resolution, rest, held, explains=explains)
        for matching in resolution.matchings
    ]
    judgement = combine(
        contract,
        [case.judgement for case in decided],
        resolution.ambiguous,
        resolution.differ_only_in_opaque_ids,
    )
    return _Tried(compiled, refusals, resolution, decided, judgement)


def triples(refusals: Iterable[Refusal]) -> tuple[tuple[str, str, str], ...]:
    """The refusals as plain texts."""
    return tuple((r.side, r.source, r.cause) for r in refusals)


def _judge_states(
    compiled: Compiled, matching: Matching, resolution: Resolution, rest: Rest,
    held: Held | None = None, *, explains: bool,
) -> Decided:  # fmt: skip
    if held is not None:
        after = sharing(matching.before, matching.after)
        matching = Matching(matching.before, after, matching.pairs)
    found = compiled.diff(matching.before, matching.after, resolution.readings_of)
    states = {**resolution.between, "before": matching.before, "after": matching.after}
    ledger = Ledger()
    views: dict[str, View] = {s: StateView(each, compiled.scoped) for s, each in states.items()}
    if explains:
        views = {side: RecordingView(view, side, ledger) for side, view in views.items()}
    course = resolution.course
    if any(map(attrgetter("steps"), course.lines)):
        places = touched(compiled, course, states, rest.trace)
        moments = moments_of(compiled, course, views, Whole(states), places, rest.trace)
    else:
        commits = {line.source: () for line in course.lines}
        places, moments = {}, IntermediateStates(course, views, commits)
    noted = ledger if explains else None
    if held is None:
        return Decided(matching, judged(compiled, moments, found, rest, noted), ledger, places)
    changed = touched_by(matching.before, matching.after, found)
    judgement = judged(compiled, moments, found, rest, noted, held.known(changed))
    held.learn(changed, judgement.clauses)
    return Decided(matching, judgement, ledger, places)


def judged(
    compiled: Compiled,
    moments: IntermediateStates,
    found: Diff,
    rest: Rest,
    ledger: Ledger | None,
    held: Mapping[str, Finding] = NOTHING_HELD,
) -> Judgement:
    """The judgement over the views of the moments, the ends among them.

    With a ledger its reads are noted, and it is explained at once. `held` are known to hold.
    """
    evidence = Evidence(
        moments=moments,
        diff=found,
        rest=rest,
        ledger=ledger,
        explains=ledger is not None,
        held=held,
    )
    return judge(compiled.contract, evidence)


def check_null_run(
    file: ContractFile,
    compiled: Compiled,
    resolution: Resolution,
    refusals: Iterable[Refusal] = (),
) -> Judgement:
    """The judgement of a run in which nothing happened and nothing was said.

    `ContractError` if it would MATCH and the contract does not say `noop: true`.
    """
    state = resolution.matchings[0].before
    nothing = Timelines((SourceTimeline("the null run", frozenset(state.schema.by_name)),))
    still = Resolution(
        (Matching(state, state),), readings_of=resolution.readings_of, course=nothing
    )
    rest = Rest(
        tuple(r for r in refusals if r.side == "before"),
        NoAnswer("the null run says nothing"),
        Trace((), is_complete=True, cause="", turns=_spoken(compiled.contract)),
        RunEnding(BY_ITSELF, 0),
    )
    null = _judge_states(compiled, still.matchings[0], still, rest, explains=False).judgement
    if null.verdict is Verdict.MATCH and not file.content.noop:
        problem = file.source.problem(
            ("contract",),
            "a run in which nothing happens would MATCH this contract",
            code="null-run",
            hint="require what must change, or say `noop: true` if nothing must",
        )
        raise ContractError((problem,))
    return null


@dataclass(frozen=True)
class _Still:
    """All that the verdict of a null run hangs on, by digest: it keeps no state alive."""

    contract: str
    schema: Schema = field(hash=False)
    before: str
    refused: tuple[Refusal, ...]


_MAX_SOUND: Final = 256
_SOUND: Final[dict[_Still, None]] = {}
"""Null runs that do not match unasked, as judged before: the trials of a task begin alike."""


def require_action(
    file: ContractFile, compiled: Compiled, resolution: Resolution, refusals: Iterable[Refusal]
) -> None:
    """A run in which nothing happens would not match unasked. `ContractError`."""
    state = resolution.matchings[0].before
    refused = tuple([refusal for refusal in refusals if refusal.side == "before"])
    case = _Still(file.digest, state.schema, state.digest(), refused)
    if case not in _SOUND:
        check_null_run(file, compiled, resolution, refused)
        if len(_SOUND) >= _MAX_SOUND:
            _SOUND.clear()
        _SOUND[case] = None


def _spoken(contract: Contract) -> tuple[Turn, ...]:
    """The turns of a run in which the user says everything and the agent does nothing."""
    return tuple(Turn(gate.message, 0, None) for gate in contract.turns)


def facts_of(
    file: ContractFile, compiled: Compiled, judgement: Judgement, trial: str
) -> dict[str, Any]:
    """The facts of the bundle's content in its manifest, beside the digests of its files."""
    schema = compiled.contract.schema
    return {
        "kernel": KERNEL,
        "trial": trial,
        "contract": file.content.contract,
        "contract_version": file.content.version,
        "contract_digest": file.digest,
        "schema": f"{schema.name}@{schema.version}",
        "verdict": judgement.verdict.value,
        "resolver": RESOLVER,
        "rules": sorted({use.rule.id for use in compiled.book.uses}),
        "applied": applied(compiled.book.uses, judgement),
        "keeping": {
            source: {"retain": rule.retain, "disclose": opened_to(file, schema, source)}
            for source, rule in sorted(file.content.evidence.items())
        },
    }


def applied(uses: Sequence[BoundRule], judgement: Judgement) -> list[dict[str, Any]]:
    """Each rule, where it stands, and SHA-256 of the sides of its differences before and after it.

    Differences that a rule hides are among them.
    """
    hidden = [entry.delta for entry in judgement.hidden if not entry.by_boundary]
    every = sorted((*judgement.deltas, *hidden), key=lambda delta: delta.id)
    return [_applied(use, every) for use in uses]


def _applied(use: BoundRule, every: Iterable[Delta]) -> dict[str, Any]:
    here = [
        delta_document(delta)
        for delta in every
        if delta.type == use.type and (not delta.path or delta.path in use.fields)
    ]
    return {
        "rule": use.rule.id,
        "type": use.type,
        "fields": list(use.places),
        "inputs": _digest(here, "raw_before", "raw_after"),
        "outputs": _digest(here, "before", "after"),
    }


def _digest(deltas: Iterable[dict[str, Any]], *sides: str) -> str:
    content = [[delta["id"], *(delta[side] for side in sides)] for delta in deltas]
    return hashlib.sha256(write(content)).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A contract over a state before. Safe to share between threads."""

    file: ContractFile
    before: Capture
    facts: TrialFacts = NO_FACTS
    null_run: ContractError | None = None
    """Why no run at all can be judged: one in which nothing happens would match unasked."""
    kept: Kept = field(default_factory=Kept)
    kept_so_far: Kept = field(default_factory=Kept)

    def so_far(self, now: Capture, *, trace: Trace = NO_TRACE) -> SoFar:
        """How the run stands if it goes on from here; its systems are at rest.

        Raises as `evaluate` does.
        """
        captures = bound_captures(self.before, now)
        kept = self.kept_so_far
        compiled = kept.so_far(compile_contract(self.file, schema_of(*captures)))
        said = _Said(trace, TO_COME, None)
        tried = _tried(self.file, captures, said, self.facts, compiled, explains=False, kept=kept)
        return stand(compiled.contract, as_shown(tried.judgement, Shown(trace, TO_COME)))

    def judgement(
        self,
        after: Capture,
        *,
        trace: Trace = NO_TRACE,
        answer: Value | NoAnswer = NO_ANSWER,
        timeline: Timeline | None = None,
        ending: RunEnding | None = None,
    ) -> Judgement:
        """The judgement that `evaluate` makes of the same. Raises as that does."""
        return judgement_of(
            self.file,
            self.before,
            after,
            trace=trace,
            answer=answer,
            timeline=timeline,
            facts=self.facts if ending is self.facts.ending else replace(self.facts, ending=ending),
            kept=self.kept,
        )


def prepare(file: ContractFile, before: Capture, *, facts: TrialFacts = NO_FACTS) -> Prepared:
    """The contract over the state before.

    Raises nothing: what does not fit the state before may fit it together with a state after it, so
    that a contract's errors come with each judgement.
    """
    null_run = None
    still = replace(before, history=NO_HISTORY)
    try:
        compiled = compile_contract(file, schema_of(still))
        contract, rules = compiled.contract, compiled.identities
        resolution = resolve(still, still, rules, contract.authority, {}, contract.must_report)
        require_action(file, compiled, resolution, ())
    except AdapterError:
        pass
    except ContractError as error:
        null_run = error if error.problems[0].code == "null-run" else None
    return Prepared(file=file, before=before, facts=facts, null_run=null_run)
