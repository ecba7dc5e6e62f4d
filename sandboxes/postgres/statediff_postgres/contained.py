"""PostgreSQL servers in containers of the image `postgres`."""

from __future__ import annotations

from typing import Final

from statediff_containers.box import Box
from statediff_containers.database import PLACE
from statediff_containers.engine import MEBIBYTE, Containers, connect
from statediff_containers.images import image_tag, missing_images

from statediff.errors import SandboxError
from statediff_postgres.wal import ReadLog, inspected

MEMORY_BYTES: Final = 1536 * MEBIBYTE
"""A limit: what was written and not yet brought to disk counts too, and databases are copied."""


class ContainedPostgres(Containers):
    """A `PostgresMachine`. Raises `SandboxError` where no engine answers that has the image."""

    extensions = frozenset({"amcheck", "pg_walinspect"})

    def __init__(self) -> None:
        if missing_images(connect(), ("postgres",)):
            raise SandboxError(
                "the image of PostgreSQL is not there; make it with `statediff sandbox build"
                " postgres`"
            )
        limits = {"memory_bytes": MEMORY_BYTES, "shared_memory_bytes": 256 * MEBIBYTE}
        super().__init__(image_tag("postgres"), PLACE, limits)

    def log_of(self, _box: Box) -> ReadLog:
        return inspected
