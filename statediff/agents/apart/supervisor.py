"""The program that an agent's program runs below: sent as code, never imported by statediff.

It gets one order with a socket, and answers there, a word and what it is about in a line: the
program's process, then what kept it from starting, or how it ended once nothing of it runs any
more. Whatever closes the other end of the socket, the evaluator's own death too, ends the program.

1. `main` forks, into new namespaces where the order asks for them.
2. With namespaces the child is the first process of the program's own world (`_rule`). It mounts
   what the program may see: everything read-only but the writable folders, a `/tmp`, a `/dev` and a
   `/proc` of its own. It sends the doors of its network to this process (`network.py`). Nobody in
   that world can end it, and nothing in it outlives it.
3. The program's own process gives up what it must not have (`_renounce`) and becomes the program.
4. This process leads the program's connections outside, looks at what it takes (`_overrun`), and
   waits for its end. Without namespaces orphans become its children (Linux), and are ended one by
   one.

A library would bring a compiler or a setuid program; what is needed are a dozen system calls, whose
numbers are the same on the machines named below. It is begun for every program, so it imports as
little as it can: without JSON, enumerations and types it starts in half the time.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # the one that loads no enumerations
import _socket
import ctypes
import os
import resource
import select
import stat
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from statediff.agents.apart.filters import limit_system_calls
    from statediff.agents.apart.network import Door, asked_for, doors_of, lead, receive_doors
    from statediff.agents.apart.world import (
        DEVICES,
        MACHINES,
        check,
        fork_apart,
        settle_in,
        sockets_outside,
    )
    from statediff.systems.base.landlock import (
        allow_below,
        bind_rules,
        landlock_version,
        new_rules,
    )
else:  # sent with it: nothing else of statediff is loaded
    from filters import limit_system_calls
    from landlock import allow_below, bind_rules, landlock_version, new_rules
    from network import asked_for, doors_of, lead, receive_doors
    from world import DEVICES, MACHINES, check, fork_apart, settle_in, sockets_outside

_DUMPABLE, _DROP_FROM_BOUNDING_SET, _SUBREAPER, _NO_NEW_PRIVILEGES = 4, 24, 36, 38
_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
_WRITES = _WRITE_FILE | sum(1 << bit for bit in range(4, 15))
"""To write, cut, make, remove, move and link files of every kind."""
_LEAST_ABI = 3
_KEPT_CAPABILITIES = frozenset({0, 1, 3, 4, 5, 6, 7, 10, 13, 31})
"""Files and users, ports, signals: with no other can root get at the machine below."""
LOOK_SECONDS = 1.0
_MAX_ASKED = 20
_END_SECONDS = 5.0
_KILLED = -int(signal.SIGKILL)

_libc = ctypes.CDLL(None, use_errno=True)


def main(line: int, order: dict[str, Any]) -> None:
    """The order is carried out; the exit code says nothing."""
    os.set_inheritable(line, False)
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if sys.platform == "linux":  # elsewhere the group is all that can be ended
        _libc.prctl(_SUBREAPER, 1, 0, 0, 0)
    _send(line, _probe(order) if order["command"] is None else _carry_out(order, line, wake))
    _send(line, {"over": ""})


def _carry_out(order: dict[str, Any], line: int, wake: int) -> dict[str, object]:
    """How the program ended, once nothing of it runs any more, or why it did not begin."""
    said, saying = _socket.socketpair()
    try:
        served = sockets_outside()
        child = fork_apart() if "namespaces" in order["isolation"] else os.fork()
    except OSError as error:
        return {"failed": str(error)}
    if child == 0:
        said.close()
        _begin(order, served, line, saying)
    _send(line, {"pid": child})
    saying.close()
    watch = _Watch(order, line, wake, said)
    for number in (0, 1, 2):  # who reads the program's output waits for no copy of ours
        os.dup2(os.open(os.devnull, os.O_RDWR), number)
    status = watch.attend(child)
    is_clean = _end_all(child)
    word, _, rest = watch.last_words().partition(" ")
    if word == "failed":
        return {"failed": rest}
    heard = {"overrun": watch.overrun, "refused": " ".join(watch.refused)}
    ended = {"status": int(rest) if word == "ended" else status, "is_clean": int(is_clean)}
    return {**{word: what for word, what in heard.items() if what}, **ended}


def _send(line: int, answer: dict[str, object]) -> None:
    for word, what in answer.items():
        text = str(what).replace("\n", " ")
        try:
            os.write(line, f"{word} {text}\n".encode("utf-8", "replace"))
        except OSError:
            return  # nobody waits for it any more


class _Watch:
    """The requests of the program that this process answers until the program ends."""

    def __init__(self, order: dict[str, Any], line: int, wake: int, said: _socket.socket) -> None:
        """`said` is where the program's side speaks; to close `line` ends the program."""
        self.refused: dict[str, None] = {}
        """The endpoints that it asked for in vain, in order."""
        self.overrun = ""
        """Why it was ended: what it took more of than it may."""
        self._line, self._wake, self._said = line, wake, said
        self._is_silent = False
        self._words = ""
        self._doors = doors_of(order["endpoints"])
        self._listeners: dict[_socket.socket, Door] = {}
        self._witness: _socket.socket | None = None
        self._led: list[None] = []
        self._limits = _Limits(order) if order["isolation"] != "none" else None

    def attend(self, child: int) -> int:
        """How the child ended: by itself, or because it had to."""
        seconds = None if self._limits is None else LOOK_SECONDS
        while True:
            heard: list[int | _socket.socket] = [self._line, self._wake, *self._listeners]
            heard += [] if self._is_silent else [self._said]
            heard += [] if self._witness is None else [self._witness]
            ready = select.select(heard, [], [], seconds)[0]
            if self._said in ready:
                self._hear()
            for listener in self._listeners.keys() & set(ready):
                lead(listener, self._listeners[listener], self._led)
            if self._witness in ready:
                self._note()
            if self._wake in ready:
                os.read(self._wake, 512)
                while (found := _reaped())[0] > 0:
                    if found[0] == child:
                        self._note()
                        return os.waitstatus_to_exitcode(found[1])
            if self._line in ready:  # nothing is said there after the order: it is closed
                return _KILLED
            if self._limits is not None and (cause := self._limits.overrun()):
                self.overrun = cause
                return _KILLED

    def last_words(self) -> str:
        """How the program ended, as its side said; none of its processes runs any more."""
        while not self._is_silent:
            self._hear()
        return self._words

    def _hear(self) -> None:
        """The doors of the program's network, or words."""
        opened, words = receive_doors(self._said)
        self._words += words
        self._is_silent = not opened and not words
        for place, each in opened.items():
            if place < len(self._doors):
                self._listeners[each] = self._doors[place]
            else:
                self._witness = each

    def _note(self) -> None:
        while self._witness is not None and (asked := asked_for(self._witness)) is not None:
            if asked and len(self.refused) < _MAX_ASKED:
                self.refused[asked] = None


class _Limits:
    """A look, once a second, at how much of the machine a program takes.

    The limits of one process (`_limit`) do not bound what many take together. No disk is full for
    the evaluator, however fast a program is (`room.py`); who fills one is ended for all others.
    """

    def __init__(self, order: dict[str, Any]) -> None:
        self._limits = order["limits"]
        self._writable = order["writable"]
        self._began = time.time()
        self._next = time.monotonic() + LOOK_SECONDS
        self._disks: dict[int, int] = {}
        for path in self._writable:
            try:
                opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            except OSError:
                continue  # what is not there is not written
            self._disks.setdefault(os.fstat(opened).st_dev, opened)

    def overrun(self) -> str:
        """Name in words the limit that is passed; empty where none is, or a second is not over."""
        if time.monotonic() < self._next:
            return ""
        self._next = time.monotonic() + LOOK_SECONDS
        if any(map(self._is_full, self._disks.values())) and self._has_filled():
            return "filled the disk"
        found = [_size(pid) for pid in _descendants()]
        if sum(threads for _, threads in found) > (most := self._limits["processes"]):
            return f"ran more than {most} processes and threads at once"
        memory = self._limits["memory"]
        if sum(size for size, _ in found) > memory and sum(map(_share, _descendants())) > memory:
            return f"took more than {memory >> 20} MiB of memory"
        return ""

    def _is_full(self, opened: int) -> bool:
        found = os.fstatvfs(opened)
        has_no_file = found.f_files and found.f_favail < self._limits["full_files"]
        return bool(has_no_file) or found.f_bavail * found.f_frsize < self._limits["full"]

    def _has_filled(self) -> bool:
        """True where the program itself wrote as much as a full disk lacks."""
        size = files = 0
        for found in self._written():
            size, files = size + found.st_blocks * 512, files + 1
            if size > self._limits["full"] or files > self._limits["full_files"]:
                return True
        return False

    def _written(self) -> Iterator[os.stat_result]:
        """Files that changed since the program began, and those without a name that it has open."""
        for path in self._writable:
            for folder, _, names in os.walk(path):
                for found in filter(None, (_look(f"{folder}/{name}", os.lstat) for name in names)):
                    if found.st_ctime >= self._began:
                        yield found
        for pid in _descendants():
            try:
                numbers = os.listdir(f"/proc/{pid}/fd")
            except OSError:
                continue  # it has ended
            for found in filter(None, (_look(f"/proc/{pid}/fd/{n}", os.stat) for n in numbers)):
                if found.st_nlink == 0 and found.st_dev in self._disks:
                    yield found


def _look(path: str, how: Callable[[str], os.stat_result]) -> os.stat_result | None:
    try:
        return how(path)
    except OSError:
        return None  # it is gone


def _size(pid: int) -> tuple[int, int]:
    """The memory of a process, shared or not, in bytes, and how many threads it has."""
    found = {"RssAnon": 0, "RssShmem": 0, "Threads": 0}
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                word, _, rest = line.partition(b":")
                if (name := word.decode("ascii", "replace")) in found:
                    found[name] = int(rest.split()[0])
    except (OSError, ValueError, IndexError):
        return 0, 0  # it has ended
    return 1024 * (found["RssAnon"] + found["RssShmem"]), found["Threads"]


def _share(pid: int) -> int:
    """The memory of a process in bytes, of what it shares its part."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            words = {line.split(b":")[0]: line.split()[1] for line in file if b"Pss" in line}
        return 1024 * (int(words[b"Pss_Anon"]) + int(words[b"Pss_Shmem"]))
    except (OSError, KeyError, ValueError, IndexError):
        return _size(pid)[0]


def _reaped() -> tuple[int, int]:
    """A child that has ended, and its status; 0 where none has, -1 where there is none."""
    try:
        return os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return -1, 0


def _end_all(child: int) -> bool:
    """True where no descendant of this process runs any more."""
    until = time.monotonic() + _END_SECONDS
    _kill(child, os.killpg)  # its children are in /proc; the group is for systems without one
    while True:
        for pid in _descendants():
            _kill(pid, os.kill)
        while (left := _reaped()[0]) > 0:
            pass
        if left < 0:
            return True
        if time.monotonic() > until:
            return False
        time.sleep(0.002)


def _kill(pid: int, how: Callable[[int, int], None]) -> None:
    try:
        how(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return  # it has ended


def _descendants() -> list[int]:
    """All processes below this one: nobody else's, however they are called."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue  # it has ended
            parents.setdefault(parent, []).append(int(name))
    found, pending = [], [os.getpid()]
    while pending:
        below = parents.get(pending.pop(), [])
        found += below
        pending += below
    return found


# ---------------------------------------------------------------- the program's own world


def _begin(order: dict[str, Any], served: list[str], line: int, saying: _socket.socket) -> None:
    """The program runs; never returns. What kept it from that is written to `saying`."""
    os.close(line)
    code = 127
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        if "namespaces" in order["isolation"]:
            code = _rule(order, served, saying)
        else:
            _become(order)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the evaluator has to know
        _complain(saying, error)
    finally:
        os._exit(code)


def _complain(saying: _socket.socket, error: BaseException) -> None:
    saying.send(f"failed {type(error).__name__}: {error}".encode()[:2000])


def _rule(order: dict[str, Any], served: list[str], saying: _socket.socket) -> int:
    """The first process of the namespace: furnishes it, begins the program and waits for its end.

    With it, everything in the namespace ends. How the program ended is written to `saying`.
    """
    _libc.prctl(_DUMPABLE, 0, 0, 0, 0)
    settle_in(order, served, saying)
    program = os.fork()
    if program == 0:
        try:
            os.setsid()
            _become(order)
        except BaseException as error:  # noqa: BLE001 - as above
            _complain(saying, error)
        finally:
            os._exit(127)
    for number in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), number)
    pid = status = 0
    while pid != program:
        pid, status = os.wait()
    saying.send(f"ended {os.waitstatus_to_exitcode(status)}".encode())
    return 0


def _become(order: dict[str, Any]) -> None:
    """This process is the program. Raises what keeps it from that."""
    os.chdir(order["folder"])
    if order["isolation"] != "none":
        _limit(order["limits"])
        _renounce(order["writable"], order["isolation"])
        if order["is_filtered"]:
            limit_system_calls()
    os.execve(order["command"][0], order["command"], order["environment"])  # noqa: S606 - no shell


def _limit(limits: dict[str, int]) -> None:
    """The limits of one process, which are never raised."""
    for which, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_DATA, limits["memory"]),
        (resource.RLIMIT_FSIZE, limits["file_size"]),
        (resource.RLIMIT_NOFILE, limits["open_files"]),
        (resource.RLIMIT_NPROC, limits["processes"]),
    ):
        allowed = (most if n == resource.RLIM_INFINITY else n for n in resource.getrlimit(which))
        soft, hard = (min(each, most) for each in allowed)
        resource.setrlimit(which, (soft, hard))


def _renounce(writable: list[str], isolation: str) -> None:
    """From here on nothing gives this process a right back that it does not have."""
    if os.geteuid() == 0:
        for capability in set(range(64)) - _KEPT_CAPABILITIES:
            _libc.prctl(_DROP_FROM_BOUNDING_SET, capability, 0, 0, 0)
    check(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "new privileges")
    if "landlock" in isolation:
        own = ["/tmp", "/dev", "/proc"] if "namespaces" in isolation else ["/dev/shm"]
        devices = [f"/dev/{name}" for name in (*DEVICES, "ptmx")]
        _lock([*writable, *own, *devices])


def _lock(writable: list[str]) -> None:
    """Landlock: this process writes below these places only, and touches no process outside."""
    if os.uname().machine not in MACHINES or landlock_version() < _LEAST_ABI:
        raise OSError(f"Landlock is not there, or older than its version {_LEAST_ABI}")
    rules = new_rules(_WRITES)
    for path in writable:
        try:
            place = os.open(path, os.O_PATH)
        except OSError:
            continue  # what is not there is not written
        is_folder = stat.S_ISDIR(os.fstat(place).st_mode)
        allow_below(rules, place, _WRITES if is_folder else _WRITE_FILE | _TRUNCATE)
        os.close(place)
    bind_rules(rules)
    os.close(rules)


def _probe(order: dict[str, Any]) -> dict[str, object]:
    """Why this machine does not allow each, tried in processes of their own; empty: it does."""
    return {kind: _try(kind, order) for kind in ("namespaces", "landlock", "filter")}


def _try(kind: str, order: dict[str, Any]) -> str:
    said, saying = _socket.socketpair()
    served = sockets_outside()
    try:
        tried = fork_apart() if kind == "namespaces" else os.fork()
    except OSError as error:
        return str(error)
    if tried == 0:
        try:
            if kind == "namespaces":
                settle_in(order, served, saying)
            else:
                _renounce([], kind)
                if kind == "filter":
                    limit_system_calls()
            os._exit(0)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is not allowed here
            _complain(saying, error)
        finally:
            os._exit(1)
    saying.close()
    words = ""
    while (found := receive_doors(said)) != ({}, ""):
        words += found[1]
    _, status = os.waitpid(tried, 0)
    return "" if status == 0 else words.removeprefix("failed ") or "it ended without a word"
