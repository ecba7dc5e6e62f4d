"""The start of every agent of the office's tasks: mailbox, calendars, outbox, answer, log.

An agent needs none of it. All it is ever given are environment variables; this is one way to use
them from Python with nothing but the standard library.
"""

import base64
import http.client
import imaplib
import os
import re
import smtplib
import socket
import sys
from email import message_from_bytes, policy
from email.message import EmailMessage
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree as ET

sys.path.insert(0, str(Path(__file__).parents[1]))
import given

DANA = "dana@brightwater.example"
SEEN, ANSWERED, FLAGGED = "\\Seen", "\\Answered", "\\Flagged"
ME = f"Dana Okafor <{DANA}>"
TODAY = "Mon, 9 Mar 2026 09:00:00 +0100"


class Mailbox:
    """The account over IMAP."""

    def __init__(self) -> None:
        self._url = urlsplit(os.environ["STATEDIFF_MAILBOX_URL"])
        self._imap = imaplib.IMAP4(self._url.hostname or "", self._url.port or 0, timeout=10)
        self._imap.login(unquote(self._url.username or ""), unquote(self._url.password or ""))

    def messages(self, folder: str) -> dict[int, EmailMessage]:
        """UID → message, of all in the folder, without marking one as seen."""
        self._ok(self._imap.select(f'"{folder}"', readonly=True))
        found = {}
        for line in self._ok(self._imap.uid("FETCH", "1:*", "(UID BODY.PEEK[])")):
            if isinstance(line, tuple):
                uid = re.search(rb"UID (\d+)", line[0])
                assert uid is not None
                found[int(uid[1])] = message_from_bytes(line[1], policy=policy.default)
        return found  # type: ignore[return-value]  # the policy makes them

    def find(self, folder: str, name: str) -> tuple[int, EmailMessage]:
        """The message with this Message-ID, and its UID."""
        for uid, message in self.messages(folder).items():
            if message["Message-ID"] == f"<{name}>":
                return uid, message
        raise SystemExit(f"there is no message {name} in {folder}")

    def search(self, folder: str, *criteria: str) -> list[int]:
        """The UIDs that the server finds."""
        self._ok(self._imap.select(f'"{folder}"', readonly=True))
        return [int(uid) for uid in self._ok(self._imap.uid("SEARCH", *criteria))[0].split()]

    def move(self, folder: str, uids: list[int], to: str) -> None:
        """They are in the other folder, in one step."""
        self._ok(self._imap.select(f'"{folder}"'))
        self._ok(self._imap.uid("MOVE", _set(uids), f'"{to}"'))
        log("move_mail", "conditional-update", {"from": folder, "uids": uids, "to": to})

    def copy(self, folder: str, uids: list[int], to: str) -> None:
        """Copies of them are in the other folder."""
        self._ok(self._imap.select(f'"{folder}"'))
        self._ok(self._imap.uid("COPY", _set(uids), f'"{to}"'))
        log("copy_mail", "reversible-update", {"from": folder, "uids": uids, "to": to})

    def delete(self, folder: str, uids: list[int]) -> None:
        """They are gone from the folder."""
        self.flag(folder, uids, "\\Deleted")
        self._ok(self._imap.expunge())
        log("delete_mail", "irreversible-deletion", {"folder": folder, "uids": uids})

    def flag(self, folder: str, uids: list[int], flag: str, sign: str = "+") -> None:
        """They have the flag, or with `-` have it no more."""
        self._ok(self._imap.select(f'"{folder}"'))
        self._ok(self._imap.uid("STORE", _set(uids), f"{sign}FLAGS.SILENT", f"({flag})"))
        log("flag_mail", "reversible-update", {"folder": folder, "uids": uids, "flag": flag})

    def keep(self, folder: str, message: EmailMessage, flags: str = SEEN) -> None:
        """A copy of the message is in the folder."""
        raw = message.as_bytes(policy=policy.SMTP)
        self._ok(self._imap.append(f'"{folder}"', flags, None, raw))  # type: ignore[arg-type]
        log("keep_mail", "reversible-update", {"folder": folder, "subject": message["Subject"]})

    def remove_folder(self, name: str) -> None:
        """There is no such folder, nor what it held."""
        self._ok(self._imap.delete(f'"{name}"'))
        log("remove_folder", "irreversible-deletion", {"name": name})

    def put_filter(self, name: str, script: str) -> None:
        """The filter is the active one, by ManageSieve."""
        port = int(parse_qs(self._url.query)["sieve"][0])
        user, word = unquote(self._url.username or ""), unquote(self._url.password or "")
        token = base64.b64encode(f"\0{user}\0{word}".encode()).decode()
        text = script.encode()
        with socket.create_connection((self._url.hostname or "", port), 10) as line:
            stream = line.makefile("rwb")
            _sieve(stream)
            for command in (
                f'AUTHENTICATE "PLAIN" "{token}"\r\n'.encode(),
                f'PUTSCRIPT "{name}" {{{len(text)}+}}\r\n'.encode() + text + b"\r\n",
                f'SETACTIVE "{name}"\r\n'.encode(),
            ):
                stream.write(command)
                stream.flush()
                _sieve(stream)
        log("put_filter", "permission-change", {"name": name})

    @staticmethod
    def _ok(answer: tuple[str, list]) -> list:  # type: ignore[type-arg]  # imaplib's
        kind, lines = answer
        if kind != "OK":
            raise SystemExit(f"the mail server refuses: {lines}")
        return lines


def _set(uids: list[int]) -> str:
    return ",".join(map(str, uids))


def _sieve(stream) -> None:  # type: ignore[no-untyped-def]  # a socket's file
    while True:
        line = stream.readline().decode()
        if line.startswith(("NO", "BYE")) or not line:
            raise SystemExit(f"the filters' server refuses: {line}")
        if line.startswith("OK"):
            return


class Calendars:
    """The account over CalDAV and CardDAV: objects as text, put back unless they changed since."""

    def __init__(self) -> None:
        url = urlsplit(os.environ["STATEDIFF_CALENDARS_URL"])
        word = base64.b64encode(f"{url.username}:{url.password}".encode()).decode()
        self._headers = {"Authorization": f"Basic {word}"}
        self._connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=10)

    def objects(self, collection: str) -> dict[str, str]:
        """Path → text, of all objects of the calendar or address book."""
        listed = "<propfind xmlns='DAV:'><prop><getetag/></prop></propfind>"
        answer = self._ask("PROPFIND", collection, listed, Depth="1")
        paths = [unquote(e.text or "") for e in ET.fromstring(answer).iter("{DAV:}href")]
        return {path: self.get(path) for path in paths if not path.endswith("/")}

    def get(self, path: str) -> str:
        """The text of one object, its lines whole and ended by a newline alone."""
        return self._ask("GET", path).decode().replace("\r\n", "\n").replace("\n ", "")

    def find(self, collection: str, words: str) -> tuple[str, str]:
        """The one object whose text contains the words, and its path."""
        found = [each for each in self.objects(collection).items() if words in each[1]]
        if len(found) != 1:
            raise SystemExit(f"{len(found)} objects in {collection} say {words}")
        return found[0]

    def put(self, path: str, text: str) -> None:
        """The object has this text."""
        kind = "text/vcard" if path.endswith(".vcf") else "text/calendar"
        content = text.replace("\n", "\r\n")
        self._ask("PUT", path, content, **{"Content-Type": f"{kind}; charset=utf-8"})
        log("put_object", "conditional-update", {"path": path})

    def delete(self, path: str) -> None:
        """There is no such object, calendar or address book."""
        self._ask("DELETE", path)
        log("delete_object", "irreversible-deletion", {"path": path})

    def busy(self, calendar: str, begin: str, end: str) -> list[tuple[str, str]]:
        """When its owner has no time between the two, in UTC; asks for nothing else."""
        asked = (
            "<C:free-busy-query xmlns:C='urn:ietf:params:xml:ns:caldav'>"
            f"<C:time-range start='{begin}' end='{end}'/></C:free-busy-query>"
        )
        answer = self._ask("REPORT", calendar, asked).decode().replace("\r\n ", "")
        periods = re.findall(r"^FREEBUSY[^:\n]*:(.*?)\r?$", answer, re.MULTILINE)
        return [tuple(each.split("/")) for line in periods for each in line.split(",")]  # type: ignore[misc]

    def _ask(self, method: str, path: str, body: str = "", **headers: str) -> bytes:
        content = body.encode() if body else None
        self._connection.request(method, path, content, {**self._headers, **headers})
        answer = self._connection.getresponse()
        told = answer.read()
        self._connection.close()
        if answer.status >= 400:
            raise SystemExit(f"{method} {path}: {answer.status} {told[:200]!r}")
        return told


def letter(to: str, subject: str, body: str, **headers: str) -> EmailMessage:
    """A message from Dana; `In_Reply_To` and the like are further headers."""
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = ME, to, subject
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    message.set_content(body)
    return message


def reply(to: EmailMessage, body: str) -> EmailMessage:
    """An answer to its sender, in its thread."""
    subject = to["Subject"] if to["Subject"].startswith("Re: ") else f"Re: {to['Subject']}"
    thread = f"{to['References'] or ''} {to['Message-ID']}".strip()
    return letter(to["From"], subject, body, In_Reply_To=to["Message-ID"], References=thread)


def send(message: EmailMessage, recipients: list[str] | None = None) -> None:
    """Delivers the message over SMTP to those it names, or to these alone."""
    url = urlsplit(os.environ["STATEDIFF_OUTBOX_URL"])
    with smtplib.SMTP(url.hostname or "", url.port or 0, timeout=10) as server:
        server.send_message(message, DANA, recipients)
    log("send_mail", "notification", {"to": message["To"], "subject": message["Subject"]})


answer = given.answer
log = partial(given.log, principal=DANA)


def set_line(text: str, name: str, line: str) -> str:
    """The text with this line for its one property of the name."""
    made, count = re.subn(rf"^{name}[;:].*$", lambda _: line, text, flags=re.MULTILINE)
    if count != 1:
        raise SystemExit(f"{count} lines are called {name}")
    return made
