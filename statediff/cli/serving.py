"""A page served to one browser, until Ctrl-C or until it has asked everything."""

from __future__ import annotations

import threading
import webbrowser
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from statediff.cli.options import PageOptions
from statediff.cli.output import emit, note, say
from statediff.errors import UsageError

if TYPE_CHECKING:
    from statediff.reports.loopback import LoopbackServer
    from statediff.workspace.interview import Ask

_S = TypeVar("_S", bound="LoopbackServer")

PORTS: Final = 2**16
LINGER: Final = 10.0
"""Seconds in which the last page is shown."""


def require_port(port: int) -> None:
    """The number can be a port's; else `UsageError`."""
    if not 0 <= port < PORTS:
        raise UsageError(f"--port {port}: expected a number up to {PORTS - 1}")


def serve(
    start: Callable[[int], LoopbackServer],
    page: PageOptions,
    what: str,
    schema: str,
    facts: Mapping[str, object],
    *,
    as_json: bool,
) -> None:
    """Shows the page's link and serves the page until Ctrl-C."""
    server = _started(start, page)
    try:
        if as_json:
            emit({"schema": schema, "link": server.link, **facts})
        else:
            say(server.link)
            note(f"this link works once; Ctrl-C ends {what}")
        if page.start:
            webbrowser.open(server.link)  # where there is none, the link was shown
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()


def _started(start: Callable[[int], _S], page: PageOptions) -> _S:
    try:
        return start(page.port)
    except OSError as error:
        raise UsageError(f"--port {page.port}: cannot be used: {error.strerror}") from error


@contextmanager
def ask_on_page(page: PageOptions, name: str) -> Iterator[Ask]:
    """A function that asks a question on the page; the page ends with the block, or with Ctrl-C."""
    from statediff.reports.interview import InterviewServer

    require_port(page.port)
    server = _started(partial(InterviewServer, name), page)
    serving = threading.Thread(target=server.serve_forever, args=(0.2,), daemon=True)
    serving.start()

    try:
        note(server.link)
        note("this link works once; Ctrl-C ends it, and writes nothing")
        if page.start:
            webbrowser.open(server.link)  # where there is none, the link was shown
        yield server.ask
        server.finish(LINGER)
    finally:
        server.shutdown()
        server.server_close()
