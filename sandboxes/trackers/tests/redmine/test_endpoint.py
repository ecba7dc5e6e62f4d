"""A Redmine by URL, from what Redmine 5.0.4 answered: `answers.json` has each path it was asked."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pytest
from statediff_trackers.redmine.endpoint import RedmineEndpointSource

from statediff.capture.source import SourceUnavailable
from statediff.conformance import clock
from statediff.errors import UsageError
from statediff.model.readings import SourceCapture
from statediff.model.state import MemoryChunks

ANSWERS: Final = json.loads(Path(__file__).with_name("answers.json").read_text())
ISSUE: Final = "issues/1.json?include=journals,attachments,relations,watchers"


@contextmanager
def answering(change: Callable[[Any], None] = lambda _: None) -> Iterator[str]:
    """The URL of what gives the recorded answers, after a change to them."""
    answers = deepcopy(ANSWERS)
    change(answers)

    class Recorded(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, query = unquote(self.path.removeprefix("/")).partition("?")
            asked = "&".join(sorted(query.split("&")))
            status, said = answers.get(f"{path}?{asked}" if asked else path, (404, None))
            body = b"" if said is None else json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Recorded) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"redmine+http://admin:admin@127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def read(url: str, like: SourceCapture | None = None) -> SourceCapture:
    source = RedmineEndpointSource("desk", url)
    return source.read(MemoryChunks(), clock, None if like is None else like.state)


def rows(part: SourceCapture, kind: str) -> list[Any]:
    return [row for _, row in part.state.tables[kind].rows()]


def test_every_record_is_listed_with_what_belongs_to_it() -> None:
    with answering() as url:
        part = read(url)
    assert part.reading.is_complete, part.reading.cause
    one, two = rows(part, "issue")
    assert (one["subject"], one["status"], one["author"]) == ("Printer", 5, 1)
    assert one["watchers"][0].get("name") == "Redmine Admin"
    assert two["is_private"] is True
    assert {row["issue"] for row in rows(part, "journal")} == {1, 2}
    assert {row["status"] for row in rows(part, "user")} == {1, 3}  # locked ones too
    [page] = rows(part, "wiki_page")
    assert (page["id"], page["text"]) == ("1/Start", "bye")
    [member] = rows(part, "membership")
    assert (member["project"], member["user"]) == (1, 5)


def test_a_property_that_nobody_knows_is_a_change() -> None:
    with answering() as url:
        before = read(url)
    with answering(lambda said: said[ISSUE][1]["issue"].update(color="red")) as url:
        after = read(url, before)
    assert before.reading.digest != after.reading.digest
    assert rows(after, "issue")[0]["other"].get("color") == "red"


def test_looking_is_no_change() -> None:
    with answering() as url:
        before = read(url)
    path = "users/1.json?status="
    seen = {"last_login_on": "2027-01-01T00:00:00Z"}
    with answering(lambda said: said[path][1]["user"].update(seen)) as url:
        assert read(url, before).reading.digest == before.reading.digest


def test_a_refusal_after_the_run_is_a_change_of_the_source() -> None:
    def refuse(said: Any) -> None:
        for path in said:
            if path.startswith("roles.json"):
                said[path] = [403, None]

    with answering() as url:
        before = read(url)
    with answering(refuse) as url:
        first, after = read(url), read(url, before)
    assert not first.reading.is_complete
    assert first.spoiled == ()
    assert after.spoiled == ("the tracker answers 403 to the list of roles",)


def test_who_may_not_sign_in_sees_no_empty_tracker() -> None:
    def refuse(said: Any) -> None:
        said["users/current.json"] = [401, None]

    with answering(refuse) as url, pytest.raises(SourceUnavailable, match="does not let"):
        read(url)
    with pytest.raises(UsageError, match="STATEDIFF_PASSWORD_DESK"):
        RedmineEndpointSource("desk", "redmine+http://127.0.0.1:9/")
