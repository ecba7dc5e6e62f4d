"""The Python API: a dozen names, imported when they are used, and never a silent pass."""

from __future__ import annotations

import doctest
import json
import subprocess
import sys
from pathlib import Path

import pytest

import statediff
from statediff import Verdict, api
from statediff.errors import ContractError, InputError, UsageError
from tests.tickets import BOTH, CLOSE, CLOSED, OPEN, tickets

CONTRACT = "shop/refund-returned-order"


NAMES = [
    "Decision", "Evidence", "Judge", "Judged", "Score", "Standing", "StatediffError", "Trial",
    "Verdict", "changes", "judge", "lint",
    "load", "load_contract", "open_sandbox", "replay", "run", "state", "watch",
]  # fmt: skip


def test_the_public_names_are_these():
    assert sorted(api.__all__) == NAMES
    assert statediff.__all__ == api.__all__
    assert all(getattr(statediff, name) is getattr(api, name) for name in NAMES)
    assert set(NAMES) <= set(dir(statediff))
    everything: dict[str, object] = {}
    exec("from statediff import *", everything)
    assert sorted(set(everything) - {"__builtins__"}) == NAMES
    for name in ("nothing", "_folder", "__wrapped__", "Path"):
        with pytest.raises(AttributeError, match=f"no attribute '{name}'"):
            getattr(statediff, name)
    with pytest.raises(ImportError):
        from statediff import nothing  # noqa: F401, PLC0415


def test_importing_statediff_imports_nothing_else():
    """Nor do the questions that tools ask of any module."""
    program = (
        "import sys, statediff; statediff.__version__; hasattr(statediff, '__wrapped__');"
        "from statediff import errors;"
        "print(*(m for m in sys.modules if 'statediff.' in m))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == ["statediff._version", "statediff.errors"]


def test_to_name_a_judge_loads_nothing_that_judges():
    """A program pays for pyarrow, and for pandas that comes with it, once it has a judge."""
    late = "numpy pandas pyarrow pydantic ruamel httpx asyncio pygments rich cryptography ssl"
    program = (
        "import sys, statediff; statediff.Judge, statediff.Verdict, statediff.load_contract;"
        "print(len(sys.modules), *sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    count, *names = ran.stdout.split()
    assert not {*late.split(), "statediff.api"} & set(names)
    assert int(count) <= 200


def test_a_contract_is_read_without_what_agents_and_pages_need():
    program = f"import sys, statediff; statediff.load_contract({CONTRACT!r}); print(*sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    late = {"pandas", "httpx", "asyncio", "pygments", "rich", "statediff.contract.lint"}
    assert not late & set(ran.stdout.split())


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_mypy_sees_the_public_names_and_no_other(tmp_path: Path):
    """With the cache of `make check` this takes seconds."""
    program = tmp_path / "program.py"
    program.write_text(
        "import statediff\n"
        "from statediff import Verdict, judge\n"
        'reveal_type(judge("c.yaml", {}, {}).verdict)\n'
        f"print({', '.join(f'statediff.{name}' for name in NAMES)}, statediff.__version__)\n"
        "statediff.nothing\n"
        "statediff.Path\n"
    )
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", str(program)],
        cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert [line.partition("program.py:")[2] for line in ran.stdout.splitlines()[:-1]] == [
        '3: note: Revealed type is "statediff.model.verdict.Verdict"',
        '5: error: Module has no attribute "nothing"  [attr-defined]',
        '6: error: Module has no attribute "Path"  [attr-defined]',
    ]


def test_the_examples_of_the_docstrings_run():
    assert doctest.testmod(api).failed == 0
    assert doctest.testmod(api).attempted >= 8


def test_the_three_verdicts_come_from_states():
    in_between = f"{CLOSE}forbid:\n  - {{id: never, delete: ticket, during: run}}\n"
    found = {
        "MATCH": (CLOSE, CLOSED),
        "DIVERGE": (CLOSE, {"user": []}),  # does not name the tickets
        "INCONCLUSIVE": (in_between, CLOSED),
    }
    for verdict, (contract, after) in found.items():
        judged = statediff.judge(contract, OPEN, after)
        assert judged.verdict is Verdict(verdict)
        assert statediff.replay(judged) is judged.verdict
        assert judged.text().startswith(verdict)
        assert verdict in repr(judged)
        assert bool(judged.findings) == (verdict != "MATCH")


def test_a_judged_trial_is_no_truth_value():
    judged = statediff.judge(CLOSE, OPEN, CLOSED)
    with pytest.raises(TypeError, match=r"neither true nor false.*compare `\.verdict`"):
        assert judged


def test_a_bundle_is_kept_loaded_and_never_overwritten(tmp_path):
    judged = statediff.judge(CLOSE, OPEN, CLOSED)
    kept = judged.save(tmp_path / "bundle")
    assert statediff.load(kept).bundle.digest == judged.bundle.digest
    assert statediff.replay(kept) is Verdict.MATCH
    with pytest.raises(UsageError, match="nothing is overwritten"):
        statediff.judge(CLOSE, OPEN, OPEN).save(kept)


def test_answers_are_json_and_what_is_none_is_refused(tmp_path):
    contract = CLOSE + "answer:\n  schema: {closed: int}\n  claims:\n    - answer.closed == 7\n"
    assert statediff.judge(contract, OPEN, CLOSED, answer={"closed": 7}).verdict is Verdict.MATCH
    assert statediff.judge(contract, OPEN, CLOSED, answer={"closed": 8}).verdict is Verdict.DIVERGE
    assert statediff.judge(contract, OPEN, CLOSED).verdict is Verdict.DIVERGE
    file = tmp_path / "answer.json"
    file.write_text('{"closed": 7}')
    assert statediff.judge(contract, OPEN, CLOSED, answer=file).verdict is Verdict.MATCH
    with pytest.raises(InputError, match="answer: expected JSON"):
        statediff.judge(contract, OPEN, CLOSED, answer={7})


def test_states_are_files_as_well_and_both_are_of_one_kind(tmp_path):
    for name, text in (("before", '{"t": [{"id": 1}]}'), ("after", '{"t": []}')):
        (tmp_path / f"{name}.json").write_text(text)
    found = statediff.changes(tmp_path / "before.json", str(tmp_path / "after.json"))
    assert [(delta["op"], delta["key"]) for delta in found] == [("delete", 1)]
    with pytest.raises(UsageError, match="give both states as tables"):
        statediff.changes(OPEN, tmp_path / "after.json")
    with pytest.raises(InputError, match="record 0, id: expected a value of JSON"):
        statediff.changes(OPEN, {"ticket": [{"id": {7}}]})


def test_changes_that_are_not_known_are_no_empty_list():
    with pytest.raises(InputError, match="what changed there is not known"):
        statediff.changes(OPEN, {"ticket": [{"status": "open"}]})


def test_a_contract_says_where_it_is_wrong():
    with pytest.raises(ContractError, match=r"contract\.yaml:3:1"):
        statediff.load_contract("contract: a\nversion: [\n")
    with pytest.raises(UsageError, match="nobody/knows"):
        statediff.load_contract("nobody/knows")


@pytest.fixture(scope="module")
def shop():
    with statediff.open_sandbox("shop") as running:
        yield running


def test_agents_are_functions_programs_and_names(shop):
    def nothing(trial: statediff.Trial) -> dict[str, int]:
        assert set(trial.urls) == {"outbox", "shop-db"}
        return {"refunded_cents": 0}

    runs = [
        statediff.run(CONTRACT, agent, sandbox=shop)[0]
        for agent in (nothing, "careful", [sys.executable, "-c", "pass"])
    ]
    assert [judged.verdict.value for judged in runs] == ["DIVERGE", "MATCH", "DIVERGE"]
    assert runs[0].bundle.document("trial.json")["agent"].endswith("nothing")
    assert runs[1].results == {"tool": None, "task": "MATCH", "outcome": "MATCH"}


def test_the_folders_of_trials_are_kept_where_one_says(shop, tmp_path):
    first, second = statediff.run(CONTRACT, "careful", trials=2, sandbox=shop, out=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "shop-refund-returned-order-1", "shop-refund-returned-order-2",
    ]  # fmt: skip
    kept = statediff.load(tmp_path / "shop-refund-returned-order-2")
    assert kept.bundle.digest == second.bundle.digest != first.bundle.digest


def test_agents_that_cannot_be_meant_are_refused(shop):
    with pytest.raises(UsageError, match="there are: "):
        statediff.run(CONTRACT, "nobody", sandbox=shop)
    with pytest.raises(UsageError, match="give the contract by its path"):
        statediff.run(statediff.load_contract(CONTRACT), "careful", sandbox=shop)
    with pytest.raises(UsageError, match="names no sandbox"):
        statediff.run(CLOSE, lambda _: None)


def test_lint_takes_a_state_and_a_folder(tmp_path: Path) -> None:
    head = "version: 1.0.0\nowner: me\nintent: Say what the test says.\n"
    (tmp_path / "state.json").write_text('{"ticket": [{"id": 7, "status": "open"}]}')
    for name, field in (("a", "status"), ("b", "state")):
        (tmp_path / f"{name}.contract.yaml").write_text(
            f"contract: t/{name}\n{head}"
            f"noop: true\nforbid:\n  - {{id: r, delete: ticket, where: it.{field} == 'gone'}}\n"
        )
    found = statediff.lint(tmp_path, state=tmp_path / "state.json")
    errors = [problem for problem in found if problem.severity == "error"]
    assert errors
    assert {Path(problem.file).name for problem in errors} == {"b.contract.yaml"}


def test_judge_takes_prose_and_a_complete_trace(tmp_path: Path) -> None:
    contract = (
        "contract: t/t\nversion: 1.0.0\nowner: me\nintent: Say what the test says.\n"
        "noop: true\nactions: {forbid: {tool: [drop]}}\n"
        "answer: {extract: {n: number}, claims: [answer.n == 2]}\n"
    )
    state = {"ticket": [{"id": 7}]}
    (tmp_path / "trace.jsonl").write_text('{"tool": "look", "arguments": {}}\n')
    (tmp_path / "answer.txt").write_text("There are 2 tickets.\n")
    for answer in ("There are 2 tickets.", tmp_path / "answer.txt"):
        for is_complete in (True, False):
            judged = statediff.judge(
                contract,
                state,
                state,
                answer=answer,
                trace=tmp_path / "trace.jsonl",
                complete_trace=is_complete,
            )
            assert judged.verdict is (Verdict.MATCH if is_complete else Verdict.INCONCLUSIVE)


def test_judge_takes_the_states_in_between(tmp_path: Path) -> None:
    def state(name: str, seven: str, eight: str) -> Path:
        (tmp_path / name).write_text(json.dumps(tickets(seven, eight)))
        return tmp_path / name

    contract = CLOSE + "forbid: [{id: other, update: ticket, where: it.id != 7, during: run}]\n"
    before, after = state("b.json", "open", "open"), state("a.json", "closed", "open")
    right, wrong = state("r.json", "closed", "open"), state("w.json", "open", "closed")
    for during, verdict in (([], "INCONCLUSIVE"), ([right], "MATCH"), ([wrong, right], "DIVERGE")):
        judged = statediff.judge(contract, before, after, during=during)
        assert judged.verdict is Verdict(verdict)
        assert statediff.replay(judged) is judged.verdict
    with pytest.raises(UsageError, match="give all states as files"):
        statediff.judge(contract, OPEN, CLOSED, during=[right])


def test_assert_match_fails_with_the_report():
    statediff.judge(statediff.load_contract(CLOSE), OPEN, CLOSED).assert_match()
    with pytest.raises(AssertionError, match=r"DIVERGE[^$]*ticket 8 status"):
        statediff.judge(statediff.load_contract(CLOSE), OPEN, BOTH).assert_match()


def test_the_state_schema_beside_a_contract_is_its_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "contract.yaml").write_text(CLOSE.replace("update: ticket", "update: case"))
    (tmp_path / "schema.yaml").write_text(
        "schema: notes\nversion: 1.0.0\nentities: {case: {table: ticket}}\n"
    )
    monkeypatch.chdir(tmp_path)
    assert statediff.judge(tmp_path, OPEN, CLOSED).verdict is Verdict.MATCH
    assert statediff.Judge(tmp_path / "contract.yaml", OPEN).score(CLOSED).reward == 1.0
    assert statediff.judge(CLOSE, OPEN, CLOSED).verdict is Verdict.MATCH
