"""An English sentence for every clause, from its typed form: what a reviewer reads.

Wording only; nothing here decides anything.
"""

from __future__ import annotations

from dataclasses import dataclass

from statediff.contract.syntax import (
    And,
    AnswerOf,
    Arithmetic,
    Call,
    Canonical,
    Compare,
    Comprehension,
    Const,
    Entities,
    FieldOf,
    Follow,
    InputOf,
    Items,
    Lookup,
    Node,
    Not,
    Or,
    PartOf,
    Variable,
)
from statediff.model.values import printable, show

_RELATIONS = {
    "==": "is",
    "!=": "is not",
    "<": "is less than",
    "<=": "is at most",
    ">": "is more than",
    ">=": "is at least",
    "in": "is one of",
    "not in": "is none of",
}
_WHEN = {
    "now": "at that moment",
    "before": "before the run",
    "after": "after the run",
    "created": "created in the run",
    "updated": "updated in the run",
    "deleted": "deleted in the run",
    "linked": "linked in the run",
    "unlinked": "unlinked in the run",
}


def words(name: str) -> str:
    """An identifier as words."""
    return printable(name.replace("_", " "))


def phrase(node: Node, own: str = "it") -> str:  # noqa: C901  (one arm a kind of node)
    """The expression in English; `own` is what `it` is called."""

    def of(part: Node) -> str:
        return phrase(part, own)

    match node:
        case Const(value=value):
            return show(value)
        case InputOf(name=name, value=value):
            return f"the given {words(name)} ({show(value)})"
        case AnswerOf(name=name):
            return f"the {words(name)} the agent reports"
        case Variable(name="it"):
            return own
        case Variable(name="new"):
            return f"the changed {own.removeprefix('the ')}"
        case Variable(name="them"):
            return "those entities"
        case Variable(name="call"):
            return "the call"
        case Variable(name="calls"):
            return "calls so far"
        case Variable(name="approval"):
            return "the approval"
        case Variable(name="reply"):
            return "the agent's reply"
        case Variable(name=name):
            return f"“{name}”"
        case Entities(root=root, entity=entity):
            return f"{words(entity)} entities {_WHEN[root]}"
        case Lookup(collection=Entities(root=root, entity=entity), keys=keys):
            return f"{_named(entity, keys, own)} {_WHEN[root]}"
        case FieldOf(entity=holder, field=name, part=part):
            return f"the {words('.'.join((name, *part)))} of {of(holder)}"
        case PartOf(whole=whole, name=name):
            return f"the {words(name)} of {of(whole)}"
        case Follow(reference=reference):
            return of(reference)
        case Canonical(child=child):
            return of(child)
        case Compare(op="in" | "not in" as op, left=left, right=Entities() as right):
            verb = "is among the" if op == "in" else "is not among the"
            return f"{of(left)} {verb} {of(right)}"
        case Compare(op=op, left=left, right=right):
            return f"{of(left)} {_RELATIONS[op]} {of(right)}"
        case And(parts=parts):
            return " and ".join(of(p) for p in parts)
        case Or(parts=parts):
            return "(" + " or ".join(of(p) for p in parts) + ")"
        case Not(child=child):
            return f"it is not so that {of(child)}"
        case Arithmetic(op=op, left=left, right=right):
            return f"({of(left)} {op} {of(right)})"
        case Items(items=items):
            return ", ".join(of(i) for i in items) or "nothing"
        case Call():
            return _call(node, own)
        case Comprehension():
            return _elements(node, own)
        case _:
            pass
    raise TypeError(f"no words for {type(node).__name__}")


def _named(entity: str, keys: tuple[Node, ...], own: str) -> str:
    """An entity by its key: `order 9`, `the given order (9)`, `the customer of order 9`."""
    if len(keys) == 1:
        key = keys[0].child if isinstance(keys[0], Canonical) else keys[0]
        if isinstance(key, InputOf) and key.name == entity:
            return phrase(key, own)
        if isinstance(key, FieldOf) and key.field == entity:
            return phrase(key, own).removesuffix(f" {_WHEN['before']}")
    shown = ", ".join(phrase(k, own).removesuffix(f" {_WHEN['before']}") for k in keys)
    return f"{words(entity)} {shown}"


def _call(node: Call, own: str) -> str:
    body = node.arguments[0]
    first = phrase(body, own)
    match node.name:
        case "all" | "any" if isinstance(body, Comprehension):
            quantity = "for every" if node.name == "all" else "for at least one"
            return f"{quantity} {_ranges(body, own)}, {phrase(body.element, own)}"
        case "sum":
            return f"the sum of {first}"
        case "min" | "max":
            return f"the {'least' if node.name == 'min' else 'greatest'} of {first}"
        case "count":
            return f"the number of {first}"
        case "unique":
            return f"no two of {first} are equal"
        case "exists":
            return f"there is {first}"
        case "len":
            return f"the length of {first}"
        case "within":
            return (
                f"{first} is within {phrase(node.arguments[2], own)} of "
                f"{phrase(node.arguments[1], own)}"
            )
        case "matches" | "contains" | "starts_with" | "ends_with":
            verb = {
                "matches": "matches",
                "contains": "contains",
                "starts_with": "starts with",
                "ends_with": "ends with",
            }[node.name]
            return f"{first} {verb} {phrase(node.arguments[1], own)}"
        case _:
            pass
    return f"{node.name}({', '.join(phrase(a, own) for a in node.arguments)})"


def _elements(node: Comprehension, own: str) -> str:
    return f"{phrase(node.element, own)} over every {_ranges(node, own)}"


def _ranges(node: Comprehension, own: str) -> str:
    texts = []
    for loop in node.loops:
        many = phrase(loop.source, own)
        text = f"“{loop.name}” of {many if many.startswith(('those', 'the ')) else f'the {many}'}"
        if loop.conditions:
            text += " where " + " and ".join(phrase(c, own) for c in loop.conditions)
        texts.append(text)
    return " and ".join(texts)


VERBS = {
    "create": "created",
    "update": "updated",
    "delete": "deleted",
    "link": "linked",
    "unlink": "unlinked",
    "any": "changed in any way",
}


@dataclass(frozen=True)
class PatternWords:
    """The parts of a pattern's sentence; `where` and `that` are phrases already."""

    section: str
    operation: str
    types: tuple[str, ...]
    where: str
    fields: tuple[str, ...] | None
    low: int
    high: int | None
    is_every: bool
    that: str


def pattern_sentence(of: PatternWords) -> str:
    """The sentence of a pattern clause."""
    noun = " or ".join(words(t) for t in of.types)
    verb = VERBS[of.operation]
    only = f" in {', '.join(words(f) for f in of.fields)}" if of.fields else ""
    condition = f" where {of.where}" if of.where else ""
    if of.section == "forbid":
        times = "No" if of.low <= 1 else f"Fewer than {of.low}"
        text = f"{times} {noun} may be {verb}{only}{condition}"
    elif of.section == "allow":
        limit = f" (at most {of.high})" if of.high is not None else ""
        article = "An" if noun[:1] in "aeio" else "A"
        text = f"{article} {noun} may be {verb}{only}{condition}{limit}"
    elif of.is_every:
        text = f"Every {noun}{condition} must be {verb}{only}"
    else:
        text = f"{quantity(of.low, of.high)} {noun} must be {verb}{only}{condition}"
    return text + (f", such that {of.that}" if of.that else "") + "."


def quantity(low: int, high: int | None) -> str:
    """How many, at the beginning of a sentence."""
    if high is None:
        return f"At least {low}"
    if low == high:
        return f"Exactly {low}"
    return f"Between {low} and {high}"
