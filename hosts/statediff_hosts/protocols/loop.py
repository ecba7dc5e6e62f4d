"""`url` and `model`: a model behind an OpenAI-compatible endpoint, with the sandbox's tools.

The loop is as plain as can be: the task is given, the tools that the model asks for are called in
the order in which it asks, and the message in which it asks for none is its answer. The model's
only way to the systems are the tools, which record every call; so the trace is complete.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from dataclasses import dataclass, replace
from typing import Any, Final

from statediff.agents.handover import MAX_ANSWER_BYTES, MAX_HANDED_DEPTH
from statediff.agents.recorder import Recorder, recording
from statediff.agents.tools import ToolTable, tool_table
from statediff.agents.trial import AgentRun, Budget, Output, Trial, Usage
from statediff.agents.turns import reply_in
from statediff.capture.source import Clock
from statediff.errors import InputError
from statediff.model.strictjson import read_json
from statediff.model.trace import ENDED_BY_ITSELF, ENDED_BY_TIMEOUT, ENDED_IN_CRASH, NoAnswer
from statediff.model.values import Value, printable
from statediff_hosts.protocols.chat import Endpoint, ModelAnswer, RequestRefused, endpoint_of

SYSTEM: Final = (
    "You work on the systems of a company through tools. Do the task, then answer in a message "
    "without tool calls; where the task wants JSON, that message is the JSON and nothing else."
)
_FENCED: Final = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n[ \t]*```", re.DOTALL)
MAX_KEPT: Final = 64 * 1024


@dataclass(frozen=True)
class LoopAgent:
    """A model as an agent; `budget` is shared by all trials of a run."""

    endpoint: Endpoint
    budget: Budget
    max_turns: int = 50
    timeout_seconds: float = 600.0

    @property
    def name(self) -> str:
        return self.endpoint.model

    @property
    def entrusted(self) -> tuple[str, ...]:
        """The model's key."""
        return (self.endpoint.key,)

    def run(self, trial: Trial, clock: Clock) -> AgentRun:
        started_at = clock()
        with recording(clock) as recorder:
            table = tool_table(trial.urls, recorder, trial.library, trial.tools, looks=trial.looks)
            recorder.user(trial.prompt)
            talk = _Talk(self, table, trial.prompt)
            error = talk.through()
            while error is None and trial.user is not None:
                said = reply_in(talk.last)
                message = trial.user.answer(said, recorder.so_far)
                if message is None:
                    break
                recorder.reply(said)
                recorder.user(message)
                error = talk.through(message)
            table.close()
            answer = as_reply(talk.last, trial.answer_form) if error is None else NoAnswer(error)
            _reply(recorder, answer)
            recorder.close()
            text = printable(talk.last[:MAX_KEPT])
            kept = len(text.encode())
            seen = len(talk.last.encode("utf-8", errors="replace"))
            return AgentRun(
                answer,
                recorder.trace(),
                started_at,
                clock(),
                error=error,
                ending=talk.ending if error else ENDED_BY_ITSELF,
                stdout=Output(text, max(seen, kept), kept),
                usage=talk.bill(),
            )


class _Talk:
    """One conversation between a model and its tools."""

    def __init__(self, agent: LoopAgent, table: ToolTable, prompt: str) -> None:
        self._agent = agent
        self._table = table
        self._messages: list[dict[str, Any]] = [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": prompt},
        ]
        self._tools = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.schema(),
                },
            }
            for tool in table.tools.values()
        ]
        self._used = Usage()
        self._asked = 0
        self._deadline = time.monotonic() + agent.timeout_seconds
        self.last = ""
        self.ending = ENDED_BY_TIMEOUT
        """How it ended, where it did not end well."""

    def through(self, message: str | None = None) -> str | None:
        """The model has answered, the user's further message if there is one; else why not."""
        agent, deadline = self._agent, self._deadline
        if message is not None:
            self._messages.append({"role": "assistant", "content": self.last})
            self._messages.append({"role": "user", "content": message})
        while self._asked < agent.max_turns:
            self._asked += 1
            agent.budget.require_open()
            if time.monotonic() >= deadline:
                return f"the model did not answer within {agent.timeout_seconds:g} s"
            context = json.dumps([self._tools, self._messages], ensure_ascii=False)
            try:
                said = agent.endpoint.ask(self._messages, self._tools, deadline)
            except RequestRefused as refused:
                self.ending = ENDED_IN_CRASH
                return f"the model's server refuses the request: {refused}"
            self._used += said.usage
            agent.budget.spend(said.usage)
            self.last = said.text
            if not said.calls:
                return None
            self._messages.append(said.as_message())
            self._call(said, context)
        return f"the model had not answered after {agent.max_turns} turns"

    def bill(self) -> Usage:
        """The usage of the conversation, with its cost where that is known."""
        return replace(self._used, cost=self._agent.budget.prices.cost(self._used))

    def _call(self, said: ModelAnswer, context: str) -> None:
        for call in said.calls:
            arguments: Any = call.arguments
            # What is no JSON stays text: the table says that it is no object, the record keeps it.
            with contextlib.suppress(ValueError, RecursionError):
                arguments = json.loads(call.arguments or "{}")
            reply = self._table.call(call.name, arguments, context=context, messages=said.text)
            text = f"error: {reply.text}" if reply.is_error else reply.text
            self._messages.append({"role": "tool", "tool_call_id": call.id, "content": text})


def as_reply(text: str, form: str = "json") -> Value | NoAnswer:
    """The answer that a message holds: see `reply_text`."""
    said = reply_text(text, form)
    if said is None:
        return NoAnswer("the model's last message is no JSON")
    return said if form == "text" else _read(said)


def reply_text(text: str, form: str = "json") -> str | None:
    """The JSON that a message is, or that stands in its only code block; nothing is guessed.

    With `form` text it is the message itself. None where there is none.
    """
    if form == "text":
        return text
    fenced = _FENCED.findall(text)
    for candidate in (text, *(fenced if len(fenced) == 1 else ())):
        with contextlib.suppress(InputError, UnicodeError):
            _read(candidate)
            return str(candidate)
    return None


def _read(text: str) -> Value:
    raw = text.encode("utf-8")
    return read_json(raw, "answer", max_bytes=MAX_ANSWER_BYTES, max_depth=MAX_HANDED_DEPTH)


def _reply(recorder: Recorder, answer: Value | NoAnswer) -> None:
    if not isinstance(answer, NoAnswer):
        recorder.reply(answer)


def model_agent(
    base_url: str,
    model: str,
    key_env: str | None,
    *,
    streams: bool,
    budget: Budget,
    max_turns: int,
    timeout_seconds: float,
) -> LoopAgent:
    """The model at the address, as an agent; `UsageError` as of `endpoint_of`."""
    endpoint = endpoint_of(base_url, model, key_env, streams=streams)
    return LoopAgent(endpoint, budget, max_turns, timeout_seconds)
