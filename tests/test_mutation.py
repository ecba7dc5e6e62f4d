"""Mutants of the kernel: each is in force where it should be, and nowhere else."""

import importlib.util
import os
from pathlib import Path

import pytest

from lab.benchmarks.mutants import apply, mutants_of
from lab.benchmarks.mutation import PARTS

TEXT = '''\
LIMIT = 3


class Gate:
    def admits(self, n: int = 1) -> bool:
        """Whether it does."""
        if n > LIMIT and not n == 7:
            raise ValueError(f"{n} is more than {LIMIT}")
        return n >= 1


def told(names: list[str]) -> list[str]:
    found = [name for name in names if name]
    found.sort()
    return found


def kept(names: list[str]) -> list[str]:
    return list(
        name
        for name in names
        if name
    )


def said(text: str) -> str:
    return "no news" if text == "not in" else "stale: no news"
'''


@pytest.fixture
def loaded(tmp_path: Path):
    path = tmp_path / "gate.py"
    path.write_text(TEXT)
    spec = importlib.util.spec_from_file_location("gate", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return path, module


def test_a_module_has_mutants_of_its_functions_bodies_only(loaded) -> None:
    path, _ = loaded
    changes = {(m.function, m.line, m.change) for m in mutants_of(path)}
    assert {
        ("Gate.admits", 7, "the condition is negated"), ("Gate.admits", 7, "Or for And"),
        ("Gate.admits", 7, "GtE for Gt"), ("Gate.admits", 7, "`not` is left out"),
        ("Gate.admits", 9, "None is returned"), ("Gate.admits", 9, "Gt for GtE"),
        ("told", 13, "the filter is left out"), ("told", 14, "the call is left out"),
    } <= changes  # fmt: skip
    # Neither the table, the default and the docstring, nor the wording of the error.
    assert {line for _, line, _ in changes} == {7, 9, 13, 14, 15, 19, 22, 27}
    # Of texts, those that something hangs on.
    texts = {change for _, _, change in changes if "text" in change}
    assert texts == {"another text for 'not in'", "another text for 'stale: no news'"}


def test_a_mutant_changes_the_loaded_function_in_place(loaded) -> None:
    path, module = loaded
    gate, told = module.Gate(), module.told
    known = {m.change: m for m in reversed(mutants_of(path))}
    assert (gate.admits(1), told(["b", "", "a"])) == (True, ["a", "b"])
    child = os.fork()
    if child == 0:
        apply(known["Gt for GtE"])
        os._exit(0 if gate.admits(1) is False and told(["a", ""]) == ["a"] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    apply(known["the filter is left out"])
    assert told(["b", ""]) == ["", "b"]
    assert gate.admits(1) is True, "the change of the other process is its own"
    # Where the filter was all of the last line of a function, the function is found all the same.
    (alone,) = (m for m in mutants_of(path) if (m.function, m.line) == ("kept", 22))
    apply(alone)
    assert module.kept(["b", ""]) == ["b", ""]


def test_every_part_of_the_kernel_has_its_modules_and_tests() -> None:
    root = Path(__file__).parents[1]
    for name, part in PARTS.items():
        assert all(list(root.glob(pattern)) for pattern in part.modules), name
        assert all((root / test).exists() for test in part.tests), name
