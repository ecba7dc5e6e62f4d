"""First drafts, from what was observed: a state schema and a contract for a person to finish.

A draft states nothing as certain that was inferred: each inference stands beside a comment that
says what it was inferred from. The contract is marked `reviewed: false`; nothing gates on it.
Values of the state go into it as quoted JSON scalars only, names only where they are plain.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from typing import Final

from statediff.contract.authoring.aligning import align
from statediff.contract.authoring.inferring import Inferred, Run, common_formulas
from statediff.contract.authoring.literals import expression, path_key
from statediff.contract.authoring.requiring import Clause, clauses, derivations
from statediff.contract.clauses.causes import first_causes
from statediff.contract.document.profiles import Shipped, shipped
from statediff.contract.language.english import singular
from statediff.contract.lint.wording import PLACEHOLDERS
from statediff.model.batches import Row
from statediff.model.delta import Op
from statediff.model.instants import NO_FORM, form_of_all, has_offset, is_written_in, spelling_of
from statediff.model.json_values import as_nested
from statediff.model.schema import (
    COUNTERS,
    MAIL_TYPES,
    SCHEMA_OBJECT_PREFIXES,
    EntityType,
    Kind,
    Purpose,
    Schema,
)
from statediff.model.schema import Field as TypedField
from statediff.model.state import State, Table
from statediff.model.values import Map, Observed, is_value, printable

SAMPLED: Final = 1000
"""Rows of a table that are looked at; a draft is a proposal, not a proof."""
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
States = Sequence[tuple[str, State]]
_POWERS: Final = ("role", "grant", "member", "permission", "approval", "privilege", "session")
_PERSON: Final = "member"
"""A table that is called only so has people in it, unless it joins two others."""
_JOINED: Final = 2
_ID: Final = re.compile(r"_id$|(?<=[a-z0-9])I[dD]$")
"""How a column ends that holds the key of another table's row."""
_KEYS: Final = ("id", "uuid", "guid", "key")
_NAMES: Final = ("slug", "sku", "code", "email", "username", "name")
"""Names of fields that name a row, case and `_` aside."""
_MOST_KEYED: Final = 100_000
"""Rows of a table in which a field that names them is looked for."""
_HOLDS: Final = (
    (Purpose.PERMISSIONS, ("role", "grant", "permission", "privilege")),
    (Purpose.HISTORY, ("audit", "journal", "history", "log")),
    (Purpose.MESSAGES, ("message", "mail", "email", "notification", "outbox")),
)
"""The purpose of a table's rows, by a word of its name."""
_GROUPS: Final = {"group", "role", "team", "permission"}
_PERSONS: Final = {"user", "account", "member", "person", "people", "employee", "staff", "login"}
_RIGHTS: Final = re.compile(
    r"(\w+_)?(role|roles|privileges?|permissions?|capabilities|scopes?|access_level)"
    r"|is_?(admin|administrator|staff|superuser|owner|root|moderator)|superuser|admin",
    re.IGNORECASE,
)
"""Names of fields that say what somebody may do."""


@dataclass
class DraftedField:
    """The proposal for one field; `why` is empty where the catalogue says it itself."""

    name: str
    column: str
    kind: str = "any"
    told: dict[str, str] = field(default_factory=dict)
    why: str = ""
    reference: str | None = None


@dataclass(frozen=True)
class DraftedEntity:
    """The proposal for one table."""

    table: str
    source: str
    fields: tuple[DraftedField, ...]
    holds: Purpose | None
    key: str = ""
    """The field that seems to name its rows, where the source says none; else empty."""
    own_key: tuple[str, ...] = ()
    """The columns that name its rows, as the source says."""


def draft_schema(
    name: str,
    states: States,
    after: States = (),
    known: Mapping[str, Collection[str]] | None = None,
) -> str:
    """A state schema file for the tables of some sources: kinds, references, keys, uses.

    `after` are the sources after each run, which show more values. `known` has the columns that
    each table has before it by itself; None: all. What a run made is optional and described whole,
    so that a run that does not make it is judged too.
    """
    entities = [
        entity
        for source, state in states
        for entity in _entities(source, state, [last for name, last in after if name == source])
    ]
    lines = [
        "# A first draft: types have the names of their tables.",
        "# Lines with a comment were inferred from the data; check them.",
        f"schema: {path_key(name)}",
        "version: 0.1.0",
        "entities:",
    ]
    for entity in entities:
        is_made = known is not None and entity.table not in known
        columns = known.get(entity.table) if known else None
        for one in entity.fields:
            if columns is not None and one.column not in columns:
                one.told = {"type": one.kind, **one.told, "optional": "true"}
                one.why = one.why or "only seen after the run"
            elif is_made:
                to = {} if one.reference is None else {"to": path_key(one.reference)}
                one.told = {"type": one.kind, **to, **one.told}
        lines.append(f"  {path_key(entity.table)}:")
        lines.append(f"    source: {path_key(entity.source)}")
        if is_made:
            lines.append("    optional: true  # only seen after the run")
        if is_made and not entity.key:
            named = {one.column: one.name for one in entity.fields}
            names = ", ".join(path_key(named[each]) for each in entity.own_key)
            lines.append(f"    key: {f'[{names}]' if names else 'none'}")
        if entity.key:
            lines.append(f"    key: [{path_key(entity.key)}]  # every record has another one")
        if entity.holds is not None:
            lines.append(
                f"    holds: {entity.holds.value}  # by its name; a person may take it out"
            )
        told = [f for f in entity.fields if f.told or f.name != f.column]
        if told:
            lines.append("    fields:")
        for one in told:
            column = {} if one.name == one.column else {"column": path_key(one.column)}
            inside = ", ".join(f"{k}: {v}" for k, v in {**column, **one.told}.items())
            why = f"  # {one.why}" if one.why else ""
            lines.append(f"      {path_key(one.name)}: {{{inside}}}{why}")
    if not entities:
        lines[-1] = "entities: {}"
    return "\n".join(lines) + "\n"


def _entities(source: str, state: State, after: Sequence[State]) -> Iterator[DraftedEntity]:
    states = [state, *after]
    types = [t for each in reversed(states) for t in each.schema.types if not _is_system(t)]
    tables = {t.source_table: t for t in types}
    fitting = profiles_of(tables).values()
    packed = {place: how for profile in fitting for place, how in profile.packed.items()}
    named = {at.partition(".")[0] for each in fitting for at in (*each.tables, *each.packed)}
    for table, entity in sorted(tables.items()):
        held = [each.tables[entity.name] for each in states if entity.name in each.tables]
        known = dict(islice(held[0].rows(), SAMPLED))
        new = (pair for table in held[1:] for pair in islice(table.rows(), SAMPLED))
        rows = [*known.values(), *(row for key, row in new if known.get(key) != row)]
        fields = _distinct(tuple(_field(f, rows, entity, tables) for f in entity.fields))
        for one in fields if table in named else ():
            one.name = one.column
            if (packing := packed.get(f"{table}.{one.column}")) is not None:
                one.told, one.why = {"form": packing}, ""
        holds = entity.holds or _holds(entity)
        key = "" if entity.key else _key(table, fields, held)
        own = tuple(entity.by_name[name].source_column for name in entity.key)
        yield DraftedEntity(table, source, fields, holds, key, own)


def profiles_of(tables: Mapping[str, EntityType]) -> dict[str, Shipped]:
    """The frameworks that tables are of, by name."""
    return {name: each for name, each in shipped().items() if each.fits(tables)}


def _key(name: str, fields: Sequence[DraftedField], tables: Sequence[Table]) -> str:
    """The field that names a row by its own name, and of which every row has another value.

    Of the rows in each state, since a run may change them; empty where there is none.
    """
    own = singular(name.lower()).replace("_", "")
    wanted = [*_KEYS, *(f"{own}{ending}" for ending in ("id", "uuid", "key", "number", "code"))]
    wanted += _NAMES
    plain = {one.column.replace("_", "").lower(): one for one in reversed(fields)}
    for one in (plain[each] for each in wanted if each in plain):
        if all(_is_unique(one.column, table) for table in tables):
            return one.name
    return ""


def _is_unique(column: str, table: Table) -> bool:
    """True if there are rows, not too many to look at, and each has another text or number."""
    seen: set[Observed] = set()
    for number, (key, row) in enumerate(table.rows(), 1):
        value = row.get(column)
        if number > _MOST_KEYED or not isinstance(value, str | int) or isinstance(value, bool):
            return False
        # Equal rows are one entry, whose key counts them.
        if value in seen or (isinstance(key[-1], int) and key[-1] > 1):
            return False
        seen.add(value)
    return bool(seen)


def _holds(entity: EntityType) -> Purpose | None:
    """The likely purpose of a table's rows, by the words of its name; `catalog` is no log.

    What ties a person to a group says who may do what.
    """
    words = _words(entity.source_table)
    aims = [_words(f.reference) for f in entity.fields if f.reference is not None]
    if any(aim & _GROUPS and any(o is not aim and o & _PERSONS for o in aims) for aim in aims):
        return Purpose.PERMISSIONS
    return next((holding for holding, known in _HOLDS if words & {*known}), None)


def _words(name: str) -> set[str]:
    return {singular(word) for word in re.split(r"[\W_]+", name.lower())}


def _field(
    told: TypedField, rows: Sequence[Row], entity: EntityType, tables: Mapping[str, EntityType]
) -> DraftedField:
    values = [v for row in rows if (v := row.get(told.name)) is not None and is_value(v)]
    drafted = DraftedField(told.name, told.source_column, told.kind.value)
    if told.reference is not None:
        drafted.reference = told.reference
        drafted.name = _without_id(drafted.name, entity)
        return drafted
    aim = _aim(told, entity, tables)
    if aim is not None and values:
        drafted.name = _without_id(drafted.name, entity)
        drafted.told = {"to": path_key(aim)}
        drafted.why = f"no foreign key; inferred from the name {printable(told.name)}"
    elif told.kind is Kind.TEXT and (form := _form(values)) is not None:
        drafted.told, drafted.why = _instants(form, f"{len(values)} values look like instants")
        drafted.told = {"type": "timestamp", **drafted.told}
    elif (
        told.kind is Kind.TEXT
        and told.name not in entity.key
        and values
        and all(isinstance(as_nested(value), Map | tuple) for value in values)
    ):
        drafted.told = {"type": "json"}
        drafted.why = f"{len(values)} values are JSON objects or lists"
    elif told.kind is Kind.LOCAL_TIMESTAMP and told.form not in (None, NO_FORM):
        form = _wider(str(told.form), values)
        drafted.told, drafted.why = _instants(form, "stored as text in this form")
        drafted.told = {"type": "timestamp", **drafted.told}
    elif told.kind is Kind.LOCAL_TIMESTAMP:
        drafted.told = {"type": "timestamp", "zone": "UTC"}
        drafted.why = "stored without a zone; the zone is a guess"
    elif told.kind is Kind.INT and values and _says_flag(told.name) and set(values) <= {0, 1}:
        drafted.told = {"type": "bool"}
        drafted.why = "only 0 and 1 were seen"
    return drafted


def _without_id(name: str, entity: EntityType) -> str:
    short = _ID.sub("", name)
    return short if short and short not in entity.by_name and _PLAIN.fullmatch(short) else name


def _aim(told: TypedField, entity: EntityType, tables: Mapping[str, EntityType]) -> str | None:
    """The table that a column such as `customer_id` refers to, if there is one with one key."""
    if not _ID.search(told.name) or (told.name in entity.key and len(entity.key) == 1):
        return None
    stem = _ID.sub("", told.name).replace("_", "").lower()
    for table, known in tables.items():
        plain = table.replace("_", "").lower()
        if stem in (singular(table.lower()).replace("_", ""), plain) and len(known.key) == 1:
            return table
    return None


def _distinct(fields: tuple[DraftedField, ...]) -> tuple[DraftedField, ...]:
    """No two fields under one name: the second keeps its column's."""
    seen: set[str] = set()
    for one in fields:
        while one.name in seen:
            one.name += "_"
        seen.add(one.name)
    return fields


def _form(values: Sequence[Observed]) -> str | None:
    """The one form in which all the values are instants; None where there is none."""
    spellings = {spelling_of(value) if isinstance(value, str) else None for value in values}
    known = {spelling for spelling in spellings if spelling is not None}
    return form_of_all(known) if len(known) == len(spellings) else None


def _wider(form: str, values: Sequence[Observed]) -> str:
    """The form with a fraction that may be left out, where a run left it out."""
    texts = [value for value in values if isinstance(value, str)]
    times = [value for value in values if isinstance(value, datetime)]
    wide = re.sub(r"\.(f+)(?!\])", r"[.\1]", form)
    is_wide = all(is_written_in(text, wide) for text in texts) and all(t.microsecond for t in times)
    return wide if texts and is_wide else form


def _instants(form: str, why: str) -> tuple[dict[str, str], str]:
    """The lines of a schema for instants in the form, and the reason."""
    told = {"form": json.dumps(form)}  # its brackets end a mapping in flow style
    if has_offset(form):
        return told, why
    return {"zone": "UTC", **told}, f"{why}; the zone is a guess"


def _says_flag(name: str) -> bool:
    return name.startswith(("is_", "has_", "can_")) or name in (
        "active",
        "enabled",
        "deleted",
        "public",
    )


# ---------------------------------------------------------------- the contract


@dataclass(frozen=True)
class Seen:
    """The ground of a draft: a schema, its sources, and of runs their changes and states."""

    schema: Schema
    sources: tuple[str, ...]
    runs: tuple[Run, ...] = ()
    """Right ones, each of which did the task."""
    idle: tuple[Run, ...] = ()
    """Runs in which nobody did the task."""
    sandbox: str | None = None
    unseen: Mapping[str, str] = field(default_factory=dict)
    """Type → why nothing is known of it after some run."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """Type or TYPE.FIELD → why not all of it was read before the runs."""
    used: Mapping[str, Mapping[str, Observed]] = field(default_factory=dict)
    """The profiles that explain what the runs did beside the task, each with its inputs."""
    followed: Collection[str] = ()
    """Sources of which the history of each right run is whole."""

    @property
    def changes(self) -> int:
        """How much the first right run changed."""
        return len(self.runs[0].deltas) if self.runs else 0


@dataclass(frozen=True)
class Draft:
    """A contract that forbids what nearly every task forbids and asks for what runs changed."""

    name: str
    seen: Seen
    forbidden: tuple[str, ...]
    clauses: tuple[Clause, ...]
    derived: tuple[str, ...]
    added: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Section → the lines of further clauses."""

    @property
    def text(self) -> str:
        lines = [
            f"contract: {self.name}",
            "version: 0.1.0",
            f"owner: {PLACEHOLDERS['owner']}               # who answers for this contract",
            "reviewed: false               # remove this line when the owner has read every clause",
            "intent: >",
            f"  {PLACEHOLDERS['intent']}",
        ]
        if self.seen.sandbox:
            lines.append(f"sandbox: {self.seen.sandbox}")
        lines += use_of(self.seen.used).splitlines()
        body = dict(self._sections())
        if "forbid" in body and "require" not in body:
            lines.append("noop: true                    # remove it once something is required")
        seen = self.seen
        inside = {t.name for t in seen.schema.types if t.outside is None}
        unseen = {
            name: f"this account sees it not, or in part: {why}"
            for name, why in seen.unseen.items()
            if name in inside
        }
        lines += [*_left_out("exclude:", unseen), *_left_out("unread:", _unread(seen))]
        for section, held in body.items():
            lines += ["", section + _REMARKS.get(section, ":"), *held]
        if "require" not in body:
            lines += ["", *_EXAMPLE] if body else ["", *_NOTHING]
        asked = dict.fromkeys(seen.followed, "history: required")
        sources = (f"  {path_key(each)}: {{{asked.get(each, '')}}}" for each in seen.sources)
        lines += ["", "evidence:", *sources]
        return "\n".join(lines) + "\n"

    def _sections(self) -> Iterator[tuple[str, list[str]]]:
        own = {
            "forbid": self.forbidden,
            "require": [c.text for c in self.clauses if c.section == "require"],
            "allow": [c.text for c in self.clauses if c.section == "allow"],
            "derive": self.derived,
        }
        for section, held in own.items():
            if lines := [*held, *self.added.get(section, ())]:
                yield section, lines


_REMARKS: Final = {
    "require": ":                        # seen in every right run; keep what the task demands",
    "allow": ":                          # seen beside the task; take out what it must not do",
    "derive": ":                         # what the application keeps by itself",
}
_EXAMPLE: Final = (
    "# require:                    # what must change, e.g.",
    "#   - id: closed",
    "#     update: ticket",
    "#     where: it.id == 7",
    "#     set: {status: closed}",
)
_NOTHING: Final = (
    *_EXAMPLE,
    "",
    "require:",
    "  - that: 1 == 2            # nothing could be drafted; say it here",
)


def draft_contract(name: str, seen: Seen, free: Container[str] = ()) -> Draft:
    """The draft of what was seen; places that are `free` may hold anything."""
    kept_by = (c for name in seen.used for c in shipped()[name].allow if not c.update)
    unseen = {*seen.unseen, *seen.unread, *(t for clause in kept_by for t in clause.types)}
    types = [t.name for t in seen.schema.types if t.outside is None and t.name not in unseen]
    every = [Inferred(_to_explain(run), n) for n, run in enumerate((*seen.runs, *seen.idle))]
    runs, idle = every[: len(seen.runs)], every[len(seen.runs) :]
    kept = common_formulas(runs)
    changes = tuple(align(runs, idle, kept))
    happened = [d for run in (*seen.runs, *seen.idle) for d in run.deltas]
    touched = {(d.op, d.type) for d in happened}
    written = {(d.type, d.path) for d in happened if d.path}
    return Draft(
        name,
        seen,
        tuple(_forbidden(seen.schema, types, touched, written)),
        tuple(clauses(changes, seen.schema, kept, free)),
        tuple(derivations(kept)),
    )


def use_of(used: Mapping[str, Mapping[str, Observed]]) -> str:
    """The lines of a contract that use profiles; empty where there is none."""
    if not used:
        return ""
    given = {name: expression(v) for inputs in used.values() for name, v in inputs.items()}
    inputs = ", ".join(f"{name}: {value}" for name, value in given.items())
    return f"use: [{', '.join(used)}]\n" + (
        f"inputs: {{{inputs}}}    # in whose name the agent acts\n" if given else ""
    )


def _left_out(head: str, causes: Mapping[str, str]) -> Iterator[str]:
    """A section of what this account does not see, with why; none where it sees all."""
    if causes:
        yield from ("", f"{head:<32}# more rights are better")
    for place, cause in sorted(causes.items()):
        yield f"  - what: {path_key(place)}"
        yield f"    because: {json.dumps(cause)}"


def _unread(seen: Seen) -> dict[str, str]:
    """The types that this account may not read whole; what it reads of them is judged."""
    types = {t.name: t for t in seen.schema.types if t.outside is None}
    found = {place: (*place.rpartition(".")[::2], why) for place, why in seen.unread.items()}
    return {
        place: why
        for place, (name, field, why) in found.items()
        if place in types
        or (name in types and name not in seen.unread and field in types[name].by_name)
    }


def _to_explain(run: Run) -> Run:
    """The changes that a contract has to speak of: not those outside, nor what follows others."""
    counters = {t.counter for t in run.schema.types if t.counter is not None}
    return replace(
        run,
        deltas=tuple(
            delta
            for delta in first_causes(run.schema, run.deltas)
            if run.schema.by_name[delta.type].outside is None
            and not (delta.type == COUNTERS and delta.key[0] in counters)
        ),
    )


def _forbidden(
    schema: Schema,
    types: Sequence[str],
    touched: Collection[tuple[Op, str]],
    written: Collection[tuple[str, str]],
) -> Iterator[str]:
    """Changes that nearly no task may make, and none of the runs made."""
    moved = {t for _, t in touched}
    of = schema.by_name
    removed = {t for op, t in touched if op in (Op.DELETE, Op.UNLINK)}
    powers = [t for t in types if _is_power(of[t]) and t not in moved]
    plain = [t for t in types if not _is_system(of[t]) and not of[t].is_association]
    kept = [t for t in plain if t not in removed and t not in powers]
    if kept:
        yield f"  - id: nothing-deleted\n    delete: {_flow(kept)}"
    if powers:
        yield f"  - id: no-privilege-change\n    any: {_flow(powers)}"
    for name in (t for t in kept if not _is_power(of[t])):
        rights = [f.name for f in of[name].fields if _RIGHTS.fullmatch(f.name)]
        rights = [f for f in rights if (name, f) not in written and f not in of[name].key]
        if rights:
            slug = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")
            yield f"  - id: no-rights-of-{slug}"
            yield f"    update: {path_key(name)}\n    fields: {_flow(rights)}"
    aside = {*moved, *powers, COUNTERS}
    objects = [t for t in types if t.startswith("db.") and t not in aside]
    if objects:
        yield f"  - id: schema-stays\n    any: {_flow(objects)}"
    history = (t for t in types if of[t].purpose is Purpose.HISTORY)
    if added_to := [t for t in history if (Op.UPDATE, t) not in touched]:
        yield f"  - id: only-added-to\n    update: {_flow(added_to)}"
    yield from _of_repository(types, moved)


def _of_repository(types: Sequence[str], moved: set[str]) -> Iterator[str]:
    """Parts of a git repository that nearly no task may touch."""
    if "git.ref" in types:
        yield "  - id: history-stays"
        yield "    delete: [git.commit, git.tag]"
        settings = [t for t in ("git.config", "git.hook", "git.repository") if t not in moved]
        if settings:
            yield "  - id: settings-stay"
            yield f"    any: {_flow(settings)}"


def _is_power(entity: EntityType) -> bool:
    name = entity.name.lower()
    is_person = name == _PERSON and sum(f.reference is not None for f in entity.fields) < _JOINED
    named = not is_person and any(word in name for word in _POWERS)
    return entity.purpose is Purpose.PERMISSIONS or named


def _is_system(entity: EntityType) -> bool:
    return entity.name.startswith(SCHEMA_OBJECT_PREFIXES) or entity.name in MAIL_TYPES


def _flow(names: Iterable[str]) -> str:
    return "[" + ", ".join(map(path_key, names)) + "]"
