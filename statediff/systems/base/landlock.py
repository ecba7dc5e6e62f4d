"""Landlock: rules on files that bind this process and all that it starts, and nothing lifts.

Programs that are started by path load this file without the rest of statediff, so that it imports
as little as it can. The numbers of the system calls are the same on every kind of machine that has
had them from the start (Linux 5.13, `landlock(7)`).
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_NO_NEW_PRIVILEGES = 38
_SCOPED = 6
"""The first version that knows scopes."""
NO_SOCKETS_OR_SIGNALS = 0b11
"""No signal to a process outside, and none of its abstract sockets."""

_libc = ctypes.CDLL(None, use_errno=True)


def landlock_version() -> int:
    """Landlock's version here; 0 where it is not there, or off."""
    if sys.platform != "linux":
        return 0
    return max(0, int(_libc.syscall(_CREATE, None, 0, 1)))


def new_rules(rights: int) -> int:
    """A descriptor of rules: none of these rights, except as `allow_below` says; or `OSError`.

    Nor, where the version knows that, signals and abstract sockets of processes outside.
    """
    scopes = NO_SOCKETS_OR_SIGNALS if landlock_version() >= _SCOPED else 0
    attributes = struct.pack("=QQQ", rights, 0, scopes)
    size = len(attributes) if scopes else 8
    return _checked(_libc.syscall(_CREATE, attributes, size, 0), "Landlock")


def allow_below(rules: int, opened: int, rights: int) -> None:
    """These rights for what is opened, and for all below it. `OSError` if that takes none."""
    rule = struct.pack("=Qi", rights, opened)
    _checked(_libc.syscall(_ADD, rules, 1, rule, 0), "a rule of Landlock")


def bind_rules(rules: int) -> None:
    """From here on the rules bind; new privileges are given up. `OSError` if not."""
    _checked(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "new privileges")
    _checked(_libc.syscall(_RESTRICT, rules, 0), "Landlock")


def fence_signals() -> bool:
    """No signal gets from here to a process outside; whether Landlock is there and knows that."""
    if landlock_version() < _SCOPED:
        return False
    try:
        rules = new_rules(0)
        bind_rules(rules)
        os.close(rules)
    except OSError:
        return False
    return True


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result
