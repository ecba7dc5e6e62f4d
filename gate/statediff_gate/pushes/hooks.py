"""The hooks of a git server: each push of an agent's is judged before a ref moves.

`install` writes two small programs into the repository's `hooks`. `pre-receive` judges the push
and says to the pusher why it is denied or held; `reference-transaction` lets nothing else move than
what was judged. A push that is held passes once when it is made again, with a signed approval in
the folder `approvals` of the records.

Pushes of one gate are judged one after the other: each waits until git has moved the refs of the
one before.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from statediff.atomic import write_atomically
from statediff.errors import StatediffError, UsageError
from statediff.model.values import printable
from statediff.model.verdict import Decision

if TYPE_CHECKING:
    from statediff.systems.base.plugin import Refinement
    from statediff_gate.journal import Journal
    from statediff_gate.repository import GitGate

_MARK: Final = "# statediff gate"
_HOOKS: Final = {"pre-receive": "", "reference-transaction": '[ "$1" = prepared ] || exit 0\n'}
_SETTINGS: Final = "push.json"
_KEPT: Final = "pushes.json"
APPROVALS: Final = "approvals"
_WAIT_SECONDS: Final = 20.0
_MOST_PARTS: Final = 8
"""Refs of a push that git may move one by one: each part is judged."""


def install(
    contract: Path,
    systems: Mapping[str, str],
    accounts: Mapping[str, str],
    records: Path,
    key: Path,
    trust: Path | None,
) -> Path:
    """The hooks stand in the repository, and a run begins. Gives the folder of the hooks.

    With an account only its pushes are judged, in whatever case and realm the server names it, and
    those of nobody that it names.
    """
    from statediff_gate.gate import Gate  # noqa: PLC0415 - not of every move of a ref

    if len(systems) != 1 or {*accounts} - {*systems}:
        raise UsageError("name the one repository whose pushes are judged")
    [(name, place)] = systems.items()
    path = Path(place).absolute()
    asked = ("git", "-C", str(path), "rev-parse", "--is-bare-repository", "--git-path", "hooks")
    said = subprocess.run(asked, capture_output=True, check=False, text=True)
    is_bare, _, hooks = said.stdout.strip().partition("\n")
    if said.returncode or is_bare != "true":
        raise UsageError(f"{place}: is no bare git repository")
    folder = path / hooks
    if folder.resolve() != (path / "hooks").resolve():
        raise UsageError(f"{place}: its core.hooksPath leads elsewhere; hooks of its own are asked")
    for each in _HOOKS:
        with contextlib.suppress(FileNotFoundError):
            if _MARK not in (folder / each).read_text("utf-8", "replace"):
                raise UsageError(f"{folder / each}: is there already, and is not the gate's")
    records = records.absolute()
    with Gate(contract, {name: path}, folder=records, key=key) as gate:
        gate.begin_run()
    (records / APPROVALS).mkdir(exist_ok=True)
    (records / "contract.yaml").write_bytes(contract.read_bytes())
    settings = {
        "name": name, "path": str(path), "key": str(key.absolute()), "who": accounts.get(name),
        "trust": None if trust is None else str(trust.absolute()),
    }  # fmt: skip
    write_atomically(records / _SETTINGS, json.dumps(settings).encode(), durable=True)
    folder.mkdir(exist_ok=True)
    for each, first in _HOOKS.items():
        words = (sys.executable, "-P", "-m", "statediff_gate.pushes.hooks", each, str(records))
        text = f"#!/bin/sh\n{_MARK}\n{first}exec {shlex.join(words)}\n"
        (folder / each).write_text(text, "utf-8")
        (folder / each).chmod(0o755)
    return folder


def main(hook: str, records: Path) -> int:
    """The exit code of a hook, which reads from standard input what git would move."""
    lines = [os.fsdecode(line) for line in sys.stdin.buffer.read().split(b"\n") if line]
    settings = json.loads((records / _SETTINGS).read_bytes())
    from statediff_gate.participant import Refused  # noqa: PLC0415 - as in `install`

    try:
        if hook == "reference-transaction":
            from statediff_gate.repository import may_move  # noqa: PLC0415 - its part alone

            why = may_move(records / _KEPT, Path(settings["path"]), os.getppid(), lines)
            return _refuse(why) if why is not None else 0
        who, pusher = map(_plain, (settings["who"] or "", os.environ.get("REMOTE_USER", "")))
        if who and pusher not in ("", who):
            return 0  # somebody else's, who is not judged
        return _received(settings, records, lines)
    except (Refused, StatediffError) as error:
        return _refuse(f"denied: {error}")


def _plain(account: str) -> str:
    """The account without its realm or domain; servers call one account by several names."""
    return account.strip().rpartition("\\")[2].partition("@")[0].casefold()


def _refuse(why: str) -> int:
    sys.stderr.write(f"statediff: {printable(why)}\n")
    return 1


def _received(settings: Mapping[str, Any], records: Path, lines: list[str]) -> int:
    from statediff.sparing import import_sparingly  # noqa: PLC0415 - as in `install`

    import_sparingly()
    from statediff.evidence.keys import load_trust  # noqa: PLC0415 - as above
    from statediff_gate.gate import Gate  # noqa: PLC0415 - as above
    from statediff_gate.holds import approvals_in  # noqa: PLC0415 - as above
    from statediff_gate.participant import Refused  # noqa: PLC0415 - as above
    from statediff_gate.repository import GitGate, process  # noqa: PLC0415 - as above

    incoming = Path(os.environ.get("GIT_QUARANTINE_PATH", "")).name
    path = Path(settings["path"])
    steps = [f"{name} {old} {new}" for old, new, name in (line.split(" ", 2) for line in lines)]
    made: list[GitGate] = []

    def opened(name: str, refine: Refinement | None, _: Journal) -> GitGate:
        owner = process(os.getppid())
        made.append(GitGate(name, path, refine, records / _KEPT, os.fsencode(incoming), owner))
        return made[0]

    with (
        _turn(records, path),
        Gate(records / "contract.yaml", {settings["name"]: opened}, folder=records,
             key=settings["key"]) as gate,
    ):  # fmt: skip
        if settings["trust"]:
            gate.approvals = approvals_in(
                records / APPROVALS, load_trust(Path(settings["trust"])), records / "used",
                gate.records.contract_digest,
            )  # fmt: skip
        outcome = gate.execute(steps)
        if not outcome.is_committed:
            how = "held" if outcome.decision is Decision.HOLD else "denied"
            return _refuse(f"{how}: {outcome.why} ({outcome.record})")
        if 1 < len(steps) <= _MOST_PARTS:
            with contextlib.suppress(Refused):
                parts = (gate.standing(steps[:n]) for n in range(1, len(steps)))
                if all(each is Decision.ALLOW for each in parts):
                    made[0].allow_one_by_one()
    return 0


@contextmanager
def _turn(records: Path, path: Path) -> Iterator[None]:
    """No other push is judged, and none that was is still to move a ref. Raises `UsageError`."""
    from statediff_gate.repository import Pushes, places, refs_of  # noqa: PLC0415 - as above

    with (records / "turn").open("wb") as file:
        end = time.monotonic() + _WAIT_SECONDS
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                pushes = Pushes.read(records / _KEPT)
                if pushes is None or not pushes.is_under_way(places(refs_of(path))):
                    break
                fcntl.flock(file, fcntl.LOCK_UN)
            if time.monotonic() > end:
                raise UsageError("another push is being judged; push again")
            time.sleep(0.05)
        yield


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
