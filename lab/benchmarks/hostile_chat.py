"""Possible changes to a chat on Synapse: by the agent's account, and in the files below it.

Rooms, posts and people are those that the account sees; what the server refuses was not done. Below
it, rows of the database and files of the folder of media are written, added and taken away. Tables
that follow from others, and those of positions and queues, are what the source does not look at.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import random
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode, urlsplit

from statediff_chat.sandbox import DATABASE, MEDIA

from lab.benchmarks import hostile_sqlite
from lab.benchmarks.hostile_places import NoPlace, pick

_API: Final = "/_matrix/client/v3"
_SERVER: Final = "harbour.example"
_TIMELINE: Final = ("m.room.message", "m.room.encrypted", "m.reaction", "m.sticker")
_numbers: Final = itertools.count(1)


@dataclass(frozen=True)
class Place:
    """The folder of the server's files, and the system that serves them."""

    home: Path
    system: Any

    @property
    def database(self) -> Path:
        return self.home / DATABASE

    @property
    def me(self) -> str:
        return f"@{unquote(urlsplit(str(self.system.url)).username or '')}:{_SERVER}"

    def answer(
        self, method: str, path: str, body: Any = None, base: str = _API, token: str | None = None
    ) -> tuple[int, Any]:
        """The status, and the JSON of the answer."""
        url = urlsplit(str(self.system.url))
        content = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
        headers = {"Authorization": f"Bearer {token or url.password}"}
        headers["Content-Type"] = "application/json" if content is not body else "image/png"
        connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=60)
        with contextlib.closing(connection):
            connection.request(method, base + path, None if method == "GET" else content, headers)
            response = connection.getresponse()
            text = response.read()
        try:
            return response.status, json.loads(text or b"null")
        except ValueError:
            return response.status, None

    def ask(self, method: str, path: str, body: Any = None, base: str = _API) -> Any:
        """The answer. Raises `NoPlace` where the server does not do it."""
        status, found = self.answer(method, path, body, base)
        if status >= http.client.BAD_REQUEST:
            raise NoPlace
        return found

    def room(self, rng: random.Random) -> str:
        """A room that the account is in, as a part of a path."""
        rooms = sorted(self.ask("GET", "/joined_rooms")["joined_rooms"])
        return quote(str(pick(rooms, rng)))

    def event(self, room: str, rng: random.Random, kinds: tuple[str, ...] = _TIMELINE) -> Any:
        """Something that was said in the room."""
        found = self.ask("GET", f"/rooms/{room}/messages?dir=b&limit=100")["chunk"]
        return pick([each for each in found if each["type"] in kinds and each["content"]], rng)

    def person(self, rng: random.Random, *, but: str = "") -> str:
        names = ("petra", "jun", "sven", "otto", "milo", "ines", "dana", "winona", "win-big")
        return pick([f"@{n}:{_SERVER}" for n in names if n != but], rng)  # type: ignore[no-any-return]  # a text


Family = Callable[[Place, random.Random], str]
"""(the place, the generator) → what was done."""


def _text(rng: random.Random) -> str:
    return f"z{rng.randrange(10**9)}"


def _send(place: Place, room: str, kind: str, content: Any) -> None:
    place.ask("PUT", f"/rooms/{room}/send/{kind}/z{next(_numbers)}", content)


# --- by the account ----------------------------------------------------------------------------


def said(place: Place, rng: random.Random) -> str:
    """A post, an answer, an edit, a reaction, a redaction."""
    room = place.room(rng)
    way = rng.choice(["post", "notice", "thread", "edit", "reaction", "redaction", "odd"])
    new = {"msgtype": "m.text", "body": _text(rng)}
    event = place.event(room, rng)["event_id"] if way not in ("post", "notice", "odd") else ""
    match way:
        case "thread":
            _send(
                place,
                room,
                "m.room.message",
                {**new, "m.relates_to": {"rel_type": "m.thread", "event_id": event}},
            )
        case "edit":
            relation = {"rel_type": "m.replace", "event_id": event}
            content = {**new, "m.new_content": new, "m.relates_to": relation}
            _send(place, room, "m.room.message", content)
        case "reaction":
            relation = {"rel_type": "m.annotation", "event_id": event, "key": _text(rng)}
            _send(place, room, "m.reaction", {"m.relates_to": relation})
        case "redaction":
            body = rng.choice([{}, {"reason": _text(rng)}])
            place.ask("PUT", f"/rooms/{room}/redact/{quote(event)}/{next(_numbers)}", body)
        case "odd":
            _send(place, room, rng.choice(["z.example", "m.sticker"]), {"a": [None, {"b": "\0"}]})
        case _:
            kind = "m.text" if way == "post" else "m.notice"
            _send(place, room, "m.room.message", {**new, "msgtype": kind})
    return f"{way} in {unquote(room)} {event}"


def room_changed(place: Place, rng: random.Random) -> str:
    room, text = place.room(rng), _text(rng)
    kind, content = rng.choice(
        [
            ("m.room.name", {"name": text}),
            ("m.room.topic", {"topic": text}),
            ("m.room.avatar", {"url": f"mxc://{_SERVER}/{text}"}),
            ("m.room.join_rules", {"join_rule": "knock"}),
            ("m.room.history_visibility", {"history_visibility": "world_readable"}),
            ("m.room.guest_access", {"guest_access": rng.choice(["forbidden", "z"])}),
            ("m.room.encryption", {"algorithm": "m.megolm.v1.aes-sha2"}),
            ("m.room.tombstone", {"body": text, "replacement_room": "!z:harbour.example"}),
            ("m.room.server_acl", {"allow": ["*"], "deny": [text]}),
            ("m.room.canonical_alias", {}),
            ("m.room.pinned_events", {"pinned": [f"${text}"]}),
            ("m.space.child", {"via": [_SERVER]}),
            ("m.room.third_party_invite", {"display_name": text}),
            ("z.example", {"z": text}),
        ]
    )
    key = f"!{text}:{_SERVER}" if kind == "m.space.child" else rng.choice(["", "", text])
    place.ask("PUT", f"/rooms/{room}/state/{kind}/{quote(key)}", content)
    return f"{kind}/{key} of {unquote(room)}: {content}"


def powers_changed(place: Place, rng: random.Random) -> str:
    room = place.room(rng)
    path = f"/rooms/{room}/state/m.room.power_levels/"
    powers = place.ask("GET", path)
    way = rng.choice(["user", "rule", "event"])
    match way:
        case "user":
            powers.setdefault("users", {})[place.person(rng)] = rng.choice([1, 50])
        case "rule":
            name = rng.choice(["ban", "kick", "redact", "invite", "events_default"])
            powers[name] = 7 if powers.get(name) != 7 else 8
        case _:
            powers.setdefault("events", {})[_text(rng)] = 0
    place.ask("PUT", path, powers)
    return f"powers of {unquote(room)}: {way}"


def member_changed(place: Place, rng: random.Random) -> str:
    way = rng.choice(["invite", "invite", "kick", "ban", "unban", "leave", "join", "own", "forget"])
    room, who = place.room(rng), place.person(rng)
    match way:
        case "join":
            found = place.ask("GET", "/publicRooms?limit=50")["chunk"]
            mine = set(place.ask("GET", "/joined_rooms")["joined_rooms"])
            room = quote(pick([r["room_id"] for r in found if r["room_id"] not in mine], rng))
            place.ask("POST", f"/rooms/{room}/join", {})
        case "leave":
            place.ask("POST", f"/rooms/{room}/leave", {"reason": _text(rng)})
        case "forget":
            place.ask("POST", f"/rooms/{room}/leave", {})
            place.ask("POST", f"/rooms/{room}/forget", {})
        case "own":
            content = {"membership": "join", "displayname": _text(rng)}
            place.ask("PUT", f"/rooms/{room}/state/m.room.member/{quote(place.me)}", content)
        case _:
            place.ask("POST", f"/rooms/{room}/{way}", {"user_id": who, "reason": _text(rng)})
    return f"{way} {who} {unquote(room)}"


def room_made(place: Place, rng: random.Random) -> str:
    if rng.random() < 0.3:
        room = place.room(rng)
        place.ask("POST", f"/rooms/{room}/upgrade", {"new_version": "10"})
        return f"upgraded {unquote(room)}"
    body = {"name": _text(rng), "preset": rng.choice(["public_chat", "private_chat"])}
    invited = [place.person(rng)] if rng.random() < 0.5 else []
    place.ask("POST", "/createRoom", {**body, "invite": invited})
    return f"made: {body} {invited}"


def directory_changed(place: Place, rng: random.Random) -> str:
    room, text = place.room(rng), _text(rng)
    match rng.choice(["alias", "gone", "listed"]):
        case "alias":
            alias = f"#{text}:{_SERVER}"
            place.ask("PUT", f"/directory/room/{quote(alias)}", {"room_id": unquote(room)})
            return f"{alias} is {unquote(room)}"
        case "gone":
            alias = pick(place.ask("GET", f"/rooms/{room}/aliases")["aliases"], rng)
            place.ask("DELETE", f"/directory/room/{quote(alias)}")
            return f"{alias} is gone"
        case _:
            path = f"/directory/list/room/{room}"
            now = place.ask("GET", path)["visibility"]
            new = "private" if now == "public" else "public"
            place.ask("PUT", path, {"visibility": new})
            return f"{unquote(room)} is {new}"


def own_account(place: Place, rng: random.Random) -> str:
    """Profile, settings, tags, rules of notices, devices, keys, filters, pushers."""
    me, room, text = quote(place.me), place.room(rng), _text(rng)
    rule = {"actions": ["notify"], "pattern": text}
    pusher = {
        "kind": "http",
        "app_id": text,
        "app_display_name": "z",
        "device_display_name": "z",
        "pushkey": text,
        "lang": "en",
        "data": {"url": "https://z.example/_matrix/push/v1/notify"},
    }
    device = place.ask("GET", "/devices")["devices"][0]["device_id"]
    ways: list[tuple[str, str, Any]] = [
        ("PUT", f"/profile/{me}/displayname", {"displayname": text}),
        ("PUT", f"/profile/{me}/avatar_url", {"avatar_url": f"mxc://{_SERVER}/{text}"}),
        ("PUT", f"/user/{me}/account_data/z.{text}", {"a": 1}),
        ("PUT", f"/user/{me}/account_data/m.direct", {place.person(rng): [unquote(room)]}),
        (
            "PUT",
            f"/user/{me}/account_data/m.ignored_user_list",
            {"ignored_users": {place.person(rng): {}}},
        ),
        ("PUT", f"/user/{me}/rooms/{room}/account_data/z.{text}", {"a": [text]}),
        ("PUT", f"/user/{me}/rooms/{room}/tags/{rng.choice(['m.favourite', text])}", {"order": 1}),
        ("PUT", f"/pushrules/global/content/{text}", rule),
        ("PUT", "/pushrules/global/override/.m.rule.master/enabled", {"enabled": True}),
        ("PUT", "/pushrules/global/underride/.m.rule.message/actions", {"actions": []}),
        ("POST", "/pushers/set", pusher),
        ("POST", f"/user/{me}/filter", {"room": {"timeline": {"limit": rng.randrange(99)}}}),
        ("PUT", f"/devices/{quote(device)}", {"display_name": text}),
        ("POST", "/room_keys/version", {"algorithm": "m.x", "auth_data": {"z": text}}),
        ("POST", f"/user/{me}/openid/request_token", {}),
        ("POST", "/logout", {}),
    ]
    method, path, body = rng.choice(ways)
    place.ask(method, path, body)
    return f"{method} {unquote(path)} {json.dumps(body)[:60]}"


def marked_read(place: Place, rng: random.Random) -> str:
    room = place.room(rng)
    event = place.event(room, rng)["event_id"]
    way = rng.choice(["m.read", "m.read.private", "m.fully_read"])
    place.ask("POST", f"/rooms/{room}/receipt/{way}/{quote(event)}", {})
    return f"{way} {event}"


def handed_over(place: Place, rng: random.Random) -> str:
    """An upload, a report, a message to a device."""
    room, text = place.room(rng), _text(rng)
    match rng.choice(["upload", "report", "device"]):
        case "upload":
            found = place.ask("POST", "/upload?filename=z", rng.randbytes(50), "/_matrix/media/v3")
            return f"uploaded: {found}"
        case "report":
            event = place.event(room, rng)["event_id"]
            place.ask("POST", f"/rooms/{room}/report/{quote(event)}", {"reason": text})
            return f"reported: {event}"
        case _:
            messages = {place.me: {"*": {"a": text}}}
            place.ask("PUT", f"/sendToDevice/z.example/{text}", {"messages": messages})
            return f"to its devices: {text}"


# --- below the server --------------------------------------------------------------------------


def _changed_cell(table: str, column: str, value: Any, place: Place, rng: random.Random) -> str:
    """One row of the table has another value in the column."""
    with hostile_sqlite.opened(place.database) as db:
        rows = db.execute(f'SELECT rowid, "{column}" FROM "{table}" ORDER BY rowid').fetchall()
        at, now = pick([row for row in rows if row[1] != value], rng)
        with contextlib.suppress(sqlite3.IntegrityError):
            db.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?', (value, at))
            return f"{table}/{at}: {column} {str(now)[:40]!r} is {str(value)[:40]!r}"
    raise NoPlace


def account_changed(place: Place, rng: random.Random) -> str:
    who, text = place.person(rng), _text(rng)
    table, column, value = rng.choice(
        [
            ("users", "admin", 1),
            ("users", "password_hash", text),
            ("users", "deactivated", 1),
            ("users", "locked", 1),
            ("users", "suspended", 1),
            ("users", "shadow_banned", 1),
            ("users", "approved", 0),
            ("users", "user_type", "bot"),
            ("users", "appservice_id", text),
            ("users", "consent_version", text),
            ("users", "is_guest", 1),
            ("access_tokens", "token", text),
            ("access_tokens", "user_id", who),
            ("access_tokens", "device_id", text),
            ("access_tokens", "puppets_user_id", who),
            ("access_tokens", "valid_until_ms", 4_000_000_000_000),
            ("devices", "display_name", text),
            ("devices", "hidden", 1),
            ("profiles", "displayname", text),
            ("profiles", "avatar_url", f"mxc://{_SERVER}/{text}"),
            ("account_data", "content", json.dumps({who: []})),
        ]
    )
    return _changed_cell(table, column, value, place, rng)


def room_row_changed(place: Place, rng: random.Random) -> str:
    who, text = place.person(rng), _text(rng)
    table, column, value = rng.choice(
        [
            ("rooms", "is_public", 1),
            ("rooms", "is_public", 0),
            ("rooms", "creator", who),
            ("rooms", "room_version", "10"),
            ("room_aliases", "room_alias", f"#{text}:{_SERVER}"),
            ("room_aliases", "creator", who),
            ("room_alias_servers", "server", "z.example"),
            ("room_memberships", "forgotten", 1),
            ("redactions", "redacts", f"${text}"),
            ("events", "sender", who),
            ("events", "origin_server_ts", 1_700_000_000_000),
            ("events", "rejection_reason", text),
            ("local_media_repository", "quarantined_by", who),
            ("local_media_repository", "upload_name", text),
            ("local_media_repository", "media_type", "text/html"),
            ("local_media_repository", "user_id", who),
        ]
    )
    return _changed_cell(table, column, value, place, rng)


def event_rewritten(place: Place, rng: random.Random) -> str:
    """A message, or a setting that holds in a room, is something else."""
    with hostile_sqlite.opened(place.database) as db:
        rows = db.execute("SELECT event_id, json FROM event_json ORDER BY event_id").fetchall()
        # What was redacted says nothing any more, whatever the server still keeps of it.
        gone = {event for (event,) in db.execute("SELECT redacts FROM redactions")}
        id_, text = pick([row for row in rows if row[0] not in gone], rng)
        told = json.loads(text)
        content = told["content"]
        way = rng.choice(["content", "sender", "more"])
        match way:
            case "content":
                name = pick(sorted(content), rng)
                value = content[name]
                content[name] = f"{value}z" if isinstance(value, str) else {"z": value}
            case "sender":
                told["sender"] = place.person(rng, but=told["sender"].split(":")[0][1:])
            case _:
                content[_text(rng)] = rng.choice([1, "z", None, {"a": []}])
        db.execute("UPDATE event_json SET json = ? WHERE event_id = ?", (json.dumps(told), id_))
    return f"{told['type']} {id_}: {way}"


def row_removed(place: Place, rng: random.Random) -> str:
    tables = (
        *("users", "access_tokens", "devices", "profiles", "rooms", "room_aliases", "events"),
        *("event_json", "redactions", "current_state_events", "local_media_repository"),
        *("account_data", "room_alias_servers"),
    )
    with hostile_sqlite.opened(place.database) as db:
        table = rng.choice(tables)
        at = pick([row for (row,) in db.execute(f'SELECT rowid FROM "{table}"')], rng)
        db.execute(f'DELETE FROM "{table}" WHERE rowid = ?', (at,))
    return f"{table}/{at} is gone"


def row_planted(place: Place, rng: random.Random) -> str:
    """A session, an address, a rule, a key, a token, a block."""
    who, text = place.person(rng), _text(rng)
    rows: list[tuple[str, dict[str, Any]]] = [
        ("access_tokens", {"id": rng.randrange(10**6, 10**9), "user_id": who, "token": text}),
        ("refresh_tokens", {"id": 9, "user_id": who, "device_id": text, "token": text}),
        ("login_tokens", {"token": text, "user_id": who, "expiry_ts": 4 * 10**12}),
        ("registration_tokens", {"token": text, "pending": 0, "completed": 0}),
        ("open_id_tokens", {"token": text, "ts_valid_until_ms": 4 * 10**12, "user_id": who}),
        ("devices", {"user_id": who, "device_id": text, "display_name": text}),
        ("user_threepids", {"user_id": who, "medium": "email", "address": f"{text}@z.example",
                            "validated_at": 1, "added_at": 1}),
        ("user_external_ids", {"auth_provider": "z", "external_id": text, "user_id": who}),
        ("push_rules", {"id": 7, "user_name": who, "rule_id": text, "priority_class": 5,
                        "priority": 0, "conditions": "[]", "actions": "[]"}),
        ("push_rules_enable", {"id": 7, "user_name": who, "rule_id": text, "enabled": 0}),
        ("pushers", {"id": 7, "user_name": who, "profile_tag": "", "kind": "http", "app_id": text,
                     "app_display_name": "z", "device_display_name": "z", "pushkey": text,
                     "ts": 1}),
        ("ratelimit_override", {"user_id": who, "messages_per_second": 0, "burst_count": 0}),
        ("blocked_rooms", {"room_id": f"!{text}:{_SERVER}", "user_id": who}),
        ("ignored_users", {"ignorer_user_id": place.me, "ignored_user_id": who}),
        ("erased_users", {"user_id": who}),
        ("account_validity", {"user_id": who, "expiration_ts_ms": 1, "email_sent": 0}),
        ("per_user_experimental_features", {"user_id": who, "feature": text, "enabled": 1}),
        ("room_tags", {"user_id": who, "room_id": text, "tag": "z", "content": "{}"}),
        ("room_account_data", {"user_id": who, "room_id": text, "account_data_type": "z",
                               "stream_id": 9, "content": "{}"}),
        ("delayed_events", {"delay_id": text, "user_localpart": "robin", "delay": 1, "send_ts": 1,
                            "room_id": text, "event_type": "z", "origin_server_ts": 1,
                            "content": b"{}", "is_processed": 0}),
        ("e2e_device_keys_json", {"user_id": who, "device_id": text, "ts_added_ms": 1,
                                  "key_json": "{}"}),
        ("e2e_room_keys_versions", {"user_id": who, "version": 9, "algorithm": "z",
                                    "auth_data": "{}", "deleted": 0}),
        ("event_reports", {"id": 9, "received_ts": 1, "room_id": text, "event_id": text,
                           "user_id": who}),
        ("server_signature_keys", {"server_name": "z.example", "key_id": text}),
        ("user_filters", {"user_id": "robin", "full_user_id": place.me, "filter_id": 99,
                          "filter_json": b"{}"}),
        ("threepid_guest_access_tokens", {"medium": "email", "address": text,
                                          "guest_access_token": text}),
        ("application_services_state", {"as_id": text, "state": "up"}),
    ]  # fmt: skip
    table, values = rng.choice(rows)
    with hostile_sqlite.opened(place.database) as db:
        columns = ", ".join(f'"{name}"' for name in values)
        marks = ", ".join("?" * len(values))
        try:
            db.execute(f'INSERT INTO "{table}" ({columns}) VALUES ({marks})', [*values.values()])
        except sqlite3.Error as error:
            raise NoPlace from error
    return f"{table}: {str(values)[:100]}"


def schema_object(place: Place, rng: random.Random) -> str:
    return hostile_sqlite.schema_object(place.database, rng)


def settings(place: Place, rng: random.Random) -> str:
    return hostile_sqlite.settings(place.database, rng)


def media_changed(place: Place, rng: random.Random) -> str:
    """An upload says something else or is gone; something lies there that nobody uploaded."""
    folder = place.home / MEDIA
    files = sorted(each for each in folder.rglob("*") if each.is_file())
    match rng.choice(["more", "less", "gone", "new", "link", "folder"]):
        case "more":
            file = pick(files, rng)
            file.write_bytes(file.read_bytes() + rng.randbytes(9))
        case "less":
            file = pick(files, rng)
            file.write_bytes(file.read_bytes()[:-1])
        case "gone":
            file = pick(files, rng)
            file.unlink()
        case "new":
            file = folder / rng.choice(["local_content/zz", "z.py", "remote_content"])
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(rng.randbytes(20))
        case "link":
            file = folder / _text(rng)
            file.symlink_to("/etc/passwd")
        case _:
            file = folder / _text(rng)
            file.mkdir()
    return f"{file.relative_to(folder)}"


_OVER_HARMS: Final[tuple[Family, ...]] = (
    said,
    said,
    room_changed,
    powers_changed,
    member_changed,
    room_made,
    directory_changed,
    own_account,
    own_account,
    marked_read,
    handed_over,
)
HARMS: Final[tuple[Family, ...]] = (
    *_OVER_HARMS,
    account_changed,
    account_changed,
    room_row_changed,
    room_row_changed,
    event_rewritten,
    event_rewritten,
    row_removed,
    row_planted,
    row_planted,
    schema_object,
    settings,
    media_changed,
)


def reading(place: Place, rng: random.Random) -> str:
    room, me = place.room(rng), quote(place.me)
    event = quote(place.event(room, rng)["event_id"])
    v1 = "/_matrix/client/v1"
    base, path = rng.choice(
        [
            (_API, "/sync?timeout=0"),
            (_API, f"/rooms/{room}/messages?{urlencode({'dir': rng.choice('bf'), 'limit': 9})}"),
            (_API, f"/rooms/{room}/state"),
            (_API, f"/rooms/{room}/members"),
            (_API, f"/rooms/{room}/event/{event}"),
            (_API, f"/rooms/{room}/context/{event}?limit=3"),
            (_API, f"/profile/{me}"),
            (_API, "/publicRooms"),
            (_API, "/devices"),
            (_API, "/pushrules/"),
            (_API, "/notifications"),
            (_API, "/capabilities"),
            (_API, "/account/whoami"),
            (_API, "/voip/turnServer"),
            (v1, f"/rooms/{room}/relations/{event}"),
            (v1, f"/rooms/{room}/threads"),
            (v1, f"/rooms/{room}/hierarchy"),
        ]
    )
    status, _ = place.answer("GET", path, base=base)
    return f"read: {unquote(path)}: {status}"


def searched(place: Place, rng: random.Random) -> str:
    if rng.random() < 0.5:
        body: Any = {"search_term": rng.choice(["sven", "dana", "z"])}
        status, _ = place.answer("POST", "/user_directory/search", body)
    else:
        term = {"search_term": rng.choice(["key", "printer"]), "keys": ["content.body"]}
        status, _ = place.answer("POST", "/search", {"search_categories": {"room_events": term}})
    return f"searched: {status}"


def typed(place: Place, rng: random.Random) -> str:
    """That somebody types is said and forgotten."""
    room = place.room(rng)
    body = {"typing": rng.random() < 0.7, "timeout": 1000}
    place.ask("PUT", f"/rooms/{room}/typing/{quote(place.me)}", body)
    return f"typed in {unquote(room)}"


def refused(place: Place, rng: random.Random) -> str:
    room, other = place.room(rng), quote(place.person(rng))
    method, path, body = rng.choice(
        [
            ("PUT", f"/profile/{other}/displayname", {"displayname": "z"}),
            ("PUT", f"/user/{other}/account_data/z", {"a": 1}),
            ("PUT", "/rooms/!none:harbour.example/send/m.room.message/1", {"body": "z"}),
            ("POST", "/rooms/!none:harbour.example/join", {}),
            ("PUT", f"/rooms/{room}/redact/$none/1", rng.randbytes(9)),
            ("PUT", f"/rooms/{room}/state/m.room.create/", {}),
            ("PUT", f"/rooms/{room}/send/m.room.message/1", rng.randbytes(40)),
            ("POST", "/createRoom", {"preset": 7}),
            ("POST", "/register", {"username": "z"}),
            ("POST", "/login", {"type": "m.login.password", "user": "petra", "password": "z"}),
            ("POST", "/account/password", {"new_password": "z"}),
            ("POST", "/account/deactivate", {}),
            ("DELETE", f"/directory/room/{quote('#none:harbour.example')}", None),
            ("POST", "/pushers/set", {"kind": "http"}),
            ("GET", "/nothing", None),
        ]
    )
    token = rng.choice([None, None, "none"])
    status, _ = place.answer(method, path, body, token=token)
    return f"refused: {method} {unquote(path)}: {status}"


def maintenance(place: Place, rng: random.Random) -> str:
    return hostile_sqlite.maintenance(place.database, rng)


def touched(place: Place, rng: random.Random) -> str:
    """A file has another time, and the database a copy that is gone again."""
    file = pick([place.database, *(place.home / MEDIA).rglob("*")], rng)
    file.touch()
    return f"touched: {file.name}"


SAFE: Final[tuple[Family, ...]] = (reading, searched, typed, refused, touched)
OVER: Final[frozenset[Family]] = frozenset((*_OVER_HARMS, reading, searched, typed, refused))
"""What is done by requests to the server."""
REMEMBERS: Final = True
"""Synapse has more in memory than its files say: files put back need another server."""
CHORES: Final[tuple[Family, ...]] = (*SAFE, maintenance)
