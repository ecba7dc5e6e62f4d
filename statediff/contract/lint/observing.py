"""Checks of what can be seen: by which source, when and under which ν, by whom under `access`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from statediff.contract.clauses.patterns import Pattern
from statediff.contract.clauses.visibility import ACCESS, BoundAccess, Holding, Shelf
from statediff.contract.language.context import TRUE
from statediff.contract.language.kinds import suggest
from statediff.contract.language.syntax import (
    Canonical,
    Compare,
    Const,
    FieldOf,
    Node,
    walk,
)
from statediff.contract.language.written import text_of
from statediff.contract.lint.base import NEW, Look
from statediff.contract.lint.subject import MAX_ENTITIES, Expression, Subject
from statediff.contract.yaml.reader import NodePath
from statediff.errors import Problem
from statediff.model.paths import render


def reading(subject: Subject) -> Iterator[Problem]:
    """Mistakes of a visibility cone, or of clauses on what must be read within it."""
    access = subject.contract.access
    if access is None:
        return
    yield from _seeing(subject, access)
    places: list[tuple[NodePath, Shelf]] = []
    for search in access.searches:
        path = subject.path(search.id)
        places += (((*path, "in", i), shelf) for i, shelf in enumerate(search.space))
    places += ((subject.path(needed.id), needed.shelf) for needed in access.needed)
    for path, shelf in places:
        yield from _reachable(subject, access, path, shelf)


def _seeing(subject: Subject, access: BoundAccess) -> Iterator[Problem]:
    names = [holding.name for holding in access.holdings]
    if not access.sees:
        message = f"`{access.actor}` may read no subsystem there is"
        yield subject.remark("sees-nothing", (ACCESS, "allow"), message)
    for index, name in enumerate(access.allowed):
        if name not in names:
            yield subject.remark(
                "unknown-subsystem",
                (ACCESS, "allow", index),
                f"there is no subsystem `{name}`; nothing is granted",
                suggest(name, names),
            )


def _reachable(
    subject: Subject, access: BoundAccess, path: NodePath, shelf: Shelf
) -> Iterator[Problem]:
    holding = access.holding(shelf.subsystem)
    if holding is None:
        return
    if shelf.subsystem not in access.sees and holding.authorized_by is None:
        yield subject.remark(
            "unreachable-evidence",
            path,
            f"`{access.actor}` may not read `{shelf.subsystem}`, so nobody could look there",
        )
    elif _is_empty(subject, holding, shelf):
        yield subject.remark(
            "empty-shelf", path, f"the base state has nothing like that in `{shelf.subsystem}`"
        )


def _is_empty(subject: Subject, holding: Holding, shelf: Shelf) -> bool:
    """True if no entity of the base state is meant, for certain."""
    base = subject.base
    if base is None or not base.enumeration(holding.type).is_complete:
        return False
    conditions = [node for node in (holding.where, shelf.where) if node is not None]
    look = Look(subject, (holding.type,), shelf.footprint)
    for number, it in enumerate(look.entities(holding.type)):
        mask = look.mask(conditions, it, NEW)
        if number > MAX_ENTITIES or mask is None or mask & TRUE:
            return False
    return True


_OPAQUE: Final = "opaque@"
_HISTORY: Final = ("always", "effect")
"""Keys of clauses that look between the ends of a run."""


def observing(subject: Subject) -> Iterator[Problem]:
    """Clauses about what no source delivers, and about fields of which ν leaves nothing."""
    yield from _sources(subject)
    yield from _history(subject)
    yield from _opaque(subject)


def _sources(subject: Subject) -> Iterator[Problem]:
    schema = subject.contract.schema
    there = tuple(source for source, _ in schema.sources)
    listed = [rule.source for rule in subject.contract.evidence]
    if subject.base is not None:
        for source in listed:
            if source not in there:
                yield subject.remark(
                    "unknown-source",
                    ("evidence", source),
                    f"`{source}` must report before and after the run, and nothing at hand reads "
                    "it: every trial would be INCONCLUSIVE",
                    suggest(source, there) or f"there are: {', '.join(there)}",
                )
    if not listed:
        return
    said: set[str] = set()
    for clause in subject.clauses():
        for name in sorted({read.type for read in clause.reads if read.type}):
            sources = schema.sources_of(name)
            if not sources or set(sources) & set(listed) or sources[0] in said:
                continue
            said.add(sources[0])
            yield subject.remark(
                "unlisted-source",
                subject.path(clause.id),
                f"`{clause.id}` reads {name} from {sources[0]}, which need not report before or "
                "after the run",
                f"add `{sources[0]}: {{max_age: …}}` under `evidence`",
            )


def _history(subject: Subject) -> Iterator[Problem]:
    schema = subject.contract.schema
    for clause in subject.clauses():
        written_ = subject.written(clause.id)
        asks = getattr(clause, "during_run", False) or any(k in written_ for k in _HISTORY)
        attributed = isinstance(clause, Pattern) and clause.by is not None
        if not asks and not attributed:
            continue
        types = sorted({read.type for read in clause.reads if read.type})
        sources = sorted({source for name in types for source in schema.sources_of(name)})
        # A history tells what was committed, not by whom: it attributes nothing to a principal.
        without = [s for s in sources if attributed or s not in subject.histories]
        if without:
            key = next((k for k in (*_HISTORY, "during") if k in written_), "by")
            need = "what happened between" if asks else "who made each change in between"
            yield subject.remark(
                "no-history",
                (*subject.path(clause.id), key),
                f"`{clause.id}` needs {need}; {', '.join(without)} does not tell that",
            )
    for rule in subject.contract.evidence:
        if rule.needs_history and rule.source not in subject.histories:
            yield subject.remark(
                "no-history",
                ("evidence", rule.source, "history"),
                f"{rule.source} is read before and after the run only",
            )


def _opaque(subject: Subject) -> Iterator[Problem]:
    """`opaque@1` makes all values of a field equal, so a comparison with one says nothing."""
    hidden = {
        place
        for rule in subject.contract.document.canonicalize
        if rule.use.startswith(_OPAQUE)
        for target in rule.on
        for place in ((target,) if isinstance(target, str) else target)
    }
    if not hidden:
        return
    for expression in subject.expressions():
        for part in walk(expression.node):
            for field in _fields_compared_in(part):
                if f"{field.entity_type}.{render(field.field, field.part)}" in hidden:
                    yield _blind(subject, expression, field)
    for pattern in subject.patterns():
        for name in pattern.types:
            for index, field_name in enumerate(pattern.fields or ()):
                if f"{name}.{field_name}" in hidden:
                    yield subject.remark(
                        "opaque-comparison",
                        (*subject.path(pattern.id), "fields", index),
                        f"changes of {name}.{field_name} from one value to another are not seen",
                    )


def _blind(subject: Subject, expression: Expression, field: FieldOf) -> Problem:
    return subject.remark(
        "opaque-comparison",
        expression.path,
        f"`{text_of(field)}` equals any value under `canonicalize`, so the comparison says nothing",
        offset=field.offset,
    )


def _fields_compared_in(node: Node) -> Iterator[FieldOf]:
    if not isinstance(node, Compare):
        return
    sides = [n.child if isinstance(n, Canonical) else n for n in (node.left, node.right)]
    if not any(isinstance(side, Const) and side.value is None for side in sides):
        yield from (side for side in sides if isinstance(side, FieldOf))
