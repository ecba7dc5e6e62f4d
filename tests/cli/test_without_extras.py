"""Every command says that the extra `docker` is not installed, and how to get it."""

import subprocess
import sys
from pathlib import Path

import pytest

from statediff.packs import contract_folders
from statediff.workspace.installed import missing_servers
from tests.cli.conftest import CHECKOUT, Call, Files, environment

BLOCK = """
import os, sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in (
            "docker", "psycopg", "pymysql", "pymysqlreplication", "duckdb", "duckdb_engine",
            "s3fs", "openpyxl", "icalendar", *os.environ.get("WITHOUT", "").split(),
        ):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
"""


@pytest.fixture
def core(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine with the core only."""
    folder = tmp_path / "without"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(BLOCK)
    return {"PYTHONPATH": f"{folder}:{CHECKOUT}"}


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "shop/refund-returned-order", "--sandbox", "postgres", "--agent", "careful"),
        ("run", "shop/refund-returned-order", "--sandbox", "mariadb", "--agent", "careful"),
        ("run", "helpdesk/close-case", "--sandbox", "redmine", "--agent", "careful"),
        ("run", "repo/clean-merged-branches", "--sandbox", "git", "--agent", "careful"),
        ("run", "shop/refund-returned-order", "--agent", "boxed.yaml"),
        ("sandbox", "up", "shop", "--variant", "postgres"),
        ("sandbox", "build"),
    ],
    ids=" ".join,
)
def test_what_needs_it_names_the_next_step(
    statediff: Call, core: dict[str, str], arguments: tuple[str, ...], files: Files
) -> None:
    files.write("boxed.yaml", "image: debian\n")
    said = statediff(*arguments, env=core)
    assert said.code == 2, said.err
    assert said.err.startswith("error: ")
    extra = "postgres" if "postgres" in arguments else "docker"
    assert said.err.endswith(f"get it with `pip install statediff[{extra}]`\n")


def test_doctor_is_content_without_it(statediff: Call, core: dict[str, str]) -> None:
    said = statediff("doctor", "--json", env=core)
    assert said.code == 0, said.err
    (check,) = (check for check in said.json["checks"] if check["name"] == "docker")
    assert check["optional"]
    assert "pip install statediff[docker]" in check["todo"]


OWN_SYSTEMS = (
    ("postgresql://ada:hidden@localhost/app", "statediff[docker]"),
    ("mysql://ada:hidden@localhost/app", "statediff[docker]"),
    ("duckdb:///app.duckdb", "duckdb-engine"),
    ("s3://bucket/folder", "s3fs"),
    ("caldavs://ada:hidden@localhost/ada/", "statediff[calendar]"),
    ("book.xlsx", "statediff[excel]"),
)
EACH = """
import sys
from statediff.cli.main import run
for state in sys.argv[1:]:
    print(run(["watch", "--state", f"own={state}", "--", "touch", "started"]), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("state", "lacks"), [("duckdb:///app.duckdb", "sqlalchemy"), ("s3://bucket/folder", "fsspec")]
)
def test_what_reads_urls_of_other_kinds_is_an_extra(
    statediff: Call, core: dict[str, str], state: str, lacks: str
) -> None:
    said = statediff("capture", f"own={state}", env=core | {"WITHOUT": "sqlalchemy fsspec"})
    assert said.code == 2
    assert said.err.endswith(f"need {lacks}; get it with `pip install statediff[data]`\n")


def test_a_system_whose_driver_is_missing_is_no_verdict_and_nothing_starts(
    tmp_path: Path, core: dict[str, str]
) -> None:
    (tmp_path / "book.xlsx").write_bytes(b"PK")
    said = subprocess.run(
        [sys.executable, "-c", EACH, *(state for state, _ in OWN_SYSTEMS)],
        cwd=tmp_path, env=environment(core), capture_output=True, text=True, check=True,
    ).stderr  # fmt: skip
    lines = said.splitlines()
    for (state, package), line, code in zip(OWN_SYSTEMS, lines[::2], lines[1::2], strict=True):
        assert (code, line[:7]) == ("2", "error: "), (state, said)
        assert "pip install" in line
        assert package in line
    assert "book.xlsx: " in lines[-2]
    assert "hidden" not in said
    assert "statediff-before" not in said
    assert not (tmp_path / "started").exists()


@pytest.fixture(scope="module")
def absent() -> tuple[str, str]:
    """A task whose sandbox is not installed, and what installs it."""
    found = missing_servers()
    assert found, "the servers of the packs are installed apart: see `make packs`"
    tasks = (folder.name for folder in contract_folders())
    name = next(task for task in tasks if task.partition("/")[0] in found)
    return name, found[name.partition("/")[0]]


@pytest.mark.slow
@pytest.mark.parametrize("command", ["run", "mutate", "metatest"])
def test_what_is_not_installed_is_left_out_and_never_ends_with_0(
    statediff: Call, absent: tuple[str, str], command: str
) -> None:
    """One task can be tried and another cannot: the cure is named, and the code says it."""
    task, extra = absent
    options = {"run": ["--agent", "careful"], "mutate": [], "metatest": ["--sample", "2"]}[command]
    both = (command, "shop/refuse-late-refund", task, *options)
    said = statediff(*both)
    assert said.code == 4, said.err
    assert f"not tried: {task.partition('/')[0]}: " in said.err
    assert f"pip install {extra}" in said.err
    alone = statediff(*both, "--installed-only")
    assert alone.code == 0, alone.err
    none = statediff(command, task, *options, "--installed-only")
    assert none.code == 2
    assert f"pip install {extra}" in none.err
