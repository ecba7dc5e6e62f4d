"""Remarks on a required change by the base state: it means nothing, or all of it is there.

Entities are looked up one by one. A type with more than `MAX_ENTITIES` is passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from statediff.contract.clauses.patterns import Pattern
from statediff.contract.evaluation.evaluate import outcomes
from statediff.contract.language.context import TRUE, EntityRef, EvalContext, Unknown
from statediff.contract.language.syntax import (
    Compare,
    EntityT,
    FieldOf,
    Node,
    Read,
    ScalarT,
    Variable,
)
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
NEW: Final = Unknown(frozenset({"not yet"}), maybe_undefined=True)
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
        if next(_meant(Look(subject, clause.types, clause.reads), clause, name), None) is not None:
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
    look, found = Look(subject, clause.types, clause.reads), list[str]()
    for name in clause.types:
        set_ = [pin for pin in clause.pins.get(name, ()) if pin.key == "set"]
        wanted = [equals("new", name, pin.path, pin.node) for pin in set_]
        if not wanted and (not is_new or clause.where.get(name) is None):
            return ""
        for it in _meant(look, clause, name, is_new=is_new):
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


def _meant(
    look: Look, clause: Pattern, name: str, *, is_new: bool = False
) -> Iterator[EntityRef | Unknown]:
    """Each entity that `where` may mean; Unknown, last, where that is not known.

    With `is_new` those that it would mean if the run had created them.
    """
    where = clause.where.get(name)
    for number, it in enumerate(look.entities(name)):
        mask = look.mask([] if where is None else [where], it, it if is_new else NEW)
        if number > MAX_ENTITIES or mask is None:
            yield NEW
            return
        if mask == TRUE or (mask & TRUE and not is_new):
            yield it


class Look:
    """Conditions that read so much, asked of the entities of the base state; of none without it."""

    def __init__(self, subject: Subject, types: Iterable[str], reads: frozenset[Read]) -> None:
        self._base, self._fields = subject.base, dict[str, tuple[str, ...]]()
        for entity in subject.contract.schema.types:
            names = sorted(read.field for read in reads if read.type == entity.name)
            if names or entity.name in types:
                wanted = (*entity.key, *(name for name in names if name in entity.by_name))
                self._fields[entity.name] = tuple(dict.fromkeys(wanted))

    def entities(self, name: str) -> Iterator[EntityRef]:
        """The entities of a type."""
        for key, row in self._base.rows(name, self._fields[name]) if self._base else ():
            yield EntityRef("before", name, key, row)

    def mask(self, asked: Iterable[Node], it: EntityRef, new: EntityRef | Unknown) -> int | None:
        """The outcomes that the conditions may have of one entity; None where unknown."""
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
