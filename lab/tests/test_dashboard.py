"""The dashboard: figures by the database, hostile names as text, a desk that only reads."""

from __future__ import annotations

import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from statediff_lab.comparison import CaseChange
from statediff_lab.dashboard.comparing import Pair, comparison_page
from statediff_lab.dashboard.page import board_page
from statediff_lab.dashboard.parts import KIND, Choice
from statediff_lab.dashboard.server import DashboardServer, choice_of
from statediff_lab.dashboard.trials import trials_page

from statediff.errors import BundleError
from statediff.evidence.package import Bundle
from statediff.reports.html.page import MARK, policy
from statediff.reports.loopback import parse_query
from statediff.suite.overview import PAGE, find_trials
from statediff.suite.records import Ended, Loose, Run, Trial
from statediff.suite.store import Store, file_url, open_store

HOSTILE = "<script>alert(1)</script>\u202e'\"&"
AGENTS = ("careful", HOSTILE)
FAILS = Loose("nothing-deleted", "forbidden-change", "forbid", "FAILS")
OPEN = Loose("told", "source-unread", "require", "UNKNOWN")


def fill(store: Store, runs: int, each: int) -> None:
    """Each run tries two contracts with two agents; a quarter ends in each verdict, or none."""
    ends = (Ended.MATCH, Ended.DIVERGE, Ended.INCONCLUSIVE, Ended.FAULT)
    for number in range(runs):
        run = f"{number:032d}"
        store.put_run(
            Run(
                run,
                f"file://elsewhere/run-{number}",
                name=f"run-{number}",
                statediff="0",
                kernel="4",
                facts="{}",
                contracts=(),
                times=0,
                agents=(),
            )
        )
        store.put_trials([
            Trial(
                run, f"{contract[:4]}-{AGENTS.index(agent)}-{at}", end, contract=contract,
                version="1.0.0", digest="d" * 64, kernel="4", agent=agent, number=at,
                started_at=f"2026-11-{number + 1:02d}T10:00:00+00:00",
                agent_microseconds=1_500_000, cost_nano=2_500_000,
                calls=4, calls_wrong=int(end is Ended.DIVERGE),
                loose={Ended.DIVERGE: (FAILS,), Ended.INCONCLUSIVE: (OPEN,)}.get(end, ()),
                why="" if end.has_verdict else f"no reset {HOSTILE}",
                cause="" if end.has_verdict else "sandbox",
            )
            for contract in ("shop/refund", f"notes/{HOSTILE}")
            for agent in AGENTS
            for at in range(each)
            for end in [ends[at % 4]]
        ])  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with open_store(file_url(tmp_path_factory.mktemp("store") / "store.sqlite")) as made:
        fill(made, runs=3, each=40)
        yield made


def words(page: str) -> str:
    """The text of the page, without its markup."""
    body = re.sub(r"<title>.*?</title>", "", page[page.index("<body>") :])
    return " ".join(re.sub(r"<[^>]+>", " ", body).split())


def test_every_figure_is_over_all_that_was_scheduled(store):
    said = words(board_page(store, None, "all"))
    assert "480 scheduled trials of 2 contracts in 2 domains." in said
    assert "120 of 480" not in said  # no headline over several domains
    assert "shop careful 30/120" in said
    assert (
        "120 ✓ MATCH 120 ✗ DIVERGE 120 ? INCONCLUSIVE 120 ! FAULT of 480 scheduled, in several"
        in said
    )
    assert "shop/refund 1.0.0 30/120" in said  # of each agent, over three runs
    assert "nothing-deleted 60" in said  # under each contract
    assert "Without a verdict never counted as passed FAULT 120" in said
    # In each domain 120 trials of each agent at 0.0025, of which 30 match.
    assert said.count("30/120 0.3000 0.0100 1.50 s") == 4
    one = words(board_page(store, ["0" * 32], "one"))
    assert "160 scheduled trials" in one
    assert "Over time" in said
    assert "Over time" not in one


def test_names_that_would_act_are_text_and_the_page_is_closed(store):
    page = board_page(store, None, HOSTILE, "/secret")
    assert page.startswith(MARK)
    assert "<script>alert" not in page
    assert "\u202e" not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") > 3
    assert policy(KIND) in page
    # Whatever acts leads into the desk; what is named in it is quoted.
    links = re.findall(r'href="([^"]*)"', page)
    ours = ("/secret/trials", "/secret/compare", "/secret/?run=")
    assert all(link == "#main" or link.startswith(ours) for link in links)
    assert any("%3Cscript%3E" in link for link in links)
    assert not re.findall(r'href="/', board_page(store, None, "one file"))


def test_the_page_is_the_same_for_the_same_store(store):
    assert board_page(store, None, "x") == board_page(store, None, "x")


def test_no_trial_is_no_success():
    with open_store("sqlite://") as empty:
        page = board_page(empty, None, "nothing")
    assert "No trial was scheduled yet." in words(page)
    assert 'class="banner dash fault"' in page


def test_trials_are_listed_a_page_at_a_time_by_what_was_chosen(store):
    names = {f"{n:032d}": f"run-{n}" for n in range(3)}
    chosen = Choice(agent=HOSTILE, ended=Ended.DIVERGE, clause="nothing-deleted")
    listed = trials_page(store, None, chosen, "/r", 0, names)
    assert listed.count("<tr data-row>") == 60
    assert words(listed).count("Calls: 1 wrong, of 4") == 60
    assert "Later" not in listed
    first = trials_page(store, None, Choice(), "/r", 0, names)
    last = trials_page(store, None, Choice(), "/r", 4, names)
    assert (first.count("<tr data-row>"), last.count("<tr data-row>")) == (PAGE, 80)
    assert ("Later" in first, "Earlier" in first) == (True, False)
    assert ("Later" in last, "Earlier" in last) == (False, True)
    # A trial without a verdict has no report, and says why.
    faults = trials_page(store, None, Choice(ended=Ended.FAULT), "/r", 0, names)
    assert "/report?" not in faults
    assert "no reset" in faults
    assert "No trial fits." in trials_page(store, None, Choice(agent="nobody"), "/r", 0, names)


def test_trials_are_chosen_by_anything_and_sorted_with_what_is_unknown_last(store):
    names = {f"{n:032d}": f"run-{n}" for n in range(3)}

    def listed(**wanted: Any) -> str:
        return words(trials_page(store, None, Choice(**wanted), "/r", 0, names))

    page = listed(domain="shop", agent="careful", code="forbidden-change", run=f"{1:032d}")
    assert page.count("✗ DIVERGE shop-0-") == 10
    assert "a change that is forbidden, whatever else explains it nothing-deleted" in page
    assert "1.50 s 0.0025" in page
    assert "No trial fits." in listed(domain="sho")
    assert "No trial fits." in listed(clause="told", code="forbidden-change")
    first = trials_page(store, None, Choice(sort="cost"), "/r", 0, names)
    heads = dict(re.findall(r'<th scope="col"(?: aria-sort="\w+")?><a href="([^"]*)">(\w+)', first))
    assert heads["/r/trials?sort=cost&amp;down=1"] == "Cost"
    with open_store("sqlite://") as few:
        fill(few, runs=1, each=1)
        cheap, dear, unknown = (f"{n}" for n in (1, 2, 3))
        few.put_trials([
            Trial(f"{0:032d}", name, Ended.MATCH, contract="shop/x", cost_nano=cost)
            for name, cost in ((unknown, None), (cheap, 1), (dear, 10**12))
        ])  # fmt: skip
        for is_down, order in ((False, [cheap, dear, unknown]), (True, [dear, cheap, unknown])):
            chosen = Choice(contract="shop/x", sort="cost", is_down=is_down)
            found = find_trials(few, chosen)
            assert [place.trial.name for place in found] == order


def test_a_choice_leads_back_to_itself_whatever_is_in_it(store):
    """A shared link shows what its sender saw: every field survives the address."""
    chosen = Choice(
        run=f"{0:032d}", domain="notes", contract=f"notes/{HOSTILE}", agent=HOSTILE,
        ended=Ended.DIVERGE, clause="nothing-deleted", code="forbidden-change", levels="steps",
        sort="time", is_down=True,
    )  # fmt: skip
    address = chosen.link("/r", 2)
    query = parse_query(address.partition("?")[2], 16)
    assert choice_of(query) == chosen
    page = trials_page(store, None, chosen, "/r", 0, {f"{0:032d}": HOSTILE})
    assert "<script>alert" not in page
    assert 'name="sort" value="time"' in page


def test_two_runs_stand_side_by_side_by_domain_with_what_changed(store):
    names = {f"{n:032d}": f"run-{n}" for n in range(3)}
    a, b = sorted(names)[:2]
    unsaid = words(comparison_page(store, Pair(a, b), "/r", 0, names))
    assert "Choose an agent of A and of B" in unsaid
    pair = Pair(a, b, "careful", "careful")
    page = words(comparison_page(store, pair, "/r", 0, names))
    assert "40 both pass" not in page
    assert "20 both pass" in page
    assert "20 no verdict" in page
    assert "notes A 10/40" in page
    assert "shop 20 decided: +0.0 points passed" in page
    one = comparison_page(
        store, Pair(a, b, "careful", "careful", CaseChange.BOTH_FAIL), "/r", 0, names
    )
    assert one.count("Both side by side") == 20
    passed = Pair(a, b, "careful", "careful", CaseChange.BOTH_PASS)
    assert comparison_page(store, passed, "/r", 0, names).count("Both side by side") == 20
    assert "<script>alert" not in one
    with open_store("sqlite://") as few:
        for run, end in ((a, Ended.MATCH), (b, Ended.DIVERGE)):
            few.put_run(Run(run, f"file://h/{run}", name=run, statediff="0", kernel="4", facts="{}",
                            contracts=(), times=0, agents=()))  # fmt: skip
            loose = (FAILS,) if end is Ended.DIVERGE else ()
            few.put_trials([Trial(run, "t-1", end, contract=f"s/{HOSTILE}", agent="x", number=1,
                                  loose=loose)])  # fmt: skip
        page = words(comparison_page(few, Pair(a, b), "/r", 0, names))
    assert "1 regressed" in page
    assert "only in B nothing-deleted: a change that is forbidden" in page


@pytest.fixture
def desk(store: Store) -> Iterator[DashboardServer]:
    def fetch(location: str, name: str) -> Bundle:
        raise BundleError(f"{location}: {name} is on another machine")

    server = DashboardServer(store, [f"{n:032d}" for n in range(2)], "two runs", fetch)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def ask(server: DashboardServer, path: str, **headers: str) -> tuple[int, str]:
    request = urllib.request.Request(f"{server.origin}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def test_the_desk_opens_once_shows_its_runs_and_nothing_else(desk):
    assert ask(desk, "/")[0] == 404
    status, page = ask(desk, "/enter/" + desk.link.rpartition("/")[2])
    assert (status, "320 scheduled trials of" in words(page)) == (200, True)
    assert ask(desk, "/enter/" + desk.link.rpartition("/")[2])[0] == 403
    assert ask(desk, f"{desk.root}/", Host="evil.example")[0] == 421
    assert ask(desk, f"{desk.root}/", **{"Sec-Fetch-Site": "cross-site"})[0] == 403
    assert ask(desk, f"{desk.root}/trials?run={0:032d}")[0] == 200
    hidden = f"{2:032d}"  # is in the store, and not on this dashboard
    assert ask(desk, f"{desk.root}/trials?run={hidden}")[0] == 404
    assert ask(desk, f"{desk.root}/report?run={hidden}&name=x")[0] == 404
    assert ask(desk, f"{desk.root}/trials?ended=WON")[0] == 400
    for bad in ("trials?page=-1", "trials?sort=luck", "trials?levels=both", "compare?change=luck"):
        assert ask(desk, f"{desk.root}/{bad}")[0] == 400
    assert ask(desk, f"{desk.root}/compare?a={0:032d}&b={hidden}")[0] == 404
    assert ask(desk, f"{desk.root}/case?a={0:032d}&b={hidden}&name_a=x&name_b=x")[0] == 404
    assert ask(desk, f"{desk.root}/?run={hidden}")[0] == 404
    assert "160 scheduled trials" in words(ask(desk, f"{desk.root}/?run={1:032d}")[1])
    assert "Run A" in words(ask(desk, f"{desk.root}/compare?a=&b=")[1])
    assert ask(desk, f"{desk.root}/trials?" + "&".join(f"a{n}=1" for n in range(19)))[0] == 400
    assert ask(desk, f"{desk.root}/nothing")[0] == 404
    status, page = ask(desk, f"{desk.root}/report?run={0:032d}&name=shop-0-0")
    assert (status, "is on another machine" in page) == (500, True)
    request = urllib.request.Request(f"{desk.origin}{desk.root}/", data=b"x", method="POST")
    with pytest.raises(urllib.error.HTTPError, match="501"):
        urllib.request.urlopen(request, timeout=20)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_a_browser_shows_it_without_a_request_a_word_or_overflow(
    store, opened, tmp_path: Path, width: int, scheme: str
):
    path = tmp_path / "board.html"
    path.write_text(board_page(store, None, HOSTILE), encoding="utf-8")
    shown: Any = opened(path, viewport={"width": width, "height": 900}, color_scheme=scheme)
    assert shown.requests == [path.as_uri()]
    assert (shown.said, shown.dialogs, shown.overflow) == ([], [], 0)
    shown.page.fill("#filter", "refund")
    shown.page.wait_for_selector("tr[data-row][hidden]", state="attached")
    assert shown.page.locator("#matrix tr[data-row]:not([hidden])").count() == 1


def test_ten_thousand_trials_are_light(tmp_path):
    with open_store(file_url(tmp_path / "many.sqlite")) as many:
        fill(many, runs=5, each=500)
        began = time.process_time()
        page = board_page(many, None, "many", "/r")
        took = time.process_time() - began
    assert len(page) < 200_000
    assert took < 1.0
