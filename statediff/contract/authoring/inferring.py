"""How an application keeps its rows, as a right run shows it: stamps, chosen keys, kept sums.

Every inference is from both states and all changes of one run. It says what a value is *for*, so
that a draft asks for what holds in the next right run too: a stamp is later than every one before,
a key that the application chose is named by what it is the key of, a counter is what it counts.
"""

from __future__ import annotations

import json
import operator
import re
from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cached_property, partial
from itertools import combinations
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple

from statediff.contract.authoring.numbering import Numbering, escaped
from statediff.contract.language.written import name_text, type_text
from statediff.model.batches import Row
from statediff.model.delta import Delta, Entity, Op
from statediff.model.instants import parse_instant
from statediff.model.paths import leaves
from statediff.model.readings import Timeline
from statediff.model.schema import EntityType, Field, Schema
from statediff.model.state import State
from statediff.model.values import Observed, is_value

MAX_ROWS: Final = 5_000
"""Rows that a table may have for a sum over it to be looked for."""
MAX_VALUES: Final = 6
"""Distinct values of a column that may tell the rows which a counter counts from the others."""
LEAST: Final = 2
"""Different values that a formula must have given."""
NEAR: Final = timedelta(hours=1)
"""How far apart stamps of one run may be; in a column with another zone, `ZONES`."""
ZONES: Final = timedelta(hours=15)
ROUND: Final = 60
"""Seconds of which an instant that is computed from the clock is a multiple away from it."""

_PAST: Final = (
    r"(\w*ed|sent|paid|read|seen|done|gone|given|taken|written|begun|left|lent|lost|won|met|held|"
    r"built|kept|sold|found|shown|login)"
)
_SUFFIX: Final = r"_?(at|on|time|ts|date|timestamp|ms|utc)"
_STAMP: Final = re.compile(
    rf"at|ts|timestamp|last_\w+|(date|time)_{_PAST}|(\w+_)?{_PAST}({_SUFFIX})?", re.IGNORECASE
)
_SURE: Final = re.compile(
    rf"at|ts|timestamp|\w*(creat|updat|modif|insert|chang|log|record|touch)(ed|ied|e)({_SUFFIX})?",
    re.IGNORECASE,
)
"""Names of stamps that nobody enters by hand."""
_AHEAD: Final = re.compile(
    r"(schedul|plann|expect|estimat|promis|requir|need|limit)", re.IGNORECASE
)
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_UNITS: Final = (1, 1_000, 1_000_000)
_SINCE: Final = datetime(2001, 9, 9, tzinfo=UTC)
_UNTIL: Final = datetime(2100, 1, 1, tzinfo=UTC)
_RANDOM: Final = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "[0-9a-f-]{36}"),
    (re.compile(r"[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}"), "[0-9A-F-]{36}"),
    (re.compile(r"(?=.*[0-9])(?=.*[a-f])[0-9a-f]{16,128}"), "[0-9a-f]"),
    (re.compile(r"(?=.*[0-9])(?=.*[A-F])[0-9A-F]{16,128}"), "[0-9A-F]"),
    (re.compile(r"(?=(.*[0-9]){3})(?=.*[A-Za-z])[A-Za-z0-9_-]{20,128}"), "[A-Za-z0-9_-]"),
)
"""Texts that nobody chooses twice, and what all of their kind match."""

_SEPARATORS: Final = re.compile(r"[.:$|~]+")
_SEALED: Final = 40
_SEALED_PART: Final = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9_+/=-]{5,}")
_BORDER: Final = re.compile(r"[^A-Za-z0-9]")
_CLASSES: Final = (
    "[0-9]",
    "[0-9a-f]",
    "[a-z0-9]",
    "[A-Z0-9]",
    "[A-Za-z0-9]",
    "[A-Za-z0-9_-]",
    "[!-~]",
)
"""Classes of characters of which tokens are made, the narrowest first."""
_COLOR: Final = re.compile(r"#([0-9A-Fa-f]{3}|[0-9A-Fa-f]{6}|[0-9A-Fa-f]{8})")
_ENOUGH: Final = 24
"""Characters that show whether tokens are of few letters."""
_VOLATILE: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})?"
    r"|(?<![A-Za-z0-9_-])[A-Za-z0-9_-]{16,128}(?![A-Za-z0-9_-])"
    r"|(?<![0-9.])[0-9]{10,16}(\.[0-9]{1,6})?(?![0-9.])"
)
"""Forms of a stamp or a key inside a text."""
MAX_PATTERN: Final = 1000

Place = tuple[str, str]


@dataclass(frozen=True)
class Run:
    """A right run: what it changed, and the states at its two ends."""

    schema: Schema
    deltas: tuple[Delta, ...]
    before: State
    after: State
    timeline: Timeline | None = None
    """When it was, by the clock of who ran the agent; None of states alone."""

    def rows(self, state: State, name: str) -> tuple[Row, ...]:
        table = state.tables.get(name)
        if table is None or not table.enumeration.is_complete or table.row_count > MAX_ROWS:
            return ()
        return tuple(row for _, row in table.rows())


@dataclass(frozen=True)
class Formula:
    """A field that the application keeps, and what it keeps it equal to, as an expression."""

    type: str
    field: str
    expression: str


class Choice(NamedTuple):
    """The reason for which an application chose a value."""

    kind: Literal["stamp", "key", "random", "volatile", "number", "numbered"]
    said: str = ""
    """The type of a key; of other texts the pattern that all of their kind match."""
    named: tuple[tuple[str, Observed], ...] = ()
    """Of a key of several new rows: what the task says of this one and of no other."""


class Inferred:
    """The inferences from one run; each answer is about a value that the run wrote.

    Its `number` is that of the run among the right ones; the idle ones follow.
    """

    def __init__(self, run: Run, number: int = 0) -> None:
        self.run = run
        self.number = number
        self._numberings: dict[str, Numbering] = {}

    # ------------------------------------------------------------ stamps

    @cached_property
    def moment(self) -> datetime | None:
        """When the run was, by the stamps that it left; of several times, the one most are near.

        None where it left none.
        """
        written = [(n, at) for n, value in self._written() if (at := instant(value))]
        ordered = sorted(at for _, at in written)
        noted = self.run.timeline and self.run.timeline.agent_finished_at
        if noted and _count(ordered, noted - NEAR, noted + NEAR):
            return noted
        found = (
            (_SURE.fullmatch(n) is not None, _count(ordered, at - NEAR, at + NEAR), at)
            for n, at in written
            if _is_stamp_name(n)
        )
        return max(found, default=(False, 0, None))[-1]

    def is_stamp(self, name: str, value: Observed) -> bool:
        """True if the value, of the field or member, is of the run's hour (or day)."""
        if self.moment is None:
            return False
        day = value.isoformat() if type(value) is date else value
        if isinstance(day, str) and _DAY.fullmatch(day):
            return _is_stamp_name(name) and day == self.moment.date().isoformat()
        at = instant(value)
        if at is None:
            return False
        apart = abs(at - self.moment)
        return apart <= NEAR or (_is_stamp_name(name) and apart <= ZONES) or self._is_computed(at)

    def _is_computed(self, at: datetime) -> bool:
        """True if it is so many minutes from a stamp of the run, to the second."""
        return any(
            abs((at - stamp).total_seconds() + 1) % ROUND <= 2
            for stamp in self._stamps
            if at > stamp
        )

    @cached_property
    def _stamps(self) -> frozenset[datetime]:
        moment = self.moment
        return frozenset(at for at in self._stamped if moment and abs(at - moment) <= NEAR)

    @cached_property
    def _stamped(self) -> list[datetime]:
        """Every instant under the name of a stamp."""
        found = (instant(value) for name, value in self._written() if _is_stamp_name(name))
        return [at for at in found if at is not None]

    def is_ahead(self, at: datetime) -> bool:
        """True if the harness's clock had not come to it, and nothing else shows another clock."""
        noted = self.run.timeline.agent_finished_at if self.run.timeline else None
        near = [of for of in self._stamped if abs(of - at) <= NEAR]
        return noted is not None and noted + ZONES < at and len(near) <= 1

    def volatile(self, text: str) -> str | None:
        """The pattern of all such texts, where a stamp or a key of the run is in it; else None."""
        if len(text) > MAX_PATTERN:
            return None
        parts: list[str] = []
        end = 0
        for found in _VOLATILE.finditer(text):
            token = found[0]
            since = Decimal(token) if token.replace(".", "").isdigit() else token
            if self.is_stamp("", since) or self.random_form(token) is not None:
                width = "16,35" if "." in token else str(len(token))  # a fraction may be left out
                parts += [escaped(text[end : found.start()]), f".{{{width}}}"]
                end = found.end()
        return "".join([*parts, escaped(text[end:])]) if parts else None

    def earlier(self, entity: str, field: str, value: Observed) -> Observed:
        """The latest stamp before the run: of the field, else of any; null without one."""
        own = (row.get(field) for row in self.run.rows(self.run.before, entity))
        return _latest_before(own, value) or _latest_before(self._stamps_before, value)

    @cached_property
    def _stamps_before(self) -> tuple[Observed, ...]:
        before = self.run.before
        return tuple(
            row.get(field.name)
            for name in before.tables
            for field in before.tables[name].type.fields
            if _is_stamp_name(field.name)
            for row in self.run.rows(before, name)
        )

    def _written(self) -> Iterator[tuple[str, Observed]]:
        """(name, value) of everything that the run wrote."""
        for delta in self.run.deltas:
            made = delta.after.fields if isinstance(delta.after, Entity) else ()
            for name, value in made:
                yield from _with_inside(name, value)
            if delta.op is Op.UPDATE and not isinstance(delta.after, Entity):
                steps = [step for step in delta.steps if isinstance(step, str)]
                yield from _with_inside((steps or [delta.path])[-1], delta.after)

    # ------------------------------------------------------------ keys

    @cached_property
    def _made(self) -> frozenset[tuple[str, Observed]]:
        """(type, key) of each entity that the run created under a key of one part."""
        return frozenset(
            (delta.type, delta.key[0])
            for delta in self.run.deltas
            if delta.op is Op.CREATE and len(delta.key) == 1
        )

    def made_by_run(self, field: Field | None, value: Observed) -> str | None:
        """The type of the created entity whose key the value is; of a bare text only if random."""
        if not isinstance(value, int | str) or isinstance(value, bool):
            return None
        if field is not None and field.reference is not None:
            return field.reference if (field.reference, value) in self._made else None
        if self.random_form(value) is None:
            return None
        return next((name for name, key in sorted(self._made, key=repr) if key == value), None)

    def random_form(self, value: Observed) -> str | None:
        """A pattern for such texts, where the run came up with a text at random; else None."""
        form = random_form(value)
        return None if form is None or value in self._known else form

    @cached_property
    def _known(self) -> frozenset[Observed]:
        """Every random text that was in the state before."""
        tables = self.run.before.tables
        rows = (row for name in tables for row in self.run.rows(self.run.before, name))
        cells = (cell for row in rows for cell in row.values())
        return frozenset(cell for cell in cells if random_form(cell) is not None)

    def chosen(self, entity: EntityType | None, name: str, value: Observed) -> Choice | None:
        """The kind of an application's choice; None where the task chose the value.

        Without a type, `name` is that of a place inside a value.
        """
        spec = None if entity is None else entity.by_name.get(name)
        if self.is_stamp(name, value):
            return Choice("stamp")
        made = self.made_by_run(spec, value)
        if made is not None:
            return Choice("key", made, self._named(made, value))
        if entity is not None and entity.name in self._created:
            numbering = self.numbering(entity.name)
            if name in numbering.columns and any(r[name] == value for r in numbering.created):
                return Choice("number")
            if isinstance(value, str) and (name, value) in numbering.texts:
                return Choice("numbered", numbering.texts[name, value])
        if not isinstance(value, str) or (spec is not None and spec.reference is not None):
            return None
        form = self.random_form(value)
        if form is not None:
            return Choice("random", form)
        pattern = self.volatile(value)
        return None if pattern is None else Choice("volatile", pattern)

    def _named(self, name: str, key: Observed) -> tuple[tuple[str, Observed], ...]:
        """A text of the new row that tells it from the other new ones, and is the task's."""
        entity, rows = self.run.schema.by_name[name], self._created[name]
        own = next(row for row in rows if row[entity.key[0]] == key) if len(rows) > 1 else {}
        for field, value in own.items():
            is_told = isinstance(value, str) and [r.get(field) for r in rows].count(value) == 1
            is_plain = field not in entity.key and entity.by_name[field].reference is None
            is_plain = is_plain and self.random_form(value) is None
            if is_told and is_plain and self.chosen(entity, field, value) is None:
                return ((field, value),)
        return ()

    @cached_property
    def _created(self) -> Mapping[str, tuple[Row, ...]]:
        """The rows that the run created, by their type."""
        found: dict[str, list[Row]] = defaultdict(list)
        for delta in self.run.deltas:
            if delta.op is Op.CREATE and isinstance(delta.after, Entity):
                found[delta.type].append(delta.after.as_row())
        return {name: tuple(rows) for name, rows in found.items()}

    def numbering(self, name: str) -> Numbering:
        """The numbers that the application gave rows of the type in the run."""
        if name not in self._numberings:
            rows = self.run.rows(self.run.before, name)
            entity = self.run.schema.by_name[name]
            self._numberings[name] = Numbering(entity, rows, self._created[name])
        return self._numberings[name]

    def key_of(self, name: str) -> str:
        """The one key field of a type."""
        return self.run.schema.by_name[name].key[0]

    # ------------------------------------------------------------ formulas

    @cached_property
    def formulas(self) -> Mapping[Place, Formula]:
        """The fields that an update of the run moved and that a formula gives, in both states."""
        found: dict[Place, Formula] = {}
        for delta in self.run.deltas:
            place = (delta.type, delta.path)
            if delta.op is Op.UPDATE and not delta.steps and place not in found:
                formula = self._formula(*place) if _is_number(delta.after) else None
                if formula is not None:
                    found[place] = Formula(*place, formula)
        return found

    def _formula(self, name: str, field: str) -> str | None:
        entity = self.run.schema.by_name[name]
        states = (self.run.before, self.run.after)
        rows = [self.run.rows(state, name) for state in states]
        if field in entity.key or instant(next((row.get(field) for row in rows[1]), None)):
            return None
        wanted = [row.get(field) for side in rows for row in side]
        if not all(map(_is_number, wanted)) or len(set(wanted)) < LEAST:
            return None
        moved = None
        for text, computed in self._candidates(entity, field, rows):
            if computed == wanted:
                return text
            if moved is None and text.startswith("count("):
                ends = [_moves(entity, rows, values) for values in (computed, wanted)]
                moved = text if ends[0] == ends[1] else None  # wrong before, and kept all the same
        return moved

    def _candidates(
        self, entity: EntityType, field: str, rows: list[tuple[Row, ...]]
    ) -> Iterator[tuple[str, list[Observed]]]:
        """Expressions over a row and what refers to it, each with its value in every row."""
        every = [row for side in rows for row in side]
        own = [f.name for f in entity.fields if f.name != field and _counts(entity, f, every)]
        for one, two in combinations(own, 2):
            for sign, a, b in (("*", one, two), ("+", one, two), ("-", one, two), ("-", two, one)):
                apply = _OPERATORS[sign]
                computed = [apply(row[a], row[b]) for row in every]
                yield f"it.{name_text(a)} {sign} it.{name_text(b)}", computed
        if len(entity.key) != 1:
            return
        for child in self.run.schema.types:
            for reference in (f for f in child.fields if f.reference == entity.name):
                yield from self._over_children(entity, rows, child, reference.name)

    def _over_children(
        self, entity: EntityType, rows: list[tuple[Row, ...]], child: EntityType, by: str
    ) -> Iterator[tuple[str, list[Observed]]]:
        sides = [self.run.rows(state, child.name) for state in (self.run.before, self.run.after)]
        both = [row for side in sides for row in side]
        numbers = [f.name for f in child.fields if _counts(child, f, both)]
        amounts: list[tuple[str, Callable[[Row], Any]]] = [("", lambda _: 1)]
        of = {n: f"c.{name_text(n)}" for n in numbers}
        amounts += [(of[n], itemgetter(n)) for n in numbers]
        amounts += [
            (f"{of[a]} * {of[b]}", partial(_product, a, b)) for a, b in combinations(numbers, 2)
        ]
        key = entity.key[0]
        for condition, holds in _conditions(child, by, both):
            that = f"c.{name_text(by)} == it.{name_text(key)}" + condition
            for text, amount in amounts:
                computed: list[Observed] = []
                for parents, children in zip(rows, sides, strict=True):
                    sums: dict[Observed, int | Decimal | float] = defaultdict(int)
                    for row in filter(holds, children):
                        sums[row.get(by)] += amount(row)
                    computed += [sums.get(row[key], 0) for row in parents]
                yield (
                    f"sum({text} for c in after.{type_text(child.name)} if {that})"
                    if text
                    else f"count(c for c in after.{type_text(child.name)} if {that})",
                    computed,
                )


def _moves(
    entity: EntityType, rows: list[tuple[Row, ...]], values: Sequence[Any]
) -> dict[tuple[Observed, ...], Any]:
    """How far the value of each row moved, of those that were there before and after."""
    keys = [tuple(row[name] for name in entity.key) for side in rows for row in side]
    count = len(rows[0])
    first = dict(zip(keys[:count], values[:count], strict=True))
    last = dict(zip(keys[count:], values[count:], strict=True))
    return {key: last[key] - first[key] for key in first.keys() & last.keys()}


def common_formulas(runs: Sequence[Inferred]) -> Mapping[Place, Formula]:
    """Those that no run contradicts."""
    found = {place: formula for of in runs for place, formula in of.formulas.items()}
    moved = [{(d.type, d.path) for d in of.run.deltas if d.op is Op.UPDATE} for of in runs]
    return {
        place: formula
        for place, formula in found.items()
        if all(
            place not in its or of.formulas.get(place) == formula
            for of, its in zip(runs, moved, strict=True)
        )
    }


_OPERATORS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "*": operator.mul,
    "+": operator.add,
    "-": operator.sub,
}


def _product(one: str, other: str, row: Mapping[str, Any]) -> Any:
    return row[one] * row[other]


def _is_of(name: str, value: Observed, row: Row) -> bool:
    """True if the field of the row holds the value."""
    return row.get(name) == value and type(row.get(name)) is type(value)


def _conditions(
    child: EntityType, by: str, rows: list[Row]
) -> Iterator[tuple[str, Callable[[Row], bool]]]:
    """Which rows may be meant: all, those without a mark, those with one value of a few."""
    yield "", lambda _: True
    for field in child.fields:
        values = [row.get(field.name) for row in rows]
        if field.name in (by, *child.key) or not all(map(is_value, values)):
            continue
        name = field.name
        if None in values and any(v is not None for v in values):
            yield f" and c.{name_text(name)} == null", partial(_is_of, name, None)
        few = {v for v in values if isinstance(v, bool | int | str)}
        if len(few) > MAX_VALUES or len(few) < LEAST:
            continue
        for value in sorted(few, key=repr):
            text = json.dumps(value, ensure_ascii=False)
            yield f" and c.{name_text(name)} == {text}", partial(_is_of, name, value)


def _counts(entity: EntityType, field: Field, rows: list[Row]) -> bool:
    """True if the field holds a number in every row, and numbers no entity."""
    if field.name in entity.key or field.reference is not None or not rows:
        return False
    return all(_is_number(row.get(field.name)) for row in rows)


def _is_number(value: object) -> bool:
    """True if sums of it are exact."""
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _latest_before(values: Iterable[Observed], value: Observed) -> Observed:
    like = (each for each in values if type(each) is type(value) and _order(each) < _order(value))
    return max(like, key=_order, default=None)


def _count(ordered: Sequence[datetime], least: datetime, most: datetime) -> int:
    return bisect(ordered, most) - bisect(ordered, least)


def _is_stamp_name(name: str) -> bool:
    return _STAMP.fullmatch(name) is not None and _AHEAD.search(name) is None


def _with_inside(name: str, value: Observed) -> Iterator[tuple[str, Observed]]:
    for steps, held in leaves(value):
        names = [step for step in steps if isinstance(step, str)]
        yield (names or [name])[-1], held


def instant(value: object) -> datetime | None:
    """The instant that the value is, in UTC: a timestamp, its text, or a number since 1970."""
    if isinstance(value, str):
        value = parse_instant(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        for unit in _UNITS:
            if _SINCE.timestamp() <= value / unit < _UNTIL.timestamp():
                return datetime.fromtimestamp(float(value / unit), UTC)
    return None


def _order(value: object) -> float:
    at = instant(value)
    if at is not None:
        return at.timestamp()
    day = value.isoformat() if isinstance(value, date) else value
    return (
        date.fromisoformat(day).toordinal() if isinstance(day, str) and _DAY.fullmatch(day) else 0
    )


def random_form(value: object) -> str | None:
    """The pattern of texts of the value's kind, where it was chosen at random; else None."""
    if not isinstance(value, str):
        return None
    for known, form in _RANDOM:
        if known.fullmatch(value):
            return form if form.endswith("}") else f"{form}{{{len(value)}}}"
    parts = _SEPARATORS.split(value.strip(".:$|~"))
    if len(value) >= _SEALED and len(parts) > 1 and all(map(_SEALED_PART.fullmatch, parts)):
        return f"[!-~]{{{len(value) // 2},{len(value) * 2}}}"  # a payload, an hour, a signature
    return None


def _common_start(texts: Sequence[str]) -> str:
    first, last = min(texts), max(texts)
    same = (n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b)
    return first[: next(same, min(len(first), len(last)))]


def shape(texts: Sequence[str]) -> str | None:
    """The pattern of texts such as these: words around a token that differs; None of free text."""
    if all(map(_COLOR.fullmatch, texts)) and len({*map(len, texts)}) == 1:
        return f"#[0-9A-Fa-f]{{{len(texts[0]) - 1}}}"
    start = _common_start(texts)
    end = _common_start([text[len(start) :][::-1] for text in texts])[::-1]
    # Tokens may begin alike by chance, so a common part ends where a word does.
    start = start[: max((m.end() for m in _BORDER.finditer(start)), default=0)]
    end = end[min((m.start() for m in _BORDER.finditer(end)), default=len(end)) :]
    inner = [text[len(start) : len(text) - len(end)] for text in texts]
    is_few = sum(map(len, inner)) < _ENOUGH and not all(map(str.isdigit, inner))
    known = _CLASSES[2:] if is_few else _CLASSES
    classes = next((c for c in known if all(re.fullmatch(f"{c}+", each) for each in inner)), None)
    if classes is None or not any(map(str.isdigit, "".join(inner))):
        return None
    sizes = {*map(len, inner)}
    width = f"{min(sizes)}" if len(sizes) == 1 else f"1,{max(sizes) * 2}"
    return f"{escaped(start)}{classes}{{{width}}}{escaped(end)}"
