"""The evaluator's own secrets are taken out of records: all of each, and not a character beside."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from statediff.agents.own_secrets import OWN, OwnSecrets, entrusted_in
from statediff.model.trace import Action, Trace
from statediff.model.values import Map

URL = "postgresql://ada:pg%40Pass77@h/x"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in os.environ:
        monkeypatch.delenv(name)
    return monkeypatch


def test_what_is_certainly_a_secret_is_taken_out_wherever_it_stands(
    environment: pytest.MonkeyPatch,
) -> None:
    environment.setenv("STATEDIFF_PASSWORD_DB", "fromEnv1ronment")
    environment.setenv("PLACE", "mysql://root:inTheUrl88@h:3306/x")
    environment.setenv("ANYTHING", "sk-ant-api03-" + "Zz9" * 8)
    environment.setenv("MODEL_API_KEY", "f93kQ7Zs0pLw2xTt")
    own = OwnSecrets.of([URL], ["mk-93hfk2LqPz01"])
    for secret in ("pg%40Pass77", "pg@Pass77", "fromEnv1ronment", "inTheUrl88", "mk-93hfk2LqPz01",
                   "sk-ant-api03-" + "Zz9" * 8, "f93kQ7Zs0pLw2xTt"):  # fmt: skip
        said = f"DROP{secret}TABLE; token={secret} email"
        assert own.text(said) == f"DROP{OWN}TABLE; token={OWN} email", secret


NONE = {
    "PWD": "/tmp/tok3n-9fK2x8/agent7",
    "OLDPWD": "relative/agent7",
    "LANG": "en_US.UTF-8",
    "TOKEN": "email",
    "SECRET_KEY_FILE": "./keys/k8s9Xz2Lq7.pem",
    "API_KEY": "customers2",
    "PASSWORD": "correct horse battery staple 7",
    "HOME": "/root",
    "AGENT": "release-candidate-2",
    "GITHUB_SHA": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
}


def test_a_folder_a_language_and_an_ordinary_word_are_none(
    environment: pytest.MonkeyPatch,
) -> None:
    for name, value in NONE.items():
        environment.setenv(name, value)
    given = entrusted_in((name, NONE[name]) for name in ("PWD", "LANG", "TOKEN", "AGENT"))
    own = OwnSecrets.of(["postgresql://root:postgres@h/x"], given)
    assert own.values == ()


def test_a_variable_that_names_a_file_is_none(
    environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    environment.chdir(tmp_path)
    Path("k8s9Xz2Lq7Ab3").touch()
    environment.setenv("SIGNING_KEY", "k8s9Xz2Lq7Ab3")
    assert OwnSecrets.of().values == ()


def test_all_of_a_call_is_as_it_was_but_for_them() -> None:
    own = OwnSecrets.of([URL])
    call = Action(
        "call-1",
        "sql",
        arguments=Map.of({"password": "hunter2", "sql": "-- pg@Pass77 token=x", "n": 7}),
        principal="live81kf93jskeqp",
    )
    (found,) = own.trace(Trace((call,))).actions
    assert found.arguments == Map.of({"password": "hunter2", "sql": f"-- {OWN} token=x", "n": 7})
    assert found.principal == call.principal
    assert OwnSecrets.of().trace(Trace((call,))) == Trace((call,))
