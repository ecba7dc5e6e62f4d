"""The tracker's server as a child process: started, asked how busy it is, and ended."""

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

START_SECONDS: Final = 60.0
"""For one that does not answer: what ends early is told at once."""
STOP_SECONDS: Final = 2.0
ANSWER_SECONDS: Final = 1.0


class TrackerProcess:
    """It ends with `stop`, with `kill`, or when this process ends in whatever way.

    Its standard input is a pipe that only we hold. What it logs goes to a file without a name.
    """

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._asked = 0
        self.port = 0

    def start(self, order: dict[str, Any]) -> None:
        """It has built its tracker and listens on `port`. `SandboxError` with its last word."""
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        try:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "statediff.systems.roundup.server"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                bufsize=0,
            )
            self.port = int(self._exchange(order, START_SECONDS)["port"])
        except (ValueError, KeyError, OSError) as error:
            with contextlib.suppress(subprocess.TimeoutExpired):  # its last word comes at its end
                if self._child is not None:
                    self._child.wait(STOP_SECONDS)
            self._log.seek(0)
            said = self._log.read(1_000_000).decode("utf-8", "replace").strip()
            self.kill()
            last = printable(said.rpartition("\n")[2][:300]) or str(error)
            raise SandboxError(f"the tracker did not start: {last}") from error
        except BaseException:
            self.kill()  # Ctrl-C while waiting must not leave it behind
            raise

    @property
    def pid(self) -> int:
        """Of the running server; 0 if there is none."""
        return 0 if self._child is None else self._child.pid

    def in_progress(self) -> int | None:
        """How many requests it is working on; None if it does not say so within a second."""
        answer = self._ask({})
        return None if answer is None else int(answer["in_progress"])

    def stored(self, password: str) -> str:
        """How the tracker stores a password. `SandboxError` if it does not say so."""
        answer = self._ask({"password": password})
        if answer is None:
            raise SandboxError("the tracker's server does not answer: reset the sandbox again")
        return str(answer["stored"])

    def _ask(self, question: dict[str, Any]) -> dict[str, Any] | None:
        if self._child is None or self._child.poll() is not None:
            return None
        self._asked += 1
        try:
            answer = self._exchange({**question, "ask": self._asked}, ANSWER_SECONDS)
            while answer["ask"] != self._asked:  # the late answer to an earlier question
                answer = self._answer(ANSWER_SECONDS)
        except (ValueError, KeyError, OSError):
            return None
        return answer

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

    def _exchange(self, question: dict[str, Any], seconds: float) -> dict[str, Any]:
        child = self._child
        if child is None or child.stdin is None:
            raise ValueError("not running")
        # Written piece by piece: a pipe holds less than a seed.
        left = memoryview(json.dumps(question).encode() + b"\n")
        while left:
            left = left[child.stdin.write(left) or 0 :]
        return self._answer(seconds)

    def _answer(self, seconds: float) -> dict[str, Any]:
        if self._child is None or self._child.stdout is None:
            raise ValueError("not running")
        stream = self._child.stdout
        line, deadline = b"", time.monotonic() + seconds
        while not line.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([stream], [], [], left)[0]:
                raise ValueError(f"no answer in {seconds:g} s")
            part = os.read(stream.fileno(), 1)
            if not part:
                raise ValueError("it ended")
            line += part
        found: dict[str, Any] = json.loads(line)
        return found
