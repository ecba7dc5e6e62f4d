"""`report`: the HTML pages of trials and runs; `workspace.pages` keeps them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from statediff.cli.bundles import TrustOption
from statediff.cli.evidence.sealing import Tier
from statediff.cli.output import JsonFlag
from statediff.workspace.pages import Page, page_of, run_page, write_page

REPORT = "statediff/report/1"
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
        emit(_document(made))
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
        emit(_document(made))
    else:
        results().print(f"opened {shown(made.path)}", soft_wrap=True)
    return 0


# ---------------------------------------------------------------- what other commands keep


def _make(target: Path, out: Path | None, trust: Path | None, tier: Tier | None) -> Page:
    from statediff.errors import UsageError
    from statediff.evidence.seal import is_sealed
    from statediff.reports.html import trial_html
    from statediff.workspace.bundles import load_bundle

    if is_sealed(target):
        path = out or page_of(target)
        text = _sealed(target, trust, tier)
        return Page(path, "sealed", write_page(path, text, is_asked=out is not None), 1)
    if trust is not None or tier is not None:
        raise UsageError("--trust and --tier are for a sealed copy; this is none")
    if target.is_dir() and (target / "run.json").exists():
        return run_page(target, out, tell_no_page, with_trials=out is None)
    bundle, folder = load_bundle(target)
    path = out or page_of(folder)
    size = write_page(path, trial_html(bundle, str(folder)), is_asked=out is not None)
    return Page(path, "trial", size, 1)


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


def _tell_unreadable(made: Page) -> None:
    from statediff.cli.output import progress
    from statediff.reports.record import said

    for trial in made.unreadable[:20]:
        progress().print(f"{said(trial)}: its bundle cannot be read; the report says why")


def tell_no_page(error: Exception) -> None:
    """Standard error says why there is no page."""
    from statediff.cli.output import progress
    from statediff.reports.record import said

    progress().print(f"no report: {said(error, 2000)}", soft_wrap=True)


def _document(made: Page) -> dict[str, Any]:
    from statediff.cli.output import shown

    return {
        "schema": REPORT, "report": shown(made.path), "of": made.of, "bytes": made.size,
        "trials": made.trials, "unreadable": list(made.unreadable),
    }  # fmt: skip
