"""The program that an agent's program runs below: sent as code, never imported by statediff.

It gets one order with a socket, and answers there, a word and what it is about in a line: the
program's process, then what kept it from starting, or how it ended once nothing of it runs any
more. Whatever closes the other end of the socket, the evaluator's own death too, ends the program.

1. `main` makes new namespaces where the order asks for them, and forks.
2. With namespaces the child is the first process of the program's own world (`_rule`). It mounts
   what the program may see: everything read-only but the writable folders, a `/tmp` and a `/proc`
   of its own. Nobody in that world can end it, and nothing in it outlives it.
3. The program's own process gives up what it must not have (`_renounce`) and becomes the program.
4. Without namespaces orphans become children of this process (Linux), and are ended one by one.

A library would bring a compiler or a setuid program; what is needed are a dozen system calls, whose
numbers are the same on the machines named below. It is begun for every program, so it imports as
little as it can: without JSON, enumerations and types it starts in half the time.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # the one that loads no enumerations
import ctypes
import os
import select
import stat
import struct
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from statediff.systems.base.landlock import (
        allow_below,
        bind_rules,
        landlock_version,
        new_rules,
    )
else:  # sent with it: nothing else of statediff is loaded
    from landlock import allow_below, bind_rules, landlock_version, new_rules

_NEW_USER, _NEW_PID, _NEW_IPC, _NEW_MOUNTS = 0x10000000, 0x20000000, 0x08000000, 0x00020000
_BIND, _MOVE_NOTHING_OUT, _RECURSIVE = 0x1000, 0x80000, 0x4000
_NO_SUID, _NO_DEVICES, _NO_EXECUTION = 2, 4, 8
_MOUNT_SETATTR = 442
_MACHINES = frozenset({"x86_64", "aarch64", "riscv64", "ppc64le", "s390x"})
_AT_CWD, _AT_RECURSIVE, _READ_ONLY = -100, 0x8000, 1
_DUMPABLE, _DROP_FROM_BOUNDING_SET, _SUBREAPER, _NO_NEW_PRIVILEGES = 4, 24, 36, 38
_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
_WRITES = _WRITE_FILE | sum(1 << bit for bit in range(4, 15))
"""To write, cut, make, remove, move and link files of every kind."""
_LEAST_ABI = 3
_KEPT_CAPABILITIES = frozenset({0, 1, 3, 4, 5, 6, 7, 10, 13, 31})
"""Files and users, ports, signals: with no other can root get at the machine below."""
_GRAPHICS = ("kvm", "kfd", "dri")
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DOORS = (
    "/run/docker.sock",
    "/var/run/docker.sock",
    "/run/podman/podman.sock",
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/run/dbus/system_bus_socket",
    "/run/systemd/private",
    "/run/user/{uid}/bus",
    "/run/user/{uid}/systemd/private",
    "/run/user/{uid}/docker.sock",
    "/run/user/{uid}/podman/podman.sock",
)
"""Behind them somebody starts programs for the caller, outside of every namespace."""
_KERNEL = ("sys", "sysrq-trigger", "irq", "bus", "fs")
"""Below /proc, what root would change for everybody."""
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
    said, saying = os.pipe()
    try:
        if "namespaces" in order["isolation"]:
            _leave_namespaces()
        child = os.fork()
    except OSError as error:
        return {"failed": str(error)}
    if child == 0:
        _begin(order, line, saying)
    _send(line, {"pid": child})
    os.close(saying)
    for number in (0, 1, 2):  # who reads the program's output waits for no copy of ours
        os.dup2(os.open(os.devnull, os.O_RDWR), number)
    status = _attend(child, line, wake)
    is_clean = _end_all(child)
    with open(said, "rb") as words:
        word, _, rest = words.read().decode("utf-8", "replace").partition(" ")
    if word == "failed":
        return {"failed": rest}
    return {"status": int(rest) if word == "ended" else status, "is_clean": int(is_clean)}


def _send(line: int, answer: dict[str, object]) -> None:
    for word, what in answer.items():
        text = str(what).replace("\n", " ")
        try:
            os.write(line, f"{word} {text}\n".encode("utf-8", "replace"))
        except OSError:
            return  # nobody waits for it any more


def _attend(child: int, line: int, wake: int) -> int:
    """How the child ended: by itself, or because the other end of the line is closed."""
    while True:
        ready = select.select([line, wake], [], [])[0]
        if wake in ready:
            os.read(wake, 512)
            while (found := _reaped())[0] > 0:
                if found[0] == child:
                    return os.waitstatus_to_exitcode(found[1])
        if line in ready:  # nothing is said there after the order: it is closed
            return _KILLED


def _reaped() -> tuple[int, int]:
    """A child that has ended, and its status; 0 where none has, -1 where there is none."""
    try:
        return os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return -1, 0


def _end_all(child: int) -> bool:
    """Whether nothing that this process began, and nothing that they began, runs any more."""
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


def _begin(order: dict[str, Any], line: int, saying: int) -> None:
    """The program runs; never returns. What kept it from that is written to `saying`."""
    os.close(line)
    code = 127
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        if "namespaces" in order["isolation"]:
            code = _rule(order, saying)
        else:
            _become(order)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the evaluator has to know
        _complain(saying, error)
    finally:
        os._exit(code)


def _complain(saying: int, error: BaseException) -> None:
    os.write(saying, f"failed {type(error).__name__}: {error}".encode()[:2000])


def _rule(order: dict[str, Any], saying: int) -> int:
    """The first process of the namespace: furnishes it, begins the program and waits for its end.

    With it, everything in the namespace ends. How the program ended is written to `saying`.
    """
    _libc.prctl(_DUMPABLE, 0, 0, 0, 0)
    _furnish(order["writable"], order["hidden"])
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
    os.write(saying, f"ended {os.waitstatus_to_exitcode(status)}".encode())
    return 0


def _leave_namespaces() -> None:
    """What is forked from here on is in namespaces of its own; under the same user as before.

    Files stay as they are for this process: what is forked takes its own view of them later, and
    this one goes on reading the machine's `/proc` and `/dev`.
    """
    if os.uname().machine not in _MACHINES:
        raise OSError("the system calls of this kind of machine are not known")
    user, group = os.geteuid(), os.getegid()
    wanted = _NEW_PID | _NEW_IPC
    if user == 0 and _libc.unshare(wanted) == 0:
        return
    _check(_libc.unshare(wanted | _NEW_USER), "no namespaces")
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def _furnish(writable: list[str], hidden: list[str]) -> None:
    """Of the machine's files the program sees all but what is hidden, and changes few.

    1. Nothing that is mounted here is mounted outside, not even for the process that watches,
       and all is read-only.
    2. `/tmp` shows what was there; what is written there is the program's own, and gone with it.
    3. `/proc` shows the processes of this namespace, `/dev` for root only what any program needs.
    """
    _check(_libc.unshare(_NEW_MOUNTS), "no namespace of mounts")
    _mount(None, "/", None, _MOVE_NOTHING_OUT | _RECURSIVE)
    kept = [(path, os.open(path, os.O_PATH)) for path in writable]
    _set_attributes("/", _AT_RECURSIVE, to=_READ_ONLY)
    _furnish_tmp()
    for path in hidden:
        if os.path.isdir(path):
            _mount("tmpfs", path, "tmpfs", _NO_SUID | _NO_DEVICES, "size=64k,mode=755")
    for path, opened in kept:
        if not os.path.lexists(path):
            os.makedirs(path)
        _mount(f"/proc/self/fd/{opened}", path, None, _BIND)
        _set_attributes(path, 0, clear=_READ_ONLY)
        os.close(opened)
    for path in hidden:
        if os.path.isdir(path):
            _set_attributes(path, 0, to=_READ_ONLY)
    if os.geteuid() == 0:
        _furnish_devices()
    elif os.path.isdir("/dev/shm"):
        _mount("tmpfs", "/dev/shm", "tmpfs", _NO_SUID | _NO_DEVICES, "size=1g,mode=1777")
    for door in _DOORS:
        path = door.format(uid=os.geteuid())
        if os.path.exists(path) and stat.S_ISSOCK(os.stat(path).st_mode):
            _mount("/dev/null", os.path.realpath(path), None, _BIND)
    _mount("proc", "/proc", "proc", _NO_SUID | _NO_DEVICES | _NO_EXECUTION)
    for name in _KERNEL if os.geteuid() == 0 else ():
        path = f"/proc/{name}"
        if os.path.exists(path):
            _mount(path, path, None, _BIND | _RECURSIVE)
            _set_attributes(path, _AT_RECURSIVE, to=_READ_ONLY)


def _furnish_tmp() -> None:
    """Where the kernel has no overlays, `/tmp` stays what it is, read-only."""
    below = os.open("/tmp", os.O_PATH | os.O_DIRECTORY)
    _mount("tmpfs", "/tmp", "tmpfs", _NO_SUID | _NO_DEVICES, "size=1g,mode=1777")
    for name, mode in (("/tmp/upper", 0o1777), ("/tmp/work", 0o700)):
        os.mkdir(name)
        os.chmod(name, mode)
    layers = f"lowerdir=/proc/self/fd/{below},upperdir=/tmp/upper,workdir=/tmp/work"
    try:
        _mount("overlay", "/tmp", "overlay", _NO_SUID | _NO_DEVICES, layers)
    except OSError:
        _mount(f"/proc/self/fd/{below}", "/tmp", None, _BIND | _RECURSIVE)
    os.close(below)


def _furnish_devices() -> None:
    """No disk, no memory, no kernel log: root needs no capability to open those."""
    names = os.listdir("/dev")
    wanted = {*_DEVICES, *_GRAPHICS, "pts"}
    wanted |= {name for name in names if name.startswith("nvidia")}
    kept = [(n, os.open(f"/dev/{n}", os.O_PATH)) for n in sorted(wanted.intersection(names))]
    _mount("tmpfs", "/dev", "tmpfs", _NO_SUID, "size=1g,mode=755")
    for name, opened in kept:
        path = f"/dev/{name}"
        if stat.S_ISDIR(os.fstat(opened).st_mode):
            os.mkdir(path)
        else:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o666))
        _mount(f"/proc/self/fd/{opened}", path, None, _BIND)
        os.close(opened)
    os.mkdir("/dev/shm")
    os.chmod("/dev/shm", 0o1777)
    links = {"fd": "/proc/self/fd", "ptmx": "pts/ptmx"}
    links |= {name: f"/proc/self/fd/{n}" for n, name in enumerate(("stdin", "stdout", "stderr"))}
    for name, target in links.items():
        os.symlink(target, f"/dev/{name}")


def _become(order: dict[str, Any]) -> None:
    """This process is the program. Raises what keeps it from that."""
    os.chdir(order["folder"])
    _renounce(order["writable"], order["isolation"])
    os.execve(order["command"][0], order["command"], order["environment"])  # noqa: S606 - no shell


def _renounce(writable: list[str], isolation: str) -> None:
    """From here on nothing gives this process a right back that it does not have."""
    if isolation == "none":
        return
    if os.geteuid() == 0:
        for capability in set(range(64)) - _KEPT_CAPABILITIES:
            _libc.prctl(_DROP_FROM_BOUNDING_SET, capability, 0, 0, 0)
    _check(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "new privileges")
    if "landlock" in isolation:
        own = ["/tmp", "/dev", "/proc"] if "namespaces" in isolation else ["/dev/shm", "/dev/pts"]
        devices = [f"/dev/{name}" for name in (*_DEVICES, "ptmx")]
        _lock([*writable, *own, *devices])


def _lock(writable: list[str]) -> None:
    """Landlock: this process writes below these places only, and touches no process outside."""
    if os.uname().machine not in _MACHINES or landlock_version() < _LEAST_ABI:
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
    return {kind: _try(kind, order) for kind in ("namespaces", "landlock")}


def _try(kind: str, order: dict[str, Any]) -> str:
    said, saying = os.pipe()
    tried = os.fork()
    if tried == 0:
        try:
            if kind == "namespaces":
                _leave_namespaces()
                first = os.fork()
                if first:
                    _, status = os.waitpid(first, 0)
                    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
                _furnish(order["writable"], [])
            else:
                _renounce([], kind)
            os._exit(0)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is not allowed here
            os.write(saying, str(error).encode()[:500] or b"?")
        finally:
            os._exit(1)
    os.close(saying)
    with open(said, "rb") as words:
        cause = words.read().decode("utf-8", "replace")
    _, status = os.waitpid(tried, 0)
    return "" if status == 0 else cause or "it ended without a word"


# ---------------------------------------------------------------- system calls


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str = "") -> None:
    given = [None if each is None else os.fsencode(each) for each in (source, target, kind)]
    _check(_libc.mount(*given, ctypes.c_ulong(flags), data.encode() or None), f"mounting {target}")


def _set_attributes(path: str, flags: int, *, to: int = 0, clear: int = 0) -> None:
    attributes = struct.pack("=QQQQ", to, clear, 0, 0)
    _check(
        _libc.syscall(
            _MOUNT_SETATTR, _AT_CWD, os.fsencode(path), flags, attributes, len(attributes)
        ),
        f"protecting {path}",
    )


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result
