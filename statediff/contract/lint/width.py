"""Checks of what a contract lets through: too wide, contradictory, unauthorized."""

from __future__ import annotations

from collections.abc import Iterator

from statediff.contract.binding.bound import Effect, Pattern
from statediff.contract.language.syntax import Node
from statediff.contract.language.written import UNSAID, conjuncts, written
from statediff.contract.lint.facts import clash, conditions, facts
from statediff.contract.lint.subject import Subject, branch_of
from statediff.errors import Problem
from statediff.model.delta import Label, Op, default_label
from statediff.model.verdict import Stage

_VERB = {
    Op.CREATE: "create", Op.LINK: "create", Op.UPDATE: "update", Op.DELETE: "delete",
    Op.UNLINK: "delete",
}  # fmt: skip


def width(subject: Subject) -> Iterator[Problem]:
    """What is let through that its author may not have meant."""
    patterns = tuple(subject.patterns())
    explaining = [p for p in patterns if p.section is not Stage.FORBID]
    for pattern in explaining:
        yield from _too_much(subject, pattern)
        yield from _authorization(subject, pattern)
    for forbidden in (p for p in patterns if p.section is Stage.FORBID):
        for pattern in explaining:
            branches = {branch_of(forbidden.id), branch_of(pattern.id)} - {""}
            if len(branches) < 2:  # what one branch forbids another may require
                yield from _overlap(subject, forbidden, pattern)


def _too_much(subject: Subject, pattern: Pattern) -> Iterator[Problem]:
    """A pattern that explains every change of its kind, whatever entity and field it concerns."""
    if pattern.section is Stage.REQUIRE and pattern.high is not None:
        return  # it explains so many and no more
    for name in pattern.types:
        if conditions(pattern, name):
            return
    if pattern.operations <= {Op.CREATE, Op.LINK} and pattern.high is not None:
        return
    if pattern.high is not None and pattern.fields is not None:
        return
    written_ = subject.written(pattern.id)
    verb = next((op for op in ("any", *_VERB.values(), "link", "unlink") if op in written_), "any")
    kind = "change" if verb == "any" else verb
    only = f" in {', '.join(pattern.fields)}" if pattern.fields else ""
    bound = " and a `count`" if pattern.operations <= {Op.CREATE, Op.LINK} else ""
    yield subject.remark(
        "explains-too-much", subject.path(pattern.id),
        f"`{pattern.id}` explains every {kind} of {' or '.join(pattern.types)}{only}",
        f"say which entities are meant: `where: it.KEY == input.NAME`{bound}",
    )  # fmt: skip


def _authorization(subject: Subject, pattern: Pattern) -> Iterator[Problem]:
    rules = [clause for clause in subject.clauses() if isinstance(clause, Effect)]
    bounded = pattern.section is Stage.REQUIRE and pattern.high is not None and not pattern.is_every
    for name in pattern.types:
        entity = subject.contract.schema.by_name[name]
        for op in sorted(pattern.operations, key=lambda o: o.value):
            if (op in (Op.LINK, Op.UNLINK)) != entity.is_association and op is not Op.UPDATE:
                continue
            own = [r for r in rules if r.type == name and op in r.operations]
            labels = [r.label for r in own if r.label is not None]
            label = max(labels, key=list(Label).index) if labels else default_label(op, name)
            if label is not Label.IRREVERSIBLE or any(r.authorized_by is not None for r in own):
                continue
            what = f"{_VERB[op]} {name}"
            path = subject.path(pattern.id)
            # The contract itself orders so many, so it is enough that the author says so.
            if bounded and not own:
                yield subject.remark(
                    "unstated-effect", path,
                    f"`{pattern.id}` requires `{what}`, which cannot be undone, and nothing is "
                    "said about that",
                    f"add `- on: {what}` with `reversibility: irreversible` under `effects`",
                )  # fmt: skip
            elif not bounded:
                yield subject.remark(
                    "unauthorized", path,
                    f"`{pattern.id}` lets `{what}` happen, which cannot be undone, without asking "
                    "for an authorization",
                    f"add `- on: {what}` with `authorized_by:` under `effects`",
                )  # fmt: skip


def _overlap(subject: Subject, forbidden: Pattern, other: Pattern) -> Iterator[Problem]:
    types = [t for t in other.types if t in forbidden.types]
    operations = forbidden.operations & other.operations
    if not types or not operations or (forbidden.by and other.by and forbidden.by != other.by):
        return
    a, b = forbidden.fields, other.fields
    if Op.UPDATE in operations and a is not None and b is not None and not set(a) & set(b):
        operations -= {Op.UPDATE}
    if not operations or all(_disjoint(forbidden, other, name) for name in types):
        return
    path = subject.path(other.id)
    verb = "allows" if other.section is None else "requires"
    if _covers(forbidden, other):
        yield subject.remark(
            "contradiction", path,
            f"whatever `{other.id}` {verb}, `{forbidden.id}` forbids",
        )  # fmt: skip
    elif other.section is None:
        yield subject.remark(
            "allow-forbid-overlap", path,
            f"`{other.id}` and `{forbidden.id}` can mean the same change of {types[0]}",
            _apart(forbidden, types[0]),
        )  # fmt: skip


def _disjoint(a: Pattern, b: Pattern, name: str) -> bool:
    if any(clash(x, y) for x in facts(a, name) for y in facts(b, name)):
        return True
    one, two = _texts(conditions(a, name)), _texts(conditions(b, name))
    return any(f"not {text}" in two or f"not ({text})" in two for text in one) or any(
        f"not {text}" in one or f"not ({text})" in one for text in two
    )


def _covers(forbidden: Pattern, other: Pattern) -> bool:
    """Whether every change the other pattern means is one that is forbidden, by what is written."""
    if not (
        set(other.types) <= set(forbidden.types)
        and other.operations <= forbidden.operations
        and forbidden.low <= 1
        and forbidden.by in (None, other.by)
        and (forbidden.fields is None or set(other.fields or ("",)) <= set(forbidden.fields))
    ):
        return False
    for name in other.types:
        that = forbidden.that.get(name)
        asked = conditions(forbidden, name)
        if that is not None and that not in asked and not set(conjuncts(that)) <= set(asked):
            return False
        mine, its = _texts(asked), _texts(conditions(other, name))
        if any(UNSAID in text for text in mine) or not mine <= its:
            return False
    return True


def _texts(nodes: tuple[Node, ...]) -> frozenset[str]:
    return frozenset(written(node) for node in nodes)


def _apart(forbidden: Pattern, name: str) -> str:
    asked = " and ".join(sorted(_texts(conditions(forbidden, name))))
    if not asked or UNSAID in asked:
        return "narrow the forbid clause, or name what it forbids in the allow clause's `where`"
    return f"add `not ({asked})` to the allow clause's `where`"
