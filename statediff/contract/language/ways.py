"""`reaches(x, y, via=[…])`: two entities, and the hops that a chain between them may take.

A hop is `TYPE.REFERENCE`, from an entity to what its reference names, or `(TYPE.IN, TYPE.OUT)`,
from what one field of a row names to what another one does. In a pair, the key of the type is the
row itself.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from statediff.contract.language.kinds import describe, suggest
from statediff.contract.language.names import Names
from statediff.contract.language.syntax import (
    BOOL,
    Entities,
    EntityT,
    FieldOf,
    Follow,
    Hop,
    Lookup,
    Node,
    Reaches,
    ScalarT,
    Variable,
)
from statediff.model.schema import EntityType

MAX_TEXT: Final = 120
"""Characters of the call that its text keeps."""
_FORM: Final = "write reaches(x, y, via=[TYPE.REFERENCE, (TYPE.IN, TYPE.OUT)])"


class PathTypes(Names):
    """Types `reaches`. The checker, which extends it, knows the rest."""

    def _reaches(self, node: ast.Call) -> Node:
        names = [keyword.arg for keyword in node.keywords]
        if len(node.args) != 2 or names != ["via"]:
            raise self.error(node, "reaches(…) takes two entities and `via`", _FORM)
        listed = node.keywords[0].value
        if not isinstance(listed, ast.List) or not listed.elts:
            raise self.error(listed, "`via` is a list of hops, of one at least", _FORM)
        start, goal = (self._end(each) for each in node.args)
        sides = [_states(each) for each in (start, goal)]
        if all(sides) and sides[0] != sides[1]:
            raise self.error(
                node.args[1],
                f"a path is of one state: it begins {sides[0]} the run and ends {sides[1]} it",
            )
        hops = tuple(dict.fromkeys(self._hop(each) for each in listed.elts))
        self._chain(listed, start, goal, hops)
        text = self._segment(node)[:MAX_TEXT]
        return Reaches(BOOL, node.col_offset, start, goal, hops, text)

    def _end(self, node: ast.expr) -> Node:
        """An entity, also where a reference names it."""
        end = self.expression(node)
        if isinstance(end, FieldOf) and isinstance(end.type, ScalarT) and end.type.reference:
            end = Follow(EntityT(end.type.reference), end.offset, end)
        if not isinstance(end.type, EntityT) or end.type.type not in self._scope.schema.by_name:
            raise self.error(
                node,
                f"a path leads from an entity to an entity, this is {describe(end.type)}",
                "write after.TYPE[KEY] or a reference",
            )
        return end

    def _hop(self, node: ast.expr) -> Hop:
        if isinstance(node, ast.Tuple) and len(node.elts) == 2:
            (entity, source), (other, target) = (self._place(each) for each in node.elts)
            if entity is not other:
                raise self.error(
                    node,
                    f"both fields of a hop are of one type, not of {entity.name} and {other.name}",
                    "a hop goes through one row; write two hops",
                )
            if source == target:
                raise self.error(node, "a hop leads from one field to another, not to itself")
        else:
            entity, target = self._place(node)
            source = ""
            if not target:
                raise self.error(node, f"the key of {entity.name} leads nowhere", _FORM)
        if entity.is_keyless and "" in (source, target):
            raise self.error(node, f"{entity.name} has no key, so nothing names its rows")
        return Hop(
            entity.name,
            source,
            target,
            self._named(entity, source),
            self._named(entity, target),
            self._segment(node),
        )

    def _named(self, entity: EntityType, field: str) -> str:
        """The type of the entity that the field names; the row's own for its key."""
        return (entity.by_name[field].reference or "") if field else entity.name

    def _place(self, node: ast.expr) -> tuple[EntityType, str]:
        """`TYPE.FIELD` as the type and the field, "" for the type's own key."""
        names: list[str] = []
        at = node
        while isinstance(at, ast.Attribute):
            names.insert(0, at.attr)
            at = at.value
        match at:
            case ast.Name(id=head) | ast.Constant(value=str(head)) if names:
                *parts, name = (head, *names)
            case _:
                raise self.error(node, "a hop is TYPE.REFERENCE or (TYPE.IN, TYPE.OUT)", _FORM)
        types, type_name = self._scope.schema.by_name, ".".join(parts)
        entity = types.get(type_name)
        if entity is None:
            raise self.unknown(
                node, f"unknown entity type `{type_name}`", suggest(type_name, types)
            )
        spec = entity.by_name.get(name)
        references = [f.name for f in entity.fields if f.reference]
        if spec is None:
            raise self.unknown(
                node, f"{entity.name} has no field `{name}`", suggest(name, entity.by_name)
            )
        if entity.key == (name,) and spec.reference is None:
            return entity, ""
        self.require_inside(node, entity, name)
        if spec.reference is None or spec.reference not in types:
            raise self.error(
                node,
                f"{entity.name}.{name} refers to no entity",
                f"references of {entity.name}: {', '.join(references)}"
                if references
                else f"say in the state schema what it refers to: `{name}: {{to: TYPE}}`",
            )
        return entity, name

    def _chain(self, node: ast.expr, start: Node, goal: Node, hops: Sequence[Hop]) -> None:
        """Refuse hops whose types can never lead from one end to the other."""
        first, last = (end.type.type for end in (start, goal) if isinstance(end.type, EntityT))
        types = {first}
        while more := {h.target_type for h in hops if h.source_type in types} - types:
            types |= more
        if last not in types:
            found = ", ".join(sorted(types - {first})) or "nothing"
            raise self.error(
                node,
                f"no chain of these hops leads from {first} to {last}, but to {found}",
                "a hop goes from its first field to its second",
            )


def _states(node: Node) -> str:
    """The one end of the run that the entity is of; empty where another place may be meant."""
    while isinstance(node, Follow):
        node = node.reference.entity
    match node:
        case Lookup(collection=Entities(root="before" | "after" as root)):
            return root
        case Variable(name="new"):
            return "after"
        case _:
            return ""
