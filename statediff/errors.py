"""The exception tree.

Errors are raised when the *inputs to judging* are broken; whatever is odd about the *run* is a
finding, never an exception.

* `StatediffError`
    * `UsageError`: the caller can fix it (exit code 2)
        * `ContractError`: a contract or state schema file that cannot be used, with its problems
        * `InputError`: a state, trace or answer file that cannot be read as what it claims to be
    * `HarnessError`: the machinery failed, nobody's contract or agent is to blame (exit code 4)
        * `SandboxError`: a sandbox could not be started, reset or proven
            * `EnvironmentFailure`: a system ended under an agent, which is not to blame for it
        * `AdapterError`: a source or agent adapter broke its protocol
        * `StorageError`: a run folder or chunk store could not be written or is damaged
    * `BundleError`: a bundle is damaged or inconsistent (exit code 4)
        * `NotReplayable`: the bundle is sound but this kernel or this tier cannot replay it
"""

from __future__ import annotations

from dataclasses import dataclass


class StatediffError(Exception):
    """Something statediff can name: the object, what was expected, what was found, what to do."""

    component: str = ""
    """The stage of the evaluator that it is about; empty where it is about none, or several."""


class UsageError(StatediffError):
    """The request cannot be carried out as given; the person asking can fix it."""


class InputError(UsageError):
    """A file from outside is not what it claims to be."""


@dataclass(frozen=True, order=True)
class Problem:
    """One thing wrong with a document: where (1-based line and column), what, and the next step."""

    file: str
    line: int
    column: int
    message: str
    code: str = "invalid"
    hint: str = ""
    severity: str = "error"
    """`error`, or from `lint` also `warning` and `advice`."""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}"
        return f"{where}: {self.message}" + (f" ({self.hint})" if self.hint else "")


class ContractError(UsageError):
    """A contract or state schema is invalid; `problems` holds every reason found, in file order."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        if not problems:
            raise ValueError("a ContractError needs at least one problem")
        self.problems = tuple(sorted(problems))
        stages = {_STAGES.get(p.code, "") for p in problems}
        self.component = stages.pop() if len(stages) == 1 else ""
        super().__init__("\n".join(str(p) for p in self.problems))


_STAGES = {"canonicalize": "canonicalize", "identify": "resolve"}
"""The stage that a section's problems keep from doing its work."""


class HarnessError(StatediffError):
    """The machinery around a trial failed; the trial has no verdict."""


class SandboxError(HarnessError):
    """A sandbox could not be started, reset or proven to be in its base state."""


class UnprovenBase(SandboxError):
    """A system is not in the base that its trials began with, and no further start changes that."""


class EnvironmentFailure(SandboxError):
    """A system ended under an agent, and all that the trial lacks may be missing because of it."""


class AdapterError(HarnessError):
    """A source, sandbox or agent adapter broke its protocol."""


class StorageError(HarnessError):
    """A run folder or chunk store could not be written, or a stored chunk is damaged."""


class BundleError(StatediffError):
    """A bundle is damaged or contradicts itself."""

    component = "evidence"


class NotReplayable(BundleError):
    """The bundle is sound, but what it retains or this kernel's version does not allow a replay."""
