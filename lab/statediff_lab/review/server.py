"""A desk behind the loopback address, for the one browser that was given its link.

Who may see it, and whose forms it takes, is said in `statediff.reports.loopback`.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from statediff.errors import UsageError
from statediff.reports.loopback import (
    Answering,
    LoopbackServer,
    Query,
    Refused,
    whole,
)
from statediff_lab.labels import Failure
from statediff_lab.review.desk import Desk
from statediff_lab.review.pages import (
    FIELDS,
    KIND,
    case_page,
    desk_page,
    given_from,
    trouble_page,
)

MAX_FIELDS: Final = len(FIELDS) + len(Failure)


class DeskServer(LoopbackServer):
    """The server of one desk."""

    def __init__(self, desk: Desk, port: int = 0) -> None:
        """`OSError` if the port is taken; 0 takes any that is free."""
        self.desk = desk
        super().__init__(_Answer, port)


class _Answer(Answering):
    server: DeskServer
    kind = KIND
    cannot = "This trial cannot be shown"

    def trouble(self, title: str, why: str, root: str) -> str:
        return trouble_page(title, why, root)

    def do_POST(self) -> None:  # noqa: N802 - the library's name for it
        self.answer(self._post)

    def get(self, path: str, query: Query) -> None:
        number = self._number(path)
        page = whole(query.get("page", ["0"])[0])
        if number is None:
            self.send(HTTPStatus.OK, desk_page(self.server.desk, self.server.root, page))
            return
        words = query.get("q", [""])[0]
        text = case_page(self.server.desk, number, self.server.root, page, words)
        self.send(HTTPStatus.OK, text)

    def _post(self, path: list[str], _query: Query) -> None:
        number = self._number(self.inside(path))
        if number is None:
            raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, "a label belongs to a trial")
        sent = self.form(MAX_FIELDS)
        desk, root = self.server.desk, self.server.root
        try:
            desk.sign(number, given_from(sent))
        except UsageError as error:
            page = case_page(desk, number, root, problem=str(error), draft=sent)
            self.send(HTTPStatus.UNPROCESSABLE_ENTITY, page)
            return
        is_again = desk.next(number) is None
        self.redirect(f"{root}/" if is_again else f"{root}/{(desk.next(number) or 0) + 1}")

    def _number(self, path: str) -> int | None:
        """The trial that a path names; None for the list."""
        if not path:
            return None
        number = whole(path) - 1
        if not 0 <= number < len(self.server.desk.cases):
            raise Refused(HTTPStatus.NOT_FOUND, "there is no such trial on this desk")
        return number
