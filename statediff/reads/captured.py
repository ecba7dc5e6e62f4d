"""A captured state as corpus: what lies in each subsystem, and whether it could be read then.

The rules of reads are a contract's and those of questions over a log alike: a call breaks every
rule that it breaks certainly, a citation the first one [GE §3.1].

The cone of a contract, three-valued: a mask of TRUE and FALSE, both where something was not
observed. It fails closed: what has no time did not exist yet, what cannot be said to be granted is
not, and a role or subsystem that nobody knows sees nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from statediff.contract.clauses.visibility import BoundAccess, Holding, Shelf
from statediff.contract.evaluation.evaluate import evaluate, outcomes
from statediff.contract.language.context import (
    FALSE,
    TRUE,
    UNDEFINED,
    EntityRef,
    EvalContext,
    Unknown,
    not_enumerated,
)
from statediff.contract.language.syntax import Node, Read
from statediff.model.codes import FindingCode
from statediff.model.explanation import Cause, Reason
from statediff.model.values import Key
from statediff.model.view import View

SEARCH: Final = "search"
FETCH: Final = "fetch"
WINDOW: Final = "window"
"""How the record names the calls; the last one is what context mode puts before an agent."""


@dataclass(frozen=True)
class Standing:
    """An artifact before a cone: is it there, may the actor read it, did it exist by then.

    Each is a mask of TRUE and FALSE, both where nobody knows.
    """

    lies: int
    granted: int
    in_time: int

    @property
    def inside(self) -> int:
        """The truth of whether the cone holds it."""
        return conjunction(self.lies, self.granted, self.in_time)


@dataclass(frozen=True)
class CapturedArtifact(Standing):
    """One artifact: whether it lies in its subsystem, is granted to the actor, and was there."""

    id: str
    holding: Holding
    thing: EntityRef
    causes: frozenset[Cause] = frozenset()
    """Why something of that is not known."""


@dataclass(frozen=True)
class Captured:
    """The artifacts of the state before a run; `world` is a fresh one that reads so much."""

    access: BoundAccess
    view: View
    world: Callable[[frozenset[Read]], EvalContext]
    _known: dict[str, CapturedArtifact | None] = field(default_factory=dict)
    _worlds: dict[frozenset[Read], EvalContext] = field(default_factory=dict)

    def artifact(self, name: str) -> CapturedArtifact | None:
        """The artifact of this id; None where there can be none."""
        if name not in self._known:
            keys = ((holding, holding.key_of(name)) for holding in self.access.holdings)
            found = next(((holding, key) for holding, key in keys if key is not None), None)
            self._known[name] = None if found is None else self._look_up(*found)
        return self._known[name]

    def _room(self, reads: frozenset[Read]) -> EvalContext:
        """A world whose trail is empty."""
        world = self._worlds.get(reads)
        if world is None:
            world = self._worlds[reads] = self.world(reads)
        return world.apart()

    def _look_up(self, holding: Holding, key: Key) -> CapturedArtifact | None:
        row = self.view.row(holding.type, key)
        if row is not None:
            return self._classify(holding, EntityRef("before", holding.type, key, row))
        enumeration = self.view.enumeration(holding.type)
        if not enumeration.may_miss(key):
            return None
        cause = not_enumerated(holding.type, "before", enumeration)
        thing = EntityRef("before", holding.type, key, None, cause)
        granted = TRUE if holding.name in self.access.sees else FALSE
        may = TRUE | FALSE
        if holding.authorized_by is not None:
            granted |= TRUE
        return CapturedArtifact(
            may, granted, may, holding.id_of(key), holding, thing, frozenset({cause})
        )

    def on(self, shelf: Shelf) -> Iterator[tuple[CapturedArtifact, int]]:
        """The artifacts that may be meant, in order of their keys, and whether each is."""
        holding = self.access.holding(shelf.subsystem)
        if holding is None:
            return
        fields = self.world(shelf.footprint).fields_of(holding.type)
        for key, row in self.view.rows(holding.type, fields):
            thing = EntityRef("before", holding.type, key, row)
            meant, causes = self._is(shelf.where, shelf.footprint, thing)
            if meant == FALSE:
                continue
            held = self._classify(holding, thing)
            if held.lies != FALSE:
                known = held.causes | causes
                yield replace(held, causes=known), conjunction(meant, held.lies)

    def gap(self, shelf: Shelf) -> Cause | None:
        """Why there may be more of them than are known; None where there are not."""
        holding = self.access.holding(shelf.subsystem)
        if holding is None:
            return None
        enumeration = self.view.enumeration(holding.type)
        if enumeration.is_complete:
            return None
        return not_enumerated(holding.type, "before", enumeration)

    def everything(self) -> Iterator[CapturedArtifact]:
        """Every artifact of every subsystem, for the gate."""
        for holding in self.access.holdings:
            entity = self.view.schema.by_name[holding.type]
            for key, row in self.view.rows(holding.type, tuple(f.name for f in entity.fields)):
                yield self._classify(holding, EntityRef("before", holding.type, key, row))

    def _classify(self, holding: Holding, thing: EntityRef) -> CapturedArtifact:
        lies, why = self._is(holding.where, holding.footprint, thing)
        causes: set[Cause] = set(why)
        granted = TRUE if holding.name in self.access.sees else FALSE
        if granted == FALSE and holding.authorized_by is not None:
            granted, why = self._is(
                holding.authorized_by, holding.footprint, thing, undefined=FALSE
            )
            causes |= why
        in_time = TRUE
        for node in holding.times:
            if self.access.as_of is not None:
                found, why = self._by_then(node, holding, thing, self.access.as_of)
                in_time = conjunction(in_time, found)
                causes |= why
        return CapturedArtifact(
            lies, granted, in_time, holding.id_of(thing.key), holding, thing, frozenset(causes)
        )

    def _is(
        self,
        node: Node | None,
        reads: frozenset[Read],
        thing: EntityRef,
        undefined: int = TRUE | FALSE,
    ) -> tuple[int, frozenset[Cause]]:
        """The truth of the condition about it; `undefined` is what an undefined one counts as."""
        if node is None:
            return TRUE, frozenset()
        world = self._room(reads)
        mask = outcomes(node, world, {"it": thing})
        found = mask & ~UNDEFINED
        if mask & UNDEFINED:
            found |= undefined
        if found != TRUE | FALSE:
            return found, frozenset()
        why = {*world.causes, *world.undefined}
        return found, frozenset(why or {Reason.CONDITION_OF_IT()})

    def _by_then(
        self, node: Node, holding: Holding, thing: EntityRef, as_of: datetime
    ) -> tuple[int, frozenset[Cause]]:
        """True if the instant lies not after `as_of`; one that is not there never came."""
        found = evaluate(node, self._room(holding.footprint), {"it": thing})
        if isinstance(found, Unknown):
            return TRUE | FALSE, found.causes or frozenset({Reason.ITS_TIME()})
        if not isinstance(found, datetime) or found.tzinfo is None:
            return FALSE, frozenset()
        return (TRUE if found <= as_of else FALSE), frozenset()


def conjunction(*masks: int) -> int:
    """Strong Kleene `and` over masks of TRUE and FALSE."""
    if FALSE in masks:
        return FALSE
    return TRUE if all(mask == TRUE for mask in masks) else TRUE | FALSE


def broken_by_asking(held: Standing | None) -> Iterator[FindingCode]:
    """The rules that a call breaks by asking for it; what is not there tells nothing."""
    if held is not None and held.lies == TRUE:
        if held.granted == FALSE:
            yield FindingCode.ACCESS_VIOLATION
        if held.in_time == FALSE:
            yield FindingCode.HORIZON_VIOLATION


def broken_by_citing(
    held: Standing | None, *, was_offered: bool, was_fetched: bool
) -> FindingCode | None:
    """The rule that a citation breaks, if all that was fetched is known; None where none is."""
    if held is None or held.lies == FALSE or not was_offered:
        return FindingCode.HALLUCINATED_CITATION
    if held.inside == FALSE:
        return FindingCode.INVALID_CITATION
    is_unread = held.inside == TRUE and not was_fetched
    return FindingCode.CITATION_NOT_RETRIEVED if is_unread else None
