"""Expressions drawn from the grammar of contracts over a schema, most of them well typed."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping

from statediff.model.schema import Schema


class Grammar:
    """Draws expressions over a schema: of the kind that is asked for, nine times of ten."""

    def __init__(self, schema: Schema, draw: random.Random) -> None:
        self._draw = draw
        self._fields: dict[str, list[tuple[str, str, str | None]]] = {
            t.name: [(f.name, f.kind.value, f.reference) for f in t.fields]
            for t in schema.types
            if "." not in t.name
        }
        self._keys = {
            t.name: next(f.kind.value for f in t.fields if f.name == t.key[0])
            for t in schema.types
            if len(t.key) == 1
        }
        self._variables: list[tuple[str, str]] = []

    def type_name(self) -> str:
        return self._draw.choice(sorted(self._fields))

    def within(self, variables: Mapping[str, str], kind: str, depth: int = 4) -> str:
        """An expression in which these variables are entities of their types."""
        self._variables = list(variables.items())
        return self.of(kind, depth)

    def of(self, kind: str, depth: int) -> str:
        if self._draw.random() < 0.02:
            kind = self._draw.choice(("bool", "int", "text", "list", "timestamp", "entity"))
        made = {
            "bool": self._bool,
            "int": self._int,
            "list": self._list,
            "timestamp": self._instant,
            "entity": self._entity,
        }.get(kind, self._text)
        return made(depth)

    def _entity(self, depth: int) -> str:
        return self._typed_entity(depth)[0]

    def _typed_entity(self, depth: int) -> tuple[str, str]:
        if self._variables and (depth <= 0 or self._draw.random() < 0.7):
            name, type_name = self._draw.choice(self._variables)
        else:
            type_name = self._draw.choice(sorted(self._keys.keys() & self._fields.keys()))
            key = self._draw.randrange(1, 9)
            root = self._draw.choice(("before", "after"))
            name = (
                f"{root}.{type_name}[{key if self._keys[type_name] == 'int' else repr(str(key))}]"
            )
        references = [(f, to) for f, _, to in self._fields[type_name] if to in self._fields]
        if depth > 0 and references and self._draw.random() < 0.4:
            step, to = self._draw.choice(references)
            return f"{name}.{step}", str(to)
        return name, type_name

    def _field(self, kinds: frozenset[str], depth: int) -> str | None:
        for _ in range(4):
            name, type_name = self._typed_entity(depth)
            fits = [f for f, kind, _ in self._fields[type_name] if kind in kinds]
            if fits:
                return f"{name}.{self._draw.choice(fits)}"
        return None

    def _over(self, depth: int, body: str, shape: str) -> str:
        """A comprehension over a collection: `shape` holds {of}, its elements and their filter."""
        type_name = self.type_name()
        roots = ("before", "after", "created", "updated", "deleted", "linked", "unlinked")
        collection = f"{self._draw.choice(roots)}.{type_name}"
        variable = f"v{len(self._variables)}"
        self._variables.append((variable, type_name))
        inner = self.of(body, depth - 1)
        condition = f" if {self._bool(depth - 2)}" if self._draw.random() < 0.3 else ""
        self._variables.pop()
        elements = f"{inner} for {variable} in {collection}{condition}"
        return shape.replace("{of}", elements)

    def _way(self, depth: int) -> str:
        hops = []
        entity, at = self._typed_entity(depth - 1)
        for _ in range(self._draw.randrange(1, 4)):
            forward = [(f"{at}.{f}", to) for f, _, to in self._fields[at] if to in self._fields]
            through = [
                (f"({name}.{f}, {name}.{g})", to)
                for name, fields in self._fields.items()
                for f, _, reference in fields
                for g, _, to in fields
                if reference == at and to in self._fields and g != f
            ]
            if not (known := [*forward, *through]):
                break
            hop, to = self._draw.choice(known)
            hops.append(hop)
            at = str(to)
        hops = hops or [f"{at}.{self._draw.choice(self._fields[at])[0]}"]
        root = "after" if entity.startswith(("after", "new")) else "before"
        key = "1" if self._keys.get(at, "int") == "int" else '"x"'
        end = f"{root}.{at}[{key}]" if self._draw.random() < 0.8 else self._entity(depth - 1)
        return f"reaches({entity}, {end}, via=[{', '.join(hops)}])"

    def _bool(self, depth: int) -> str:
        draw = self._draw
        if depth <= 0:
            return draw.choice(("true", "1 == 2", f"exists({self._entity(0)})"))
        match draw.randrange(12):
            case 0:
                return f"not ({self._bool(depth - 1)})"
            case 1 | 2:
                joined = draw.choice((" and ", " or "))
                return f"({joined.join(self._bool(depth - 1) for _ in range(2))})"
            case 3 | 4:
                shape = draw.choice(("any({of})", "all({of})"))
                return self._over(depth, "bool", shape)
            case 5:
                return self._over(depth, draw.choice(("int", "text")), "unique({of})")
            case 6:
                function = draw.choice(("contains", "starts_with", "ends_with", "mentions"))
                return f"{function}({self._text(depth - 1)}, {self._text(depth - 1)})"
            case 7:
                pattern = draw.choice(('"[a-z]+"', '"(a+)+$"', '"\\d{3}"', '"x{900}"'))
                return f"{draw.choice(('matches', 'search'))}({self._text(depth - 1)}, {pattern})"
            case 8:
                return self._way(depth)
            case 9:
                return f"{self._text(depth - 1)} in {self._list(depth - 1)}"
            case 10:
                return self._over(depth, "text", f"same_items([{{of}}], {self._list(depth - 1)})")
            case _:
                kind = draw.choice(("int", "int", "text", "timestamp"))
                sides = (self.of(kind, depth - 1), self.of(kind, depth - 1))
                return draw.choice((" == ", " != ", " < ", " >= ")).join(sides)

    def _int(self, depth: int) -> str:
        draw = self._draw
        named = self._field(frozenset({"int", "decimal"}), depth)
        if depth <= 0 or (named and draw.random() < 0.4):
            return named or str(draw.randrange(-3, 3000))
        match draw.randrange(6):
            case 0:
                sides = (self._int(depth - 1), self._int(depth - 1))
                return f"({draw.choice((' + ', ' - ', ' * ', ' / ', ' % ')).join(sides)})"
            case 1:
                return self._over(depth, "int", draw.choice(("sum({of})", "min({of})")))
            case 2:
                return f"len({self._text(depth - 1)})"
            case 3:
                return f"count({self._text(depth - 1)}, {self._text(depth - 1)})"
            case 4:
                return f"-({self._int(depth - 1)})"
            case _:
                return f"count(c for c in after.{self.type_name()})"

    def _text(self, depth: int) -> str:
        draw = self._draw
        named = self._field(frozenset({"text"}), depth)
        if depth <= 0 or (named and draw.random() < 0.5):
            return named or '"paid"'
        match draw.randrange(3):
            case 0:
                return f"lower({self._text(depth - 1)})"
            case 1:
                return f"({self._text(depth - 1)} + {self._text(depth - 1)})"
            case _:
                return json.dumps(draw.choice(("", "a", "é", "{x}", "${x}", "\u202e", "9" * 300)))

    def _list(self, depth: int) -> str:
        return f"[{', '.join(self._text(depth - 1) for _ in range(self._draw.randrange(1, 4)))}]"

    def _instant(self, depth: int) -> str:
        named = self._field(frozenset({"timestamp"}), depth)
        if named and self._draw.random() < 0.6:
            return named
        if depth > 0 and self._draw.random() < 0.3:
            return f"timestamp({self._text(depth - 1)})"
        return 'timestamp("2026-01-31T12:00:00Z")'


def small_contract(grammar: Grammar) -> str:
    """A short contract that is nothing but expressions, each where it may be."""
    changed, made = grammar.type_name(), grammar.type_name()
    old = {"it": changed}
    both = {**old, "new": changed}
    texts = {
        "where": grammar.within(old, "bool"),
        "that": grammar.within(both, "bool"),
        "of": grammar.within({"it": made}, "bool"),
        "always": f"count(n for n in now.{made}) >= 0 or {grammar.within({}, 'bool', 3)}",
        "claim": grammar.within({}, "bool"),
        "by": grammar.within({}, "bool", 3),
    }
    said = {name: json.dumps(text, ensure_ascii=False) for name, text in texts.items()}
    return f"""\
contract: fuzz/grammar
version: 1.0.0
owner: tests
intent: Whatever these expressions say of the shop.
forbid:
  - {{id: kept, update: {changed}, where: {said["where"]}}}
require:
  - {{id: changed, update: {changed}, that: {said["that"]}, count: {{min: 1}}}}
allow:
  - {{id: made, create: {made}, where: {said["of"]}}}
effects:
  - {{on: create {made}, reversibility: conditional, authorized_by: {said["by"]}}}
steps:
  - {{id: always, always: {said["always"]}}}
answer:
  schema: {{n: int}}
  claims: [{{id: claim, that: {said["claim"]}}}]
"""
