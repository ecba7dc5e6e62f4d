"""Trials as annotations of a GitHub workflow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from statediff.reports.formats.exports import MAX_SHOWN, Exported, address
from statediff.reports.formats.format import ReportFormat, Takes


def workflow(trials: Sequence[Exported], not_run: int = 0) -> str:
    """Commands of a GitHub workflow for what does not hold, each at its line of the contract.

    A violation and a trial without a verdict are errors; what cannot be decided is a warning, and
    the exit code of `run` says that it is no pass.
    """
    lines = []
    for each in trials:
        place = f"file={_property(address(each.contract))}/contract.yaml"
        for entry in each.loose[:MAX_SHOWN]:
            level = "error" if entry.truth == "FAILS" else "warning"
            title = _property(f"{each.verdict} {each.trial}: {entry.clause}")
            lines.append(f"::{level} {place},line={entry.line},title={title}::{_data(entry.text)}")
        if not each.verdict:
            title = _property(f"no verdict: {each.trial}")
            lines.append(f"::error title={title}::{_data(each.why)}")
    if not_run:
        lines.append(f"::error title=not run::{not_run} scheduled trials were not run")
    return "".join(f"{line}\n" for line in lines)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


FORMAT: Final = ReportFormat(name="github", takes=Takes.TRIALS, write=workflow)
