"""What a right run changed, as clauses that ask for exactly that of every further run.

A value is pinned where the next right run has to write it again. What the application chooses is
described by a condition (`inferring`), and what it keeps by a formula. Changes that say the same of
several entities are one clause with a count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Final

from statediff.contract.authoring.inferring import Inferred, Run, random_form
from statediff.contract.language.written import has_words, name_text, says_something, type_text
from statediff.model.delta import Delta, Entity, Op
from statediff.model.json_values import as_nested, write_json
from statediff.model.paths import Steps, leaves, render
from statediff.model.schema import COUNTERS, EntityType, Field, Kind
from statediff.model.values import ABSENT, Key, Map, Observed, is_value, printable

MAX_TEXT: Final = 4000
"""Characters of a text that is pinned; a longer one is named, not written out."""
MAX_KEYS: Final = 200
_RAISED: Final = "(it.value == null or new.value > it.value)"
_COME: Final = (Op.CREATE, Op.LINK)
_GONE: Final = (Op.DELETE, Op.UNLINK)
_WORDS: Final = {Op.CREATE: "new", Op.UPDATE: "changed", Op.DELETE: "gone"}


@dataclass(frozen=True)
class Said:
    """What a clause says of one entity, but for its key."""

    op: Op
    type: str
    pins: tuple[tuple[str, str], ...] = ()
    """(path, the value as YAML)."""
    conditions: tuple[str, ...] = ()
    free: tuple[str, ...] = ()
    """Places that changed and of which no value can be written."""


@dataclass
class _Saying:
    """What is said of one entity, as it is gathered; `of` is how expressions call the entity."""

    inferred: Inferred
    entity: EntityType
    of: str
    pins: list[tuple[str, str]] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    """Conditions on whole fields that hold a text."""
    inner: list[str] = field(default_factory=list)
    """Conditions on what is inside a value; undefined where another row has no such part."""

    def add(self, name: str, steps: Steps, value: Observed) -> None:
        """Says of the place what the next right run writes there again."""
        path = render(name, steps)
        self.places.append(path)
        spec = None if steps else self.entity.by_name.get(name)
        chosen = self._chosen(spec, name, steps, value)
        if chosen is not None:
            (self.inner if steps else self.conditions).extend(chosen)
            return
        nested = as_nested(value) if self._is_json(name) else value
        if isinstance(nested, Map | tuple) and self._is_kept_inside(nested):
            for inner, leaf in leaves(nested):
                self.add(name, (*steps, *inner), leaf)
            return
        written = yaml_value(value, self._is_json(name) and not steps)
        if written is not None:
            self.pins.append((path, written))
            if isinstance(value, str) and not steps and not isinstance(nested, Map | tuple):
                self.texts.append(f"{self.of}.{name_text(name)} == {expression(value)}")
        elif has_words(value):
            # Too long or too odd to be written out: that it says something can be.
            read = expression_path(self.of, name, steps)
            if read is not None:
                is_nullable = spec is None or spec.is_nullable
                self.conditions.append(says_something(read, is_nullable=is_nullable))
        elif (
            isinstance(value, float)
            and (near := _near(value))
            and (read := expression_path(self.of, name, steps))
        ):
            self.conditions.append(f"within({read}, {near})")

    def _is_json(self, name: str) -> bool:
        spec = self.entity.by_name.get(name)
        return spec is not None and spec.kind is Kind.JSON

    def _is_kept_inside(self, value: Observed) -> bool:
        """Whether the application chose something inside the value."""
        return any(
            self._chosen(
                None, next((s for s in reversed(steps) if isinstance(s, str)), ""), (), leaf
            )
            for steps, leaf in leaves(value)
            if steps
        )

    def _chosen(
        self, spec: Field | None, name: str, steps: Steps, value: Observed
    ) -> list[str] | None:
        """Conditions on a value that the application chose; None where the task did."""
        read = expression_path(self.of, name, steps)
        if read is None:
            return None
        guard = f"{read} != null and " if spec is None or spec.is_nullable else ""
        last = next((step for step in reversed(steps) if isinstance(step, str)), name)
        if self.inferred.is_stamp(last, value):
            was = None if steps else self.inferred.earlier(self.entity.name, name, value)
            if steps and isinstance(value, str):
                return [f"{read} != null"]
            literal = expression(was)
            return [f"{guard}{read} > {literal}" if literal else f"{read} != null"]
        made = self.inferred.made_by_run(spec, value)
        if made is not None:
            of = f"created.{type_text(made)}"
            if spec and spec.reference:
                return [f"any(c == {read} for c in {of})"]
            return [f"any(c.{name_text(self.inferred.key_of(made))} == {read} for c in {of})"]
        if not isinstance(value, str) or (spec is not None and spec.reference is not None):
            return None
        form = self.inferred.random_form(value)
        pattern = form or self.inferred.volatile(value)
        if pattern is None:
            return None
        conditions = [f"{guard}matches({read}, {json.dumps(pattern, ensure_ascii=False)})"]
        if form and spec is not None and not self.entity.is_keyless:
            own = f"b.{name_text(name)}"
            new = f"{own} != {read}"
            others = f"{own} == null or {new}" if spec.is_nullable else new
            conditions.append(f"all({others} for b in before.{type_text(self.entity.name)})")
        return conditions

    def said(self, op: Op) -> Said:
        known = {path for path, _ in self.pins}
        free = () if op is not Op.UPDATE else tuple(p for p in self.places if p not in known)
        guards = self.texts if self.inner and op in _COME else []
        conditions = (*guards, *self.conditions, *self.inner)
        return Said(op, self.entity.name, tuple(self.pins), conditions, free)


def requirements(run: Run, inferred: Inferred) -> Iterator[str]:
    """The lines of the clauses, each changed entity in one of them."""
    groups: dict[Said, list[Key]] = {}
    for said, key in _entities(run, inferred):
        groups.setdefault(said, []).append(key)
    ids: set[str] = set()
    for said, keys in groups.items():
        entity = run.schema.by_name[said.type]
        word = _WORDS.get(said.op, said.op.value + "ed")
        made, number = f"{word}-{_slug(said.type)}", 2
        base = made
        while made in ids:
            made, number = f"{base}-{number}", number + 1
        ids.add(made)
        yield f"  - id: {made}"
        yield f"    {said.op.value}: {path_key(said.type)}"
        yield from _body(said, entity, keys)


def derivations(inferred: Inferred) -> Iterator[str]:
    """The lines of the fields that the application keeps, each with its formula."""
    for (name, path), formula in sorted(inferred.formulas.items()):
        yield f"  - id: kept-{_slug(name)}-{_slug(path)}"
        yield f"    field: {path_key(f'{name}.{path}')}"
        yield "    is: >-"
        yield f"      {formula.expression}"
        yield "    because: it was so in every row, before and after the run"


def _entities(run: Run, inferred: Inferred) -> Iterator[tuple[Said, Key]]:
    changed: dict[tuple[Op, str, Key], list[Delta]] = {}
    for delta in run.deltas:
        kept = delta.op is Op.UPDATE and (delta.type, delta.path) in inferred.formulas
        if not kept:
            changed.setdefault((delta.op, delta.type, delta.key), []).append(delta)
    for (op, name, key), deltas in changed.items():
        entity = run.schema.by_name[name]
        if name == COUNTERS and all(_is_raise(delta) for delta in deltas):
            # Its numbers have gaps: what was rolled back, or was there already, took one too.
            is_text = any(type(delta.after) is str for delta in deltas)
            raised = "new.value != it.value" if is_text else _RAISED
            yield Said(op, name, conditions=(raised,), free=("value",)), key
            continue
        if op is Op.UPDATE:
            saying = _Saying(inferred, entity, "new")
            for path, steps, value in _places(run, entity, deltas):
                saying.add(path, steps, value)
        else:
            saying = _Saying(inferred, entity, "it")
            for path, value in _fields(entity, op, deltas[0], inferred):
                saying.add(path, (), value)
        yield saying.said(op), key


def _is_raise(delta: Delta) -> bool:
    """Whether a counter counted on."""
    was, now = delta.before, delta.after
    if delta.op is not Op.UPDATE or delta.path != "value":
        return False
    if isinstance(was, str) and isinstance(now, str):  # some servers say their numbers as texts
        return was.isdecimal() and now.isdecimal() and int(was) < int(now)
    return type(now) is int and (was is None or (type(was) is int and was < now))


def _places(
    run: Run, entity: EntityType, deltas: Iterable[Delta]
) -> Iterator[tuple[str, Steps, Observed]]:
    """The changed places, a whole value where a place in it is gone: absence cannot be written."""
    whole: set[str] = set()
    for delta in deltas:
        after: Observed = ABSENT if isinstance(delta.after, Entity) else delta.after
        if after is not ABSENT or not delta.steps:
            continue
        if delta.path not in whole:
            whole.add(delta.path)
            row = run.after.tables[entity.name].row(delta.key)
            yield delta.path, (), ABSENT if row is None else row.get(delta.path, ABSENT)
    for delta in deltas:
        if delta.path not in whole and not isinstance(delta.after, Entity):
            yield delta.path, delta.steps, delta.after


def _fields(
    entity: EntityType, op: Op, delta: Delta, inferred: Inferred
) -> Iterator[tuple[str, Observed]]:
    """What is said of an entity that came or, where it has no key, went."""
    side = delta.before if op in _GONE else delta.after
    if not isinstance(side, Entity) or (op in _GONE and not entity.is_keyless):
        return
    for name, value in side.fields:
        is_key = name in entity.key and not entity.is_association
        spec = entity.by_name.get(name)
        refers = spec is not None and spec.reference is not None
        if is_key and not refers and (len(entity.key) == 1) and not _is_named(value):
            continue
        if (entity.name, name) not in inferred.formulas:
            yield name, value


def _is_named(value: Observed) -> bool:
    """Whether somebody who does the task may have chosen the key."""
    return isinstance(value, str) and random_form(value) is None


def _body(said: Said, entity: EntityType, keys: list[Key]) -> Iterator[str]:
    conditions = list(said.conditions)
    where = _where(entity, keys) if said.op not in _COME else ""
    pins = list(said.pins)
    if said.op in _COME or (said.op in _GONE and entity.is_keyless):
        where, conditions = " and ".join(conditions), []
    if where:
        yield "    where: >-"
        yield f"      {where}"
    if said.free:
        places = [*(path for path, _ in pins), *said.free]
        yield f"    fields: [{', '.join(map(path_key, places))}]"
    if pins:
        yield "    from:" if said.op in _GONE else "    set:"
        yield from (f"      {path_key(path)}: {value}" for path, value in pins)
    if conditions:
        yield "    that: >-"
        yield f"      {' and '.join(conditions)}"
    if len(keys) > 1:
        yield f"    count: {len(keys)}"


def _where(entity: EntityType, keys: list[Key]) -> str:
    """Which entities are meant, by their keys; empty where these cannot be written."""
    if not entity.key or len(keys) > MAX_KEYS:
        return ""
    literals = [[expression(part) for part in key] for key in keys]
    if any(part is None for key in literals for part in key):
        return ""
    fields = [f"it.{name_text(name)}" for name in entity.key]
    if len(entity.key) == 1:
        values = [str(key[0]) for key in literals]
        listed = f"in [{', '.join(values)}]" if len(values) > 1 else f"== {values[0]}"
        return f"{fields[0]} {listed}"
    whole = [
        " and ".join(
            f"it.{name_text(n)} == {part}" for n, part in zip(entity.key, key, strict=True)
        )
        for key in literals
    ]
    return whole[0] if len(whole) == 1 else " or ".join(f"({each})" for each in whole)


_BARE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*(\.\*)?")
_YAML_WORDS: Final = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
"""Words that some reader of YAML takes for something else than text."""


def path_key(path: str) -> str:
    """A name or path as a key, or an item of a list, of YAML."""
    is_bare = _BARE.fullmatch(path) and path.lower() not in _YAML_WORDS
    return path if is_bare else json.dumps(path, ensure_ascii=not path.isprintable())


def _slug(name: str) -> str:
    """A name as a part of an id."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-") or "x"


def _near(value: float) -> str | None:
    """A binary number as its shortest decimal, and how far from it is still it."""
    if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124 - not a number
        return None
    shortest = f"{Decimal(repr(value)):f}"
    least = max(abs(Decimal(repr(value))) * Decimal("1e-12"), Decimal("1e-12"))
    return f"{shortest}, {least.quantize(Decimal(1).scaleb(least.adjusted())):f}"


def yaml_value(value: Observed, is_json: bool = False) -> str | None:
    """A value as YAML for `set`; None where it cannot be written exactly."""
    if isinstance(value, datetime | date):
        return f"{{is: {json.dumps(expression(value))}}}"
    if isinstance(value, Map | tuple):
        text = write_json(value)
        if len(text) > MAX_TEXT or _odd(text):
            return None
        if is_json:
            return json.dumps(text, ensure_ascii=False)
        is_formula = isinstance(value, Map) and [*value] == ["is"]
        return None if is_formula else text
    return _scalar(value)


def _scalar(value: object) -> str | None:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return f"{value:f}" if value.is_finite() else None
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str) and len(value) <= MAX_TEXT and not _odd(value):
        return json.dumps(value, ensure_ascii=False)
    return None


def _odd(text: str) -> bool:
    """Whether a reader of the draft would not see what is in the text."""
    return printable(text.replace("\n", "").replace("\t", "")) != text.replace("\n", "").replace(
        "\t", ""
    )


def expression(value: Observed) -> str | None:
    """A value as an expression; None where there is no literal of it."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return f'timestamp("{value.isoformat()}")'
        return f'timestamp("{value.astimezone(UTC).isoformat().replace("+00:00", "Z")}")'
    if isinstance(value, date):
        return f'date("{value.isoformat()}")'
    if value is None or not is_value(value):
        return None
    return _scalar(value)


def expression_path(of: str, name: str, steps: Steps) -> str | None:
    """The place as an expression reads it; None where no expression can."""
    text = f"{of}.{name_text(name)}"
    for step in steps:
        if isinstance(step, str):
            text += (
                f".{step}" if step.isidentifier() else f"[{json.dumps(step, ensure_ascii=False)}]"
            )
        elif isinstance(step, int):
            text += f"[{step}]"
        else:
            return None
    return text
