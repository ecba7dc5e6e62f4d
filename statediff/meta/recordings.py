"""Recorded runs beside contracts that no sandbox serves: what was captured, and what each must get.

`recorded.yaml` names the captures, and for each contract file the runs, as `cases.yaml` names
agents. The run NAME is an answer in `NAME.answer.json` and a whole log in `NAME.trace.jsonl`. A run
that must MATCH is a reference of the meta-test, one that must DIVERGE a case of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from statediff.errors import UsageError
from statediff.meta.cases import Cases, cases_in, document_of
from statediff.model.values import printable
from statediff.packs import packs_folder

NAME: Final = "recorded.yaml"
EXAMPLES: Final = "docs/examples/reads"
"""The recorded runs that come with statediff."""
_CAPTURES: Final = ("before", "after", "schema")
_KEYS: Final = frozenset({*_CAPTURES, "contracts"})
_VERDICTS: Final = frozenset({"MATCH", "DIVERGE"})


@dataclass(frozen=True)
class Recordings:
    """The recorded runs of one contract; every file named is there."""

    before: Path
    after: Path
    schema: Path
    cases: Cases

    def answer(self, run: str) -> Path:
        """What the run answered."""
        return self.before.parent / f"{run}.answer.json"

    def trace(self, run: str) -> Path:
        """Every call of the run."""
        return self.before.parent / f"{run}.trace.jsonl"


def recorded_contracts() -> tuple[Path, ...]:
    """The contracts with recorded runs that come with statediff, sorted."""
    path = packs_folder(EXAMPLES) / NAME
    return tuple(path.parent / name for name in sorted(_contracts(path, document_of(path))))


def recordings(contract: Path) -> Recordings | None:
    """The runs recorded for a contract file; None where none are. `UsageError` if broken."""
    path = contract.parent / NAME
    if not path.is_file():
        return None
    document = document_of(path)
    listed = _contracts(path, document).get(contract.name)
    if listed is None:
        return None
    before, after, schema = (_beside(path, document.get(key), key) for key in _CAPTURES)
    cases = cases_in(path, {"cases": listed})
    for entry in listed:
        if entry.get("verdict") not in _VERDICTS or not isinstance(entry.get("agent"), str):
            raise UsageError(
                f"{path}: a recorded run of {contract.name} says `agent` and `verdict`, one of "
                f"{', '.join(sorted(_VERDICTS))}; found {printable(str(entry))[:200]}"
            )
        for ending in ("answer.json", "trace.jsonl"):
            _beside(path, f"{entry['agent']}.{ending}", f"a run of {contract.name}")
    return Recordings(before, after, schema, cases)


def _contracts(path: Path, document: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is listed under each contract's file, which is there."""
    contracts = document.get("contracts")
    if not document.keys() <= _KEYS or not isinstance(contracts, Mapping) or not contracts:
        raise UsageError(
            f"{path}: expected {', '.join(_CAPTURES)} and `contracts`, a list of runs under the "
            f"name of each contract's file; found {printable(', '.join(map(str, document)))[:200]}"
        )
    for name in contracts:
        _beside(path, name, "contracts")
    return contracts


def _beside(path: Path, name: object, what: str) -> Path:
    """The file of that name in the same folder."""
    if isinstance(name, str) and "\0" not in name and name == Path(name).name:
        file = path.parent / name
        if file.is_file():
            return file
    raise UsageError(f"{path}: {what}: expected a file beside it, found {printable(repr(name))}")
