"""An ERP's database as a source: the exact reader of SQLite files, over Tryton's tables."""

from __future__ import annotations

from typing import ClassVar

from statediff.systems.sqlite.source import SqliteSource


class ErpSource(SqliteSource):
    """All tables of one Tryton database, read past its server."""

    not_observed: ClassVar[tuple[str, ...]] = (
        *SqliteSource.not_observed,
        "what the server holds in memory only, such as its caches: each trial has another server",
        "when the server emptied its caches last (`ir_cache`), unless a contract includes it",
    )
