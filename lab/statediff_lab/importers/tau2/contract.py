"""The closed contract of a τ² task: what its reference changes, and nothing else.

* clauses, one for each entity that the reference changes;
* `disputed` where two later corrections of the task disagree;
* `noop` where the reference does nothing;
* claims for what the agent must tell, of the state where the reference leaves it there;
* steps for calls that the task itself asks for.

The sections of the domain's pack stand in every contract. Its `settings`:

    assertions: {FUNCTION: EXPRESSION}   what a condition of the benchmark means; `{name}` is its
                                         argument. The task then asks for a goal: what belongs to
                                         the user may change in any way that reaches it
    user: [TYPE, …]                      types that the simulated user may update (`by: user`)
    decides: {FUNCTION: {field: TYPE.FIELD, of: ARGUMENT}}
                                         the condition decides this field of the entity that its
                                         argument names; what the reference leaves there is moot
    moot: [{type: TYPE, fields: [FIELD, …], because}]
                                         fields that may hold anything in the entities which the
                                         reference changes, and nowhere else
    rows: [TYPE.FIELD, …]                lists whose items are entities (`tau2_records`)
    spellings: [{field: TYPE.FIELD, beside: TYPE.FIELD prefix, as: [TEXT, …], because}]
                                         texts that mean the same, allowed where the reference
                                         changes the rest of the same address
    numerals: [{field: TYPE.FIELD, before: TEXT, because}]
                                         a whole number before this text may be written "2.0" or "2"

A task's own notes may say `outcome: stated`: their sections say what is wanted, not the reference.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from statediff.contract.file import ContractFile, parse_contract
from statediff.errors import UsageError
from statediff.model.values import Map, Value
from statediff.systems.tables.shape import Record
from statediff_lab.importers.pack import DomainPack, compose_yaml
from statediff_lab.importers.states import Edit
from statediff_lab.importers.tau2.answer import SCHEMA, claims
from statediff_lab.importers.tau2.format import Assertion, Criteria, Expectation

ID: Final = "id"
_NAMED: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLACE: Final = re.compile(r"\{([a-z_][a-z0-9_]*)\}")


@dataclass(frozen=True)
class Reading:
    """One reading of a task: the changes of its reference, and what is to be reported."""

    name: str
    changes: tuple[Edit, ...]
    communicate: tuple[str, ...] = ()
    because: str = ""


@dataclass(frozen=True)
class Asked:
    """A task as its contract needs it."""

    domain: str
    name: str
    criteria: Criteria
    readings: tuple[Reading, ...]
    types: tuple[str, ...]
    """Every entity type of the domain."""
    purpose: str = ""


def contract_of(asked: Asked, pack: DomainPack) -> ContractFile:
    """The closed contract of the task. `ContractError` where the pack does not fit the domain."""
    name = f"tau2/{asked.domain}/{_slug(asked.name)}"
    data = compose_yaml(_head(name, asked, pack), pack.sections, *_parts(asked, pack))
    return parse_contract(data, f"{name}.yaml")


def _head(name: str, asked: Asked, pack: DomainPack) -> dict[str, Any]:
    purpose = " ".join(asked.purpose.split())
    intent = f"Bring about what the reference of task {asked.name[:200]} brings about. {purpose}"
    head: dict[str, Any] = {
        "contract": name,
        "version": pack.version,
        "owner": f"pack {pack.name}",
        "intent": intent.strip()[:3000],
    }
    is_stated = pack.notes(asked.name).settings.get("outcome") == "stated"
    if not is_stated and all(not reading.changes for reading in asked.readings):
        head["noop"] = True
    return head


def _parts(asked: Asked, pack: DomainPack) -> Iterator[Mapping[str, Any]]:
    notes = pack.notes(asked.name)
    if notes.sections:
        yield notes.sections
    goals = _goals(asked.criteria, pack)
    users = tuple(pack.settings.get("user", ())) if goals else ()
    decided = _goal_fields(asked.criteria, pack) if goals else {}
    readings = [_without(reading, users, decided, pack) for reading in asked.readings]
    if goals:
        yield {"require": goals}
        yield {
            "allow": [
                {"id": f"user-{_slug(kind)}", "update": kind, "by": "user"}
                for kind in users
                if kind in asked.types
            ]
        }
        yield {"allow": [_goal_clause(at, *of) for at, of in enumerate(decided.items(), 1)]}
    yield {"allow": [*_spellings(readings, pack), *_moot(asked.readings, pack)]}
    if notes.settings.get("outcome") != "stated":
        yield from _outcome(asked, readings, pack, is_goal=bool(goals))
    if any(reading.communicate for reading in readings):
        told = claims(_common_infos(readings), _cells(readings))
        yield {"answer": {"schema": dict(SCHEMA), "claims": told}}
    if "ACTION" in asked.criteria.basis:
        yield {"steps": [_step(at, e) for at, e in enumerate(asked.criteria.actions or (), 1)]}


def _outcome(
    asked: Asked, readings: Sequence[Reading], pack: DomainPack, *, is_goal: bool
) -> Iterator[Mapping[str, Any]]:
    """The changes of the reference, as clauses, or under `disputed` where readings differ."""
    if len(readings) > 1:
        because = "; ".join(r.because for r in readings if r.because) or "two corrections disagree"
        agreed = _common_infos(readings)
        branches = {r.name: _branch(r, agreed, asked.types, pack) for r in readings}
        yield {"disputed": because[:2000], "any_of": branches}
    else:
        clauses = list(_clauses(readings[0], "reference", pack))
        yield {"require": clauses}
        if not clauses and not is_goal:
            yield {"forbid": [{"id": "nothing-changes", "any": list(asked.types)}]}


def _cells(readings: Sequence[Reading]) -> dict[Decimal, str]:
    """The place of each number that the one reference leaves once among its changes."""
    if len(readings) > 1:
        return {}
    found: dict[Decimal, list[str]] = {}
    for edit in readings[0].changes:
        for name, value in new_values(edit).items() if edit.after is not None else ():
            if isinstance(value, Decimal) and value and _NAMED.fullmatch(name):
                key = json.dumps(_key(edit), ensure_ascii=False)
                sign = "-" if value < 0 else ""  # people report amounts without one
                found.setdefault(abs(value), []).append(f"{sign}after.{edit.type}[{key}].{name}")
    return {value: places[0] for value, places in found.items() if len(places) == 1}


def _branch(
    reading: Reading, agreed: Sequence[str], types: Sequence[str], pack: DomainPack
) -> dict[str, Any]:
    """One reading of a disputed task: its changes, and what only it wants to be reported."""
    own = claims([info for info in reading.communicate if info not in agreed])
    required = [*_clauses(reading, reading.name, pack), *own]
    branch: dict[str, Any] = {"require": required} if required else {}
    if not reading.changes:
        branch["forbid"] = [{"id": f"{reading.name}-nothing", "any": list(types)}]
    return branch


def _common_infos(readings: Sequence[Reading]) -> list[str]:
    """The facts that every reading wants to be reported."""
    first, *others = readings
    return [
        info for info in first.communicate if all(info in other.communicate for other in others)
    ]


# ---------------------------------------------------------------- changes


def _without(
    reading: Reading,
    users: Sequence[str],
    decided: Mapping[tuple[str, str], str],
    pack: DomainPack,
) -> Reading:
    """The reading without what is the user's own, derived, outside the boundary or decided."""
    outside = {e["what"] for e in pack.sections.get("exclude", ())}
    outside |= {d["field"] for d in pack.sections.get("derive", ())}
    outside |= {
        f"{rule['type']}.{name}"
        for rule in pack.settings.get("moot", ())
        for name in rule["fields"]
    }
    kept: list[Edit] = []
    for edit in reading.changes:
        if edit.type in users or edit.type in outside:
            continue
        moot = decided.get((edit.type, _key(edit)))
        before, after = (
            None
            if record is None
            else {
                name: v
                for name, v in record.items()
                if f"{edit.type}.{name}" not in outside and name != moot
            }
            for record in (edit.before, edit.after)
        )
        if before != after:
            kept.append(Edit(edit.type, before, after))
    return Reading(reading.name, tuple(kept), reading.communicate, reading.because)


def new_values(edit: Edit) -> dict[str, Any]:
    """The new values of what the edit changes; a field that goes away becomes null."""
    before: Record = edit.before or {}
    after: Record = edit.after or {}
    names = sorted({*before, *after} - {ID})
    if edit.before is None:
        return {name: _json(after[name]) for name in names if after[name] is not None}
    return {name: _json(after.get(name)) for name in names if before.get(name) != after.get(name)}


def _key(edit: Edit) -> Any:
    record = edit.before if edit.after is None else edit.after
    return _json((record or {})[ID])


def _clauses(reading: Reading, prefix: str, pack: DomainPack) -> Iterator[dict[str, Any]]:
    """One required clause for each entity that the reference changes, exactly as it does."""
    for at, edit in enumerate(reading.changes, start=1):
        verb = "create" if edit.before is None else "delete" if edit.after is None else "update"
        clause: dict[str, Any] = {
            "id": f"{prefix}-{at}",
            verb: edit.type,
            "where": f"it.{ID} == {json.dumps(_key(edit), ensure_ascii=False)}",
        }
        if edit.after is not None:
            clause["set"] = new_values(edit)
            clause["fields"] = sorted(clause["set"])
            if spelled := _numerals(edit, pack):
                clause["set"] = {n: v for n, v in clause["set"].items() if n not in spelled}
                whose = "it" if edit.before is None else "new"
                clause["that"] = " and ".join(f"{whose}.{n} in {t}" for n, t in spelled.items())
        yield clause


def _numerals(edit: Edit, pack: DomainPack) -> dict[str, str]:
    """For each text with a number that may be spelled in two ways, the list of both texts."""
    values = {} if edit.after is None else new_values(edit)
    found = {}
    for rule in pack.settings.get("numerals", ()):
        kind, _, name = rule["field"].partition(".")
        text = values.get(name) if edit.type == kind else None
        if isinstance(text, str):
            number = re.compile(rf"(?<![\w.])([0-9]+)(?:\.0)?(?={re.escape(rule['before'])})")
            if number.search(text):
                both = [number.sub(rf"\g<1>{end}", text) for end in ("", ".0")]
                found[name] = json.dumps(both, ensure_ascii=False)
    return found


def _spellings(readings: Iterable[Reading], pack: DomainPack) -> Iterator[dict[str, Any]]:
    """Spellings allowed in what the reference changes anyway."""
    for at, rule in enumerate(pack.settings.get("spellings", ()), start=1):
        kind, _, name = rule["field"].partition(".")
        keys = {
            _key(edit)
            for reading in readings
            for edit in reading.changes
            if edit.type == kind and edit.before is not None and edit.after is not None
            if any(field.startswith(rule["beside"]) for field in new_values(edit))
            if name not in new_values(edit)
        }
        if not keys:
            continue
        texts = json.dumps(list(rule["as"]), ensure_ascii=False)
        yield {
            "id": f"spelling-{at}",
            "update": kind,
            "where": f"it.{ID} in {json.dumps(sorted(keys), ensure_ascii=False)} "
            f"and it.{name} in {texts}",
            "fields": [name],
            "that": f"new.{name} in {texts}",
        }


def _moot(readings: Iterable[Reading], pack: DomainPack) -> Iterator[dict[str, Any]]:
    """Yields the fields that may hold anything in the entities that a reference updates."""
    for at, rule in enumerate(pack.settings.get("moot", ()), start=1):
        keys = {
            _key(edit)
            for reading in readings
            for edit in reading.changes
            if edit.type == rule["type"] and edit.before is not None and edit.after is not None
        }
        if keys:
            yield {
                "id": f"moot-{at}",
                "update": rule["type"],
                "where": f"it.{ID} in {json.dumps(sorted(keys), ensure_ascii=False)}",
                "fields": list(rule["fields"]),
            }


# ---------------------------------------------------------------- goals and calls


def _goals(criteria: Criteria, pack: DomainPack) -> list[dict[str, Any]]:
    """The task's conditions as clauses; none where the pack does not know them all."""
    known: Mapping[str, str] = pack.settings.get("assertions", {})
    if not criteria.assertions or any(a.name not in known for a in criteria.assertions):
        return []
    return [
        {"id": f"goal-{at}", "that": _goal(known[assertion.name], assertion)}
        for at, assertion in enumerate(criteria.assertions, start=1)
    ]


def _goal_fields(criteria: Criteria, pack: DomainPack) -> dict[tuple[str, str], str]:
    """(type, key) → the field that some condition of the task decides."""
    rules = pack.settings.get("decides", {})
    found: dict[tuple[str, str], str] = {}
    for assertion in criteria.assertions:
        rule = rules.get(assertion.name)
        key = None if rule is None else assertion.arguments.get(rule["of"])
        if rule is not None and isinstance(key, str):
            kind, _, name = rule["field"].partition(".")
            found[kind, key] = name
    return found


def _goal_clause(at: int, place: tuple[str, str], name: str) -> dict[str, Any]:
    kind, key = place
    where = f"it.{ID} == {json.dumps(key, ensure_ascii=False)}"
    return {"id": f"goal-decides-{at}", "update": kind, "where": where, "fields": [name]}


def _goal(template: str, assertion: Assertion) -> str:
    def put(found: re.Match[str]) -> str:
        if found[1] not in assertion.arguments:
            raise UsageError(f"{assertion.name}: the pack names an argument {found[1]!r} it lacks")
        return _literal(assertion.arguments[found[1]])

    said = " ".join(_PLACE.sub(put, template).split())
    return said if assertion.holds else f"not ({said})"


def _literal(value: Any) -> str:
    if isinstance(value, str | bool) or value is None:
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def _step(at: int, expected: Expectation) -> dict[str, Any]:
    counted = expected.arguments if expected.compare is None else expected.compare
    told = [f"call.tool == {json.dumps(expected.name)}"]
    told += [
        f"call.arguments.{name} == {_literal(expected.arguments[name])}"
        for name in sorted(counted)
        if name in expected.arguments
    ]
    return {"id": f"called-{at}", "where": " and ".join(told), "count": {"min": 1}}


def _json(value: Value | Any) -> Any:
    if isinstance(value, Map):
        return {name: _json(item) for name, item in value.items}
    if isinstance(value, tuple):
        return [_json(item) for item in value]
    return value


def _slug(name: str) -> str:
    """A name that contracts may have, different for different tasks."""
    if re.fullmatch(r"[a-z0-9][a-z0-9_.-]{0,60}", name):
        return name
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60]
    return f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
