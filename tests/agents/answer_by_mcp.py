"""An agent that reads through the gate of its trial's MCP server, and answers."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from mcp import Client


async def main() -> tuple[list[str], dict[str, Any]]:
    async with Client(os.environ["STATEDIFF_MCP_URL"]) as client:

        async def call(tool: str, **arguments: object) -> Any:
            found = await client.call_tool(tool, arguments)
            return {} if found.is_error else json.loads(found.content[0].text)

        tools = sorted(tool.name for tool in (await client.list_tools()).tools)
        named = await call("search", query="1009", subsystem="orders")
        order = await call("fetch", id=named["results"][0]["id"])
        for further in sys.argv[1:]:
            await call("fetch", id=further)
        await call(
            "outbox_send",
            sender="care@hearthside.example",
            to=["ops@hearthside.example"],
            subject="Order 1009",
            body="Looked at.",
        )
        return tools, {"status": order["content"]["status"], "sources": [order["id"]]}


there, answer = asyncio.run(main())
sys.stdout.write(json.dumps(there))
Path(os.environ["STATEDIFF_ANSWER"]).write_text(json.dumps(answer))
