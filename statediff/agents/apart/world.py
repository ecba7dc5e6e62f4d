"""The world of an isolated program: namespaces, files and a network of its own.

1. `fork_apart` begins the first process of that world; the one that watches stays outside.
2. `settle_in` there makes its mounts, its `/tmp`, `/dev` and `/proc`, and its network.

Nothing needs a right on the machine, but that users may make namespaces. Sent as code with
`supervisor.py`; the numbers of system calls are the same on `MACHINES`.
"""

from __future__ import annotations

import _socket
import ctypes
import os
import stat
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from statediff.agents.apart.network import Door, doors_of, hosts_of, open_doors
else:  # sent with it: nothing else of statediff is loaded
    from network import doors_of, hosts_of, open_doors

_CLONE3, _CHILD_ENDED = 435, 17
_APART = 0x10000000 | 0x20000000 | 0x08000000 | 0x00020000 | 0x40000000
"""Users, processes, memory to share, mounts and networks."""
_BIND, _MOVE_NOTHING_OUT, _RECURSIVE = 0x1000, 0x80000, 0x4000
_NO_SUID, _NO_DEVICES, _NO_EXECUTION = 2, 4, 8
_MOUNT_SETATTR = 442
MACHINES = frozenset({"x86_64", "aarch64", "riscv64", "ppc64le", "s390x"})
_AT_CWD, _AT_RECURSIVE, _READ_ONLY = -100, 0x8000, 1
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_GRAPHICS = ("kvm", "kfd", "dri")
_MAX_SOCKETS = 4096
_KERNEL = ("sys", "sysrq-trigger", "irq", "bus", "fs")
"""Below /proc, what root would change for everybody."""
_OWN_BYTES = "size=1g,nr_inodes=200k"
"""For `/tmp`, and for `/dev` with `/dev/shm`: memory that goes with the program."""
_TELLING = (
    *("/proc/keys", "/proc/key-users", "/proc/kcore", "/proc/timer_list", "/proc/sched_debug"),
    *("/sys/kernel/debug", "/sys/kernel/tracing", "/sys/kernel/security", "/sys/fs/bpf"),
)
"""Files that tell root, or anybody, about processes and keys outside."""
_UNREACHED = (1, 2, 13, 20, 40)
"""Not permitted, no such file, no access, no folder, too many links."""

_libc = ctypes.CDLL(None, use_errno=True)
_holding = ctypes.PyDLL(None, use_errno=True)
"""As `_libc`, but a child begins as its parent left off, in the midst of Python."""


def fork_apart() -> int:
    """As `os.fork`, but the child is the first process of namespaces of its own.

    Users and groups are there as they are here, so that files keep their owners: all of them for
    root, and one's own for everybody else. `OSError` where that cannot be.
    """
    if os.uname().machine not in MACHINES:
        raise OSError("the system calls of this kind of machine are not known")
    waits, goes = os.pipe()
    given = struct.pack("8Q", _APART, 0, 0, 0, _CHILD_ENDED, 0, 0, 0)
    child = check(_holding.syscall(_CLONE3, given, len(given)), "no namespaces")
    if child == 0:
        os.close(goes)
        if not os.read(waits, 1):
            os._exit(1)
        os.close(waits)
        return 0
    os.close(waits)
    try:
        _map_users(child)
        os.write(goes, b"+")
    except OSError:
        os.close(goes)
        os.waitpid(child, 0)
        raise
    os.close(goes)
    return child


def _map_users(child: int) -> None:
    user, group = os.geteuid(), os.getegid()
    if user:
        maps = {"setgroups": "deny", "uid_map": f"{user} {user} 1", "gid_map": f"{group} {group} 1"}
    else:
        maps = {}
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/self/{name}", encoding="ascii") as file:
                known = [line.split() for line in file]
            maps[name] = "\n".join(f"{first} {first} {count}" for first, _, count in known)
    for name, text in maps.items():
        with open(f"/proc/{child}/{name}", "w", encoding="ascii") as file:
            file.write(text)


def settle_in(order: dict[str, Any], served: list[str], saying: _socket.socket) -> None:
    """Files and network are the program's own view of them; its doors are sent along `saying`.

    `served` is what `sockets_outside` found.
    """
    doors = doors_of(order["endpoints"])
    _furnish(order, served, doors)
    open_doors(doors, saying)


def sockets_outside() -> list[str]:
    """Sockets of this machine that have a path, and somebody who may serve there."""
    found: list[str] = []
    try:
        with open("/proc/net/unix", "rb") as file:
            for line in file:
                words = line.rstrip(b"\n").split(b" ", 7)
                if len(words) == 8 and words[7].startswith(b"/"):
                    found.append(os.fsdecode(words[7]))
    except OSError:
        return []
    return found[:_MAX_SOCKETS]


def _furnish(order: dict[str, Any], served: list[str], doors: list[Door]) -> None:
    """Show the program the machine's files but for the hidden ones; it may change few.

    1. Nothing that is mounted here is mounted outside, not even for the process that watches,
       and all is read-only.
    2. `/tmp` shows what was there; what is written there is the program's own, and gone with it.
    3. `/proc` shows the processes of this namespace, `/dev` only what any program needs, with
       terminals and shared memory of its own.
    4. Behind a socket with a path somebody serves who is outside, and may start programs for the
       caller: those that are not the trial's own are covered.
    """
    writable, hidden = order["writable"], order["hidden"]
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
        _mount(f"/proc/self/fd/{opened}", path, None, _BIND | _RECURSIVE)
        _set_attributes(path, 0, clear=_READ_ONLY)
        os.close(opened)
    for path in hidden:
        if os.path.isdir(path):
            _set_attributes(path, 0, to=_READ_ONLY)
        elif os.path.exists(path):
            _mount("/dev/null", os.path.realpath(path), None, _BIND)
    own = tuple(f"{place.rstrip('/')}/" for place in (*writable, *order["sockets"]))
    for path in served:
        if not f"{path}/".startswith(own):
            _cover(path)
    _furnish_devices()
    _furnish_names(doors)
    _mount("proc", "/proc", "proc", _NO_SUID | _NO_DEVICES | _NO_EXECUTION)
    for name in _KERNEL:
        path = f"/proc/{name}"
        if os.path.exists(path):
            _mount(path, path, None, _BIND | _RECURSIVE)
            _set_attributes(path, _AT_RECURSIVE, to=_READ_ONLY)
    for path in _TELLING:
        if os.path.isdir(path):
            _mount("tmpfs", path, "tmpfs", _NO_SUID | _NO_DEVICES, "size=4k,mode=755")
        elif os.path.exists(path):
            _mount("/dev/null", path, None, _BIND)


def _cover(path: str) -> None:
    """Nobody is reached by the socket at this path."""
    try:
        if stat.S_ISSOCK(os.stat(path).st_mode):
            _mount("/dev/null", os.path.realpath(path), None, _BIND)
    except OSError as error:
        if error.errno not in _UNREACHED:  # the program does not get there, either
            raise


def _furnish_names(doors: list[Door]) -> None:
    """The names of the trial's endpoints lead to its doors; who asks for others is heard."""
    if lines := hosts_of(doors):
        named = {line.split()[1] for line in lines}
        with open("/etc/hosts", encoding="utf-8", errors="surrogateescape") as file:
            others = [line for line in file if not named.intersection(line.split("#")[0].split())]
        _show("/etc/hosts", "".join([*lines, *others]))
    if os.path.exists("/etc/resolv.conf"):
        _show("/etc/resolv.conf", "nameserver 127.0.0.1\noptions attempts:1 timeout:1\n")


def _show(path: str, text: str) -> None:
    """The file reads so, in memory."""
    shown = "/dev/shown"
    with open(shown, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    os.chmod(shown, 0o444)
    _mount(shown, os.path.realpath(path), None, _BIND)
    os.unlink(shown)
    _set_attributes(path, 0, to=_READ_ONLY)


def _furnish_tmp() -> None:
    """Show `/tmp` through a layer that takes what is written.

    Where the kernel lays none over it (something is mounted below, for one) its entries are shown
    in an empty one, and are read-only.
    """
    below = os.open("/tmp", os.O_PATH | os.O_DIRECTORY)
    _mount("tmpfs", "/tmp", "tmpfs", _NO_SUID | _NO_DEVICES, f"{_OWN_BYTES},mode=1777")
    for name, mode in (("/tmp/upper", 0o1777), ("/tmp/work", 0o700)):
        os.mkdir(name)
        os.chmod(name, mode)
    layers = f"lowerdir=/proc/self/fd/{below},upperdir=/tmp/upper,workdir=/tmp/work,userxattr"
    try:
        _mount("overlay", "/tmp", "overlay", _NO_SUID | _NO_DEVICES, layers)
    except OSError:
        for name in ("/tmp/upper", "/tmp/work"):
            _remove_all(name)
        for name in os.listdir(f"/proc/self/fd/{below}"):
            entry = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=below)
            if stat.S_ISLNK(os.fstat(entry).st_mode):
                os.symlink(os.readlink(name, dir_fd=below), f"/tmp/{name}")
            else:
                _show_again(entry, f"/tmp/{name}", _BIND | _RECURSIVE)
            os.close(entry)
    os.close(below)


def _remove_all(folder: str) -> None:
    for name in os.listdir(folder):
        _remove_all(f"{folder}/{name}")
    os.rmdir(folder)


def _show_again(opened: int, path: str, how: int = _BIND) -> None:
    """Show the open file at the path, where nothing is yet."""
    if stat.S_ISDIR(os.fstat(opened).st_mode):
        os.mkdir(path)
    else:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o666))
    _mount(f"/proc/self/fd/{opened}", path, None, how)


def _furnish_devices() -> None:
    """No disk, no memory, no kernel log, no terminal of anybody else."""
    names = os.listdir("/dev")
    wanted = {*DEVICES, *_GRAPHICS}
    wanted |= {name for name in names if name.startswith("nvidia")}
    kept = [(n, os.open(f"/dev/{n}", os.O_PATH)) for n in sorted(wanted.intersection(names))]
    _mount("tmpfs", "/dev", "tmpfs", _NO_SUID, f"{_OWN_BYTES},mode=755")
    for name, opened in kept:
        _show_again(opened, f"/dev/{name}")
        os.close(opened)
    os.mkdir("/dev/shm")
    os.chmod("/dev/shm", 0o1777)
    os.mkdir("/dev/pts")
    flags = _NO_SUID | _NO_EXECUTION
    _mount("devpts", "/dev/pts", "devpts", flags, "newinstance,ptmxmode=0666,mode=0620")
    links = {"fd": "/proc/self/fd", "ptmx": "pts/ptmx"}
    links |= {name: f"/proc/self/fd/{n}" for n, name in enumerate(("stdin", "stdout", "stderr"))}
    for name, target in links.items():
        os.symlink(target, f"/dev/{name}")


# ---------------------------------------------------------------- system calls


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str = "") -> None:
    given = [None if each is None else os.fsencode(each) for each in (source, target, kind)]
    check(_libc.mount(*given, ctypes.c_ulong(flags), data.encode() or None), f"mounting {target}")


def _set_attributes(path: str, flags: int, *, to: int = 0, clear: int = 0) -> None:
    attributes = struct.pack("=QQQQ", to, clear, 0, 0)
    check(
        _libc.syscall(
            _MOUNT_SETATTR, _AT_CWD, os.fsencode(path), flags, attributes, len(attributes)
        ),
        f"protecting {path}",
    )


def check(result: int, what: str) -> int:
    """The result of a call to the system's library; `OSError` where it failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result
