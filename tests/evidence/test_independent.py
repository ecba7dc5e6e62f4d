"""A verifier that knows the specification and nothing of statediff answers every vector."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures import export_vectors

FOLDER = Path(__file__).parent / "independent"
SOURCES = sorted((FOLDER / "verifier").glob("*.py"))
ALONE = """\
import runpy, sys
for name in ("statediff", "tests", "fixtures"):
    sys.modules[name] = None
    try:
        __import__(name)
    except ImportError:
        continue
    sys.exit(f"{name} can be imported")
sys.path.insert(0, sys.argv.pop(1))
runpy.run_module("verifier", run_name="__main__", alter_sys=True)
"""


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported") / "all"
    export_vectors.export(folder)
    return folder / "vectors"


def run(vectors: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-c", ALONE, str(FOLDER), str(vectors)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.slow
def test_it_answers_every_vector(vectors: Path) -> None:
    found = run(vectors)
    assert (found.returncode, found.stderr) == (0, ""), found.stdout
    count = len(list(export_vectors.read_vectors()))
    assert found.stdout.splitlines()[-1].split() == ["all", f"{count}", "of", f"{count}"]


def test_it_notices_a_vector_that_says_another_thing(vectors: Path, tmp_path: Path) -> None:
    listed = json.loads((vectors / "index.json").read_text(encoding="utf-8"))["vectors"]
    wrong = {**next(each for each in listed if each["expect"] == "REFUSED"), "expect": "ACCEPTED"}
    (tmp_path / "index.json").write_text(json.dumps({"vectors": [wrong]}), encoding="utf-8")
    (tmp_path / "files").symlink_to(vectors / "files")
    found = run(tmp_path)
    assert found.returncode == 1
    assert "expected ACCEPTED, got REFUSED" in found.stdout


def test_it_imports_nothing_of_ours() -> None:
    nodes = [node for path in SOURCES for node in ast.walk(ast.parse(path.read_text("utf-8")))]
    named = {each.name for node in nodes if isinstance(node, ast.Import) for each in node.names}
    named |= {
        node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level
    }
    foreign = {name.partition(".")[0] for name in named} - sys.stdlib_module_names
    assert foreign == {"cryptography", "yaml"}
    assert {node.level for node in nodes if isinstance(node, ast.ImportFrom)} == {0, 1}
