"""`init` and `record`: a first contract, drafted from states, a sandbox, or a task done by hand."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from statediff.cli.options import JsonFlag
from statediff.cli.output import print_result, shown
from statediff.errors import UsageError

if TYPE_CHECKING:
    from statediff.agents.handover import Person
    from statediff.agents.trial import Trial
    from statediff.contract.authoring.drafting import Seen
    from statediff.model.readings import Capture

INIT: Final = "statediff/init/1"
RECORD: Final = "statediff/record/1"
SCHEMA_FILE, CONTRACT_FILE = "schema.yaml", "contract.yaml"


def init(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]STATE... | SANDBOX",
            help="Databases, JSON tables or repositories; or the name of a sandbox.",
        ),
    ],
    after: Annotated[
        list[str] | None,
        typer.Option(
            "--after",
            metavar="[NAME=]STATE",
            help="The same after a run that did it right: what changed is then required.",
        ),
    ] = None,
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="The contract's name.")
    ] = "drafts/first",
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where the two files are written.")
    ] = Path(),
    as_json: JsonFlag = False,
) -> int:
    """Draft a state schema and a contract, marked `reviewed: false`, for a person to finish.

    Nothing gates on the draft: `run` refuses it until somebody has removed that line.
    """
    from statediff.contract.authoring.drafting import draft_contract, draft_schema
    from statediff.packs import sandbox_names
    from statediff.workspace import folders

    folders.require_writable(out)
    sandbox = sources[0] if len(sources) == 1 and sources[0] in sandbox_names() else None
    files: dict[str, str] = {}
    if sandbox is not None:
        seen = _of_sandbox(sandbox, after)
    else:
        schema_text = draft_schema(name.rpartition("/")[2], _states(sources))
        files[SCHEMA_FILE] = schema_text
        seen = _of_states(sources, after, schema_text)
    files[CONTRACT_FILE] = draft_contract(name, seen)
    _require_free(out, files)
    out.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        folders.write_file(out / file, text.encode())
    target, written = shown(out / CONTRACT_FILE), [shown(out / file) for file in sorted(files)]
    document = {"schema": INIT, "contract": name, "files": written}
    counts = {"entity_types": len(seen.schema.types), "changes": len(seen.deltas)}
    lines = [f"wrote {file}" for file in written]
    lines.append(
        f"next: read {target}, say what must change, then "
        f"`statediff lint {target}`; remove `reviewed: false` when it is right"
    )
    print_result({**document, **counts}, "\n".join(lines), as_json=as_json)
    return 0


def _require_free(out: Path, files: dict[str, str]) -> None:
    """None of the files is there yet; `UsageError` names one that is."""
    from statediff.model.values import printable

    for file in sorted(files):
        if (out / file).exists():
            raise UsageError(
                f"{printable(str(out / file))}: exists already and nothing is overwritten; "
                "choose another folder with --out"
            )


def _states(sources: list[str]) -> list[tuple[str, Any]]:
    from statediff.workspace.inputs import one_capture

    capture = one_capture(sources, lambda _source: None)
    return [(part.reading.source, part.state) for part in capture.parts]


def _of_states(sources: list[str], after: list[str] | None, schema_text: str) -> Seen:
    """What the files hold, under the names that the drafted schema gives."""
    from statediff.contract.document.refinement import refine
    from statediff.contract.document.schemafile import parse_schema_file
    from statediff.workspace.inputs import capture_pair, one_capture

    file = None
    if not schema_text.rstrip().endswith("entities: {}"):
        file = parse_schema_file(schema_text.encode(), SCHEMA_FILE)

    def refine_source(source: str) -> Any:
        return None if file is None else refine(file, source)

    if after:
        return _observation(*capture_pair(sources, after, refine_source), None)
    return _observation(one_capture(sources, refine_source), None, None)


def _of_sandbox(sandbox: str, after: list[str] | None) -> Seen:
    from statediff.workspace.trials import base_state, open_sandbox

    if after:
        raise UsageError("--after goes with states; a sandbox is drafted from its base state")
    with open_sandbox(sandbox) as running:
        return _observation(base_state(running), None, sandbox)


def _observation(before: Capture, after: Capture | None, sandbox: str | None) -> Seen:
    """What a draft is made of: a state, or what changed between two."""
    from statediff.contract.authoring.drafting import Seen
    from statediff.evaluate import schema_of
    from statediff.evaluate.comparing import compare

    sources = tuple(part.reading.source for part in before.parts)
    schema = schema_of(before) if after is None else schema_of(before, after)
    return Seen(schema, sources, () if after is None else compare(before, after).deltas, sandbox)


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
    from statediff.contract.authoring.drafting import draft_contract
    from statediff.workspace import folders

    folders.require_writable(out)
    folders.require_writable(runs)
    _require_free(out, {CONTRACT_FILE: ""})
    found, folder = _observe(sandbox, variant, name, runs, Person(_shell if shell else _wait))
    out.mkdir(parents=True, exist_ok=True)
    folders.write_file(out / CONTRACT_FILE, draft_contract(name, found).encode())
    file, run, count = shown(out / CONTRACT_FILE), shown(folder), len(found.deltas)
    print_result(
        {"schema": RECORD, "contract": name, "file": file, "run": run, "changes": count},
        f"recorded {count} change{'s' * (count != 1)} in {run}; wrote {file}\n"
        f"next: read {file}, then `statediff lint {file}`; remove "
        "`reviewed: false` when it is right",
        as_json=as_json,
    )
    return 0


def _observe(
    sandbox: str, variant: str, name: str, runs: Path, person: Person
) -> tuple[Seen, Path]:
    """What the person changed in the sandbox, and the folder of the run that records it."""
    from statediff.capture.store import DiskChunks
    from statediff.harness import Task, TrialPlan, observe_trial, write_run
    from statediff.workspace import folders
    from statediff.workspace.trials import clock, open_sandbox

    with open_sandbox(sandbox, variant) as running:
        folder = folders.new_run(runs, "record")
        write_run(folder, folder.name, {}, {"recorded": sandbox, "sandbox": variant})
        observed = observe_trial(
            running,
            person,
            Task(f"record {name}", {}),
            TrialPlan("recorded", folder / "trials" / "recorded"),
            clock=clock,
            store=DiskChunks(folder / "chunks"),
        )
    return _observation(observed.before, observed.after, sandbox), folder


def _environment(trial: Trial) -> dict[str, str]:
    from statediff.agents.command import url_variable

    return {url_variable(source): url for source, url in sorted(trial.urls.items())}


def _wait(trial: Trial) -> None:
    """Says where the systems are, and returns when Enter was pressed."""
    import shlex

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
    program = os.environ.get("SHELL", "/bin/sh")
    sys.stderr.write("do the task in this shell; `exit` ends it\n")
    sys.stderr.flush()
    try:
        subprocess.run(
            [program], cwd=trial.folder, env={**os.environ, **_environment(trial)}, check=False
        )
    except OSError as error:
        raise UsageError(f"the shell {program!r} cannot be started: {error.strerror}") from error
