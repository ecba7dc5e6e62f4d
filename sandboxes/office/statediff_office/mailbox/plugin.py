"""The plug-in of mailboxes: `imaps://` and `imap://`, and the sandbox of the kind `imap`."""

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

PLUGIN: Final = SystemPlugin(
    interface=1,
    kinds=(
        SystemKind(
            name="imap",
            load=named("statediff_office.mailbox.sandbox:EmbeddedMailbox"),
            requirement="statediff[office]",
            programs=("pymap", "sievelib"),
        ),
    ),
    sources=all_named(
        "statediff_office.mailbox.source:MailboxSource",
        "statediff_office.mailbox.held:HeldMailboxSource",
    ),
    tools=UrlTools(
        schemes=frozenset({"imap", "imaps"}),
        make=calling("statediff_office.mailbox.tools:mailbox_tools"),
    ),
    states=StateReader(
        name="mailbox",
        description="a mailbox",
        schemes=frozenset({"imap", "imaps"}),
        source=by_url("statediff_office.mailbox.source:MailboxSource"),
        unreadable="cannot be read as a mailbox",
    ),
)
