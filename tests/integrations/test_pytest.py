"""The pytest plugin: contracts as tests, tests that a contract decides, three outcomes."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest
from ruamel.yaml import YAML

import statediff
from statediff.packs import contract_folder
from tests.integrations.conftest import PLUGIN, UNDECIDED, put_states
from tests.tickets import CLOSE

pytest_plugins = "pytester"
REFUND = "shop/refund-returned-order"


@pytest.fixture
def ran(pytester, options):
    """Runs pytest in the folder, in this process."""
    return lambda *more: pytester.runpytest_inprocess(*options, *more)


def test_a_contract_with_states_has_one_of_three_outcomes_and_only_match_passes(pytester, ran):
    put_states(pytester.path, "match", "diverge", "inconclusive")
    result = ran()
    result.stdout.fnmatch_lines([
        "*diverge.contract.yaml F*", "*inconclusive.contract.yaml I*", "*match.contract.yaml .*",
    ])  # fmt: skip
    assert result.parseoutcomes() == {"failed": 1, "passed": 1, "inconclusive": 1}
    assert result.ret == 1
    # What failed is told by the report of `statediff show`, and nothing of our own code.
    result.stdout.fnmatch_lines(["DIVERGE  notes/close-ticket 1.0.0*", "*Findings", "*Numbers*"])
    result.stdout.fnmatch_lines(["*= INCONCLUSIVE =*", "INCONCLUSIVE *states*"])
    result.stdout.no_fnmatch_line("*pytest_trials.py*")


def test_inconclusive_fails_the_session_unless_one_says_that_it_is_only_reported(pytester, ran):
    put_states(pytester.path, "match", "inconclusive")
    failing = ran("--junitxml=one.xml")
    assert (failing.ret, failing.parseoutcomes()) == (1, {"passed": 1, "inconclusive": 1})
    reported = ran("--statediff-inconclusive=report", "--junitxml=two.xml")
    assert (reported.ret, reported.parseoutcomes()) == (0, {"passed": 1, "inconclusive": 1})
    reported.stdout.fnmatch_lines(["INCONCLUSIVE  notes/close-ticket*"])
    for name, (failures, skipped) in {"one.xml": ("1", "0"), "two.xml": ("0", "1")}.items():
        [suite] = ET.fromstring((pytester.path / name).read_text())
        assert (suite.get("failures"), suite.get("skipped")) == (failures, skipped)
        told = {p.get("value") for p in suite.iter("property")}
        assert {"MATCH", "INCONCLUSIVE"} <= told


def test_what_was_not_decided_is_no_expected_failure(pytester, ran):
    pytester.makepyfile(
        f"""
        import pytest, statediff
        from statediff.integrations.verdicts import require
        BEFORE = {{"ticket": [{{"id": 7, "status": "open"}}]}}
        AFTER = {{"ticket": [{{"id": 7, "status": "closed"}}]}}

        @pytest.mark.xfail
        def test_undecided():
            require(statediff.judge({UNDECIDED!r}, BEFORE, AFTER))

        @pytest.mark.xfail
        def test_decided():
            require(statediff.judge({CLOSE!r}, BEFORE, BEFORE))
        """
    )
    result = ran()
    assert (result.ret, result.parseoutcomes()) == (1, {"inconclusive": 1, "xfailed": 1})


def test_a_trial_that_could_not_be_made_is_an_error_and_no_failure(pytester, ran):
    pytester.makepyfile(
        """
        def test_it():
            from statediff.errors import SandboxError
            raise SandboxError("the reset of shop is not proven")
        """
    )
    result = ran()
    assert (result.ret, result.parseoutcomes()) == (1, {"errors": 1})
    result.stdout.fnmatch_lines(["*the reset of shop is not proven*"])


PRICE = """\
contract: t/price
version: 1.0.0
owner: t
intent: Set the price of one product.
sandbox: shop
inputs: {product: 314, cents: 1}
cases: rows.csv
require:
  - id: priced
    update: product
    where: it.id == input.product
    fields: [price_cents]
    that: new.price_cents == input.cents
"""


def test_agents_are_run_and_the_body_of_a_test_can_be_the_agent(pytester, ran, tmp_path):
    (pytester.path / "raise.contract.yaml").write_text(
        "contract: t/raise\nversion: 1.0.0\nowner: t\nintent: Raise the price of product 314.\n"
        "sandbox: shop\nanswer:\n  schema: {done: bool}\n  claims:\n    - answer.done\n"
        "require:\n  - id: raised\n    update: product\n    where: it.id == 314\n"
        "    fields: [price_cents]\n"
    )
    pytester.makeini("[pytest]\nstatediff_contracts = nothing\n")
    pytester.makepyfile(
        f"""
        import sqlite3
        import pytest
        from statediff.harness import Hooks
        UNPLUGGED = Hooks(before_capture_after=lambda sandbox: sandbox.unplug("outbox"))

        def act(sandbox, statement):
            with sqlite3.connect(sandbox.path("shop-db")) as database:
                database.execute(statement)
            database.close()
            sandbox.answer = {{"done": True}}

        @pytest.mark.statediff("raise.contract.yaml")
        def test_body_matches(statediff_sandbox):
            assert "product 314" in statediff_sandbox.prompt
            act(statediff_sandbox, "UPDATE products SET price_cents = 1 WHERE id = 314")

        @pytest.mark.statediff("raise.contract.yaml")
        def test_body_diverges(statediff_sandbox):
            act(statediff_sandbox, "UPDATE products SET price_cents = price_cents + 1")

        @pytest.mark.statediff("raise.contract.yaml")
        def test_body_fails_by_itself(statediff_sandbox):
            assert statediff_sandbox.folder == 1

        def test_body_without_a_marker(statediff_sandbox):
            raise AssertionError("is never run")

        @pytest.mark.statediff({REFUND!r})
        def test_runs(statediff_run):
            assert statediff_run("careful").verdict.value == "MATCH"
            statediff_run("hasty", expect="DIVERGE")
            statediff_run("careful", expect="INCONCLUSIVE", hooks=UNPLUGGED)
            with pytest.raises(AssertionError, match="DIVERGE: no-customer-deleted"):
                statediff_run("hasty")
        """
    )
    result = ran(f"--statediff-out={tmp_path / 'kept'}")
    assert result.parseoutcomes() == {"passed": 2, "failed": 2, "errors": 1}
    result.stdout.fnmatch_lines([
        "*ERROR at setup of test_body_without_a_marker*",
        "*expected @pytest.mark.statediff(CONTRACT)*found no marker*",
    ])  # fmt: skip
    result.stdout.fnmatch_lines(["*test_body_diverges*", "*DIVERGE: *"])
    kept = [statediff.load(folder) for folder in sorted((tmp_path / "kept").iterdir())]
    # One bundle a verdict: the body that failed by itself was not judged.
    found = sorted(judged.verdict.value for judged in kept)
    assert found == ["DIVERGE", "DIVERGE", "DIVERGE", "INCONCLUSIVE", "MATCH", "MATCH"]


@pytest.mark.slow
def test_the_cases_of_a_pack_are_run_under_xdist(pytester, options):
    folder = contract_folder(REFUND).folder
    task = pytester.path / "shop" / "task"
    task.mkdir(parents=True)
    (task / "agents.py").symlink_to(folder / "agents.py")
    (task / "contract.yaml").symlink_to(folder / "contract.yaml")
    (task.parent / "toolbox.py").symlink_to(folder.parent / "toolbox.py")
    for shared in folder.parents[1].glob("*.py"):
        (pytester.path / shared.name).symlink_to(shared)
    cases = YAML(typ="safe").load(folder / "cases.yaml")["cases"]
    some = {case["verdict"]: case for case in reversed(cases)}
    wrong = {**some["MATCH"], "verdict": "DIVERGE"}  # it will MATCH, so this case fails
    (task / "cases.yaml").write_text(
        json.dumps({"cases": [*some.values(), wrong]})
    )  # fmt: skip
    put_states(pytester.path, "inconclusive")
    pytester.makeini("[pytest]\nstatediff_contracts = contract.yaml *.contract.yaml\n")
    result = pytester.runpytest_subprocess(*options, "-n", "2")
    assert result.parseoutcomes() == {"passed": 3, "failed": 1, "inconclusive": 1}
    assert result.ret == 1
    result.stdout.fnmatch_lines(["MATCH*expected DIVERGE*"])
    result.stdout.fnmatch_lines(["INCONCLUSIVE *inconclusive.contract.yaml::states"])


def test_a_contract_alone_is_linted_and_says_where_it_is_wrong(pytester, ran):
    (pytester.path / "sound.contract.yaml").write_text(CLOSE)
    (pytester.path / "broken.contract.yaml").write_text(CLOSE.replace("require", "requires"))
    (pytester.path / "half.contract.yaml").write_text(CLOSE)
    (pytester.path / "half.after.json").write_text("{}")
    result = ran("--continue-on-collection-errors")
    assert result.parseoutcomes() == {"linted": 1, "failed": 1, "errors": 1}
    result.stdout.fnmatch_lines(["*broken.contract.yaml:5:1: *requires*"])
    result.stdout.fnmatch_lines(["*half.before.json: expected it beside half.after.json*"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_states_of_every_form_beside_a_contract_are_judged(pytester, ran):
    for name, status in (("right", "closed"), ("wrong", "open"), ("broken", "closed")):
        (pytester.path / f"{name}.contract.yaml").write_text(CLOSE)
        for side, now in (("before", "open"), ("after", status)):
            with sqlite3.connect(pytester.path / f"{name}.{side}.db.sqlite") as app:
                app.execute("CREATE TABLE ticket (id INTEGER PRIMARY KEY, status TEXT)")
                app.execute("INSERT INTO ticket VALUES (7, ?)", (now,))
            app.close()
            (pytester.path / f"{name}.{side}.notes.csv").write_text("id,text\n1,hello\n")
    (pytester.path / "broken.before.db.sqlite").write_bytes(
        b"no database, but a text of some length"
    )
    (pytester.path / "alone.contract.yaml").write_text(CLOSE)
    result = ran()
    assert result.parseoutcomes() == {"passed": 1, "failed": 1, "inconclusive": 1, "linted": 1}
    result.stdout.fnmatch_lines(["*DIVERGE: closed*"])
    result.stdout.fnmatch_lines(["INCONCLUSIVE: db not read: the file is not a SQLite database*"])


def test_an_agent_that_is_named_tries_every_contract_k_times(pytester, ran):
    (pytester.path / "x.contract.yaml").write_bytes(contract_folder(REFUND).contract.read_bytes())
    result = ran("--statediff-agent-cmd=true", "--statediff-trials=2")
    assert result.parseoutcomes() == {"failed": 2}
    result.stdout.fnmatch_lines(["*trial 1*", "*agent true*", "*trial 2*"])


def test_each_case_of_a_contract_is_tried(pytester, ran):
    (pytester.path / "price.contract.yaml").write_text(PRICE)
    (pytester.path / "rows.csv").write_text("case,product,cents\ncheap,314,1\ndear,315,999\n")
    pytester.makepyfile(
        """
        import os, sqlite3, pytest

        def price(trial):
            path = trial.urls["shop-db"].removeprefix("sqlite:///")
            with sqlite3.connect(path) as database:
                database.execute("UPDATE products SET price_cents = 1 WHERE id = 314")

        @pytest.mark.parametrize(("case", "verdict"), [("cheap", "MATCH"), ("dear", "DIVERGE")])
        def test_each(statediff_run, case, verdict):
            statediff_run(price, "price.contract.yaml", case=case, expect=verdict)

        @pytest.mark.statediff("price.contract.yaml", case="dear")
        def test_the_marked_one_with_another_input(statediff_run):
            statediff_run(price, inputs={"product": 314, "cents": 1})

        def test_none_is_named(statediff_run):
            statediff_run(price, "price.contract.yaml")
        """
    )
    result = ran()
    assert result.parseoutcomes() == {"passed": 3, "linted": 1, "failed": 1}
    result.stdout.fnmatch_lines(["*price.contract.yaml has 2 cases, and a test tries one*"])
    result = ran("price.contract.yaml", "--statediff-agent-cmd=true")
    assert result.parseoutcomes() == {"failed": 2}
    result.stdout.fnmatch_lines(["*cheap, trial 1*", "*dear, trial 1*"])


def test_options_that_contradict_each_other_end_the_session_at_once(ran):
    assert ran("--statediff-trials=0").ret == pytest.ExitCode.USAGE_ERROR
    result = ran("--statediff-agent=a:b", "--statediff-agent-cmd=true")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*give either --statediff-agent or --statediff-agent-cmd*"])


def test_loading_the_plugin_imports_nothing_of_statediff():
    program = f"import sys, pytest; before = set(sys.modules); import {PLUGIN}; "
    program += "print(*sorted(set(sys.modules) - before))"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == [
        "statediff",
        "statediff._version",
        "statediff.integrations",
        PLUGIN,
    ]
