"""One entity type seen under ν and Ω: rows as a comparison sees them, and why it hides things."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from statediff.model.batches import Row
from statediff.model.boundary import Boundary
from statediff.model.delta import Entity
from statediff.model.paths import Selection, Steps, covers, may_meet, replaced
from statediff.model.values import ABSENT, Absent, Excluded, Map, Observed
from statediff.model.view import Canonicalizer

_Places: TypeAlias = tuple[tuple[Selection, str], ...]
RuleNames: TypeAlias = Callable[[str, str], tuple[str, ...]]
"""(type, field) → the ν rules on it, each with its reason."""


class ComparisonView:
    """`fields` are those of both schemas; `excluded` maps the fields outside Ω to their rules.

    `outside` is the rule that puts the whole type outside Ω, None when it is inside; single fields
    are then not excluded once more.
    """

    def __init__(
        self,
        type_name: str,
        fields: Iterable[str],
        canonicalizer: Canonicalizer | None,
        boundary: Boundary | None,
        rule_names: RuleNames | None,
    ) -> None:
        self.type_name = type_name
        self.fields = tuple(dict.fromkeys(fields))
        touches = canonicalizer is not None and canonicalizer.touches(type_name)
        self._nu = canonicalizer if touches else None
        self._rule_names = rule_names
        self._removed: dict[str, tuple[_Places, _Places]] = {}
        """By field: what Ω and what ν removes inside its values, with the rule of each."""
        for name in self.fields:
            outside = () if boundary is None else boundary.inside(type_name, name)
            ignored = tuple((where, rule) for where, rule, gone in self._rules_inside(name) if gone)
            if outside or ignored:
                self._removed[name] = (outside, ignored)
        self.outside = boundary.excludes(type_name) if boundary else None
        self.excluded: dict[str, str] = {}
        if boundary is not None and self.outside is None:
            rules = ((name, boundary.excludes(type_name, name)) for name in self.fields)
            self.excluded = {name: rule for name, rule in rules if rule is not None}

    @property
    def has_rules(self) -> bool:
        """Whether ν may change its rows."""
        return self._nu is not None

    def whole(self, row: Row) -> Row:
        """The row with every field of both schemas; one that its own schema lacks is absent."""
        return {name: row.get(name, ABSENT) for name in self.fields}

    def canonical(self, row: Row) -> Row:
        """The row under ν, inside Ω and out."""
        return row if self._nu is None else self._nu.row(self.type_name, row)

    def is_ruled_inside(self, name: str) -> bool:
        """Whether a rule changes places inside the field's values."""
        return any(not is_removal for _, _, is_removal in self._rules_inside(name))

    def is_read_as_json(self, name: str) -> bool:
        """Whether the field's texts are compared by what they say as JSON."""
        named = () if self._rule_names is None else self._rule_names(self.type_name, name)
        return any(rule.startswith("json@") for rule in named)

    def is_removed_inside(self, name: str) -> bool:
        """Whether Ω or ν removes places inside the field's values."""
        return name in self._removed

    def why_removed(
        self, name: str, steps: Steps, before: Observed, after: Observed
    ) -> tuple[str, bool] | None:
        """The rules that remove all that is at the place; whether it is Ω alone. None for others.

        What Ω does not remove by itself, forbid clauses see.
        """
        outside, ignored = self._removed.get(name, ((), ()))
        for rules in (outside, (*outside, *ignored)):
            if rules and covers([where for where, _ in rules], steps, before, after):
                texts = [rule for where, rule in rules if may_meet(where, steps)]
                return "; ".join(dict.fromkeys(texts)), rules is outside
        return None

    def _rules_inside(self, name: str) -> tuple[tuple[Selection, str, bool], ...]:
        return () if self._nu is None else self._nu.inside(self.type_name, name)

    def compared(self, row: Row) -> Row:
        """What a comparison sees of the row: the canonical values within Ω.

        Of what is removed inside a value, only that it is there.
        """
        seen = self.canonical(self.whole(row))
        seen = {name: cell for name, cell in seen.items() if name not in self.excluded}
        for name, (outside, ignored) in self._removed.items():
            for where, _ in (*outside, *ignored):
                if isinstance(cell := seen.get(name), Map | tuple):
                    seen[name] = replaced(cell, where, lambda _: None)
        return seen

    def entity(self, row: Row | None) -> Entity | Absent:
        """The entity in canonical form, with excluded fields shown as such."""
        if row is None:
            return ABSENT
        cells = self.canonical(row) | {
            name: Excluded(rule) for name, rule in self.excluded.items() if name in row
        }
        return Entity(tuple(cells.items()))

    def why_hidden(self, names: Iterable[str]) -> tuple[str, bool]:
        """The rules that hide raw differences in these fields; whether Ω is among them."""
        rules: list[str] = []
        by_boundary = False
        for name in names:
            if name in self.excluded:
                by_boundary = True
                rules.append(self.excluded[name])
            elif self._rule_names is not None:
                rules.extend(self._rule_names(self.type_name, name))
        return "; ".join(dict.fromkeys(rules)) or "canonicalization", by_boundary


def raw_entity(row: Row | None) -> Entity | Absent:
    """The entity as captured."""
    return ABSENT if row is None else Entity(tuple(row.items()))
