"""`--agent-mcp`: a program that gets tools instead of addresses.

It is run as `--agent-cmd` runs one, but nothing tells it where the systems are: only where the MCP
server of this trial is (`STATEDIFF_MCP_URL`; `STATEDIFF_MCP_CONFIG` names a file as MCP clients
read it). The server runs in the evaluator's process and records every call. The trace is complete
as far as the agent keeps to its tools: it shares the evaluator's user, as the receipt says.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from statediff.agents.command import CommandAgent
from statediff.agents.mcp_server import mcp_server, serving_http
from statediff.agents.recording import recording
from statediff.agents.tools.of import tool_table
from statediff.agents.trial import AgentRun, Trial
from statediff.capture.source import Clock
from statediff.errors import AdapterError


@dataclass(frozen=True)
class McpAgent:
    """A program whose every call is recorded, because its only way is the tools."""

    program: CommandAgent

    @property
    def name(self) -> str:
        return self.program.name

    def run(self, trial: Trial, clock: Clock) -> AgentRun:
        with recording(clock) as recorder:
            table = tool_table(trial.urls, recorder)
            with serving_http(mcp_server("statediff", table)) as url:
                try:
                    run = self._served(trial, clock, url)
                finally:
                    table.close()  # before anybody looks at what the calls left
            recorder.close()
            return replace(run, trace=recorder.trace(), finished_at=max(run.finished_at, clock()))

    def _served(self, trial: Trial, clock: Clock, url: str) -> AgentRun:
        config = trial.folder / "mcp.json"
        try:
            config.write_text(json.dumps({"mcpServers": {"sandbox": {"url": url}}}))
        except OSError as error:
            raise AdapterError(f"{config} cannot be written: {error.strerror}") from error
        told = (("STATEDIFF_MCP_URL", url), ("STATEDIFF_MCP_CONFIG", str(config)))
        program = replace(self.program, environment=told)
        return program.run(replace(trial, urls={}), clock)
