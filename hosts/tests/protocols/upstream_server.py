"""An MCP server that a proxy stands in front of: it adds, fails and floods."""

from typing import Any

import mcp_types as types
from mcp.server.lowlevel.server import Server

ADD = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}
NOTHING: dict[str, Any] = {"type": "object", "properties": {}}


def text(said: str, *, is_error: bool = False) -> types.CallToolResult:
    content: list[Any] = [types.TextContent(type="text", text=said)]
    return types.CallToolResult(content=content, is_error=is_error)


async def call(_ctx: Any, asked: types.CallToolRequestParams) -> types.CallToolResult:
    given = asked.arguments or {}
    match asked.name:
        case "add":
            return text(str(given["a"] + given["b"]))
        case "fail":
            return text("no \x1b[31mred\x1b[0m today", is_error=True)
        case "flood":
            return text("x" * (5 * 1024 * 1024))
    return text(f"no tool {asked.name}", is_error=True)


async def tools(_ctx: Any, _page: Any) -> types.ListToolsResult:
    return types.ListToolsResult(
        tools=[
            types.Tool(name=name, description=name, input_schema=ADD if name == "add" else NOTHING)
            for name in ("add", "fail", "flood")
        ]
    )


async def resources(_ctx: Any, _page: Any) -> types.ListResourcesResult:
    return types.ListResourcesResult(resources=[types.Resource(uri="memo://one", name="one")])


async def read(_ctx: Any, asked: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    if str(asked.uri) != "memo://one":
        raise ValueError("no such memo")
    return types.ReadResourceResult(
        contents=[types.TextResourceContents(uri=asked.uri, text="remember the milk")]
    )


async def prompts(_ctx: Any, _page: Any) -> types.ListPromptsResult:
    return types.ListPromptsResult(prompts=[types.Prompt(name="greet")])


async def prompt(_ctx: Any, _asked: Any) -> types.GetPromptResult:
    said = types.TextContent(type="text", text="hello")
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=said)])


server: Server[Any] = Server(
    "upstream",
    version="1",
    on_list_tools=tools,
    on_call_tool=call,
    on_list_resources=resources,
    on_read_resource=read,
    on_list_prompts=prompts,
    on_get_prompt=prompt,
)
