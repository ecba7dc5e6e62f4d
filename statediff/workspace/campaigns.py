"""A run's folder and its trials: begun, resumed and carried out."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from statediff.capture.guard import Scans
from statediff.errors import BundleError, SandboxError, StorageError, UsageError
from statediff.packs import EMBEDDED, sandbox_of, sandbox_pack
from statediff.suite.campaign import (
    POOL,
    CampaignRules,
    Workers,
    in_this_process,
    processes,
)
from statediff.suite.campaign import (
    carry_out as carried_out,
)
from statediff.suite.indexing import location
from statediff.suite.pins import pack_digest
from statediff.suite.records import (
    Ended,
    FaultKind,
    Run,
    Trial,
    run_record,
    scheduled_trials,
    set_aside,
    trial_name,
)
from statediff.systems.base import known_bases
from statediff.total import twice
from statediff.workspace import episodes
from statediff.workspace.agents import AgentOptions
from statediff.workspace.cases import Chosen, cases_of, texts_of
from statediff.workspace.episodes import Episode, Played
from statediff.workspace.runfolders import is_run, run_facts
from statediff.workspace.trials import (
    TrialRequest,
    base_state,
    contract_as_read,
    forget,
    halt,
    require_sound,
)

if TYPE_CHECKING:
    from statediff.contract.file import ContractFile
    from statediff.suite.store import Store
    from statediff.workspace.bundles import RunCopy
    from statediff.workspace.pages import Tell

WITHOUT_VERDICT: Final = (Ended.NOT_RUN, Ended.UNFINISHED, Ended.FAULT)
"""A resumed run makes these trials again; a damaged one is evidence, and stays."""
BATCH_SECONDS: Final = 2.0
CHECKED_CASES: Final = 20
_PRELOAD: Final = (
    "statediff.reports.html",
    "statediff.reports.line",
    "statediff.workspace.episodes",
    "statediff.workspace.pages",
    "statediff.workspace.trials",
)


@dataclass(frozen=True)
class Entry:
    """A contract of the run, or one case of it."""

    path: Path
    file: ContractFile
    """The contract; for a case, the contract that has the case."""
    case: str | None = None
    text: bytes | None = None
    """The contract of the case."""

    @property
    def name(self) -> str:
        content = self.file.content
        named = "/".join(filter(None, (content.contract, self.case)))
        return f"{named}@{content.version}"

    @property
    def digest(self) -> str:
        """SHA-256 of the contract that is judged under."""
        return self.file.digest if self.text is None else hashlib.sha256(self.text).hexdigest()


@dataclass(frozen=True)
class How:
    """How trials are made; none of it changes what they are."""

    workers: int = 1
    scheduler: str | None = None
    retries: int = 2
    max_cost: str | None = None
    store: str | None = None
    artifacts: str | None = None


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """A run whose folder is there, and all that its trials need."""

    folder: Path
    run: Run
    planned: Mapping[str, Trial]
    entries: Mapping[str, Entry]
    agents: Mapping[str, AgentOptions]
    """By the name of the trial."""
    variant: str
    scans: Scans
    sandboxes: Mapping[str, str]
    """The digests of the files of a project's sandboxes, by what `sandbox_pack` takes."""

    def episode(self, trial: Trial, *, is_retried: bool, max_cost: str | None) -> Episode:
        """The next attempt at the trial; what there was of it is set aside."""
        planned = self.planned[trial.name]
        entry = self.entries[f"{planned.contract}@{planned.version}"]
        options = self.agents[trial.name]
        if options.base_url is not None:
            options = replace(options, max_cost=max_cost)
        before = set_aside(self.folder, trial.name)
        return Episode(
            run=self.folder,
            planned=planned,
            request=TrialRequest(
                contract=entry.path,
                text=entry.text,
                agent=options,
                variant=self.variant,
                scans=self.scans,
                sandbox_digest=self.sandboxes.get(sandbox_of(entry.file) or ""),
            ),
            attempt=before + 1,
            is_retried=is_retried,
        )


class Progress(Protocol):
    """An observer of a run: it learns of each trial as it ends, and of what goes on beside."""

    is_interrupted: bool
    is_out_of_money: bool
    tried_again: int
    """Attempts that failed around the agent and were followed by another."""

    @property
    def no_page(self) -> Tell:
        """Called in the process that made a trial, so it is a function of a module."""

    def keep(self, trial: Trial) -> None:
        """The trial is counted, and nobody makes it now."""

    def add(self, finished: Played) -> None:
        """The trial has ended."""

    def looked(self) -> None:
        """Time has passed."""

    def note(self, text: str) -> None:
        """Something happened that a user may want to know."""


def campaign(folder: Path, entries: Sequence[Entry], agents: Sequence[AgentOptions]) -> Campaign:
    """The run in the folder, by its `run.json`; agents in the order in which it has them."""
    facts = run_facts(folder)
    run = run_record(facts, location(folder))
    by_trial = {
        trial_name(contract, label, number): options
        for contract, _, _ in run.contracts
        for (_, label), options in zip(run.agents, agents, strict=True)
        for number in range(1, run.times + 1)
    }
    settings = facts["settings"]
    variant = str(settings.get("sandbox", "embedded"))
    rate = settings.get("scans", "0")
    return Campaign(
        folder=folder.absolute(),
        run=run,
        planned=scheduled_trials(run),
        entries={entry.name: entry for entry in entries},
        agents=by_trial,
        variant=variant,
        sandboxes=_project_sandboxes(entries, variant),
        scans=Scans(
            1.0 if rate == "always" else float(rate), by_pages=settings.get("scan") == "pages"
        ),
    )


def _project_sandboxes(entries: Sequence[Entry], variant: str) -> dict[str, str]:
    """The digests of the sandboxes' files, of those that do not come with statediff."""
    names = {sandbox_of(entry.file) or "" for entry in entries}
    return {
        name: pack_digest(sandbox_pack(name, variant)) for name in names if Path(name).is_absolute()
    }


@contextmanager
def lock_run(folder: Path) -> Iterator[None]:
    """Nobody else makes trials in the run's folder from this machine; else `UsageError`."""
    handle = os.open(folder / ".at-work", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
    try:
        # Where a file system has no locks: two who make one trial do not harm each other.
        with contextlib.suppress(OSError):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise UsageError(
                    f"{folder}: another statediff is at work on this run; wait for it"
                ) from error
        yield
    finally:
        os.close(handle)


def carry_out(
    made: Campaign,
    wanted: Sequence[Trial],
    kept: Sequence[Trial],
    how: How,
    report: Progress,
    store: Store,
    copies: RunCopy,
    *,
    is_retried: bool = False,
) -> None:
    """The wanted trials are made and reported, and those that are kept are counted beside them.

    Ctrl-C ends it in order; what has ended by then is reported.
    """
    spent = _Spent(how.max_cost, [*kept, *wanted])
    batch = _Batch(store, copies, report.note)
    for trial in kept:
        report.keep(trial)

    def again(episode: Episode, played: Played) -> Episode | None:
        spent.add(played.record)
        if episode.lost >= how.retries or not _may_end_otherwise(played):
            return None
        set_aside(made.folder, episode.planned.name)
        report.tried_again += 1
        return replace(episode, attempt=episode.attempt + 1, lost=episode.lost + 1)

    begun = (
        replace(
            made.episode(trial, is_retried=is_retried, max_cost=spent.left()),
            on_cluster=how.scheduler is not None,
        )
        for trial in wanted
    )
    rules = CampaignRules(
        partial(episodes.play, report.no_page), episodes.lose, again, spent.has_left, report.looked
    )
    forget()
    try:
        with (
            _workers(made, how, report) as workers,
            contextlib.closing(carried_out(begun, workers, rules)) as results,
        ):
            for played in results:
                report.add(played)
                batch.add(played.record)
    except KeyboardInterrupt:
        report.is_interrupted = True
    finally:
        batch.flush()
        report.is_out_of_money = not spent.has_left()


def _may_end_otherwise(played: Played) -> bool:
    """True if it has no verdict for a reason that another attempt may not meet."""
    cause = played.record.cause
    return played.verdict is None and cause in set(FaultKind) and FaultKind(cause).is_retried


@contextmanager
def _workers(made: Campaign, how: How, report: Progress) -> Iterator[Workers]:
    is_single = _is_single(made)
    if is_single and how.scheduler is not None:
        raise UsageError("an external sandbox is where it is; run it without --scheduler")
    if is_single and how.workers > 1:
        report.note("an external sandbox takes one trial at a time")
        how = replace(how, workers=1)
    try:
        if how.scheduler is not None:
            from statediff.suite.campaign import on_cluster

            POOL.close()  # that of the check; no trial is made here
            with on_cluster(how.scheduler, how.workers, report.note) as workers:
                yield workers
        elif how.workers == 1 or made.variant != EMBEDDED:
            with in_this_process(how.workers, halt) as workers:
                yield workers
        else:
            POOL.close()
            with processes(how.workers, (*_PRELOAD, report.no_page.__module__)) as workers:
                yield workers
    finally:
        POOL.close()


def _is_single(made: Campaign) -> bool:
    named = {sandbox_of(entry.file) for entry in made.entries.values()}
    return any(sandbox_pack(n, made.variant).is_single for n in named if n is not None)


class _Spent:
    """The cost of a run, with attempts that no longer count, as far as they are known."""

    def __init__(self, most: str | None, trials: Sequence[Trial]) -> None:
        self._most = None if most is None else int(Decimal(most) * 10**9)
        self.nano = sum(trial.cost_nano or 0 for trial in trials)

    def add(self, trial: Trial) -> None:
        self.nano += trial.cost_nano or 0

    def has_left(self) -> bool:
        return self._most is None or self.nano < self._most

    def left(self) -> str | None:
        if self._most is None:
            return None
        return f"{Decimal(max(0, self._most - self.nano)) / 10**9:f}"


class _Batch:
    """Records on their way into a store, and trials to a copy: soon, and several at once."""

    def __init__(self, store: Store, copies: RunCopy, tell: Callable[[str], None]) -> None:
        self._store, self._copies = store, copies
        self._tell = tell
        self._waiting: list[Trial] = []
        self._since = time.monotonic()

    def add(self, trial: Trial) -> None:
        self._waiting.append(trial)
        if time.monotonic() - self._since > BATCH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Put what waits into the store; if that fails, it is read from the folder another time."""
        waiting, self._waiting = self._waiting, []
        self._since = time.monotonic()
        try:
            twice(lambda: self._store.put_trials(waiting))
        except (StorageError, OSError) as error:
            self._tell(f"not in the store yet: {error}")
        self._copies.trials([trial.name for trial in waiting if trial.ended is not Ended.NOT_RUN])


def cases_in(path: Path, file: ContractFile, chosen: Chosen) -> list[Entry]:
    """The contract's chosen cases, or the contract itself where it has none."""
    found = cases_of(path, file, chosen)
    if not found:
        return [Entry(path, file)]
    return [Entry(path, file, case.name, text) for case, text in texts_of(file, found)]


def require_runnable(entries: Sequence[Entry], variant: str) -> dict[str, str]:
    """Every contract fits the base state of its sandbox, which stands from then on.

    Of the cases of one contract the first `CHECKED_CASES` are tried; a trial tries its own again.
    Returns the sandboxes that cannot be started, with the cause; where no other one can,
    `SandboxError`. `UsageError`, or `ContractError` with every problem found.
    """
    names: dict[str, list[Entry]] = {}
    for entry in entries:
        content = entry.file.content
        if content.sandbox is None:
            raise UsageError(
                f"{content.contract} names no sandbox to run in; add `sandbox:`, or judge states "
                "that you captured yourself with `statediff judge`"
            )
        names.setdefault(sandbox_of(entry.file) or "", []).append(entry)
    for name, count in Counter(entry.name for entry in entries).items():
        if count > 1:
            raise UsageError(f"{name}: {count} contracts have this name and version; name one")
    failed: dict[str, str] = {}
    for name, members in names.items():
        try:
            with POOL.lease(name, variant) as sandbox:
                base = base_state(sandbox)
        except SandboxError as error:
            failed[sandbox_pack(name, variant).title] = str(error)
            if len(failed) == len(names):
                raise
            continue
        tried: Counter[Path] = Counter()
        for entry in members:
            tried[entry.path] += 1
            if tried[entry.path] <= CHECKED_CASES:
                require_sound(contract_as_read(entry.path, entry.text, entry.file), base)
    return failed


def bases_of(entries: Sequence[Entry], variant: str) -> dict[str, dict[str, str]]:
    """By sandbox, as `sandbox_pack` takes it: the digests of the bases that no file of it makes.

    Without those that cannot be started now.
    """
    found: dict[str, dict[str, str]] = {}
    for name in sorted({sandbox_of(entry.file) or "" for entry in entries}):
        if sandbox_pack(name, variant).is_outside:
            with contextlib.suppress(SandboxError), POOL.lease(name, variant) as sandbox:
                found[name] = sandbox.bases()
    return found


def forget_bases(entries: Sequence[Entry], variant: str) -> None:
    """Take the systems of the contracts' sandboxes, as the next start finds them, as their base."""
    for name in sorted({sandbox_of(entry.file) or "" for entry in entries} - {""}):
        known_bases.forget_bases(sandbox_pack(name, variant))


def servers_of(entries: Sequence[Entry], variant: str) -> dict[str, str]:
    """Source → what its server is and runs in, of the contracts' sandboxes in a variant."""
    found: dict[str, str] = {}
    if variant != EMBEDDED:
        for name in sorted({sandbox_of(entry.file) or "" for entry in entries}):
            with contextlib.suppress(SandboxError), POOL.lease(name, variant) as sandbox:
                found |= sandbox.served_by()
    return found


def find_resumable(out: Path, mine: Mapping[str, Any]) -> Path | None:
    """The newest run in `out` that was begun by the same command; None if there is none.

    `UsageError` where it was begun by other means than there are now.
    """
    folders = [place for place in out.iterdir() if is_run(place)] if out.is_dir() else []
    for folder in sorted(folders, key=_begun_at, reverse=True):
        try:
            facts = run_facts(folder)
        except BundleError:
            continue
        if not _is_same(facts, mine, ("contracts", "settings")):
            continue
        for what in ("kernel", "statediff", "sandboxes"):
            if facts.get(what) != mine[what]:
                raise UsageError(
                    f"{folder}: was begun with another {what} than there is now; its trials could "
                    "not be counted together. Begin a new run: leave out --resume"
                )
        if (facts.get("code") or {}).get("digest") != mine["code"]["digest"]:
            raise UsageError(
                f"{folder}: statediff's own code has changed since it was begun; leave out --resume"
            )
        return folder
    return None


def _begun_at(folder: Path) -> tuple[int, str]:
    return (folder / "run.json").stat().st_mtime_ns, folder.name


def _is_same(facts: Mapping[str, Any], mine: Mapping[str, Any], names: Sequence[str]) -> bool:
    return all(_plain(facts.get(name)) == _plain(mine[name]) for name in names)


_OF_MACHINES: Final = ("images", "servers")


def _plain(part: Any) -> Any:
    """Without what is only known once the sandboxes run."""
    return (
        {n: v for n, v in part.items() if n not in _OF_MACHINES} if isinstance(part, dict) else part
    )
