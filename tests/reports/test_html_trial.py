"""A trial's page adds to its bundle: trees, places to link to, the agent, its neighbors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from statediff.contract.authoring.explain import (
    Explanation,
    Line,
    Role,
    Section,
    SourceBox,
    TypeBox,
)
from statediff.evidence.canonical import write
from statediff.evidence.package import RUN_FORM, save
from statediff.model.values import Map, Observed
from statediff.reports.ending import agent_record
from statediff.reports.html import trial_html
from statediff.reports.html.beside import Beside, relink, trial_neighbor
from statediff.reports.html.cells import both_cells, cell
from statediff.reports.html.explain import explain_html
from statediff.reports.html.graph import BOX_WIDTH, fit_title
from statediff.workspace.pages import run_page
from tests.judging import TIMELINE, item, run, user
from tests.reports.test_html import BUNDLES, Page
from tests.reports.test_html_readers import CONTRAST

WIDE = {f"setting-{n}": n for n in range(9)}


def value(**changed: Any) -> Observed:
    limits = Map.of({"gb": changed.pop("gb", 5), "seats": (1, 2, 3)})
    return Map.of({**WIDE, "limits": limits, **changed})


def lines(cell_: Any) -> list[tuple[int, str, str]]:
    return [(line.depth, line.text, line.style) for line in cell_.tree]


def test_two_objects_are_trees_in_which_the_changed_path_is_marked_and_the_rest_folded() -> None:
    before, after = both_cells(value(), value(gb=50, plan="pro"))
    assert (1, "gb: 5", "differs") in lines(before)
    assert (0, "limits", "") in lines(before)
    assert (1, "gb: 50", "differs") in lines(after)
    assert (0, 'plan: "pro"', "differs") in lines(after)
    assert not [text for _, text, _ in lines(after) if text.startswith("setting-")]
    assert re.search("alike", " ".join(text for _, text, _ in lines(after)))


def test_one_object_is_a_tree_without_marks_and_a_short_one_is_none() -> None:
    whole = lines(cell(value()))
    assert (1, "gb: 5", "") in whole
    assert (2, "[0]: 1", "") in whole
    assert lines(cell(Map.of({"a": 1}))) == []


def test_a_tree_is_bounded_in_lines_and_depth() -> None:
    deep: Any = 1
    for _ in range(500):
        deep = Map.of({"key": deep, "x" * 9_000: (1,) * 50})
    shown = lines(cell(deep))
    assert len(shown) == 61
    assert shown[-1][1].startswith("… more")
    assert max(depth for depth, _, _ in shown) < 12
    assert max(len(text) for _, text, _ in shown) < 400


def agent(**changed: Any) -> Beside:
    return Beside(
        agent=agent_record({
            "exit_code": 3, "error": "exit code 3", "started_at": "2026-03-01T10:00:00+00:00",
            "finished_at": "2026-03-01T10:00:02.5+00:00", "stdout": {"text": "looked at 7\n"},
            "stderr": {"text": "x" * 9_000 + "Trace"},
            "usage": {"cost": "0.0421", "tokens_in": 1200, "tokens_out": 34}, **changed,
        })
    )  # fmt: skip


def test_the_agent_section_has_exit_duration_cost_and_the_end_of_its_output() -> None:
    page = Page(trial_html(BUNDLES["unmet"], beside=agent()))
    shown = page.sections["agent"]
    for text in ("Exit code 3", "2.500 s", "0.0421", "1,200 in, 34 out", "looked at 7", "Trace"):
        assert text in shown
    assert "the last 8,000 of 9,005 characters" in shown
    assert "The agent failed: exit code 3" in shown
    bare = Page(trial_html(BUNDLES["unmet"])).sections["agent"]
    assert "Exit code not recorded" in bare
    assert re.search(r"Duration [0-9.]+ s", bare)  # the bundle's timeline has it


@pytest.mark.parametrize("document", [None, [], {"usage": 3, "stdout": 7, "exit_code": True,
                                                "started_at": "x", "finished_at": {}}])  # fmt: skip
def test_an_agent_record_that_says_nothing_is_not_recorded(document: Any) -> None:
    shown = Page(trial_html(BUNDLES["unmet"], beside=Beside(agent=agent_record(document))))
    assert "Exit code not recorded" in shown.sections["agent"]


def test_every_clause_finding_witness_and_change_can_be_linked_to() -> None:
    page = Page(trial_html(BUNDLES["unmet"]))
    ids = {attrs["id"] for _, attrs in page.tags if attrs.get("id")}
    linked = {(attrs["href"] or "")[1:] for tag, attrs in page.tags
              if tag == "a" and attrs.get("class") == "anchor"}  # fmt: skip
    assert linked <= ids
    assert {"clause-made", "finding-made-1", "finding-made-1-1"} <= linked
    changes = {at for at in ids if at and at.startswith("change-")}
    assert changes
    assert changes <= linked


def test_an_unexplained_change_is_a_link_to_the_one_row_that_has_its_values() -> None:
    page = Page(trial_html(BUNDLES["unexplained"]))
    assert "item 1 n" in page.sections["unexplained"]
    assert page.sections["unexplained"].count(" 5 ") == 0
    assert " 5 " in page.sections["changes"]


def test_clauses_that_hold_are_folded_where_others_do_not() -> None:
    body = "".join(f"  - {{id: f{n}, delete: user}}\n" for n in range(4))
    bundle = run(f"forbid:\n{body}require:\n  - {{id: made, create: item}}\n", {"user": [user(1)]},
                 {"user": [user(1)]}, timeline=TIMELINE).bundle  # fmt: skip
    assert "4 hold" in Page(trial_html(bundle)).sections["clauses"]
    assert " hold " not in Page(trial_html(BUNDLES["match"])).sections["clauses"]


def test_a_run_links_its_trials_in_order_and_leaves_the_rest_of_each_page_alone(
    tmp_path: Path,
) -> None:
    run_folder = tmp_path / "run-1"
    names = ["t-2", "t-10", "t 1#?"]
    for name in names:
        save(BUNDLES["match"], run_folder / "trials" / name / "bundle")
    (run_folder / "run.json").write_bytes(write({"form": RUN_FORM}))
    run_page(run_folder, None, lambda error: pytest.fail(str(error)), with_trials=True)
    pages = {name: (run_folder / "trials" / name / "report.html").read_text() for name in names}
    links = {
        name: [attrs["href"] for tag, attrs in Page(text).tags if tag == "a" and "rel" in attrs]
        for name, text in pages.items()
    }
    assert links == {
        "t 1#?": ["../t-2/report.html"],
        "t-2": ["../t%201%23%3F/report.html", "../t-10/report.html"],
        "t-10": ["../t-2/report.html"],
    }
    assert all('href="../../report.html">Run run-1<' in text for text in pages.values())
    assert len({relink(text, Beside()) for text in pages.values()}) == 1
    run_page(run_folder, None, lambda error: pytest.fail(str(error)), with_trials=False)
    assert pages["t-2"] == (run_folder / "trials" / "t-2" / "report.html").read_text()


def test_a_neighbor_is_never_outside_the_run() -> None:
    assert trial_neighbor("../../etc").link == "../..%2F..%2Fetc/report.html"


def crowd(tmp_path: Path, size: int) -> Path:
    before = {"user": [user(1), user(2)], "item": [item(n, 1, owner=1) for n in range(size)]}
    after = {"user": [user(1), user(2)], "item": [item(n, 2, owner=2) for n in range(size)]}
    body = "allow:\n  - {update: item}\n"
    path = tmp_path / "page.html"
    bundle = run(body, before, after, timeline=TIMELINE).bundle
    path.write_text(trial_html(bundle, beside=agent()), encoding="utf-8")
    return path


def test_a_graph_of_fifty_entities_shows_the_references_of_the_one_with_the_focus(
    opened: Any, tmp_path: Path
) -> None:
    made = opened(crowd(tmp_path, 50), java_script_enabled=False)
    page = made.page
    assert page.locator(".path").count() == 50
    assert page.locator(".of:visible path").count() == 0
    page.locator(".path").nth(30).focus()
    seen = page.locator(".path").nth(30)
    assert (
        seen.locator(".of path").first.evaluate("e => getComputedStyle(e).visibility") == "visible"
    )
    other = page.locator(".path").nth(3).locator(".of path").first
    assert other.evaluate("e => getComputedStyle(e).visibility") == "hidden"
    assert "refers to user[2] by owner" in (seen.get_attribute("aria-label") or "")


LONG = ("post $tMUEo7KkKhzW3a", "db.sequence ir_model_log", "WWWWWWWWWWWWWWWW", "员工" * 20)


def test_a_long_name_ends_inside_its_box_of_the_graph(opened: Any, tmp_path: Path) -> None:
    assert fit_title("payment_method 117") == "payment_method 117"
    texts = [f'<text font-size="13" font-weight="600">{fit_title(name)}</text>' for name in LONG]
    path = tmp_path / "page.html"
    body = f'<svg font-family="system-ui,sans-serif">{"".join(texts)}</svg>'
    path.write_text(f"<!doctype html><title>t</title><body>{body}</body>", encoding="utf-8")
    widths = "[...document.querySelectorAll('text')].map(t => t.getComputedTextLength())"
    wide = opened(path).page.evaluate(widths)
    assert all(60 < width <= BOX_WIDTH - 12 for width in wide), wide


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_new_parts_have_contrast_and_fit_a_phone(
    opened: Any, tmp_path: Path, scheme: str
) -> None:
    made = opened(crowd(tmp_path, 9), color_scheme=scheme, viewport={"width": 320, "height": 700})
    made.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
    assert made.overflow == 0
    assert made.page.evaluate(CONTRAST) == []


def test_the_caption_of_a_table_is_as_wide_as_its_words_on_a_phone(
    opened: Any, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    path.write_text(trial_html(BUNDLES["forbidden"]), encoding="utf-8")
    made = opened(path, viewport={"width": 320, "height": 700})
    made.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
    caption = made.page.get_by_text("Captured, and as judged").first
    box = caption.bounding_box()
    assert box["width"] > 3 * box["height"], box


def test_a_link_is_copied_when_it_is_followed(opened: Any, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(trial_html(BUNDLES["unmet"]), encoding="utf-8")
    made = opened(path, permissions=["clipboard-read", "clipboard-write"])
    made.page.click("a.anchor[href='#finding-made-1']")
    expect(made.page.locator("a.copied")).to_have_count(1)
    copied = made.page.evaluate("navigator.clipboard.readText()")
    assert copied == f"{path.as_uri()}#finding-made-1"
    assert made.page.evaluate("document.querySelector(':target').id") == "finding-made-1"
    assert made.said == []


EXPLAINED = Explanation(
    name="shop/refund", version="1.0.0", owner="o" * 200, intent="Refund it.", digest="d" * 64,
    inputs=(("order", "7"),), rules=("casefold on item.t",), frame_is_open=False,
    sections=(Section("Forbidden", (Line("no-" + "x" * 90, "No user may go.", "asked"),)),),
    sources=(SourceBox("db", "must report", tuple(
        TypeBox(f"type-{role.name}", (role,), ("made",), ()) for role in Role), 3),),
)  # fmt: skip


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_explained_contract_has_contrast_fits_a_phone_and_needs_no_script(
    opened: Any, tmp_path: Path, scheme: str
) -> None:
    path = tmp_path / "explained.html"
    path.write_text(explain_html(EXPLAINED), encoding="utf-8")
    window = {"width": 320, "height": 700}
    made = opened(path, color_scheme=scheme, viewport=window)
    assert made.overflow == 0
    assert made.page.evaluate(CONTRAST) == []
    assert made.said == []
    bare = opened(path, java_script_enabled=False)
    assert bare.page.locator("#boundary tbody tr:visible").count() == len(Role) + 1
    for link in bare.page.locator("a[href^='#']").all():
        assert bare.page.locator(f"[id='{(link.get_attribute('href') or '')[1:]}']").count() == 1
