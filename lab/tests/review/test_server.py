"""Whoever does not hold the link gets nothing from the desk, and whoever does gets no more."""

from __future__ import annotations

import http.client
import re
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

import pytest
from statediff_lab.review.desk import Desk
from statediff_lab.review.server import DeskServer

from lab.tests.review.conftest import MakeDesk
from statediff.reports.loopback import MAX_BODY, MAX_CONNECTIONS

Serve = Callable[[Desk], DeskServer]
TASK = "Change what the test says."
FORM = {"label": "incorrect", "note": "it is not"}


@pytest.fixture
def server(make_desk: MakeDesk, serve: Serve) -> DeskServer:
    return serve(make_desk())


def ask(
    server: DeskServer, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, str, dict[str, str]]:
    """The answer to one request; `_` in a header's name stands for `-`."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    sent = {"Host": server.authority, **{n.replace("_", "-"): v for n, v in headers.items()}}
    if body is not None:
        sent.setdefault("Content-Length", str(len(body)))
    for name, value in sent.items():
        connection.putheader(name, value)
    connection.endheaders(body)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text, {name.lower(): value for name, value in answer.getheaders()}


def post(server: DeskServer, path: str, **changed: str) -> tuple[int, str, dict[str, str]]:
    """A form as the page itself would send it, with some headers changed."""
    headers = {
        "Origin": server.origin, "Sec_Fetch_Site": "same-origin",
        "Content_Type": "application/x-www-form-urlencoded", **changed,
    }  # fmt: skip
    return ask(server, "POST", path, urlencode(FORM).encode(),
               **headers)  # fmt: skip


def signed(server: DeskServer) -> int:
    return sum(each is not None for each in server.desk.labels())


def test_the_link_opens_the_desk_once_and_only_once(server: DeskServer) -> None:
    path = server.link.removeprefix(server.origin)
    status, _, headers = ask(server, "GET", path)
    assert (status, headers["location"]) == (303, f"{server.root}/")
    assert server.root not in path
    assert ask(server, "GET", f"{server.root}/")[0] == 200
    status, text, _ = ask(server, "GET", path)
    assert status == 403
    assert "used already" in text
    assert server.root not in text


@pytest.mark.parametrize(
    "path",
    ["/", "/1", "/enter/", "/enter/x", "/x/1", "//1", "/..%2f1", "/ROOT", "/ROOT/../1",
     "/favicon.ico", "/ROOT/1/2", "/ROOT%00/1"],
)  # fmt: skip
def test_without_the_secret_there_is_nothing(server: DeskServer, path: str) -> None:
    status, text, _ = ask(server, "GET", path.replace("ROOT", server.root[1:]))
    assert status in (400, 403, 404)
    assert TASK not in text
    assert server.root not in text


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost:PORT", "127.0.0.1", "127.0.0.1:1", "127.0.0.1:PORT.", "",
     "[::1]:PORT"],
)  # fmt: skip
def test_another_name_for_this_machine_is_not_answered(server: DeskServer, host: str) -> None:
    name = host.replace("PORT", str(server.server_port))
    for path in (f"{server.root}/1", server.link.removeprefix(server.origin)):
        status, text, _ = ask(server, "GET", path, Host=name)
        assert status == 421
        assert TASK not in text
    assert ask(server, "GET", f"{server.root}/1")[0] == 200
    assert post(server, f"{server.root}/1", Host=name)[0] == 421
    assert signed(server) == 0


def test_two_hosts_are_no_host(server: DeskServer) -> None:
    with socket.create_connection(("127.0.0.1", server.server_port), 10) as raw:
        lines = f"GET {server.root}/1 HTTP/1.1\r\nHost: {server.authority}\r\nHost: evil\r\n\r\n"
        raw.sendall(lines.encode())
        assert b" 421 " in raw.makefile("rb").readline()


@pytest.mark.parametrize(
    "changed",
    [
        {"Origin": "https://evil.example"}, {"Origin": "null"}, {"Origin": ""},
        {"Origin": "http://localhost:80"}, {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Content_Type": "text/plain"}, {"Content_Type": "multipart/form-data; boundary=x"},
        {"Content_Type": "application/json"}, {"Content_Type": ""},
    ],
    ids=str,
)  # fmt: skip
def test_a_form_of_another_page_signs_nothing(server: DeskServer, changed: dict[str, str]) -> None:
    status, text, _ = post(server, f"{server.root}/1", **changed)
    assert status in (403, 415)
    assert TASK not in text
    assert signed(server) == 0
    assert post(server, f"{server.root}/1")[0] == 303
    assert signed(server) == 1


def test_another_page_can_read_no_trial(server: DeskServer) -> None:
    for site in ("cross-site", "same-site"):
        assert ask(server, "GET", f"{server.root}/1", Sec_Fetch_Site=site)[0] == 403
    status, text, _ = ask(server, "GET", f"{server.root}/1", Sec_Fetch_Site="none")
    assert status == 200
    assert TASK in text


@pytest.mark.parametrize(
    ("body", "length", "status"),
    [
        (b"label=correct", "-1", 400), (b"label=correct", "x", 400),
        (b"label=correct", str(MAX_BODY + 1), 413), (b"label=correct", "9" * 30, 400),
        (b"label=\xff", None, 400), (b"&".join([b"failure=exact-match"] * 40), None, 400),
        (b"", None, 422), (b"label=right", None, 422),
        (b"label=correct&label=incorrect", None, 422),
        (b"label=correct&admin=1", None, 422), (b"label=correct&seconds=1", None, 422),
        (b"label=correct&cause=agent-failure", None, 422),
        (b"label=correct&note=" + b"x" * 4001, None, 422),
    ],
)  # fmt: skip
def test_a_form_that_is_none_signs_nothing(
    server: DeskServer, body: bytes, length: str | None, status: int
) -> None:
    headers = {"Content_Length": length} if length else {}
    found, _, _ = ask(
        server, "POST", f"{server.root}/1", body, Origin=server.origin,
        Content_Type="application/x-www-form-urlencoded", **headers,
    )  # fmt: skip
    assert (found, signed(server)) == (status, 0)


def test_what_was_typed_is_not_lost_when_a_form_is_refused(server: DeskServer) -> None:
    body = urlencode({"label": "incorrect", "note": "</textarea><b>x", "admin": "1"}).encode()
    status, text, _ = ask(
        server, "POST", f"{server.root}/1", body, Origin=server.origin,
        Content_Type="application/x-www-form-urlencoded",
    )  # fmt: skip
    assert status == 422
    assert "&lt;/textarea&gt;&lt;b&gt;x</textarea>" in text
    assert re.search(r'value="incorrect" required checked', text)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "HEAD", "<x>"])
def test_other_methods_do_nothing(server: DeskServer, method: str) -> None:
    status, text, _ = ask(server, method, f"{server.root}/1")
    assert status in (400, 501)
    assert "<x>" not in text
    assert server.root not in text


def test_every_answer_says_what_it_may_be_used_for(server: DeskServer) -> None:
    for path in (f"{server.root}/", f"{server.root}/1", "/nothing", f"{server.root}/99"):
        _, _, headers = ask(server, "GET", path)
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; style-src 'sha256-")
        assert policy.endswith("form-action 'self'; frame-ancestors 'none'")
        assert "unsafe" not in policy
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["server"] == "statediff"
        assert "access-control-allow-origin" not in headers


def test_it_listens_on_the_loopback_address_only(server: DeskServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", server.server_port), 1)


def test_who_says_nothing_keeps_nobody_waiting(server: DeskServer) -> None:
    silent = [
        socket.create_connection(("127.0.0.1", server.server_port), 5)
        for _ in range(MAX_CONNECTIONS // 2)
    ]
    silent[0].sendall(b"POST / HTTP/1.1\r\nContent-Length: 999\r\n")
    assert ask(server, "GET", f"{server.root}/1")[0] == 200
    for each in silent:
        each.close()


def test_two_forms_at_once_are_two_signatures_and_no_more(
    server: DeskServer, tmp_path: Path
) -> None:
    threads = [threading.Thread(target=post, args=(server, f"{server.root}/1")) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(list((tmp_path / "forbidden" / "labels").iterdir())) == 4
    assert signed(server) == 1


def test_a_trial_that_cannot_be_read_says_so_and_the_others_go_on(
    server: DeskServer, tmp_path: Path
) -> None:
    (tmp_path / "forbidden" / "bundle" / "judgement.json").write_bytes(b"<script>")
    status, text, _ = ask(server, "GET", f"{server.root}/1")
    assert status == 500
    assert "its digest is not the one in the manifest" in text
    assert ask(server, "GET", f"{server.root}/2")[0] == 200
