"""The plug-in of mail outboxes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from statediff.systems.base.plugin import (
    SystemKind,
    SystemPlugin,
    UrlTools,
    all_named,
    calling,
    named,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from statediff.model.schema import EntityType


def _assumed() -> Mapping[str, tuple[EntityType, ...]]:
    from statediff_office.mail.source import TYPES

    return {"mail": tuple(TYPES)}


PLUGIN: Final = SystemPlugin(
    interface=1,
    kinds=(SystemKind(name="smtp", load=named("statediff_office.mail.sandbox:EmbeddedOutbox")),),
    sources=all_named("statediff_office.mail.source:MailSource"),
    tools=UrlTools(
        schemes=frozenset({"smtp"}), make=calling("statediff_office.mail.tools:mail_tools")
    ),
    faults=named("statediff_office.mail.faults:FAULTS"),
    assumed=_assumed,
)
