"""Whatever is below a tracker's home is told: sessions, keys, and files that nobody expects."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from sandboxes.trackers.tests.roundup.test_source import read, rows
from statediff.model.state import Coverage
from statediff.model.values import Unobserved
from statediff.systems.sqlite.faults import OPERATORS


def told(source, change):
    before = read(source)
    change()
    after = read(source)
    return {
        name: [row for row in rows(after, name) if row not in rows(before, name)]
        for name in ("session", "one_time_key", "program")
    }, after


def in_store(home: Path, name: str, *statements: str) -> None:
    with closing(sqlite3.connect(home / "db" / name, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def ask(running):
    url = httpx.URL(running.access().urls["tracker"])
    origin = f"http://127.0.0.1:{url.port}"
    head = {"X-Requested-With": "x", "Origin": origin, "Referer": f"{origin}/helpdesk/"}
    answer = httpx.get(f"{url}rest/data/issue", headers=head, trust_env=False)
    assert answer.status_code == 200


def sign_in(running):
    url = httpx.URL(running.access().urls["tracker"])
    base = f"http://127.0.0.1:{url.port}/helpdesk/"
    sent = {
        "@action": "login",
        "__login_name": url.username,
        "__login_password": url.password,
    }
    answer = httpx.post(base, data=sent, headers={"Referer": base}, trust_env=False)
    assert "roundup_session" in answer.headers["set-cookie"]


def planted(user="admin", key="k" * 43):
    return f"INSERT INTO sessions VALUES ('{key}', '{{''user'': ''{user}''}}', 1e10)"


def test_requests_and_the_agents_own_sign_in_are_no_change(running, home, source):
    before = read(source).state
    ask(running)
    sign_in(running)
    ask(running)
    assert (home / "db" / "db-session").exists()
    after = read(source).state
    for name in ("session", "one_time_key", "program"):
        assert after.tables[name].chunks == before.tables[name].chunks, name
        assert after.tables[name].enumeration.is_complete


def test_a_session_of_somebody_else_is_one_with_its_owner_and_no_key(running, home, source):
    ask(running)
    found, _ = told(source, lambda: in_store(home, "db-session", planted()))
    (session,) = found["session"]
    assert session["user"] == "admin"
    assert "k" * 43 not in str(session)


@pytest.mark.parametrize(
    "value",
    [
        "{'user': 'robin', 'user': 'admin'}",
        "{'user': 'rob' 'in'}",
        "not evaluated",
        "{'use' 'r': 'admin'}",
    ],
)
def test_a_session_that_is_not_plainly_the_agents_own_is_told(running, home, source, value):
    ask(running)
    sql = "INSERT INTO sessions VALUES ('a', '{}', 1.0)".format(value.replace("'", "''"))
    found, _ = told(source, lambda: in_store(home, "db-session", sql))
    assert len(found["session"]) == 1


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o777])
def test_a_home_that_others_may_not_enter_or_may_write_is_a_program(home, source, mode):
    home.chmod(0o755)
    found, _ = told(source, lambda: home.chmod(mode))
    assert [(row["path"], row["mode"]) for row in found["program"]] == [(".", f"{mode:04o}")]


def test_two_sessions_of_one_key_are_two_rows(running, home, source):
    ask(running)
    both = (planted("admin"), planted("admin"))
    found, after = told(source, lambda: in_store(home, "db-session", *both))
    assert [row["position"] for row in found["session"]] == [1, 2]
    assert after.state.tables["session"].enumeration.is_complete


def test_a_key_for_a_new_password_is_one_time_key(running, home, source):
    ask(running)
    sql = "INSERT INTO otks VALUES ('z', '{''uid'': ''1'', ''email'': ''m@z''}', 1.0)"
    found, _ = told(source, lambda: in_store(home, "db-otk", sql))
    assert len(found["one_time_key"]) == 1
    sql = "UPDATE otks SET otk_value = '{''last_use'': 1.5, ''uid'': 1}' WHERE otk_key != 'z'"
    found, _ = told(source, lambda: in_store(home, "db-otk", sql))
    assert len(found["one_time_key"]) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON sessions BEGIN DELETE FROM sessions; END",
        "CREATE TABLE more (x)",
        "CREATE VIEW v AS SELECT 1",
        "DROP INDEX session_key_idx",
        "ALTER TABLE sessions RENAME TO other",
        "ALTER TABLE sessions ADD COLUMN more",
    ],
)
def test_a_store_of_another_form_is_a_program(running, home, source, statement):
    ask(running)
    found, _ = told(source, lambda: in_store(home, "db-session", statement))
    (odd,) = found["program"]
    assert odd["path"] == "db/db-session"


def test_a_store_whose_index_lacks_a_session_is_a_program(running, home, source):
    sign_in(running)
    found, _ = told(source, lambda: OPERATORS["index-entries"](home / "db" / "db-session"))
    assert [row["path"] for row in found["program"]] == ["db/db-session"]


def test_a_store_that_is_no_database_is_a_program_and_its_sessions_are_unobserved(home, source):
    path = home / "db" / "db-session"
    found, after = told(source, lambda: path.write_bytes(b"no database" * 1000))
    assert [row["path"] for row in found["program"]] == ["db/db-session"]
    assert after.state.tables["session"].enumeration.coverage is Coverage.UNOBSERVED


def write(at: Path, content: bytes = b"x") -> None:
    at.parent.mkdir(parents=True, exist_ok=True)
    at.write_bytes(content)


ODD = {
    "db/backend_name": lambda at: write(at, b"postgresql"),
    "__pycache__/schema.cpython-311.pyc": write,
    "html/__pycache__": write,
    "extensions/evil.py": write,
    "db/db-session2": write,
    "db/lock": write,
    "db/files/msg/0/msg9999": write,
    "db/files/msg/7/msg1": write,
    "db/files/msg/0/msg01": write,
    "db/files/msg/0/msg1.bak": write,
    "db/files/other/0/other1": write,
    "db/files/issue/0/issue1": write,
    "db/db-session": lambda at: at.symlink_to("/tmp/elsewhere"),
    "db/db-otk": os.mkfifo,
    "db/db-session-wal": lambda at: at.symlink_to("/tmp/elsewhere"),
    "detectors": Path.mkdir,
    "db/files/more": lambda at: at.symlink_to("/etc"),
}


@pytest.mark.parametrize("name", ODD)
def test_any_other_entry_of_the_home_is_a_program(home, source, name):
    def plant() -> None:
        (home / name).unlink(missing_ok=True)
        ODD[name](home / name)

    found, after = told(source, plant)
    assert name in [row["path"] for row in found["program"]]
    assert after.state.tables["program"].enumeration.is_complete
    assert not any(isinstance(row["content"], Unobserved) for row in found["program"])


def test_who_may_write_a_program_is_told(home, source):
    found, _ = told(source, lambda: (home / "schema.py").chmod(0o666))
    assert [(row["path"], row["mode"]) for row in found["program"]] == [("schema.py", "0666")]
