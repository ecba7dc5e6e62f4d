"""An English sentence for every clause, from its typed form: what an owner reads and signs.

A condition that English says in one go is said in English; of any other the expression is shown, as
the contract has it. Wording only; nothing here decides anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from statediff.contract.language.kinds import is_time
from statediff.contract.language.syntax import (
    And,
    AnswerOf,
    Arithmetic,
    Call,
    Canonical,
    CollectionT,
    Compare,
    Comprehension,
    Const,
    Entities,
    FieldOf,
    Follow,
    InputOf,
    ItemOf,
    Items,
    ListT,
    Lookup,
    Loop,
    Node,
    Not,
    Or,
    PartOf,
    Reaches,
    RunOf,
    ScalarT,
    Variable,
    walk,
)
from statediff.contract.language.written import UNSAID, asks_for_words, text_of
from statediff.model.paths import Item, Step
from statediff.model.schema import Kind
from statediff.model.trace import ENDINGS
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
_RELATIONS_OF_TIMES = {
    "<": "is before",
    "<=": "is not after",
    ">": "is after",
    ">=": "is not before",
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


_SAID: Final = {"email": "e-mail address"}
_PREPOSITIONS: Final = frozenset({"at", "by", "for", "from", "in", "of", "on", "to", "with"})
_SAME: Final = ("data", "media", "news", "series", "species", "staff")
_PLURALS: Final = {
    **{word: word for word in _SAME},
    "analysis": "analyses", "axis": "axes", "basis": "bases", "child": "children",
    "crisis": "crises", "hypothesis": "hypotheses", "index": "indexes", "leaf": "leaves",
    "man": "men", "person": "people", "quiz": "quizzes", "shelf": "shelves", "woman": "women",
}  # fmt: skip
_IRREGULAR: Final = {
    **{many: one for one, many in _PLURALS.items() if one != "basis"},
    "indices": "index", "matrices": "matrix", "vertices": "vertex", "alias": "alias",
    "lens": "lens", "gas": "gas", "gases": "gas", "sms": "sms", "movies": "movie",
    "cookies": "cookie", "caches": "cache", "statuses": "status", "buses": "bus",
    "bonuses": "bonus", "viruses": "virus", "campuses": "campus", "axes": "axis",
}  # fmt: skip
_AN: Final = re.compile(r"[aeio]|u(?!ni|s|t[ei]|r[aeio])|hour|honou?r|heir", re.IGNORECASE)
_A: Final = re.compile(r"eu|one\b|once\b", re.IGNORECASE)
_LAST_WORD: Final = re.compile(r"^(.*?)([_ .]?)([^_ .]*)$", re.DOTALL)
LONGEST: Final = 25
"""Words of a condition that is said in English."""
_NUMBERS: Final = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def words(name: str) -> str:
    """An identifier as words; one that ends in a preposition stands in quotes."""
    said = printable(_SAID.get(name, name.replace("_", " ")))
    return f"“{said}”" if said.rpartition(" ")[2] in _PREPOSITIONS else said


def singular(name: str) -> str:
    """The last word in the singular, as far as English lets one say without a dictionary.

    >>> [singular(w) for w in ("orders", "order_lines", "categories", "boxes", "status", "staff")]
    ['order', 'order_line', 'category', 'box', 'status', 'staff']
    """
    found = _LAST_WORD.fullmatch(name)
    head, mark, last = found.groups() if found is not None else ("", "", name)
    if last in _IRREGULAR:
        last = _IRREGULAR[last]
    elif last.endswith("ies") and len(last) > 4:
        last = last[:-3] + "y"
    elif last.endswith(("xes", "ches", "shes", "sses", "zzes")):
        last = last[:-2]
    elif len(last) > 2 and last.endswith("s") and not last.endswith(("ss", "us", "is")):
        last = last[:-1]
    return f"{head}{mark}{last}"


def kind(type_name: str) -> str:
    """One entity of a type in words, also where the type has the name of a table, in the plural."""
    return singular(words(type_name))


def plural(noun: str) -> str:
    """More than one of them."""
    last = noun.rpartition(" ")[2]
    if last.lower() in _PLURALS:
        return noun.removesuffix(last) + _PLURALS[last.lower()]
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")


def a(noun: str) -> str:
    """One of them, not yet known: `an invoice`, `a user`."""
    article = "an" if _AN.match(noun) and not _A.match(noun) else "a"
    return f"{article} {noun}"


def either(names: Iterable[str]) -> str:
    """`a, b or c`."""
    return in_a_row(map(words, names), "or")


def in_a_row(texts: Iterable[str], last: str = "and") -> str:
    """`a, b and c`."""
    found = tuple(texts)
    return f" {last} ".join(filter(None, (", ".join(found[:-1]), *found[-1:])))


def condition(node: Node, own: str = "it") -> str:
    """The condition, each part in English or as its expression; `own` is the word for `it`."""
    parts = node.parts if isinstance(node, And) else (node,)
    return together(_in_one_go(part, own) for part in parts)


def together(parts: Iterable[str]) -> str:
    """Conditions that all hold: `a and b`, or `a; b; c; and d` where there are many."""
    listed = tuple(parts)
    return (
        " and ".join(listed) if len(listed) < 4 else "; ".join((*listed[:-1], f"and {listed[-1]}"))
    )


def operand(node: Node, own: str = "it") -> str:
    """A value, in English or as its expression; `own` is what `it` is called."""
    written = text_of(node)
    said = _phrase(node, own) if _is_plain(node) else ""
    is_short = 0 < len(said.split()) <= LONGEST
    return said if is_short or UNSAID in written else f"`{printable(written)}`"


def _in_one_go(node: Node, own: str) -> str:
    flag = node.child if isinstance(node, Not) else node
    if not isinstance(flag, FieldOf):
        return operand(node, own)
    said, field = _phrase(flag, own), words(flag.field)
    if flag.field.startswith("is_") and said == f"its {field}":
        return f"it {field if flag is node else field.replace('is', 'is not', 1)}"
    return f"{said} is {'true' if flag is node else 'false'}"


def _is_plain(node: Node) -> bool:
    """True if it is said without a name for something, a negation around it, or an inner list."""
    parts = tuple(walk(node))
    loops = [part for part in parts if isinstance(part, Comprehension)]
    # The clause's own entity may be spoken of inside a loop, too.
    own = any(
        isinstance(p, Variable) and p.name in ("it", "new") for each in loops for p in walk(each)
    )
    is_named = own or any(len(each.loops) > 1 for each in loops)
    is_nested = any(isinstance(part, Or) and _has(part, Or, And) for part in parts)
    is_far = any(isinstance(part, Lookup) and _is_far(part) for part in parts)
    is_odd = is_named or is_nested or is_far or len(loops) > 1
    return not (is_odd or _has(node, Not, Reaches) or isinstance(node, Not | Reaches))


def _is_many(node: Node) -> bool:
    if not isinstance(node, FieldOf):
        return False
    last = node.part[-1] if node.part else node.field
    return isinstance(last, str) and singular(last) != last


def _is_far(node: Lookup) -> bool:
    """True if the entity is found by something that has to be found out first."""
    keys = [key.child if isinstance(key, Canonical) else key for key in node.keys]
    entity = node.collection.entity if isinstance(node.collection, Entities) else ""
    if len(keys) == 1 and isinstance(keys[0], AnswerOf) and keys[0].name == entity:
        return False
    return not all(isinstance(key, Const | InputOf | FieldOf) for key in keys)


def _has(node: Node, *kinds: type[Node]) -> bool:
    return any(isinstance(part, kinds) for part in walk(node) if part is not node)


def _phrase(node: Node, own: str) -> str:  # noqa: C901  (one arm a kind of node)
    """A plain expression in English; `own` is what `it` is called."""

    def of(part: Node) -> str:
        return _phrase(part, own)

    match node:
        case Const(value=value):
            return show(value)
        case InputOf(name=name, value=value):
            return f"{show(value)} (input {words(name)})"
        case AnswerOf(name=name):
            return f"the reported {words(name)}"
        case RunOf() | Compare(op="==", left=RunOf(name="ended"), right=Const(value=str())):
            return _ending(node)
        case Variable():
            return _variable(node, own)
        case Entities(root=root, entity=entity):
            return f"{plural(kind(entity))} {_WHEN[root]}"
        case Lookup() | FieldOf() | Follow():
            return " ".join(filter(None, _chain(node, own)))
        case PartOf(whole=whole, step=step):
            return f"the {_step_words(step)} of {of(whole)}"
        case ItemOf(whole=whole, index=index):
            return f"item {of(index)} of {of(whole)}"
        case Arithmetic(op="+", type=ScalarT(kind=Kind.TEXT) | ListT(), left=left, right=right):
            return f"{of(left)} followed by {of(right)}"
        case Canonical(child=child):
            return of(child)
        case Compare(op="in" | "not in" as op, left=left, right=Entities() as right):
            verb = "is among the" if op == "in" else "is not among the"
            return f"{of(left)} {verb} {of(right)}"
        case Compare(op="in" | "not in" as op, left=left, right=Items(items=(_, _) as items)):
            first, second = map(of, items)
            few = f"{first} or {second}" if op == "in" else f"neither {first} nor {second}"
            return f"{of(left)} {'are' if _is_many(left) else 'is'} {few}"
        case Compare():
            return _comparison(node, own)
        case And(parts=parts):
            return " and ".join(of(p) for p in parts)
        case Or(parts=parts):
            return "(" + " or ".join(of(p) for p in parts) + ")"
        case Arithmetic():
            return f"({_term(node, own)})"
        case Items(items=items):
            return ", ".join(of(i) for i in items) or "an empty list"
        case Call():
            return _call(node, own)
        case Comprehension():
            return _elements(node, own)
        case _:
            pass
    raise TypeError(f"no words for {type(node).__name__}")


_OF_RUN: Final = {
    "ended": "how the run ended", "exit_code": "the exit code of the run",
    "start": "the start of the run", "end": "the end of the run",
}  # fmt: skip


def _ending(node: RunOf | Compare) -> str:
    """How the run ended, or that it ended in one way."""
    match node:
        case RunOf(name=name):
            return _OF_RUN[name]
        case Compare(right=right):
            return f"the run {ENDINGS[str(getattr(right, 'value', ''))]}"


def _comparison(node: Compare, own: str) -> str:
    """Two sides and how they compare."""
    match node:
        case Compare(
            op="==", left=Arithmetic(op="%", left=whole, right=Const(value=1)), right=Const(value=0)
        ):
            return f"{_term(whole, own)} {'are' if _is_many(whole) else 'is'} whole"
        case _:
            pass
    are_times = is_time(node.left.type) or is_time(node.right.type)
    relation = (_RELATIONS_OF_TIMES.get(node.op) if are_times else None) or _RELATIONS[node.op]
    if _is_many(node.left):
        relation = relation.replace("is", "are", 1)
    return f"{_term(node.left, own)} {relation} {_term(node.right, own)}"


def _term(node: Node, own: str) -> str:
    """One side of a comparison, which needs no brackets."""
    match node:
        case Arithmetic(op="+", type=ScalarT(kind=Kind.TEXT) | ListT()):
            return _phrase(node, own)
        case Arithmetic(op="-", left=Const(value=0), right=right):
            return f"minus {_phrase(right, own)}"
        case Arithmetic(op="%", left=left, right=right):
            return f"the remainder of {_phrase(left, own)} divided by {_phrase(right, own)}"
        case Arithmetic(op=op, left=left, right=right):
            return f"{_phrase(left, own)} {op} {_phrase(right, own)}"
        case _:
            return _phrase(node, own)


_VARIABLES: Final = {
    "call": "the call",
    "calls": "calls so far",
    "turns": "what the user said so far",
    "reply": "the agent's reply",
}


def _variable(node: Variable, own: str) -> str:
    match node:
        case Variable(name="it"):
            return own
        case Variable(name="new"):
            return f"the changed {own.removeprefix('the ')}"
        case Variable(name="them", type=CollectionT(type=entity)):
            return f"those {plural(kind(entity))}"
        case Variable(name=name):
            return _VARIABLES.get(name, f"“{name}”")


def _step_words(step: Step) -> str:
    match step:
        case int():
            return f"item {step}"
        case Item():
            told = " and ".join(f"{words(name)} {value}" for name, value in step.parts)
            return f"(the item with {told})"
        case _:
            return words(step)


def _chain(node: Node, own: str) -> tuple[str, str]:
    """A field or an entity, `order 9's customer's e-mail address`, and when: `before the run`."""
    match node:
        case FieldOf(entity=Lookup(collection=Variable()) as turn, field="said"):
            return f"what the user said in {_chain(turn, own)[0]}", ""
        case FieldOf(entity=holder, field=name, part=part):
            base, when = _chain(holder, own)
            said = " ".join((words(name), *map(_step_words, part)))
            is_quoted = base.endswith("”") and not base.startswith("“")
            return f"the {said} of {base}" if is_quoted else f"{_whose(base, own)} {said}", when
        case Follow(reference=reference):
            return _chain(reference, own)
        case Lookup(collection=Entities(root=root, entity=entity), keys=keys):
            return _named(entity, keys, own), _WHEN[root]
        case Lookup(keys=(key,)):
            return f"turn {_phrase(key, own)}" if isinstance(key, Const) else _phrase(key, own), ""
        case Variable(name="new"):
            return "its new", ""
        case _:
            return _phrase(node, own), ""


def _whose(base: str, own: str) -> str:
    if base in (own, "its new"):
        return "its" if base == own else base
    return f"{base}'" if base.endswith("s") else f"{base}'s"


def _named(entity: str, keys: tuple[Node, ...], own: str) -> str:
    """An entity by its key: `order 9`, `order 9's customer`, `the reported customer`."""
    bare = [key.child if isinstance(key, Canonical) else key for key in keys]
    if len(bare) == 1:
        [key] = bare
        if isinstance(key, FieldOf) and key.field == entity:
            return _chain(key, own)[0]
        if isinstance(key, AnswerOf) and key.name == entity:
            return _phrase(key, own)
    shown = ", ".join(
        show(key.value) if isinstance(key, InputOf) else _chain(key, own)[0] for key in bare
    )
    return f"{kind(entity)} {shown}"


def _call(node: Call, own: str) -> str:
    body = node.arguments[0]
    first = _phrase(body, own)
    match node.name:
        case "all" | "any" if isinstance(body, Comprehension):
            quantity = "every" if node.name == "all" else "at least one"
            return f"for {_range(body, own, quantity)}, {_phrase(body.element, _each(body))}"
        case "sum" | "min" | "max" | "unique" if isinstance(body, Comprehension) and (
            field := _field_of_each(body)
        ):
            each = _range(body, own, "every" if body.loops[0].conditions else "")
            if node.name == "unique":
                two = "no two of" if each.startswith(("those", "every")) else "no two"
                return f"{two} {each} have the same {field}"
            return f"the {_OF_ALL[node.name]} {field} of {each}"
        case "sum":
            return f"the sum of {first}"
        case "min" | "max":
            return f"the {_OF_ALL[node.name]} of {first}"
        case "count" if len(node.arguments) == 2:
            return f"the number of times that {_phrase(node.arguments[1], own)} is in {first}"
        case "count":
            return f"the number of {first}"
        case "unique":
            return f"no two of {first} are equal"
        case "exists":
            return f"there is {first}"
        case "len":
            return f"the length of {first}"
        case "search" if asks_for_words(node):
            return f"{first} has a letter or a digit"
        case "within":
            other, most = (_phrase(each, own) for each in node.arguments[1:])
            unit = " seconds" if is_time(body.type) else ""
            return f"{first} is within {most}{unit} of {other}"
        case _:
            pass
    said = _SENTENCES.get(node.name)
    if said is None or len(node.arguments) > 2:
        return f"{node.name}({', '.join(_phrase(a, own) for a in node.arguments)})"
    return said.format(first, *(_phrase(a, own) for a in node.arguments[1:]))


_OF_ALL: Final = {"sum": "total", "min": "least", "max": "greatest"}


def _field_of_each(body: Comprehension) -> str:
    """The field that is taken of each entity of one loop, in words; empty for anything else."""
    match body:
        case Comprehension(
            loops=(Loop(name=loop),),
            element=FieldOf(entity=Variable(name=name), field=field, part=()),
        ) if name == loop:
            return words(field)
        case _:
            return ""


_SENTENCES: Final = {
    "matches": "{} matches {}",
    "contains": "{} contains {}",
    "mentions": "{} mentions {}",
    "starts_with": "{} starts with {}",
    "ends_with": "{} ends with {}",
    "search": "some part of {} matches {}",
    "lower": "{} in lower case",
    "same_items": "{} and {} have the same items in any order",
    "timestamp": "the instant that {} writes",
    "date": "the day that {} writes",
}


def _elements(node: Comprehension, own: str) -> str:
    if isinstance(node.element, Variable):
        return _range(node, own, "")
    return f"{_phrase(node.element, _each(node))} over {_range(node, own, 'every')}"


def _each(node: Comprehension) -> str:
    """The word for an element: what is `its` inside."""
    return f"“{node.loops[0].name}”"


def _range(node: Comprehension, own: str, quantity: str) -> str:
    """The elements that are ranged over."""
    source, conditions = node.loops[0].source, node.loops[0].conditions
    if isinstance(source, Entities) and quantity:
        text = f"{quantity} {kind(source.entity)} {_WHEN[source.root]}"
    else:
        text = _phrase(source, own)
        if quantity and not (quantity == "every" and text.startswith("those")):
            text = f"{quantity} of {text}"
    asked = " and ".join(_phrase(c, _each(node)) for c in conditions)
    return f"{text} where {asked}" if asked else text


VERBS = {
    "create": "created",
    "update": "changed",
    "delete": "deleted",
    "link": "linked",
    "unlink": "unlinked",
    "any": "created, changed or deleted",
}


def doing(operation: str, type_name: str) -> str:
    """The doing of it, as the subject of a sentence: `Creating an invoice`."""
    return f"{VERBS[operation].replace('ed', 'ing').capitalize()} {a(kind(type_name))}"


_RELATION_VERBS = {"link": "given another {0}", "unlink": "left without its {0}"}


def pattern_sentence(
    section: str,
    operation: str,
    types: Sequence[str],
    count: tuple[int, int | None, bool],
    *,
    where: str = "",
    fields: tuple[str, ...] | None = None,
    that: str = "",
    relation: str | None = None,
) -> str:
    """The sentence of a pattern clause, of which `where` and `that` are phrases already.

    `count` is the least number, the most, and whether it is `every`. `relation` is the reference
    that the operation is about, in place of the entity.
    """
    low, high, is_every = count
    noun, nouns = either(map(kind, types)), either(plural(kind(name)) for name in types)
    verb = VERBS[operation]
    if relation is not None:
        verb = _RELATION_VERBS[operation].format(words(relation))
    changed = either(fields or ())
    condition = f", where {where}" if where else ""
    what = f"change in {changed}" if changed else f"be {verb}"
    if section == "forbid":
        times = f"No {noun}" if low <= 1 else f"Fewer than {_number(low)} {nouns}"
        text = f"{times} may {what}{condition}"
        if changed and low <= 1:
            text = f"No {_whose(noun, '')} {changed} may change{condition}"
    elif section == "allow":
        most = "" if high is None else _number(high)
        many = f"At most {most} {noun if high == 1 else nouns}" if most else a(noun)
        many = many[:1].upper() + many[1:]
        text = f"{many} may {what}{condition}"
    elif is_every:
        text = f"Every {noun}{condition}{',' if condition else ''} must {what}"
    else:
        noun = noun if (low if high is None else high) == 1 else nouns
        text = f"{quantity(low, high)} {noun} must {what}{condition}"
    return text + (f", such that {that}" if that else "") + "."


def quantity(low: int, high: int | None) -> str:
    """How many, at the beginning of a sentence."""
    if high is None:
        return f"At least {_number(low)}"
    if low == high:
        return f"Exactly {_number(low)}" if low else "No"
    return f"At most {_number(high)}" if not low else f"Between {_number(low)} and {_number(high)}"


def _number(count: int) -> str:
    return _NUMBERS[count] if count < len(_NUMBERS) else str(count)
