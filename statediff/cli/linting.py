"""`lint`: everything that can be wrong with a contract before an agent is tried under it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from statediff.cli.judging import SchemaFileOption
from statediff.cli.output import JsonFlag

if TYPE_CHECKING:
    from statediff.errors import Problem
    from statediff.evaluate import ContractFile
    from statediff.model.readings import Capture

LINT = "statediff/lint/1"


@dataclass(frozen=True)
class Checked:
    """One contract: how far it could be checked, and every problem found."""

    file: Path
    contract: str
    against: str
    """`shape`: the document alone; `schema`: names and types; `state`: the null run as well."""
    problems: tuple[Problem, ...] = ()

    @property
    def is_ok(self) -> bool:
        """Whether it can be used: nothing graver than a warning."""
        return not any(problem.severity == "error" for problem in self.problems)


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
    from statediff.cli.contracts import contract_paths
    from statediff.cli.faults import USAGE
    from statediff.cli.output import emit
    from statediff.errors import UsageError
    from statediff.reports.sarif import sarif

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


def check(path: Path, states: States) -> Checked:
    """One contract checked as far as the states at hand allow."""
    from statediff.cli.releases import unchanged, unreviewed
    from statediff.contract.lint import ordered
    from statediff.errors import ContractError
    from statediff.evaluate import load_contract
    from statediff.evaluate.linting import lint as linted

    name, against = "", "shape"
    try:
        file = load_contract(path)
        name = file.content.contract
        unchanged(path, file)
        schema, base = states.of(file)
        against = "state" if base is not None else "schema" if schema is not None else "shape"
        told = states.histories(file)
        problems = ordered((*linted(file, schema, base, told), *unreviewed(path, file)))
    except ContractError as error:
        return Checked(path, name, against, error.problems)
    return Checked(path, name, against, problems)


class States:
    """What contracts are checked against: each state read once, each sandbox started once."""

    def __init__(self, schema: Path | None, before: list[str]) -> None:
        self._schema = schema
        self._before = before
        self._known: dict[str | None, Capture] = {}
        self._histories: dict[str, frozenset[str]] = {}

    def of(self, file: ContractFile) -> tuple[Any, Capture | None]:
        """A schema, or a base state, or neither; `ContractError` if the schema file is wrong."""
        from statediff.cli.inputs import one_capture, refinements
        from statediff.cli.schemaless import listed_schema
        from statediff.cli.trials import base_state, embedded
        from statediff.packs import sandbox_names

        sandbox = file.content.sandbox
        if self._before:
            key = None if self._schema else sandbox
            if key not in self._known:
                self._known[key] = one_capture(self._before, refinements(self._schema, sandbox))
            return None, self._known[key]
        if self._schema is not None:
            return listed_schema(self._schema), None
        if sandbox is None or sandbox not in sandbox_names():
            return None, None
        if sandbox not in self._known:
            with embedded(sandbox) as running:
                self._known[sandbox] = base_state(running)
                self._histories[sandbox] = frozenset(feed.source for feed in running.feeds())
        return None, self._known[sandbox]

    def histories(self, file: ContractFile) -> frozenset[str]:
        """The sources of the contract's sandbox, if that is what was looked at, with a feed."""
        return self._histories.get(file.content.sandbox or "", frozenset())


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
