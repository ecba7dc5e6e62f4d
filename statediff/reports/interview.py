"""The questions of a draft on a page behind the loopback address, one after the other.

Who may see it is said in `loopback`. An answer comes as a form of this page; what it changes is
worked out before the next question is shown. Who asks keeps the answers.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from statediff.reports.html.page import Kind, render
from statediff.reports.loopback import Answering, LoopbackServer, Query, Refused

KIND: Final = Kind(("report.css", "ask.css"), forms="'self'")
WAIT: Final = 600.0
"""Seconds that a browser waits for the next question; then it may ask again."""
_ANSWERS: Final = {"yes": True, "no": False}


@dataclass(frozen=True)
class Asked:
    """One question as the page shows it."""

    number: int
    count: int
    asks: str
    values: Sequence[str]
    drafted: str
    passes: Sequence[str]


@dataclass(frozen=True)
class View:
    """What the page says: a question, or how the interview ended."""

    name: str
    asked: Asked | None
    given: Sequence[tuple[str, bool]] = ()
    """The questions so far, each with whether the answer was yes."""
    trouble: str = ""


class InterviewServer(LoopbackServer):
    """The server of one interview."""

    def __init__(self, name: str, port: int = 0) -> None:
        """`OSError` if the port is taken; 0 takes any that is free."""
        self._name = name
        self._turn = threading.Condition()
        self._asked: Asked | None = None
        self._is_over = False
        self._given: list[tuple[str, bool]] = []
        self._last_shown = threading.Event()
        super().__init__(_Answer, port)

    def ask(self, asked: Asked) -> bool:
        """Whether the person at the page says yes; waits for it."""
        with self._turn:
            given = len(self._given)
            self._asked = asked
            self._turn.notify_all()
            while len(self._given) == given:
                self._turn.wait(0.2)  # so that Ctrl-C is heard
            return self._given[-1][1]

    def finish(self, seconds: float) -> None:
        """The last page is there; waits until it was shown, but only so long."""
        with self._turn:
            self._is_over = True
            self._turn.notify_all()
        if self._given:
            self._last_shown.wait(seconds)

    def shown(self) -> View:
        """What there is to see, as soon as there is something."""
        with self._turn:
            is_there = self._turn.wait_for(lambda: self._asked or self._is_over, WAIT)
            if not is_there:
                raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "nothing to ask yet; load it again")
            view = View(self._name, self._asked, tuple(self._given))
            if self._asked is None:
                self._last_shown.set()
            return view

    def answer(self, number: str, said: str) -> None:
        """The answer to the question; one to another question than is asked changes nothing."""
        if said not in _ANSWERS:
            raise Refused(HTTPStatus.BAD_REQUEST, "expected yes or no")
        with self._turn:
            if self._asked is not None and number == str(self._asked.number):
                self._given.append((self._asked.asks, _ANSWERS[said]))
                self._asked = None
                self._turn.notify_all()


class _Answer(Answering):
    server: InterviewServer
    kind = KIND

    def trouble(self, title: str, why: str, root: str) -> str:
        return render("ask.html", View(title, None, trouble=why), KIND)

    def do_POST(self) -> None:  # noqa: N802 - the library's name for it
        self.answer(self._post)

    def get(self, path: str, query: Query) -> None:
        if path or query:
            raise Refused(HTTPStatus.NOT_FOUND, "there is one page")
        self.send(HTTPStatus.OK, render("ask.html", self.server.shown(), KIND))

    def _post(self, path: list[str], _query: Query) -> None:
        self.inside(path)
        sent = self.form(2)
        self.server.answer(sent.get("number", [""])[0], sent.get("answer", [""])[0])
        self.redirect(f"{self.server.root}/")
