"""Access: what was asked for was validly reached [GE §1.2].

Each read is held against the visibility cone, whatever came of it; what must be read is read only
where it was fetched validly before the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple

from statediff.contract.clauses.visibility import (
    BoundAccess,
    Citing,
    Holding,
    Needed,
    Search,
    Shelf,
    key_part,
)
from statediff.contract.language.syntax import Node
from statediff.kernel.spec.changes import HOLDS, UNKNOWN, Decided, fails
from statediff.kernel.spec.conduct import holds_unless, own_word
from statediff.kernel.spec.expressions import outcomes, settled, value
from statediff.kernel.spec.history import Run
from statediff.kernel.spec.values import (
    FALSE,
    OPEN,
    TRUE,
    UNDEFINED,
    Some,
    Thing,
    Truths,
    World,
    without_undefined,
)
from statediff.model.codes import FindingCode, Truth
from statediff.model.trace import Action, NoAnswer
from statediff.model.values import Absent, Map, Observed, Unobserved, Value, key_order

SEARCH: Final = "search"
FETCH: Final = "fetch"
WINDOW: Final = "window"
"""How a record names the calls; the last is what is put before an agent without its asking."""


def every(*masks: Truths) -> Truths:
    """Strong Kleene `and` over masks of TRUE and FALSE."""
    if FALSE in masks:
        return FALSE
    return TRUE if all(mask == TRUE for mask in masks) else OPEN


class Read(NamedTuple):
    """A read: the artifacts it named, and if they were delivered."""

    position: int
    names: tuple[str, ...]
    is_delivered: bool
    subsystem: str | None = None
    is_search: bool = False


class Artifact(NamedTuple):
    """An artifact: it lies in its subsystem, is granted to the actor, and was there in time."""

    id: str
    lies: Truths
    granted: Truths
    in_time: Truths

    @property
    def inside(self) -> Truths:
        """The cone holds it."""
        return every(self.lies, self.granted, self.in_time)


class Reached(NamedTuple):
    """The reads that the trace shows; `is_open` where others may have been made."""

    reads: tuple[Read, ...]
    window: frozenset[str] | None
    is_open: bool
    fetched: frozenset[str]
    """What was delivered before the answer; a search names, and delivers nothing."""
    searched: tuple[str | None, ...]
    """Where was searched before the answer; None is everywhere."""


def decide_access(
    access: BoundAccess, run: Run, is_right: bool
) -> Iterator[tuple[str, list[Decided]]]:
    """The decisions of every clause about reads; a right answer on an invalid way is one more."""
    reached, world = _reach(access, run), run.case.world
    found = [(access.id, _cone(access, reached, world))]
    for clause in access.clauses:
        if isinstance(clause, Citing):
            decided = _citing(access, reached, world)
        else:
            decided = _where(clause, access, reached, world)
        found.append((clause.id, [decided]))
    if is_right and any(each.truth is Truth.FAILS for _, own in found for each in own):
        found.insert(0, (access.id, [fails(FindingCode.STATE_INVALID_CORRECT)]))
    for name, own in found:
        yield name, [own_word(each, access, run) for each in own]


# ---------------------------------------------------------------- the corpus, before the run


def _holds(
    node: Node | None, thing: Thing, world: World, undefined: Callable[[Truths], Truths]
) -> Truths:
    return TRUE if node is None else undefined(outcomes(node, world, {"it": thing}))


def _either(mask: Truths) -> Truths:
    """The truths where what is undefined may be either."""
    return mask & OPEN | (OPEN if mask & UNDEFINED else 0)


def _classify(access: BoundAccess, holding: Holding, thing: Thing, world: World) -> Artifact:
    """Fail closed: without a time an artifact did not exist yet, and nobody unknown sees any."""
    granted = TRUE if holding.name in access.sees else FALSE
    if granted == FALSE and holding.authorized_by is not None:
        granted = _holds(holding.authorized_by, thing, world, without_undefined)
    times = [TRUE]
    for node in holding.times:
        if access.as_of is not None:
            at = value(node, world, {"it": thing})
            is_then = isinstance(at, datetime) and at.tzinfo is not None and at <= access.as_of
            times.append(OPEN if isinstance(at, Some) else TRUE if is_then else FALSE)
    lies = _holds(holding.where, thing, world, _either)
    return Artifact(holding.id_of(thing.key), lies, granted, every(*times))


def _artifact(access: BoundAccess, name: str, world: World) -> Artifact | None:
    """The artifact of this id; None where there can be none."""
    keys = ((holding, holding.key_of(name)) for holding in access.holdings)
    holding, key = next(((h, k) for h, k in keys if k is not None), (None, None))
    if holding is None or key is None:
        return None
    table = world.table("before", holding.type)
    found = table.rows.get(key_order(key))
    if found is not None:
        return _classify(access, holding, Thing("before", holding.type, key, found[1]), world)
    if not table.may_miss(key):
        return None
    granted = TRUE if holding.name in access.sees else FALSE
    granted |= TRUE if holding.authorized_by is not None else 0
    return Artifact(holding.id_of(key), OPEN, granted, OPEN)


def _shelf(
    access: BoundAccess, shelf: Shelf, world: World
) -> tuple[list[tuple[Artifact, Truths]], bool]:
    """The artifacts that may be meant, if each is, and if there may be more of them."""
    holding = access.holding(shelf.subsystem)
    if holding is None:
        return [], False
    table, found = world.table("before", holding.type), []
    for key, row in table.rows.values():
        thing = Thing("before", holding.type, key, row)
        held = _classify(access, holding, thing, world)
        meant = every(_holds(shelf.where, thing, world, _either), held.lies)
        found += [(held, meant)] if meant != FALSE else []
    return found, not table.is_complete


# ---------------------------------------------------------------- what was read


def _reach(access: BoundAccess, run: Run) -> Reached:
    found: list[Read] = []
    is_open, window = run.trace.gap is not None, None
    tools = {reader.tool for reader in access.readers}
    for position, action in enumerate(run.trace.actions):
        if action.tool not in tools and action.tool == WINDOW:
            names = _texts(_inside(action.result, ("artifacts", "[]", "id")))
            window = (window or frozenset()) | frozenset(names or ())
            is_open = is_open or names is None
        elif action.tool in tools or action.tool in (SEARCH, FETCH):
            is_mapped = action.tool in tools
            read = (_map if is_mapped else _gate)(position, action, access)
            found += [] if read is None else [read]
            is_open = is_open or read is None
        elif action.tool not in access.aside:
            is_open = True  # a call that nobody ties to artifacts may have shown anything
    before = [read for read in found if read.position < _answered_at(run)]
    delivered = [read for read in before if read.is_delivered]
    fetched = frozenset(name for r in delivered if not r.is_search for name in r.names)
    searched = tuple(read.subsystem for read in delivered if read.is_search)
    return Reached(tuple(found), window, is_open, fetched, searched)


def _gate(position: int, action: Action, _access: BoundAccess) -> Read | None:
    """A call of the gate; None where the log does not tell what it was about."""
    asked, is_delivered = action.arguments, action.error is None
    if isinstance(asked, Unobserved):
        return None
    nothing = None if is_delivered else Read(position, (), is_delivered=False)
    if action.tool == FETCH:
        name = asked.get("id")
        return Read(position, (name,), is_delivered) if isinstance(name, str) else nothing
    where = asked.get("subsystem")
    names = _texts(_inside(action.result, ("results", "[]", "id"))) if is_delivered else ()
    if names is None or not isinstance(where, str | None | Absent):
        return nothing
    place = where if isinstance(where, str) else None
    return Read(position, names, is_delivered, place, is_search=True)


def _map(position: int, action: Action, access: BoundAccess) -> Read | None:
    """A call of a tool that the contract ties to artifacts."""
    reader = [each for each in access.readers if each.tool == action.tool][-1]
    is_delivered, (root, *path) = action.error is None, reader.path
    if root == "result" and not is_delivered:
        return Read(position, (), is_delivered=False)
    holding = access.holding(reader.subsystem)
    values = _inside(action.arguments if root == "arguments" else action.result, tuple(path))
    keys = [] if values is None or holding is None else [
        key_part(each, holding.key_kinds[0]) for each in values
    ]  # fmt: skip
    if holding is None or values is None or None in keys:
        return None
    names = tuple(holding.id_of((key,)) for key in keys)
    where = reader.subsystem if reader.is_search else None
    return Read(position, names, is_delivered, where, reader.is_search)


def _inside(whole: Observed, path: tuple[str, ...]) -> list[Any] | None:
    """The values at a path; None where it leads nowhere, or was not recorded."""
    if isinstance(whole, Unobserved):
        return None
    if not path:
        return [whole]
    if path[0] != "[]":
        return _inside(whole.get(path[0]), path[1:]) if isinstance(whole, Map) else None
    parts = [_inside(each, path[1:]) for each in whole] if isinstance(whole, tuple) else [None]
    return None if None in parts else [each for part in parts for each in part or ()]


def _texts(values: Iterable[Any] | None) -> tuple[str, ...] | None:
    listed = None if values is None else tuple(values)
    return listed if listed is None or all(isinstance(v, str) for v in listed) else None


def _answered_at(run: Run) -> int:
    """How many calls came before the answer."""
    actions, turns, answer = run.trace.actions, run.trace.turns or (), run.case.world.answer
    if isinstance(answer, NoAnswer):
        return len(actions)
    replied = [
        number
        for number, turn in enumerate(turns, start=1)
        if (isinstance(turn.reply, Map) and dict(turn.reply.items) == answer)
        or (isinstance(turn.reply, str) and turn.reply == answer.get("text"))
    ]
    is_before = bool(replied) and replied[-1] < len(turns)
    return turns[replied[-1]].calls_before if is_before else len(actions)


# ---------------------------------------------------------------- the clauses


def _cone(access: BoundAccess, reached: Reached, world: World) -> list[Decided]:
    """A violation for each call outside the cone; what is not there tells nothing."""
    found, is_open = [], reached.is_open
    for read in reached.reads:
        code, may_be = _strays(read, access, world)
        found += [] if code is None else [fails(code)]
        is_open = is_open or (code is None and may_be)
    return found or [holds_unless(is_open)]


def _strays(read: Read, access: BoundAccess, world: World) -> tuple[FindingCode | None, bool]:
    """The first rule that a call breaks, and if it may break one."""
    if read.subsystem is not None and read.subsystem not in access.sees:
        holding = access.holding(read.subsystem)
        if holding is None or holding.authorized_by is None:
            return FindingCode.SUBSYSTEM_VIOLATION, False
    may_be = False
    for held in (_artifact(access, name, world) for name in read.names):
        if held is not None and held.lies != FALSE:
            if held.lies == TRUE and held.granted == FALSE:
                return FindingCode.ACCESS_VIOLATION, False
            if held.lies == TRUE and held.in_time == FALSE:
                return FindingCode.HORIZON_VIOLATION, False
            may_be = may_be or held.inside != TRUE
    return None, may_be


def _where(clause: Search | Needed, access: BoundAccess, reached: Reached, world: World) -> Decided:
    """The clause where it applies; without an answer nothing is claimed."""
    applies = TRUE
    if clause.when is not None:
        if isinstance(world.answer, NoAnswer):
            applies = TRUE | FALSE if world.answer.is_unread else FALSE
        else:
            applies = settled(clause.when, world, {}, TRUE)
    if applies == FALSE:
        return HOLDS
    if isinstance(clause, Search):
        decided = _search(clause, access, reached, world)
    else:
        decided = _decide_needed(clause, access, reached, world)
    return UNKNOWN if applies != TRUE and decided.truth is not Truth.HOLDS else decided


def _decide_missed(code: FindingCode, is_missed: bool, is_open: bool, reached: Reached) -> Decided:
    """FAILS where something was missed that no unrecorded call may have read."""
    unseen = reached.is_open or reached.window is not None
    if is_missed and not unseen:
        return fails(code)
    return holds_unless(is_open or is_missed)


def _search(clause: Search, access: BoundAccess, reached: Reached, world: World) -> Decided:
    """Every artifact that the cone holds of the space was fetched; an empty place, searched."""
    is_missed = is_open = False
    for shelf in clause.space:
        artifacts, may_be_more = _shelf(access, shelf, world)
        needed = [(held.id, every(meant, held.inside)) for held, meant in artifacts]
        needed = [(name, need) for name, need in needed if need != FALSE]
        left = [need for name, need in needed if name not in reached.fetched]
        was_searched = any(where in (None, shelf.subsystem) for where in reached.searched)
        is_missed = is_missed or TRUE in left or (not needed and not was_searched)
        is_open = is_open or may_be_more or any(need != TRUE for need in left)
    return _decide_missed(FindingCode.UNSEARCHED_ABSENCE, is_missed, is_open, reached)


def _decide_needed(clause: Needed, access: BoundAccess, reached: Reached, world: World) -> Decided:
    """All that is meant was fetched or, with a number, so many; and cited, where that is asked."""
    artifacts, is_open = _shelf(access, clause.shelf, world)
    pairs = [
        (meant, held.inside if held.id in reached.fetched else FALSE) for held, meant in artifacts
    ]
    is_missed = (TRUE, FALSE) in pairs or (not artifacts and not is_open)
    got = [every(meant, fetched) for meant, fetched in pairs]
    if clause.low is None:
        is_open = is_open or any(TRUE not in pair or pair[1] == OPEN for pair in pairs)
    elif got.count(TRUE) >= clause.low:
        is_missed = is_open = False
    else:
        is_missed = got.count(TRUE) + got.count(OPEN) < clause.low and not is_open
        is_open = is_open or OPEN in got
    found = _decide_missed(FindingCode.EVIDENCE_NOT_RETRIEVED, is_missed, is_open, reached)
    if not clause.cite or found.truth is Truth.FAILS:
        return found
    cited = set(_citations(access, world))
    if clause.low is None:
        is_cited = all(held.id in cited for held, meant in artifacts if meant == TRUE)
    else:
        is_cited = sum(held.id in cited for held, _ in artifacts) >= clause.low
    return found if is_cited else fails(FindingCode.EVIDENCE_NOT_CITED)


def _citations(access: BoundAccess, world: World) -> tuple[str, ...]:
    """The artifacts that the answer cites, in order."""
    citing, answer = access.citing, world.answer
    listed: Observed = None
    if citing is not None and not isinstance(answer, NoAnswer):
        listed = answer.get(citing.name)
    given: tuple[Value, ...] = listed if isinstance(listed, tuple) else ()
    return tuple(each if isinstance(each, str) else f"{each!r}" for each in given)


def _citing(access: BoundAccess, reached: Reached, world: World) -> Decided:
    """All that the answer cites is there, may be read, and was fetched."""
    is_open = isinstance(world.answer, NoAnswer) and world.answer.is_unread
    window = reached.window
    for name in dict.fromkeys(_citations(access, world)):
        held = _artifact(access, name, world)
        if held is None or held.lies == FALSE or (window is not None and name not in window):
            return fails(FindingCode.HALLUCINATED_CITATION)
        if held.inside == FALSE:
            return fails(FindingCode.INVALID_CITATION)
        if held.inside == TRUE and window is None and name not in reached.fetched:
            if not reached.is_open:
                return fails(FindingCode.CITATION_NOT_RETRIEVED)
            is_open = True
        is_open = is_open or held.inside != TRUE
    return holds_unless(is_open)
