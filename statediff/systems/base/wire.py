"""The meaning of an agent's requests over HTTP, system by system.

A recorder stands between an agent and the systems that it reaches over HTTP. It knows what every
request has; what else one says, only the plug-in of its system knows (`SystemPlugin.wire`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from statediff.model.trace import ActionClass, Mark


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request, read to its end."""

    method: str
    path: str
    """Without its query."""
    body: bytes


@dataclass(frozen=True, kw_only=True)
class Described:
    """A request as a call of the agent."""

    action_class: ActionClass
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Beside its path and query."""
    marks: tuple[Mark, ...] | None = ()
    """The transactions of the system's history that it made; None where nobody knows."""
    done: Callable[[tuple[Mark, ...], bytes | None], tuple[Mark, ...]] | None = None
    """Those of the marks that the beginning of the answer says were done; None of it, no answer."""


@dataclass(frozen=True, kw_only=True)
class Wire:
    """A system's own protocol over HTTP."""

    describe: Callable[[str, Request], Described | None] | None = None
    """By the source's name; None of a request that is not of the system's own kind."""
    orders: Mapping[str, Mapping[str, ActionClass]] = field(default_factory=dict)
    """Members of a form or a query that make another request of a POST → what each value, in
    upper case, asks for. Another value asks for what nobody knows."""
