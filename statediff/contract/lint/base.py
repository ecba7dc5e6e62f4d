"""Remarks on a required change by the base state: it means nothing, or all of it is there.

Entities are looked up one by one. A type with more than `MAX_ENTITIES` is passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from statediff.contract.clauses.patterns import Pattern
from statediff.contract.evaluation.evaluate import outcomes
from statediff.contract.language.context import TRUE, EntityRef, EvalContext, Unknown
from statediff.contract.language.syntax import Compare, EntityT, FieldOf, Node, ScalarT, Variable
from statediff.contract.lint.subject import MAX_ENTITIES, Subject
from statediff.errors import Problem
from statediff.model.delta import Op
from statediff.model.paths import FieldPath
from statediff.model.trace import NoAnswer
from statediff.model.values import show
from statediff.model.verdict import Stage

_SHOWN: Final = 3
_OLD: Final = frozenset({Op.UPDATE, Op.DELETE, Op.UNLINK})
_COME: Final = frozenset({Op.CREATE, Op.LINK})
_NEW: Final = Unknown(frozenset({"not yet"}), maybe_undefined=True)
"""The version after of an entity that no run has touched."""


def equals(variable: str, type_name: str, path: FieldPath, node: Node) -> Compare:
    """The condition that a place of an entity equals what `set` or `from` says."""
    entity = Variable(EntityT(type_name), 0, variable)
    held = FieldOf(ScalarT(None), 0, entity, type_name, path.field, True, path.place)
    return Compare(node.type, 0, "==", held, node, "")


def of_the_base(subject: Subject, clause: Pattern) -> Iterator[Problem]:
    """A required change that no entity of the base state is meant by, or that is there already."""
    if subject.base is None or clause.section is not Stage.REQUIRE or not clause.operations <= _OLD:
        return
    if clause.low == 0 and not clause.is_every:
        return
    if _means_nothing(subject, clause):
        yield subject.remark(
            "matches-nothing",
            (*subject.path(clause.id), "where"),
            f"no {' or '.join(clause.types)} of the base state is meant by `where`",
        )
    elif there := already_there(subject, clause):
        yield subject.remark(
            "already-there", subject.path(clause.id), f"`{clause.id}` requires what is so: {there}"
        )


def _means_nothing(subject: Subject, clause: Pattern) -> bool:
    """True if no entity of the base state satisfies `where`; False where that is not known."""
    for name in clause.types:
        if clause.where.get(name) is None or subject.contract.schema.by_name[name].is_keyless:
            return False
        if next(_Look(subject, clause).meant(name), None) is not None:
            return False
    return True


def already_there(subject: Subject, clause: Pattern) -> str:
    """The entities of the base state that are as a required change must leave them, in words.

    Empty where an entity that an update means is not so, and where it is not known. Of a creation
    so many must be there as are required.
    """
    is_new = clause.operations <= _COME
    if clause.section is not Stage.REQUIRE or not (is_new or clause.operations <= {Op.UPDATE}):
        return ""
    look, found = _Look(subject, clause), list[str]()
    for name in clause.types:
        wanted = [equals("new", name, path, node) for path, node in clause.sets.get(name, ())]
        if not wanted and (not is_new or clause.where.get(name) is None):
            return ""
        for it in look.meant(name, is_new=is_new):
            if isinstance(it, Unknown):
                return ""
            if look.mask(wanted, it, it) == TRUE:
                found.append(f"{name} {', '.join(map(show, it.key))}".strip())
            elif not is_new:
                return ""
    if len(found) < max(clause.low, 1):
        return ""
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + more


class _Look:
    """Conditions of one clause, asked of the entities of the base state."""

    def __init__(self, subject: Subject, clause: Pattern) -> None:
        self._base = subject.base
        self._where = clause.where
        self._fields = _fields(subject, clause)

    def meant(self, name: str, *, is_new: bool = False) -> Iterator[EntityRef | Unknown]:
        """Each entity that `where` may mean; Unknown, last, where that is not known.

        With `is_new` those that it would mean if the run had created them.
        """
        if self._base is None:
            return
        where = self._where.get(name)
        asked = [] if where is None else [where]
        for number, (key, row) in enumerate(self._base.rows(name, self._fields[name])):
            it = EntityRef("before", name, key, row)
            mask = self.mask(asked, it, it if is_new else _NEW)
            if number > MAX_ENTITIES or mask is None:
                yield _NEW
                return
            if mask == TRUE or (mask & TRUE and not is_new):
                yield it

    def mask(self, asked: Iterable[Node], it: EntityRef, new: EntityRef | Unknown) -> int | None:
        """What the conditions may be of one entity; None where they cannot be evaluated."""
        base, mask = self._base, TRUE
        if base is None:
            return None
        context = EvalContext(
            base, base, NoAnswer("none"), fields_of=lambda name: self._fields.get(name, ())
        )
        try:
            for node in asked:
                found = outcomes(node, context, {"it": it, "new": new})
                if not found & TRUE:
                    return found
                mask |= found
        except KeyError:
            return None
        return mask


def _fields(subject: Subject, clause: Pattern) -> dict[str, tuple[str, ...]]:
    """Per type, its key and whatever the clause reads of it."""
    read: dict[str, dict[str, None]] = {}
    for entity in subject.contract.schema.types:
        if entity.name in clause.types or any(r.type == entity.name for r in clause.reads):
            names = sorted(r.field for r in clause.reads if r.type == entity.name)
            wanted = (*entity.key, *(n for n in names if n in entity.by_name))
            read[entity.name] = dict.fromkeys(wanted)
    return {name: tuple(held) for name, held in read.items()}
