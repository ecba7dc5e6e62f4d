"""A mailbox on an IMAP server of this machine, forked anew for each trial and proven by a manifest.

The server loads the pack's seed once and is forked for each trial (`server`), so that what is left
of one is nothing: no file, no session, no token. The evaluator keeps the manifest of the seed, a
digest for each thing, made from the pack's file alone; the proof compares it with the one that the
server makes of its own data. Capture reads another answer, and has no part in it.

The agent gets the account by IMAP, and its filters by ManageSieve at the port that `?sieve=` of the
URL names. The password is random and lives for one trial.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import quote

from statediff.capture.feed import Feed
from statediff.capture.source import Source
from statediff.errors import SandboxError
from statediff.packs import PackSource
from statediff.systems.base.kept import KeptStatesFeed
from statediff.systems.base.protocol import Drift, SourceProof
from statediff.systems.base.served import ForkedServer
from statediff.systems.hosted.folder import load_seed
from statediff_office.mailbox.held import HeldMailboxSource

METHOD: Final = "sha256 of the mailbox's manifest: folders, messages, flags, filters, accounts"
FIRST_UID: Final = 101
"""Of the server's: the UID that the first message of a folder gets."""
DUMP_SECONDS: Final = 30.0
_SHOWN: Final = 5
"""Drifts that one proof names."""


class EmbeddedMailbox:
    """A `System`: one account's mailbox behind IMAP and ManageSieve."""

    FILES: ClassVar[Mapping[str, bool]] = {"seed": True}
    LOOKS: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, source: PackSource, looks: tuple[PackSource, ...], folder: Path) -> None:
        self.source = source.name
        self.seed = read_mailbox_seed(source.files["seed"])
        self.server = ForkedServer("statediff_office.mailbox.server", "the mailbox's server")
        self._expected = manifest_of_seed(self.seed)
        self._password = ""
        self._port = 0
        self._sieve = 0
        self._read = HeldMailboxSource(source.name, self._dump, source.refinement())
        self._feed = KeptStatesFeed(source.name, self._asked, self._read.kept_states)

    @property
    def url(self) -> str:
        """The account by IMAP; `?sieve=` is the port at which it has its filters."""
        account = f"{quote(self.seed['account'], safe='')}:{self._password}"
        return f"imap://{account}@127.0.0.1:{self._port}/?sieve={self._sieve}"

    def start(self) -> None:
        if not self.server.pid:
            self.server.start({"seed": self.seed})

    def stop(self) -> None:
        self.server.stop()

    def reset(self) -> None:
        """Another server, of the pristine mailbox, serves; the agent's password is another."""
        self._password = secrets.token_urlsafe(18)
        ports = self.server.serve_anew({"password": self._password})
        self._port, self._sieve = int(ports["imap"]), int(ports["sieve"])

    def verify(self) -> tuple[SourceProof, tuple[Drift, ...]]:
        expected = _digest(self._expected)
        answer = self._asked({"manifest": True})
        if answer is None:
            drift = Drift(self.source, "its server", "an answer", "none")
            return SourceProof(self.source, METHOD, expected, "", self._entities), (drift,)
        found = manifest(answer["mailbox"])
        drifts = tuple(
            Drift(self.source, what, self._expected.get(what, "none"), found.get(what, "none"))
            for what in sorted(self._expected.keys() | found.keys())
            if self._expected.get(what) != found.get(what)
        )
        proof = SourceProof(self.source, METHOD, expected, _digest(found), self._entities)
        return proof, drifts[:_SHOWN]

    def sources(self) -> tuple[Source, ...]:
        return (self._read,)

    def feeds(self) -> tuple[Feed, ...]:
        """The feed that sees the mailbox after every command."""
        return (self._feed,)

    def unsettled(self, deadline: float) -> str | None:
        """Waits until no command is being executed."""
        return self.server.unsettled(deadline, DUMP_SECONDS, "commands are being executed")

    def unplug(self, source: str) -> None:
        """Its server has ended."""
        self.server.withdraw()

    def _asked(self, question: dict[str, Any]) -> dict[str, Any] | None:
        return self.server.question(question, DUMP_SECONDS)

    def _dump(self) -> Mapping[str, Any] | None:
        answer = self._asked({"dump": True})
        found: Mapping[str, Any] | None = None if answer is None else answer["mailbox"]
        return found

    @property
    def _entities(self) -> int:
        return len(self._expected)


def read_mailbox_seed(path: Path) -> dict[str, Any]:
    """The mailbox in a seed file, as the server takes it. Raises `SandboxError`."""
    try:
        seed = load_seed(path, "a mailbox")
        return {
            "account": seed["account"],
            "folders": [_folder(name, each or {}) for name, each in seed["folders"].items()],
            "filters": dict(seed.get("filters", {})),
            "active_filter": seed.get("active_filter"),
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SandboxError(f"{path}: cannot be read as a mailbox: {error}") from error


def _folder(name: str, folder: Mapping[str, Any]) -> dict[str, Any]:
    messages = []
    for each in folder.get("messages", ()):
        raw = each["raw"].replace("\n", "\r\n").encode()
        head = each["raw"].partition("\n\n")[0]
        dated = next(line[6:] for line in head.splitlines() if line.startswith("Date: "))
        received = parsedate_to_datetime(dated).timestamp()
        messages.append(
            {
                "flags": sorted(each.get("flags", ())),
                "received": received,
                "raw": base64.b64encode(raw).decode("ascii"),
            }
        )
    is_subscribed = bool(folder.get("subscribed", True))
    return {"name": name, "is_subscribed": is_subscribed, "messages": messages}


Manifest = Mapping[str, str]
"""What → what it is, in a line for people that two different states never share."""


def manifest_of_seed(seed: Mapping[str, Any]) -> dict[str, str]:
    """The manifest of a server that was just begun, from the seed alone."""
    folders = []
    for number, folder in enumerate(seed["folders"], 1):
        messages = []
        for uid, message in enumerate(folder["messages"], FIRST_UID):
            raw = base64.b64decode(message["raw"])
            messages.append(
                {
                    "uid": uid,
                    "flags": message["flags"],
                    "received": datetime.fromtimestamp(message["received"], UTC).isoformat(),
                    "size": len(raw),
                    "sha256": hashlib.sha256(raw).hexdigest(),
                }
            )
        folders.append(
            {
                "name": folder["name"],
                "uidvalidity": number,
                "next_uid": FIRST_UID + len(messages),
                "is_readonly": False,
                "messages": messages,
            }
        )
    scripts = {n: base64.b64encode(t.encode()).decode() for n, t in seed["filters"].items()}
    return manifest(
        {
            "folders": folders,
            "subscribed": sorted(f["name"] for f in seed["folders"] if f["is_subscribed"]),
            "filters": scripts,
            "active_filter": seed["active_filter"],
            "accounts": [seed["account"]],
            "tokens": [],
        }
    )


def manifest(mailbox: Mapping[str, Any]) -> dict[str, str]:
    """All that a mailbox holds, a line for each thing."""
    lines = {}
    for folder in mailbox["folders"]:
        name = json.dumps(folder["name"])
        access = "read only" if folder["is_readonly"] else "writable"
        lines[f"folder {name}"] = (
            f"uidvalidity {folder['uidvalidity']}, next {folder['next_uid']}, {access}"
        )
        for each in folder["messages"]:
            lines[f"message {name}/{each['uid']}"] = (
                f"{each['size']} bytes, {each['sha256'][:16]}, {' '.join(each['flags'])}, "
                f"received {each['received']}"
            )
    lines["subscriptions"] = json.dumps(mailbox["subscribed"])
    for name, script in mailbox["filters"].items():
        digest = hashlib.sha256(base64.b64decode(script)).hexdigest()[:16]
        active = ", active" if name == mailbox["active_filter"] else ""
        lines[f"filter {json.dumps(name)}"] = f"digest {digest}{active}"
    lines["accounts"] = json.dumps(mailbox["accounts"])
    lines["tokens"] = str(len(mailbox["tokens"]))
    return lines


def _digest(lines: Manifest) -> str:
    return hashlib.sha256(json.dumps(lines, sort_keys=True).encode()).hexdigest()
