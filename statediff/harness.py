"""One trial, from reset to bundle.

1. The sandbox is reset, and the reset is proven; without a receipt that says so nothing runs.
2. Feeds are attached, where there are any; capture before.
3. The agent acts, with the prompt, the inputs its prompt names, and where the systems are. Where
   the sandbox declares others, they work from just before that until the agent ends.
4. Settle: what is in flight arrives, or is named as unsettled.
5. Capture after, with what the feeds saw: by feed where one establishes the state, else by scan, or
   by both (`capture/guard.py`). The feeds are detached, whatever happened. Of a run beside others
   only the agent's own part is judged (`capture/own_part.py`).
6. Judge and package (`evaluate`), the roots of both states being in a log first, if there is one,
   and all that was captured and recorded being signed by an observer, if there is one.

Whatever is odd about the run is data for judging, and so is whatever fails around it from the
moment the agent has begun (`statediff.total`): a verdict comes of what could be seen. What raises
is a `HarnessError`: a reset that is not proven, an agent that could not be started, a server that
ended under an agent who then could not finish. What was written until then stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from statediff.after_agent import (
    Course,
    Opened,
    acknowledge,
    completed_receipt,
    own_part_of,
    signed_before_judging,
)
from statediff.agents.conversation import Conversation, Scene, Simulated, spoken
from statediff.agents.own_secrets import OwnSecrets, own_secrets
from statediff.agents.trial import Agent, AgentRun, Isolated, Trial, Trusted
from statediff.capture.bounds import bound_captures
from statediff.capture.feed import Watch, actions_of_history
from statediff.capture.guard import NO_SCANS, Scans, SourceCheck
from statediff.capture.held_chunks import HeldChunks
from statediff.capture.looks import Looks
from statediff.capture.own_part import OwnPart
from statediff.capture.source import Clock, PagedSource, PageReader, Source
from statediff.capture.take import take
from statediff.capture.unread import judged_in_any_case
from statediff.capture.within import readings_within
from statediff.contract.clauses.kind import plain_value
from statediff.contract.document.contract import ContractDocument
from statediff.contract.file import ContractFile
from statediff.contract.parts import placeholders
from statediff.errors import (
    AdapterError,
    ContractError,
    EnvironmentFailure,
    HarnessError,
    SandboxError,
    UnprovenBase,
    UsageError,
)
from statediff.evidence.package import save
from statediff.evidence.roots import NO_SECRET, Roots
from statediff.kernel import (
    Evaluated,
    TrialFacts,
    compile_contract,
    evaluate,
    library_of,
    schema_of,
)
from statediff.model.explanation import unread_because
from statediff.model.readings import Capture, Timeline
from statediff.model.state import ChunkStore
from statediff.model.trace import NoAnswer, Trace
from statediff.model.values import Value
from statediff.model.verdict import Judgement, Stage, Truth, Verdict
from statediff.observing import Observer
from statediff.systems.base.others import Others
from statediff.systems.base.privacy import unreadable_memory
from statediff.systems.base.protocol import Crowded, InPlace, Receipt, Sandbox
from statediff.total import in_any_case, words_of
from statediff.trial_folder import (
    BUNDLE,
    TrialFiles,
    as_printed,
    make_folder,
    save_captures,
    save_document,
    save_run,
    save_trace,
)

SETTLE_SECONDS: Final = 2.0
AT_LARGE: Final[list[str]] = []
"""Trials of this process of which a program may run still: it escaped what ends programs."""
NOT_FOLLOWED: Final = unread_because("the evaluator could not tell its turns")
_LACKS: Final = frozenset({Stage.REQUIRE, Stage.ANSWER})
"""Stages that fail for what was not done as well as for what was."""


@dataclass(frozen=True)
class Task:
    """The agent's task. `inputs` are those its prompt names: the others are expectations."""

    prompt: str
    inputs: Mapping[str, Value]
    answer_form: str = "json"

    @staticmethod
    def of(contract: ContractDocument) -> Task:
        """The task of a contract: its prompt (or intent) with each `{input}` filled in."""
        inputs = {name: plain_value(raw) for name, raw in contract.inputs.items()}
        template = contract.prompt or contract.intent
        if contract.turns:  # nobody tells an agent what will be said later
            template = "\n\n".join(filter(None, (contract.prompt, contract.turns[0].prompt)))
        named = {name for name in placeholders(template) if name in inputs}
        told = {name: inputs[name] for name in sorted(named)}
        return Task(spoken(template, inputs), told, contract.answer.form)


@dataclass(frozen=True)
class TrialPlan:
    """The identity of a trial: its id, its seed, and its folder, which must not exist yet."""

    id: str
    folder: Path
    seed: int = 0
    secret: bytes = field(default=NO_SECRET, repr=False)
    """The secret that salts the state roots; the run's, and no bundle has it."""
    register: Callable[[str, Mapping[str, str]], None] | None = None
    """Puts the state roots of the trial, by side, into a log, before anything is judged."""
    observer: Observer | None = None
    """Signs what was captured and recorded, before anything is judged."""


@dataclass(frozen=True)
class Hooks:
    """Places where a caller may interfere, e.g. stop a source before the capture after."""

    before_capture_after: Callable[[Sandbox], None] | None = None
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
    files: TrialFiles
    """The files that are left to be written, if any."""


@dataclass(frozen=True)
class JudgedTrial:
    """A trial with its judgement, its bundle, and where the bundle lies."""

    observed: ObservedTrial
    evaluated: Evaluated
    bundle_folder: Path
    not_kept: tuple[str, ...] = ()
    """The files that could not be written, and why: the verdict is what it is all the same."""


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
        contract,
        plan,
        clock=clock,
        store=store,
        scans=scans,
        hooks=hooks,
    )
    judged = partial(
        evaluate,
        contract,
        trace=observed.run.trace,
        answer=observed.run.answer,
        timeline=observed.timeline,
        facts=trial_facts(sandbox, observed, agent.name, plan),
    )
    files = observed.files

    def judge(before: Capture, after: Capture) -> Evaluated:
        roots = Roots.of(*bound_captures(before, after), plan.secret)
        if plan.register is not None:
            files.note("the log's entry", partial(plan.register, plan.id, roots.by_side))
        return judged(before, after, roots=roots)

    sign = _signed(observed, trial_facts(sandbox, observed, agent.name, plan), plan.observer)
    observed = _settled_reading(observed, judged, store)
    evaluated = sign(judged_in_any_case(judge, observed.before, observed.after))
    _require_served(observed, evaluated.judgement)
    _require_answerable(observed, evaluated.judgement)
    bundle_folder = plan.folder / BUNDLE
    files.write("bundle", partial(save, evaluated.bundle, bundle_folder))
    return JudgedTrial(observed, evaluated, bundle_folder, files.finish())


def _signed(
    observed: ObservedTrial, facts: TrialFacts, observer: Observer | None
) -> Callable[[Evaluated], Evaluated]:
    """Have the observer sign, now; gives what puts that into the bundle of what is judged."""
    if observer is None:
        return lambda evaluated: evaluated
    others, run = observed.further[1:], observed.run
    ends = [(observed.before, observed.after), *((each.before, each.after) for each in others)]
    said = partial(observer.observe, ends, facts, run.trace, run.answer, observed.timeline)
    return signed_before_judging(said, observed.files)


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

    def is_open() -> bool:
        one, other = (judged(each.before, each.after).judgement for each in (observed, found))
        return one.verdict is not other.verdict

    if not in_any_case(is_open, lambda _: True, (ContractError,)):
        return observed
    ends, checks = (unsure.before, unsure.after), observed.checks
    keep = partial(save_captures, observed.folder, *ends, checks, store, observed.id)
    observed.files.write("captures", keep)
    return replace(observed, before=unsure.before, after=unsure.after)


def trial_facts(
    sandbox: Sandbox, observed: ObservedTrial, agent: str, plan: TrialPlan
) -> TrialFacts:
    """The facts of an observed trial for its bundle."""
    facts = _facts(sandbox, observed.receipt, agent, plan)
    return replace(facts, ending=observed.run.ending)


def _facts(sandbox: Sandbox, receipt: Receipt, agent: str, plan: TrialPlan) -> TrialFacts:
    return TrialFacts(
        id=plan.id,
        agent=agent,
        sandbox=sandbox.name,
        isolation=receipt.isolation,
        seed=plan.seed,
        receipt=receipt.as_json(),
        sources=tuple(source.name for source in sandbox.sources()),
        secret=plan.secret,
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
        is_in_place = isinstance(sandbox, InPlace) and sandbox.is_in_place
        raise (UnprovenBase if is_in_place else SandboxError)(_not_proven(receipt, is_in_place))
    return receipt


def observe_trial(
    sandbox: Sandbox,
    agent: Agent,
    asked: Task | ContractFile,
    plan: TrialPlan,
    *,
    clock: Clock,
    store: ChunkStore,
    hooks: Hooks = NO_HOOKS,
    scans: Scans = NO_SCANS,
) -> ObservedTrial:
    """Steps 1 to 5, each on record before the next. Once the agent acts, no failure ends them.

    A contract that does not fit the state before is a `ContractError`, and no agent runs.
    """
    contract = asked if isinstance(asked, ContractFile) else None
    make_folder(folder := plan.folder)
    receipt = _proven(sandbox, agent, clock, folder)
    files, chunks = TrialFiles(folder), HeldChunks(store)
    with Opened() as stack:
        stack.enter_context(readings_within(getattr(agent, "timeout_seconds", None)))
        watch = stack.enter_context(Watch(sandbox.feeds(), clock))
        readers = _readers(sandbox.sources(), stack) if scans.by_pages else {}
        before = take(_read_so(sandbox.sources(), readers), chunks, clock, None, "before")
        told = _trial(sandbox, asked, plan, before, chunks, clock)
        own = own_secrets(agent, told.urls.values())
        user = _user(
            contract, sandbox=sandbox, before=before, store=chunks, clock=clock, own=own,
            facts=_facts(sandbox, receipt, agent.name, plan), simulated=hooks.simulated,
            timeline=Timeline(receipt.verified_at, clock(), clock()),
        )  # fmt: skip
        others = _others(sandbox, plan, user)
        with files.reserved(told):
            chunks.begin()
            run = _agent_run(agent, replace(told, user=user), plan, others, user, own, clock)
        stack.begun = True
        files.write("run", partial(save_run, folder, agent, run))
        receipt = completed_receipt(receipt, run, others, files)
        wanted = scans.wanted_of(plan.id, [part.reading.source for part in before.parts])
        course = Course(sandbox, clock, chunks, files, SETTLE_SECONDS, hooks.before_capture_after)
        sources = _read_so(sandbox.sources(), readers)
        seen = course.seen_after(sources, watch, before, receipt, run, wanted, scans.by_pages)
    after = acknowledge(seen.guarded.capture, before, run.trace, sandbox, contract, chunks)
    after = _looked(told.looks, after, run.trace)
    parts = own_part_of(before, after, others, files, chunks)
    after, run = _with_turns(parts.left.after, run, user, files, others)
    _keep_captures(files, (parts.left.before, after), seen.guarded.checks, chunks, plan)
    return ObservedTrial(
        id=plan.id,
        folder=folder,
        receipt=receipt,
        before=parts.left.before,
        after=after,
        timeline=seen.timeline,
        run=run,
        failed=seen.failed or _unfollowed(run),
        checks=seen.guarded.checks,
        further=tuple(part for part in (parts.found, parts.open) if part is not None),
        files=files,
    )


def _unfollowed(run: AgentRun) -> tuple[tuple[str, str], ...]:
    """The reason why the evaluator may have cut off the agent, which then is not at fault."""
    is_cut = isinstance(run.answer, NoAnswer) and run.answer.is_unread and run.error is not None
    return (("agent", str(run.error)),) if is_cut else ()


def _keep_captures(
    files: TrialFiles,
    ends: tuple[Capture, Capture],
    checks: Sequence[SourceCheck],
    chunks: HeldChunks,
    plan: TrialPlan,
) -> None:
    keep = partial(save_captures, files.folder, *ends, checks, chunks.under, plan.id)
    files.write("captures", keep)
    if chunks.first_missed is not None:
        files.name("part of the captured states", chunks.first_missed)


def _agent_run(
    agent: Agent,
    trial: Trial,
    plan: TrialPlan,
    others: Others | None,
    user: Conversation | None,
    own: OwnSecrets,
    clock: Clock,
) -> AgentRun:
    """Run the agent while the others work; the record is without secrets of ours."""
    started_at = clock()

    def not_followed(error: BaseException) -> AgentRun:
        why = f"the evaluator could not follow the agent: {words_of(error)}"
        unknown = unread_because(why)
        return AgentRun(NoAnswer(unknown), Trace(cause=unknown), started_at, clock(), error=why)

    def end() -> AgentRun:
        return as_printed(own.run(run if user is None else user.end(run)))

    with unreadable_memory(), others or nullcontext():
        try:
            run = agent.run(trial, clock)
        except (HarnessError, UsageError):
            raise  # it did not begin, or it must not go on
        except (Exception, SystemExit) as error:  # noqa: BLE001 - it may have acted
            run = not_followed(error)
    if run.is_at_large:
        AT_LARGE.append(plan.id)
    return in_any_case(end, not_followed, (HarnessError, UsageError))


def _others(sandbox: Sandbox, plan: TrialPlan, user: Conversation | None) -> Others | None:
    """Who works beside the agent; nobody where the sandbox declares nobody."""
    others = sandbox.others(f"{plan.seed}/{plan.id}") if isinstance(sandbox, Crowded) else None
    if others is not None and user is not None:
        raise UsageError(
            f"a contract with `turns` is judged after each of them, and in {sandbox.name} others "
            "work beside the agent: take a sandbox without `others`"
        )
    return others


def _looks(
    contract: ContractFile, sandbox: Sandbox, before: Capture, store: ChunkStore, clock: Clock
) -> Looks | None:
    """The readings after each call; None where no clause asks, or feeds have them."""
    followed = compile_contract(contract, schema_of(before)).contract.followed
    wanted = followed - {feed.source for feed in sandbox.feeds()}
    found = [source for source in sandbox.sources() if source.name in wanted]
    return Looks(found, before, store, clock) if found else None


def _looked(looks: Looks | None, after: Capture, trace: Trace) -> Capture:
    """The capture after, with what the readings between the calls showed."""
    if looks is None:
        return after
    return in_any_case(partial(looks.add_history, after, trace), lambda _: after)


def _user(contract: ContractFile | None, **scene: Any) -> Conversation | None:
    """The user for whom the harness speaks; nobody where the contract has no turns."""
    if contract is None or not contract.content.turns:
        return None
    return Conversation(Scene(file=contract, **scene))


def _with_turns(
    after: Capture,
    run: AgentRun,
    user: Conversation | None,
    files: TrialFiles,
    others: Others | None,
) -> tuple[Capture, AgentRun]:
    """The capture after and the run, with what was observed, and with the turns if there were."""
    # What nobody else made there is the agent's, unless an earlier trial's program may run still.
    known = frozenset() if others is None or AT_LARGE else {work.source for work in others.work()}
    observed = actions_of_history(after.history, run.trace, frozenset(known))
    trace = replace(run.trace, observed=observed)
    if user is not None:
        unknown = after, replace(trace, is_complete=False, cause=NOT_FOLLOWED)
        after, trace = in_any_case(partial(user.with_turns, after, trace), lambda _: unknown)
        said = replace(trace, observed=())
        files.write("trace", partial(save_trace, files.folder / "trace.jsonl", said))
    return after, replace(run, trace=trace)


def _trial(
    sandbox: Sandbox,
    asked: Task | ContractFile,
    plan: TrialPlan,
    before: Capture,
    store: ChunkStore,
    clock: Clock,
) -> Trial:
    """The agent's side of the trial; a contract also says what it may read and what is followed."""
    contract = asked if isinstance(asked, ContractFile) else None
    task = asked if isinstance(asked, Task) else Task.of(asked.content)
    access = sandbox.access()
    return Trial(
        prompt=task.prompt,
        inputs=task.inputs,
        urls=access.urls,
        tools=access.tools,
        folder=access.folder,
        answer_path=access.folder / "answer.json",
        trace_path=access.folder / "trace.jsonl",
        seed=plan.seed,
        answer_form=task.answer_form,
        place=access.place,
        secrets=plan.observer.files if plan.observer else (),
        looks=None if contract is None else _looks(contract, sandbox, before, store, clock),
        library=None if contract is None else library_of(contract, before),
    )


def _require_answerable(observed: ObservedTrial, judgement: Judgement) -> None:
    """An answer that no agent could mean as one fails no run by itself. Raises `AdapterError`."""
    failed = [finding for finding in judgement.findings if finding.truth is Truth.FAILS]
    if observed.run.unreadable and failed and all(f.stage is Stage.ANSWER for f in failed):
        raise AdapterError(observed.run.unreadable)


def _require_served(observed: ObservedTrial, judgement: Judgement) -> None:
    """Check that the agent lacks nothing but by its own fault. Raises `EnvironmentFailure`.

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


def _not_proven(receipt: Receipt, is_in_place: bool) -> str:
    shown = "; ".join(str(entry) for entry in receipt.drift[:3])
    more = f" and {len(receipt.drift) - 3} more" if len(receipt.drift) > 3 else ""
    help_ = "Stop whatever still writes to it and run again"
    if is_in_place:
        help_ = "No further trial begins on it: put it back, or make `reset` do it"
    return (
        f"the reset of {receipt.sandbox} is not proven: {shown or 'digests differ'}{more}; "
        f"the trial was not started. {help_}"
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
