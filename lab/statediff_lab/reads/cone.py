"""The visibility cone of a configuration: what an actor may read at an instant [GE Fig. 2].

It fails closed: an unknown actor, role, subsystem or artifact is not in it. Having attended an
event grants nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from statediff.reads.index import Cone
from statediff_lab.reads.config import EvaluationConfig


@dataclass(frozen=True)
class Policy:
    """Who may read what, of a configuration."""

    config: EvaluationConfig

    @cached_property
    def _grants(self) -> Mapping[str, frozenset[str]]:
        known = frozenset(self.config.subsystems)
        roles = {name: known & set(role.sees) for name, role in self.config.roles.items()}
        return {a: roles[role] for a, role in self.config.actors.items() if role in roles}

    def sees(self, actor: str) -> frozenset[str]:
        """The subsystems the actor may read; none of somebody unknown."""
        return self._grants.get(actor, frozenset())

    def cone(self, actor: str, as_of: int) -> Cone:
        """The part of the corpus that the actor may read."""
        return Cone(self.sees(actor), as_of)
