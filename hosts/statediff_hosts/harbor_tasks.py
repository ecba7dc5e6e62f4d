"""Tasks as folders that Harbor 0.25 reads: `export --as harbor`.

    task.toml        the healthcheck begins the trial; the tools are an MCP server
    instruction.md   the contract's prompt, and how the systems are reached
    environment/     the Dockerfile, and in `task/` the contract and a sandbox of one's own
    tests/           a script that writes a reward, or no file for INCONCLUSIVE
    solution/        an agent of the contract's folder that does the task, where there is one

Sandboxes that come with statediff come with it into the image. Nothing of the contract is where an
agent that is not root can read it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from statediff._version import __version__
from statediff.agents import acting
from statediff.contract.file import load_contract
from statediff.errors import StatediffError, UsageError
from statediff.packs import (
    AGENTS_FILE,
    CONTRACT_FILE,
    SandboxPack,
    agents_in,
    packs_folders,
    sandbox_of,
    sandbox_pack,
)
from statediff.systems.base.tool import url_variable
from statediff.workspace.cases import Chosen, load_case
from statediff.workspace.contracts import TaskOf, tasks_of
from statediff.workspace.drafts import require_new
from statediff.workspace.folders import write_file

HERE: Final = "/opt/statediff"
"""The trial's folder in the environment."""
SOLVER, REFERENCE = "careful", "Reference"
"""How an agent is named, or its docstring begins, that does the task."""
_MODULE: Final = "statediff_hosts.harbor_trial"
_BESIDE: Final = frozenset({".yaml", ".yml", ".json", ".jsonl", ".csv", ".tsv"})
_ABOVE: Final = 3
"""Folders above an agent's in which the modules are that it imports."""
DOCKERFILE: Final = f"""FROM python:3.12-slim
RUN pip install --no-cache-dir "statediff[agents]=={__version__}" && useradd --create-home agent \\
  && chmod -R go= "$(python -c 'import statediff; print(statediff.__path__[0])')"
COPY task {HERE}/task
RUN chmod 711 {HERE} && chmod -R go= {HERE}/task
"""
TEST: Final = f"""#!/bin/sh
# MATCH has the reward 1 and DIVERGE 0. INCONCLUSIVE has none: no file is written.
exec python -m {_MODULE} finish {HERE} /logs/verifier/reward.json /logs/verifier/statediff
"""


def export_tasks(named: str, out: Path) -> list[Path]:
    """A folder for each task that is named, all in `out`. `UsageError` where one cannot be had."""
    tasks = list(tasks_of(named))
    folders = [out / _folder_name(task) for task in tasks]
    require_new(out, [folder.name for folder in folders])
    for task, folder in zip(tasks, folders, strict=True):
        try:
            _export(task, folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    return folders


def _folder_name(task: TaskOf) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", task.file.content.contract).strip("-.")


def _export(task: TaskOf, folder: Path) -> None:
    named = sandbox_of(task.file)
    if named is None:
        raise UsageError(f"{task.name}: names no sandbox, so there is nothing to put into an image")
    pack = sandbox_pack(named)
    if pack.is_outside:
        raise UsageError(
            f"{task.name}: its sandbox {pack.name} is in systems outside of it, which no image has"
        )
    for part in ("environment/task", "tests"):
        (folder / part).mkdir(parents=True)
    _copy_contract(task, pack, folder / "environment" / "task")
    files = {
        "task.toml": _toml(task),
        "instruction.md": _instruction(task, pack),
        "environment/Dockerfile": DOCKERFILE,
        "tests/test.sh": TEST,
        **_solution(task, folder / "solution"),
    }
    for name, text in files.items():
        write_file(folder / name, text.encode())
        if name.endswith(".sh"):
            (folder / name).chmod(0o755)


# ---------------------------------------------------------------- what the trial needs


def _copy_contract(task: TaskOf, pack: SandboxPack, into: Path) -> None:
    """The contract with what it names is there, in the same places beside each other."""
    contract = task.path.absolute()
    kept = [*(path for path in contract.parent.iterdir() if path.suffix.lower() in _BESIDE)]
    if not any(map(pack.folder.is_relative_to, packs_folders("sandboxes"))):
        kept += [pack.file.absolute(), *_files(pack)]
    root = Path(os.path.commonpath([contract.parent, *(path.parent for path in kept)]))
    for path in kept:
        place = into / path.relative_to(root)
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.copytree(path, place, symlinks=True, dirs_exist_ok=True)
        elif path.is_file() and (path == contract or not _is_contract(path)):
            shutil.copyfile(path, place)
    copied = into / contract.relative_to(root)
    copied = copied.rename(copied.with_name(CONTRACT_FILE))
    _require_same(task, copied)


def _files(pack: SandboxPack) -> Iterable[Path]:
    """The files of the sources of a sandbox."""
    return [path.absolute() for source in pack.sources for path in source.files.values()]


def _is_contract(path: Path) -> bool:
    return path.name == CONTRACT_FILE or path.name.endswith(f".{CONTRACT_FILE}")


def _require_same(task: TaskOf, copied: Path) -> None:
    try:
        chosen = Chosen() if task.case is None else Chosen(names=(task.case,))
        file = load_contract(copied) if task.case is None else load_case(copied, chosen)
        is_same = file.digest == task.file.digest and sandbox_of(file) is not None
    except StatediffError as error:
        raise UsageError(f"{task.name}: names files that are not in its folder: {error}") from error
    if not is_same:
        raise UsageError(f"{task.name}: reads otherwise where its folder is elsewhere")


# ---------------------------------------------------------------- what Harbor reads


def _toml(task: TaskOf) -> str:
    content = task.file.content
    words = ["python", "-m", _MODULE, "begin", HERE, *([task.case] if task.case else [])]
    return f"""schema_version = "1.4"

[task]
name = {_string("statediff/" + _folder_name(task))}
description = {_string(" ".join(content.intent.split()))}

[metadata]
contract = {_string(content.contract)}
version = {_string(content.version)}
digest = {_string(task.file.digest)}

[environment.healthcheck]
command = {_string(shlex.join(words))}
timeout_sec = 180.0
retries = 1

[[environment.mcp_servers]]
name = "sandbox"
transport = "streamable-http"
url = "http://127.0.0.1:8765/mcp"

[agent]
timeout_sec = 1800.0
user = "agent"

[verifier]
timeout_sec = 300.0
user = "root"
"""


def _string(text: str) -> str:
    """A basic string of TOML: as JSON writes one, but for what JSON leaves as it is."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _instruction(task: TaskOf, pack: SandboxPack) -> str:
    systems = "\n".join(f"- `{s.name}`: `${url_variable(s.name)}`" for s in pack.sources)
    form = "text" if task.file.content.answer.form == "text" else "JSON and nothing else"
    return f"""{task.prompt}

## Where things are

You work on these systems, through the tools of the MCP server `sandbox`, or at the addresses that
`. {HERE}/env` sets:

{systems}

Write your answer, {form}, to the file `$STATEDIFF_ANSWER`, which that sets too.
"""


def _solution(task: TaskOf, into: Path) -> dict[str, str]:
    """The script, and beside it the agent with what it imports; nothing without an agent."""
    agent = task.path.absolute().parent / AGENTS_FILE
    known = agents_in(agent.parent)
    able = [each for each in known if each == SOLVER]
    able += [each for each, said in known.items() if said.startswith(REFERENCE)]
    if not able:
        return {}
    tops = agent.parents[: _ABOVE + 1]
    for shipped in packs_folders("contracts"):
        if agent.is_relative_to(shipped.absolute()):
            tops = [top for top in tops if top.is_relative_to(shipped.absolute())]
    for top in tops:
        place = into / top.relative_to(tops[-1])
        place.mkdir(parents=True, exist_ok=True)
        for module in (agent,) if top == agent.parent else sorted(top.glob("*.py")):
            shutil.copyfile(module, place / module.name)
    shutil.copyfile(acting.__file__, into / Path(acting.__file__).name)
    where = f"/solution/{agent.relative_to(tops[-1]).as_posix()}"
    command = shlex.join(["python", f"/solution/{Path(acting.__file__).name}", where, able[0]])
    script = f'#!/bin/sh\n. {HERE}/env\ncd "$HOME" && exec {command}\n'
    return {"solution/solve.sh": script}
