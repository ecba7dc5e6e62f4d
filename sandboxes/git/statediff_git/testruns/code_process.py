"""The tested code in a process that holds no end of any pipe, and its trusted supervisor.

Loaded by `program.py`, never imported by statediff. The supervisor holds the pipe to the tests and
runs nothing of the agent's. It puts each request into memory that it shares with the code's
process and lets that process go on; the process puts its reply there and stops itself. So the code
has no descriptor of the pipe to write to, to close or to read ahead from, and whatever it starts
beside itself talks to nobody.

What the code does to its own process, it does to its replies: a reply is what the code wants to
return for this call, and the tests judge that value. It never says how a test ended.

Frames between tests and supervisor: a kind of one byte, a length of four, the content.

| kind | direction | content |
|---|---|---|
| `N` | to the supervisor | nothing: the next request meets a new process |
| `Q` | to the supervisor | a request, see `_Objects.reply` |
| `R` | to the tests | the reply, as the code's process wrote it |
| `E` | to the tests | the process ended: JSON with `status` and `spent` |
"""

from __future__ import annotations

import ctypes
import importlib
import json
import mmap
import os
import signal
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from statediff.systems.base.landlock import allow_below, landlock_version, new_rules

HEADER: Final = 5
MAX_CONTENT: Final = 256 * 1024
MAX_DEPTH: Final = 32
_DUMPABLE = 4
_READ, _USE, _LIST = 0b0101, 0b0110, 0b1000
"""Landlock's rights: to execute and read files, to read and write devices, to list folders."""


@dataclass(frozen=True)
class Pipe:
    """One end of the pipe: descriptors to read from and to write to."""

    reader: int
    writer: int

    def receive(self) -> tuple[bytes, bytes]:
        """The next frame as (kind, content). `EOFError` where the other side is gone."""
        head = self._exactly(HEADER)
        return head[:1], self._exactly(int.from_bytes(head[1:], "big"))

    def send(self, kind: bytes, content: bytes) -> None:
        """The other side has the frame, or is gone (`OSError`)."""
        frame = memoryview(kind + len(content).to_bytes(4, "big") + content)
        while frame:
            frame = frame[os.write(self.writer, frame) :]

    def close(self) -> None:
        os.close(self.reader)
        os.close(self.writer)

    def _exactly(self, length: int) -> bytes:
        found = bytearray()
        while len(found) < length:
            part = os.read(self.reader, length - len(found))
            if not part:
                raise EOFError
            found += part
        return bytes(found)


def two_ends() -> tuple[Pipe, Pipe]:
    """The two ends of a pipe that goes both ways."""
    (reader, there), (other_reader, here) = os.pipe(), os.pipe()
    return Pipe(reader, here), Pipe(other_reader, there)


def serve(pipe: Pipe, enter: Callable[[], None], cpu_seconds: int) -> None:
    """Requests are answered until the tests close the pipe; `enter` shuts a new process off."""
    memory = mmap.mmap(-1, HEADER + MAX_CONTENT)
    running: int | None = None
    while True:
        kind, content = pipe.receive()
        if kind == b"N":
            if running is not None:
                _end(running)
            running = None
            continue
        memory[1:HEADER] = len(content).to_bytes(4, "big")
        memory[HEADER : HEADER + len(content)] = content
        memory[:1] = b"Q"
        if running is None:
            running = os.fork()
            if running == 0:
                _be_the_code(pipe, memory, enter)
        else:
            os.kill(running, signal.SIGCONT)
        ended = _await_reply(running, memory)
        if ended is None:
            length = min(int.from_bytes(memory[1:HEADER], "big"), MAX_CONTENT)
            pipe.send(b"R", memory[HEADER : HEADER + length])
            continue
        running = None
        status, used = ended
        spent = used.ru_utime + used.ru_stime >= cpu_seconds * 0.95
        end = {"status": os.waitstatus_to_exitcode(status), "spent": spent}
        pipe.send(b"E", json.dumps(end).encode())


def _end(running: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(running, signal.SIGKILL)
    os.waitpid(running, 0)


def _await_reply(running: int, memory: mmap.mmap) -> tuple[int, Any] | None:
    """None once the process stopped with a reply; how it ended, if it did."""
    while True:
        _, status, used = os.wait4(running, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            return status, used
        if memory[:1] == b"R":
            return None
        os.kill(running, signal.SIGCONT)  # somebody else stopped it, in the middle of a call


def _be_the_code(pipe: Pipe, memory: mmap.mmap, enter: Callable[[], None]) -> None:
    """This process answers what is put into the memory, for as long as it lives."""
    try:
        pipe.close()
        enter()
        objects = _Objects()
        stop, me = os.kill, os.getpid()
        while True:
            if memory[:1] == b"Q":
                length = int.from_bytes(memory[1:HEADER], "big")
                reply = objects.reply(memory[HEADER : HEADER + length])
                memory[1:HEADER] = len(reply).to_bytes(4, "big")
                memory[HEADER : HEADER + len(reply)] = reply
                memory[:1] = b"R"
            stop(me, signal.SIGSTOP)
    finally:
        os._exit(70)


class _NotSent(Exception):
    """A value that does not fit; the message says why."""


class _Objects:
    """The objects that were returned to the tests, by the number under which they were."""

    def __init__(self) -> None:
        self._kept: list[Any] = []

    def reply(self, request: bytes) -> bytes:
        """The reply to one request, at most `MAX_CONTENT` bytes.

        A request is `["import", module]`, `["get", target, name]` or `["call", target, arguments,
        names]`; a target `["p", module, name, …]` or `["h", number]`. A reply is `["ok", value]`,
        `["raise", [names of the class and its bases], text]` or `["no", why]`.
        """
        try:
            said = json.dumps(self._execute(json.loads(request))).encode()
        except _NotSent as error:
            said = json.dumps(["no", str(error)]).encode()
        if len(said) > MAX_CONTENT:
            said = json.dumps(["no", f"a value of more than {MAX_CONTENT} bytes"]).encode()
        return said

    def _execute(self, request: list[Any]) -> list[Any]:
        verb, *rest = request
        try:
            if verb == "import":
                importlib.import_module(rest[0])
                return ["ok", None]
            target = self._target(rest[0])
            if verb == "get":
                value = getattr(target, rest[1])
            else:
                arguments = [self._value(each) for each in rest[1]]
                value = target(*arguments, **{k: self._value(v) for k, v in rest[2]})
        except BaseException as error:  # noqa: BLE001 - whatever the code raises is its reply
            return ["raise", _names(type(error)), _text(error)]
        return ["ok", self._encode(value, 0)]

    def _target(self, at: list[Any]) -> Any:
        if at[0] == "h":
            return self._kept[at[1]]
        found = importlib.import_module(at[1])
        for name in at[2:]:
            found = getattr(found, name)
        return found

    def _value(self, said: Any) -> Any:
        if not isinstance(said, list):
            return said
        kind, *rest = said
        if kind in ("h", "p"):
            return self._target(said)
        return read_value(kind, rest, self._value)

    def _encode(self, value: Any, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise _NotSent(f"a value nested deeper than {MAX_DEPTH}")
        said = write_value(value, lambda each: self._encode(each, depth + 1))
        if said is not NotImplemented:
            return said
        self._kept.append(value)
        return ["h", len(self._kept) - 1, _names(type(value))[0]]


def write_value(value: Any, inner: Callable[[Any], Any]) -> Any:
    """The value in JSON, NotImplemented for anything but the types that cross.

    Only exact types cross: what inherits from `int` may compare as it likes.
    """
    kind = type(value)
    if value is None or kind in (bool, str):
        return value
    if kind is int:
        return ["i", format(value, "x")]
    if kind is float:
        return ["f", value.hex()]
    if kind is bytes:
        return ["b", value.hex()]
    if kind in (list, tuple):
        return ["l" if kind is list else "t", *map(inner, value)]
    if kind is dict:
        return ["m", *([inner(key), inner(value[key])] for key in value)]
    return NotImplemented


def read_value(kind: Any, rest: list[Any], inner: Callable[[Any], Any]) -> Any:
    """The value that `write_value` wrote, of exact types. `ValueError` for anything else."""
    if kind == "i" and len(rest) == 1 and type(rest[0]) is str:
        return int(rest[0], 16)
    if kind == "f" and len(rest) == 1 and type(rest[0]) is str:
        return float.fromhex(rest[0])
    if kind == "b" and len(rest) == 1 and type(rest[0]) is str:
        return bytes.fromhex(rest[0])
    if kind == "l":
        return [inner(each) for each in rest]
    if kind == "t":
        return tuple(inner(each) for each in rest)
    if kind == "m":
        found = {inner(key): inner(value) for key, value in rest}
        if len(found) == len(rest):
            return found
    raise ValueError(f"no value of a type that crosses: {kind!r}")


def _names(kind: type) -> list[str]:
    """The full names of a class and of its bases, as they say them themselves."""
    return [f"{each.__module__}.{each.__qualname__}"[:200] for each in kind.__mro__[:32]]


def _text(error: BaseException) -> str:
    try:
        return str(error)[:2000]
    except BaseException:  # noqa: BLE001 - an exception whose text raises is still an exception
        return ""


def can_be_confined() -> bool:
    """True if Landlock is to be had: no file but those allowed, no memory of other processes."""
    return landlock_version() >= 1


def is_root_of_the_machine() -> bool:
    """True if this is root, and not only of a user namespace, where root has no such power."""
    if os.getuid() != 0:
        return False
    try:
        with open("/proc/self/uid_map", encoding="ascii") as file:  # noqa: PTH123 - quick
            return file.read().split() == ["0", "0", str(2**32 - 1)]
    except OSError:
        return True


def rules_for(folder: str, library: str, prefix: str) -> int:
    """A descriptor of rules: all below `folder`, and reading programs and libraries; no other file.

    What is installed beside Python's own `library` is not read: statediff may be, with its tests.
    `OSError` where Landlock takes no rules. Whom they bind (`bind_rules`) does not reach the
    memory of a process that they do not bind.
    """
    version = landlock_version()
    # Thirteen rights at first; to move files between folders and to cut them came later.
    everything = (1 << 13 + (version >= 2) + (version >= 3)) - 1
    rules = new_rules(everything)
    _allow(rules, library, _LIST)
    for place in (library, f"{prefix}/lib", "/lib", "/lib64", "/usr/lib", "/usr/lib64"):
        for name in os.listdir(place) if os.path.isdir(place) else ():  # noqa: PTH112, PTH208 - quick
            if not name.startswith("python") and not name.endswith("-packages"):
                _allow(rules, f"{place}/{name}", _READ)
    for path in (f"{prefix}/bin", "/bin", "/usr/bin", "/usr/share/zoneinfo", "/etc/ld.so.cache"):
        _allow(rules, path, _READ)
    for path in ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random"):
        _allow(rules, path, _USE)
    _allow(rules, folder, everything)
    return rules


def hide_memory() -> None:
    """No other process of the user reads this one's memory or descriptors, where that is to be had.

    Root's do.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_DUMPABLE, 0, 0, 0, 0)


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        at = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there need not be allowed
    try:
        if rights == _READ and stat.S_ISDIR(os.fstat(at).st_mode):
            rights |= _LIST
        allow_below(rules, at, rights)
    finally:
        os.close(at)
