"""Contracts as a command line names them, their released versions, and their check.

A contract is a file, a folder, or the name of a pack's task; a pack's name means all of its tasks.
A task is a contract without cases, or one of its cases. `released.yaml` beside a contract says
which versions never change. It is checked before an agent is tried under it, against a schema or a
state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from statediff.contract.authoring.versions import FILE, Release, Releases, identifier, read_releases
from statediff.contract.document.load import read_bytes
from statediff.contract.file import ContractFile, load_contract
from statediff.errors import ContractError, InputError, Problem, UsageError
from statediff.evidence.disclosure.settings import FILE as DISCLOSURE
from statediff.evidence.disclosure.settings import opened_to, settings_beside
from statediff.evidence.documents import schema_from
from statediff.extras import brought
from statediff.kernel import schema_of
from statediff.model.trace import NO_TRACE, Trace
from statediff.model.values import printable
from statediff.model.verdict import Truth
from statediff.packs import (
    CONTRACT_FILE,
    agents_in,
    contract_folders,
    is_path,
    known_sandbox,
    sandbox_of,
    sandbox_pack,
)
from statediff.systems.base.registry import missing_extra, tools_of
from statediff.systems.declared import declared_tools
from statediff.workspace.cases import Chosen, cases_of, load_case, texts_of
from statediff.workspace.folders import shown
from statediff.workspace.inputs import one_capture, refinements, schema_of_file

if TYPE_CHECKING:
    from statediff.model.readings import Capture
    from statediff.model.schema import Schema


def contract_path(named: str) -> Path:
    """The file of the one contract that `named` means; `UsageError` for none or several."""
    paths = contract_paths([named])
    if len(paths) > 1:
        listed = ", ".join(str(path) for path in paths[:5])
        raise UsageError(f"{printable(named)}: holds {len(paths)} contracts; name one: {listed}")
    return paths[0]


def contract_paths(named: Sequence[str]) -> tuple[Path, ...]:
    """The files of every contract named, each once; folders are searched, and packs have many.

    Contracts in a folder are called `contract.yaml` or `NAME.contract.yaml`.
    """
    return tuple(dict.fromkeys(path for name in named for path in _paths(name)))


def _paths(named: str) -> Iterator[Path]:
    path = Path(named)
    try:
        is_folder, exists = path.is_dir(), path.exists()
    except (OSError, ValueError):  # a name too long, or with a NUL in it
        is_folder = exists = False
    if not is_folder:
        # A file that does not exist is reported when it is opened, unless a pack has the name.
        known = {entry.name: entry.contract for entry in contract_folders()}
        of_pack = [file for name, file in known.items() if name.startswith(f"{named}/")]
        hint = "" if exists or of_pack or named in known else brought(named.partition("/")[0])
        if hint:
            raise UsageError(f"{printable(named)}: no such contract is installed{hint}")
        yield from [path] if exists else of_pack or [known.get(named, path)]
        return
    found = sorted({*path.rglob(CONTRACT_FILE), *path.rglob(f"*.{CONTRACT_FILE}")})
    if not found:
        raise UsageError(f"{printable(named)}: expected a {CONTRACT_FILE} in it, found none")
    yield from found


def _recorded_schema(contract: Path) -> Any:
    """The schema by which the contract of a bundle was judged; None where it is of no bundle."""
    folder = contract.parent
    if contract.name != CONTRACT_FILE or not (folder / "manifest.json").is_file():
        return None
    from statediff.workspace.bundles import load_bundle

    bundle, _ = load_bundle(folder)
    return schema_from(bundle.document("schema.json"))


@dataclass(frozen=True)
class Task:
    """A contract as a list of tasks names it."""

    name: str
    """The argument of `run`: a task's name, or the path of its contract."""
    version: str
    sandbox: str | None
    intent: str
    agents: tuple[str, ...]
    """The agents beside it, in `agents.py`."""

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "agents": list(self.agents)}


def listed_tasks(folders: Sequence[str]) -> list[Task]:
    """Every contract in the folders, or every one that is shipped where none is named."""
    if folders:
        places = [(shown(path), path) for path in contract_paths(folders)]
    else:
        places = [(entry.name, entry.contract) for entry in contract_folders()]
    return [_task(name, path) for name, path in places]


def _task(name: str, path: Path) -> Task:
    content = load_contract(path).content
    agents = tuple(sorted(agents_in(path.parent)))
    intent = " ".join(content.intent.split())
    return Task(name, content.version, content.sandbox, intent, agents)


SCHEMA_FILE: Final = "schema.yaml"


def schema_of_contract(path: Path, file: ContractFile, given: str | Path | None) -> Path | None:
    """The state schema file of the contract in `path`: the one given, else the one beside it.

    A contract with a sandbox has the schemas of the sandbox's pack.
    """
    if given is not None or file.content.sandbox is not None:
        return None if given is None else Path(given)
    beside = path.parent / SCHEMA_FILE
    return beside if beside.is_file() else None


# ---------------------------------------------------------------- released versions


def releases_beside(path: Path) -> Releases:
    """The releases of the contracts in the folder of `path`; none where there is no file.

    `ContractError` or `UsageError` where there is one that cannot be read.
    """
    beside = path.parent / FILE
    if not beside.exists():
        return {}
    return read_releases(read_bytes(beside), str(beside))


def review_remarks(path: Path, file: ContractFile) -> tuple[Problem, ...]:
    """The remark that the version is released and nobody signed it off; nothing otherwise."""
    name, known = _release(path, file)
    if known is None or known.reviewed is not None:
        return ()
    message = f"{name} was released by {known.released_by} on {known.on}, and nobody reviewed it"
    from statediff.contract.lint.subject import remark

    return (remark(file.source, "unreviewed", ("version",), message),)


def require_unchanged(path: Path, file: ContractFile) -> None:
    """The contract is no released version, or has its very bytes; `ContractError` otherwise."""
    name, known = _release(path, file)
    if known is not None and known.digest != file.digest:
        problem = file.source.problem(
            ("version",),
            f"{name} was released with digest {known.digest[:12]}, this file has "
            f"{file.digest[:12]}",
            code="released-changed",
            hint="a released version never changes: raise `version`, or restore the file",
        )
        raise ContractError((problem,))


def is_released(path: Path, file: ContractFile) -> bool:
    """True if these bytes are a released version, which never changes."""
    _, known = _release(path, file)
    return known is not None and known.digest == file.digest


def _release(path: Path, file: ContractFile) -> tuple[str, Release | None]:
    """The name of the contract's version, and the release of that name."""
    name = identifier(file.content.contract, file.content.version)
    return name, releases_beside(path).get(name)


# ---------------------------------------------------------------- checks


@dataclass(frozen=True)
class Checked:
    """One contract: how far it could be checked, and every problem found."""

    file: Path
    contract: str
    against: str
    """`shape`: the document alone; `schema`: names and types; `state`: the null run as well."""
    problems: tuple[Problem, ...] = ()
    of_calls: tuple[str, ...] = ()
    """The clauses that are never decided where nobody recorded the agent's calls."""

    @property
    def is_ok(self) -> bool:
        """True if it can be used: nothing graver than a warning."""
        return not any(problem.severity == "error" for problem in self.problems)


def check(path: Path, states: States) -> Checked:
    """One contract checked as far as the states at hand allow."""
    from statediff.contract.lint import in_order
    from statediff.contract.lint.subject import remark
    from statediff.kernel import lint as linted

    name, against = "", "shape"
    try:
        file = load_contract(path)
        name = file.content.contract
        require_unchanged(path, file)
        schema, base = states.of(file, path)
        against = "state" if base is not None else "schema" if schema is not None else "shape"
        started = states.started(file)
        followed, tools = (started.followed, started.tools) if started else (frozenset(), None)
        found = linted(file, schema, base, followed, tools)
        cases = _wrong_cases(path, file)
        later = (
            remark(file.source, "later-work", ("sandbox",), f"in {source}, {text}")
            for source, text in (started.remarks if started else ())
        )
        told = _wrong_disclosure(path, file, schema if base is None else schema_of(base))
        problems = in_order((*found, *cases, *later, *review_remarks(path, file), *told))
    except ContractError as error:
        return Checked(path, name, against, error.problems)
    return Checked(path, name, against, problems, () if base is None else _of_calls(file, base))


def _of_calls(file: ContractFile, base: Capture) -> tuple[str, ...]:
    """The clauses that are open only because nobody recorded the calls of a run that made none."""
    from statediff.kernel import judgement_of

    whole = Trace((), is_complete=True, cause="", turns=())
    try:
        known, blind = (judgement_of(file, base, base, trace=t) for t in (whole, NO_TRACE))
    except ContractError:
        return ()
    pairs = zip(known.clauses, blind.clauses, strict=True)
    return tuple(two.clause for one, two in pairs if two.truth is Truth.UNKNOWN is not one.truth)


def _wrong_disclosure(path: Path, file: ContractFile, schema: Schema | None) -> Iterator[Problem]:
    """Problems that `sign` would find in the disclosure file beside the contract."""
    from statediff.contract.lint.catalogue import CATALOGUE

    settings = settings_beside(path)
    if schema is None:
        return
    fields = {f"{each.name}.{field.name}" for each in schema.types for field in each.fields}
    fields |= {field.name for each in schema.types for field in each.fields}
    for place in sorted((settings.shown | settings.personal | settings.secret) - fields):
        entry = CATALOGUE["unknown-name"]
        yield Problem(DISCLOSURE, 1, 1, f"`{place}` is no field", "unknown-name", entry.instead)
    closed = [name for name, _ in schema.sources if opened_to(file, schema, name) == "auditor"]
    for verdict, tier in settings.replayable.items():
        if tier == "reviewer" and closed:
            entry = CATALOGUE["not-replayable"]
            said = f"a reviewer's copy must suffice for {verdict}; {', '.join(closed)} is closed"
            yield Problem(DISCLOSURE, 1, 1, said, "not-replayable", entry.instead)


def _wrong_cases(path: Path, file: ContractFile) -> Iterator[Problem]:
    """The problem with the rows of the contract's cases, if there is one."""
    try:
        for _ in texts_of(file, cases_of(path, file, Chosen())):
            pass
    except (InputError, UsageError) as error:
        yield file.source.problem(("cases",), str(error))


class States:
    """The states for checking contracts: each state read once, each sandbox started once."""

    def __init__(self, schema: Path | None, before: list[str]) -> None:
        self._schema = schema
        self._before = before
        self._known: dict[Path | str | None, Capture] = {}
        self._started: dict[str, _Started] = {}
        self.missing: dict[str, str] = {}
        """Sandbox → what `pip install` gets its servers with, of those that were not started."""

    def of(self, file: ContractFile, path: Path) -> tuple[Any, Capture | None]:
        """A schema, or a base state, or neither; `ContractError` if the schema file is wrong."""
        if not self._before and self._schema is None and (known := _recorded_schema(path)):
            return known, None
        written = file.content.sandbox or ""
        sandbox = sandbox_of(file) if is_path(written) else known_sandbox(file)
        schema = schema_of_contract(path, file, self._schema)
        if self._before:
            key = sandbox if schema is None else schema
            if key not in self._known:
                self._known[key] = one_capture(self._before, refinements(schema, sandbox))
            return None, self._known[key]
        pack = None if sandbox is None else sandbox_pack(sandbox)
        if schema is None and pack is not None and pack.is_outside:
            # A server is not asked: of its one source, the schema file says what there is.
            described = [each.schema for each in pack.sources]
            schema = described[0] if len(described) == 1 else None
        if schema is not None:
            return schema_of_file(schema), None
        if sandbox is None or pack is None or pack.is_outside:
            return None, None
        extra = missing_extra(pack)
        if extra is not None:
            self.missing[pack.name] = extra
            return None, None
        if sandbox not in self._started:
            self._started[sandbox] = _start(sandbox)
        return None, self._started[sandbox].base

    def started(self, file: ContractFile) -> _Started | None:
        """The contract's sandbox; None if it was not started."""
        return self._started.get(known_sandbox(file) or "")


class _Started(NamedTuple):
    """The part of a sandbox that a contract can be checked against."""

    base: Capture
    remarks: tuple[tuple[str, str], ...]
    """(source, later work that an agent can read there)."""
    followed: frozenset[str]
    """The sources with a feed."""
    tools: Mapping[str, Mapping[str, Any]]
    """By name, with their arguments."""


def _start(sandbox: str) -> _Started:
    from statediff.workspace.trials import base_state, open_sandbox

    with open_sandbox(sandbox) as running:
        access = running.access()
        own = declared_tools(access.tools, access.urls)
        every = chain(own, *(tools_of(source, url) for source, url in access.urls.items()))
        return _Started(
            base_state(running),
            running.remarks,
            frozenset(feed.source for feed in running.feeds()),
            {tool.name: tool.schema() for tool in every},
        )


# ---------------------------------------------------------------- tasks


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
        """The prompt of an agent."""
        from statediff.harness import Task

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
