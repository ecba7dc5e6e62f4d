"""Pages of trials and runs, kept beside what they are made from.

A page is made from bundles and can be made again from them at any time, so a page that cannot be
written is reported and changes nothing of the trials.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from statediff.errors import BundleError, InputError, StatediffError, StorageError
from statediff.model.values import printable
from statediff.suite.records import read_attempt, run_record, scheduled_trials
from statediff.workspace.folders import write_file
from statediff.workspace.runfolders import (
    FAULT_NAME,
    agent_of,
    count_scheduled,
    is_run,
    run_facts,
    trials,
)

if TYPE_CHECKING:
    from statediff.evidence.package import Bundle
    from statediff.reports.html import Outcome
    from statediff.reports.html.beside import Beside

Tell: TypeAlias = Callable[[Exception], None]
"""Learns why there is no page."""
NAME: Final = "report.html"


def keep_trial_report(bundle: Bundle, folder: Path, tell: Tell) -> Path | None:
    """The page of the bundle in `folder` lies beside it; None, and `tell` learns why, if not."""
    from statediff.reports.html import trial_html

    path = page_of(folder)
    try:
        page = trial_html(bundle, str(folder), beside_of(folder))
        return path if _keep(path, page, tell) else None
    except BundleError as error:
        tell(error)
        return None


def keep_run_report(folder: Path, tell: Tell) -> Path | None:
    """The page of the run in `folder` lies in it; None, and `tell` learns why, if not."""
    try:
        return run_page(folder, None, tell, with_trials=False).path
    except StatediffError as error:
        tell(error)
        return None


def keep_fault(folder: Path, why: str) -> None:
    """The trial's folder, if there is one, says why it holds no bundle."""
    with contextlib.suppress(StorageError):
        write_file(folder / FAULT_NAME, f"{why}\n".encode("utf-8", "backslashreplace"))


def page_of(bundle_folder: Path) -> Path:
    """The place of a bundle's page: in its trial's folder, or beside the bundle's."""
    whole = bundle_folder.absolute()
    return whole.with_name(NAME) if whole.name == "bundle" else Path(f"{whole}.html")


def beside_of(folder: Path, *, has_links: bool = True) -> Beside:
    """The agent's process for the page of the bundle in `folder`, with the link to its run's page.

    The page of the run links each to its neighbors, once they are known.
    """
    from statediff.reports.html.beside import NOTHING

    trial = folder.absolute().parent
    is_in_run = folder.name == "bundle" and trial.parent.name == "trials"
    run = trial.parent.parent
    links = _links(run, [], 0) if has_links and is_in_run and is_run(run) else NOTHING
    return replace(links, agent=agent_of(folder))


def _links(run: Path, trials: Sequence[str], at: int) -> Beside:
    from statediff.reports.html.beside import Beside, run_neighbor, trial_neighbor

    return Beside(
        run=run_neighbor(run.name),
        earlier=trial_neighbor(trials[at - 1]) if at else None,
        later=trial_neighbor(trials[at + 1]) if trials[at + 1 :] else None,
    )


def _link_trials(run: Path, tell: Tell) -> None:
    """The page of each trial leads to the run's and to those of its neighbors."""
    from statediff.reports.html.beside import relink
    from statediff.reports.html.run import natural

    kept = run / "trials"
    found = (each.name for each in kept.iterdir() if _is_report(each / NAME))
    names = sorted(found, key=natural)
    for at, trial in enumerate(names):
        path = kept / trial / NAME
        page = path.read_bytes().decode("utf-8", "replace")
        linked = relink(page, _links(run, names, at))
        if linked != page:
            _keep(path, linked, tell)


@dataclass(frozen=True)
class Page:
    """A page that was written, and what it is of: `size` in bytes."""

    path: Path
    of: str
    size: int
    trials: int
    unreadable: tuple[str, ...] = ()


def run_page(folder: Path, out: Path | None, tell: Tell, *, with_trials: bool) -> Page:
    """The page of a run; `with_trials`, each trial's page as well."""
    from statediff.reports.html import run_html

    facts = run_facts(folder)
    found = list(_outcomes(folder, facts, tell, with_pages=with_trials, linked=out is None))
    if out is None and found:
        _link_trials(folder, tell)
    path = out or folder / NAME
    text = run_html(
        folder.absolute().name,
        (o for o, _ in found),
        count_scheduled(facts, len(found)),
        _rows_of(facts),
    )
    size = write_page(path, text, is_asked=out is not None)
    return Page(path, "run", size, len(found), tuple(o.trial for o, broken in found if broken))


def _outcomes(
    folder: Path, facts: dict[str, Any], tell: Tell, *, with_pages: bool, linked: bool
) -> Iterator[tuple[Outcome, bool]]:
    """Every trial whose folder is there, and whether its bundle is there and cannot be read."""
    from statediff.reports.html import fault, outcome, trial_html

    planned = _planned(facts)
    for trial in trials(folder):
        plan = planned.get(trial.name, ("", ""))
        if trial.bundle is None:
            yield fault(trial.name, trial.why, *plan), trial.is_broken
            continue
        try:
            if with_pages:
                page = trial_html(trial.bundle, str(trial.folder), beside_of(trial.folder))
                _keep(page_of(trial.folder), page, tell)
            has_page = linked and _is_report(page_of(trial.folder))
            cost = read_attempt(trial.folder.parent).cost_nano
            found = outcome(
                trial.bundle, trial.name, str(trial.folder), linked=has_page, cost_nano=cost
            )
        except (BundleError, InputError) as error:
            yield fault(trial.name, f"the bundle is damaged: {error}", *plan), True
        else:
            yield found, False


def _planned(facts: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Contract and agent of each scheduled trial; nothing where `run.json` contradicts itself."""
    try:
        every = scheduled_trials(run_record(facts, ""))
    except BundleError:
        return {}
    return {name: (each.contract, each.agent) for name, each in every.items()}


def _rows_of(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    settings = facts.get("settings")
    agents = settings.get("agents") if isinstance(settings, dict) else None
    contracts = facts.get("contracts")
    yield "Contracts", ", ".join(map(str, contracts)) if isinstance(contracts, dict) else "unknown"
    if isinstance(agents, list):
        yield "Agents", ", ".join(map(str, agents))
    yield "Judged by", f"statediff {facts.get('statediff')}, kernel {facts.get('kernel')}"
    yield "Python", str(facts.get("python"))
    yield "SQLite", str(facts.get("sqlite"))
    yield "Platform", str(facts.get("platform"))


def write_page(path: Path, text: str, *, is_asked: bool) -> int:
    """The size of the page now in the file. What is not a report is replaced only if asked."""
    if not is_asked and path.exists() and not _is_report(path):
        raise StorageError(
            f"{printable(str(path))}: is not a report of statediff and is not overwritten; "
            "name another file with --out"
        )
    content = text.encode("utf-8")
    write_file(path, content)
    return len(content)


def _keep(path: Path, text: str, tell: Tell) -> bool:
    """True if the page is in the file now; why not is reported."""
    try:
        write_page(path, text, is_asked=False)
    except StorageError as error:
        tell(error)
        return False
    return True


def _is_report(path: Path) -> bool:
    from statediff.reports.html import MARK

    try:
        if not path.is_file():  # opening a pipe would wait for ever
            return False
        with path.open("rb") as stream:
            return stream.read(len(MARK)) == MARK.encode()
    except OSError:
        return False
