"""Each distribution is what its wheel and README say: nothing more is needed, or comes."""

from __future__ import annotations

import json
import subprocess
import zipfile
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement

from statediff.entrypoints import plug_ins
from statediff.extras import EXTRAS, PACKS
from statediff.packs import sandbox_folders
from statediff.systems.base.registry import plugins
from tests.test_docs import check, lay_out, put_programs
from tests.wheels import CORE, PROGRAMS, Environment, build, first_command, folders, installs
from tests.wheels import project as declared

MOST_DISTRIBUTIONS: Final = 27
MOST_MODULES: Final = 400
OF_ROOMS: Final = ("alembic", "docker", "h11", "httpx", "pandas", "pygit2", "roundup", "sqlalchemy")
"""What the core neither imports nor installs."""
OFFLINE: Final = ("gate", "git", "office", "trackers", "lab", "hosts", "data")
"""Distributions whose first command needs no server of an extra."""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """All of them, built once."""
    return build(tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="module")
def lean(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The core's wheel alone."""
    made = Environment(tmp_path_factory.mktemp("lean") / "env")
    made.add(wheels[CORE])
    return made


def ran(env: Environment, *command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(env.bin / command[0]), *command[1:]], cwd=cwd, check=False, capture_output=True,
        text=True, timeout=120, env={"PATH": f"{env.bin}:/usr/bin:/bin", "HOME": str(cwd)},
    )  # fmt: skip


@pytest.mark.slow
def test_the_core_installs_and_loads_little_and_nothing_of_a_room(
    lean: Environment, tmp_path: Path
) -> None:
    assert len(lean.installed) <= MOST_DISTRIBUTIONS, sorted(lean.installed)
    assert not lean.installed & {*OF_ROOMS}
    program = (
        "import sys, statediff\nstatediff.Judge\n"
        f"print(len(sys.modules), sorted({set(OF_ROOMS)!r} & {{*sys.modules}}))"
    )
    said = ran(lean, "python", "-c", program, cwd=tmp_path)
    count, _, rooms = said.stdout.strip().partition(" ")
    assert (int(count) <= MOST_MODULES, rooms) == (True, "[]"), said


@pytest.mark.slow
def test_the_core_judges_json_and_names_what_brings_the_rest(
    lean: Environment, tmp_path: Path
) -> None:
    (tmp_path / "contract.yaml").write_text(
        "contract: notes/close\nversion: 1.0.0\nowner: me\nintent: Close ticket 7.\n"
        "require:\n  - id: closed\n    update: ticket\n    where: it.id == 7\n"
        "    set: {status: closed}\n"
    )
    (tmp_path / "before.json").write_text('{"ticket": [{"id": 7, "status": "open"}]}')
    (tmp_path / "after.json").write_text('{"ticket": [{"id": 7, "status": "closed"}]}')
    given = ["contract.yaml", "--before", "before.json", "--after", "after.json"]
    said = ran(lean, "statediff", "judge", *given, "--json", cwd=tmp_path)
    assert (said.returncode, json.loads(said.stdout)["verdict"]) == (0, "MATCH"), said
    said = ran(lean, "statediff", "capture", "db=postgresql://localhost/app", cwd=tmp_path)
    assert (said.returncode, "pip install statediff[postgres]" in said.stderr) == (2, True), said
    said = ran(lean, "statediff", "run", "repo/tag-release", "--agent", "careful", cwd=tmp_path)
    assert (said.returncode, "pip install statediff[git]" in said.stderr) == (2, True), said
    said = ran(lean, "statediff", "lab", "audit", cwd=tmp_path)
    assert (said.returncode, "pip install statediff[lab]" in said.stderr) == (2, True), said


@pytest.mark.slow
@pytest.mark.parametrize("room", OFFLINE)
def test_the_first_command_of_a_readme_runs_with_what_it_installs(
    wheels: dict[str, Path], room: str, tmp_path: Path
) -> None:
    env = Environment(tmp_path / "env")
    home = folders()[f"statediff-{room}"]
    for name, extras in installs(home).items():
        env.add(wheels[name], *extras)
    said = subprocess.run(
        first_command(home), shell=True, cwd=tmp_path, check=False, capture_output=True, text=True,
        timeout=170, env={"PATH": f"{env.bin}:/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path)},
    )  # fmt: skip
    assert said.returncode == 0, said


@pytest.mark.slow
@pytest.mark.timeout(600)  # every command of a page, one after the other
def test_the_demo_and_the_tutorial_run_from_wheels(wheels: dict[str, Path], tmp_path: Path) -> None:
    env = Environment(tmp_path / "env")
    for name in (CORE, "statediff-git", "statediff-office", "statediff-trackers", "statediff-lab"):
        env.add(wheels[name])
    env.borrow(Requirement("pytest"))
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    said = ran(env, "statediff", "demo", "--json", cwd=folder)
    *trials, last = [json.loads(line) for line in said.stdout.splitlines()]
    assert ({t["agent"]: t["verdict"] for t in trials}, {*last}) == ({
        "careful": "MATCH", "hasty": "DIVERGE", "plausible": "DIVERGE",
        "unplugged": "INCONCLUSIVE", "accounts": "DIVERGE", "helpdesk": "DIVERGE",
        "repo": "DIVERGE",
    }, {"summary"}), said  # fmt: skip
    put_programs(folder, PROGRAMS, str(env.bin / "python"))
    consoles = lay_out(folders()[CORE] / "docs" / "tutorial.md", folder)
    assert len(consoles) >= 5
    for content in consoles:
        check(content, folder, str(folder), own=True)


def test_a_wheel_has_its_licence_its_data_and_no_tests(wheels: dict[str, Path]) -> None:
    with zipfile.ZipFile(wheels[CORE]) as archive:
        names = archive.namelist()
    assert not [name for name in names if "__pycache__" in name or name.startswith("tests/")]
    html = "statediff/reports/html/templates"
    there = {f"{html}/{each.name}" for each in (folders()[CORE] / html).iterdir()}
    there |= {"statediff/py.typed", "statediff/_packs/docs/examples/reads/recorded.yaml"}
    assert there <= {*names}
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_table_of_extras_is_what_the_plug_ins_say() -> None:
    brought = {name for names in EXTRAS.values() for name in names}
    known = plug_ins("statediff.systems")
    ours = {name: each for name, each in plugins().items() if known[name].module[len(CORE)] == "_"}
    assert {kind.name for each in ours.values() for kind in each.kinds} <= brought
    core = {path.name for path in sandbox_folders().values() if path.parent.name == "sandboxes"}
    assert {*sandbox_folders()} - core == {*PACKS}
    extras = declared(folders()[CORE])["optional-dependencies"]
    assert isinstance(extras, dict)
    assert {*EXTRAS, *PACKS.values()} <= {*extras}


def test_each_distribution_has_a_page_with_its_owner_and_its_promise() -> None:
    for name, folder in folders().items():
        if name != CORE:
            text = (folder / "README.md").read_text(encoding="utf-8")
            assert all(word in text for word in ("**Owner.**", "**Promise.**")), name
            assert declared(folder)["version"] == declared(folders()[CORE])["version"], name
