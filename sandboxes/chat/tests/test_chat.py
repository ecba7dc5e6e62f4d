"""A chat on Synapse: every way to leave it is drift, seen by the source, and gone after a reset."""

import os
import signal
import time
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote, urlsplit

import pytest

from sandboxes.chat.tests.chats import SERVER, ask, execute, place, room, say, set_state, status
from statediff.capture.source import SourceUnavailable
from statediff.capture.take import take
from statediff.conformance import SystemSuite, Way, clock
from statediff.model.state import MemoryChunks
from statediff.packs import SandboxPack, sandbox_pack

pytestmark = pytest.mark.pack("statediff[chat]")


def post(path: str, alias: str, **body: object):
    return lambda system: ask(system, "POST", f"{place(system, alias)}/{path}", body)


def sql(statement: str, *values: object, is_state: bool = True) -> Way:
    return Way(lambda system: execute(system, statement, *values), is_state=is_state)


def redact(system) -> None:
    event = say(system, "gone soon")
    ask(system, "PUT", f"{place(system, 'care')}/redact/{quote(event)}/2")


def tag(system) -> None:
    me = quote(f"@robin:{SERVER}")
    ask(system, "PUT", f"/user/{me}{place(system, 'care')}/tags/m.favourite", {"order": 1})


def push_rule(system) -> None:
    rule = {"actions": ["notify"], "pattern": "key"}
    ask(system, "PUT", "/pushrules/global/content/mine", rule)


def read_marker(system) -> None:
    event = say(system, "read me")
    ask(system, "POST", f"{place(system, 'care')}/receipt/m.read/{quote(event)}")


def direct(system) -> None:
    me = quote(f"@robin:{SERVER}")
    ask(system, "PUT", f"/user/{me}/account_data/m.direct", {f"@otto:{SERVER}": ["!a:b"]})


def hidden_file(system) -> None:
    (system.home / "media" / ".plan").write_text("later")


def upload_changed(system) -> None:
    [file] = (p for p in (system.home / "media").rglob("*") if p.is_file())
    file.write_text("day,person\n")


class TestChat(SystemSuite):
    source = "chat"
    secrets = frozenset({("session", "token")})
    ways: ClassVar = {
        "something is said": Way(lambda s: say(s, "hello")),
        "something is removed": Way(redact),
        "somebody is invited": Way(post("invite", "gull", user_id=f"@dana:{SERVER}")),
        "somebody is banned": Way(post("ban", "gull", user_id=f"@otto:{SERVER}")),
        "a power is raised": Way(
            lambda s: set_state(
                s, "m.room.power_levels", {"users": {f"@robin:{SERVER}": 100}}, "gull"
            )
        ),
        "a topic is set": Way(lambda s: set_state(s, "m.room.topic", {"topic": "new"})),
        "a room is opened": Way(
            lambda s: set_state(s, "m.room.join_rules", {"join_rule": "public"})
        ),
        "its history is shown": Way(
            lambda s: set_state(
                s, "m.room.history_visibility", {"history_visibility": "world_readable"}
            )
        ),
        "something is pinned": Way(
            lambda s: set_state(s, "m.room.pinned_events", {"pinned": [say(s, "pin me")]})
        ),
        "a room's own state": Way(lambda s: set_state(s, "org.example.mine", {"a": 1})),
        "a room is made": Way(lambda s: ask(s, "POST", "/createRoom", {})),
        "an alias is added": Way(
            lambda s: ask(
                s,
                "PUT",
                f"/directory/room/{quote(f'#new:{SERVER}')}",
                {"room_id": room(s, "gull")},
            )
        ),
        "a tag is set": Way(tag),
        "a rule for notices is set": Way(push_rule),
        "something is read": Way(read_marker),
        "a direct chat is declared": Way(direct),
        "a profile is changed": Way(
            lambda s: ask(
                s, "PUT", f"/profile/{quote(f'@robin:{SERVER}')}/displayname", {"displayname": "R"}
            )
        ),
        "a room is left": Way(post("leave", "gull")),
        "an account is an administrator": sql(
            "UPDATE users SET admin = 1 WHERE name = ?", f"@robin:{SERVER}"
        ),
        "an account has another password": sql("UPDATE users SET password_hash = 'x'"),
        "a session is added": sql(
            "INSERT INTO access_tokens (id, user_id, device_id, token) VALUES (99, ?, 'X', 'mine')",
            f"@petra:{SERVER}",
        ),
        "a device is added": sql(
            "INSERT INTO devices (user_id, device_id, display_name) VALUES (?, 'X', 'Mine')",
            f"@petra:{SERVER}",
        ),
        "something is said later": sql(
            "INSERT INTO delayed_events VALUES ('d', 'robin', 'X', 1, 1, 'r', 't', NULL, 1, '{}',"
            " 0, NULL)"
        ),
        "words are put into somebody's mouth": sql(
            "UPDATE event_json SET json = replace(json, 'insult', 'delight')", is_state=False
        ),
        "an event is no document": sql("UPDATE event_json SET json = '{' WHERE rowid = 30"),
        "a trigger is planted": sql(
            "CREATE TRIGGER t AFTER INSERT ON events BEGIN DELETE FROM users; END"
        ),
        "a table is added": sql("CREATE TABLE mine (id INTEGER PRIMARY KEY)"),
        "a file is hidden among the media": Way(hidden_file),
        "an upload is exchanged": Way(upload_changed),
        "the database may be read by all": Way(
            lambda s: (s.home / "homeserver.db").chmod(0o644), is_state=False
        ),
    }

    @classmethod
    def pack(cls) -> SandboxPack:
        return sandbox_pack("chat")


@pytest.fixture
def chat(running):
    running.reset()
    return running


def rows(system, name: str) -> list[dict]:
    [source] = system.sources()
    captured = take((source,), MemoryChunks(), clock, None, "before").parts[0]
    return [row for _, row in captured.state.tables[name].rows()]


def test_the_token_of_a_trial_opens_nothing_in_the_next(chat):
    old = urlsplit(chat.url).password or ""
    assert status(chat, "GET", "/account/whoami") == 200
    chat.reset()
    assert status(chat, "GET", "/account/whoami", token=old) == 401
    assert status(chat, "GET", "/account/whoami") == 200


def test_nothing_of_an_earlier_trial_is_in_the_servers_memory(chat):
    say(chat, "remember me")
    set_state(chat, "m.room.topic", {"topic": "remember me"})
    chat.reset()
    topic = ask(chat, "GET", f"{place(chat, 'warehouse')}/state/m.room.topic/")
    assert topic["topic"] == "Docks, shifts and forklifts"
    found = ask(chat, "GET", f"{place(chat, 'care')}/messages?dir=b&limit=100")
    assert "remember me" not in str(found)
    assert say(chat, "it goes on").startswith("$")


def test_what_the_account_has_no_power_for_the_server_refuses(chat):
    who = {"user_id": f"@win-big:{SERVER}"}
    assert status(chat, "POST", f"{place(chat, 'suppliers')}/ban", who) == 403
    assert status(chat, "POST", f"{place(chat, 'social')}/ban", who) == 200
    assert status(chat, "GET", f"/admin/whois/{quote(f'@petra:{SERVER}')}") == 403


def test_a_server_that_was_killed_is_replaced_by_a_reset(chat):
    os.kill(chat.process.pid, signal.SIGKILL)
    time.sleep(0.1)
    assert "its server" in [drift.what for drift in chat.verify()[1]]
    assert chat.unsettled(time.monotonic()) == "the chat's server does not answer"
    chat.reset()
    proof, drift = chat.verify()
    assert not drift
    assert proof.expected == proof.found


def test_an_unplugged_chat_is_unread_until_the_next_reset(chat):
    [source] = chat.sources()
    source.schema()
    chat.unplug("chat")
    with pytest.raises(SourceUnavailable):
        source.read(MemoryChunks(), clock, None)
    chat.reset()
    assert rows(chat, "room")


def test_an_edited_message_says_what_people_read_and_the_edit_is_there_too(chat):
    event = say(chat, "at noon")
    new = {"msgtype": "m.text", "body": "at one"}
    relation = {"rel_type": "m.replace", "event_id": event}
    say(chat, "* at one", number="2", **{"m.new_content": new, "m.relates_to": relation})
    [told] = (row for row in rows(chat, "post") if row["id"] == event)
    assert (told["text"], told["is_edited"]) == ("at one", True)
    assert [row["text"] for row in rows(chat, "edit")] == ["at one"]


def test_nobody_elses_edit_changes_what_a_message_says(chat):
    [mine] = (row for row in rows(chat, "post") if row["text"] == "Is that spam?")
    new = {"msgtype": "m.text", "body": "Buy!"}
    relation = {"rel_type": "m.replace", "event_id": mine["id"]}
    say(chat, "* Buy!", "social", **{"m.new_content": new, "m.relates_to": relation})
    [told] = (row for row in rows(chat, "post") if row["id"] == mine["id"])
    assert (told["text"], told["is_edited"]) == ("Is that spam?", False)


def test_of_a_redacted_message_it_remains_that_it_was_there(chat):
    event = say(chat, "a secret")
    ask(chat, "PUT", f"{place(chat, 'care')}/redact/{quote(event)}/9", {"reason": "no"})
    [told] = (row for row in rows(chat, "post") if row["id"] == event)
    assert (told["text"], told["is_redacted"]) == (None, True)
    assert ("no", event) in [(row["reason"], row["event"]) for row in rows(chat, "redaction")]


def test_the_levels_of_a_room_are_rows_those_of_the_protocol_among_them(chat):
    set_state(chat, "m.room.power_levels", {"users": {f"@robin:{SERVER}": 100}}, "gull")
    gull = room(chat, "gull")
    rules = {row["action"]: row["level"] for row in rows(chat, "power_rule") if row["room"] == gull}
    assert rules == {
        "ban": 50, "events_default": 0, "invite": 0, "kick": 50, "redact": 50,
        "state_default": 50, "users_default": 0,
    }  # fmt: skip


def test_no_secret_is_in_what_is_captured(chat):
    [source] = chat.sources()
    captured = take((source,), MemoryChunks(), clock, None, "before").parts[0]
    shown = repr([list(table.rows()) for table in captured.state.tables.values()])
    assert (urlsplit(chat.url).password or "") not in shown
    assert "$2b$" not in shown


@pytest.mark.parametrize(
    "text",
    [
        "\N{RIGHT-TO-LEFT OVERRIDE}\N{ZERO WIDTH SPACE}",
        "\0",
        "\N{MATHEMATICAL SCRIPT CAPITAL X}" * 10_000,
        "'; DROP TABLE--",
    ],
    ids=["bidi", "nul", "long", "sql"],
)
def test_odd_words_are_captured_as_they_are(chat, text):
    if "\0" in text:
        assert status(chat, "PUT", f"{place(chat, 'care')}/send/m.room.message/7",
                      {"msgtype": "m.text", "body": text}) in (200, 400)  # fmt: skip
        text = "after"
    event = say(chat, text)
    [told] = (row for row in rows(chat, "post") if row["id"] == event)
    assert told["text"] == text


def test_a_document_too_deep_to_read_stays_a_row_and_ends_nothing(chat):
    deep = "[" * 5000 + "]" * 5000
    execute(
        chat,
        "UPDATE event_json SET json = ? WHERE event_id = (SELECT event_id FROM events"
        " WHERE type = 'm.room.message' LIMIT 1)",
        deep,
    )
    assert len(rows(chat, "event_json")) == len(rows(chat, "events")) == 1


def test_a_chat_whose_database_is_another_is_ruined_not_empty(chat):
    [source] = chat.sources()
    before = take((source,), MemoryChunks(), clock, None, "before").parts[0]
    execute(chat, "DROP TABLE users")
    after = take((source,), MemoryChunks(), clock, None, "before").parts[0]
    assert before.state.tables["user"].rows
    assert [row for _, row in after.state.tables["user"].rows()] == []


def test_what_a_person_uploaded_is_known_by_its_digest(chat):
    [before] = rows(chat, "media")
    [file] = (p for p in (chat.home / "media").rglob("*") if p.is_file())
    file.write_bytes(b"other")
    [after] = rows(chat, "media")
    assert before["digest"] != after["digest"]
    assert Path(file).name in before["id"]
