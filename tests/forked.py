"""The program `statediff`, forked from a process that has imported it; a page's commands use it.

`serve FOLDER` imports the command line once and answers at FOLDER/socket until its standard input
ends. `call FOLDER ARGUMENT…` is the program: its command runs in a fork with the caller's files,
folder, environment and arguments, in nothing else different from a process of its own but that a
second of importing is not done again. A signal to the caller is passed on.
"""

import atexit
import gc
import importlib
import os
import random
import select
import signal
import socket
import struct
import sys
import threading
from pathlib import Path
from typing import NoReturn

_IMPORTED = (
    "agents.command", "agents.tools", "cli.main", "cli.suites.reporting",
    "contract.lint", "kernel.contracts", "kernel.linting", "evidence.pack",
    "harness", "meta.metatest", "reports.suites", "systems.base.sandbox",
    "suite.indexing", "suite.store", "suite.campaign",
    "workspace.campaigns", "workspace.contracts", "workspace.trials",
)  # fmt: skip
_ROOMS = ("statediff_git.sandbox", "statediff_trackers.roundup.sandbox")
_ENDS = (signal.SIGINT, signal.SIGTERM)


def call(folder: str, arguments: list[str]) -> NoReturn:
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    line.connect(f"{folder}/socket")
    own = [f"{name}={value}" for name, value in os.environ.items()]
    told = "\0".join([str(Path.cwd()), str(len(arguments)), *arguments, *own])
    told = told.encode("utf-8", "surrogateescape")
    socket.send_fds(line, [struct.pack("!I", len(told))], [0, 1, 2])
    line.sendall(told)
    process = struct.unpack("!i", line.recv(4, socket.MSG_WAITALL))[0]
    for number in _ENDS:
        signal.signal(number, lambda number, _: os.kill(process, number))
    code = struct.unpack("!i", line.recv(4, socket.MSG_WAITALL))[0]
    if code < 0:  # by a signal: as this process would have ended
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


def serve(folder: str) -> None:
    """Ends with its standard input; in the fork of a command it returns to run that."""
    from statediff.reports.html.page import (  # noqa: PLC0415 - `call` does without
        TEMPLATES,
        _environment,
    )

    for name in (*(f"statediff.{each}" for each in _IMPORTED), *_ROOMS):
        importlib.import_module(name)
    for name in _environment(TEMPLATES).list_templates():
        _environment(TEMPLATES).get_template(name)
    gc.freeze()

    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    door.bind(f"{folder}/socket")
    door.listen()
    Path(folder, "ready").touch()
    while True:
        ready, _, _ = select.select([door, 0], [], [], 1.0)
        while _reaped():
            pass
        if 0 in ready:
            sys.exit()
        if ready and _is_the_command(door):
            return


def _reaped() -> bool:
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


def _is_the_command(door: socket.socket) -> bool:
    """True in the process that is to run a command; its keeper tells the caller how it ended."""
    line, _ = door.accept()
    if os.fork():
        line.close()
        return False
    head, files, _, _ = socket.recv_fds(line, 4, 3)
    told = line.recv(struct.unpack("!I", head)[0], socket.MSG_WAITALL)
    process = os.fork()
    if process:
        line.sendall(struct.pack("!i", process))
        _, status = os.waitpid(process, 0)
        line.sendall(struct.pack("!i", os.waitstatus_to_exitcode(status)))
        os._exit(0)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    line.close()
    door.close()
    # What a stream can do was asked of the server's.
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", 1, encoding="utf-8", closefd=False)  # noqa: SIM115
    cwd, count, *rest = told.decode("utf-8", "surrogateescape").split("\0")
    os.chdir(cwd)
    sys.argv = ["statediff", *rest[: int(count)]]
    os.environ.clear()
    os.environ.update(pair.split("=", 1) for pair in rest[int(count) :])
    random.seed()
    return True


if __name__ == "__main__":
    if sys.argv[1] == "call":
        call(sys.argv[2], sys.argv[3:])
    serve(sys.argv[2])
    from statediff.cli.main import main

    code = 0
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:  # all but taking apart what a process of its own would not have
        threading._shutdown()  # first, as there: who ends a pool's processes is a thread
        atexit._run_exitfuncs()
        sys.stdout.flush()
        os._exit(code)
