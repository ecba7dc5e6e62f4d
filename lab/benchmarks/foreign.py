"""Our own contracts, tried by somebody else's faults: other operators than those of `mutate`.

    python -m lab.benchmarks.foreign                 # every task of the packs, its first reference
    python -m lab.benchmarks.foreign shop/notify-once --each 5 --seed 3
    python -m lab.benchmarks.foreign erp/buy-within-budget --named  # a wide schema, its own types

The operators of `mutate` were written beside the contracts; these were not. They shuffle columns
and whole tables, shift dates by a time zone, write letters that look alike, cut texts, change
types, swap references, take back a part of what the run did, and so on. A fault that gets MATCH is
listed with the clauses that let it pass: it is a hole, or it is what the task allows.
"""

from __future__ import annotations

import argparse
import json
import random
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from copy import copy
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Final

from statediff.contract.file import load_contract
from statediff.contract.lint.subject import bound_clauses
from statediff.errors import StatediffError
from statediff.meta.cases import read_cases
from statediff.meta.fault_classes import altered_entities, means_nothing
from statediff.meta.reference import Change, Rows
from statediff.meta.world import Fault, Touched, World, undo
from statediff.model.batches import Row
from statediff.model.schema import EntityType, Field
from statediff.model.values import Key, Observed
from statediff.model.verdict import Verdict
from statediff.suite.campaign import SandboxPool
from statediff.workspace.installed import served_tasks
from statediff.workspace.references import live_references

EACH: Final = 1
"""Seeds of an operator and type."""
ROWS: Final = 25
"""Rows that a fault of a whole table or column alters; of a larger table, as many at random."""
_LOOK_ALIKES: Final = str.maketrans("aceopxyACEHKMOPTXB", "асеорхуАСЕНКМОРТХВ")  # noqa: RUF001 - that is the fault
_ZONES: Final = (timedelta(hours=5, minutes=30), timedelta(hours=-8), timedelta(hours=1))

Values = Callable[[Any, random.Random], Observed | None]
"""Another value for a value; None where there is none."""


# ---------------------------------------------------------------- one value


def _off_by_one(value: Any, rng: random.Random) -> Observed | None:
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    return value + rng.choice((-1, 1)) if is_number else None


def _rescaled(value: Any, _rng: random.Random) -> Observed | None:
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    return value * 100 if is_number and value else None


def _transposed(value: Any, rng: random.Random) -> Observed | None:
    """Two neighboring digits or letters change places."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    text = str(value)
    places = [at for at in range(len(text) - 1) if text[at] != text[at + 1]]
    if not places or text.startswith("-"):
        return None
    at = rng.choice(places)
    other = text[:at] + text[at + 1] + text[at] + text[at + 2 :]
    return other if isinstance(value, str) else int(other)


def _in_other_zone(value: Any, rng: random.Random) -> Observed | None:
    shift = rng.choice(_ZONES)
    if isinstance(value, datetime):
        return value + shift
    if not isinstance(value, str) or len(value) < len("2024-05-15T10:00"):
        return None
    try:
        moved = datetime.fromisoformat(value) + shift
    except ValueError:
        return None
    return moved.isoformat(sep=value[10])


def _look_alike(value: Any, _rng: random.Random) -> Observed | None:
    return value.translate(_LOOK_ALIKES) if isinstance(value, str) else None


def _decomposed(value: Any, _rng: random.Random) -> Observed | None:
    return unicodedata.normalize("NFD", value) if isinstance(value, str) else None


def _invisible(value: Any, rng: random.Random) -> Observed | None:
    if not isinstance(value, str) or not value:
        return None
    at = rng.randrange(len(value) + 1)
    return f"{value[:at]}\N{ZERO WIDTH SPACE}{value[at:]}"


def _other_case(value: Any, _rng: random.Random) -> Observed | None:
    return value.swapcase() if isinstance(value, str) else None


def _padded(value: Any, _rng: random.Random) -> Observed | None:
    return f"{value} " if isinstance(value, str) else None


def _cut(value: Any, rng: random.Random) -> Observed | None:
    is_long = isinstance(value, str) and len(value) > 1
    return value[: rng.randrange(1, len(value))] if is_long else None


def _other_type(value: Any, _rng: random.Random) -> Observed | None:
    match value:
        case bool():
            return int(value)
        case int() | Decimal():
            return str(value)
        case "":
            return None
        case str() if value.isdigit():
            return int(value)
        case _:
            return None


def _emptied(value: Any, _rng: random.Random) -> Observed | None:
    return "" if isinstance(value, str) and value else None


VALUES: Final[Mapping[str, Values]] = {
    "one-more-or-less": _off_by_one,
    "hundredfold": _rescaled,
    "neighbors-swapped": _transposed,
    "other-zone": _in_other_zone,
    "letters-look-alike": _look_alike,
    "letters-decomposed": _decomposed,
    "letter-invisible": _invisible,
    "letter-case": _other_case,
    "blank-behind": _padded,
    "cut-short": _cut,
    "other-type": _other_type,
    "emptied": _emptied,
}


def one_value(world: World, rng: random.Random, each: int) -> Iterator[Fault]:
    """One value of a row, of those that the run touched and of those that it did not."""
    for entity in world.types:
        for name, alter in VALUES.items():
            places = [
                (key, field, other)
                for key, row in world.reference.rows(entity.name).items()
                for field in world.fields(entity)
                if (other := alter(row.get(field.name), rng)) is not None
                and other != row.get(field.name)
            ]
            touched = {one.key for one in world.touched if one.type == entity.name}
            inside = [place for place in places if place[0] in touched]
            beside = [place for place in places if place[0] not in touched]
            for found in (inside, beside):
                for key, field, other in rng.sample(found, min(each, len(found))):
                    sentence = f"{entity.name} {key}: {field.name} is {other!r}"
                    change = _set(key, {field.name: other})
                    yield from _seed(
                        world, name, f"{entity.name}.{field.name}", sentence, {entity.name: change}
                    )


def whole_column(world: World, rng: random.Random, _each: int) -> Iterator[Fault]:
    """Every value of a column: moved on by one row, or altered alike."""
    for entity in world.types:
        rows = _some_rows(world, entity, rng)
        for field in world.fields(entity) if len(rows) > 1 else ():
            target = f"{entity.name}.{field.name}"
            values = [row.get(field.name) for row in rows.values()]
            moved = dict(zip(rows, values[1:] + values[:1], strict=True))
            yield from _seed(
                world,
                "column-rotated",
                target,
                f"{target} moved on by one row",
                {entity.name: _column(field, moved)},
            )
            name, alter = rng.choice([*VALUES.items()])
            altered = {key: alter(row.get(field.name), rng) for key, row in rows.items()}
            known = {key: value for key, value in altered.items() if value is not None}
            yield from _seed(
                world,
                f"column-{name}",
                target,
                f"all of {target}: {name}",
                {entity.name: _column(field, known)},
            )


def whole_table(world: World, rng: random.Random, _each: int) -> Iterator[Fault]:
    """Every row of a table: under another key, or gone, or as it was before the run."""
    for entity in world.types:
        keys = list(_some_rows(world, entity, rng))
        if len(keys) > 1:
            shuffled = rng.sample(keys, len(keys))
            yield from _seed(
                world,
                "table-permuted",
                entity.name,
                f"the rows of {entity.name} changed keys",
                {entity.name: _permute(entity, dict(zip(keys, shuffled, strict=True)))},
            )
        if keys:
            yield from _seed(
                world,
                "table-emptied",
                entity.name,
                f"{entity.name} lost its rows",
                {entity.name: _without(keys)},
            )


def two_rows(world: World, rng: random.Random, each: int) -> Iterator[Fault]:
    """One row's values in another row, and two rows' references exchanged."""
    for entity in world.types:
        rows = world.reference.rows(entity.name)
        fields = [field.name for field in world.fields(entity)]
        for _ in range(each if len(rows) > 1 and fields else 0):
            one, other = rng.sample(list(rows), 2)
            copied = {name: rows[one].get(name) for name in fields}
            yield from _seed(
                world,
                "row-copied-over",
                entity.name,
                f"{entity.name} {other} has the values of {one}",
                {entity.name: _set(other, copied)},
            )
            for field in world.fields(entity):
                if field.reference is not None:
                    new = {
                        key: rows[its].get(field.name) for key, its in ((one, other), (other, one))
                    }
                    yield from _seed(
                        world,
                        "references-swapped",
                        f"{entity.name}.{field.name}",
                        f"{entity.name} {one} and {other} exchanged {field.name}",
                        {entity.name: _column(field, new)},
                    )


def part_of_the_run(world: World, rng: random.Random, each: int) -> Iterator[Fault]:
    """A part of what the run did is taken back: some entities, or some fields of one."""
    for _ in range(3 * each if len(world.touched) > 1 else 0):
        number = rng.randrange(1, len(world.touched))
        back = rng.sample(world.touched, number)
        changes = _together(back)
        names = ", ".join(one.name for one in back[:3])
        yield from _seed(
            world, "partly-written", back[0].type, f"not done: {names} ({number})", changes
        )
    for one in world.touched:
        if one.before is not None and one.after is not None and len(one.fields) > 1:
            field = rng.choice(one.fields)
            change = _set(one.key, {field: one.before[field]})
            yield from _seed(
                world,
                "torn-row",
                f"{one.type}.{field}",
                f"{one.name}: {field} as before",
                {one.type: change},
            )


def done_again(world: World, _rng: random.Random, _each: int) -> Iterator[Fault]:
    """Entities that the run made are there again under the next key; removed ones are back."""
    for one in world.touched:
        entity = world.reference.types[one.type]
        if one.after is None and one.before is not None:
            yield from _seed(
                world, "is-back", one.type, f"{one.name} is back", {one.type: undo(one)}
            )
        elif one.before is None and one.after is not None and len(entity.key) == 1:
            key = _next_key(world, entity)
            if key is not None:
                row = {**one.after, entity.key[0]: key[0]}
                yield from _seed(
                    world,
                    "made-twice",
                    one.type,
                    f"{one.name} a second time",
                    {one.type: partial(_insert, key, row)},
                )


OPERATORS: Final = (one_value, whole_column, whole_table, two_rows, part_of_the_run, done_again)


# ---------------------------------------------------------------- edits


def _seed(
    world: World, operator: str, target: str, sentence: str, changes: Mapping[str, Change]
) -> Iterator[Fault]:
    try:
        fault = world.faulty(operator, target, sentence, changes)
        if not means_nothing(fault, world):
            yield fault
    except (StatediffError, ValueError, TypeError) as error:
        # No source could deliver it: a row under two keys, a value that its kind has not.
        world.leave(f"faults of the kind {operator}", f"no state: {type(error).__name__}")


def _some_rows(world: World, entity: EntityType, rng: random.Random) -> Rows:
    rows = world.reference.rows(entity.name)
    return {key: rows[key] for key in rng.sample(list(rows), min(ROWS, len(rows)))}


def _without(keys: Sequence[Key]) -> Change:
    def change(rows: Rows) -> None:
        for key in keys:
            del rows[key]

    return change


def _insert(key: Key, row: Row, rows: Rows) -> None:
    rows[key] = row


def _set(key: Key, values: Mapping[str, Any]) -> Change:
    def change(rows: Rows) -> None:
        rows[key] = {**rows[key], **values}

    return change


def _column(field: Field, values: Mapping[Key, Any]) -> Change:
    def change(rows: Rows) -> None:
        for key, value in values.items():
            rows[key] = {**rows[key], field.name: value}

    return change


def _permute(entity: EntityType, moved: Mapping[Key, Key]) -> Change:
    def change(rows: Rows) -> None:
        old = dict(rows)
        for key, other in moved.items():
            own = dict(zip(entity.key, key, strict=True))
            rows[key] = {**old[other], **own}

    return change


def _together(back: Sequence[Touched]) -> Mapping[str, Change]:
    def changes_of(name: str) -> Change:
        def change(rows: Rows) -> None:
            for one in back:
                if one.type == name:
                    undo(one)(rows)

        return change

    return {name: changes_of(name) for name in {one.type for one in back}}


def _next_key(world: World, entity: EntityType) -> Key | None:
    known = [key[0] for key in world.reference.rows(entity.name)]
    if not all(isinstance(key, int) for key in known):
        return None
    return (max(known) + 1,)  # type: ignore[type-var,operator]  # numbers, just asked


# ---------------------------------------------------------------- the trial


@dataclass(frozen=True)
class Passed:
    """A fault that got MATCH."""

    contract: str
    reference: str
    operator: str
    target: str
    sentence: str
    clauses: tuple[str, ...]
    """What explains the altered entities; none where no clause does."""


def trial(world: World, seed: int, each: int) -> tuple[Counter[tuple[str, str]], list[Passed]]:
    """(operator, verdict) → faults, and those that got MATCH."""
    rng = random.Random(f"foreign {seed} {world.reference.contract.digest}")
    name = world.reference.contract.content.contract
    counts: Counter[tuple[str, str]] = Counter()
    passed = []
    for operator in OPERATORS:
        for fault in operator(world, rng, each):
            judgement = fault.mutant.judged()
            counts[fault.operator, judgement.verdict.value] += 1
            if judgement.verdict is Verdict.MATCH:
                altered = altered_entities(world.reference, fault.mutant)
                ids = {d.id for d in judgement.deltas if (d.type, d.key) in altered}
                why = {c for i, clauses in judgement.explained_by if i in ids for c in clauses}
                passed.append(
                    Passed(
                        name,
                        world.reference.name,
                        fault.operator,
                        fault.target,
                        fault.sentence,
                        tuple(sorted(why)),
                    )
                )
    return counts, passed


REFERENCES: Final = 1


def named(world: World) -> World:
    """The same world for faults in the types that the contract names or the run touches."""
    said = {r.type for clause in bound_clauses(world.compiled.contract) for r in clause.reads}
    known = said | {one.type for one in world.touched}
    narrow = copy(world)
    narrow.__dict__["types"] = tuple(each for each in world.types if each.name in known)
    return narrow


def trials(
    path: Path, seed: int, each: int, is_narrow: bool = False
) -> Iterator[tuple[Counter[tuple[str, str]], list[Passed]]]:
    """The first reference agents of one contract."""
    file = load_contract(path)
    with closing(SandboxPool()) as pool:
        for run in live_references(
            file, path, read_cases(path.parent).references[:REFERENCES], pool
        ):
            world = World(run, run.judged(), seed)
            yield trial(named(world) if is_narrow else world, seed, each)


def main() -> None:
    """Prints, task by task, each fault that got MATCH; then what every operator gave."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("contracts", nargs="*")
    parser.add_argument("--each", type=int, default=EACH)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--named", action="store_true", help="only types of the task")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    counts: Counter[tuple[str, str]] = Counter()
    for folder in served_tasks():
        name = f"{folder.contract.parent.parent.name}/{folder.contract.parent.name}"
        if given.contracts and name not in given.contracts:
            continue
        for found, holes in trials(folder.contract, given.seed, given.each, given.named):
            counts.update(found)
            got = {v.value: sum(n for (_, w), n in found.items() if w == v.value) for v in Verdict}
            print(f"{name}: {sum(found.values())} faults, {got}", flush=True)
            for each in holes:
                print(json.dumps(each.__dict__) if given.json else each, flush=True)
    for operator in sorted({o for o, _ in counts}):
        row = [counts[operator, verdict.value] for verdict in Verdict]
        print(f"{operator:<28}", *(f"{n:>7}" for n in row))
    print(
        f"{'all':<28}",
        *(f"{sum(n for (_, v), n in counts.items() if v == each.value):>7}" for each in Verdict),
    )


if __name__ == "__main__":
    main()
