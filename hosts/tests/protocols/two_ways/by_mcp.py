"""Hands that know one address only, the MCP server's, and use the official client."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from anyio.from_thread import start_blocking_portal
from mcp import Client
from statediff_hosts.protocols.mcp_server import mcp_server, serving_http

from hosts.tests.protocols.two_ways.steps import Files, Given, Hands
from statediff.agents.function import as_answer
from statediff.agents.recorder import recording
from statediff.agents.tools import tool_table
from statediff.agents.trial import AgentRun, Trial
from statediff.capture.source import Clock


@dataclass(frozen=True)
class Tooled:
    """The systems of the packs through tools, by name of the tool."""

    call: Callable[..., Any]
    sources: Sequence[str]

    def _database(self) -> str:
        return next(s for s in self.sources if s.endswith("-db")).replace("-", "_")

    def rows(self, sql: str) -> Sequence[Mapping[str, Any]]:
        found: Sequence[Mapping[str, Any]] = self.call(f"{self._database()}_query", sql=sql)["rows"]
        return found

    def change(self, *statements: str) -> None:
        self.call(f"{self._database()}_execute", statements=list(statements))

    def mail(self, sender: str, to: str, subject: str, body: str) -> None:
        self.call("outbox_send", sender=sender, to=[to], subject=subject, body=body)

    def write(self, path: str, text: str) -> None:
        self.call("exports_write", path=path, content=text)

    def watchers(self, issue: int) -> set[str]:
        return set(self.call("tracker_get_issue", issue=issue)["watchers"])

    def update(self, issue: int, **fields: Any) -> None:
        self.call("tracker_update_issue", issue=issue, **fields)

    def comment(self, issue: int, body: str) -> int:
        return int(self.call("tracker_comment", issue=issue, body=body)["comment"])

    def refs(self) -> Mapping[str, Mapping[str, str]]:
        found: Mapping[str, Mapping[str, str]] = self.call("origin_refs")
        return found

    def log(self, revision: str) -> Sequence[str]:
        commits = self.call("origin_log", revision=revision, most=200)["commits"]
        return [each["id"] for each in commits]

    def files(self, revision: str) -> Files:
        paths = self.call("origin_list_files", revision=revision)["files"]
        return {
            path: self.call("origin_read_file", path=path, revision=revision)["content"]
            for path in paths
            if not path.startswith(".")
        }

    def commit(self, branch: str, message: str, who: tuple[str, str], write: Files) -> str:
        author = dict(zip(("name", "email"), who, strict=True))
        made = self.call(
            "origin_commit", branch=branch, message=message, author=author, write=dict(write)
        )
        return str(made["commit"])

    def tag(self, name: str, at: str, message: str, who: tuple[str, str]) -> None:
        tagger = dict(zip(("name", "email"), who, strict=True))
        self.call("origin_create_tag", name=name, at=at, message=message, tagger=tagger)

    def branch(self, name: str, at: str) -> None:
        self.call("origin_create_branch", name=name, at=at)

    def delete_branch(self, name: str) -> None:
        self.call("origin_delete_branch", name=name)


@dataclass(frozen=True)
class ByMcp:
    """An agent that takes the steps through the tools of this trial's server."""

    act: Callable[[Hands, Given], Any]
    name: str = "two-ways"

    def run(self, trial: Trial, clock: Clock) -> AgentRun:
        started_at = clock()
        with recording(clock) as recorder:
            table = tool_table(trial.urls, recorder)
            with (
                serving_http(mcp_server("statediff", table)) as url,
                start_blocking_portal() as portal,
                portal.wrap_async_context_manager(Client(url)) as client,
            ):

                def call(tool: str, **arguments: Any) -> Any:
                    reply = portal.call(partial(client.call_tool, tool, arguments))
                    (said,) = reply.content
                    assert not reply.is_error, f"{tool}: {said}"
                    return json.loads(said.text)

                answer = as_answer(self.act(Tooled(call, sorted(trial.urls)), trial.inputs))
            table.close()
            recorder.close()
            return AgentRun(answer, recorder.trace(), started_at, clock())
