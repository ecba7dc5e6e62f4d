"""The check of imports that `make check` runs: sound trees pass, every kind of circle fails."""

from __future__ import annotations

import ast
import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAZY = "def later():\n    from statediff.{} import x\n"
TYPED = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from statediff.{} import x\n"
PLAIN = "from statediff.{} import x\n"
CIRCLES = ("siblings", "doors")


def checked(
    folder: Path, modules: dict[str, str], *contracts: str
) -> subprocess.CompletedProcess[str]:
    """The contract, over a tree of these modules and with our configuration."""
    shutil.copy(ROOT / "pyproject.toml", folder)
    for name, content in {"__init__": "", **modules}.items():
        file = folder / "statediff" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    program = (
        f"import sys; sys.path[:0] = [{str(folder)!r}, {str(ROOT)!r}];"
        "from importlinter.cli import lint_imports_command;"
        f"lint_imports_command({['--no-cache', *(f'--contract={name}' for name in contracts)]})"
    )
    return subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False
    )


def test_what_leads_down_only_passes(tmp_path: Path) -> None:
    done = checked(tmp_path, {
        "top": PLAIN.format("part.one") + LAZY.format("part"),
        "part/__init__": PLAIN.format("part.one"),
        "part/one": PLAIN.format("part.two"), "part/two": TYPED.format("low"), "low": "",
    }, *CIRCLES)  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "Contracts: 2 kept, 0 broken." in done.stdout


@pytest.mark.parametrize(
    ("modules", "told"),
    [
        ({"a": PLAIN.format("b"), "b": LAZY.format("a")}, "No cycles are allowed in statediff."),
        ({"a": PLAIN.format("b"), "b": TYPED.format("a")}, "No cycles are allowed in statediff."),
        (
            {"a": PLAIN.format("b"), "b": PLAIN.format("c"), "c": LAZY.format("a")},
            "No cycles are allowed in statediff.",
        ),
        (
            {"p/q/__init__": "", "p/__init__": "", "p/q/a": PLAIN.format("p.q.b"),
             "p/q/b": TYPED.format("p.q.a")},
            "No cycles are allowed in statediff.p.q.",
        ),
        (  # no two modules: two packages
            {"p/__init__": "", "q/__init__": "", "p/a": PLAIN.format("q.a"), "p/b": "", "q/a": "",
             "q/b": LAZY.format("p.b")},
            "No cycles are allowed in statediff.",
        ),
        (
            {"p/__init__": PLAIN.format("p.a"), "p/a": LAZY.format("p")},
            "statediff.p.a -> statediff.p -> statediff.p.a",
        ),
        (
            {"p/__init__": PLAIN.format("p.a"), "p/a": PLAIN.format("p.b"),
             "p/b": TYPED.format("p")},
            "statediff.p.b -> statediff.p -> statediff.p.a -> statediff.p.b",
        ),
    ],
    ids=["in a function", "for types", "of three", "deep", "of packages", "door", "far door"],
)  # fmt: skip
def test_a_circle_fails(modules: dict[str, str], told: str, tmp_path: Path) -> None:
    done = checked(tmp_path, modules, *CIRCLES)
    assert done.returncode == 1
    assert told in done.stdout
    assert "1 broken" in done.stdout


@pytest.mark.parametrize(
    ("reach", "told"),
    [("kernel", "1 kept, 0 broken"), ("kernel.room", "1 broken"), ("kernel.room.deep", "1 broken")],
)
@pytest.mark.parametrize("how", [PLAIN, LAZY, TYPED], ids=["plain", "lazy", "typed"])
def test_the_kernel_is_entered_by_its_door(reach: str, told: str, how: str, tmp_path: Path) -> None:
    modules = {
        "kernel/__init__": TYPED.format("kernel.room.deep"), "kernel/room/__init__": "",
        "kernel/room/deep": PLAIN.format("kernel.diff"), "kernel/diff": "",
        "out": how.format(reach),
        "kernel/policy/__init__": "", "kernel/policy/findings": "",
    }  # fmt: skip
    assert told in checked(tmp_path, modules, "kernel-door").stdout


@pytest.mark.parametrize(
    "script", sorted((ROOT / "fixtures").glob("*.py")), ids=lambda script: script.name
)
def test_a_script_of_the_fixtures_imports_only_what_there_is(script: Path) -> None:
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("statediff"):
            module = importlib.import_module(str(node.module))
            for name in (alias.name for alias in node.names):
                assert hasattr(module, name) or importlib.import_module(f"{node.module}.{name}")
