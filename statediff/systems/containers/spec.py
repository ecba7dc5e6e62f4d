"""What a container is made from, and what a program in it did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from statediff.systems.containers.volumes import Volume

MEBIBYTE: Final = 1024 * 1024


@dataclass(frozen=True)
class Shared:
    """A folder of this machine that a container sees too."""

    folder: Path
    at: str
    is_read_only: bool = True


@dataclass(frozen=True)
class Spec:
    """What a container is made from. Unless said here: no network, no capability, no writing."""

    image: str
    name: str
    """How messages call it, e.g. the source's name."""
    command: tuple[str, ...] = ()
    """In place of the image's own."""
    environment: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    """In place of the image's own, e.g. `65532:65532`."""
    memory_folders: Mapping[str, str] = field(default_factory=lambda: {"/tmp": "size=64m"})  # noqa: S108 - a place inside
    """Place → options of a `tmpfs`: empty at first, counted against `memory_bytes`."""
    volumes: tuple[str, ...] = ()
    """Places that may be written on disk; each begins as what the image has there."""
    over: Mapping[str, Volume] = field(default_factory=dict)
    """Place → what it begins as; it may be written on disk too, and the volume stays as it is."""
    shared: tuple[Shared, ...] = ()
    capabilities: tuple[str, ...] = ()
    memory_bytes: int = 512 * MEBIBYTE
    processes: int = 256
    shared_memory_bytes: int = 64 * MEBIBYTE
    loopback_of: str = ""
    """The id of a container whose loopback it shares, and no other network either."""
    folder: str = ""  # where its program starts


@dataclass(frozen=True)
class Ran:
    """What a program in a container did."""

    code: int
    output: bytes
    """Standard output; standard error is `errors`."""
    errors: bytes

    @property
    def text(self) -> str:
        return self.output.decode(errors="replace")
