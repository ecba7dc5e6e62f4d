"""The plug-in of chats on Synapse, a Matrix homeserver."""

from __future__ import annotations

from typing import Final

from statediff.systems.base.plugin import (
    StateReader,
    SystemKind,
    SystemPlugin,
    UrlTools,
    all_named,
    by_url,
    calling,
    named,
)
from statediff.systems.hosted.transport import schemes_of

PLUGIN: Final = SystemPlugin(
    interface=1,
    kinds=(
        SystemKind(
            name="synapse",
            load=named("statediff_chat.sandbox:SynapseChat"),
            requirement="statediff[chat]",
            programs=("synapse",),
        ),
    ),
    sources=all_named(
        "statediff_chat.source:SynapseSource", "statediff_chat.endpoint:MatrixEndpointSource"
    ),
    tools=UrlTools(
        schemes=frozenset({"matrix+http"}), make=calling("statediff_chat.tools:chat_tools")
    ),
    states=StateReader(
        name="chat",
        description="a Matrix account",
        schemes=schemes_of("matrix"),
        source=by_url("statediff_chat.endpoint:MatrixEndpointSource"),
        unreadable="cannot be read as a chat",
    ),
)
