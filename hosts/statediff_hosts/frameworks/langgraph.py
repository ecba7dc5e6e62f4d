"""LangGraph and LangChain: a graph or chain whose calls of tools are in the trial's trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import ToolMessage
from langchain_core.runnables import Runnable

from statediff.agents.own_log import OwnLog
from statediff.agents.trial import Trial


def recorded(
    agent: Runnable[Any, Any], trial: Trial, classes: Mapping[str, str] | None = None
) -> Runnable[Any, Any]:
    """The agent; every tool that is called below it is in the trace.

    Arguments are those that the model gave, without what the graph injects; a result is the content
    of the message that the model gets. `classes` has the class of calls of a tool.
    """
    return agent.with_config(callbacks=[Calls(trial.log(classes))])


class Calls(BaseCallbackHandler):
    """The callbacks that record; for agents that are given callbacks by themselves."""

    raise_error = True
    """A call that cannot be recorded is not made."""
    run_inline = True
    """Calls are in the log in the order in which they begin."""

    def __init__(self, log: OwnLog) -> None:
        self._log = log
        self._open: dict[UUID, str] = {}

    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        run_id: UUID,
        inputs: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        name = str((serialized or {}).get("name"))
        arguments = {"input": input_str} if inputs is None else inputs
        self._open[run_id] = self._log.begin(name, arguments)

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        result, error = output, None
        if isinstance(output, ToolMessage):
            result = output.content
            if output.status == "error":
                # The tool made a message of what it raised.
                result, error = None, str(output.content)
        self._log.end(self._open.pop(run_id), result=result, error=error)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        self._log.end(self._open.pop(run_id), error=error)
