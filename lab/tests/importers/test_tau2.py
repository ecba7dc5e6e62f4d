"""Closed contracts of τ² tasks: on a cut of the recorded runs, and on a domain made up here."""

from __future__ import annotations

import json
import re
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from statediff_lab.importers.recorded import (
    Half,
    RecordedRun,
    RunLine,
    SeededChange,
    TaskId,
    parse,
    read_lines,
)
from statediff_lab.importers.rejudge import Wanted, judge_trial, rejudge
from statediff_lab.importers.sweep import reference_of
from statediff_lab.importers.tau2.suite import Tau2, open_cases
from statediff_lab.importers.workers import CaseFolder, Workers

from lab.tests.importers.conftest import SAMPLES
from lab.tests.importers.test_tau2_compat import LENT, folder, line, parsed
from statediff.errors import InputError
from statediff.kernel import Evaluated, replay
from statediff.meta.reference import Reference
from statediff.meta.world import put
from statediff.model.values import Key
from statediff.model.verdict import Truth, Verdict
from statediff.packs import packs_folder

SAMPLE = SAMPLES / "tau2-sample"
MOCK = SAMPLES / "tau2"


@cache
def opened(path: Path) -> Tau2:
    return open_cases(path)


@cache
def runs(path: Path) -> dict[str, tuple[RecordedRun, Any]]:
    """Every run of the folder by the end of its id, with its labels."""
    suite = opened(path)
    found = {}
    for file in suite.files:
        for read in read_lines(file.path):
            assert isinstance(read, RunLine)
            run, labels = suite.run(file.domain, parse(read))
            found[run.run_id.rpartition(":")[2]] = run, labels
    return found


def verdict_of(path: Path, run: str) -> Verdict:
    return judge_trial(opened(path).prepare(runs(path)[run][0])).judgement.verdict


def against(evaluated: Evaluated) -> list[str]:
    """`clause: sentence` of everything that does not hold."""
    findings = evaluated.judgement.findings
    return [f"{f.clause}: {f.sentence}" for f in findings if f.truth is not Truth.HOLDS]


# ---------------------------------------------------------------- compatible mode


def checked_mutants(path: Path) -> int:
    """How many mutants there are, each of which ends where its labels say."""
    suite, seen = opened(path), 0
    for read in read_lines(path / "mutants.jsonl.gz"):
        assert isinstance(read, RunLine)
        mutant = parse(read)
        run = mutant_run(suite, mutant)
        assert suite.compat(run).passes is mutant["state_equal_gold"]
        assert suite.compat(run).passes is (mutant["official_db_reward"] == 1)
        seen += 1
    return seen


def test_mutants_end_where_their_labels_say() -> None:
    assert checked_mutants(SAMPLE) == 41


def test_every_mutant_ends_where_its_labels_say(whole: Path) -> None:
    assert checked_mutants(whole / "tau2") == 862


def mutant_run(suite: Tau2, mutant: Any) -> RecordedRun:
    """Mutants were made of the last correction's references."""
    domain = suite.domain(mutant["domain"])
    corrections = domain.cases.corrections[mutant["task_id"]]
    key = next(c.gold_after for c in corrections if c.version == "tau3")
    raw = {
        "task_id": mutant["task_id"],
        "after": {"delta": mutant["delta"]},
        "trace": mutant["trace"],
        "labels": {"recorded_task": {"gold_key": key}},
    }
    return RecordedRun(
        mutant["mutant_id"], TaskId(mutant["domain"], mutant["task_id"]), "mutant", raw
    )


# ---------------------------------------------------------------- closed mode, recorded runs


@pytest.mark.parametrize(
    ("run", "verdict", "clause"),
    [
        ("19aa3920", Verdict.MATCH, ""),  # the reference does nothing, nor did the agent
        ("63e4dbc8", Verdict.MATCH, ""),
        ("81cb2fad", Verdict.MATCH, ""),  # "US" for "USA" in an address that is rewritten
        ("9063871b", Verdict.MATCH, ""),  # both readings hold
        ("7f2430fd", Verdict.DIVERGE, "disputed"),  # neither does
        ("cee86852", Verdict.DIVERGE, "disputed"),  # both corrections overrule the benchmark
        ("d7b4645f", Verdict.INCONCLUSIVE, "disputed"),  # the corrections want different states
        ("8151c41c", Verdict.INCONCLUSIVE, "disputed"),  # one wants more to be told
        ("2569061b", Verdict.MATCH, ""),
        ("b1387894", Verdict.MATCH, ""),
        ("f1029262", Verdict.MATCH, ""),  # the reference itself never got its bill paid
        ("55999999", Verdict.MATCH, ""),  # "2 GB" for "2.0 GB"
        ("8f3d4488", Verdict.MATCH, ""),  # an overdue bill of the user's own was paid
        ("65cd4cb0", Verdict.DIVERGE, "frame"),  # a line was resumed whose contract has ended
        ("c3b0c41a", Verdict.DIVERGE, "frame"),  # the line of somebody else was resumed
        ("dbad64e6", Verdict.DIVERGE, "frame"),  # a bill was paid that is not due
        ("b2dd38b6", Verdict.DIVERGE, "frame"),  # roaming was switched on for another line
        ("19fd6789", Verdict.DIVERGE, "goal-1"),  # the phone still does not work
    ],
)
def test_a_recorded_run_gets_its_verdict_and_replays(
    run: str, verdict: Verdict, clause: str
) -> None:
    evaluated = judge_trial(opened(SAMPLE).prepare(runs(SAMPLE)[run][0]))
    assert evaluated.judgement.verdict is verdict
    assert clause in [found.partition(":")[0] for found in [*against(evaluated), ""]]
    assert replay(evaluated.bundle).verdict is verdict


def test_what_the_benchmark_could_not_see_is_shown_with_its_rows() -> None:
    other_line = judge_trial(opened(SAMPLE).prepare(runs(SAMPLE)["c3b0c41a"][0]))
    assert against(other_line) == [
        'frame: bills B1002 status "Issued" → "Paid"',
        'frame: lines L1003 status "Suspended" → "Active" and 1 more',
    ]
    assert runs(SAMPLE)["c3b0c41a"][1].official is True


def with_value(right: Reference, type_name: str, key: Key, name: str, value: Any) -> Verdict:
    row = {**right.rows(type_name)[key], name: value}
    return right.edited({type_name: put(key, row)}).judged().verdict


def test_the_text_of_a_bill_counts_but_for_the_spelling_of_an_amount_of_data() -> None:
    right = reference_of(opened(SAMPLE), runs(SAMPLE)["55999999"][0])
    rows = right.rows("bills_line_items")
    written = "Data refueling: 2 GB at $2.0/GB"
    bought = next(key for key, row in rows.items() if row["description"] == written)
    wanted = {
        written: Verdict.MATCH,
        "Data refueling: 2.0 GB at $2.0/GB": Verdict.MATCH,
        "Data refueling: 3 GB at $2.0/GB": Verdict.DIVERGE,
        "Data refueling: 2 GB at $2/GB": Verdict.DIVERGE,
        "Data refueling: 12.0 GB at $2.0/GB": Verdict.DIVERGE,
        "": Verdict.DIVERGE,
    }
    for text, verdict in wanted.items():
        assert with_value(right, "bills_line_items", bought, "description", text) is verdict, text
    other = next(key for key in rows if key != bought)
    found = with_value(right, "bills_line_items", other, "description", "something else")
    assert found is Verdict.DIVERGE


def test_what_the_phone_is_asked_to_pay_is_nothing_to_tamper_with() -> None:
    right = reference_of(opened(SAMPLE), runs(SAMPLE)["55999999"][0])
    (key,) = right.rows("surroundings")
    found = with_value(right, "surroundings", key, "payment_request", "anything")
    assert found is Verdict.DIVERGE


def test_corrections_that_agree_overrule_the_benchmark() -> None:
    run, labels = runs(SAMPLE)["cee86852"]
    assert labels.official is True
    assert set(labels.corrected.values()) == {False}
    assert opened(SAMPLE).compat(run).passes


@pytest.mark.parametrize("name", ["18", "33", "49"])
def test_corrections_that_disagree_are_two_named_readings(name: str) -> None:
    content = opened(SAMPLE).contract(TaskId("retail", name)).content
    assert content.disputed is not None
    assert set(content.any_of or ()) == {"tau3", "verified"}


def test_mutants_match_where_they_are_right_and_nowhere_else() -> None:
    suite = opened(SAMPLE)
    wanted = {
        "gold_replay": Verdict.MATCH,
        "writes_only": Verdict.MATCH,
        "duplicate_write": Verdict.MATCH,
        "permuted_item_list": Verdict.MATCH,  # the shop's own defect moves prices, see the pack
        "address_formatting": Verdict.MATCH,
        "omitted_write": Verdict.DIVERGE,
        "null_agent": Verdict.DIVERGE,
        "extra_destructive_write": Verdict.DIVERGE,
        "wrong_entity_same_user": Verdict.DIVERGE,
        "wrong_entity_other_user": Verdict.DIVERGE,
        "wrong_field_zip": Verdict.DIVERGE,
        "alternative_payment_method": Verdict.DIVERGE,
    }
    seen = set()
    for read in read_lines(SAMPLE / "mutants.jsonl.gz"):
        assert isinstance(read, RunLine)
        mutant = parse(read)
        task = TaskId(mutant["domain"], mutant["task_id"])
        if suite.contract(task).content.disputed or mutant["kind"] not in wanted:
            continue
        outcome = judge_trial(suite.prepare(mutant_run(suite, mutant))).judgement.outcome
        assert outcome is wanted[mutant["kind"]], mutant["mutant_id"]
        seen.add(mutant["kind"])
    assert len(seen) >= 9


def test_a_transfer_that_the_task_asks_for_is_missed_where_nothing_else_is_wanted() -> None:
    suite = opened(MOCK)
    trial = suite.still(TaskId("mock", "impossible_task_1"))
    assert trial.contract.content.noop
    assert any("called-1" in found for found in against(judge_trial(trial)))


def test_the_reference_run_of_every_undisputed_task_matches() -> None:
    suite = opened(SAMPLE)
    for name in ("10", "20", "22"):
        minimal = suite.minimal(TaskId("retail", name))
        assert minimal is not None
        assert suite.compat(minimal).passes
        assert judge_trial(suite.prepare(minimal)).judgement.verdict is Verdict.MATCH


def test_no_reference_run_is_made_up_for_rules_that_are_not_in_the_files() -> None:
    suite = opened(SAMPLE)
    telecom = [task for task in suite.tasks() if task.domain == "telecom"]
    assert telecom
    assert all(suite.minimal(task) is None for task in telecom)


def test_a_replay_that_went_another_way_leaves_the_state_unknown() -> None:
    suite = opened(MOCK)
    odd = [r for r, _ in runs(MOCK).values() if any_astray(r)]
    assert odd
    for run in odd:
        evaluated = judge_trial(suite.prepare(run))
        assert evaluated.judgement.verdict is Verdict.INCONCLUSIVE
        assert any("another output than recorded" in found for found in against(evaluated))


def any_astray(run: RecordedRun) -> bool:
    return any(call.get("replay_equal") is False for call in run.raw["trace"])


def test_what_was_not_in_the_reference_counts_where_the_benchmark_looks() -> None:
    suite = opened(SAMPLE)
    run = runs(SAMPLE)["63e4dbc8"][0]
    gone = SeededChange("products", ("9523456873",), {"id": "9523456873"}, None)
    assert suite.compat(run).passes
    assert not suite.compat(run, (gone,)).passes
    assert not suite.is_named(run, gone)
    paid = next(r for r, _ in runs(SAMPLE).values() if r.run_id.endswith("b1387894"))
    assert suite.compat(paid, (gone,)).passes  # telecom looks at its assertions only


# ---------------------------------------------------------------- who did it


def changed_run(run: RecordedRun, **other: Any) -> RecordedRun:
    raw = {**run.raw, **other}
    return RecordedRun(run.run_id, run.task, run.agent, raw)


def test_the_users_phone_is_the_users_to_change() -> None:
    suite, (run, _) = opened(SAMPLE), runs(SAMPLE)["2569061b"]
    trace = run.raw["trace"]
    assert run.raw["solo_mode"] is False
    assert any(call["requestor"] == "user" and call.get("delta") for call in trace)
    assert judge_trial(suite.prepare(run)).judgement.verdict is Verdict.MATCH
    taken = [{**call, "requestor": "assistant"} for call in trace]
    evaluated = judge_trial(suite.prepare(changed_run(run, trace=taken)))
    assert evaluated.judgement.verdict is Verdict.DIVERGE
    assert any(found.startswith("frame: device") for found in against(evaluated))


def test_where_there_is_no_user_the_agent_acts_in_the_users_place() -> None:
    suite, (run, _) = opened(SAMPLE), runs(SAMPLE)["2569061b"]
    alone = [{**call, "requestor": "assistant"} for call in run.raw["trace"]]
    trial = suite.prepare(changed_run(run, trace=alone, solo_mode=True))
    assert {a.principal for a in trial.trace.actions if a.effects} == {"user"}
    assert judge_trial(trial).judgement.verdict is Verdict.MATCH


def test_effects_that_do_not_add_up_to_the_state_after_attribute_nothing() -> None:
    suite, (run, _) = opened(SAMPLE), runs(SAMPLE)["2569061b"]
    silent = [{**call, "delta": []} for call in run.raw["trace"]]
    trial = suite.prepare(changed_run(run, trace=silent))
    assert all(action.effects is None for action in trial.trace.actions)
    evaluated = judge_trial(trial)
    assert evaluated.judgement.verdict is Verdict.INCONCLUSIVE
    assert any("attribution" in found for found in against(evaluated))


# ---------------------------------------------------------------- a domain never seen


def test_a_domain_never_seen_is_judged_without_a_pack(tmp_path: Path) -> None:
    suite = open_cases(folder(tmp_path, line(outputs=[])))
    run, _ = suite.run("library", parsed(line(outputs=[])))
    trial = suite.prepare(run)
    assert judge_trial(trial).judgement.verdict is Verdict.MATCH
    assert trial.contract.content.require
    schema = trial.before.parts[0].state.schema
    assert {t.name for t in schema.types} == {"books", "loans"}
    assert schema.by_name["loans"].by_name["book_id"].reference == "books"


def test_a_number_within_another_was_not_told(tmp_path: Path) -> None:
    suite = open_cases(folder(tmp_path, line(outputs=["327"])))
    run, _ = suite.run("library", parsed(line()))
    assert suite.components(run).communicate == (True,)  # found in "1,327"
    evaluated = judge_trial(suite.prepare(run))
    assert evaluated.judgement.outcome is Verdict.MATCH
    assert evaluated.judgement.task is Verdict.DIVERGE


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        ({"op": "remove", "path": ["books", "b1"]}, "books b1 deleted"),
        ({"op": "replace", "path": ["books", "b1", "copies"], "new": 9}, "books b1 copies 2 → 9"),
        ({"op": "add", "path": ["books", "b9"], "new": {"book_id": "b9"}}, "books b9 created"),
        ({"op": "add", "path": ["books", "b1", "note"], "new": "x"}, "books b1 note"),
        ({"op": "remove", "path": ["books", "b1", "title"]}, "books b1 title"),
        ({"op": "replace", "path": ["books", "b1", "copies"], "new": "2"}, "books b1 copies"),
    ],
)
def test_harm_in_a_domain_never_seen_is_found(
    tmp_path: Path, harm: dict[str, Any], said: str
) -> None:
    suite = open_cases(folder(tmp_path))
    run, _ = suite.run("library", parsed(line(outputs=[], after={"delta": [*LENT, harm]})))
    evaluated = judge_trial(suite.prepare(run))
    assert evaluated.judgement.verdict is Verdict.DIVERGE
    assert any(found.startswith(f"frame: {said}") for found in against(evaluated))


def test_a_change_outside_every_collection_is_refused_not_overlooked(tmp_path: Path) -> None:
    suite = open_cases(folder(tmp_path))
    more = [*LENT, {"op": "add", "path": ["secrets"], "new": {"s1": {"id": "s1"}}}]
    run, _ = suite.run("library", parsed(line(after={"delta": more})))
    with pytest.raises(InputError, match="secrets changed, but is no collection"):
        suite.prepare(run)


def test_state_values_that_look_like_expressions_stay_values(tmp_path: Path) -> None:
    evil = '" or true or it.id == "'
    gold = [{"op": "add", "path": ["books", evil], "new": {"book_id": evil, "title": "{input.x}"}}]
    tree = line(outputs=[], after={"delta": gold})
    suite = open_cases(folder(tmp_path, tree, gold=gold))
    run, _ = suite.run("library", parsed(tree))
    assert judge_trial(suite.prepare(run)).judgement.verdict is Verdict.MATCH
    other, _ = suite.run("library", parsed(line(outputs=[], after={"delta": []})))
    assert judge_trial(suite.prepare(other)).judgement.verdict is Verdict.DIVERGE


# ---------------------------------------------------------------- the split, and the packs


def test_the_half_of_a_task_follows_from_its_name_alone() -> None:
    suite = opened(SAMPLE)
    assert suite.half(TaskId("retail", "18")) is Half.DEVELOPED
    assert suite.half(TaskId("retail", "33")) is Half.HELD_OUT
    assert suite.half(TaskId("mock", "update_task_1")) is Half.DEVELOPED


def test_no_pack_names_a_run() -> None:
    ids = {run.run_id for path in (SAMPLE, MOCK) for run, _ in runs(path).values()}
    for path in sorted((packs_folder("contracts") / "imported" / "tau2").rglob("*.*")):
        text = path.read_text("utf-8")
        assert not re.search(r":[0-9]+:[0-9a-f]{8}", text), path
        assert not any(run_id in text or run_id[-8:] in text for run_id in ids), path


def test_the_published_first_run_adds_up() -> None:
    path = packs_folder("contracts") / "imported" / "tau2" / "first-run.json"
    published = json.loads(path.read_text("utf-8"))
    counts = [d for half in ("held_out", "developed") for d in published[half].values()]
    assert sum(d["runs"] for d in counts) == 605
    assert all(d["runs"] == sum(v for k, v in d.items() if k != "runs") for d in counts)


# ---------------------------------------------------------------- the whole cases, where they are


def test_the_whole_set_is_reproduced(whole: Path) -> None:
    suite, agree = opened(whole / "tau2"), []
    for file in suite.files:
        for read in read_lines(file.path):
            assert isinstance(read, RunLine)
            run, labels = suite.run(file.domain, parse(read))
            agree.append(suite.compat(run).passes is labels.compat)
    assert (len(agree), all(agree)) == (605, True)


def test_the_deterministic_reward_is_reproduced_but_for_three_that_contradict_their_own_inputs(
    whole: Path,
) -> None:
    # Of tb_retail one: its state is the reference's and there is nothing to tell, yet it got 0. Of
    # mock two: one was broken off, one has a replay that went another way than the recording.
    suite, computed, other = opened(whole / "tau2"), 0, []
    for file in suite.files:
        for read in read_lines(file.path):
            assert isinstance(read, RunLine)
            tree = parse(read)
            run, _ = suite.run(file.domain, tree)
            reward = suite.components(run).reward(suite.criteria(run).basis)
            if reward is not None:
                computed += 1
                other += [] if reward == float(tree["official"]["reward"]) else [file.domain]
    assert computed == 396
    assert sorted(other) == ["mock", "mock", "tb_retail"]


def test_doing_nothing_passes_seven_retail_tasks_by_the_benchmarks_own_rules(whole: Path) -> None:
    suite = opened(whole / "tau2")
    domain = suite.domain("retail")
    passed = []
    for name, known in domain.known.items():
        raw = {"task_id": name, "labels": {"recorded_task": {"gold_key": known.gold_key}}}
        run = RecordedRun("null", TaskId("retail", name), "null", raw)
        found = suite.components(run)
        if found.db and not known.criteria.communicate:
            passed.append(name)
    assert (len(passed), len(domain.known)) == (7, 114)


@pytest.mark.parametrize(
    ("damaged", "why"),
    [
        (b'{"run_id": "a"}\n{"run_id"\n', "line 2: not JSON"),
        (b'{"run_id": "a", "labels": [1]}\n', "line 1: expected `labels`"),
    ],
)
def test_a_damaged_correction_is_reported_by_its_own_place_and_not_as_a_bad_run(
    tmp_path: Path, damaged: bytes, why: str
) -> None:
    cases = tmp_path / "cases"
    shutil.copytree(SAMPLE, cases, copy_function=shutil.copyfile)
    (cases / "adjudicated.jsonl.gz").write_bytes(damaged)
    with Workers(CaseFolder("tau2", cases), 1) as workers:
        found = rejudge(workers, Wanted())
        with pytest.raises(InputError, match=rf"^adjudicated\.jsonl\.gz: {why}"):
            next(found)
