"""All tools of one trial behind one door: every call that comes in is checked, recorded and made.

The tools are those of the systems at the URLs that any agent of the sandbox is given, and they do
only what the agent's own account may do: no tool holds a credential of the evaluator. Where a
contract limits what may be read, `search` and `fetch` take the place of the reading tools of the
systems whose content they hold: what was read past the gate would be read unseen.

Calls of tools that do not exist, and calls whose arguments are wrong, are recorded like any other:
what the agent tried is part of what it did. What a call brings back is bounded before it is
recorded, so that the agent and the record always see the same.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from pydantic import Field, ValidationError

from statediff.agents.recorder import Recorder
from statediff.capture.looks import Looks, Marks
from statediff.errors import UsageError
from statediff.model.trace import ActionClass
from statediff.model.values import printable
from statediff.reads.captured import FETCH, SEARCH
from statediff.reads.library import MAX_QUERY, NOT_THERE, Readable
from statediff.systems.base.protocol import Offered
from statediff.systems.base.registry import tools_of
from statediff.systems.base.tool import (
    MAX_RESULT_BYTES,
    Arguments,
    Done,
    Tool,
    ToolError,
    tool_name,
)
from statediff.systems.declared import declared_tools

SHOWN_BYTES: Final = 16 * 1024
"""Of a result that is too long: its beginning."""
MAX_SAID: Final = 2000


@dataclass(frozen=True)
class Reply:
    """What the agent gets for one call: one text, JSON where it is no error."""

    text: str
    is_error: bool = False


class ToolTable:
    """The tools by name. Once closed, it makes no further call."""

    def __init__(
        self, tools: Iterable[Tool[Any]], recorder: Recorder, looks: Looks | None = None
    ) -> None:
        """With `looks`, systems are read after each call that may write, one call at a time."""
        self.tools: Mapping[str, Tool[Any]] = {tool.name: tool for tool in tools}
        self.recorder = recorder
        self._looks = looks
        if looks is not None:
            looks.attach()
        self._is_closed = False
        self._running = 0
        self._idle = threading.Condition()

    def call(
        self, name: str, arguments: Any, *, context: str | None = None, messages: str | None = None
    ) -> Reply:
        """What the call gave; `context` was offered to the agent, `messages` it said beside it."""
        with self._idle:
            if self._is_closed:
                return Reply("the trial is over; no further call is made", is_error=True)
            self._running += 1
        try:
            tool, taken, problem = self._check(name, arguments)
            if tool is not None and tool.is_talk:
                return _said(tool, taken)
            may_write = tool is not None and not tool.is_harmless
            with self._looks.alone() if self._looks and may_write else nullcontext():
                call = self.recorder.begin(
                    name,
                    arguments,
                    class_=ActionClass.UNKNOWN if tool is None else tool.class_of(taken),
                    principal=None if tool is None else tool.principal,
                    context=context,
                    messages=messages,
                )
                if self._looks and not may_write:
                    self._looks.harmless(call)
                if tool is None:
                    return self._refuse(call, problem)
                return self._make(call, tool, taken)
        finally:
            with self._idle:
                self._running -= 1
                self._idle.notify_all()

    def close(self, wait_seconds: float = 25.0) -> None:
        """No call is made any more, and none is under way; else the log says which still were."""
        deadline = time.monotonic() + wait_seconds
        with self._idle:
            self._is_closed = True
            while self._running and (left := deadline - time.monotonic()) > 0:
                self._idle.wait(left)
            running = self._running
        if running:
            self.recorder.miss(f"{running} calls had not ended {wait_seconds:g} s after the agent")

    def _make(self, call: str, tool: Tool[Any], taken: Any) -> Reply:
        try:
            found = tool.act(taken)
            done = found if isinstance(found, Done) else Done(found)
            result = _shorten(done.result)
            text = json.dumps(result, ensure_ascii=False, allow_nan=False)
        except ToolError as error:
            self._look(call, tool, None)
            return self._refuse(call, str(error))
        except Exception as error:  # noqa: BLE001 - whatever a system's driver makes of a hostile call is that call's error; the trial goes on
            self._look(call, tool, None)
            return self._refuse(call, f"{type(error).__name__}: {error}")
        if tool.is_harmless:
            done = Done(done.result, (), ActionClass.READ)
        marks = self._look(call, tool, done.marks)
        self.recorder.end(call, result=result, class_=done.action_class, transactions=marks)
        return Reply(text)

    def _look(self, call: str, tool: Tool[Any], marks: Marks) -> Marks:
        """What the call wrote, now that the systems were read, where somebody asks for that."""
        if self._looks is None or tool.is_harmless:
            return marks
        return self._looks.after(call, tool.name, marks, is_one_step=tool.is_one_step)

    def _refuse(self, call: str, problem: str) -> Reply:
        text = printable(problem[:MAX_SAID])
        self.recorder.end(call, error=text)
        return Reply(text, is_error=True)

    def _check(self, name: str, arguments: Any) -> tuple[Tool[Any] | None, Any, str]:
        """The tool and its arguments, or neither and why."""
        tool = self.tools.get(name)
        if tool is None:
            known = ", ".join(sorted(self.tools))
            return None, None, f"there is no tool {name[:100]!r}; there are: {known}"
        if not isinstance(arguments, dict):
            return None, None, f"the arguments of {name} are a JSON object"
        try:
            # As JSON: it has no tuples, bytes or instants, and strict is strict about those.
            return tool, tool.arguments.model_validate_json(json.dumps(arguments)), ""
        except ValidationError as error:
            return None, None, _invalid(name, error)
        except (TypeError, ValueError, RecursionError) as error:
            return None, None, f"the arguments of {name} are no JSON: {error}"


def _said(tool: Tool[Any], taken: Any) -> Reply:
    """The user's next message; the reply to the last one is in the log of turns."""
    try:
        return Reply(json.dumps(tool.act(taken), ensure_ascii=False))
    except ToolError as error:
        return Reply(printable(str(error)[:MAX_SAID]), is_error=True)


def _shorten(result: Any) -> Any:
    """The result, or its beginning with a word that there is more."""
    text = json.dumps(result, ensure_ascii=False)
    size = len(text.encode("utf-8", errors="surrogatepass"))
    if size <= MAX_RESULT_BYTES:
        return result
    return {"truncated": True, "bytes": size, "beginning": text[:SHOWN_BYTES]}


def _invalid(name: str, error: ValidationError) -> str:
    problems = [
        f"{'.'.join(str(part) for part in entry['loc'])[:100] or 'arguments'}: {entry['msg']}"
        for entry in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    more = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
    return f"invalid arguments of {name}: {'; '.join(problems[:5])}{more}"


def tool_table(
    urls: Mapping[str, str],
    recorder: Recorder,
    library: Readable | None = None,
    offered: Offered | None = None,
    further: Iterable[Tool[Any]] = (),
    looks: Looks | None = None,
) -> ToolTable:
    """The tools for all systems at these URLs; `UsageError` where no system has tools.

    `offered` says which verbs of a source there are, and which tools the sandbox declares;
    `looks` what is read after each call.

    A library takes the place of the reading tools of the systems whose content it holds. `further`
    tools are offered besides.
    """
    gated = frozenset[str]() if library is None else library.sources
    offered = Offered() if offered is None else offered
    declared = [
        tool
        for tool in declared_tools(offered, urls)
        if library is None or tool.action_class is not ActionClass.READ
    ]
    tools = [
        replace(tool, principal=_account(urls[source]))
        for source in sorted(urls)
        for tool in _offered(source, urls[source], offered.verbs.get(source))
        if not (tool.is_harmless and source in gated)
    ]
    read = () if library is None else reading_tools(library)
    every = (*tools, *declared, *read, *further)
    names = [tool.name for tool in every]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"two tools are called {twice[0]!r}; rename the one that is declared")
    return ToolTable(every, recorder, looks)


def _offered(source: str, url: str, verbs: tuple[str, ...] | None) -> tuple[Tool[Any], ...]:
    """The tools of a source; `UsageError` where a verb names none of them."""
    found = tools_of(source, url)
    if verbs is None:
        return found
    names = {tool_name(source, verb): verb for verb in verbs}
    if unknown := sorted(names.keys() - {tool.name for tool in found}):
        known = ", ".join(tool.name.removeprefix(tool_name(source, "")) for tool in found)
        raise UsageError(f"{source}: there is no tool {names[unknown[0]]!r}; there are: {known}")
    return tuple(tool for tool in found if tool.name in names)


def _account(url: str) -> str | None:
    """The account that the URL names, if it names one."""
    return unquote(urlsplit(url).username or "") or None


class Search(Arguments):
    """Words, and where to look for them."""

    query: str = Field(min_length=1, max_length=MAX_QUERY, description="All words must be there.")
    subsystem: str | None = Field(
        default=None, min_length=1, max_length=100, description="Only in this subsystem."
    )


class Fetch(Arguments):
    """One artifact."""

    id: str = Field(min_length=1, max_length=4000, description="As a search names it.")


def reading_tools(library: Readable) -> tuple[Tool[Any], ...]:
    """The two tools of a library."""

    def search(asked: Search) -> Any:
        return library.search(asked.query, asked.subsystem)

    def fetch(asked: Fetch) -> Any:
        found = library.fetch(asked.id)
        if found is None:
            raise ToolError(NOT_THERE)
        return found

    where = ", ".join(sorted(library.sees)) or "nothing"
    return (
        Tool(
            SEARCH,
            f"Names artifacts that hold all words of the query, best first: {where}.",
            Search,
            search,
            ActionClass.READ,
            library.actor,
            is_harmless=True,
        ),
        Tool(
            FETCH,
            "Gives one artifact, whole, by its id.",
            Fetch,
            fetch,
            ActionClass.READ,
            library.actor,
            is_harmless=True,
        ),
    )
