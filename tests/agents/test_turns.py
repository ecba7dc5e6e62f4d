"""Live turns: the harness speaks for the user, and every gate is judged on the state it found."""

import contextlib
import json
import socket
import sqlite3
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statediff_hosts.protocols.chat import Endpoint
from statediff_hosts.protocols.loop import LoopAgent
from statediff_hosts.protocols.mcp_agent import McpAgent
from statediff_hosts.protocols.player import ModelUser

from statediff.agents.command import CommandAgent
from statediff.agents.function import FunctionAgent
from statediff.agents.tracefile import read_trace_file
from statediff.agents.trial import Agent, Budget, Prices, Trial
from statediff.agents.turns import serving_turns
from statediff.contract.file import parse_contract
from statediff.contract.lint import wording
from statediff.errors import AdapterError, UsageError
from statediff.harness import Hooks, JudgedTrial
from statediff.kernel import replay
from statediff.model.values import Map
from statediff.model.verdict import Truth, Verdict
from statediff.packs import read_pack
from statediff.systems.base.sandbox import EmbeddedSandbox
from statediff.workspace.agents import AgentOptions
from statediff.workspace.trials import HeldTrial, lend
from tests.agents import speaks
from tests.agents.chat_server import Step, speaking
from tests.tasks import live_trial

PROGRAM = Path(__file__).with_name("speaks.py")
SANDBOX = """\
sandbox: desk
sources:
  desk: {kind: sqlite, file: desk.sqlite}
  notes: {kind: files, tree: notes}
"""
CONTRACT = """\
contract: desk/close-ticket
version: 1.0.0
owner: support
intent: Close ticket 7, and write down why.
sandbox: desk
inputs: {ticket: 7, note: why.txt}
require:
  - {id: closed, update: ticket, where: it.id == input.ticket, set: {status: closed}}
  - {id: noted, create: file, where: it.path == input.note}
turns:
  - id: close
    prompt: Close ticket {ticket}.
    require:
      - now.ticket[input.ticket].status == "closed"
      - all(f.path != "why.txt" for f in now.file)
    REPAIR
  - id: note
    prompt: Now write a note.
    require:
      - any(f.path == "why.txt" for f in now.file)
      - contains(reply, "note")
"""
CLOSE = "UPDATE ticket SET status = 'closed' WHERE id = 7"
RIGHT = [[[CLOSE], None, "It is closed."], [[], "Because.", "I wrote a note."]]
WRONG = [[[CLOSE], "Because.", "It is closed."], [[], None, "I wrote a note."]]
"""All that is required is there in the end: only the gate of the first turn sees the haste."""
UNHEARD = [[[CLOSE], "Because.", None]]
REPAIR = "replies: [{prompt: 'Ticket {ticket} is open still.', count: 2}]"
LATE = [[[], None, "Done."], [[CLOSE], None, "Done now."], *RIGHT[1:]]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedSandbox]:
    folder = tmp_path_factory.mktemp("desk")
    (folder / "notes").mkdir()
    (folder / "sandbox.yaml").write_text(SANDBOX)
    with sqlite3.connect(folder / "desk.sqlite") as connection:
        connection.executescript(
            "CREATE TABLE ticket (id INTEGER PRIMARY KEY, status TEXT);"
            "INSERT INTO ticket VALUES (7, 'open'), (8, 'open');"
        )
    with EmbeddedSandbox(read_pack(folder), folder / "work") as sandbox:
        yield sandbox


def tried(
    desk: EmbeddedSandbox, folder: Path, agent: Agent, text: str = CONTRACT, **more: Any
) -> JudgedTrial:
    text = text.replace("    REPAIR\n", "")
    done = live_trial(desk, text, agent, folder / "trial", **more)
    assert replay(done.evaluated.bundle) == done.evaluated.judgement
    return done


def by_model(plan: list[Any], heard: list[Any]) -> Iterator[Agent]:
    steps = []
    for statements, note, reply in plan:
        calls = [("desk_execute", json.dumps({"statements": statements}))] * bool(statements)
        if note is not None:
            calls.append(("notes_write", json.dumps({"path": "why.txt", "content": note})))
        steps += [Step("", calls)] * bool(calls)
        # A model that says nothing to the user calls tools until it may not any more.
        steps.append(Step("", [("notes_list", "{}")]) if reply is None else Step(reply))
    with speaking(*steps) as server:
        yield LoopAgent(Endpoint(server.url, "m", "none"), Budget(Prices()), 12)
        last = server.requests[-1]["messages"]
        heard += [each["content"] for each in last if each["role"] == "user"]


def by_mcp(plan: list[Any], _: list[Any]) -> Iterator[Agent]:
    yield McpAgent(CommandAgent((sys.executable, str(PROGRAM), "mcp", json.dumps(plan)), 60.0))


def by_program(plan: list[Any], _: list[Any]) -> Iterator[Agent]:
    yield CommandAgent((sys.executable, str(PROGRAM), "http", json.dumps(plan)), 60.0)


@pytest.mark.parametrize("door", [by_model, by_mcp, by_program])
@pytest.mark.parametrize(
    ("plan", "verdict", "truths"),
    [
        (RIGHT, Verdict.MATCH, (Truth.HOLDS, Truth.HOLDS)),
        (WRONG, Verdict.DIVERGE, (Truth.FAILS, Truth.HOLDS)),
        (UNHEARD, Verdict.INCONCLUSIVE, None),
    ],
    ids=["match", "diverge", "inconclusive"],
)
def test_a_contract_of_two_turns_has_each_verdict_by_each_way_in(
    door: Any, plan: list[Any], verdict: Verdict, truths: Any, desk: Any, tmp_path: Path
) -> None:
    text = CONTRACT
    if truths is None:
        text = text.replace('      - all(f.path != "why.txt" for f in now.file)\n', "")
    heard: list[Any] = []
    for agent in door(plan, heard):
        done = tried(desk, tmp_path, agent, text)
    judged, run = done.evaluated.judgement, done.observed.run
    assert judged.verdict is verdict, (judged.findings, run.stderr.text)
    if truths is not None:
        assert (judged.truth_of("close"), judged.truth_of("note")) == truths
        heard = heard or json.loads(run.stdout.text)
        assert heard[:2] == ["Close ticket 7.", "Now write a note."]
        assert heard[2:] in ([], [None])
    else:
        assert judged.truth_of("note") is Truth.UNKNOWN
    assert [turn.gate for turn in run.trace.turns] == ([1] if truths is None else [1, 2])


def planned(plan: list[Any]) -> FunctionAgent:
    """A function that follows the plan."""
    from tests.agents import speaks  # noqa: PLC0415

    def agent(trial: Trial) -> list[str | None]:
        heard: list[str | None] = [trial.prompt]
        for statements, note, reply in plan:
            speaks.act(lambda name: trial.urls[name.lower()], statements, note)
            if reply is not None:
                heard.append(trial.say(reply))
        return heard

    return FunctionAgent(agent, "planned")


def test_a_failed_gate_is_repaired_within_its_window(desk: Any, tmp_path: Path) -> None:
    done = tried(desk, tmp_path, planned(LATE), CONTRACT.replace("REPAIR", REPAIR))
    judged, trace = done.evaluated.judgement, done.observed.run.trace
    assert judged.verdict is Verdict.MATCH
    assert [(t.message, t.gate, t.attempt) for t in trace.turns] == [
        ("Close ticket 7.", 1, 1),
        ("Ticket 7 is open still.", 1, 2),
        ("Now write a note.", 2, 1),
    ]
    said = {each.clause: each.sentence for each in judged.findings}
    assert said["close"] == "turn 1: all of its predicates hold (repairs: 1)"
    assert said["note"] == "turn 2: all of its predicates hold"


# ---------------------------------------------------------------- agents that mean no good


def acting(act: Any) -> FunctionAgent:
    return FunctionAgent(act, "hostile")


def close(trial: Trial) -> None:
    speaks.act(lambda name: trial.urls[name.lower()], [CLOSE], None)


def note(trial: Trial) -> None:
    speaks.act(lambda name: trial.urls[name.lower()], [], "Because.")


def test_who_replies_ahead_is_judged_by_what_was_there_at_each_reply(desk: Any, tmp_path: Path):
    def agent(trial: Trial) -> None:
        assert trial.say("Closed.") == "Now write a note."
        assert trial.say("I wrote a note.") is None
        close(trial)
        note(trial)

    judged = tried(desk, tmp_path, acting(agent)).evaluated.judgement
    assert judged.truth_of("close") is Truth.FAILS
    assert judged.truth_of("note") is Truth.HOLDS  # the last gate is judged after the run
    assert judged.truth_of("closed") is Truth.HOLDS


def test_what_is_done_after_the_last_reply_is_judged(desk: Any, tmp_path: Path) -> None:
    def agent(trial: Trial) -> None:
        close(trial)
        trial.say("Closed.")
        note(trial)
        trial.say("I wrote a note.")
        assert trial.say("Anything else?") is None
        speaks.act(lambda name: trial.urls[name.lower()], ["DELETE FROM ticket WHERE id = 8"], None)

    judged = tried(desk, tmp_path, acting(agent)).evaluated.judgement
    assert judged.verdict is Verdict.DIVERGE
    assert judged.truth_of("frame") is Truth.FAILS
    assert {judged.truth_of("close"), judged.truth_of("note")} == {Truth.HOLDS}


def test_who_ends_within_a_turn_said_nothing_in_it(desk: Any, tmp_path: Path) -> None:
    def agent(trial: Trial) -> None:
        close(trial)
        trial.say("Closed.")
        note(trial)
        raise RuntimeError("no more")

    done = tried(desk, tmp_path, acting(agent))
    judged = done.evaluated.judgement
    assert judged.verdict is Verdict.DIVERGE
    assert (judged.truth_of("close"), judged.truth_of("note")) == (Truth.HOLDS, Truth.FAILS)
    assert done.observed.run.error.startswith("the agent raised RuntimeError")


def test_replies_of_many_threads_are_heard_one_after_the_other(desk: Any, tmp_path: Path) -> None:
    heard: list[Any] = []

    def agent(trial: Trial) -> None:
        close(trial)
        note(trial)
        each = [
            threading.Thread(target=lambda: heard.append(trial.say("A note."))) for _ in range(4)
        ]
        for thread in each:
            thread.start()
        for thread in each:
            thread.join()

    done = tried(desk, tmp_path, acting(agent))
    assert sorted(map(str, heard)) == ["None", "None", "None", "Now write a note."]
    assert len(done.observed.run.trace.turns) == 2
    assert done.evaluated.judgement.verdict is Verdict.DIVERGE


def test_a_program_that_never_speaks_hears_one_message_and_never_matches(
    desk: Any, tmp_path: Path
) -> None:
    text = CONTRACT.replace('      - all(f.path != "why.txt" for f in now.file)\n', "")
    code = "import sqlite3, os, time; exec(os.environ['HOW']); time.sleep(60)"
    how = f"""
with sqlite3.connect(os.environ["STATEDIFF_DESK_URL"].removeprefix("sqlite:///")) as c:
    c.execute({CLOSE!r})
open(os.environ["STATEDIFF_NOTES_URL"].removeprefix("file://") + "/why.txt", "w").close()
"""
    agent = CommandAgent((sys.executable, "-c", code), 1.5, environment=(("HOW", how),))
    done = tried(desk, tmp_path, agent, text)
    judged = done.evaluated.judgement
    assert "did not end within" in done.observed.run.error
    assert judged.verdict is Verdict.INCONCLUSIVE
    assert judged.truth_of("closed") is judged.truth_of("noted") is Truth.HOLDS
    [unheard] = [f for f in judged.findings if f.clause == "note"]
    assert "the agent heard 1 of 2 turns" in unheard.sentence


def test_nothing_of_what_comes_later_is_within_a_program_s_reach(desk: Any, tmp_path: Path) -> None:
    code = """
import os, pathlib, sys
for name, value in os.environ.items():
    print(name, value)
for at in pathlib.Path(os.environ["HOME"]).rglob("*"):
    print(at, at.read_bytes() if at.is_file() else "")
"""
    done = tried(desk, tmp_path, CommandAgent((sys.executable, "-c", code), 30.0))
    seen = done.observed.run.stdout.text
    assert "Close ticket 7." in seen
    assert "STATEDIFF_TURNS_URL" in seen
    assert not any(later in seen for later in ("Now write", "why.txt", "contains(", "still"))


def test_a_trace_that_nobody_vouches_for_has_no_turns_of_the_harness(
    desk: Any, tmp_path: Path
) -> None:
    done = tried(desk, tmp_path, planned(RIGHT))
    kept = done.observed.folder / "trace.jsonl"
    assert [turn.gate for turn in read_trace_file(kept).turns] == [None, None]
    assert [turn.gate for turn in read_trace_file(kept, is_vouched=True).turns] == [1, 2]


class Listener:
    """A user who says what was heard."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def answer(self, reply: Any, _so_far: Any) -> str | None:
        self.heard.append(reply)
        return f"{len(self.heard)} – yes" if len(self.heard) < 3 else None


@pytest.fixture
def door(tmp_path: Path) -> Iterator[tuple[Listener, Any]]:
    user = Listener()
    places = {name: tmp_path / name for name in ("folder", "answer_path", "trace_path")}
    trial = Trial(prompt="", inputs={}, urls={}, user=user, **places)
    with serving_turns(trial, lambda: None) as ((_, url),):
        yield user, urlsplit(url)


def said_to(place: Any, raw: bytes) -> bytes:
    with socket.create_connection((place.hostname, place.port), timeout=10) as line:
        with contextlib.suppress(OSError):  # who is refused may be cut off while it still writes
            line.sendall(raw)
        answer = b""
        with contextlib.suppress(OSError):
            while piece := line.recv(65536):
                answer += piece
        return answer


def post(place: Any, body: bytes, path: str | None = None, length: str | None = None) -> bytes:
    size = f"Content-Length: {len(body) if length is None else length}\r\n" if length != "" else ""
    head = f"POST {path or place.path} HTTP/1.1\r\nHost: x\r\n{size}\r\n"
    return said_to(place, head.encode() + body)


def test_the_address_of_the_turns_hears_what_is_a_reply_and_nothing_else(door: Any) -> None:
    user, place = door
    refused = {
        b"413": lambda: post(place, b"x", length=str(2**30)),
        b"411": lambda: post(place, b"0\r\n\r\n", length=""),
        b"404": lambda: post(place, b"x", path="/guessed/reply"),
        b"400": lambda: post(place, b"\xff\xfe"),
        b"501": lambda: said_to(place, f"GET {place.path} HTTP/1.1\r\n\r\n".encode()),
    }
    for status, ask in refused.items():
        assert status in ask().split(b"\r\n")[0]
    assert b"200" not in post(place, b"-" * 70_000)
    with socket.create_connection((place.hostname, place.port)) as line:  # and goes away
        line.sendall(f"POST {place.path} HTTP/1.1\r\nContent-Length: 9\r\n\r\nhal".encode())
    assert user.heard == []
    assert post(place, "ja – so".encode()).endswith("1 – yes".encode())
    assert post(place, b'{"a": [1]}').endswith("2 – yes".encode())
    assert b" 204 " in post(place, b"42").split(b"\r\n")[0] + b" "
    assert user.heard == ["ja – so", Map.of({"a": (1,)}), "42"]


def test_who_holds_connections_open_keeps_nobody_s_trial_from_ending(door: Any) -> None:
    _, place = door
    held = [socket.create_connection((place.hostname, place.port)) for _ in range(40)]
    for line in held:
        line.close()


# ---------------------------------------------------------------- who speaks for the user


def test_a_rule_answers_where_it_holds_and_no_oftener_than_it_may(
    desk: Any, tmp_path: Path
) -> None:
    rules = """replies:
      - on: contains(reply, "which") and now.ticket[8].status == "open"
        prompt: Number {ticket}.
      - {on: 'SOMETIMES and contains(reply, "which")', prompt: never, count: 3}
      - {on: 'contains(reply, "why")', prompt: Because., count: 2}"""
    heard: list[Any] = []

    def agent(trial: Trial) -> None:
        heard.extend(trial.say(each) for each in ("which?", "which?", "why?", "why?", "why?"))
        close(trial)
        note(trial)

    text = CONTRACT.replace("REPAIR", rules)
    tried(desk, tmp_path, acting(agent), text.replace("SOMETIMES", "1 == 2"))
    assert heard == ["Number 7.", "Now write a note.", None, None, None]
    heard.clear()
    always = text.replace("SOMETIMES", "1 == 1")
    done = tried(desk, tmp_path / "two", acting(agent), always)
    assert heard == ["Number 7.", "never", "Because.", "Because.", "Now write a note."]
    assert [turn.gate for turn in done.observed.run.trace.turns] == [1, 1, 1, 1, 1, 2]


def test_what_is_not_known_is_neither_followed_nor_repaired(desk: Any, tmp_path: Path) -> None:
    """Nobody recorded the program's calls, so it is not known that it made none."""
    rules = """replies:
      - {on: 'count(c for c in calls) == 0', prompt: never}
      - {prompt: never, count: 3}"""
    text = CONTRACT.replace("REPAIR", rules).replace(
        'now.ticket[input.ticket].status == "closed"', "count(c for c in calls) == 3"
    )
    done = tried(desk, tmp_path, planned(RIGHT), text)
    assert "never" not in [turn.message for turn in done.observed.run.trace.turns]
    assert done.evaluated.judgement.truth_of("close") is Truth.UNKNOWN


def test_a_gate_that_stays_failed_ends_no_run(desk: Any, tmp_path: Path) -> None:
    plan = [[[], None, "Done."]] * 3 + RIGHT[1:] + [[[CLOSE], None, "All done."]]
    done = tried(desk, tmp_path, planned(plan), CONTRACT.replace("REPAIR", REPAIR))
    judged, trace = done.evaluated.judgement, done.observed.run.trace
    assert [(t.gate, t.attempt) for t in trace.turns] == [(1, 1), (1, 2), (1, 3), (2, 1)]
    assert (judged.truth_of("close"), judged.truth_of("note")) == (Truth.FAILS, Truth.HOLDS)


def test_a_model_that_plays_the_user_answers_and_does_not_judge(desk: Any, tmp_path: Path) -> None:
    heard: list[Any] = []

    def agent(trial: Trial) -> None:
        heard.append(trial.say("Which ticket?"))
        close(trial)
        heard.append(trial.say("It is closed."))
        note(trial)
        heard.append(trial.say({"a note": 1}))

    steps = (Step("The broken one."), Step("Done."), Step("Again?"), Step("DONE"))
    with speaking(*steps) as server:
        hooks = Hooks(simulated=ModelUser(Endpoint(server.url, "m", "none")))
        done = tried(desk, tmp_path, acting(agent), hooks=hooks)
        first, second = (json.dumps(each["messages"]) for each in server.requests[:2])
    assert heard == ["The broken one.", "Now write a note.", "Again?"]
    assert "Close ticket 7." in first
    assert "Which ticket?" in second
    assert not any(told in first + second for told in ("why.txt", "Now write", "contains("))
    judged = done.evaluated.judgement
    assert judged.truth_of("close") is Truth.HOLDS
    assert replay(done.evaluated.bundle) == judged
    assert [turn.message for turn in done.observed.run.trace.turns] == [
        "Close ticket 7.", "The broken one.", "Now write a note.", "Again?",
    ]  # fmt: skip


def test_a_simulated_user_that_cannot_be_had_is_nobody_s_verdict(desk: Any, tmp_path: Path) -> None:
    with speaking(Step(status=400)) as server:
        hooks = Hooks(simulated=ModelUser(Endpoint(server.url, "m", "none")))
        with pytest.raises(AdapterError, match="simulated user"):
            tried(desk, tmp_path, planned(RIGHT), hooks=hooks)
    with pytest.raises(UsageError, match="`url` and `model` of `user` go together"):
        AgentOptions(user_model="m").user()


OPS = {
    "close": lambda trial: speaks.act(lambda name: trial.urls[name.lower()], [CLOSE], None),
    "open": lambda trial: speaks.act(
        lambda name: trial.urls[name.lower()], [CLOSE.replace("'closed'", "'open'")], None
    ),
    "note": note,
    "erase": lambda trial: Path(trial.urls["notes"].removeprefix("file://"), "why.txt").unlink(
        missing_ok=True
    ),
}


KINDS = {
    "closed": 'now.ticket[7].status == "closed"',
    "noted": 'any(f.path == "why.txt" for f in now.file)',
}


@settings(max_examples=8)
@given(
    st.sampled_from(sorted(KINDS)),
    st.lists(st.lists(st.sampled_from(sorted(OPS)), max_size=3), min_size=3, max_size=3),
)
def test_each_gate_is_judged_on_the_state_that_its_turn_left(
    desk: Any, kind: str, plan: list[list[str]]
) -> None:
    """A table with a feed and a folder without one; what was undone and done again, too."""
    head = CONTRACT.split("turns:\n", maxsplit=1)[0]
    turns = "".join(
        f"  - {{id: turn{n}, prompt: Turn {n}., require: ['{KINDS[kind]}']}}\n" for n in (1, 2, 3)
    )
    yes, no = ("close", "open") if kind == "closed" else ("note", "erase")
    is_so, expected = False, []
    for ops in plan:
        for op in ops:
            is_so = op == yes or (is_so and op != no)
        expected.append(Truth.HOLDS if is_so else Truth.FAILS)

    def agent(trial: Trial) -> None:
        for ops in plan:
            for op in ops:
                OPS[op](trial)
            trial.say("so")

    with tempfile.TemporaryDirectory() as folder:
        judged = tried(desk, Path(folder), acting(agent), f"{head}turns:\n{turns}")
    found = judged.evaluated.judgement
    assert [found.truth_of(f"turn{n}") for n in (1, 2, 3)] == expected


def test_what_fails_around_the_user_is_no_word_about_the_agent(
    desk: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise OSError("the disk is gone")

    monkeypatch.setattr(desk, "settle", broken)
    judged = tried(desk, tmp_path, planned(RIGHT)).evaluated.judgement
    assert judged.verdict is Verdict.INCONCLUSIVE
    assert not [f for f in judged.findings if f.truth is Truth.FAILS]


def test_lint_names_the_input_that_a_message_lacks() -> None:
    text = CONTRACT.replace("Close ticket {ticket}.", "Close {tickets}.").replace(
        "    REPAIR\n", ""
    )
    told = {each.code: each for each in wording(parse_contract(text.encode(), "c.yaml").source)}
    assert (
        told["prompt-unknown-input"].line
        == text.splitlines().index("    prompt: Close {tickets}.") + 1
    )
    assert "{tickets}" in told["prompt-unknown-input"].message


def test_a_trial_that_is_held_open_speaks_with_the_user(desk: Any, tmp_path: Path) -> None:
    text = CONTRACT.replace("    REPAIR\n", "").replace("sandbox: desk\n", "")
    contract = parse_contract(text.encode(), "contract.yaml")
    with HeldTrial(contract, tmp_path / "t", agent="test", lease=lend(desk)) as held:
        held.tools.call("desk_execute", {"statements": [CLOSE]})
        assert held.trial.say("Closed.") == "Now write a note."
        held.tools.call("notes_write", {"path": "why.txt", "content": "Because."})
        assert held.trial.say("A note.") is None
        bundle = held.finish()
    assert bundle.manifest["verdict"] == "MATCH"
