"""Each distribution is what its wheel and README say: nothing more is needed, or comes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Final

import pytest

from statediff.extras import EXTRAS, PACKS
from statediff.packs import sandbox_folders
from statediff.systems.base.registry import plugins
from tests.wheels import CORE, Environment, build, first_command, folders, installs, project

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
def test_the_core_installs_little_and_nothing_of_a_room(lean: Environment) -> None:
    assert len(lean.installed) <= MOST_DISTRIBUTIONS, sorted(lean.installed)
    assert not lean.installed & {*OF_ROOMS}


@pytest.mark.slow
def test_a_judge_of_the_core_loads_little(lean: Environment, tmp_path: Path) -> None:
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
    by_folder = {folder: name for name, folder in folders().items()}
    home = folders()[f"statediff-{room}"]
    for place in installs(home):
        folder, _, extras = place.rstrip("]").partition("[")
        root = folders()[CORE]
        env.add(wheels[by_folder[(root / folder).resolve()]], *filter(None, extras.split(",")))
    said = subprocess.run(
        first_command(home), shell=True, cwd=tmp_path, check=False, capture_output=True, text=True,
        timeout=170, env={"PATH": f"{env.bin}:/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path)},
    )  # fmt: skip
    assert said.returncode == 0, said


def test_the_table_of_extras_is_what_the_plug_ins_say() -> None:
    brought = {name for names in EXTRAS.values() for name in names}
    ours = {kind.name for name, plugin in plugins().items() for kind in plugin.kinds
            if not _is_core(name)}  # fmt: skip
    assert ours <= brought
    core = {path.name for path in sandbox_folders().values() if path.parent.name == "sandboxes"}
    assert {*sandbox_folders()} - core == {*PACKS}
    extras = project(folders()[CORE])["optional-dependencies"]
    assert isinstance(extras, dict)
    assert {*EXTRAS, *PACKS.values()} <= {*extras}


def _is_core(name: str) -> bool:
    from statediff.entrypoints import plug_ins  # noqa: PLC0415 - of this check alone

    return plug_ins("statediff.systems")[name].module.startswith("statediff.")


def test_each_distribution_has_a_page_with_its_owner_and_its_promise() -> None:
    for name, folder in folders().items():
        if name != CORE:
            text = (folder / "README.md").read_text(encoding="utf-8")
            assert all(word in text for word in ("**Owner.**", "**Promise.**")), name
            assert project(folder)["version"] == project(folders()[CORE])["version"], name
