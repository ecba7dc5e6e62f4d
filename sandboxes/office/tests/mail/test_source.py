import contextlib
import json
import os
import signal
import smtplib
import socket
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from email.message import EmailMessage
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statediff_office.mail.parsing import parse_message
from statediff_office.mail.sinks import end_nursery
from statediff_office.mail.source import (
    OutboxControl,
    OutboxProcess,
)

from statediff.capture.source import SourceUnavailable
from statediff.errors import SandboxError
from statediff.model.state import MemoryChunks
from statediff.model.values import Map, Unobserved, encode


def clock() -> datetime:
    return datetime(2024, 5, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def running():
    with OutboxProcess() as process:
        yield process


@pytest.fixture
def outbox(running):
    running.control.reset()
    return running


def send(outbox: OutboxProcess, raw: bytes, to: tuple[str, ...] = ("b@y",)) -> None:
    with smtplib.SMTP("127.0.0.1", outbox.smtp_port, timeout=10) as client:
        client.sendmail("a@x", list(to), raw)


def read(outbox: OutboxProcess):
    return outbox.source("outbox").read(MemoryChunks(), clock, None)


def messages(outbox: OutboxProcess):
    return [row for _, row in read(outbox).state.tables["message"].rows()]


# Delivery


def test_a_delivered_message_is_one_entity_for_each_recipient(outbox):
    mail = EmailMessage()
    mail["Subject"], mail["Message-ID"] = "Ihre Rückzahlung", "<1@shop>"
    mail.set_content("Grüße\n.one dot\n")
    mail.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="beleg.pdf")
    sent_after = datetime.now(UTC)
    with smtplib.SMTP("127.0.0.1", outbox.smtp_port) as client:
        client.send_message(mail, "shop@x", ["one@y", "two@y"])
    one, two = messages(outbox)
    assert {k: one[k] for k in ("id", "to", "sender", "subject", "body", "message_id")} == {
        "id": 1,
        "to": "one@y",
        "sender": "shop@x",
        "subject": "Ihre Rückzahlung",
        "body": "Grüße\n.one dot\n",
        "message_id": "<1@shop>",
    }
    (attachment,) = one["attachments"]
    assert isinstance(attachment, Map)
    assert (attachment.get("name"), attachment.get("size")) == ("beleg.pdf", 4)
    assert sent_after <= one["received_at"] <= datetime.now(UTC)
    assert {**one, "id": 2, "to": "two@y"} == two


def test_deliveries_are_numbered_in_order_and_reset_starts_again(outbox):
    for n in range(3):
        send(outbox, b"Subject: %d\r\n\r\nx\r\n" % n)
    assert [(m["id"], m["subject"]) for m in messages(outbox)] == [(1, "0"), (2, "1"), (3, "2")]
    assert read(outbox).reading.digest == read(outbox).reading.digest
    outbox.control.reset()
    assert messages(outbox) == []
    send(outbox, b"Subject: again\r\n\r\nx\r\n")
    assert [m["id"] for m in messages(outbox)] == [1]


def test_a_message_on_its_way_is_in_flight_until_it_is_accepted(outbox):
    control = outbox.control
    with smtplib.SMTP("127.0.0.1", outbox.smtp_port) as client:
        client.ehlo()
        assert (control.status().connections, control.status().in_flight) == (1, 0)
        client.mail("a@x")
        client.rcpt("b@y")
        assert control.status().in_flight == 1
        assert messages(outbox) == []
        client.data(b"Subject: s\r\n\r\nx\r\n")
        assert (control.status().in_flight, control.status().deliveries) == (0, 1)


def test_reading_is_fast_once_warm(outbox):
    for n in range(5):
        send(outbox, b"Subject: %d\r\n\r\n%s\r\n" % (n, b"text " * 15))
    source, store = outbox.source("outbox"), MemoryChunks()
    source.read(store, clock, None)
    times = []
    for _ in range(10):
        started = time.perf_counter()
        source.read(store, clock, None)
        times.append(time.perf_counter() - started)
    assert min(times) < 0.02


# Life and death of the process


def test_a_stopped_or_killed_outbox_refuses_the_connection():
    for end in (OutboxProcess.stop, OutboxProcess.kill):
        process = OutboxProcess().start()
        source, pid = process.source("outbox"), process.pid
        assert process.is_running
        end(process)
        assert not process.is_running
        with pytest.raises(SourceUnavailable, match=r"^connection refused$"):
            source.read(MemoryChunks(), clock, None)
        with pytest.raises(ConnectionRefusedError):
            smtplib.SMTP("127.0.0.1", process.smtp_port)
        await_gone(pid)
        end(process)  # again is harmless


def await_gone(pid):
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return  # ended; nobody here reaps orphans
        except (ProcessLookupError, FileNotFoundError):
            return
        time.sleep(0.02)
    pytest.fail(f"process {pid} is still there")


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_outboxes_and_what_began_them_end_when_the_evaluator_does(number):
    script = textwrap.dedent("""
        import time
        from statediff_office.mail.source import OutboxProcess
        begun = [OutboxProcess().start() for _ in range(3)]
        print(*(process.pid for process in begun), flush=True)
        time.sleep(60)
    """)
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        (nursery,) = {parent_of(pid) for pid in pids}
        assert parent_of(nursery) == parent.pid
        parent.send_signal(number)
    for pid in (*pids, nursery):
        await_gone(pid)


def test_one_outbox_has_nothing_of_another_and_dies_alone(outbox):
    other = OutboxProcess().start()
    try:
        nursery = parent_of(other.pid)
        assert parent_of(outbox.pid) == nursery
        held = [
            {str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir() if fd.is_symlink()}
            for pid in (outbox.pid, other.pid, nursery)
        ]
        sockets = [{each for each in one if each.startswith("socket:")} for one in held]
        assert all(sockets)
        assert not sockets[0] & sockets[1]
        assert not sockets[2] & (sockets[0] | sockets[1])
        send(other, b"Subject: s\r\n\r\nx\r\n")
        assert (len(messages(other)), len(messages(outbox))) == (1, 0)
        other.kill()
        assert outbox.control.status().deliveries == 0
        os.kill(nursery, signal.SIGKILL)
        assert outbox.control.status().deliveries == 0
        assert other.start().control.status().deliveries == 0
        assert parent_of(other.pid) != nursery
    finally:
        other.kill()


def test_many_outboxes_begin_at_once():
    with ThreadPoolExecutor(8) as several:
        begun = list(several.map(lambda _: OutboxProcess().start(), range(8)))
    try:
        assert len({process.control.port for process in begun}) == 8
        assert len({parent_of(process.pid) for process in begun}) == 1
        assert all(process.control.status().deliveries == 0 for process in begun)
    finally:
        for process in begun:
            process.stop()
            assert not process.is_running


def test_the_sink_imports_only_what_it_needs():
    script = "import sys, statediff_office.mail.sink; print(*sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = set(ended.stdout.split())
    assert "aiosmtpd.smtp" in loaded
    assert not loaded & {"pyarrow", "pydantic", "numpy", "statediff.model"}


def test_the_token_is_in_no_argument_and_no_environment_variable(outbox):
    token = outbox.control.token.hex().encode()
    for name in ("cmdline", "environ"):
        assert token not in Path(f"/proc/{outbox.pid}/{name}").read_bytes()


def test_an_outbox_that_cannot_start_says_why(monkeypatch):
    end_nursery()
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(SandboxError, match="did not start"):
        OutboxProcess().start()


# The control connection


def test_without_the_token_nothing_is_told_and_nothing_is_reset(outbox):
    send(outbox, b"Subject: s\r\n\r\nx\r\n")
    stranger = OutboxControl(outbox.control.port, b"wrong" * 8)
    for ask in (stranger.messages, stranger.reset, stranger.status):
        with pytest.raises(SourceUnavailable, match="is not the outbox"):
            ask()
    for garbage in (
        b"\n",
        b"[]\n",
        b"{" * 5000 + b"\n",
        b"\xff\n",
        b"x" * 200_000,
        b'{"op": 1, "nonce": 2, "mac": 3}\n',
    ):
        # The outbox may have hung up before it got all of that.
        with (
            socket.create_connection(("127.0.0.1", outbox.control.port)) as raw,
            contextlib.suppress(OSError),
        ):
            raw.sendall(garbage)
            raw.shutdown(socket.SHUT_WR)
            assert b"messages" not in raw.makefile("rb").read()
    assert len(messages(outbox)) == 1


def test_a_program_that_took_the_port_of_a_dead_outbox_cannot_pass_for_it():
    process = OutboxProcess().start()
    source, port = process.source("outbox"), process.control.port
    process.kill()
    payload = json.dumps({"messages": []}).encode()
    fake = textwrap.dedent(f"""
        import json, socket
        bound = socket.create_server(("127.0.0.1", {port}))
        print("ready", flush=True)
        taken, _ = bound.accept()
        taken.sendall(b"nonce\\n")
        taken.recv(1000)
        taken.sendall(json.dumps({{"size": {len(payload)}, "mac": "00"}}).encode() + b"\\n")
        taken.sendall({payload!r})
    """)
    with subprocess.Popen([sys.executable, "-c", fake], stdout=subprocess.PIPE) as impostor:
        assert impostor.stdout is not None
        assert impostor.stdout.readline() == b"ready\n"
        with pytest.raises(SourceUnavailable, match="is not the outbox"):
            source.read(MemoryChunks(), clock, None)


# Hostile mail

HOSTILE = {
    "nul bytes": b"Subject: a\0b\r\n\r\nx\0y\r\n",
    "no header at all": b"just text",
    "empty": b"",
    "raw latin-1": b"Subject: caf\xe9\r\n\r\ncaf\xe9\r\n",
    "unknown charset": b"Subject: =?zip?b?AAAA?=\r\nContent-Type: text/plain; charset=punycode\r\n"
    b"\r\nx\r\n",
    "bad encoded word": b"Subject: =?utf-8?b?!!!?= =?utf-8?q?=ff?=\r\n\r\nx\r\n",
    "bad base64": b"Content-Transfer-Encoding: base64\r\n\r\n%%%%\r\n",
    "unknown encoding": b"Content-Transfer-Encoding: x-zip\r\n\r\nx\r\n",
    "nested": b"".join(
        b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n" % (n, n) for n in range(300)
    )
    + b"\r\nx",
    "deep rfc822": b"Content-Type: message/rfc822\r\n\r\n" * 2000 + b"x",
    "many parts": b"Content-Type: multipart/mixed; boundary=b\r\n\r\n" + b"--b\r\n\r\nx\r\n" * 500,
    "long subject": b"Subject: " + b"=?utf-8?q?a?=\r\n " * 5000 + b"\r\n\r\nx\r\n",
    "odd disposition": b"Content-Type: text/plain\r\nContent-Disposition: attachment; "
    b"filename*=bad''%ff\r\n\r\nx\r\n",
    "long parameter": b"Content-Type: text/plain; charset*=punycode''"
    + b"a" * 50_000
    + b"\r\n\r\nx",
    "html only": b"Content-Type: text/html\r\n\r\n<p>x</p>\r\n",
    "broken content type": b'Content-Type: ;;;="\r\n\r\nx\r\n',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_mail_is_kept_with_its_digest_and_crashes_nothing(outbox, name):
    raw = HOSTILE[name]
    send(outbox, raw)
    started = time.perf_counter()
    (row,) = messages(outbox)
    assert time.perf_counter() - started < 5
    assert isinstance(row["size"], int)
    assert len(str(row["digest"])) == 64
    send(outbox, b"Subject: after\r\n\r\nx\r\n")
    assert messages(outbox)[-1]["subject"] == "after"


def test_what_cannot_be_decoded_is_its_bytes_never_a_guess():
    assert parse_message(HOSTILE["raw latin-1"]).subject == b"caf\xe9"
    assert parse_message(HOSTILE["raw latin-1"]).body == b"caf\xe9\r\n"
    assert parse_message("Subject: é\r\n\r\n€".encode()).subject == "é"
    assert isinstance(parse_message(HOSTILE["unknown charset"]).subject, bytes)
    assert parse_message(HOSTILE["unknown charset"]).body == b"x\r\n"
    assert parse_message(HOSTILE["bad base64"]).body == b"%%%%\r\n"
    assert parse_message(HOSTILE["unknown encoding"]).body == b"x\r\n"
    assert isinstance(parse_message(HOSTILE["long subject"]).subject, bytes)
    assert parse_message(HOSTILE["html only"]).body is None
    assert parse_message(b"Subject: s\r\n\r\nx").message_id is None


@pytest.mark.parametrize("raw", [HOSTILE["nested"], HOSTILE["many parts"], b"x" * 5_000_000])
def test_a_message_that_is_not_taken_apart_is_one_part_with_its_digest(raw):
    parsed = parse_message(raw)
    assert isinstance(parsed.body, Unobserved)
    assert isinstance(parsed.attachments, Unobserved)
    (whole,) = parsed.parts
    assert (whole.disposition, whole.content) == ("whole", raw)


@given(
    st.binary(max_size=300)
    | st.lists(
        st.sampled_from(
            [
                b"Subject:",
                b"Content-Type:",
                b" multipart/mixed; boundary=b",
                b"text/plain; charset=",
                b"utf-7",
                b"\r\n",
                b"\r\n\r\n",
                b"--b",
                b"--b--",
                b"=?",
                b"?=",
                b"?b?",
                b"utf-8",
                b"\xff",
                b"\0",
                b";",
                b"Content-Transfer-Encoding:",
                b"base64",
                b"quoted-printable",
                b"filename*0*=",
                b"'",
                b'"',
                b"%",
                b"Content-Disposition: attachment;",
                b"message/rfc822",
                b"message/delivery-status",
                b" ",
                b"=",
                b"Message-ID:",
                b"charset*=utf-8''",
                b"filename=",
            ]
        ),
        max_size=30,
    ).map(b"".join)
)
def test_no_bytes_make_the_parser_raise_and_its_fields_are_values(raw):
    parsed = parse_message(raw)
    for field in (parsed.subject, parsed.body, parsed.message_id, parsed.attachments):
        json.dumps(encode(field)).encode()
        if isinstance(field, str):
            field.encode()
    assert parsed.size == len(raw)


def test_a_message_beyond_the_size_cap_is_refused_and_not_kept(outbox):
    with pytest.raises(smtplib.SMTPResponseException) as caught:
        send(outbox, b"Subject: s\r\n\r\n" + b"x" * 70 + b"\r\n" + (b"y" * 70 + b"\r\n") * 160_000)
    assert caught.value.smtp_code == 552
    assert messages(outbox) == []


def test_too_many_recipients_are_refused_one_by_one(outbox):
    send(outbox, b"Subject: s\r\n\r\nx\r\n", tuple(f"u{n}@y" for n in range(101)))
    assert len(messages(outbox)) == 100
