"""Runs that are known to be right, and the pieces of a whole meta-test.

A reference is made live or is recorded. A piece is one reference of a contract, or all its faulty
agents; it runs by itself in whatever process, and says the same there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from statediff.contract.file import ContractFile, load_contract
from statediff.errors import (
    AdapterError,
    BundleError,
    InputError,
    StatediffError,
    StorageError,
    UsageError,
)
from statediff.harness import NO_HOOKS, Hooks, ObservedTrial, TrialPlan, trial_facts
from statediff.kernel import TrialFacts, contract_in
from statediff.model.values import printable
from statediff.packs import EMBEDDED, contract_folders, known_sandbox, sandbox_of
from statediff.reports.ending import ending_from
from statediff.workspace.agents import packed_agent
from statediff.workspace.cases import Chosen, load_cases
from statediff.workspace.inputs import answer_from, capture_pair, refinements, trace_from
from statediff.workspace.trials import TrialRequest, lend, make_trial

if TYPE_CHECKING:
    from statediff.agents.command import CommandAgent
    from statediff.evidence.package import Bundle
    from statediff.meta.cases import Recordings
    from statediff.meta.metatest import MetaCase
    from statediff.meta.reference import Reference
    from statediff.meta.structure_faults import Damage
    from statediff.suite.campaign import SandboxPool
    from statediff.systems.base.protocol import Sandbox


REFERENCE_SECONDS: Final = 60.0


def live_references(
    file: ContractFile,
    path: Path,
    agents: Sequence[str | CommandAgent],
    pool: SandboxPool,
    disturb: Callable[[Sandbox], None] | None = None,
    variant: str = EMBEDDED,
) -> Iterator[Reference]:
    """Each agent's trial, run live in the pool's sandboxes of a variant; then comes `disturb`.

    An agent is a program, or the name of one of the contract's folder.
    """
    from statediff.meta.reference import Reference

    if file.content.sandbox is None or not agents:
        raise UsageError(
            f"{file.content.contract}: mutation needs a sandbox and an agent that does the task "
            "right; name one with --reference, --agent-cmd, or in a cases.yaml beside it"
        )
    hooks = Hooks(before_capture_after=disturb)
    for each in agents:
        with live_trial(file, path.parent, each, pool, variant, hooks) as (sandbox, seen, agent):
            facts = trial_facts(sandbox, seen, agent, TrialPlan(agent, seen.folder))
        errors = {"error": seen.run.error, "stderr": {"text": seen.run.stderr.text}}
        ending = ending_from(errors)
        yield Reference(
            agent,
            file,
            before=seen.before,
            after=seen.after,
            trace=seen.run.trace,
            answer=seen.run.answer,
            timeline=seen.timeline,
            facts=facts,
            ending="" if ending is None else ending.sentence,
        )


@contextmanager
def live_trial(
    file: ContractFile,
    folder: Path,
    agent: str | CommandAgent,
    pool: SandboxPool,
    variant: str,
    hooks: Hooks = NO_HOOKS,
) -> Iterator[tuple[Sandbox, ObservedTrial, str]]:
    """The sandbox as an agent's trial left it, the trial, whose folder goes with it, and a name.

    The agent is a program, or the name of one of the contract's folder.
    """
    program = packed_agent(folder, agent, REFERENCE_SECONDS) if isinstance(agent, str) else agent
    with (
        tempfile.TemporaryDirectory(prefix="statediff-") as place,
        pool.lease(sandbox_of(file) or "", variant) as sandbox,
    ):
        request = TrialRequest(contract=file, agent=program, lease=lend(sandbox), hooks=hooks)
        done = make_trial(request, TrialPlan(program.name, Path(place) / "trial"))
        yield sandbox, done.observed, program.name


def recorded_run(
    file: ContractFile,
    before: list[str],
    after: list[str],
    answer: Path | None,
    trace: Path | None = None,
    schema: Path | None = None,
) -> Reference:
    """The trial that the captures of a recorded run make; nothing is known of when it happened.

    A trace is taken for every call there was: a reference is a run that is known to be right.
    """
    from statediff.meta.reference import Reference

    first, last = capture_pair(before, after, refinements(schema, known_sandbox(file)), ())
    calls = trace_from(trace, is_complete=trace is not None)
    return Reference(
        "recorded",
        file,
        before=first,
        after=last,
        trace=calls,
        answer=answer_from(answer, file.content.answer.form),
        timeline=None,
        facts=TrialFacts.offline(),
    )


def recorded_trial(file: ContractFile, kept: Recordings, name: str) -> Reference:
    """The trial that a recorded run makes."""
    before, after = [str(kept.before)], [str(kept.after)]
    run = recorded_run(file, before, after, kept.answer(name), kept.trace(name), kept.schema)
    return replace(run, name=name)


class Run(NamedTuple):
    """A recorded run, as `judge` is given it."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    answer: Path | None
    folder: Path | None = None
    """That of a run or a trial, in place of the three."""
    trace: Path | None = None
    schema: Path | None = None


def recorded_runs(files: Sequence[ContractFile], run: Run) -> tuple[Reference, ...]:
    """The trials in the folder of a run that MATCH, of each case; or the trial of two states.

    `UsageError` where one trial may be of several cases.
    """
    from statediff.meta.reference import recorded_trials

    if run.folder is not None:
        return recorded_trials(run.folder, *files)
    if len(files) > 1:
        raise UsageError(f"two states are one case's run; name one of {len(files)} with --case")
    states = list(run.before), list(run.after)
    return (recorded_run(files[0], *states, run.answer, run.trace, run.schema),)


def whole_trial(folder: Path, bundle: Bundle) -> Reference | None:
    """The trial of a bundle with its whole states; None where its folder is not that of a run.

    `BundleError` where the states cannot be read, or are not those that the bundle judged.
    """
    from statediff.meta.reference import stored_trial

    if not (folder / "states.json").is_file():
        return None
    where = printable(str(folder))
    try:
        found = stored_trial(folder, bundle, contract_in(bundle.files), folder.parent.parent)
    except (OSError, AdapterError, InputError, StorageError) as error:
        raise BundleError(f"{where}: its states cannot be read: {error}") from error
    captures = bundle.document("captures.json")
    for side, capture in (("before", found.before), ("after", found.after)):
        judged = {(e["reading"]["source"], e["reading"]["digest"]) for e in captures[side]}
        if judged != {(each.source, each.digest) for each in capture.readings}:
            raise BundleError(f"{where}: the states {side} are not those that the bundle judged")
    return found


# ---------------------------------------------------------------- pieces


class Wanted(NamedTuple):
    """The part of each contract to try."""

    seed: int
    sample: int
    live: bool
    is_stored: bool = False
    """The paths are files of a corpus, not contracts."""
    run: Run | None = None
    """The recorded run to seed into, in place of the references' trials."""
    keep: Path | None = None
    """The folder that keeps the result of each piece."""
    cases: Chosen | None = None
    """The chosen cases of the contracts; None for all."""
    variant: str = EMBEDDED
    """The variant of the contracts' sandboxes."""


class Piece(NamedTuple):
    """A part of what is to be tried."""

    path: Path
    """The contract, or the file of a corpus."""
    agent: str = ""
    """The reference that runs; empty where runs are recorded, or none is there."""
    is_faulty: bool = False
    """The faulty agents run, and no reference."""

    @property
    def name(self) -> str:
        """How progress calls it."""
        folder = self.path.parent
        task = f"{folder.parent.name} {folder.name}" if self.agent or self.is_faulty else ""
        agent = "faulty agents" if self.is_faulty else self.agent
        return f"{task} {agent}" if task else self.path.name


def every_contract() -> tuple[Path, ...]:
    """The contracts to try where none is named: the packs', and those with recorded runs."""
    from statediff.meta.cases import recorded_contracts

    return (*(folder.contract for folder in contract_folders()), *recorded_contracts())


def pieces_of(paths: Sequence[Path], wanted: Wanted) -> Iterator[Piece]:
    """All that is to be tried, in pieces, contract by contract."""
    from statediff.meta.cases import read_cases, recordings

    for path in paths:
        if wanted.is_stored or wanted.run is not None or recordings(path) is not None:
            yield Piece(path)
            continue
        cases = read_cases(path.parent)
        yield from (Piece(path, agent) for agent in cases.references or ("",))
        if wanted.live and cases.faulty:
            yield Piece(path, is_faulty=True)


def cases_or_fault(wanted: Wanted, piece: Piece) -> tuple[MetaCase, ...] | str:
    """The cases of one piece of several, or why there are none: the others have theirs."""
    try:
        return cases_of(wanted, piece)
    except StatediffError as error:
        return str(error)


def cases_of(wanted: Wanted, piece: Piece) -> tuple[MetaCase, ...]:
    """The cases of one piece; as they are kept, where they are."""
    from statediff.meta.checkpoint import Form, checkpoint, contract_digest, digest_of
    from statediff.meta.metatest import case_of

    if wanted.keep is None:
        return tuple(_try(wanted, piece))
    files = digest_of([piece.path]) if wanted.is_stored else contract_digest(piece.path)
    path = str(piece.path)
    asked: list[Any] = [
        path,
        piece.agent,
        piece.is_faulty,
        wanted.seed,
        wanted.sample,
        wanted.variant,
        files,
    ]
    if wanted.cases is not None:
        rows = [] if wanted.cases.file is None else [wanted.cases.file]
        asked += [wanted.cases.as_json(), digest_of(rows)]
    form = Form("metatest", case_of)
    return checkpoint(wanted.keep, piece.name, asked, lambda: _try(wanted, piece), form)


def _try(wanted: Wanted, piece: Piece) -> Iterator[MetaCase]:
    from statediff.meta.cases import read_cases, recordings
    from statediff.meta.corpus import replay_corpus
    from statediff.meta.metatest import faulty_agent_cases, metatest

    path, seed, sample = piece.path, wanted.seed, wanted.sample
    if wanted.is_stored:
        yield from replay_corpus(path, sample, seed)
        return
    files = load_cases(path, wanted.cases or Chosen())
    cases = read_cases(path.parent)
    kept = recordings(path)
    if wanted.run is not None:
        yield from metatest(recorded_runs(files, wanted.run), seed, cases.argued, sample)
    elif kept is not None:
        file = load_contract(path)
        runs = tuple(recorded_trial(file, kept, name) for name in kept.cases.references)
        yield from metatest(runs, seed, kept.cases.argued, sample)
        faulty = (recorded_trial(file, kept, wrong.agent) for wrong in kept.cases.faulty)
        yield from faulty_agent_cases(faulty, kept.cases)
    else:
        for file in files:
            yield from _try_live(wanted, piece, file)


def _try_live(wanted: Wanted, piece: Piece, file: ContractFile) -> Iterator[MetaCase]:
    from statediff.meta.cases import read_cases
    from statediff.meta.metatest import faulty_agent_cases, metatest
    from statediff.meta.structure_faults import structure_cases
    from statediff.suite.campaign import SandboxPool

    path, cases = piece.path, read_cases(piece.path.parent)
    agents = [wrong.agent for wrong in cases.faulty] if piece.is_faulty else [piece.agent]
    with closing(SandboxPool()) as pool:
        names, variant = [name for name in agents if name], wanted.variant
        trials = live_references(file, path, names, pool, variant=variant)
        if piece.is_faulty:
            yield from faulty_agent_cases(trials, cases)
            damaged = damaged_references(file, path, cases.references[:1], pool, variant)
            yield from structure_cases(damaged)
        else:
            yield from metatest(tuple(trials), wanted.seed, cases.argued, wanted.sample)


def damaged_references(
    file: ContractFile,
    path: Path,
    agents: Sequence[str],
    pool: SandboxPool,
    variant: str = EMBEDDED,
) -> Iterator[tuple[Damage, Reference]]:
    """The right agent's trial, once for each fault below the rows of a system of its sandbox."""
    from statediff.meta.structure_faults import Damage, faults_below

    without: set[str] = set()
    for operator, below in faults_below().items() if agents else ():
        if below.scheme in without:
            continue
        damage = Damage(operator)
        for trial in live_references(file, path, agents, pool, damage, variant):
            if not damage.has_system:
                without.add(below.scheme)
                break
            yield damage, trial
