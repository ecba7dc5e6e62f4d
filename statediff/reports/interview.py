"""The questions of a draft on a page behind the loopback address, one after the other.

Who may see it is said in `loopback`. An answer comes as a form of this page; what it changes is
worked out before the next question is shown. Who asks keeps the answers.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final

from statediff.meta.reference import Reference
from statediff.reports.html.page import Kind, render
from statediff.reports.loopback import Answering, LoopbackServer, Query, Refused

KIND: Final = Kind(("report.css", "ask.css"), forms="'self'")
WAIT: Final = 600.0
"""Seconds that a browser waits for the next question; then it may ask again."""


@dataclass(frozen=True)
class Question:
    """One question: what was seen, what the draft does, and what *yes* would let pass."""

    id: str
    asks: str
    values: tuple[str, ...]
    """What each right run wrote there; empty where none did anything of the kind."""
    drafted: str
    """What holds where the owner says no."""
    passes: tuple[str, ...]
    weight: tuple[int, int]
    """How harmful a wrong *yes* is: by the kind of change, then by how much it lets pass."""
    closing: str = ""
    """The clauses that *no* adds."""
    runs: tuple[Reference, ...] = ()
    """Runs that *yes* would let pass."""


@dataclass(frozen=True)
class View:
    """The page's view: a question, or how the interview ended."""

    name: str
    asked: Question | None
    number: int = 0
    count: int = 0
    given: Sequence[tuple[str, bool]] = ()
    """The questions so far, each with whether the answer was yes."""
    trouble: str = ""


class InterviewServer(LoopbackServer):
    """The server of one interview."""

    def __init__(self, name: str, port: int = 0) -> None:
        """`OSError` if the port is taken; 0 takes any that is free."""
        self._turn = threading.Condition()
        self._view = View(name, None)
        self._is_over = False
        self._last_shown = threading.Event()
        super().__init__(_Answer, port)

    def ask(self, number: int, count: int, question: Question) -> bool:
        """True if the person at the page says yes; waits for it."""
        with self._turn:
            self._view = View(self._view.name, question, number, count, self._view.given)
            self._turn.notify_all()
            while self._view.asked is question:
                self._turn.wait(0.2)  # so that Ctrl-C is heard
            return self._view.given[-1][1]

    def finish(self, seconds: float) -> None:
        """The last page is there; waits until it was shown, but only so long."""
        with self._turn:
            self._is_over = True
            self._turn.notify_all()
        if self._view.given:
            self._last_shown.wait(seconds)

    def shown(self) -> View:
        """The view of the page, as soon as there is one."""
        with self._turn:
            if not self._turn.wait_for(lambda: self._view.asked or self._is_over, WAIT):
                raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "nothing to ask yet; load it again")
            if self._view.asked is None:
                self._last_shown.set()
            return self._view

    def answer(self, number: str, said: str) -> None:
        """The answer to the question; one to another question than is asked changes nothing."""
        if said not in ("yes", "no"):
            raise Refused(HTTPStatus.BAD_REQUEST, "expected yes or no")
        with self._turn:
            view = self._view
            if view.asked is not None and number == str(view.number):
                given = (*view.given, (view.asked.asks, said == "yes"))
                self._view = replace(view, asked=None, given=given)
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
