"""Reports for people: one self-contained HTML file a trial and a run, from bundles only.

Useful without JavaScript, closed to the network, and safe to open whatever the run wrote; see
`page`. The same bundle gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from statediff.evidence.package import Bundle
from statediff.reports.html.beside import NOTHING, Beside
from statediff.reports.html.page import MARK, render
from statediff.reports.html.run import KIND as RUN
from statediff.reports.html.run import Outcome, fault, outcome, run_view
from statediff.reports.html.trial import trial_view

if TYPE_CHECKING:
    from statediff.evidence.seal import Sealed
    from statediff.evidence.verify import Verified

__all__ = [
    "MARK", "Outcome", "copy_html", "fault", "outcome", "run_html", "sealed_html", "trial_html",
]  # fmt: skip


def trial_html(bundle: Bundle, where: str = "the bundle", beside: Beside = NOTHING) -> str:
    """The page of one trial; `BundleError` (naming `where`) if the bundle contradicts itself."""
    return render("trial.html", trial_view(bundle, where, beside=beside))


def sealed_html(
    bundle: Bundle, sealed: Sealed, verified: Verified, where: str = "the bundle"
) -> str:
    """The page of a trial with the sealed copy it was made from, which the page can verify."""
    from statediff.reports.html.sealed import SEALED, seal_of  # noqa: PLC0415 - few pages need it

    return render("trial.html", trial_view(bundle, where, seal=seal_of(sealed, verified)), SEALED)


def copy_html(sealed: Sealed, verified: Verified, where: str = "the copy") -> str:
    """The page of a copy that withholds something; `BundleError` naming `where`."""
    from statediff.reports.html.sealed import SEALED, copy_view  # noqa: PLC0415 - as above

    return render("copy.html", copy_view(sealed, verified, where), SEALED)


def run_html(
    title: str, outcomes: Iterable[Outcome], scheduled: int, facts: Iterable[tuple[str, str]]
) -> str:
    """The page of a run; `scheduled` counts every trial, whether it was run or not."""
    return render("run.html", run_view(title, outcomes, scheduled, facts), RUN)
