"""Λ: what is let through without authorization, labelled too lightly, or undone by no real tool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from statediff.contract.binding.bound import RISK
from statediff.contract.clauses.effects import BoundEffect, Computed, Undoing
from statediff.contract.clauses.patterns import Pattern
from statediff.contract.language.syntax import footprint
from statediff.contract.lint.subject import Subject
from statediff.contract.yaml.shape import did_you_mean
from statediff.errors import Problem
from statediff.model.delta import Label, Op, default_label
from statediff.model.schema import EntityType, Purpose
from statediff.model.verdict import Stage

_WIDENING: Final = frozenset({Op.CREATE, Op.LINK, Op.UPDATE})
"""Changes by which somebody may do more than before."""
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "boolean": (bool,),
    "array": (tuple,),
    "object": (Mapping,),
}
"""JSON Schema's name of a type → what a bound argument of it is."""


def risk(subject: Subject) -> Iterator[Problem]:
    """Findings about the effects that the contract lets happen."""
    rules = [clause for clause in subject.clauses() if isinstance(clause, BoundEffect)]
    for pattern in subject.patterns():
        if pattern.section is not Stage.FORBID:
            yield from _privileges(subject, rules, pattern)
            yield from _authorization(subject, rules, pattern)
    for rule in rules:
        yield from _label(subject, rule)
        yield from _compensation(subject, rule)


def _can_happen(op: Op, entity: EntityType) -> bool:
    return (op in (Op.LINK, Op.UNLINK)) == entity.is_association or op is Op.UPDATE


def _let_through(
    subject: Subject, rules: list[BoundEffect], pattern: Pattern
) -> Iterator[tuple[Op, EntityType, list[BoundEffect]]]:
    """Each operation on each type that the pattern lets happen, and what is said of it."""
    for name in pattern.types:
        entity = subject.contract.schema.by_name[name]
        for op in sorted(pattern.operations, key=lambda o: o.value):
            if _can_happen(op, entity):
                yield op, entity, [r for r in rules if r.type == name and op in r.operations]


def _privileges(subject: Subject, rules: list[BoundEffect], pattern: Pattern) -> Iterator[Problem]:
    """A change of permissions needs authorization evidence, and somebody in whose name it is."""
    for op, entity, own in _let_through(subject, rules, pattern):
        if entity.purpose is not Purpose.PERMISSIONS or op not in _WIDENING:
            continue
        lacks = [] if any(map(_rests_on_evidence, own)) else ["`authorized_by:`"]
        if pattern.by is None and all(r.actor is None for r in own):
            lacks.append("`actor:`")
        if not lacks:
            continue
        what = f"{op.value} {entity.name}"
        yield subject.remark(
            "unauthorized-privilege",
            subject.path(pattern.id),
            f"`{pattern.id}` lets `{what}` happen, a change of permissions, and no effect has "
            f"{' and '.join(lacks)} for it",
            f"add `- on: {what}` under `effects` with {' and '.join(lacks)}; what authorizes "
            "it is something else in the state, such as an approval from before the run",
        )


def _rests_on_evidence(rule: BoundEffect) -> bool:
    """True if the authorization reads more than what it authorizes."""
    node = rule.authorized_by
    states = ("before", "after")
    return node is not None and any(
        read.root in states and read.type != rule.type for read in footprint(node)
    )


def _authorization(
    subject: Subject, rules: list[BoundEffect], pattern: Pattern
) -> Iterator[Problem]:
    bounded = pattern.section is Stage.REQUIRE and pattern.high is not None and not pattern.is_every
    for op, entity, own in _let_through(subject, rules, pattern):
        labels = [r.label for r in own if r.label is not None]
        label = max(labels, key=RISK.index, default=default_label(op, entity.purpose))
        if label is not Label.IRREVERSIBLE or any(r.authorized_by is not None for r in own):
            continue
        if entity.purpose is Purpose.PERMISSIONS and op in _WIDENING:
            continue  # `_privileges` refuses it
        what, path = f"{op.value} {entity.name}", subject.path(pattern.id)
        # The contract itself orders so many, so it is enough that the author says so.
        if bounded and not own:
            yield subject.remark(
                "unstated-effect",
                path,
                f"`{pattern.id}` requires `{what}`, which cannot be undone, and nothing is "
                "said about that",
                f"add `- on: {what}` with `reversibility: irreversible` under `effects`",
            )
        elif not bounded:
            yield subject.remark(
                "unauthorized",
                path,
                f"`{pattern.id}` lets `{what}` happen, which cannot be undone, without asking "
                "for an authorization",
                f"add `- on: {what}` with `authorized_by:` under `effects`",
            )


def _label(subject: Subject, rule: BoundEffect) -> Iterator[Problem]:
    entity = subject.contract.schema.by_name[rule.type]
    if rule.label is None or subject.written(rule.id).get("because") is not None:
        return
    defaults = [
        default_label(op, entity.purpose) for op in rule.operations if _can_happen(op, entity)
    ]
    default = max(defaults, key=RISK.index, default=rule.label)
    if RISK.index(rule.label) < RISK.index(default):
        yield subject.remark(
            "label-below-default",
            (*subject.path(rule.id), "reversibility"),
            f"`{rule.id.removeprefix('authorized-')}` counts as {rule.label.value}; such a change "
            f"is {default.value} unless there is a reason",
        )


def _compensation(subject: Subject, rule: BoundEffect) -> Iterator[Problem]:
    tools, tool = subject.tools, rule.compensation
    if tools is None or tool is None:
        return
    path = (*subject.path(rule.id), "compensation")
    if tool not in tools:
        known = ", ".join(sorted(tools)) or "no tool"
        yield subject.remark(
            "unknown-tool",
            path if rule.undoing is None else (*path, "tool"),
            f"the sandbox offers no tool `{tool}`",
            did_you_mean(tool, tuple(tools)) or f"it offers {known}; else leave it out",
        )
    elif rule.undoing is None:
        yield subject.remark(
            "compensation-arguments",
            path,
            f"`{tool}` is named without its arguments, so nothing can run it",
        )
    else:
        yield from _arguments(subject, (*path, "arguments"), rule.undoing, tools[tool])


def _arguments(
    subject: Subject, path: tuple[str | int, ...], undoing: Undoing, schema: Mapping[str, Any]
) -> Iterator[Problem]:
    known: Mapping[str, Any] = schema.get("properties", {})
    missing = [name for name in schema.get("required", ()) if name not in undoing.arguments]
    if missing:
        yield subject.remark(
            "compensation-arguments",
            path[:-1],
            f"`{undoing.tool}` needs {', '.join(f'`{name}`' for name in missing)}",
        )
    for name, value in undoing.arguments.items():
        wanted = _TYPES.get(str(known.get(name, {}).get("type")), ())
        is_wrong = bool(wanted) and not isinstance(value, (Computed, *wanted))
        is_wrong = is_wrong or (isinstance(value, bool) and wanted == (int,))
        if name not in known or is_wrong:
            problem = "takes no" if name not in known else "takes another kind of"
            yield subject.remark(
                "compensation-arguments",
                (*path, name),
                f"`{undoing.tool}` {problem} `{name}`",
                did_you_mean(name, tuple(known)) if name not in known else "",
            )
