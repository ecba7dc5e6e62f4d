"""The rules of public benchmarks on trial, and their judges."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from statediff_lab.audit.judges import livemcpbench, tau2_judges
from statediff_lab.audit.measures import measure, rate
from statediff_lab.audit.suites import Effort, audit_suite
from statediff_lab.audit.tries import Group
from statediff_lab.importers.recorded import RunLine, SeededChange, open_suite, read_lines
from statediff_lab.importers.rejudge import read_run
from statediff_lab.importers.sweep import changes_of, reference_of
from statediff_lab.importers.workers import CaseFolder, Workers
from statediff_lab.reports.audit import judges_document
from statediff_lab.statistics.bootstrap import Interval

from lab.benchmarks import league
from statediff.meta.world import World, drop

AGREEMENT = {
    "openai_gpt-4.1-mini": (85.26, 81.05),
    "qwen25_72b_int4_instruct": (84.21, 77.89),
    "deepseek_deepseek-chat-v3-0324": (81.05, 78.95),
    "qwen_qwen3-235b-a22b": (74.74, 57.89),
    "qwen_qwen3-32b": (73.68, 50.53),
    "models_gemini-2.5-pro": (72.63, 62.11),
    "claude-sonnet-4-20250514": (71.58, 73.68),
    "openai_gpt-4.1": (71.58, 52.63),
    "claude-opus-4-20250514": (68.42, 55.79),
    "deepseek_deepseek-r1-0528": (58.95, 35.79),
}


def test_the_ten_judges_of_livemcpbench_come_out_to_the_digit(whole: Path) -> None:
    study = livemcpbench(whole / "livemcpbench")
    found = {
        j.judge: tuple(round(100 * r.hits / r.of, 2) for r in (j.agreement, j.passed))
        for j in study.judges
    }
    assert found == AGREEMENT
    assert next(iter(found)) == "openai_gpt-4.1-mini"
    assert (study.passed.hits, study.passed.of) == (67, 95)
    assert study.spread.spread is not None
    assert round(100 * float(study.spread.spread), 2) == round(81.05 - 35.79, 2)
    assert len(study.kappas) == 45


def test_the_published_judge_of_tau2_passes_nearly_all_that_has_no_reward(whole: Path) -> None:
    [judge] = tau2_judges(whole / "tau2").judges
    assert (judge.lenient.hits, judge.lenient.of) == (44, 46)
    assert (judge.strict.hits, judge.strict.of) == (0, 68)
    assert (judge.precision.hits, judge.precision.of) == (68, 112)


OTHERWISE = {
    "activegraph_20260531-184109-726391:create_task_1_nl_eval:0:2e4f62f2",
    "activegraph_20260531-184109-726391:update_task_with_message_history:0:adcd84aa",
    "tb_aval_preconditions:20:20",
}
"""Runs whose published reward contradicts the state that they left, by its own replay."""


@pytest.mark.parametrize(
    ("name", "decided", "otherwise"), [("agent-diff", 549, set()), ("tau2", 396, OTHERWISE)]
)
def test_rewards_are_those_that_were_published(
    whole: Path, name: str, decided: int, otherwise: set[str]
) -> None:
    suite = open_suite(name, whole / name)
    rewards = {}
    for file in suite.files:
        for line in read_lines(file.path):
            assert isinstance(line, RunLine)
            run, labels = read_run(suite, file.domain, line)
            rewards[run.run_id] = suite.reward(run), labels.official
    known = {run: pair for run, pair in rewards.items() if pair[0] is not None}
    assert {run for run, (ours, theirs) in known.items() if ours != theirs} == otherwise
    assert len(known) == decided


@pytest.mark.slow
def test_the_assertions_of_agent_diff_do_not_see_what_nobody_asserted(samples: Path) -> None:
    with Workers(CaseFolder("agent-diff", samples / "agent-diff"), 1) as workers:
        audits = list(audit_suite(workers, Effort(each=1)))
    [domain] = measure(audits, 0)
    rates = {each.kind: (each.wrong.hits, each.wrong.of, each.ours) for each in domain.classes}
    assert domain.audited == domain.tasks == 5
    assert rates["purge"] == (5, 5, 5)
    assert rates["null-run"] == rates["missing-change"] == (0, 5, 0)


def test_a_seeded_row_that_the_run_made_is_judged_as_the_run_made_it(samples: Path) -> None:
    suite = open_suite("agent-diff", samples / "agent-diff")
    tried = 0
    for line in read_lines(suite.files[0].path):
        assert isinstance(line, RunLine)
        run, labels = read_run(suite, suite.files[0].domain, line)
        if not labels.official:
            continue
        reference = reference_of(suite, run)
        world = World(reference, reference.judged(), 0)
        same = [
            SeededChange(
                world.reference.types[one.type].source_table, one.key, one.after, one.after
            )
            for one in world.touched
            if one.after is not None and one.before is None
        ]
        assert suite.reward(run, same)
        for one in world.necessary:
            if one.before is None:
                mutant = reference.edited({one.type: drop(one.key)})
                assert not suite.reward(run, changes_of(reference, mutant)), one
                tried += 1
    assert tried > 2


def test_a_run_without_its_deeds_or_words_is_judged_so(samples: Path) -> None:
    with Workers(CaseFolder("tau2", samples / "tau2"), 1) as workers:
        audits = list(audit_suite(workers, Effort(each=1)))
    shown = [t for audit in audits for t in audit.tries if t.group is Group.NOTHING]
    assert {t.kind for t in shown} == {"null-run", "answer-alone"}
    assert {audit.fault != "" for audit in audits} == {True, False}


def test_an_interval_is_over_tasks_and_exact_where_all_tasks_agree() -> None:
    assert rate([[1, 1, 1]], 0).interval is None
    none = rate([[0], [0, 0], []], 0)
    assert (none.hits, none.of, none.tasks) == (0, 3, 2)
    assert none.interval == Interval(0.0, 0.8419)
    mixed = rate([[1, 1], [0, 0], [1, 0]], 0).interval
    assert mixed is not None
    assert 0 <= mixed.low < 0.5 < mixed.high <= 1


def shares(suite: str, group: str) -> str:
    found = [g for d in league.stored(suite)["domains"] for g in d["groups"] if g["group"] == group]
    return f"{sum(g['wrong'] for g in found):,} of {sum(g['of'] for g in found):,}"


def test_the_page_beside_others_says_what_is_stored() -> None:
    page = (Path(__file__).parents[3] / "docs" / "when.md").read_text(encoding="utf-8")
    rows = {line.split("|")[1].strip(): line for line in page.splitlines() if "|" in line}
    for name, suite in (("Agent-Diff", "agent-diff"), ("BFCL, multi-turn", "bfcl"),
                        ("AgentDojo", "agentdojo"), ("τ²-bench", "tau2")):  # fmt: skip
        assert f" {shares(suite, 'beside the task')} " in rows[name]
        kinds = [e for d in league.stored(suite)["domains"] for e in d["classes"]]
        parts = [k for k in kinds if k["group"] == "right"] if suite == "tau2" else []
        for kind in {k["kind"] for k in parts}:
            wrong, of = (sum(k[n] for k in parts if k["kind"] == kind) for n in ("wrong", "of"))
            assert f" {wrong} of {of} " in rows[name]
        assert parts or f" {shares(suite, 'right')} |" in rows[name]
    assert f"none of {shares('agentdojo', 'evidence removed')[5:]} |" in rows["AgentDojo"]
    assert "## agent-diff" in league.page()


@pytest.mark.parametrize("path", sorted(league.STORED.glob("*-holes.json")), ids=lambda p: p.stem)
def test_each_hole_that_was_read_is_counted_and_no_error_of_ours_is(path: Path) -> None:
    stored = league.stored(path.stem.removesuffix("-holes"))
    read = json.loads(path.read_bytes())
    assert {each["is"] for each in read["read"]} == set(read["kinds"])
    counted = {
        (domain["name"], each["group"], each["kind"]): each["wrong"]
        for domain in stored["domains"]
        for each in domain["classes"]
        if each["group"] != "right" and each["wrong"]
    }
    holes = Counter((each["domain"], each["group"], each["kind"]) for each in read["read"])
    assert holes == counted
    page = league.page()
    for each in read["our errors"]:
        assert each not in read["read"]
        assert f"`{each['task']}` ({each['sentence']})" in page


def test_the_stored_figures_of_judges_are_those_of_the_files(whole: Path) -> None:
    for name, study in league.judges(whole):
        told = league.stored(name)
        found = judges_document(study)
        assert {key: told[key] for key in found} == found


@pytest.mark.parametrize("path", sorted((league.STORED / "registered").glob("*.json")))
def test_held_out_runs_were_judged_by_the_contracts_registered_before(path: Path) -> None:
    registered = json.loads(path.read_bytes())
    assert registered
    assert all(map(league.is_held_out, registered))
    if (league.STORED / path.name).exists():
        assert league.stored(path.stem)["contracts"] == registered
