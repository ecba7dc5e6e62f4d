"""One trial, from reset to bundle.

1. The sandbox is reset, and the reset is proven; without a receipt that says so nothing runs.
2. Feeds are attached, where there are any; capture before.
3. The agent acts, with the prompt, the inputs its prompt names, and where the systems are. Where
   the sandbox declares others, they work from just before that until the agent ends.
4. Settle: what is in flight arrives, or is named as unsettled.
5. Capture after, with what the feeds saw: by feed where one establishes the state, else by scan, or
   by both (`capture/guard.py`). The feeds are detached, whatever happened. Of a run beside others
   only the agent's own part is judged (`capture/own_part.py`).
6. Judge and package (`evaluate`), the roots of both states being in a log first, if there is one.

Whatever is odd about the run is data for judging. What raises is a `HarnessError`: a reset that
is not proven, an agent that could not be started, a full disk, a server that ended under an agent
who then could not finish. What was written until then stays.
"""

from __future__ import annotations

import platform
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from statediff._version import __version__
from statediff.agents.conversation import Conversation, Scene, Simulated, spoken
from statediff.agents.trial import Agent, AgentRun, Isolated, Trial, Trusted
from statediff.agents.veil import Veil, live_veil
from statediff.capture.acknowledged import by_word
from statediff.capture.bounds import bound_captures
from statediff.capture.feed import Watch, actions_of_history
from statediff.capture.guard import NO_SCANS, GuardedCapture, Scans, SourceCheck, capture_after
from statediff.capture.looks import Looks
from statediff.capture.own_part import OwnPart, OwnParts, own_parts
from statediff.capture.source import Clock, PagedSource, PageReader, Source
from statediff.capture.take import take
from statediff.contract.binding.bind import plain_value
from statediff.contract.binding.bound import Contract
from statediff.contract.document.contract import ContractDocument
from statediff.contract.parts import placeholders
from statediff.errors import (
    AdapterError,
    EnvironmentFailure,
    SandboxError,
    UsageError,
)
from statediff.evaluate import (
    KERNEL,
    ContractFile,
    Evaluated,
    TrialFacts,
    compile_contract,
    evaluate,
    schema_of,
)
from statediff.evaluate.along import followed
from statediff.evaluate.libraries import library_of
from statediff.evidence import documents
from statediff.evidence.package import RUN_FORM, save
from statediff.evidence.roots import NO_SECRET, Roots
from statediff.evidence.traces import trace_lines
from statediff.model.readings import Capture, Timeline
from statediff.model.state import ChunkStore
from statediff.model.trace import Trace
from statediff.model.values import Value
from statediff.model.verdict import Judgement, Stage, Truth, Verdict
from statediff.reads.gate import Library
from statediff.systems.base.others import Others
from statediff.systems.base.privacy import unreadable_memory
from statediff.systems.base.protocol import Crowded, Receipt, Sandbox, Settled
from statediff.trial_folder import (
    make_folder,
    save_captures,
    save_document,
    save_run,
    write_file,
)

SETTLE_SECONDS: Final = 2.0
AT_LARGE: Final[list[str]] = []
"""Trials of this process of which a program may run still: it escaped what ends programs."""
_LACKS: Final = frozenset({Stage.REQUIRE, Stage.ANSWER})
"""Stages that fail for what was not done as well as for what was."""


@dataclass(frozen=True)
class Task:
    """What the agent is given. `inputs` are those its prompt names: the others are expectations."""

    prompt: str
    inputs: Mapping[str, Value]
    answer_form: str = "json"

    @staticmethod
    def of(contract: ContractDocument) -> Task:
        """The task of a contract: its prompt (or intent) with each `{input}` filled in."""
        inputs = {name: plain_value(raw) for name, raw in contract.inputs.items()}
        template = contract.prompt or contract.intent
        if contract.turns:  # nobody tells an agent what will be said later
            template = "\n\n".join(filter(None, (contract.prompt, contract.turns[0].user)))
        named = {name for name in placeholders(template) if name in inputs}
        told = {name: inputs[name] for name in sorted(named)}
        return Task(spoken(template, inputs), told, contract.answer.form)


@dataclass(frozen=True)
class TrialPlan:
    """What makes a trial this one: its id, its seed, and its folder, which must not exist yet."""

    id: str
    folder: Path
    seed: int = 0
    secret: bytes = field(default=NO_SECRET, repr=False)
    """What the state roots are salted by; the run's, and no bundle has it."""
    register: Callable[[str, Mapping[str, str]], None] | None = None
    """Puts the state roots of the trial, by side, into a log, before anything is judged."""


@dataclass(frozen=True)
class Hooks:
    """Places where a caller may interfere, e.g. stop a source before the capture after."""

    before_agent: Callable[[Sandbox, Capture], None] | None = None
    """Last chance to refuse: gets the capture before."""
    before_capture_after: Callable[[Sandbox], None] | None = None
    library: Callable[[Capture], Library | None] | None = None
    """What the agent may read of the state before, where a contract says so."""
    followed: Callable[[Capture], frozenset[str]] | None = None
    """The sources of which the contract asks what was between the ends."""
    by_word: frozenset[str] = frozenset()
    """The sources whose acknowledgements the contract calls sufficient."""
    turns: ContractFile | None = None
    """The contract for whose user the harness speaks."""
    simulated: Simulated | None = None
    """Who speaks for the user beside the contract's turns."""


NO_HOOKS: Final = Hooks()


@dataclass(frozen=True, kw_only=True)
class ObservedTrial:
    """A trial that has happened and is not yet judged."""

    id: str
    folder: Path
    receipt: Receipt
    before: Capture
    after: Capture
    timeline: Timeline
    run: AgentRun
    failed: tuple[tuple[str, str], ...] = ()
    """Systems that ended under the agent, with the cause."""
    checks: tuple[SourceCheck, ...] = ()
    """How each source's state after was established."""
    further: tuple[OwnPart, ...] = ()
    """Beside others: the captures in which the agent's first transaction found what they changed,
    and those in which what depends on that is unobserved."""


@dataclass(frozen=True)
class JudgedTrial:
    """A trial with its judgement, its bundle, and where the bundle lies."""

    observed: ObservedTrial
    evaluated: Evaluated
    bundle_folder: Path


def run_trial(
    sandbox: Sandbox,
    contract: ContractFile,
    agent: Agent,
    plan: TrialPlan,
    *,
    clock: Clock,
    store: ChunkStore,
    hooks: Hooks = NO_HOOKS,
    scans: Scans = NO_SCANS,
) -> JudgedTrial:
    """The trial, judged, with its bundle in `bundle/` of its folder.

    A contract that does not fit the state is refused (`ContractError`) before the agent runs.
    """
    observed = observe_trial(
        sandbox,
        agent,
        Task.of(contract.content),
        plan,
        clock=clock,
        store=store,
        scans=scans,
        hooks=_contract_hooks(contract, hooks),
    )
    judged = partial(
        evaluate,
        contract,
        trace=observed.run.trace,
        answer=observed.run.answer,
        timeline=observed.timeline,
        facts=trial_facts(sandbox, observed, agent.name, plan),
    )
    observed = _settled_reading(observed, judged, store)
    bounded = bound_captures(observed.before, observed.after)
    roots = Roots.of(*bounded, plan.secret)
    if plan.register is not None:
        plan.register(plan.id, roots.by_side)
    evaluated = judged(observed.before, observed.after, roots=roots)
    _require_served(observed, evaluated.judgement)
    _require_answerable(observed, evaluated.judgement)
    bundle_folder = plan.folder / "bundle"
    save(evaluated.bundle, bundle_folder)
    return JudgedTrial(observed, evaluated, bundle_folder)


def _contract_hooks(contract: ContractFile, hooks: Hooks) -> Hooks:
    """The caller's hooks with what the contract asks; before the agent acts it must fit."""

    def bound(before: Capture) -> Contract:
        return compile_contract(contract, schema_of(before)).contract

    def check(running: Sandbox, before: Capture) -> None:
        bound(before)
        if hooks.before_agent is not None:
            hooks.before_agent(running, before)

    return replace(
        hooks,
        before_agent=check,
        library=partial(library_of, contract),
        followed=lambda before: followed(bound(before)),
        by_word=frozenset(
            source
            for source, rule in contract.content.evidence.items()
            if rule.acknowledgement == "sufficient"
        ),
        turns=contract if contract.content.turns else None,
    )


def _settled_reading(
    observed: ObservedTrial, judged: Callable[..., Evaluated], store: ChunkStore
) -> ObservedTrial:
    """The trial with the captures to judge it by.

    If the two admissible readings of what others changed lead to different verdicts, these are the
    captures in which that is unobserved.
    """
    if not observed.further:
        return observed
    found, unsure = observed.further
    verdicts = [judged(each.before, each.after).judgement.verdict for each in (observed, found)]
    if verdicts[0] is verdicts[1]:
        return observed
    save_captures(observed.folder, unsure.before, unsure.after, observed.checks, store, observed.id)
    return replace(observed, before=unsure.before, after=unsure.after)


def trial_facts(
    sandbox: Sandbox, observed: ObservedTrial, agent: str, plan: TrialPlan
) -> TrialFacts:
    """What the bundle of an observed trial says of it."""
    return _facts(sandbox, observed.receipt, agent, plan)


def _facts(sandbox: Sandbox, receipt: Receipt, agent: str, plan: TrialPlan) -> TrialFacts:
    return TrialFacts(
        id=plan.id,
        agent=agent,
        sandbox=sandbox.name,
        isolation=receipt.isolation,
        seed=plan.seed,
        receipt=receipt.as_json(),
        sources=tuple(source.name for source in sandbox.sources()),
    )


def _proven(sandbox: Sandbox, agent: Agent, clock: Clock, folder: Path) -> Receipt:
    """The receipt of a sandbox that was reset; `SandboxError` if it is not as its base."""
    sandbox.reset()
    receipt = sandbox.verify(clock)
    receipt = replace(
        receipt,
        isolation=agent.isolation if isinstance(agent, Isolated) else receipt.isolation,
        is_trace_trusted=isinstance(agent, Trusted) and agent.is_trace_trusted,
        at_large=tuple(AT_LARGE),
    )
    save_document(folder / "receipt.json", receipt.as_json())
    if not receipt.ok:
        raise SandboxError(_not_proven(receipt))
    return receipt


def observe_trial(
    sandbox: Sandbox,
    agent: Agent,
    task: Task,
    plan: TrialPlan,
    *,
    clock: Clock,
    store: ChunkStore,
    hooks: Hooks = NO_HOOKS,
    scans: Scans = NO_SCANS,
) -> ObservedTrial:
    """Steps 1 to 5. Each step's record is in the trial's folder before the next begins."""
    folder = plan.folder
    make_folder(folder)
    receipt = _proven(sandbox, agent, clock, folder)
    with ExitStack() as stack:
        watch = stack.enter_context(Watch(sandbox.feeds(), clock))
        readers = _readers(sandbox.sources(), stack) if scans.by_pages else {}
        before = take(_read_so(sandbox.sources(), readers), store, clock, None, "before")
        if hooks.before_agent is not None:
            hooks.before_agent(sandbox, before)
        library = None if hooks.library is None else hooks.library(before)
        looks = _looks(hooks, sandbox, before, store, clock)
        told = replace(_trial(sandbox, task, plan.seed), library=library, looks=looks)
        veil = live_veil(told.urls.values())
        facts = _facts(sandbox, receipt, agent.name, plan)
        timeline = Timeline(receipt.verified_at, clock(), clock())
        user = _conversation(hooks, sandbox, before, store, clock, facts, timeline, veil)
        others = _others(sandbox, plan, user)
        run = _agent_run(agent, replace(told, user=user), plan, others, user, veil, clock)
        settled = sandbox.settle(clock, SETTLE_SECONDS)
        timeline = _timeline(receipt, run, settled)
        save_document(folder / "timeline.json", documents.timeline_document(timeline))
        if hooks.before_capture_after is not None:
            hooks.before_capture_after(sandbox)
        sources = _read_so(sandbox.sources(), readers)
        wanted = [source.name for source in sources if scans.wanted(plan.id, source.name)]
        by_pages = scans.by_pages
        guarded = capture_after(sources, watch, store, clock, before, wanted, by_pages=by_pages)
        # Under an agent that failed, what was killed may be seen to end only later.
        failed = settled.failed or (sandbox.settle(clock, 0.0).failed if run.error else ())
    after = _completed(guarded.capture, before, run.trace, sandbox, hooks, store)
    if looks is not None:
        after = looks.add_history(after, run.trace)
    parts = _own_parts(before, after, others, folder, store)
    guarded = replace(guarded, capture=parts.left.after)
    guarded, run = _with_turns(guarded, run, user, folder, others)
    save_captures(folder, parts.left.before, guarded.capture, guarded.checks, store, plan.id)
    return ObservedTrial(
        id=plan.id,
        folder=folder,
        receipt=replace(receipt, others=others.counts() if others else ()),
        before=parts.left.before,
        after=guarded.capture,
        timeline=timeline,
        run=run,
        failed=failed,
        checks=guarded.checks,
        further=tuple(part for part in (parts.found, parts.open) if part is not None),
    )


def _agent_run(
    agent: Agent,
    trial: Trial,
    plan: TrialPlan,
    others: Others | None,
    user: Conversation | None,
    veil: Veil,
    clock: Clock,
) -> AgentRun:
    """What the agent did, while the others worked; its secrets are veiled, and it is saved."""
    with unreadable_memory(), others or nullcontext():
        run = agent.run(trial, clock)
    run = _veiled(run if user is None else user.end(run), veil)
    if run.is_at_large:
        AT_LARGE.append(plan.id)
    save_run(plan.folder, agent, run)
    return run


def _completed(
    after: Capture,
    before: Capture,
    trace: Trace,
    sandbox: Sandbox,
    hooks: Hooks,
    store: ChunkStore,
) -> Capture:
    """The capture after, with what was acknowledged where the contract calls that sufficient."""
    if not hooks.by_word:
        return after
    declared = sandbox.access().tools.declared
    return by_word(before, after, trace, declared, hooks.by_word, store)


def _others(sandbox: Sandbox, plan: TrialPlan, user: Conversation | None) -> Others | None:
    """Who works beside the agent; nobody where the sandbox declares nobody."""
    others = sandbox.others(f"{plan.seed}/{plan.id}") if isinstance(sandbox, Crowded) else None
    if others is not None and user is not None:
        raise UsageError(
            f"a contract with `turns` is judged after each of them, and in {sandbox.name} others "
            "work beside the agent: take a sandbox without `others`"
        )
    return others


def _own_parts(
    before: Capture, after: Capture, others: Others | None, folder: Path, store: ChunkStore
) -> OwnParts:
    """The agent's own part of the run; what others did is in `others.json` of the folder."""
    if others is None:
        return OwnParts(left=OwnPart(before, after))
    save_document(folder / "others.json", others.as_json(before, after))
    return own_parts(before, after, others.work(), others.amounts, store)


def _looks(
    hooks: Hooks, sandbox: Sandbox, before: Capture, store: ChunkStore, clock: Clock
) -> Looks | None:
    """What is read after each call; None where no clause asks, or feeds have it."""
    wanted = frozenset[str]() if hooks.followed is None else hooks.followed(before)
    wanted -= {feed.source for feed in sandbox.feeds()}
    found = [source for source in sandbox.sources() if source.name in wanted]
    return Looks(found, before, store, clock) if found else None


def _conversation(
    hooks: Hooks,
    sandbox: Sandbox,
    before: Capture,
    store: ChunkStore,
    clock: Clock,
    facts: TrialFacts,
    timeline: Timeline,
    veil: Veil,
) -> Conversation | None:
    """Who speaks for the user; nobody where the contract has no turns."""
    if hooks.turns is None:
        return None
    scene = Scene(
        file=hooks.turns,
        sandbox=sandbox,
        before=before,
        store=store,
        clock=clock,
        facts=facts,
        timeline=timeline,
        veil=veil,
        simulated=hooks.simulated,
    )
    return Conversation(scene)


def _with_turns(
    guarded: GuardedCapture,
    run: AgentRun,
    user: Conversation | None,
    folder: Path,
    others: Others | None,
) -> tuple[GuardedCapture, AgentRun]:
    """The capture after and the run, with what was observed, and with the turns if there were."""
    after = guarded.capture
    # What nobody else made there is the agent's, unless an earlier trial's program may run still.
    known = frozenset() if others is None or AT_LARGE else {work.source for work in others.work()}
    observed = actions_of_history(after.history, run.trace, frozenset(known))
    trace = replace(run.trace, observed=observed)
    if user is not None:
        after, trace = user.with_turns(after, trace)
        write_file(folder / "trace.jsonl", trace_lines(replace(trace, observed=())))
    return replace(guarded, capture=after), replace(run, trace=trace)


def write_run(
    folder: Path,
    run_id: str,
    contracts: Mapping[str, str],
    settings: Any,
    pins: Mapping[str, Any] | None = None,
) -> None:
    """`folder/run.json` says by which versions the run's trials are made and judged.

    `contracts` maps each contract's `name@version` to its digest; `settings`, and `pins` of what
    else the run rests on, are JSON without floats. Raises `StorageError` if the folder already
    holds a run.
    """
    make_folder(folder)
    save_document(
        folder / "run.json",
        {
            **(pins or {}),
            "form": RUN_FORM,
            "run": run_id,
            "statediff": __version__,
            "kernel": KERNEL,
            "contracts": dict(sorted(contracts.items())),
            "python": platform.python_version(),
            "sqlite": sqlite3.sqlite_version,
            "platform": platform.platform(),
            "settings": settings,
        },
    )


def _trial(sandbox: Sandbox, task: Task, seed: int) -> Trial:
    access = sandbox.access()
    return Trial(
        prompt=task.prompt,
        inputs=task.inputs,
        urls=access.urls,
        tools=access.tools,
        folder=access.folder,
        answer_path=access.folder / "answer.json",
        trace_path=access.folder / "trace.jsonl",
        seed=seed,
        answer_form=task.answer_form,
        place=access.place,
    )


def _timeline(receipt: Receipt, run: AgentRun, settled: Settled) -> Timeline:
    # Times in the trace are the agent's word. Ours: no action precedes the agent's start.
    return Timeline(
        reset_verified_at=receipt.verified_at,
        agent_started_at=run.started_at,
        first_action_at=run.started_at,
        agent_finished_at=run.finished_at,
        settled_at=settled.settled_at,
        unsettled=settled.unsettled,
    )


def _require_answerable(observed: ObservedTrial, judgement: Judgement) -> None:
    """An answer that no agent could mean as one fails no run by itself. Raises `AdapterError`."""
    failed = [finding for finding in judgement.findings if finding.truth is Truth.FAILS]
    if observed.run.unreadable and failed and all(f.stage is Stage.ANSWER for f in failed):
        raise AdapterError(observed.run.unreadable)


def _require_served(observed: ObservedTrial, judgement: Judgement) -> None:
    """What the agent lacks is its own fault. Raises `EnvironmentFailure`.

    Where a system ended under it, the agent may have been kept from what it did not do; what it did
    is judged all the same, so that nobody escapes by ending a server.
    """
    if not observed.failed or judgement.verdict is not Verdict.DIVERGE:
        return
    failed = [finding for finding in judgement.findings if finding.truth is Truth.FAILS]
    if all(finding.stage in _LACKS or finding.code.is_omission for finding in failed):
        ends = "; ".join(f"{source}: {cause}" for source, cause in observed.failed)
        raise EnvironmentFailure(
            f"{ends}, while the agent ran: what it did not get done is not to be blamed on it, and "
            "nothing that it did is wrong. The trial has no verdict; run it again"
        )


def _not_proven(receipt: Receipt) -> str:
    shown = "; ".join(str(entry) for entry in receipt.drift[:3])
    more = f" and {len(receipt.drift) - 3} more" if len(receipt.drift) > 3 else ""
    return (
        f"the reset of {receipt.sandbox} is not proven: {shown or 'digests differ'}{more}; "
        "the trial was not started. Stop whatever still writes to it and run again"
    )


def _veiled(run: AgentRun, veil: Veil) -> AgentRun:
    """The run without secrets, before anything of it is judged or written."""
    trace, answer = veil.trace(run.trace), veil.value(run.answer)
    return replace(
        run,
        answer=answer,
        trace=trace,
        error=None if run.error is None else veil.text(run.error, with_met=True),
        stdout=replace(run.stdout, text=veil.text(run.stdout.text, with_met=True)),
        stderr=replace(run.stderr, text=veil.text(run.stderr.text, with_met=True)),
    )


def _readers(sources: Sequence[Source], stack: ExitStack) -> dict[str, PageReader]:
    """By name, those that can be read by pages; what they keep goes with the stack."""
    return {
        source.name: stack.enter_context(closing(source.by_pages()))
        for source in sources
        if isinstance(source, PagedSource)
    }


def _read_so(sources: Sequence[Source], readers: Mapping[str, PageReader]) -> list[Source]:
    return [readers.get(source.name, source) for source in sources]
