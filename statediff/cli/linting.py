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
) -> int:
    """Check contracts: shape, names, types, expressions, and the null run where a state is at hand.

    The state is --before, or else the base state of the contract's sandbox. With --schema alone,
    names and types are checked and the null run is not.
    """
    from statediff.cli.contracts import contract_paths
    from statediff.cli.faults import USAGE
    from statediff.cli.output import emit

    states = States(schema, before or [])
    checked = [_check(path, states) for path in contract_paths(contracts)]
    errors = sum(len(entry.problems) for entry in checked)
    if as_json:
        emit(_document(checked, errors))
    else:
        _print(checked, errors)
    return USAGE if errors else 0


def _check(path: Path, states: States) -> Checked:
    from statediff.cli.trials import require_sound
    from statediff.errors import ContractError
    from statediff.evaluate import compile_contract, load_contract

    name, against = "", "shape"
    try:
        file = load_contract(path)
        name = file.content.contract
        schema, base = states.of(file)
        if base is not None:
            against = "state"
            require_sound(file, base)
        elif schema is not None:
            against = "schema"
            compile_contract(file, schema)
    except ContractError as error:
        return Checked(path, name, against, error.problems)
    return Checked(path, name, against)


class States:
    """What contracts are checked against: each state read once, each sandbox started once."""

    def __init__(self, schema: Path | None, before: list[str]) -> None:
        self._schema = schema
        self._before = before
        self._known: dict[str | None, Capture] = {}

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
        return None, self._known[sandbox]


_FAR = {
    "shape": "shape only; give --before or --schema to check names and expressions",
    "schema": "names, types and expressions; give --before to judge the null run as well",
    "state": "names, types, expressions and the null run",
}


def _print(checked: list[Checked], errors: int) -> None:
    from rich.text import Text

    from statediff.cli.output import progress, results, shown
    from statediff.reports.record import said

    console = results()
    for entry in checked:
        for problem in entry.problems:
            console.print(Text(said(problem, 4000)), soft_wrap=True)
        if not entry.problems:
            line = Text("✔ ", style="green")
            line.append(f"{said(shown(entry.file))}  {_FAR[entry.against]}", style="default")
            console.print(line, soft_wrap=True)
    if errors:
        bad = sum(bool(entry.problems) for entry in checked)
        progress().print(
            f"{errors} problem{'s' if errors > 1 else ''} in {bad} of {len(checked)} contract"
            f"{'s' if len(checked) > 1 else ''}"
        )


def _document(checked: list[Checked], errors: int) -> dict[str, Any]:
    from statediff.cli.output import shown
    from statediff.reports.plain import plain_problem

    return {
        "schema": LINT,
        "contracts": [
            {
                "file": shown(entry.file),
                "contract": entry.contract or None,
                "checked": entry.against,
                "ok": not entry.problems,
                "problems": [plain_problem(problem) for problem in entry.problems],
            }
            for entry in checked
        ],
        "errors": errors,
    }
