"""A secret is shown to nobody, and what is none stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.evidence.disclosure.rules import Disclosure, is_secret_name
from statediff.model.codes import FindingCode
from statediff.model.explanation import Reason
from statediff.model.trace import Action, Excerpt, Trace
from statediff.model.values import Map
from statediff.model.verdict import Finding, Stage, Truth, Witness, WitnessRow

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
    assert Disclosure().text(text) == text
    assert Disclosure().value({"note": text, "n": [text]}) == {"note": text, "n": [text]}


@pytest.mark.parametrize("name", NAMES)
def test_what_has_the_name_of_a_secret_is_one_of_any_kind(name: str) -> None:
    assert is_secret_name(name)
    found = Disclosure().value(
        {name: "a b", "x": {name: 7, "y": 1}, "z": [{"name": name, "value": "c"}]}
    )
    assert found == {
        name: "secret-1", "x": {name: "secret-2", "y": 1},
        "z": [{"name": name, "value": "secret-3"}],
    }  # fmt: skip
    assert Disclosure().value(Map.of({name: "a"})) == Map.of({name: "secret-1"})
    assert Disclosure().value({name: None, "a": {name: ""}}) == {name: None, "a": {name: ""}}


@pytest.mark.parametrize("name", NO_NAMES)
def test_other_names_hold_none(name: str) -> None:
    assert not is_secret_name(name)


SAFE = st.text(st.sampled_from("abcXYZ019-_ .:=/@&'\"{}[],\n\ud800é"), max_size=60)


@given(SAFE, st.sampled_from(["password=", "api_key: ", "https://u:", "--token ", "Bearer "]), SAFE)
def test_replacing_twice_replaces_no_more_and_equal_secrets_stay_equal(
    one: str, word: str, other: str
) -> None:
    veil = Disclosure()
    text = f"{one} {word}hunter2hunter@h {other}"
    once = veil.text(text)
    assert "hunter2hunter" not in once
    assert (
        veil.value({"password": one})["password"] == veil.value([{"password": one}])[0]["password"]
    )
    assert veil.value(veil.value({"password": text})) == veil.value({"password": text})


def test_a_secret_is_sought_in_what_the_agent_printed_too() -> None:
    shown = Disclosure()
    shown.value({"password": "DROP-orders-2024"})
    assert "DROP" not in shown.elsewhere("run DROP-orders-2024")
    cut = "it printed a long line that was cut within: DROP-or"
    assert shown.elsewhere(cut).endswith("within: secret-1")


def test_names_are_numbers_of_the_first_appearance_so_nobody_can_try_guesses() -> None:
    calls = tuple(Action(f"call-{n}", "t", arguments=Map.of({"pin": n % 2})) for n in (1, 2, 3))
    told = Disclosure().trace(Trace(calls))
    assert [a.arguments.get("pin") for a in told.actions] == ["secret-1", "secret-2", "secret-1"]  # type: ignore[union-attr]


def test_a_digest_beside_a_beginning_with_a_secret_is_of_what_is_shown() -> None:
    body = Excerpt.of("password=hunter2hunter")
    told = {"digest": body.digest, "bytes": 22, "beginning": body.beginning}
    shown = Disclosure().value({"body": told})["body"]
    assert shown["digest"] == Excerpt.of(shown["beginning"]).digest != body.digest
    action = Action("call-1", "t", context=body)
    (call,) = Disclosure().trace(Trace((action,))).actions
    assert call.context is not None
    assert call.context.digest == Excerpt.of(call.context.beginning).digest != body.digest


@pytest.mark.parametrize("name", ["ada", "billing-operations", "root", "x" * 40])
def test_an_account_is_shown(name: str) -> None:
    shown = Disclosure().trace(Trace((Action("call-1", "t", principal=name),)))
    assert shown.actions[0].principal == name


@pytest.mark.parametrize("key", ["live81kf93jskeqp", "0a1b" * 10, "ghp_" + "a1B2" * 9])
def test_an_account_that_is_a_key_is_not(key: str) -> None:
    shown = Disclosure().trace(Trace((Action("call-1", "t", principal=key),)))
    assert shown.actions[0].principal == "secret-1"


FINDING = Finding(
    "login", FindingCode.STEP_FAILED, Stage.STEPS, Truth.FAILS,
    Reason.COMPARED(
        left=Reason.VALUE(value=("text", "hunter2hunter")), operator="==",
        right=Reason.VALUE(value=("int", "884422")), truth="FAILS",
    ),
    witness=Witness((WitnessRow("trace", "call", ("call-1",), (("password", "pw"),)),
                     WitnessRow("after", "user", (1,), (("password", "pw"),)))),
)  # fmt: skip


def test_a_finding_shows_no_more_than_the_calls_do_and_states_stay() -> None:
    assert Disclosure().findings((FINDING,)) == (FINDING,)
    shown = Disclosure()
    shown.value({"password": "hunter2hunter", "pin": 884422})
    (found,) = shown.findings((FINDING,))
    assert found.sentence.count("secret-") == 2
    assert [row.fields[0][1] for row in found.witness.rows] == ["secret-3", "pw"]
