"""A path that looks like another kind of system since the run is what the run made of it."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pygit2
import pytest

import statediff
from statediff.errors import UsageError
from statediff.model.verdict import Verdict

NOTHING = """
contract: test/nothing
version: 1.0.0
owner: tests
intent: Change nothing at all.
noop: true
"""


def database(place: Path) -> None:
    with closing(sqlite3.connect(place)) as connection:
        connection.executescript(
            "CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)"
        )


def tables(place: Path) -> None:
    place.write_text('{"t": [{"id": 1}]}', encoding="utf-8")


def folder(place: Path) -> None:
    place.mkdir()
    (place / "a.txt").write_text("one\n", encoding="utf-8")


def repository(place: Path) -> None:
    folder(place)
    found = pygit2.init_repository(place)
    who = pygit2.Signature("A", "a@x.example", 0)
    found.index.add_all()
    found.create_commit("HEAD", who, who, "one", found.index.write_tree(), [])


def without_git(place: Path) -> None:
    repository(place)
    shutil.rmtree(place / ".git")


@pytest.mark.parametrize(
    ("was", "became"),
    [
        (database, folder), (database, tables), (tables, database),
        (folder, tables), (folder, database), (folder, repository),
        (repository, without_git), (repository, tables),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["it=", ""])
def test_it_is_a_change_whatever_it_looks_like(
    tmp_path: Path, was: Callable[[Path], None], became: Callable[[Path], None], name: str
) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    was(before)
    became(after)
    contract = statediff.load_contract(NOTHING)
    sides = f"{name}{before}", f"{name}{after}"
    assert statediff.judge(contract, *sides).verdict is Verdict.DIVERGE
    assert statediff.Judge(contract, sides[0]).score(sides[1]).verdict is Verdict.DIVERGE
    assert statediff.judge(contract, sides[0], sides[0]).verdict is Verdict.MATCH


def test_two_states_that_no_run_is_known_to_link_are_of_one_kind(tmp_path: Path) -> None:
    database(tmp_path / "before")
    folder(tmp_path / "after")
    names = [f"it={tmp_path / name}" for name in ("before", "after")]
    with pytest.raises(UsageError, match=r"^it: one side is a SQLite database"):
        statediff.changes(*names)
