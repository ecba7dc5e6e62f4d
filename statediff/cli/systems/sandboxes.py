"""`sandbox build | up | reset | verify | down`: a sandbox that stays, for whoever is at hand.

A sandbox lives in the process of `up`: only there are the pristine images and the
outbox's token, out of an agent's reach. The other commands ask that process, by a file under
`.statediff/sandboxes/NAME/requests`, and report what it answers.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from statediff.cli.output import JsonFlag

if TYPE_CHECKING:
    from statediff.systems.base.embedded import EmbeddedSandbox

ROOT: Final = Path(".statediff") / "sandboxes"
POLL_SECONDS: Final = 0.05
ANSWER_SECONDS: Final = 15.0
Name = Annotated[str, typer.Argument(metavar="NAME", help="The sandbox, e.g. `shop`.")]


def build(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[IMAGE...]", help="Which [default: all].")
    ] = None,
    base: Annotated[
        str,
        typer.Option(
            "--base",
            metavar="IMAGE",
            help="Stand on it [default: statediff-base:bookworm if that is here, else Debian's].",
        ),
    ] = "",
    as_json: JsonFlag = False,
) -> int:
    """Build the images of sandboxes' servers; those of older versions of them are removed."""
    from statediff.cli.output import emit, progress, results
    from statediff.reports.record import said

    containers, images = docker_parts()
    chosen = list(dict.fromkeys(names or images.image_names()))
    for name in chosen:
        images.image_tag(name)  # an unknown name needs no engine to be refused
    engine = containers.connect()
    built = images.build(
        engine, chosen,
        lambda name, line: progress().print(
            f"{name}: {said(line, 200)}", markup=False, highlight=False, soft_wrap=True
        ),
        base,
    )  # fmt: skip
    for image in built:
        removed = images.remove_older(engine, image.name)
        if as_json:
            emit(
                {"image": image.name, "tag": image.tag, "built": image.is_new,
                 "removed": list(removed)}
            )  # fmt: skip
        else:
            results().print(
                f"{image.name:<10} {image.tag}  {'built' if image.is_new else 'as it was'}",
                highlight=False, soft_wrap=True,
            )  # fmt: skip
            for tag in removed:
                progress().print(f"{tag}: removed, an older one", highlight=False, soft_wrap=True)
    return 0


def up(
    name: Name,
    variant: Annotated[
        str, typer.Option("--variant", metavar="VARIANT", help="Which, e.g. `postgres`.")
    ] = "embedded",
    detach: Annotated[
        bool, typer.Option("--detach", help="Stay in the background, until `sandbox down`.")
    ] = False,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", metavar="N", help="Stop after N seconds [default: at Ctrl-C]."),
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Start a sandbox, say how an agent reaches it, and keep it until Ctrl-C or `sandbox down`."""
    from statediff.agents.command import url_variable
    from statediff.cli.output import progress
    from statediff.packs import sandbox_pack
    from statediff.systems.base.embedded import EmbeddedSandbox

    pack = sandbox_pack(name, variant)
    home = _home(name)
    _require_down(name)
    if detach:
        _tell(_detached(name, variant, seconds), as_json)
        return 0
    _make(home / "requests")
    try:
        with EmbeddedSandbox(pack, home / "work") as sandbox:
            access = sandbox.access()
            environment = {url_variable(s): url for s, url in access.urls.items()}
            facts = {
                "sandbox": name,
                "variant": variant,
                "urls": dict(access.urls),
                "environment": environment,
                "folder": str(access.folder),
                "pid": os.getpid(),
            }
            _write(home / "up.json", facts)
            _tell(facts, as_json)
            if not as_json:
                progress().print(
                    f"{pack.title} is up; `statediff sandbox verify {name}` proves its base state; "
                    "Ctrl-C ends it", soft_wrap=True,
                )  # fmt: skip
            _serve(sandbox, home / "requests", seconds)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return 0


def reset(name: Name, as_json: JsonFlag = False) -> int:
    """Put a running sandbox back to its base state, and prove it; 4 if it is not proven."""
    return _report(_ask(name, "reset"), as_json)


def verify(name: Name, as_json: JsonFlag = False) -> int:
    """Prove that a running sandbox is in its base state; 4 and the drift if it is not."""
    return _report(_ask(name, "verify"), as_json)


def down(name: Name, as_json: JsonFlag = False) -> int:
    """Stop a running sandbox; nothing of it is left when this ends."""
    from statediff.cli.output import emit, results
    from statediff.errors import SandboxError

    _ask(name, "down")
    deadline = time.monotonic() + ANSWER_SECONDS
    while _is_up(_home(name)):
        if time.monotonic() >= deadline:
            raise SandboxError(f"{name}: not everything has ended after {ANSWER_SECONDS:g} s")
        time.sleep(POLL_SECONDS / 5)
    if as_json:
        emit({"sandbox": name, "down": True})
    else:
        results().print(f"{name} is down")
    return 0


COMMANDS: Final[tuple[tuple[str, Callable[..., object]], ...]] = (
    ("build", build), ("up", up), ("reset", reset), ("verify", verify), ("down", down),
)  # fmt: skip


def docker_parts() -> tuple[ModuleType, ModuleType]:
    """The modules `containers` and `images`; `UsageError` if what they need is not installed."""
    from importlib import import_module

    from statediff.errors import UsageError

    try:
        return (
            import_module("statediff.systems.containers.engine"),
            import_module("statediff.systems.containers.images"),
        )
    except ModuleNotFoundError as error:
        raise UsageError(
            f"containers need {error.name}; get it with `pip install statediff[docker]`"
        ) from error


# ---------------------------------------------------------------- the process of `up`


def _tell(facts: dict[str, Any], as_json: bool) -> None:
    from statediff.cli.output import emit, results

    if as_json:
        emit(facts)
        return
    for variable, url in facts["environment"].items():
        results().print(f"export {variable}={shlex.quote(url)}", soft_wrap=True)


def _detached(name: str, variant: str, seconds: float | None) -> dict[str, Any]:
    """The facts of a sandbox that a process in the background keeps up."""
    from statediff.errors import SandboxError

    command = [sys.executable, "-c", "from statediff.cli.main import main; main()"]
    command += ["sandbox", "up", name, "--variant", variant]
    command += [] if seconds is None else ["--seconds", str(seconds)]
    _make(_home(name).parent)
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said,
            start_new_session=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        try:
            while process.poll() is None:
                if _is_up(_home(name)):
                    facts: dict[str, Any] = json.loads((_home(name) / "up.json").read_bytes())
                    return facts
                time.sleep(POLL_SECONDS)
        except BaseException:
            process.terminate()
            raise
        said.seek(0)
        told = said.read().decode(errors="replace").strip()
    raise SandboxError(f"{name} did not come up: {told.removeprefix('error: ')}")


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
    from statediff.errors import StatediffError
    from statediff.workspace.trials import clock

    try:
        if wish == "reset":
            sandbox.reset()
        if wish == "down":
            return {"down": True}
        return sandbox.verify(clock).as_json()
    except StatediffError as error:
        return {"fault": str(error)}


def _await_reader(reply: Path) -> None:
    """The folder goes when `up` ends; whoever asked gets to read the answer first."""
    deadline = time.monotonic() + 1.0
    while reply.exists() and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS / 5)


# ---------------------------------------------------------------- whoever asks it


def _ask(name: str, wish: str) -> dict[str, Any]:
    """What the process of `up` answers; `UsageError` if there is none, `SandboxError` if silent."""
    from statediff.atomic import write_atomically
    from statediff.errors import SandboxError, UsageError
    from statediff.packs import sandbox_pack

    sandbox_pack(name)
    home = _home(name)
    if not _is_up(home):
        raise UsageError(f"{name} is not up here; start it with `statediff sandbox up {name}`")
    stem = home / "requests" / f"{time.time_ns()}-{os.getpid()}"
    reply = stem.with_suffix(".reply")
    try:
        write_atomically(stem.with_suffix(".request"), wish.encode())
    except OSError as error:
        raise SandboxError(f"{home}: cannot be asked: {error.strerror}") from error
    deadline = time.monotonic() + ANSWER_SECONDS
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
    from rich.text import Text

    from statediff.cli.faults import FAULT
    from statediff.cli.output import emit, results
    from statediff.reports.record import said

    if as_json:
        emit(receipt)
    elif receipt["ok"]:
        sources = len(receipt["proofs"])
        line = Text("✔", style="green")
        line.append(f" base state proven   {receipt['entities']} entities in {sources} sources", "")
        results().print(line)
    else:
        results().print(Text(f"✘ {said(receipt['sandbox'])} has drifted", style="red"))
        for entry in receipt["drift"]:
            told = f"{entry['what']}: expected {entry['expected']}, found {entry['found']}"
            results().print(Text(f"  {said(entry['source'])}: {said(told)}"), soft_wrap=True)
    return 0 if receipt["ok"] else FAULT


def _home(name: str) -> Path:
    return (ROOT / name).absolute()


def _is_up(home: Path) -> bool:
    try:
        facts = json.loads((home / "up.json").read_text(encoding="utf-8"))
        os.kill(int(facts["pid"]), 0)
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return True


def _require_down(name: str) -> None:
    from statediff.errors import UsageError

    home = _home(name)
    if _is_up(home):
        raise UsageError(f"{name} is up already here; end it with `statediff sandbox down {name}`")
    shutil.rmtree(home, ignore_errors=True)  # what a killed process left


def _make(folder: Path) -> None:
    from statediff.errors import SandboxError

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SandboxError(f"{folder}: cannot be made: {error.strerror}") from error


def _write(path: Path, document: Any) -> None:
    from statediff.atomic import write_atomically

    write_atomically(path, json.dumps(document).encode())
