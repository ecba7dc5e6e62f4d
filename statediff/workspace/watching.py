"""`watch`: states at hand before and after a run that somebody else controls.

1. The states are read: each reading is of now, and is the proof of what was there.
2. The caller's program or block runs. Nothing is reset, and nothing is kept from it unasked.
3. Running systems get `settle_seconds` for what is in flight, and the states are read again.

Without a reset there is no receipt. Sessions of others that a system shows beside ours are
reported: what changed may be theirs, and the judgement names no actor.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from statediff.agents.command import CommandAgent
from statediff.agents.commandline import how_to_run, resolved
from statediff.agents.isolation import NONE, isolation
from statediff.agents.own_secrets import own_secrets
from statediff.agents.room import Room
from statediff.agents.trial import AgentRun, Trial
from statediff.capture.held_chunks import HeldChunks
from statediff.capture.source import SessionLister, Source, SourceUnavailable, clock
from statediff.capture.take import read_source, take
from statediff.capture.unread import judged_in_any_case
from statediff.contract.file import ContractFile
from statediff.errors import AdapterError, UsageError
from statediff.harness import Task
from statediff.kernel import Evaluated, TrialFacts, comparison, evaluate
from statediff.model.delta import Diff
from statediff.model.readings import Capture, SourceCapture, Timeline
from statediff.model.state import ChunkStore
from statediff.model.trace import NoAnswer, RunEnding, Trace
from statediff.model.values import Value, printable
from statediff.observing import Observer, observed_as
from statediff.systems.base.live import LiveSource
from statediff.systems.base.plugin import Refinement
from statediff.systems.base.privacy import CREDENTIALS, OF_KEYS, unreadable_memory
from statediff.systems.captured import statefile
from statediff.total import in_any_case
from statediff.workspace.inputs import (
    Refinements,
    StateFile,
    distinct_states,
    require_described,
    require_schema,
    temporary_chunks,
)

SETTLE_SECONDS: Final = 0.5


@dataclass(frozen=True, kw_only=True)
class Watched:
    """The states before and after a run, and their times."""

    before: Capture
    after: Capture
    timeline: Timeline
    others: tuple[str, ...]
    """Sessions that were not ours, as `SOURCE: who`, sorted."""
    isolation: str = NONE
    """The isolation that kept the program from the evaluator."""

    def diff(self) -> Diff:
        """Everything that changed."""
        return comparison(self.before, self.after).diff

    def judge(
        self,
        contract: ContractFile,
        *,
        agent: str,
        answer: Value | NoAnswer,
        trace: Trace,
        ending: RunEnding | None,
        observer: Observer | None = None,
    ) -> Evaluated:
        """The run judged under the contract, once the observer has signed what there was.

        The bundle has nothing of an observer where that failed. Raises as `evaluate` does.
        """
        facts = TrialFacts("watch", agent=agent, isolation=self.isolation, ending=ending)
        ends = [(self.before, self.after)]
        observed = observer and partial(observer.observe, ends, facts, trace, answer, self.timeline)
        signed = observed and in_any_case(observed, lambda _: None)
        judge = partial(
            evaluate, contract, answer=answer, trace=trace, timeline=self.timeline, facts=facts
        )
        found = judged_in_any_case(judge, self.before, self.after)
        return in_any_case(partial(observed_as, found, signed), lambda _: found)


class Watch:
    """A watch that has begun: the states before are read when it is made.

    Watches of one system may share `chunks`, in which rows that are the same are kept once.
    `InputError` where a state cannot be read, `ContractError` where the contract does not fit it or
    matches a run in which nothing happens unasked.
    """

    def __init__(
        self,
        states: Sequence[str],
        refined: Refinements,
        contract: ContractFile | None = None,
        chunks: ChunkStore | None = None,
    ) -> None:
        self._files = distinct_states(states, "--state")
        if not self._files:
            raise UsageError("nothing is watched; give at least one state, e.g. db=app.sqlite")
        require_described(refined, [file.source for file in self._files])
        self._refined = refined
        self.contract = contract
        self._store: Final = HeldChunks(chunks or temporary_chunks())
        self._isolation = NONE
        self._began_at = clock()
        self._sources: dict[str, LiveSource] = {
            file.source: self._source(file) for file in self._files
        }
        self._others = set(_others(self._sources.values()))
        self.before: Final = take(list(self._sources.values()), self._store, clock, None, "before")
        if contract is not None:
            evaluate(contract, self.before, self.before)
        self._store.begin()
        self._started_at = clock()

    @property
    def urls(self) -> Mapping[str, str]:
        """Source → the URL where the program reaches it; of a path, that of a sandbox like it."""
        return {
            file.source: file.reader.url_of(file.path.absolute()) if file.url is None else file.url
            for file in self._files
        }

    def _source(self, file: StateFile) -> LiveSource:
        if file.is_stdin:
            raise UsageError("standard input cannot be watched; give a path or a URL")
        source = LiveSource(file.source, file.reader, file.input, self._refined(file.source))
        require_schema(source, file)
        return source

    def isolation(self, *, isolate: bool) -> str:
        """The isolation of the program, for the judgement. `UsageError` where there is none."""
        self._isolation = isolation() if isolate else NONE
        if isolate and self._isolation == NONE:
            raise UsageError("--isolate: this machine has neither namespaces nor Landlock")
        return self._isolation

    def finish(self, settle_seconds: float = SETTLE_SECONDS) -> Watched:
        """The states after, once what is in flight has had its time."""
        finished_at = clock()
        time.sleep(settle_seconds)
        settled_at = clock()
        self._others |= set(_others(self._sources.values()))
        before, after = self._pair(self._refined, None)
        return Watched(
            before=before,
            after=after,
            timeline=Timeline(
                self._began_at, self._started_at, self._started_at, finished_at, settled_at
            ),
            others=tuple(sorted(self._others)),
            isolation=self._isolation,
        )

    def reread(self, watched: Watched, refined: Refinements) -> Watched:
        """The watched run as other refinements show it."""
        before, after = self._pair(refined, watched.after)
        return replace(watched, before=before, after=after)

    def _pair(self, refined: Refinements, last: Capture | None) -> tuple[Capture, Capture]:
        """The state before and the state now, or as it was read last.

        What says no types itself gets those that both states show, as two files of it do.
        """
        known = {} if last is None else {part.reading.source: part for part in last.parts}
        pairs = [
            self._pair_of(one, refined(one.reading.source), known.get(one.reading.source))
            for one in self.before.parts
        ]
        return Capture(tuple(one for one, _ in pairs)), Capture(tuple(two for _, two in pairs))

    def _pair_of(
        self, one: SourceCapture, refinement: Refinement | None, last: SourceCapture | None
    ) -> tuple[SourceCapture, SourceCapture]:
        source = self._sources[one.reading.source]

        def of_both() -> tuple[SourceCapture, SourceCapture] | None:
            pair = source.pair() if last is None else source.pair_again(refinement)
            if pair is None:
                return None
            read = read_source(pair[0], self._store, clock, None, "before")
            reading = replace(read.reading, as_of=one.reading.as_of)
            first = replace(read, reading=reading, place=one.place)
            return first, read_source(pair[1], self._store, clock, first, "after")

        found = in_any_case(of_both, lambda _: None) if last is None else of_both()
        if found is not None:
            return found
        if last is None:
            return one, read_source(source, self._store, clock, one, "after")
        if refinement is None:
            return one, last
        return self._as(one, refinement), self._as(last, refinement)

    def _as(self, part: SourceCapture, refinement: Refinement) -> SourceCapture:
        state = statefile.refined(part.state, refinement, self._store)
        digest = state.digest() if part.reading.was_read else None
        return replace(part, state=state, reading=replace(part.reading, digest=digest))


def run_program(
    command: Sequence[str],
    contract: ContractFile | None,
    urls: Mapping[str, str],
    seconds: float,
    isolation: str = NONE,
    network: tuple[str, ...] = (),
    secrets: tuple[Path, ...] = (),
) -> AgentRun:
    """The caller's own program, run to its end. `AdapterError` where it cannot be started.

    What is isolated does not get the variables with which states are read, and in namespaces not
    the files `secrets`.
    """
    if not command:
        raise UsageError("no program is given; put it after `--`, e.g. -- python agent.py")
    program = resolved(command, Path.cwd())
    if shutil.which(program[0]) is None:
        if Path(command[0]).is_file():
            raise AdapterError(
                f"{printable(command[0])}: this file cannot be executed; nothing was run, and "
                f"there is no verdict; {how_to_run(printable(command[0]), '-- ')}"
            )
        raise AdapterError(
            f"{printable(command[0])}: there is no such program; nothing was run, and there is no "
            "verdict. Check the command after `--`"
        )
    withheld = OF_KEYS if isolation == NONE else CREDENTIALS | OF_KEYS
    agent = CommandAgent(
        program, seconds, is_own=True, isolation=isolation, withheld=withheld, network=network
    )
    task = Task("", {}) if contract is None else Task.of(contract.content)
    with tempfile.TemporaryDirectory(prefix="statediff-watch-", ignore_cleanup_errors=True) as made:
        folder = Path(made)
        trial = Trial(
            prompt=task.prompt,
            inputs=task.inputs,
            urls=urls,
            folder=folder,
            answer_path=folder / "answer.json",
            trace_path=folder / "trace.jsonl",
            answer_form=task.answer_form,
            secrets=secrets,
        )
        with Room.of(trial), nullcontext() if isolation == NONE else unreadable_memory():
            return own_secrets(agent, urls.values()).run(agent.run(trial, clock))


def _others(sources: Iterable[Source]) -> list[str]:
    found = []
    for source in sources:
        if isinstance(source, SessionLister):
            try:
                found += [f"{source.name}: {each}" for each in source.sessions()]
            except SourceUnavailable:
                continue  # its reading says so
    return found
