"""Profiles of frameworks: what is packed is read, and nothing is hidden."""

# ruff: noqa: E501 - a statement, or a clause, is read in one line

from __future__ import annotations

import sqlite3
import time
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import statediff
from statediff.contract.authoring.drafting import profiles_of
from statediff.contract.document.packed import PACKINGS, unpacked
from statediff.contract.document.profiles import shipped
from statediff.contract.file import load_contract, parse_contract
from statediff.errors import ContractError
from statediff.model.values import Map
from statediff.workspace.drafts import draft_of_states, write_drafts
from tests.frameworks.wordpress import php

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=8),
    lambda inner: st.dictionaries(st.integers(0, 5) | st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.integers(0, 5) | st.text(max_size=5), VALUES, max_size=4))
def test_what_php_packs_is_read_and_nothing_else_is(value: dict[Any, Any]) -> None:
    text = php(value)
    found = unpacked(text, "php")
    if isinstance(found, str):  # two keys that PHP takes for one, or that it never writes
        assert found == text
    else:
        keys = {*map(str, value)}
        assert (
            {n for n, _ in found.items} == keys
            if isinstance(found, Map)
            else len(found) == len(keys)
        )
    for other in (text + " ", text[:-1], " " + text, text.replace(":", "::", 1)):
        assert unpacked(other, "php") == other


@given(st.text(max_size=80), st.sampled_from(sorted(PACKINGS)))
def test_any_other_text_stays_the_text_that_it_is(text: str, packing: str) -> None:
    found = unpacked(text, packing)
    assert found == text or isinstance(found, Map | tuple)


def test_packings_have_bounds_and_never_raise() -> None:
    deep = "a:1:{i:0;" * 500 + "N;" + "}" * 500
    for text in (deep, "a:9999999:{", 's:9999999:"x";', 'a:1:{s:1:"x";d:NAN;}', "a:1:{i:00;N;}"):
        assert unpacked(text, "php") == text
    assert unpacked("1796014800:7", "wordpress") == Map.of({"time": 1796014800, "user": 7})
    lock = php({"time": 1796014800, "user": 7})
    assert unpacked(lock, "wordpress") == lock, "another text than the lock's"


HEAD = "contract: t/case\nversion: 1.0.0\nowner: desk\nintent: Change nothing but the login.\nnoop: true\n"
TABLES = {
    "rails@1": """
CREATE TABLE schema_migrations (version TEXT PRIMARY KEY);
CREATE TABLE ar_internal_metadata (key TEXT PRIMARY KEY);
CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT, sign_in_count INTEGER, updated_at DATETIME,
  current_sign_in_at DATETIME, current_sign_in_ip TEXT, last_sign_in_at DATETIME, last_sign_in_ip TEXT);
INSERT INTO users VALUES (1, 'ann', 4, '2026-01-01 10:00:00', '2026-01-01 10:00:00', '::1', NULL, NULL),
  (2, 'bob', 4, '2026-01-01 10:00:00', '2026-01-01 10:00:00', '::1', NULL, NULL);
""",
    "laravel@1": """
CREATE TABLE migrations (id INTEGER PRIMARY KEY, batch INTEGER);
CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT, remember_token TEXT);
CREATE TABLE sessions (id TEXT PRIMARY KEY, user_id INTEGER, ip_address TEXT, payload TEXT,
  last_activity INTEGER, user_agent TEXT);
INSERT INTO users VALUES (1, 'ann', NULL), (2, 'bob', NULL);
""",
}


def _payload(user: int, **more: Any) -> str:
    login = "login_web_59ba36addc2b2f9401580f014c7f58ea4e30989d"
    return b64encode(php({"_token": "x" * 40, login: user, **more}).encode()).decode()


def _session(user: int, at: float = 0, payload: str = "") -> str:
    return f"INSERT INTO sessions VALUES ('s{user}', {user}, '::1', '{payload or _payload(user)}', {int(at or time.time())}, 'agent')"


_NOW = "strftime('%Y-%m-%d %H:%M:%S', 'now')"
_SIGN_IN = f"UPDATE users SET sign_in_count = 5, current_sign_in_at = {_NOW}, updated_at = {_NOW}, last_sign_in_at = current_sign_in_at WHERE id = "
RUNS = [
    ("rails@1", lambda: _SIGN_IN + "1", "MATCH"),
    ("rails@1", lambda: _SIGN_IN + "2", "DIVERGE"),
    ("rails@1", lambda: _SIGN_IN.replace("= 5", "= 500") + "1", "DIVERGE"),
    ("rails@1", lambda: _SIGN_IN.replace(_NOW, "'9999-01-01 00:00:00'", 1) + "1", "DIVERGE"),
    ("rails@1", lambda: _SIGN_IN.replace("SET", "SET name = 'eve',") + "1", "DIVERGE"),
    ("laravel@1", lambda: _session(1), "MATCH"),
    ("laravel@1", lambda: _session(2), "DIVERGE"),
    ("laravel@1", lambda: _session(1, payload=_payload(2)), "DIVERGE"),
    ("laravel@1", lambda: _session(1, payload=_payload(1, admin=True)), "DIVERGE"),
    ("laravel@1", lambda: _session(1, at=4e9), "DIVERGE"),
]


@pytest.mark.parametrize(("name", "act", "verdict"), RUNS)
def test_a_login_is_of_the_user_and_of_the_run(
    name: str, act: Any, verdict: str, tmp_path: Path
) -> None:
    with sqlite3.connect(tmp_path / "app.db") as db:
        db.executescript(TABLES[name])
    found = draft_of_states("t/first", [f"db={tmp_path / 'app.db'}"])[1]
    write_drafts(tmp_path / "first", found.files)
    contract = f"{HEAD}use: {name}\ninputs: {{{name.partition('@')[0]}_user: 1}}\n"
    with statediff.watch(
        contract,
        schema=tmp_path / "first" / "schema.yaml",
        settle_seconds=0,
        db=tmp_path / "app.db",
    ) as run:
        with db:
            db.execute(act())
        db.close()
    assert run.judged is not None
    assert run.judged.verdict.value == verdict, run.judged.line
    assert statediff.replay(run.judged) is run.judged.verdict


def test_a_profile_of_ones_own_is_a_file_beside_the_contract(tmp_path: Path) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "shop@2.yaml").write_text(
        "inputs: {page: null}\n"
        'allow:\n  - id: seen\n    update: visit\n    where: it.id == "{page}"\n    fields: [hits]\n'
    )
    path = tmp_path / "contract.yaml"
    path.write_text(HEAD + "use: [shop@2]\ninputs: {page: home}\n")
    file = load_contract(path)
    assert parse_contract(file.data, "bundle").content == file.content, (
        "it replays without the file"
    )
    before = {"visit": [{"id": "home", "hits": 1}, {"id": "list", "hits": 1}]}
    for page, verdict in (("home", "MATCH"), ("list", "DIVERGE")):
        after = {
            "visit": [{**row, "hits": 2} if row["id"] == page else row for row in before["visit"]]
        }
        assert statediff.judge(file, before, after).verdict.value == verdict


@pytest.mark.parametrize(("used", "text", "said"), [
    ("own@1", b"\xff: 1", "own@1.yaml:1:1: expected UTF-8 text, found byte 0xff"),
    ("own@1", b"---\nallow: 5\n", "own@1.yaml:2:8: `allow`: expected a list, found 5"),
    ("own@1", b"---\nallow: [{update: t, where: '{page}'}]\n",
     "contract.yaml:6:6: expected a plain word or number as the input `page`, found `nothing`"),
    ("other@1", b"", "expected a profile, found `other@1`; there are django@1"),
    ("../own", b"", "`use`: expected a profile, or a list: name@version, found the text `../own`"),
    ('""', b"", "`use`: expected a profile, or a list: name@version, found empty text"),
])  # fmt: skip
def test_a_profile_that_is_none_is_an_error_at_its_place(
    used: str, text: bytes, said: str, tmp_path: Path
) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "own@1.yaml").write_bytes(text)
    path = tmp_path / "contract.yaml"
    path.write_text(f"{HEAD}use: {used}\n")
    with pytest.raises(ContractError) as caught:
        load_contract(path)
    assert said in str(caught.value)


def test_each_of_ours_says_what_it_is_of() -> None:
    assert [*shipped()] == ["django@1", "laravel@1", "rails@1", "wordpress@1"]
    for name, profile in shipped().items():
        assert next(iter(profile.inputs)) == f"{name.partition('@')[0]}_user"
        assert all(clause.id and clause.because for clause in profile.allow), name
    assert profiles_of({}) == {}
