"""An agent that speaks the systems' own protocols, recorded without its cooperation.

Every system that is reached over HTTP is put behind a recording proxy; what is written to the
others (a database's file, the mail sink) their histories tell. The log is the harness's own, and
never complete: a system can be reached past its proxy by whoever finds out where it is.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Final

from statediff.agents.http_proxy import RecordingProxy
from statediff.agents.recorder import Recorder
from statediff.agents.trial import Agent, AgentRun, Haltable, Trial
from statediff.capture.source import Clock

INCOMPLETE: Final = "only requests over HTTP pass a recorder, and none has to"


@dataclass(frozen=True)
class NativeAgent:
    """Another agent, whose requests over HTTP are recorded; its own log of them is not used."""

    agent: Agent

    @property
    def name(self) -> str:
        return self.agent.name

    @property
    def halted(self) -> Event:
        """The agent's own; of one that nobody can end, an event that nobody heeds."""
        return self.agent.halted if isinstance(self.agent, Haltable) else Event()

    def run(self, trial: Trial, clock: Clock) -> AgentRun:
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="statediff-calls-"))
            recorder = stack.enter_context(Recorder(Path(folder, "calls.jsonl"), clock))
            urls = dict(trial.urls)
            with ExitStack() as proxies:
                for source, url in trial.urls.items():
                    if url.startswith("http://"):
                        proxy = RecordingProxy(source, url, recorder)
                        proxies.callback(proxy.close)
                        urls[source] = proxy.url
                run = self.agent.run(replace(trial, urls=urls), clock)
            recorder.miss(INCOMPLETE)
            recorder.close()
            return replace(run, trace=recorder.trace())
