"""`mcp`: a program that gets tools instead of addresses.

It is run as `--agent-cmd` runs one, but nothing tells it where the systems are: only where the MCP
server of this trial is (`STATEDIFF_MCP_URL`; `STATEDIFF_MCP_CONFIG` names a file as MCP clients
read it). The server runs in the evaluator's process and records every call. The trace is complete
where namespaces keep the program from the systems' files. Where they do not, it may lack what went
past the tools, and says so.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

from statediff.agents.command import CommandAgent
from statediff.agents.handover import PAST_THE_TOOLS
from statediff.agents.isolation import NONE, isolation
from statediff.agents.recorder import Recorder, recording
from statediff.agents.tools import tool_table
from statediff.agents.trial import AgentRun, Trial
from statediff.agents.turns import heard, reply_tool
from statediff.capture.source import Clock
from statediff.errors import AdapterError
from statediff.systems.base.tool import url_variable
from statediff_hosts.protocols.mcp_proxy import Proxy, read_mcp_config, servers_by_name
from statediff_hosts.protocols.mcp_server import mcp_server, serving_http


@dataclass(frozen=True)
class McpAgent:
    """A program whose every call is recorded, because its only way is the tools.

    With a `config`, the tools are those of the MCP servers that the file names, which are started
    for the trial with `STATEDIFF_<SOURCE>_URL` at hand.
    """

    program: CommandAgent
    config: Path | None = None
    is_isolation_chosen: bool = False
    """The program's isolation is what the caller wants, `none` too."""

    @property
    def name(self) -> str:
        return self.program.name

    @property
    def isolation(self) -> str:
        """The isolation that was asked for, or the strongest that there is."""
        asked = self.program.isolation
        return isolation() if asked == NONE and not self.is_isolation_chosen else asked

    @property
    def entrusted(self) -> tuple[str, ...]:
        """The secrets that the program is given."""
        return self.program.entrusted

    @property
    def halted(self) -> Event:
        """The program's: once set, nothing of it runs any more."""
        return self.program.halted

    def run(self, trial: Trial, clock: Clock) -> AgentRun:
        with recording(clock) as recorder:
            if "namespaces" not in self.isolation:
                recorder.miss(PAST_THE_TOOLS)
            trial = replace(trial, user=heard(trial.user, recorder.so_far))
            if self.config is None:
                run = self._by_own_tools(trial, clock, recorder)
            else:
                run = self._by_proxy(self.config, trial, clock, recorder)
            recorder.close()
            return replace(run, trace=recorder.trace(), finished_at=max(run.finished_at, clock()))

    def _by_own_tools(self, trial: Trial, clock: Clock, recorder: Recorder) -> AgentRun:
        user = trial.user
        talk = () if user is None else (reply_tool(user, recorder.so_far),)
        table = tool_table(trial.urls, recorder, trial.library, trial.tools, talk, trial.looks)
        with serving_http(mcp_server("statediff", table)) as url:
            try:
                return self._run_program(trial, clock, url)
            finally:
                table.close()  # before anybody looks at what the calls left

    def _by_proxy(self, config: Path, trial: Trial, clock: Clock, recorder: Recorder) -> AgentRun:
        variables = {url_variable(source): url for source, url in trial.urls.items()}
        proxy = Proxy(read_mcp_config(config, {**os.environ, **variables}), recorder)
        with serving_http(proxy.server(), around=proxy.open) as url:
            return self._run_program(trial, clock, url)

    def _run_program(self, trial: Trial, clock: Clock, url: str) -> AgentRun:
        config = trial.folder / "mcp.json"
        try:
            config.write_text(json.dumps({"mcpServers": {"sandbox": {"url": url}}}))
        except OSError as error:
            raise AdapterError(f"{config} cannot be written: {error.strerror}") from error
        variables = (("STATEDIFF_MCP_URL", url), ("STATEDIFF_MCP_CONFIG", str(config)))
        program = replace(self.program, environment=variables, isolation=self.isolation)
        return program.run(replace(trial, urls={}), clock)


def mcp_agent(program: CommandAgent, config: Path | None) -> McpAgent:
    """The program as an agent; `UsageError` says what is wrong with its servers' file."""
    if config is not None:
        servers_by_name(config)  # said before a sandbox starts
    return McpAgent(program, config, is_isolation_chosen=True)
