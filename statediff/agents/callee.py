"""The program in which a named function is an agent: `python -m statediff.agents.callee`.

Its standard input is a socket to the evaluator. It gets one line, the function's name and the
trial, calls the function, and says what it returned. In between it may ask for calls of tools, one
line each, answered by one line each. Whatever it says is the agent's word.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from statediff.agents.trial import Trial
from statediff.model.values import decode

Call = Callable[[str, Mapping[str, Any]], Any]


def main() -> None:
    """The function was called, and its answer said. The exit code says nothing."""
    line = socket.socket(fileno=os.dup(0)).makefile("rwb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    order = json.loads(line.readline())
    sys.path[:] = order["path"]
    lock = threading.Lock()

    def say(word: dict[str, Any]) -> None:
        line.write(json.dumps(word).encode("ascii") + b"\n")
        line.flush()

    def call(name: str, arguments: Mapping[str, Any]) -> Any:
        from statediff.systems.base.tool import ToolError  # noqa: PLC0415 - most call no tool

        return asked({"call": name, "arguments": dict(arguments)}, ToolError)

    def asked(word: dict[str, Any], error: type[Exception]) -> Any:
        with lock:
            say(word)
            reply = json.loads(line.readline())
        if reply["is_error"]:
            raise error(reply["text"])
        return json.loads(reply["text"])

    def to_user(reply: Any) -> str | None:
        said: str | None = asked({"say": reply}, ValueError)
        return said

    say(_result(order, call if order["has_tools"] else None, to_user))


def _result(
    order: Mapping[str, Any], call: Call | None, say: Callable[[Any], str | None]
) -> dict[str, Any]:
    """The outcome of the call of the function, for the evaluator."""
    module, _, name = order["function"].partition(":")
    try:
        function = getattr(importlib.import_module(module), name, None)
        if not callable(function):
            return {"missing": f"{module!r} has no function {name!r}"}
        returned = awaited(function(replace(_trial(order, call), say=say)))
    except BaseException as error:  # noqa: BLE001 - an agent may raise anything, Ctrl-C's too
        return {"raised": f"{type(error).__name__}: {error}"[:1900]}
    if returned is None:
        return {"returned": None}
    try:
        text = json.dumps(returned, ensure_ascii=False, allow_nan=False)
        text.encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        return {"unreadable": unreadable(returned, error)[:1900]}
    return {"returned": text}


def awaited(returned: Any) -> Any:
    """The result of an asynchronous function, in an event loop of its own."""
    if not inspect.isawaitable(returned):
        return returned

    async def result() -> Any:
        return await returned

    # A thread of its own: the caller's may be in an event loop already.
    with ThreadPoolExecutor(1, thread_name_prefix="agent") as thread:
        return thread.submit(asyncio.run, result()).result()


def unreadable(returned: object, error: Exception) -> str:
    """Why what a function returned is no answer, and what would be one."""
    return (
        f"the agent's function returned a {type(returned).__name__}, which is no answer: {error}; "
        "return JSON (a dict, list, text, number, true, false), or None after writing the answer "
        "file"
    )


def _trial(order: Mapping[str, Any], call: Call | None) -> Trial:
    given = order["trial"]
    return Trial(
        prompt=given["prompt"],
        inputs={name: decode(value) for name, value in given["inputs"].items()},  # type: ignore[misc]  # inputs are values
        urls=given["urls"],
        folder=Path(given["folder"]),
        answer_path=Path(given["answer_path"]),
        trace_path=Path(given["trace_path"]),
        seed=given["seed"],
        answer_form=given["answer_form"],
        call=call,
    )


if __name__ == "__main__":
    main()
