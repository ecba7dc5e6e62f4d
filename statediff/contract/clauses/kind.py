"""Kinds of clauses, and the means to bind their clauses.

A module beside this one holds everything about one kind, or about a few that belong together: its
keys in the document, what it is bound to, the binding, its English, and a `ClauseKind` that says
the rest. Clauses are versions of the kernel: `KINDS` in `contract/document/contract.py` is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import Enum
from typing import Any, Final, TypeAlias

from statediff.contract.language.kinds import (
    as_time,
    comparable,
    describe,
    how_written,
    suggest,
    type_of_field,
)
from statediff.contract.language.parser import ExpressionError, Scope, parse
from statediff.contract.language.syntax import UNWRITTEN, Canonical, Node, Type
from statediff.contract.yaml.reader import NodePath
from statediff.errors import Problem
from statediff.model.delta import Op
from statediff.model.paths import FieldPath
from statediff.model.schema import NESTED, EntityType, Field, Kind
from statediff.model.values import Map, Value

Path: TypeAlias = NodePath
Locate: TypeAlias = Callable[[Path, int], tuple[str, int, int]]
"""(path in the document, character of the scalar) → (file, line, column)."""

MAX_KNOWN: Final = 200
"""Characters of the known names that the hint for an unknown one shows."""

OPERATIONS: Final[dict[str, frozenset[Op]]] = {
    "create": frozenset({Op.CREATE, Op.LINK}),
    "update": frozenset({Op.UPDATE}),
    "delete": frozenset({Op.DELETE, Op.UNLINK}),
    "link": frozenset({Op.LINK}),
    "unlink": frozenset({Op.UNLINK}),
    "any": frozenset(Op),
}
RELATIONS: Final = ("link", "unlink")
"""The operations that may name a reference, `TYPE.FIELD`."""


class JudgedAs(Enum):
    """How bound clauses are judged, in the order of an explanation; policy has a runner for each.

    The value is the attribute of a bound `Contract` that holds them. Kinds may share one: what is
    bound to a `Pattern` that forbids is judged as what `forbid` says.
    """

    FORBIDDEN = "forbid"
    EFFECT = "effects"
    ALLOWED = "allow"
    DERIVED = "derived"
    REQUIRED = "require"
    ALTERNATIVES = "alternatives"
    STEP = "steps"
    TURN = "turns"
    ACTION = "actions"
    ACCESS = "access"
    CLAIM = "claims"


@dataclass(frozen=True, kw_only=True)
class ClauseKind:
    """One kind of clause: what reading, binding, linting, formatting and explaining ask of it."""

    name: str
    """The name of the list that its clauses are in, for remarks and explanations."""
    sections: tuple[str, ...]
    """The keys of the contract document that hold it."""
    judged: JudgedAs
    bind: Callable[..., Iterable[Any]]
    """(binder, the value of each section) → the bound clauses; problems are noted in the binder."""
    keys: tuple[str, ...] = ()
    """Its keys in the order in which `fmt` writes them; others follow as they are."""
    named_by_author: tuple[NodePath, ...] = ()
    """Mappings whose keys, and so their order, are the author's."""
    heading: str = ""
    """The heading of its clauses in an explanation; empty for one that stands elsewhere."""
    describe: Callable[[Any], str] = lambda clause: str(clause.sentence)
    """A bound clause in English, as an explanation shows it."""
    listed: NodePath | None = None
    """The place of the list whose items have ids that are checked as the file is read."""
    label: str = ""
    """The name of a clause without an id, before its number; that of the kind where it is left out.
    """
    id_of: Callable[[Mapping[str, Any]], str | None] = lambda written: written.get("id")
    """The id that a written clause gives itself."""
    reserved: tuple[str, ...] = ()
    """Names of its clauses that no author gives, and so no author may give to another one."""
    places: Mapping[str, NodePath] = field(default_factory=dict)
    """The places of clauses that are not in a list, by their ids."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Attributes of the bound clause that hold expressions under another key of the document."""
    can_fail: bool = True
    """True if it states something by itself, so that a contract may consist of nothing else."""
    must_hold: bool = True
    """True if its clauses must hold, so that undefined fails them; else it decides nothing."""

    def written(self, document: Any) -> Iterable[Any]:
        """Its part of the document: the clauses of its list, or the value of each section."""
        if self.listed is None:
            return [value for s in self.sections if (value := getattr(document, s)) is not None]
        for key in self.listed:
            document = getattr(document, str(key))
        return tuple(document)


def plain_value(raw: Any) -> Value:
    """A value of a document (input or literal) as a value of the model."""
    match raw:
        case list() | tuple():
            return tuple(plain_value(item) for item in raw)
        case dict():
            return Map.of({str(k): plain_value(v) for k, v in raw.items()})
        case None | bool() | int() | Decimal() | str():
            return raw
        case _:
            pass
    raise ValueError(f"not a plain value: {type(raw).__name__}")


@dataclass
class Binder:
    """Binds clauses over the scope's schema; it collects ids, and the problems it meets."""

    locate: Locate
    scope: Scope
    reserved: frozenset[str] = frozenset()
    """Names that no author may give to a clause."""
    problems: list[Problem] = field(default_factory=list)
    ids: dict[str, Path] = field(default_factory=dict)
    """The place of each clause, by its id."""

    def problem(
        self, path: Path, message: str, hint: str = "", offset: int = 0, code: str = "contract"
    ) -> None:
        """Notes a problem at a node of the document."""
        file, line, column = self.locate(path, offset)
        self.problems.append(Problem(file, line, column, message, code, hint))

    def name(self, path: Path, given: str | None, within: str = "") -> str:
        """The clause's id; clauses of a branch are `BRANCH/ID`."""
        section, index = path[-2:]
        own = given or f"{section}-{int(index) + 1}"
        name = within + own
        if own in self.reserved:
            self.problem(
                (*path, "id"),
                f"`{own}` is the name of a clause that every contract has",
                "choose another id",
            )
        if name in self.ids:
            self.problem(
                (*path, "id") if given else path,
                f"two clauses are called `{own}`",
                "give each its own id",
            )
        self.ids[name] = path
        return name

    def expression(
        self,
        path: Path,
        text: str | None,
        variables: Mapping[str, Type],
        boolean: bool = True,
        *,
        has_now: bool = False,
    ) -> Node | None:
        """The typed expression; None where none is written, or with its problem noted."""
        if text is None:
            return None
        scope = replace(self.scope, variables=variables, has_now=has_now)
        try:
            return parse(text, scope, boolean=boolean)
        except ExpressionError as error:
            self.problem(path, str(error), error.hint, error.offset, error.code)
            return None

    def misread(
        self, entity: EntityType, path: FieldPath, *, is_whole: bool
    ) -> tuple[str, str] | None:
        """Why nothing can be read at the place inside a field, and a hint.

        `is_whole` where its value is read, and not only what changed there.
        """
        spec = entity.by_name.get(path.field)
        if path.steps and spec is not None and spec.kind not in NESTED:
            kind = describe(type_of_field(spec.kind, None))
            return (
                f"{entity.name}.{path.field} is {kind}: there is nothing inside it",
                "say `type: json` in the state schema if it holds JSON",
            )
        wrong = self.scope.policy.misread(entity.name, path.field, path.steps, is_whole)
        return None if wrong is None else (wrong, "")

    def field_value(self, at: Path, entity: EntityType, name: str, node: Node) -> Node | None:
        """The value that a field must equal, under its rules; None with its problem noted."""
        spec = entity.by_name.get(name) or Field(name, Kind.ANY)
        kind = self.scope.policy.kind_of(entity.name, name) or spec.kind
        expected = type_of_field(kind, spec.reference)
        node = as_time(node, expected)
        if not comparable(expected, node.type):
            message = f"{entity.name}.{name} is {describe(expected)}, this is {describe(node.type)}"
            self.problem(at, message, how_written(expected))
            return None
        return self.through_rules(node, entity.name, FieldPath(name))

    def through_rules(self, node: Node, type_name: str, path: FieldPath) -> Node:
        """The expression under the rules of the place that it is compared with."""
        apply = self.scope.policy.literal(type_name, path.field, path.steps)
        if apply is None:
            return node
        return Canonical(node.type, UNWRITTEN, node, type_name, path.field, apply)

    def entity(self, path: Path, name: str) -> EntityType | None:
        """The entity type of that name; None with its problem noted."""
        found = self.scope.schema.by_name.get(name)
        if found is None:
            own = ", ".join(t for t in self.scope.schema.by_name if not t.startswith("db."))
            hint = suggest(name, self.scope.schema.by_name) or "known: " + own[:MAX_KNOWN]
            self.problem(path, f"unknown entity type `{name}`", hint, code="unknown-name")
        return found

    def types(
        self, path: Path, key: str, names: tuple[str, ...]
    ) -> tuple[tuple[EntityType, ...], str | None]:
        """The entity types; for `link: TYPE.field` also the relation."""
        found: list[EntityType] = []
        relation: str | None = None
        for name in names:
            entity = self.scope.schema.by_name.get(name)
            holder = self._holder(name) if key in RELATIONS else None
            if entity is not None and (holder is None or not entity.is_late):
                self._check_inside(path, key, name)
                found.append(entity)
                continue
            if holder is not None:
                if len(names) > 1:
                    self.problem(
                        (*path, key),
                        f"`{name}` is a reference; a clause over one names nothing else",
                        "write a clause for each",
                    )
                found.append(holder)
                relation = name[len(holder.name) + 1 :]
                continue
            self.entity((*path, key), name)
        if key in RELATIONS and relation is None:
            self._check_associations(path, key, found)
        return tuple(found), relation

    def _holder(self, name: str) -> EntityType | None:
        """The type whose reference is called so, `TYPE.field`; the longest type wins."""
        dots = [at for at, character in enumerate(name) if character == "."]
        for dot in reversed(dots):
            entity = self.scope.schema.by_name.get(name[:dot])
            spec = None if entity is None else entity.by_name.get(name[dot + 1 :])
            if spec is not None and spec.reference is not None:
                return entity
        return None

    def _check_inside(self, path: Path, key: str, name: str) -> None:
        rule = self.scope.policy.excluded(name, "")
        if rule is not None:
            self.problem(
                (*path, key),
                f"{name} lies outside the boundary ({rule})",
                "drop the exclusion or the clause",
                code="boundary",
            )

    def _check_associations(self, path: Path, key: str, entities: Iterable[EntityType]) -> None:
        for entity in entities:
            if not entity.is_association:
                self.problem(
                    (*path, key),
                    f"{entity.name} is not an association",
                    f"write `{'create' if key == 'link' else 'delete'}: "
                    f"{entity.name}` or name a reference, `{entity.name}.field`",
                )
