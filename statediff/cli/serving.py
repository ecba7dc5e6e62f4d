"""A page served to one browser until Ctrl-C."""

from __future__ import annotations

import webbrowser
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from statediff.cli.options import PageOptions
from statediff.cli.output import emit, progress, results
from statediff.errors import UsageError

if TYPE_CHECKING:
    from statediff.reports.loopback import LoopbackServer

PORTS: Final = 2**16


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
    try:
        server = start(page.port)
    except OSError as error:
        raise UsageError(f"--port {page.port}: cannot be used: {error.strerror}") from error
    try:
        if as_json:
            emit({"schema": schema, "link": server.link, **facts})
        else:
            results().print(server.link, soft_wrap=True)
            progress().print(f"this link works once; Ctrl-C ends {what}", soft_wrap=True)
        if page.start:
            webbrowser.open(server.link)  # where there is none, the link was shown
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
