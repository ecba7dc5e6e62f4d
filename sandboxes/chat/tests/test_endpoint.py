"""A homeserver by URL: Synapse as its documentation starts it, changed by the client API."""

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import httpx
import pytest
from statediff_chat.endpoint import MatrixEndpointSource

from statediff.capture.source import SourceUnavailable
from statediff.conformance import EndpointSuite, clock, free_port, serving
from statediff.errors import UsageError
from statediff.model.state import MemoryChunks

pytestmark = pytest.mark.pack("statediff[chat]")

REGISTER = "from synapse._scripts.register_new_matrix_user import main; main()"
_numbers = itertools.count(1)


class Client:
    """One account's client."""

    def __init__(self, port: int, user: str) -> None:
        self.http = httpx.Client(
            base_url=f"http://127.0.0.1:{port}/_matrix/client/v3/", trust_env=False, timeout=60
        )
        who = {"type": "m.id.user", "user": user}
        said = {"type": "m.login.password", "identifier": who, "password": f"pw-{user}"}
        self.token = self.post("login", **said)["access_token"]
        self.http.headers["Authorization"] = f"Bearer {self.token}"

    def post(self, path: str, **body: Any) -> Any:
        return self.done(self.http.post(path, json=body))

    def put(self, path: str, **body: Any) -> Any:
        return self.done(self.http.put(path, json=body))

    def done(self, answer: httpx.Response) -> Any:
        assert answer.status_code == 200, answer.text
        return answer.json()

    def send(self, room: str, kind: str = "m.room.message", **content: Any) -> str:
        path = f"rooms/{room}/send/{kind}/{next(_numbers)}"
        return str(self.put(path, **content)["event_id"])

    def say(self, room: str, text: str) -> str:
        return self.send(room, msgtype="m.text", body=text)


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("synapse")
    config = folder / "homeserver.yaml"
    serve = [sys.executable, "-m", "synapse.app.homeserver", "--config-path", str(config)]
    more = ["--server-name", "localhost", "--generate-config", "--report-stats=no"]
    subprocess.run([*serve, *more], check=True, capture_output=True, cwd=folder)
    number = free_port()
    text = config.read_text().replace("port: 8008", f"port: {number}").replace("    - ::1\n", "")
    generous = "{per_second: 1000, burst_count: 1000}"
    text += f"suppress_key_server_warning: true\nrc_message: {generous}\n"
    text += f"rc_login: {{address: {generous}, account: {generous}}}\n"
    config.write_text(text)
    with serving(serve, number, folder):
        for user in ("ada", "bob"):
            made = [*("-u", user, "-p", f"pw-{user}", "--no-admin", "-c", str(config))]
            place = f"http://127.0.0.1:{number}"
            register = [sys.executable, "-c", REGISTER, *made, place]
            subprocess.run(register, check=True, capture_output=True)
        yield number


@pytest.fixture(scope="module")
def ada(port: int) -> Iterator[Client]:
    client = Client(port, "ada")
    yield client
    client.http.close()


@pytest.fixture(scope="module")
def bob(port: int) -> Iterator[Client]:
    client = Client(port, "bob")
    yield client
    client.http.close()


class TestSynapse(EndpointSuite):
    gone = "matrix+http://ada:token@127.0.0.1:9/"
    contract: ClassVar = """
contract: tests/say-done
version: 1.0.0
owner: tests
intent: Say that it is done.
require:
  - id: said
    create: post
    set: {text: It is done.}
"""

    @pytest.fixture
    def url(self, port: int, ada: Client, bob: Client) -> str:
        self.ada, self.bob = ada, bob
        self.room = ada.post("createRoom", name="Help", preset="public_chat")["room_id"]
        self.post = ada.say(self.room, "hello")
        bob.post(f"join/{self.room}")
        return f"matrix+http://ada:{ada.token}@127.0.0.1:{port}/"

    def right(self, url: str) -> None:
        del url
        self.ada.say(self.room, "It is done.")

    def more(self, url: str) -> None:
        self.right(url)
        self.ada.put(f"rooms/{self.room}/state/m.room.topic", topic="Gone")

    def ways(self, url: str) -> Mapping[str, Callable[[], object]]:
        del url
        ada, room = self.ada, self.room
        relation = {"rel_type": "m.annotation", "event_id": self.post, "key": "+"}
        new = {"msgtype": "m.text", "body": "bye"}
        edit = {"rel_type": "m.replace", "event_id": self.post}
        return {
            "what another says": lambda: self.bob.say(room, "me too"),
            "a reaction": lambda: ada.send(room, "m.reaction", **{"m.relates_to": relation}),
            "an edit": lambda: ada.send(
                room, **new, **{"m.new_content": new, "m.relates_to": edit}
            ),
            "a redaction": lambda: ada.put(f"rooms/{room}/redact/{self.post}/{next(_numbers)}"),
            "a ban": lambda: ada.post(f"rooms/{room}/ban", user_id="@bob:localhost"),
            "a name": lambda: ada.put("profile/@ada:localhost/displayname", displayname="Ada L."),
            "a session": self.sign_in,
            "a room": lambda: ada.post("createRoom", name="More"),
        }

    def sign_in(self) -> None:
        Client(int(self.ada.http.base_url.port or 0), "ada").http.close()


def test_a_timeline_longer_than_a_page_is_whole(
    port: int, ada: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("statediff_chat.endpoint.PAGE", 3)
    room = ada.post("createRoom", name="Long")["room_id"]
    said = [ada.say(room, f"line {n}") for n in range(8)]
    source = MatrixEndpointSource("chat", f"http+matrix://ada:{ada.token}@127.0.0.1:{port}")
    part = source.read(MemoryChunks(), clock, None)
    assert part.reading.is_complete, part.reading.cause
    posts = [row for _, row in part.state.tables["post"].rows() if row["room"] == room]
    assert {row["id"] for row in posts} == set(said)


def test_a_wrong_token_is_no_empty_chat(port: int) -> None:
    source = MatrixEndpointSource("chat", f"matrix+http://ada:wrong@127.0.0.1:{port}/")
    with pytest.raises(SourceUnavailable, match="M_UNKNOWN_TOKEN"):
        source.read(MemoryChunks(), clock, None)
    with pytest.raises(UsageError, match="STATEDIFF_PASSWORD_CHAT"):
        MatrixEndpointSource("chat", f"matrix+http://ada@127.0.0.1:{port}/")
