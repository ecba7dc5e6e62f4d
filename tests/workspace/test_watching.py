"""States at hand, watched over a block of code: what changed, and whether it was allowed."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

import statediff
from statediff.errors import ContractError, InputError, UsageError
from statediff.workspace.inputs import StateFile, url_without_password

CONTRACT = """
contract: app/rename
version: 1.0.0
owner: support
intent: Rename user 2 and change nothing else.
require:
  - id: renamed
    update: user
    where: it.id == 2
    set: {name: Robert}
"""


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "app.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "CREATE TABLE user(id INTEGER PRIMARY KEY, name TEXT, role TEXT);"
            "INSERT INTO user VALUES (1, 'Ada', 'admin'), (2, 'Bob', 'user');"
        )
    return path


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def test_a_block_is_watched_and_its_changes_are_listed(database: Path) -> None:
    with statediff.watch(db=database, settle_seconds=0) as run:
        execute(database, "UPDATE user SET name = 'Robert' WHERE id = 2")
    [delta] = run.changes
    assert (delta["type"], delta["key"], delta["path"]) == ("user", 2, "name")
    assert run.judged is None


@pytest.mark.parametrize(
    ("statement", "verdict"),
    [
        ("UPDATE user SET name = 'Robert' WHERE id = 2", "MATCH"),
        ("UPDATE user SET name = 'Robert'", "DIVERGE"),
        ("SELECT 1", "DIVERGE"),
        ("DROP TABLE user", "DIVERGE"),
    ],
)
def test_under_a_contract_it_is_judged(database: Path, statement: str, verdict: str) -> None:
    contract = statediff.load_contract(CONTRACT)
    with statediff.watch(contract, db=database, settle_seconds=0) as run:
        execute(database, statement)
    assert run.judged is not None
    assert run.judged.verdict.value == verdict
    assert statediff.replay(run.judged).value == verdict


def test_a_block_that_raises_is_seen_all_the_same(database: Path) -> None:
    watched = statediff.watch(db=database, settle_seconds=0)

    def fail() -> None:
        with watched:
            execute(database, "DELETE FROM user WHERE id = 1")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [delta["op"] for delta in watched.changes] == ["delete"]


def test_it_is_for_async_code_too(database: Path) -> None:
    async def act() -> int:
        async with statediff.watch(db=database, settle_seconds=0) as run:
            execute(database, "DELETE FROM user WHERE id = 1")
        return len(run.changes)

    with ThreadPoolExecutor(1) as apart:  # whatever loop a test before this one left running
        assert apart.submit(lambda: asyncio.run(act())).result() == 1


def test_tables_in_json_keep_what_they_were_before(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"user": [{"id": 1, "age": 3}]}))
    with statediff.watch(t=path, settle_seconds=0) as run:
        path.write_text(json.dumps({"user": [{"id": 1, "age": "three"}]}))
    [delta] = run.changes
    assert (delta["before"], delta["after"]) == (3, "three")


def test_a_contract_that_does_not_fit_is_refused_before_anything_runs(database: Path) -> None:
    contract = statediff.load_contract(CONTRACT.replace("update: user", "update: nobody"))
    with (
        pytest.raises(ContractError, match="unknown entity type"),
        statediff.watch(contract, db=database),
    ):
        pytest.fail("the block ran")


def test_a_state_that_the_run_takes_away_is_never_a_match(database: Path) -> None:
    contract = statediff.load_contract(CONTRACT)
    with statediff.watch(contract, db=database, settle_seconds=0) as run:
        execute(database, "UPDATE user SET name = 'Robert' WHERE id = 2")
        database.unlink()
    assert run.judged is not None
    assert run.judged.verdict.value != "MATCH"


def _elsewhere(path: Path) -> Path:
    away = path.with_name("away")
    away.mkdir()
    return path.rename(away / path.name)


def _replaced(path: Path) -> None:
    shutil.copyfile(path, path.with_name("copy"))
    path.with_name("copy").replace(path)


KINDS: Final[dict[str, tuple[Callable[[Path], object], str]]] = {
    "a link to it": (lambda path: path.symlink_to(_elsewhere(path)), "DIVERGE"),
    "another name of another file": (
        lambda path: path.hardlink_to(shutil.copyfile(_elsewhere(path), path.with_name("b"))),
        "DIVERGE",
    ),
    "a folder above it that is a link": (
        lambda path: path.parent.symlink_to(path.parent.rename(path.parent.with_name("b"))),
        "DIVERGE",
    ),
    "a file that a program wrote anew": (_replaced, "MATCH"),
    "a file with another name besides": (
        lambda path: path.with_name("c").hardlink_to(path),
        "MATCH",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_kind_of_file_a_path_is_is_state(tmp_path: Path, database: Path, kind: str) -> None:
    make, verdict = KINDS[kind]
    (tmp_path / "above").mkdir()
    path = database.rename(tmp_path / "above" / database.name)
    contract = statediff.load_contract(CONTRACT)
    with statediff.watch(contract, db=path, settle_seconds=0) as run:
        execute(path, "UPDATE user SET name = 'Robert' WHERE id = 2")
        make(path)
    assert run.judged is not None
    assert run.judged.verdict.value == verdict


def test_a_link_that_was_there_before_may_stay(tmp_path: Path, database: Path) -> None:
    link = tmp_path / "link.sqlite"
    link.symlink_to(database)
    contract = statediff.load_contract(CONTRACT)
    for ends, verdict in ((lambda: None, "MATCH"), (lambda: _replaced(link), "DIVERGE")):
        with statediff.watch(contract, db=link, settle_seconds=0) as run:
            execute(link, "UPDATE user SET name = 'Robert' WHERE id = 2")
            ends()
        assert run.judged is not None
        assert run.judged.verdict.value == verdict
        execute(link, "UPDATE user SET name = 'Bob' WHERE id = 2")


def test_what_cannot_be_watched_is_named() -> None:
    for states, error, message in (
        ({}, UsageError, "nothing is watched"),
        ({"db": "gone.sqlite"}, UsageError, "found nothing"),
        ({"db": "redis://localhost/0"}, UsageError, "postgresql://"),
        ({"db": "-"}, UsageError, "standard input cannot be watched"),
    ):
        with pytest.raises(error, match=message), statediff.watch(**states):
            pytest.fail("the block ran")


def test_a_server_that_is_not_there_is_named_without_the_password() -> None:
    pytest.importorskip("psycopg")
    url = "postgresql://ada:gehe@im@127.0.0.1:1/shop"
    with (
        pytest.raises(InputError, match="cannot be reached") as caught,
        statediff.watch(db=url),
    ):
        pytest.fail("the block ran")
    assert "gehe" not in str(caught.value)
    assert "im@" not in str(caught.value)
    assert "postgresql://ada@127.0.0.1:1/shop" in str(caught.value)
    assert "\\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:p@h:1/d?password=q", "postgresql://u@h:1/d"),
        ("mysql://h/d", "mysql://h/d"),
        ("postgresql://u:p%40@h/d", "postgresql://u@h/d"),
        ("postgresql://u:p@x@h/d", "postgresql://u@h/d"),
        ("postgresql:///d?user=u&password=p", "postgresql:///d"),
    ],
)
def test_no_password_is_in_what_messages_show(url: str, shown: str) -> None:
    assert url_without_password(url) == shown


def test_a_url_of_a_file_is_its_path(database: Path) -> None:
    found = StateFile.parse(f"db=sqlite:///{database}")
    assert (found.path, found.url) == (database, None)


def test_tables_of_files_and_of_folders_are_watched(tmp_path: Path) -> None:
    """The state before is kept: after the run the file holds another one."""
    (tmp_path / "folder").mkdir()
    one, two = tmp_path / "user.csv", tmp_path / "folder" / "order.tsv"
    one.write_text("id,name\n1,Ada\n")
    two.write_text("id\ttotal\n7\t3\n")
    with statediff.watch(u=one, t=f"tables://{two.parent}", settle_seconds=0) as run:
        one.write_text("id,name\n1,Bob\n")
        two.write_text("id\ttotal\n7\t4\n")
    assert {(d["type"], d["before"], d["after"]) for d in run.changes} == {
        ("user", "Ada", "Bob"),
        ("order", 3, 4),
    }


@pytest.mark.parametrize(
    ("name", "text"), [("a.json", "[1,"), ("a.py", "x"), ("a.csv", "a;b\n1;2\n")]
)
def test_a_state_that_is_kept_as_a_copy_is_called_by_its_own_path(
    tmp_path: Path, name: str, text: str
) -> None:
    place = tmp_path / name
    place.write_text(text)
    with pytest.raises(InputError) as once:
        statediff.judge(CONTRACT, place, place)
    for begin in (
        lambda: statediff.Judge(CONTRACT, place).score(place),
        statediff.watch(db=place).__enter__,
    ):
        with pytest.raises(InputError) as kept:
            begin()
        assert str(kept.value) == str(once.value)
        assert str(place) in str(once.value)
