"""The disagreements of two contracts for one task: on which runs, and by which clauses [SSD §VI].

Both judge the same runs: those of the task's agents, right and wrong, and faults seeded into the
right ones. Where both give one verdict by other clauses, they agree: a clause is a way to say it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from statediff.contract.file import ContractFile
from statediff.errors import ContractError, UsageError
from statediff.meta.mutate import FAULTS, seed_faults
from statediff.meta.reference import Reference
from statediff.meta.twins import TWINS
from statediff.meta.world import World
from statediff.model.verdict import Verdict


@dataclass(frozen=True)
class ContractOpinion:
    """One contract's opinion of a run. `verdict` None where it does not fit what was captured."""

    verdict: Verdict | None
    clauses: tuple[str, ...]
    """Those that do not hold, in report order."""
    error: str = ""
    changes: int = 0
    """How much the run changed."""

    @property
    def said(self) -> str:
        """The verdict in a word."""
        return "refused" if self.verdict is None else self.verdict.value


@dataclass(frozen=True)
class ComparedRun:
    """One run under both contracts."""

    case: str
    sentence: str
    a: ContractOpinion
    b: ContractOpinion

    @property
    def agrees(self) -> bool:
        """True if both give one verdict; where both refuse to judge, none was compared."""
        return self.a.verdict is self.b.verdict and self.a.verdict is not None


@dataclass(frozen=True)
class ContractAgreement:
    """Every run under both contracts."""

    a: str
    b: str
    cases: tuple[ComparedRun, ...]

    @property
    def differing(self) -> tuple[ComparedRun, ...]:
        """The runs on which they differ, those that changed least first."""
        found = (case for case in self.cases if not case.agrees)
        return tuple(sorted(found, key=lambda c: max(c.a.changes, c.b.changes)))

    def deciding(self, of_a: bool) -> tuple[tuple[str, int], ...]:
        """The clauses of one contract that do not hold in differing runs, the most frequent first.

        Of a contract that gives MATCH there are none: the other's clauses are what it lacks.
        """
        counts = Counter(
            clause for case in self.differing for clause in (case.a if of_a else case.b).clauses
        )
        return tuple(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


def compare_contracts(
    a: ContractFile, b: ContractFile, runs: Iterable[tuple[str, Reference]]
) -> ContractAgreement:
    """The judgements of both contracts on each run, given as (its description, the run).

    Raises `UsageError` if there is none: contracts that were not compared do not agree.
    """
    found = tuple(
        ComparedRun(run.name, sentence, _opinion_of(a, run), _opinion_of(b, run))
        for sentence, run in runs
    )
    if not found:
        raise UsageError("nothing to compare the contracts on; name a run, or agents that make one")
    one, two = (f"{file.content.contract}@{file.content.version}" for file in (a, b))
    return ContractAgreement(one, two, found)


def with_faults(
    runs: Sequence[Reference], seed: int, sample: int
) -> Iterator[tuple[str, Reference]]:
    """The runs, and of each that gets MATCH so many seeded faults and twins."""
    for run in runs:
        yield f"{run.name} as it ran", run
        judgement = run.judged() if sample else None
        if judgement is None or judgement.verdict is not Verdict.MATCH:
            continue
        world = World(run, judgement, seed)
        made = list(seed_faults(world, (*FAULTS, *TWINS)))
        for at in sorted(world.rng.sample(range(len(made)), min(sample, len(made)))):
            fault = made[at]
            yield fault.sentence, replace(fault.mutant, name=f"{run.name}: {fault.id}")


def _opinion_of(file: ContractFile, run: Reference) -> ContractOpinion:
    try:
        judgement = replace(run, contract=file).judged()
    except ContractError as error:
        return ContractOpinion(None, (), str(error))
    return ContractOpinion(judgement.verdict, judgement.failed, changes=len(judgement.deltas))
