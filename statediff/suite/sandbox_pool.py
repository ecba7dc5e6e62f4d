"""The sandboxes of this process, kept running from one trial to the next.

Whoever leases one has it alone. One in which something failed is ended and not handed out again.
Everything is in one temporary folder; a reaper removes it and ends the agents in it should this
process be killed (see `statediff.systems.base.reaper`).
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import util
from pathlib import Path
from typing import Final

from statediff.errors import AdapterError, SandboxError, StorageError
from statediff.packs import sandbox_pack
from statediff.systems.base.folders import clear
from statediff.systems.base.reaper import Reaper
from statediff.systems.base.sandbox import EmbeddedSandbox

IDLE_SECONDS: Final = 30.0
_Key = tuple[str, str]
"""A sandbox's name and variant."""


class Standing:
    """Sandboxes by name and variant, started when they are first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: dict[_Key, list[EmbeddedSandbox]] = {}
        self._root: Path | None = None
        self._reaper: Reaper | None = None
        self._made = 0
        self._leased = 0
        self._idle_since = time.monotonic()

    @contextmanager
    def lease(self, name: str, variant: str) -> Iterator[EmbeddedSandbox]:
        """A running sandbox that nobody else has, as its last user left it."""
        with self._lock:
            self._leased += 1
            free = self._free.get((name, variant))
            sandbox = free.pop() if free else None
        is_sound = False
        try:
            if sandbox is None:
                sandbox = EmbeddedSandbox(sandbox_pack(name, variant), self._place())
                sandbox.start()
            yield sandbox
            is_sound = True
        except (AdapterError, StorageError):
            is_sound = True  # nothing is wrong with the sandbox
            raise
        finally:
            # After an interrupt, for one, nobody knows what is half done in it.
            if sandbox is not None and not is_sound:
                _end(sandbox)
            with self._lock:
                if sandbox is not None and is_sound:
                    self._free.setdefault((name, variant), []).append(sandbox)
                self._leased -= 1
                self._idle_since = time.monotonic()

    def close(self, idle_seconds: float = 0.0) -> bool:
        """No sandbox is running, unless one is leased or was within so many seconds."""
        with self._lock:
            if self._leased or time.monotonic() - self._idle_since < idle_seconds:
                return False
            ended = [sandbox for free in self._free.values() for sandbox in free]
            self._free.clear()
            root, self._root = self._root, None
            reaper, self._reaper = self._reaper, None
        for sandbox in ended:
            _end(sandbox)
        if root is not None:
            clear(str(root))
        if reaper is not None:
            reaper.release()
        return True

    def _place(self) -> Path:
        """A folder for one more sandbox; the reaper knows of it."""
        with self._lock:
            if self._root is None:
                self._root = Path(tempfile.mkdtemp(prefix="statediff-"))
                self._reaper = Reaper(clear, str(self._root))
            self._made += 1
            return self._root / str(self._made)


def _end(sandbox: EmbeddedSandbox) -> None:
    with contextlib.suppress(SandboxError):  # it failed already; `clear` has the rest
        sandbox.stop()


STANDING = Standing()
"""Those of this process."""
# At the end of a worker's process too, where `atexit` is not asked.
util.Finalize(None, STANDING.close, exitpriority=100)


def close_when_idle() -> None:
    """From now on sandboxes that nobody has used for a while are ended, by a thread.

    For the processes of a cluster: whoever wanted the sandboxes may be gone, unseen.
    """

    def watch() -> None:
        while True:
            time.sleep(IDLE_SECONDS / 4)
            STANDING.close(IDLE_SECONDS)

    with _WATCHING:
        if not any(each.name == _WATCH for each in threading.enumerate()):
            threading.Thread(target=watch, name=_WATCH, daemon=True).start()


_WATCH = "statediff-idle-sandboxes"
_WATCHING = threading.Lock()
