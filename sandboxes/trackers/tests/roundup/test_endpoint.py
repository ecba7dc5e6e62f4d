"""A tracker by URL: made by `roundup-admin`, served by its WSGI door, changed by its REST."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import httpx
import pytest
from statediff_trackers.roundup.endpoint import RoundupEndpointSource

import statediff
from statediff.capture.source import SourceUnavailable
from statediff.conformance import EndpointSuite, clock, free_port, serving
from statediff.errors import UsageError
from statediff.model.state import MemoryChunks

ADMIN = [sys.executable, "-c", "from roundup.scripts.roundup_admin import run; run()"]
SERVE = """
import sys
from wsgiref.simple_server import WSGIRequestHandler, make_server
from roundup.cgi.wsgi_handler import RequestDispatcher

class Quiet(WSGIRequestHandler):
    def log_message(self, *_):
        pass

dispatcher = RequestDispatcher(sys.argv[1])
server = make_server("127.0.0.1", int(sys.argv[2]), dispatcher, handler_class=Quiet)
server.serve_forever()
"""


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    home = tmp_path_factory.mktemp("tracker")
    number = free_port()
    web = f"http://127.0.0.1:{number}/"
    settings = f"mail_domain=example.org,mail_host=localhost,tracker_web={web}"
    settings += ",password_pbkdf2_default_rounds=1000"  # else each request signs in for long
    steps = (["install", "classic", "sqlite", settings], ["initialise", "admin-pw"])
    for step in steps:
        made = subprocess.run(
            [*ADMIN, "-i", str(home), *step],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        assert made.returncode == 0, made.stderr
    with serving([sys.executable, "-c", SERVE, str(home), str(number)], number, home.parent):
        yield number


class Client:
    """Roundup's REST, as its documentation calls it."""

    def __init__(self, port: int) -> None:
        self.http = httpx.Client(
            base_url=f"http://127.0.0.1:{port}/rest/data/",
            auth=("admin", "admin-pw"),
            headers={
                "X-Requested-With": "rest",
                "Origin": f"http://127.0.0.1:{port}",
                "Referer": f"http://127.0.0.1:{port}/",
            },
            trust_env=False,
        )

    def make(self, kind: str, **properties: Any) -> str:
        answer = self.http.post(kind, json=properties)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["data"]["id"])

    def change(self, item: str, **properties: Any) -> None:
        tag = self.http.get(item).json()["data"]["@etag"]
        answer = self.http.put(item, json=properties, headers={"If-Match": tag})
        assert answer.status_code == 200, answer.text

    def retire(self, item: str) -> None:
        tag = self.http.get(item).json()["data"]["@etag"]
        answer = self.http.request("DELETE", item, json={}, headers={"If-Match": tag})
        assert answer.status_code == 200, answer.text


class TestRoundup(EndpointSuite):
    gone = "roundup+http://admin:admin-pw@127.0.0.1:9/desk/"
    contract: ClassVar = """
contract: tests/resolve
version: 1.0.0
owner: tests
intent: Resolve the issue about the printer.
require:
  - id: resolved
    update: issue
    where: it.title == "Printer"
    set: {status: 8}
allow:
  - {id: stamp, update: issue, where: it.title == "Printer", fields: [activity, actor]}
"""

    @pytest.fixture
    def client(self, port: int) -> Client:
        return Client(port)

    @pytest.fixture
    def url(self, client: Client, port: int) -> str:
        listed = client.http.get("issue").json()["data"]["collection"]
        for each in listed:
            client.retire(f"issue/{each['id']}")
        self.printer = client.make("issue", title="Printer", status="1")
        self.sound = client.make("issue", title="No sound", status="1")
        self.client_ = client
        return f"roundup+http://admin:admin-pw@127.0.0.1:{port}/"

    def right(self, url: str) -> None:
        self.client_.change(f"issue/{self.printer}", status="8")

    def more(self, url: str) -> None:
        self.client_.change(f"issue/{self.printer}", status="1")
        self.client_.change(f"issue/{self.sound}", status="8")
        self.right(url)

    def ways(self, url: str) -> Mapping[str, Callable[[], object]]:
        client, issue = self.client_, f"issue/{self.printer}"
        return {
            "a message": lambda: client.make("msg", content="hello", author="1", date="."),
            "a keyword": lambda: client.make("keyword", name=f"k{time.time_ns()}"),
            "nosy": lambda: client.change(issue, nosy=["1", "2"]),
            "a title": lambda: client.change(issue, title="Printer?"),
            "retired": lambda: client.retire(issue),
            "a role": lambda: client.change("user/2", roles="Anonymous,Admin"),
        }


def test_a_first_item_of_a_class_is_a_change(port: int) -> None:
    client = Client(port)
    url = f"http+roundup://admin:admin-pw@127.0.0.1:{port}"
    with statediff.watch(desk=url, settle_seconds=0) as run:
        client.make("query", name="mine", klass="issue", url="status=1")
    assert {each["type"] for each in run.changes} == {"query"}


def test_a_wrong_password_is_no_empty_tracker(port: int) -> None:
    source = RoundupEndpointSource("t", f"roundup+http://admin:other@127.0.0.1:{port}/")
    with pytest.raises(SourceUnavailable):
        source.read(MemoryChunks(), clock, None)


def test_a_password_may_be_in_the_environment(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"roundup+http://admin@127.0.0.1:{port}/"
    with pytest.raises(UsageError, match="STATEDIFF_PASSWORD_DESK"):
        RoundupEndpointSource("desk", url)
    monkeypatch.setenv("STATEDIFF_PASSWORD_DESK", "admin-pw")
    assert RoundupEndpointSource("desk", url).schema().by_name["issue"].key == ("id",)
