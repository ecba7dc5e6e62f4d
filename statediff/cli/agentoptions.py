"""The options that name the agent of a trial; `workspace.agents` says which agent they mean."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

AgentCmd: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--agent-cmd", metavar="CMD", help="The agent: any program; may be given again for others."
    ),
]
AgentImage: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--agent-image",
        metavar="IMAGE",
        help="The agent runs in a container of this image, and reaches the systems only.",
    ),
]
AgentName: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--agent",
        metavar="MODULE:FUNCTION",
        help="The agent: a Python function, or the name of one in the contract's folder; may be "
        "given again.",
    ),
]
AgentMcp: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--agent-mcp", metavar="CMD", help="The agent: a program that gets only tools, by MCP."
    ),
]
McpConfig: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--mcp-config",
        metavar="FILE",
        help="With --agent-mcp: these MCP servers' tools instead of the sandbox's own.",
    ),
]
RecordHttp: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--record-http",
        help="With --agent-cmd or --agent: record its requests to systems that speak HTTP.",
    ),
]
BaseUrl: TypeAlias = Annotated[
    str | None,
    typer.Option("--base-url", metavar="URL", help="The agent: a model at this OpenAI-compatible "
                 "endpoint, with the sandbox's tools."),
]  # fmt: skip
Model: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--model", metavar="NAME", help="With --base-url: which model; may be given again."
    ),
]
KeyEnv: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--key-env", metavar="NAME", help="The variable with the key [default: OPENAI_API_KEY]."
    ),
]
PriceIn: TypeAlias = Annotated[
    str | None,
    typer.Option("--price-in", metavar="PRICE", help="Of one million tokens that are sent."),
]
PriceOut: TypeAlias = Annotated[
    str | None,
    typer.Option("--price-out", metavar="PRICE", help="Of one million tokens that come back."),
]
MaxCost: TypeAlias = Annotated[
    str | None,
    typer.Option("--max-cost", metavar="COST", help="Of all trials together; needs both prices."),
]
MaxTurns: TypeAlias = Annotated[
    int | None,
    typer.Option("--max-turns", min=1, max=1000, help="Answers of the model [default: 50]."),
]
Stream: TypeAlias = Annotated[
    bool, typer.Option("--stream", help="Ask the endpoint to stream its answers.")
]
Timeout: TypeAlias = Annotated[
    float | None,
    typer.Option("--timeout", metavar="SECONDS", help="For each trial [default: 600]."),
]
