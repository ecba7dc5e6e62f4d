"""`report`: the HTML pages of trials and runs, and where they are kept.

A page is made from bundles and can be made again from them at any time, so a page that cannot be
written is told on standard error and never changes what a command says of its trials.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from statediff.cli.bundles import TrustOption
from statediff.cli.output import JsonFlag
from statediff.cli.sealing import Tier

if TYPE_CHECKING:
    from statediff.evidence.package import Bundle
    from statediff.reports.html import Outcome

REPORT = "statediff/report/1"
NAME = "report.html"
Target = Annotated[
    Path,
    typer.Argument(
        metavar="BUNDLE|RUN", help="A bundle's folder, a trial's, a run's, or a sealed copy."
    ),
]
TierOption = Annotated[
    Tier | None,
    typer.Option("--tier", help="Of a sealed copy: what this tier may see, and nothing else."),
]


def report(
    target: Target,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="The page [default: beside the bundle]."),
    ] = None,
    trust: TrustOption = None,
    tier: TierOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Write the HTML report of a bundle, or of a run and each of its trials.

    Of a sealed copy the page carries the copy, and verifies it in the browser.
    """
    from statediff.cli.faults import FAULT
    from statediff.cli.output import emit, results, shown

    made = _make(target, out, trust, tier)
    if as_json:
        emit(made.as_json())
    else:
        results().print(shown(made.path), soft_wrap=True)
        _tell_unreadable(made)
    return FAULT if made.unreadable else 0


def open_report(target: Path, trust: Path | None, tier: Tier | None, as_json: bool) -> int:
    """The HTML report of a bundle is written, and open in the browser."""
    import webbrowser

    from statediff.cli.output import emit, results, shown
    from statediff.errors import UsageError

    made = _make(target, None, trust, tier)
    if not webbrowser.open(made.path.absolute().as_uri()):
        raise UsageError(f"no browser could be started; open {shown(made.path)} in one")
    if as_json:
        emit(made.as_json())
    else:
        results().print(f"opened {shown(made.path)}", soft_wrap=True)
    return 0


# ---------------------------------------------------------------- what other commands keep


def keep_trial_report(bundle: Bundle, folder: Path) -> Path | None:
    """The page of the bundle in `folder` lies beside it; None, and a word on stderr, if not."""
    from statediff.errors import BundleError
    from statediff.reports.html import trial_html

    path = page_of(folder)
    try:
        return path if _keep(path, trial_html(bundle, str(folder))) else None
    except BundleError as error:
        _tell(error)
        return None


def keep_run_report(folder: Path) -> Path | None:
    """The page of the run in `folder` lies in it; None, and a word on stderr, if not."""
    from statediff.errors import StatediffError

    try:
        return _run(folder, None, with_trials=False).path
    except StatediffError as error:
        _tell(error)
        return None


def keep_fault(folder: Path, error: Exception) -> None:
    """The trial's folder, if there is one, says why it holds no bundle."""
    import contextlib

    from statediff.cli.folders import write_file
    from statediff.cli.runfolders import FAULT_NAME
    from statediff.errors import StorageError

    with contextlib.suppress(StorageError):
        write_file(folder / FAULT_NAME, f"{error}\n".encode("utf-8", "backslashreplace"))


def page_of(bundle_folder: Path) -> Path:
    """Where the page of a bundle lies: in its trial's folder, or beside the bundle's."""
    whole = bundle_folder.absolute()
    return whole.with_name(NAME) if whole.name == "bundle" else Path(f"{whole}.html")


# ---------------------------------------------------------------- making


@dataclass(frozen=True)
class _Made:
    path: Path
    of: str
    size: int
    trials: int
    unreadable: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        from statediff.cli.output import shown

        return {
            "schema": REPORT, "report": shown(self.path), "of": self.of, "bytes": self.size,
            "trials": self.trials, "unreadable": list(self.unreadable),
        }  # fmt: skip


def _make(target: Path, out: Path | None, trust: Path | None, tier: Tier | None) -> _Made:
    from statediff.cli.bundles import load_bundle
    from statediff.errors import UsageError
    from statediff.evidence.seal import is_sealed
    from statediff.reports.html import trial_html

    if is_sealed(target):
        path = out or page_of(target)
        text = _sealed(target, trust, tier)
        return _Made(path, "sealed", _write(path, text, is_asked=out is not None), 1)
    if trust is not None or tier is not None:
        raise UsageError("--trust and --tier are for a sealed copy; this is none")
    if target.is_dir() and (target / "run.json").exists():
        return _run(target, out, with_trials=out is None)
    bundle, folder = load_bundle(target)
    path = out or page_of(folder)
    size = _write(path, trial_html(bundle, str(folder)), is_asked=out is not None)
    return _Made(path, "trial", size, 1)


def _sealed(target: Path, trust: Path | None, tier: Tier | None) -> str:
    """The page of a sealed copy, or of what a tier may see of it; verified first."""
    from statediff.errors import BundleError, UsageError
    from statediff.evidence.keys import load_trust
    from statediff.evidence.seal import at_tier, load, opened, redact
    from statediff.evidence.verify import Rejected, verify
    from statediff.reports.html import copy_html, sealed_html

    if trust is None:
        raise UsageError(f"{target}: a sealed copy; say with --trust FILE whose keys count")
    keys = load_trust(trust)
    try:
        sealed = load(target)
        verified = verify(sealed.files, keys)
        if tier is not None:
            sealed = redact(sealed, verified, at_tier(tier.value))
            verified = verify(sealed.files, keys)
    except Rejected as error:
        raise BundleError(f"{target}: INVALID: {error}") from error
    if verified.status != "VALID":
        return copy_html(sealed, verified, str(target))
    return sealed_html(opened(verified), sealed, verified, str(target))


def _run(folder: Path, out: Path | None, *, with_trials: bool) -> _Made:
    """The page of a run; `with_trials`, each trial's page as well."""
    from statediff.cli.runfolders import run_facts, scheduled
    from statediff.reports.html import run_html

    facts = run_facts(folder)
    found = list(_outcomes(folder, with_pages=with_trials, linked=out is None))
    path = out or folder / NAME
    text = run_html(
        folder.absolute().name, (o for o, _ in found), scheduled(facts, len(found)), _told(facts)
    )
    size = _write(path, text, is_asked=out is not None)
    return _Made(path, "run", size, len(found), tuple(o.trial for o, broken in found if broken))


def _outcomes(folder: Path, *, with_pages: bool, linked: bool) -> Iterator[tuple[Outcome, bool]]:
    """Every trial whose folder is there, and whether its bundle is there and cannot be read."""
    from statediff.cli.runfolders import trials
    from statediff.errors import BundleError, InputError
    from statediff.reports.html import fault, outcome, trial_html

    for trial in trials(folder):
        if trial.bundle is None:
            yield fault(trial.name, trial.why), trial.is_broken
            continue
        try:
            if with_pages:
                page = trial_html(trial.bundle, str(trial.folder))
                _keep(page_of(trial.folder), page)
            has_page = linked and _is_report(page_of(trial.folder))
            found = outcome(trial.bundle, trial.name, str(trial.folder), linked=has_page)
        except (BundleError, InputError) as error:
            yield fault(trial.name, f"the bundle is damaged: {error}"), True
        else:
            yield found, False


def _told(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
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


def _write(path: Path, text: str, *, is_asked: bool) -> int:
    """The size of the page now in the file. What is not a report is replaced only if asked."""
    from statediff.cli.folders import write_file
    from statediff.errors import StorageError
    from statediff.model.values import printable

    if not is_asked and path.exists() and not _is_report(path):
        raise StorageError(
            f"{printable(str(path))}: is not a report of statediff and is not overwritten; "
            "name another file with --out"
        )
    content = text.encode("utf-8")
    write_file(path, content)
    return len(content)


def _keep(path: Path, text: str) -> bool:
    """Whether the page is in the file now; why not is told."""
    from statediff.errors import StorageError

    try:
        _write(path, text, is_asked=False)
    except StorageError as error:
        _tell(error)
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


def _tell_unreadable(made: _Made) -> None:
    from statediff.cli.output import progress
    from statediff.reports.record import said

    for trial in made.unreadable[:20]:
        progress().print(f"{said(trial)}: its bundle cannot be read; the report says why")


def _tell(error: Exception) -> None:
    from statediff.cli.output import progress
    from statediff.reports.record import said

    progress().print(f"no report: {said(error, 2000)}", soft_wrap=True)
