"""Tasks of contracts in a host's hands: which there are, and one trial from begin to score."""

from __future__ import annotations

import pytest
from statediff_hosts.held import OpenTrial

from statediff.errors import UsageError
from statediff.model.verdict import Verdict
from statediff.packs import contract_folders
from statediff.workspace.contracts import tasks_of


def test_a_pack_means_all_of_its_tasks_and_a_path_goes_first(tmp_path, monkeypatch) -> None:
    names = {entry.name for entry in contract_folders() if entry.name.startswith("shop/")}
    tasks = list(tasks_of("shop"))
    assert {task.name.partition("@")[0] for task in tasks} >= names
    assert {task.name.partition("@")[0] for task in tasks_of("shop/notify-once")} <= names
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop").mkdir()
    with pytest.raises(UsageError, match="found none"):
        list(tasks_of("shop"))


def test_what_the_host_refused_is_missing_from_the_record() -> None:
    opened = OpenTrial("shop/refuse-late-refund", None, "test")
    try:
        assert "shop_db_query" in opened.held.tools.tools
        judged, score = opened.finish("no JSON", 1, "test/model")
        assert opened.finish("later", 0, "another")[0].bundle is judged.bundle
    finally:
        opened.close()
    assert judged.verdict is score.verdict is Verdict.DIVERGE
    assert score.reward == 0.0
    trial = judged.bundle.document("trial.json")
    assert trial["agent"] == "test/model"
    assert b"1 calls never came to the sandbox's tools" in b"".join(judged.bundle.files.values())


def test_a_contract_without_a_sandbox_is_no_task_of_a_host(tmp_path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(
        "contract: t/own\nversion: 1.0.0\nowner: t\nintent: Change nothing here.\nnoop: true\n"
    )
    with pytest.raises(UsageError, match="names no sandbox"):
        OpenTrial(str(path), None, "test")
