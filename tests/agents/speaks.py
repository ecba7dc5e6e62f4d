"""An agent that takes a plan: what it does, and what it says, for each message of the user.

`speaks.py http|mcp PLAN`: by the address of the turns, or by tools alone. A plan is a list of
[statements, note, reply] in JSON; a reply of null is none, and then it ends.
"""

import asyncio
import json
import os
import sqlite3
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any


def act(urls: Callable[[str], str], statements: list[str], note: str | None) -> None:
    with sqlite3.connect(urls("DESK").removeprefix("sqlite:///")) as connection:
        for statement in statements:
            connection.execute(statement)
    if note is not None:
        Path(urls("NOTES").removeprefix("file://"), "why.txt").write_text(note)


def by_http(plan: list[Any]) -> list[str | None]:
    heard: list[str | None] = [os.environ["STATEDIFF_TASK"]]
    for statements, note, reply in plan:
        act(lambda name: os.environ[f"STATEDIFF_{name}_URL"], statements, note)
        if reply is None:
            break
        asked = urllib.request.Request(os.environ["STATEDIFF_TURNS_URL"], reply.encode())
        with urllib.request.urlopen(asked) as answer:
            heard.append(answer.read().decode() if answer.status == 200 else None)
    return heard


async def by_mcp(plan: list[Any]) -> list[str | None]:
    from mcp import Client  # noqa: PLC0415 - only here

    heard: list[str | None] = [os.environ["STATEDIFF_TASK"]]
    async with Client(os.environ["STATEDIFF_MCP_URL"]) as client:
        for statements, note, reply in plan:
            if statements:
                await client.call_tool("desk_execute", {"statements": statements})
            if note is not None:
                await client.call_tool("notes_write", {"path": "why.txt", "content": note})
            if reply is None:
                break
            said = await client.call_tool("reply_to_user", {"reply": reply})
            heard.append(json.loads(said.content[0].text)["message"])
    return heard


if __name__ == "__main__":
    plan = json.loads(sys.argv[2])
    done = by_http(plan) if sys.argv[1] == "http" else asyncio.run(by_mcp(plan))
    sys.stdout.write(json.dumps(done))
