"""The plug-in of chats on Synapse, a Matrix homeserver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from statediff.systems.base.plugin import (
    Refinement,
    StateInput,
    StateReader,
    SystemKind,
    SystemPlugin,
    UrlTools,
)
from statediff.systems.hosted.transport import schemes_of

if TYPE_CHECKING:
    from statediff.capture.source import Source
    from statediff.systems.base.protocol import System
    from statediff.systems.base.tool import Tool


def _sandbox() -> type[System]:
    from statediff_chat.sandbox import SynapseChat

    return SynapseChat


def _tools(source: str, url: str) -> tuple[Tool[Any], ...]:
    from statediff_chat.tools import chat_tools

    return chat_tools(source, url)


def _sources() -> tuple[type, ...]:
    from statediff_chat.endpoint import MatrixEndpointSource
    from statediff_chat.source import SynapseSource

    return (SynapseSource, MatrixEndpointSource)


def _endpoint(name: str, state: StateInput, refine: Refinement | None) -> Source:
    from statediff_chat.endpoint import MatrixEndpointSource

    return MatrixEndpointSource(name, state.url or "", refine)


PLUGIN: Final = SystemPlugin(
    interface=1,
    kinds=(
        SystemKind(
            name="synapse",
            load=_sandbox,
            requirement="statediff[chat]",
            programs=("synapse",),
        ),
    ),
    sources=_sources,
    tools=UrlTools(schemes=frozenset({"matrix+http"}), make=_tools),
    states=StateReader(
        name="chat",
        description="a Matrix account",
        schemes=schemes_of("matrix"),
        source=_endpoint,
        unreadable="cannot be read as a chat",
    ),
)
