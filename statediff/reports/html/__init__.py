"""Reports for people: one self-contained HTML file a trial and a run, from bundles only.

Useful without JavaScript, closed to the network, and safe to open whatever the run wrote; see
`page`. The same bundle gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
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
    from statediff.importers.agreement import AgreementReport
    from statediff.importers.rejudge import StillTask
    from statediff.meta.audit.measures import DomainAudit
    from statediff.meta.audit.tries import TaskAudit
    from statediff.meta.study.measures import Study

__all__ = [
    "MARK", "Outcome", "agreement_html", "audit_html", "copy_html", "fault", "outcome", "run_html",
    "sealed_html", "study_html", "trial_html",
]  # fmt: skip


def trial_html(bundle: Bundle, where: str = "the bundle", beside: Beside = NOTHING) -> str:
    """The page of one trial; `BundleError` (naming `where`) if the bundle contradicts itself."""
    return render("trial.html", replace(trial_view(bundle, where), beside=beside))


def sealed_html(
    bundle: Bundle, sealed: Sealed, verified: Verified, where: str = "the bundle"
) -> str:
    """The page of a trial with the sealed copy it was made from, which the page can verify."""
    from statediff.reports.html.sealed import SEALED, seal_of  # noqa: PLC0415 - few pages need it

    view = replace(trial_view(bundle, where), seal=seal_of(sealed, verified))
    return render("trial.html", view, SEALED)


def copy_html(sealed: Sealed, verified: Verified, where: str = "the copy") -> str:
    """The page of a copy that withholds something; `BundleError` naming `where`."""
    from statediff.reports.html.sealed import SEALED, copy_view  # noqa: PLC0415 - as above

    return render("copy.html", copy_view(sealed, verified, where), SEALED)


def run_html(
    title: str, outcomes: Iterable[Outcome], scheduled: int, facts: Iterable[tuple[str, str]]
) -> str:
    """The page of a run; `scheduled` counts every trial, whether it was run or not."""
    return render("run.html", run_view(title, outcomes, scheduled, facts), RUN)


def agreement_html(report: AgreementReport, stills: Sequence[StillTask]) -> str:
    """The page of a re-judgement: agreement with other verdicts, and every disagreement."""
    from statediff.reports.html.agreement import agreement_view  # noqa: PLC0415 - nothing else needs it

    return render("agreement.html", agreement_view(report, stills))


def study_html(found: Study) -> str:
    """The page of a study: evaluators compared, domain by domain, with plots."""
    from statediff.reports.html.study import study_view  # noqa: PLC0415 - nothing else needs it

    return render("study.html", study_view(found))


def audit_html(
    verifier: str, domains: Sequence[DomainAudit], audits: Sequence[TaskAudit], seed: int
) -> str:
    """The page of an audit: what a verifier passes and fails wrongly, class by class."""
    from statediff.reports.html.audit import audit_view  # noqa: PLC0415 - nothing else needs it

    return render("audit.html", audit_view(verifier, domains, audits, seed))
