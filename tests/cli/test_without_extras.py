"""Where the extra `docker` is not installed, every command says so and how to get it."""

from pathlib import Path

import pytest

from tests.cli.conftest import CHECKOUT, Call

BLOCK = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("docker", "psycopg", "pymysql", "pymysqlreplication"):
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
        ("run", "shop/refund-returned-order", "--agent-image", "debian"),
        ("sandbox", "up", "shop", "--variant", "postgres"),
        ("sandbox", "build"),
    ],
    ids=" ".join,
)
def test_what_needs_it_names_the_next_step(
    statediff: Call, core: dict[str, str], arguments: tuple[str, ...]
) -> None:
    said = statediff(*arguments, env=core)
    assert said.code == 2, said.err
    assert said.err.startswith("error: ")
    assert said.err.endswith("get it with `pip install statediff[docker]`\n")


def test_doctor_is_content_without_it(statediff: Call, core: dict[str, str]) -> None:
    said = statediff("doctor", "--json", env=core)
    assert said.code == 0, said.err
    (check,) = (check for check in said.json["checks"] if check["name"] == "docker")
    assert check["optional"]
    assert "pip install statediff[docker]" in check["todo"]


def test_an_agent_is_an_image_or_runs_here(statediff: Call) -> None:
    said = statediff(
        "run", "shop/refund-returned-order", "--agent-image", "x", "--agent", "careful"
    )
    assert (said.code, "--agent runs here" in said.err) == (2, True)
