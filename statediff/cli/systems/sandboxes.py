"""`sandbox up | reset | verify | fork | down`: a sandbox that stays.

A sandbox lives in the process of `up`: only there are the pristine images and the outbox's token,
out of an agent's reach. The other commands ask that process, by a file under
`.statediff/sandboxes/NAME/requests`, and report what it answers.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

from rich.text import Text

from statediff.atomic import write_atomically
from statediff.capture.source import clock
from statediff.cli.faults import FAULT
from statediff.cli.options import (
    JsonFlag,
    RebaseOption,
    SandboxArgument,
    SchemaFileOption,
    VariantOption,
    argument,
    opt,
    option,
)
from statediff.cli.output import emit, note, print_result, say
from statediff.errors import SandboxError, StatediffError, UsageError
from statediff.packs import SandboxPack, find_sandbox, sandbox_pack
from statediff.reports.said import said
from statediff.systems.base.known_bases import forget_bases
from statediff.systems.base.sandbox import EmbeddedSandbox
from statediff.systems.base.tool import url_variable
from statediff.workspace.folders import shown

ROOT: Final = Path(".statediff") / "sandboxes"
UP: Final = "up.json"
ALIVE: Final = "alive"
"""The file that the process of `up` holds locked."""
POLL_SECONDS: Final = 0.05
ANSWER_SECONDS: Final = 15.0
COPY_SECONDS: Final = 600.0
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_FORK: Final = re.compile(rf"({_NAME.pattern})\.[0-9a-f]{{32}}")
"""The name of a sandbox and of what was kept for it alone: no other begins with that."""


def up(
    name: SandboxArgument,
    variant: VariantOption = "embedded",
    detach: Annotated[
        bool, option("", "Stay in the background, until `sandbox down`.", "--detach")
    ] = False,
    seconds: Annotated[
        float | None, option("N", "Stop after N seconds [default: at Ctrl-C].", "--seconds")
    ] = None,
    rebase: RebaseOption = False,
    fork: Annotated[
        str | None, option("FOLDER", "What `sandbox fork` kept.", "--fork", hidden=True)
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Start a sandbox, say how an agent reaches it, and keep it until Ctrl-C or `sandbox down`."""
    found = find_sandbox(name)
    pack = sandbox_pack(found, variant)
    kept = None if fork is None else _kept_for(fork)
    pack = pack if fork is None else replace(pack, name=fork.partition(".")[0])
    home = _home(pack.name)
    _require_down(pack.name)
    if rebase:
        forget_bases(pack)
    if detach:
        options = [] if seconds is None else ["--seconds", str(seconds)]
        _tell(_start_detached(pack, options), as_json)
    else:
        _make(home / "requests")
        with _alive(home):
            if kept is None:
                _forget_kept(pack.name)
            _stay_up(pack, home, kept, seconds, as_json=as_json)
    return 0


def reset(name: SandboxArgument, as_json: JsonFlag = False) -> int:
    """Put a running sandbox back to its base state, and prove it; 4 if it is not proven."""
    return _report(_ask(name, "reset"), as_json)


def verify(name: SandboxArgument, as_json: JsonFlag = False) -> int:
    """Prove that a running sandbox is in its base state; 4 and the drift if it is not."""
    return _report(_ask(name, "verify"), as_json)


def fork(
    name: SandboxArgument,
    other: Annotated[str, argument("NEW", "The name of the second one.")],
    as_json: JsonFlag = False,
) -> int:
    """Start a second sandbox from what a running one is now, its base from then on."""
    if not _NAME.fullmatch(other):
        raise UsageError(f"{said(other)}: expected a name of letters, digits, `_` and `-`")
    _require_down(other)
    _forget_kept(other)
    state = f"{other}.{secrets.token_hex(16)}"
    try:
        facts = _ask(name, f"fork {state}", COPY_SECONDS)
        pack = replace(sandbox_pack(facts["file"], facts["variant"]), name=other)
        _tell(_start_detached(pack, ["--fork", state]), as_json)
    finally:
        _forget_kept(other)
    return 0


def down(name: SandboxArgument, as_json: JsonFlag = False) -> int:
    """Stop a running sandbox; nothing of it is left when this ends."""
    home = _home(_running(name))
    _ask(name, "down")
    deadline = time.monotonic() + ANSWER_SECONDS
    while _is_up(home):
        if time.monotonic() >= deadline:
            raise SandboxError(f"{name}: not everything has ended after {ANSWER_SECONDS:g} s")
        time.sleep(POLL_SECONDS / 5)
    print_result({"sandbox": name, "down": True}, f"{name} is down", as_json=as_json)
    return 0


@dataclass(frozen=True, kw_only=True)
class OwnCommands:
    """The commands of a system that is somebody's own."""

    up: str | None = opt("CMD", "What starts it, from sandboxes/NAME.")
    reset: str | None = opt("CMD", "What puts it back.")
    down: str | None = opt("CMD", "What ends it.")

    def given(self) -> dict[str, str]:
        """Those that are given; `UsageError` where there is no `--reset` among them."""
        found = {k: v for k, v in vars(self).items() if v is not None}
        if found and self.reset is None:
            raise UsageError("--up and --down go with --reset: each trial begins with a reset")
        return found


def init(
    name: Annotated[str, argument("NAME", "Of the sandbox, e.g. `app`.")],
    states: Annotated[
        list[str] | None,
        argument(
            "[NAME=]STATE...",
            "Files, folders, dumps, repositories, URLs [default: what is in this folder].",
        ),
    ] = None,
    *,
    commands: OwnCommands,
    schema: SchemaFileOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Write a sandbox of your own into `sandboxes/NAME`, from states or from what is here.

    With the schema of a draft, its sources are read as the draft has them.
    """
    from statediff.workspace import sandboxes

    given = commands.given()
    if not _NAME.fullmatch(name):
        raise UsageError(f"{said(name)}: expected a name of letters, digits, `_` and `-`")
    found = states or list(sandboxes.states_in(Path.cwd()))
    if not found:
        raise UsageError("no database, dump or repository is here; name the states")
    sources = sandboxes.own_sources(found, is_external=bool(given))
    out = Path("sandboxes") / name
    written = sandboxes.write_sandbox(out, sources, schema=schema, commands=given)
    lines = [f"wrote {file}" for file in written]
    lines.append(f"next: `statediff init {name} --out DIR` drafts a contract for {shown(out)}")
    document = {"sandbox": name, "files": written, "sources": [each.name for each in sources]}
    print_result(document, "\n".join(lines), as_json=as_json)
    return 0


def pin(
    name: SandboxArgument, variant: VariantOption = "embedded", as_json: JsonFlag = False
) -> int:
    """Write down what the base of an external sandbox is, so that a later run finds another."""
    from statediff.workspace.sandboxes import pin_base

    pack = sandbox_pack(find_sandbox(name), variant)
    files = pin_base(pack)
    lines = "\n".join(f"wrote {file}" for file in files)
    print_result({"sandbox": pack.name, "files": list(files)}, lines, as_json=as_json)
    return 0


COMMANDS: Final[tuple[tuple[str, Callable[..., object]], ...]] = (
    ("init", init),
    ("pin", pin),
    ("up", up),
    ("reset", reset),
    ("verify", verify),
    ("fork", fork),
    ("down", down),
)


# ---------------------------------------------------------------- the process of `up`


def _tell(facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        emit(facts)
        return
    for variable, url in facts["environment"].items():
        say(f"export {variable}={shlex.quote(url)}")


def _stay_up(
    pack: SandboxPack, home: Path, kept: Path | None, seconds: float | None, *, as_json: bool
) -> None:
    """The sandbox is up, and answers, until it is asked to end or time is over."""
    try:
        with EmbeddedSandbox(pack, home / "work", kept) as sandbox:
            access = sandbox.access()
            facts = {
                "sandbox": pack.name,
                "variant": pack.variant,
                "urls": dict(access.urls),
                "environment": {url_variable(name): url for name, url in access.urls.items()},
                "folder": str(access.folder),
                "pid": os.getpid(),
            }
            if servers := sandbox.served_by():
                facts["servers"] = servers
            _write(home / UP, facts)
            _tell(facts, as_json)
            if not as_json:
                for source, what in servers.items():
                    note(f"{source}: {what}")
                note(
                    f"{pack.title} is up; `statediff sandbox verify {pack.name}` proves its base "
                    "state; Ctrl-C ends it"
                )
            _serve(sandbox, home / "requests", seconds)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _start_detached(pack: SandboxPack, options: list[str]) -> dict[str, Any]:
    """The facts of a sandbox that a process in the background keeps up."""
    command = [sys.executable, "-c", "from statediff.cli.main import main; main()"]
    name = pack.name
    command += ["sandbox", "up", str(pack.file), "--variant", pack.variant, *options]
    _make(_home(name).parent)
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        try:
            while process.poll() is None:
                if _is_up(_home(name)):
                    facts: dict[str, Any] = json.loads((_home(name) / UP).read_bytes())
                    return facts
                time.sleep(POLL_SECONDS)
        except BaseException:
            process.terminate()
            raise
        errors.seek(0)
        text = errors.read().decode(errors="replace").strip()
    raise SandboxError(f"{name} did not come up: {text.removeprefix('error: ')}")


def _serve(sandbox: EmbeddedSandbox, requests: Path, seconds: float | None) -> None:
    """Answers requests in the order of their names until it is asked to end or time is over."""
    deadline = None if seconds is None else time.monotonic() + seconds
    while deadline is None or time.monotonic() < deadline:
        for request in sorted(requests.glob("*.request")):
            wish = request.read_text(encoding="utf-8")
            request.unlink()
            _write(request.with_suffix(".reply"), _answer(sandbox, wish))
            if wish == "down":
                _await_reader(request.with_suffix(".reply"))
                return
        time.sleep(POLL_SECONDS)


def _answer(sandbox: EmbeddedSandbox, wish: str) -> dict[str, Any]:
    verb, _, other = wish.partition(" ")
    try:
        if verb == "fork" and _FORK.fullmatch(other):
            settled = sandbox.settle(clock)
            for source, cause in (*settled.unsettled, *settled.failed):
                raise SandboxError(f"{source} cannot be forked: {cause}")
            sandbox.keep(_home(f".{other}"))
            return {"file": str(sandbox.pack.file), "variant": sandbox.pack.variant}
        if wish == "reset":
            sandbox.reset()
        if wish == "down":
            return {"down": True}
        return sandbox.verify(clock).as_json()
    except StatediffError as error:
        return {"fault": str(error)}


def _await_reader(reply: Path) -> None:
    """The folder goes when `up` ends; the caller gets to read the answer first."""
    deadline = time.monotonic() + 1.0
    while reply.exists() and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS / 5)


# ---------------------------------------------------------------- requests


def _running(name: str) -> str:
    """The name of a sandbox that is up, found by its name or by its own file."""
    found = name
    if not _NAME.fullmatch(name) or not _is_up(_home(name)):
        found = sandbox_pack(find_sandbox(name)).name
    if not _is_up(_home(found)):
        raise UsageError(f"{found} is not up here; start it with `statediff sandbox up {found}`")
    return found


def _ask(name: str, wish: str, seconds: float = ANSWER_SECONDS) -> dict[str, Any]:
    """The answer of `up`'s process; `UsageError` if there is none, `SandboxError` if silent."""
    name = _running(name)
    home = _home(name)
    stem = home / "requests" / f"{time.time_ns()}-{os.getpid()}"
    reply = stem.with_suffix(".reply")
    try:
        write_atomically(stem.with_suffix(".request"), wish.encode())
    except OSError as error:
        raise SandboxError(f"{home}: cannot be asked: {error.strerror}") from error
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and _is_up(home):
        if reply.exists():
            answer: dict[str, Any] = json.loads(reply.read_text(encoding="utf-8"))
            reply.unlink(missing_ok=True)
            if "fault" in answer:
                raise SandboxError(f"{name}: {answer['fault']}")
            return answer
        time.sleep(POLL_SECONDS / 5)
    raise SandboxError(f"{name}: the process of `sandbox up` did not answer; end it and start anew")


def _report(receipt: dict[str, Any], as_json: bool) -> int:
    if as_json:
        emit(receipt)
    elif receipt["ok"]:
        sources = len(receipt["proofs"])
        line = Text("✔", style="green")
        line.append(f" base state proven   {receipt['entities']} entities in {sources} sources", "")
        say(line)
        for source, text in receipt.get("remarks", ()):
            say(Text(f"  {said(source)}: {said(text)}"))
    else:
        say(Text(f"✘ {said(receipt['sandbox'])} has drifted", style="red"))
        for entry in receipt["drift"]:
            told = f"{entry['what']}: expected {entry['expected']}, found {entry['found']}"
            say(Text(f"  {said(entry['source'])}: {said(told)}"))
    return 0 if receipt["ok"] else FAULT


def _home(name: str) -> Path:
    return (ROOT / name).absolute()


def _kept_for(fork: str) -> Path:
    """The folder of the states that a fork begins with; `SandboxError` where none is there."""
    place = _home(f".{fork}")
    if not _FORK.fullmatch(fork) or place.is_symlink() or not place.is_dir():
        raise SandboxError(f"{said(fork)}: nothing was kept for this fork; fork it again")
    return place


def _forget_kept(name: str) -> None:
    """Nothing is left of what was kept for a fork of the name, e.g. by one that was killed."""
    for place in ROOT.absolute().glob(".*"):
        if (of := _FORK.fullmatch(place.name[1:])) and of[1] == name:
            shutil.rmtree(place, ignore_errors=True)


@contextmanager
def _alive(home: Path) -> Iterator[None]:
    """While this lasts, others see that the process of `up` is there, and no other can begin.

    A lock says it, not a number: the kernel takes it back however the process ends, and anyone who
    is given the process's number later does not have it.
    """
    handle = os.open(home / ALIVE, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(f"{home.name} is being started by another process") from error
        yield
    finally:
        os.close(handle)


def _is_alive(home: Path) -> bool:
    try:
        handle = os.open(home / ALIVE, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _is_up(home: Path) -> bool:
    return (home / UP).exists() and _is_alive(home)


def _require_down(name: str) -> None:
    home = _home(name)
    if _is_alive(home):
        raise UsageError(f"{name} is up already here; end it with `statediff sandbox down {name}`")
    shutil.rmtree(home, ignore_errors=True)  # what a killed process left


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SandboxError(f"{folder}: cannot be made: {error.strerror}") from error


def _write(path: Path, document: Any) -> None:
    write_atomically(path, json.dumps(document).encode())
