"""Tools that a sandbox file declares: a name, arguments, a class, and SQL, a request or a command.

A tool does what its author wrote with the arguments of the call, and has the agent's own access. An
argument is a value: it is bound in SQL, quoted in a path and JSON in a body, never a piece of any
of them. A command gets the arguments as JSON on its standard input, and the systems' addresses.
"""

from __future__ import annotations

import json
import os
import shlex
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote, urlencode

from pydantic import Field, create_model

from statediff.contract.document.sandboxfile import BRACED, MARK, HttpCall, ToolArgument, ToolEntry
from statediff.errors import UsageError
from statediff.extras import require_extra
from statediff.model.trace import ActionClass
from statediff.systems.base.protocol import Offered
from statediff.systems.base.registry import tools_of
from statediff.systems.base.tool import (
    MAX_RESULT_BYTES,
    MAX_SECONDS,
    MAX_TEXT,
    Arguments,
    Done,
    Tool,
    ToolError,
    tool_name,
    url_variable,
)
from statediff.systems.external.commands import end_of

_KINDS: Final[Mapping[str, Any]] = {
    "text": Annotated[str, Field(max_length=MAX_TEXT)],
    "int": int,
    "number": float,
    "bool": bool,
}


def declared_tools(offered: Offered, urls: Mapping[str, str]) -> tuple[Tool[Any], ...]:
    """The tools that the sandbox declares, over the systems at these URLs.

    `UsageError` where a system has no tools that could do what is asked.
    """
    return tuple(_tool(entry, urls, offered.folder) for entry in offered.declared)


def _tool(entry: ToolEntry, urls: Mapping[str, str], folder: Path) -> Tool[Any]:
    is_read = entry.class_ == "read"
    if entry.on is not None and entry.on not in urls:
        raise UsageError(f"{entry.name}: agents do not reach {entry.on}, so no tool works on it")
    if entry.permission == "denied":
        act: Callable[[dict[str, Any]], Any] = partial(_denied, entry.name)
    elif entry.statements:
        act = _by_sql(entry, urls)
    elif entry.http is not None:
        act = partial(_by_http, entry.http, entry.on or "", urls[entry.on or ""])
    else:
        act = partial(_by_command, shlex.split(entry.command or ""), folder, urls)
    return Tool(
        entry.name,
        entry.description,
        _arguments(entry),
        lambda asked: act(asked.model_dump(by_alias=True)),
        ActionClass(entry.class_),
        # A statement in a transaction that cannot write; of all else it is the author's word.
        is_harmless=is_read and bool(entry.statements),
    )


def _arguments(entry: ToolEntry) -> type[Arguments]:
    fields: dict[str, Any] = {}
    # Whatever an author calls an argument, no method of the model is called so.
    for at, (name, written) in enumerate(entry.arguments.items()):
        one = ToolArgument(type=written) if isinstance(written, str) else written
        kind = _KINDS[one.type] if one.one_of is None else Literal[one.one_of]
        described = Field(alias=name, description=one.description)
        if one.optional:
            described = Field(default=None, alias=name, description=one.description)
            kind = kind | None
        fields[f"argument_{at}"] = (kind, described)
    return create_model(entry.name, __base__=Arguments, __doc__=entry.description, **fields)


def _denied(name: str, _given: dict[str, Any]) -> Any:
    raise ToolError(f"you may not call {name}")


def _by_sql(entry: ToolEntry, urls: Mapping[str, str]) -> Callable[[dict[str, Any]], Any]:
    source = entry.on or ""
    there = {tool.name: tool for tool in tools_of(source, urls[source])}
    is_read = entry.class_ == "read"
    wanted = tool_name(source, "query" if is_read else "execute")
    if wanted not in there:
        raise UsageError(f"{entry.name}: {source} is no database, so it takes no `sql`")
    tool = there[wanted]
    marks = [[m[1] for m in MARK.finditer(each) if m[1]] for each in entry.statements]
    texts = [MARK.sub(lambda m: "?" if m[1] else m[0], each) for each in entry.statements]

    def act(given: dict[str, Any]) -> Any:
        values = [[given[name] for name in names] for names in marks]
        asked = (
            {"sql": texts[0], "values": values[0], "max_rows": 1000}
            if is_read
            else {"statements": texts, "values": values}
        )
        done = tool.act(tool.arguments.model_validate(asked))
        # Its class is what the author says.
        return Done(done.result, done.marks) if isinstance(done, Done) else done

    return act


def _by_http(call: HttpCall, source: str, url: str, given: dict[str, Any]) -> Any:
    def text(name: str) -> str:
        value = given[name]
        return value if isinstance(value, str) else json.dumps(value)

    def filled(value: Any) -> Any:
        if isinstance(value, str):
            whole = BRACED.fullmatch(value)
            return given[whole[1]] if whole else BRACED.sub(lambda m: text(m[1]), value)
        if isinstance(value, Mapping):
            return {name: filled(each) for name, each in value.items()}
        return [filled(each) for each in value] if isinstance(value, (list, tuple)) else value

    path = BRACED.sub(lambda m: _segment(text(m[1])), call.path).lstrip("/")
    if call.query:
        path += "?" + urlencode({name: str(filled(each)) for name, each in call.query.items()})
    require_extra("http", "httpx", "a tool that makes requests")
    from statediff.systems.hosted.rest import Rest  # noqa: PLC0415 - an extra

    rest = Rest(url, what="the system")
    result = rest.ask(call.method, path, None if call.body is None else filled(call.body))
    return Done(result, rest.made(source))


def _segment(text: str) -> str:
    """One piece of a path, whatever is in it."""
    if text in (".", ".."):
        raise ToolError(f"{text!r} is no piece of a path")
    return quote(text, safe="")


def _by_command(
    words: list[str], folder: Path, urls: Mapping[str, str], given: dict[str, Any]
) -> Any:
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        **{url_variable(source): url for source, url in urls.items()},
    }
    with tempfile.TemporaryFile() as output:
        try:
            ended = end_of(
                words, folder, MAX_SECONDS, environment,
                given=json.dumps(given).encode(), output=output,
            )  # fmt: skip
        except OSError as error:
            raise ToolError(f"the command cannot be started: {error.strerror}") from error
        if ended.code is None:
            raise ToolError(f"the command took more than {MAX_SECONDS:g} s")
        if ended.code:
            raise ToolError(ended.said or f"the command ended with exit code {ended.code}")
        output.seek(0)
        raw = output.read(MAX_RESULT_BYTES + 1)
    text = raw.decode("utf-8", errors="replace").strip()
    if len(raw) > MAX_RESULT_BYTES:
        return {"truncated": True, "beginning": text[: MAX_RESULT_BYTES // 4]}
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return text
