"""The trial of an exported task, inside a Harbor environment: begun, held open, and judged.

    python -m statediff_hosts.harbor_trial begin FOLDER [CASE]     # the task's healthcheck
    python -m statediff_hosts.harbor_trial finish FOLDER REWARD BUNDLE   # its test script

`begin` returns when the sandbox is reset, proven and captured, and leaves a process that holds the
trial. It has the contract, which is in `FOLDER/task` and for its user's eyes only. What the agent
may know is in `FOLDER/env`: where the systems are, and the name of the answer file. Where the
environment has a user `agent`, the systems' files are his.

`finish` writes the reward and the bundle. For INCONCLUSIVE it writes no reward and ends with 3; for
a trial that nobody holds any more, with 4.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from statediff.agents.command import task_environment
from statediff.agents.handover import PAST_THE_TOOLS
from statediff.errors import StatediffError, UsageError
from statediff.integrations.verdicts import rewards_of
from statediff.model.values import printable
from statediff.model.verdict import Verdict
from statediff.systems.base.folders import give
from statediff_hosts.held import OpenTrial

PORT: Final = 8765
"""Where the sandbox's tools are: `http://127.0.0.1:8765/mcp`, as `task.toml` says. `PORT_VARIABLE`
names another, for several environments on one loopback; 0 is any."""
PORT_VARIABLE: Final = "STATEDIFF_HARBOR_PORT"
AGENT: Final = "agent"
SECONDS: Final = 120.0
_TASK, _READY, _SOCKET, _LOG, _PID = "task", "env", "socket", "log", "pid"
_UNDECIDED, _FAULT = 3, 4


def begin(folder: Path, case: str | None) -> int:
    """0 once the trial has begun, by this call or an earlier one."""
    with contextlib.suppress(FileExistsError):
        log = (folder / _LOG).open("xb")
        (folder / _LOG).chmod(0o600)
        words = ["hold", str(folder), *([case] if case else [])]
        with log:
            held = subprocess.Popen(
                [sys.executable, "-m", __spec__.name, *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        (folder / _PID).write_text(str(held.pid))
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        if (folder / _READY).exists():
            return 0
        if not _is_running(folder):
            break
        time.sleep(0.05)
    sys.stderr.write((folder / _LOG).read_text(errors="replace"))
    return _FAULT


def _is_running(folder: Path) -> bool:
    try:
        pid = int((folder / _PID).read_text() or 0)
        return pid == 0 or "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1][:3]
    except FileNotFoundError:
        return not (folder / _PID).exists()


def hold(folder: Path, case: str | None) -> int:
    """The trial, from its reset to its verdict; one `finish` ends it."""
    found = list((folder / _TASK).rglob("contract.yaml"))
    if len(found) != 1:
        raise UsageError(f"{folder / _TASK}: expected one contract.yaml, found {len(found)}")
    opened = OpenTrial(str(found[0]), case, "harbor", keeps_log=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _offer(opened)
        listener.bind(str(folder / _SOCKET))
        (folder / _SOCKET).chmod(0o600)
        listener.listen()
        _tell(opened, folder)
        with contextlib.closing(listener.accept()[0]) as asked, asked.makefile("rwb") as line:
            reward, bundle = map(Path, json.loads(line.readline()))
            try:
                code, said = _judge(opened, reward, bundle)
            except StatediffError as error:
                code, said = _FAULT, printable(str(error))
            line.write(json.dumps([code, said]).encode() + b"\n")
    finally:
        listener.close()
        opened.close()
    return 0


def _offer(opened: OpenTrial) -> None:
    """The tools are served where the environment has what that takes."""
    try:
        from statediff_hosts.protocols.mcp_server import mcp_server, serving_http  # noqa: PLC0415 - extra
    except ModuleNotFoundError:
        return
    opened.held.tools.recorder.miss(PAST_THE_TOOLS)
    server = mcp_server("statediff", opened.held.tools)
    port = int(os.environ.get(PORT_VARIABLE, PORT))
    opened.stack.enter_context(serving_http(server, port, path="/mcp"))


def _tell(opened: OpenTrial, folder: Path) -> None:
    """The file of what the agent may know is there, and what it names is the agent's."""
    trial = opened.held.trial
    with contextlib.suppress(KeyError):
        user = pwd.getpwnam(AGENT).pw_uid
        for place in trial.writable:
            give(place, user)
            for above in place.parents:  # it is passed through, and not looked at
                if above.stat().st_uid != 0 or above == Path("/"):
                    break
                above.chmod(above.stat().st_mode | 0o011)
    known = {**task_environment(trial), "HOME": str(trial.folder)}
    lines = (f"export {name}={shlex.quote(value)}\n" for name, value in sorted(known.items()))
    written = folder / f"{_READY}.new"
    written.write_text("".join(lines))
    written.chmod(0o644)
    written.rename(folder / _READY)


def _judge(opened: OpenTrial, reward: Path, bundle: Path) -> tuple[int, str]:
    judged, score = opened.finish()
    judged.save(bundle)
    if score.verdict is Verdict.INCONCLUSIVE:
        return _UNDECIDED, f"INCONCLUSIVE: {score.why}"
    written = reward.with_name(f".{reward.name}")
    written.write_text(json.dumps(rewards_of(score)))
    written.rename(reward)
    return 0, f"{score.verdict.value}: {judged.line}"


def finish(folder: Path, reward: Path, bundle: Path) -> int:
    """The exit code of the verdict's kind; what it is, is printed."""
    try:
        with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as line:
            line.connect(str(folder / _SOCKET))
            line.sendall(json.dumps([str(reward), str(bundle)]).encode() + b"\n")
            with line.makefile("rb") as answer:
                code, said = json.loads(answer.readline() or b"null") or (_FAULT, "no answer came")
    except OSError as error:
        code, said = _FAULT, f"nobody holds the trial: {error.strerror}"
    sys.stdout.write(f"{said}\n")
    return int(code)


def main(words: list[str]) -> int:
    """Do what the command line says."""
    match words:
        case ["begin", folder, *case] if len(case) < 2:
            return begin(Path(folder), case[0] if case else None)
        case ["hold", folder, *case] if len(case) < 2:
            return hold(Path(folder), case[0] if case else None)
        case ["finish", folder, reward, bundle]:
            return finish(Path(folder), Path(reward), Path(bundle))
        case _:
            sys.stderr.write(f"{__doc__}\n")
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
