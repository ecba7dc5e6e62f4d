"""States between the calls of tools, of folders and repositories, which have no feed."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote

import pytest
from statediff_hosts.protocols.chat import Endpoint
from statediff_hosts.protocols.loop import LoopAgent
from statediff_hosts.protocols.mcp_agent import McpAgent

from statediff.agents.command import CommandAgent
from statediff.agents.trial import Budget, Prices
from statediff.capture.looks import Looks
from statediff.capture.source import clock
from statediff.capture.take import take
from statediff.contract.file import parse_contract
from statediff.kernel import replay
from statediff.model.readings import NO_FEED
from statediff.model.state import MemoryChunks
from statediff.model.trace import Mark
from statediff.model.verdict import Truth, Verdict
from statediff.packs import read_pack
from statediff.systems.base.sandbox import EmbeddedSandbox
from statediff.systems.files.source import FilesSource
from tests.agents.by_tools import Toolsmith
from tests.agents.chat_server import Step, speaking
from tests.tasks import live_trial
from tests.tasks import running as running  # noqa: PLC0414 - a fixture
from tests.traces import call, cut, log, own

HEAD = """contract: tests/between
version: 1.0.0
owner: tests
intent: what the test says
"""
FILES = HEAD + "sandbox: accounts\n"
REPO = HEAD + "sandbox: repo\n"
KEPT = "noop: true\nevidence: {exports: {history: required}}\n"
KEPT_REPO = "noop: true\nevidence: {origin: {history: required}}\n"
NOT_FOR_A_MOMENT = "noop: true\nforbid: [{id: c, create: report, during: run}]\n"
OPEN = "noop: true\nframe: {open: the test is about one clause}\n"


def tried(running, tmp_path, text, act):
    contract = parse_contract(text.encode(), "c.yaml")
    agent = Toolsmith(lambda call, _: act(call)) if callable(act) else act
    done = live_trial(running(contract.content.sandbox), contract, agent, tmp_path / "t")
    assert done.observed.run.error is None
    assert replay(done.evaluated.bundle) == done.evaluated.judgement
    return done


def a_file_and_back(call):
    call("exports_write", path="salaries.csv", content="1,2")
    call("exports_delete", path="salaries.csv")


def a_branch_and_back(call):
    call("origin_create_branch", name="feature/mine", at="main")
    call("origin_delete_branch", name="feature/mine")


@pytest.mark.parametrize(
    ("text", "act", "makers"),
    [
        (FILES + KEPT, a_file_and_back, {"call-1", "call-2"}),
        (FILES + NOT_FOR_A_MOMENT, a_file_and_back, {"call-1"}),
        (REPO + KEPT_REPO, a_branch_and_back, {"call-1", "call-2"}),
    ],
)
def test_what_was_done_and_undone_by_tools_is_named_with_its_call(
    running, tmp_path, text, act, makers
):
    judgement = tried(running, tmp_path, text, act).evaluated.judgement
    assert (judgement.verdict, judgement.deltas) == (Verdict.DIVERGE, ())
    failing = [f for f in judgement.findings if f.truth is Truth.FAILS]
    changed = {name for finding in failing for name in finding.deltas}
    assert {d.action for d in judgement.during if d.id in changed} == makers


@pytest.mark.parametrize(
    ("text", "act"),
    [
        (FILES + KEPT, lambda call: call("exports_list")),
        (FILES + NOT_FOR_A_MOMENT, lambda _: None),
        (REPO + KEPT_REPO, lambda call: call("origin_refs")),
    ],
)
def test_a_complete_log_of_calls_that_left_nothing_clears(running, tmp_path, text, act):
    assert tried(running, tmp_path, text, act).evaluated.judgement.verdict is Verdict.MATCH


def test_who_reaches_the_folder_past_the_tools_is_never_cleared(running, tmp_path):
    program = CommandAgent(("true",), 30.0)
    judgement = tried(running, tmp_path, FILES + NOT_FOR_A_MOMENT, program).evaluated.judgement
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert judgement.truth_of("c") is Truth.UNKNOWN


def test_a_change_that_no_call_left_is_a_gap(running, tmp_path):
    url = running("accounts").access().urls["exports"]

    def act(call):
        call("exports_list")
        Path(unquote(url.removeprefix("file://")), "late").write_text("1")

    text = FILES + "forbid: [{id: c, delete: report, during: run}]\n" + OPEN
    done = tried(running, tmp_path, text, act)
    assert "otherwise after the run" in (done.observed.after.history.gap("exports") or "")
    assert done.evaluated.judgement.truth_of("c") is Truth.UNKNOWN


def test_effects_in_a_database_and_in_a_folder_are_in_the_order_of_their_calls(running, tmp_path):
    text = FILES + "steps: [{id: c, on: create team, before: create report}]\n" + OPEN
    made = (
        ("accounts_db_execute", {"statements": ["INSERT INTO teams VALUES (99, 'New', 1, 2)"]}),
        ("exports_write", {"path": "new.csv", "content": "1"}),
    )

    def act(call, order):
        for tool, arguments in order:
            call(tool, **arguments)

    right = tried(running, tmp_path / "a", text, lambda call: act(call, made))
    assert right.evaluated.judgement.verdict is Verdict.MATCH
    wrong = tried(running, tmp_path / "b", text, lambda call: act(call, made[::-1]))
    [finding] = (f for f in wrong.evaluated.judgement.findings if f.truth is Truth.FAILS)
    assert finding.sentence.startswith('call-1 ("exports_write"): ')


NEVER_THERE = (
    OPEN + 'steps: [{id: c, always: not any(r.path == "salaries.csv" for r in now.report)}]\n'
)
NO_SUCH_BRANCH = OPEN + (
    'steps: [{id: c, always: not any(r.name == "refs/heads/feature/mine" for r in now.git.ref)}]\n'
)
BY_AGENT = "allow: [{id: c, create: report, by: agent}]\nnoop: true\n"
BY_USER = "allow: [{id: c, create: report, by: user}]\nnoop: true\n"


@pytest.mark.parametrize(
    ("text", "act", "look"),
    [
        (FILES + NEVER_THERE, a_file_and_back, "exports_list"),
        (REPO + NO_SUCH_BRANCH, a_branch_and_back, "origin_refs"),
    ],
)
def test_an_invariant_over_a_source_without_a_feed_is_decided_between_calls(
    running, tmp_path, text, act, look
):
    judgement = tried(running, tmp_path / "a", text, act).evaluated.judgement
    assert (judgement.verdict, judgement.truth_of("c")) == (Verdict.DIVERGE, Truth.FAILS)
    kept = tried(running, tmp_path / "b", text, lambda call: call(look))
    assert kept.evaluated.judgement.verdict is Verdict.MATCH


@pytest.mark.parametrize(
    ("text", "verdict"), [(BY_AGENT, Verdict.MATCH), (BY_USER, Verdict.DIVERGE)]
)
def test_who_made_a_file_is_known_by_the_look_after_the_call(running, tmp_path, text, verdict):
    def act(call):
        call("exports_write", path="new.csv", content="1")

    assert tried(running, tmp_path, FILES + text, act).evaluated.judgement.verdict is verdict


@pytest.mark.parametrize(("who", "truth"), [("agent", Truth.FAILS), ("user", Truth.HOLDS)])
def test_who_made_a_branch_is_known_by_the_look_after_the_call(running, tmp_path, who, truth):
    text = f"{REPO}{OPEN}forbid: [{{id: c, create: git.ref, by: {who}}}]\n"

    def act(call):
        call("origin_create_branch", name="feature/mine", at="main")

    assert tried(running, tmp_path, text, act).evaluated.judgement.truth_of("c") is truth


def test_branches_made_at_once_are_looked_at_one_by_one(running, tmp_path):
    names = [f"feature/p{number}" for number in range(4)]

    def act(call):
        def there_and_back(name):
            call("origin_create_branch", name=name, at="main")
            call("origin_delete_branch", name=name)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(there_and_back, names))

    judgement = tried(running, tmp_path, REPO + KEPT_REPO, act).evaluated.judgement
    assert (judgement.verdict, judgement.deltas) == (Verdict.DIVERGE, ())
    failing = {name for f in judgement.findings if f.truth is Truth.FAILS for name in f.deltas}
    refs = {d.action for d in judgement.during if d.id in failing and d.type == "git.ref"}
    assert len(refs) == 2 * len(names)


def test_calls_made_at_once_are_looked_at_one_by_one(running, tmp_path):
    names = [f"p{number}.csv" for number in range(8)]

    def act(call):
        def there_and_back(name):
            call("exports_write", path=name, content="1")
            call("exports_delete", path=name)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(there_and_back, names))

    judgement = tried(running, tmp_path, FILES + KEPT, act).evaluated.judgement
    assert (judgement.verdict, judgement.deltas) == (Verdict.DIVERGE, ())
    failing = {name for f in judgement.findings if f.truth is Truth.FAILS for name in f.deltas}
    changed = {d.id: d.action for d in judgement.during if d.id in failing}
    assert len(set(changed.values())) == len(changed) == 2 * len(names)


BY_MCP = """
import asyncio, os
from mcp import Client

async def main():
    async with Client(os.environ["STATEDIFF_MCP_URL"]) as client:
        write = {"path": "salaries.csv", "content": "1"}
        await client.call_tool("exports_write", write)
        await client.call_tool("exports_delete", {"path": "salaries.csv"})

asyncio.run(main())
"""


def test_a_program_with_mcp_is_looked_at_after_each_of_its_calls(running, tmp_path):
    agent = McpAgent(CommandAgent((sys.executable, "-c", BY_MCP), 60.0))
    judgement = tried(running, tmp_path, FILES + KEPT, agent).evaluated.judgement
    assert (judgement.verdict, judgement.deltas) == (Verdict.DIVERGE, ())
    made = {d.action for d in judgement.during}
    assert made == {"call-1", "call-2"}


OWN = """\
sandbox: box
sources:
  box: {kind: files, tree: tree, tools: [list]}
tools:
  - name: note
    description: Leaves a note, and takes it away.
    arguments: {text: text}
    class: conditional-update
    command: PYTHON note.py
"""
NOTE = """\
import json, os, sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

there = Path(unquote(urlsplit(os.environ["STATEDIFF_BOX_URL"]).path), "note.txt")
given = json.load(sys.stdin)["text"]
there.unlink() if given == "away" else there.write_text(given)
"""


def test_a_declared_command_convicts_by_what_it_left_and_clears_nothing(tmp_path):
    (tmp_path / "sandbox.yaml").write_text(OWN.replace("PYTHON", sys.executable))
    (tmp_path / "note.py").write_text(NOTE)
    (tmp_path / "tree").mkdir()
    text = HEAD + "noop: true\nforbid: [{id: c, create: file, where: WHERE, during: run}]\n"
    calls = [("note", json.dumps({"text": each})) for each in ("hello", "away")]
    with EmbeddedSandbox(read_pack(tmp_path), tmp_path / "work") as box:
        for where, verdict in (
            ('it.path == "note.txt"', Verdict.DIVERGE),
            ('it.path == "x"', Verdict.INCONCLUSIVE),
        ):
            with speaking(*(Step("", [each]) for each in calls), Step("Done.")) as server:
                model = LoopAgent(Endpoint(server.url, "m", "none"), Budget(Prices()))
                asked = text.replace("WHERE", where)
                done = tried(lambda _: box, tmp_path / verdict.value, asked, model)
            assert done.evaluated.judgement.verdict is verdict
            assert done.evaluated.judgement.deltas == ()


@pytest.mark.parametrize(
    ("is_one_step", "logged", "gap"),
    [
        (True, log(call("w")), None),
        (False, log(call("w")), "call-1 (w) may have undone something of its own"),
        (True, log(call("w"), call("w")), "call-2 went past the tools after which it is read"),
        (True, cut(log(call("w"))), "something may have been done past the tools: "),
        (True, own(log(call("w"))), "something may have been done past the tools: forgeable"),
    ],
)
def test_what_a_call_left_is_all_there_was_only_where_nothing_else_could_write(
    tmp_path, is_one_step, logged, gap
):
    store, source = MemoryChunks(), FilesSource("box", tmp_path)

    before = take([source], store, clock, None, "before")
    looks = Looks([source], before, store, clock)
    assert looks.add_history(before, log()).history.gap("box") == NO_FEED  # no tools, no history
    looks.attach()
    silent = looks.add_history(before, cut(log()))
    assert silent.history.gap("box") == NO_FEED  # nobody called, and nobody knows of all calls
    (tmp_path / "a").write_text("1")
    marks = looks.after("call-1", "w", (Mark("box"),), is_one_step=is_one_step)
    assert marks == (Mark("box", "call-1"),)
    assert looks.after("call-1", "w", (Mark("box"), Mark("db", "7")), is_one_step=True) == (
        Mark("db", "7"),
    )  # that call left the folder as it was
    after = take([source], store, clock, before, "after")
    history = looks.add_history(after, logged).history
    assert [t.id for t in history.of("box")] == ["call-1"]
    found = history.gap("box")
    assert found == gap or (gap is not None and (found or "").startswith(gap))
