"""Who observes a trial, by the key that a user named, and what is known of the agent."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from statediff._version import __version__
from statediff.errors import UsageError
from statediff.total import in_any_case
from statediff.workspace.agents import AgentOptions

if TYPE_CHECKING:
    from statediff.evidence.keys import SigningKey
    from statediff.observing import Observer

KEY: Final = "observer"
KEY_ID: Final = "observer_key"
"""Settings of a run: the path of the observer's key, and which key was there."""


def observer_of(path: Path | None, agent: AgentOptions | None = None) -> Observer | None:
    """The observer with the key at a path; None without one. `UsageError` where it is none.

    Of an agent the options are known by digest, but for what may still be spent, and the model by
    the provider's id; the version of statediff's own loop around a model, and of an image that is
    named by its digest.
    """
    if path is None:
        return None
    from statediff.capture.source import clock
    from statediff.evidence.canonical import write
    from statediff.evidence.keys import FROM_FILE
    from statediff.observing import Observer

    known: dict[str, str | None] = {}
    if agent is not None:
        image = (agent.image or "").partition("@")[2]
        version = f"statediff {__version__}" if agent.model else image
        digest = hashlib.sha256(write(replace(agent, max_cost=None).as_json())).hexdigest()
        known = {"configuration": digest, "model": agent.model, "version": version or None}
    files = tuple(Path(each).absolute() for each in (path, os.environ.get(FROM_FILE)) if each)
    return Observer(key=_key_at(path), clock=clock, known=known, files=files)


def observer_settings(path: Path | None) -> dict[str, str]:
    """The settings of a run that is observed by the key at a path; none without one."""
    from statediff.evidence.verify import key_id

    if path is None:
        return {}
    return {KEY: str(path.absolute()), KEY_ID: key_id(_key_at(path).public)}


def require_shared(path: Path) -> None:
    """A passphrase of the key is where other processes can read it. `UsageError`."""
    from statediff.evidence.keys import FROM_FILE, is_encrypted

    if is_encrypted(path) and not os.environ.get(FROM_FILE):
        raise UsageError(
            f"{path}: has a passphrase, and each process needs it; name a file with it in "
            f"{FROM_FILE}, or run one trial at a time"
        )


def observer_in(settings: Mapping[str, Any], agent: AgentOptions | None = None) -> Observer | None:
    """The observer that a run was begun with. `UsageError` where its key is not there."""
    from statediff.evidence.verify import key_id

    if (named := settings.get(KEY)) is None:
        return None
    path = Path(named)
    observer = observer_of(path, agent)
    if observer is not None and key_id(observer.key.public) != settings.get(KEY_ID):
        raise UsageError(f"{path}: another observer's key than the run was begun with")
    return observer


def _key_at(path: Path) -> SigningKey:
    """The key at a path, read once as long as the file stays: it may ask for a passphrase."""
    place = path.absolute()
    return _key_of(place, in_any_case(lambda: place.stat().st_mtime_ns, lambda _: 0))


@lru_cache(maxsize=8)
def _key_of(path: Path, _changed: int) -> SigningKey:
    from statediff.evidence.keys import load_key

    return load_key(path)
