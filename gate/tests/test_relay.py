"""A gate before a mail server: the kit on letters, and the relay as a client meets it."""

import contextlib
import json
import signal
import smtplib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from statediff_gate import Gate
from statediff_gate.conformance import AdapterSuite
from statediff_gate.mail import MailGate
from statediff_gate.participant import Answer, Participant
from statediff_gate.relay import listening
from statediff_office.mail.source import Deliveries, OutboxProcess

from gate.tests.conftest import approve_and_commit
from statediff.cli.main import run
from statediff.model.state import MemoryChunks, State
from tests.servers import free_port

CONTRACT = """
contract: gate/mail
version: 1.0.0
owner: us
intent: Write to Ada once, and to Bo where a person says so.
noop: true
exclude: [{what: message.received_at, because: the server's clock}]
allow:
  - {id: ada, create: message, where: it.to == "ada@x.org", count: {max: 1}}
  - {id: bo, create: message, where: it.to == "bo@x.org"}
  - {id: dates, create: message_header}
effects:
  - {on: create message, reversibility: irreversible, authorized_by: it.to == "ada@x.org"}
"""


def letter(text: str) -> bytes:
    return f"From: me@x.org\r\nTo: ada@x.org\r\nSubject: s\r\n\r\n{text}\r\n".encode()


class Letters(MailGate):
    """The adapter, whose statement is a letter's text."""

    def run(self, statement: str, values: object = ()) -> Answer:
        people = ["ada@x.org", "bo@x.org"][: 1 + ("both" in statement)]
        if statement == "nothing":
            return Answer()
        return super().run(self.keep("me@x.org", people, letter(statement)))


class TestMail(AdapterSuite):
    transactions: ClassVar = {
        "a letter": ("one",), "to two": ("both",), "the same again": ("one",), "none": ("nothing",),
        "dots and umlauts": ("a\r\n.\r\n..b\r\nü",),
    }  # fmt: skip
    refused: ClassVar = ("one", "a second in one transaction")
    killed: ClassVar = ("killed",)

    @pytest.fixture
    def place(self, tmp_path: Path) -> Iterator[tuple[OutboxProcess, Path]]:
        with OutboxProcess() as outbox:
            yield outbox, tmp_path / "letters"

    def make(self, tmp_path: Path) -> None:
        """The fixture has it."""

    def open(self, place: tuple[OutboxProcess, Path]) -> Participant:
        return Letters("outbox", f"smtp://127.0.0.1:{place[0].smtp_port}", place[1])

    def look(self, place: tuple[OutboxProcess, Path], like: State | None) -> State:
        """The messages of the next server, with the times at which the gate got them."""
        kept = [json.loads(each.read_bytes()) for each in place[1].glob("*[0-9a-f].json")]
        kept.sort(key=lambda each: each["received_at_ns"])
        alike, found = ("sender", "recipients", "raw"), place[0].control.messages()
        for each in found:
            same = next(k for k in kept if all(k[name] == each[name] for name in alike))
            each["received_at_ns"] = same["received_at_ns"]
            kept.remove(same)
        source, rows = place[0].source("outbox"), Deliveries()
        for more in source.deliveries(found):
            rows.extend(more)
        return source.state(rows, MemoryChunks(), like)

    def is_written(self, state: State) -> bool:
        return any("killed" in row["body"] for _, row in state.tables["message"].rows())


@pytest.fixture
def outbox() -> Iterator[OutboxProcess]:
    with OutboxProcess() as made:
        yield made


@pytest.fixture
def opened(keys: Path, outbox: OutboxProcess, monkeypatch) -> Iterator[tuple[Gate, int]]:
    monkeypatch.chdir(keys)
    (keys / "c.yaml").write_text(CONTRACT)
    url = f"smtp://127.0.0.1:{outbox.smtp_port}"
    with (
        Gate("c.yaml", {"outbox": url}, folder=keys / "records", key=keys / "gate.pem") as gate,
        listening(gate, "outbox", "127.0.0.1", 0) as port,
    ):
        yield gate, port


def send(port: int, to: str, text: str = "hello") -> tuple[int, str]:
    with smtplib.SMTP("127.0.0.1", port) as client:
        client.ehlo()
        client.mail("me@x.org")
        client.rcpt(to)
        code, said = client.data(letter(text))
    return code, said.decode()


def there(outbox: OutboxProcess) -> list[str]:
    return [to for each in outbox.control.messages() for to in each["recipients"]]


def test_a_letter_goes_on_is_kept_or_is_refused(opened, outbox: OutboxProcess) -> None:
    _, port = opened
    assert send(port, "ada@x.org") == (250, "2.0.0 Sent")
    assert send(port, "ada@x.org", "again") == (550, "5.7.1 Denied: frame: message 1 created")
    assert send(port, "eve@x.org")[0] == 550
    said = send(port, "bo@x.org")[1]
    assert said.startswith("2.0.0 Kept and not sent, for a person: ")
    assert there(outbox) == ["ada@x.org"]
    hold = said.rpartition(" ")[2]
    state = f"outbox=smtp://127.0.0.1:{outbox.smtp_port}"
    assert approve_and_commit(hold, state, "c.yaml", "records") == 0
    assert there(outbox) == ["ada@x.org", "bo@x.org"]


def test_an_address_that_servers_read_differently_gets_no_letter(opened, outbox) -> None:
    gate, port = opened
    mail = gate.participant("outbox")
    for odd in ('"eve@evil.org"', "ada@x.org>\r\nRCPT TO:<eve@x.org", "ada(x)@x.org", "a,ada@x.org",
                "@evil.org:ada@x.org", "Ada <ada@x.org>", "ada@x.org\0", ""):  # fmt: skip
        said = gate.execute([mail.keep("me@x.org", [odd], letter("x"))])
        assert "no plain address" in said.why, odd
        assert "no plain address" in gate.execute([mail.keep(odd or " ", [], letter("x"))]).why
    assert send(port, "ada@x.org")[0] == 250
    assert there(outbox) == ["ada@x.org"]


def test_what_the_next_server_does_not_take_is_not_sent(opened, outbox, monkeypatch) -> None:
    _, port = opened
    monkeypatch.setattr("statediff_gate.relay._IDLE_SECONDS", 0.4)
    wait, give = threading.Event().wait, MailGate._give
    monkeypatch.setattr(MailGate, "_give", lambda *each: (wait(1.5), give(*each))[1])
    outbox.stop()
    assert send(port, "ada@x.org")[0] == 451
    outbox.start()
    assert there(outbox) == []


def test_a_letter_of_which_nobody_knows_holds_the_next_one(opened, outbox, keys: Path) -> None:
    gate, port = opened
    statement = gate.participant("outbox").keep("me@x.org", ["ada@x.org"], letter("x"))
    said = {"letters": [], "pending": statement.split()[1], "conflict": None}
    (keys / "records" / "letters" / "sent.json").write_text(json.dumps(said))
    assert send(port, "bo@x.org")[1].startswith("2.0.0 Kept")
    assert send(port, "ada@x.org")[0] == 550  # it counts as sent
    gate.begin_run()
    assert send(port, "ada@x.org")[0] == 250
    assert there(outbox) == ["ada@x.org"]


def test_a_letter_is_kept_as_it_came_or_not_sent(opened, outbox, keys: Path) -> None:
    gate, _ = opened
    statement = gate.participant("outbox").keep("me@x.org", ["ada@x.org"], letter("x"))
    path = keys / "records" / "letters" / f"{statement.split()[1]}.json"
    path.write_bytes(path.read_bytes().replace(b"ada", b"eve"))
    assert not gate.execute([statement]).is_committed
    assert there(outbox) == []


def test_the_relay_is_a_command(keys: Path, outbox: OutboxProcess) -> None:
    (keys / "c.yaml").write_text(CONTRACT)
    port, url = free_port(), f"smtp://127.0.0.1:{outbox.smtp_port}"
    given = ("--key", str(keys / "gate.pem"), "--records", str(keys / "r"), "--listen")
    for place, at in (("smtp://h:bad", ":1"), ("mysql://h:bad/x", ":1"), (url, ":99999")):
        assert run(["gate", str(keys / "c.yaml"), "--state", f"outbox={place}", *given, at]) == 2
    words = ("gate", "c.yaml", "--state", f"outbox={url}", "--key", "gate.pem", "--listen")
    for _ in range(2):  # each start begins a run
        command = [sys.executable, "-m", "statediff", *words, f":{port}"]
        with subprocess.Popen(command, cwd=keys) as ran:
            for _ in range(600):
                with contextlib.suppress(ConnectionRefusedError):
                    assert send(port, "ada@x.org")[0] == 250
                    break
                time.sleep(0.1)
            assert send(port, "ada@x.org")[0] == 550
            ran.send_signal(signal.SIGINT)
        assert ran.returncode == 0
    assert there(outbox) == ["ada@x.org"] * 2
