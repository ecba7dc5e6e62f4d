"""A mailbox of a sandbox: every way an agent can leave it is drift, and a reset removes it."""

from __future__ import annotations

import base64
import imaplib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from statediff_office.mailbox.sandbox import EmbeddedMailbox, read_mailbox_seed

from statediff.capture.source import SourceUnavailable
from statediff.conformance import Change, FeedSuite, SystemSuite, Way
from statediff.errors import SandboxError
from statediff.model.state import MemoryChunks, State
from statediff.packs import SandboxPack, sandbox_pack
from statediff.systems.base.protocol import System
from statediff.systems.base.tool import ToolError

pytestmark = pytest.mark.pack("statediff[office]")


@contextmanager
def signed_in(system: System) -> Iterator[imaplib.IMAP4]:
    url = urlsplit(system.url)
    session = imaplib.IMAP4(url.hostname or "", url.port or 0, timeout=20)
    session.login(unquote(url.username or ""), unquote(url.password or ""))
    try:
        yield session
    finally:
        session.logout()


def by_imap(act: Callable[[imaplib.IMAP4], Any], folder: str = "INBOX") -> Callable[[System], None]:
    """An act of the agent with a folder open."""

    def apply(system: System) -> None:
        with signed_in(system) as session:
            assert session.select(f'"{folder}"')[0] == "OK"
            kind, told = act(session)
            assert kind == "OK", told

    return apply


def by_sieve(*commands: bytes) -> Callable[[System], None]:
    """A request of the agent to the server of filters."""

    def apply(system: System) -> None:
        url = urlsplit(system.url)
        word = f"\0{unquote(url.username or '')}\0{unquote(url.password or '')}".encode()
        sign_in = b'AUTHENTICATE "PLAIN" "' + base64.b64encode(word) + b'"'
        place = (url.hostname or "", int(parse_qs(url.query)["sieve"][0]))
        with socket.create_connection(place, 20) as line:
            stream = line.makefile("rwb")
            for command in (b"", sign_in, *commands):
                if command:
                    stream.write(command + b"\r\n")
                    stream.flush()
                while not (answer := stream.readline()).startswith(b"OK"):
                    assert not answer.startswith((b"NO", b"BYE")), answer
                    assert answer, "the line ended"

    return apply


def append(raw: bytes, flags: str = "") -> Callable[[System], None]:
    return by_imap(lambda session: session.append("INBOX", flags, "", raw))


LETTER = b"From: a@example.org\r\nTo: dana@brightwater.example\r\nSubject: hi\r\n\r\nhello\r\n"


class TestMailbox(SystemSuite):
    source = "mailbox"
    ways: ClassVar = {
        "a message is added": Way(append(LETTER)),
        "a message is moved": Way(by_imap(lambda s: s.uid("MOVE", "101", "Trash"))),
        "a message is copied": Way(by_imap(lambda s: s.uid("COPY", "101", "Trash"))),
        "a message is marked": Way(
            by_imap(lambda s: s.uid("STORE", "112", "+FLAGS", "\\Answered"))
        ),
        "a message is marked for deletion": Way(
            by_imap(lambda s: s.uid("STORE", "102", "+FLAGS", "\\Deleted"))
        ),
        "a folder is added": Way(by_imap(lambda s: s.create("Hidden"))),
        "a folder is gone": Way(by_imap(lambda s: s.delete("Drafts"))),
        "a folder has another name": Way(by_imap(lambda s: s.rename("Sent", "Sent2"))),
        "the inbox is renamed": Way(by_imap(lambda s: s.rename("INBOX", "Old"), "Sent")),
        "a folder is not subscribed to": Way(by_imap(lambda s: s.unsubscribe("Sent"))),
        "a folder is subscribed to": Way(by_imap(lambda s: s.subscribe("Trash"))),
        "a name that is no folder is subscribed to": Way(by_imap(lambda s: s.subscribe("Nowhere"))),
        "a filter sends mail on": Way(
            by_sieve(b'PUTSCRIPT "main" {24+}\r\nredirect "x@y.example";\n')
        ),
        "no filter is active": Way(by_sieve(b'SETACTIVE ""')),
        "a filter waits": Way(by_sieve(b'PUTSCRIPT "later" {5+}\r\nkeep;')),
    }

    @classmethod
    def pack(cls) -> SandboxPack:
        return sandbox_pack("office")


class TestMailboxFeed(FeedSuite):
    source = "mailbox"
    changes: ClassVar = {
        "a message is marked": Change(
            by_imap(lambda s: s.uid("STORE", "112", "+FLAGS", "\\Answered")),
            by_imap(lambda s: s.uid("STORE", "112", "-FLAGS", "\\Answered")),
        ),
        "a name is subscribed to": Change(
            by_imap(lambda s: s.subscribe("Nowhere")), by_imap(lambda s: s.unsubscribe("Nowhere"))
        ),
        "a message is added": Change(append(LETTER)),
        "a filter waits": Change(
            by_sieve(b'PUTSCRIPT "later" {5+}\r\nkeep;'), by_sieve(b'DELETESCRIPT "later"')
        ),
    }
    losses: ClassVar = {"the server ends": lambda system: system.server.kill()}
    walks = 3

    @classmethod
    def pack(cls) -> SandboxPack:
        return sandbox_pack("office")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMailbox]:
    made = TestMailbox.make(tmp_path_factory.mktemp("mailbox") / "mailbox")
    assert isinstance(made, EmbeddedMailbox)
    made.start()
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def mailbox(running: EmbeddedMailbox) -> EmbeddedMailbox:
    running.reset()
    return running


def state(mailbox: EmbeddedMailbox) -> State:
    (source,) = mailbox.sources()
    return source.read(MemoryChunks(), lambda: datetime.now(UTC), None).state


def messages(mailbox: EmbeddedMailbox, folder: str) -> dict[int, Any]:
    return {key[2]: row for key, row in state(mailbox).tables["mail"].rows() if key[0] == folder}


def test_a_copy_holds_what_the_original_holds(mailbox: EmbeddedMailbox) -> None:
    before = messages(mailbox, "INBOX")[101]
    by_imap(lambda s: s.uid("COPY", "101", "Trash"))(mailbox)
    copied = messages(mailbox, "Trash")[101]
    assert (copied["digest"], copied["flags"]) == (before["digest"], before["flags"])
    assert copied["received_at"] == before["received_at"]


def test_what_is_appended_is_kept_byte_for_byte(mailbox: EmbeddedMailbox) -> None:
    raw = LETTER + b"\x00\xff odd\r\n\r\n"
    append(raw, r"(\Draft)")(mailbox)
    kept = max(messages(mailbox, "INBOX").items())[1]
    assert (kept["size"], kept["flags"]) == (len(raw), ("\\Draft",))


def test_the_password_is_of_one_trial(mailbox: EmbeddedMailbox) -> None:
    earlier = urlsplit(mailbox.url)
    mailbox.reset()
    now = urlsplit(mailbox.url)
    session = imaplib.IMAP4(now.hostname or "", now.port or 0, timeout=20)
    with pytest.raises(imaplib.IMAP4.error):
        session.login(unquote(earlier.username or ""), unquote(earlier.password or ""))
    session.shutdown()


def test_a_session_of_an_earlier_trial_is_cut(mailbox: EmbeddedMailbox) -> None:
    url = urlsplit(mailbox.url)
    session = imaplib.IMAP4(url.hostname or "", url.port or 0, timeout=20)
    session.login(unquote(url.username or ""), unquote(url.password or ""))
    mailbox.reset()
    with pytest.raises((imaplib.IMAP4.abort, OSError)):
        session.noop()
    session.shutdown()
    assert mailbox.verify()[1] == ()


@pytest.mark.parametrize("is_parent", [True, False])
def test_a_server_that_was_killed_is_unread_and_a_reset_brings_another(
    mailbox: EmbeddedMailbox, is_parent: bool
) -> None:
    children = Path(f"/proc/{mailbox.server.pid}/task/{mailbox.server.pid}/children")
    child = int(children.read_text().split()[0])
    os.kill(mailbox.server.pid if is_parent else child, signal.SIGKILL)
    with pytest.raises(SourceUnavailable):
        state(mailbox)
    assert "does not answer" in str(mailbox.unsettled(0))
    (drift,) = mailbox.verify()[1]
    assert (drift.what, drift.found) == ("its server", "none")
    mailbox.reset()
    assert mailbox.verify()[1] == ()


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x00" * 100,
        b"Subject: =?utf-8?q?=ff?=\r\nSubject: two\r\n\r\n\xf0\x9f",
        b"Content-Type: multipart/mixed; boundary=b\r\n\r\n" + b"--b\r\n\r\n" * 3000,
        b"From: " + b"x" * 100_000 + b"\r\n\r\n",
        b"Subject: " + "\u202e\u200b\U000e0001".encode() + b"\r\n\r\n",
        b"Subject: big\r\n\r\n" + b"x" * 5_000_000,
    ],
)
def test_whatever_is_appended_is_a_change_and_never_an_error(
    mailbox: EmbeddedMailbox, raw: bytes
) -> None:
    with signed_in(mailbox) as session:
        is_taken = session.append("INBOX", "", "", raw)[0] == "OK"
    assert is_taken == bool(raw)
    assert len(messages(mailbox, "INBOX")) == 19 + is_taken
    mailbox.reset()
    assert mailbox.verify()[1] == ()


@pytest.mark.parametrize("when", ["31-Dec-9999 23:59:59 -0800", "01-Jan-0001 00:00:00 +0900"])
def test_a_date_that_is_none_in_utc_is_a_change_and_never_an_error(
    mailbox: EmbeddedMailbox, when: str
) -> None:
    with signed_in(mailbox) as session:
        session.append("INBOX", "", f'"{when}"', LETTER)
    found = messages(mailbox, "INBOX")
    assert len(found) == 20
    assert max(found.items())[1]["subject"] == "hi"
    mailbox.reset()
    assert mailbox.verify()[1] == ()


@pytest.mark.parametrize("name", ["&a", "a&Jjo!", "&APw-&x"])
def test_a_name_that_never_ends_its_shift_is_refused(mailbox: EmbeddedMailbox, name: str) -> None:
    with signed_in(mailbox) as session, pytest.raises(imaplib.IMAP4.error, match="BAD"):
        session.create(f'"{name}"')
    with signed_in(mailbox) as session, pytest.raises(imaplib.IMAP4.error, match="BAD"):
        session.list('""', f'"{name}"')
    assert len(messages(mailbox, "INBOX")) == 19


def test_a_command_without_an_end_keeps_nothing_from_being_read(tmp_path: Path) -> None:
    """As pymap's own decoder of names is: a loop that no name gets out of."""
    program = """if True:
        import asyncio, threading
        from statediff_office.mailbox import server
        server.STUCK_SECONDS = 0.2
        held, done = server.Mailbox("ada"), threading.Event()

        class Control:
            def ready(self, said, answer):
                def ask():
                    asyncio.run_coroutine_threadsafe(stuck(), loop)
                    print(answer({"dump": True})["mailbox"]["accounts"])
                    print(sorted(answer({"history": 0})))
                    done.set()
                loop = asyncio.get_running_loop()
                threading.Thread(target=ask).start()

        async def stuck():
            while not done.is_set():
                pass
            raise SystemExit

        asyncio.run(server._serve(held, {"password": "x"}, Control()))
    """
    ran = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        env={**os.environ, "FQDN": "localhost"},
        check=False,
    )
    assert ran.stdout.splitlines()[:1] == ["['ada']"], ran.stderr
    assert "contents" in ran.stdout.splitlines()[1]


@pytest.mark.parametrize("name", ["M&APw-ll", "a b", "x" * 200, "Archive/2025/deep/er"])
def test_folders_of_odd_names_are_seen(mailbox: EmbeddedMailbox, name: str) -> None:
    by_imap(lambda s: s.create(f'"{name}"'))(mailbox)
    shown = {key[0] for key, _ in state(mailbox).tables["folder"].rows()}
    assert name.replace("&APw-", "ü") in shown


@pytest.mark.parametrize("text", ["", "account: x", "account: x\nfolders: {A: {messages: [1]}}"])
def test_a_seed_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "seed.yaml").write_text(text)
    with pytest.raises(SandboxError, match="cannot be read as a mailbox"):
        read_mailbox_seed(tmp_path / "seed.yaml")


def call(mailbox: EmbeddedMailbox, verb: str, **given: Any) -> Any:
    """The tool's answer."""
    from statediff_office.mailbox.tools import mailbox_tools  # noqa: PLC0415 - as the plug-in does

    (tool,) = (t for t in mailbox_tools("mailbox", mailbox.url) if t.name == f"mailbox_{verb}")
    return tool.act(tool.arguments.model_validate(given))


def test_an_agent_works_on_the_mailbox_by_tools(mailbox: EmbeddedMailbox) -> None:
    folders = [each["name"] for each in call(mailbox, "folders")["folders"]]
    assert {"INBOX", "Archive/2026", "Sent"} <= set(folders)
    (found,) = call(mailbox, "list", sender="elena@", subject="moving")["messages"]
    assert (found["flags"], found["subject"]) == ([], "We are moving")
    text = call(mailbox, "read", folder="INBOX", uid=found["uid"])["message"]
    assert "Kastanienallee 40" in text
    assert messages(mailbox, "INBOX")[found["uid"]]["flags"] == ()  # to read marks nothing
    call(mailbox, "flag", folder="INBOX", uids=[found["uid"]], flag="seen")
    call(mailbox, "move", folder="INBOX", uids=[found["uid"]], to="Archive/2026")
    call(mailbox, "keep", folder="Drafts", sender="dana@brightwater.example",
         to=["elena@rossi.example"], subject="Noted", body="Thank you.")  # fmt: skip
    call(mailbox, "make_folder", folder="Clients")
    call(mailbox, "subscribe", folder="Clients", subscribed=True)
    call(mailbox, "delete", folder="Drafts", uids=[101])
    call(mailbox, "remove_folder", folder="Invoices/2025")
    (filed,) = messages(mailbox, "Archive/2026").values()
    assert (filed["subject"], filed["flags"]) == ("We are moving", ("\\Seen",))
    (draft,) = messages(mailbox, "Drafts").values()
    assert (draft["subject"], draft["flags"]) == ("Noted", ("\\Draft", "\\Seen"))
    shown = dict(state(mailbox).tables["folder"].rows())
    assert shown[("Clients",)]["is_subscribed"]
    assert shown[("Invoices/2025",)]["uidvalidity"] is None  # a subscription to what is gone


@pytest.mark.parametrize(
    ("verb", "given"),
    [
        ("read", {"folder": "INBOX", "uid": 7}),
        ("list", {"folder": "Nowhere"}),
        ("move", {"folder": "INBOX", "uids": [101], "to": "Nowhere"}),
        ("make_folder", {"folder": "Sent"}),
        ("make_folder", {"folder": "ü"}),
        ("keep", {"folder": "Sent", "sender": "a\nb", "to": [], "subject": "x", "body": "y"}),
    ],
)
def test_a_call_that_cannot_be_says_why_and_changes_nothing(
    mailbox: EmbeddedMailbox, verb: str, given: dict[str, Any]
) -> None:
    with pytest.raises(ToolError):
        call(mailbox, verb, **given)
    assert mailbox.verify()[1] == ()
