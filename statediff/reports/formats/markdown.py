"""Trials as Markdown, for a comment or the summary of a workflow."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from statediff.reports.comparability import INCOMPARABLE, Judge, are_comparable
from statediff.reports.formats.exports import MAX_SHOWN, Exported
from statediff.reports.formats.format import ReportFormat, Takes

_VERDICTS: Final = ("MATCH", "DIVERGE", "INCONCLUSIVE")


def markdown(trials: Sequence[Exported], not_run: int = 0) -> str:
    """The trials as Markdown: counts, a table, and why those that do not match do not."""
    scheduled = len(trials) + not_run
    head = f"**{scheduled} trial{'s' * (scheduled != 1)}**"
    if are_comparable(each.judge for each in trials):
        lines = [f"{head}: {_counted(trials, not_run)}", ""]
    else:
        lines = [f"{head}, {INCOMPARABLE}", ""]
        lines += [
            f"- {_code(str(judge)) if judge != Judge() else 'without a verdict'}: "
            + _counted([each for each in trials if each.judge == judge])
            for judge in sorted({each.judge for each in trials})
        ]
        lines += [f"- never run: {not_run}"] * bool(not_run) + [""]
    lines += ["| verdict | trial | contract | agent |", "|---|---|---|---|"]
    lines += [
        f"| {each.verdict or 'none'} | {_cell(each.trial)} |"
        f" {_cell(f'{each.contract} {each.version}')} | {_cell(each.agent)} |"
        for each in trials
    ]
    for each in trials:
        if each.verdict == "MATCH":
            continue
        lines += ["", f"### {each.verdict or 'No verdict'}: {_code(each.trial)}", ""]
        if each.why:
            lines.append(f"- {_code(each.why)}")
        lines += [
            f"- {entry.truth} {_code(entry.clause)} ({entry.code}): {_code(entry.text)}"
            for entry in each.loose[:MAX_SHOWN]
        ]
        if len(each.loose) > MAX_SHOWN:
            lines.append(f"- and {len(each.loose) - MAX_SHOWN} more")
    return "\n".join(lines) + "\n"


def _counted(trials: Sequence[Exported], not_run: int = 0) -> str:
    counts = {name: sum(each.verdict == name for each in trials) for name in _VERDICTS}
    counts["without a verdict"] = sum(not each.verdict for each in trials) + not_run
    return ", ".join(f"{number} {name}" for name, number in counts.items() if number) or "none"


def _code(text: str) -> str:
    """The text as a Markdown code span: no markup, HTML, link, mention or new line comes of it."""
    line = " ".join(text.split()) or " "
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    pad = " " if "`" in (line[0], line[-1]) else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def _cell(text: str) -> str:
    """The same in a table, where a bar would end the cell."""
    return _code(text.replace("|", "\u00a6")) if text.strip() else ""


FORMAT: Final = ReportFormat(name="markdown", takes=Takes.TRIALS, write=markdown)
