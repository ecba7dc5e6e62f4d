"""How an agent's program is kept from the evaluator, and from other trials, without a container.

| isolation | what the program can do |
|---|---|
| `namespaces+landlock` | both of the following |
| `namespaces` | it sees its own processes only, writes its sandbox and a `/tmp` of its own, and |
| | reaches the trial's own endpoints and those that its agent names |
| `landlock` | it sees all, writes its sandbox's files only, and touches no process but its own |
| `none` | whatever the evaluator's user can; only root reads the evaluator's memory |

Every program runs below a supervisor (`supervisor.py` of `apart`), which ends all that it left
running. What is possible is tried once a process; nothing is promised that was not tried.
`STATEDIFF_ISOLATION` names at most what is used.
"""

from __future__ import annotations

import contextlib
import functools
import marshal
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import IO, Any, Final, Self
from urllib.parse import parse_qsl, urlsplit

from statediff.agents.room import FULL_BYTES, FULL_FILES
from statediff.errors import UsageError
from statediff.systems.base import landlock
from statediff.systems.base.privacy import allowed_environment
from statediff.total import twice

VARIABLE: Final = "STATEDIFF_ISOLATION"
NONE: Final = "none"
KINDS: Final = ("namespaces+landlock", "namespaces", "landlock", NONE)
"""From the strongest to none."""
MAX_ENDPOINTS: Final = 100
END_SECONDS: Final = 10.0
"""How long a supervisor may take to end what it began."""
_PROGRAM: Final = {
    "landlock": Path(landlock.__file__),
    **{
        name: Path(__file__).with_name("apart") / f"{name}.py"
        for name in ("filters", "network", "world", "supervisor")
    },
}
"""The modules of the supervisor, in the order in which they are made."""
_START: Final = """
import marshal, os, sys
line, size = map(int, sys.argv[1:])
text = b""
while len(text) < size:
    piece = os.read(line, size - len(text))
    if not piece:
        os._exit(0)  # nobody wants it any more
    text += piece
codes, order = marshal.loads(text)
for name, code in codes.items():
    module = sys.modules[name] = type(sys)(name)
    exec(code, vars(module))
module.main(line, order)
os._exit(0)  # nothing is left to put away
"""
"""It runs what it is sent: to find and compile modules takes as long as all that they do."""
_TRIED: Final = ("namespaces", "landlock", "filter")
_PARTS: Final = {
    "files": ("namespaces", "landlock"),
    "processes": ("namespaces", "landlock"),
    "users": ("namespaces",),
    "network": ("namespaces",),
    "terminals": ("namespaces", "landlock"),
    "shared memory": ("namespaces",),
    "keyring": ("filter",),
    "system calls": ("filter",),
    "limits": ("limits",),
}
"""Each kind of isolation → the means that make it."""
_LIMITS: Final = {
    "processes": 4096,
    "open_files": 16 * 1024,
    "file_size": 16 * 1024**3,
    "full": FULL_BYTES,
    "full_files": FULL_FILES,
}
_PORTS: Final = {
    "http": 80, "https": 443, "ftp": 21, "smtp": 25, "imap": 143, "imaps": 993, "ldap": 389,
    "postgres": 5432, "postgresql": 5432, "mysql": 3306, "mariadb": 3306, "mssql": 1433,
    "mongodb": 27017, "redis": 6379, "amqp": 5672,
}  # fmt: skip
"""The port of a URL that names none."""
_ENDPOINT: Final = re.compile(
    r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9_.-]{1,253})):(?P<port>[0-9]{1,5})"
)
_MAX_ANSWER: Final = 64 * 1024
_NUMBERS: Final = frozenset({"pid", "status", "is_clean"})


def isolation(asked: str | None = None) -> str:
    """The strongest of what was asked for, or of all, that this machine allows.

    `UsageError` for an unknown word, and where `asked` names what this machine does not allow: the
    variable is a ceiling, an argument is a demand.
    """
    ceiling = asked or os.environ.get(VARIABLE, "") or KINDS[0]
    if ceiling not in KINDS:
        where = "`isolation`" if asked else VARIABLE
        raise UsageError(f"{where} {ceiling[:40]!r}: expected one of {', '.join(KINDS)}")
    if ceiling == NONE:
        return NONE
    causes = _causes()
    wanted = ceiling.split("+")
    found = "+".join(kind for kind in wanted if causes[kind] is None) or NONE
    if asked is not None and found != asked:
        missing = next(kind for kind in wanted if causes[kind] is not None)
        raise UsageError(f"`isolation` {asked}: no {missing} on this machine: {causes[missing]}")
    return found


def endpoints(given: Iterable[str], network: Iterable[str]) -> list[tuple[str, int]]:
    """(host, port) of each URL among what a program is given, and of what its agent names.

    Sorted. `UsageError` where a name is no `HOST:PORT`.
    """
    found = set()
    for text in given:
        with contextlib.suppress(ValueError):  # no URL, or one of several hosts
            parts = urlsplit(text)
            port = parts.port or _PORTS.get(parts.scheme.partition("+")[0])
            if parts.hostname and port:
                found.add((parts.hostname, port))
    for text in network:
        named = _ENDPOINT.fullmatch(text)
        port = int(named["port"]) if named else 0
        if named is None or not 0 < port < 1 << 16:
            raise UsageError(f"network {text[:80]!r}: expected HOST:PORT, e.g. api.example.com:443")
        found.add(((named["v6"] or named["host"]).lower(), port))
    if len(found) > MAX_ENDPOINTS:
        raise UsageError(f"{len(found)} endpoints for one program; at most {MAX_ENDPOINTS}")
    return sorted(found)


def sockets(given: Iterable[str]) -> list[str]:
    """The paths that URLs among what a program is given name in their queries."""
    found = set()
    for text in given:
        with contextlib.suppress(ValueError):
            query = parse_qsl(urlsplit(text).query) if "://" in text else []
            found |= {value for _, value in query if value.startswith("/")}
    return sorted(found)


def is_filtered(kind: str) -> bool:
    """True where a program runs apart and this machine can limit its system calls."""
    return kind != NONE and _causes()["filter"] is None


def boundary(kind: str) -> dict[str, str]:
    """The parts of what keeps a program apart, by name: `held`, or why it is not.

    Empty where nothing is to keep it.
    """
    if kind == NONE:
        return {}
    causes = _causes()
    held = {*kind.split("+"), "limits", *(("filter",) if is_filtered(kind) else ())}
    return {
        part: "held"
        if held.intersection(means)
        else f"not held: {causes[means[0]] or 'it was not asked for'}"
        for part, means in _PARTS.items()
    }


def machine_limits() -> dict[str, int]:
    """The share of this machine that a program may take."""
    pages = os.sysconf("SC_PHYS_PAGES") if sys.platform == "linux" else 1 << 20
    return {"memory": pages * os.sysconf("SC_PAGE_SIZE") // 2, **_LIMITS}


@functools.cache
def _causes() -> Mapping[str, str | None]:
    """Why this process cannot have each kind; None where it can."""
    if sys.platform != "linux":
        return dict.fromkeys(_TRIED, "this system is not Linux")
    order = Order(command=None, environment={}, folder="/", isolation=NONE, writable=["/tmp"])  # noqa: S108 - tried in a world of its own
    with Supervised(order, stdin=subprocess.DEVNULL, output=subprocess.DEVNULL) as tried:
        tried.listen(END_SECONDS)
        return {kind: tried.answer.get(kind, "nobody said") or None for kind in _TRIED}


@functools.cache
def _codes() -> Mapping[str, CodeType]:
    """The modules of the supervisor, compiled once a process."""
    return {n: compile(path.read_bytes(), path, "exec") for n, path in _PROGRAM.items()}


@dataclass(frozen=True, kw_only=True)
class Order:
    """The program that a supervisor is to begin."""

    command: Sequence[str] | None
    """None: nothing; it says what it could do."""
    environment: Mapping[str, str] = field(repr=False)
    folder: str
    isolation: str
    writable: Sequence[str] = ()
    hidden: Sequence[str] = ()
    endpoints: Sequence[tuple[str, int]] = ()
    """(host, port) of all that it reaches in namespaces."""
    sockets: Sequence[str] = ()
    """Paths below which it reaches sockets, beside what it may write."""
    is_filtered: bool = False
    """Its system calls are limited."""
    limits: Mapping[str, int] = field(default_factory=machine_limits)


class Supervised:
    """A program below a supervisor, from the beginning of the block to its end.

    When the block is over, nothing of the program runs any more, where `is_at_large` does not say
    otherwise.
    """

    def __init__(
        self, order: Order, *, stdin: IO[bytes] | int, output: int = subprocess.PIPE
    ) -> None:
        """The supervisor has its order. `OSError` where it could not be started."""
        self.answer: dict[str, Any] = {}
        """All that it said: `pid`, then `failed`, or `status` and `is_clean`, then `over`.

        `overrun` says what the program took too much of, `refused` what it asked for in vain.
        """
        self.is_over = False
        """It has said its last."""
        self._kept = b""
        self.line, its = socket.socketpair()
        try:
            sent: Any = (_codes(), vars(order))
            text = marshal.dumps(sent)
            with its:
                number, size = str(its.fileno()), str(len(text))
                self.process = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-B", "-c", _START, number, size],
                    env=allowed_environment(),
                    cwd="/",
                    stdin=stdin,
                    stdout=output,
                    stderr=output,
                    pass_fds=(its.fileno(),),
                    start_new_session=True,
                )
            self.line.sendall(text)
        except BaseException:
            self.line.close()
            raise

    @property
    def is_at_large(self) -> bool:
        """Something of it may run still: it ended its supervisor, or could not be ended."""
        return not self.answer.get("is_clean", "failed" in self.answer)

    def listen(self, seconds: float) -> bool:
        """True if it has said its last within so many seconds."""
        until = time.monotonic() + seconds
        while (
            not self.is_over
            and select.select([self.line], [], [], max(0.0, until - time.monotonic()))[0]
        ):
            self.take()
        return self.is_over

    def take(self) -> None:
        """Put its last message into `answer`."""
        try:
            piece = twice(lambda: self.line.recv(_MAX_ANSWER))
        except OSError:
            piece = b""
        *lines, self._kept = (self._kept + piece).split(b"\n")
        for line in lines:
            word, _, what = line.decode("utf-8", "replace").partition(" ")
            self.answer[word] = int(what) if word in _NUMBERS else what
        self.is_over = not piece or "over" in self.answer

    def end(self) -> None:
        """Nothing of the program runs any more, in whatever way it ended."""
        with contextlib.suppress(OSError):  # it is gone
            self.line.shutdown(socket.SHUT_WR)
        self.listen(END_SECONDS)
        if "is_clean" not in self.answer and "pid" in self.answer:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.answer["pid"], signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        self.line.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, raised: object, *_: object) -> None:
        self.end()
        for pipe in (self.process.stdout, self.process.stderr) if raised is not None else ():
            if pipe is not None:  # nobody reads it any more
                pipe.close()
