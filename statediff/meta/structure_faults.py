"""Faults below the rows of live systems, as plug-ins name them, each judged as a case.

An operator that finds no place for itself says so, is no fault, and is counted among what was not
tried; see `statediff.systems.base.faults`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING

from statediff.meta.metatest import MetaCase, live_case, untried_case
from statediff.meta.world import Fault, Untried
from statediff.model.verdict import Finding
from statediff.systems.base.faults import Below, Place
from statediff.systems.base.registry import plugins

if TYPE_CHECKING:
    from statediff.meta.reference import Reference
    from statediff.systems.base.protocol import Sandbox


@cache
def faults_below() -> Mapping[str, Below]:
    """Class and operator → what it does, of the systems whose libraries are installed.

    Where no type is named, any change of the source shows it.
    """
    found: dict[str, Below] = {}
    for plugin in plugins().values():
        if plugin.faults is not None:
            with suppress(ModuleNotFoundError):
                found |= plugin.faults()
    return found


class Damage:
    """A hook before the capture after: one operator on the first place that it fits."""

    def __init__(self, operator: str) -> None:
        self.operator = operator
        self.source: str | None = None
        """The source that was damaged; None where there is no place for the operator."""
        self.has_system = False

    def __call__(self, sandbox: Sandbox) -> None:
        below = faults_below()[self.operator]
        for source, url in sorted(sandbox.access().urls.items()):
            if url.startswith(below.scheme):
                self.has_system = True
                if below.apply(Place(source, url, sandbox)):
                    self.source = source
                    return


def structure_cases(trials: Iterator[tuple[Damage, Reference]]) -> Iterator[MetaCase]:
    """The case of each damaged trial; it is named by a change of the structure of its source."""
    for damage, trial in trials:
        source, operator = damage.source, damage.operator
        if source is None:
            why = f"{operator}: its systems have no place for it"
            yield untried_case(trial, Untried("faults below the rows", why, 1))
            continue
        named = faults_below()[operator].names or _delivered(trial, source)
        places = tuple(f"{each}[" for each in (*named, f"source.{source}"))
        sentence = f"below the rows of {source}: {operator}"
        yield live_case(
            Fault(operator, source, sentence, trial), trial.name, partial(_is_about, places)
        )


def _is_about(places: tuple[str, ...], finding: Finding) -> bool:
    return any(delta.startswith(places) for delta in finding.deltas)


def _delivered(trial: Reference, source: str) -> tuple[str, ...]:
    """The types that the source delivers."""
    for part in trial.after.parts:
        if part.reading.source == source:
            return tuple(part.state.tables)
    return ()
