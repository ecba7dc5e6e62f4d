"""Steps of a trial after its agent has begun: a verdict comes of what can be seen.

Each gives what it found, or, where it fails twice, what stands for that: something that is not
known, with the cause. None of them raises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple

from statediff.agents.trial import AgentRun
from statediff.capture.acknowledged import by_word
from statediff.capture.feed import Watch
from statediff.capture.guard import GuardedCapture, capture_after
from statediff.capture.held_chunks import HeldChunks
from statediff.capture.own_part import OwnPart, OwnParts, own_parts
from statediff.capture.source import Clock, Source
from statediff.capture.take import is_ruined
from statediff.capture.unread import lose_states
from statediff.contract.file import ContractFile
from statediff.evidence import documents
from statediff.evidence.verify import OBSERVATION
from statediff.kernel import Evaluated
from statediff.model.explanation import unread_because
from statediff.model.readings import Capture, Timeline
from statediff.model.state import ChunkStore
from statediff.model.trace import Trace
from statediff.observing import observed_as
from statediff.systems.base.others import Others
from statediff.systems.base.protocol import Receipt, Sandbox, Settled
from statediff.total import in_any_case, words_of
from statediff.trial_folder import TrialFiles, save_document


class Opened(ExitStack):
    """Holds what a trial has open; once its agent has begun, no failure to close ends the trial."""

    begun = False

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> bool:
        try:
            return bool(super().__exit__(kind, error, trace))
        except Exception:  # whatever ends a sandbox badly, the verdict stands
            if error is not None or not self.begun:
                raise
            return False  # the next reset says whether it left something


def settle(sandbox: Sandbox, clock: Clock, seconds: float) -> Settled:
    """Wait for the systems to come to rest; where nobody can tell, none had."""

    def unknown(error: Exception) -> Settled:
        cause = words_of(error)
        return Settled(clock(), tuple(sorted((s.name, cause) for s in sandbox.sources())))

    return in_any_case(lambda: sandbox.settle(clock, seconds), unknown)


def acknowledge(
    after: Capture,
    before: Capture,
    trace: Trace,
    sandbox: Sandbox,
    contract: ContractFile | None,
    store: ChunkStore,
) -> Capture:
    """The capture after, with what was acknowledged where the contract calls that sufficient."""
    rules = {} if contract is None else contract.content.evidence
    sources = frozenset(s for s, rule in rules.items() if rule.over == "acknowledged")
    if not sources:
        return after

    def complete() -> Capture:
        declared = sandbox.access().tools.declared
        return by_word(before, after, trace, declared, sources, store)

    return in_any_case(complete, lambda _: after)


def own_part_of(
    before: Capture, after: Capture, others: Others | None, files: TrialFiles, store: ChunkStore
) -> OwnParts:
    """The agent's own part of the run; what others did is in `others.json` of the folder.

    Where nobody can tell what is whose, nothing is known of the state after.
    """
    if others is None:
        return OwnParts(left=OwnPart(before, after))

    def unknown(error: Exception) -> OwnParts:
        return OwnParts(left=OwnPart(before, lose_states(after, unread_because(words_of(error)))))

    def keep() -> None:
        save_document(files.folder / "others.json", others.as_json(before, after))

    files.write("others", keep)
    part = partial(own_parts, before, after)
    return in_any_case(lambda: part(others.work(), others.amounts, store), unknown)


class Seen(NamedTuple):
    """The sandbox after the agent, when it had settled, and which of its systems had failed."""

    guarded: GuardedCapture
    timeline: Timeline
    failed: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Course:
    """The parts that all steps of one trial share."""

    sandbox: Sandbox
    clock: Clock
    chunks: HeldChunks
    files: TrialFiles
    settle_seconds: float
    before_capture: Callable[[Sandbox], None] | None

    def seen_after(
        self,
        sources: Sequence[Source],
        watch: Watch,
        before: Capture,
        receipt: Receipt,
        run: AgentRun,
        wanted: Sequence[str],
        by_pages: bool,
    ) -> Seen:
        """Wait for what is in flight, or name it; then read all sources."""
        settled = settle(self.sandbox, self.clock, self.settle_seconds)
        timeline = _timeline(receipt, run, settled)
        self._save(timeline)
        if self.before_capture is not None:
            self.before_capture(self.sandbox)

        def capture() -> GuardedCapture:
            return capture_after(
                sources, watch, self.chunks, self.clock, before, wanted, by_pages=by_pages
            )

        def nothing_seen(error: Exception) -> GuardedCapture:
            none = lose_states(before, unread_because(words_of(error)))
            parts = [(part, f"after/{part.reading.source}") for part in none.parts]
            return GuardedCapture(
                Capture(tuple(replace(p, reading=p.reading.cited_as(i)) for p, i in parts))
            )

        guarded = in_any_case(capture, nothing_seen)
        # Under an agent that failed, what was killed may be seen to end only later.
        later = settle(self.sandbox, self.clock, 0.0).failed if run.error else ()
        ruined = {part.reading.source for part in guarded.capture.parts if is_ruined(part)}
        if ruined.intersection(source for source, _ in timeline.unsettled):
            # No waiting would bring back what the run closed: that it did is what is known of it.
            unsettled = tuple(each for each in timeline.unsettled if each[0] not in ruined)
            timeline = replace(timeline, unsettled=unsettled)
            self._save(timeline)
        return Seen(guarded, timeline, settled.failed or later)

    def _save(self, timeline: Timeline) -> None:
        document = documents.timeline_document(timeline)
        path = self.files.folder / "timeline.json"
        self.files.write("timeline", partial(save_document, path, document))


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


def signed_before_judging(
    observe: Callable[[], Any], files: TrialFiles
) -> Callable[[Evaluated], Evaluated]:
    """An observer's statement is kept now, and will be in the bundle of what is judged of it.

    A bundle that had to be made of something else has none, and the trial says so.
    """

    def unsigned(error: Exception) -> None:
        files.name("what the observer signed, in the bundle", words_of(error))

    document = in_any_case(observe, unsigned)
    path = files.folder / OBSERVATION
    if document is not None:
        files.write("what the observer signed", partial(save_document, path, document))

    def into(judged: Evaluated) -> Evaluated:
        return in_any_case(partial(observed_as, judged, document), unsigned) or judged

    return into


def completed_receipt(
    receipt: Receipt, run: AgentRun, others: Others | None, files: TrialFiles
) -> Receipt:
    """The receipt with what kept the agent apart, what it reached, and who worked beside it."""
    completed = replace(
        receipt,
        others=others.counts() if others else (),
        boundary=run.boundary,
        endpoints=tuple(dict.fromkeys(map(_endpoint, run.endpoints))),
        refused=run.refused,
    )
    path = files.folder / "receipt.json"
    files.write("receipt", partial(save_document, path, completed.as_json()))
    return completed


def _endpoint(endpoint: str) -> str:
    """An endpoint as the receipt has it: ports of this machine are drawn, so they are no fact."""
    is_here = endpoint.startswith(("127.", "localhost:", "[::1]"))
    return "the trial's own servers" if is_here else endpoint
