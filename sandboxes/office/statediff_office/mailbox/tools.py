"""A mailbox, by the server that the agent was given: one connection for each call."""

from __future__ import annotations

import imaplib
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from email import message_from_bytes, policy
from email.errors import MessageError
from email.message import EmailMessage
from typing import Annotated, Any, Final, Literal, TypeVar
from urllib.parse import unquote, urlsplit

from pydantic import Field

from statediff.model.trace import ActionClass
from statediff.systems.base.tool import MAX_SECONDS, MAX_TEXT, Arguments, Tool, ToolError, tool_name
from statediff_office.mailbox.session import folder_name

Folder = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\r\n\x00]+$")]
Uids = Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1, max_length=500)]
MAX_LISTED: Final = 200
Taken = TypeVar("Taken", bound=Arguments)


class Nothing(Arguments):
    """No arguments."""


class Listed(Arguments):
    """Which messages are listed."""

    folder: Folder = "INBOX"
    sender: str | None = Field(default=None, max_length=320, description="Part of From.")
    subject: str | None = Field(default=None, max_length=320, description="Part of the subject.")


class One(Arguments):
    """One message."""

    folder: Folder
    uid: int = Field(ge=1)


class Moved(Arguments):
    """Messages that go to another folder."""

    folder: Folder
    uids: Uids
    to: Folder


class Flagged(Arguments):
    """Messages whose flag is set or taken away."""

    folder: Folder
    uids: Uids
    flag: Literal["seen", "answered", "flagged", "draft"]
    set: bool = True


class Gone(Arguments):
    """Messages that are deleted for good."""

    folder: Folder
    uids: Uids


class Kept(Arguments):
    """A message that is kept in a folder and sent to nobody."""

    folder: Folder = Field(description="E.g. Drafts or Sent.")
    sender: str = Field(max_length=320)
    to: list[Annotated[str, Field(max_length=320)]] = Field(max_length=100)
    subject: str = Field(max_length=998)
    body: str = Field(max_length=MAX_TEXT)
    in_reply_to: str | None = Field(default=None, max_length=998)
    references: str | None = Field(default=None, max_length=4000)


class Named(Arguments):
    """A folder by its name."""

    folder: Folder


class Subscribed(Arguments):
    """A folder's presence in the list of subscriptions."""

    folder: Folder
    subscribed: bool


def mailbox_tools(source: str, url: str) -> tuple[Tool[Any], ...]:
    """Everything that a mail program does with a mailbox, but for sending."""

    def tool(
        verb: str,
        about: str,
        arguments: type[Taken],
        act: Callable[[imaplib.IMAP4, Taken], Any],
        what: ActionClass,
    ) -> Tool[Taken]:
        def done(taken: Taken) -> Any:
            with _session(url) as session:
                return act(session, taken)

        account = unquote(urlsplit(url).username or "") or None
        return Tool(
            tool_name(source, verb),
            about,
            arguments,
            done,
            what,
            principal=account,
            is_harmless=what is ActionClass.READ,
            is_one_step=True,
        )

    read, update = ActionClass.READ, ActionClass.REVERSIBLE_UPDATE
    move, delete = ActionClass.CONDITIONAL_UPDATE, ActionClass.IRREVERSIBLE_DELETION
    return (
        tool("folders", "All folders.", Nothing, _folders, read),
        tool("list", "Heads of messages in a folder.", Listed, _list, read),
        tool("read", "One message, which stays unseen.", One, _read, read),
        tool("move", "Moves messages to another folder.", Moved, _move, move),
        tool("flag", "Sets or takes away a flag.", Flagged, _flag, update),
        tool("keep", "Keeps a message in a folder, as a draft or a copy.", Kept, _keep, update),
        tool("make_folder", "Makes a folder.", Named, _make, update),
        tool("subscribe", "Lists a folder, or no more.", Subscribed, _sub, update),
        tool("delete", "Deletes messages for good.", Gone, _delete, delete),
        tool("remove_folder", "Deletes a folder and all in it.", Named, _remove, delete),
    )


@contextmanager
def _session(url: str) -> Iterator[imaplib.IMAP4]:
    parts = urlsplit(url)
    host, user, word = parts.hostname or "", unquote(parts.username or ""), parts.password or ""
    try:
        session: imaplib.IMAP4
        if parts.scheme == "imaps":
            context = ssl.create_default_context()
            port = parts.port or 993
            session = imaplib.IMAP4_SSL(host, port, ssl_context=context, timeout=MAX_SECONDS)
        else:
            session = imaplib.IMAP4(host, parts.port or 143, timeout=MAX_SECONDS)
        try:
            session.login(user, unquote(word))
            yield session
        finally:
            with suppress(OSError, imaplib.IMAP4.error):
                session.logout()
    except (imaplib.IMAP4.error, OSError) as error:
        raise ToolError(f"the mail server refuses: {str(error)[:300]}") from error


def _ok(answer: tuple[str, Any]) -> list[Any]:
    kind, lines = answer
    if kind != "OK":
        raise ToolError(f"the mail server refuses: {str(lines)[:300]}")
    return list(lines)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    try:
        escaped.encode("ascii")
    except UnicodeEncodeError as error:
        raise ToolError("use the ASCII letters that the server lists") from error
    return f'"{escaped}"'


def _uids(uids: list[int]) -> str:
    return ",".join(map(str, uids))


def _open(session: imaplib.IMAP4, folder: str, *, to_write: bool) -> None:
    _ok(session.select(_quoted(folder), readonly=not to_write))


def _folders(session: imaplib.IMAP4, _: Nothing) -> Any:
    names = []
    for line in _ok(session.list()):
        if isinstance(line, bytes):
            raw = line.rpartition(b'" ')[2].strip(b'"')
            names.append({"folder": raw.decode("ascii", "replace"), "name": folder_name(raw)})
    return {"folders": names}


def _list(session: imaplib.IMAP4, asked: Listed) -> Any:
    _open(session, asked.folder, to_write=False)
    criteria = ["ALL"]
    if asked.sender is not None:
        criteria += ["FROM", _quoted(asked.sender)]
    if asked.subject is not None:
        criteria += ["SUBJECT", _quoted(asked.subject)]
    found = (_ok(session.uid("SEARCH", *criteria))[0] or b"").split()
    heads = []
    for uid in found[:MAX_LISTED]:
        answer = _ok(session.uid("FETCH", uid.decode(), "(FLAGS BODY.PEEK[HEADER])"))
        line = next((each for each in answer if isinstance(each, tuple)), None)
        if line is not None:
            flags = imaplib.ParseFlags(line[0])
            shown = [each.decode("ascii", "replace").lstrip("\\").lower() for each in flags]
            heads.append({"uid": int(uid), "flags": sorted(shown), **_head(line[1])})
    more = {"more": True} if len(found) > MAX_LISTED else {}
    return {"messages": heads, **more}


def _head(raw: bytes) -> dict[str, str]:
    message = message_from_bytes(raw, policy=policy.compat32)
    names = ("From", "To", "Cc", "Subject", "Date", "Message-ID", "In-Reply-To", "References")
    return {name.lower().replace("-", "_"): str(message[name]) for name in names if message[name]}


def _read(session: imaplib.IMAP4, asked: One) -> Any:
    _open(session, asked.folder, to_write=False)
    answer = _ok(session.uid("FETCH", str(asked.uid), "(BODY.PEEK[])"))
    line = next((each for each in answer if isinstance(each, tuple)), None)
    if line is None:
        raise ToolError(f"there is no message {asked.uid} in {asked.folder}")
    return {"message": line[1].decode("utf-8", "replace")[:MAX_TEXT]}


def _move(session: imaplib.IMAP4, asked: Moved) -> Any:
    _open(session, asked.folder, to_write=True)
    _ok(session.uid("MOVE", _uids(asked.uids), _quoted(asked.to)))
    return {"moved": len(asked.uids), "to": asked.to}


def _flag(session: imaplib.IMAP4, asked: Flagged) -> Any:
    _open(session, asked.folder, to_write=True)
    sign = "+" if asked.set else "-"
    flag = f"(\\{asked.flag.capitalize()})"
    _ok(session.uid("STORE", _uids(asked.uids), f"{sign}FLAGS.SILENT", flag))
    return {"flag": asked.flag, "set": asked.set}


def _delete(session: imaplib.IMAP4, asked: Gone) -> Any:
    _open(session, asked.folder, to_write=True)
    _ok(session.uid("STORE", _uids(asked.uids), "+FLAGS.SILENT", "(\\Deleted)"))
    _ok(session.uid("EXPUNGE", _uids(asked.uids)))
    return {"deleted": len(asked.uids)}


def _keep(session: imaplib.IMAP4, asked: Kept) -> Any:
    made = EmailMessage()
    try:
        made["From"] = asked.sender
        made["To"], made["Subject"] = ", ".join(asked.to), asked.subject
        if asked.in_reply_to is not None:
            made["In-Reply-To"] = asked.in_reply_to
        if asked.references is not None:
            made["References"] = asked.references
        made.set_content(asked.body)
        raw = made.as_bytes(policy=policy.SMTP)
    except (ValueError, MessageError, UnicodeError) as error:
        raise ToolError(f"this makes no message: {error}") from error
    flags = "(\\Draft \\Seen)" if asked.folder == "Drafts" else "(\\Seen)"
    _ok(session.append(_quoted(asked.folder), flags, "", raw))
    return {"kept": asked.folder}


def _make(session: imaplib.IMAP4, asked: Named) -> Any:
    _ok(session.create(_quoted(asked.folder)))
    return {"made": asked.folder}


def _remove(session: imaplib.IMAP4, asked: Named) -> Any:
    _ok(session.delete(_quoted(asked.folder)))
    return {"removed": asked.folder}


def _sub(session: imaplib.IMAP4, asked: Subscribed) -> Any:
    act = session.subscribe if asked.subscribed else session.unsubscribe
    _ok(act(_quoted(asked.folder)))
    return {"folder": asked.folder, "subscribed": asked.subscribed}
