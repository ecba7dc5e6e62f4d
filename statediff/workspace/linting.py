"""Contracts checked before an agent is tried under them, against a schema or a state."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from statediff.errors import Problem
    from statediff.evaluate import ContractFile
    from statediff.model.readings import Capture


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


def check(path: Path, states: States) -> Checked:
    """One contract checked as far as the states at hand allow."""
    from statediff.contract.lint import ordered
    from statediff.errors import ContractError
    from statediff.evaluate import load_contract
    from statediff.evaluate.linting import lint as linted
    from statediff.workspace.releases import unchanged, unreviewed

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
        from statediff.packs import sandbox_names
        from statediff.workspace.inputs import one_capture, refinements
        from statediff.workspace.schemaless import listed_schema
        from statediff.workspace.trials import base_state, embedded

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
