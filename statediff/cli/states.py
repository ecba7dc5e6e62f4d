"""`capture`, `diff`, `judge` and `watch`: states at hand, read, compared and judged."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from shlex import split
from typing import TYPE_CHECKING, Annotated, Any, Final

from statediff.agents.commandline import program_name
from statediff.cli.judging import keep_and_show
from statediff.cli.options import (
    BundleOutOption,
    CaseChoice,
    JsonFlag,
    Loudness,
    NetworkOption,
    ObserverOption,
    SchemaFileOption,
    argument,
    flag,
    opt,
    option,
)
from statediff.cli.output import (
    at_work,
    emit,
    note,
    note_done_before,
    note_doubtful,
    note_unread,
    results,
)
from statediff.errors import UsageError
from statediff.evidence.verify import OBSERVATION
from statediff.kernel import comparison, state_of
from statediff.model.graph import Graph, graph_bytes, require_suffix
from statediff.model.schema import SCHEMA_OBJECT_PREFIXES
from statediff.model.values import ABSENT
from statediff.packs import CONTRACT_FILE, known_sandbox
from statediff.reports.plain import dumps, plain, plain_diff
from statediff.reports.tables import capture_report, diff_report
from statediff.systems.captured.statefile import SUFFIX, write_state
from statediff.workspace import folders
from statediff.workspace.cases import load_case
from statediff.workspace.contracts import SCHEMA_FILE, contract_path, schema_of_contract
from statediff.workspace.folders import write_file
from statediff.workspace.inputs import (
    Refinements,
    answer_from,
    capture_pair,
    one_capture,
    refinements,
    temporary_chunks,
    unrefined,
)
from statediff.workspace.observers import observer_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from statediff.agents.trial import AgentRun
    from statediff.model.readings import Capture
    from statediff.workspace.drafts import Examples
    from statediff.workspace.watching import Watch, Watched

SHOWN_SESSIONS = 5
LAST_CHARACTERS = 2000
CAPTURE = "statediff/capture/1"
GraphOption = Annotated[
    Path | None,
    option("FILE", "Write the graph: GraphML (.graphml) or node-link JSON (.json).", "--graph"),
]

FunctionOption = Annotated[
    list[str] | None,
    option(
        "NAME=MODULE:FUNCTION",
        "A state that a function of yours returns: {type: [record, ...]}; repeatable.",
        "--source",
    ),
]


def _named_states(
    states: Sequence[str] | None,
    functions: Sequence[str] | None,
    missing: str = "name a path, a URL",
) -> list[str]:
    """All states as `[NAME=]STATE`; `UsageError` where a function has no name, or none is given."""
    named = [*(states or ())]
    for text in functions or ():
        name, equals, function = text.partition("=")
        if not (name and equals and function):
            raise UsageError(f"--source {text}: expected NAME=MODULE:FUNCTION")
        named.append(f"{name}=python://{function}")
    if not named:
        raise UsageError(f"no state is given; {missing}, or --source NAME=MODULE:FUNCTION")
    return named


def capture(
    sources: Annotated[
        list[str] | None,
        argument("[NAME=]STATE...", "A path or URL of a state; `-` is JSON tables on stdin."),
    ] = None,
    functions: FunctionOption = None,
    schema: SchemaFileOption = None,
    out: Annotated[
        Path | None,
        option(
            "FILE",
            "Write the state: whole and without loss (.state), else as plain JSON tables.",
            "--out",
        ),
    ] = None,
    graph: GraphOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Read states: print them, or write them to a file or as a graph."""
    _require_graph_file(graph)
    named = _named_states(sources, functions)
    with at_work("reading"):
        captured = one_capture(named, refinements(schema))
    note_doubtful((named, captured))
    summary = _summary(captured)
    if out is not None and out.suffix == SUFFIX:
        write_state(captured, out, is_refined=schema is not None)
    elif out is not None:
        _write_tables(captured, out)
    if graph is not None:
        _write_graph(state_of(captured).graph(), graph)
    if as_json:
        emit({**summary, "out": None if out is None else str(out)})
        return 0
    results().print(capture_report(summary))
    if out is not None:
        note(f"written: {out}")
    return 0


def _summary(captured: Capture) -> dict[str, Any]:
    return {
        "schema": CAPTURE,
        "sources": [
            {
                "source": part.reading.source,
                "digest": part.reading.digest,
                "is_complete": part.reading.is_complete,
                "cause": part.reading.cause,
                "entities": part.state.entity_count,
                "types": [
                    {
                        "type": name,
                        "key": list(table.type.key),
                        "entities": table.row_count,
                        "coverage": table.enumeration.coverage.value,
                        "cause": table.enumeration.cause or None,
                    }
                    for name, table in sorted(part.state.tables.items())
                ],
            }
            for part in captured.parts
        ],
    }


def _write_tables(captured: Capture, out: Path) -> None:
    """`{type: [record, …]}` in `out`, whole or not at all; schema objects are left out.

    Absent fields are left out. `UsageError` where a type was not read completely, for the file
    would say that nothing else is there, or where two sources deliver one type.
    """
    tables: dict[str, list[Any]] = {}
    for part in captured.parts:
        for name, table in part.state.tables.items():
            if name.startswith(SCHEMA_OBJECT_PREFIXES):
                continue
            if not table.enumeration.is_complete:
                raise UsageError(
                    f"{name} was not read completely ({table.enumeration.cause}); "
                    "JSON tables cannot say so, so nothing was written"
                )
            if name in tables:
                raise UsageError(
                    f"two sources deliver {name}; write each source to a file of its own"
                )
            tables[name] = [
                {field: plain(value) for field, value in row.items() if value is not ABSENT}
                for _, row in table.rows()
            ]
    lines = [
        f'"{name}": [\n' + ",\n".join(dumps(row) for row in rows) + "\n]"
        for name, rows in sorted(tables.items())
    ]
    write_file(out, ("{" + ",\n".join(lines) + "}\n").encode())


@dataclass(frozen=True, kw_only=True)
class ComparedStates:
    """Two states, as arguments or, for several sources, as options."""

    states: Annotated[
        list[str] | None, argument("BEFORE AFTER", "The two states: paths or URLs of one source.")
    ] = None
    before: list[str] | None = opt("[NAME=]STATE", "State before; once a source if of several.")
    after: list[str] | None = opt("[NAME=]STATE", "State after, for the same sources.")

    @property
    def sides(self) -> tuple[Sequence[str], Sequence[str]]:
        """The states before, and those after; `UsageError` where not both are given, and once."""
        options, given = (self.before or (), self.after or ()), self.states or ()
        if not given and all(options):
            return options
        if any(options) or len(given) != len(options):
            raise UsageError(
                "expected two states: `statediff diff BEFORE AFTER`; of several sources "
                "`--before NAME=STATE --after NAME=STATE`, once a source"
            )
        return given[:1], given[1:]


def diff(
    compared: ComparedStates,
    schema: SchemaFileOption = None,
    graph: GraphOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Show what changed between two states; no contract is needed.

    The exit code is 0, whatever changed.
    """
    _require_graph_file(graph)
    before, after = compared.sides
    with at_work("reading and comparing"):
        pair = capture_pair(before, after, refinements(schema), alike=True)
        whole = comparison(*pair)
        found = whole.diff
    note_doubtful((before, pair[0]), (after, pair[1]))
    if graph is not None:
        _write_graph(whole.graph(), graph)
    if as_json:
        emit(plain_diff(found))
    else:
        results().print(diff_report(found))
    return 0


def _require_graph_file(path: Path | None) -> None:
    """Refuse a name that says nothing of the form, before anything is read."""
    if path is not None:
        require_suffix(path.suffix)


def _write_graph(graph: Graph, path: Path) -> None:
    write_file(path, graph_bytes(graph, path.suffix))
    counted = f"{graph.number_of_nodes():,} entities, {graph.number_of_edges():,} references"
    note(f"written: {path}, {counted}")


@dataclass(frozen=True, kw_only=True)
class ProgramOptions:
    """How the watched program runs, and what it leaves."""

    answer: Path | None = opt("FILE", "The answer, JSON, read after the run.")
    settle: float = opt("SECONDS", "Wait before reading again.", default=0.5, min=0)
    timeout: float | None = opt("SECONDS", "End the program after so long.")
    isolate: bool = flag(
        "Let the program write the watched files, its own temporary folder, nothing else.",
        "--isolate",
    )
    network: NetworkOption = None


@dataclass(frozen=True, kw_only=True)
class FurtherRuns:
    """The runs that a draft takes beside the first."""

    repeats: int = opt("N", "Of --draft: run the program so often.", "-k", default=1, min=1)
    reset: str | None = opt("COMMAND", "Puts the systems back between runs.")
    right: list[str] | None = opt("COMMAND", "Does the same another way; repeatable.")
    wrong: list[str] | None = opt("COMMAND", "Does it wrong; the draft must see it.")
    idle: list[str] | None = opt("COMMAND", "Does not do the task, e.g. logs in.")

    def programs(self, command: Sequence[str]) -> list[tuple[str, Sequence[str]]]:
        """The kind and the program of each run."""
        ways = [command, *map(split, self.right or ())]
        found = [("right", way) for way in ways for _ in range(self.repeats)]
        found += [("wrong", split(each)) for each in self.wrong or ()]
        found += [("idle", split(each)) for each in self.idle or ()]
        if len(found) > 1 and self.reset is None:
            raise UsageError("several runs take --reset COMMAND, which puts the systems back")
        return found

    def require_none(self) -> None:
        """`UsageError` where there is any."""
        if self.repeats > 1 or any((self.reset, self.right, self.wrong, self.idle)):
            raise UsageError("-k, --reset, --right, --wrong and --idle go with --draft")


@dataclass(frozen=True, kw_only=True)
class WatchFiles(FurtherRuns):
    """The files that a watched run writes."""

    draft: Path | None = opt("DIR", "Write a schema and a contract that ask for this run.")
    out: BundleOutOption = None
    observer: ObserverOption = None


@dataclass(frozen=True, kw_only=True)
class WatchedStates:
    """The states that are watched."""

    states: list[str] | None = opt(
        "[NAME=]STATE", "What is watched: a path or a URL; repeatable.", "--state"
    )
    functions: FunctionOption = None


_NO_STATE: Final = "add --state [NAME=]STATE, a path or a URL, e.g. --state db=app.sqlite"


def watch(
    command: Annotated[
        list[str], argument("-- PROGRAM...", "What acts: a program and its arguments.")
    ],
    places: WatchedStates,
    contract: Annotated[
        str | None, option("CONTRACT", "Judge the run under this contract.", "--contract")
    ] = None,
    schema: SchemaFileOption = None,
    *,
    cases: CaseChoice,
    program: ProgramOptions,
    written: WatchFiles,
    how: Loudness,
) -> int:
    """Run a program on your own systems; show or judge what it changed.

    Nothing is reset, and nothing isolated without --isolate. The program gets your environment;
    what it prints goes to standard error. Its own exit code is shown and never passed on.
    """
    from statediff.workspace.watching import Watch

    path = None if contract is None else contract_path(contract)
    file = None if path is None else load_case(path, cases.chosen)
    states = _named_states(places.states, places.functions, _NO_STATE)
    if file is None and (written.out, program.answer, written.observer) != (None, None, None):
        raise UsageError("--out, --answer and --observer go with --contract, by which is judged")
    if written.draft is not None:
        return _watch_and_draft(command, states, program, written, as_json=how.as_json)
    written.require_none()
    folders.require_writable(written.out or folders.BUNDLES)
    schema = schema if file is None or path is None else schema_of_contract(path, file, schema)
    refined = refinements(schema, None if file is None else known_sandbox(file))
    observer = observer_of(written.observer)
    watch = Watch(states, refined, file)
    note_doubtful((states, watch.before))
    if file is not None:
        note_unread(file, watch.before)
    secrets = observer.files if observer else ()
    run, watched = _watch(command, watch, program, secrets, as_json=how.as_json)
    if file is None:
        _show_changes(watched, run, as_json=how.as_json)
        return 0
    form, agent = file.content.answer.form, program_name(command)
    said = run.answer if program.answer is None else answer_from(program.answer, form)
    evaluated = watched.judge(
        file, agent=agent, answer=said, trace=run.trace, ending=run.ending, observer=observer
    )
    more = _program(run, watched.others)
    if observer is not None and OBSERVATION not in evaluated.bundle.files:
        more["not_kept"] = ["what the observer signed is not in the bundle"]
    code = keep_and_show(evaluated, written.out, more, how)
    note_done_before(file, watched.before, evaluated.judgement)
    return code


def _watch(
    command: Sequence[str],
    watch: Watch,
    program: ProgramOptions,
    secrets: tuple[Path, ...] = (),
    *,
    as_json: bool,
) -> tuple[AgentRun, Watched]:
    """The program is run to its end, and how it ended is shown."""
    from statediff.workspace.watching import run_program

    if program.network and not program.isolate:
        raise UsageError("--network goes with --isolate")
    kind = watch.isolation(isolate=program.isolate)
    limit = program.timeout or float("inf")
    network = tuple(program.network or ())
    try:
        run = run_program(command, watch.contract, watch.urls, limit, kind, network, secrets)
    except KeyboardInterrupt:
        note("the program was ended; what it changed stays, and nothing was judged")
        raise
    watched = watch.finish(program.settle)
    if not as_json:
        _show_program(run, watched.others)
    return run, watched


def _watch_and_draft(
    command: Sequence[str],
    states: list[str],
    program: ProgramOptions,
    written: WatchFiles,
    *,
    as_json: bool,
) -> int:
    """The runs are shown, and what they share is what the drafted contract asks for."""
    from statediff.workspace import drafts, folders
    from statediff.workspace.watching import Watch

    out = written.draft or Path()
    folders.require_writable(out)
    drafts.require_new(out, (SCHEMA_FILE, CONTRACT_FILE))
    seen: list[tuple[str, Watch, Watched, AgentRun]] = []
    chunks = temporary_chunks()  # most rows are the same in all runs
    for kind, each in written.programs(command):
        if seen:
            _put_back(str(written.reset))
        watch = Watch(states, unrefined, chunks=chunks)
        note_doubtful((states, watch.before))
        run, watched = _watch(each, watch, program, as_json=as_json)
        if run.error is not None:
            raise UsageError(f"{run.error}, so nothing was drafted; what it changed stays")
        seen.append((kind, watch, watched, run))
    name = f"drafts/{out.absolute().name}"
    found = drafts.draft(name, partial(_reread, seen), lambda: seen[0][1].before)
    files = drafts.write_drafts(out, found.files)
    last = found.examples.right[0]
    shown = replace(seen[0][2], before=last.before, after=last.after)
    _show_changes(shown, seen[0][3], as_json=as_json, more={"files": files})
    if not as_json:
        next_step = drafts.next_step(folders.shown(out / CONTRACT_FILE))
        for line in (*(f"written: {file}" for file in files), *found.remarks, next_step):
            note(line)
    return 0


def _reread(seen: Sequence[tuple[str, Watch, Watched, AgentRun]], refined: Refinements) -> Examples:
    """The watched runs as the schema shows them."""
    from statediff.workspace.drafts import Examples, SeenRun

    runs: dict[str, list[SeenRun]] = {"right": [], "wrong": [], "idle": []}
    for kind, watch, last, _ in seen:
        read = last if refined is unrefined else watch.reread(last, refined)
        runs[kind].append(SeenRun(read.before, read.after, read.timeline))
    return Examples(*map(tuple, runs.values()))


def _put_back(reset: str) -> None:
    """Runs the caller's command, after which the systems are as they were before the first run."""
    done = subprocess.run(reset, shell=True, check=False)  # noqa: S602 - the caller's own command
    if done.returncode:
        raise UsageError(f"--reset ended with exit code {done.returncode}; nothing was drafted")


def _program(run: AgentRun, others: Sequence[str]) -> dict[str, Any]:
    return {
        "program": {
            "command": list(run.command),
            "exit_code": run.exit_code,
            "error": run.error,
            "stderr": run.stderr.text[-LAST_CHARACTERS:],
            "refused": list(run.refused),
        },
        "other_sessions": list(others),
    }


def _show_program(run: AgentRun, others: Sequence[str]) -> None:
    ended = run.error or "the agent ended with exit code 0"
    note(ended.replace("the agent", "the program"))
    if run.refused:
        note(f"the program asked for {', '.join(run.refused)}, which --network does not name")
    for each in others[:SHOWN_SESSIONS]:
        note(f"another session was there: {each}; what changed may be its work")
    if len(others) > SHOWN_SESSIONS:
        note(f"and {len(others) - SHOWN_SESSIONS} more sessions")


def _show_changes(
    watched: Watched, run: AgentRun, *, as_json: bool, more: Mapping[str, Any] | None = None
) -> None:
    found = watched.diff()
    if as_json:
        emit({**plain_diff(found), **_program(run, watched.others), **(more or {})})
    else:
        results().print(diff_report(found))
