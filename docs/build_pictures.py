"""Makes every picture of the docs afresh, from real runs: `make pictures [ONLY=name-part]`.

1. Run the commands that the pages describe, in a new folder.
2. Open each page in a headless Chromium, 1280 or 390 pixels wide, light or dark.
3. Cut out what the caption names, and write it to `docs/report`.

A test fails when a page shows a picture that this does not make, or the other way round.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import sync_playwright

from tests.needs import chromium_path
from tests.reports.conftest import QUIET

DOCS: Final = Path(__file__).parent
PICTURES: Final = DOCS / "report"
MOST_BYTES: Final = 300_000
_AGENTS: Final = {
    "shop/refund-returned-order": ("careful", "hasty", "plausible"),
    "accounts/request-approval": ("careful", "executes"),
}
_RUNS: Final = 4


@dataclass
class Scene:
    """What the pictures are taken of, in a new folder; each part is made when it is first used."""

    folder: Path

    def command(self, *words: object, ends: tuple[int, ...] = (0,)) -> str:
        """What `statediff WORDS` prints; it must end with one of these exit codes."""
        line = [sys.executable, "-m", "statediff", *map(str, words)]
        done = subprocess.run(line, check=False, cwd=self.folder, capture_output=True, text=True)
        if done.returncode not in ends:
            raise SystemExit(f"{' '.join(line)} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    @cached_property
    def demo(self) -> Path:
        """The run of `statediff demo`."""
        self.command("demo")
        [run] = (self.folder / "runs").iterdir()
        return run

    def trial(self, name: str) -> Path:
        """The page of a trial of the demo."""
        return self.demo / "trials" / name / "report.html"

    @cached_property
    def trust(self) -> Path:
        """The trust file of one key that seals and one that reviews."""
        self.command("keygen", "ada.pem", "--name", "Ada")
        self.command("keygen", "eve.pem", "--name", "Eve", "--role", "reviewer")
        return self.folder / "trust.json"

    @cached_property
    def sealed(self) -> Path:
        """The page of a sealed copy."""
        self.command("sign", self.trial("plausible").parent / "bundle", "--key",
                     self.trust.with_name("ada.pem"), "--out", "sealed.zip")  # fmt: skip
        self.command("report", "sealed.zip", "--trust", "trust.json", "--out", "sealed.html")
        return self.folder / "sealed.html"

    @cached_property
    def public(self) -> Path:
        """The page of what the public may see of it."""
        self.command("report", self.sealed.with_name("sealed.zip"), "--trust", "trust.json",
                     "--tier", "public", "--out", "public.html")  # fmt: skip
        return self.folder / "public.html"

    @cached_property
    def board(self) -> Path:
        """The dashboard of some runs of two contracts."""
        for _ in range(_RUNS):
            for contract, agents in _AGENTS.items():
                named = [word for agent in agents for word in ("--agent", agent)]
                self.command("run", contract, *named, "--out", "board", ends=(0, 1))
        self.command("open", "board", "--out", "board.html", "--no-open")
        return self.folder / "board.html"

    @cached_property
    def explained(self) -> Path:
        """A contract in English."""
        self.command("explain", "shop/refund-returned-order", "--format", "html", "--out",
                     "explained.html")  # fmt: skip
        return self.folder / "explained.html"

    @cached_property
    def study(self) -> Path:
        """A study of recorded runs."""
        of = DOCS.parent / "fixtures" / "study" / "contacts"
        self.command("study", of, "--before", of / "before.json", "--after", of / "after.json",
                     "--answer", of / "answer.json", "--html", "study.html")  # fmt: skip
        return self.folder / "study.html"

    @contextmanager
    def desk(self, *trials: str, blind: bool = False) -> Iterator[str]:
        """The link to a page where these trials of the demo are reviewed."""
        key = self.trust.with_name("eve.pem")
        line = [sys.executable, "-m", "statediff", "review", "--key", str(key), "--no-open",
                *(["--blind"] if blind else []),
                *(str(self.demo / "trials" / name) for name in trials)]  # fmt: skip
        with subprocess.Popen(line, cwd=self.folder, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True) as serving:  # fmt: skip
            try:
                lines = serving.stdout or ()
                yield next(word for line in lines for word in line.split() if "http://" in word)
            finally:
                serving.terminate()


Part = str | tuple[str, int] | None
"""An element; one and the pixels of it from its top; from the top of the page to an element."""


@dataclass(frozen=True, kw_only=True)
class Shot:
    """One picture: the page, and the part of it that is cut out."""

    name: str
    page: Callable[[Scene], Path] | None = None
    trial: str = ""
    blind: bool = False
    """Of a trial on the review page instead."""
    of: str = ""
    """The element; the page from its top if empty."""
    until: str = ""
    """The element that it ends with, if it is another."""
    most: int = 1200
    """Pixels from top to bottom, at most."""
    steps: tuple[Callable[[Any, Scene], None], ...] = field(default=())

    @property
    def context(self) -> dict[str, Any]:
        """How its browser shows pages: the name says it."""
        *_, device, scheme = self.name.split("-")
        width, height = {"desktop": (1280, 800), "phone": (390, 844)}[device]
        return {"viewport": {"width": width, "height": height}, "color_scheme": scheme}


def _trust(page: Any, scene: Scene) -> None:
    page.fill("#trust-text", scene.trust.read_text(encoding="utf-8"))
    box = page.locator("p[data-check]")
    box.filter(has_not_text="NOT CHECKED YET").wait_for(state="attached")


def _first(page: Any, _: Scene) -> None:
    page.keyboard.press("j")
    page.locator("#label").wait_for()


def _trial(name: str) -> Callable[[Scene], Path]:
    return lambda scene: scene.trial(name)


def _demo(scene: Scene) -> Path:
    return scene.demo / "report.html"


SHOTS: Final = (
    Shot(
        name="diverge-desktop-light",
        page=_trial("plausible"),
        until=".clause.diverge .rows",
        most=1700,
    ),
    Shot(name="match-desktop-dark", page=_trial("careful"), until="#task"),
    Shot(name="inconclusive-phone-light", page=_trial("unplugged"), most=844),
    Shot(name="picture-desktop-dark", page=_trial("hasty"), of="#graph"),
    Shot(name="answer-desktop-light", page=_trial("plausible"), of="#answer"),
    Shot(name="run-desktop-light", page=_demo),
    Shot(name="sealed-desktop-light", page=lambda s: s.sealed, steps=(_trust,), most=1000),
    Shot(name="public-top-desktop-light", page=lambda s: s.public, steps=(_trust,), most=1000),
    Shot(name="dashboard-desktop-light", page=lambda s: s.board),
    Shot(name="explain-desktop-light", page=lambda s: s.explained, most=1400),
    Shot(name="study-desktop-light", page=lambda s: s.study, most=1400),
    Shot(name="review-blind-desktop-light", trial="plausible", blind=True),
    Shot(name="review-state-desktop-light", trial="plausible", blind=True, of="#state"),
    Shot(name="review-missing-desktop-dark", trial="unplugged"),
    Shot(name="review-verdict-phone-dark", trial="hasty", most=844),
)


def take(shot: Shot, browser: Any, scene: Scene) -> bytes:
    """The picture as PNG."""
    context = browser.new_context(**shot.context, reduced_motion="reduce")
    try:
        page = context.new_page()
        if shot.page is not None:
            page.goto(shot.page(scene).as_uri())
            return _cut(shot, page, scene)
        with scene.desk(shot.trial, blind=shot.blind) as link:
            page.goto(link)
            _first(page, scene)
            return _cut(shot, page, scene)
    finally:
        context.close()


def _cut(shot: Shot, page: Any, scene: Scene) -> bytes:
    for step in shot.steps:
        step(page, scene)
    whole = {"x": 0, "y": 0, **page.viewport_size}
    box = page.locator(shot.of).first.bounding_box() if shot.of else whole
    end = box["y"] + (box["height"] if shot.of else page.evaluate("document.body.scrollHeight"))
    if shot.until:
        last = page.locator(shot.until).first.bounding_box()
        end = last["y"] + last["height"] + 12
    clip = {**box, "height": min(end - box["y"], shot.most)}
    return bytes(page.screenshot(full_page=True, clip=clip))


def main(only: str) -> None:
    """Each picture whose name holds `only` is made again."""
    folder = Path(tempfile.mkdtemp())
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium_path(), args=list(QUIET))
            scene = Scene(folder)
            for shot in SHOTS:
                if only in shot.name:
                    made = take(shot, browser, scene)
                    if len(made) > MOST_BYTES:
                        raise SystemExit(f"{shot.name}: {len(made):,} bytes; cut out less of it")
                    (PICTURES / f"{shot.name}.png").write_bytes(made)
                    sys.stderr.write(f"{shot.name}.png {len(made):,} bytes\n")
            browser.close()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
