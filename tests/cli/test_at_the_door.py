"""A newcomer's first costs: the size of the install, the first command, the first two pages."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.cli.conftest import CHECKOUT, environment

MOST_DISTRIBUTIONS = 45
MOST_MEGABYTES = 350
COLUMNS = {"numpy", "pyarrow"}
LOADED = """
import json
import sys
from statediff.cli.main import run
code = run(sys.argv[1:])
print()
print(json.dumps([code, sorted({name.partition(".")[0] for name in sys.modules})]))
"""


def core() -> set[str]:
    """Every distribution that `pip install statediff` brings on this machine, statediff beside."""
    todo, found = [Requirement("statediff")], set[str]()
    while todo:
        wanted = todo.pop()
        for text in metadata.requires(wanted.name) or ():
            need = Requirement(text)
            extras = wanted.extras or {""}
            if need.marker and not any(need.marker.evaluate({"extra": each}) for each in extras):
                continue
            name = canonicalize_name(need.name)
            if name not in found or need.extras:
                found.add(name)
                todo.append(need)
    return found


def megabytes(distribution: str) -> float:
    return sum(file.size or 0 for file in metadata.files(distribution) or ()) / 1e6


def test_the_core_is_small_but_for_what_keeps_columns() -> None:
    """`pip` adds compiled Python to these sizes, about a quarter."""
    found = core()
    assert found >= COLUMNS | {"pydantic-core", "typer"}
    assert len(found) <= MOST_DISTRIBUTIONS, sorted(found)
    sizes = {name: megabytes(name) for name in found}
    assert sum(sizes.values()) <= MOST_MEGABYTES, sizes
    others = {name: size for name, size in sizes.items() if name not in COLUMNS}
    assert max(others.values()) <= 25, others


def test_the_core_needs_no_server_no_engine_and_no_framework() -> None:
    heavy = {"docker", "grpcio", "openai", "pandas", "psycopg", "pymysql", "requests", "scipy"}
    assert not core() & heavy


def loaded(folder: Path, *options: str) -> set[str]:
    """The names of the packages that a command has loaded at its end."""
    said = subprocess.run(
        [sys.executable, "-c", LOADED, *options],
        cwd=folder, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    code, names = json.loads(said.stdout.splitlines()[-1])
    assert code == 0, said.stdout + said.stderr
    return set(names)


def test_help_loads_what_parses_options_and_nothing_that_judges(tmp_path: Path) -> None:
    names = loaded(tmp_path, "--help")
    assert "typer" in names
    slow = {*COLUMNS, "cryptography", "jinja2", "networkx", "pandas", "pydantic", "re2"}
    assert not names & slow


@pytest.mark.slow
def test_a_judgement_of_files_loads_no_system_that_it_does_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"ticket": [{"id": 1, "status": "open"}]}')
    (tmp_path / "c.yaml").write_text(
        "contract: a/b\nversion: 1.0.0\nowner: x\nintent: Nothing changes.\nnoop: true\n"
    )
    names = loaded(tmp_path, "judge", "c.yaml", "--before", "a.json", "--after", "a.json")
    assert names >= COLUMNS
    others = (
        "aiosmtpd asyncio cryptography fsspec h11 httpx networkx pandas pygit2 roundup "
        "sqlalchemy sqlglot"
    )
    assert not names & set(others.split())


@pytest.mark.parametrize(
    ("page", "begin", "link"),
    [
        ("mkdocs.yml", "- Tutorial:", r": (\S+\.md)$"),
        ("README.md", "You evaluate agents", r"\]\(docs/(\S+?\.md)\)"),
    ],
)
def test_ones_own_system_is_the_first_page_and_how_states_are_read_the_second(
    page: str, begin: str, link: str
) -> None:
    text = (CHECKOUT / page).read_text(encoding="utf-8").partition(begin)[2]
    assert re.findall(link, text, re.MULTILINE)[:2] == ["own-system.md", "states.md"]


def test_that_page_says_how_plain_json_is_read_with_an_example_of_a_schema() -> None:
    text = (CHECKOUT / "docs" / "states.md").read_text(encoding="utf-8")
    said = [
        "its key", "no key: equal ones are counted", "fields of several kinds",
        "### A type or a record that is missing", "\nschema: desk\n",
        "`create: ticket` explains the new row with all its fields",
    ]  # fmt: skip
    assert [each for each in said if each not in text] == []
