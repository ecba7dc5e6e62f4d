"""`report` and `open`: the HTML pages of trials and runs, written or served."""

from __future__ import annotations

import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from statediff.cli.faults import FAULT
from statediff.cli.options import CopyTrustOption, JsonFlag, Tier, argument, opt, option
from statediff.cli.output import note, print_result, tell_no_page
from statediff.errors import UsageError
from statediff.evidence.keys import load_trust
from statediff.evidence.seal import at_tier, is_sealed, load, opened, redact
from statediff.evidence.verify import verify
from statediff.reports.said import said
from statediff.workspace.bundles import load_bundle, verifying
from statediff.workspace.folders import shown
from statediff.workspace.pages import Page, beside_of, page_of, run_page, write_page

REPORT: Final = "statediff/report/1"
Target = Annotated[
    Path, argument("BUNDLE|RUN", "A bundle's folder, a trial's, a run's, or a sealed copy.")
]


@dataclass(frozen=True, kw_only=True)
class CopyView:
    """The keys to read a sealed copy, and the tier that reads it."""

    trust: CopyTrustOption = None
    tier: Tier | None = opt("", "Of a sealed copy: what this tier may see, and nothing else.")


def report(
    target: Target,
    out: Annotated[
        Path | None, option("FILE", "The page [default: beside the bundle].", "--out")
    ] = None,
    *,
    view: CopyView,
    as_json: JsonFlag = False,
) -> int:
    """Write the HTML report of a bundle, or of a run and each of its trials.

    Of a sealed copy the page carries the copy, and verifies it in the browser.
    """
    made = _make(target, out, view)
    print_result(_document(made), shown(made.path), as_json=as_json)
    for trial in () if as_json else made.unreadable[:20]:
        note(f"{said(trial)}: its bundle cannot be read; the report says why")
    return FAULT if made.unreadable else 0


def _make(target: Path, out: Path | None, view: CopyView) -> Page:
    from statediff.reports.html import trial_html

    if is_sealed(target):
        path = out or page_of(target)
        text = _copy_page(target, view)
        return Page(path, "sealed", write_page(path, text, is_asked=out is not None), 1)
    if view.trust is not None or view.tier is not None:
        raise UsageError("--trust and --tier are for a sealed copy; this is none")
    if target.is_dir() and (target / "run.json").exists():
        return run_page(target, out, tell_no_page, with_trials=out is None)
    bundle, folder = load_bundle(target)
    path = out or page_of(folder)
    size = write_page(
        path,
        trial_html(bundle, str(folder), beside_of(folder, has_links=out is None)),
        is_asked=out is not None,
    )
    return Page(path, "trial", size, 1)


def _copy_page(target: Path, view: CopyView) -> str:
    """The page of a sealed copy, or of what a tier may see of it; verified first."""
    from statediff.reports.html import copy_html, sealed_html

    if view.trust is None:
        raise UsageError(f"{target}: a sealed copy; say with --trust FILE whose keys count")
    keys = load_trust(view.trust)
    with verifying(target):
        sealed = load(target)
        verified = verify(sealed.files, keys)
        if view.tier is not None:
            sealed = redact(sealed, verified, at_tier(view.tier.value))
            verified = verify(sealed.files, keys)
    if verified.status != "VALID":
        return copy_html(sealed, verified, str(target))
    return sealed_html(opened(verified), sealed, verified, str(target))


def _document(made: Page) -> dict[str, Any]:
    return {
        "schema": REPORT,
        "report": shown(made.path),
        "of": made.of,
        "bytes": made.size,
        "trials": made.trials,
        "unreadable": list(made.unreadable),
    }


def open_page(target: Target, *, view: CopyView, as_json: JsonFlag = False) -> int:
    """Write the HTML report of a bundle or a run, and open it in the browser."""
    made = _make(target, None, view)
    if not webbrowser.open(made.path.absolute().as_uri()):
        raise UsageError(f"no browser could be started; open {shown(made.path)} in one")
    print_result(_document(made), f"opened {shown(made.path)}", as_json=as_json)
    return FAULT if made.unreadable else 0
