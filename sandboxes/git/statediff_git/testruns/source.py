"""Tests as evidence: tests run on a copy of what an agent wrote, their results as entities.

1. Each branch of the plan is read from the repository's objects, never from a work tree.
2. `testruns: inside`: the repository's own tests run, as they were at the base commit, so that
   editing, adding or deleting a test changes no result; that it was edited is seen in the files.
   `testruns: outside`: only tests that the plan brings run, and the code is in another process.
3. The code runs in processes that are shut off as far as the machine allows (`process`).
4. Each test becomes a `test_case`, each branch a `test_run` that says how it was run.

Inside, code and tests share a process, and the agent's code can make a test pass by attacking it
instead of doing what it tests. So a result of the agent's code that is no failure is unobserved
(`forgeable`): such a run may convict and never clears. Code that fails a test does fail it.
Outside, the assertions judge values that the code returned, in a process that it does not reach,
and a pass is a pass. Whatever the mode, a run that hangs or whose lines are not complete and in
order leaves the results unobserved, never passed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field as Described

from statediff.capture.source import Clock, SourceUnavailable, scanned
from statediff.contract.document.load import read_bytes
from statediff.contract.parts import Part
from statediff.contract.yaml.reader import read_document
from statediff.contract.yaml.shape import as_model
from statediff.errors import UsageError
from statediff.model.batches import Row
from statediff.model.readings import SourceCapture
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.state import COMPLETE, ChunkStore, Coverage, Enumeration, State, build_table
from statediff.model.values import Unobserved
from statediff.systems.base.rows import source_schema
from statediff.systems.files.tree import NotRead
from statediff_git.testruns.process import (
    DEFAULT_LIMITS,
    BranchFiles,
    Case,
    HeldFile,
    Limits,
    NotRun,
    Results,
    read_branch,
    run_tests,
)

_CASE: Final = EntityType(
    "test_case",
    ("branch", "name"),
    (
        Field("branch", Kind.TEXT, is_nullable=False),
        Field("name", Kind.TEXT, is_nullable=False),
        Field("outcome", Kind.TEXT, is_nullable=False),
        Field("detail", Kind.TEXT),
    ),
    made_by="system",
)
_RUN: Final = EntityType(
    "test_run",
    ("branch",),
    (
        Field("branch", Kind.TEXT, is_nullable=False),
        Field("ran_as", Kind.TEXT, is_nullable=False),
        Field("network", Kind.TEXT, is_nullable=False),
        Field("influence", Kind.TEXT, is_nullable=False),
    ),
    made_by="system",
)
_CONVICTS: Final = frozenset({"failed", "error", "timeout"})
"""What code cannot forge: code that makes a test fail, fails it."""
_FORGEABLE: Final = (
    "forgeable: the agent's code ran in the process of this test and could have made it pass; "
    "`testruns: outside` in the test plan keeps the assertions out of its reach"
)
_base_results: Final[dict[str, Results]] = {}
"""Results by digest, of base branches only: what no agent has touched is run once a process."""


class TestPlanDocument(Part):
    """A plan as its file states it."""

    __test__ = False  # not a test of ours, whatever pytest thinks of the name

    branches: Annotated[tuple[str, ...], Described(min_length=1, description="a list of branches")]
    testruns: Annotated[
        Literal["inside", "outside"],
        Described(
            description="`inside`: the repository's own tests, in one process with the code; "
            "a pass of the agent's code is then unobserved. `outside`: the assertions of "
            "`held_out`, in a process that the code does not reach"
        ),
    ] = "inside"
    tests: Annotated[
        str | None,
        Described(min_length=1, description="the folder of the repository's own test modules"),
    ] = None
    import_from: Annotated[
        tuple[str, ...], Described(min_length=1, description="folders put on the import path")
    ]
    held_out: Annotated[
        str | tuple[str, ...],
        Described(description="folders beside the plan: test modules that no agent sees"),
    ] = ()


@dataclass(frozen=True)
class TestPlan:
    """Which tests of which branches are run, and where the tested code is imported from.

    `held_out` are test modules that are in no repository: code that does only what a visible test
    looks at fails them. They run as the packages of their folders' names.
    """

    __test__ = False

    branches: tuple[str, ...]
    tests: str | None
    import_from: tuple[str, ...]
    held_out: BranchFiles
    is_outside: bool = False

    def is_test(self, path: str) -> bool:
        """True if the file belongs to the tests of the base, or would stand in their place."""
        hidden = {name.partition("/")[0] for name in self.held_out}
        is_own = self.tests is not None and f"{path}/".startswith(f"{self.tests}/")
        return is_own or path.partition("/")[0] in hidden


def read_test_plan(path: Path) -> TestPlan:
    """The plan in a file; `ContractError` or `UsageError` says what is wrong with it and where."""
    plan = as_model(read_document(read_bytes(path), str(path)), TestPlanDocument)
    is_outside = plan.testruns == "outside"
    folders = (plan.held_out,) if isinstance(plan.held_out, str) else plan.held_out
    if is_outside and plan.tests is not None:
        raise UsageError(
            f"{path}: `testruns: outside` runs no tests of the repository; remove `tests` and list "
            "folders of test modules in `held_out`"
        )
    if is_outside and not folders:
        raise UsageError(f"{path}: `testruns: outside` needs `held_out`, folders of test modules")
    if not is_outside and plan.tests is None:
        raise UsageError(f"{path}: `testruns: inside` needs `tests`, a folder of the repository")
    for folder in (plan.tests or ".", *plan.import_from, *folders):
        if folder.startswith("/") or ".." in PurePosixPath(folder).parts:
            raise UsageError(f"{path}: expected a folder below, found {folder!r}")
    held_out: dict[str, HeldFile] = {}
    for folder in folders:
        package = PurePosixPath(folder).name
        if any(name.startswith(f"{package}/") for name in held_out):
            raise UsageError(f"{path}: two folders of `held_out` are called {package!r}")
        found = sorted((path.parent / folder).glob("*.py"))
        if not found:
            raise UsageError(f"{path}: expected test modules in {folder}/, found none")
        held_out |= {f"{package}/{each.name}": HeldFile(read_bytes(each)) for each in found}
    return TestPlan(plan.branches, plan.tests, plan.import_from, held_out, is_outside)


@dataclass(frozen=True)
class TestRunSource:
    """A `Source` of `test_case` (key: branch and name) and `test_run` (key: branch).

    `outcome` is passed, failed, error, skipped or timeout (its CPU time was used up); `detail` the
    first line of what went wrong. `base` holds the files of each branch as they were at the base.
    """

    __test__ = False

    not_observed: ClassVar[tuple[str, ...]] = (
        "what the tests do not test",
        "how long a test took, what it printed, and what it left in the copy in which it ran",
    )

    name: str
    repository: Path
    plan: TestPlan
    base: Mapping[str, BranchFiles]
    limits: Limits = DEFAULT_LIMITS

    def schema(self) -> Schema:
        return source_schema(self.name, [_CASE, _RUN])

    def read(self, store: ChunkStore, clock: Clock, like: State | None) -> SourceCapture:
        as_of = clock()
        cases: list[Row] = []
        runs: list[Row] = []
        causes: list[str] = []
        for branch in self.plan.branches:
            try:
                files = read_branch(self.repository, branch)
                if files is None:
                    continue  # no branch, no tests
                results, is_forgeable = self._results(branch, files)
            except NotRead as error:
                raise SourceUnavailable(f"branch {branch}: {error}") from error
            except NotRun as error:
                causes.append(f"branch {branch}: {error}")
                continue
            cases += [_case_row(branch, case, is_forgeable) for case in results.cases]
            runs.append(
                {
                    "branch": branch,
                    "ran_as": results.ran_as,
                    "network": results.network,
                    "influence": "agent" if results.is_forgeable else "none",
                }
            )
        cause = "; ".join(causes) or None
        enumeration = COMPLETE if cause is None else Enumeration(Coverage.UNOBSERVED, cause)
        earlier = {} if like is None else like.tables
        tables = {
            of.name: build_table(
                of,
                rows if cause is None else (),
                store,
                like=earlier.get(of.name),
                enumeration=enumeration,
            )
            for of, rows in ((_CASE, cases), (_RUN, runs))
        }
        state = State(self.schema(), tables)
        return scanned(self.name, as_of, state, gaps=causes)

    def _results(self, branch: str, files: BranchFiles) -> tuple[Results, bool]:
        """The results, and whether code of the agent's could have forged them."""
        base = self.base.get(branch)
        if base is None:
            raise NotRun("the base has no such branch, so there are no test files to run")
        known = self._base_results(base)
        if files == base:
            return known, False
        found = self._run(files, base, known.cases)
        return found, found.is_forgeable

    def _base_results(self, base: BranchFiles) -> Results:
        key = _digest(base, self.plan, self.limits)
        if key not in _base_results:
            _base_results[key] = self._run(base, base, ())
        return _base_results[key]

    def _run(self, files: BranchFiles, base: BranchFiles, known: tuple[Case, ...]) -> Results:
        """The results of the tests on the other files."""
        plan = self.plan
        tests = dict(plan.held_out)
        if not plan.is_outside:
            tests = {path: held for path, held in base.items() if plan.is_test(path)} | tests
        # A folder without it would be searched for along the whole import path.
        packages = {f"{PurePosixPath(path).parent}/__init__.py" for path in tests}
        tests = {path: HeldFile(b"") for path in packages} | tests
        modules = sorted(
            ".".join(PurePosixPath(path).with_suffix("").parts)
            for path in tests
            if PurePosixPath(path).match("test*.py")
        )
        names = [case.name for case in known]
        if plan.is_outside:
            return run_tests(files, modules, plan.import_from, names, self.limits, tests)
        run = {path: held for path, held in files.items() if not plan.is_test(path)} | tests
        # The tests' own packages come first, so that the code under test cannot stand in for them.
        return run_tests(run, modules, (".", *plan.import_from), names, self.limits)


def _case_row(branch: str, case: Case, is_forgeable: bool) -> Row:
    unknown = None if case.unknown is None else Unobserved(case.unknown)
    if is_forgeable and case.outcome not in _CONVICTS:
        unknown = unknown or Unobserved(_FORGEABLE)
    return {
        "branch": branch,
        "name": case.name,
        "outcome": unknown or case.outcome,
        "detail": unknown or case.detail,
    }


def _digest(files: BranchFiles, plan: TestPlan, limits: Limits) -> str:
    hasher = hashlib.sha256(repr((plan, limits)).encode())
    for path, held in sorted(files.items()):
        hasher.update(repr((path, held)).encode())
    return hasher.hexdigest()
