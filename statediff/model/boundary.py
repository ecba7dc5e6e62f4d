"""Ω, the observation boundary: everything the sources deliver, except what is named here.

Excluding is a statement about judging, not about capturing: an excluded value is captured, kept
and shown, with the rule and the reason that exclude it [SSD §III, Table I]. A place inside a value
may be excluded as a field may.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator

from statediff.model.paths import PathError, Selection, parse, selects
from statediff.model.schema import NESTED, EntityType, Field, Kind, Schema


class RuleError(ValueError):
    """The rule at `index` of its section (`exclude`, `canonicalize`) cannot be applied."""

    def __init__(self, index: int, message: str) -> None:
        self.index = index
        self.message = message
        super().__init__(message)


class Boundary:
    """Ω over one schema, from ("TYPE" or "TYPE.PATH", reason) pairs in the contract's order.

    Types that their source puts outside (`EntityType.outside`) are outside. Raises `RuleError` for
    a type or field the schema does not have, for a missing reason, and for a place that is excluded
    twice.
    """

    def __init__(self, schema: Schema, excludes: Iterable[tuple[str, str]] = ()) -> None:
        self._types: dict[str, str] = {}
        self._fields: dict[str, dict[str, str]] = {}
        defaults = {
            t.name: f"default: {t.name} ({t.outside})"
            for t in schema.types
            if t.outside is not None
        }
        self._inside: dict[tuple[str, str], list[tuple[int, Selection, str]]] = {}
        for index, (what, because) in enumerate(excludes):
            entity_type, field, steps = locate(schema, what, index)
            place = (entity_type.name, field.name if field else "")
            if not because.strip():
                raise RuleError(index, f"{what} is excluded without a reason; add `because:`")
            inside = (selects(earlier, steps) for _, earlier, _ in self._inside.get(place, ()))
            if self.excludes(*place) is not None or (steps and any(inside)):
                raise RuleError(index, f"{what} is already excluded; remove one of the two")
            rule = f"exclude: {what} ({because})"
            if field is None:
                self._types[entity_type.name] = rule
            elif steps:
                self._inside.setdefault(place, []).append((index, steps, rule))
            else:
                self._fields.setdefault(entity_type.name, {})[field.name] = rule
        self._types = defaults | self._types
        self.unread: frozenset[tuple[str, str]] = frozenset()
        """(type, field), or (type, ""): what nobody read of these is no part of the verdict."""

    def leave_unread(self, schema: Schema, unread: Iterable[str]) -> None:
        """Count from now on only those of these types and fields that are read.

        Raises `RuleError` for what the schema does not have, and for what is excluded.
        """
        places = []
        for index, what in enumerate(unread):
            entity_type, field, steps = locate(schema, what, index)
            place = (entity_type.name, "" if field is None else field.name)
            if steps:
                raise RuleError(index, f"{what} lies inside a value; name its field")
            if self.excludes(*place) is not None:
                raise RuleError(index, f"{what} is excluded; remove one of the two")
            places.append(place)
        self.unread = frozenset(places)

    def is_unread(self, type_name: str, path: str = "") -> bool:
        """True if what nobody read of the type, or of the field, is no part of the verdict."""
        return not self.unread.isdisjoint({(type_name, ""), (type_name, path)})

    def excludes(self, type_name: str, path: str = "") -> str | None:
        """The rule, with its reason, that puts the field outside Ω; None when it is inside.

        An empty `path` asks whether the whole type is outside.
        """
        whole = self._types.get(type_name)
        return whole if whole is not None else self._fields.get(type_name, {}).get(path)

    def excluded(self, type_name: str, fields: Iterable[str]) -> dict[str, str]:
        """Those of the fields that are outside Ω, with the rule of each."""
        whole, own = self._types.get(type_name), self._fields.get(type_name, {})
        if whole is not None:
            return dict.fromkeys(fields, whole)
        return {name: own[name] for name in fields if name in own}

    def inside(self, type_name: str, field_name: str) -> tuple[tuple[Selection, str], ...]:
        """The selections outside Ω inside the field's values, with the rule of each."""
        found = self._inside.get((type_name, field_name), ())
        return tuple((steps, rule) for _, steps, rule in found)

    @property
    def paths(self) -> Iterator[tuple[int, str, str, Selection]]:
        """(index of the rule, type, field, steps) of each place inside a value."""
        for (type_name, field), found in self._inside.items():
            yield from ((index, type_name, field, steps) for index, steps, _ in found)


def locate(schema: Schema, what: str, index: int) -> tuple[EntityType, Field | None, Selection]:
    """The type, the field of a type or the place inside one that `what` names.

    Names of types may contain dots: of several readings the longest type wins, then the longest
    field; a type that only the state after has comes last. Raises `RuleError` for rule `index`,
    with the nearest name that exists.
    """
    types = [t for t in schema.types if t.name == what or what.startswith(f"{t.name}.")]
    problems: list[str] = []
    for entity_type in sorted(types, key=lambda t: (t.is_late, -len(t.name))):
        if entity_type.name == what:
            return entity_type, None, ()
        try:
            return entity_type, *_inside(entity_type, what[len(entity_type.name) + 1 :])
        except PathError as error:
            problems.append(str(error))
    if problems:
        raise RuleError(index, problems[0])
    unknown = what.rpartition(".")[0] or what
    meant = did_you_mean(unknown, schema.by_name)
    raise RuleError(index, f"the state schema has no type {unknown!r}{meant}")


def _inside(entity_type: EntityType, text: str) -> tuple[Field, Selection]:
    """The field and the way inside it; `PathError` where the type has no such place."""
    path = parse(text, entity_type.by_name, entity_type.late)
    field = entity_type.by_name.get(path.field)
    if field is None and entity_type.is_open:
        field = Field(path.field, Kind.ANY)
    if field is None:
        meant = did_you_mean(path.field, entity_type.by_name)
        raise PathError(f"{entity_type.name} has no field {path.field!r}{meant}")
    if path.steps and field.kind not in NESTED:
        raise PathError(
            f"{entity_type.name}.{field.name} is of kind {field.kind.value}: there is nothing "
            "inside it; say `type: json` in the state schema if it holds JSON"
        )
    return field, path.steps


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean …?` with the nearest known name, else the names there are, else nothing."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    if not names:
        return ""
    return "; there are " + ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
