"""A Synapse as a source: read from its database and media, independently of its server.

1. The SQLite file is read as any other (`sqlite.source`): one transaction, hostile or not.
2. Its events become rooms, members, powers, posts, edits, reactions, redactions and changes of
   rooms (`timeline`, `rooms`); accounts, sessions, settings and media become such (`accounts`).
3. All other tables stay as they are, with secrets as digests, but for those that the server fills
   by itself from the ones above (`FOLLOWING`) and those that say nothing that is work (`PASSING`).
4. What lies in the folder of media and is no upload is a `program`.

What a schema file says is laid over the types once, when the source is first asked; a run cannot
change how the chat is read afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, Final

from statediff.capture.source import Clock, SourceRuined, scanned
from statediff.model.batches import Row
from statediff.model.readings import SourceCapture
from statediff.model.schema import EntityType, Kind, Schema
from statediff.model.state import COMPLETE, ChunkStore, Coverage, Enumeration, MemoryChunks, State
from statediff.model.values import ABSENT, Observed, Unobserved
from statediff.systems.base.rows import keyed_table, source_schema
from statediff.systems.hosted.folder import PROGRAM, content_digest, entries, read_file
from statediff.systems.hosted.retold import IN_BETWEEN, Moment, Unmoved
from statediff.systems.relational.structure import STRUCTURE, is_established
from statediff.systems.sqlite.source import SqliteSource
from statediff_chat import accounts, rooms
from statediff_chat.timeline import timeline

Refine = Callable[[Schema], Schema]

FOLLOWING: Final = frozenset(
    (
        *("current_state_delta_stream", "event_auth", "event_auth_chain_links"),
        *("event_auth_chain_to_calculate", "event_auth_chains", "event_backward_extremities"),
        *("event_edges", "event_forward_extremities", "event_labels", "event_relations"),
        *("event_search", "event_search_content", "event_search_docsize", "event_search_segdir"),
        *("event_search_segments", "event_search_stat", "event_to_state_groups"),
        *("local_current_membership", "receipts_graph", "room_depth", "room_memberships"),
        *("room_retention", "room_stats_current", "room_stats_earliest_token"),
        *("room_stats_state", "sliding_sync_joined_rooms", "sliding_sync_membership_snapshots"),
        *("sliding_sync_joined_rooms_to_recalculate", "state_events", "state_group_edges"),
        *("state_groups", "state_groups_pending_deletion", "state_groups_persisting"),
        *("state_groups_state", "stream_ordering_to_exterm", "threads", "timeline_gaps"),
        *("user_directory", "user_directory_search", "user_directory_search_content"),
        *("user_directory_search_docsize", "user_directory_search_segdir"),
        *("user_directory_search_segments", "user_directory_search_stat", "user_stats_current"),
        *("users_in_public_rooms", "users_who_share_private_rooms"),
    )
)
"""Tables that the server fills from events and profiles, to find them faster."""
PASSING: Final = frozenset(
    (
        *("appservice_stream_position", "background_updates", "cache_invalidation_stream"),
        *("delayed_events_stream_pos", "device_lists_changes_converted_stream_position"),
        *("device_lists_changes_in_room", "device_lists_changes_in_room_max_pruned_stream_id"),
        *("device_lists_outbound_last_success", "device_lists_outbound_pokes"),
        *("device_lists_stream", "event_push_actions", "event_push_actions_staging"),
        *("event_push_summary", "event_push_summary_last_receipt_stream_id"),
        *("event_push_summary_stream_ordering", "event_txn_id_device_id"),
        *("federation_stream_position", "monthly_active_users", "presence_stream"),
        *("profile_updates", "profile_updates_per_user", "push_rules_stream"),
        *("pusher_throttle", "room_forgetter_stream_pos", "room_tags_revisions"),
        *("sliding_sync_connection_lazy_members", "sliding_sync_connection_positions"),
        *("sliding_sync_connection_required_state", "sliding_sync_connection_room_configs"),
        *("sliding_sync_connection_streams", "sliding_sync_connections"),
        *("stats_incremental_position", "stream_positions", "ui_auth_sessions"),
        *("ui_auth_sessions_credentials", "ui_auth_sessions_ips", "user_daily_visits"),
        *("user_directory_stale_remote_users", "user_directory_stream_pos", "user_ips"),
        *("user_signature_stream", "worker_locks", "worker_read_write_locks"),
        "worker_read_write_locks_mode",
    )
)
"""Tables of positions, queues, notices and visits: where the server and its readers are."""
_TOLD: Final = frozenset(
    (
        *("access_tokens", "account_data", "current_state_events", "devices", "erased_users"),
        *("event_json", "events", "local_media_repository", "profiles", "receipts_linearized"),
        *("redactions", "room_account_data", "room_alias_servers", "room_aliases"),
        *("room_memberships", "rooms", "users"),
    )
)
"""Tables that are described in other terms."""
_ODD: Final = ("current_state_events", "event_json", "events")
"""Tables of which some rows may say nothing in other terms; these rows stay."""
_SECRET: Final = frozenset(
    (
        *("access_token", "client_secret", "guest_access_token", "renewal_token", "token"),
        *("auth_data", "session_data", "device_data"),
    )
)
_FLEETING: Final = frozenset(
    (
        *("failing_since", "instance_name", "last_access_ts", "last_seen", "last_success"),
        *("last_stream_ordering", "stream_id", "stream_ordering"),
    )
)
"""Columns that say where the server is."""
_NEEDED: Final = ("current_state_events", "event_json", "events", "room_memberships", "users")


class SynapseSource:
    """The Synapse with this database and this folder of media as a source."""

    settles_at_once: ClassVar[bool] = True
    not_observed: ClassVar[tuple[str, ...]] = (
        "what the server derives from events and profiles: indexes, state groups, user directory",
        "positions of streams, queues of notices, locks, background updates",
        "presence, when and from where somebody was here last, what clients synchronized",
        "signatures, hashes and the graph of events",
        "what a redacted event said before: the server keeps it and shows it to nobody",
        "transaction ids of requests, and half-finished confirmations of a request",
        "modes, owners and times of the database and of uploads; thumbnails",
    )

    def __init__(
        self, name: str, database: Path, media: Path, refine: Refine | None = None
    ) -> None:
        self._name = name
        self._media = media
        self._refine = refine
        self.database = SqliteSource(name, database, without_following)
        self._known: Schema | None = None

    @property
    def name(self) -> str:
        return self._name

    def schema(self) -> Schema:
        if self._known is None:
            self._known = self._learn(self.database.read(MemoryChunks(), _no_clock, None).state)
        return self._known

    def read(self, store: ChunkStore, clock: Clock, like: State | None) -> SourceCapture:
        as_of = clock()
        # In memory: the run's folder never holds what the tables hold of secrets.
        raw = self.database.read(MemoryChunks(), clock, None).state
        return scanned(self._name, as_of, self.told(raw, store, like))

    def told(
        self,
        raw: State,
        store: ChunkStore,
        like: State | None,
        past: Unmoved | None = None,
        last: Moment | None = None,
    ) -> State:
        """One raw state of the database in the chat's own terms, with what its files say.

        Of a moment in the past, `past` tells which of the files were then what they are now, and
        `last` is the moment before it: what follows from the same rows is taken from there.
        """
        if self._known is None:
            self._known = self._learn(raw)
        types = _with_new(self._known, raw)
        schema = replace(
            self._known, types=types, sources=((self._name, tuple(t.name for t in types)),)
        )
        changed = _tables_of(raw) if last is None else last.changed(raw)
        is_retold = last is None or not changed.isdisjoint(_TOLD)
        stored = _rows(raw, changed | _TOLD if is_retold else changed)
        found = self._described(stored, past) if is_retold else {}
        tables = {}
        for each in types:
            table = each.source_table
            was = None if last is None else last.told.tables.get(each.name)
            if was is not None and not (is_retold if table in _OWN_TABLES else table in changed):
                tables[each.name] = was
                continue
            rows = found.get(table, _open(stored.get(table, [])))
            earlier = None if like is None else like.tables.get(each.name)
            known = self._enumeration(raw, table)
            if isinstance(rows, str):
                known = Enumeration(Coverage.INCOMPLETE, rows)
                rows = []
            if each.name == STRUCTURE and rows and is_established(earlier):
                known = COMPLETE  # it was read as if nothing were known before
            tables[each.name] = keyed_table(each, rows, known, store, earlier)
        return State(schema, tables)

    def _described(
        self, stored: dict[str, list[Row]], past: Unmoved | None
    ) -> dict[str, list[Row] | str]:
        """Table of a type → its rows by column, or why there are none."""
        line = timeline(stored)

        def content(media_id: str) -> Observed | bytes:
            parts = media_path(media_id)
            if parts is None:
                return Unobserved("its place on disk is not a name")
            if past is not None and "/".join(parts) not in past.same:
                return Unobserved(IN_BETWEEN)
            return read_file(self._media, *parts)

        return {
            **line.odd,
            **rooms.said(line),
            "alias": rooms.aliases(stored),
            "member": rooms.members(line, stored),
            "pin": rooms.pins(line),
            "power": rooms.powers(line),
            "power_rule": rooms.power_rules(line),
            "room": rooms.rooms(line, stored),
            "room_event": rooms.room_events(line),
            "room_state": rooms.room_states(line),
            "account_data#": accounts.account_data(stored),
            "device": accounts.devices(stored),
            "direct_chat": accounts.direct_chats(stored),
            "media": accounts.media(stored, content),
            "receipt": accounts.receipts(stored),
            "session": accounts.sessions(stored),
            "user": accounts.users(stored),
            PROGRAM.name: (self._entries(stored) if past is None or past.is_still else IN_BETWEEN),
        }

    def _entries(self, stored: Mapping[str, list[Row]]) -> list[Row] | str:
        """Everything in the folder of media that is no upload."""
        ids = [str(row.get("media_id")) for row in stored.get("local_media_repository", ())]
        files = {"/".join(parts) for each in ids if (parts := media_path(each)) is not None}
        folders = {"/".join(f.split("/")[:n]) for f in files for n in (1, 2, 3)}

        def is_told(path: str, is_folder: bool) -> bool:
            return path in folders if is_folder else path in files

        return entries(self._media, is_told, content_digest, is_own=True)

    def _enumeration(self, raw: State, table: str) -> Enumeration:
        by_table = {t.type.source_table: t for t in raw.tables.values()}
        parts = (table,) if table in by_table and table not in _TOLD else tuple(_TOLD)
        for part in parts:
            found = by_table.get(part)
            if found is not None and not found.enumeration.is_complete:
                return found.enumeration
        return COMPLETE

    def _learn(self, raw: State) -> Schema:
        by_table = {t.type.source_table: t.type for t in raw.tables.values()}
        if not by_table.keys() >= set(_NEEDED):
            raise SourceRuined("its database is not one of Synapse's")
        taken = {t.name for t in _OWN_TYPES}
        others = [_kept(t, taken) for t in by_table.values() if _is_kept(t.source_table)]
        types = tuple(sorted((*_OWN_TYPES, *others), key=lambda t: t.name))
        schema = source_schema(self._name, types)
        return schema if self._refine is None else self._refine(schema)


def media_path(media_id: str) -> tuple[str, ...] | None:
    """The place of an upload below Synapse's folder of media; None of what is no id of one."""
    if len(media_id) < 5 or not all(c.isascii() and (c.isalnum() or c in "-_") for c in media_id):
        return None
    return ("local_content", media_id[0:2], media_id[2:4], media_id[4:])


def without_following(schema: Schema) -> Schema:
    """The database's types without those of which nothing is read."""
    left_out = FOLLOWING - {"room_memberships"} | PASSING
    types = tuple(t for t in schema.types if t.source_table not in left_out)
    [(source, _)] = schema.sources
    return replace(schema, types=types, sources=((source, tuple(t.name for t in types)),))


def _no_clock() -> datetime:
    return datetime.fromtimestamp(0, UTC)  # only the catalogue is wanted: nobody sees the reading


def _apart(own: EntityType) -> EntityType:
    """A type of ours under a table of its own, where the server has one of that name."""
    return replace(own, table=f"{own.name}#") if own.name in _TOLD else own


_OWN_TYPES: Final = (*rooms.TYPES, *(_apart(t) for t in accounts.TYPES), PROGRAM)
_OWN_TABLES: Final = frozenset(t.source_table for t in _OWN_TYPES) | frozenset(_ODD)
"""What stands where the types are that rest on the tables of `_TOLD`."""


def _is_kept(table: str) -> bool:
    return table not in FOLLOWING | PASSING and (table not in _TOLD or table in _ODD)


def _kept(raw: EntityType, taken: set[str]) -> EntityType:
    """The type of a table that stays as it is, without what says where the server is."""
    is_event = raw.source_table in _ODD
    fields = tuple(
        replace(f, kind=Kind.TEXT if f.source_column in _SECRET else f.kind)
        for f in raw.fields
        if is_event or f.source_column not in _FLEETING or f.name in raw.key
    )
    name = f"main.{raw.name}" if raw.name in taken else raw.name
    return replace(raw, name=name, fields=fields, table=raw.source_table)


def _with_new(schema: Schema, raw: State) -> tuple[EntityType, ...]:
    """The types as they were learned, and one for each table that is new since."""
    tables = {t.source_table for t in schema.types}
    new = [
        replace(t.type, name=f"main.{t.type.name}") if t.type.name in schema.by_name else t.type
        for t in raw.tables.values()
        if t.type.source_table not in tables and _is_kept(t.type.source_table)
    ]
    return tuple(sorted((*schema.types, *new), key=lambda t: t.name))


class _Cells(dict[str, Observed]):
    """A row in which a column that a run has dropped is absent."""

    def __missing__(self, column: str) -> Observed:
        return ABSENT


def _tables_of(raw: State) -> frozenset[str]:
    return frozenset(table.type.source_table for table in raw.tables.values())


def _rows(raw: State, wanted: frozenset[str]) -> dict[str, list[Row]]:
    """Table → its rows by column, of those that are wanted."""
    found: dict[str, list[Row]] = {}
    for table in raw.tables.values():
        if table.type.source_table not in wanted:
            continue
        columns = [(f.name, f.source_column) for f in table.type.fields]
        found[table.type.source_table] = [
            _Cells({column: row[field] for field, column in columns if field in row})
            for _, row in table.rows()
        ]
    found.setdefault("room_memberships", [])
    return found


def _open(stored: list[Row]) -> list[Row]:
    """The rows of a table that stays as it is, secrets as digests."""
    return [
        {c: accounts.hidden(v) if c in _SECRET else v for c, v in row.items()} for row in stored
    ]
