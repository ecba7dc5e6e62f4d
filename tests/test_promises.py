"""Faults that first users and hostile readers found: each line of `promises.yaml` has its tests."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from ruamel.yaml import YAML

from statediff.cli.main import _NAMES
from statediff.extras import EXTRAS
from tests.cli.conftest import CONTRACT, statediff

__all__ = ["statediff"]

TESTS: Final = Path(__file__).parent
PROMISES: Final = YAML(typ="safe").load(TESTS / "promises.yaml")


@cache
def functions(module: Path) -> frozenset[str]:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, kinds))


@pytest.mark.parametrize("table", PROMISES)
def test_each_promise_has_tests_that_exist(table: str) -> None:
    for promise, tests in PROMISES[table].items():
        for test in tests:
            module, _, name = test.partition("::")
            top = TESTS if (TESTS / module).exists() else TESTS.parent
            assert name in functions(top / module), (promise, test)


def test_no_line_of_the_first_day_is_left_out() -> None:
    assert [int(promise.split()[0]) for promise in PROMISES["first day"]] == list(range(1, 29))


def test_a_pipe_gets_a_long_line_whole(statediff: Any, tmp_path: Path) -> None:
    name = "notes/" + "n" * 90
    (tmp_path / "c.yaml").write_text(CONTRACT.replace("notes/close-ticket", name))
    (tmp_path / "a.json").write_text('{"ticket": [{"id": 7, "status": "open"}], "user": []}')
    judged = statediff("judge", "c.yaml", "--before", "a.json", "--after", "a.json")
    assert judged.out.startswith(f"DIVERGE  {name} 1.0.0"), judged.out + judged.err


def test_help_has_each_command_once_in_a_group(statediff: Any) -> None:
    every = statediff("help", env={"COLUMNS": "300"}).out
    listed = [line.split()[0] for line in every.splitlines() if line.startswith("  ")]
    plugged = [name for extra in ("agents", "gate", "lab") for name in EXTRAS[extra]]
    assert sorted(listed) == sorted([*_NAMES, *plugged])
