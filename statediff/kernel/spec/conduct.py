"""Steps, turns and actions: what must hold along the run, whatever its path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Final, NamedTuple

from statediff.contract.clauses.conduct import (
    AfterCalls,
    Always,
    Asserted,
    AtCalls,
    Attempts,
    Gate,
    Happens,
    Occurrence,
    Order,
    Permission,
)
from statediff.contract.clauses.effects import BoundEffect
from statediff.contract.language.syntax import CALL_TYPE, TURN_TYPE, Node
from statediff.kernel.spec.changes import COME, HOLDS, UNKNOWN, Change, Decided, fails
from statediff.kernel.spec.expressions import outcomes
from statediff.kernel.spec.history import Commit, Run, state_at
from statediff.kernel.spec.values import (
    FALSE,
    OPEN,
    TRUE,
    UNDEFINED,
    Crowd,
    Env,
    Result,
    Some,
    State,
    Thing,
    Truths,
)
from statediff.model.codes import FindingCode, Truth
from statediff.model.schema import Kind
from statediff.model.trace import Action, ActionClass, NoAnswer, Trace
from statediff.model.values import Observed, Unobserved, encode

# ---------------------------------------------------------------- the calls


def calls_of(trace: Trace) -> tuple[Thing, ...]:
    """The recorded calls as entities; what the log does not say of one is unobserved."""
    turns = None if trace.turns is None else [turn.calls_before for turn in trace.turns]
    untold = Unobserved("the log does not say")

    def known(told: Observed) -> Observed:
        return untold if told is None else told

    def row(number: int, a: Action) -> dict[str, Observed]:
        turn = None if turns is None else sum(before <= number for before in turns) or None
        is_whole, is_unknown = trace.gap is None, a.action_class is ActionClass.UNKNOWN
        return {
            "id": a.id,
            "position": number + 1 if is_whole else untold,
            "turn": turn if is_whole and turns is not None else untold,
            "tool": a.tool,
            "class": untold if is_unknown else a.action_class.value,
            "arguments": a.arguments,
            "result": a.result,
            "error": a.error,
            "principal": known(a.principal),
            "attempt": a.attempt,
            "started_at": known(a.started_at),
            "finished_at": known(a.finished_at),
        }

    return tuple(Thing("trace", CALL_TYPE, (a.id,), row(n, a)) for n, a in enumerate(trace.actions))


def said_in(trace: Trace) -> tuple[tuple[int, Thing], ...]:
    """What the user said, each message with how many calls came before it."""
    untold = Unobserved("the log does not say")
    return tuple(
        (
            each.calls_before,
            Thing(
                "trace",
                TURN_TYPE,
                (number,),
                {"number": number if trace.gap is None else untold, "said": each.message},
            ),
        )
        for number, each in enumerate(trace.turns or (), start=1)
    )


class Log(NamedTuple):
    """The calls of a run, each with its variables, and one that may have been made beside them."""

    calls: tuple[Thing, ...]
    messages: tuple[tuple[int, Thing], ...]
    is_open: bool
    is_told: bool
    """Whether the log tells turns apart."""

    def first(self, number: int) -> Crowd:
        """The first calls, and whatever was not recorded."""
        return Crowd(self.calls[:number], self.is_open)

    def places(self) -> list[Env]:
        """The variables at each recorded call."""
        said = [sum(before <= n for before, _ in self.messages) for n in range(len(self.calls))]
        return [{"call": call, **self.until(n, said[n])} for n, call in enumerate(self.calls)]

    def until(self, calls: int, said: int) -> Env:
        """The first calls and messages, and whatever was not recorded."""
        messages = tuple(thing for _, thing in self.messages[:said])
        turns = Crowd(messages, self.is_open or not self.is_told)
        return {"calls": self.first(calls), "turns": turns}

    def others(self) -> list[Env]:
        """The variables at a call that nobody recorded: of no other is it known to come before."""
        unseen = Thing("trace", CALL_TYPE, (), None)
        return [{"call": unseen, **self.until(0, 0)}] if self.is_open else []


def log_of(run: Run) -> Log:
    """The calls of the run."""
    trace = run.trace
    is_open, is_told = trace.gap is not None, trace.turns is not None
    return Log(calls_of(trace), said_in(trace), is_open, is_told)


def _types(of: Asserted) -> frozenset[str]:
    """The types of the world that an assertion reads."""
    return frozenset(r.type for r in of.reads if r.root in ("before", "after") and r.type)


def _at(node: Node, run: Run, env: Env, now: tuple[str, State] | None = None) -> Truths:
    """The truths of a condition at one point of the run, whose state is `now`."""
    world = run.case.world
    if now is not None:
        world = replace(world, now=now[0], states={**world.states, now[0]: now[1]})
    return outcomes(node, world, env)


def _after(name: str, is_last: bool, of: Asserted, run: Run) -> tuple[str, State]:
    """The state that the call or turn left, once the systems were at rest."""
    lines = [run.timelines.line_of(each) for each in _types(of)]
    is_still = all(
        x is not None and x.gap is None and not x.moves(n)
        for x, n in zip(lines, _types(of), strict=True)
    )
    if is_last or is_still:
        return "after", run.case.world.states["after"]
    return f"after {name}", run.left.get(name, {})


def holds_unless(is_open: bool) -> Decided:
    """HOLDS where all is known."""
    return UNKNOWN if is_open else HOLDS


def _failure(mask: Truths, code: FindingCode) -> Decided:
    return fails(FindingCode.UNDEFINED if mask == UNDEFINED else code)


def own_word(decided: Decided, of: Asserted, run: Run) -> Decided:
    """The truths, open where a clause holds only by the agent's own word on its conduct."""
    rests = any(read.root == "trace" for read in of.reads)
    is_own = decided.truth is Truth.HOLDS and rests and run.trace.is_agent_influenced
    return UNKNOWN if is_own else decided


def decide_step(clause: Asserted, run: Run) -> Decided:
    """Decide a clause that must hold along the run, whatever its path."""
    match clause:
        case Always():
            return _always(clause, run)
        case AtCalls():
            return _at_calls(clause, run)
        case AfterCalls():
            return _after_calls(clause, run)
        case Occurrence():
            return _occurs(clause, run)
        case Order():
            return _order(clause, run)
        case _:
            raise TypeError(f"not a step: {type(clause).__name__}")


def _always(clause: Always, run: Run) -> Decided:
    """FAILS on any state in which it does not hold; HOLDS only over all of them.

    Where several sources moved and their moments alone leave it open, every state that a possible
    order of their commits leads through is tried.
    """
    types, states = _types(clause), run.case.world.states
    between = run.moments(types)
    masks = {
        side: _at(clause.node, run, {}, (side, states[side]))
        for side in ("before", *between, "after")
    }
    wrong = [mask for mask in masks.values() if not mask & TRUE]
    if wrong:
        return _failure(wrong[0], FindingCode.INVARIANT_BROKEN)
    is_complete = not run.gaps(types)
    if not is_complete or masks["before"] | masks["after"] != TRUE:
        is_open = True
    else:
        is_open = any(masks[side] != TRUE for side in between)
    if is_complete and any(masks[side] != TRUE for side in between) and len(run.moving(types)) > 1:
        cuts = list(_cuts(run, types))
        tried = [(certain, _at(clause.node, run, {}, ("cut", state))) for certain, state in cuts]
        sure = [mask for certain, mask in tried if certain and not mask & TRUE]
        if sure:
            return _failure(sure[0], FindingCode.INVARIANT_BROKEN)
        ends = masks["before"] | masks["after"]
        is_open = ends != TRUE or any(mask != TRUE for _, mask in tried)
    return holds_unless(is_open)


def _cuts(run: Run, types: Iterable[str]) -> Iterator[tuple[bool, State]]:
    """The states that some order of the commits leads through, each with whether all orders do."""
    names = frozenset(types)
    lines = run.moving(names)
    steps = [[0, *(n for n, s in enumerate(x.steps, start=1) if s.touched & names)] for x in lines]

    def is_possible(at: tuple[int, ...]) -> bool:
        made = [(x.source, own[n]) for x, own, n in zip(lines, steps, at, strict=True) if n]
        ahead = [
            (x.source, own[n + 1])
            for x, own, n in zip(lines, steps, at, strict=True)
            if n + 1 < len(own)
        ]
        return not any(run.precedes(one, other) for one in ahead for other in made)

    possible = [at for at in product(*(range(len(own)) for own in steps)) if is_possible(at)]
    for at in possible:
        numbers = {x.source: own[n] for x, own, n in zip(lines, steps, at, strict=True)}
        is_certain = all(_comes_first(at, o) or _comes_first(o, at) for o in possible)
        yield is_certain, state_at(run.timelines, run.sides, numbers)


def _comes_first(one: Sequence[int], other: Sequence[int]) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True))


def _at_calls(clause: AtCalls, run: Run) -> Decided:
    log, is_open = log_of(run), False
    for env, action in zip(log.places(), run.trace.actions, strict=True):
        meant = _is_meant(clause, action)
        mask = _at(clause.node, run, env) if meant != FALSE else TRUE
        if not mask & TRUE and meant == TRUE:
            return _failure(mask, FindingCode.STEP_FAILED)
        is_open = is_open or mask != TRUE
    return holds_unless(is_open or any(_at(clause.node, run, e) != TRUE for e in log.others()))


def _is_meant(clause: AtCalls, action: Action) -> Truths:
    if clause.tool is not None and action.tool != clause.tool:
        return FALSE
    if not clause.classes or action.action_class in clause.classes:
        return TRUE
    return OPEN if action.action_class is ActionClass.UNKNOWN else FALSE


def _after_calls(clause: AfterCalls, run: Run) -> Decided:
    """The state after the last call is the one after the run; the others take a history."""
    log, is_open = log_of(run), False
    for number, env in enumerate(log.places()):
        is_last = not log.is_open and number == len(log.calls) - 1
        now = _after(str(log.calls[number].key[0]), is_last, clause, run)
        mask = _at(clause.node, run, env, now)
        if not mask & TRUE:
            return _failure(mask, FindingCode.STEP_FAILED)
        is_open = is_open or mask != TRUE
    if not log.is_open:
        return holds_unless(is_open)
    # Whichever call was the last, recorded or not, the run ended in the state it left.
    end = "after", run.case.world.states["after"]
    [other] = log.others()
    recorded = log.places()[-1:]
    turns = recorded[0]["turns"] if recorded else other["turns"]
    last = [{**other, "calls": log.first(len(log.calls)), "turns": turns}, *recorded]
    masks = [_at(clause.node, run, env, end) for env in last]
    is_wrong = bool(log.calls) and not any(mask & TRUE for mask in masks)
    return _failure(masks[-1], FindingCode.STEP_FAILED) if is_wrong else UNKNOWN


def _occurs(clause: Occurrence, run: Run) -> Decided:
    """So many calls satisfy the condition."""
    log = log_of(run)
    masks = [_at(clause.node, run, env) for env in log.places()]
    others = [_at(clause.node, run, env) for env in log.others()]
    least = sum(mask == TRUE for mask in masks)
    high = float("inf") if clause.high is None else clause.high
    if UNDEFINED in masks:
        return fails(FindingCode.UNDEFINED)
    if least > high:
        return fails(FindingCode.TOO_MANY_CALLS)
    most = least + sum(mask != TRUE and bool(mask & TRUE) for mask in masks)
    if most < clause.low and not any(mask & TRUE for mask in others):
        return fails(FindingCode.TOO_FEW_CALLS)
    is_open = any(m not in (TRUE, FALSE) for m in masks) or any(m != FALSE for m in others)
    if least >= clause.low and clause.high is None:
        is_open = any(mask & UNDEFINED for mask in (*masks, *others))
    return holds_unless(is_open)


def _order(clause: Order, run: Run) -> Decided:
    """No `then` unless a `first` came before it; what came in one commit came together."""
    if run.gaps({clause.first.type, clause.then.type}):
        return UNKNOWN
    first, then = (_commits(kind, run) for kind in (clause.first, clause.then))
    wrong = fails(FindingCode.EFFECTS_OUT_OF_ORDER)
    is_open = False
    possible = {commit: mask for commit, mask in first.items() if mask & TRUE}
    for late, mask in then.items():
        came = [early for early in possible if early == late or run.precedes(early, late)]
        if not mask & TRUE or any(possible[early] == TRUE for early in came):
            continue
        if mask == TRUE and all(run.precedes(late, early) for early in possible):
            return wrong
        is_open = True
    return holds_unless(is_open)


def _source(what: Happens, run: Run) -> str:
    line = run.timelines.line_of(what.type)
    return "" if line is None else line.source


def _commits(what: Happens, run: Run) -> dict[Commit, Truths]:
    """True for each transaction of the effect's source that is among the changes."""
    found, source = {}, _source(what, run)
    for number, commit in enumerate(run.commits.get(source, ()), start=1):
        is_one = any(d.type == what.type and d.op in what.operations for d in commit.own.deltas)
        may_be = any(d.type == what.type for d in commit.own.doubts)
        found[source, number] = TRUE if is_one else OPEN if may_be else FALSE
    return found


def decide_turn(gate: Gate, run: Run) -> Decided:
    """Decide what holds once the agent is done with a message of the user."""
    turns, log = run.trace.turns or (), log_of(run)
    place = _message_heard(gate, run)
    if place is None:
        return UNKNOWN
    held = turns[place - 1]
    ends = turns[place].calls_before if place < len(turns) else len(log.calls)
    reply: Result = held.reply
    if isinstance(held.reply, NoAnswer):
        reply = None if held.gate is not None else Some()
    now = _after(f"turn-{place}", place == len(turns), gate, run)
    env: Env = {**log.until(ends, place), "reply": reply}
    masks = [_at(node, run, env, now) for node, _ in gate.conditions]
    wrong = [mask for mask in masks if not mask & TRUE]
    if wrong:
        return _failure(wrong[0], FindingCode.TURN_FAILED)
    return holds_unless(any(mask != TRUE for mask in masks))


def _message_heard(gate: Gate, run: Run) -> int | None:
    """After how many messages the gate is judged; None where that is not known."""
    trace, turns = run.trace, run.trace.turns or ()
    if trace.is_spoken:
        numbered = enumerate(turns, start=1)
        most = 1 + gate.repairs
        own = [n for n, t in numbered if t.gate == gate.number and t.attempt <= most]
        return own[-1] if own else None
    if trace.gap is not None or len(turns) < gate.number:
        return None
    return gate.number if turns[gate.number - 1].message == gate.message else None


def decide_permission(rule: Permission, run: Run) -> Decided:
    """Decide which calls the agent may make; one of unknown class may be in any forbidden class."""
    is_open = run.trace.gap is not None
    for action in run.trace.actions:
        is_listed = action.tool in rule.tools or action.action_class in rule.classes
        is_unknown = bool(rule.classes) and action.action_class is ActionClass.UNKNOWN
        if rule.recorded_only and is_unknown and not is_listed:
            continue
        if is_listed == rule.forbids:
            code = "ACTION_FORBIDDEN" if rule.forbids else "ACTION_OUTSIDE"
            return fails(FindingCode[code])
        is_open |= rule.forbids and is_unknown and action.tool not in rule.excepted
    return HOLDS if rule.recorded_only else holds_unless(is_open)


def decide_attempts(rule: Attempts, run: Run) -> Decided:
    """A failed call is followed by one of its tool that succeeds, in its turn, in so many tries."""
    log, tries = log_of(run), dict[tuple[Any, str], int]()
    for number, action in enumerate(run.trace.actions):
        turns = run.trace.turns or ()
        place = sum(turn.calls_before <= number for turn in turns), action.tool
        tries[place] = 0 if action.error is None else tries.get(place, 0) + 1
        certain = max(action.attempt, 1 if log.is_open else tries[place])
        if action.error is not None and certain >= rule.most:
            return fails(FindingCode.ACTION_UNREPAIRED)
    if log.is_open:
        return UNKNOWN
    return fails(FindingCode.ACTION_UNREPAIRED) if any(tries.values()) else HOLDS


# ---------------------------------------------------------------- retries


_TIMES: Final = (Kind.TIMESTAMP, Kind.LOCAL_TIMESTAMP, Kind.DATE)


def decide_retries(rule: BoundEffect, run: Run) -> Decided:
    """No call that was made again left more such effects than there were different calls.

    Effects are alike where key and time alone tell them apart, calls where tool and arguments are.
    """
    made = [
        change
        for change in run.case.everything
        if change.type == rule.type and change.op in rule.operations and change.op in COME
    ]
    groups: dict[str, list[Change]] = {}
    vague = any(d.type == rule.type and not d.path for d in run.case.doubts)
    is_doubted = vague
    for change in made:
        cells = _cells(run, change)
        if any(isinstance(cell, Unobserved) for _, cell in cells):
            vague = True
        else:
            groups.setdefault(repr([(n, encode(c)) for n, c in cells]), []).append(change)
    calls = _tries(run.trace.actions, rule.tool)
    told = None if vague else _as_attributed(run, list(groups.values()), calls)
    if told is not None:
        return told
    alike = max(map(len, groups.values()), default=0)
    is_again = any(len(tries) > 1 for tries in calls.values())
    if alike > len(calls) and is_again and run.trace.gap is None:
        return fails(FindingCode.DUPLICATE_EFFECT)
    unread = [tries for tries in calls.values() if isinstance(tries[0].arguments, Unobserved)]
    may_be = run.trace.gap is not None or is_again or (len(calls) > 1 and bool(unread))
    some = vague and (len(made) > 1 or is_doubted)
    return holds_unless(may_be and (alike > 1 or some))


def _cells(run: Run, change: Change) -> list[tuple[str, Observed]]:
    """The cells that two effects of one retried call have in common."""
    row = run.case.thing(1, change.type, change.key).row or {}
    spec = run.case.schema.by_name[change.type]
    own = {*spec.key, *(f.name for f in spec.fields if f.kind in _TIMES)}
    return [(name, cell) for name, cell in sorted(row.items()) if name not in own]


def _tries(actions: Iterable[Action], tool: str | None) -> dict[str, list[Action]]:
    """The calls that may have had the effect, those with the same tool and arguments together."""
    calls: dict[str, list[Action]] = {}
    for a in actions:
        if a.action_class is not ActionClass.READ and tool in (None, a.tool):
            told = a.id if isinstance(a.arguments, Unobserved) else encode(a.arguments)
            calls.setdefault(repr((a.tool, told)), []).append(a)
    return calls


def _as_attributed(
    run: Run, groups: Sequence[list[Change]], calls: Mapping[str, list[Action]]
) -> Decided | None:
    """The decision where it is known which call left each of several like effects."""
    likeness_of = {action.id: name for name, tries in calls.items() for action in tries}
    for alike in (group for group in groups if len(group) > 1):
        makers = [run.maker(change.deltas[0]) for change in alike]
        if any(maker is None or maker not in likeness_of for maker in makers):
            return None
        calls_made = {(likeness_of[maker], maker) for maker in makers if maker is not None}
        if len({name for name, _ in calls_made}) < len(calls_made):
            return fails(FindingCode.DUPLICATE_EFFECT)
    return HOLDS
