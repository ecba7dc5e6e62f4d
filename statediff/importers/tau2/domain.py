"""One domain of a folder of τ² cases, opened: what its runs and its tasks share is made once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from statediff.errors import InputError
from statediff.evaluate import ContractFile
from statediff.importers.lines import parse, read_lines, without_labels
from statediff.importers.pack import DomainPack
from statediff.importers.recorded import BadLine, NotARun
from statediff.importers.states import Base, Edit
from statediff.importers.tau2.contract import Asked, Reading, contract_of
from statediff.importers.tau2.format import (
    Cases,
    Criteria,
    Gold,
    Operation,
    TaskVersion,
    Tree,
    applied,
    delta_of,
    expectations,
)
from statediff.importers.tau2.records import Layout, infer_layout
from statediff.model.values import printable
from statediff.systems.tables.shape import Document


@dataclass(frozen=True)
class Known:
    """What is known of a task beside its texts: its reference, and how its state begins."""

    gold_key: str
    criteria: Criteria
    init: tuple[Operation, ...] = ()
    purpose: str = ""


@dataclass
class Domain:
    """One domain, opened: what its runs share is made once."""

    cases: Cases
    runs: Path
    pack: DomainPack
    contracts: dict[str, ContractFile] = field(default_factory=dict)
    _heard: set[str] = field(default_factory=set)
    """Tools that the user called in some run; complete once `known` is."""

    @cached_property
    def layout(self) -> Layout:
        return infer_layout(self.cases.initial, self.pack.settings.get("rows", ()))

    @cached_property
    def base(self) -> Base:
        """The initial state; what references leave behind tells fields that are empty before."""
        document = self.layout.document(self.cases.initial)
        schema = self.pack.schema
        return Base(self.cases.domain, document, schema, hints=self._hints())

    def _hints(self) -> Document:
        found: Document = {}
        for name, known in self.known.items():
            start = self.start(known)
            edits = self.layout.edits(self.cases.initial, start)
            corrected = [c.gold_after for c in self.cases.corrections.get(name, ())]
            for key in dict.fromkeys((known.gold_key, *corrected)):
                edits += self.changes(known, key)
            for edit in edits:
                for record in (edit.before, edit.after):
                    if record is not None:
                        found.setdefault(edit.type, []).append(record)
        return found

    @cached_property
    def known(self) -> dict[str, Known]:
        """Every task by name, from the runs, the tasks and the references."""
        found: dict[str, Known] = {}
        for line in read_lines(self.runs):
            if isinstance(line, BadLine):
                continue
            try:
                raw = without_labels(parse(line))
                if (name := task_name(raw)) not in found:
                    known = self._known_of(raw)
                    self.changes(known, known.gold_key)  # a run without a reference tells nothing
                    found[name] = known
                self._heard |= {
                    str(call.get("name"))
                    for call in objects(raw, "trace")
                    if call.get("requestor") == "user"
                }
            except InputError:
                continue  # whoever judges the runs reports the line
        for version in self.cases.tasks.values():
            if version.name not in found and (key := self._unrun(version.name)) is not None:
                found[version.name] = Known(key, version.criteria, (), version.purpose)
        return dict(sorted(found.items()))

    def _known_of(self, raw: Tree) -> Known:
        before = raw.get("before")
        init = before.get("init_delta") if isinstance(before, dict) else None
        version = self.version(raw)
        return Known(
            gold_key(raw),
            criteria_of_run(raw, version),
            delta_of(init or [], "init_delta"),
            version.purpose if version else str(raw.get("instruction") or ""),
        )

    def _unrun(self, name: str) -> str | None:
        """The reference of a task that no run is of: the one before any correction."""
        corrected = [c.gold_before for c in self.cases.corrections.get(name, ())]
        own = [gold.key for gold in self.cases.gold.values() if gold.task == name]
        return next(iter((*corrected, *own)), None)

    @cached_property
    def user_tools(self) -> frozenset[str]:
        """Tools that are the simulated user's own, as some task or run shows.

        In a run without a user the agent holds them too, and acts in the user's place with them.
        """
        named = {
            action.name
            for known in self.known.values()
            for action in known.criteria.actions or ()
            if action.requestor == "user"
        }
        return frozenset(named | self._heard)

    def version(self, raw: Tree) -> TaskVersion | None:
        """The version of the task that the run was made with."""
        return self.cases.tasks.get(str(raw.get("task_key")))

    def start(self, known: Known) -> Tree:
        return applied(self.cases.initial, known.init)

    def contract(self, name: str) -> ContractFile:
        """The contract of a task, made once."""
        if name not in self.contracts:
            known = self.known[name]
            self.contracts[name] = contract_of(
                Asked(
                    self.cases.domain,
                    name,
                    known.criteria,
                    self.readings(name),
                    tuple(t.name for t in self.base.schema.types),
                    known.purpose,
                ),
                self.pack,
            )
        return self.contracts[name]

    def readings(self, name: str) -> tuple[Reading, ...]:
        """What the task wants: one reading, or two where its corrections disagree."""
        known = self.known[name]
        told = known.criteria.communicate
        recorded = Reading("recorded", self.changes(known, known.gold_key), told)
        by_version = {c.version: c for c in self.cases.corrections.get(name, ())}
        versions = sorted({c.version for cs in self.cases.corrections.values() for c in cs})
        readings = [
            recorded
            if (correction := by_version.get(version)) is None
            else Reading(
                version,
                self.changes(known, correction.gold_after),
                correction.communicate,
                correction.why,
            )
            for version in versions
        ] or [recorded]
        first = readings[0]
        if all(_same(first, other) for other in readings):
            return (Reading("reference", first.changes, first.communicate, first.because),)
        return tuple(
            Reading(version, r.changes, r.communicate, r.because)
            for version, r in zip(versions, readings, strict=True)
        )

    def changes(self, known: Known, key: str) -> tuple[Edit, ...]:
        """What the reference of that key changes, record by record."""
        start = self.start(known)
        return tuple(self.layout.edits(start, applied(start, self.gold(key).delta)))

    def gold(self, key: str) -> Gold:
        if key not in self.cases.gold:
            raise InputError(f"no reference with the gold_key {printable(key[:60])}")
        return self.cases.gold[key]


def _same(a: Reading, b: Reading) -> bool:
    """Whether two readings ask for the same changes and the same words."""

    def asked(reading: Reading) -> tuple[set[tuple[str, str, str]], set[str]]:
        changes = {(e.type, repr(e.before), repr(e.after)) for e in reading.changes}
        return changes, set(reading.communicate)

    return asked(a) == asked(b)


# ---------------------------------------------------------------- what a line says of its task


def task_name(raw: Tree) -> str:
    """The task of a run; `NotARun` where it has none."""
    name = raw.get("task_id")
    if not isinstance(name, str) or not name:
        raise NotARun("expected a run with a task_id")
    return name


def gold_key(raw: Tree) -> str:
    """Which reference the run is compared with; `NotARun` where it has none."""
    try:
        key = raw["labels"]["recorded_task"]["gold_key"]
    except (KeyError, TypeError):
        key = None
    if not isinstance(key, str):
        raise NotARun("expected labels.recorded_task.gold_key")
    return key


def criteria_of_run(raw: Tree, version: TaskVersion | None) -> Criteria:
    """What the task asks; older runs carry their reference actions and texts themselves."""
    if version is not None:
        return version.criteria
    outputs = raw.get("outputs")
    told = tuple(o for o in outputs if isinstance(o, str)) if isinstance(outputs, list) else ()
    actions = expectations(raw.get("gold_actions") or [], "gold_actions")
    return Criteria(("DB", "COMMUNICATE"), actions, told)


def objects(raw: Tree, name: str) -> list[Mapping[str, Any]]:
    """The objects of a list of the run; whatever else stands there is nothing."""
    listed = raw.get(name)
    listed = listed if isinstance(listed, list) else []
    return [entry for entry in listed if isinstance(entry, dict)]
