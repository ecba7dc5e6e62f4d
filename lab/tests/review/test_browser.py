"""The desk in a real Chromium: by keyboard alone, on a phone, in the dark, and under attack."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import expect
from statediff_lab.labels import Cause, Failure, Label
from statediff_lab.review.desk import Desk
from statediff_lab.review.server import DeskServer

from lab.tests.review.conftest import TRUST, MakeDesk
from lab.tests.review.test_desk import many
from tests.reports.test_html_hostile import HIDING, SHOWN, forged
from tests.reports.test_html_readers import CONTRAST

Serve = Callable[[Desk], DeskServer]
Browse = Callable[..., Any]


def press(page: Any, key: str) -> None:
    """A key, once the page takes keys: its title is there before."""
    page.wait_for_load_state()
    page.keyboard.press(key)


@pytest.fixture
def browse(chromium: Any) -> Iterator[Browse]:
    """A page of the browser, and everything that it asked for or complained of."""
    contexts = []

    def start(server: DeskServer, **options: Any) -> Any:
        context = chromium.new_context(**options)
        contexts.append(context)
        context.set_default_timeout(15_000)
        page = context.new_page()
        page.asked, page.said = [], []
        page.on("request", lambda request: page.asked.append(request.url))
        page.on("console", lambda message: page.said.append(message.text))
        page.on("pageerror", lambda error: page.said.append(str(error)))
        page.on("dialog", lambda dialog: (page.said.append(dialog.message), dialog.dismiss()))
        page.goto(server.link)
        return page

    yield start
    for context in contexts:
        context.close()


def test_a_reviewer_needs_no_mouse(make_desk: MakeDesk, serve: Serve, browse: Browse) -> None:
    desk = make_desk(trust=TRUST)
    server = serve(desk)
    page = browse(server)
    press(page, "j")  # the first trial
    expect(page).to_have_title(re.compile("Review 1 of 3"))
    press(page, "j")
    expect(page).to_have_title(re.compile("Review 2 of 3"))
    press(page, "k")
    expect(page).to_have_title(re.compile("Review 1 of 3"))
    press(page, "n")
    press(page, "n")
    assert page.evaluate("document.activeElement.matches('.asks li:nth-child(1)')")
    press(page, "2")
    expect(page.locator("input[value=incorrect]")).to_be_checked()
    press(page, "Tab")
    page.keyboard.type("j k 1: user 2 is gone")  # keys are text in here
    press(page, "Control+Enter")
    expect(page).to_have_title(re.compile("Review 2 of 3"))
    label = desk.label(0)
    assert label is not None
    assert (label.given.label, label.given.note) == (Label.INCORRECT, "j k 1: user 2 is gone")
    press(page, "k")  # what was hidden shows now
    expect(page.locator("h1")).to_contain_text("DIVERGE")
    press(page, "n")
    assert page.evaluate("document.activeElement.matches('.clause > summary')")
    press(page, "l")
    page.check("input[value=evaluator-failure]")
    page.click("text=If evaluator or contract failed")
    page.select_option("#stage", "policy")
    page.select_option("#correctable", "yes")
    page.check("input[value=exact-match]")
    page.check("input[value=annotation-error]")
    page.click("button.primary")
    expect(page).to_have_title(re.compile("Review 2 of 3"))
    label = desk.label(0)
    assert label is not None
    assert label.given.cause is Cause.EVALUATOR
    assert label.given.failures == (Failure.ANNOTATION, Failure.EXACT_MATCH)
    assert (label.given.is_correctable, label.given.blind) == (True, True)
    press(page, "u")
    expect(page.locator("h1")).to_have_text("2 to review")
    assert page.said == []
    assert {url.split("/")[2] for url in page.asked} == {server.authority}


def test_the_focus_goes_round_shows_itself_and_is_never_trapped(
    make_desk: MakeDesk, serve: Serve, browse: Browse
) -> None:
    page = browse(serve(make_desk(is_blind=False)))
    press(page, "j")
    expect(page).to_have_title(re.compile("Review 1 of 3"))
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
    seen, outlines = [], []
    for _ in range(200):
        press(page, "Tab")
        here = page.evaluate("""() => {
          const e = document.activeElement, s = getComputedStyle(e.closest('.pick') ?? e);
          return [e.tagName + (e.id || e.name || e.textContent).slice(0, 30),
                  e.tagName === 'BODY' || s.outlineStyle !== 'none' && s.outlineWidth !== '0px'];
        }""")
        if here[0].startswith("BODY"):
            break
        seen.append(here[0])
        outlines.append(here)
    else:
        pytest.fail("the focus never leaves the page")
    assert seen[0].startswith("ASkip to")
    order = [next(at for at, name in enumerate(seen) if name.startswith(part))
             for part in ("AAll trials", "AContract", "SUMMARY", "INPUTlabel", "TEXTAREAnote",
                          "BUTTON")]  # fmt: skip
    assert order == sorted(order)
    assert [name for name, is_shown in outlines if not is_shown] == []


@pytest.mark.parametrize("is_blind", [True, False])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_readable_and_fits_a_phone(
    make_desk: MakeDesk, serve: Serve, browse: Browse, is_blind: bool, scheme: str
) -> None:
    desk = make_desk(is_blind=is_blind)
    server = serve(desk)
    page = browse(server, color_scheme=scheme, viewport={"width": 1280, "height": 800})
    for path in ("/", "/1", "/2"):
        page.goto(server.origin + server.root + path)
        page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
        assert page.evaluate(CONTRAST) == []
        for width in (320, 390, 768, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") == 0


@pytest.mark.parametrize("is_blind", [True, False])
def test_nothing_of_a_hostile_bundle_runs_loads_or_hides(
    make_desk: MakeDesk, serve: Serve, browse: Browse, is_blind: bool, tmp_path: Any
) -> None:
    bundle = forged("forbidden")
    desk = make_desk(is_blind=is_blind)
    desk.cases = (type(desk.cases[0])(bundle.digest, tmp_path, lambda: bundle),)
    server = serve(desk)
    page = browse(server)
    page.goto(f"{server.origin}{server.root}/1", timeout=60_000)
    assert page.evaluate("typeof pwned") == "undefined"
    assert page.evaluate("document.scripts.length") == 1
    assert page.evaluate("document.querySelectorAll('style').length") == 1
    assert page.evaluate("document.querySelectorAll('img, iframe, base, object, link').length") == 0
    assert (
        page.evaluate("""[...document.querySelectorAll('*')].flatMap(e =>
        [...e.attributes].filter(a => /^on|^style$|^src|^xlink/.test(a.name)))""")
        == []
    )
    links = page.evaluate("[...document.links, ...document.forms].map(a => a.href ?? a.action)")
    assert all(url.startswith(server.origin + server.root) for url in links)
    shown = page.evaluate("document.body.textContent")
    for literal in SHOWN:
        assert literal in shown
    assert not set(HIDING) & set(shown)
    assert page.said == []
    assert {url.split("/")[2] for url in page.asked} == {server.authority}


def test_a_page_elsewhere_can_neither_sign_nor_frame_nor_read(
    make_desk: MakeDesk, serve: Serve, browse: Browse, tmp_path: Any
) -> None:
    """Even one that knows the secret path, which none does."""
    desk = make_desk()
    server = serve(desk)
    page = browse(server)
    target = f"{server.origin}{server.root}/1"
    (tmp_path / "evil.html").write_text(
        f"<form method=post action='{target}'><input name=label value=correct></form>"
        f"<iframe src='{target}'></iframe><img src='{target}'>"
    )
    page.goto((tmp_path / "evil.html").as_uri())
    frames = [each.content() for each in page.frames[1:]]
    assert not any("Change what the test says" in text for text in frames)
    read = page.evaluate("url => fetch(url).then(r => r.text(), () => 'blocked')", target)
    assert read == "blocked"
    page.evaluate("document.forms[0].submit()")
    page.wait_for_url(target)
    expect(page.locator("body")).to_contain_text("Forbidden")
    assert desk.label(0) is None


def test_without_javascript_everything_can_be_read_and_signed(
    make_desk: MakeDesk, serve: Serve, browse: Browse
) -> None:
    desk = make_desk()
    page = browse(serve(desk), java_script_enabled=False)
    page.click("text=Begin with trial 1")
    page.check("input[value=unresolvable]")
    page.click("button.primary")
    expect(page).to_have_title(re.compile("Review 2 of 3"))
    label = desk.label(0)
    assert label is not None
    assert label.given.label is Label.UNRESOLVABLE


@pytest.mark.slow
def test_ten_thousand_changes_stay_usable(
    make_desk: MakeDesk, serve: Serve, browse: Browse
) -> None:
    server = serve(make_desk(bundles={"many": many(10_000)}))
    page = browse(server)
    address = f"{server.origin}{server.root}/1"
    started = time.perf_counter()
    page.goto(address, timeout=60_000)
    first = time.perf_counter() - started
    started = time.perf_counter()
    press(page, "]")
    expect(page.locator(".pages [role=status]")).to_have_text("101–200 of 10,000")
    second = time.perf_counter() - started
    press(page, "/")
    page.keyboard.type("item 9999")
    press(page, "Enter")
    fits = expect(page.locator(".pages [role=status]"))
    fits.to_have_text("1–1 of 1 that fit", timeout=60_000)
    assert page.evaluate("document.querySelectorAll('*').length") < 5_000
    assert first < 60, "seconds, on a machine that does other things too"
    assert second < 10
