"""The OpenAI Agents SDK: an agent whose calls of function tools are in the trial's trace."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from agents import Agent, FunctionTool, Handoff, function_tool
from agents.tool import ToolOriginType, get_function_tool_origin

from statediff.agents.own_log import OwnLog, json_arguments
from statediff.agents.trial import Trial


def recorded(
    agent: Agent[Any], trial: Trial, classes: Mapping[str, str] | None = None
) -> Agent[Any]:
    """A copy of the agent and of those it may hand over to; their function tools are recorded.

    Arguments are those that the model gave. `classes` has the class of calls of a tool. Not
    recorded are tools of MCP servers, tools that OpenAI carries out, what an agent calls that is a
    tool itself, and what `Handoff` objects lead to; the log says so. `statediff mcp-proxy` records
    MCP servers.
    """
    return _Recording(trial.log(classes)).agent(agent, {})


@dataclass
class _Inside:
    """The outcome of a tool's own function within one call of the tool."""

    was_called: bool = False
    error: BaseException | None = None


_INSIDE: ContextVar[_Inside | None] = ContextVar("inside", default=None)


@dataclass(frozen=True)
class _Recording:
    log: OwnLog

    def agent(self, agent: Agent[Any], made: dict[int, Agent[Any]]) -> Agent[Any]:
        """The copy; agents may hand over to each other in circles."""
        if id(agent) in made:
            return made[id(agent)]
        self._say_unseen(agent)
        copied = made[id(agent)] = agent.clone(
            tools=[self.tool(t) if isinstance(t, FunctionTool) else t for t in agent.tools],
            handoffs=[],
        )
        copied.handoffs.extend(
            self.agent(each, made) if isinstance(each, Agent) else each for each in agent.handoffs
        )
        return copied

    def tool(self, tool: FunctionTool) -> FunctionTool:
        """The tool, of which each call is in the log, an error that it made a message of too."""
        inner = copy.copy(tool)
        function = getattr(tool, "__wrapped__", None)
        if function is not None:
            again = function_tool(
                _watched(function), name_override=tool.name, strict_mode=tool.strict_json_schema
            )
            # All but the invoker is the tool's own: its way with errors, its guards, its schema.
            inner = replace(inner, on_invoke_tool=again.on_invoke_tool)

        async def invoke(context: Any, text: str) -> Any:
            with self.log.call(tool.name, json_arguments(text)) as outcome:
                inside = _Inside()
                token = _INSIDE.set(inside)
                try:
                    result = await inner.on_invoke_tool(context, text)
                finally:
                    _INSIDE.reset(token)
                if inside.error is not None:
                    outcome.error = inside.error
                elif function is not None and not inside.was_called:
                    outcome.error = str(result)  # the arguments were refused
                else:
                    outcome.result = result
            return result

        return replace(tool, on_invoke_tool=invoke)

    def _say_unseen(self, agent: Agent[Any]) -> None:
        unseen = [tool.name for tool in agent.tools if not isinstance(tool, FunctionTool)]
        unseen += [f"the agent behind {t.name}" for t in agent.tools if _is_agent(t)]
        unseen += [f"the MCP server {server.name}" for server in agent.mcp_servers]
        unseen += [f"what {h.tool_name} leads to" for h in agent.handoffs if isinstance(h, Handoff)]
        if unseen:
            self.log.miss(f"{agent.name} may use {', '.join(unseen)}, which is not recorded")


def _is_agent(tool: Any) -> bool:
    origin = get_function_tool_origin(tool) if isinstance(tool, FunctionTool) else None
    return origin is not None and origin.type is ToolOriginType.AGENT_AS_TOOL


def _watched(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which notes in the call under way that it was called and what it raised."""

    def enter() -> _Inside:
        inside = _INSIDE.get() or _Inside()
        inside.was_called = True
        return inside

    @functools.wraps(function)
    async def in_time(*args: Any, **kwargs: Any) -> Any:
        inside = enter()
        try:
            return await function(*args, **kwargs)
        except BaseException as error:
            inside.error = error
            raise

    @functools.wraps(function)
    def at_once(*args: Any, **kwargs: Any) -> Any:
        inside = enter()
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            inside.error = error
            raise

    return in_time if inspect.iscoroutinefunction(function) else at_once
