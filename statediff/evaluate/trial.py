"""The pipeline: one trial judged and packed.

The manifest says of each rule of ν what it was given and what it made of it, as digests [SSD §VII].
Values stay in the bundle in both forms; the digests fix which of them each rule stood between.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from statediff._version import __version__
from statediff.canonicalize import BoundRule
from statediff.capture.bounds import bound_captures
from statediff.contract.binding.bound import Contract
from statediff.contract.evaluation.prose import read_answer
from statediff.contract.language.syntax import CALL_TYPE, Read
from statediff.errors import ContractError
from statediff.evaluate.along import Whole, compared, moments_of, touched
from statediff.evaluate.contracts import (
    Compiled,
    ContractFile,
    Scoped,
    compile_contract,
    private_fields,
    schema_of,
)
from statediff.evaluate.judging_modules import modules_digest
from statediff.evidence.canonical import write
from statediff.evidence.documents import delta_document
from statediff.evidence.pack import Decided, Heard, documents
from statediff.evidence.package import LIBRARIES, NO_BUNDLE, TRANSITION, Bundle, make
from statediff.evidence.roots import NO_SECRET, Roots
from statediff.later import Later, later
from statediff.model.delta import Delta, Diff
from statediff.model.readings import Capture, Timeline
from statediff.model.schema import Schema
from statediff.model.timelines import Matching, Resolution, SourceTimeline, Timelines
from statediff.model.trace import NoAnswer, Trace, Turn
from statediff.model.values import Observed, Value
from statediff.model.verdict import Judgement, Truth, Verdict
from statediff.model.view import Ledger, RecordingView, StateView
from statediff.policy.admission import Refusal, admit
from statediff.policy.combine import combine
from statediff.policy.history.intermediate_states import IntermediateStates
from statediff.policy.judge import Evidence, judge
from statediff.resolve import RESOLVER, resolve

KERNEL: Final = "12"
"""Version of the judging kernel; raised by hand when any judgement could change."""
RELEASES: Final[Mapping[str, str]] = {"6": "0.1.0", "7": "0.2.0", "12": "0.3.0"}
"""Kernel → the first released statediff that has it; others were in no release."""


@dataclass(frozen=True)
class TrialFacts:
    """What a bundle says of its trial. Ids and seeds are given, never made up here."""

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
    """What the state roots are salted by, one for both captures; no bundle has it."""

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "agent": self.agent,
            "sandbox": self.sandbox,
            "isolation": self.isolation,
            "seed": str(self.seed),  # a seed may have 64 bits, a number in a bundle 53
            "receipt": dict(self.receipt),
            "sources": sorted(self.sources),
        }


NO_TRACE: Final = Trace()
NO_ANSWER: Final = NoAnswer("none was given")
NO_FACTS: Final = TrialFacts("trial")


@dataclass(frozen=True)
class Evaluated(Later):
    """A judged trial: the judgement and its bundle."""

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

    With `packs_later` the bundle is made when it is asked for; the captures are kept until then.
    `ContractError` if the contract does not fit, or would match a run in which nothing happened
    without saying `noop: true`.
    """
    before, after = bound_captures(before, after)
    tried = _tried(file, before, after, trace, answer, timeline, facts)
    heard = Heard(before, after, triples(tried.refusals), trace, answer, timeline)
    pack = partial(_packed, file, tried, heard, facts, roots)
    done = later(Evaluated(tried.judgement, NO_BUNDLE, tried.compiled.contract), "bundle", pack)
    if not packs_later:
        done.bundle  # noqa: B018 - it is made now
    return done


def _packed(
    file: ContractFile, tried: _Tried, heard: Heard, facts: TrialFacts, roots: Roots | None
) -> Bundle:
    """The bundle of a judged trial."""
    compiled = tried.compiled
    scoped = Scoped(compiled.book, compiled.boundary, compiled.contract.schema)
    content = documents(
        tried.decided,
        tried.resolution,
        heard,
        tried.judgement,
        facts.as_json(),
        scoped.leaves,
        roots or Roots.of(heard.before, heard.after, facts.secret),
    )
    manifest = facts_of(file, compiled, tried.judgement, facts.id)
    manifest |= {"statediff": __version__, "modules": modules_digest()}
    beside = {TRANSITION: file.recorded, LIBRARIES: file.libraries}
    return make(content, file.data, manifest, beside)


def judgement_of(
    file: ContractFile,
    before: Capture,
    after: Capture,
    *,
    trace: Trace = NO_TRACE,
    answer: Value | NoAnswer = NO_ANSWER,
    timeline: Timeline | None = None,
    facts: TrialFacts = NO_FACTS,
) -> Judgement:
    """The judgement alone, as `evaluate` makes it: nothing is packed. Raises as that does."""
    captures = bound_captures(before, after)
    return _tried(file, *captures, trace, answer, timeline, facts).judgement


def gates_now(
    file: ContractFile,
    before: Capture,
    now: Capture,
    *,
    trace: Trace,
    timeline: Timeline,
    facts: TrialFacts,
) -> Mapping[str, Truth]:
    """What holds if the run ends with the last message of the trace, by the id of the gate.

    Of the turn that the message belongs to: its gate, and those of its rules for replies.
    """
    before, now = bound_captures(before, now)
    compiled = compile_contract(file, schema_of(before, now))
    turn = (trace.turns or ())[-1]
    asked = [gate for gate in compiled.contract.turns if gate.number == turn.gate]
    gates = (*asked, *(rule for gate in asked for rule, _ in gate.replies))
    compiled = replace(compiled, contract=replace(compiled.contract, turns=gates))
    tried = _tried(file, before, now, trace, NO_ANSWER, timeline, facts, compiled)
    return {gate.id: tried.judgement.truth_of(gate.id) for gate in gates}


@dataclass(frozen=True)
class _Tried:
    compiled: Compiled
    refusals: tuple[Refusal, ...]
    resolution: Resolution
    decided: list[Decided]
    judgement: Judgement


def _tried(
    file: ContractFile, before: Capture, after: Capture, trace: Trace, answer: Value | NoAnswer,
    timeline: Timeline | None, facts: TrialFacts, instead: Compiled | None = None,
) -> _Tried:  # fmt: skip
    """The trial, judged; `instead` is judged under where only a part of the contract is asked."""
    compiled = instead or compile_contract(file, schema_of(before, after))
    contract = compiled.contract
    refusals = admit(before.readings, after.readings, timeline, contract.evidence, facts.sources)
    resolution = resolve(
        before,
        after,
        compiled.identities,
        {name: r.source for r in contract.evidence for name in r.authority},
        {(r.side, r.source): r.cause for r in refusals},
        [r.source for r in contract.evidence] or None,
    )
    if instead is None:
        require_action(file, compiled, resolution, refusals)
    rest = Rest(refusals, read_answer(contract.document.answer, answer), trace)
    decided = [
        _judge_states(compiled, matching, resolution, rest) for matching in resolution.matchings
    ]
    judgement = combine(
        contract,
        [case.judgement for case in decided],
        resolution.ambiguous,
        resolution.differ_only_in_opaque_ids,
    )
    return _Tried(compiled, refusals, resolution, decided, judgement)


@dataclass(frozen=True)
class Rest:
    """What a judgement rests on beside the states."""

    refusals: tuple[Refusal, ...]
    answer: Mapping[str, Observed] | NoAnswer
    trace: Trace = NO_TRACE


def triples(refusals: Iterable[Refusal]) -> tuple[tuple[str, str, str], ...]:
    """The refusals as plain texts."""
    return tuple((r.side, r.source, r.cause) for r in refusals)


def _judge_states(
    compiled: Compiled, matching: Matching, resolution: Resolution, rest: Rest
) -> Decided:
    found = compared(compiled, matching.before, matching.after, resolution.readings_of)
    scoped = Scoped(compiled.book, compiled.boundary, matching.before.schema)
    states = {**resolution.between, "before": matching.before, "after": matching.after}
    ledger = Ledger()
    views = {
        side: RecordingView(StateView(state, scoped), side, ledger)
        for side, state in states.items()
    }
    places = touched(compiled, resolution.course, states, rest.trace)
    moments = moments_of(compiled, resolution.course, views, Whole(states), places, rest.trace)
    return Decided(matching, judged(compiled, moments, found, rest, ledger), ledger, places)


def judged(
    compiled: Compiled,
    moments: IntermediateStates,
    found: Diff,
    rest: Rest,
    ledger: Ledger,
) -> Judgement:
    """The judgement over the views of the moments, the ends among them; its reads are noted."""
    evidence = Evidence(
        before=moments.views["before"],
        after=moments.views["after"],
        diff=found,
        answer=rest.answer,
        refusals=rest.refusals,
        begin=ledger.begin,
        trace=rest.trace,
        moments=moments,
        hear=lambda reads: ledger.hear(_heard(reads)),
    )
    return judge(compiled.contract, evidence)


def _heard(reads: Iterable[Read]) -> Iterable[str]:
    """What a clause reads of the trace and the answer, as a bundle names it."""
    for read in reads:
        if read.root == "answer":
            yield f"answer:{read.field}"
        elif read.root == "trace" and read.type == CALL_TYPE:
            yield f"trace:call[*]{read.field and '.'}{read.field}"
        elif read.root == "trace":
            yield f"trace:{read.type}[*]"


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
    )
    null = _judge_states(compiled, still.matchings[0], still, rest).judgement
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
    recorded: bytes | None
    schema: Schema
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
    refused = tuple(refusal for refusal in refusals if refusal.side == "before")
    case = _Still(file.digest, file.recorded, state.schema, state.digest(), refused)
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
    """What a manifest says of the bundle's content, beside the digests of its files."""
    schema = compiled.contract.schema
    private = private_fields(file, schema)
    return {
        **({"private": private} if private else {}),
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
            source: {"retain": rule.retain, "disclose": rule.disclose}
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
