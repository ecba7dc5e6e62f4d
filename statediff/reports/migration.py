"""What `contract diff` says: plain JSON, and the migration note in Markdown."""

from __future__ import annotations

from typing import Any, Final

from statediff.contract.authoring.changes import Comparison, Touches
from statediff.evaluate.affected import Affected
from statediff.model.values import printable

COMPARISON: Final = "statediff/contract-diff/1"
_ADVICE: Final = {
    Touches.SEMANTICS: (
        "Verdicts under the old version do not answer the new question. Judge the trials below "
        "again; the old verdicts stay, a new entry names what it supersedes."
    ),
    Touches.EVIDENCE: (
        "The task is the same; what must be observed is not. A trial below may become INCONCLUSIVE "
        "or decided. Judge them again; the old verdicts stay."
    ),
    Touches.PRESENTATION: "No verdict changes. Nothing needs to be judged again.",
}


def plain_comparison(found: Comparison, trials: Affected | None) -> dict[str, Any]:
    """The comparison as `--json` prints it."""
    return {
        "schema": COMPARISON,
        "kind": found.kind,
        "old": {"name": found.old, "version": found.old_version},
        "new": {"name": found.new, "version": found.new_version},
        "touches": None if found.touches is None else found.touches.value,
        "required_bump": found.bump,
        "least_version": found.least_version,
        "version_ok": found.is_raised_enough,
        "changes": [
            {
                "area": change.area,
                "where": change.where,
                "kind": change.kind,
                "touches": change.touches.value,
                "before": change.before,
                "after": change.after,
            }
            for change in found.changes
        ],
        "affected": None
        if trials is None
        else [
            {"trial": t.trial, "verdict": t.verdict, "bundle": str(t.folder)} for t in trials.trials
        ],
        "unreadable": [] if trials is None else list(trials.unreadable),
    }


def migration_note(found: Comparison, trials: Affected | None) -> str:
    """The note that goes with the new version, for whoever kept results under the old one."""
    lines = [
        f"# {_inline(found.new)}: {_inline(found.old_version)} → {_inline(found.new_version)}",
        "",
    ]
    if found.touches is None:
        return "\n".join([*lines, f"Nothing changed in this {found.kind}.", ""])
    lines.append(
        f"This change of the {found.kind} touches **{found.touches.value}**; the {found.bump} "
        "version must be raised."
    )
    if not found.is_raised_enough:
        lines.append(f"It is not: write at least {found.least_version}.")
    lines += ["", _ADVICE[found.touches], "", "## Changes", ""]
    if not found.changes:
        lines.append("Comments, order or quotes only.")
    else:
        lines += ["| where | area | touches | before | after |", "|---|---|---|---|---|"]
    for change in found.changes:
        cells = (
            change.where, change.area, change.touches.value, change.before or "–",
            change.after or "–",
        )  # fmt: skip
        lines.append("| " + " | ".join(_inline(cell) for cell in cells) + " |")
    if trials is not None:
        lines += ["", "## Recorded trials", ""]
        if not trials.trials:
            lines.append("None was judged by the old version.")
        lines += [
            f"- `{_inline(t.trial)}` {t.verdict} in `{_inline(str(t.folder))}`"
            for t in trials.trials
        ]
        lines += [f"- could not be read: {_inline(text)}" for text in trials.unreadable]
    return "\n".join(lines) + "\n"


def _inline(text: str) -> str:
    """Text in a table cell: nothing in it is markup or ends the cell."""
    short = " ".join(printable(text).split())
    short = short if len(short) <= 300 else short[:299] + "…"
    for character in "\\`*_|<>[]":
        short = short.replace(character, "\\" + character)
    return short
