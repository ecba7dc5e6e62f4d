"""What is a secret is replaced, what is none stays, and no agent can hide behind the word."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.agents.tracefile import read_trace_file
from statediff.agents.veil import MARK, Veil, file_veil, is_secret_name, live_veil
from statediff.model.trace import ActionClass
from statediff.model.values import Map
from tests.agents.test_native import Setting

PLAIN = (
    "order 1009 is refunded: 12.50 EUR", "max_tokens: 100, next_page_token", "key: PROJ-12",
    "SELECT token_count FROM usage WHERE id = 7", "3f1c6a52-6d0f-4a6e-9a6c-2f7c0a4f8f55",
    "https://example.com/a?page=2&key=PROJ-1", "the secret garden", "pass: 120, fail: 3",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "mailto:ada@example.com", "Basic plan", "token bucket", "sk-1", "git push origin main",
)  # fmt: skip
NAMES = (
    "password", "Password", "apiKey", "api_key", "X-Api-Key", "Authorization", "clientSecret",
    "access_token", "Set-Cookie", "db_password", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "pin",
)  # fmt: skip
NO_NAMES = (
    "key", "keys", "order", "tokens", "max_tokens", "nextPageToken", "continuation_token",
    "sort_key",
    "primary_key", "author", "spinner", "shipping",
)  # fmt: skip


@pytest.mark.parametrize("text", PLAIN)
def test_what_is_no_secret_stays(text: str) -> None:
    assert live_veil().text(text) == text
    assert live_veil().value({"note": text, "n": [text]}) == {"note": text, "n": [text]}


@pytest.mark.parametrize("name", NAMES)
def test_what_has_the_name_of_a_secret_is_one_of_any_kind(name: str) -> None:
    assert is_secret_name(name)
    found = file_veil().value(
        {name: "a b", "x": {name: 7, "y": 1}, "z": [{"name": name, "value": "c"}]}
    )
    assert found == {
        name: "secret-1", "x": {name: "secret-2", "y": 1},
        "z": [{"name": name, "value": "secret-3"}],
    }  # fmt: skip
    assert file_veil().value(Map.of({name: "a"})) == Map.of({name: "secret-1"})
    assert file_veil().value({name: None, "a": {name: ""}}) == {name: None, "a": {name: ""}}


@pytest.mark.parametrize("name", NO_NAMES)
def test_other_names_hold_none(name: str) -> None:
    assert not is_secret_name(name)


SAFE = st.text(st.sampled_from("abcXYZ019-_ .:=/@&'\"{}[],\n\ud800é"), max_size=60)


@given(SAFE, st.sampled_from(["password=", "api_key: ", "https://u:", "--token ", "Bearer "]), SAFE)
def test_replacing_twice_replaces_no_more_and_equal_secrets_stay_equal(
    one: str, word: str, other: str
) -> None:
    veil = live_veil()
    text = f"{one} {word}hunter2hunter@h {other}"
    once = veil.text(text)
    assert "hunter2hunter" not in once
    assert (
        veil.value({"password": one})["password"] == veil.value([{"password": one}])[0]["password"]
    )
    assert veil.value(veil.value({"password": text})) == veil.value({"password": text})


@pytest.mark.parametrize(
    "text",
    [
        "X_PASSWORD=$(rm -rf /data) true", "password=; rm -rf /data", "token=`rm -rf /data`",
        'password="$(rm -rf /data)"', "password: x | rm -rf /data", '"password": "a; rm -rf /data"',
    ],
)  # fmt: skip
def test_nothing_that_runs_hides_behind_the_word(text: str) -> None:
    assert "rm -rf /data" in live_veil().text(text)


def test_what_an_agent_calls_a_secret_is_not_hidden_elsewhere_in_what_is_judged() -> None:
    veil = live_veil()
    veil.value({"password": "DROP-orders-2024"})
    assert veil.text("run DROP-orders-2024") == "run DROP-orders-2024"
    assert "DROP" not in veil.text("run DROP-orders-2024", with_met=True)


def test_a_password_of_a_systems_url_is_known_wherever_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STATEDIFF_PASSWORD_DB", "fromEnv1ronment")
    veil = live_veil(["postgresql://ada:pg%40Pass77@h/x"])
    for secret in ("pg%40Pass77", "pg@Pass77", "fromEnv1ronment"):
        assert secret not in veil.text(f"it said {secret} to me")


def test_a_file_gives_the_same_trace_each_time_and_names_by_order(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    lines = [{"tool": "login", "arguments": {"password": word}} for word in ("b", "a", "b")]
    path.write_text("\n".join(map(json.dumps, lines)))
    first, again = read_trace_file(path), read_trace_file(path)
    assert first == again
    told = [dict(each.arguments.items)["password"] for each in first.actions]  # type: ignore[union-attr]
    assert told == ["secret-1", "secret-2", "secret-1"]


@pytest.fixture
def setting(tmp_path: Path) -> Iterator[Setting]:
    made = Setting(tmp_path)
    yield made
    made.proxy.close()
    made.server.shutdown()
    made.server.server_close()


def test_the_proxy_passes_secrets_and_records_none_of_them(setting: Setting) -> None:
    form = {"Content_Type": "application/x-www-form-urlencoded"}
    _, content = setting.ask("POST", "/x?api_key=Kq81hz", b"password=h%21nter2&n=1", **form)
    assert b"Kq81hz" in content
    assert b"h%21nter2" in content
    (call,) = setting.calls()
    text = repr(call)
    assert "Kq81hz" not in text  # in the answer, which repeats what was asked, as little
    assert "nter2" not in text
    assert "&n=1" in text
    assert MARK in text
    assert isinstance(setting.recorder.veil, Veil)


FORM = "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("method", "kind", "body", "class_"),
    [
        ("POST", FORM, "_method=delete&id=7", ActionClass.IRREVERSIBLE_DELETION),
        ("POST", FORM, "_method=PATCH", ActionClass.CONDITIONAL_UPDATE),
        ("POST", "", "id=7&_method=DELETE", ActionClass.IRREVERSIBLE_DELETION),
        ("POST", "application/json", '{"_method": "delete"}', ActionClass.IRREVERSIBLE_DELETION),
        ("POST", FORM, "%40action=retire", ActionClass.IRREVERSIBLE_DELETION),
        ("POST", FORM, "@action=edit", ActionClass.CONDITIONAL_UPDATE),
        ("POST", FORM, "@action=login", ActionClass.UNKNOWN),
        ("POST", FORM, "_method=get", ActionClass.UNKNOWN),
        ("POST", FORM, "_method=put&_method=delete", ActionClass.UNKNOWN),
        ("PUT", FORM, "_method=delete", ActionClass.UNKNOWN),
        ("GET", FORM, "_method=delete", ActionClass.UNKNOWN),
        ("POST", FORM, "method=delete", ActionClass.CONDITIONAL_UPDATE),
        ("POST", "multipart/form-data; boundary=b",
         '--b\r\nContent-Disposition: form-data; name="_method"\r\n\r\ndelete\r\n--b--\r\n',
         ActionClass.IRREVERSIBLE_DELETION),
    ],
)  # fmt: skip
def test_a_form_that_orders_another_method_is_of_its_class(
    setting: Setting, method: str, kind: str, body: str, class_: ActionClass
) -> None:
    setting.ask(method, "/x", body.encode(), **({"Content_Type": kind} if kind else {}))
    (call,) = setting.calls()
    assert call.action_class is class_
    assert (call.transactions is None) == (class_ is ActionClass.UNKNOWN)
