"""Contracts in words: what one says, and what a change of one means.

An explanation is text, Markdown or one HTML page; a comparison of two is
plain JSON or a migration note in Markdown. All of it is escaped.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from statediff.contract.authoring.changes import Comparison, Touches
from statediff.contract.authoring.explain import Explanation, Line, Role, Section, TypeBox
from statediff.evidence.disclosure.settings import Settings, Why
from statediff.model.schema import NESTED, Kind, Schema
from statediff.model.values import printable
from statediff.suite.affected import Affected

WIDTH: Final = 100
MAX_NAMED: Final = 8
"""Fields that are named of those that a reader sees, or does not."""
_SHOWN_KINDS: Final = frozenset(Kind) - NESTED - {Kind.TEXT, Kind.BYTES}
_MARKS: Final = {
    Role.FORBIDDEN: "✘",
    Role.REQUIRED: "!",
    Role.ALLOWED: "✓",
    Role.READ: "·",
    Role.STILL: "=",
    Role.EXCLUDED: "–",
}


def roles_line(box: TypeBox) -> str:
    """The roles of a type in words, gravest first."""
    return ", ".join(role.value for role in box.roles) or "shown, not judged"


def copies_section(schema: Schema, settings: Settings) -> Section:
    """The parts of a run that readers of a public and of a reviewer's copy would see."""
    fields: dict[str, list[str]] = {}
    for entity in schema.types:
        for field in () if entity.name.startswith("db.") else entity.fields:
            is_open = settings.is_shown(entity.name, field.name) or field.kind in _SHOWN_KINDS
            why = settings.why(entity.name, field.name)
            kind = str(why or ("shown" if is_open else Why.TEXT))
            fields.setdefault(kind, []).append(f"{entity.name}.{field.name}")
    withheld = [f"{why}: {_some(fields[why])}" for why in Why if why in fields]
    return Section("Who sees what of a run", (
        Line("public", "A public copy has the verdict, each clause with its truth, and the codes "
             "of findings; no value and no key.", ""),
        Line("reviewer", "A reviewer's copy has this contract too, what was found, and every "
             f"change, with the values of {_some(fields.get('shown', ['no field']))}, and texts "
             "that stand in the contract.", ""),
        Line("auditor", "An auditor's copy alone has keys that the contract does not name, and "
             f"{'; '.join(withheld) or 'nothing else'}.", ""),
    ))  # fmt: skip


def _some(names: Sequence[str]) -> str:
    """The first names, and how many others there are."""
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return f"{', '.join(names[:MAX_NAMED])}{more}"


def _exclusions(box: TypeBox) -> Iterator[str]:
    for field, rule in box.excluded:
        yield f"{box.name}{'.' if field else ''}{field} is not judged: {rule}"


# ---------------------------------------------------------------- text


def _wrap(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """Lines of at most `width`; ids are not cut at their hyphens."""
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )


def as_text(of: Explanation) -> str:
    """Plain text, at most 100 columns, with the boundary as a box."""
    lines = [f"{of.name} {of.version}", f"Owner: {of.owner}", ""]
    lines += _wrap(of.intent, WIDTH)
    if of.inputs:
        given = ", ".join(f"{name} {value}" for name, value in of.inputs)
        lines += ["", *_wrap(f"Given: {given}", WIDTH, rest="  ")]
    for section in of.sections:
        lines += ["", section.heading.upper()]
        for line in section.lines:
            because = f" Because: {line.because}" if line.because else ""
            lines += _wrap(
                f"{line.sentence}{because} [{line.id}]",
                WIDTH,
                first="  ",
                rest="    ",
            )
    if of.rules:
        lines += ["", "DIFFERENCES THAT DO NOT COUNT"]
        for rule in of.rules:
            lines += _wrap(rule, WIDTH, first="  ", rest="    ")
    lines += ["", "THE BOUNDARY", *_boxes(of)]
    return "\n".join(printable(line) for line in lines) + "\n"


def _boxes(of: Explanation) -> Iterator[str]:
    for source in of.sources:
        head = f"─ {source.name}: {source.duty} "
        yield f"┌{head}{'─' * max(WIDTH - 2 - len(head), 0)}┐"
        for box in source.shown:
            if not box.is_inside:
                continue
            marks = "".join(_MARKS[role] for role in box.roles)
            text = f"{marks:3} {box.name}: {roles_line(box)}"
            text += f"  [{', '.join(box.clauses)}]" if box.clauses else ""
            for row in _wrap(text, WIDTH - 4, rest="      "):
                yield f"│ {row:{WIDTH - 4}} │"
        if source.silent:
            text = f"=   {len(source.silent)} others ({_quiet(of)}): {', '.join(source.silent)}"
            for row in _wrap(text, WIDTH - 4, rest="      "):
                yield f"│ {row:{WIDTH - 4}} │"
        if source.quiet:
            row = f"=   and {_kinds(source.quiet)}: {_quiet(of)}"
            yield f"│ {row:{WIDTH - 4}} │"
        yield f"└{'─' * (WIDTH - 2)}┘"
    outside = [text for s in of.sources for box in s.types for text in _exclusions(box)]
    if outside:
        yield "Outside the boundary:"
        for text in outside:
            yield from _wrap(text, WIDTH, first="  ", rest="    ")


def _kinds(number: int) -> str:
    return f"{number} kind{'s' * (number != 1)} of schema object"


def _quiet(of: Explanation) -> str:
    return "shown, not judged" if of.frame_is_open else Role.STILL.value


# ---------------------------------------------------------------- Markdown


def as_markdown(of: Explanation) -> str:
    """Markdown with the boundary as a table for each source."""
    lines = [f"# {_md(of.name)} {_md(of.version)}", "", _md(of.intent), ""]
    lines.append(f"Owner: {_md(of.owner)}. Digest: `{of.digest}`.")
    if of.inputs:
        given = ", ".join(f"{_md(name)} **{_md(value)}**" for name, value in of.inputs)
        lines += ["", f"Given: {given}."]
    for section in of.sections:
        lines += ["", f"## {_md(section.heading)}", ""]
        for line in section.lines:
            because = f" *{_md(line.because)}*" if line.because else ""
            lines.append(f"- {_md(line.sentence)}{because} (`{line.id}`)")
    if of.rules:
        lines += ["", "## Differences that do not count", "", *(f"- {_md(r)}" for r in of.rules)]
    lines += ["", "## The boundary"]
    for source in of.sources:
        lines += ["", f"**{_md(source.name)}** {_md(source.duty)}.", ""]
        if source.types or source.quiet:
            lines += ["| type | what this contract says of it | clauses |", "|---|---|---|"]
        for box in source.shown:
            clauses = ", ".join(f"`{name}`" for name in box.clauses)
            lines.append(f"| {_md(box.name)} | {roles_line(box)} | {clauses} |")
        if source.silent:
            lines.append(f"| {', '.join(map(_md, source.silent))} | {_quiet(of)} | |")
        if source.quiet:
            lines.append(f"| {_kinds(source.quiet)} | {_quiet(of)} | |")
    outside = [text for s in of.sources for box in s.types for text in _exclusions(box)]
    if outside:
        lines += ["", "Outside the boundary:", "", *(f"- {_md(text)}" for text in outside)]
    return "\n".join(lines) + "\n"


def _md(text: str) -> str:
    """Text in which nothing is markup."""
    shown = " ".join(printable(text).split())
    for character in "\\`*_[]<>|#~":
        shown = shown.replace(character, "\\" + character)
    return shown


def as_html(of: Explanation) -> str:
    """One page in the style of the reports, with a legend."""
    from statediff.reports.html.explain import explain_html  # noqa: PLC0415 - the other forms need no templates

    return explain_html(of)


RENDERERS: Final[dict[str, Callable[[Explanation], str]]] = {
    "text": as_text,
    "markdown": as_markdown,
    "html": as_html,
}


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
    """The note that goes with the new version, for anyone who kept results under the old one."""
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
            change.where,
            change.area,
            change.touches.value,
            change.before or "–",
            change.after or "–",
        )
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
    """The same, bounded, for a table's cell."""
    short = " ".join(printable(text).split())
    return _md(short if len(short) <= 300 else short[:299] + "…")
