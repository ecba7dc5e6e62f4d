"""The benchmark measures what is right, says what it could not measure, and keeps its own rules."""

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

import pytest
from statediff_lab.bench import MEASURES, BenchPlan, BenchRow, Judging, registry, run
from statediff_lab.bench.capturing import peak
from statediff_lab.bench.diffing import check_changes, our_changes
from statediff_lab.bench.orders import planned_changes, records, sqlite_file, state, wanted_changes
from statediff_lab.bench.registry import BenchLimit, NotRun, Wrong, time_in_turn, time_row
from statediff_lab.reports.benchmarks import markdown

from statediff.cli.main import run as command
from statediff.errors import UsageError
from statediff.model.verdict import Verdict

pytestmark = pytest.mark.slow


def small(folder: Path) -> BenchPlan:
    return BenchPlan(rows=600, slow_rows=200, large_rows=1200, changes=10, repeats=1, folder=folder)


@pytest.mark.parametrize(("rows", "changes"), [(200, 10), (5000, 10), (5000, 37), (9000, 1)])
def test_the_changes_that_are_made_are_those_that_are_wanted(rows: int, changes: int) -> None:
    before, after = state(rows, 0), state(rows, changes)
    assert (
        len(wanted_changes(rows, changes)) == changes == len(list(planned_changes(rows, changes)))
    )
    for trust in (True, False):
        assert our_changes(before, after, trust_digests=trust) == wanted_changes(rows, changes)
    documents = records(rows, 0), records(rows, changes)
    assert len(documents[1]) == after.entity_count
    assert sum(documents[0].get(k) != v for k, v in documents[1].items()) == sum(
        op != "delete" for op, _, _ in wanted_changes(rows, changes)
    )


@pytest.mark.timeout(600)  # whole measures, also on a busy machine
def test_every_measure_without_a_server_gives_right_rows(tmp_path: Path) -> None:
    names = [
        "diff-memory", "diff-peers", "capture-sqlite", "reset-sqlite", "reset-checkout", "verify",
    ]  # fmt: skip
    said: list[str] = []
    rows = list(run(small(tmp_path), names, said.append))
    assert sorted(said) == sorted(names)
    by_name = {row.measure: row for row in rows}
    assert by_name["diff, no cached digests"].floor == by_name["memcmp of both states"].value
    for row in rows:
        assert row.value is not None, row
        assert row.ok in (True, False, None)
        assert (row.ok is None) == (row.target is None)
    assert json.loads(json.dumps([row.document() for row in rows]))[0]["measure"]


def test_a_wrong_result_ends_the_run_and_is_no_time() -> None:
    right = wanted_changes(200, 10)
    with pytest.raises(Wrong, match="peer is wrong about"):
        time_in_turn({"peer": lambda: right - {next(iter(right))}}, 1, check_changes(right))


def test_a_measure_that_cannot_be_taken_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "MEASURES", [])

    @registry.measure("nothing", "diff")
    def nothing(_: BenchPlan) -> list[BenchRow]:
        raise NotRun("there is no server")

    (row,) = run(small(tmp_path), (), lambda _: None)
    assert (row.value, row.ok, row.note) == (None, None, "not run: there is no server")
    assert "there is no server" in markdown(registry.machine(), [row])
    with pytest.raises(ValueError, match="a taken name"):
        registry.measure("nothing", "diff")


def test_a_peer_that_is_not_installed_is_said_to_be_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "deepdiff", None)
    with pytest.raises(NotRun, match=r"pip install 'statediff\[bench\]'"):
        registry.import_peer("deepdiff")


def test_rows_are_medians_with_ratios_that_mean_what_they_say() -> None:
    over = time_row("a", "diff", [0.003, 0.001, 0.002], floor=[0.001] * 3, target=BenchLimit(2))
    assert (over.value, over.low, over.high, over.ratio, over.ok) == (2.0, 1.0, 3.0, 2.0, True)
    beside = time_row("b", "diff", [0.002], peer=[0.03], target=BenchLimit(20, is_most=False))
    assert (beside.ratio, beside.ok) == (15.0, False)
    assert time_row("c", "diff", [0.006], target=BenchLimit(5, "value")).ok is False


def test_sizes_that_cannot_hold_the_changes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="too few for 10 changes"):
        BenchPlan(rows=100, folder=tmp_path)
    assert command(["bench", "--rows", "100", "--json"]) == 2
    assert command(["bench", "no-such-measure"]) == 2


def test_the_memory_of_a_capture_is_that_of_its_own_process(tmp_path: Path) -> None:
    found = peak(sqlite_file(tmp_path, 3000), 3000, tmp_path)
    assert 0 < found.bytes < 300 * 2**20
    with pytest.raises(Wrong, match="3,000 rows of 4,000"):
        peak(sqlite_file(tmp_path, 3000), 4000, tmp_path)


@pytest.mark.timeout(600)  # whole measures, also on a busy machine
def test_the_command_prints_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--rows", "600", "--slow-rows", "200", "--large-rows", "1200", "--repeats", "1"]
    code = command(["bench", "diff-memory", "verify", *sizes, "--json"])
    found = json.loads(capsys.readouterr().out)
    assert code == (4 if any(row["ok"] is False for row in found["rows"]) else 0)
    assert set(found) == {"schema", "machine", "rows"}
    assert found["machine"]["cores"]
    asked = {"measure", "value", "unit", "floor", "ratio", "target", "ok"}
    assert all(asked <= set(row) for row in found["rows"])


def test_rewards_are_measured_where_every_verdict_is_right(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command(
        [
            "bench",
            "reward-dicts",
            "reward-batch",
            "--rows",
            "600",
            "--slow-rows",
            "200",
            "--large-rows",
            "1200",
            "--repeats",
            "1",
            "--json",
        ]
    )
    rows = {row["measure"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    warm = rows["warm judge, dicts, 300 rows"]
    assert warm["value"] > 0
    assert re.match(r"[1-9]\d+ faults of mutate caught", warm["note"])
    assert "90 rollouts of 300 rows, two processes" in rows


def test_a_judge_that_passes_a_harm_is_not_measured(tmp_path: Path) -> None:
    """A peer that is blind is no judge of ours: the run ends."""

    class Blind:
        verdict = Verdict.MATCH

        def score(self, _: object) -> Self:
            return self

        def score_many(self, afters: Sequence[object], *, workers: int = 1) -> list[Self]:
            return [self] * len(afters) * workers

    doors = Judging(lambda *_: Blind(), lambda *_: Blind())
    with pytest.raises(Wrong, match="another customer deleted is"):
        list(run(replace(small(tmp_path), judging=doors), ["reward-sqlite"], lambda _: None))


def test_the_measures_the_issue_names_are_registered() -> None:
    names = {m.name for m in MEASURES}
    assert {"diff-memory", "diff-peers", "feed-postgres", "scan-postgres", "memory-sqlite"} <= names
    assert {m.kind for m in MEASURES} == set(registry.KINDS)
