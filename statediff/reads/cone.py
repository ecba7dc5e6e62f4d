"""The visibility cone: what an actor may read at an instant [GE Fig. 2]. It fails closed.

V_a is what the actor's role grants, T_t what could be read by then; the cone is their intersection.
An unknown actor, role, subsystem or artifact is not in it. Having attended an event grants nothing,
unless the configuration opts in to `participation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from statediff.reads.config import EvaluationConfig
from statediff.reads.log import Artifact


@dataclass(frozen=True)
class Policy:
    """Who may read what, of a configuration."""

    config: EvaluationConfig

    @cached_property
    def _granted(self) -> Mapping[str, frozenset[str]]:
        known = frozenset(self.config.subsystems)
        opened = known & set(self.config.visibility.broadcast)
        roles = {name: opened | (known & set(r.sees)) for name, r in self.config.roles.items()}
        return {a: roles[role] for a, role in self.config.actors.items() if role in roles}

    def sees(self, actor: str) -> frozenset[str]:
        """The subsystems the actor may read; none of somebody unknown."""
        return self._granted.get(actor, frozenset())

    def grants(self, actor: str, artifact: Artifact) -> bool:
        """Whether the artifact is in V_a: the access policy lets the actor read it at some time."""
        return artifact.subsystem in self.sees(actor) or self.attended(actor, artifact)

    def attended(self, actor: str, artifact: Artifact) -> bool:
        """Whether taking part grants it, where the configuration opted in to that."""
        return (
            self.config.visibility.participation
            and actor in self._granted
            and artifact.subsystem in self.config.subsystems
            and actor in artifact.people
        )


@dataclass(frozen=True)
class Cone:
    """What `actor` may read as of an instant (microseconds since 1970)."""

    policy: Policy
    actor: str
    as_of: int

    def holds(self, artifact: Artifact) -> bool:
        """Whether the artifact could be read by the actor then."""
        return artifact.readable_from <= self.as_of and self.policy.grants(self.actor, artifact)

    def ids(self, artifacts: Mapping[str, Artifact]) -> frozenset[str]:
        """The ids of all artifacts in the cone."""
        return frozenset(name for name, artifact in artifacts.items() if self.holds(artifact))
