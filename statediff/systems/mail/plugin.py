"""The plug-in of mail outboxes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from statediff.systems.base.plugin import SystemKind, SystemPlugin, UrlTools

if TYPE_CHECKING:
    from statediff.systems.base.protocol import System
    from statediff.systems.base.tool import Tool


def _sandbox() -> type[System]:
    from statediff.systems.mail.sandbox import EmbeddedOutbox

    return EmbeddedOutbox


def _tools(source: str, url: str) -> tuple[Tool[Any], ...]:
    from statediff.systems.mail.tools import mail_tools

    return mail_tools(source, url)


def _sources() -> tuple[type, ...]:
    from statediff.systems.mail.source import MailSource

    return (MailSource,)


PLUGIN: Final = SystemPlugin(
    kinds=(SystemKind(name="smtp", load=_sandbox),),
    sources=_sources,
    tools=UrlTools(schemes=frozenset({"smtp"}), make=_tools),
)
