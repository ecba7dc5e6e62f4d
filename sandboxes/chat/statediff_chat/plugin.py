"""The plug-in of chats on Synapse, a Matrix homeserver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from statediff.systems.base.plugin import SystemKind, SystemPlugin, UrlTools

if TYPE_CHECKING:
    from statediff.systems.base.protocol import System
    from statediff.systems.base.tool import Tool


def _sandbox() -> type[System]:
    from statediff_chat.sandbox import SynapseChat

    return SynapseChat


def _tools(source: str, url: str) -> tuple[Tool[Any], ...]:
    from statediff_chat.tools import chat_tools

    return chat_tools(source, url)


def _sources() -> tuple[type, ...]:
    from statediff_chat.source import SynapseSource

    return (SynapseSource,)


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
)
