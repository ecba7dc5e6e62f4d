"""Who observes a trial, by the key that a user named, and what is known of the agent."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from statediff._version import __version__
from statediff.workspace.agents import AgentOptions

if TYPE_CHECKING:
    from statediff.observing import Observer


@lru_cache(maxsize=8)  # a key may ask for a passphrase
def observer_of(path: Path | None, agent: AgentOptions | None = None) -> Observer | None:
    """The observer with the key at a path; None without one. `UsageError` where it is none.

    Of an agent the options are known by digest and the model by the provider's id; the version of
    statediff's own loop around a model, and of an image that is named by its digest.
    """
    from statediff.evidence.canonical import write
    from statediff.evidence.keys import load_key
    from statediff.observing import Observer
    from statediff.workspace.inputs import utc_now

    if path is None:
        return None
    known: dict[str, str | None] = {}
    if agent is not None:
        image = (agent.image or "").partition("@")[2]
        version = f"statediff {__version__}" if agent.model else image
        digest = hashlib.sha256(write(agent.as_json())).hexdigest()
        known = {"configuration": digest, "model": agent.model, "version": version or None}
    return Observer(key=load_key(path), clock=utc_now, known=known)
