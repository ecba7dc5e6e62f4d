"""`module:function`: a Python function is an agent. It gets a `Trial` and returns its answer.

It runs inside the evaluator's process, so it has no timeout and no isolation; use a program
(`statediff.agents.command`) for anything that is not trusted.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from statediff.agents.handover import MAX_ANSWER_BYTES, MAX_HANDED_DEPTH, read_answer, read_trace
from statediff.agents.recorder import Recorder, recording
from statediff.agents.tools import tool_table
from statediff.agents.trial import AgentRun, Trial
from statediff.capture.source import Clock
from statediff.errors import AdapterError, InputError, UsageError
from statediff.model.strictjson import read_json
from statediff.model.trace import NoAnswer
from statediff.model.values import Value
from statediff.reads.gate import Library
from statediff.systems.base.tool import ToolError

AgentFunction: TypeAlias = Callable[[Trial], Any]


@dataclass(frozen=True)
class FunctionAgent:
    """An agent that is a function; whatever it raises is the agent's error, not a harness fault."""

    function: AgentFunction
    name: str

    @staticmethod
    def load(path: str) -> FunctionAgent:
        """The function that `module:function` names; `UsageError` if there is no such thing."""
        module_name, colon, attribute = path.partition(":")
        if not (module_name and colon and attribute):
            raise UsageError(f"expected module:function, found {path!r}")
        try:
            module = importlib.import_module(module_name)
        except ImportError as error:
            message = f"the agent module {module_name!r} cannot be imported: {error}"
            raise UsageError(message) from error
        function = getattr(module, attribute, None)
        if not callable(function):
            raise UsageError(f"{module_name!r} has no function {attribute!r}")
        return FunctionAgent(function, path)

    def run(self, trial: Trial, clock: Clock) -> AgentRun:
        if trial.library is None:
            return self._run(trial, clock)
        with recording(clock) as recorder:
            run = self._by_tools(trial, trial.library, clock, recorder)
            recorder.close()
            return replace(run, trace=recorder.trace(), finished_at=max(run.finished_at, clock()))

    def _by_tools(
        self, trial: Trial, library: Library, clock: Clock, recorder: Recorder
    ) -> AgentRun:
        """What may be read is read through the gate; the systems it stands before are not told."""
        urls = {name: url for name, url in trial.urls.items() if name not in library.sources}
        table = tool_table(trial.urls, recorder, library)

        def call(name: str, arguments: Mapping[str, Any]) -> Any:
            reply = table.call(name, dict(arguments))
            if reply.is_error:
                raise ToolError(reply.text)
            return json.loads(reply.text)

        try:
            return self._run(replace(trial, urls=urls, call=call), clock)
        finally:
            table.close()
            if urls:
                recorder.miss(f"it was told where to find {', '.join(sorted(urls))}")

    def _run(self, trial: Trial, clock: Clock) -> AgentRun:
        started_at = clock()
        error: str | None = None
        answer: Value | NoAnswer
        try:
            returned = _awaited(self.function(trial))
        except (Exception, SystemExit) as raised:  # noqa: BLE001 — an agent may raise anything; that is a fact about the run
            error = f"the agent raised {type(raised).__name__}: {raised}"[:2000]
            answer = NoAnswer(error)
        else:
            # None: it may have written the answer file instead, as a program would.
            answer = (
                read_answer(trial.answer_path, trial.answer_form)
                if returned is None
                else _answer_of(returned)
            )
        return AgentRun(answer, read_trace(trial.trace_path), started_at, clock(), error=error)


def _awaited(returned: Any) -> Any:
    """What an asynchronous function gives in the end, in an event loop of its own."""
    if not inspect.isawaitable(returned):
        return returned

    async def result() -> Any:
        return await returned

    # A thread of its own: the caller's may be in an event loop already.
    with ThreadPoolExecutor(1, thread_name_prefix="agent") as thread:
        return thread.submit(asyncio.run, result()).result()


def _answer_of(returned: object) -> Value | NoAnswer:
    """The answer; what no agent could mean as one is a fault of the function."""
    try:
        json.dumps(returned)
    except (TypeError, RecursionError) as error:
        raise AdapterError(
            f"the agent's function returned a {type(returned).__name__}, which is no answer: "
            f"{error}; return JSON (a dict, list, text, number, true, false), or None after "
            "writing the answer file"
        ) from error
    except ValueError:
        pass
    return as_answer(returned)


def as_answer(returned: object) -> Value | NoAnswer:
    """What a function returned, read as if it had been written to the answer file."""
    try:
        raw = json.dumps(returned, ensure_ascii=False, allow_nan=False).encode("utf-8")
        return read_json(raw, "answer", max_bytes=MAX_ANSWER_BYTES, max_depth=MAX_HANDED_DEPTH)
    except (TypeError, ValueError, RecursionError) as error:
        return NoAnswer(f"the answer is not JSON: {error}")
    except InputError as error:
        return NoAnswer(str(error))
