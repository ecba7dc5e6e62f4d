"""The subject of a check: a contract as written, as bound, and the base state where one is at hand.

Checks range over clauses and expressions without knowing their kinds: whatever a bound contract
holds that reads something is a clause, whatever node it holds is an expression.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Final

from statediff.contract.binding.bound import Contract
from statediff.contract.clauses.alternatives import ALTERNATIVES
from statediff.contract.clauses.patterns import Pattern, Pin
from statediff.contract.document.contract import KINDS
from statediff.contract.language.syntax import Node
from statediff.contract.lint.catalogue import CATALOGUE
from statediff.contract.yaml.reader import Document, NodePath
from statediff.errors import Problem
from statediff.model.schema import Schema
from statediff.model.verdict import Truth
from statediff.model.view import View

PASSING: Final = frozenset(kind.name for kind in KINDS if kind.must_hold)
"""Kinds whose clauses must hold; in the others, undefined decides nothing."""
MAX_ENTITIES: Final = 50_000
"""Most entities of a type whose base state is searched; lint stays quick."""

_KIND_OF: Final = {section: kind for kind in KINDS for section in kind.sections}
_ATTRIBUTES: Final = {name: key for kind in KINDS for name, key in kind.attributes.items()}


@dataclass(frozen=True)
class Expression:
    """One typed expression of a clause, and where it stands. `type` is the type it was bound to."""

    clause: str
    section: str
    key: str
    node: Node
    path: NodePath
    type: str | None = None


@dataclass(frozen=True)
class Subject:
    """One bound contract. `base` is the base state under ν, `null` the null run's truths."""

    source: Document
    contract: Contract
    base: View | None = None
    null: Mapping[str, Truth] = field(default_factory=dict)
    histories: frozenset[str] = frozenset()
    """The sources at hand that deliver what happened during a run."""
    tools: Mapping[str, Mapping[str, Any]] | None = None
    """Tool of the sandbox → JSON Schema of its arguments; None where no sandbox is at hand."""

    def path(self, clause: str) -> NodePath:
        """The place of the clause in the document; the top for one that nobody wrote."""
        return clause_paths(self.source).get(clause, ())

    def section(self, clause: str) -> str:
        """The key of the list that the clause stands in, e.g. `require` or `claims`."""
        return _section(self.path(clause))

    def written(self, clause: str) -> Mapping[str, Any]:
        """The clause as it was written; empty where it is one expression."""
        value: Any = self.source.value
        for step in self.path(clause):
            value = value[step]
        return value if isinstance(value, dict) else {}

    def remark(
        self, code: str, path: NodePath, message: str, instead: str = "", offset: int = 0
    ) -> Problem:
        """A remark about a node of the document."""
        return remark(self.source, code, path, message, instead, offset)

    def clauses(self) -> Iterator[Any]:
        """Every bound clause, of whatever kind, in the order of judgement."""
        yield from bound_clauses(self.contract)

    def patterns(self) -> Iterator[Pattern]:
        """Every clause over deltas, those of branches included."""
        yield from (clause for clause in self.clauses() if isinstance(clause, Pattern))

    def expressions(self) -> Iterator[Expression]:
        """Every expression of every clause; one bound to several types comes once for each."""
        paths = clause_paths(self.source)
        for clause in self.clauses():
            path = paths.get(clause.id, ())
            for steps, type_name, node in _nodes(clause):
                place = (*path, *steps)
                found = place if place in self.source.positions else path
                yield Expression(clause.id, _section(path), str(steps[0]), node, found, type_name)


def remark(
    source: Document, code: str, path: NodePath, message: str, instead: str = "", offset: int = 0
) -> Problem:
    """A remark of the catalogue at a node of the document."""
    entry = CATALOGUE[code]
    file, line, column = source.locate(path, offset)
    return Problem(file, line, column, message, code, instead or entry.instead, entry.severity)


def bound_clauses(holder: Any) -> Iterator[Any]:
    """Every clause in a bound contract or in what it holds: whatever has an id and reads."""
    for part in bound_parts(holder):
        if hasattr(part, "id") and hasattr(part, "reads"):
            yield part


def bound_parts(holder: Any) -> Iterator[Any]:
    """Everything a bound contract is made of: clauses, branches and the rest, parents first."""
    for spec in fields(holder):
        value = getattr(holder, spec.name)
        for item in value if isinstance(value, tuple) else (value,):
            if is_dataclass(item) and not isinstance(item, (Node, Schema, type)):
                yield item
                yield from bound_parts(item)


def branch_of(clause: str) -> str:
    """The branch of `any_of` or `disputed` that a clause is part of; empty for most."""
    return clause.rpartition("/")[0]


def _nodes(clause: Any) -> Iterator[tuple[NodePath, str | None, Node]]:
    """Every expression of a clause: its path below it, the type it is bound to, the node."""
    for spec in fields(clause):
        value = getattr(clause, spec.name)
        key = _ATTRIBUTES.get(spec.name, spec.name)
        if isinstance(value, Node):
            yield (key,), None, value
        elif isinstance(value, tuple):
            for index, item in enumerate(value):
                parts = item if isinstance(item, tuple) else (item,)
                yield from (((key, index), None, part) for part in parts if isinstance(part, Node))
        elif isinstance(value, Mapping):
            for type_name, held in value.items():
                if isinstance(held, Node):
                    yield (key,), type_name, held
                elif isinstance(held, tuple):
                    pins = (pin for pin in held if isinstance(pin, Pin))
                    yield from (((p.key, str(p.path), "is"), type_name, p.node) for p in pins)


def clause_paths(source: Document) -> dict[str, NodePath]:
    """The place of every clause, by its id: written, or by its position in its list."""
    found: dict[str, NodePath] = {}
    places = {path: name for kind in KINDS for name, path in kind.places.items()}

    def visit(value: Any, path: NodePath) -> None:
        if path in places:
            found.setdefault(places[path], path)
        if isinstance(value, dict):
            for key, item in value.items():
                visit(item, (*path, key))
        elif isinstance(value, list):
            # In `any_of: {NAME: {require: […]}}` a clause is called NAME/CLAUSE.
            is_branched = len(path) > 2 and path[0] in ALTERNATIVES.sections
            branch = f"{path[-2]}/" if is_branched else ""
            for index, item in enumerate(value):
                found.setdefault(branch + _name(item, path, index), (*path, index))
                visit(item, (*path, index))

    visit(source.value, ())
    return found


def _name(item: Any, path: NodePath, index: int) -> str:
    kind = next((kind for kind in KINDS if path == (kind.listed or kind.sections)), None)
    section = str(path[-1])
    label = section if kind is None else kind.label or section
    given = None
    if isinstance(item, dict):
        given = item.get("id") if kind is None else kind.id_of(item)
    return str(given or f"{label}-{index + 1}")


def _section(path: NodePath) -> str:
    """The name of the kind of clause; of one in a branch, of the list that it is in."""
    named = [step for step in path if isinstance(step, str)]
    if not named:
        return ""
    kind = _KIND_OF.get(named[0])
    return named[-1] if kind is None or kind is ALTERNATIVES else kind.name
