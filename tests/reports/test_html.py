"""The HTML report, from real bundles: complete, deterministic, readable by everyone."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from statediff.errors import BundleError
from statediff.evidence.canonical import write
from statediff.evidence.package import Bundle, save
from statediff.kernel import Evaluated
from statediff.model.codes import FindingCode
from statediff.model.values import Observed
from statediff.reports.html import fault, outcome, run_html, trial_html
from statediff.reports.html.cells import both_cells
from statediff.reports.html.page import _environment, policy
from statediff.reports.wording.worded import worded_judgement
from statediff.suite.spans import SpanCounts
from tests.judging import CUT, TIMELINE, item, run, state, user

CHECKOUT = Path(__file__).parents[2]
BODY = """\
exclude: [{what: user.name, because: names are private}]
canonicalize: [{use: casefold@1, on: [item.t], because: case is noise}]
forbid:
  - {id: no-users, delete: user}
require:
  - id: made
    create: item
    where: 'it.owner.role == "user"'
    count: {min: 1}
    that: 'sum(i.n for i in them) == 3'
allow:
  - {id: renamed, update: item, fields: [t]}
answer:
  schema: {n: int}
  claims:
    - {id: counted, that: 'answer.n == count(i for i in after.item)'}
"""
BEFORE = {"user": [user(1), user(2, name="Bo")], "item": [item(1, t="Alpha", owner=1)]}


def after(n: int = 3, users: Any = None, t: str = "BETA") -> dict[str, Any]:
    kept = [user(1), user(2, name="Boris")] if users is None else users
    return {"user": kept, "item": [item(1, t=t, owner=1), item(2, n, owner=1)]}


def trial(kind: str) -> Evaluated:
    states: dict[str, Any] = {
        "match": after(),
        "unmet": after(n=4),
        "forbidden": after(users=[user(1)]),
        "unexplained": {**after(), "item": [item(1, 5, t="Alpha", owner=1), item(2, 3, owner=1)]},
        "unknown": state(after(), {"user": CUT}),
        "nothing": BEFORE,
    }
    return run(BODY, BEFORE, states[kind], answer={"n": 2}, timeline=TIMELINE)


BUNDLES = {
    kind: trial(kind).bundle
    for kind in ("match", "unmet", "forbidden", "unexplained", "unknown", "nothing")
}


def with_codes(*codes: str) -> Bundle:
    """A judged run that has one finding of each code, all of one clause."""
    bundle = BUNDLES["unmet"]
    judged = bundle.document("judgement.json")
    found = next(f for f in judged["findings"] if f["truth"] == "FAILS")
    judged["findings"] = [found | {"code": code} for code in codes]
    return replace(bundle, files={**bundle.files, "judgement.json": write(judged)})


class Page(HTMLParser):
    """A page's words, section by section, and its elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.sections: dict[str, str] = {}
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._at = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in ("section", "header", "footer", "style", "script"):
            self._at = dict(attrs).get("id") or tag

    def handle_data(self, data: str) -> None:
        whole = f"{self.sections.get(self._at, '')} {data}"
        self.sections[self._at] = re.sub(r"\s+", " ", whole)


def page(kind: str) -> Page:
    return Page(trial_html(BUNDLES[kind]))


@pytest.mark.parametrize(
    ("kind", "verdict", "lead"),
    [
        ("match", "MATCH", "All 5 clauses hold."),
        ("unmet", "DIVERGE", "A required change did not happen as required"),
        ("forbidden", "DIVERGE", "Something forbidden happened"),
        ("unexplained", "DIVERGE", "Something changed that no clause explains"),
        ("unknown", "INCONCLUSIVE", "Something needed was not observed"),
    ],
)
def test_the_first_lines_say_the_verdict_and_why(kind: str, verdict: str, lead: str) -> None:
    head = page(kind).sections["header"]
    assert verdict in head
    assert lead in head
    card = head[head.index(lead) :]
    assert "State" in card
    assert "Answer" in card
    assert "Tool calls" not in card.partition("Task Clauses")[0]  # no clause is about them


@pytest.mark.parametrize("kind", BUNDLES)
def test_the_menu_leads_to_every_section_and_none_is_empty(kind: str) -> None:
    made = page(kind)
    links = [(a.get("href") or "")[1:] for tag, a in made.tags if tag == "a"]
    menu = links[links.index("task") : links.index("replay") + 1]
    places = [a.get("id") for tag, a in made.tags if tag == "section"]
    assert menu == places
    for name in menu:
        assert "No action was recorded" not in made.sections[name]
        assert "was observed" not in made.sections[name]


@pytest.mark.parametrize("code", FindingCode)
def test_every_code_stands_beside_its_meaning(code: FindingCode) -> None:
    shown = Page(trial_html(with_codes(code))).sections["clauses"]
    assert f"{code.meaning} ( {code} )" in shown


def test_a_code_of_another_version_stands_as_it_is_written() -> None:
    shown = Page(trial_html(with_codes("a-later-code"))).sections["clauses"]
    assert "a-later-code" in shown
    assert "( a-later-code )" not in shown


@pytest.mark.parametrize("kind", BUNDLES)
def test_every_clause_stands_there_in_english_with_its_truth(kind: str) -> None:
    shown = page(kind).sections["clauses"]
    judged = worded_judgement(BUNDLES[kind])
    for clause in judged["clauses"]:
        at = shown.index(clause["sentence"])
        truth = {"HOLDS": "holds", "FAILS": "fails", "UNKNOWN": "unknown"}[clause["truth"]]
        assert shown[:at].rstrip().endswith(truth)
        assert clause["clause"] in shown


@pytest.mark.parametrize("kind", BUNDLES)
def test_clauses_that_do_not_hold_are_open_and_the_others_closed(kind: str) -> None:
    made = [attrs for tag, attrs in page(kind).tags if tag == "details" and "clause" in
            (attrs.get("class") or "")]  # fmt: skip
    assert made
    for attrs in made:
        assert ("open" in attrs) == ("match" not in (attrs["class"] or ""))


@pytest.mark.parametrize("kind", BUNDLES)
def test_every_change_is_listed_with_what_the_contract_makes_of_it(kind: str) -> None:
    shown = page(kind).sections["changes"]
    judged = BUNDLES[kind].document("judgement.json")
    for delta in judged["deltas"]:
        assert f"{delta['type']} {delta['key'][0][1]}" in shown
    words = {
        "match": ["1 ✓ required", "1 ○ allowed"],
        "unmet": ["1 ≠ not as required", "1 ○ allowed"],
        "forbidden": ["1 ✗ forbidden", "1 ✓ required", "1 ○ allowed"],
        "unexplained": ["1 ! unexplained", "1 ✓ required"],
        "nothing": ["Nothing changed."],
    }
    for word in words.get(kind, []):
        assert word in shown


def test_a_witness_shows_both_sides_and_what_was_captured_with_the_rule() -> None:
    shown = page("unmet").sections["clauses"]
    assert "item 2 created in the run" in shown
    assert "Field after" in shown  # it was not there before
    assert (
        'captured as "BETA" , judged as "beta" by casefold@1 (case is noise)'
        in (page("unmet").sections["changes"])
    )


@pytest.mark.parametrize("kind", BUNDLES)
def test_every_link_of_the_page_leads_somewhere(kind: str) -> None:
    tags = page(kind).tags
    places = [attrs["id"] for _, attrs in tags if attrs.get("id")]
    assert len(places) == len(set(places))
    links = {attrs["href"] for tag, attrs in tags if tag == "a"}
    assert {link[1:] for link in links if link and link.startswith("#")} <= set(places)
    judged = worded_judgement(BUNDLES[kind])
    assert {f"clause-{each['clause']}" for each in judged["clauses"]} <= set(places)
    assert len([at for at in places if at.startswith("change-")]) == len(judged["deltas"])


@pytest.mark.parametrize(
    ("before", "after", "marked"),
    [
        ("Invoice 41 is open", "Invoice 41 is paid", ("open", "paid")),
        ("Refund of 39.00 EUR", "Refund of 39.00 EUR, twice", ("", ", twice")),
        ("aaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaa", ("", "a")),
        (4200, 3900, None),  # two numbers, not one that differs inside
        ("to be or not to be", "a different text it is", None),
        ("x" * 500 + "b" + "y" * 500, "x" * 500 + "c" + "y" * 500, ("b", "c")),
    ],
)
def test_what_differs_inside_a_value_is_marked(
    before: Observed, after: Observed, marked: tuple[str, str] | None
) -> None:
    cells = both_cells(before, after)
    for cell in cells:
        assert cell.parts is None or "".join(cell.parts) == cell.text
    assert (tuple(c.parts[1] for c in cells if c.parts) or None) == marked


def test_values_of_a_change_are_shown_once() -> None:
    shown = page("forbidden").sections["clauses"]
    assert shown.count("user 2 deleted in the run") == 1
    assert "The values are shown under" in shown


def test_findings_beyond_the_first_five_are_folded_and_each_is_there() -> None:
    others = {n: [item(at, n, owner=1) for at in range(3, 11)] for n in (5, 6)}
    before = {**BEFORE, "item": [*BEFORE["item"], *others[5]]}
    many = {**after(), "item": [*after()["item"], *others[6]]}
    bundle = run(BODY, before, many, answer={"n": 10}, timeline=TIMELINE).bundle
    judged = bundle.document("judgement.json")
    frame = [found for found in judged["findings"] if found["clause"] == "frame"]
    shown = Page(trial_html(bundle))
    places = [attributes.get("id") or "" for _, attributes in shown.tags]
    assert len([each for each in places if re.fullmatch(r"finding-frame-\d+", each)]) == len(frame)
    assert len(frame) > 5
    assert f"{len(frame) - 5} more findings" in shown.sections["clauses"]


def test_a_forbidden_change_is_unexplained_as_well() -> None:
    assert "user 2" in page("forbidden").sections["unexplained"]
    assert "unexplained" not in page("match").sections


def test_what_was_left_out_is_there_with_its_rule_and_reason() -> None:
    shown = page("match").sections["excluded"]
    assert "user.name names are private" in shown
    assert "casefold@1 item.t case is noise" in shown
    assert '"Bo" "Boris"' in shown


def test_what_is_not_known_names_its_cause_and_the_picture_shows_it() -> None:
    made = page("unknown")
    assert "cut short" in made.sections["unknown"]
    assert "user: insufficient evidence" in made.sections["graph"]


def test_the_answer_stands_beside_the_state() -> None:
    claimed = run(BODY, BEFORE, after(), answer={"n": 9}, timeline=TIMELINE).bundle
    shown = Page(trial_html(claimed)).sections["answer"]
    assert re.search(r"counted 9 2 ✗ fails", shown), shown


def test_readings_have_their_ages_and_a_number_that_is_not_defined_says_so() -> None:
    assert "5.000 s before the agent began" in page("match").sections["readings"]
    assert "Precision not defined" in page("nothing").sections["numbers"]
    assert "Precision 100%" in page("match").sections["numbers"]


def test_the_contract_is_there_as_it_was_written() -> None:
    shown = re.sub(r"\s+", " ", BUNDLES["match"].files["contract.yaml"].decode())
    assert shown.strip() in page("match").sections["contract"]


def test_the_picture_tells_paths_apart_by_shape_and_words() -> None:
    kinds = {kind: trial_html(BUNDLES[kind]) for kind in ("match", "forbidden", "unknown")}
    assert '<g class="path allowed">' in kinds["match"]
    assert '<g class="path forbidden">' in kinds["forbidden"]
    assert '<g class="path unknown">' in kinds["unknown"]
    for text in kinds.values():
        assert "The picture in words" in text
    assert "item 2: created; required by made" in page("match").sections["graph"]
    assert "item[2] refers to user[1] by owner" in page("match").sections["graph"]


@pytest.mark.parametrize("kind", BUNDLES)
def test_a_page_is_closed_to_everything_but_itself(kind: str) -> None:
    text = trial_html(BUNDLES[kind])
    made = Page(text)
    assert "default-src 'none'" in policy()
    metas = [attrs for tag, attrs in made.tags if tag == "meta"]
    assert {"http-equiv": "Content-Security-Policy", "content": policy()} in metas
    for tag, attrs in made.tags:
        assert tag not in ("img", "iframe", "object", "embed", "link", "base", "form", "use", "a")\
            or (tag == "a" and (attrs["href"] or "").startswith("#"))  # fmt: skip
        assert not [name for name in attrs if name.startswith("on") or name in ("style", "src")]


def test_the_digests_of_the_policy_are_those_of_the_style_sheet_and_the_script() -> None:
    import base64  # noqa: PLC0415

    text = trial_html(BUNDLES["match"])
    for tag in ("style", "script"):
        [content] = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy()


def test_the_same_bundle_gives_the_same_bytes_whatever_the_hash_seed(tmp_path: Path) -> None:
    save(BUNDLES["forbidden"], tmp_path / "bundle")
    program = (
        "import sys, hashlib; from pathlib import Path; "
        "from statediff.evidence.package import load; "
        "from statediff.reports.html import trial_html; "
        "print(hashlib.sha256(trial_html(load(Path(sys.argv[1]))).encode()).hexdigest())"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "bundle")], check=True,
            capture_output=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "TZ": zone, "PYTHONPATH": str(CHECKOUT)},
        ).stdout.decode().strip()
        for seed, zone in (("1", "UTC"), ("2", "Asia/Tokyo"))
    }  # fmt: skip
    assert said == {hashlib.sha256(trial_html(BUNDLES["forbidden"]).encode()).hexdigest()}


@pytest.mark.parametrize(
    "broken",
    [
        {"judgement.json": b"[]"}, {"judgement.json": b"{}"}, {"trace.json": b"null"},
        {"fragments.json": b"[]"}, {"fragments.json": b"[null]"}, {"captures.json": b"{}"},
        {"answer.json": b'{"answer":["text"]}'}, {"trial.json": b"[]"}, {"schema.json": b"{}"},
        {"timeline.json": b'{"unsettled":[]}'}, {"judgement.json": b'{"verdict":"MAYBE"}'},
    ],
)  # fmt: skip
def test_a_bundle_that_contradicts_itself_is_an_error_that_names_it(
    broken: dict[str, bytes],
) -> None:
    bundle = BUNDLES["match"]
    with pytest.raises(BundleError, match="here"):
        trial_html(Bundle(bundle.manifest, {**bundle.files, **broken}), "here")


def test_a_contract_that_this_version_cannot_bind_is_still_shown() -> None:
    bundle = BUNDLES["match"]
    made = Page(trial_html(Bundle(bundle.manifest, {**bundle.files, "contract.yaml": b"x: [\n"})))
    assert "x: [" in made.sections["contract"]
    assert "cannot read the contract" in made.sections["task"]
    assert "1 ✓ required" in made.sections["changes"]


# ---------------------------------------------------------------- a run


def test_a_run_counts_every_scheduled_trial_and_says_the_first_reason_of_each() -> None:
    outcomes = [
        outcome(BUNDLES["match"], "t-10", linked=True),
        outcome(BUNDLES["forbidden"], "t-2", linked=True),
        outcome(BUNDLES["unknown"], "t-1", linked=False),
        fault("t-3", "the outbox did not start"),
    ]
    made = Page(run_html("a run", outcomes, 6, [("Python", "3")]))
    assert "1 of 6 scheduled trials matches." in made.sections["header"]
    assert "1 ✗ DIVERGE 1 ! FAULT 1 ? INCONCLUSIVE 2 – NOT RUN 1 ✓ MATCH" in made.sections["header"]
    shown = made.sections["trials"]
    assert "Something forbidden happened: user 2 deleted no-users" in shown
    assert "the outbox did not start" in shown
    assert "1/1 0/1" not in made.sections["matrix"]
    assert "fails no-users tests/world 1 trial" in made.sections["clauses"].replace("✗ ", "")
    links = [attrs["href"] for tag, attrs in made.tags if tag == "a"]
    assert sorted(set(links)) == ["#main", "trials/t-10/report.html", "trials/t-2/report.html"]
    assert links.count("trials/t-10/report.html") == 1  # nothing of it fails


def test_a_run_counts_calls_one_by_one_and_beside_how_each_trial_ended() -> None:
    right, wrong = (outcome(BUNDLES[name], name, linked=True) for name in ("match", "forbidden"))
    assert "Calls" not in Page(run_html("r", [right, wrong], 2, [])).sections["facts"]
    made = Page(
        run_html(
            "r",
            [
                replace(right, trial="t-1", calls=SpanCounts(12, 1, 2)),
                replace(right, trial="t-2", calls=SpanCounts(3)),
                replace(wrong, trial="t-3", calls=SpanCounts(2)),
                right,
            ],
            4,
            [],
        )
    )
    shown = made.sections["trials"]
    assert "1 wrong, 2 not known, of 12" in shown
    facts = made.sections["facts"]
    assert "Calls 1 wrong, 2 not known, of 17" in facts
    assert "Right end, wrong call 1 of 3" in facts
    assert "Wrong end, right calls 1 of 3" in facts


@pytest.mark.parametrize(
    "name", ["javascript:alert(1)", "../..", "//evil.example", "a b#?c", "\u202e"]
)
def test_the_address_of_a_trial_never_leaves_the_run(name: str) -> None:
    made = Page(run_html("r", [outcome(BUNDLES["match"], name, linked=True)], 1, []))
    [_, link] = [attrs["href"] or "" for tag, attrs in made.tags if tag == "a"]
    assert re.fullmatch(r"trials/[A-Za-z0-9%._~-]+/report\.html", link)


# ---------------------------------------------------------------- the picture's bounds


def test_a_neighbour_that_changed_and_is_not_drawn_says_so() -> None:
    many = 60
    before = {"user": [user(n) for n in range(many)],
              "item": [item(n, 1, owner=n) for n in range(many)]}  # fmt: skip
    changed = {"user": [user(n, name="New") for n in range(many)],
               "item": [item(n, 2, owner=n) for n in range(many)]}  # fmt: skip
    body = "allow:\n  - {update: user}\nforbid:\n  - {id: none, update: item}\n"
    text = trial_html(run(body, before, changed, timeline=TIMELINE).bundle)
    assert text.count("changed too, not drawn") == 40
    assert "60 more changed entities are not drawn (60 allowed)" in text
    assert "20 more neighbors are not drawn." in text


def test_an_open_frame_leaves_changes_open_and_says_why() -> None:
    body = "frame: {open: others work here}\nrequire:\n  - {id: one, update: item}\n"
    after_ = {"user": [user(1, name="New"), user(2, name="Bo")], "item": [item(1, 5, owner=1)]}
    made = Page(trial_html(run(body, BEFORE, after_, timeline=TIMELINE).bundle))
    assert "1 – left open" in made.sections["changes"]
    assert "others work here" in made.sections["clauses"]
    assert "unexplained" not in made.sections


def test_a_kept_template_that_is_damaged_is_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy kept beside our modules is only a copy: never wrong, whatever becomes of it."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(
        "statediff.reports.html.page.cache_from_source", lambda _: str(tmp_path / "x")
    )
    bundle = BUNDLES["match"]
    _environment.cache_clear()
    first = trial_html(bundle)
    for damage in (b"", b"no code", None):
        _environment.cache_clear()
        kept = sorted(tmp_path.glob("*.template"))
        assert kept
        for path in kept:
            path.write_bytes(path.read_bytes()[:-9] if damage is None else damage)
        assert trial_html(bundle) == first
        assert all(len(path.read_bytes()) > 999 for path in tmp_path.glob("*.template"))
