"""A Redmine's database as a source, from a small one of its tables; whole ones are in docker/."""

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from statediff_trackers.redmine.source import RedmineSource

from statediff.capture.source import SourceUnavailable, clock
from statediff.model.readings import SourceCapture
from statediff.model.state import MemoryChunks
from statediff.model.values import ABSENT, Unobserved

TABLES = """
CREATE TABLE users (id integer PRIMARY KEY, login varchar, hashed_password varchar, salt varchar,
    admin boolean, last_login_on datetime, twofa_totp_key varchar);
CREATE TABLE email_addresses (id integer PRIMARY KEY, user_id integer, address varchar,
    is_default boolean);
CREATE TABLE projects (id integer PRIMARY KEY, identifier varchar);
CREATE TABLE roles (id integer PRIMARY KEY, name varchar, permissions text);
CREATE TABLE members (id integer PRIMARY KEY, user_id integer, project_id integer);
CREATE TABLE member_roles (id integer PRIMARY KEY, member_id integer, role_id integer);
CREATE TABLE settings (id integer PRIMARY KEY, name varchar, value text, updated_on datetime);
CREATE TABLE tokens (id integer PRIMARY KEY, user_id integer, action varchar, value varchar);
CREATE TABLE custom_fields (id integer PRIMARY KEY, type varchar, name varchar,
    field_format varchar, multiple boolean);
CREATE TABLE custom_values (id integer PRIMARY KEY, customized_type varchar, customized_id integer,
    custom_field_id integer, value text);
CREATE TABLE issues (id integer PRIMARY KEY, subject varchar, status_id integer, author_id integer,
    created_on datetime, updated_on datetime, lock_version integer);
CREATE TABLE issue_relations (id integer PRIMARY KEY, issue_from_id integer, issue_to_id integer,
    relation_type varchar);
CREATE TABLE journals (id integer PRIMARY KEY, journalized_id integer, journalized_type varchar,
    user_id integer, notes text, created_on datetime, private_notes boolean);
CREATE TABLE journal_details (id integer PRIMARY KEY, journal_id integer, property varchar,
    prop_key varchar, old_value text, value text);
CREATE TABLE watchers (id integer PRIMARY KEY, watchable_type varchar, watchable_id integer,
    user_id integer);
CREATE TABLE attachments (id integer PRIMARY KEY, container_id integer, container_type varchar,
    filename varchar, disk_filename varchar, disk_directory varchar, filesize integer,
    author_id integer, created_on datetime);

INSERT INTO users VALUES (4, 'robin', 'a1b2c3', 'd4e5f6', 0, '2025-01-01 00:00:00', 'totp-key');
INSERT INTO email_addresses VALUES (1, 4, 'robin@desk.example', 1), (2, 4, 'r@desk.example', 0);
INSERT INTO projects VALUES (1, 'desk');
INSERT INTO roles VALUES (1, 'Staff', '--- []'), (2, 'Lead', '--- []');
INSERT INTO members VALUES (1, 4, 1);
INSERT INTO member_roles VALUES (1, 1, 2), (2, 1, 1);
INSERT INTO settings VALUES (1, 'app_title', 'Desk', '2025-01-01 00:00:00'),
    (2, 'mail_handler_api_key', 'mail-secret', NULL);
INSERT INTO tokens VALUES (1, 4, 'api', 'token-secret');
INSERT INTO custom_fields VALUES (1, 'IssueCustomField', 'Resolution', 'enumeration', 0),
    (2, 'IssueCustomField', 'Floors', 'list', 1), (3, 'UserCustomField', 'Room', 'string', 0);
INSERT INTO custom_values VALUES (1, 'Issue', 7, 1, '2'), (2, 'Issue', 7, 2, 'two'),
    (3, 'Issue', 7, 2, 'one'), (4, 'Issue', 8, 1, ''), (5, 'User', 4, 3, 'B 12');
INSERT INTO issues VALUES
    (7, 'Pink', 1, 4, '2025-01-02 08:00:00', '2025-01-02 09:00:00.250000', 3),
    (8, 'Blue', 1, 4, '2025-01-02 08:00:00', '2025-01-02 08:00:00', 0);
INSERT INTO issue_relations VALUES (1, 7, 8, 'duplicates'), (2, 8, 7, 'relates');
INSERT INTO journals VALUES
    (1, 7, 'Issue', 4, 'Closing.', '2025-01-02 09:00:00.251000', 0),
    (2, 7, 'Issue', 4, '', '2025-01-02 10:00:00', 0),
    (3, 8, 'Issue', 4, NULL, '2025-01-02 10:00:00', 0),
    (4, 8, 'Issue', 5, '', '2025-01-02 11:00:00', 0);
INSERT INTO journal_details VALUES
    (1, 1, 'attr', 'status_id', '1', '4'), (2, 1, 'cf', '1', NULL, '2'),
    (3, 2, 'relation', 'duplicates', NULL, '8'), (4, 3, 'relation', 'duplicated', NULL, '7'),
    (5, 4, 'attr', 'nosy', NULL, '4');
INSERT INTO watchers VALUES (1, 'Issue', 7, 4), (2, 'Wiki', 7, 4);
INSERT INTO attachments VALUES (1, 7, 'Issue', 'a.txt', '1_a.txt', '2025/01', 3, 4, NULL),
    (2, 7, 'Issue', 'b.txt', 'b.txt', '../..', 3, 4, NULL);
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "redmine.db")) as db:
        db.executescript(TABLES)
    (tmp_path / "files" / "2025" / "01").mkdir(parents=True)
    (tmp_path / "files" / "2025" / "01" / "1_a.txt").write_text("abc")
    (tmp_path.parent / "b.txt").write_text("outside")
    return tmp_path


def source(home: Path) -> RedmineSource:
    return RedmineSource("tracker", home, "redmine.db", "files")


def read(it: RedmineSource) -> SourceCapture:
    return it.read(MemoryChunks(), clock, None)


def rows(capture: SourceCapture, name: str) -> list[dict]:
    return [dict(row) for _, row in capture.state.tables[name].rows()]


def change(home: Path, script: str) -> None:
    with closing(sqlite3.connect(home / "redmine.db")) as db:
        db.executescript(script)


def test_an_issue_is_told_with_its_further_fields_and_without_what_redmine_derives(home):
    first, second = rows(read(source(home)), "issue")
    assert first["cf_1"] == 2
    assert first["cf_2"] == ("one", "two")
    assert first["duplicate_of"] == 8
    assert first["updated_on"] == datetime(2025, 1, 2, 9, tzinfo=UTC)
    assert second["cf_1"] is None
    assert second["cf_2"] == ()
    assert "lock_version" not in first


def test_who_changed_an_issue_last_is_whose_entry_belongs_to_its_time_of_change(home):
    change(home, "UPDATE journals SET user_id = 9 WHERE id = 2")  # a relation: changed no time
    first, _ = rows(read(source(home)), "issue")
    assert first["updated_by"] == 4


def test_the_history_tells_a_comment_twice_and_a_relation_where_it_begins(home):
    told = [
        (row["on"], row["item"], row["action"], row["field"], row["before"], row["after"])
        for row in rows(read(source(home)), "journal")
    ]
    assert told == [
        ("comment", 1, "create", None, None, None),
        ("issue", 7, "create", None, None, None),
        ("issue", 7, "set", "status_id", "1", "4"),
        ("issue", 7, "set", "cf_1", None, "2"),
        ("issue", 7, "set", "messages", None, None),
        ("issue", 7, "set", "duplicate_of", None, "8"),
        ("issue", 8, "create", None, None, None),
        ("issue", 8, "set", "nosy", None, "4"),
    ]


@pytest.mark.parametrize(
    "script",
    [
        "UPDATE journal_details SET value = '9' WHERE id = 4",
        "UPDATE journals SET user_id = 9 WHERE id = 3",
        "DELETE FROM journal_details WHERE id = 3",
    ],
)
def test_a_relation_that_the_other_issue_tells_otherwise_is_told_there_too(home, script):
    change(home, script)
    fields = [row["field"] for row in rows(read(source(home)), "journal") if row["item"] == 8]
    assert "relation: duplicated" in fields


def test_what_is_not_told_in_other_terms_stays_a_row_of_its_table(home):
    capture = read(source(home))
    assert [row["watchable_type"] for row in rows(capture, "watchers")] == ["Wiki"]
    assert [row["relation_type"] for row in rows(capture, "issue_relations")] == ["relates"]
    assert [row["value"] for row in rows(capture, "custom_values")] == ["B 12"]
    assert [(row["issue"], row["user"]) for row in rows(capture, "watcher")] == [(7, 4)]


def test_an_issue_that_is_a_duplicate_of_several_points_to_none_and_all_are_relations(home):
    change(home, "INSERT INTO issue_relations VALUES (3, 7, 9, 'duplicates')")
    capture = read(source(home))
    assert rows(capture, "issue")[0]["duplicate_of"] is None
    assert [row["id"] for row in rows(capture, "issue_relations")] == [1, 2, 3]


def test_an_account_has_its_roles_its_default_address_and_no_secret(home):
    capture = read(source(home))
    (user,) = rows(capture, "user")
    assert user["roles"] == ("Lead", "Staff")
    assert user["mail"] == "robin@desk.example"
    assert "last_login_on" not in user
    told = json.dumps([repr(rows(capture, name)) for name in capture.state.tables])
    for secret in ("a1b2c3", "d4e5f6", "totp-key", "mail-secret", "token-secret"):
        assert secret not in told


def test_another_password_or_key_is_another_digest(home):
    before = read(source(home))
    change(
        home,
        "UPDATE users SET salt = 'x'; UPDATE tokens SET value = 'y';"
        "UPDATE settings SET value = 'z' WHERE id = 2; UPDATE users SET twofa_totp_key = 'q'",
    )
    after = read(source(home))
    for name in ("user", "token", "setting"):
        assert rows(before, name) != rows(after, name)


def test_a_sign_in_and_the_time_of_a_setting_are_no_change(home):
    before = read(source(home))
    change(
        home, "UPDATE users SET last_login_on = NULL; UPDATE settings SET updated_on = '2031-01-01'"
    )
    assert read(source(home)).state.digest() == before.state.digest()


def test_an_attachment_is_its_content_and_none_outside_the_files_is_opened(home):
    first, second = rows(read(source(home)), "attachment")
    assert first["digest"].startswith("sha256:ba7816bf")
    assert second["digest"] == Unobserved("its place on disk is outside the tracker's files")
    (home / "files" / "2025" / "01" / "1_a.txt").unlink()
    assert rows(read(source(home)), "attachment")[0]["digest"] is ABSENT
    (home / "files" / "2025" / "01" / "1_a.txt").symlink_to("/etc/passwd")
    assert isinstance(rows(read(source(home)), "attachment")[0]["digest"], Unobserved)


@pytest.mark.parametrize(
    "script",
    [
        "ALTER TABLE journals DROP COLUMN notes",
        "ALTER TABLE issue_relations DROP COLUMN issue_from_id",
        "ALTER TABLE member_roles DROP COLUMN role_id",
        "ALTER TABLE watchers DROP COLUMN user_id",
        "DROP TABLE journals",
        "DROP TABLE custom_values; DROP TABLE roles; DROP TABLE watchers",
        "UPDATE journals SET journalized_id = 'seven', user_id = x'ff', created_on = 'never'",
        "UPDATE issues SET created_on = 7, updated_on = x'00', subject = x'ffff', status_id = 'x'",
        "UPDATE custom_values SET customized_id = NULL, custom_field_id = 'one', value = x'ff'",
        "UPDATE attachments SET disk_filename = x'ff', disk_directory = 7, container_type = 9",
        "UPDATE settings SET name = NULL; INSERT INTO settings (name) VALUES ('a'), ('a')",
        "UPDATE journal_details SET prop_key = NULL, property = 3, journal_id = 'x', value = 1.5",
        "CREATE TABLE comment (id integer PRIMARY KEY); CREATE TABLE token (x)",
    ],
)
def test_a_database_that_a_run_has_bent_is_read_as_it_is(home, script):
    it = source(home)
    before = read(it)
    change(home, script)
    after = it.read(MemoryChunks(), clock, before.state)
    assert after.state.digest() != before.state.digest()


def test_an_entry_of_the_history_without_a_time_makes_it_incomplete(home):
    change(home, "UPDATE journals SET created_on = 'never' WHERE id = 1")
    capture = read(source(home))
    assert not capture.reading.is_complete
    assert "4 entries of the history name no item or no time" in (capture.reading.cause or "")


def test_a_database_that_is_none_of_redmines_is_unavailable(tmp_path):
    with closing(sqlite3.connect(tmp_path / "redmine.db")) as db:
        db.execute("CREATE TABLE issues (id)")
    with pytest.raises(SourceUnavailable, match="not one of Redmine's"):
        read(source(tmp_path))
