"""The plug-in of mailboxes: `imaps://` and `imap://`, and the sandbox of the kind `imap`."""

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

if TYPE_CHECKING:
    from statediff.capture.source import Source
    from statediff.systems.base.protocol import System
    from statediff.systems.base.tool import Tool


def _source(name: str, state: StateInput, refine: Refinement | None) -> Source:
    from statediff_office.mailbox.source import MailboxSource

    return MailboxSource(name, state.url or "", refine)


def _sandbox() -> type[System]:
    from statediff_office.mailbox.sandbox import EmbeddedMailbox

    return EmbeddedMailbox


def _tools(source: str, url: str) -> tuple[Tool[Any], ...]:
    from statediff_office.mailbox.tools import mailbox_tools

    return mailbox_tools(source, url)


def _sources() -> tuple[type, ...]:
    from statediff_office.mailbox.held import HeldMailboxSource
    from statediff_office.mailbox.source import MailboxSource

    return (MailboxSource, HeldMailboxSource)


PLUGIN: Final = SystemPlugin(
    interface=1,
    kinds=(
        SystemKind(
            name="imap",
            load=_sandbox,
            requirement="statediff[office]",
            programs=("pymap", "sievelib"),
        ),
    ),
    sources=_sources,
    tools=UrlTools(schemes=frozenset({"imap", "imaps"}), make=_tools),
    states=StateReader(
        name="mailbox",
        description="a mailbox",
        schemes=frozenset({"imap", "imaps"}),
        source=_source,
        unreadable="cannot be read as a mailbox",
    ),
)
