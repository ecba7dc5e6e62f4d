"""Classic BPF: which system calls a program may make, and which packets the one who watches hears.

A program of a task needs files, processes, memory and sockets. `limit_system_calls` refuses what
reaches the kernel's own machinery: each is argued in `docs/isolation.md`. The numbers of system
calls differ by machine; those of the machines in `_MACHINES` are known.
"""

from __future__ import annotations

import _socket
import ctypes
import os
import struct

_libc = ctypes.CDLL(None, use_errno=True)

Line = str | tuple[int, int] | tuple[int, int, str, str]
"""A label, an instruction, or a comparison with the labels to go on at; an empty one is here."""

_WORD, _HALF, _BYTE, _HALF_BEHIND, _BYTE_BEHIND = 0x20, 0x28, 0x30, 0x48, 0x50
_LENGTH_OF_HEAD, _INDEX, _AND, _GO, _RETURN = 0xB1, 0x01, 0x54, 0x05, 0x06
_IS, _IS_AT_LEAST, _HAS_ANY = 0x15, 0x35, 0x45


def _assemble(lines: tuple[Line, ...]) -> bytes:
    """Labels are ahead of what goes to them: a filter has no way back."""
    places: dict[str, int] = {}
    instructions: list[tuple[int, int] | tuple[int, int, str, str]] = []
    for line in lines:
        if isinstance(line, str):
            places[line] = len(instructions)
        else:
            instructions.append(line)
    found = b""
    for at, line in enumerate(instructions, 1):
        yes, no = (places[to] - at if to else 0 for to in line[2:] or ("", ""))
        found += struct.pack("=HBBI", line[0], yes, no, line[1])
    return found


def _program(instructions: bytes) -> tuple[bytes, object]:
    """The kernel's form of a filter, and the memory that must live until the kernel has it."""
    text = ctypes.create_string_buffer(instructions, len(instructions))
    return struct.pack("HP", len(instructions) // 8, ctypes.addressof(text)), text


# ---------------------------------------------------------------- packets

_ATTACH_FILTER = 26
_HOW_IT_CAME = 0xFFFFF004
_OUTGOING = 4
_NAMES = 53
_RESET_THAT_ACKNOWLEDGES = 0x14
_REFUSALS: tuple[Line, ...] = (
    (_HALF, _HOW_IT_CAME),
    (_IS, _OUTGOING, "no", ""),  # it is heard again when it arrives
    (_BYTE, 0),
    (_AND, 0xF0),
    (_IS, 0x60, "version 6", ""),
    (_IS, 0x40, "", "no"),
    (_LENGTH_OF_HEAD, 0),
    (_BYTE, 9),
    (_IS, _socket.IPPROTO_TCP, "flags", ""),
    (_IS, _socket.IPPROTO_UDP, "port", "no"),
    "version 6",
    (_INDEX, 40),
    (_BYTE, 6),
    (_IS, _socket.IPPROTO_TCP, "flags", ""),
    (_IS, _socket.IPPROTO_UDP, "port", "no"),
    "port",
    (_HALF_BEHIND, 2),
    (_IS, _NAMES, "yes", "no"),
    "flags",
    (_BYTE_BEHIND, 13),
    (_AND, _RESET_THAT_ACKNOWLEDGES),
    (_IS, _RESET_THAT_ACKNOWLEDGES, "first", "no"),
    "first",
    (0x40, 4),
    (_IS, 0, "yes", "no"),
    "no",
    (_RETURN, 0),
    "yes",
    (_RETURN, 1024),
)
"""A reset that acknowledges and has no number of its own answers the first packet of a connection;
a datagram to the port of names is a question."""


def hear_refusals(packets: _socket.socket) -> None:
    """Give the socket refused connections and questions for names alone; raises `OSError`."""
    given, text = _program(_assemble(_REFUSALS))
    packets.setsockopt(_socket.SOL_SOCKET, _ATTACH_FILTER, given)
    del text


# ---------------------------------------------------------------- system calls

_SET_SECCOMP, _FILTER = 22, 2
_NUMBER, _MACHINE, _FIRST, _THIRD = 0, 4, 16, 32
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_NOT_PERMITTED, _NO_SUCH_CALL, _NO_SUCH_FAMILY = 1, 38, 97
_JOIN_SESSION = 1
_X32 = 0x40000000
"""On x86-64, what other numbers for the same calls begin at."""
_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1), "riscv64": (0xC00000F3, 1)}
"""The kernel's name for the machine, and which column of numbers is its own."""
_REFUSED = {
    # keys of the kernel: a memory beside the files
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # programs in the kernel, its counters, and ways around its checks
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    # another view of the files, or other namespaces
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "open_by_handle_at": (304, 265),
    "unshare": (272, 97),
    "setns": (308, 268),
    # another kernel, and parts of it
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "syslog": (103, 116),
}
_CLONE, _CLONE3, _SOCKET, _IOCTL = (56, 220), (435, 435), (41, 198), (16, 29)
_NEW_NAMESPACES = 0x7E020000
_FAMILIES = (_socket.AF_UNIX, _socket.AF_INET, _socket.AF_INET6)
_TYPED, _OF_CONSOLES = 0x5412, 0x541C


def limit_system_calls() -> None:
    """Keep this process and all that it starts from the calls of the list; raises `OSError`.

    New privileges must have been given up. Its session's keyring is a new one, so that the kernel
    uses no key of the evaluator's for it, either.
    """
    known = _MACHINES.get(os.uname().machine)
    if known is None:
        raise OSError("the system calls of this kind of machine are not known")
    _libc.syscall(_REFUSED["keyctl"][known[1]], _JOIN_SESSION, None)  # one that fails has no keys
    given, text = _program(_assemble(_limits(*known)))
    if _libc.prctl(_SET_SECCOMP, _FILTER, given, 0, 0) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"a filter of system calls: {os.strerror(number)}")
    del text


def _limits(machine: int, column: int) -> tuple[Line, ...]:
    """The filter; what has conditions is after what has none."""
    lines: list[Line] = [
        (_WORD, _MACHINE),
        (_IS, machine, "known", ""),
        (_RETURN, _REFUSE | _NO_SUCH_CALL),  # a program for another kind of machine
        "known",
        (_WORD, _NUMBER),
    ]
    answers = {numbers[column]: _NOT_PERMITTED for numbers in _REFUSED.values()}
    answers[_CLONE3[column]] = _NO_SUCH_CALL  # libraries then take `clone`, whose flags are seen
    if column == 0:
        lines += [(_IS_AT_LEAST, _X32, "", "here"), (_RETURN, _REFUSE | _NO_SUCH_CALL), "here"]
    for number, answer in answers.items():
        lines += [(_IS, number, "", f"not {number}"), (_RETURN, _REFUSE | answer), f"not {number}"]
    lines += [
        (_IS, _SOCKET[column], "socket", ""),
        (_IS, _IOCTL[column], "ioctl", ""),
        (_IS, _CLONE[column], "clone", "allow"),
        "clone",
        (_WORD, _FIRST),
        (_HAS_ANY, _NEW_NAMESPACES, "refuse", "allow"),
        "ioctl",
        (_WORD, _FIRST + 8),
        (_IS, _TYPED, "refuse", ""),
        (_IS, _OF_CONSOLES, "refuse", "allow"),
        "socket",
        (_WORD, _FIRST),
        *((_IS, family, "allow", "") for family in _FAMILIES),
        (_IS, _socket.AF_NETLINK, "", "no family"),
        (_WORD, _THIRD),
        (_IS, 0, "allow", "no family"),
        "no family",
        (_RETURN, _REFUSE | _NO_SUCH_FAMILY),
        "refuse",
        (_RETURN, _REFUSE | _NOT_PERMITTED),
        "allow",
        (_RETURN, _ALLOW),
    ]
    return tuple(lines)
