"""The box that a sandbox's server runs in: a container, or a process of this machine.

A server listens on a Unix socket in a folder that it shares with this machine (`Box.socket`); for
agents `Box.forward` opens a port on loopback that leads there. A `Machine` makes such boxes.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Final, Protocol

from statediff.errors import SandboxError
from statediff.systems.base.waiting import STALL_SECONDS, Patience
from statediff_containers.forward import Connection, Forward, connected

END_SECONDS: Final = 30.0
"""How long a server that is asked to end may take."""
_POLL_SECONDS: Final = 0.02
_LOOK_SECONDS: Final = 0.5


class Box(ABC):
    """A server that runs until `remove`, in a folder of sockets that this machine sees."""

    pid: int
    """The number by which the server calls itself in what it notes."""

    def __init__(self, name: str, sockets: Path) -> None:
        self.name = name
        """How messages call it, e.g. the source's name."""
        self._sockets = sockets
        self._forwards: dict[str, Forward] = {}

    def socket(self, name: str) -> Path:
        """The path, on this machine, of the socket that the server made under that name."""
        return self._sockets / name

    def connect(self, name: str) -> Connection:
        """A connection to that socket; a link in its place is not followed. Raises `OSError`."""
        return connected(self.socket(name))

    def forward(self, name: str) -> int:
        """A port on 127.0.0.1 that leads to that socket until this is removed."""
        if name not in self._forwards:
            self._forwards[name] = Forward(self.socket(name))
        return self._forwards[name].port

    def cut(self) -> None:
        """Every connection through a forwarded port is cut; the ports stay."""
        for forward in self._forwards.values():
            forward.cut()

    def await_ready(
        self, is_ready: Callable[[], bool], stall_seconds: float = STALL_SECONDS
    ) -> None:
        """`is_ready()` was true. Raises `SandboxError` if the server ends first, or hangs."""
        patience = Patience(self.pids, self.log, stall_seconds)
        looked = time.monotonic()
        while not is_ready():
            now = time.monotonic()
            if now - looked > _LOOK_SECONDS:
                looked = now
                if self.has_ended():
                    raise SandboxError(f"{self.name}: its server ended: {self.log()}")
                if (why := patience.is_over()) is not None:
                    said = f"{why}: {self.log()}"
                    raise SandboxError(f"{self.name}: its server did not start; {said}")
            time.sleep(_POLL_SECONDS)

    def _close_ports(self) -> None:
        for forward in self._forwards.values():
            forward.close()
        self._forwards.clear()

    @abstractmethod
    def has_ended(self) -> bool:
        """True if it is certain that what was started in it runs no more."""

    @abstractmethod
    def pids(self) -> list[int]:
        """The processes from which all others in it come, as this machine numbers them."""

    @abstractmethod
    def ended_by_others(self, door: str = "") -> str | None:
        """How it ended, where it did and nothing says so of itself; None else.

        `door`: a socket whose server greets anyone who connects, once it knows who of its own died.
        """

    @abstractmethod
    def is_starved(self) -> bool:
        """True if something in it is known to have been killed because its memory was used up."""

    @abstractmethod
    def log(self, lines: int = 0) -> str:
        """The last lines of what its server printed; by default a few, cut to be shown."""

    @abstractmethod
    def remove(self) -> None:
        """Nothing of it is left: no process, no file, no port; may be called again."""

    @abstractmethod
    def ended(self, seconds: float = END_SECONDS) -> Hashable | None:
        """End its server and return its data, for `Machine.run` to begin over once this is removed.

        None where the server did not end well when it was asked to. Raises `SandboxError`.
        """


class Machine(Protocol):
    """A machine that runs servers of one kind."""

    @property
    def key(self) -> tuple[Hashable, ...]:
        """The key that decides what a server is, beside what it is filled with."""

    @property
    def title(self) -> str:
        """The kind of its servers and of what they run in, in words."""

    @property
    def secrets(self) -> dict[str, str]:
        """Account → password, of those that a new server already has."""

    def run(self, name: str, over: Hashable | None = None) -> Box:
        """A server runs, over what an earlier one wrote or over nothing; it may not answer yet.

        Raises `SandboxError`.
        """
