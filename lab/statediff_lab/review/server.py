"""A desk behind the loopback address, for the one browser that was given its link.

Who may see it is said in `statediff.reports.loopback`. What changes something comes as a form of
this origin (`Origin`, `Sec-Fetch-Site`), bounded in size and time.
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
    parse_query,
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

MAX_BODY: Final = 64 * 1024
"""Bytes of a form."""
MAX_FIELDS: Final = len(FIELDS) + len(Failure)
_FORM: Final = "application/x-www-form-urlencoded"


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
        if self.headers.get("Origin") != self.server.origin:
            raise Refused(HTTPStatus.FORBIDDEN, "the form does not come from this desk")
        sent = parse_query(self._body(), MAX_FIELDS)
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

    def _body(self) -> str:
        lengths = self.headers.get_all("Content-Length", [])
        if len(lengths) != 1 or "Transfer-Encoding" in self.headers:
            raise Refused(HTTPStatus.LENGTH_REQUIRED, "expected a form of a known length")
        if self.headers.get_content_type() != _FORM:
            raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"expected {_FORM}")
        size = whole(lengths[0])
        if not 0 <= size <= MAX_BODY:
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"expected at most {MAX_BODY} bytes")
        try:
            return self.rfile.read(size).decode("ascii")
        except UnicodeDecodeError:
            raise Refused(HTTPStatus.BAD_REQUEST, "expected a form") from None
        except TimeoutError:
            raise Refused(HTTPStatus.REQUEST_TIMEOUT, "the form did not come") from None
