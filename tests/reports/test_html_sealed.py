"""A report that carries its sealed copy verifies it in a real Chromium, by the second verifier."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from statediff.evidence import verify as v
from statediff.evidence.checkpoints import checkpoint, proof_of
from statediff.evidence.keys import trust_entry
from statediff.evidence.log import read_log, record_entry, seal_record
from statediff.evidence.seal import Sealed, at_tier, redact, seal
from statediff.reports.html import copy_html, sealed_html, trial_html
from statediff.reports.html.page import policy
from statediff.reports.html.sealed import SEALED, VERIFIER
from tests.evidence.test_seal import SECRET, SEED, bundle
from tests.growing_logs import ADA, EVE, NOON, TRUST
from tests.reports.test_html import Page

BUNDLE = bundle(4)
WHOLE = seal(BUNDLE, SEED, NOON, ADA.public, ADA.sign)
VERIFIED = v.verify(WHOLE.files, TRUST)
PUBLIC = redact(WHOLE, VERIFIED, at_tier("public"))


def trust(key: Any = ADA, roles: tuple[str, ...] = ("evaluator",), **changed: Any) -> str:
    entry = {**trust_entry("Ada", key.public, roles), **changed}
    return json.dumps({"format": v.TRUST, "keys": [entry]})


def page(sealed: Sealed = WHOLE) -> str:
    return sealed_html(BUNDLE, sealed, VERIFIED)


def public() -> str:
    return copy_html(PUBLIC, v.verify(PUBLIC.files, TRUST))


@pytest.fixture
def answer(opened: Any, tmp_path: Path) -> Any:
    """A function for what a page says of itself once it is given a trust file."""

    def ask(text: str, given: str) -> str:
        path = tmp_path / "page.html"
        path.write_text(text, encoding="utf-8")
        made = opened(path)
        box = made.page.locator("p[data-check]")
        expect(box).to_contain_text("NOT CHECKED YET")
        made.page.fill("#trust-text", given)
        expect(box).not_to_contain_text("NOT CHECKED YET")
        assert made.requests == [path.as_uri()]
        assert made.said == []
        said = str(box.text_content())
        assert said in str(made.page.locator(".sealed-by").text_content())  # at the top as well
        return said

    return ask


def test_a_page_that_is_as_it_was_sealed_says_so(answer: Any) -> None:
    said = answer(page(), trust())
    assert said.startswith("✓ VALID sealed by Ada at 2026-03-01T12:00:00+00:00")


def test_a_page_says_which_log_has_what_it_shows(answer: Any) -> None:
    log = read_log(record_entry(read_log(b""), seal_record(WHOLE, VERIFIED), NOON) + b"\n")
    proof = proof_of(log, 0, checkpoint(log, "verdicts", NOON, ADA), 1)
    logged = Sealed({**WHOLE.files, v.PROOF: proof})
    said = answer(page(logged), trust())
    assert "VALID" in said
    assert ", entry 0 of the log verdicts since 2026-03-01T12:00:00+00:00;" in said
    forged = Sealed({**WHOLE.files, v.PROOF: proof.replace(b"index 0", b"index 1")})
    assert "INVALID" in answer(page(forged), trust())


def test_a_public_page_is_genuine_and_says_what_it_rests_on(answer: Any) -> None:
    said = answer(public(), trust())
    assert "NOT_REPLAYABLE_AT_TIER" in said
    assert "sealed by Ada" in said
    assert "withheld" in said


def with_files(text: str, change: Any) -> str:
    """The page with one of its embedded files changed."""

    def replaced(found: re.Match[str]) -> str:
        files = {found[1]: base64.b64decode(found[2])}
        return f'data-sealed="{found[1]}">{base64.b64encode(change(*files.popitem())).decode()}<'

    return re.sub(r'data-sealed="([a-z.]+)">([^<]+)<', replaced, text)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (b'"verdict":"DIVERGE"', b'"verdict":"MATCH"', "another manifest was signed"),
        (b"2026-03-01T12:00:00", b"2026-03-01T12:00:01", "another manifest was signed"),
        (b'"whispered"', b'"whisperee"', "leaves.json: "),
        (b'"sig":"', b'"sig":"AAAA', ""),
        (b'{"disclosed"', b' {"disclosed"', "canonical form"),
    ],
)
def test_a_page_whose_copy_was_changed_is_invalid_and_says_why(
    answer: Any, old: bytes, new: bytes, why: str
) -> None:
    changed = with_files(page(), lambda _name, data: data.replace(old, new, 1))
    assert changed != page()
    said = answer(changed, trust())
    assert said.startswith("✗ INVALID")
    assert why in said


EDITS = {
    "another verdict beside it": ("</h1>", "</h1><h1>APPROVED</h1><p>all is well</p>"),
    "another sentence": ("<main ", "<p>The run is APPROVED</p><main "),
    "a lead": ('<p class="lead">', '<p class="lead">In fact APPROVED. '),
    "a value": ("whispered", "APPROVED by the customer"),
    "a panel of its own": ("<body>", '<body><div id="verified"><h1>APPROVED</h1></div>'),
    "a place to hide": (
        "<body>",
        "<body><details data-unverified data-own=x><h1>APPROVED</h1></details>",
    ),
    "nothing to see": ("<body>", "<body hidden inert>"),
    "a title": ("<title>", "<title>APPROVED "),
}


@pytest.mark.parametrize("edit", EDITS)
def test_once_verified_a_page_shows_what_was_signed_and_no_edit_of_it(
    opened: Any, tmp_path: Path, edit: str
) -> None:
    old, new = EDITS[edit]
    text = page().replace(old, new) if edit == "a value" else page().replace(old, new, 1)
    assert text != page()
    path = tmp_path / "page.html"
    path.write_text(text, encoding="utf-8")
    made = opened(path).page
    made.locator("#trust-text").evaluate(
        "(box, text) => { box.value = text; box.dispatchEvent(new Event('input')); }", trust()
    )
    expect(made.locator("body > #verified h1")).to_have_text("✗DIVERGE")
    shown = made.locator("body").inner_text()
    assert "VALID" in shown
    assert "APPROVED" not in shown
    assert "APPROVED" not in made.title()
    # The clauses and the counterexample are those of the leaves.
    assert made.locator("#verified .permits code").all_inner_texts() == [
        each["clause"] for each in BUNDLE.document("judgement.json")["clauses"]
    ]
    assert "item[" in made.locator("#verified").inner_text()
    assert "whispered" in made.locator("#verified").inner_text()
    assert '["' not in made.locator("#verified").inner_text()


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("<span data-verdict>DIVERGE</span>", "<span data-verdict>MATCH</span>", "shows MATCH"),
        ("tests/world 1.0.0</span>", "tests/world 2.0.0</span>", "tests/world 1.0.0"),
        ('</span>fails</span><span class="sentence">', '</span>holds</span><span class="sentence">',
         "clauses shown"),
        ("data-clause", "data-claus", "clauses shown"),
    ],
)  # fmt: skip
def test_a_page_that_shows_something_else_than_was_signed_is_invalid(
    answer: Any, old: str, new: str, why: str
) -> None:
    assert old in page()
    said = answer(page().replace(old, new, 1), trust())
    assert said.startswith("✗ INVALID")
    assert why in said


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (trust(EVE), "✗ INVALID envelope.json: "),
        (trust(roles=("reviewer",)), "✗ INVALID envelope.json: Ada is no evaluator"),
        (trust(until="2026-01-01T00:00:00+00:00"), "✗ INVALID envelope.json: key expired"),
        ("{}", "– NOT CHECKED That is no trust file"),
        ("<script>alert(1)</script>", "– NOT CHECKED That is no trust file"),
        (trust(name="<img src=x onerror=alert(1)>"), "✓ VALID sealed by <img src=x onerror"),
    ],
)
def test_only_the_readers_trust_file_says_whose_keys_count(
    answer: Any, given: str, said: str
) -> None:
    assert answer(page(), given).startswith(said)


@pytest.mark.parametrize("how", ["throws", "lies", "lacks"])
def test_a_browser_that_cannot_verify_says_so_and_never_valid(
    tmp_path: Path, chromium: Any, how: str
) -> None:
    hobbled = {
        "throws": "SubtleCrypto.prototype.importKey = async () => { throw new DOMException('x') }",
        "lies": "SubtleCrypto.prototype.verify = async () => false",
        "lacks": "Object.defineProperty(globalThis, 'crypto', {value: undefined})",
    }
    path = tmp_path / "page.html"
    path.write_text(page(), encoding="utf-8")
    context = chromium.new_context()
    context.add_init_script(hobbled[how])
    made = context.new_page()
    made.goto(path.as_uri())
    box = made.locator("p[data-check]")
    expect(box).to_contain_text("CANNOT VERIFY HERE")
    made.fill("#trust-text", trust())
    made.wait_for_timeout(200)
    expect(box).to_contain_text("CANNOT VERIFY HERE")
    context.close()


def test_a_trust_file_can_be_chosen_and_the_copy_saved(opened: Any, tmp_path: Path) -> None:
    path, keys = tmp_path / "page.html", tmp_path / "trust.json"
    path.write_text(page(), encoding="utf-8")
    keys.write_text(trust())
    made = opened(path, accept_downloads=True)
    made.page.set_input_files("#trust-file", str(keys))
    expect(made.page.locator("p[data-check]")).to_contain_text("VALID")
    made.page.click("body > details[data-unverified] > summary")
    for name, data in WHOLE.files.items():
        with made.page.expect_download() as waited:
            made.page.click(f"[data-save='{name}']")
        assert waited.value.suggested_filename == name
        assert Path(waited.value.path()).read_bytes() == data


def test_without_javascript_the_page_says_how_else_it_is_verified(
    opened: Any, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    path.write_text(page(), encoding="utf-8")
    made = opened(path, java_script_enabled=False)
    shown = str(made.page.locator("#verify").inner_text())
    assert "statediff verify COPY --trust trust.json" in shown
    assert v.key_id(ADA.public) in shown
    assert "VALID" not in made.page.locator("main").inner_text()


def test_the_policy_stays_closed_and_the_module_is_the_shipped_verifier() -> None:
    text = page()
    [module] = re.findall(r'<script type="module">(.*?)</script>', text, re.DOTALL)
    assert module.startswith(VERIFIER.read_text(encoding="utf-8"))
    assert f'content="{policy(SEALED)}"' in text
    assert "unsafe" not in policy(SEALED)
    assert "default-src 'none'" in policy(SEALED)
    assert policy(SEALED) != policy()
    assert "data-sealed" not in trial_html(BUNDLE)


def test_a_public_page_holds_nothing_that_the_public_may_not_see() -> None:
    text = public()
    whole = text + "".join(
        base64.b64decode(found).decode() for found in re.findall(r"data-sealed=\S+>([^<]+)<", text)
    )
    for secret in (str(SECRET), "whispered", '"item"', "item[", "answer.n == input.n"):
        assert secret not in whole
    shown = Page(text).sections
    assert "✗ fails made" in shown["clauses"]
    assert "counterexample" not in shown
    assert "auditor" in shown["withheld"]
