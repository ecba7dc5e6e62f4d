"""The tasks that names, files and folders mean: a contract, or each of its cases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from statediff.evaluate import ContractFile, load_contract
from statediff.harness import Task
from statediff.workspace.cases import Chosen, cases_of, load_case
from statediff.workspace.contracts import contract_paths


@dataclass(frozen=True, kw_only=True)
class TaskOf:
    """A contract, or one of its cases, as a task."""

    file: ContractFile
    path: Path
    case: str | None

    @property
    def contract(self) -> str:
        """The absolute path of its file."""
        return str(self.path.absolute())

    @property
    def name(self) -> str:
        """`pack/task@version`, with the case's name before the version."""
        return f"{self.file.content.contract}@{self.file.content.version}"

    @property
    def prompt(self) -> str:
        """What an agent is given."""
        return Task.of(self.file.content).prompt


def tasks_of(contracts: str | Path | Sequence[str | Path]) -> Iterator[TaskOf]:
    """A task for each case of each contract that the names, files and folders mean."""
    named = [contracts] if isinstance(contracts, (str, Path)) else contracts
    for path in contract_paths([str(each) for each in named]):
        own = load_contract(path)
        cases = [each.name for each in cases_of(path, own, Chosen())]
        for case in cases:
            file = load_case(path, Chosen(names=(case,)))
            yield TaskOf(file=file, path=path, case=case)
        if not cases:
            yield TaskOf(file=own, path=path, case=None)
