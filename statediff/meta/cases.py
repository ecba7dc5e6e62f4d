"""The files beside a contract: its agents' expected verdicts, and the survivors it argues for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from statediff.errors import UsageError
from statediff.meta.mutate import Argued
from statediff.model.trace import ActionClass
from statediff.model.values import printable
from statediff.model.verdict import Verdict
from statediff.packs import packs_folder

MAX_BYTES: Final = 256 * 1024
CASES: Final = "cases.yaml"
_ARGUED: Final = "`- {survivor: unsaid order, because: the system stamps it, fields: [at]}`"


class Drift(StrEnum):
    """The fault that a right answer hides: two of [SSD §V], and the four classes of [STA]."""

    STALE_READ = "stale-read"
    UNAUTHORISED = "unauthorised-irreversible-change"
    NARRATIVE = "wrong-but-consistent-narrative"
    AMNESIA = "mid-context-amnesia"
    ASSUMPTION = "stale-assumption"
    CORRUPTION = "state-corruption"


@dataclass(frozen=True)
class WrongAgent:
    """A faulty agent, and what its trial must get; the verdict is DIVERGE."""

    agent: str
    stage: str
    clause: str
    code: str
    why: str


@dataclass(frozen=True)
class Cases:
    """`cases.yaml` of a contract's folder: agents that must match, and argued survivors."""

    references: tuple[str, ...] = ()
    wrong: int = 0
    """How many agents must not match."""
    classes: tuple[str, ...] = ()
    """Classes of action that the task calls for, or tempts to [SSD §V]."""
    argued: Mapping[str, Argued] = field(default_factory=dict)
    """Survivor's id → why it is right to pass."""
    drift: Mapping[str, Drift] = field(default_factory=dict)
    """Agent → the drift it shows: it answers as a reference does, and must not match."""
    agents: tuple[str, ...] = ()
    """Every agent that a case runs with all sources at hand."""
    faulty: tuple[WrongAgent, ...] = ()
    """Those of `agents` that must get DIVERGE."""


@dataclass(frozen=True)
class ListedCase:
    """One case as it is listed: an agent of the folder, and the verdict that it must get."""

    agent: str
    verdict: str
    unplug: str = ""
    """The source that is stopped before the capture after; empty where none is."""


def list_cases(folder: Path) -> tuple[ListedCase, ...]:
    """Every case in a contract's folder, in order; none where it has no such file."""
    path = folder / CASES
    if not path.is_file():
        return ()
    verdicts = [verdict.value for verdict in Verdict]
    found = []
    for entry in _entries(path, document_of(path)):
        case = ListedCase(*(str(entry.get(key, "")) for key in ("agent", "verdict", "unplug")))
        if not case.agent or case.verdict not in verdicts:
            raise UsageError(
                f"{path}: a case says `agent` and `verdict`, one of {', '.join(verdicts)}; "
                f"found {entry!r}"
            )
        found.append(case)
    return tuple(found)


def _entries(path: Path, document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    cases = document.get("cases", [] if "survivors" in document else None)
    if not isinstance(cases, list) or not all(isinstance(case, Mapping) for case in cases):
        raise UsageError(f"{path}: expected a list of cases under `cases`")
    return cases


def read_cases(folder: Path) -> Cases:
    """The cases in a contract's folder; none where it has no such file. `UsageError` if broken."""
    path = folder / CASES
    if not path.is_file():
        return Cases()
    return cases_in(path, document_of(path))


def cases_in(path: Path, document: Mapping[str, Any]) -> Cases:
    """The cases that a document tells; `UsageError`, which names its path, if it is broken."""
    cases = _entries(path, document)
    matching = [
        str(c["agent"])
        for c in cases
        if c.get("verdict") == "MATCH" and c.get("agent") and "unplug" not in c
    ]
    agents = [str(c["agent"]) for c in cases if c.get("agent") and "unplug" not in c]
    wrong = {str(c.get("agent")) for c in cases} - set(matching)
    return Cases(
        tuple(dict.fromkeys(matching)),
        len(wrong),
        _classes(path, document.get("classes", [])),
        _arguments(path, document.get("survivors", [])),
        _drift(path, cases),
        tuple(dict.fromkeys(agents)),
        tuple(_faulty(cases)),
    )


def _faulty(cases: list[Mapping[str, Any]]) -> Iterator[WrongAgent]:
    for case in cases:
        if case.get("verdict") == "DIVERGE" and case.get("agent") and "unplug" not in case:
            told = (str(case.get(key, "")) for key in ("agent", "stage", "clause", "code", "why"))
            yield WrongAgent(*told)


def _classes(path: Path, listed: Any) -> tuple[str, ...]:
    known = {entry.value for entry in ActionClass} - {ActionClass.UNKNOWN.value}
    if not isinstance(listed, list) or not set(listed) <= known:
        raise UsageError(f"{path}: `classes`: expected a list from {', '.join(sorted(known))}")
    return tuple(listed)


def _drift(path: Path, cases: list[Mapping[str, Any]]) -> Mapping[str, Drift]:
    shown = [case for case in cases if "drift" in case]
    for case in shown:
        if case["drift"] not in list(Drift) or case.get("verdict") != "DIVERGE":
            raise UsageError(
                f"{path}: `drift` of {case.get('agent')!r}: expected one of {', '.join(Drift)}, on "
                f"a case that must DIVERGE; found {case['drift']!r} on {case.get('verdict')!r}"
            )
    return {str(case["agent"]): Drift(case["drift"]) for case in shown}


def _arguments(path: Path, listed: Any) -> Mapping[str, Argued]:
    if not isinstance(listed, list):
        raise UsageError(f"{path}: expected a list under `survivors`, of the form {_ARGUED}")
    found: dict[str, Argued] = {}
    for entry in listed:
        known = entry if isinstance(entry, Mapping) else {}
        name, because, fields = (known.get(k) for k in ("survivor", "because", "fields"))
        is_list = fields is None or isinstance(fields, list)
        if not isinstance(name, str) or not isinstance(because, str) or not is_list:
            raise UsageError(
                f"{path}: an argued survivor says `survivor`, as `mutate` names it, `because`, in "
                f"words, and for `unsaid TYPE` its `fields`, as {_ARGUED}; found {entry!r}"
            )
        found[name] = Argued(because, tuple(str(f) for f in fields or ()))
    return found


def document_of(path: Path) -> Mapping[str, Any]:
    """The document of a file of cases; `UsageError` where it cannot be read, or is no mapping."""
    try:
        raw = path.read_bytes()
        if len(raw) > MAX_BYTES:
            raise UsageError(f"{path}: {len(raw)} bytes; at most {MAX_BYTES} are read")
        document = YAML(typ="safe", pure=True).load(raw.decode("utf-8"))
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        raise UsageError(f"{path}: cannot be read as cases: {error}") from error
    if not isinstance(document, Mapping):
        raise UsageError(f"{path}: expected keys and values at the top")
    return document


RECORDINGS: Final = "recorded.yaml"
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
        """The file with the answer of the run."""
        return self.before.parent / f"{run}.answer.json"

    def trace(self, run: str) -> Path:
        """Every call of the run."""
        return self.before.parent / f"{run}.trace.jsonl"


def recorded_contracts() -> tuple[Path, ...]:
    """The contracts with recorded runs that come with statediff, sorted."""
    path = packs_folder(EXAMPLES) / RECORDINGS
    return tuple(path.parent / name for name in sorted(_contracts(path, document_of(path))))


def recordings(contract: Path) -> Recordings | None:
    """The runs recorded for a contract file; None where none are. `UsageError` if broken."""
    path = contract.parent / RECORDINGS
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
    """The list under each contract's file, which is there."""
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
