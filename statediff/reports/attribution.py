"""The calls of a bundle, the changes that they made, and the clauses that they broke."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from statediff.model.values import Map, Unobserved, decode, show
from statediff.reports.record import OPERATIONS, delta_name, said
from statediff.suite.spans import Callers, Span, spans

Json = Any
MAX_NAMED: Final = 6
MAX_FIRST: Final = 3
UNATTRIBUTED: Final = "unattributed"


@dataclass(frozen=True)
class Doing:
    """One call, or one transaction where nobody recorded calls."""

    document: Json
    title: str
    changes: tuple[str, ...]
    """Its changes, in words."""
    breaks: tuple[str, ...]
    """The clauses that fail on what it did."""
    span: Span | None = None
    """The call judged by itself; None of a transaction."""


class Makers(Callers):
    """Who did what in one bundle. `is_told`: whether changes could be attributed at all."""

    def __init__(self, judgement: Json, trace: Json, history: Json) -> None:
        super().__init__(judgement, trace, history)
        self._judgement, self._trace, self._history = judgement, trace, history
        self.is_told = any("transactions" in action for action in self.listed)

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """Each recorded call, judged by itself."""
        return spans(self._judgement, self._trace, self._history)

    def of(self, delta: Json) -> str:
        """Who left the change; nothing where no call could be known to."""
        maker = self.maker.get(delta["id"])
        if maker is None:
            return UNATTRIBUTED if self.is_told else ""
        return self.title(maker)

    def at(self, finding: Json) -> tuple[str, ...]:
        """The calls that a finding is about, or none where nobody did what it misses."""
        return tuple(map(self.title, self.about(finding)))

    def first(self) -> str:
        """Who did what the verdict fails on first, in one line; nothing where nobody is known to.

        A clause that nobody met names nobody: then it is the next one that somebody broke.
        """
        failed = [f for f in self._judgement["findings"] if f["truth"] == "FAILS"]
        for finding in failed:
            if who := self.at(finding):
                is_first = finding["clause"] == failed[0]["clause"]
                where = "" if is_first else f", which broke {said(finding['clause'], 100)}"
                return f"{listing(who, MAX_FIRST)}{where}"
        return ""

    def title(self, action: str) -> str:
        """`call-3 issue_refund {order: 1009}`, or the transaction of a source."""
        known = self.by_id.get(action)
        if known is None:
            return said(action, 100)
        if action in self.observed:
            return f"transaction {said(action, 100)}"
        arguments = decode(known["arguments"])
        told = show(arguments, 80) if isinstance(arguments, Map) and arguments.items else ""
        told = "{…}" if isinstance(arguments, Unobserved) else said(told, 120)
        return f"{said(action, 60)} {said(known['tool'], 80)} {told}".rstrip()

    def doings(self) -> Iterator[Doing]:
        """Every call in its order; transactions where nobody recorded calls."""
        made: dict[str, list[str]] = {}
        for delta in self._judgement["deltas"]:
            maker = self.maker.get(delta["id"])
            if maker is not None:
                made.setdefault(maker, []).append(_change(delta))
        broken: dict[str, list[str]] = {}
        for finding in self._judgement["findings"]:
            if finding["truth"] != "FAILS":
                continue
            for maker in self.about(finding):
                broken.setdefault(maker, []).append(said(finding["clause"], 100))
        judged = {span.call: span for span in self.spans}
        for action in self.listed:
            name = str(action["id"])
            breaks = tuple(dict.fromkeys(broken.get(name, ())))
            span = None if name in self.observed else judged.get(name)
            yield Doing(action, self.title(name), tuple(made.get(name, ())), breaks, span)


def listing(names: Iterable[str], limit: int = MAX_NAMED) -> str:
    """The first of them, and how many more there are."""
    known = list(names)
    more = f" and {len(known) - limit:,} more" if len(known) > limit else ""
    return ", ".join(known[:limit]) + more


def _change(delta: Json) -> str:
    verb = "" if delta["op"] == "update" else OPERATIONS[delta["op"]][1]
    return f"{delta_name(delta)} {verb}".rstrip()
