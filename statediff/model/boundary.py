"""Ω, the observation boundary: everything the sources deliver, except what is named here.

Excluding is a statement about judging, not about capturing: an excluded value is captured, kept
and shown, with the rule and the reason that exclude it [SSD §III, Table I].
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from statediff.model.schema import EntityType, Field, Kind, Schema


class RuleError(ValueError):
    """The rule at `index` of its section (`exclude`, `canonicalize`) cannot be applied."""

    def __init__(self, index: int, message: str) -> None:
        self.index = index
        self.message = message
        super().__init__(message)


class Boundary:
    """Ω over one schema, from ("TYPE" or "TYPE.FIELD", reason) pairs in the contract's order.

    Types that their source puts outside (`EntityType.outside`) are outside, unless they are among
    `includes`. Raises `RuleError` for a type or field the schema does not have, for a missing
    reason, and for a place that is excluded twice.
    """

    def __init__(
        self, schema: Schema, excludes: Iterable[tuple[str, str]] = (), includes: Iterable[str] = ()
    ) -> None:
        self._types: dict[str, str] = {}
        self._fields: dict[tuple[str, str], str] = {}
        inside = frozenset(includes)
        defaults = {
            t.name: f"default: {t.name} ({t.outside})"
            for t in schema.types
            if t.outside is not None and t.name not in inside
        }
        for index, (what, because) in enumerate(excludes):
            entity_type, field = locate(schema, what, index)
            if not because.strip():
                raise RuleError(index, f"{what} is excluded without a reason; add `because:`")
            if self.excludes(entity_type.name, field.name if field else "") is not None:
                raise RuleError(index, f"{what} is already excluded; remove one of the two")
            rule = f"exclude: {what} ({because})"
            if field is None:
                self._types[entity_type.name] = rule
            else:
                self._fields[entity_type.name, field.name] = rule
        self._types = defaults | self._types

    def excludes(self, type_name: str, path: str = "") -> str | None:
        """The rule, with its reason, that puts the field outside Ω; None when it is inside.

        An empty `path` asks whether the whole type is outside.
        """
        whole = self._types.get(type_name)
        return whole if whole is not None else self._fields.get((type_name, path))


def included(schema: Schema, what: Iterable[str]) -> tuple[str, ...]:
    """The types that a contract puts back inside Ω. Raises `RuleError` for any other place."""
    names = tuple(what)
    for index, name in enumerate(names):
        entity_type, field = locate(schema, name, index)
        if field is not None or entity_type.outside is None:
            others = [t.name for t in schema.types if t.outside is not None]
            listed = ", ".join(others) or "no type"
            raise RuleError(index, f"{name} is not outside by default; here {listed} is")
    return names


def locate(schema: Schema, what: str, index: int) -> tuple[EntityType, Field | None]:
    """The type, or the field of a type, that `what` names; type names may contain dots.

    Raises `RuleError` for rule `index`, with the nearest name that exists.
    """
    if what in schema.by_name:
        return schema.by_name[what], None
    type_name, _, field_name = what.rpartition(".")
    if type_name in schema.by_name:
        entity_type = schema.by_name[type_name]
        field = entity_type.by_name.get(field_name)
        if field is not None:
            return entity_type, field
        if entity_type.is_open:
            return entity_type, Field(field_name, Kind.ANY)
        meant = did_you_mean(field_name, entity_type.by_name)
        raise RuleError(index, f"{type_name} has no field {field_name!r}{meant}")
    unknown = type_name or what
    meant = did_you_mean(unknown, schema.by_name)
    raise RuleError(index, f"the state schema has no type {unknown!r}{meant}")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean …?` with the nearest known name, else the names there are, else nothing."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    if not names:
        return ""
    return "; there are " + ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
