"""A file that says how an agent is reached: `--agent FILE.yaml`.

One of `agent`, `command`, `image`, `mcp` and `url` says which way; the other keys go with some.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

from pydantic import Field

from statediff.contract.document.load import read_bytes
from statediff.contract.parts import Part
from statediff.contract.yaml.reader import read_document
from statediff.contract.yaml.shape import as_model
from statediff.errors import UsageError
from statediff.workspace.agents import AgentOptions

SUFFIXES: Final = (".yaml", ".yml")
Text: TypeAlias = Annotated[str, Field(min_length=1, description="a text")]
Name: TypeAlias = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,39}$",
        description="a name of letters, digits, `.`, `_` and `-`",
    ),
]
Models: TypeAlias = Annotated[tuple[Text, ...], Field(min_length=1, description="a list of names")]
Price: TypeAlias = Annotated[int | Decimal, Field(ge=0, description="a number, e.g. 2.50")]


class UserPart(Part):
    """A model that plays the user in turns, beside the contract's rules."""

    url: Text
    model: Text
    key_env: Text | None = None


class AgentDocument(Part):
    """The keys of the file."""

    name: Name | None = None
    agent: Text | None = None
    command: Text | None = None
    image: Text | None = None
    mcp: Text | None = None
    mcp_config: Text | None = None
    url: Text | None = None
    model: Text | Models | None = None
    key_env: Text | None = None
    price_in: Price | None = None
    price_out: Price | None = None
    max_turns: Annotated[int, Field(ge=1, le=1000)] | None = None
    stream: bool = False
    record_http: bool = False
    isolation: Text | None = None
    network: tuple[Text, ...] = ()
    trust_trace: bool = False
    user: UserPart | None = None


def agents_in(file: Path, common: AgentOptions) -> list[AgentOptions]:
    """The agents that the file says, one of each model; `common` is said of every agent.

    `UsageError` where it cannot be read or says two ways, `ContractError` for another shape.
    """
    said = as_model(read_document(read_bytes(file), str(file)), AgentDocument)
    ways = [w for w in ("agent", "command", "image", "mcp", "url") if getattr(said, w)]
    if not ways or (len(ways) > 1 and ways != ["command", "image"]):
        raise UsageError(
            f"{file}: give one of `agent`, `command`, `image` (or both of these), `mcp` and `url`"
        )
    models = said.model if isinstance(said.model, tuple) else (said.model,)
    options = replace(common, **_options(said, file.parent))
    return [replace(options, model=model) for model in models]


def _options(said: AgentDocument, folder: Path) -> dict[str, Any]:
    """The options as the parts of a run name them."""
    given = said.model_dump(exclude={"name", "agent", "url", "model", "user"})
    prices = {n: str(v) for n in ("price_in", "price_out") if (v := given[n]) is not None}
    return {
        **given,
        **prices,
        "mcp_config": None if said.mcp_config is None else folder / said.mcp_config,
        "title": said.name,
        "named": said.agent,
        "base_url": said.url,
        "user_url": said.user and said.user.url,
        "user_model": said.user and said.user.model,
        "user_key_env": said.user and said.user.key_env,
    }
