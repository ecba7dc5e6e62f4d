"""`lint`: everything that can be wrong with a contract before an agent is tried under it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from statediff.cli.judging import SchemaFileOption
from statediff.cli.output import JsonFlag

if TYPE_CHECKING:
    from statediff.errors import Problem
    from statediff.workspace.linting import Checked

LINT = "statediff/lint/1"


def lint(
    contracts: Annotated[
        list[str],
        typer.Argument(metavar="CONTRACT...", help="Contract files, folders, or packs' names."),
    ],
    schema: SchemaFileOption = None,
    before: Annotated[
        list[str] | None,
        typer.Option(
            "--before", metavar="[NAME=]STATE", help="A state to check against; once a source."
        ),
    ] = None,
    as_json: JsonFlag = False,
    as_sarif: Annotated[
        bool, typer.Option("--sarif", help="Print SARIF 2.1.0, for code review tools.")
    ] = False,
) -> int:
    """Check contracts: what makes them invalid, what lets through too much, what to write instead.

    Names and types are checked over a state: --before, or else the base state of the contract's
    sandbox. With --schema alone, nothing is looked up in a state. Ends with 2 if anything is an
    error; docs/lint.md explains every code.
    """
    from statediff.cli.faults import USAGE
    from statediff.cli.output import emit
    from statediff.errors import UsageError
    from statediff.reports.formats.sarif import sarif
    from statediff.workspace.contracts import contract_paths
    from statediff.workspace.linting import States, check

    if as_json and as_sarif:
        raise UsageError("give either --json or --sarif: standard output holds one document")
    states = States(schema, before or [])
    checked = [check(path, states) for path in contract_paths(contracts)]
    if as_sarif:
        emit(sarif([_relative(p) for entry in checked for p in entry.problems]))
    elif as_json:
        emit(_document(checked))
    else:
        _print(checked)
    return 0 if all(entry.is_ok for entry in checked) else USAGE


def _relative(problem: Problem) -> Problem:
    from dataclasses import replace

    from statediff.cli.output import shown

    return replace(problem, file=shown(Path(problem.file)))


_FAR = {
    "shape": "shape only; give --before or --schema to check names and expressions",
    "schema": "names, types and expressions; give --before to judge the null run as well",
    "state": "names, types, expressions and the null run",
}
_STYLES = {"error": "red", "warning": "yellow", "advice": "cyan"}


def _print(checked: list[Checked]) -> None:
    from rich.text import Text

    from statediff.cli.output import progress, results, shown
    from statediff.reports.record import said

    console = results()
    for entry in checked:
        for problem in entry.problems:
            place = f"{shown(Path(problem.file))}:{problem.line}:{problem.column}"
            line = Text(f"{said(place)}: ")
            line.append(problem.severity, style=_STYLES[problem.severity])
            line.append(f" {problem.code}: {said(problem.message, 4000)}")
            console.print(line, soft_wrap=True)
            if problem.hint:
                console.print(Text(f"    instead: {said(problem.hint, 4000)}"), soft_wrap=True)
        if entry.is_ok:
            line = Text("✔ ", style="green")
            line.append(f"{said(shown(entry.file))}  {_FAR[entry.against]}", style="default")
            console.print(line, soft_wrap=True)
    counts = _counts(checked)
    if any(counts.values()):
        bad = sum(bool(entry.problems) for entry in checked)
        parts = [_number(n, name) for name, n in counts.items() if n]
        progress().print(f"{', '.join(parts)} in {bad} of {_number(len(checked), 'contract')}")


def _number(count: int, noun: str) -> str:
    plural = count != 1 and noun != "advice"
    return f"{count} {noun}{'s' if plural else ''}"


def _counts(checked: list[Checked]) -> dict[str, int]:
    found = [problem.severity for entry in checked for problem in entry.problems]
    return {severity: found.count(severity) for severity in _STYLES}


def _document(checked: list[Checked]) -> dict[str, Any]:
    from statediff.cli.output import shown
    from statediff.reports.plain import plain_problem

    counts = _counts(checked)
    return {
        "schema": LINT,
        "contracts": [
            {
                "file": shown(entry.file),
                "contract": entry.contract or None,
                "checked": entry.against,
                "ok": entry.is_ok,
                "problems": [{**plain_problem(p), "severity": p.severity} for p in entry.problems],
            }
            for entry in checked
        ],
        "errors": counts["error"],
        "warnings": counts["warning"],
        "advice": counts["advice"],
    }
