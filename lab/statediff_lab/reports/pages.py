"""The pages of laboratories: a re-judgement, a study, an audit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from statediff.reports.html.page import Kind, render
from statediff_lab.reports.agreement_page import agreement_view
from statediff_lab.reports.audit_page import audit_view
from statediff_lab.reports.study_page import study_view

if TYPE_CHECKING:
    from statediff_lab.audit.measures import DomainAudit
    from statediff_lab.audit.tries import TaskAudit
    from statediff_lab.importers.agreement import AgreementReport
    from statediff_lab.importers.rejudge import StillTask
    from statediff_lab.study.measures import Study

TEMPLATES: Final = Path(__file__).parents[1] / "templates"
_KIND: Final = Kind(folder=TEMPLATES)


def agreement_html(report: AgreementReport, stills: Sequence[StillTask]) -> str:
    """The page of a re-judgement: agreement with other verdicts, and every disagreement."""
    return render("agreement.html", agreement_view(report, stills), _KIND)


def study_html(found: Study) -> str:
    """The page of a study: evaluators compared, domain by domain, with plots."""
    return render("study.html", study_view(found), _KIND)


def audit_html(
    verifier: str, domains: Sequence[DomainAudit], audits: Sequence[TaskAudit], seed: int
) -> str:
    """The page of an audit: what a verifier passes and fails wrongly, class by class."""
    return render("audit.html", audit_view(verifier, domains, audits, seed), _KIND)
