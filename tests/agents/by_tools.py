"""An agent that knows nothing but the tools of a sandbox, and says in Python which it calls."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from statediff.agents.function import as_answer
from statediff.agents.recorder import recording
from statediff.agents.tools import Reply, tool_table
from statediff.agents.trial import AgentRun, Trial
from statediff.capture.source import Clock

Call = Callable[..., Any]

COLUMNS = "order_id, to_method_id, cents, reason, by_staff_id, created_at"


@dataclass(frozen=True)
class Toolsmith:
    """An agent in this process that is handed a way to call tools, and nothing else."""

    act: Callable[[Call, Mapping[str, Any]], Any]
    name: str = "by-tools"

    def run(self, trial: Trial, clock: Clock) -> AgentRun:
        started_at = clock()
        with recording(clock) as recorder:
            table = tool_table(trial.urls, recorder, looks=trial.looks)

            def call(tool: str, **arguments: Any) -> Any:
                reply: Reply = table.call(tool, arguments)
                assert not reply.is_error, f"{tool}: {reply.text}"
                return json.loads(reply.text)

            answer = as_answer(self.act(call, trial.inputs))
            table.close()
            recorder.close()
            return AgentRun(answer, recorder.trace(), started_at, clock())
