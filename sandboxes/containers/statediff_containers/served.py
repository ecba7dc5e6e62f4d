"""A web server in a container that serves folders of this machine, which it alone is given.

What must outlast a trial lies in the shared folders, where the evaluator puts it back and proves
it; the container's own files are read-only but for a `/tmp` in memory. So a server need not be
started anew for each trial; it is where it died, hangs or no longer sees the folders as they are.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Final

from statediff.errors import SandboxError
from statediff.systems.base.folders import SERVICE_USER
from statediff_containers.engine import Container, Shared, Spec, connect

SOCKET: Final = "http.sock"
LOG: Final = "errors.log"
"""Where lighttpd notes, beside its socket, what became of the programs that it began."""
_KILLED: Final = re.compile(
    rb"^[-\d]+ [:\d]+: \(mod_cgi[.\w]+\) CGI pid \d+ died with signal 9$", re.MULTILINE
)
_STOPPED: Final = re.compile(
    rb"^[-\d]+ [:\d]+: \(server[.\w]+\) server stopped by UID = \d+ PID = \d+$", re.MULTILINE
)
"""Asked to end while anybody is connected, lighttpd ends with 1, as it does where it fails."""
_LOG_BYTES: Final = 1024 * 1024
_CALL: Final = b"X\r\n\r\n"
"""No request: a web server says so, and goes to no trouble for it."""
_ANSWER_SECONDS: Final = 10.0
_NO_HEADERS: Final[Mapping[str, str]] = {}
_ANSWER_BYTES: Final = 64 * 1024
_POLL_SECONDS: Final = 0.01


class FolderServer:
    """At most one container of `image`, whose web server answers on loopback while it runs."""

    def __init__(
        self,
        image: str,
        name: str,
        program: str,
        memory_bytes: int,
        ready: tuple[str, Mapping[str, str]] = ("/", {}),
    ) -> None:
        self._image = image
        self._name = name
        self._program = program
        self._memory_bytes = memory_bytes
        self._ready = ready
        self._container: Container | None = None
        self._inodes: dict[Path, int] = {}

    @property
    def is_started(self) -> bool:
        return self._container is not None

    @property
    def user(self) -> int:
        """Who the server is: the evaluator's user, or one of its own where that is root."""
        return os.geteuid() or SERVICE_USER

    @property
    def port(self) -> int:
        """Its port on 127.0.0.1; 0 where it was never started."""
        return 0 if self._container is None else self._container.forward(SOCKET)

    def start(self, shared: tuple[Shared, ...], environment: Mapping[str, str]) -> None:
        """It runs and answers. Raises `SandboxError`."""
        self.stop()
        spec = Spec(
            self._image,
            self._name,
            environment=environment,
            user=f"{self.user}:{self.user}",
            shared=shared,
            memory_bytes=self._memory_bytes,
        )
        self._inodes = {each.folder: each.folder.stat().st_ino for each in shared}
        self._container = connect().run(spec)
        try:
            self._container.await_ready(self._answers)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """No container of it is left."""
        if self._container is not None:
            self._container.remove()
            self._container = None

    def sees(self, *folders: Path) -> bool:
        """True if it runs whole, and what it was given at its start is what stands there now."""
        if self._container is None or not self._container.processes():
            return False
        if self._container.is_starved() or self._has_noted(_KILLED):
            return False
        try:
            return all(folder.stat().st_ino == self._inodes.get(folder) for folder in folders)
        except OSError:
            return False

    def failure(self) -> str | None:
        """How others ended it, or a process of it; None where it served, or ended itself."""
        if self._container is None or self._container.is_starved():
            return None
        was_asked = partial(self._has_noted, _STOPPED)
        if (cause := self._container.ended_by_others(SOCKET, _CALL, was_asked)) is not None:
            return cause
        return "a process of its server was killed" if self._has_noted(_KILLED) else None

    @property
    def has_ended(self) -> bool:
        """It was started, nobody here stopped it, and nothing of it runs any more."""
        return self._container is not None and self._container.has_ended()

    def give(self, folder: Path) -> None:
        """All below `folder` is the server's own. Raises `SandboxError`."""
        try:
            for parent, folders, files in os.walk(folder):
                for name in (*folders, *files):
                    os.chown(Path(parent, name), self.user, self.user, follow_symlinks=False)
        except OSError as error:
            raise SandboxError(
                f"{self._name}: {folder} cannot be given to user {self.user}: {error}"
            ) from error

    def at_work(self, deadline: float) -> str | None:
        """Waits until nothing but the server runs in it; what does, if `deadline` passes."""
        while True:
            running = None if self._container is None else self._container.processes()
            if running is None:
                return "it is not running"
            others = sorted(set(running) - {self._program})
            if not others and running.count(self._program) == 1:
                return None
            if time.monotonic() >= deadline:
                return f"it is working: {', '.join(others) or 'more than one server'}"
            time.sleep(_POLL_SECONDS)

    def ask(
        self, name: str, path: str, headers: Mapping[str, str] = _NO_HEADERS
    ) -> tuple[int, bytes] | None:
        """Status and beginning of what its socket `name` answers; None where it does not."""
        if self._container is None:
            return None
        with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as connection:
            connection.settimeout(_ANSWER_SECONDS)
            try:
                connection.connect(str(self._container.socket(name)))
                lines = [f"GET {path} HTTP/1.0", "Host: localhost"]
                lines += [f"{key}: {value}" for key, value in headers.items()]
                connection.sendall("\r\n".join([*lines, "", ""]).encode())
                with closing(HTTPResponse(connection)) as response:
                    response.begin()
                    return response.status, response.read(_ANSWER_BYTES)
            except (OSError, HTTPException):
                return None

    def _has_noted(self, event: re.Pattern[bytes]) -> bool:
        """True if its server has written that down, e.g. that a handler of it was killed."""
        if self._container is None:
            return False
        try:
            noted = os.open(
                self._container.socket(LOG), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
            )
        except OSError:
            return False  # this server notes nothing
        with os.fdopen(noted, "rb") as file:
            return event.search(file.read(_LOG_BYTES)) is not None

    def _answers(self) -> bool:
        answer = self.ask(SOCKET, *self._ready)
        return answer is not None and answer[0] < 500
