"""A mailbox that a server of ours holds: all that is in its memory, read without the protocol.

Folders that no client lists, filters, accounts and tokens are among it. The types are those of a
mailbox by URL (`source`), and `mailbox.filter` and `mailbox.account` beside them.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from typing import Any, ClassVar, Final

from statediff.capture.source import Clock, SourceUnavailable, scanned
from statediff.model.batches import Row
from statediff.model.readings import SourceCapture
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.state import ChunkStore, State
from statediff.systems.base.kept import StateOf
from statediff.systems.base.rows import source_schema
from statediff.systems.relational.schema import Refine
from statediff_office.mail.parsing import Parsed, parse_message
from statediff_office.mailbox.session import ListedMessage, flag_names
from statediff_office.mailbox.source import FOLDER, TYPES, add_message, mailbox_state

FILTER: Final = EntityType(
    "mailbox.filter",
    ("name",),
    (
        Field("name", Kind.TEXT, is_nullable=False),
        Field("script", Kind.TEXT, is_nullable=False),
        Field("is_active", Kind.BOOL, is_nullable=False),
    ),
)
"""A script (Sieve) that says what becomes of mail when it arrives; one at most is active."""
ACCOUNT: Final = EntityType(
    "mailbox.account",
    ("name",),
    (
        Field("name", Kind.TEXT, is_nullable=False),
        Field("tokens", Kind.INT, is_nullable=False),
    ),
)
"""Who may sign in, and how many tokens the account has beside its password."""
HELD_TYPES: Final = (ACCOUNT, FILTER, *TYPES)


class HeldMailboxSource:
    """The mailbox of a server that says by `ask` what it holds; None where it does not answer."""

    not_observed: ClassVar[tuple[str, ...]] = (
        "mail that waits to be sent",
        "which messages are new to a session (\\Recent), and the UID that a next message gets",
        "headers that say what From, To and Cc say, and what servers on the way write",
    )

    def __init__(
        self,
        name: str,
        ask: Callable[[], Mapping[str, Any] | None],
        refine: Refine | None = None,
    ) -> None:
        self._name = name
        self._ask = ask
        self._refine = refine

    @property
    def name(self) -> str:
        return self._name

    def schema(self) -> Schema:
        schema = source_schema(self._name, HELD_TYPES)
        return schema if self._refine is None else self._refine(schema)

    def kept_states(self, answer: Mapping[str, Any]) -> StateOf:
        """A function that makes a state of each that the server kept; a message is parsed once."""
        contents = answer["contents"]
        parsed = cache(lambda digest: parse_message(base64.b64decode(contents[digest])))

        def content_of(message: Mapping[str, Any]) -> Parsed | None:
            return parsed(message["sha256"]) if message["sha256"] in contents else None

        def state(kept: Any, store: ChunkStore, last: State) -> State:
            return mailbox_state(self.schema(), held_rows(kept, content_of), None, store, last)

        return state

    def read(self, store: ChunkStore, clock: Clock, like: State | None) -> SourceCapture:
        as_of = clock()
        held = self._ask()
        if held is None:
            raise SourceUnavailable("the mailbox's server does not answer")
        return scanned(
            self._name, as_of, mailbox_state(self.schema(), held_rows(held), None, store, like)
        )


def _parsed(message: Mapping[str, Any]) -> Parsed | None:
    raw = message.get("raw")
    return None if raw is None else parse_message(base64.b64decode(raw))


def held_rows(
    held: Mapping[str, Any],
    content_of: Callable[[Mapping[str, Any]], Parsed | None] = _parsed,
) -> dict[str, list[Row]]:
    """The server's holdings, as rows by the name of their type."""
    rows: dict[str, list[Row]] = {each.name: [] for each in HELD_TYPES}
    subscribed = set(held["subscribed"])
    for folder in held["folders"]:
        name = _name(folder["name"])
        rows[FOLDER.name].append(
            {
                "name": name,
                "attributes": ("\\ReadOnly",) if folder["is_readonly"] else (),
                # A server lists the inbox always.
                "is_subscribed": folder["name"] in subscribed or folder["name"] == "INBOX",
                "uidvalidity": folder["uidvalidity"],
            }
        )
        for message in folder["messages"]:
            place: Row = {
                "folder": name,
                "uidvalidity": folder["uidvalidity"],
                "uid": message["uid"],
            }
            add_message(rows, place, _listed(message), content_of(message))
    known = {folder["name"] for folder in held["folders"]}
    rows[FOLDER.name] += [
        {"name": _name(name), "attributes": (), "is_subscribed": True, "uidvalidity": None}
        for name in sorted(subscribed - known - {"INBOX"})
    ]
    rows[FILTER.name] = [
        {
            "name": _name(name),
            "script": _text(base64.b64decode(script)),
            "is_active": name == held["active_filter"],
        }
        for name, script in sorted(held["filters"].items())
    ]
    rows[ACCOUNT.name] = [
        {"name": name, "tokens": held["tokens"].count(name)}
        for name in sorted({*held["accounts"], *held["tokens"]})
    ]
    return rows


def _name(name: str) -> str | bytes:
    """A name that a client chose; its bytes where they are no text."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return name.encode("utf-8", "surrogatepass")
    return name


def _listed(message: Mapping[str, Any]) -> ListedMessage:
    when = datetime.fromisoformat(message["received"])
    return ListedMessage(
        message["uid"],
        flag_names(" ".join(message["flags"]).encode()),
        message["size"],
        when.strftime("%d-%b-%Y %H:%M:%S %z"),
    )


def _text(content: bytes) -> str | bytes:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content
