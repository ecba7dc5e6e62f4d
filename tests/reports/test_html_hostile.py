"""Whatever a run wrote, its page is text: shown in a real Chromium, it does nothing."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from statediff_lab.dashboard.comparing import JudgedSide, Pair, case_page, comparison_page
from statediff_lab.dashboard.parts import address

from statediff.evidence.canonical import write
from statediff.evidence.package import Bundle
from statediff.model.trace import Action, Trace
from statediff.model.values import Map, decode, encode
from statediff.reports.ending import agent_record
from statediff.reports.html import fault, outcome, run_html, trial_html
from statediff.reports.html.beside import Beside, run_neighbor, trial_neighbor
from statediff.reports.html.cells import cell
from statediff.reports.html.page import visible
from statediff.suite.records import Ended, Loose, Run, Trial
from statediff.suite.store import open_store
from tests.judging import CUT, TIMELINE, item, run, state, user

ATTACK = (
    "</script></style></title></textarea></svg>--><script>pwned=1</script>"
    '<svg/onload=pwned=1>"><img src=https://evil.example/x onerror=pwned=1>'
    "' onmouseover='pwned=1' javascript:pwned=1 {{7*7}}{% raw %}${7*7}&lt;b&gt;&#x3c;i&#x3e; "
    "<style>*{display:none}</style><a href=javascript:pwned=1>x</a><base href=https://evil.example>"
    "\u202egnp\u2066\u200b\ufeff\u0000\r\n\u2028\U000e0041 ﷽ a\u0301\u0302"
)
HIDING = "\u202e\u2066\u200b\ufeff\u0000\u2028\U000e0041"
SHOWN = ("<script>pwned=1</script>", "{{7*7}}{% raw %}${7*7}", "&lt;b&gt;&#x3c;i&#x3e;", "\\u202e")
OURS = (
    r"#[a-z0-9-]+|/r/[a-z]*(\?[\w.~%&=+-]*)?"
    r"|trials/[^/]+/report\.html|\.\./[^/]+/report\.html|\.\./\.\./report\.html"
)
"""Parts of the page, addresses of the dashboard with what they quote, and pages of trials."""
KEPT = frozenset({
    "HOLDS", "FAILS", "UNKNOWN", "MATCH", "DIVERGE", "INCONCLUSIVE", "forbid", "frame", "require",
    "answer", "create", "update", "delete", "before", "after", "PRESENT", "ABSENT", "UNOBSERVED",
    "boundary", "canonicalization", "complete", "incomplete", "unobserved", "scan",
})  # fmt: skip
TAGS = frozenset({
    "null", "absent", "excluded", "unobserved", "bool", "int", "decimal", "float", "text", "bytes",
    "local_timestamp", "timestamp", "date", "list", "map",
})  # fmt: skip
REASON = json.dumps("x" + ATTACK[: ATTACK.index(HIDING[0])])
CONTRACT = f"""\
exclude: [{{what: user.name, because: {REASON}}}]
forbid:
  - {{id: no-users, delete: user}}
require:
  - {{id: made, create: item, count: {{min: 1}}, that: 'sum(i.n for i in them) == 3'}}
answer:
  schema: {{n: int}}
  claims:
    - answer.n == 1
"""


def attacked(document: Any, *, is_name: bool = False) -> Any:
    """The document with every string in it attacked but those that have a fixed set of values."""
    match document:
        case str() if is_name or document in KEPT or re.fullmatch(r"[0-9]+/[0-9]+", document):
            return document
        case str():
            return f"{document}{ATTACK}"
        case ["text", str(text)]:
            return ["text", text + ATTACK]
        case ["excluded" | "unobserved" as tag, str(text)]:
            return [tag, text + ATTACK]
        case ["map", list(members)]:
            return ["map", [[name + ATTACK, attacked(value)] for name, value in members]]
        case ["list", list(items)]:
            return ["list", [attacked(value) for value in items]]
        case [str(tag), *_] if tag in TAGS and len(document) <= 2:
            return document
        case list():
            return [attacked(part) for part in document]
        case dict():
            return {name: attacked(part) for name, part in document.items()}
        case _:
            return document


def real(kind: str) -> Bundle:
    """A judged trial in which everything that a run can choose is an attack."""
    before = {"user": [user(1, name=ATTACK), user(2)], "item": [item(1, t=ATTACK, owner=1)]}
    after: Any = {
        "user": [user(1, name="x")],
        "item": [item(1, t=ATTACK[::-1], owner=1), item(2, 3, t="A" * 2_000_000, owner=1)],
    }
    if kind == "unknown":
        after = state(after, {"user": CUT})
    return run(CONTRACT, before, after, answer={"n": 2, ATTACK: ATTACK}, timeline=TIMELINE).bundle


def forged(kind: str) -> Bundle:
    """The same with every other string attacked too: types, clauses, causes, the contract."""
    bundle = real(kind)
    trace = Trace((Action("a", "t", arguments=Map.of({"x": ATTACK}), result=ATTACK, error="e",
                          principal="p"),), cause="c")  # fmt: skip
    from statediff.evidence.documents import trace_document  # noqa: PLC0415

    documents = {n: bundle.document(n) for n in bundle.files if n.endswith(".json")}
    documents["trace.json"] = trace_document(trace)
    documents["trial.json"] = {**documents["trial.json"], "sandbox": "s", "receipt": {
        "ok": False, "sandbox": "s", "version": "1", "entities": "many", "proofs": []}}  # fmt: skip
    files = {name: write(attacked(document)) for name, document in documents.items()}
    files["contract.yaml"] = ATTACK.encode()
    manifest = {
        name: value if name in ("files", "format", "verdict") else attacked(value)
        for name, value in bundle.manifest.items()
    }
    return Bundle(manifest, files)


BESIDE = Beside(
    agent=agent_record({
        "exit_code": 1, "error": ATTACK, "started_at": ATTACK, "finished_at": 7,
        "stdout": {"text": ATTACK}, "stderr": {"text": ATTACK * 200}, "usage": {"cost": ATTACK},
    }),
    run=run_neighbor(ATTACK), earlier=trial_neighbor("../" + ATTACK), later=trial_neighbor("/../y"),
)  # fmt: skip


def compared() -> str:
    """The dashboard's comparison of two runs in which every text is an attack."""
    with open_store("sqlite://") as store:
        for run_id, end in (("a", Ended.MATCH), ("b", Ended.DIVERGE)):
            store.put_run(Run(run_id, f"file://h/{run_id}", name=ATTACK, statediff="0", kernel="4",
                              facts="{}", contracts=(), times=0, agents=()))  # fmt: skip
            loose = (Loose(ATTACK, ATTACK, "frame", "FAILS"),) if end is Ended.DIVERGE else ()
            store.put_trials([
                Trial(run_id, f"{at}{ATTACK}", end, contract=f"d{ATTACK}/x", agent=f"{at}{ATTACK}",
                      number=1, loose=loose)
                for at in range(2)
            ])  # fmt: skip
        pair = Pair("a", "b", f"0{ATTACK}", f"1{ATTACK}")
        names = {"a": ATTACK, "b": f"b{ATTACK}"}
        return comparison_page(store, pair, "/r", 0, names)


def side(kind: str) -> JudgedSide:
    return JudgedSide(ATTACK, address("/r", "report", {"name": ATTACK}), real(kind))


PAGES = {
    "compared": compared(),
    "case": case_page(side("forbidden"), side("unknown"), "/r"),
    **{f"real-{kind}": trial_html(real(kind), beside=BESIDE) for kind in ("forbidden", "unknown")},
    **{f"forged-{kind}": trial_html(forged(kind)) for kind in ("forbidden", "unknown")},
    "run": run_html(
        ATTACK, [outcome(forged("forbidden"), ATTACK, linked=True), fault(ATTACK, ATTACK)], 3,
        [(ATTACK, ATTACK)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", PAGES)
@pytest.mark.parametrize("has_script", [True, False])
def test_nothing_of_it_runs_loads_or_hides(
    opened: Any, tmp_path: Path, kind: str, has_script: bool
) -> None:
    path = tmp_path / "page.html"
    path.write_text(PAGES[kind], encoding="utf-8")
    made = opened(path, java_script_enabled=has_script)
    made.page.wait_for_timeout(100)
    assert made.requests == [path.as_uri()]
    assert made.said == []
    assert made.dialogs == []
    text = made.page.content()
    for sign in ("<img", "<iframe", "<base", 'onmouseover="', 'onerror="'):  # as elements
        assert sign not in text
    if not has_script:
        return
    assert made.page.evaluate("typeof pwned") == "undefined"
    ours = 2 if kind == "run" else 1  # its table has a module of its own
    assert made.page.evaluate("document.scripts.length") == ours
    assert made.page.evaluate("document.querySelectorAll('style').length") == 1
    assert (
        made.page.evaluate("""[...document.querySelectorAll('*')].flatMap(e =>
        [...e.attributes].filter(a => /^on|^style$|^src|^action$|^xlink/.test(a.name)
          && !(a.name === 'action' && a.value === '/r/compare')))""")
        == []
    )
    links = made.page.evaluate("[...document.links].map(a => a.getAttribute('href'))")
    assert all(re.fullmatch(OURS, link, re.DOTALL) for link in links)
    for element in made.page.query_selector_all("a[href^='#'], summary, .tools button")[:40]:
        element.evaluate("e => { e.focus(); e.click(); }")
    assert made.page.evaluate("typeof pwned") == "undefined"
    shown = made.page.evaluate("document.body.textContent")
    for literal in SHOWN[:1] if kind in ("compared", "case") else SHOWN:
        assert literal in shown
    assert not set(HIDING) & set(shown)
    assert made.page.locator("h1").is_visible()
    assert made.requests == [path.as_uri()]


@pytest.mark.parametrize("kind", PAGES)
@pytest.mark.parametrize("width", [390, 1280])
def test_no_text_makes_the_page_wider_than_its_window(
    opened: Any, tmp_path: Path, kind: str, width: int
) -> None:
    path = tmp_path / "page.html"
    path.write_text(PAGES[kind], encoding="utf-8")
    made = opened(path, viewport={"width": width, "height": 800})
    made.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
    assert made.overflow == 0


@pytest.fixture
def beacon() -> Iterator[tuple[str, list[str]]]:
    """A server that whatever leaves the page would reach, and the paths it was asked for."""
    asked: list[str] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/", asked
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("has_policy", [True, False])
def test_the_policy_alone_stops_what_would_get_through(
    opened: Any, tmp_path: Path, beacon: tuple[str, list[str]], has_policy: bool
) -> None:
    path = tmp_path / "page.html"
    address, asked = beacon
    hole = (
        f"<script>pwned=1</script><img src={address}i onerror=pwned=1><style>body{{display:none}}"
        f"</style><script src={address}s></script><iframe src={address}f></iframe>"
        f"<link rel=stylesheet href={address}c><svg onload=pwned=1></svg><object data={address}o>"
        f"</object><p style='background:url({address}b)'>x</p>"
    )
    page = PAGES["run"].replace("</main>", hole + "</main>")
    if not has_policy:  # the holes are holes: without the policy they are used
        page = page.replace('http-equiv="Content-Security-Policy"', 'name="x"')
    path.write_text(page, encoding="utf-8")
    made = opened(path)
    made.page.wait_for_timeout(300)
    if has_policy:
        assert made.page.evaluate("typeof pwned") == "undefined"
        assert asked == []
        assert made.page.locator("h1").is_visible()
    else:
        assert made.page.evaluate("pwned") == 1
        assert set("isfc") <= {path[1:] for path in asked}


def test_a_huge_value_is_shortened_and_says_its_size() -> None:
    assert "2,000,000 characters in all" in PAGES["real-forbidden"]
    assert max(map(len, PAGES.values())) < 500_000
    assert cell(tuple(range(10**6))).note == "shortened; 1,000,000 items in all"
    assert cell(b"\x00" * 5000).note == "5,000 bytes"


def test_what_hides_is_spelled_out_and_what_does_not_is_left_alone() -> None:
    assert visible("a\u202eb") == "a\\u202eb"
    assert visible("Łódź ﷽ 日本 — “x”") == "Łódź ﷽ 日本 — “x”"
    assert visible(7) == "7"


def test_attacked_bundles_are_what_they_claim_to_be() -> None:
    """Every string that a run can choose carries the attack, so that the tests above are of use."""
    judged = forged("forbidden").document("judgement.json")
    for part in (judged["clauses"][0]["clause"], judged["findings"][0]["code"],
                 judged["deltas"][0]["type"], judged["explained_by"][0][0]):  # fmt: skip
        assert ATTACK in part
    value = judged["deltas"][0]["before"]["value"]
    assert encode(decode(value)) == value
    assert hashlib.sha256(PAGES["forged-forbidden"].encode()).hexdigest() == (
        hashlib.sha256(trial_html(forged("forbidden")).encode()).hexdigest()
    )
