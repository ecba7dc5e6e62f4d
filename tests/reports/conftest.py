"""A real Chromium for the pages; its tests have the mark `browser`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.needs import chromium_path

QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync",
    "--no-first-run", "--disable-component-update", "--disable-default-apps",
)  # fmt: skip


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """The browser, for one module: beside it no test of the process can run a loop."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only where it is used

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=list(QUIET))
        yield browser
        browser.close()


class Opened:
    """A page with everything that it tried to do."""

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        self.requests: list[str] = []
        self.said: list[str] = []
        self.dialogs: list[str] = []
        self.context = browser.new_context(**options)
        self.context.set_default_timeout(10_000)
        self.page = self.context.new_page()
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", self._dialog)
        self.page.goto(path.absolute().as_uri())

    def _dialog(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    @property
    def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - innerWidth"))


@pytest.fixture
def opened(chromium: Any) -> Iterator[Any]:
    """Opens a file and closes it after the test."""
    pages: list[Opened] = []

    def open_page(path: Path, **options: Any) -> Opened:
        pages.append(Opened(chromium, path, **options))
        return pages[-1]

    yield open_page
    for page in pages:
        page.context.close()
