"""Tokens of a Redmine, and what lies in its folders beside its database and its attachments."""

import os
from pathlib import Path

import pytest
from statediff_trackers.redmine.source import RedmineSource

from sandboxes.trackers.tests.redmine.test_source import TABLES, change, read, rows


@pytest.fixture
def home(tmp_path: Path) -> Path:
    place = tmp_path / "home"
    (place / "files" / "2025" / "01").mkdir(parents=True)
    change(place, TABLES)
    change(place, "INSERT INTO users (id, login) VALUES (1, 'admin')")
    return place


@pytest.fixture
def source(home: Path) -> RedmineSource:
    return RedmineSource("tracker", home, "redmine.db", "files", own=frozenset({"robin"}))


def new(source: RedmineSource, name: str, alter) -> list[dict]:
    before = rows(read(source), name)
    alter()
    after = read(source)
    assert after.state.tables[name].enumeration.is_complete
    return [row for row in rows(after, name) if row not in before]


@pytest.mark.parametrize("action", ["session", "autologin", "recovery", "api", "feeds"])
def test_a_token_of_somebody_else_is_told_with_its_owner_and_no_key(source, home, action):
    sql = f"INSERT INTO tokens VALUES (9, 1, '{action}', 'the-secret')"
    (token,) = new(source, "token", lambda: change(home, sql))
    assert (token["user_id"], token["action"]) == (1, action)
    assert "the-secret" not in str(token)


@pytest.mark.parametrize(
    ("action", "is_told"),
    [("session", False), ("feeds", False), ("api", True), ("recovery", True), ("autologin", True)],
)
def test_of_the_agents_own_tokens_only_what_signing_in_makes_is_no_change(
    source, home, action, is_told
):
    sql = f"INSERT INTO tokens VALUES (9, 4, '{action}', 'x')"
    assert bool(new(source, "token", lambda: change(home, sql))) is is_told


def test_a_token_that_is_given_to_somebody_else_is_told(source, home):
    change(home, "INSERT INTO tokens VALUES (9, 4, 'session', 'x')")
    (token,) = new(
        source, "token", lambda: change(home, "UPDATE tokens SET user_id = 1 WHERE id = 9")
    )
    assert (token["user_id"], token["action"]) == (1, "session")


ODD = {
    "more.db": lambda at: at.write_bytes(b"x"),
    "files/2025/01/planted.html": lambda at: at.write_bytes(b"x"),
    "files/delete.me": lambda at: at.write_bytes(b"x"),
    "files/__pycache__": Path.mkdir,
    "files/more": lambda at: at.symlink_to("/etc"),
    "config": Path.mkdir,
    "pipe": os.mkfifo,
}


@pytest.mark.parametrize("name", ODD)
def test_any_other_entry_of_its_folders_is_a_program(source, home, name):
    found = new(source, "program", lambda: ODD[name](home / name))
    assert [row["path"] for row in found] == [name]


def test_an_attachment_and_the_folder_of_its_month_are_none(source, home):
    def attach() -> None:
        (home / "files" / "2026" / "03").mkdir(parents=True)
        (home / "files" / "2026" / "03" / "a.txt").write_bytes(b"x")
        change(
            home,
            "INSERT INTO attachments (id, filename, disk_filename, disk_directory, filesize)"
            " VALUES (99, 'a.txt', 'a.txt', '2026/03', 1)",
        )

    assert new(source, "program", attach) == []
    held = next(row for row in rows(read(source), "attachment") if row["id"] == 99)
    assert (held["name"], held["size"]) == ("a.txt", 1)
    (row,) = new(source, "program", lambda: change(home, "DELETE FROM attachments WHERE id = 99"))
    assert row["path"] == "files/2026/03/a.txt"
