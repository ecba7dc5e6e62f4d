"""Mutation of a contract's references: which seeded faults would get MATCH, and which twins not.

1. Every reference must MATCH; a contract whose references do not has nothing to measure.
2. Each operator seeds faults into each reference; a seed that changes nothing within the boundary
   (no delta, no reading, no claim differs) is left out.
3. A fault that still gets MATCH survives: a hole in the contract, reported with clauses that close
   it, where some do. So does what an allow clause lets through that no reference needs. A twin that
   gets anything but MATCH is a contract that is too tight.
4. What no fault tried is counted, with the reason. A fault in the end of a run leaves it no history
   but one transaction; a reference that is not right with that would catch whatever is seeded, and
   is counted there, too.

The same contract, references and seed give the same report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from statediff.errors import ContractError, UsageError
from statediff.meta.emptied import emptied_texts
from statediff.meta.evidence_faults import EVIDENCE_FAULTS
from statediff.meta.faults import WORLD_FAULTS, transient, transient_types
from statediff.meta.permitted import permitted_changes
from statediff.meta.proposals import Proposal, proposals, proven
from statediff.meta.reference import Reference
from statediff.meta.twins import TWINS
from statediff.meta.world import Fault, Operator, Untried, World, in_order, worlds
from statediff.model.verdict import Judgement, Truth, Verdict

HARMS: tuple[Operator, ...] = (*WORLD_FAULTS, emptied_texts, *EVIDENCE_FAULTS, transient)
"""Faults that are harm by how they were made, whatever the contract says."""
FAULTS: tuple[Operator, ...] = (*HARMS, permitted_changes)
VALUES = frozenset({"wrong-value", "off-by-one", "wrong-sign", "look-alike", "filled-null"})
"""Operators that put another value in a field the run wrote."""
EMPTY = frozenset({"emptied", "blanked"})
"""Operators that leave nothing to read in a text the run wrote."""


AT_ONCE = (
    "reference",
    "with its changes made at once it is no MATCH: whatever is seeded into its end is caught",
)
"""Faults that are not tried of a run that needs its history to be right, and why: mutants have
none.
"""


@dataclass(frozen=True)
class Argued:
    """Why a survivor is right to pass; for `unsaid TYPE` and `empty TYPE`, in which fields."""

    because: str
    fields: tuple[str, ...] = ()


@dataclass(frozen=True)
class Survival:
    """One fault that got MATCH."""

    fault: Fault
    field: str
    reference: str
    proposals: tuple[Proposal, ...]


@dataclass(frozen=True)
class FaultOutcome:
    """One seeded trial, judged. `error` where judging refused it: that too is never a pass."""

    fault: Fault
    reference: str
    verdict: Verdict | None
    clause: str
    """The first clause that does not hold; empty where all do."""
    stage: str
    error: str = ""
    codes: tuple[str, ...] = ()
    """The codes of all findings that do not hold, sorted."""

    @property
    def is_as_it_should(self) -> bool:
        """A fault is caught, a twin matches."""
        return (self.verdict is Verdict.MATCH) == self.fault.is_twin


@dataclass(frozen=True)
class Survivor:
    """Faults of one kind that got MATCH, with the clauses that would close the hole.

    Wrong values in fields of one type are one survivor, `unsaid TYPE`: the contract lets such an
    entity be written and says nothing of these `fields`. So are texts that say nothing, `empty
    TYPE`. Every other fault is a survivor by itself.
    """

    id: str
    fields: tuple[str, ...]
    sentence: str
    reference: str
    closing: str
    """Clauses to add, as YAML by section, proven to close it; empty where none does, or argued."""
    argued: str = ""
    """Why the contract's owner lets it pass; empty where nobody said, or not of every field."""


@dataclass(frozen=True, kw_only=True)
class MutationReport:
    """The findings of mutation about one contract."""

    contract: str
    version: str
    references: tuple[str, ...]
    seed: int
    outcomes: tuple[FaultOutcome, ...]
    survivors: tuple[Survivor, ...]
    left_out: int
    """Seeds that changed nothing within the boundary."""
    untried: tuple[Untried, ...] = ()
    """The gaps that no fault tries in these references, by what and why."""
    transient: tuple[str, ...] = ()
    """The types whose transient writes were judged; of others no clause about the run speaks."""

    @property
    def faults(self) -> int:
        return sum(not o.fault.is_twin for o in self.outcomes)

    @property
    def caught(self) -> int:
        return sum(o.is_as_it_should for o in self.outcomes if not o.fault.is_twin)

    @property
    def twins(self) -> int:
        return sum(o.fault.is_twin for o in self.outcomes)

    @property
    def diverged(self) -> tuple[FaultOutcome, ...]:
        """Twins that did not match."""
        return tuple(o for o in self.outcomes if o.fault.is_twin and not o.is_as_it_should)

    @property
    def open_survivors(self) -> tuple[Survivor, ...]:
        """Survivors that nobody argued for."""
        return tuple(s for s in self.survivors if not s.argued)


def mutate(
    references: Sequence[Reference],
    seed: int,
    argued: Mapping[str, Argued],
    tick: Callable[[], None] = lambda: None,
) -> MutationReport:
    """The report over all references of one contract; `argued` is by the survivor's id.

    `tick` is called for each fault that was judged.

    Raises `UsageError` if there is no reference or one of them does not MATCH.
    """
    if not references:
        raise UsageError("mutation needs at least one reference trial that gets MATCH")
    outcomes: list[FaultOutcome] = []
    about_the_run: set[str] = set()
    passed: dict[str, list[Survival]] = {}
    left_out = 0
    left: Counter[tuple[str, str]] = Counter()
    for world in worlds(references, seed):
        reference, judgement = world.reference, world.judgement
        about_the_run |= transient_types(world.compiled.contract).keys()
        if reference.in_one_transaction().judged().verdict is not Verdict.MATCH:
            world.leave(*AT_ONCE)
        for fault in seed_faults(world):
            outcome, mutated = judge_fault(fault, reference.name)
            tick()
            if mutated is not None and is_same(fault, reference, judgement, mutated):
                left_out += 1
                continue
            outcomes.append(outcome)
            if not fault.is_twin and not outcome.is_as_it_should:
                name, field = survivor_of(fault, argued)
                found = () if mutated is None else tuple(proposals(reference, judgement, mutated))
                passed.setdefault(name, []).append(Survival(fault, field, reference.name, found))
        left += world.untried
    content = references[0].contract.content
    return MutationReport(
        contract=content.contract,
        version=content.version,
        references=tuple(r.name for r in references),
        seed=seed,
        outcomes=tuple(outcomes),
        survivors=tuple(
            _survivor(name, passed[name], argued, references) for name in sorted(passed)
        ),
        left_out=left_out,
        untried=in_order(left),
        transient=tuple(sorted(about_the_run)),
    )


def survivor_of(fault: Fault, argued: Mapping[str, Argued]) -> tuple[str, str]:
    """The survivor a fault belongs to, and the field, where fields of a type share one.

    A fault inside a value of which the owner argues that any value passes is one of that field.
    """
    type_name, _, field = fault.target.rpartition(".")
    if fault.clause:
        is_value = fault.operator == "permitted-value"
        return f"{fault.operator} {fault.clause}", field if is_value else ""
    if fault.operator in EMPTY:
        return f"empty {type_name}", field
    unsaid = f"unsaid {type_name}"
    is_inside = fault.operator.startswith("nested-") and unsaid in argued
    if fault.operator in VALUES or (is_inside and field in argued[unsaid].fields):
        return unsaid, field
    return fault.id, ""


def is_argued(fault: Fault, argued: Mapping[str, Argued]) -> bool:
    """True if the contract's owner says that it may pass, before anything is judged."""
    name, field = survivor_of(fault, argued)
    reason = argued.get(name)
    return reason is not None and (not field or field in reason.fields)


def _survivor(
    name: str,
    passed: Sequence[Survival],
    argued: Mapping[str, Argued],
    references: Sequence[Reference],
) -> Survivor:
    fields = tuple(sorted({each.field for each in passed if each.field}))
    first = passed[0]
    reason = argued.get(name)
    is_argued = reason is not None and set(fields) <= set(reason.fields)
    mutants = [(each.fault.mutant, each.proposals) for each in passed]
    return Survivor(
        name,
        fields,
        _sentence(first.fault, fields),
        first.reference,
        "" if is_argued else proven(references[0].contract, references, mutants),
        reason.because if reason is not None and is_argued else "",
    )


def _sentence(fault: Fault, fields: Sequence[str]) -> str:
    """A sentence on the survivor, where fields of a type share one or not."""
    which = "a text that says nothing" if fault.operator in EMPTY else "any value"
    passes = f"{which} passes in {', '.join(fields)}" if fields else fault.sentence
    return f"no reference needs `{fault.clause}`: {passes}" if fault.clause else passes


def seed_faults(world: World, chosen: Iterable[Operator] = (*FAULTS, *TWINS)) -> Iterator[Fault]:
    """Every fault and twin of the operators, in their order."""
    for operator in chosen:
        yield from operator(world)


def judge_fault(fault: Fault, reference: str) -> tuple[FaultOutcome, Judgement | None]:
    """The seeded trial's outcome and its judgement; None where judging refused it."""
    try:
        judgement = fault.mutant.judged()
    except ContractError as error:
        return FaultOutcome(fault, reference, None, "", "", str(error)), None
    wrong = next((c for c in judgement.clauses if c.truth is not Truth.HOLDS), None)
    first = ("", "") if wrong is None else (wrong.clause, wrong.stage.value)
    codes = {f.code.value for f in judgement.findings if f.truth is not Truth.HOLDS}
    told = tuple(sorted(codes))
    return FaultOutcome(fault, reference, judgement.verdict, *first, codes=told), judgement


def is_same(fault: Fault, reference: Reference, old: Judgement, new: Judgement) -> bool:
    """True if nothing that a verdict may rest on has changed."""
    if fault.is_twin:
        return False
    if new.deltas != old.deltas or new.doubts != old.doubts or new.hidden != old.hidden:
        return False
    mutant = fault.mutant
    readings = mutant.after.readings != reference.after.readings
    return not (
        (readings and fault.operator in ("stale", "missing", "truncated"))
        or mutant.timeline != reference.timeline
        or mutant.answer != reference.answer
        or fault.operator.startswith("transient-")
    )
