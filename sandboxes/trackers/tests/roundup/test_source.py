import os
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest
from statediff_trackers.roundup.source import RoundupSource
from statediff_trackers.roundup.values import declared_classes, literal

from statediff.capture.source import SourceUnavailable, clock
from statediff.contract.document.refinement import refine
from statediff.contract.document.schemafile import load_schema_file
from statediff.kernel.diff import diff
from statediff.model.readings import SourceCapture
from statediff.model.state import Coverage, MemoryChunks
from statediff.model.values import ABSENT, Unobserved
from statediff.packs import sandbox_pack
from statediff.systems.relational.structure import STRUCTURE
from statediff.systems.sqlite.faults import OPERATORS
from tests.systems.files.test_owners import attach

AT = datetime(2025, 9, 2, 8, 31, tzinfo=UTC)


def read(source: RoundupSource) -> SourceCapture:
    return source.read(MemoryChunks(), clock, None)


def row(capture: SourceCapture, name: str, *key) -> dict:
    found = capture.state.tables[name].row(key)
    assert found is not None
    return found


def rows(capture: SourceCapture, name: str) -> list[dict]:
    return [each for _, each in capture.state.tables[name].rows()]


def execute(home: Path, statement: str, *values: object) -> None:
    connection = sqlite3.connect(home / "db" / "db", isolation_level=None)
    connection.execute(statement, values)
    connection.close()


def comment_file(home: Path, number: int) -> Path:
    return home / "db" / "files" / "msg" / "0" / f"msg{number}"


def test_items_are_told_under_the_packs_own_names(source):
    capture = read(source)
    assert capture.reading.is_complete
    assert row(capture, "issue", 21) == {
        "id": 21,
        "title": "Order number missing on our invoice",
        "component": 2,
        "priority": 2,
        "status": 2,
        "assignee": 4,
        "resolution": None,
        "closed_at": None,
        "duplicate_of": None,
        "created_at": datetime(2025, 10, 20, 11, 0, tzinfo=UTC),
        "created_by": 14,
        "updated_at": datetime(2025, 10, 20, 11, 40, tzinfo=UTC),
        "updated_by": 4,
        "is_deleted": False,
    }
    comment = row(capture, "comment", 1)
    assert (comment["issue"], comment["also_on"], comment["author"]) == (1, (), 5)
    assert comment["body"].startswith("1. A role is changed by a lead")
    assert row(capture, "user", 8)["name"] == "Tomás Ruiz"
    assert row(capture, "user", 4)["roles"] == ("Staff",)
    assert {(w["issue"], w["user"]) for w in rows(capture, "watcher") if w["issue"] == 20} == {
        (20, 6),
        (20, 10),
    }
    withdrawn = [c["id"] for c in rows(capture, "comment") if c["is_deleted"]]
    assert withdrawn == [15, 19, 21]


def test_the_journal_tells_each_changed_property_under_the_packs_own_names(source):
    told = [j for j in rows(read(source), "journal") if (j["on"], j["item"]) == ("issue", 16)]
    assert [(j["by"], j["action"], j["field"], j["before"]) for j in told] == [
        (11, "create", None, None),
        (5, "set", "assignee", None),
        (5, "set", "status", "1"),
        (4, "set", "messages", "+25"),
        (4, "set", "status", "2"),
        (11, "set", "messages", "+26"),
    ]
    assert told[1]["at"] == told[2]["at"]
    assert [j["position"] for j in told[1:3]] == [1, 2]


def test_reading_twice_gives_one_digest_and_changes_nothing(running, source):
    assert read(source).reading.digest == read(source).reading.digest
    assert running.verify(clock).ok


def test_a_password_is_a_digest_and_its_change_shows(source, home):
    before = read(source)
    execute(home, "UPDATE _user SET _password = '{PBKDF2S5}1000$aaaa$bbbb' WHERE id = 12")
    execute(
        home,
        "INSERT INTO user__journal VALUES (12, '20251201000000.000', '1', 'set', ?)",
        "{'password': '{PBKDF2S5}1000$cccc$dddd'}",
    )
    after = read(source)
    assert row(before, "user", 12)["password_digest"] is None
    assert row(after, "user", 12)["password_digest"].startswith("sha256:")
    everything = str([list(t.rows()) for t in after.state.tables.values()])
    assert "PBKDF2" not in everything
    assert "kettle" in everything  # it stands in a comment, where everybody can read it


def test_settings_and_programs_are_state_and_secrets_are_digests(source, home):
    before = read(source)
    config = home / "config.ini"
    config.write_text(config.read_text().replace("indexer = native", "indexer = none"))
    (home / "schema.py").write_text("raise SystemExit\n")
    (home / "html" / "elsewhere").symlink_to("/etc")
    after = read(source)
    assert row(before, "setting", "main.indexer")["value"] == "native"
    assert row(after, "setting", "main.indexer")["value"] == "none"
    assert row(after, "setting", "web.secret_key")["value"].startswith("sha256:")
    programs = {p["path"]: p["content"] for p in rows(after, "program")}
    assert programs["schema.py"] != row(before, "program", "schema.py")["content"]
    assert programs["html/elsewhere"] == "link to /etc"


def test_a_setting_behind_a_carriage_return_is_one_for_the_tracker_and_here(source, home):
    config = home / "config.ini"
    config.write_bytes(config.read_bytes() + b"\n# of old\n")
    before = read(source)
    config.write_bytes(config.read_bytes().replace(b"# of old", b"# of old\rdebug = yes"))
    new = [each for each in rows(read(source), "setting") if each not in rows(before, "setting")]
    assert new == [{"name": "mail.debug", "value": "yes"}]


@pytest.mark.parametrize("more", [b"[main]\nindexer = none\n", b"\xff\n"])
def test_settings_that_a_run_made_unreadable_are_its_change(source, home, more):
    assert "config.ini" not in {p["path"] for p in rows(read(source), "program")}
    config = home / "config.ini"
    config.write_bytes(config.read_bytes() + more)
    assert "cannot be read" in row(read(source), "program", "config.ini")["content"]


def test_what_a_run_adds_to_the_database_is_seen(source, home):
    before = read(source).state
    execute(home, "CREATE TABLE journal (x)")
    execute(home, "INSERT INTO journal VALUES (1)")
    execute(home, "DROP TABLE issue_nosy")
    capture = source.read(MemoryChunks(), clock, before)
    assert rows(capture, "watcher") == []
    assert capture.state.tables["watcher"].enumeration.is_complete
    new = [n for n in capture.state.tables if n not in before.tables]
    assert new == ["main.journal"]
    assert [each["x"] for each in rows(capture, "main.journal")] == [1]


def test_a_journal_entry_of_rubbish_is_kept_and_never_evaluated(source, home, tmp_path):
    mark = tmp_path / "ran"
    rubbish = [
        f"__import__('pathlib').Path({str(mark)!r}).touch()",
        "{'status': __import__('os')}",
        "(" * 100_000,
        "{'a': 1, 'a': 2}",
        "'" + "x" * 300_000 + "'",
        "{'x': 1e999}",
        "\ud800".encode("utf-8", "surrogatepass"),
        None,
    ]
    for number, params in enumerate(rubbish):
        execute(
            home,
            "INSERT INTO issue__journal VALUES (3, ?, 'nobody', 'set', ?)",
            f"202512010000{number:02d}.000",
            params,
        )
    capture = read(source)
    told = [j for j in rows(capture, "journal") if j["by"] == "nobody"]
    assert len(told) == len(rubbish)
    assert {j["field"] for j in told} == {None}
    assert [str(j["before"])[:7] for j in told] == ["sha256:"] * (len(rubbish) - 1) + ["NULL"]
    assert len({j["before"] for j in told}) == len(rubbish)
    assert not mark.exists()
    assert capture.state.tables["journal"].enumeration.is_complete


PARAMS = (
    "UPDATE issue__journal SET params = {} WHERE rowid = (SELECT {}(rowid) FROM issue__journal)"
)
BELOW_THE_ITEMS = {
    "no parameters at all": PARAMS.format("NULL", "min"),
    "empty parameters": PARAMS.format("''", "min"),
    "the word of another action": PARAMS.format("'None'", "min"),
    "other blanks": PARAMS.format("params || ' '", "max"),
    "a number with a zero before it": "UPDATE issue__journal SET tag = '0' || tag WHERE nodeid = 7",
    "a comment that is listed twice": "INSERT INTO issue_messages SELECT * FROM issue_messages",
    "a comment of no issue": "INSERT INTO issue_messages VALUES (1, 'x')",
    "an issue's comment that is not there": "INSERT INTO issue_messages VALUES (999, 7)",
    "an entry of no item": "INSERT INTO issue__journal VALUES (NULL, '2025', '4', 'set', '')",
    "retired in another way": "UPDATE _msg SET __retired__ = -1 WHERE __retired__ <> 0",
}


@pytest.mark.parametrize("name", BELOW_THE_ITEMS)
def test_no_cell_of_the_database_can_change_unseen(source, home, name):
    before = read(source).state
    execute(home, BELOW_THE_ITEMS[name])
    after = source.read(MemoryChunks(), clock, before).state
    assert diff(before, after).deltas


def test_pages_that_disagree_are_structure(source, home):
    before = read(source).state
    assert OPERATORS["free-list"](home / "db" / "db")
    capture = source.read(MemoryChunks(), clock, before)
    assert [each["page"] for each in rows(capture, STRUCTURE)] == [2]
    assert capture.state.tables[STRUCTURE].enumeration.is_complete


def test_entries_that_belong_to_nothing_leave_the_journal_incomplete(source, home):
    execute(home, "INSERT INTO issue__journal VALUES (NULL, '20251201000000.000', '4', 'set', '')")
    execute(home, "INSERT INTO issue__journal VALUES (3, NULL, '4', 'set', '')")
    capture = read(source)
    journal = capture.state.tables["journal"]
    assert journal.enumeration.coverage is Coverage.INCOMPLETE
    assert "2 entries of the journal name no item or no time" in str(journal.enumeration.cause)
    assert not capture.reading.is_complete
    assert capture.state.tables["issue"].enumeration.is_complete


def test_two_items_of_one_listing_are_both_told(source, home):
    execute(home, "INSERT INTO issue_messages (linkid, nodeid) VALUES (1, 7)")
    comment = row(read(source), "comment", 1)
    assert (comment["issue"], comment["also_on"]) == (1, (7,))


@pytest.mark.parametrize(
    ("harm", "cause"),
    [
        (lambda f: os.truncate(f, 20 * 1024 * 1024), "file of 20971520 bytes exceeds the capture"),
        (lambda f: (f.unlink(), f.symlink_to("/etc/passwd")), "msg7 is reached through a link"),
        (lambda f: (f.unlink(), os.mkfifo(f)), "msg7 is not a file"),
        (lambda f: (f.unlink(), f.mkdir()), "msg7 is not a file"),
        (
            lambda f: (f.parent.rename(f.parent.with_name("a")), f.parent.symlink_to("a")),
            "msg7 is reached through a link",
        ),
    ],
)
def test_a_text_that_is_no_plain_file_is_unobserved_with_the_cause(source, home, harm, cause):
    harm(comment_file(home, 7))
    comment = row(read(source), "comment", 7)
    assert isinstance(comment["body"], Unobserved)
    assert comment["body"].cause.startswith(cause)
    assert comment["author"] == row(read(source), "comment", 7)["author"]


def test_a_text_that_is_gone_is_absent_and_one_that_is_no_text_is_bytes(source, home):
    comment_file(home, 7).unlink()
    comment_file(home, 8).write_bytes(b"\xff\xfe")
    capture = read(source)
    assert row(capture, "comment", 7)["body"] is ABSENT
    assert row(capture, "comment", 8)["body"] == b"\xff\xfe"


def test_a_text_that_was_committed_and_not_yet_renamed_is_read(source, home):
    path = comment_file(home, 7)
    path.rename(path.with_name("msg7.tmp"))
    assert isinstance(row(read(source), "comment", 7)["body"], str)


def test_a_locked_database_is_unavailable(source, home):
    writer = sqlite3.connect(home / "db" / "db", isolation_level=None)
    writer.execute("PRAGMA locking_mode = EXCLUSIVE")
    writer.execute("BEGIN IMMEDIATE")
    with pytest.raises(SourceUnavailable, match="locked for more than 2 s"):
        read(source)
    writer.close()


def test_a_database_that_declares_no_classes_is_unavailable(home):
    execute(home, "UPDATE schema SET schema = '__import__(1)'")
    with pytest.raises(SourceUnavailable, match="declares no Roundup classes"):
        read(RoundupSource("tracker", home))


def test_what_the_run_makes_of_the_declaration_changes_nothing(source, home):
    execute(home, "UPDATE schema SET schema = '{}'")
    assert len(rows(read(source), "issue")) == 31


def test_without_a_schema_file_the_trackers_own_names_stand(home):
    capture = read(RoundupSource("tracker", home))
    assert {"issue", "msg", "file", "user", "issue_nosy", "ids"} <= {
        t.source_table for t in capture.state.schema.types
    }
    assert row(capture, "msg", 1)["issue"] == 1
    assert row(capture, "counter", "issue")["value"] == 32


def test_the_packs_schema_fits_what_the_tracker_declares(home):
    pack = sandbox_pack("helpdesk")
    refined = refine(load_schema_file(pack.folder / "schema.yaml"), "tracker")
    types = RoundupSource("tracker", home, refined).schema().by_name
    assert types["comment"].deleted_when == "is_deleted"
    assert types["issue"].by_name["duplicate_of"].reference == "issue"
    assert types["watcher"].is_association
    assert types["watcher"].key == ("issue", "user")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{'status': '1', 'n': None}", {"status": "1", "n": None}),
        ("(('+', ['61', '7']),)", (("+", ["61", "7"]),)),
        ("('x')", "x"),
        ("('x',)", ("x",)),
        ("()", ()),
        ("[]", []),
        ("-12", -12),
        ("'a\\'b\\n\\x41'", "a'b\nA"),
        ("'Tom\\xc3\\xa1s'", "Tomás"),
        ('"it\'s"', "it's"),
    ],
)
def test_literals_are_read_as_roundup_writes_them(text, value):
    assert literal(text) == (value,)


@pytest.mark.parametrize(
    "text",
    ["", "os", "1+1", "[1", "[1,,2]", "{1: 2}", "{'a'}", "{'a': 1, 'a': 1}", "1.5", "'\\q'",
     "''''", "[" * 9 + "]" * 9, "1_000", "b'x'", "f'x'", "None()", "'a' 'b'", "9" * 30, "'\\ud800'",
     5, None],
)  # fmt: skip
def test_all_else_is_refused(text):
    assert literal(text) is None


@pytest.mark.parametrize(
    "text",
    ["{}", "{'tables': []}", "{'tables': {'a': ('', 5)}}",
     "{'tables': {'a': ('', [('p', 'int')])}}",
     "{'tables': {'a': ('', [('p', '<roundup.hyperdb.Own>')])}}"],
)  # fmt: skip
def test_a_declaration_in_another_form_is_none(text):
    assert declared_classes(text) is None


STRANGE = {
    "a content in the database": "UPDATE _msg SET _content = 'x' WHERE id = 1",
    "a pair twice": "INSERT INTO issue_nosy SELECT * FROM issue_nosy LIMIT 1",
    "a listing of none": "INSERT INTO issue_nosy (linkid, nodeid) VALUES (1, 9999)",
    "a link as text": "UPDATE _issue SET _assignee = 'x' WHERE id = 3",
    "a date that is none": "UPDATE _issue SET _activity = 'yesterday' WHERE id = 3",
    "neither retired nor not": "UPDATE _issue SET __retired__ = NULL WHERE id = 3",
    "a number never given out": "INSERT INTO _status (id, _name, __retired__) VALUES (77, 'x', 0)",
    "a next number that is none": "UPDATE ids SET num = 'x' WHERE name = 'issue'",
    "no next number": "DELETE FROM ids WHERE name = 'msg'",
    "two next numbers": "INSERT INTO ids VALUES ('issue', 5)",
    "a message of no item": "UPDATE issue_messages SET nodeid = 9999 WHERE linkid = 1",
}


@pytest.mark.parametrize("name", STRANGE)
def test_a_row_that_the_tracker_would_not_write_is_state(source, home, name):
    def odd() -> set[str]:
        return {p["path"] for p in rows(read(source), "program") if "#" in p["path"]}

    assert odd() == set()
    execute(home, STRANGE[name])
    assert len(odd()) == 1


@pytest.mark.parametrize("place", ["schema.py", "config.ini", "db", "db/db", "html"])
def test_what_a_part_of_the_home_has_beside_its_content_is_state(source, home, place):
    before = {p["path"] for p in rows(read(source), "program")}
    attach(home / place, "user.note", b"x")
    after = {p["path"]: p["content"] for p in rows(read(source), "program")}
    assert {p: after[p] for p in after.keys() - before} == {f"{place}#beside": "user.note x"}


def test_a_folder_of_data_that_anybody_may_write_is_odd(source, home):
    before = {p["path"] for p in rows(read(source), "program")}
    (home / "db").chmod(0o777)
    assert {p["path"] for p in rows(read(source), "program")} - before == {"db"}
