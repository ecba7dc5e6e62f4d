"""BFCL's systems as tables, its tasks as contracts, and what its checker is asked."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statediff_lab.importers.bfcl import host
from statediff_lab.importers.bfcl.checker import VARIABLE, Checker
from statediff_lab.importers.bfcl.contract import Gates, contract_of, rests
from statediff_lab.importers.bfcl.format import Made, Rules, course_of, task_of
from statediff_lab.importers.bfcl.layout import (
    SOURCE,
    attributes_of,
    documents_of,
    plain_record,
    schema_of,
    state_of,
)
from statediff_lab.importers.bfcl.suite import CATEGORIES, Bfcl, half_of, open_cases
from statediff_lab.importers.conformance import ImporterSuite
from statediff_lab.importers.recorded import Half, RecordedRun, RunLine, TaskId, parse, read_lines
from statediff_lab.importers.rejudge import judge_trial, read_run
from statediff_lab.importers.states import capture_of
from statediff_lab.importers.sweep import changes_of, reference_of

from lab.benchmarks import bfcl
from lab.tests.importers.conftest import ROOT, SAMPLES
from statediff.errors import AdapterError, InputError
from statediff.kernel import judgement_of
from statediff.meta.world import World, drop, put, some_value
from statediff.model.schema import Kind
from statediff.model.trace import NO_REPLY
from statediff.model.verdict import Judgement, Truth, Verdict

SAMPLE = SAMPLES / "bfcl"


class TestBfcl(ImporterSuite):
    reader = open_cases
    sample = SAMPLE


def runs(suite: Bfcl) -> list[RecordedRun]:
    return [
        read_run(suite, file.domain, line)[0]
        for file in suite.files
        for line in read_lines(file.path)
        if isinstance(line, RunLine)
    ]


def judged(suite: Bfcl, run: RecordedRun, gates: Gates) -> Judgement:
    trial = suite.trial(run.task, course_of(run.raw), gates)
    return judge_trial(trial).judgement


MADE = {
    "ground-truth": (Verdict.MATCH, Verdict.MATCH),
    "other-punctuation": (Verdict.MATCH, Verdict.MATCH),
    "fewer-looks": (Verdict.MATCH, Verdict.MATCH),
    "turn-late": (Verdict.DIVERGE, Verdict.MATCH),
    "doubled-write": (Verdict.DIVERGE, Verdict.DIVERGE),
    "stray-write": (Verdict.DIVERGE, Verdict.DIVERGE),
}
"""How a run was made of the ground truth → its verdicts, turn by turn and at the end."""


def test_each_run_gets_the_verdict_of_how_it_was_made() -> None:
    suite = open_cases(SAMPLE)
    seen = set()
    for run in runs(suite):
        found = tuple(judged(suite, run, gates).verdict for gates in Gates)
        assert found == MADE[run.agent], run.run_id
        seen.add(run.agent)
    assert seen == MADE.keys()


def test_a_turn_that_is_late_fails_in_that_turn_and_nowhere_else() -> None:
    suite = open_cases(SAMPLE)
    for run in runs(suite):
        if run.agent != "turn-late":
            continue
        truth = suite.task(run.task).truth.turns
        pairs = zip(run.raw["turns"], truth, strict=True)
        late = next(n for n, (done, wanted) in enumerate(pairs, 1) if wanted and not done)
        findings = judged(suite, run, Gates.TURN).findings
        failed = {f.clause for f in findings if f.truth is not Truth.HOLDS}
        assert failed == {f"turn-{late}"}


def test_halves_follow_the_scenario_and_not_the_task() -> None:
    numbers = {half_of(f"multi_turn_{c}_{n}") for c in CATEGORIES for n in (3,)}
    assert numbers == {Half.DEVELOPED}
    held_out = json.loads(bfcl.registered(Rules.FIRST).read_text())["contracts"]
    assert {half_of(name) for name in held_out} == {Half.HELD_OUT}
    every = [f"multi_turn_{c}_{n}" for c in CATEGORIES for n in range(200)]
    assert set(held_out) == {name for name in every if half_of(name) is Half.HELD_OUT}


# ---------------------------------------------------------------- systems as tables

NAMES = st.sampled_from(["a", "b.txt", "3", '"3"', "x/y", "50%", "é"])
TEXTS = st.sampled_from(["", "Hello.", "two words", "7"])
NUMBERS = st.integers(-3, 3) | st.sampled_from([Decimal("0.5"), Decimal("2.0")])
ODD = st.none() | TEXTS | NUMBERS | st.booleans() | st.lists(TEXTS, max_size=2)
FILES = st.builds(lambda text: {"file": "", "content": text}, TEXTS)


def named(tree: dict[str, Any], name: str) -> dict[str, Any]:
    """The tree, each part by the name under which it is held."""
    if "file" in tree:
        return {**tree, "file": name}
    return {"folder": name, "holds": {n: named(each, n) for n, each in tree["holds"].items()}}


TREES = st.recursive(
    FILES,
    lambda inner: st.builds(
        lambda holds: {"folder": "", "holds": holds}, st.dictionaries(NAMES, inner, max_size=3)
    ),
    max_leaves=5,
).map(lambda tree: named(tree if "holds" in tree else {"folder": "", "holds": {}}, "top"))
POSTS = st.dictionaries(
    st.integers(0, 20),
    st.dictionaries(st.sampled_from(["id", "username", "content", "tags", "odd"]), ODD),
    max_size=3,
).map(lambda found: {"#": [list(pair) for pair in found.items()]} if found else {})
SYSTEMS = st.fixed_dictionaries(
    {
        "GorillaFileSystem": st.fixed_dictionaries({"root": TREES}),
        "MessageAPI": st.fixed_dictionaries(
            {
                "inbox": st.lists(st.dictionaries(NAMES, ODD, max_size=2) | TEXTS, max_size=4),
                "user_map": st.dictionaries(NAMES, TEXTS, max_size=2),
                "current_user": ODD,
                "generated_ids": st.lists(st.integers(0, 9), max_size=2),
            }
        ),
        "TwitterAPI": st.fixed_dictionaries(
            {
                "tweets": POSTS,
                "comments": st.dictionaries(NAMES, st.lists(ODD, min_size=1, max_size=2)),
                "retweets": st.dictionaries(NAMES, st.lists(NUMBERS, min_size=1, max_size=3)),
                "following_list": st.lists(NAMES, max_size=3),
            }
        ),
    }
)


@settings(max_examples=40)
@given(SYSTEMS)
def test_systems_come_back_from_their_records(systems: dict[str, Any]) -> None:
    assert attributes_of(documents_of(systems), systems) == systems


@settings(max_examples=25)
@given(SYSTEMS)
def test_a_state_holds_every_record(systems: dict[str, Any]) -> None:
    document, schema = documents_of(systems), schema_of(systems)
    state = state_of(document, schema)
    for entity in schema.types:
        was = {record[entity.key[0]]: record for record in document[entity.name]}
        rows = [
            plain_record(entity, row, was[key[0]]) for key, row in state.tables[entity.name].rows()
        ]
        assert {row[entity.key[0]]: row for row in rows} == was


def test_what_is_no_such_attribute_is_reported() -> None:
    with pytest.raises(InputError, match="no file can be read"):
        documents_of({"GorillaFileSystem": {"root": 3}})


# ---------------------------------------------------------------- what is asked for


def made(text: str, result: Any = None, **rest: bool) -> Made:
    told = json.dumps(result) if not isinstance(result, str) else result
    return Made(text, told, rest.get("writes", False), rest.get("moves", False))


def test_a_look_is_no_end_in_itself_where_something_later_rests_on_it() -> None:
    zipcode = made("get_zipcode('Rivermist')", {"zipcode": "83214"})
    distance = made("estimate_distance('94016', cityB='83214')", {"distance": 980})
    fuel = made("fillFuelTank(3)", {}, writes=True)
    assert rests(zipcode, [distance])
    assert not rests(distance, [zipcode])
    assert rests(distance, [fuel])
    assert not rests(distance, [])


def task_with(text: str, message: str) -> Any:
    """A task of one turn in which a letter is sent."""
    box = {"inbox": [], "user_map": {"Ada": "USR001"}, "current_user": "USR001"}
    sent = {**box, "inbox": [{"USR001": text}]}
    call = {"call": f"send_message('USR001', {text!r})", "result": "{}", "writes": True}
    return task_of(
        {
            "id": "multi_turn_base_3",
            "category": "base",
            "messages": [message],
            "turns": [[{**call, "moves": False}]],
            "states": [{"MessageAPI": box}, {"MessageAPI": sent}],
            "drawn": [],
        }
    )


@pytest.mark.parametrize(
    ("message", "text", "matches"),
    [
        ("Write 'On my way.' to Ada", "on my way!", True),
        ("Write 'On my way.' to Ada", "On my way", True),
        ("Write 'On my way.' to Ada", "On his way.", False),
        ("Write 'On my way.' to Ada", "On my way home.", False),
        ("Ada must hear of my departure", "My departure is soon.", True),
        ("Ada must hear of my departure", "Nothing at all", False),
        ("Ada must hear of my departure", "", False),
    ],
)
def test_the_words_of_the_user_count(message: str, text: str, matches: bool) -> None:
    task = task_with("On my way." if "way" in message else "At departure.", message)
    system = {**task.truth.systems[0]["MessageAPI"], "inbox": [{"USR001": text}]}
    after = state_of(documents_of({"MessageAPI": system}), schema_of(task.truth.systems[0]))
    before = state_of(task.truth.documents[0], schema_of(task.truth.systems[0]))
    contract = contract_of(task, Gates.END)
    trial = [
        capture_of(SOURCE, side, state) for side, state in (("before", before), ("after", after))
    ]
    found = judgement_of(contract, *trial)
    outcome = {c.clause: c.truth for c in found.clauses}
    assert (outcome["letter-1"] is Truth.HOLDS) == matches


def suite_with(folder: Path, rules: Rules) -> Bfcl:
    """One task, in which the user asks twice for what the same look shows."""
    box = {"inbox": [], "user_map": {"Ada": "USR001"}, "current_user": "USR001"}
    task = {
        "id": "multi_turn_base_3",
        "category": "base",
        "messages": ["Who is there?", "Say that once more."],
        "turns": [[LOOK], [LOOK]],
        "states": [{"MessageAPI": box}, {}, {}],
        "drawn": [],
        "rules": rules.value,
    }
    for part, text in (("tasks", json.dumps(task)), ("runs", "")):
        (folder / part).mkdir(exist_ok=True)
        (folder / part / "base.jsonl").write_text(text)
    return open_cases(folder)


LOOK = {"call": "list_users()", "result": '{"users": ["Ada"]}', "writes": False, "moves": False}


@pytest.mark.parametrize(
    ("rules", "turns", "reply", "verdict"),
    [
        (Rules.LOOKS_IN_THEIR_TURN, [[LOOK], [LOOK]], NO_REPLY, Verdict.MATCH),
        (Rules.LOOKS_IN_THEIR_TURN, [[LOOK], []], NO_REPLY, Verdict.INCONCLUSIVE),
        (Rules.LOOKS_IN_THEIR_TURN, [[LOOK], []], "As I said: Ada!", Verdict.MATCH),
        (Rules.LOOKS_IN_THEIR_TURN, [[LOOK], []], "You're welcome.", Verdict.DIVERGE),
        (Rules.LOOKS_IN_THEIR_TURN, [[], []], "It is Ada.", Verdict.DIVERGE),
        (Rules.FIRST, [[LOOK], []], NO_REPLY, Verdict.MATCH),
    ],
)
def test_what_was_shown_before_is_owed_again_in_the_turn_that_asks_for_it(
    tmp_path: Path, rules: Rules, turns: Any, reply: Any, verdict: Verdict
) -> None:
    suite = suite_with(tmp_path, rules)
    [task] = suite.tasks()
    states = list(suite.task(task).truth.systems)
    trial = suite.trial(task, course_of({"turns": turns, "states": states}))
    spoken = [*(trial.trace.turns or ())]
    spoken[-1] = replace(spoken[-1], reply=reply)
    trace = replace(trial.trace, turns=tuple(spoken))
    assert judgement_of(trial.contract, trial.before, trial.after, trace=trace).verdict is verdict


# ---------------------------------------------------------------- the benchmark's own code


@pytest.mark.parametrize(
    "call",
    [
        "__import__('os').system('true')",
        "open('/etc/passwd')",
        "ls().__class__",
        "ls(a=[x for x in ()])",
        "exec('1')",
        "ls(a=lambda: 1)",
        "ls(f'{3}')",
    ],
)
def test_what_is_more_than_a_call_of_a_tool_is_refused(call: str) -> None:
    with pytest.raises((ValueError, SyntaxError)):
        host.check(call)


def test_calls_of_tools_are_made() -> None:
    host.check("f(x = g((1, -2), h(3)), y = ['a'], z={'b': None})")


@pytest.fixture(scope="module")
def checker() -> Checker:
    named_python = os.environ.get(VARIABLE)
    python = Path(named_python) if named_python else ROOT / ".hosts" / "bfcl" / "bin" / "python"
    if not python.exists():
        pytest.skip(
            "the benchmark's environment is not here; `python -m lab.benchmarks.bfcl environment`"
        )
    return Checker(python)


@pytest.mark.parametrize("rules", Rules)
def test_contracts_of_the_held_out_half_are_those_from_before_its_first_run(
    checker: Checker, rules: Rules
) -> None:
    """Before its first run under these rules: `Rules.FIRST` came before any run at all."""
    stored = json.loads(bfcl.registered(rules).read_text())["contracts"]
    assert bfcl.digests(checker, rules) == stored


def test_the_sample_is_what_the_benchmark_says(checker: Checker) -> None:
    known = {t["id"]: t for t in checker.tasks("base")}
    for line in read_lines(SAMPLE / "tasks" / "base.jsonl"):
        assert isinstance(line, RunLine)
        told = parse(line)
        assert {**known[told["id"]], "rules": bfcl.RULES.value} == told


def test_a_seeded_change_is_shown_to_the_checker(
    checker: Checker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(checker.python))
    suite = open_cases(SAMPLE)
    run = suite.minimal(TaskId("base", "multi_turn_base_66"))
    assert run is not None
    assert suite.reward(run) is True
    reference = reference_of(suite, run)
    world = World(reference, reference.judged(), 0)
    mutant = world.faulty("gone", "door", "a door is gone", {"door": drop(("driver",))}).mutant
    assert suite.reward(run, changes_of(reference, mutant)) is False


def test_a_change_that_no_simulator_can_take_is_no_opinion_and_no_part_of_it_is_made(
    checker: Checker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The benchmark makes a result of an exception, and passed what was never changed."""
    name, system = "multi_turn_base_66", "VehicleControlAPI"
    turns = [[call["call"] for call in turn] for turn in checker_task(checker, name)["turns"]]
    changed = {"fuelLevel": 1.0}
    assert checker.run(name, turns, patch={system: changed})["official"]["valid"] is False
    with pytest.raises(AdapterError, match=r"not as the patch says.*no attribute 'wings'"):
        checker.run(name, turns, patch={system: {**changed, "wings": 2}})
    monkeypatch.setenv(VARIABLE, str(checker.python))
    suite = open_cases(SAMPLE)
    run = suite.minimal(TaskId("base", name))
    assert run is not None
    reference = reference_of(suite, run)
    world = World(reference, reference.judged(), 0)
    row = {**reference.rows("vehicle")["1",], "rest": some_value(Kind.MAP)}
    mutant = world.faulty("more", "vehicle.rest", "more", {"vehicle": put(("1",), row)}).mutant
    assert suite.reward(run, changes_of(reference, mutant)) is None


def test_a_run_that_cannot_be_carried_out_says_so(checker: Checker) -> None:
    with pytest.raises(AdapterError, match="no call of a tool"):
        checker.run("multi_turn_base_66", [["open('x')"], [], [], []])


def test_nothing_of_a_run_is_left_in_the_next(checker: Checker) -> None:
    name = "multi_turn_base_195"  # it posts, without a word on whom to mention
    turns = [[call["call"] for call in turn] for turn in checker_task(checker, name)["turns"]]
    first = checker.run(name, turns, states=True)
    stray = [*turns[:-1], [*turns[-1], "mention(tweet_id=1, mentioned_usernames=['@zed'])"]]
    assert "@zed" in str(checker.run(name, stray, states=True)["states"])
    assert checker.run(name, turns, states=True) == first


def checker_task(checker: Checker, name: str) -> Any:
    return next(task for task in checker.tasks("base") if task["id"] == name)
