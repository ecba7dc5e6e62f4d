"""The mailbox's own process: an IMAP and a ManageSieve server (pymap) for one account.

`python -m statediff_office.mailbox.server` is started by `mailbox.sandbox` and forked for each
trial (`base.forking`). The mailbox is in the memory of the child that serves it, made from the
seed before the fork: no file of it is anywhere, and what a trial did ends with its child. The
account's password comes with the order of each trial and is in memory too.

What the evaluator asks (`base.served`):

`{}`                    how many commands are being executed
`{"manifest": true}`    for the proof: what there is, each thing with a digest, from its own data
`{"dump": true}`        for a capture: the mailbox, with the content of its messages, of all of them
                        together at most `MAX_DUMP_BYTES`; of the others the size and digest
`{"history": n}`        the states after the first n (`base.kept`), one after each command that
                        changed something; `contents` has each message's content by its digest
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import logging
import os
from argparse import Namespace
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

from proxyprotocol.reader import ProxyProtocolReader
from pymap.backend.dict import Config, Login
from pymap.backend.dict.filter import FilterSet
from pymap.backend.dict.mailbox import MailboxSet
from pymap.context import connection_exit
from pymap.imap import IMAPConnection, IMAPServer
from pymap.imap.state import ConnectionState
from pymap.parsing.command import auth as commands_with_names
from pymap.parsing.exceptions import NotParseable
from pymap.parsing.message import AppendMessage
from pymap.parsing.modutf7 import modutf7_decode
from pymap.parsing.specials import mailbox as names
from pymap.parsing.specials.flag import Flag
from pymap.sieve.manage import ManageSieveConnection, ManageSieveServer
from pymap.user import UserMetadata
from pysasl.hashing import Cleartext

from statediff.model.instants import in_utc
from statediff.systems.base.forking import Control, Order, Serve, run
from statediff.systems.base.kept import KeptStates

MAX_DUMP_BYTES: Final = 64 * 1024 * 1024
MAX_APPEND_BYTES: Final = 10 * 1024 * 1024


STUCK_SECONDS: Final = 5.0
"""A loop that does nothing else for so long is in a command without an end: what there is is seen
all the same, since nobody's command may keep it from being read."""


def _mailbox_name(written: bytes) -> str:
    """The name that is written in modified UTF-7. pymap looks for the end of a shift for ever."""
    if b"-" not in written[written.rfind(b"&") :] and b"&" in written:
        raise NotParseable(memoryview(written))
    return modutf7_decode(written)


class _Commands:
    """How many are being executed, and the mailbox after each that changed something."""

    def __init__(self, mailbox: Mailbox) -> None:
        self.count = 0
        self._mailbox = mailbox
        self.history = KeptStates(os.getpid(), self._state())

    def done(self) -> None:
        """One was executed; the mailbox is kept as it is now."""
        self.history.keep(self._state())

    def answer(self, after: int) -> Order:
        """The states after so many, and what the messages in them say."""
        return {**self.history.answer(after, self._state()), "contents": self._mailbox.contents()}

    def _state(self) -> bytes:
        return json.dumps(self._mailbox.described(with_content=False), sort_keys=True).encode()


class _CountedState(ConnectionState):
    def __init__(self, login: Login, config: Config, commands: _Commands) -> None:
        super().__init__(login, config)
        self._commands = commands

    async def do_command(self, cmd: Any) -> Any:
        self._commands.count += 1
        try:
            return await super().do_command(cmd)
        finally:
            self._commands.count -= 1
            self._commands.done()


class _KeptSieve(ManageSieveConnection):
    """A connection whose every answer comes after the mailbox was kept."""

    commands: _Commands

    async def _write_response(self, resp: Any) -> None:
        self.commands.done()
        await super()._write_response(resp)


class Mailbox:
    """The mailbox of the seed, and what a trial made of it."""

    def __init__(self, user: str) -> None:
        self.user = user
        # The password is random and lives for one trial: it is compared as it is.
        self.config = Config.from_args(
            _arguments(), max_append_len=MAX_APPEND_BYTES, hash_context=Cleartext()
        )
        self.folders = MailboxSet()
        self.filters = FilterSet()
        self.config.set_cache[user] = (self.folders, self.filters)
        self.login = Login(self.config)
        self._contents: dict[int, tuple[Any, bytes, str]] = {}
        """Of every message that there was: its content as pymap has it, its bytes, their digest."""

    async def plant(self, seed: Order) -> None:
        """It holds the seed."""
        for number, folder in enumerate(seed["folders"], 1):
            name = folder["name"]
            if name != "INBOX":
                await self.folders.add_mailbox(name)
            await self.folders.set_subscribed(name, bool(folder["is_subscribed"]))
            made = await self.folders.get_mailbox(name)
            made._uid_validity = number  # noqa: SLF001 - pymap draws one; every trial has the same
            for message in folder["messages"]:
                raw = base64.b64decode(message["raw"])
                when = datetime.fromtimestamp(message["received"], UTC)
                flags = frozenset(Flag(flag.encode()) for flag in message["flags"])
                await made.append(AppendMessage(raw, when, flags))
        for name, script in seed["filters"].items():
            await self.filters.put(name, script.encode())
        if seed["active_filter"] is not None:
            await self.filters.set_active(seed["active_filter"])

    def described(self, with_content: bool) -> dict[str, Any]:
        """Folders with their messages, subscriptions, filters; and accounts and tokens."""
        left = MAX_DUMP_BYTES if with_content else -1
        folders = []
        for name, folder in self._folders():
            messages = []
            for uid, message in sorted(folder._messages.items()):  # noqa: SLF001 - there is no other way to all
                raw, digest = self._content(message._content)  # noqa: SLF001 - as above
                row: dict[str, Any] = {
                    "uid": uid,
                    "flags": sorted(bytes(flag).decode("ascii", "backslashreplace")
                                    for flag in message.permanent_flags),
                    "received": _seconds(message.internal_date),
                    "size": len(raw),
                    "sha256": digest,
                }  # fmt: skip
                if len(raw) <= left:
                    left -= len(raw)
                    row["raw"] = base64.b64encode(raw).decode("ascii")
                messages.append(row)
            folders.append(
                {
                    "name": name,
                    "uidvalidity": folder.uid_validity,
                    "next_uid": folder._max_uid + 1,  # noqa: SLF001 - as above
                    "is_readonly": folder.readonly,
                    "messages": messages,
                }
            )
        subscribed = self.folders._subscribed  # noqa: SLF001 - as above
        scripts = self.filters._filters  # noqa: SLF001 - as above
        return {
            "folders": folders,
            "subscribed": sorted(name for name, is_so in subscribed.items() if is_so),
            "filters": {name: base64.b64encode(text).decode() for name, text in scripts.items()},
            "active_filter": self.filters._active,  # noqa: SLF001 - as above
            "accounts": sorted(self.login.users_dict),
            "tokens": sorted(user for user, _ in self.login.tokens_dict.values()),
        }

    def contents(self) -> dict[str, str]:
        """The contents of all messages there were, by digest; at most `MAX_DUMP_BYTES` of them."""
        left, found = MAX_DUMP_BYTES, {}
        for _, raw, digest in self._contents.values():
            if digest not in found and len(raw) <= left:
                left -= len(raw)
                found[digest] = base64.b64encode(raw).decode("ascii")
        return found

    def _content(self, content: Any) -> tuple[bytes, str]:
        """Its bytes and their digest, which are taken once: a mailbox is looked at often."""
        if id(content) not in self._contents:
            raw = b"" if content is None else bytes(content)
            self._contents[id(content)] = (content, raw, hashlib.sha256(raw).hexdigest())
        _, raw, digest = self._contents[id(content)]
        return raw, digest

    def _folders(self) -> Iterator[tuple[str, Any]]:
        yield "INBOX", self.folders._inbox  # noqa: SLF001 - as above
        yield from sorted(self.folders._set.items())  # noqa: SLF001 - as above


def _seconds(when: datetime) -> str:
    return (in_utc(when) or when).isoformat()


def _arguments() -> Namespace:
    return Namespace(
        host="127.0.0.1",
        port=0,
        debug=False,
        cert=None,
        key=None,
        tls=False,
        passlib_cfg=None,
        proxy_protocol=None,
        inherited_sockets=None,
        demo_data=False,
        demo_user="",
        demo_password="",
    )


async def _serve(mailbox: Mailbox, order: Order, control: Control) -> None:
    loop = asyncio.get_running_loop()
    config, login = mailbox.config, mailbox.login
    config.apply_context()
    login.users_dict[mailbox.user] = UserMetadata(config, mailbox.user, password=order["password"])
    commands = _Commands(mailbox)

    class Counted(IMAPServer):
        async def __call__(self, reader: Any, writer: Any, sock_info: Any) -> None:
            connection = IMAPConnection(self.commands, config, reader, writer, sock_info)
            async with contextlib.AsyncExitStack() as stack:
                connection_exit.set(stack)
                stack.callback(connection.close)
                await connection.run(_CountedState(login, config, commands))

    class Kept(ManageSieveServer):
        async def __call__(self, reader: Any, writer: Any, sock_info: Any) -> None:
            connection = _KeptSieve(login, config, reader, writer, sock_info)
            connection.commands = commands
            async with contextlib.AsyncExitStack() as stack:
                connection_exit.set(stack)
                stack.enter_context(contextlib.closing(writer))
                await connection.run()

    wrap = ProxyProtocolReader(config.proxy_protocol).get_callback
    imap = await asyncio.start_server(wrap(Counted(login, config)), "127.0.0.1", 0)
    sieve = await asyncio.start_server(wrap(Kept(login, config)), "127.0.0.1", 0)

    def looked(look: Callable[[], Order]) -> Order:
        async def once() -> Order:
            return look()

        # On the loop: no command is half done while it is looked at.
        waiting = asyncio.run_coroutine_threadsafe(once(), loop)
        try:
            return waiting.result(STUCK_SECONDS)
        except TimeoutError:
            return look()

    def answer(asked: Order) -> dict[str, Any]:
        told: dict[str, Any] = {"in_progress": commands.count}
        if "history" in asked:
            told |= looked(lambda: commands.answer(int(asked["history"])))
        if "dump" in asked or "manifest" in asked:
            told["mailbox"] = looked(lambda: mailbox.described("dump" in asked))
        return told

    ports = {"imap": imap.sockets[0].getsockname()[1], "sieve": sieve.sockets[0].getsockname()[1]}
    control.ready(ports, answer)
    async with imap, sieve:
        await asyncio.gather(imap.serve_forever(), sieve.serve_forever())


def load(order: Order) -> Serve:
    """The mailbox of the order's seed is in memory; what is returned serves it."""
    os.environ["FQDN"] = "localhost"
    logging.disable(logging.CRITICAL)  # what clients do wrong is theirs
    for module in (commands_with_names, names):
        vars(module)["modutf7_decode"] = _mailbox_name
    mailbox = Mailbox(order["seed"]["account"])
    asyncio.run(mailbox.plant(order["seed"]))

    def serve(trial: Order, control: Control) -> None:
        asyncio.run(_serve(mailbox, trial, control))

    return serve


if __name__ == "__main__":
    run(load)
