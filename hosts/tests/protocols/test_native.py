"""Agents that speak HTTP by themselves are recorded, and notice nothing."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from statediff_hosts.protocols.native import NativeAgent, RecordingProxy

from sandboxes.git.tests.git_repositories import Served
from statediff.agents.command import CommandAgent
from statediff.agents.recorder import Recorder
from statediff.capture.source import clock
from statediff.evidence.disclosure.rules import Disclosure
from statediff.model.trace import Action, ActionClass, Mark, Trace
from statediff.model.values import Map, Unobserved
from statediff.model.verdict import Verdict
from statediff.packs import contract_folder
from tests.tasks import Sandboxes, live_trial
from tests.tasks import running as running  # noqa: PLC0414 - a fixture


class System(Served):
    """A system that says what it was asked."""

    def do_GET(self) -> None:  # noqa: N802 - the base class names it
        if "backend" in self.path:
            super().do_GET()
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        said = {"path": self.path, "host": self.headers["Host"], "body": body.decode()}
        said |= {"origin": self.headers.get("Origin", "")}
        said |= {"cookies": self.headers.get_all("Cookie", [])}
        content = b"x" * 3_000_000 if "huge" in self.path else json.dumps(said).encode()
        self.send_response(404 if "missing" in self.path else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Location", f"http://{self.headers['Host']}/there")
        for name in parse_qs(urlsplit(self.path).query, True).get("made", ()):
            self.send_header("X-Transactions", name)
        if "stream" in self.path:
            self.send_header("Connection", "close")
        else:
            self.send_header("Content-Length", str(len(content) + ("cut" in self.path)))
        self.end_headers()
        self.wfile.write(content)
        self.close_connection |= "cut" in self.path

    do_POST = do_PUT = do_DELETE = do_BREW = do_GET  # noqa: N815 — the base class names them


class Setting:
    """A system, its proxy and the log."""

    def __init__(self, folder: Path) -> None:
        handler = type("Own", (System,), {"root": folder})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.recorder = Recorder(folder / "calls.jsonl", clock)
        port = self.server.server_port
        self.proxy = RecordingProxy("tracker", f"http://ada:pw@127.0.0.1:{port}/", self.recorder)

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Any:
        place = urlsplit(self.proxy.url)
        connection = HTTPConnection(place.hostname or "", place.port, timeout=10)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, named)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer, content

    def calls(self) -> tuple[Action, ...]:
        self.recorder.close()
        return self.recorder.trace().actions


@pytest.fixture
def setting(tmp_path: Path) -> Iterator[Setting]:
    made = Setting(tmp_path)
    yield made
    made.proxy.close()
    made.server.shutdown()
    made.server.server_close()


def test_a_request_passes_and_is_a_call(setting: Setting) -> None:
    answer, content = setting.ask(
        "POST",
        "/issue?a=1",
        b'{"title": "x"}',
        Content_Type="application/json",
        Authorization="Basic YWRhOnNlY3JldA==",
    )
    assert answer.status == 200
    assert json.loads(content)["body"] == '{"title": "x"}'
    (call,) = setting.calls()
    assert (call.tool, call.action_class) == ("tracker POST", ActionClass.CONDITIONAL_UPDATE)
    assert call.principal == "ada"
    assert call.transactions == (Mark("tracker"),)
    assert isinstance(call.arguments, Map)
    assert call.arguments.get("body") == Map.of({"title": "x"})
    assert call.arguments.get("query") == (("a", "1"),)
    assert "secret" not in str(setting.recorder.trace())


def test_the_system_and_the_agent_each_see_their_own_names(setting: Setting) -> None:
    ours = urlsplit(setting.proxy.url)
    assert (ours.username, ours.password) == ("ada", "pw")
    place = f"{ours.hostname}:{ours.port}"
    answer, content = setting.ask("GET", "/", Origin=f"http://{place}")
    theirs = f"127.0.0.1:{setting.server.server_port}"
    assert json.loads(content)["host"] == theirs
    assert json.loads(content)["origin"] == f"http://{theirs}"
    assert answer.getheader("Location") == f"http://{place}/there"


@pytest.mark.parametrize(
    ("method", "path", "headers", "action_class", "marks"),
    [
        ("GET", "/x", {}, ActionClass.READ, ()),
        ("DELETE", "/x", {}, ActionClass.IRREVERSIBLE_DELETION, (Mark("tracker"),)),
        ("BREW", "/x", {}, ActionClass.UNKNOWN, (Mark("tracker"),)),
        ("GET", "/x?@action=retire", {}, ActionClass.UNKNOWN, None),
        ("GET", "/x", {"X_HTTP_Method_Override": "DELETE"}, ActionClass.UNKNOWN, None),
        ("PUT", "/missing", {}, ActionClass.CONDITIONAL_UPDATE, ()),
    ],
)
def test_a_request_is_of_the_class_of_what_it_asks(
    setting: Setting,
    method: str,
    path: str,
    headers: dict[str, str],
    action_class: ActionClass,
    marks: Any,
) -> None:
    answer, _ = setting.ask(method, path, **headers)
    (call,) = setting.calls()
    assert (call.action_class, call.transactions) == (action_class, marks)
    assert call.error == (None if answer.status < 400 else "HTTP 404")


def test_a_system_that_names_its_transactions_is_believed_where_it_does_so_once(
    setting: Setting,
) -> None:
    three, seven = Mark("tracker", "3"), Mark("tracker", "7")
    update = ActionClass.CONDITIONAL_UPDATE
    told: list[tuple[str, str, ActionClass, tuple[Mark, ...]]] = [
        ("PUT", "/x?made=3", update, (three,)),
        ("PUT", "/x?made=", update, ()),
        ("PUT", "/missing?made=7", update, (seven,)),
        ("GET", "/x?made=7", ActionClass.UNKNOWN, (seven,)),
        ("GET", "/x?made=", ActionClass.READ, ()),
        ("PUT", f"/x?made={quote('3 ? 7')}", update, (three, Mark("tracker"), seven)),
        ("PUT", "/x?made=3&made=4", update, (Mark("tracker"),)),
        ("PUT", "/x?made=tracker/3", update, (Mark("tracker"),)),
    ]
    for method, path, _, _ in told:
        answer, _ = setting.ask(method, path, X_Transactions="9")
        assert answer.getheader("X-Transactions") is None
    assert [(call.action_class, call.transactions) for call in setting.calls()] == [
        (action_class, marks) for _, _, action_class, marks in told
    ]


def test_what_is_huge_passes_whole_and_is_recorded_within_bounds(setting: Setting) -> None:
    for path in ("/huge", "/huge-stream"):
        _, content = setting.ask("GET", path, b"y" * 2_000_000)
        assert len(content) == 3_000_000
    for call in setting.calls():
        assert not isinstance(call.result, Unobserved)
        assert len(str(call)) < 5_000


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"Content-Length: -5\r\n\r\n",
        b"Content-Length: 1_0\r\n\r\n0123456789",
        b"Content-Length: 3\r\nContent-Length: 5\r\n\r\n01234",
        b"Content-Length: 99999999999\r\n\r\n",
        b"Content-Length: 50\r\n\r\ncut",
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcdef\r\n0\r\n\r\n",
        b"no header\r\n\r\n",
    ],
)
def test_a_malformed_request_is_refused_and_recorded(
    setting: Setting, request_bytes: bytes
) -> None:
    place = urlsplit(setting.proxy.url)
    with socket.create_connection((place.hostname or "", place.port or 0), 10) as raw:
        raw.sendall(b"POST / HTTP/1.1\r\nHost: x\r\n" + request_bytes)
        raw.shutdown(socket.SHUT_WR)
        assert b"400" in raw.recv(1000)
    (call,) = setting.calls()
    assert "malformed" in (call.error or "")


def test_a_chunked_request_arrives_whole(setting: Setting) -> None:
    place = urlsplit(setting.proxy.url)
    connection = HTTPConnection(place.hostname or "", place.port, timeout=10)
    connection.request("POST", "/", iter([b"one", b"two"]), encode_chunked=True)
    assert json.loads(connection.getresponse().read())["body"] == "onetwo"
    connection.close()


def test_a_header_that_comes_twice_passes_twice_and_one_that_is_folded_is_one(
    setting: Setting,
) -> None:
    place = urlsplit(setting.proxy.url)
    with socket.create_connection((place.hostname or "", place.port or 0), 10) as raw:
        raw.sendall(
            b"GET /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            b"Cookie: a\r\nCookie: b\r\nOrigin: c\r\n d: e\r\n\r\n"
        )
        content = b"".join(iter(lambda: raw.recv(10_000), b""))
    said = json.loads(content.rpartition(b"\r\n\r\n")[2])
    assert (said["cookies"], said["origin"]) == (["a", "b"], "c d: e")


def test_an_answer_that_is_cut_is_no_answer(setting: Setting) -> None:
    answer, _ = setting.ask("PUT", "/cut")
    assert answer.status == 502
    (call,) = setting.calls()
    assert "no answer" in (call.error or "")


def test_a_system_that_is_gone_is_an_error_of_the_call(setting: Setting) -> None:
    setting.server.shutdown()
    setting.server.server_close()
    answer, _ = setting.ask("PUT", "/x")
    assert answer.status == 502
    (call,) = setting.calls()
    assert "no answer" in (call.error or "")
    assert call.transactions == (Mark("tracker"),)


@pytest.mark.clients("git")
def test_a_push_says_which_references_it_moved(setting: Setting, tmp_path: Path) -> None:
    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words],
            cwd=tmp_path,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    git("init", "-q", "--bare", "backend.git")
    git("-C", "backend.git", "config", "http.receivepack", "true")
    git("clone", "-q", setting.proxy.url + "backend.git", "work")
    git("-C", "work", "commit", "-q", "--allow-empty", "-m", "x")
    commit = git("-C", "work", "rev-parse", "HEAD")
    git("-C", "work", "push", "-q", "origin", "HEAD:refs/heads/new")
    git("-C", "work", "push", "-q", "origin", ":refs/heads/new")
    pushes = [c for c in setting.calls() if c.action_class is not ActionClass.READ]
    kinds = [c.action_class for c in pushes]
    assert kinds == [ActionClass.CONDITIONAL_UPDATE, ActionClass.IRREVERSIBLE_DELETION]
    none = "0" * 40
    assert pushes[0].transactions == (Mark("tracker", f"refs/heads/new {none}..{commit}"),)
    assert pushes[1].transactions == (Mark("tracker", f"refs/heads/new {commit}..{none}"),)
    assert f'"{commit}"' in str(pushes[0].arguments).replace("'", '"')


def test_a_push_names_only_the_moves_that_the_server_says_it_made(
    setting: Setting, tmp_path: Path
) -> None:
    def git(*words: str) -> int:
        name = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
        return subprocess.run(name, cwd=tmp_path, check=False, capture_output=True).returncode

    git("init", "-q", "--bare", "backend.git")
    git("-C", "backend.git", "config", "http.receivepack", "true")
    git("-C", "backend.git", "config", "receive.denyDeletes", "true")
    git("clone", "-q", setting.proxy.url + "backend.git", "work")
    git("-C", "work", "commit", "-q", "--allow-empty", "-m", "x")
    assert git("-C", "work", "push", "-q", "origin", "HEAD:refs/heads/a", "HEAD:refs/heads/b") == 0
    assert git("-C", "work", "push", "-q", "origin", ":refs/heads/a", "HEAD:refs/heads/c") != 0
    pushes = [c for c in setting.calls() if c.action_class is not ActionClass.READ]
    moved = [[(m.name or "").split()[0] for m in c.transactions or ()] for c in pushes]
    assert moved == [["refs/heads/a", "refs/heads/b"], ["refs/heads/c"]]


@pytest.mark.slow
def test_a_native_agent_is_judged_as_ever_with_a_log_of_the_harness(
    running: Sandboxes, tmp_path: Path
) -> None:
    folder = contract_folder("helpdesk/reassign-with-comment")
    agent = NativeAgent(CommandAgent(folder.agent("careful"), 30.0))
    trial = live_trial(running("helpdesk"), folder.contract, agent, tmp_path / "t")
    trace = trial.observed.run.trace
    assert trial.evaluated.judgement.verdict is Verdict.MATCH
    assert not trace.is_agent_influenced
    assert "none has to" in (trace.gap or "")
    assert {"tracker GET", "tracker PUT"} <= {call.tool for call in trace.actions}
    assert {call.principal for call in trace.actions} != {"agent"}


def test_the_proxy_passes_what_was_asked_and_records_it(setting: Setting) -> None:
    form = {"Content_Type": "application/x-www-form-urlencoded"}
    _, content = setting.ask("POST", "/x?api_key=Kq81hz", b"password=h%21nter2&n=1", **form)
    assert b"Kq81hz" in content
    (call,) = setting.calls()
    shown = Disclosure().trace(Trace((call,))).actions[0]
    for secret in ("Kq81hz", "h%21nter2"):
        assert secret in repr(call)
        assert secret not in repr(shown)
    assert "&n=1" in repr(shown)


FORM = "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("method", "kind", "body", "class_"),
    [
        ("POST", FORM, "_method=delete&id=7", ActionClass.IRREVERSIBLE_DELETION),
        ("POST", FORM, "_method=PATCH", ActionClass.CONDITIONAL_UPDATE),
        ("POST", "", "id=7&_method=DELETE", ActionClass.IRREVERSIBLE_DELETION),
        ("POST", "application/json", '{"_method": "delete"}', ActionClass.IRREVERSIBLE_DELETION),
        ("POST", FORM, "%40action=retire", ActionClass.IRREVERSIBLE_DELETION),
        ("POST", FORM, "@action=edit", ActionClass.CONDITIONAL_UPDATE),
        ("POST", FORM, "@action=login", ActionClass.UNKNOWN),
        ("POST", FORM, "_method=get", ActionClass.UNKNOWN),
        ("POST", FORM, "_method=put&_method=delete", ActionClass.UNKNOWN),
        ("PUT", FORM, "_method=delete", ActionClass.UNKNOWN),
        ("GET", FORM, "_method=delete", ActionClass.UNKNOWN),
        ("POST", FORM, "method=delete", ActionClass.CONDITIONAL_UPDATE),
        ("POST", "multipart/form-data; boundary=b",
         '--b\r\nContent-Disposition: form-data; name="_method"\r\n\r\ndelete\r\n--b--\r\n',
         ActionClass.IRREVERSIBLE_DELETION),
    ],
)  # fmt: skip
def test_a_form_that_orders_another_method_is_of_its_class(
    setting: Setting, method: str, kind: str, body: str, class_: ActionClass
) -> None:
    setting.ask(method, "/x", body.encode(), **({"Content_Type": kind} if kind else {}))
    (call,) = setting.calls()
    assert call.action_class is class_
    assert (call.transactions is None) == (class_ is ActionClass.UNKNOWN)
