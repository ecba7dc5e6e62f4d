"""The values that several runs wrote at one place, as a condition on every further right run.

1. What an application chose is bound by what it was chosen for: a stamp is later than every one
   before, the key of a new row is that of a new row, a token is of its kind and new.
2. What is the same in every run is pinned. One run alone shows no difference: what it wrote is so.
3. What differs is bound by the narrowest that holds in all runs: another field of the row, a shape
   of texts, a number that rises, a time that follows another one. Else it is left open.

Whatever differs is a `Difference`, about which a person may be asked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import takewhile
from typing import Final, NamedTuple

from statediff.contract.authoring.aligning import COME, Change, Member
from statediff.contract.authoring.inferring import Choice, instant, shape
from statediff.contract.authoring.literals import expression, expression_path, near_to, yaml_value
from statediff.contract.authoring.numbering import escaped
from statediff.contract.language.written import has_words, name_text, says_something, type_text
from statediff.model.delta import Op
from statediff.model.json_values import as_nested
from statediff.model.paths import Steps, leaves, render
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.values import ABSENT, Map, Observed, same, show

APART: Final = timedelta(seconds=2)
"""How much a time may come earlier or later after the one that it follows."""


class Cell(NamedTuple):
    """The value that one run wrote at a place."""

    member: Member
    value: Observed

    @property
    def row(self) -> dict[str, Observed]:
        """The whole entity after the run."""
        member = self.member
        if member.op is not Op.UPDATE:
            return member.row
        return dict(member.of.run.after.tables[member.type].row(member.key) or {})

    def was(self, name: str) -> Observed:
        """The field before the run."""
        row = self.member.of.run.before.tables[self.member.type].row(self.member.key)
        return ABSENT if row is None else row.get(name, ABSENT)


@dataclass(frozen=True)
class Difference:
    """A place where right runs differ, and how it is bound; empty where it is left open."""

    place: str
    values: tuple[str, ...]
    bound: tuple[str, ...]


@dataclass
class Saying:
    """The conditions on a changed entity, as they are gathered."""

    entity: EntityType
    change: Change
    free: Container[str] = ()
    """Places that may hold anything, by their owner's word."""
    pins: list[tuple[str, str]] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    """Conditions on whole fields that hold a text."""
    inner: list[str] = field(default_factory=list)
    """Conditions on what is inside a value; undefined where another row has no such part."""
    open: list[Difference] = field(default_factory=list)

    @property
    def of(self) -> str:
        """How expressions call the entity."""
        return "new" if self.change.op is Op.UPDATE else "it"

    def add(self, name: str, steps: Steps, cells: Sequence[Cell]) -> None:
        """Says of the place what the next right run writes there again."""
        path = render(name, steps)
        self.places.append(path)
        spec = None if steps else self.entity.by_name.get(name)
        if spec is not None and spec.kind is Kind.BYTES:
            return  # no literal says it
        if f"{self.entity.name}.{path}" in self.free:
            return
        first, is_same = cells[0].value, all(same(cells[0].value, c.value) for c in cells[1:])
        chosen = self._chosen(spec, name, steps, cells, is_same=is_same)
        is_partial = len(cells) < len(self.change.members)
        if chosen is None and (parts := self._parts(name, steps, cells, is_same=is_same)):
            for inner, held in parts:
                self.add(name, (*steps, *inner), held)
            return
        if chosen is None and is_same:
            if not is_partial:
                self._pin(path, spec, name, steps, first)
                return
            read, said = expression_path(self.of, name, steps), expression(first)
            chosen = [f"{read} == {said}"] if read and said and not steps else []
        if chosen is None:
            chosen = self._differing(spec, name, steps, cells)
            values = tuple(show(cell.value) for cell in cells)
            self.open.append(Difference(path, values, tuple(chosen)))
        if is_partial and chosen:
            own = name_text(name)
            chosen = [] if steps else [f"(new.{own} == it.{own} or {' and '.join(chosen)})"]
        (self.inner if steps else self.conditions).extend(chosen)

    def _parts(
        self, name: str, steps: Steps, cells: Sequence[Cell], *, is_same: bool
    ) -> list[tuple[Steps, list[Cell]]]:
        """The places inside values that differ, or of which the application chose one."""
        values = [self._nested(name, steps, cell.value) for cell in cells]
        inside = [dict(leaves(v)) for v in values if isinstance(v, Map | tuple)]
        if len(inside) < len(cells) or any(each.keys() != inside[0].keys() for each in inside):
            return []
        of = cells[0].member.of
        is_chosen = any(of.chosen(None, _last("", at), leaf) for at, leaf in inside[0].items())
        if () in inside[0] or (is_same and not is_chosen):
            return []
        pairs = list(zip(cells, inside, strict=True))
        return [(at, [Cell(cell.member, of[at]) for cell, of in pairs]) for at in inside[0]]

    def _nested(self, name: str, steps: Steps, value: Observed) -> Observed:
        return as_nested(value) if self._is_json(name) and not steps else value

    def _pin(self, path: str, spec: Field | None, name: str, steps: Steps, value: Observed) -> None:
        """Says that the value is there again; what cannot be written out, as far as it can."""
        written = yaml_value(value, self._is_json(name) and not steps)
        read = expression_path(self.of, name, steps)
        if written is not None:
            self.pins.append((path, written))
            is_text = isinstance(value, str) and self._nested(name, steps, value) is value
            if is_text and not steps:
                self.texts.append(f"{self.of}.{name_text(name)} == {expression(value)}")
        elif has_words(value) and read is not None:
            is_nullable = spec is None or spec.is_nullable
            self.conditions.append(says_something(read, is_nullable=is_nullable))
        elif isinstance(value, float) and (near := near_to(value)) and read is not None:
            self.conditions.append(f"within({read}, {near})")

    def _is_json(self, name: str) -> bool:
        spec = self.entity.by_name.get(name)
        return spec is not None and spec.kind is Kind.JSON

    def _chosen(
        self, spec: Field | None, name: str, steps: Steps, cells: Sequence[Cell], *, is_same: bool
    ) -> list[str] | None:
        """Conditions on values that the application chose; None where the task did, or both."""
        read = expression_path(self.of, name, steps)
        entity = None if steps else self.entity
        every = {cell.member.of.chosen(entity, _last(name, steps), cell.value) for cell in cells}
        if read is None or None in every or len({c.kind for c in every if c}) != 1:
            return None
        choice = next(c for c in every if c)
        if is_same and _is_again(choice, cells):
            return None
        is_numbered = choice.kind in ("number", "numbered")
        if is_numbered and self.change.op not in COME:
            return None
        if choice.kind != "stamp" and not is_numbered and len(every) > 1:
            return None
        guard = f"{read} != null and " if spec is None or spec.is_nullable else ""
        match choice.kind:
            case "stamp":
                return self._stamped(read, guard, name, steps, cells)
            case "key":
                key = name_text(cells[0].member.of.key_of(choice.said))
                of = "c" if spec and spec.reference else f"c.{key}"
                told = [f"c.{name_text(n)} == {expression(value)}" for n, value in choice.named]
                said = " and ".join([f"{of} == {read}", *told])
                return [f"any({said} for c in created.{type_text(choice.said)})"]
            case "number":
                kinds = [cell.member.of.numbering(self.entity.name) for cell in cells]
                gaps = any(each.fills_gaps(name) for each in kinds)
                ways = [each.conditions(name, fills_gaps=gaps) for each in kinds]
                return ways[0] if all(way == ways[0] for way in ways) else None
            case "numbered":
                return self._numbered(name, guard, cells)
            case _:
                said = f"{guard}matches({read}, {_quoted(choice.said)})"
                return [said, *self._is_new(spec, choice, read)]

    def _numbered(self, name: str, guard: str, cells: Sequence[Cell]) -> list[str] | None:
        """A text with a number of its row: around another such text, else of its kind and new."""
        read = f"{self.of}.{name_text(name)}"
        texts = [cell.member.of.numbering(self.entity.name).texts for cell in cells]
        for other in (f.name for f in self.entity.fields if f.name != name):
            held = [str(cell.row.get(other)) for cell in cells]
            if all((other, text) in known for text, known in zip(held, texts, strict=True)):
                it = f"{self.of}.{name_text(other)}"
                for inner, said in ((held, it), ([t.lower() for t in held], f"lower({it})")):
                    pairs = zip(cells, inner, strict=True)
                    around = {tuple(str(cell.value).split(text)) for cell, text in pairs}
                    ends = next(iter(around))
                    if len(around) == 1 and len(ends) == 2 and any(ends):
                        parts = [_quoted(ends[0]), said, _quoted(ends[1])]
                        return [f"{read} == {' + '.join(p for p in parts if p != _quoted(''))}"]
        widest = max((k[name, str(c.value)] for c, k in zip(cells, texts, strict=True)), key=len)
        if not all(re.fullmatch(widest, str(cell.value)) for cell in cells):
            return None
        others = f"for b in before.{type_text(self.entity.name)}"
        own = f"b.{name_text(name)}"
        said = f"{guard}matches({read}, {_quoted(widest)})"
        return [said, f"all({own} == null or {own} != {read} {others})"]

    def _is_new(self, spec: Field | None, choice: Choice, read: str) -> Iterator[str]:
        """The condition that no entity had the token before."""
        if choice.kind == "random" and spec is not None and not self.entity.is_keyless:
            own = f"b.{name_text(spec.name)}"
            others = f"{own} == null or {own} != {read}" if spec.is_nullable else f"{own} != {read}"
            yield f"all({others} for b in before.{type_text(self.entity.name)})"

    def _stamped(
        self, read: str, guard: str, name: str, steps: Steps, cells: Sequence[Cell]
    ) -> list[str]:
        """A stamp is of the run, where its hours are known; else later than every one before."""
        if steps and any(isinstance(cell.value, str) for cell in cells):
            plain = _DIGITS.sub(_any_digits, escaped(str(cells[0].value)))
            is_form = all(re.fullmatch(plain, str(cell.value)) for cell in cells)
            return [f"{read} != null", *[f"matches({read}, {_quoted(plain)})"] * is_form]
        if not steps and all(_is_within(cell) for cell in cells):
            return [f"{guard}{read} - run.start >= -{SLACK} and {read} - run.end <= {SLACK}"]
        lower = [cell.member.of.earlier(self.entity.name, name, cell.value) for cell in cells]
        literals = [None if steps else expression(each) for each in lower]
        if None in literals or len({type(each) for each in lower}) > 1:
            return [f"{read} != null"]
        said = f"{guard}{read} > {expression(min(lower))}"  # type: ignore[type-var]  # of one kind
        is_several = len({id(cell.member.of) for cell in cells}) > 1
        return [said, *(self._following(read, "", name, cells, LATE) if is_several else ())]

    def _differing(
        self, spec: Field | None, name: str, steps: Steps, cells: Sequence[Cell]
    ) -> list[str]:
        """The narrowest condition that holds in every run; none where nothing does."""
        read = expression_path(self.of, name, steps)
        if read is None:
            return []
        guard = f"{read} != null and " if spec is None or spec.is_nullable else ""
        if not steps and (other := self._alike(name, cells)) is not None:
            return [f"{read} == {self.of}.{name_text(other)}"]
        values = [cell.value for cell in cells]
        texts = [value for value in values if isinstance(value, str)]
        if len(texts) == len(values):
            # Of a few sentences beside the task, that they begin alike says nothing.
            is_free = not self.change.is_common and any(" " in text for text in texts)
            pattern = None if is_free else shape(texts)
            if pattern is not None:
                return [f"{guard}matches({read}, {_quoted(pattern)})"]
            said = says_something(read, is_nullable=bool(guard))
            named = [f"contains({read}, {_quoted(each)})" for each in self._names(texts)]
            return [said, *named] if all(map(has_words, texts)) else []
        if steps:
            return []
        if all(isinstance(value, datetime) for value in values):
            return self._following(read, guard, name, cells, SLACK)
        if all(isinstance(v, int | Decimal) and not isinstance(v, bool) for v in values):
            return self._counted(read, guard, name, cells)
        return []

    def _names(self, texts: Sequence[str]) -> list[str]:
        """Numbers, dates and codes that all texts of the task name, though in other words."""
        found = [{each.strip(_MARKS) for each in text.split()} for text in texts]
        common = set.intersection(*found) if self.change.is_common else set[str]()
        return sorted(each for each in common if len(each) > 1 and any(map(str.isdigit, each)))

    def _alike(self, name: str, cells: Sequence[Cell]) -> str | None:
        """A field of the row before it, which has a bound of its own, and holds the same."""
        rows = [cell.row for cell in cells]
        for other in takewhile(lambda f: f.name != name, self.entity.fields):
            values = [row.get(other.name, ABSENT) for row in rows]
            is_it = all(same(cell.value, v) for cell, v in zip(cells, values, strict=True))
            if is_it and None not in values:
                return other.name
        return None

    def _following(
        self, read: str, guard: str, name: str, cells: Sequence[Cell], slack: int
    ) -> list[str]:
        """So long after a time of the row that is bound before it, and differs between runs too."""
        for other in takewhile(lambda f: f.name != name, self.entity.fields):
            held = [cell.row.get(other.name) for cell in cells]
            apart = sorted(_apart(c.value, time) for c, time in zip(cells, held, strict=True))
            is_fixed = all(same(time, held[0]) for time in held)
            if not is_fixed and apart[-1] - apart[0] <= APART and apart[0] > timedelta.min:
                own = f"{self.of}.{name_text(other.name)}"
                seconds = round(apart[0].total_seconds())
                return [f"{guard}{own} != null and within({read} - {own}, {seconds}, {slack})"]
        return []

    def _counted(self, read: str, guard: str, name: str, cells: Sequence[Cell]) -> list[str]:
        """A number that rose, or that is above every one before."""
        own, numbers = name_text(name), [_number(cell.value) for cell in cells]
        if self.change.op is Op.UPDATE:
            was = [_number(cell.was(name)) for cell in cells]
            is_risen = all(w < n for w, n in zip(was, numbers, strict=True))
            return [f"{guard}it.{own} != null and {read} > it.{own}"] if is_risen else []
        of = cells[0].member.of
        known = [row.get(name) for row in of.run.rows(of.run.before, self.entity.name)]
        most = max((_number(value) for value in known), default=_MOST)
        if self.change.op in COME and not self.entity.is_keyless and most < min(numbers):
            before = f"before.{type_text(self.entity.name)}"
            return [f"{guard}all(b.{own} == null or b.{own} < {read} for b in {before})"]
        return []


def _apart(one: Observed, other: Observed) -> timedelta:
    """How far apart two times of one kind are; the least that there is of anything else."""
    if not isinstance(one, datetime) or not isinstance(other, datetime):
        return timedelta.min
    return timedelta.min if (one.tzinfo is None) != (other.tzinfo is None) else one - other


def _number(value: Observed) -> Decimal:
    """The number, for comparison; less than every other one where it is none."""
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    return Decimal(value) if is_number else Decimal("-Infinity")  # type: ignore[arg-type]  # a number


_DIGITS: Final = re.compile(r"(\\\.)?[0-9]+")
_MARKS: Final = ".,;:!?()[]<>\"'`*_"
_MOST: Final = Decimal("Infinity")
SLACK: Final = 2
"""Seconds by which a clock of whole seconds, or of another machine, may be apart."""
LATE: Final = 60
"""Seconds by which a slow program's two stamps of one row may be further apart."""


def _is_within(cell: Cell) -> bool:
    """True if the value is an instant between the run's begin and end, as they were noted."""
    noted = cell.member.of.run.timeline
    if noted is None or not isinstance(cell.value, datetime) or cell.value.tzinfo is None:
        return False
    start, end = noted.agent_started_at, noted.agent_finished_at
    slack = timedelta(seconds=SLACK)
    return start is not None and end is not None and start - slack <= cell.value <= end + slack


def _is_again(choice: Choice, cells: Sequence[Cell]) -> bool:
    """True if a further run, at another moment, shows that nothing was chosen anew."""
    runs = {id(cell.member.of): cell.member.of for cell in cells}
    if choice.kind == "random":
        return len(runs) > 1
    at, moments = instant(cells[0].value), [of.moment for of in runs.values()]
    if choice.kind != "stamp" or at is None or None in moments:
        return False
    if all(of.is_ahead(at) for of in runs.values()):
        return len(runs) > 1
    coarse = timedelta(seconds=0 if at.microsecond else SLACK if at.second else 60)
    return max(moments) - min(moments) > coarse  # type: ignore[operator,type-var]  # none is None


def _any_digits(found: re.Match[str]) -> str:
    """So many digits; of a fraction, any or none."""
    return r"(\.[0-9]+)?" if found[1] else f"[0-9]{{{len(found[0])}}}"


def _last(name: str, steps: Steps) -> str:
    return next((step for step in reversed(steps) if isinstance(step, str)), name)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
