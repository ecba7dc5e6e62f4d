"""Three-valued evaluation of typed expressions, sound over every completion of the unobserved.

A condition evaluates to the set of outcomes it can have over all completions of what is
unobserved: a non-empty mask of TRUE, FALSE and UNDEFINED. A single bit is decided; anything else
is unknown. A value is known, `Unknown` (some value of its kind, possibly null or undefined), or
`Undefined` (docs/design.md §3: ordering or arithmetic on null or absent, navigation from an absent
entity, division by zero, min or max of nothing).

`and`/`or` evaluate left to right, so a guard on the left protects what is on its right. Quantifiers
take all their elements, whatever the order of rows: a witness decides, and without one an undefined
element makes the whole undefined. Sets of outcomes are combined as if independent; where each
unobserved value occurs once in the expression the result is exact, elsewhere it may be wider than
necessary, never narrower.
"""

from __future__ import annotations

from typing import Final

from statediff.contract.evaluation.gathering import collected, quantify, same_items, unique
from statediff.contract.evaluation.operations import (
    Reckoned,
    aggregate,
    arithmetic,
    as_condition,
    captured_key,
    compared,
    field_value,
    finite,
    look,
    member_by_key,
    negate,
    plain,
    relate,
    settle,
    time_kind,
)
from statediff.contract.evaluation.reaching import reaching
from statediff.contract.evaluation.texts import (
    TESTS,
    TEXT_FUNCTIONS,
    item_at,
    joined,
    length,
    text_function,
)
from statediff.contract.evaluation.written import is_unread
from statediff.contract.language.context import (
    FALSE,
    TRUE,
    UNDEFINED,
    EntityRef,
    EntitySet,
    Env,
    EvalContext,
    Evaluator,
    Result,
    Seen,
    Undefined,
    Unknown,
    either,
)
from statediff.contract.language.syntax import (
    TEXT,
    And,
    AnswerOf,
    Arithmetic,
    Call,
    Canonical,
    Compare,
    Const,
    Entities,
    EntityT,
    FieldOf,
    Follow,
    InputOf,
    ItemOf,
    Items,
    ListT,
    Lookup,
    Node,
    Not,
    Or,
    PartOf,
    Reaches,
    RunOf,
    Variable,
)
from statediff.model.explanation import Explanation, Reason, frozen
from statediff.model.paths import Step, at, is_ambiguous
from statediff.model.trace import NoAnswer
from statediff.model.values import (
    ABSENT,
    Absent,
    Key,
    Map,
    Unobserved,
    Value,
    encode,
    key_order,
)

_CUT: Final = 61
"""Characters of a text that an explanation keeps; reports show no more of a value."""


def outcomes(node: Node, context: EvalContext, env: Env) -> int:
    """The mask of outcomes that the condition can have."""
    if isinstance(node, Compare):
        return _compare(node, context, env)
    match node:
        case And(parts=parts):
            return _junction(parts, context, env, stop=FALSE, go_on=TRUE)
        case Or(parts=parts):
            return _junction(parts, context, env, stop=TRUE, go_on=FALSE)
        case Not(child=child):
            return negate(outcomes(child, context, env))
        case Call(name="all" | "any"):
            return quantify(EVALUATOR, node, context, env)
        case Call(name="unique"):
            return unique(EVALUATOR, node, context, env)
        case Call(name="exists"):
            return _exists(node, context, env)
        case Reaches(start=start, goal=goal):
            ends = evaluate(start, context, env), evaluate(goal, context, env)
            return reaching(node, *ends, context)
        case Call(name=name) if name in TESTS:
            return _test(node, context, env)
        case Call(name="same_items"):
            return same_items(EVALUATOR, node, context, env)
        case _:
            pass
    return as_condition(evaluate(node, context, env), context)


def _junction(
    parts: tuple[Node, ...], context: EvalContext, env: Env, stop: int, go_on: int
) -> int:
    """Left to right; `stop` decides, `go_on` continues, anything else is kept as possible."""
    mark = context.mark()
    possible = 0
    for part in parts:
        here = context.mark()
        mask = outcomes(part, context, env)
        if mask == stop and not possible:
            context.forget(mark, here)
            return stop
        possible |= mask & ~go_on
        if not mask & go_on:
            return possible
    return possible | go_on


def _compare(node: Compare, context: EvalContext, env: Env) -> int:
    right: Result
    if node.op in ("in", "not in") and isinstance(node.right, Entities):
        left = evaluate(node.left, context, env)
        mask = member_by_key(left, node.right, context)
        right = Reason.KEYS(entity_type=node.right.entity)
    else:
        op = _POSITIVE.get(node.op, node.op)
        if isinstance(node.left, Call) or isinstance(node.right, Call):
            one, two = _reckoned(node.left, context, env), _reckoned(node.right, context, env)
            decided = compared(op, one, two)
            left, right = one.result, two.result
            if decided in (TRUE, FALSE):
                left, right = one.shown, two.shown
            elif decided is not None:
                relate("==", left, right, context)  # notes why it is undefined
                for side in (left, right):
                    context.waits_for(side.causes if isinstance(side, Unknown) else ())
        else:
            left, right = evaluate(node.left, context, env), evaluate(node.right, context, env)
            decided = None
        mask = relate(op, left, right, context) if decided is None else decided
    if node.op in ("!=", "not in"):
        mask = negate(mask)
    if context.trail is not None:
        things = _things(node, context, env)
        context.trail.seen.append(Seen(node, left, right, mask, things))
    return mask


def _reckoned(node: Node, context: EvalContext, env: Env) -> Reckoned:
    """The value, and of an aggregate the bounds of what it may be."""
    if isinstance(node, Call) and (
        node.name in ("sum", "min", "max") or (node.name == "count" and len(node.arguments) == 1)
    ):
        found = collected(EVALUATOR, node, context, env)
        return Reckoned(found) if isinstance(found, Undefined) else aggregate(node.name, found)
    value = evaluate(node, context, env)
    return Reckoned(value, value, value)


_POSITIVE: Final = {"!=": "==", "not in": "in"}


def _things(node: Compare | Call, context: EvalContext, env: Env) -> tuple[EntityRef, ...]:
    found: dict[tuple[str, str, Key], EntityRef] = {}
    for holder in node.holders:
        entity_ref = evaluate(holder, context, env)
        if isinstance(entity_ref, EntityRef) and entity_ref.row is not None:
            found.setdefault((entity_ref.side, entity_ref.type, entity_ref.key), entity_ref)
    return tuple(found.values())


def _exists(node: Call, context: EvalContext, env: Env) -> int:
    found = evaluate(node.arguments[0], context, env)
    mask = TRUE
    match found:
        case Undefined(reason):
            mask = context.undefined_by(reason)
        case Unknown():
            context.waits_for(found.causes)
            mask = either(found.maybe_null)
        case Absent():
            mask = FALSE
        case _:
            pass
    if context.trail is not None:
        things = (found,) if isinstance(found, EntityRef) else ()
        context.trail.seen.append(Seen(node, found, True, mask, things))
    return mask


def _test(node: Call, context: EvalContext, env: Env) -> int:
    arguments = [evaluate(a, context, env) for a in node.arguments]
    for argument in arguments:
        if isinstance(argument, Undefined):
            return context.undefined_by(argument.reason)
    unknown = [a for a in arguments if isinstance(a, Unknown)]
    mask: int
    is_sound = _measured if node.name == "within" else _texts
    if not is_sound(arguments):
        mask = context.undefined_by(Reason.NO_TEST(function=node.name))
    elif unknown:
        for argument in unknown:
            context.waits_for(argument.causes)
        mask = either(any(a.maybe_null or a.maybe_undefined for a in unknown))
    else:
        mask = TRUE if TESTS[node.name](*arguments) else FALSE
    if context.trail is not None:
        left, right = arguments[0], arguments[1]
        things = _things(node, context, env)
        context.trail.seen.append(Seen(node, left, right, mask, things))
    return mask


def _texts(arguments: list[Result]) -> bool:
    return all(isinstance(a, Unknown) or isinstance(plain(a), str) for a in arguments)


def _measured(arguments: list[Result]) -> bool:
    """True if what is known are two numbers, or two times of one kind, and a number."""
    *pair, most = ([] if isinstance(a, Unknown) else [plain(a)] for a in arguments)
    sides = [side for known in pair for side in known]
    kinds = {"number" if finite(side) else time_kind(side) for side in sides}
    return None not in kinds and len(kinds) <= 1 and all(map(finite, most))


def evaluate(node: Node, context: EvalContext, env: Env) -> Result:
    """The value of the expression: known, `Unknown` or `Undefined`."""
    if isinstance(node, FieldOf):
        held = evaluate(node.entity, context, env)
        found = field_value(node, held)
        return _strictly(node, held, found, context) if context.is_strict else found
    if isinstance(node, Variable):
        return env[node.name]
    match node:
        case Const(value=value) | InputOf(value=value):
            return value
        case AnswerOf() | RunOf():
            return _recorded(node, context)
        case Lookup():
            return _lookup(node, context, env)
        case Follow(reference=reference, type=EntityT(type=entity)):
            return _follow(reference, entity, context, env)
        case PartOf(whole=whole, step=step):
            return _part(evaluate(whole, context, env), step)
        case ItemOf(whole=whole, index=index):
            return item_at(evaluate(whole, context, env), evaluate(index, context, env))
        case Canonical(child=child, apply=apply):
            value = evaluate(child, context, env)
            if isinstance(value, (Unknown, Undefined, Absent, EntityRef)):
                return value
            return apply(settle(value))
        case Arithmetic():
            left, right = evaluate(node.left, context, env), evaluate(node.right, context, env)
            if node.type == TEXT or isinstance(node.type, ListT):
                return joined(left, right, node.type == TEXT)
            result = arithmetic(node.op, left, right)
            if isinstance(result, Undefined) and result.reason == Reason.NO_NUMBER():
                return Undefined(_no_number(node, left, right, context, env))
            return result
        case Items(items=items):
            values = tuple(evaluate(item, context, env) for item in items)
            return next((value for value in values if isinstance(value, Undefined)), values)
        case Call(name=name) if name in _OF_VALUES:
            return _function(node, context, env)
        case _:
            pass
    mask = outcomes(node, context, env)
    if mask == UNDEFINED:
        return Undefined(context.last_undefined)
    if mask in (TRUE, FALSE):
        return mask == TRUE
    # Some cause there is, whether a trail is left or not: what has none is no longer open.
    causes = context.causes or frozenset({Reason.SOME_CONDITION()})
    return Unknown(causes, False, bool(mask & UNDEFINED))


def _strictly(node: FieldOf, held: Result, found: Result, context: EvalContext) -> Result:
    """The value of a field; undefined where the run wrote it and nobody can read it."""
    is_open = isinstance(found, Unknown) and isinstance(held, EntityRef)
    if is_open and is_unread(held, node.field, context):
        return Undefined(next(iter(found.causes)))
    return found


def _recorded(node: AnswerOf | RunOf, context: EvalContext) -> Result:
    """A value of the answer, or a fact about the run, as far as it was recorded.

    Not observed where prose says the value in two ways, or nobody knows how the run ended.
    """
    if isinstance(node, RunOf):
        return _of_run(node.name, context)
    if isinstance(context.answer, NoAnswer):
        if context.answer.is_unread:
            return Unknown(frozenset({context.answer.cause}), False)
        return Undefined(Reason.NO_ANSWER(words=context.answer.cause))
    said = context.answer.get(node.name, ABSENT)
    if isinstance(said, Unobserved):
        return Unknown(frozenset({Reason.ANSWER_UNCLEAR(words=said.cause)}), False)
    return said


def _of_run(name: str, context: EvalContext) -> Result:
    """How the run ended, or when it began and ended, on the clock of the harness."""
    if name in ("ended", "exit_code"):
        if context.ending is None:
            return Unknown(frozenset({Reason.NO_ENDING()}), False)
        return context.ending.how if name == "ended" else context.ending.exit_code
    known = context.timeline
    moment = known and (known.agent_started_at if name == "start" else known.agent_finished_at)
    return Unknown(frozenset({Reason.NO_MOMENT()}), False) if moment is None else moment


_OF_VALUES: Final = TEXT_FUNCTIONS | {"sum", "min", "max", "count", "len"}
"""Functions that are no conditions."""


def _function(node: Call, context: EvalContext, env: Env) -> Result:
    match node:
        case Call(name="count", arguments=(_,)) | Call(name="sum" | "min" | "max"):
            return _reckoned(node, context, env).result
        case Call(name="len", arguments=(argument,)):
            return length(evaluate(argument, context, env))
        case _:
            pass
    arguments = [evaluate(argument, context, env) for argument in node.arguments]
    return text_function(node.name, arguments)


def _no_number(
    node: Arithmetic, left: Result, right: Result, context: EvalContext, env: Env
) -> Explanation:
    """Which operand is no number: the field and its row, where it is one."""
    is_left = not (isinstance(left, Unknown) or finite(left) or time_kind(left))
    operand, value = (node.left, left) if is_left else (node.right, right)
    while isinstance(operand, Canonical):
        operand = operand.child
    holder = evaluate(operand.entity, context, env) if isinstance(operand, FieldOf) else None
    if not isinstance(operand, FieldOf) or not isinstance(holder, EntityRef):
        return Reason.NO_NUMBER()
    return Reason.FIELD_NO_NUMBER(
        entity_type=holder.type,
        key=tuple(_argument(part) for part in holder.key),
        field=".".join((operand.field, *map(str, operand.part))),
        side=holder.side,
        value=_argument(value),
    )


def _argument(value: Result) -> Explanation:
    """A value as an argument of a reason: null and what is absent by their names."""
    if isinstance(value, Absent):
        return Reason.WRITTEN(text="absent")
    return Reason.VALUE(value=frozen(encode(value[:_CUT] if isinstance(value, str) else value)))


def _lookup(node: Lookup, context: EvalContext, env: Env) -> Result:
    keys: list[Value] = []
    for part in node.keys:
        value = evaluate(part, context, env)
        if isinstance(value, Undefined):
            return value
        if isinstance(value, Unknown):
            return Unknown(value.causes, value.maybe_undefined, True)
        if value is None or isinstance(value, Absent):
            return ABSENT
        keys.append(plain(value))
    if isinstance(node.collection, Entities):
        return look(node.collection.root, node.collection.entity, tuple(keys), context)
    return _in_set(evaluate(node.collection, context, env), tuple(keys))


def _in_set(known: EntitySet, key: Key) -> Result:
    """The entity of the collection that the key names; ABSENT only where none may be missing."""
    if known.incomplete:
        return Unknown(known.incomplete, False, True)
    wanted = key_order(captured_key(tuple(map(settle, key))))
    return next((each for each in known if key_order(each.key) == wanted), ABSENT)


def _part(whole: Result, step: Step) -> Result:
    match whole:
        case Map() | tuple() if not is_ambiguous(settle(whole), step):
            return at(settle(whole), (step,))
        case Undefined():
            return whole
        case Unknown():
            return Unknown(whole.causes, maybe_undefined=True)
        case _:
            return Undefined(Reason.NO_PARTS(part=str(step)))


def _follow(reference: FieldOf, entity: str, context: EvalContext, env: Env) -> Result:
    value = evaluate(reference, context, env)
    if isinstance(value, Undefined):
        return value
    if isinstance(value, Unknown):
        return Unknown(value.causes, maybe_undefined=True)
    if value is None or isinstance(value, Absent):
        return ABSENT
    holder = evaluate(reference.entity, context, env)
    return look(holder.side, entity, (value,), context)


EVALUATOR: Final = Evaluator(outcomes, evaluate)
"""The two halves as those modules are given them that know neither."""
