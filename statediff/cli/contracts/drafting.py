"""`init` and `record`: a first contract, drafted from states, a sandbox, or a task done by hand."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from statediff.agents.handover import Person
from statediff.capture.source import clock
from statediff.capture.store import DiskChunks
from statediff.cli.options import JsonFlag, PageOptions, argument, flag, opt, option
from statediff.cli.output import at_work, note_doubtful, print_result
from statediff.errors import StorageError, UsageError
from statediff.harness import ObservedTrial, Task, TrialPlan, observe_trial
from statediff.packs import (
    CONTRACT_FILE,
    ONE_FILE,
    SANDBOX_FILE,
    find_sandbox,
    own_sandboxes,
    sandbox_names,
)
from statediff.reports.said import said
from statediff.systems.base.tool import url_variable
from statediff.trial_folder import write_run
from statediff.workspace import folders
from statediff.workspace.contracts import SCHEMA_FILE
from statediff.workspace.folders import shown
from statediff.workspace.inputs import one_capture, unrefined
from statediff.workspace.trials import base_state, open_sandbox

if TYPE_CHECKING:
    from collections.abc import Iterator

    from statediff.agents.trial import Trial
    from statediff.reports.interview import Question
    from statediff.workspace.drafts import Drafted
    from statediff.workspace.interview import Answers

INIT: Final = "statediff/init/1"
RECORD: Final = "statediff/record/1"
MAX_LINE: Final = 300
SHOWN: Final = 3


@dataclass(frozen=True, kw_only=True)
class RunStates:
    """The states after runs that are known to be right, wrong, or nobody's."""

    after: list[str] | None = opt(
        "[NAME=]STATE",
        "The same after a right run; repeatable: what is the same in all is required.",
    )
    wrong: list[str] | None = opt("[NAME=]STATE", "After a wrong run, which must not MATCH.")
    idle: list[str] | None = opt(
        "[NAME=]STATE", "After a run in which nobody did the task: what happens there is allowed."
    )


@dataclass(frozen=True, kw_only=True)
class Asking(PageOptions):
    """The ways to ask the owner."""

    in_terminal: bool = flag("Ask, at most six questions; the answers are kept beside it.", "--ask")
    on_page: bool = flag("Ask on a page in the browser instead.", "--page")


def init(
    sources: Annotated[
        list[str],
        argument(
            "[NAME=]STATE... | SANDBOX",
            "Databases, JSON tables or repositories; or the name of a sandbox.",
        ),
    ],
    runs: RunStates,
    asking: Asking,
    name: Annotated[str, option("NAME", "The contract's name.", "--name")] = "drafts/first",
    with_sandbox: Annotated[
        bool,
        option("", "Also write a sandbox that begins every trial with these states.", "--sandbox"),
    ] = False,
    out: Annotated[Path, option("DIR", "Where the two files are written.", "--out")] = Path(),
    as_json: JsonFlag = False,
) -> int:
    """Draft a state schema and a contract for a person to finish.

    The draft is judged by its own runs first. Nothing gates on it: `run` refuses it until somebody
    has removed `reviewed: false`.
    """
    from statediff.workspace import drafts
    from statediff.workspace.interview import FILE as ANSWERS
    from statediff.workspace.sandboxes import own_sources, write_sandbox

    folders.require_writable(out)
    sandbox = sources[0] if len(sources) == 1 and _is_sandbox(sources[0]) else None
    own = own_sources(sources) if with_sandbox and sandbox is None else ()
    if sandbox is not None:
        drafted = _of_sandbox(name, sandbox, runs, out)
    else:
        with at_work("reading and drafting"):
            drafted = _of_states(name, sources, runs, f"./{SANDBOX_FILE}" if own else None)
    drafted, answers = _answered(drafted, out, asking)
    files = drafted.files
    drafts.require_new(out, [*files, *([SANDBOX_FILE] if own else ())])
    written = write_sandbox(out, own, has_schema=SCHEMA_FILE in files) if own else []
    written = [*drafts.write_drafts(out, files), *written]
    if asking.in_terminal or asking.on_page:
        folders.write_file(out / ANSWERS, answers.text.encode())
    lines = [*(f"wrote {file}" for file in written), *_next(shown(out / CONTRACT_FILE), drafted)]
    print_result(_document(name, written, drafted), "\n".join(lines), as_json=as_json)
    return 0


def _answered(drafted: Drafted, out: Path, asking: Asking) -> tuple[Drafted, Answers]:
    """The draft as earlier answers have it, and new ones where they are asked for."""
    from statediff.workspace.interview import answered, answers_in, interview

    answers = answers_in(out)
    if asking.on_page:
        from statediff.cli.serving import ask_on_page

        with ask_on_page(asking, drafted.draft.name) as ask:
            return interview(drafted, answers, ask)
    if not asking.in_terminal:
        return answered(drafted, answers), answers
    return interview(drafted, answers, _ask)


def _ask(number: int, count: int, question: Question) -> bool:
    """True if a person says yes; no answer is a no."""
    sys.stderr.write(f"\n{number} of {count}  {said(question.asks, MAX_LINE)}\n")
    for run, value in enumerate(question.values, 1):
        sys.stderr.write(f"        run {run}: {said(value, MAX_LINE)}\n")
    sys.stderr.write(f"        drafted: {said(question.drafted, MAX_LINE)}\n")
    shown = [said(each, MAX_LINE) for each in question.passes[:SHOWN]]
    more = f" and {len(question.passes) - SHOWN} more" if len(question.passes) > SHOWN else ""
    sys.stderr.write(f"        yes lets pass: {'; '.join(shown)}{more}\n        [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _document(name: str, written: list[str], drafted: Drafted) -> dict[str, object]:
    seen = drafted.draft.seen
    return {
        "schema": INIT,
        "contract": name,
        "files": written,
        "entity_types": len(seen.schema.types),
        "changes": seen.changes,
    }


def _next(target: str, drafted: Drafted) -> Iterator[str]:
    from statediff.workspace.drafts import next_step

    if drafted.draft.seen.runs and not drafted.draft.seen.changes:
        yield "nothing differs between the two states: the draft requires nothing yet"
    yield from drafted.remarks
    yield next_step(target)


def _of_states(name: str, sources: list[str], runs: RunStates, sandbox: str | None) -> Drafted:
    """The draft of what runs did between the states."""
    from statediff.workspace import drafts

    after, wrong, idle = (each or [] for each in (runs.after, runs.wrong, runs.idle))
    if not after:
        if wrong or idle:
            raise UsageError("--wrong and --idle go with --after, the state after a right run")
        captured, drafted = drafts.draft_of_states(name, sources, sandbox)
        note_doubtful((sources, captured))
        return drafted
    read = drafts.runs_of_states(sources, after, wrong, idle)
    drafted = drafts.draft(name, read, lambda: one_capture(sources, unrefined), sandbox)
    note_doubtful(*drafted.doubtful(sources, after))
    return drafted


def _is_sandbox(named: str) -> bool:
    """True if it is the name of a sandbox, or the path of one's file; a state goes first."""
    if named.endswith((ONE_FILE, SANDBOX_FILE)):
        return True
    known = {*own_sandboxes(Path.cwd()), *sandbox_names()}
    return named in known and not Path(named).exists()


def _written(sandbox: str, out: Path) -> str:
    """How a contract in the folder names the sandbox."""
    if "/" not in sandbox and not sandbox.endswith(".yaml"):
        return sandbox
    found = os.path.relpath(Path(sandbox).absolute(), out.absolute())
    return found if found.startswith(".") else f"./{found}"


def _of_sandbox(name: str, sandbox: str, runs: RunStates, out: Path) -> Drafted:
    from statediff.workspace.drafts import Examples, draft_of

    if any(vars(runs).values()):
        raise UsageError("--after goes with states; a sandbox is drafted from its base state")
    with open_sandbox(find_sandbox(sandbox)) as running:
        return draft_of(name, Examples(), _written(sandbox, out), base_state(running))


def record(
    sandbox: Annotated[str, argument("SANDBOX", "In which the task is done, e.g. `shop`.")],
    name: Annotated[str, option("NAME", "The contract's name.", "--name")] = "drafts/recorded",
    variant: Annotated[
        str, option("VARIANT", "Of the sandbox, e.g. `postgres`.", "--sandbox")
    ] = "embedded",
    shell: Annotated[
        bool, option("", "In a shell of its own, which ends with `exit`.", "--shell")
    ] = False,
    out: Annotated[Path, option("DIR", "Where the contract is written.", "--out")] = Path(),
    runs: Annotated[Path, option("DIR", "The trial's folder is made in it.", "--runs")] = Path(
        "runs"
    ),
    as_json: JsonFlag = False,
) -> int:
    """Do a task by hand in a sandbox that was just reset; Enter ends it and drafts its contract.

    The contract requires what was changed, is marked `reviewed: false`, and gates nothing yet.
    """
    from statediff.workspace import drafts

    folders.require_writable(out)
    folders.require_writable(runs)
    drafts.require_new(out, [CONTRACT_FILE])
    person = Person(_shell if shell else _wait)
    observed, folder = _observe(sandbox, variant, name, runs, person)
    examples = drafts.Examples((drafts.SeenRun(observed.before, observed.after),))
    found = drafts.draft_of(name, examples, _written(sandbox, out))
    [file] = drafts.write_drafts(out, found.files)
    run, count = shown(folder), found.draft.seen.changes
    print_result(
        {"schema": RECORD, "contract": name, "file": file, "run": run, "changes": count},
        f"recorded {count} change{'s' * (count != 1)} in {run}; wrote {file}\n"
        f"next: read {file}, then `statediff check {file}`; remove "
        "`reviewed: false` when it is right",
        as_json=as_json,
    )
    return 0


def _observe(
    sandbox: str, variant: str, name: str, runs: Path, person: Person
) -> tuple[ObservedTrial, Path]:
    """The person's changes in the sandbox, and the folder of the run that records it."""
    with open_sandbox(find_sandbox(sandbox), variant) as running:
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
    if missing := observed.files.finish():
        raise StorageError("; ".join(missing))
    return observed, folder


def _environment(trial: Trial) -> dict[str, str]:
    return {url_variable(source): url for source, url in sorted(trial.urls.items())}


def _wait(trial: Trial) -> None:
    """Says where the systems are, and returns when Enter was pressed."""
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
