"""The user of a live trial: what is said to the agent, and what its turns leave.

The harness speaks for the user. The agent's adapter hands in each reply and gets the next message,
and nothing else: no later message, no condition and no result of a gate is on the agent's side.

1. The agent replies. The systems come to rest, within bounds, and every source is read.
2. The first rule whose condition holds of that state, the calls and the reply is answered with its
   words; where none does, a simulated user may go on (`Simulated`), up to its limit of messages.
3. The gate of the turn is judged on that state, by the functions that judge the whole trial. If it
   fails and the contract grants a repair, the user asks again; what is unknown is no failure.
4. The next turn begins, whether the gate held or not. After the last there is nothing to say.

What was seen of each source is kept by its digest; `with_turns` finds it in the source's history
after the run, or adds it where the source has none.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from statediff.agents.own_secrets import OwnSecrets
from statediff.agents.trial import AgentRun
from statediff.capture.source import Clock, unread
from statediff.capture.take import take
from statediff.contract.clauses.conduct import ReplyRule
from statediff.contract.clauses.conduct import Turn as WrittenTurn
from statediff.contract.clauses.kind import plain_value
from statediff.contract.file import ContractFile
from statediff.contract.parts import PLACEHOLDER
from statediff.kernel import TrialFacts, gates_now
from statediff.model.readings import Capture, History, ReadingKind, Timeline, Transaction
from statediff.model.state import ChunkStore, State
from statediff.model.trace import NO_REPLY, NoAnswer, Trace, Turn
from statediff.model.values import Value, show
from statediff.model.verdict import Truth
from statediff.systems.base.protocol import Sandbox

SETTLE_SECONDS: Final = 2.0
MOST_SIMULATED: Final = 5
"""Messages of a simulated user in one turn of the contract."""
BETWEEN: Final = "no feed tells of it; its state was read after each turn only"


class Simulated(Protocol):
    """Somebody who speaks for the user beside the contract's rules, such as a model."""

    def answer(self, aim: str, said: Sequence[tuple[str, Value | NoAnswer]]) -> str | None:
        """The user's next message in the turn, in which the contract has it say `aim`.

        `said` has each message of the user and the reply to it, from the first turn on. None: the
        user has nothing more to say in this turn. `AdapterError` where nobody can say.
        """


@dataclass(frozen=True, kw_only=True)
class Scene:
    """The judge of a trial's turns: its contract, its systems, and its state before."""

    file: ContractFile
    sandbox: Sandbox
    before: Capture
    store: ChunkStore
    clock: Clock
    facts: TrialFacts
    timeline: Timeline
    """Up to the agent's first action."""
    own: OwnSecrets
    simulated: Simulated | None = None


@dataclass
class _Said:
    """One message of the user, and what became of it."""

    message: str
    gate: int
    attempt: int
    calls_before: int
    reply: Value | NoAnswer = NO_REPLY
    left: Mapping[str, State] = field(default_factory=dict)
    """Each source that was at rest and could be read, as the turn left it."""

    def turn(self, calls: int) -> Turn:
        """The turn of a log that has so many calls."""
        before = min(self.calls_before, calls)
        return Turn(self.message, before, self.reply, gate=self.gate, attempt=self.attempt)


def spoken(template: str, inputs: Mapping[str, Value]) -> str:
    """The text with each `{input}` in its place; `{{word}}` is `{word}`."""

    def fill(found: re.Match[str]) -> str:
        escaped, name = found.groups()
        if name not in inputs:
            return found[0] if escaped is None else f"{{{escaped}}}"
        value = inputs[name]
        return value if isinstance(value, str) else show(value, limit=2000)

    return PLACEHOLDER.sub(fill, template).strip()


class Conversation:
    """The user of one trial; safe to use from several threads, of which one at a time is heard."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._turns: tuple[WrittenTurn, ...] = scene.file.content.turns
        self._lock = threading.Lock()
        self._is_over = False
        self._answered: dict[tuple[int, int], int] = {}
        """(turn, rule) → how often the rule was followed."""
        self._simulated: dict[int, int] = {}
        """Turn → how often the simulated user was asked."""
        written = scene.file.content.inputs
        self._inputs = {name: plain_value(raw) for name, raw in written.items()}
        self._said = [_Said(spoken(self._turns[0].prompt, self._inputs), 1, 1, 0)]
        self.failure: Exception | None = None
        """A failure around the agent while the user was to speak."""

    def answer(self, reply: Value, so_far: Callable[[], Trace]) -> str | None:
        """The user's next message after the agent's reply; None where there is nothing more to say.

        `so_far` gives the calls until now.
        """
        own = self._scene.own
        with self._lock:
            if self._is_over:
                return None
            try:
                return self._next(own.value(reply), own.trace(so_far()))
            except Exception as error:  # noqa: BLE001 - raised again in `end`: the agent is not to blame
                self.failure, self._is_over = error, True
                return None

    def end(self, run: AgentRun) -> AgentRun:
        """The run with the turns as they were heard. Nobody is answered any more.

        The last message is replied to by the run's answer, where the agent gave no other reply.
        """
        with self._lock:
            self._is_over = True
        if self.failure is not None:
            raise self.failure
        last, most = self._said[-1], len(run.trace.actions)
        if isinstance(last.reply, NoAnswer):
            last.reply = run.answer
        turns = tuple(each.turn(most) for each in self._said)
        return replace(run, trace=replace(run.trace, turns=turns))

    def with_turns(self, after: Capture, trace: Trace) -> tuple[Capture, Trace]:
        """The capture after and the trace, with where in each source's history a turn ended."""
        lines = {
            part.reading.source: _Line.of(part.reading.source, part.state, after)
            for part in self._scene.before.parts
        }
        turns = []
        for number, (turn, said) in enumerate(
            zip(trace.turns or (), self._said, strict=True), start=1
        ):
            found = {s: lines[s].place(state, f"turn-{number}") for s, state in said.left.items()}
            left = tuple((s, n) for s, n in sorted(found.items()) if n is not None)
            turns.append(replace(turn, left=left))
        history = after.history
        for line in lines.values():
            history = line.told(history, self._scene.clock)
        return replace(after, history=history), replace(trace, turns=tuple(turns))

    # ---------------------------------------------------------------- what the user says

    def _next(self, reply: Value, trace: Trace) -> str | None:
        at, scene = self._said[-1], self._scene
        at.reply = reply
        turn, number = self._turns[at.gate - 1], at.gate
        is_last = number == len(self._turns)
        if is_last and not turn.replies and scene.simulated is None:
            self._is_over = True  # its gate is judged on the state after the run
            return None
        settled = scene.sandbox.settle(scene.clock, SETTLE_SECONDS)
        now = take(scene.sandbox.sources(), scene.store, scene.clock, scene.before, "after")
        unsettled = {source for source, _ in settled.unsettled}
        at.left = {
            part.reading.source: part.state
            for part in now.parts
            if part.reading.is_complete and part.reading.source not in unsettled
        }
        calls = len(trace.actions)
        truths: Mapping[str, Truth] = {}
        if turn.replies:
            timeline = replace(
                scene.timeline,
                agent_finished_at=settled.settled_at,
                settled_at=settled.settled_at,
                unsettled=settled.unsettled,
            )
            truths = self._judged(trace, now, timeline)
        rule = self._by_rule(number, turn, truths)
        said = self._by_model(number) if rule is None else self._filled(rule)
        if said is not None:
            return self._say(said, number, at.attempt, calls)
        gate = turn.id or f"turns-{number}"
        is_open = turn.repair is not None and at.attempt <= turn.repair.count
        if turn.repair is not None and is_open and truths[gate] is Truth.FAILS:
            return self._say(self._filled(turn.repair.prompt), number, at.attempt + 1, calls)
        if is_last:
            self._is_over = True
            return None
        return self._say(self._filled(self._turns[number].prompt), number + 1, 1, calls)

    def _filled(self, text: str) -> str:
        return spoken(text, self._inputs)

    def _say(self, said: str, gate: int, attempt: int, calls: int) -> str:
        self._said.append(_Said(said, gate, attempt, calls))
        return said

    def _judged(self, trace: Trace, now: Capture, timeline: Timeline) -> Mapping[str, Truth]:
        scene = self._scene
        heard = tuple(each.turn(len(trace.actions)) for each in self._said)
        return gates_now(
            scene.file,
            scene.before,
            now,
            trace=replace(trace, turns=heard),
            timeline=timeline,
            facts=scene.facts,
        )

    def _by_rule(self, number: int, turn: WrittenTurn, truths: Mapping[str, Truth]) -> str | None:
        name = turn.id or f"turns-{number}"
        for at, rule in enumerate(turn.replies, start=1):
            holds = rule.on is not None and truths[f"{name}/replies-{at}"] is Truth.HOLDS
            if holds and self._may(number, at, rule):
                return rule.prompt
        return None

    def _may(self, number: int, at: int, rule: ReplyRule) -> bool:
        followed = self._answered.get((number, at), 0)
        self._answered[number, at] = followed + 1
        return followed < rule.count

    def _by_model(self, number: int) -> str | None:
        spoke = self._simulated.get(number, 0)
        if self._scene.simulated is None or spoke >= MOST_SIMULATED:
            return None
        self._simulated[number] = spoke + 1
        said = [(each.message, each.reply) for each in self._said]
        aim = self._filled(self._turns[number - 1].prompt)
        return self._scene.simulated.answer(aim, said)


@dataclass
class _Line:
    """One source's history, as far as it tells of the states that turns left."""

    source: str
    before: str
    known: list[str]
    """The digests of the states after its transactions, in their order."""
    is_ours: bool
    """Nothing else tells of its states, so that those that turns left are added."""
    at: int = 0
    added: list[Transaction] = field(default_factory=list)

    @staticmethod
    def of(source: str, before: State, after: Capture) -> _Line:
        known = [t.state.digest() for t in after.history.of(source)]
        is_ours = not known and after.history.gap(source) is not None
        return _Line(source, before.digest(), known, is_ours)

    def place(self, state: State, name: str) -> int | None:
        """After how many transactions the source was in the state; None if the history lacks it."""
        digest = state.digest()
        digests = [self.before, *self.known]
        places = [n for n, each in enumerate(digests) if each == digest]
        if not places:
            if not self.is_ours:
                return None
            self.known.append(digest)
            self.added.append(Transaction(name, self.source, name, None, state))
            places = [len(self.known)]
        self.at = next((n for n in places if n >= self.at), places[-1])
        return self.at

    def told(self, history: History, clock: Clock) -> History:
        """The history with what was added."""
        if not self.added:
            return history
        readings = history.readings
        if all(reading.source != self.source for reading in readings):
            evidence = f"during/{self.source}"
            told = unread(evidence, self.source, clock(), BETWEEN, kind=ReadingKind.FEED)
            readings = tuple(sorted((*readings, told), key=lambda reading: reading.source))
        return History(readings, (*history.transactions, *self.added))
