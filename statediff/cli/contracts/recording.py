"""`record`: a person does the task in a sandbox, and what they changed drafts a contract."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from statediff.cli.output import JsonFlag

if TYPE_CHECKING:
    from statediff.agents.trial import Trial

RECORD: Final = "statediff/record/1"


def record(
    sandbox: Annotated[
        str, typer.Argument(metavar="SANDBOX", help="In which the task is done, e.g. `shop`.")
    ],
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="The contract's name.")
    ] = "drafts/recorded",
    variant: Annotated[
        str, typer.Option("--sandbox", metavar="VARIANT", help="Of the sandbox, e.g. `postgres`.")
    ] = "embedded",
    shell: Annotated[
        bool, typer.Option("--shell", help="In a shell of its own, which ends with `exit`.")
    ] = False,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where the contract is written.")
    ] = Path(),
    runs: Annotated[
        Path, typer.Option("--runs", metavar="DIR", help="The trial's folder is made in it.")
    ] = Path("runs"),
    as_json: JsonFlag = False,
) -> int:
    """Do a task by hand in a sandbox that was just reset; Enter ends it and drafts its contract.

    The contract requires what was changed, is marked `reviewed: false`, and gates nothing yet.
    """
    from statediff.agents.handover import Person
    from statediff.capture.store import DiskChunks
    from statediff.cli.drafting import CONTRACT_FILE, require_free, what_was_seen
    from statediff.cli.output import emit, results, shown
    from statediff.contract.authoring.drafting import draft_contract
    from statediff.harness import Task, TrialPlan, observe_trial, write_run
    from statediff.workspace import folders
    from statediff.workspace.trials import clock, embedded

    folders.require_writable(out)
    folders.require_writable(runs)
    require_free(out, {CONTRACT_FILE: ""})
    with embedded(sandbox, variant) as running:
        folder = folders.new_run(runs, "record")
        write_run(folder, folder.name, {}, {"recorded": sandbox, "sandbox": variant})
        observed = observe_trial(
            running, Person(_shell if shell else _wait), Task(f"record {name}", {}),
            TrialPlan("recorded", folder / "trials" / "recorded"),
            clock=clock, store=DiskChunks(folder / "chunks"),
        )  # fmt: skip
    found = what_was_seen(observed.before, observed.after, sandbox)
    target = out / CONTRACT_FILE
    out.mkdir(parents=True, exist_ok=True)
    folders.write_file(target, draft_contract(name, found).encode())
    facts: dict[str, Any] = {
        "schema": RECORD, "contract": name, "file": shown(target), "run": shown(folder),
        "changes": len(found.deltas),
    }  # fmt: skip
    if as_json:
        emit(facts)
        return 0
    console = results()
    changes = "1 change" if len(found.deltas) == 1 else f"{len(found.deltas)} changes"
    console.print(f"recorded {changes} in {facts['run']}; wrote {facts['file']}", soft_wrap=True)
    console.print(
        f"next: read {facts['file']}, then `statediff lint {facts['file']}`; remove "
        "`reviewed: false` when it is right", soft_wrap=True,
    )  # fmt: skip
    return 0


def _environment(trial: Trial) -> dict[str, str]:
    from statediff.agents.command import url_variable

    return {url_variable(source): url for source, url in sorted(trial.urls.items())}


def _wait(trial: Trial) -> None:
    """Says where the systems are, and returns when Enter was pressed."""
    import shlex

    from statediff.errors import UsageError

    for variable, url in _environment(trial).items():
        sys.stderr.write(f"export {variable}={shlex.quote(url)}\n")
    sys.stderr.write("do the task with these, in another window; then press Enter here\n")
    sys.stderr.flush()
    if not sys.stdin.readline():
        raise UsageError(
            "the input ended before anybody pressed Enter, so nobody said that the task is done; "
            "nothing was drafted"
        )


def _shell(trial: Trial) -> None:
    """Returns when the shell has ended, however it ended."""
    from statediff.errors import UsageError

    program = os.environ.get("SHELL", "/bin/sh")
    sys.stderr.write("do the task in this shell; `exit` ends it\n")
    sys.stderr.flush()
    try:
        subprocess.run(
            [program], cwd=trial.folder, env={**os.environ, **_environment(trial)}, check=False
        )
    except OSError as error:
        raise UsageError(f"the shell {program!r} cannot be started: {error.strerror}") from error
