"""The visibility cone of a configuration: what an actor may read at an instant [GE Fig. 2].

It fails closed: an unknown actor, role, subsystem or artifact is not in it. Having attended an
event grants nothing, unless the configuration opts in to `participation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial

from statediff.reads.index import Artifact, Cone
from statediff_lab.reads.config import EvaluationConfig


@dataclass(frozen=True)
class Policy:
    """Who may read what, of a configuration."""

    config: EvaluationConfig

    @cached_property
    def _grants(self) -> Mapping[str, frozenset[str]]:
        known = frozenset(self.config.subsystems)
        opened = known & set(self.config.visibility.broadcast)
        roles = {name: opened | (known & set(r.sees)) for name, r in self.config.roles.items()}
        return {a: roles[role] for a, role in self.config.actors.items() if role in roles}

    def sees(self, actor: str) -> frozenset[str]:
        """The subsystems the actor may read; none of somebody unknown."""
        return self._grants.get(actor, frozenset())

    def attended(self, actor: str, artifact: Artifact) -> bool:
        """True if somebody known has taken part in it."""
        is_known = actor in self._grants and artifact.subsystem in self.config.subsystems
        return is_known and actor in artifact.people

    def cone(self, actor: str, as_of: int) -> Cone:
        """What the actor may read; to have taken part grants it where the configuration says so."""
        takes_part = self.config.visibility.participation
        beside = partial(self.attended, actor) if takes_part else None
        return Cone(self.sees(actor), as_of, beside)
