"""Architecture and glossary do not lag: the trial runs, the map is whole, every name exists."""

from __future__ import annotations

import ast
import doctest
import importlib
import os
import pkgutil
import re
import sys
import tomllib
from pathlib import Path

import pytest

from statediff import kernel
from tests.code import PACKAGES

CHECKOUT = Path(__file__).parents[1]
PACKAGE = CHECKOUT / "statediff"
SCREEN = 60
"""Lines of a function."""
SHELF = 25
"""Modules of a folder, beside its door."""
DOOR = 25
"""Names that the kernel gives."""
PAGE = (CHECKOUT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_the_trial_of_the_page_has_the_values_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, content in re.findall(r"(?ms)^```\w+ file=(\S+)\n(.*?)^```$", PAGE):
        (tmp_path / name).write_text(content, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "trial", raising=False)
    shown = "\n".join(re.findall(r"(?ms)^```pycon\n(.*?)^```$", PAGE)).replace("…", "...")
    case = doctest.DocTestParser().get_doctest(shown, {}, "docs/architecture.md", None, None)
    assert len(case.examples) > 20
    printed: list[str] = []
    failed = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(case, out=printed.append)
    sys.modules.pop("trial", None)
    assert failed.failed == 0, "".join(printed)


def test_the_layers_name_every_package_and_the_map_no_other() -> None:
    there = {module.name for module in pkgutil.iter_modules([str(CHECKOUT / "statediff")])}
    [layers] = re.findall(r"(?ms)^```text layers\n(.*?)^```$", PAGE)
    assert set(re.findall(r"\w+", layers)) == there - {"__main__"}
    named = re.findall(r"(?m)^\| `statediff\.(\w+)` \| ", PAGE[: PAGE.index("## The dist")])
    assert 20 < len(there & {*named}) == len(named)


@pytest.mark.parametrize(
    ("contract", "shown_as"), [("layers", "layers"), ("kernel-rooms", "rooms")]
)
def test_the_layers_shown_are_those_that_are_enforced(contract: str, shown_as: str) -> None:
    settings = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    [layers] = [each["layers"] for each in contracts if each["id"] == contract]
    [shown] = re.findall(rf"(?ms)^```text {shown_as}\n(.*?)^```$", PAGE)
    assert shown.splitlines() == [re.sub(r"[()]", "", layer) for layer in layers]


def test_the_glossary_has_one_entry_a_term_in_order_and_names_what_exists() -> None:
    text = (CHECKOUT / "docs" / "glossary.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| (?!term|--)([^|]+) \| ([^|]+) \| `([\w.]+)` \|$", text)
    assert len(rows) == len(re.findall(r"(?m)^\| (?!term)", text)) > 50
    terms = [term for term, _, _ in rows]
    assert terms == sorted(set(terms))
    assert [meaning for _, meaning, _ in rows if not meaning.endswith(".")] == []
    for _, _, place in rows:
        pkgutil.resolve_name(place)


@pytest.mark.slow
def test_a_function_fits_a_screen() -> None:
    modules = sorted(module for package in PACKAGES for module in package.rglob("*.py"))
    assert len(modules) > 500
    long = [
        f"{module.relative_to(CHECKOUT)}: {node.name} has {lines} lines"
        for module in modules
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and (lines := (node.end_lineno or 0) - node.lineno + 1) > SCREEN
    ]
    assert long == []


def test_a_folder_has_as_many_modules_as_a_reader_keeps_apart() -> None:
    folders = {module.parent for package in PACKAGES for module in package.rglob("*.py")}
    counts = {f.relative_to(CHECKOUT): len([*f.glob("*.py")]) - 1 for f in sorted(folders)}
    assert [f"{folder}: {count}" for folder, count in counts.items() if count > SHELF] == []


def test_the_door_of_the_kernel_is_small_and_gives_what_type_checkers_see() -> None:
    assert len(kernel.__all__) <= DOOR
    seen = [
        (alias.name, str(node.module))
        for node in ast.walk(ast.parse(Path(kernel.__file__).read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("statediff.kernel.")
        for alias in node.names
    ]
    assert sorted(name for name, _ in seen) == sorted(kernel.__all__)
    [shown] = re.findall(r"(?ms)^\| to \| the door gives \|\n(.*?)\n\n", PAGE)
    assert set(re.findall(r"`(\w+)`", shown)) == set(kernel.__all__)
    for name, module in seen:
        assert getattr(kernel, name) is getattr(importlib.import_module(module), name)


POSSESSIVE = re.compile(r"(?:\)(?:[*+?]|\{[\d,]*\})|%b[*+?])\+|\(\?>")
"""What repeats a group and gives nothing back. A single character may be repeated so."""


@pytest.mark.slow
def test_no_expression_repeats_a_group_possessively() -> None:
    """Python before 3.11.5 matches such a group wrongly (its issue 106052)."""
    assert POSSESSIVE.search(r"(?:ab)*+c")
    assert not POSSESSIVE.search(r"[ab]*+c")
    found = [
        f"{module.relative_to(CHECKOUT)}:{node.lineno}"
        for package in PACKAGES
        for module in package.rglob("*.py")
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
        if POSSESSIVE.search(os.fsdecode(node.value))
    ]
    assert found == []
