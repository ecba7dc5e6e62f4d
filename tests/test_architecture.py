"""Architecture and glossary do not lag: the trial runs, the map is whole, every name exists."""

from __future__ import annotations

import ast
import doctest
import pkgutil
import re
import sys
import tomllib
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]
PACKAGE = CHECKOUT / "statediff"
SCREEN = 60
"""Lines of a function."""
SHELF = 25
"""Modules of a folder, beside its door."""
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


def test_the_map_names_every_package() -> None:
    named = re.findall(r"(?m)^\| `statediff\.(\w+)` \| ", PAGE)
    package = CHECKOUT / "statediff"
    there = {module.name for module in pkgutil.iter_modules([str(package)])}
    assert sorted(named) == sorted(there - {"__init__", "__main__", "_version"})


def test_the_layers_shown_are_those_that_are_enforced() -> None:
    settings = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    [layers] = [each["layers"] for each in contracts if each["id"] == "layers"]
    [shown] = re.findall(r"(?ms)^```text layers\n(.*?)^```$", PAGE)
    assert shown.splitlines() == [re.sub(r"[()]", "", layer) for layer in layers]


def test_the_glossary_has_one_entry_a_term_in_order_and_names_what_exists() -> None:
    text = (CHECKOUT / "docs" / "glossary.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| (?!term|--)([^|]+) \| ([^|]+) \| `([\w.]+)` \|$", text)
    assert len(rows) == len(re.findall(r"(?m)^\| (?!term)", text)) > 80
    terms = [term for term, _, _ in rows]
    assert terms == sorted(set(terms))
    assert [meaning for _, meaning, _ in rows if not meaning.endswith(".")] == []
    for _, _, place in rows:
        pkgutil.resolve_name(place)


def test_a_function_fits_a_screen() -> None:
    modules = sorted(PACKAGE.rglob("*.py"))
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
    folders = {module.parent for module in PACKAGE.rglob("*.py")}
    counts = {f.relative_to(CHECKOUT): len([*f.glob("*.py")]) - 1 for f in sorted(folders)}
    assert [f"{folder}: {count}" for folder, count in counts.items() if count > SHELF] == []
