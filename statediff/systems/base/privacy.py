"""Privacy of this process, and of those that it begins, from programs of the same user (Linux).

`/proc` shows them the environment that a process began with, and its memory, unless it forbids
that. Keys that the evaluator was given are there, of models, of databases and for signing. So the
processes that it begins to serve a trial get an environment without them, and it is itself
unreadable while agents run.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_GET_DUMPABLE: Final = 3
_SET_DUMPABLE: Final = 4
_ALLOWED: Final = frozenset(
    (
        *("PATH", "HOME", "TMPDIR", "LANG", "TZ", "TZDIR", "LD_LIBRARY_PATH", "XDG_RUNTIME_DIR"),
        *("DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT", "DOCKER_CERT_PATH"),
        "DOCKER_TLS_VERIFY",
    )
)
_ALLOWED_BEGINNINGS: Final = ("LC_", "PYTHON")
"""How Python runs, and in which language; where the engine of containers is."""

CREDENTIALS: Final = frozenset(
    ("PGPASSWORD", "PGPASSFILE", "PGSERVICEFILE", "PGSSLKEY", "PGSSLPASSWORD", "MYSQL_PWD")
)
"""Variables with which states are read; no agent's program gets them."""
OF_KEYS: Final = frozenset(("STATEDIFF_PASSPHRASE_FILE",))
"""Variables that say where the evaluator's and observer's secrets are."""

_lock: Final = threading.Lock()
_hiding: Final = {"blocks": 0, "before": 1}


def allowed_environment() -> dict[str, str]:
    """The part of this environment that a process of ours gets: nothing that could be a secret."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in _ALLOWED or name.startswith(_ALLOWED_BEGINNINGS)
    }


@contextmanager
def bare_environment() -> Iterator[dict[str, str]]:
    """This process's environment is what is allowed, and whole again afterwards; yields the whole.

    For processes that a library begins, which takes no environment.
    """
    whole = dict(os.environ)
    with _lock:
        for name in whole.keys() - allowed_environment().keys():
            del os.environ[name]
        try:
            yield whole
        finally:
            os.environ.update(whole)


@contextmanager
def unreadable_memory() -> Iterator[None]:
    """No other program of this user reads this process's memory or environment (Linux).

    `PR_SET_DUMPABLE` is the process's: the last of several blocks puts back what it was. Meanwhile
    the files in /proc of this process are root's, no debugger attaches, and no core is written.
    """
    if sys.platform != "linux":
        yield
        return
    prctl = ctypes.CDLL(None).prctl
    with _lock:
        if _hiding["blocks"] == 0:
            _hiding["before"] = prctl(_GET_DUMPABLE, 0, 0, 0, 0)
            prctl(_SET_DUMPABLE, 0, 0, 0, 0)
        _hiding["blocks"] += 1
    try:
        yield
    finally:
        with _lock:
            _hiding["blocks"] -= 1
            if _hiding["blocks"] == 0 and _hiding["before"] == 1:
                prctl(_SET_DUMPABLE, 1, 0, 0, 0)
