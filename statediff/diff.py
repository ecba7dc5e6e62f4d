"""Δ: the typed differences between two states, canonical and restricted to Ω [SSD §III, eq. 3].

The stage may say what changed, what changed without counting (hidden by ν or Ω, and by which
rule), and where it cannot say (doubts). It may not decide whether a change is right, pair
entities other than by key, guess across a gap in what was observed, or drop a difference: each
raw difference is a delta, a hidden delta or under a doubt.

1. chunks: equal digests are equal rows;
2. columns: chunks that differ are compared in Arrow, which leaves candidate rows;
3. rows: candidates are decoded, canonicalized and compared with `values.same`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias, cast

from statediff.model.batches import Row
from statediff.model.boundary import Boundary
from statediff.model.columns import (
    Item,
    are_known_equal,
    batch_changes,
    batches_equal,
    cancel,
    doubts_about,
    table_changes,
)
from statediff.model.comparison_view import ComparisonView, RuleNames, raw_entity
from statediff.model.delta import (
    Delta,
    Diff,
    Doubt,
    Entity,
    HiddenDelta,
    Label,
    Op,
    default_label,
)
from statediff.model.json_values import as_nested, canonical_json
from statediff.model.nested import (
    Change,
    all_differences,
    hidden_differences,
    places_that_differ,
    step_order,
)
from statediff.model.paths import Steps, at
from statediff.model.schema import EntityType, Schema, marks_deletion
from statediff.model.state import Coverage, Enumeration, RowChange, State, Table
from statediff.model.values import (
    ABSENT,
    Absent,
    Digested,
    Key,
    Observed,
    Unobserved,
    Value,
    is_value,
    key_order,
    same,
    told_apart,
)
from statediff.model.view import Canonicalizer

__all__ = [
    "ANOTHER_KEY",
    "DiffOptions",
    "Found",
    "Scope",
    "as_diff",
    "batch_changes",
    "batches_equal",
    "changes_of",
    "diff",
    "table_changes",
]

EvidenceIds: TypeAlias = Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]
"""Type → the ids of the readings behind it, before and after."""

_STAGE: Final = "capture"
ANOTHER_KEY: Final = "the key changed from"
"""How the cause begins where the sides tell a type's entities apart by other fields."""
MAX_PLACES_OF_TYPE: Final = 100_000
"""Places inside values that a type is compared in; beyond, a field that differs is one change, so
that no run makes the comparison larger than its own rows."""
_REUSED: Final = "ambiguous identity: keys are reused, no immutable field says it is the same"
_OP_ORDER: Final = {op: at for at, op in enumerate((Op.DELETE, Op.UNLINK, Op.CREATE, Op.LINK))}


@dataclass(frozen=True)
class DiffOptions:
    """What a comparison may assume. `trust_digests`: equal chunk digests prove equal rows."""

    trust_digests: bool = True


DEFAULTS: Final = DiffOptions()


def diff(
    before: State,
    after: State,
    canonicalizer: Canonicalizer | None = None,
    boundary: Boundary | None = None,
    *,
    rule_names: RuleNames | None = None,
    evidence: EvidenceIds | None = None,
    options: DiffOptions = DEFAULTS,
) -> Diff:
    """Everything that changed from `before` to `after`, sorted by (type, key, path).

    Works without a contract: no canonicalizer means raw comparison, no boundary means all of it.
    """
    scope = Scope(canonicalizer, boundary, rule_names, evidence or {}, options)
    names = sorted({*before.schema.by_name, *after.schema.by_name, *before.tables, *after.tables})
    return as_diff(found for name in names for found in changes_of(name, before, after, scope))


Found: TypeAlias = Delta | HiddenDelta | Doubt
"""A difference, or a place where nobody can say whether there is one."""


def as_diff(found: Iterable[Found]) -> Diff:
    """What was found of every type, in the order of reports."""
    deltas: list[Delta] = []
    hidden: list[HiddenDelta] = []
    places: list[Doubt] = []
    for each in found:
        match each:
            case Delta():
                deltas.append(each)
            case HiddenDelta():
                hidden.append(each)
            case Doubt():
                places.append(each)
    distinct = {_doubt_order(doubt): doubt for doubt in places}
    if len(deltas) > 1:
        deltas.sort(key=_delta_order)
    return Diff(
        tuple(deltas),
        tuple(sorted(hidden, key=lambda h: (*_delta_order(h.delta), h.rule))),
        tuple(distinct[order] for order in sorted(distinct)),
    )


@dataclass(frozen=True)
class Scope:
    """What a comparison is made under; see `diff`. One may serve any number of comparisons."""

    canonicalizer: Canonicalizer | None
    boundary: Boundary | None
    rule_names: RuleNames | None
    evidence: EvidenceIds
    options: DiffOptions = DEFAULTS
    _views: dict[str, tuple[EntityType, EntityType, ComparisonView]] = field(default_factory=dict)
    _sources: dict[str, tuple[Schema, Schema, str]] = field(default_factory=dict)

    def over(self, evidence: EvidenceIds) -> Scope:
        """The same, of other readings."""
        given = self.canonicalizer, self.boundary, self.rule_names
        return Scope(*given, evidence, self.options, self._views, self._sources)

    def view(self, before: EntityType, after: EntityType) -> ComparisonView:
        """A type as it is compared."""
        known = self._views.get(after.name)
        if known is None or known[0] is not before or known[1] is not after:
            fields = dict.fromkeys((*before.by_name, *after.by_name))
            view = ComparisonView(
                after.name, fields, self.canonicalizer, self.boundary, self.rule_names
            )
            known = self._views[after.name] = before, after, view
        return known[2]

    def source(self, name: str, before: Schema, after: Schema) -> str:
        """The one source that delivers the type; empty where several do, or none."""
        known = self._sources.get(name)
        if known is None or known[0] is not before or known[1] is not after:
            found = {*before.sources_of(name), *after.sources_of(name)}
            one = next(iter(found)) if len(found) == 1 else ""
            known = self._sources[name] = before, after, one
        return known[2]


def _delta_order(delta: Delta) -> tuple[Any, ...]:
    steps = tuple(map(step_order, delta.steps))
    op = _OP_ORDER.get(delta.op, len(_OP_ORDER))
    return (delta.type, key_order(delta.key), delta.path, steps, op)


def _doubt_order(doubt: Doubt) -> tuple[Any, ...]:
    key = () if doubt.key is None else (key_order(doubt.key),)
    path = () if doubt.path is None else (doubt.path,)
    return (doubt.type, key, path, doubt.cause, doubt.stage, doubt.source)


# --- one type ----------------------------------------------------------------------------------


def changes_of(
    name: str,
    before: State,
    after: State,
    scope: Scope,
    rows: Sequence[RowChange] | None = None,
) -> Iterator[Found]:
    """What changed in one type, in any order; `rows` are its changed rows where they are known."""
    left, right = before.tables.get(name), after.tables.get(name)
    if rows is None and left is not None and right is not None and _is_still(left, right, scope):
        return
    source = scope.source(name, before.schema, after.schema)
    gaps = [_enumeration(table) for table in (left, right)]
    if scope.boundary is None or scope.boundary.excludes(name) is None:
        for gap in gaps:
            if not gap.is_complete:
                yield Doubt(name, None, None, gap.cause or "not enumerated", _STAGE, source)
    if left is None or right is None or any(g.coverage is Coverage.UNOBSERVED for g in gaps):
        return
    view = scope.view(left.type, right.type)
    if left.type.key == right.type.key:
        yield from _Comparison(left, right, view, scope, source, rows).found()
    elif view.outside is None:
        cause = f"{ANOTHER_KEY} {left.type.key} to {right.type.key}"
        yield Doubt(name, None, None, cause, "resolve", source)


def _is_still(before: Table, after: Table, scope: Scope) -> bool:
    """Whether both sides were enumerated, and are known to hold the same without being read."""
    return (
        before.enumeration.is_complete
        and after.enumeration.is_complete
        and before.type.key == after.type.key
        and scope.options.trust_digests
        and are_known_equal(before, after)
    )


def _enumeration(table: Table | None) -> Enumeration:
    if table is None:
        return Enumeration(Coverage.UNOBSERVED, "no source delivered it")
    return table.enumeration


class _Comparison:
    """Two tables of one type, compared entity by entity under ν and Ω.

    Of a type that is outside Ω as a whole, all is found as usual, and hidden.
    """

    def __init__(
        self,
        before: Table,
        after: Table,
        view: ComparisonView,
        scope: Scope,
        source: str,
        rows: Sequence[RowChange] | None,
    ) -> None:
        self._rows = rows
        self._before = before
        self._after = after
        self._view = view
        self._name = view.type_name
        self._source = source
        self._options = scope.options
        ids = scope.evidence.get(self._name, ((), ()))
        self._evidence = tuple(dict.fromkeys((*ids[0], *ids[1])))
        self._immutable = before.type.immutable | after.type.immutable
        self._deleted_when = after.type.deleted_when or before.type.deleted_when
        self._places_left = MAX_PLACES_OF_TYPE

    def found(self) -> Iterator[Found]:
        """All deltas, hidden deltas and doubts of the type."""
        for found in self._keyless() if self._after.type.is_keyless else self._keyed():
            if self._view.outside is None:
                yield found
            elif isinstance(found, Delta):
                yield HiddenDelta(found, self._view.outside, by_boundary=True)
            elif isinstance(found, HiddenDelta):
                yield HiddenDelta(found.delta, self._view.outside, by_boundary=True)

    def _keyed(self) -> Iterator[Found]:
        for change in self._changes():
            if change.before is not None and change.after is not None:
                yield from self._changed(change.key, change.before, change.after)
            elif (purge := self._purged(change)) is not None:
                yield purge
            else:
                yield self._came_or_went(change)
                yield from self._born_deleted(change)

    def _keyless(self) -> Iterator[Found]:
        """Rows added and removed that no row of the other side equals, or might equal."""
        stayed: list[Item] = []
        removed: list[Item] = []
        added: list[Item] = []
        for change in self._changes():
            if change.before is not None and change.after is not None:
                side = stayed
                if not _same_rows(self._view.whole(change.before), self._view.whole(change.after)):
                    # One key, two contents: rows that a rule of identity has paired.
                    yield from self._changed(change.key, change.before, change.after)
                    continue
            else:
                side = removed if change.after is None else added
            side.append(Item(change, self._view.compared(change.before or change.after or {})))
        for item in stayed:
            # Content is all that tells such rows apart: another value would be another row.
            if item.unobserved is not None:
                yield self._doubt(item.change.key, "", item.unobserved)
        rows = cancel(removed, added)
        for pair in rows.pairs:
            rule, by_boundary = self._why_equal(pair[0].change, pair[1].change)
            for item in pair:
                yield HiddenDelta(self._entity_delta(item.change), rule, by_boundary)
        for items, others in ((rows.removed, rows.added), (rows.added, rows.removed)):
            causes = doubts_about(items, others, stayed)
            for item, cause in zip(items, causes, strict=True):
                if cause is None:
                    yield self._came_or_went(item.change)
                else:
                    yield self._doubt(item.change.key, "", cause)

    def _changes(self) -> Iterable[RowChange]:
        if self._rows is not None:
            return self._rows
        return table_changes(self._before, self._after, trust_digests=self._options.trust_digests)

    # --- an entity on one side only ---

    def _came_or_went(self, change: RowChange) -> Delta | Doubt:
        """A delta, or a doubt where the other side's enumeration may have missed the entity."""
        other = (self._after if change.after is None else self._before).enumeration
        if not other.is_complete:
            return self._doubt(change.key, "", other.cause or "not enumerated")
        return self._entity_delta(change)

    def _born_deleted(self, change: RowChange) -> Iterator[Delta]:
        """The deletion of an entity that came into being and was softly deleted since."""
        row, name = change.after, self._deleted_when
        if change.before is not None or row is None or name is None:
            return
        if name in self._view.excluded:
            return
        if self._before.enumeration.is_complete and marks_deletion(row.get(name, ABSENT)):
            delta = self._entity_delta(RowChange(change.key, row, None))
            yield replace(delta, raw_after=raw_entity(row))

    def _purged(self, change: RowChange) -> Delta | Doubt | None:
        """What went of an entity that was softly deleted before: its mark, and so its row.

        The entity itself is not deleted again. A doubt where the mark was not observed.
        """
        row, name = change.before, self._deleted_when
        if row is None or change.after is not None or name is None or name in self._view.excluded:
            return None
        cell = row.get(name, ABSENT)
        if isinstance(cell, Unobserved) and not isinstance(cell, Digested):
            return self._doubt(change.key, "", cell.cause)
        if not marks_deletion(cell) or not self._after.enumeration.is_complete:
            return None
        mark = self._view.canonical(self._view.whole(row))[name]
        delta = self._delta(Op.UPDATE, change.key, name, mark, ABSENT, cell, ABSENT)
        return replace(delta, label=Label.IRREVERSIBLE)

    def _entity_delta(self, change: RowChange) -> Delta:
        """The creation or deletion of a whole entity."""
        is_created = change.before is None
        entity_type = self._after.type if is_created else self._before.type
        if entity_type.is_association:
            op = Op.LINK if is_created else Op.UNLINK
        else:
            op = Op.CREATE if is_created else Op.DELETE
        return self._delta(
            op, change.key, "",
            self._view.entity(change.before), self._view.entity(change.after),
            raw_entity(change.before), raw_entity(change.after),
        )  # fmt: skip

    # --- an entity on both sides ---

    def _changed(self, key: Key, before: Row, after: Row) -> Iterator[Found]:
        """Its deletion and creation where its identity was replaced, else one delta a field."""
        raw = self._view.whole(before), self._view.whole(after)
        canonical = self._view.canonical(raw[0]), self._view.canonical(raw[1])
        fields = self._view.fields
        if not self._view.has_rules:  # what is the same as captured is the same
            fields = tuple([
                name for name in fields
                if not same(raw[0][name], raw[1][name]) or isinstance(raw[0][name], Unobserved)
            ])  # fmt: skip
        # Rules look at one row: what is of one content is of one canonical content.
        compared = [
            name for name in fields
            if name not in self._view.excluded and not told_apart(raw[0][name], raw[1][name])
        ]  # fmt: skip
        unknown = [name for name in compared if self._is_unknown(raw, canonical, name)]
        differing = {
            name for name in compared
            if name not in unknown and not same(canonical[0][name], canonical[1][name])
        }  # fmt: skip
        if self._is_another(canonical, differing):
            gone, new = RowChange(key, before, None), RowChange(key, None, after)
            yield self._purged(gone) or self._entity_delta(gone)
            yield self._entity_delta(new)
            yield from self._born_deleted(new)
            return
        # Without what decides identity or deletion, nothing is known of the entity's deltas.
        is_open = any(name in self._immutable or name == self._deleted_when for name in unknown)
        moved = self._softly_moved(key, before, after)
        if moved is not None and self._deleted_when in differing and not is_open:
            yield moved
            return
        told = any(n in self._immutable and canonical[1][n] is not None for n in canonical[1])
        if differing and self._after.type.keys_are_reused and not (told or is_open):
            yield Doubt(self._name, key, None, _REUSED, "resolve", self._source)
            return
        for name in unknown:
            yield self._doubt(key, None if is_open else name, _cause(canonical, name))
        for name in fields:
            if name in unknown or (is_open and name in differing):
                continue
            if name not in differing and same(raw[0][name], raw[1][name]):
                continue
            sides = (canonical[0][name], canonical[1][name], raw[0][name], raw[1][name])
            if name in differing:
                yield from self._updates(key, name, sides)
            hidden = list(self._hidden_inside(key, name, sides))
            yield from hidden
            if name in differing or hidden:
                continue
            delta = self._delta(Op.UPDATE, key, name, *sides)
            if moved is not None and name == self._deleted_when:
                delta = moved
            rule, by_boundary = self._view.why_hidden([name])
            yield HiddenDelta(delta, rule, by_boundary)

    def _is_another(self, canonical: tuple[Row, Row], differing: Collection[str]) -> bool:
        """Whether what never changes of an entity did."""
        return any(
            name in self._immutable and not any(isinstance(row[name], Absent) for row in canonical)
            for name in differing
        )

    def _is_unknown(self, raw: tuple[Row, Row], canonical: tuple[Row, Row], name: str) -> bool:
        """Whether nobody knows if the field changed.

        What a JSON text or a part of it says, its digest does not tell: JSON has many spellings.
        What could be read before, and was made unreadable, is a change.
        """
        if _is_unobserved(canonical, name):
            return True
        if not any(isinstance(row[name], Digested) for row in canonical):
            return False
        was_open = isinstance(raw[0][name], Digested | bytes)
        return (was_open and self._view.is_read_as_json(name)) or self._view.is_removed_inside(name)

    def _updates(
        self, key: Key, name: str, sides: tuple[Observed, Observed, Observed, Observed]
    ) -> Iterator[Delta | HiddenDelta]:
        """One delta for each place inside the field's values that differs, or one for all of it.

        What Ω or ν removes of them is hidden.
        """
        before, after, _, _ = sides
        inside = places_that_differ(before, after)
        if inside is not None and len(inside) <= self._places_left:
            self._places_left -= len(inside)
            for change in inside:
                why = self._view.why_removed(name, change.steps, change.before, change.after)
                delta = self._inside(key, name, change, sides)
                yield delta if why is None else HiddenDelta(delta, *why)
            return
        whole = self._delta(Op.UPDATE, key, name, *sides)
        rules: dict[str, bool] = {}
        for change in all_differences(before, after):
            why = self._view.why_removed(name, change.steps, change.before, change.after)
            if why is None:
                yield whole
                return
            rules[why[0]] = why[1]
        yield HiddenDelta(whole, "; ".join(rules), all(rules.values()))

    def _hidden_inside(
        self, key: Key, name: str, sides: tuple[Observed, Observed, Observed, Observed]
    ) -> Iterator[HiddenDelta | Doubt]:
        """The places inside the field's values that differ, and that rules inside make equal."""
        if name in self._view.excluded or not self._view.is_ruled_inside(name):
            return
        plain = [canonical_json(cast(Value, v)) for v in map(as_nested, sides[2:]) if is_value(v)]
        if len(plain) < 2:
            return
        found = hidden_differences((sides[0], plain[0]), (sides[1], plain[1]))
        rule, by_boundary = self._view.why_hidden([name])
        for change in found:
            if not self._places_left:
                yield self._doubt(key, name, f"more than {MAX_PLACES_OF_TYPE} places inside values")
                return
            self._places_left -= 1
            yield HiddenDelta(self._inside(key, name, change, sides), rule, by_boundary)

    def _inside(
        self,
        key: Key,
        name: str,
        change: Change,
        sides: tuple[Observed, Observed, Observed, Observed],
    ) -> Delta:
        raw = [at(as_nested(side), change.steps) for side in sides[2:]]
        return self._delta(
            Op.UPDATE, key, name, change.before, change.after, *raw, steps=change.steps
        )

    def _softly_moved(self, key: Key, before: Row, after: Row) -> Delta | None:
        """The deletion, or its undoing, that the field named by `deleted_when` tells of."""
        name = self._deleted_when
        if name is None:
            return None
        cells = before.get(name, ABSENT), after.get(name, ABSENT)
        if any(isinstance(c, Unobserved) and not isinstance(c, Digested) for c in cells):
            return None
        gone = tuple(marks_deletion(cell) for cell in cells)
        if gone[0] == gone[1]:
            return None
        delta = self._entity_delta(
            RowChange(key, before, None) if gone[1] else RowChange(key, None, after)
        )
        # The other side's row is still there: the raw values keep it.
        return replace(delta, raw_before=raw_entity(before), raw_after=raw_entity(after))

    # --- rows, rules and places ---

    def _why_equal(self, gone: RowChange, new: RowChange) -> tuple[str, bool]:
        before, after = self._view.whole(gone.before or {}), self._view.whole(new.after or {})
        seen = self._view.canonical(before), self._view.canonical(after)
        found: list[tuple[str, bool]] = []
        ruled: list[str] = []
        for name in (n for n in self._view.fields if not same(before[n], after[n])):
            inside = [
                self._view.why_removed(name, change.steps, change.before, change.after)
                for change in all_differences(seen[0][name], seen[1][name])
            ]
            removed = [why for why in inside if why is not None]
            found += removed
            ruled += [] if removed else [name]
        found += [self._view.why_hidden(ruled)] if ruled else []
        rules = "; ".join(dict.fromkeys(rule for rule, _ in found))
        return rules or "canonicalization", any(by_boundary for _, by_boundary in found)

    def _delta(
        self,
        op: Op,
        key: Key,
        path: str,
        before: Observed | Entity,
        after: Observed | Entity,
        raw_before: Observed | Entity,
        raw_after: Observed | Entity,
        *,
        steps: Steps = (),
    ) -> Delta:
        label = default_label(op, self._after.type)
        return Delta(
            op,
            self._name,
            key,
            path,
            steps=steps,
            before=before,
            after=after,
            raw_before=raw_before,
            raw_after=raw_after,
            evidence=self._evidence,
            label=label,
        )

    def _doubt(self, key: Key, path: str | None, cause: str) -> Doubt:
        return Doubt(self._name, key, path, cause, _STAGE, self._source)


def _same_rows(a: Row, b: Row) -> bool:
    return all(same(a[name], b[name]) for name in a)


def _is_unobserved(rows: tuple[Row, Row], name: str) -> bool:
    cells = rows[0][name], rows[1][name]
    return any(isinstance(cell, Unobserved) for cell in cells) and told_apart(*cells) is None


def _cause(rows: tuple[Row, Row], name: str) -> str:
    causes = (cell.cause for row in rows if isinstance(cell := row[name], Unobserved))
    return "; ".join(dict.fromkeys(causes))
