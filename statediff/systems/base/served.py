"""Servers as child processes: started, asked, and ended; a line of JSON each way.

The child is `python -m MODULE`. Its standard input is a pipe that only we hold, so that it ends
when this process ends in whatever way; passwords go through it and are in no argument and no
variable, where an agent could read them. What it logs goes to a file without a name.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from typing import IO, Any, Final

from statediff.errors import SandboxError
from statediff.model.values import printable
from statediff.systems.base.privacy import allowed_environment
from statediff.systems.base.waiting import LOOK_SECONDS, MOST_SECONDS, STALL_SECONDS, Patience

STOP_SECONDS: Final = 2.0
ANSWER_SECONDS: Final = 1.0
_OWN_SHARE: Final = 0.9
"""The server's share of the time that a question may take. Its parent says in time that it gave
none.
"""
_POLL_SECONDS: Final = 0.01
_READ_BYTES: Final = 64 * 1024


class _NoAnswer(ValueError):
    """The server runs, and nobody waits for it any longer."""


def _is_over(wait: float | Patience, began: float) -> str | None:
    """The reason why nobody waits for an answer any longer; None while somebody does."""
    if isinstance(wait, Patience):
        return wait.is_over()
    return f"no answer in {wait:g} s" if time.monotonic() - began >= wait else None


class ServerProcess:
    """It ends with `stop`, with `kill`, or when this process ends in whatever way."""

    def __init__(self, module: str, title: str) -> None:
        self._module = module
        self._title = title
        """As a message names it, e.g. `the tracker`."""
        self._child: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._asked = 0
        self._read = b""
        """The bytes that it has said beyond the last whole line."""

    @property
    def pid(self) -> int:
        """The number of the running process; 0 if there is none."""
        return 0 if self._child is None else self._child.pid

    @property
    def is_running(self) -> bool:
        """It was started and has not ended, in whatever way."""
        return self._child is not None and self._child.poll() is None

    def start(self, order: dict[str, Any], stall_seconds: float = STALL_SECONDS) -> dict[str, Any]:
        """Start it; returns its first answer. `SandboxError` with its last word if none comes."""
        self._read = b""
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        try:
            self._child = subprocess.Popen(
                [sys.executable, "-m", self._module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=allowed_environment(),
                bufsize=0,
            )
            return self._exchange(order, self._patience(stall_seconds))
        except (ValueError, KeyError, OSError) as error:
            raise SandboxError(f"{self._title} did not start: {self._last_word(error)}") from error
        except BaseException:
            self.kill()  # Ctrl-C while waiting must not leave it behind
            raise

    def ask(
        self, question: dict[str, Any], seconds: float = ANSWER_SECONDS
    ) -> dict[str, Any] | None:
        """Its answer; None if it gives none in so many seconds."""
        if self._child is None or self._child.poll() is not None:
            return None
        try:
            return self._ask(question, seconds)
        except (ValueError, KeyError, OSError):
            return None

    def _ask(self, question: dict[str, Any], wait: float | Patience) -> dict[str, Any]:
        """Ask for its answer. `ValueError`, `KeyError` or `OSError` where it gives none."""
        self._asked += 1
        began = time.monotonic()
        answer = self._exchange({**question, "ask": self._asked}, wait)
        while answer["ask"] != self._asked:  # the late answer to an earlier question
            if not isinstance(wait, Patience):
                wait, began = began + wait - time.monotonic(), time.monotonic()
            answer = self._answer(wait)
        return answer

    def _patience(self, stall_seconds: float) -> Patience:
        """With what the server, and all that it began, do from now on."""

        def written() -> int:
            return 0 if self._log is None else os.fstat(self._log.fileno()).st_size

        return Patience(lambda: [self.pid], written, stall_seconds)

    def question(
        self, question: dict[str, Any], seconds: float = ANSWER_SECONDS
    ) -> dict[str, Any] | None:
        """The answer of the one that serves, `in_progress` at least; None if it gives none."""
        return self.ask(question, seconds)

    def in_progress(self, seconds: float = ANSWER_SECONDS) -> int | None:
        """How many requests it is working on; None if it does not say so in so many seconds."""
        answer = self.question({}, seconds)
        return None if answer is None else int(answer["in_progress"])

    def stop(self) -> None:
        """The process has ended, by itself where it could; nothing listens on its port."""
        child = self._child
        if child is not None and child.stdin is not None:
            child.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(STOP_SECONDS)
        self.kill()

    def kill(self) -> None:
        """The process has been ended at once, as in a crash."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.wait()
            for stream in (child.stdin, child.stdout):
                if stream is not None:
                    stream.close()
        log, self._log = self._log, None
        if log is not None:
            log.close()

    def _last_word(self, error: Exception) -> str:
        """The last line that it logged, or the error; it has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):  # its last word comes at its end
            if self._child is not None:
                self._child.wait(STOP_SECONDS)
        said = b""
        if self._log is not None:
            self._log.seek(0)
            said = self._log.read(1_000_000)
        self.kill()
        last = said.decode("utf-8", "replace").strip().rpartition("\n")[2]
        if isinstance(error, _NoAnswer) and last:
            return f"{error}; the last that it wrote: {printable(last[:300])}"
        return printable(last[:300]) or str(error)

    def _exchange(self, question: dict[str, Any], wait: float | Patience) -> dict[str, Any]:
        child = self._child
        if child is None or child.stdin is None:
            raise ValueError("not running")
        # Written piece by piece: a pipe holds less than a seed.
        left = memoryview(json.dumps(question).encode() + b"\n")
        while left:
            left = left[child.stdin.write(left) or 0 :]
        return self._answer(wait)

    def _answer(self, wait: float | Patience) -> dict[str, Any]:
        if self._child is None or self._child.stdout is None:
            raise ValueError("not running")
        stream = self._child.stdout
        parts, began = [self._read], time.monotonic()
        while b"\n" not in parts[-1]:
            look = LOOK_SECONDS
            if not isinstance(wait, Patience):
                look = max(0.0, min(look, began + wait - time.monotonic()))
            if not select.select([stream], [], [], look)[0]:
                if (why := _is_over(wait, began)) is not None:
                    self._read = b"".join(parts)  # the next answer comes after it
                    raise _NoAnswer(why)
                continue
            part = os.read(stream.fileno(), _READ_BYTES)
            if not part:
                raise ValueError("it ended")
            parts.append(part)
        line, _, self._read = b"".join(parts).partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found


class ForkedServer(ServerProcess):
    """A server program that is loaded once and forked for each trial; `forking.run` is its module.

    `start` loads it. `serve` ends the server of the last trial and forks another: nothing that an
    earlier trial left in its memory is there.
    """

    def __init__(self, module: str, title: str) -> None:
        super().__init__(module, title)
        self._loaded: dict[str, Any] = {}

    def start(self, order: dict[str, Any], stall_seconds: float = STALL_SECONDS) -> dict[str, Any]:
        """The program is loaded; what it says of it. Raises `SandboxError`."""
        self._loaded = order
        return super().start(order, stall_seconds)

    def unsettled(
        self,
        deadline: float,
        seconds: float = ANSWER_SECONDS,
        what: str = "requests are in progress",
    ) -> str | None:
        """Waits until it works on nothing; why it does, if `deadline` (monotonic) passes."""
        while True:
            waiting = self.in_progress(seconds)
            if waiting is None:
                return f"{self._title} does not answer"
            if not waiting:
                return None
            if time.monotonic() >= deadline:
                return f"{waiting} {what}"
            time.sleep(min(_POLL_SECONDS, max(0.0, deadline - time.monotonic())))

    def serve(self, order: dict[str, Any], stall_seconds: float = STALL_SECONDS) -> dict[str, Any]:
        """Start a server; returns what it said when ready, e.g. its `port`. Raises `SandboxError`.

        The program of one that hangs instead is ended with it, and loaded again.
        """
        try:
            question = {"serve": order, "seconds": MOST_SECONDS}
            answer = self._ask(question, self._patience(stall_seconds))
        except (ValueError, KeyError, OSError) as error:
            why = self._last_word(error)
            self.start(self._loaded)
            raise SandboxError(f"{self._title} did not start: {why}") from error
        return self._ready(answer)

    def serve_anew(self, order: dict[str, Any]) -> dict[str, Any]:
        """`serve`; a program that is gone, or hangs, is first loaded again, as by `start`."""
        try:
            return self.serve(order)
        except SandboxError:
            self.kill()
            self.start(self._loaded)
            return self.serve(order)

    def halt(self) -> None:
        """The server of the last trial has ended; nothing serves until the next `serve`."""
        self._forked({"halt": True}, STOP_SECONDS)

    def withdraw(self) -> None:
        """Nothing serves, whatever its state; `serve` forks another, of the program if it lives."""
        try:
            self.halt()
        except SandboxError:
            self.kill()

    def question(
        self, question: dict[str, Any], seconds: float = ANSWER_SECONDS
    ) -> dict[str, Any] | None:
        """The answer of this trial's server, `in_progress` at least; None if it gives none.

        One that takes more than so many seconds is ended: its late answer would be taken for
        another's.
        """
        own = seconds * _OWN_SHARE
        answer = self.ask({"question": question, "seconds": own}, seconds)
        return None if answer is None or "failed" in answer else answer

    def _forked(self, question: dict[str, Any], seconds: float) -> dict[str, Any]:
        answer = self.ask({**question, "seconds": seconds}, seconds + ANSWER_SECONDS)
        if answer is None:
            raise SandboxError(f"{self._title} does not answer: reset the sandbox again")
        return self._ready(answer)

    def _ready(self, answer: dict[str, Any]) -> dict[str, Any]:
        """The answer. `SandboxError` where it says that nothing serves."""
        if "failed" in answer:
            raise SandboxError(f"{self._title} did not start: {answer['failed']}")
        return answer
