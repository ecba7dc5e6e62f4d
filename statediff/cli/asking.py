"""The questions of a draft, asked on a page that is served to one browser."""

from __future__ import annotations

import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from statediff.cli.options import PageOptions
from statediff.cli.output import progress
from statediff.cli.serving import require_port
from statediff.errors import UsageError

if TYPE_CHECKING:
    from statediff.workspace.interview import Ask

LINGER: Final = 10.0
"""Seconds in which the last page is shown."""


@contextmanager
def ask_on_page(page: PageOptions, name: str) -> Iterator[Ask]:
    """What asks a question on the page; the page ends with the block, or with Ctrl-C."""
    from statediff.reports.interview import InterviewServer

    require_port(page.port)
    try:
        server = InterviewServer(name, page.port)
    except OSError as error:
        raise UsageError(f"--port {page.port}: cannot be used: {error.strerror}") from error
    serving = threading.Thread(target=server.serve_forever, args=(0.2,), daemon=True)
    serving.start()

    try:
        progress().print(server.link, soft_wrap=True)
        progress().print("this link works once; Ctrl-C ends it, and writes nothing", soft_wrap=True)
        if page.start:
            webbrowser.open(server.link)  # where there is none, the link was shown
        yield server.ask
        server.finish(LINGER)
    finally:
        server.shutdown()
        server.server_close()
