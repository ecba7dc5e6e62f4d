import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import httpx
import pytest
from statediff_trackers.roundup.api import ApiAccount, RoundupApiSource

from statediff.capture.source import SourceUnavailable, clock
from statediff.capture.take import take
from statediff.kernel.resolve import resolve
from statediff.model.readings import SourceCapture
from statediff.model.state import Coverage, MemoryChunks
from statediff.model.values import Unobserved
from statediff.systems.base.sandbox import EmbeddedSandbox

Answer = Callable[[str, bytes], bytes]
"""What becomes of the tracker's answer to a path, on its way."""


def account(sandbox: EmbeddedSandbox) -> ApiAccount:
    return sandbox.system("tracker").account


def paged(sandbox: EmbeddedSandbox, size: int, base: str | None = None) -> RoundupApiSource:
    own = account(sandbox)
    types = sandbox.sources()[1].schema().types
    return RoundupApiSource(
        "tracker-api", ApiAccount(base or own.base, own.login, own.password), types, size
    )


def read(source: RoundupApiSource) -> SourceCapture:
    return source.read(MemoryChunks(), clock, None)


@contextmanager
def agent(sandbox: EmbeddedSandbox) -> Iterator[httpx.Client]:
    url = urlsplit(sandbox.access().urls["tracker"])
    base = f"http://{url.hostname}:{url.port}{url.path}"
    with ApiAccount(base, url.username or "", unquote(url.password or "")).client() as client:
        yield client


def withdraw(client: httpx.Client, item: str) -> None:
    tag = client.get(item).json()["data"]["@etag"]
    answer = client.delete(item, headers={"If-Match": tag, "Content-Type": "application/json"})
    assert answer.status_code == 200, answer.text


@contextmanager
def between(sandbox: EmbeddedSandbox, tamper: Answer) -> Iterator[str]:
    """The base address of something that passes requests on and does as it likes with answers."""
    real = urlsplit(account(sandbox).base)
    origin = f"http://{real.hostname}:{real.port}"

    class Passing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            headers = {k: v for k, v in self.headers.items() if k.lower() != "host"}
            headers |= {"Origin": origin, "Referer": f"{origin}/helpdesk/"}
            answer = httpx.get(origin + self.path, headers=headers, trust_env=False, verify=False)
            body = tamper(self.path, answer.content)
            self.send_response(302 if body == b"redirect" else answer.status_code)
            self.send_header("Location", "http://127.0.0.1:9/")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Passing) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/helpdesk/"
        finally:
            server.shutdown()
            thread.join()


def edited(change: Callable[[dict], None]) -> Callable[[bytes], bytes]:
    def edit(body: bytes) -> bytes:
        document = json.loads(body)
        change(document["data"])
        return json.dumps(document).encode()

    return edit


def test_database_and_interface_agree_on_every_value_both_tell(sandbox):
    with agent(sandbox) as client:
        made = client.post("msg", json={"content": "hëllo", "author": "4", "date": "."}).json()
        withdraw(client, f"msg/{made['data']['id']}")
        withdraw(client, "issue/31")
        kept = client.post("msg", json={"content": "kept", "author": "4", "date": "."}).json()
        tag = client.get("issue/5").json()["data"]["@etag"]
        listed = {"messages": [kept["data"]["id"]], "nosy": ["4", "12"], "closed": "."}
        answer = client.put("issue/5", json=listed, headers={"If-Match": tag})
        assert answer.status_code == 200
    capture = take(sandbox.sources(), MemoryChunks(), clock, None, "after")
    assert all(r.is_complete for r in capture.readings)
    api = next(p.state for p in capture.parts if p.reading.source == "tracker-api")
    assert set(api.tables) == {"attachment", "comment", "issue", "user", "watcher"}
    together = resolve(capture, capture).matchings[0].after
    for name, table in together.tables.items():
        assert table.enumeration.is_complete, name
        assert not [c for _, r in table.rows() for c in r.values() if isinstance(c, Unobserved)]
    assert together.tables["issue"].row((31,))["is_deleted"] is True
    assert api.tables["comment"].row((int(made["data"]["id"]),))["is_deleted"] is True


@pytest.mark.parametrize("size", [5, 31])
def test_pages_of_any_size_give_the_same_state(sandbox, size):
    whole, pages = read(paged(sandbox, 100)), read(paged(sandbox, size))
    assert pages.reading.is_complete
    assert pages.reading.digest == whole.reading.digest
    assert pages.state.tables["issue"].row_count == 31


def test_what_only_the_database_holds_contradicts_the_interface(sandbox):
    def lied(path: str, body: bytes) -> bytes:
        if "/data/issue?" not in path:
            return body
        return edited(lambda data: data["collection"][2].update(title="another"))(body)

    with between(sandbox, lied) as base:
        sources = (sandbox.sources()[0], paged(sandbox, 100, base))
        capture = take(sources, MemoryChunks(), clock, None, "after")
    issue = resolve(capture, capture).matchings[0].after.tables["issue"]
    assert "contradiction" in issue.row((3,))["title"].cause
    assert issue.row((3,))["status"] == 1 or isinstance(issue.row((3,))["status"], int)


def test_a_change_between_two_pages_is_noticed_and_the_reading_begun_anew(sandbox):
    done: list[str] = []

    def interfere(path: str, body: bytes) -> bytes:
        if "/data/issue?" in path and "page_index=2" in path and not done:
            done.append(path)
            with agent(sandbox) as client:
                tag = client.get("issue/1").json()["data"]["@etag"]
                client.put("issue/1", json={"title": "changed"}, headers={"If-Match": tag})
        return body

    with between(sandbox, interfere) as base:
        capture = read(paged(sandbox, 10, base))
    assert done
    assert capture.reading.is_complete
    assert capture.state.tables["issue"].row((1,))["title"] == "changed"


def test_an_item_that_comes_between_two_pages_is_not_missed(sandbox):
    done: list[str] = []

    def interfere(path: str, body: bytes) -> bytes:
        if "/data/issue?" in path and "page_index=1&" in path and not done:
            done.append(path)
            with agent(sandbox) as client:
                client.post("issue", json={"title": "one more"})
        return body

    with between(sandbox, interfere) as base:
        capture = read(paged(sandbox, 10, base))
    assert capture.reading.is_complete
    assert capture.state.tables["issue"].row_count == 32


def short(data: dict) -> None:
    data["collection"] = data["collection"][:-1]


def endless(data: dict) -> None:
    data["@total_size"] = 10**9


def unsaid(data: dict) -> None:
    data["@total_size"] = -1


def twice(data: dict) -> None:
    data["collection"][1] = data["collection"][0]


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (short, "100 items instead of 31 while they were read"),
        (endless, "100 items instead of 1000000000 while they were read"),
        (unsaid, "does not say how many"),
        (twice, "31 items came where the listing says 31, some of them twice"),
    ],
)
def test_a_listing_that_does_not_add_up_is_no_enumeration(sandbox, change, cause):
    def cut(path: str, body: bytes) -> bytes:
        is_first = "/data/issue?" in path and "page_index=1&" in path
        return edited(change)(body) if is_first else body

    with between(sandbox, cut) as base:
        capture = read(paged(sandbox, 100, base))
    issue = capture.state.tables["issue"].enumeration
    assert issue.coverage is Coverage.UNOBSERVED
    assert cause in (issue.cause or "")
    assert not capture.reading.is_complete
    assert not capture.state.tables["watcher"].enumeration.is_complete
    assert not capture.state.tables["comment"].enumeration.is_complete
    assert capture.state.tables["user"].enumeration.is_complete


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "cause"),
    [
        (b"redirect", "answered 302"),
        (b"", "not JSON"),
        (b"[" * 100_000, "nested deeper"),
        (b'{"data": {"collection": [], "collection": []}}', "twice|duplicate"),
        (b'{"data": []}', "not the tracker's interface"),
        (b'{"data": {"collection": [{"id": "x"}], "@total_size": 1}}', "has no number"),
        (b'{"data": {"collection": [5], "@total_size": 1}}', "not the tracker's interface"),
        (b" " * (33 * 1024 * 1024), "exceeds the capture limit"),
    ],
    ids=["redirect", "empty", "deep", "twice", "list", "number", "item", "large"],
)
def test_an_answer_that_is_none_leaves_the_source_unavailable(sandbox, body, cause):
    with between(sandbox, lambda _path, _answer: body) as base:
        source = paged(sandbox, 100, base)
        with pytest.raises(SourceUnavailable, match=cause):
            read(source)


def test_a_killed_server_is_unavailable_with_the_reason(sandbox):
    source = sandbox.sources()[1]
    sandbox.unplug("tracker-api")
    with pytest.raises(SourceUnavailable, match="connection refused"):
        read(source)


def test_a_wrong_password_is_unavailable(sandbox):
    own = account(sandbox)
    types = sandbox.sources()[1].schema().types
    source = RoundupApiSource("tracker-api", ApiAccount(own.base, own.login, "no"), types)
    with pytest.raises(SourceUnavailable, match=r"answered 40[13]"):
        read(source)


def test_a_retired_item_that_the_interface_cannot_tell_of_is_never_believed_absent(sandbox):
    database = sandbox.system("tracker").home / "db" / "db"
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE ids SET num = num + 1 WHERE name = 'msg'")  # one is used up
    connection.close()
    with agent(sandbox) as client:
        made = client.post("msg", json={"content": "gone", "author": "4", "date": "."}).json()
        withdraw(client, f"msg/{made['data']['id']}")
    capture = take(sandbox.sources(), MemoryChunks(), clock, None, "after")
    comment = resolve(capture, capture).matchings[0].after.tables["comment"].enumeration
    assert comment.coverage is Coverage.INCOMPLETE
    assert "is not in tracker-api" in (comment.cause or "")
