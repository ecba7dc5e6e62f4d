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

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias, cast

from statediff.model.batches import Row
from statediff.model.boundary import Boundary
from statediff.model.columns import (
    Item,
    are_known_equal,
    cancel,
    doubts_about,
    table_changes,
)
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
from statediff.model.explanation import ANOTHER_KEY
from statediff.model.json_values import canonical_json
from statediff.model.nested import (
    CapturedValue,
    Change,
    all_differences,
    hidden_differences,
    places_that_differ,
    step_order,
)
from statediff.model.paths import Steps
from statediff.model.schema import EntityType, marks_deletion
from statediff.model.state import NOT_DELIVERED, Coverage, RowChange, State, Table
from statediff.model.values import (
    ABSENT,
    Absent,
    Digested,
    Key,
    Map,
    Observed,
    Unobserved,
    Value,
    is_value,
    key_order,
    same,
    told_apart,
)
from statediff.model.view import Canonicalizer, ComparisonView, raw_entity

EvidenceIds: TypeAlias = Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]
"""Type → the ids of the readings behind it, before and after."""

_Sides: TypeAlias = tuple[Observed, Observed, Observed, Observed]
"""A field of an entity: canonical before and after, captured before and after."""

_STAGE: Final = "capture"
_PLAIN: Final = frozenset({int, str, bool, bytes, type(None)})
"""Kinds whose values are the same where Python finds two of one kind equal."""
MAX_PLACES_OF_TYPE: Final = 100_000
"""Places inside values that a type is compared in; beyond, a field that differs is one change, so
that no run makes the comparison larger than its own rows."""
_REUSED: Final = "ambiguous identity: keys are reused, no immutable field says it is the same"
_OP_ORDER: Final = {op: at for at, op in enumerate((Op.DELETE, Op.UNLINK, Op.CREATE, Op.LINK))}


def diff(
    before: State,
    after: State,
    canonicalizer: Canonicalizer | None = None,
    boundary: Boundary | None = None,
    *,
    evidence: EvidenceIds | None = None,
    trust_digests: bool = True,
) -> Diff:
    """Everything that changed from `before` to `after`, sorted by (type, key, path).

    Works without a contract: no canonicalizer means raw comparison, no boundary means all of it.
    With `trust_digests`, equal chunk digests prove equal rows.
    """
    scope = Scope(canonicalizer, boundary, trust_digests=trust_digests)
    return scope.over(evidence or {}).diff(before, after)


Found: TypeAlias = Delta | HiddenDelta | Doubt
"""A difference, or a place where nobody can say whether there is one."""


def as_diff(found: Iterable[Found]) -> Diff:
    """The differences found in every type, in the order of reports."""
    deltas: list[Delta] = []
    hidden: list[HiddenDelta] = []
    doubts: dict[tuple[Any, ...], Doubt] = {}
    for each in found:
        match each:
            case Delta():
                deltas.append(each)
            case HiddenDelta():
                hidden.append(each)
            case Doubt():
                doubts[_doubt_order(each)] = each
    if len(deltas) > 1:
        deltas.sort(key=_delta_order)
    if len(hidden) > 1:
        hidden.sort(key=lambda h: (*_delta_order(h.delta), h.rule))
    return Diff(tuple(deltas), tuple(hidden), tuple([doubts[at] for at in sorted(doubts)]))


@dataclass(frozen=True)
class Scope:
    """The rules of a comparison; see `diff`. One may serve any number of comparisons."""

    canonicalizer: Canonicalizer | None
    boundary: Boundary | None
    evidence: EvidenceIds = field(default_factory=dict)
    trust_digests: bool = True
    _views: dict[str, tuple[tuple[EntityType, EntityType], ComparisonView]] = field(
        default_factory=dict
    )

    def over(self, evidence: EvidenceIds) -> Scope:
        """The same, of other readings."""
        return Scope(self.canonicalizer, self.boundary, evidence, self.trust_digests, self._views)

    def view(self, before: EntityType, after: EntityType) -> ComparisonView:
        """A type as it is compared."""
        known = self._views.get(after.name)
        if known is None or known[0] != (before, after):
            fields = dict.fromkeys((*before.by_name, *after.by_name))
            view = ComparisonView(after.name, fields, self.canonicalizer, self.boundary)
            known = self._views[after.name] = (before, after), view
        return known[1]

    def diff(self, before: State, after: State) -> Diff:
        """Everything that changed."""
        names = {*before.schema.by_name, *after.schema.by_name, *before.tables, *after.tables}
        found: list[Found] = []
        for name in sorted(names):
            left, right = before.tables.get(name), after.tables.get(name)
            if not (self.trust_digests and _is_whole_and_still(left, right)):
                found += changes_of(name, before, after, self)
        return as_diff(found)


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
) -> list[Found]:
    """The changes in one type, in any order; `rows` are its changed rows where they are known."""
    left, right = before.tables.get(name), after.tables.get(name)
    sources = {*before.schema.sources_of(name), *after.schema.sources_of(name)}
    source = next(iter(sources)) if len(sources) == 1 else ""
    found: list[Found] = []
    unread = None if scope.boundary is None or not scope.boundary.unread else scope.boundary
    is_unread = unread is not None and unread.is_unread(name) and not _is_whole(left)
    for table in () if is_unread else (left, right):
        gap = NOT_DELIVERED if table is None else table.enumeration
        if gap.coverage is not Coverage.COMPLETE and (
            scope.boundary is None or scope.boundary.excludes(name) is None
        ):
            cause = gap.cause or "not enumerated"
            found.append(Doubt(name, None, None, cause, _STAGE, source))
    if left is None or right is None:
        return found
    ends = left.enumeration.coverage, right.enumeration.coverage
    if Coverage.UNOBSERVED in ends:
        return found
    has_one_key = left.type.key == right.type.key
    view = scope.view(left.type, right.type)
    if has_one_key:
        found += _Comparison(left, right, view, scope, source, rows, unread).changes()
    elif view.outside is None:
        cause = f"{ANOTHER_KEY} {left.type.key} to {right.type.key}"
        found.append(Doubt(name, None, None, cause, "resolve", source))
    return found


def _is_whole(table: Table | None) -> bool:
    return table is not None and table.enumeration.is_complete


def _is_whole_and_still(left: Table | None, right: Table | None) -> bool:
    """True if both have all rows, and the same ones as far as digests can tell."""
    if left is right:
        return left is not None and left.is_whole
    return (
        left is not None
        and right is not None
        and left.enumeration.coverage is right.enumeration.coverage is Coverage.COMPLETE
        and left.type.key == right.type.key
        and are_known_equal(left, right)
    )


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
        unread: Boundary | None,
    ) -> None:
        self._rows = rows
        self._before = before
        self._after = after
        self._view = view
        self._name = view.type_name
        self._source = source
        self._trust_digests = scope.trust_digests
        self._unread = unread
        ids = scope.evidence.get(self._name, ((), ()))
        self._evidence = tuple(dict.fromkeys((*ids[0], *ids[1])))
        self._purpose = after.type.purpose
        self._immutable = before.type.immutable | after.type.immutable
        self._deleted_when = after.type.deleted_when or before.type.deleted_when
        self._places_left = MAX_PLACES_OF_TYPE
        self._found: list[Found] = []

    def changes(self) -> list[Found]:
        """All deltas, hidden deltas and doubts of the type."""
        rows: Iterable[RowChange] = self._rows or ()
        if self._rows is None:
            rows = table_changes(self._before, self._after, trust_digests=self._trust_digests)
        if self._after.type.key:
            self._keyed(rows)
        else:
            self._keyless(rows)
        rule = self._view.outside
        if rule is None:
            return self._found
        deltas = [
            each.delta if isinstance(each, HiddenDelta) else each
            for each in self._found
            if not isinstance(each, Doubt)
        ]
        return [HiddenDelta(delta, rule, by_boundary=True) for delta in deltas]

    def _keyed(self, rows: Iterable[RowChange]) -> None:
        for change in rows:
            if change.before is not None and change.after is not None:
                self._changed(change.key, change.before, change.after)
            elif (purge := self._purged(change)) is not None:
                self._found.append(purge)
            else:
                self._found.append(self._came_or_went(change))
                self._born_deleted(change)

    def _keyless(self, rows: Iterable[RowChange]) -> None:
        """Rows added and removed that no row of the other side equals, or might equal."""
        stayed: list[Item] = []
        removed: list[Item] = []
        added: list[Item] = []
        for change in rows:
            if change.before is not None and change.after is not None:
                side = stayed
                if not _same_rows(self._view.whole(change.before), self._view.whole(change.after)):
                    # One key, two contents: rows that a rule of identity has paired.
                    self._changed(change.key, change.before, change.after)
                    continue
            else:
                side = removed if change.after is None else added
            side.append(Item(change, self._view.compared(change.before or change.after or {})))
        for item in stayed:
            # Content is all that tells such rows apart: another value would be another row.
            if item.unobserved is not None:
                self._found.append(self._doubt(item.change.key, "", item.unobserved))
        left = cancel(removed, added)
        for pair in left.pairs:
            rule, by_boundary = self._why_equal(pair[0].change, pair[1].change)
            for item in pair:
                delta = self._entity_delta(item.change)
                self._found.append(HiddenDelta(delta, rule, by_boundary))
        for items, others in ((left.removed, left.added), (left.added, left.removed)):
            causes = doubts_about(items, others, stayed)
            for item, cause in zip(items, causes, strict=True):
                self._found.append(
                    self._came_or_went(item.change)
                    if cause is None
                    else self._doubt(item.change.key, "", cause)
                )

    # --- an entity on one side only ---

    def _came_or_went(self, change: RowChange) -> Delta | Doubt:
        """A delta, or a doubt where the other side's enumeration may have missed the entity."""
        other = (self._after if change.after is None else self._before).enumeration
        # What is newly seen, or not any more, counts though not all may be read.
        if other.may_miss(change.key) and not self._is_type_unread():
            return self._doubt(change.key, "", other.cause or "not enumerated")
        return self._entity_delta(change)

    def _born_deleted(self, change: RowChange) -> None:
        """The deletion of an entity that came into being and was softly deleted since."""
        row, name = change.after, self._deleted_when
        if change.before is not None or row is None or name is None:
            return
        if name in self._view.excluded:
            return
        if self._before.enumeration.may_miss(change.key):
            return
        if marks_deletion(row.get(name, ABSENT)):
            delta = self._entity_delta(RowChange(change.key, row, None))
            self._found.append(replace(delta, raw_after=raw_entity(row)))

    def _purged(self, change: RowChange) -> Delta | Doubt | None:
        """The part of an entity that went after a soft deletion: its mark, and so its row.

        The entity itself is not deleted again. A doubt where the mark was not observed.
        """
        row, name = change.before, self._deleted_when
        if row is None or change.after is not None or name is None or name in self._view.excluded:
            return None
        cell = row.get(name, ABSENT)
        if isinstance(cell, Unobserved) and not isinstance(cell, Digested):
            return self._doubt(change.key, "", cell.cause)
        if not marks_deletion(cell) or self._after.enumeration.may_miss(change.key):
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
        raw = raw_entity(change.before), raw_entity(change.after)
        one, two = (self._view.entity(row, r) for row, r in zip(change[1:], raw, strict=True))
        return self._delta(op, change.key, "", one, two, *raw)

    # --- an entity on both sides ---

    def _changed(self, key: Key, before: Row, after: Row) -> None:
        """Its deletion and creation where its identity was replaced, else one delta a field."""
        view, found = self._view, self._found
        raw = view.whole(before), view.whole(after)
        canonical = view.canonical(raw[0]), view.canonical(raw[1])
        fields: dict[str, _Sides] = {}
        unknown, differing = list[str](), list[str]()
        for name in view.fields:
            sides = canonical[0][name], canonical[1][name], raw[0][name], raw[1][name]
            is_plain = type(sides[2]) is type(sides[3]) and type(sides[2]) in _PLAIN
            is_same = sides[2] == sides[3] if is_plain else same(sides[2], sides[3])
            is_unread = not is_plain and any(isinstance(s, Unobserved) for s in sides[2:])
            if self._was_unread(name, sides) if is_unread else is_same and name not in view.ruled:
                continue  # what is the same as captured is the same
            fields[name] = sides
            # Rules look at one row: what is of one content is of one canonical content.
            if name in view.excluded or (is_unread and told_apart(sides[2], sides[3])):
                continue
            is_open = isinstance(sides[0], Unobserved) or isinstance(sides[1], Unobserved)
            if is_open and self._is_unknown(name, sides):
                unknown.append(name)
            elif (name not in view.ruled and not is_unread) or not same(sides[0], sides[1]):
                differing.append(name)
        if self._immutable and self._is_another(canonical, differing):
            gone, new = RowChange(key, before, None), RowChange(key, None, after)
            found += self._purged(gone) or self._entity_delta(gone), self._entity_delta(new)
            self._born_deleted(new)
            return
        # Without what decides identity, nothing is known of the entity's deltas.
        is_open = not self._immutable.isdisjoint(unknown)
        mark = self._deleted_when
        moved = None if mark is None else self._softly_moved(key, before, after)
        if moved is not None and mark is not None and mark in differing and not is_open:
            # Its row is still there: what else of it changed is an update beside the deletion.
            found.append(moved)
            differing.remove(mark)
            del fields[mark]
        may_be_another = self._after.type.keys_are_reused and self._is_untold(canonical[1])
        if differing and not is_open and may_be_another:
            found.append(Doubt(self._name, key, None, _REUSED, "resolve", self._source))
            return
        for name in unknown:  # the mark may tell of any operation
            place = None if is_open or name == mark else name
            found.append(self._doubt(key, place, _cause(fields[name])))
        for name, sides in fields.items():
            if name in unknown or (is_open and name in differing):
                continue
            if name in differing:
                found += self._updates(key, name, sides)
            elif same(sides[2], sides[3]):
                continue
            hidden = self._hidden_inside(key, name, sides) if name in view.ruled_inside else []
            found += hidden
            if name in differing or hidden:
                continue
            delta = moved if name == mark else None
            delta = delta or self._delta(Op.UPDATE, key, name, *sides)
            rule, by_boundary = view.why_hidden([name])
            found.append(HiddenDelta(delta, rule, by_boundary))

    def _is_type_unread(self) -> bool:
        """True if the contract says of the type that it is not read whole, and it was not."""
        unread = self._unread is not None and self._unread.is_unread(self._name)
        return unread and not _is_whole(self._before)

    def _was_unread(self, name: str, sides: _Sides) -> bool:
        """True if the field was not read before, and the contract says that it is not."""
        raw = sides[2]
        if self._unread is None or not self._unread.is_unread(self._name, name):
            return False
        return isinstance(raw, Unobserved) and not isinstance(raw, Digested)

    def _is_another(self, canonical: tuple[Row, Row], differing: Collection[str]) -> bool:
        """True if what never changes of an entity did."""
        return any(
            name in self._immutable and not any(isinstance(row[name], Absent) for row in canonical)
            for name in differing
        )

    def _is_untold(self, after: Row) -> bool:
        """True if no immutable field says which entity it is."""
        return all(after[name] is None for name in self._immutable & after.keys())

    def _is_unknown(self, name: str, sides: _Sides) -> bool:
        """True if nobody knows if the field changed, of which a side is unobserved.

        What a JSON text or a part of it says, its digest does not tell: JSON has many spellings.
        What could be read before, and was made unreadable, is a change.
        """
        one, two, raw, _ = sides
        if told_apart(one, two) is None:
            return True
        if not (isinstance(one, Digested) or isinstance(two, Digested)):
            return False
        was_open = isinstance(raw, Digested | bytes)
        return (was_open and self._view.is_read_as_json(name)) or self._view.is_removed_inside(name)

    def _updates(self, key: Key, name: str, sides: _Sides) -> list[Delta | HiddenDelta]:
        """One delta for each place inside the field's values that differs, or one for all of it.

        What Ω or ν removes of them is hidden.
        """
        before, after, *captured = sides
        is_removed = self._view.is_removed_inside(name)
        if isinstance(before, Map | tuple) and isinstance(after, Map | tuple):
            inside = places_that_differ(before, after)
            if inside is not None and len(inside) <= self._places_left:
                self._places_left -= len(inside)
                raw = CapturedValue(captured[0]), CapturedValue(captured[1])
                found: list[Delta | HiddenDelta] = []
                for change in inside:
                    why = self._view.why_removed(name, change.steps, change.before, change.after)
                    delta = self._inside(key, name, change, raw)
                    found.append(delta if why is None else HiddenDelta(delta, *why))
                return found
        whole = self._delta(Op.UPDATE, key, name, *sides)
        rules: dict[str, bool] = {}
        for change in all_differences(before, after) if is_removed else ():
            why = self._view.why_removed(name, change.steps, change.before, change.after)
            if why is None:
                return [whole]
            rules[why[0]] = why[1]
        return [HiddenDelta(whole, "; ".join(rules), all(rules.values())) if rules else whole]

    def _hidden_inside(self, key: Key, name: str, sides: _Sides) -> list[HiddenDelta | Doubt]:
        """The places inside the field's values that differ, and that rules inside make equal."""
        if name in self._view.excluded:
            return []
        raw = CapturedValue(sides[2]), CapturedValue(sides[3])
        plain = [canonical_json(cast(Value, v.value)) for v in raw if is_value(v.value)]
        if len(plain) < 2:
            return []
        rule, by_boundary = self._view.why_hidden([name])
        found: list[HiddenDelta | Doubt] = []
        for change in hidden_differences((sides[0], plain[0]), (sides[1], plain[1])):
            if not self._places_left:
                cause = f"more than {MAX_PLACES_OF_TYPE} places inside values"
                return [*found, self._doubt(key, name, cause)]
            self._places_left -= 1
            found.append(HiddenDelta(self._inside(key, name, change, raw), rule, by_boundary))
        return found

    def _inside(
        self,
        key: Key,
        name: str,
        change: Change,
        raw: tuple[CapturedValue, CapturedValue],
    ) -> Delta:
        one, two = (side.at(change.steps) for side in raw)
        return self._delta(
            Op.UPDATE, key, name, change.before, change.after, one, two, steps=change.steps
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
            label=default_label(op, self._purpose),
        )

    def _doubt(self, key: Key, path: str | None, cause: str) -> Doubt:
        return Doubt(self._name, key, path, cause, _STAGE, self._source)


def _same_rows(a: Row, b: Row) -> bool:
    return all(same(a[name], b[name]) for name in a)


def _cause(sides: _Sides) -> str:
    causes = [cell.cause for cell in sides[:2] if isinstance(cell, Unobserved)]
    return "; ".join(dict.fromkeys(causes))
