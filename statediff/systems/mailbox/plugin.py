"""The plug-in of mailboxes: `imaps://` and `imap://`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from statediff.systems.base.plugin import Refinement, StateInput, StateReader, SystemPlugin

if TYPE_CHECKING:
    from statediff.capture.source import Source


def _source(name: str, state: StateInput, refine: Refinement | None) -> Source:
    from statediff.systems.mailbox.source import MailboxSource

    return MailboxSource(name, state.url or "", refine)


def _sources() -> tuple[type, ...]:
    from statediff.systems.mailbox.source import MailboxSource

    return (MailboxSource,)


PLUGIN: Final = SystemPlugin(
    sources=_sources,
    states=StateReader(
        name="mailbox",
        description="a mailbox",
        schemes=frozenset({"imap", "imaps"}),
        source=_source,
        unreadable="cannot be read as a mailbox",
    ),
)
