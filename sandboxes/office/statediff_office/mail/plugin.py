"""The plug-in of mail outboxes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from statediff.systems.base.plugin import SystemKind, SystemPlugin, UrlTools

if TYPE_CHECKING:
    from collections.abc import Mapping

    from statediff.model.schema import EntityType
    from statediff.systems.base.faults import Below
    from statediff.systems.base.protocol import System
    from statediff.systems.base.tool import Tool


def _sandbox() -> type[System]:
    from statediff_office.mail.sandbox import EmbeddedOutbox

    return EmbeddedOutbox


def _tools(source: str, url: str) -> tuple[Tool[Any], ...]:
    from statediff_office.mail.tools import mail_tools

    return mail_tools(source, url)


def _sources() -> tuple[type, ...]:
    from statediff_office.mail.source import MailSource

    return (MailSource,)


def _faults() -> Mapping[str, Below]:
    from statediff_office.mail.faults import FAULTS

    return FAULTS


def _assumed() -> Mapping[str, tuple[EntityType, ...]]:
    from statediff_office.mail.source import TYPES

    return {"mail": tuple(TYPES)}


PLUGIN: Final = SystemPlugin(
    interface=1,
    kinds=(SystemKind(name="smtp", load=_sandbox),),
    sources=_sources,
    tools=UrlTools(schemes=frozenset({"smtp"}), make=_tools),
    faults=_faults,
    assumed=_assumed,
)
