"""Pydantic AI: an agent whose calls of tools are in the trial's trace."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from pydantic_ai.agent import AbstractAgent, WrapperAgent
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import NativeToolCallPart

from statediff.agents.own_log import OwnLog, json_arguments
from statediff.agents.trial import Trial


def recorded(
    agent: AbstractAgent[Any, Any], trial: Trial, classes: Mapping[str, str] | None = None
) -> AbstractAgent[Any, Any]:
    """The agent; what its runs call, whatever toolset it is of, is in the trace.

    Arguments are those that passed validation, or else those that the model gave. `classes` has
    the class of calls of a tool.
    """
    return _RecordedAgent(agent, Calls(trial.log(classes)))


@dataclass
class Calls(AbstractCapability[Any]):
    """The capability that records; for agents that are given capabilities by themselves."""

    log: OwnLog

    async def wrap_tool_validate(
        self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any
    ) -> Any:
        try:
            return await handler(args)
        except Exception as error:  # whatever a tool's validator raises; no call is made of it
            begun = self.log.begin(call.tool_name, json_arguments(args))
            self.log.end(begun, error=error)
            raise

    async def wrap_tool_execute(
        self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any
    ) -> Any:
        with self.log.call(call.tool_name, args) as outcome:
            outcome.result = await handler(args)
        return outcome.result


class _RecordedAgent(WrapperAgent[Any, Any]):
    """Another agent, each run of which has the capability besides its own."""

    def __init__(self, agent: AbstractAgent[Any, Any], calls: Calls) -> None:
        super().__init__(agent)
        self._calls = calls

    @asynccontextmanager
    async def iter(
        self, *args: Any, capabilities: Any = None, **options: Any
    ) -> AsyncIterator[Any]:
        given = (*(capabilities or ()), self._calls)
        async with super().iter(*args, capabilities=given, **options) as run:
            yield run
            self._say_native(run.new_messages())

    def _say_native(self, messages: Any) -> None:
        """The model's provider carried these calls out: nobody here saw them."""
        parts = [part for message in messages for part in message.parts]
        native = {part.tool_name for part in parts if isinstance(part, NativeToolCallPart)}
        if native:
            self._calls.log.miss(f"the model's provider called {', '.join(sorted(native))}")
