"""A mailbox as a source: folders, subscriptions, and every message with its flags, over IMAP.

IMAP has no snapshot. All folders are listed, all messages are read, and all is listed again: where
the two listings differ the reading begins again, and after `ATTEMPTS` there is none. A message is
what `mail.parsing` makes of it; a line of its head that says something else than its sender and
recipients, and a part beside body and attachments, are entities of their own, as in an outbox.

A UID means nothing once a folder's UIDVALIDITY is another, so both are in the key: a folder that
was made anew holds other messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any, ClassVar, Final
from urllib.parse import parse_qs, urlsplit

from statediff.capture.source import Clock, SourceUnavailable, scanned
from statediff.model.batches import Row
from statediff.model.instants import in_utc
from statediff.model.readings import SourceCapture
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.state import COMPLETE, ChunkStore, Coverage, Enumeration, State, build_table
from statediff.model.values import Unobserved, printable
from statediff.systems.base.rows import named_rows, source_schema
from statediff.systems.relational.schema import Refine
from statediff_office.mail.headers import departures
from statediff_office.mail.parsing import Parsed, parse_message
from statediff_office.mail.source import part_row
from statediff_office.mailbox.session import (
    ImapSession,
    ListedFolder,
    ListedMessage,
    imap_session,
)

ATTEMPTS: Final = 3
MAX_MESSAGES: Final = 100_000
MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024

_PLACE: Final = (
    Field("folder", Kind.TEXT, is_nullable=False),
    Field("uidvalidity", Kind.INT, is_nullable=False),
    Field("uid", Kind.INT, is_nullable=False),
)
_KEY: Final = tuple(field.name for field in _PLACE)

FOLDER: Final = EntityType(
    "mailbox.folder",
    ("name",),
    (
        Field("name", Kind.TEXT, is_nullable=False),
        Field("attributes", Kind.LIST, is_nullable=False),
        Field("is_subscribed", Kind.BOOL, is_nullable=False),
        Field("uidvalidity", Kind.INT),
    ),
)
"""A folder, or a name that is subscribed to and is none: its `attributes` are then empty, and
`uidvalidity` is null, as of a folder that holds no messages."""
MESSAGE: Final = EntityType(
    "mailbox.message",
    _KEY,
    (
        *_PLACE,
        Field("flags", Kind.LIST, is_nullable=False),
        Field("received_at", Kind.TIMESTAMP, is_nullable=False),
        Field("subject", Kind.TEXT),
        Field("body", Kind.TEXT),
        Field("message_id", Kind.TEXT),
        Field("attachments", Kind.LIST, is_nullable=False),
        Field("headers", Kind.MAP, is_nullable=False),
        Field("digest", Kind.TEXT, is_nullable=False),
        Field("size", Kind.INT, is_nullable=False),
    ),
)
"""A message in a folder. `flags` are sorted, without `\\Recent`; `received_at` is the server's
INTERNALDATE; the rest is as in an outbox (`mail.source`)."""
HEADER: Final = EntityType(
    "mailbox.header",
    (*_KEY, "number"),
    (
        *_PLACE,
        Field("number", Kind.INT, is_nullable=False),
        Field("name", Kind.TEXT, is_nullable=False),
        Field("value", Kind.TEXT, is_nullable=False),
        Field("addresses", Kind.LIST),
    ),
)
"""A line of a message's head that says something else than its own From, To and Cc."""
PART: Final = EntityType(
    "mailbox.part",
    (*_KEY, "number"),
    (
        *_PLACE,
        Field("number", Kind.INT, is_nullable=False),
        Field("type", Kind.TEXT, is_nullable=False),
        Field("disposition", Kind.TEXT, is_nullable=False),
        Field("name", Kind.TEXT),
        Field("size", Kind.INT, is_nullable=False),
        Field("digest", Kind.TEXT, is_nullable=False),
        Field("text", Kind.TEXT),
    ),
)
"""A part of a message that is neither its body nor an attachment."""
TYPES: Final = (FOLDER, HEADER, MESSAGE, PART)
_OF_MESSAGES: Final = frozenset({HEADER.name, MESSAGE.name, PART.name})

_Listing = dict[ListedFolder, tuple[int, list[ListedMessage]]]


class MailboxSource:
    """The mailbox of one account; `?folders=INBOX,Archive*` reads the folders that match."""

    not_observed: ClassVar[tuple[str, ...]] = (
        "messages that came and went between two readings",
        "access lists, quotas, annotations, filters (Sieve), and mail that waits to be sent",
        "headers that say what From, To and Cc say, and what servers on the way write",
    )

    def __init__(self, name: str, url: str, refine: Refine | None = None) -> None:
        self._name = name
        self._url = url
        self._refine = refine
        chosen = parse_qs(urlsplit(url).query).get("folders", [""])[0]
        self._patterns = [pattern for pattern in chosen.split(",") if pattern]

    @property
    def name(self) -> str:
        return self._name

    def schema(self) -> Schema:
        with imap_session(self._name, self._url) as session:
            names = [folder.name for folder in session.folders()] if self._patterns else []
        for pattern in self._patterns:
            if not any(fnmatchcase(name, pattern) for name in names):
                raise SourceUnavailable(
                    f"no folder is called {printable(pattern)}; correct `?folders=`"
                )
        return self._schema()

    def _schema(self) -> Schema:
        schema = source_schema(self._name, TYPES)
        return schema if self._refine is None else self._refine(schema)

    def read(self, store: ChunkStore, clock: Clock, like: State | None) -> SourceCapture:
        as_of = clock()
        with imap_session(self._name, self._url) as session:
            for _ in range(ATTEMPTS):
                subscribed = session.subscribed()
                listing = self._listing(session)
                rows, cause = self._rows(session, listing, subscribed)
                if self._listing(session) == listing and session.subscribed() == subscribed:
                    state = mailbox_state(self._schema(), rows, cause, store, like)
                    return scanned(self._name, as_of, state)
        raise SourceUnavailable("it was written while it was read; read it when it is at rest")

    def _listing(self, session: ImapSession) -> _Listing:
        return {
            folder: (session.examine(folder), session.messages())
            if folder.holds_messages
            else (0, [])
            for folder in session.folders()
            if self._has(folder.name)
        }

    def _has(self, name: str) -> bool:
        return not self._patterns or any(fnmatchcase(name, each) for each in self._patterns)

    def _rows(
        self, session: ImapSession, listing: _Listing, subscribed: set[bytes]
    ) -> tuple[dict[str, list[Row]], str | None]:
        rows: dict[str, list[Row]] = {each.name: [] for each in TYPES}
        total, known = 0, set()
        for folder, (validity, messages) in listing.items():
            known.add(folder.raw)
            rows[FOLDER.name].append(
                {
                    "name": folder.name,
                    "attributes": folder.attributes,
                    "is_subscribed": folder.raw in subscribed,
                    "uidvalidity": validity if folder.holds_messages else None,
                }
            )
            taken = messages[: max(MAX_MESSAGES - total, 0)]
            total += len(messages)
            if taken:
                session.examine(folder)
                read = [each.uid for each in taken if each.size <= MAX_MESSAGE_BYTES]
                contents = {uid: parse_message(raw) for uid, raw in session.contents(read)}
                for each in taken:
                    place: Row = {"folder": folder.name, "uidvalidity": validity, "uid": each.uid}
                    add_message(rows, place, each, contents.get(each.uid))
        for raw in sorted(subscribed - known):
            name = ListedFolder(raw, ()).name
            if self._has(name):
                rows[FOLDER.name].append(
                    {"name": name, "attributes": (), "is_subscribed": True, "uidvalidity": None}
                )
        if total > MAX_MESSAGES:
            return rows, f"{total} messages, of which {MAX_MESSAGES} are read"
        return rows, None


def mailbox_state(
    schema: Schema,
    rows: Mapping[str, list[Row]],
    cause: str | None,
    store: ChunkStore,
    like: State | None,
) -> State:
    """The rows, by the name of their type, as a state; `cause` says why messages are missing."""
    tables = {}
    for entity in schema.types:
        is_whole = cause is None or entity.source_table not in _OF_MESSAGES
        tables[entity.name] = build_table(
            entity,
            named_rows(entity, rows[entity.source_table]),
            store,
            like=None if like is None else like.tables.get(entity.name),
            enumeration=COMPLETE if is_whole else Enumeration(Coverage.INCOMPLETE, cause or ""),
        )
    return State(schema, tables)


def add_message(
    rows: Mapping[str, list[Row]], place: Row, listed: ListedMessage, parsed: Parsed | None
) -> None:
    """The rows of one message; of one that was not read, its flags, date and size are known."""
    received = _instant(listed.received)
    plain: Row = {
        **place,
        "flags": listed.flags,
        "received_at": Unobserved("a date that is none of IMAP, or outside the years 1 to 9999")
        if received is None
        else received,
        "size": listed.size,
    }
    if parsed is None:
        unknown = Unobserved(f"a message of {listed.size} bytes is not read")
        names = ("subject", "body", "message_id", "attachments", "headers", "digest")
        rows[MESSAGE.name].append({**plain, **dict.fromkeys(names, unknown)})
        return
    rows[MESSAGE.name].append(
        {
            **plain,
            "subject": parsed.subject,
            "body": parsed.body,
            "message_id": parsed.message_id,
            "attachments": parsed.attachments,
            "headers": parsed.headers,
            "digest": parsed.digest,
            "size": parsed.size,
        }
    )
    for number, line in departures(
        parsed.lines, *_envelope(parsed), received or datetime.min.replace(tzinfo=UTC)
    ):
        rows[HEADER.name].append(
            {
                **place,
                "number": number,
                "name": line.name,
                "value": line.value,
                "addresses": line.addresses,
            }
        )
    rows[PART.name].extend({**place, **part_row(part)} for part in parsed.parts)


def _envelope(parsed: Parsed) -> tuple[str, list[str]]:
    """Sender and recipients, as the first From, To and Cc name them."""
    first: dict[str, Any] = {}
    for line in parsed.lines:
        first.setdefault(line.name, line.addresses or ())
    sender = next(iter(first.get("from", ())), "")
    return sender, [*first.get("to", ()), *first.get("cc", ())]


def _instant(text: str) -> datetime | None:
    try:
        return in_utc(datetime.strptime(text.strip(), "%d-%b-%Y %H:%M:%S %z"))
    except ValueError:
        return None
