"""The page in a real Chromium: desktop and phone, light and dark, keyboard, without JavaScript."""

from __future__ import annotations

import itertools
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from statediff.reports.html import outcome, run_html, trial_html
from tests.judging import TIMELINE, item, run
from tests.reports.test_html import BUNDLES

CONTRAST = """() => {
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const color = text => (text.match(/[0-9.]+/g) || []).map(Number);
  const ground = e => {
    for (; e; e = e.parentElement) {
      const found = color(getComputedStyle(e).backgroundColor);
      if (found.length === 3 || found[3] === 1) return found.slice(0, 3);
    }
    return matchMedia('(prefers-color-scheme: dark)').matches ? [18, 21, 26] : [255, 255, 255];
  };
  const poor = [];
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
    if (!own || !e.checkVisibility() || e.closest('script') || e.matches('.skip')) continue;
    const style = getComputedStyle(e);
    const ink = color(e instanceof SVGElement ? style.fill : style.color).slice(0, 3);
    let back = ground(e);
    const under = e.matches('.forbidden .sign') ? e.parentElement.querySelector('.badge')
      : e.closest('.around')?.querySelector('rect');
    if (under) back = color(getComputedStyle(under).fill);
    const [a, b] = [light(ink), light(back)].sort((x, y) => y - x);
    const ratio = (a + .05) / (b + .05);
    if (ratio < 4.5) poor.push(`${e.tagName}.${e.getAttribute('class')} ${ratio.toFixed(2)}`);
  }
  return [...new Set(poor)];
}"""


@pytest.fixture
def written(tmp_path: Path) -> Any:
    def write(kind: str) -> Path:
        path = tmp_path / f"{kind}.html"
        if kind == "run":
            outcomes = [outcome(bundle, name, linked=True) for name, bundle in BUNDLES.items()]
            path.write_text(run_html("a run", outcomes, 8, [("Python", "3")]), encoding="utf-8")
        else:
            path.write_text(trial_html(BUNDLES[kind]), encoding="utf-8")
        return path

    return write


KINDS = (*BUNDLES, "run")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_text_has_contrast_enough(opened: Any, written: Any, kind: str, scheme: str) -> None:
    made = opened(written(kind), color_scheme=scheme)
    made.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
    assert made.page.evaluate(CONTRAST) == []


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
@pytest.mark.parametrize("kind", KINDS)
def test_the_page_fits_every_window(opened: Any, written: Any, kind: str, width: int) -> None:
    made = opened(written(kind), viewport={"width": width, "height": 800})
    made.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
    assert made.overflow == 0


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_of_use_without_javascript(opened: Any, written: Any, kind: str) -> None:
    made = opened(written(kind), java_script_enabled=False)
    assert made.page.locator("#tools").is_hidden()
    assert made.page.locator("h1").is_visible()
    closed = made.page.locator("details:not([open]) > summary:visible")
    before = closed.count()
    closed.first.click()
    assert closed.count() < before


def test_the_keyboard_reaches_the_report_and_the_filter(opened: Any, written: Any) -> None:
    made = opened(written("forbidden"))
    page = made.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the report"
    assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "filter"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.type("may be deleted")
    expect(page.locator("#found")).to_contain_text("shown")
    assert page.locator("#clauses [data-row]:visible").count() == 1
    page.keyboard.press("Escape")
    assert page.locator("#clauses [data-row]:visible").count() > 4
    assert page.locator("#found").text_content() == ""


def test_all_parts_open_and_close_at_once(opened: Any, written: Any) -> None:
    page = opened(written("match")).page
    page.click("#expand")
    assert page.locator("details:not([open])").count() == 0
    page.click("#collapse")
    assert page.locator("details[open]").count() == 0


def test_the_sections_have_names_and_the_picture_a_text(opened: Any, written: Any) -> None:
    page = opened(written("unknown")).page
    assert page.locator("html").get_attribute("lang") == "en"
    assert page.get_by_role("main").count() == 1
    assert page.get_by_role("navigation", name="Sections").count() == 1
    assert page.get_by_role("img", name="Each changed entity before and after").count() == 1
    for href in page.evaluate("[...document.querySelectorAll('nav a')].map(a => a.hash)"):
        assert page.locator(f"section{href} > h2").count() == 1
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3')].map(h => +h.tagName[1])")
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


def test_it_prints_without_what_only_a_screen_needs(opened: Any, written: Any) -> None:
    made = opened(written("forbidden"))
    made.page.emulate_media(media="print")
    for hidden in (".toc", ".tools"):
        assert made.page.locator(hidden).is_hidden()
    assert made.page.locator("h1").is_visible()
    assert len(made.page.pdf()) > 10_000


@pytest.mark.slow
def test_ten_thousand_changes_stay_usable(opened: Any, tmp_path: Path) -> None:
    count = 10_000
    before = {"item": [item(n, 1, t=f"name {n}", owner=n % 50) for n in range(count)]}
    after = {"item": [item(n, 2, t=f"name {n}", owner=n % 50) for n in range(count)]}
    body = """\
allow:
  - {id: some, update: item, where: 'it.id < 4000'}
forbid:
  - {delete: item}
"""
    bundle = run(body, before, after, timeline=TIMELINE).bundle
    started = time.process_time()
    text = trial_html(bundle)
    assert time.process_time() - started < 15, "seconds of the processor"
    assert len(text) < 8_000_000
    assert len(re.findall('<tr data-row id="[^"]+" class="unexplained"', text)) == 6_000
    assert len(re.findall('<tr data-row id="[^"]+" class="allowed"', text)) == 4_000
    assert "5,900 more such changes are not shown here; the bundle holds them." in text
    assert "more changed entities are not drawn (5,940 unexplained, 4,000 allowed)" in text
    path = tmp_path / "page.html"
    path.write_text(text, encoding="utf-8")
    made = opened(path)
    timing = made.page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
    assert timing < 10_000, "milliseconds until it is loaded"
    made.page.click("details.group > summary")
    made.page.click("details.chunk >> nth=3 >> summary")
    assert made.page.locator("details.chunk[open] tr:visible").count() > 100
    started = time.perf_counter()
    made.page.keyboard.press("/")
    made.page.keyboard.type("item 9999")
    expect(made.page.locator("#found")).to_have_text(re.compile("^1 of"), timeout=10_000)
    assert time.perf_counter() - started < 10
    assert made.page.locator("#changes tr[data-row]:visible").count() == 1


def test_a_link_to_a_run_brings_its_filters_and_its_order(opened: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    outcomes = [
        replace(outcome(bundle, f"t-{at}-{kind}", linked=True), microseconds=micro)
        for kind in ("match", "forbidden")
        for at, micro in enumerate((None, 2_000_000, 11_000_000))
        for bundle in [BUNDLES[kind]]
    ]
    path.write_text(run_html("a run", outcomes, 6, []), encoding="utf-8")
    page = opened(path).page
    trials = page.locator("[data-rows] tbody tr:visible td:nth-child(2)")
    expect(trials).to_have_count(6)
    page.get_by_label("Verdict").select_option("DIVERGE")
    page.get_by_role("button", name="Time").click()
    expect(trials).to_have_text(["t-1-forbidden", "t-2-forbidden", "t-0-forbidden"])
    page.get_by_role("button", name="Time").click()
    # What is not known comes last, whichever way round.
    expect(trials).to_have_text(["t-2-forbidden", "t-1-forbidden", "t-0-forbidden"])
    assert page.locator("th[aria-sort]").get_attribute("aria-sort") == "descending"
    page.fill("#filter", "t-1")
    expect(trials).to_have_text(["t-1-forbidden"])
    expect(page.locator("#found")).to_have_text("1 of 6 shown")
    other = opened(path).page
    other.goto(page.url)
    other.reload()
    shown = other.locator("[data-rows] tbody tr:visible td:nth-child(2)")
    expect(shown).to_have_text(["t-1-forbidden"])
    assert other.get_by_label("Verdict").input_value() == "DIVERGE"
    other.goto(f"{path.as_uri()}#?verdict=%3Cscript%3E&sort=__proto__&q=%")
    other.reload()
    expect(other.get_by_label("Verdict")).to_have_value("")
    without = opened(path, java_script_enabled=False).page
    assert without.locator("[data-rows] tbody tr:visible").count() == 6
