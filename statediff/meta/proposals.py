"""Clauses that close a hole: each is made of the right run, and proven before it is proposed.

A proposal is one further clause, as YAML with its section. Added to the contract as it is, every
reference still gets MATCH and no mutant of the survivor does. What no such clause closes has none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

from statediff.contract.authoring.inferring import Inferred, Run
from statediff.contract.authoring.literals import expression, path_key, yaml_value
from statediff.contract.file import ContractFile, parse_contract
from statediff.contract.language.written import has_words, says_something
from statediff.contract.yaml.reader import read_document
from statediff.errors import ContractError
from statediff.meta.reference import Reference
from statediff.model.delta import Delta, Entity, Op
from statediff.model.schema import EntityType, Kind, Schema
from statediff.model.state import State
from statediff.model.values import ABSENT, Observed, is_value
from statediff.model.verdict import OF_COUNTERS, Judgement, Verdict

MAX_KEYS: Final = 50
MAX_MUTANTS: Final = 12
"""Mutants of one survivor that a proposal is tried on."""
_PAST: Final = {op: f"{op.value.removesuffix('e')}ed" for op in Op}


@dataclass(frozen=True)
class Proposal:
    """One clause to add: its section, what is said above it, and its lines below `- id`."""

    section: str
    advice: str
    id: str
    lines: tuple[str, ...]


def as_yaml(chosen: Sequence[Proposal], taken: Iterable[str] = ()) -> str:
    """The clauses as YAML by section, each under an id of its own that is not taken."""
    known, sections = set(taken), dict[str, list[str]]()
    for one in chosen:
        name, number = one.id, 2
        while name in known:
            name, number = f"{one.id}-{number}", number + 1
        known.add(name)
        lines = sections.setdefault(one.section, [f"{one.section}:"])
        lines += [f"  # {one.advice}", f"  - id: {name}", *(f"    {line}" for line in one.lines)]
    return "\n".join(line for lines in sections.values() for line in lines)


def with_proposal(file: ContractFile, text: str) -> ContractFile:
    """The contract with the clauses of a proposal in their sections. Raises `ContractError`."""
    added = read_document(text.encode(), "the proposal").value
    value = dict(file.source.value)
    for section, clauses in added.items():
        value[section] = [*(value.get(section) or ()), *clauses]
    return parse_contract(_written(value).encode(), file.source.file)


def proven(
    file: ContractFile,
    references: Sequence[Reference],
    mutants: Sequence[tuple[Reference, Sequence[Proposal]]],
) -> str:
    """Proposals that together keep every reference and kill every mutant; empty without any.

    Each mutant comes with those that were made of it. One that does not kill its own is not tried
    on the others, and one whose own is killed already is not tried at all: judging takes long.
    """
    taken = {
        str(each.get("id"))
        for held in file.source.value.values()
        for each in (held if isinstance(held, list) else ())
        if isinstance(each, dict)
    }
    left, chosen = [mutant for mutant, _ in mutants[:MAX_MUTANTS]], list[Proposal]()
    tried: set[Proposal] = set()
    for own, made in mutants[:MAX_MUTANTS]:
        for proposal in made:
            if all(own is not each for each in left):
                break  # an earlier proposal kills it
            if proposal in tried:
                continue
            tried.add(proposal)
            text = as_yaml([*chosen, proposal], taken)
            try:
                added = with_proposal(file, text)
                if _verdict(own, added) is not Verdict.DIVERGE or any(
                    _verdict(reference, added) is not Verdict.MATCH for reference in references
                ):
                    continue
                left = [
                    m for m in left if m is not own and _verdict(m, added) is not Verdict.DIVERGE
                ]
            except ContractError:
                continue
            chosen.append(proposal)
            if not left:
                return text
    return ""


def _verdict(reference: Reference, file: ContractFile) -> Verdict:
    return replace(reference, contract=file).judged().verdict


def proposals(reference: Reference, old: Judgement, new: Judgement) -> Iterator[Proposal]:
    """Clauses that may close the hole between the right run's judgement and a mutant's."""
    known = {delta.id: delta for delta in old.deltas}
    there = {delta.id: delta for delta in new.deltas}
    named = dict(old.explained_by) | dict(new.explained_by)
    for delta in new.deltas:
        if known.get(delta.id) == delta:
            continue
        by = named.get(delta.id, ())
        entity = reference.types.get(delta.type)
        if entity is None or OF_COUNTERS in by:  # it follows the rows: they are to be said
            continue
        if delta.id in known or any(
            d.key == delta.key and d.type == delta.type for d in old.deltas
        ):
            yield from _worded(entity, known.get(delta.id, delta), delta)
            yield from _pinned(reference, entity, old, delta, by)
        yield from _bounded(entity, old, delta, by)
    for delta in old.deltas:
        entity = reference.types.get(delta.type)
        if delta.id not in there and entity is not None:
            yield from _pinned(reference, entity, old, delta, named.get(delta.id, ()))


def _worded(entity: EntityType, old: Delta, new: Delta) -> Iterator[Proposal]:
    """Text where the right run wrote some and the mutant none: whatever it says."""
    if not isinstance(old.after, Entity) or not isinstance(new.after, Entity):
        return
    was, now = old.after.as_row(), new.after.as_row()
    for field in entity.fields:
        is_lost = has_words(was.get(field.name)) and not has_words(now.get(field.name))
        if not is_lost or now.get(field.name) is ABSENT:
            continue
        said = says_something(f"it.{field.name}", is_nullable=False)
        null = f"it.{field.name} == null or " if field.is_nullable else ""
        name = f"no-empty-{entity.name}-{field.name}".replace(".", "-").replace("_", "-")
        lines = (f"create: {entity.name}", "where: >-", f"  {null}not {said}")
        yield Proposal("forbid", "whatever it says, it says something", name, lines)


def _pinned(
    reference: Reference, entity: EntityType, old: Judgement, delta: Delta, by: tuple[str, ...]
) -> Iterator[Proposal]:
    """The right run's own change required, with its values."""
    name = entity.name.replace(".", "-").replace("_", "-")
    advice = f"{by[0]} lets it pass: say which value is right" if by else "say what is right"
    where = _where(entity, [delta.key])
    if delta.op in (Op.DELETE, Op.UNLINK):
        lines = (f"{delta.op.value}: {entity.name}", *where) if where else ()
        if lines:
            yield Proposal("require", "require what may now be missing", f"needs-{name}", lines)
        return
    row = reference.rows(entity.name).get(delta.key)
    if row is None:
        return
    if delta.op is Op.UPDATE:
        changed = {d.path for d in old.deltas if d.type == entity.name and d.key == delta.key}
        fields = sorted(changed | {delta.path})
    else:
        opaque = () if entity.is_association else entity.key
        fields = [f.name for f in entity.fields if f.name not in opaque]
    stamps = _inferred(reference, old).is_stamp  # the next right run has another hour
    pins = [
        (f, None if stamps(f, row.get(f, ABSENT)) else _value(entity, f, row.get(f, ABSENT)))
        for f in fields
    ]
    known = tuple(f"  {path_key(f)}: {text}" for f, text in pins if text is not None)
    if known and (where or delta.op is not Op.UPDATE):
        yield Proposal(
            "require",
            advice,
            f"right-{name}",
            (
                f"{delta.op.value}: {entity.name}",
                *(where if delta.op is Op.UPDATE else ()),
                "set:",
                *known,
                *_alike(entity, old, delta, fields),
            ),
        )


def _inferred(reference: Reference, judgement: Judgement) -> Inferred:
    """The inferences from the right run about its hour."""
    schema = Schema("run", "0", tuple(reference.types.values()))
    empty = State(schema, {})
    return Inferred(Run(schema, judgement.deltas, empty, empty))


def _alike(
    entity: EntityType, old: Judgement, delta: Delta, fields: Sequence[str]
) -> tuple[str, ...]:
    """How many entities came like this one, where it is more than one."""
    if delta.op is Op.UPDATE:
        return ()
    rows = [
        d.after.as_row()
        for d in old.deltas
        if d.type == entity.name and d.op is delta.op and isinstance(d.after, Entity)
    ]
    own = next(
        (d.after.as_row() for d in old.deltas if d.id == delta.id and isinstance(d.after, Entity)),
        {},
    )
    count = sum(all(row.get(f) == own.get(f) for f in fields) for row in rows)
    return (f"count: {count}",) if count > 1 else ()


def _bounded(
    entity: EntityType, old: Judgement, delta: Delta, by: tuple[str, ...]
) -> Iterator[Proposal]:
    """No further change of the kind: forbidden beside the right run's own, or counted."""
    own = [d for d in old.deltas if d.type == entity.name and d.op is delta.op]
    name = entity.name.replace(".", "-").replace("_", "-")
    advice = f"{by[0]} lets it pass: nothing else may change so" if by else "forbid it"
    head = f"{delta.op.value}: {entity.name}"
    field: tuple[str, ...] = ()
    if delta.op is Op.UPDATE:
        own = [d for d in own if d.path == delta.path]
        field = (f"fields: [{path_key(delta.path)}]",)
    keys = list(dict.fromkeys(d.key for d in own))
    beside = _where(entity, keys, "not in") if keys else ()
    if not keys:
        yield Proposal("forbid", advice, f"no-other-{name}", (head, *field))
    elif beside and delta.op is not Op.CREATE:
        yield Proposal("forbid", advice, f"no-other-{name}", (head, *field, *beside))
    if delta.op is not Op.UPDATE:
        counted = f"that: count(e for e in {_PAST[delta.op]}.{entity.name}) == {len(keys)}"
        yield Proposal("require", advice, f"only-{len(keys)}-{name}", (counted,))


def _where(
    entity: EntityType, keys: Sequence[tuple[Observed, ...]], how: str = "in"
) -> tuple[str, ...]:
    literals = [[expression(part) for part in key] for key in keys]
    if not entity.key or len(keys) > MAX_KEYS or any(p is None for key in literals for p in key):
        return ()
    one_of = [
        " and ".join(f"it.{n} == {p}" for n, p in zip(entity.key, key, strict=True))
        for key in literals
    ]
    text = " or ".join(f"({each})" for each in one_of) if len(one_of) > 1 else one_of[0]
    return ("where: >-", f"  not ({text})" if how == "not in" else f"  {text}")


def _value(entity: EntityType, field: str, value: Observed) -> str | None:
    spec = entity.by_name.get(field)
    return (
        yaml_value(value, spec is not None and spec.kind is Kind.JSON) if is_value(value) else None
    )


def _written(value: Any) -> str:
    """The document as YAML in flow style, numbers exactly."""
    match value:
        case Mapping():
            members = (f"{json.dumps(str(k))}: {_written(v)}" for k, v in value.items())
            return "{" + ", ".join(members) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(_written, value)) + "]"
        case Decimal():
            return f"{value:f}"
        case _:
            return json.dumps(value, ensure_ascii=False)
