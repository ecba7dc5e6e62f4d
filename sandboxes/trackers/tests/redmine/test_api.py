"""A Redmine's interface as a source, against a server of ours that lies; a real one: docker/."""

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, date, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from statediff_trackers.redmine.api import ApiKey, RedmineApiSource
from statediff_trackers.redmine.source import RedmineSource

from statediff.capture.source import SourceUnavailable
from statediff.model.readings import SourceCapture
from statediff.model.state import MemoryChunks
from statediff.systems.hosted import rest

TABLES = """
CREATE TABLE users (id integer PRIMARY KEY);
CREATE TABLE settings (id integer PRIMARY KEY, name varchar, value text);
CREATE TABLE journals (id integer PRIMARY KEY, journalized_id integer);
CREATE TABLE custom_fields (id integer PRIMARY KEY, type varchar, field_format varchar,
    multiple boolean);
CREATE TABLE issues (id integer PRIMARY KEY, subject varchar, status_id integer, due_date date,
    assigned_to_id integer, updated_on datetime);
INSERT INTO custom_fields VALUES (1, 'IssueCustomField', 'enumeration', 0);
"""

Answers = Callable[[dict[str, list[str]]], Any]


def issue(number: int, **more: Any) -> dict[str, Any]:
    link = {"id": 2, "name": "open"}
    told = {"id": number, "subject": f"Issue {number}", "status": link, "due_date": None}
    told |= {"updated_on": f"2025-01-{number:02}T08:00:00Z", "attachments": []}
    return {**told, "custom_fields": [{"id": 1, "value": "3"}], **more}


def listing(issues: list[dict[str, Any]]) -> Answers:
    """The answers of an honest Redmine."""

    def answer(query: dict[str, list[str]]) -> Any:
        at, size = int(query["offset"][0]), int(query["limit"][0])
        ordered = sorted(issues, key=lambda each: each["id"])
        if query["sort"][0].startswith("updated_on"):
            ordered.sort(key=lambda each: each["updated_on"], reverse=True)
        return {"issues": ordered[at : at + size], "total_count": len(issues)}

    return answer


@contextmanager
def serving(answers: Answers) -> Iterator[str]:
    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = answers(parse_qs(urlsplit(self.path).query))
            is_allowed = self.headers.get("X-Redmine-API-Key") == "key"
            body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            status = 302 if body == b"redirect" else 200 if is_allowed else 401
            self.send_response(status)
            self.send_header("Location", "http://127.0.0.1:9/")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def read(tmp_path) -> Callable[..., SourceCapture]:
    with closing(sqlite3.connect(tmp_path / "redmine.db")) as db:
        db.executescript(TABLES)
    database = RedmineSource("tracker", tmp_path, "redmine.db", "files")

    def reading(answers: Answers, size: int = 100, key: str = "key") -> SourceCapture:
        with serving(answers) as base:
            it = RedmineApiSource("api", lambda: ApiKey(base, key), database.learned, size)
            return it.read(MemoryChunks(), lambda: datetime.now(UTC), None)

    return reading


def rows(capture: SourceCapture, name: str) -> list[dict[str, Any]]:
    return [dict(row) for _, row in capture.state.tables[name].rows()]


def test_an_issue_is_told_in_the_terms_of_the_database(read):
    relation = {"id": 1, "issue_id": 5, "issue_to_id": 6, "relation_type": "duplicates"}
    other = {"id": 2, "issue_id": 9, "issue_to_id": 5, "relation_type": "duplicates"}
    told = issue(5, relations=[relation, other], due_date="2025-02-03")
    (row,) = rows(read(listing([told])), "issue")
    assert row == {
        "id": 5, "subject": "Issue 5", "status_id": 2, "due_date": date(2025, 2, 3),
        "assigned_to_id": None, "updated_on": datetime(2025, 1, 5, 8, tzinfo=UTC), "cf_1": 3,
        "duplicate_of": 6,
    }  # fmt: skip


def test_an_attachment_is_told_without_its_digest(read):
    file = {"id": 3, "filename": "a.txt", "filesize": 7, "author": {"id": 4, "name": "Robin"}}
    (row,) = rows(read(listing([issue(5, attachments=[file])])), "attachment")
    assert "digest" not in row
    assert (row["id"], row["issue"], row["created_by"], row["on"]) == (3, 5, 4, "Issue")


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_every_page_is_read(read, size):
    found = read(listing([issue(number) for number in (1, 4, 2)]), size)
    assert found.reading.is_complete
    assert [row["id"] for row in rows(found, "issue")] == [1, 2, 4]


def test_what_changes_while_it_is_read_begins_the_reading_anew(read):
    calm, asked = listing([issue(number) for number in (1, 2, 3)]), []

    def moving(query: dict[str, list[str]]) -> Any:
        asked.append(query)
        answer = calm(query)
        if len(asked) == 1:
            answer["total_count"] = 9
        return answer

    found = read(moving, 2)
    assert found.reading.is_complete
    assert len(rows(found, "issue")) == 3


def always(change: Callable[[dict[str, Any]], object]) -> Answers:
    def answer(query: dict[str, list[str]]) -> Any:
        told = listing([issue(number) for number in (1, 2, 3)])(query)
        change(told)
        return told

    return answer


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (lambda told: told.update(total_count=4), "the list ends after 3 of 4 issues"),
        (lambda told: told.update(total_count=2), "3 issues came where the list says 2"),
        (lambda told: told["issues"].append(told["issues"][0]), "or came twice"),
        (lambda told: told["issues"][0].pop("id"), "an issue has no number"),
        (lambda told: [i.update(attachments=[{"id": 1}]) for i in told["issues"]], "came twice"),
        (lambda told: told["issues"][0].update(attachments=[{}]), "an attachment has no number"),
    ],
)
def test_a_list_that_never_adds_up_is_unobserved(read, change, cause):
    found = read(always(change))
    assert cause in (found.reading.cause or "")
    assert not any(table.enumeration.is_complete for table in found.state.tables.values())


@pytest.mark.parametrize(
    "answer",
    [
        b"no json",
        b"[]",
        b'{"issues": [], "issues": [], "total_count": 0}',
        b'{"issues": [], "total_count": true}',
        b'{"issues": 3, "total_count": 3}',
        b'{"issues": [3], "total_count": 1}',
        b'{"issues": [], "total_count": NaN}',
        b"redirect",
    ],
)
def test_what_is_no_answer_of_a_tracker_is_unavailable(read, answer):
    with pytest.raises(SourceUnavailable):
        read(lambda _: answer)


@pytest.mark.parametrize("part", ["attachments", "relations", "custom_fields"])
def test_a_part_of_an_issue_that_is_no_list_is_unavailable(read, part):
    with pytest.raises(SourceUnavailable, match="not the tracker's interface"):
        read(listing([issue(1, **{part: {"id": 1}})]))


def test_an_answer_without_end_is_not_read_to_its_end(read, monkeypatch):
    monkeypatch.setattr(rest, "MAX_CAPTURE_BYTES", 1000)
    with pytest.raises(SourceUnavailable, match="exceeds the capture limit"):
        read(lambda _: b" " * 5000)


def test_a_refused_key_is_unavailable(read):
    with pytest.raises(SourceUnavailable, match="answered 401"):
        read(listing([]), key="other")


def test_values_of_another_kind_stay_as_they_are(read):
    told = issue(1, updated_on="yesterday", due_date=7, status={"id": "x"}, assigned_to=[1])
    (row,) = rows(read(listing([told])), "issue")
    assert (row["updated_on"], row["due_date"], row["status_id"]) == ("yesterday", 7, "x")
    assert row["assigned_to_id"] == (1,)
