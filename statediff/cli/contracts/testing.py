"""`mutate` and `agree`: contracts tried on right runs, and on faults seeded into them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from rich.text import Text

from statediff.agents.command import CommandAgent
from statediff.agents.commandline import named_apart
from statediff.cli.faults import Failed, left_out
from statediff.cli.options import (
    CaseChoice,
    ContractArgument,
    ContractArguments,
    InstalledOnly,
    JsonFlag,
    RebaseOption,
    RecordedRun,
    SchemaFileOption,
    argument,
    opt,
    option,
)
from statediff.cli.output import at_work, emit, mark, note, print_result, say
from statediff.contract.file import ContractFile, load_contract
from statediff.errors import StatediffError, UsageError
from statediff.packs import EMBEDDED
from statediff.reports.said import said
from statediff.suite.campaign import SandboxPool
from statediff.workspace.campaigns import Entry, forget_bases
from statediff.workspace.cases import load_cases
from statediff.workspace.contracts import contract_path, contract_paths, schema_of_contract
from statediff.workspace.folders import shown
from statediff.workspace.installed import installed
from statediff.workspace.references import (
    REFERENCE_SECONDS,
    Run,
    live_references,
    recorded_run,
    recorded_runs,
)
from statediff.workspace.undoing import Undone, undone_runs

if TYPE_CHECKING:
    from statediff.meta.agree import ContractAgreement, ContractOpinion
    from statediff.meta.mutate import FaultOutcome, MutationReport, Survivor
    from statediff.meta.reference import Reference

MUTATION: Final = "statediff/mutation/1"
AGREE: Final = "statediff/agree/1"
UNDOING: Final = "statediff/undoing/1"
NO_CLAUSE: Final = "no clause was found that closes it and keeps the right run"
MAX_LINE: Final = 20_000
"""Characters of a line of a proposal, which has to stay the YAML that was proven."""
References: TypeAlias = Annotated[
    list[str] | None,
    option(
        "AGENT",
        "An agent of the contract's folder that does it right "
        "[default: those that its cases.yaml expects to MATCH].",
        "--reference",
    ),
]


@dataclass(frozen=True, kw_only=True)
class RightRuns:
    """The agents that do it right, or the right runs, that faults are seeded into."""

    recorded: RecordedRun
    references: References = None
    captures: Path | None = opt("FOLDER", "Instead: the trials of a run that MATCH.")
    schema: SchemaFileOption = None
    commands: list[str] | None = opt("CMD", "A program that does it right.", "--agent-cmd")
    rebase: RebaseOption = False


def mutate(
    contracts: ContractArguments,
    right: RightRuns,
    cases: CaseChoice,
    seed: Annotated[int, option("N", "Picks what is altered.", "--seed")] = 0,
    installed_only: InstalledOnly = False,
    as_json: JsonFlag = False,
) -> int:
    """Seed faults into right runs, and list what the contract misses.

    It ends with 1 if a fault passes, or a harmless twin does not; with 4 where a contract could
    not be tried, or is not installed, after the others. Each reference agent is run
    in the contract's sandbox, or a recorded run is given; faults are then seeded into what was
    captured. A fault that still gets MATCH is a hole in the contract. A contract with cases is
    tried in each of them. Survivors that cases.yaml argues for (`survivors: [{survivor,
    because}]`) are reported and do not count against it.
    """
    from statediff.meta.cases import read_cases
    from statediff.meta.mutate import mutate as measure

    paths, is_left = _here(contracts, right, installed_only)
    tried = [(path, file) for path in paths for file in load_cases(path, cases.chosen)]
    run = _recorded(right, len(paths), len(tried))
    reports: list[MutationReport] = []
    failed, kept = list[Failed](), _kept_trials(tried, run)
    if run.folder is not None:
        tried = [(path, file) for path, file in tried if file.content.contract in kept]
    if right.rebase:
        forget_bases([Entry(path, file) for path, file in tried], EMBEDDED)
    with closing(SandboxPool()) as pool:
        for number, (path, file) in enumerate(tried, start=1):
            if not as_json:
                note(f"{number} of {len(tried)}: {file.content.contract}")
            try:
                with at_work("right runs") as count:
                    ours = kept.get(file.content.contract)
                    trials = ours or _right_trials(path, file, right, run, pool)
                    argued = read_cases(path.parent).argued
                    report = measure(trials, seed, argued, lambda: count("faults judged"))
            except StatediffError as error:
                if len(tried) == 1:
                    raise
                failed.append(Failed(file.content.contract, str(error)))
                continue
            reports.append(report)
            _show(report, path, as_json=as_json)
    if as_json:
        emit({"summary": {**_summary(reports), **Failed.documents(failed)}})
    return Failed.show(failed) or int(not all(map(_is_good, reports))) or is_left


def _here(
    contracts: Sequence[str], right: RightRuns, installed_only: bool
) -> tuple[tuple[Path, ...], int]:
    """The files of the contracts that can be tried here, and the exit code for the others."""
    paths = contract_paths(contracts)
    if right.captures is not None or right.recorded.before:
        return paths, 0  # nothing is started
    kept, absent = installed(paths)
    return kept, left_out(absent, forgiven=installed_only)


def _show(report: MutationReport, path: Path, *, as_json: bool) -> None:
    if as_json:
        emit(_document(report))
    else:
        _print(report, path)


def _recorded(right: RightRuns, paths: int, cases: int) -> Run:
    """The recorded run that is given; of nothing where none is."""
    run = Run(
        tuple(right.recorded.before or ()),
        tuple(right.recorded.after or ()),
        right.recorded.answer,
        right.captures,
    )
    is_one = paths == 1 and not right.references and (right.captures is not None or cases == 1)
    is_whole = right.recorded.is_whole and (right.captures is None or not run.before)
    if any(run) and not (is_one and is_whole):
        raise UsageError(
            "a recorded run is one CONTRACT (of several cases one, by --case) with --captures, or "
            "with --before and --after, maybe --answer and --schema; no --reference"
        )
    return run


def _kept_trials(
    tried: Sequence[tuple[Path, ContractFile]], run: Run
) -> dict[str, tuple[Reference, ...]]:
    """The trials that a run's folder keeps, by the case that they are of."""
    found: dict[str, tuple[Reference, ...]] = {}
    if run.folder is not None:
        for trial in recorded_runs([file for _, file in tried], run):
            name = trial.contract.content.contract
            found[name] = (*found.get(name, ()), trial)
    return found


def _right_trials(
    path: Path, file: ContractFile, right: RightRuns, run: Run, pool: SandboxPool
) -> tuple[Reference, ...]:
    """The trials into which faults are seeded: those recorded, or those of agents, run now."""
    from statediff.meta.cases import read_cases

    if any(run):
        given = run._replace(schema=schema_of_contract(path, file, right.schema))
        return recorded_runs([file], given)
    own = [
        CommandAgent(line.words, REFERENCE_SECONDS, name=line.name, hint=line.hint)
        for line in named_apart(right.commands or ())
    ]
    listed = () if own else read_cases(path.parent).references
    return tuple(live_references(file, path, (*(right.references or listed), *own), pool))


def undo(
    contract: ContractArgument,
    references: References = None,
    sandbox: Annotated[
        str, option("VARIANT", "Of its sandbox, e.g. `postgres`.", "--sandbox")
    ] = "embedded",
    as_json: JsonFlag = False,
) -> int:
    """Run right agents, then the contract's compensations; 1 if these leave anything.

    The calls use the tools of the sandbox, as an agent would.
    """
    from statediff.meta.cases import read_cases

    path = contract_path(contract)
    agents = references or read_cases(path.parent).references
    with closing(SandboxPool()) as pool:
        found = tuple(undone_runs(load_contract(path), path.parent, agents, sandbox, pool))
    runs = [_undone(agent, undone) for agent, undone in found]
    if as_json:
        emit({"schema": UNDOING, "contract": contract, "sandbox": sandbox, "runs": runs})
    for run in () if as_json else runs:
        calls, left = run["calls"], run["left"]
        made = "1 call" if len(calls) == 1 else f"{len(calls)} calls"
        text = f"{run['agent']}  {made}, {len(left) or 'nothing'} left"
        say(mark(text, is_good=run["is_undone"]))
        for call in calls:
            why = f"failed: {call['failed']}" if call["failed"] else call["tool"]
            say(f"  {said(call['effect'])}  {said(why)}")
        for change in left:
            say(f"  left  {said(change)}")
    return 0 if all(run["is_undone"] for run in runs) else 1


def _undone(agent: str, undone: Undone) -> dict[str, Any]:
    calls = [
        {"effect": call.effect, "clause": call.clause, "tool": call.tool, "failed": failed or None}
        for call, failed in undone.calls
    ]
    is_undone = not undone.left and not any(failed for _, failed in undone.calls)
    left = [f"{delta.id} {delta.op.value}" for delta in undone.left]
    return {"agent": agent, "is_undone": is_undone, "calls": calls, "left": left}


def _is_good(report: MutationReport) -> bool:
    return not report.open_survivors and not report.diverged


def _document(report: MutationReport) -> dict[str, Any]:
    from statediff.reports.untried import untried_document

    return {
        "schema": MUTATION,
        "contract": f"{report.contract}@{report.version}",
        "references": list(report.references),
        "seed": report.seed,
        "faults": report.faults,
        "caught": report.caught,
        "survivors": [_survivor(entry) for entry in report.survivors],
        "twins": report.twins,
        "twins_diverged": [_twin(entry) for entry in report.diverged],
        "left_out": report.left_out,
        **untried_document(report.untried),
        "transient": {
            "judged": list(report.transient),
            "not_judged": None if report.transient else "no `during: run` clause",
        },
        "by_operator": _by_operator(report),
    }


def _survivor(entry: Survivor) -> dict[str, Any]:
    return {
        "fault": entry.id,
        "fields": list(entry.fields),
        "sentence": entry.sentence,
        "reference": entry.reference,
        "closing": entry.closing or None,
        "argued": entry.argued or None,
    }


def _twin(entry: FaultOutcome) -> dict[str, Any]:
    return {
        "twin": entry.fault.id,
        "sentence": entry.fault.sentence,
        "reference": entry.reference,
        "verdict": entry.verdict.value if entry.verdict else None,
        "clause": entry.clause,
        "error": entry.error or None,
    }


def _by_operator(report: MutationReport) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for outcome in report.outcomes:
        line = found.setdefault(outcome.fault.operator, {"seeded": 0, "as_it_should": 0})
        line["seeded"] += 1
        line["as_it_should"] += outcome.is_as_it_should
    return dict(sorted(found.items()))


def _summary(reports: Sequence[MutationReport]) -> dict[str, Any]:
    return {
        "contracts": len(reports),
        "faults": sum(r.faults for r in reports),
        "caught": sum(r.caught for r in reports),
        "survivors": sum(len(r.survivors) for r in reports),
        "argued": sum(len(r.survivors) - len(r.open_survivors) for r in reports),
        "twins": sum(r.twins for r in reports),
        "twins_diverged": sum(len(r.diverged) for r in reports),
    }


def _print(report: MutationReport, path: Path) -> None:
    from statediff.reports.untried import untried_lines

    say(
        mark(
            f"{report.contract} {report.version}  {report.caught} of {report.faults} faults "
            f"caught, {report.twins - len(report.diverged)} of {report.twins} twins match",
            is_good=_is_good(report),
        )
    )
    if not report.transient:
        say(Text("  transient writes not judged: no `during: run` clause", style="dim"))
    lines = [f"  {line}" for line in untried_lines(report.untried)]
    for entry in report.survivors:
        reason = f"argued: {entry.argued}" if entry.argued else "survives"
        lines.append(f"  {said(entry.id, 200)}  {said(entry.sentence, 300)}; {said(reason, 500)}")
        if not entry.argued:
            closing = entry.closing.splitlines() or [NO_CLAUSE]
            lines += [f"      {said(line, MAX_LINE)}" for line in closing]
    lines += _argument(report, path)
    for twin in report.diverged:
        verdict = twin.verdict.value if twin.verdict else said(twin.error, 300)
        lines.append(
            f"  twin {said(twin.fault.id, 200)}  {said(twin.fault.sentence, 300)}; "
            f"{verdict} at {said(twin.clause, 100)}"
        )
    for line in lines:
        say(line)


def _argument(report: MutationReport, path: Path) -> Iterator[str]:
    """How to argue for the survivors that no clause closes, as the YAML that `cases.yaml` takes."""
    from statediff.meta.cases import CASES

    unclosed = [entry for entry in report.open_survivors if not entry.closing]
    if not unclosed:
        return
    place = path.parent / CASES
    at = "add to it" if place.exists() else "write"
    yield f"  if these may pass, {at} {said(shown(place), 300)}, with your reason:"
    yield "    survivors:"
    for entry in unclosed:
        yield f"    - survivor: {_scalar(entry.id)}"
        yield "      because: …"
        if entry.fields:
            yield f"      fields: [{', '.join(map(_scalar, entry.fields))}]"


def _scalar(text: str) -> str:
    """A text of the state as YAML, in one line."""
    is_plain = all(word.replace("_", "").isalnum() for word in text.split(" "))
    return said(text if is_plain else json.dumps(text), MAX_LINE)


# ---------------------------------------------------------------- two contracts for one task


def agree(
    a: Annotated[str, argument("A", "Contract file, its folder, or a pack's name.")],
    b: Annotated[str, argument("B", "Another contract for the same task.")],
    agents: Annotated[
        list[str] | None,
        option(
            "AGENT",
            "An agent of A's folder to run [default: every one in its cases.yaml].",
            "--agent",
        ),
    ] = None,
    *,
    recorded: RecordedRun,
    sample: Annotated[
        int, option("N", "Seeded faults of each run that gets MATCH.", "--sample", min=0)
    ] = 20,
    seed: Annotated[int, option("N", "Picks the faults.", "--seed")] = 0,
    as_json: JsonFlag = False,
) -> int:
    """Say on which runs two contracts for one task differ, and by which clauses; 1 if on any.

    Both judge the runs of the task's agents, right and wrong, or a recorded run, and seeded faults.
    """
    from statediff.meta.agree import compare_contracts, with_faults

    path = contract_path(a)
    one, two = load_contract(path), load_contract(contract_path(b))
    before, after = recorded.before, recorded.after
    if not recorded.is_whole or (before and agents):
        raise UsageError("a recorded run is --before and --after, maybe --answer, and no --agent")
    if before and after:
        runs = [recorded_run(one, before, after, recorded.answer)]
    else:
        runs = _live(one, path, agents)
    found = compare_contracts(one, two, with_faults(runs, seed, sample))
    print_result(_agreement_document(found), _agreement_text(found), as_json=as_json)
    return 1 if found.differing else 0


def _live(file: ContractFile, path: Path, agents: list[str] | None) -> list[Reference]:
    from statediff.meta.cases import read_cases

    names = tuple(agents or read_cases(path.parent).agents)
    with closing(SandboxPool()) as pool:
        return list(live_references(file, path, names, pool))


def _agreement_document(found: ContractAgreement) -> dict[str, Any]:
    return {
        "schema": AGREE,
        "a": found.a,
        "b": found.b,
        "cases": len(found.cases),
        "agree": len(found.cases) - len(found.differing),
        "differ": [
            {
                "case": case.case,
                "sentence": case.sentence,
                "a": _opinion(case.a),
                "b": _opinion(case.b),
            }
            for case in found.differing
        ],
        "clauses_of_a": dict(found.deciding(of_a=True)),
        "clauses_of_b": dict(found.deciding(of_a=False)),
    }


def _opinion(opinion: ContractOpinion) -> dict[str, Any]:
    return {
        "verdict": None if opinion.verdict is None else opinion.verdict.value,
        "clauses": list(opinion.clauses),
        "error": opinion.error or None,
    }


def _agreement_text(found: ContractAgreement) -> str:
    agreed = len(found.cases) - len(found.differing)
    mark = "✘" if found.differing else "✔"
    lines = [f"{mark} {found.a} and {found.b} agree on {agreed} of {len(found.cases)} runs"]
    lines += ["  they differ on these, the smallest first:"] if found.differing else []
    for case in found.differing:
        lines.append(f"  {said(case.case, 200)}: {said(case.sentence, 300)}")
        for name, opinion in (("A", case.a), ("B", case.b)):
            by = ", ".join(said(clause, 80) for clause in opinion.clauses)
            lines.append(f"    {name} {opinion.said}{f' by {by}' if by else ''}")
    for name, of_a in (("A", True), ("B", False)):
        deciding = ", ".join(f"{said(c, 80)} ({n})" for c, n in found.deciding(of_a))
        if deciding:
            lines.append(f"  clauses of {name} that decide: {deciding}")
    return "\n".join(lines)
