"""The run between its ends: history, steps, turns and actions.

What a history and a log tell is given as relations that other stages find: the states by their
sides, what each transaction changed, who made a change, which commit came first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final, NamedTuple, TypeAlias

from statediff.contract.binding.bound import Contract
from statediff.contract.clauses import conduct as c
from statediff.contract.clauses.derive import Derived
from statediff.contract.clauses.effects import BoundEffect
from statediff.contract.clauses.patterns import Condition, Pattern
from statediff.contract.language.syntax import CALL_TYPE, TURN_TYPE, Node
from statediff.kernel.spec import values as v
from statediff.kernel.spec.changes import (
    COME,
    GONE,
    HOLDS,
    UNKNOWN,
    Change,
    Decided,
    Vote,
    changes_of,
    fails,
    fails_by,
)
from statediff.kernel.spec.clauses import Case, moved_alike
from statediff.kernel.spec.expressions import ROOTS, Eval
from statediff.kernel.spec.values import FALSE, NO_VALUE, OPEN, TRUE, UNDEFINED, Some, Thing
from statediff.model import values as m
from statediff.model.codes import Stage, Truth
from statediff.model.delta import Delta, Diff, Doubt, Entity, Op, delta_id
from statediff.model.explanation import BY_AGENT, BY_RUN, PARTED
from statediff.model.schema import Kind
from statediff.model.timelines import SourceTimeline, Timelines
from statediff.model.trace import Action, ActionClass, NoAnswer, Trace
from statediff.model.values import ABSENT, Key, Unobserved, key_order

Commit: TypeAlias = tuple[str, int]
"""A source and the number of its transaction, from 1."""
_UNTOLD: Final = Unobserved("the log does not say")
_TIMES: Final = (Kind.TIMESTAMP, Kind.LOCAL_TIMESTAMP, Kind.DATE)


class Changed(NamedTuple):
    """A transaction's own changes, and all changes by then of what it touched."""

    own: Diff
    so_far: Diff


class Stretch(NamedTuple):
    """Changes between two states of one source; `standing` is all that had changed by then."""

    case: Case
    candidates: tuple[Change, ...]
    standing: tuple[Change, ...]
    is_own: bool


def state_at(
    timelines: Timelines, sides: Mapping[str, v.State], numbers: Mapping[str, int]
) -> v.State:
    """The sources' states after these of their steps; of the others, what never changed."""
    found = {}
    for line, name in ((x, name) for x in timelines.lines for name in x.types):
        number = numbers.get(line.source)
        side = line.side_of(name, number) if number is not None else "before"
        if (number is not None or _is_still(line, name)) and name in sides[side]:
            found[name] = sides[side][name]
    return found


def _is_still(line: SourceTimeline | None, name: str) -> bool:
    return line is not None and line.gap is None and not line.moves(name)


def unless(is_open: object) -> Decided:
    """HOLDS where all is known."""
    return UNKNOWN if is_open else HOLDS


def over_the_run(at_ends: Decided, within: Iterable[Decided], is_open: bool) -> Decided:
    """FAILS where any does; HOLDS only where all do, over a complete history."""
    found = [at_ends, *within]
    wrong = [each for each in found if each.truth is Truth.FAILS]
    if wrong:
        return wrong[0]
    return UNKNOWN if is_open or any(each.truth is Truth.UNKNOWN for each in found) else at_ends


def calls_of(trace: Trace) -> tuple[Thing, ...]:
    """The recorded calls as entities; what the log does not say of one is unobserved."""
    turns, is_whole = trace.turns, trace.gap is None

    def row(number: int, a: Action) -> dict[str, m.Observed]:
        turn = sum(t.calls_before <= number for t in turns or ()) or None
        found: dict[str, m.Observed] = {
            "position": number + 1 if is_whole else _UNTOLD,
            "turn": turn if is_whole and turns is not None else _UNTOLD,
            "class": _UNTOLD if a.action_class is ActionClass.UNKNOWN else a.action_class.value,
        }
        for name in ("principal", "started_at", "finished_at"):
            told = getattr(a, name)
            found[name] = _UNTOLD if told is None else told
        same_names = ("id", "tool", "arguments", "result", "error", "attempt")
        return found | {name: getattr(a, name) for name in same_names}

    return tuple(Thing("trace", CALL_TYPE, (a.id,), row(n, a)) for n, a in enumerate(trace.actions))


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run: the case at its ends, and what is known of the time between."""

    contract: Contract
    case: Case
    """Its world has the moments of the run beside the ends, each by the name of its side."""
    hidden: tuple[Delta, ...]
    missing: int
    """How many readings that must be there are not."""
    trace: Trace
    timelines: Timelines
    sides: Mapping[str, v.State]
    """The states of the timelines, by the name of their side."""
    commits: Mapping[str, tuple[Changed, ...]]
    left: Mapping[str, v.State]
    """The states that calls and turns left, by their names, as far as that is known."""
    precedes: Callable[[Commit, Commit], bool]
    maker: Callable[[Delta], str | None]
    """The call that left the change; None where that is not certain."""

    def gaps(self, types: Iterable[str]) -> set[str]:
        """The reasons why these types may have been otherwise in between as well."""
        return {gap for gap in map(self.timelines.gap, types) if gap is not None}

    def moving(self, types: Iterable[str]) -> list[SourceTimeline]:
        """The lines with a known step that touched one of the types."""
        return [x for x in self.timelines.lines if any(map(x.moves, x.types & {*types}))]

    def moments(self, types: Iterable[str]) -> list[str]:
        """The sides at which one of the types is otherwise than one step earlier, but the last."""
        names = frozenset(types)
        steps = ((x, n, s) for x in self.moving(names) for n, s in enumerate(x.steps, start=1))
        return [x.side(n) for x, n, s in steps if s.touched & names and x.side(n) != "after"]

    # ------------------------------------------------------------ history

    def stretches(self, types: Iterable[str]) -> Iterator[Stretch]:
        """The changes of each transaction by itself, and those of the run by then."""
        names = frozenset(types)
        for line in self.moving(names):
            standing: dict[Any, list[Change]] = {}
            doubted: dict[Any, list[Doubt]] = {}
            commits = self.commits.get(line.source, ())
            for number, (step, commit) in enumerate(
                zip(line.steps, commits, strict=False), start=1
            ):
                own, so_far = map(_visible, (commit.own, commit.so_far))
                for each in (*own, *so_far):
                    standing[each.place], doubted[each.place] = [], []
                for change in so_far:
                    standing[change.place].append(change)
                for doubt in commit.so_far.doubts:
                    key = None if doubt.key is None else key_order(doubt.key)
                    doubted.setdefault((doubt.type, key), []).append(doubt)
                if not step.touched & line.types & names:
                    continue
                ends = line.side(number - 1), line.side(number)
                if line.gap is None:  # else there may have been others between these two states
                    case = self._between(ends, commit.own.deltas, commit.own.doubts)
                    yield Stretch(case, own, (), is_own=True)
                doubts = tuple(each for group in doubted.values() for each in dict.fromkeys(group))
                case = self._between(("before", ends[1]), commit.so_far.deltas, doubts)
                yield Stretch(
                    case, so_far, tuple(x for g in standing.values() for x in g), is_own=False
                )

    def _between(
        self, ends: tuple[str, str], deltas: Iterable[Delta], doubts: tuple[Doubt, ...]
    ) -> Case:
        return replace(self.case, ends=ends, changes=changes_of(deltas), doubts=doubts)

    def as_of(self, side: str) -> Case:
        """The run as if it had ended there; what it had changed by then is not known."""
        case, world = self.case, self.case.world
        if side == "after":
            return case
        nobody = v.Crowd(is_open=True)
        unknown = {(root, name): nobody for root in ROOTS for name in case.schema.by_name}
        states = {**world.states, "after": world.states[side]}
        return replace(case, world=replace(world, states=states, changed=unknown))

    def decide(self, clause: Pattern | Condition) -> Decided:
        """A clause of Γ, Φ or the answer, at the ends and, where it says so, all along the run."""
        if isinstance(clause, Condition):
            at_ends = self.case.condition(clause)
            types = {read.type for read in clause.reads if read.root == "after"}
            sides = self.moments(types) if clause.during_run else []
            within = [self.as_of(side).condition(clause) for side in sides]
            is_open = len(self.moving(types)) > 1
        elif clause.section is Stage.FORBID:
            at_ends = self.case.forbid(clause, self.case.everything)
            types = {*clause.types}
            counts = clause.low > 1 or (any(clause.that.values()) and not clause.speaks_of_each)
            parts = self.stretches(types) if clause.during_run else ()
            within = [
                s.case.forbid(clause, s.standing if counts and s.standing else s.candidates)
                for s in parts
            ]
            is_open = counts and len(self.moving(types)) > 1
        else:
            at_ends, types = self.case.require(clause), {*clause.types}
            is_bounded = clause.high is not None and not clause.is_every
            upper = replace(clause, low=0)
            parts = self.stretches(types) if clause.during_run and is_bounded else ()
            states = [s for s in parts if not s.is_own]
            within = [s.case.count(upper, s.case.matches(upper, s.standing)) for s in states]
            is_open = is_bounded and len(self.moving(types)) > 1
        if not clause.during_run:
            return at_ends
        return over_the_run(at_ends, within, is_open or bool(self.gaps(types)))

    def frame_within(
        self, patterns: Sequence[Pattern], net: Mapping[str, Delta]
    ) -> Iterator[Decided]:
        """The frame over the transactions of the sources whose history is required.

        `net` are the explained deltas by their ids: what leaves what the net change leaves is
        explained with it, and so is a derived field that shows what it is at some moment.
        """
        for rule in (rule for rule in self.contract.evidence if rule.needs_history):
            types = dict(self.contract.schema.sources).get(rule.source) or ("",)
            gaps = self.gaps(types)
            if any({BY_AGENT, BY_RUN, PARTED} & {*gap.split(": ")} for gap in gaps):
                yield fails("HISTORY_BROKEN")  # the run kept it from being seen
            found: list[Decided] = []
            for part in self.stretches(types) if not self.contract.frame_is_open else ():
                if part.is_own:
                    more = [*self._votes_within(part.case, net), *part.case.counter_votes()]
                    found += part.case.frame(patterns, more)
            wrong = [each for each in found if each.truth is Truth.FAILS]
            yield from wrong or [over_the_run(HOLDS, found, bool(gaps))]

    def _votes_within(self, case: Case, net: Mapping[str, Delta]) -> Iterator[Vote]:
        for delta in (each for change in case.changes for each in change.deltas):
            for rule in self.contract.derived if delta.op is Op.UPDATE else ():
                if rule.keeps(delta) and self._may_show(rule, delta.key, case.ends[1]):
                    yield Vote(delta, TRUE)
            place = net.get(delta_id(delta.type, delta.key, delta.place))
            if place is not None and delta.op is place.op:
                ends: Any = delta.after, place.after
                is_whole = any(isinstance(end, Entity) for end in ends)
                is_left = ends[0] == ends[1] if is_whole else m.same(*ends)
                yield Vote(delta, TRUE if is_left else FALSE)
            whole = net.get(delta_id(delta.type, delta.key, ""))
            # What is deleted in the end may have been deleted softly first, and then purged.
            if whole is not None and whole.op in GONE and delta.after is ABSENT:
                yield Vote(delta, TRUE)

    def _may_show(self, rule: Derived, key: Key, side: str) -> bool:
        """The derived field may show there what the system keeps, at that moment or another one."""
        now = self.as_of(side)
        shown = now.eval(it=now.thing(1, rule.type, key)).value(rule.after.left)
        for each in (side, *self.moments({rule.type, *(r.type for r in rule.reads)}), "after"):
            there = self.as_of(each)
            found = there.eval(it=there.thing(1, rule.type, key)).value(rule.after.right)
            if isinstance(shown, Some) or isinstance(found, Some):
                return True
            if found is not NO_VALUE and v.likeness(shown) == v.likeness(found):
                return True
            then = there.then(rule.type, key)
            if then is not None:
                sides = (rule.before.left, rule.before.right)
                old = [there.eval(it=then).value(node) for node in sides]
                if moved_alike((old[0], shown), (old[1], found)) != FALSE:
                    return True
        return False

    # ------------------------------------------------------------ the calls

    def places(self) -> list[dict[str, v.Result]]:
        """The variables at each recorded call."""
        calls, turns = calls_of(self.trace), self.trace.turns or ()
        said = [sum(turn.calls_before <= n for turn in turns) for n in range(len(calls))]
        return [{"call": call, **self.until(n, said[n])} for n, call in enumerate(calls)]

    def until(self, calls: int, said: int) -> dict[str, v.Result]:
        """The first calls and messages, and whatever was not recorded."""
        trace, is_open = self.trace, self.trace.gap is not None
        messages = tuple(
            Thing(
                "trace", TURN_TYPE, (n,), {"number": _UNTOLD if is_open else n, "said": t.message}
            )
            for n, t in enumerate((trace.turns or ())[:said], start=1)
        )
        turns = v.Crowd(messages, is_open or trace.turns is None)
        return {"calls": v.Crowd(calls_of(trace)[:calls], is_open), "turns": turns}

    def others(self) -> list[dict[str, v.Result]]:
        """The variables at a call that nobody recorded: of no other is it known to come before."""
        unseen = Thing("trace", CALL_TYPE, (), None)
        return [{"call": unseen, **self.until(0, 0)}] if self.trace.gap is not None else []

    def _at(
        self, node: Node, env: Mapping[str, v.Result], now: tuple[str, v.State] | None = None
    ) -> v.Truths:
        """The truths of a condition at one point of the run, whose state is `now`."""
        world = self.case.world
        if now is not None:
            world = replace(world, now=now[0], states={**world.states, now[0]: now[1]})
        return Eval(world, env).truths(node)

    def _after(self, name: str, is_last: bool, of: c.Asserted) -> tuple[str, v.State]:
        """The state that the call or turn left, once the systems were at rest."""
        types = of.states_read
        if is_last or all(_is_still(self.timelines.line_of(each), each) for each in types):
            return "after", self.case.world.states["after"]
        return f"after {name}", self.left.get(name, {})

    def own_word(self, decided: Decided, of: c.Asserted) -> Decided:
        """Open where a clause holds only by the agent's own word on its conduct."""
        rests = any(read.root == "trace" for read in of.reads)
        is_own = decided.truth is Truth.HOLDS and rests and self.trace.is_agent_influenced
        return UNKNOWN if is_own else decided

    # ------------------------------------------------------------ steps

    def step(self, clause: c.Asserted) -> Decided:
        """A clause that must hold along the run, whatever its path."""
        by_kind: dict[type, Any] = {
            c.Always: self._always, c.AtCalls: self._at_calls, c.AfterCalls: self._after_calls,
            c.Occurrence: self._occurs, c.Order: self._order,
        }  # fmt: skip
        decided: Decided = by_kind[type(clause)](clause)
        return decided

    def _always(self, clause: c.Always) -> Decided:
        """FAILS on any state in which it does not hold; HOLDS only over all of them.

        Where several sources moved and their moments alone leave it open, every state that a
        possible order of their commits leads through is tried.
        """
        types, states = clause.states_read, self.case.world.states
        between = self.moments(types)
        sides = ("before", *between, "after")
        masks = {side: self._at(clause.node, {}, (side, states[side])) for side in sides}
        wrong = [mask for mask in masks.values() if not mask & TRUE]
        if wrong:
            return fails_by(wrong[0], "INVARIANT_BROKEN")
        is_open = any(masks[side] != TRUE for side in between)
        at_ends = masks["before"] | masks["after"]
        if self.gaps(types):
            return UNKNOWN
        if is_open and len(self.moving(types)) > 1:
            cuts = list(self._cuts(types))
            tried = [(sure, self._at(clause.node, {}, ("cut", state))) for sure, state in cuts]
            broken = [mask for sure, mask in tried if sure and not mask & TRUE]
            if broken:
                return fails_by(broken[0], "INVARIANT_BROKEN")
            is_open = any(mask != TRUE for _, mask in tried)
        return unless(is_open or at_ends != TRUE)

    def _cuts(self, types: Iterable[str]) -> Iterator[tuple[bool, v.State]]:
        """The states that some order of the commits leads through, and whether all orders do."""
        names = frozenset(types)
        lines = self.moving(names)
        steps = [
            [0, *(n for n, s in enumerate(x.steps, start=1) if s.touched & names)] for x in lines
        ]

        def is_possible(at: tuple[int, ...]) -> bool:
            places = list(zip(lines, steps, at, strict=True))
            made = [(x.source, own[n]) for x, own, n in places if n]
            ahead = [(x.source, own[n + 1]) for x, own, n in places if n + 1 < len(own)]
            return not any(self.precedes(one, other) for one in ahead for other in made)

        def comes_first(one: Sequence[int], other: Sequence[int]) -> bool:
            return all(a <= b for a, b in zip(one, other, strict=True))

        possible = [at for at in product(*(range(len(own)) for own in steps)) if is_possible(at)]
        for at in possible:
            numbers = {x.source: own[n] for x, own, n in zip(lines, steps, at, strict=True)}
            is_certain = all(comes_first(at, o) or comes_first(o, at) for o in possible)
            yield is_certain, state_at(self.timelines, self.sides, numbers)

    def _at_calls(self, clause: c.AtCalls) -> Decided:
        is_open = any(self._at(clause.node, env) != TRUE for env in self.others())
        for env, action in zip(self.places(), self.trace.actions, strict=True):
            if clause.tool is not None and action.tool != clause.tool:
                continue
            is_sure = not clause.classes or action.action_class in clause.classes
            if not is_sure and action.action_class is not ActionClass.UNKNOWN:
                continue
            mask = self._at(clause.node, env)
            if not mask & TRUE and is_sure:
                return fails_by(mask, "STEP_FAILED")
            is_open |= mask != TRUE
        return unless(is_open)

    def _after_calls(self, clause: c.AfterCalls) -> Decided:
        """The state after the last call is the one after the run; the others take a history."""
        places, others = self.places(), self.others()
        is_open = bool(others)
        for number, env in enumerate(places, start=1):
            now = self._after(str(env["call"].key[0]), not others and number == len(places), clause)
            mask = self._at(clause.node, env, now)
            if not mask & TRUE:
                return fails_by(mask, "STEP_FAILED")
            is_open |= mask != TRUE
        if others and places:  # whichever call was the last, the run ended in the state it left
            end, said = ("after", self.case.world.states["after"]), places[-1]["turns"]
            last = {**others[0], **self.until(len(places), 0), "turns": said}
            masks = [self._at(clause.node, env, end) for env in (last, places[-1])]
            if not any(mask & TRUE for mask in masks):
                return fails_by(masks[-1], "STEP_FAILED")
        return unless(is_open)

    def _occurs(self, clause: c.Occurrence) -> Decided:
        """So many calls satisfy the condition."""
        masks = [self._at(clause.node, env) for env in self.places()]
        others = [self._at(clause.node, env) for env in self.others()]
        least, most = masks.count(TRUE), sum(bool(mask & TRUE) for mask in masks)
        high = float("inf") if clause.high is None else clause.high
        if UNDEFINED in masks:
            return fails("UNDEFINED")
        if least > high:
            return fails("TOO_MANY_CALLS")
        if most < clause.low and not any(mask & TRUE for mask in others):
            return fails("TOO_FEW_CALLS")
        if least >= clause.low and clause.high is None:
            return unless(any(mask & UNDEFINED for mask in (*masks, *others)))
        return unless(any(m not in (TRUE, FALSE) for m in masks) or any(m != FALSE for m in others))

    def _order(self, clause: c.Order) -> Decided:
        """No `then` unless a `first` came before it; what came in one commit came together."""
        if self.gaps({clause.first.type, clause.then.type}):
            return UNKNOWN
        possible, is_open = self._commits(clause.first), False
        for late, mask in self._commits(clause.then).items():
            came = [early for early in possible if early == late or self.precedes(early, late)]
            if any(possible[early] == TRUE for early in came):
                continue
            if mask == TRUE and all(self.precedes(late, early) for early in possible):
                return fails("EFFECTS_OUT_OF_ORDER")
            is_open = True
        return unless(is_open)

    def _commits(self, what: c.Happens) -> dict[Commit, v.Truths]:
        """The transactions of the effect's source in which it came about, or may have."""
        line = self.timelines.line_of(what.type)
        source = "" if line is None else line.source
        found: dict[Commit, v.Truths] = {}
        for number, commit in enumerate(self.commits.get(source, ()), start=1):
            if any(d.type == what.type and d.op in what.operations for d in commit.own.deltas):
                found[source, number] = TRUE
            elif any(d.type == what.type for d in commit.own.doubts):
                found[source, number] = OPEN
        return found

    # ------------------------------------------------------------ turns and actions

    def turn(self, gate: c.Gate) -> Decided:
        """The decision on a gate, once the agent is done with a message of the user."""
        turns, place = self.trace.turns or (), self._message_heard(gate)
        if place is None:
            return UNKNOWN
        reply: v.Result = turns[place - 1].reply
        if isinstance(reply, NoAnswer):
            reply = None if turns[place - 1].gate is not None else Some()
        is_last = place == len(turns)
        calls = len(self.trace.actions) if is_last else turns[place].calls_before
        env, now = (
            {**self.until(calls, place), "reply": reply},
            self._after(f"turn-{place}", is_last, gate),
        )
        masks = [self._at(node, env, now) for node, _ in gate.conditions]
        wrong = [mask for mask in masks if not mask & TRUE]
        return fails_by(wrong[0], "TURN_FAILED") if wrong else unless({*masks} - {TRUE})

    def _message_heard(self, gate: c.Gate) -> int | None:
        """After how many messages the gate is judged; None where that is not known."""
        trace, turns, most = self.trace, self.trace.turns or (), 1 + gate.repairs
        if trace.is_spoken:
            numbered = enumerate(turns, start=1)
            own = [n for n, t in numbered if t.gate == gate.number and t.attempt <= most]
            return own[-1] if own else None
        if trace.gap is not None or len(turns) < gate.number:
            return None
        return gate.number if turns[gate.number - 1].message == gate.message else None

    def permission(self, rule: c.Permission) -> Decided:
        """Which calls the agent may make; one of unknown class may be in any forbidden class."""
        is_open = self.trace.gap is not None
        for action in self.trace.actions:
            is_listed = action.tool in rule.tools or action.action_class in rule.classes
            is_unknown = bool(rule.classes) and action.action_class is ActionClass.UNKNOWN
            if rule.recorded_only and is_unknown and not is_listed:
                continue
            if is_listed == rule.forbids:
                return fails("ACTION_FORBIDDEN" if rule.forbids else "ACTION_OUTSIDE")
            is_open |= rule.forbids and is_unknown and action.tool not in rule.excepted
        return unless(is_open and not rule.recorded_only)

    def attempts(self, rule: c.Attempts) -> Decided:
        """A failed call is followed, in its turn and in so many tries, by one that succeeds."""
        tries, is_open = dict[tuple[int, str], int](), self.trace.gap is not None
        for number, action in enumerate(self.trace.actions):
            place = sum(t.calls_before <= number for t in self.trace.turns or ()), action.tool
            tries[place] = 0 if action.error is None else tries.get(place, 0) + 1
            certain = max(action.attempt, 1 if is_open else tries[place])
            if action.error is not None and certain >= rule.most:
                return fails("ACTION_UNREPAIRED")
        if is_open:
            return UNKNOWN
        return fails("ACTION_UNREPAIRED") if any(tries.values()) else HOLDS

    def retries(self, rule: BoundEffect) -> Decided:
        """No call that was made again left more such effects than there were different calls.

        Effects are alike where key and time alone tell them apart, calls by tool and arguments.
        """
        kinds, doubts = rule.operations & COME, self.case.doubts
        made = [x for x in self.case.everything if x.type == rule.type and x.op in kinds]
        is_doubted = vague = any(d.type == rule.type and not d.path for d in doubts)
        spec = self.case.schema.by_name[rule.type]
        apart = {*spec.key, *(f.name for f in spec.fields if f.kind in _TIMES)}
        groups: dict[str, list[Change]] = {}
        for change in made:
            row = self.case.thing(1, change.type, change.key).row or {}
            cells = [(name, cell) for name, cell in sorted(row.items()) if name not in apart]
            if any(isinstance(cell, Unobserved) for _, cell in cells):
                vague = True
            else:
                groups.setdefault(repr([(n, m.encode(x)) for n, x in cells]), []).append(change)
        calls: dict[str, list[Action]] = {}
        for a in self.trace.actions:
            if a.action_class is not ActionClass.READ and rule.tool in (None, a.tool):
                told = a.id if isinstance(a.arguments, Unobserved) else m.encode(a.arguments)
                calls.setdefault(repr((a.tool, told)), []).append(a)
        known = None if vague else self._as_attributed(groups.values(), calls)
        if known is not None:
            return known
        alike, is_whole = max(map(len, groups.values()), default=0), self.trace.gap is None
        is_again = any(len(tries) > 1 for tries in calls.values())
        if alike > len(calls) and is_again and is_whole:
            return fails("DUPLICATE_EFFECT")
        is_unread = any(isinstance(tries[0].arguments, Unobserved) for tries in calls.values())
        may_be = not is_whole or is_again or (len(calls) > 1 and is_unread)
        return unless(may_be and (alike > 1 or (vague and (len(made) > 1 or is_doubted))))

    def _as_attributed(
        self, groups: Iterable[list[Change]], calls: Mapping[str, list[Action]]
    ) -> Decided | None:
        """The decision where it is known which call left each of several like effects."""
        names = {action.id: name for name, tries in calls.items() for action in tries}
        for alike in (group for group in groups if len(group) > 1):
            makers = {self.maker(change.deltas[0]) or "" for change in alike}
            if not makers <= names.keys():
                return None
            if len({names[maker] for maker in makers}) < len(makers):
                return fails("DUPLICATE_EFFECT")
        return HOLDS


def _visible(diff: Diff) -> tuple[Change, ...]:
    """The changes with those that ν hides: it may not hide what Γ matches."""
    return changes_of((*diff.deltas, *(h.delta for h in diff.hidden if not h.by_boundary)))
