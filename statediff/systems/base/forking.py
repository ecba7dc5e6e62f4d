"""A server program that is loaded once and forked for each trial; it runs in a process of its own.

    def load(order): ...          # imports, the base in memory; in the parent, once
        def serve(order, control): ...    # in a child: listens, says so, serves until it is killed
        return serve

    if __name__ == "__main__":
        run(load)

What the evaluator's side asks, by `statediff.systems.base.served.ForkedServer`, is a line of JSON:

`{"ask": n, "serve": order}`    the last trial's child is killed, another is forked; its answer is
                                what the child says when it is ready
`{"ask": n, "halt": true}`      the last trial's child is killed, and none serves
`{"ask": n, "question": {…}}`   the child's own answer; `seconds` says how long that may take

An answer `{"ask": n, "failed": why}` says that there is no such child or that it gives none. A
child shares nothing with the one before it but what `load` left in memory and what is on disk. It
dies with its parent, and the parent with the end of standard input.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from typing import IO, Any, Final

_DEATH_SIGNAL: Final = 1
"""`PR_SET_PDEATHSIG`: Linux's."""
_ANSWER_SECONDS: Final = 0.9
"""Less than the evaluator's side waits, so that its next answer is not the late one."""

Order = dict[str, Any]


class Control:
    """A child's way to say that it is ready, and to answer."""

    def __init__(self, line: socket.socket) -> None:
        self._stream = line.makefile("rwb")

    def ready(self, said: Mapping[str, Any], answer: Callable[[Order], Mapping[str, Any]]) -> None:
        """It serves: `said` goes to the evaluator's side, questions go to `answer` from now on.

        `answer` runs in a thread of its own. It gets the question and returns what JSON can say,
        with `in_progress`, the number of requests that are in progress.
        """
        self._say(said)
        threading.Thread(target=self._answer_all, args=(answer,), daemon=True).start()

    def _answer_all(self, answer: Callable[[Order], Mapping[str, Any]]) -> None:
        while line := self._stream.readline():
            self._say(answer(json.loads(line)))

    def _say(self, what: Mapping[str, Any]) -> None:
        self._stream.write(json.dumps(dict(what)).encode() + b"\n")
        self._stream.flush()


Serve = Callable[[Order, Control], None]
Load = Callable[[Order], Serve]


class _Child:
    """One forked server, from the parent's side."""

    def __init__(self, serve: Serve, order: Order, inherited: tuple[IO[bytes], ...]) -> None:
        ours, theirs = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            ours.close()
            _be_child(serve, order, theirs, inherited)
        theirs.close()
        self._line = ours
        self._stream = ours.makefile("rwb")
        self._said: dict[str, Any] | None = None

    def said(self, seconds: float) -> dict[str, Any]:
        """The words of the child when it was ready. `ValueError` if it does not say so in time."""
        if self._said is None:
            self._said = self._answer(seconds)
        return self._said

    def ask(self, question: Order, seconds: float) -> dict[str, Any]:
        """Its answer. `ValueError` or `OSError` if it gives none in so many seconds."""
        self._stream.write(json.dumps(question).encode() + b"\n")
        self._stream.flush()
        return self._answer(seconds)

    def end(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self._stream.close()
        self._line.close()

    def _answer(self, seconds: float) -> dict[str, Any]:
        self._line.settimeout(max(0.001, seconds))
        started = time.monotonic()
        line = self._stream.readline()
        if not line.endswith(b"\n"):
            raise ValueError(f"it ended after {time.monotonic() - started:.1f} s")
        found: dict[str, Any] = json.loads(line)
        return found


def _be_child(
    serve: Serve, order: Order, line: socket.socket, inherited: tuple[IO[bytes], ...]
) -> None:
    """Never returns: whatever happens in a child must not go on as its parent."""
    code = 1
    try:
        parent = os.getppid()
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        for stream in inherited:
            os.close(stream.fileno())
        if os.getppid() == parent:  # else it died before the kernel was asked
            serve(order, Control(line))
            code = 0
    except BaseException:  # noqa: BLE001 - said in the log; the child ends here
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


class _Parent:
    """The loaded program, and its child that serves."""

    def __init__(self, serve: Serve, inherited: tuple[IO[bytes], ...]) -> None:
        self._serve = serve
        self._inherited = inherited
        self._serving: _Child | None = None

    def answer(self, asked: Order) -> dict[str, Any]:
        """Never raises over what a child does or leaves undone."""
        seconds = float(asked.get("seconds", _ANSWER_SECONDS))
        try:
            if "serve" in asked:
                self.end()
                self._serving = _Child(self._serve, asked["serve"], self._inherited)
                return self._serving.said(seconds)
            if "halt" in asked:
                self.end()
                return {}
            if self._serving is None:
                return {"failed": "nothing serves"}
            return self._serving.ask(asked["question"], seconds)
        except (ValueError, OSError) as error:
            # What answers late would be taken for the answer to the next question.
            self.end()
            return {"failed": str(error) or type(error).__name__}

    def end(self) -> None:
        """Nothing serves."""
        child, self._serving = self._serving, None
        if child is not None:
            child.end()


def run(load: Load) -> None:
    """The process: it loads, says `{}`, and answers until standard input ends."""
    stdin = os.fdopen(os.dup(0), "rb", buffering=0)
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - a device
        os.dup2(nothing.fileno(), 0)
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what anything in here prints is no reply
    # Ctrl-C is the evaluator's, who ends us by the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = _Parent(load(json.loads(read_line(stdin))), (stdin, replies))
    try:
        say(replies, {})
        while line := read_line(stdin):
            asked = json.loads(line)
            say(replies, {**parent.answer(asked), "ask": asked["ask"]})
    finally:
        parent.end()


def read_line(stream: IO[bytes]) -> bytes:
    """A whole line of an unbuffered stream; empty at its end."""
    line = b""
    while not line.endswith(b"\n"):
        part = stream.readline()
        if not part:
            return b""
        line += part
    return line


def say(replies: IO[bytes], what: Mapping[str, Any]) -> None:
    """One line of JSON."""
    left = memoryview(json.dumps(dict(what)).encode() + b"\n")
    while left:
        left = left[replies.write(left) or 0 :]
