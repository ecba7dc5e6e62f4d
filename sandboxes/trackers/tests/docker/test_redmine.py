"""A Redmine in a container: put back in place, proven by rows and files, read past its server."""

import base64
import hashlib
import json
import sqlite3
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from statistics import median
from urllib.error import HTTPError
from urllib.parse import urlsplit

import httpx
import pytest
from statediff_containers.engine import LABEL, connect
from statediff_containers.served import FolderServer
from statediff_trackers.redmine.sandbox import RedmineTracker

from statediff.capture.source import clock
from statediff.capture.take import take
from statediff.kernel.resolve import resolve
from statediff.model.readings import Capture
from statediff.model.state import MemoryChunks
from statediff.model.values import Unobserved
from statediff.packs import sandbox_pack
from statediff.systems.base.sandbox import EmbeddedSandbox

pytestmark = pytest.mark.docker("redmine")

Ask = Callable[..., dict]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedSandbox]:
    work = tmp_path_factory.mktemp("helpdesk") / "work"
    with EmbeddedSandbox(sandbox_pack("helpdesk", "redmine"), work) as started:
        yield started


@pytest.fixture
def sandbox(running: EmbeddedSandbox) -> EmbeddedSandbox:
    running.reset()
    assert running.verify(clock).drift == ()
    return running


@pytest.fixture
def home(sandbox: EmbeddedSandbox) -> Path:
    return sandbox.work / "systems" / "tracker" / "home"


def as_agent(url: str) -> Ask:
    """Requests to the interface with the account in the URL."""
    parts = urlsplit(url)
    account = f"{parts.username}:{parts.password}".encode()
    headers = {
        "Authorization": "Basic " + base64.b64encode(account).decode(),
        "Content-Type": "application/json",
    }

    def ask(method: str, path: str, body: object = None) -> dict:
        content = None if body is None else json.dumps(body).encode()
        address = f"http://127.0.0.1:{parts.port}/{path}"
        request = urllib.request.Request(address, content, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            told = answer.read()
        return json.loads(told) if told.strip() else {}

    return ask


@pytest.fixture
def ask(sandbox: EmbeddedSandbox) -> Ask:
    return as_agent(sandbox.access().urls["tracker"])


def behind(home: Path, statement: str, *parameters: object) -> None:
    with closing(sqlite3.connect(home / "redmine.db")) as db, db:
        db.execute(statement, parameters)


def drift_of(sandbox: EmbeddedSandbox) -> set[str]:
    receipt = sandbox.verify(clock)
    assert receipt.ok == (not receipt.drift)
    return {f"{entry.source}: {entry.what}" for entry in receipt.drift}


def rows(capture: Capture, source: str, name: str) -> dict:
    (part,) = (p for p in capture.parts if p.reading.source == source)
    return dict(part.state.tables[name].rows())


def container() -> str:
    engine = connect()
    (found,) = (
        entry["Id"]
        for entry in engine.api.containers(filters={"label": f"{LABEL}={engine.owner.label}"})
        if "puma" in entry["Command"]
    )
    return str(found)


CHANGES = {
    "UPDATE settings SET value = '0' WHERE id = 2": "value of setting rest_api_enabled",
    "INSERT INTO settings (name, value) VALUES ('new', '1')": "setting new",
    "UPDATE roles SET permissions = '--- []' WHERE name = 'Lead'": "permissions of role Lead",
    "INSERT INTO roles (name) VALUES ('Owner')": "role Owner",
    "DELETE FROM attachments WHERE id = 1": "attachment 1",
    "UPDATE journals SET notes = 'No.' WHERE id = 3": "notes of journal entry 3",
    "DELETE FROM journals WHERE id = 5": "journal entry 5",
    "UPDATE users SET admin = 1 WHERE login = 'robin'": "admin of user 4",
    "CREATE TRIGGER t AFTER INSERT ON issues BEGIN DELETE FROM journals; END": "trigger t",
    "CREATE TABLE more (id)": "table more",
    "UPDATE sqlite_sequence SET seq = 9000 WHERE name = 'watchers'": "seq of numbering watchers",
}


def test_each_change_of_the_database_is_named_until_the_reset(sandbox, home):
    for statement in CHANGES:
        behind(home, statement)
    found = {name.removeprefix("tracker: ") for name in drift_of(sandbox)}
    assert found == set(CHANGES.values())
    sandbox.reset()
    assert drift_of(sandbox) == set()


def test_a_server_that_has_just_begun_may_be_at_its_first_request(sandbox, home, monkeypatch):
    begun: list[str] = []
    start, busy = FolderServer.start, RedmineTracker._busy

    def started(self, *given):
        start(self, *given)
        begun.extend(["1 requests are in progress", "it does not answer"])

    monkeypatch.setattr(FolderServer, "start", started)
    monkeypatch.setattr(RedmineTracker, "_busy", lambda self: begun.pop() if begun else busy(self))
    behind(home, "INSERT INTO roles (name) VALUES ('Owner')")
    sandbox.reset()
    assert drift_of(sandbox) == set()


def test_a_changed_added_or_removed_file_is_named_until_the_reset(sandbox, home):
    files, inside = home / "files", container()
    (first, second) = sorted(path for path in files.rglob("*") if path.is_file())
    first.write_text("other")
    second.unlink()
    (files / "new.txt").write_text("new")
    names = {path.relative_to(files).as_posix() for path in (first, second)}
    expected = {f"tracker: attachment file {name}" for name in {*names, "new.txt"}}
    assert drift_of(sandbox) == expected
    sandbox.reset()
    assert drift_of(sandbox) == set()
    assert container() == inside


def test_a_setting_that_the_server_remembers_does_not_outlive_the_reset(sandbox, home, ask):
    behind(home, "UPDATE settings SET value = '0', updated_on = '2030-01-01' WHERE id = 2")
    with pytest.raises(HTTPError):  # no more REST: the server read the setting and remembers it
        ask("GET", "issues.json")
    sandbox.reset()
    assert drift_of(sandbox) == set()
    assert as_agent(sandbox.access().urls["tracker"])("GET", "issues.json")["total_count"] > 10


def test_an_account_and_its_key_live_for_one_trial(sandbox, ask):
    key = ask("GET", "users/current.json")["user"]["api_key"]
    assert sandbox.settle(clock, 30).unsettled == ()  # the request may still be in progress
    assert drift_of(sandbox) == {"tracker: last_login_on of user 4"}  # its key was there before
    sandbox.reset()
    with pytest.raises(HTTPError, match="401"):
        ask("GET", "issues.json")
    again = as_agent(sandbox.access().urls["tracker"])
    assert again("GET", "users/current.json")["user"]["api_key"] != key


def test_nobody_reads_anything_without_an_account(sandbox):
    parts = urlsplit(sandbox.access().urls["tracker"])
    with pytest.raises(HTTPError, match="401"):
        urllib.request.urlopen(f"http://127.0.0.1:{parts.port}/issues.json", timeout=60)


def test_a_killed_server_is_drift_and_unsettled_and_the_reset_starts_another(sandbox):
    connect().api.kill(container())
    assert sandbox.settle(clock, 0.1).unsettled == (
        ("tracker", "it does not answer"), ("tracker-api", "it does not answer")
    )  # fmt: skip
    assert drift_of(sandbox) == {"tracker: its server"}
    sandbox.reset()
    assert drift_of(sandbox) == set()


def test_a_database_that_is_none_any_more_is_drift_and_made_anew(sandbox, home):
    (home / "redmine.db").write_bytes(b"no database" * 1000)
    (home / "beside").write_text("x")
    assert drift_of(sandbox) == {"tracker: its database", "tracker: file beside"}
    sandbox.reset()
    assert drift_of(sandbox) == set()


def test_a_transaction_that_is_left_open_is_unsettled_and_ends_with_the_reset(sandbox, home):
    with closing(sqlite3.connect(home / "redmine.db", isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        ((source, cause), _) = sandbox.settle(clock, 0.1).unsettled
        assert source == "tracker"
        assert "locked" in cause
        sandbox.reset()
    assert drift_of(sandbox) == set()


def test_what_the_interface_says_is_what_the_database_says(sandbox, ask):
    before = take(sandbox.sources(), MemoryChunks(), clock, None, "before")
    ask("PUT", "issues/16.json", {"issue": {"status_id": 4, "notes": "Done.", "assigned_to_id": 5}})
    relation = {"issue_to_id": 20, "relation_type": "duplicates"}
    ask("POST", "issues/21/relations.json", {"relation": relation})
    ask("POST", "issues/20/watchers.json", {"watcher": {"user_ids": [12]}})
    assert sandbox.settle(clock).unsettled == ()
    after = take(sandbox.sources(), MemoryChunks(), clock, before, "after")
    database, told = (rows(after, source, "issue") for source in ("tracker", "tracker-api"))
    for key, row in told.items():
        assert row == {name: database[key][name] for name in row}
    assert told.keys() == database.keys()
    issue = database[(16,)]
    assert (issue["status"], issue["assignee"], issue["updated_by"]) == (4, 5, 4)
    assert issue["closed_at"] == issue["updated_at"]
    assert database[(21,)]["duplicate_of"] == 20
    assert database[(20,)]["updated_by"] == 6  # neither relation nor watcher touched it
    new = {
        (row["on"], row["item"], row["field"])
        for key, row in rows(after, "tracker", "journal").items()
        if key not in rows(before, "tracker", "journal")
    }
    (number,) = {item for on, item, _ in new if on == "comment"}
    assert new == {
        ("issue", 16, "status"), ("issue", 16, "assignee"), ("issue", 16, "closed_at"),
        ("issue", 16, "messages"), ("comment", number, None), ("issue", 21, "duplicate_of"),
        ("issue", 20, "nosy"),
    }  # fmt: skip
    comment = rows(after, "tracker", "comment")[(number,)]
    assert (comment["issue"], comment["author"], comment["body"]) == (16, 4, "Done.")


def test_a_file_that_an_agent_attached_is_read_from_disk_and_gone_after_the_reset(sandbox):
    parts = urlsplit(sandbox.access().urls["tracker"])
    account = (parts.username or "", parts.password or "")
    with httpx.Client(base_url=f"http://127.0.0.1:{parts.port}", auth=account, timeout=60) as web:
        kind = {"Content-Type": "application/octet-stream"}
        sent = web.post("/uploads.json?filename=note.txt", content=b"hello", headers=kind)
        file = {"token": sent.json()["upload"]["token"], "filename": "note.txt"}
        assert web.put("/issues/11.json", json={"issue": {"uploads": [file]}}).is_success
    after = take(sandbox.sources(), MemoryChunks(), clock, None, "after")
    (row,) = (r for r in rows(after, "tracker", "attachment").values() if r["name"] == "note.txt")
    assert (row["issue"], row["created_by"], row["size"]) == (11, 4, 5)
    assert row["digest"] == f"sha256:{hashlib.sha256(b'hello').hexdigest()}"
    assert len(rows(after, "tracker-api", "attachment")) == 3
    assert any("attachment file" in found for found in drift_of(sandbox))
    sandbox.reset()
    assert drift_of(sandbox) == set()


def test_where_interface_and_database_differ_nothing_is_known(sandbox, home):
    before = take(sandbox.sources(), MemoryChunks(), clock, None, "before")
    database, told = sandbox.sources()
    read = database.read(MemoryChunks(), clock, before.parts[0].state)
    behind(home, "UPDATE issues SET subject = 'Something else' WHERE id = 3")
    late = told.read(MemoryChunks(), clock, before.parts[1].state)
    after = Capture((read, late))
    title = resolve(before, after).matchings[0].after.tables["issue"].row((3,))["title"]
    assert isinstance(title, Unobserved)


def test_no_secret_is_in_what_is_read(sandbox, home):
    with closing(sqlite3.connect(home / "redmine.db")) as db:
        stored = [v for r in db.execute("SELECT hashed_password, salt FROM users") for v in r if v]
        stored += [row[0] for row in db.execute("SELECT value FROM tokens")]
    capture = take(sandbox.sources(), MemoryChunks(), clock, None, "before")
    told = repr([list(t.rows()) for p in capture.parts for t in p.state.tables.values()])
    assert len(stored) > 10
    assert [secret for secret in stored if secret in told] == []


def test_requests_of_several_agents_at_once_all_arrive_before_the_trial_is_settled(sandbox):
    url = sandbox.access().urls["tracker"]

    def say(number: int) -> None:
        as_agent(url)("PUT", f"issues/{number}.json", {"issue": {"notes": "At the same time."}})

    threads = [threading.Thread(target=say, args=(number,)) for number in (3, 7, 11)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sandbox.settle(clock, 30).unsettled == ()
    found = take(sandbox.sources(), MemoryChunks(), clock, None, "after")
    said = [r for r in rows(found, "tracker", "comment").values() if r["author"] == 4]
    assert sum(row["body"] == "At the same time." for row in said) == 3


def test_reset_in_place_and_proof_take_a_fraction_of_a_second(sandbox):
    system, seconds, inside = sandbox.system("tracker"), [], container()
    for _ in range(5):
        as_agent(system.url)("PUT", "issues/11.json", {"issue": {"notes": "Work."}})
        began = time.monotonic()
        system.reset()
        system.verify()
        seconds.append(time.monotonic() - began)
    assert container() == inside  # ordinary work needs no new server
    assert median(seconds) < 0.6, seconds  # some 0.08 on an idle machine
