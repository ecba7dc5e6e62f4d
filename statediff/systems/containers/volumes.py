"""Places on disk that a container may write, and what they begin as.

A plain volume begins as what its image has in that place. One that lies over another begins as that
one: what is written goes beside it, file by file when it is first opened for writing, so that many
begin as the same at no cost, none sees another, and what they began as is never written again.

Nothing waits for the disk, so such a volume is not mounted a second time: a container that uses one
cannot be started again, by whom ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import docker

OVER: Final = "lowerdir={base},upperdir={written},workdir={work},volatile"


@dataclass(frozen=True)
class Volume:
    """A volume of the engine's."""

    name: str
    path: str
    """Where it lies on the engine's machine, for the engine only."""


def plain(api: docker.APIClient, labels: Mapping[str, str]) -> Volume:
    """A new volume. Raises `DockerException`."""
    made = api.create_volume(labels=dict(labels))
    return Volume(made["Name"], made["Mountpoint"])


def over(
    api: docker.APIClient, labels: Mapping[str, str], base: Volume, made: list[Volume]
) -> Volume:
    """A new volume over `base`; what was made for it stands in `made`, in the order to remove.

    Whether the engine's kernel can mount it shows when a container that uses it is started.
    """
    for _ in ("what is written", "where the kernel works"):
        made.insert(0, plain(api, labels))
    options = OVER.format(base=base.path, written=made[0].path, work=made[1].path)
    whole = api.create_volume(
        labels=dict(labels), driver="local",
        driver_opts={"type": "overlay", "device": "overlay", "o": options},
    )  # fmt: skip
    made.insert(0, Volume(whole["Name"], whole["Mountpoint"]))
    return made[0]
