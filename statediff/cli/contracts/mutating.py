"""`mutate`: what a contract would let through, measured by faults seeded into right runs."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from statediff.cli.output import JsonFlag
from statediff.workspace.references import live_references

if TYPE_CHECKING:
    from statediff.meta.mutate import Outcome, Report, Survivor
    from statediff.systems.base.embedded import EmbeddedSandbox

MUTATION = "statediff/mutation/1"


def mutate(
    contracts: Annotated[
        list[str],
        typer.Argument(metavar="CONTRACT...", help="Contract files, folders, or packs' names."),
    ],
    references: Annotated[
        list[str] | None,
        typer.Option(
            "--reference",
            metavar="AGENT",
            help="An agent of the contract's folder that does it right "
            "[default: those that its cases.yaml expects to MATCH].",
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Picks what is altered.")] = 0,
    write: Annotated[
        bool,
        typer.Option("--write", help="Propose the closing clauses in the file, as comments."),
    ] = False,
    as_json: JsonFlag = False,
) -> int:
    """Seed faults and harmless twins into right runs; 1 if one passes that should not.

    Each reference agent is run in the contract's sandbox; faults are then seeded into what was
    captured. A fault that still gets MATCH is a hole in the contract. Survivors that cases.yaml
    argues for (`survivors: [{survivor, because}]`) are reported and do not count against it.
    """
    from statediff.cli.output import emit, progress
    from statediff.evaluate import load_contract
    from statediff.meta.cases import read_cases
    from statediff.meta.mutate import mutate as measured
    from statediff.workspace.contracts import contract_paths

    reports: list[Report] = []
    paths = contract_paths(contracts)
    with ExitStack() as stack:
        running: dict[str, EmbeddedSandbox] = {}
        for number, path in enumerate(paths, start=1):
            file = load_contract(path)
            cases = read_cases(path.parent)
            if not as_json:
                progress().print(f"{number} of {len(paths)}: {file.content.contract}")
            agents = tuple(references or cases.references)
            trials = tuple(live_references(file, path, agents, running, stack))
            report = measured(trials, seed, cases.argued)
            reports.append(report)
            if as_json:
                emit(_document(report))
            else:
                _print(report)
            if write:
                _propose(path, report)
    good = all(not r.open_survivors and not r.diverged for r in reports)
    if as_json:
        emit({"summary": _summary(reports)})
    return 0 if good else 1


# ---------------------------------------------------------------- rendering


def _document(report: Report) -> dict[str, Any]:
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


def _twin(entry: Outcome) -> dict[str, Any]:
    return {
        "twin": entry.fault.id,
        "sentence": entry.fault.sentence,
        "reference": entry.reference,
        "verdict": entry.verdict.value if entry.verdict else None,
        "clause": entry.clause,
        "error": entry.error or None,
    }


def _by_operator(report: Report) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for outcome in report.outcomes:
        line = found.setdefault(outcome.fault.operator, {"seeded": 0, "as_it_should": 0})
        line["seeded"] += 1
        line["as_it_should"] += outcome.is_as_it_should
    return dict(sorted(found.items()))


def _summary(reports: Sequence[Report]) -> dict[str, Any]:
    return {
        "contracts": len(reports),
        "faults": sum(r.faults for r in reports),
        "caught": sum(r.caught for r in reports),
        "survivors": sum(len(r.survivors) for r in reports),
        "argued": sum(len(r.survivors) - len(r.open_survivors) for r in reports),
        "twins": sum(r.twins for r in reports),
        "twins_diverged": sum(len(r.diverged) for r in reports),
    }


def _print(report: Report) -> None:
    from rich.text import Text

    from statediff.cli.output import results
    from statediff.reports.record import said

    good = not report.open_survivors and not report.diverged
    line = Text("✔ " if good else "✘ ", style="green" if good else "bold red")
    line.append(
        f"{report.contract} {report.version}  {report.caught} of {report.faults} faults caught, "
        f"{report.twins - len(report.diverged)} of {report.twins} twins match", style="default",
    )  # fmt: skip
    results().print(line, soft_wrap=True)
    if not report.transient:
        results().print(Text("  transient writes not judged: no `during: run` clause", style="dim"))
    for entry in report.survivors:
        reason = f"argued: {entry.argued}" if entry.argued else "survives"
        results().print(
            Text(f"  {said(entry.id, 200)}  {said(entry.sentence, 300)}; {said(reason, 500)}"),
            soft_wrap=True,
        )
        if entry.closing and not entry.argued:
            for written in entry.closing.splitlines():
                results().print(Text(f"      {said(written, 300)}"), soft_wrap=True)
    for twin in report.diverged:
        verdict = twin.verdict.value if twin.verdict else said(twin.error, 300)
        results().print(
            Text(
                f"  twin {said(twin.fault.id, 200)}  {said(twin.fault.sentence, 300)}; "
                f"{verdict} at {said(twin.clause, 100)}"
            ), soft_wrap=True,
        )  # fmt: skip


def _propose(path: Path, report: Report) -> None:
    """The closing clauses stand at the end of the contract, as comments for its owner to place."""
    from statediff.atomic import write_atomically
    from statediff.errors import StorageError

    found = [entry for entry in report.open_survivors if entry.closing]
    if not found:
        return
    lines = ["", "# Proposed by `statediff mutate`: each closes a hole; place it or argue for it."]
    for entry in found:
        lines.append(f"# {entry.id}: {_one_line(entry.sentence)}")
        lines += [f"#   {_one_line(line)}" for line in entry.closing.splitlines()]
    try:
        text = path.read_text(encoding="utf-8").rstrip("\n")
        content = "\n".join((text, *lines, "")).encode()
        write_atomically(path.resolve(), content, mode=stat.S_IMODE(path.stat().st_mode))
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}") from error


def _one_line(text: str) -> str:
    """Values come from a state: no line break of theirs may end the comment."""
    from statediff.reports.record import said

    indent = len(text) - len(text.lstrip(" "))
    return " " * indent + said(" ".join(text.split()), 400)
