"""A mailbox over IMAP, on a Dovecot that runs."""

from __future__ import annotations

import imaplib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from statediff_office.mailbox.session import folder_name
from statediff_office.mailbox.source import MailboxSource

import statediff
from statediff.capture.source import SourceUnavailable
from statediff.errors import InputError, UsageError
from statediff.model.state import MemoryChunks
from statediff.workspace.inputs import offline_clock, one_capture
from tests.lines import verdict_where_the_line_is_cut

SECRET = "hidden-secret"
LETTER = b"""From: Bob <bob@example.org>
To: ada@example.org
Bcc: eve@example.org
Subject: Lunch
Date: Mon, 05 Jan 2026 12:00:00 +0000
Message-ID: <one@example.org>
MIME-Version: 1.0
Content-Type: multipart/alternative; boundary=x

--x
Content-Type: text/plain

At noon?
--x
Content-Type: text/html

<p>At noon?</p>
--x--
""".replace(b"\n", b"\r\n")
SETTINGS = """
base_dir = {folder}/run
log_path = {folder}/log
protocols = imap
listen = 127.0.0.1
ssl = no
disable_plaintext_auth = no
mail_location = maildir:{folder}/mail/%u
first_valid_uid = 1
first_valid_gid = 1
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {port}
  }}
}}
service anvil {{
  chroot =
}}
passdb {{
  driver = static
  args = password={secret}
}}
userdb {{
  driver = static
  args = uid={uid} gid={gid} home={folder}/mail/%u
}}
"""


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Its own users must reach the folder, which the folders of pytest do not let them."""
    if os.getuid() != 0:
        pytest.skip("needs root: Dovecot gives up its rights")
    folder = Path(tempfile.mkdtemp(prefix="statediff-dovecot-"))
    (folder / "mail").mkdir()
    folder.chmod(0o755)
    (folder / "mail").chmod(0o777)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    nobody = pwd.getpwnam("nobody")
    settings = SETTINGS.format(
        folder=folder, port=number, secret=SECRET, uid=nobody.pw_uid, gid=nobody.pw_gid
    )
    (folder / "dovecot.conf").write_text(settings)
    server = subprocess.Popen([shutil.which("dovecot"), "-F", "-c", folder / "dovecot.conf"])  # type: ignore[list-item]  # the mark asks for it
    try:
        for _ in range(400):
            try:
                socket.create_connection(("127.0.0.1", number)).close()
                break
            except OSError:
                time.sleep(0.05)
        yield number
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


COUNT = iter(range(1000))


@pytest.fixture
def account(port: int) -> Iterator[tuple[imaplib.IMAP4, str]]:
    """A mailbox of its own, with one letter in INBOX and a folder."""
    user = f"ada{next(COUNT)}"
    with imaplib.IMAP4("127.0.0.1", port) as client:
        client.login(user, SECRET)
        client.append("INBOX", "(\\Seen)", '"05-Jan-2026 12:00:00 +0000"', LETTER)  # type: ignore[arg-type]  # imaplib takes text
        client.create("Archive")
        yield client, f"imap://{user}:{SECRET}@127.0.0.1:{port}/"


pytestmark = pytest.mark.clients("doveconf")


def test_a_letter_and_what_it_carries_are_seen_and_stay_unread(
    account: tuple[imaplib.IMAP4, str],
) -> None:
    client, url = account
    client.select("INBOX")
    client.store("1", "-FLAGS", "\\Seen")
    [part] = one_capture([f"m={url}"], lambda _: None).parts
    assert part.reading.is_complete
    tables = part.state.tables
    [(_, letter)] = tables["mailbox.message"].rows()
    assert (letter["folder"], letter["subject"], letter["body"]) == ("INBOX", "Lunch", "At noon?")
    assert letter["received_at"] == datetime(2026, 1, 5, 12, tzinfo=UTC)
    assert letter["flags"] == ()
    [(_, header)] = tables["mailbox.header"].rows()
    assert (header["name"], header["addresses"]) == ("bcc", ("eve@example.org",))
    [(_, html)] = tables["mailbox.part"].rows()
    assert (html["type"], html["text"]) == ("text/html", "<p>At noon?</p>")
    client.select("INBOX")
    assert b"Seen" not in client.fetch("1", "(FLAGS)")[1][0]  # type: ignore[operator]  # bytes


@pytest.mark.parametrize(
    ("act", "op", "kind"),
    [
        (lambda c: c.store("1", "+FLAGS", "\\Flagged"), "update", "mailbox.message"),
        (lambda c: c.subscribe("Archive"), "update", "mailbox.folder"),
        (lambda c: c.create("Plan"), "create", "mailbox.folder"),
        (lambda c: c.delete("Archive"), "delete", "mailbox.folder"),
        (lambda c: c.append("Archive", "", None, b"Subject: x"), "create", "mailbox.message"),
    ],
)
def test_what_an_agent_does_to_a_mailbox_is_seen(
    account: tuple[imaplib.IMAP4, str], act: Any, op: str, kind: str
) -> None:
    client, url = account
    with statediff.watch(m=url, settle_seconds=0) as run:
        client.select("INBOX")
        act(client)
    assert {(d["op"], d["type"]) for d in run.changes} == {(op, kind)}


def test_a_folder_that_was_made_anew_holds_other_letters(
    account: tuple[imaplib.IMAP4, str],
) -> None:
    client, url = account
    client.append("Archive", "", None, LETTER)  # type: ignore[arg-type]  # as above
    with statediff.watch(m=url, settle_seconds=0) as run:
        time.sleep(1.1)  # a UIDVALIDITY is made of seconds
        client.delete("Archive")
        client.create("Archive")
        client.append("Archive", "", None, LETTER)  # type: ignore[arg-type]  # as above
    ops = {(d["op"], d["type"]) for d in run.changes}
    assert {("delete", "mailbox.message"), ("create", "mailbox.message")} <= ops
    assert ("update", "mailbox.folder") in ops


def test_folders_are_chosen_by_pattern(account: tuple[imaplib.IMAP4, str]) -> None:
    [part] = one_capture([f"m={account[1]}?folders=Arch*"], lambda _: None).parts
    assert [key for key, _ in part.state.tables["mailbox.folder"].rows()] == [("Archive",)]


def test_what_is_written_during_the_reading_is_not_known(
    account: tuple[imaplib.IMAP4, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, url = account
    rows, flags = MailboxSource._rows, iter(range(100))

    def written(source: MailboxSource, *arguments: Any) -> Any:
        found = rows(source, *arguments)
        client.select("INBOX")
        client.store("1", "+FLAGS", f"k{next(flags)}")
        return found

    monkeypatch.setattr(MailboxSource, "_rows", written)
    with pytest.raises(SourceUnavailable, match="written while it was read"):
        MailboxSource("m", url).read(MemoryChunks(), offline_clock, None)


def test_what_is_wrong_is_named_without_the_password(
    account: tuple[imaplib.IMAP4, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, url = account
    with pytest.raises(InputError, match="AUTHENTICATIONFAILED") as caught:
        one_capture([f"m={url.replace(SECRET, 'wrong-' + SECRET)}"], lambda _: None)
    assert SECRET not in str(caught.value)
    with pytest.raises(InputError, match=r"refused.*check the URL"):
        one_capture([f"m=imap://ada:{SECRET}@127.0.0.1:1/"], lambda _: None)
    with pytest.raises(InputError, match="no folder is called nosuch"):
        one_capture([f"m={url}?folders=nosuch"], lambda _: None)
    bare = url.replace(f":{SECRET}", "")
    with pytest.raises(UsageError, match="STATEDIFF_PASSWORD_M"):
        one_capture([f"m={bare}"], lambda _: None)
    monkeypatch.setenv("STATEDIFF_PASSWORD_M", SECRET)
    assert one_capture([f"m={bare}"], lambda _: None).parts[0].reading.is_complete


@pytest.mark.parametrize(
    ("raw", "name"), [(b"Entw&APw-rfe", "Entwürfe"), (b"A &- B", "A & B"), (b"&AP", "&AP")]
)
def test_names_of_folders_are_as_people_see_them(raw: bytes, name: str) -> None:
    assert folder_name(raw) == name


@pytest.mark.parametrize(
    ("cut", "verdict"), [(None, "MATCH"), (0, "INCONCLUSIVE"), (900, "INCONCLUSIVE")]
)
def test_a_line_that_breaks_is_never_a_match(
    account: tuple[imaplib.IMAP4, str], cut: int | None, verdict: str
) -> None:
    assert verdict_where_the_line_is_cut(account[1], cut) == verdict
