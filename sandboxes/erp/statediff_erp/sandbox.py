"""An ERP on Tryton: a SQLite file put back by a copy, and a server that is forked for each trial.

The base is a database that Tryton made (`base.py`). Its bytes, with the agent's password of this
trial in them, are the pristine image in the evaluator's memory. A reset ends the server of the last
trial, forks the next and puts the file back; so the proof is that of a SQLite file: all its bytes,
its mode, and the files beside it.
"""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Final

from statediff.errors import SandboxError
from statediff.model.schema import Schema
from statediff.packs import PackSource
from statediff.systems.base.pristine import Pristine, folder_near
from statediff.systems.base.protocol import Drift, SourceProof
from statediff.systems.base.served import ForkedServer
from statediff.systems.sqlite.copy import with_log, without_log
from statediff.systems.sqlite.sandbox import EmbeddedDatabase
from statediff_erp.accounts import with_password
from statediff_erp.base import base_of
from statediff_erp.source import ErpSource

AGENT: Final = "robin"
TODAY: Final = "2026-03-16"
"""The ERP's business date."""
LOAD_SECONDS: Final = 300.0
"""Tryton takes some seconds of processor time to load; a busy machine has little of it."""
_POLL_SECONDS: Final = 0.01
CACHES: Final = frozenset({"ir_cache"})
_BECAUSE: Final = "it tells when the server emptied its caches last, and nothing depends on it"


class EmbeddedErp(EmbeddedDatabase):
    """A `System`: Tryton on loopback, over a SQLite file in a folder of its own."""

    FILES: ClassVar[Mapping[str, bool]] = {"build": True}
    LOOKS: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, source: PackSource, looks: tuple[PackSource, ...], folder: Path) -> None:
        with tempfile.TemporaryDirectory() as made:
            base = Path(made) / "base.sqlite"
            base.write_bytes(base_of(source.files["build"]))
            super().__init__(replace(source, files={**source.files, "file": base}), looks, folder)
        self._read = ErpSource(source.name, self.file, self._refinement(source), in_place=True)
        self._base = without_log(self.base.read())
        self._server = ForkedServer("statediff_erp.server", "the ERP")
        self._port = 0
        self._password = ""

    def _refinement(self, source: PackSource) -> Callable[[Schema], Schema] | None:
        return with_caches_outside(super()._refinement(source))

    @property
    def url(self) -> str:
        return f"tryton+http://{AGENT}:{self._password}@127.0.0.1:{self._port}/{self.source}/"

    def start(self) -> None:
        if not self._server.pid:
            super().reset()
            self._server.start({"file": str(self.file), "today": TODAY}, LOAD_SECONDS)

    def stop(self) -> None:
        self._server.stop()

    def reset(self) -> None:
        """The file is the base with a new password of the agent; a new server serves it."""
        self.start()
        # The last trial's server ends first: what it still does reaches no file of this trial.
        try:
            self._port = int(self._server.serve({}, LOAD_SECONDS)["port"])
        except SandboxError:
            self._server.kill()
            self.start()
            self._port = int(self._server.serve({}, LOAD_SECONDS)["port"])
        self._password = secrets.token_urlsafe(18)
        with folder_near(self.file.parent) as near:
            (near / "base").write_bytes(with_log(with_password(self._base, AGENT, self._password)))
            self.base = Pristine(near / "base")
        super().reset()

    def begin_at(self, kept: Path) -> None:
        super().begin_at(kept)
        self._base = without_log(self.base.read())

    def verify(self) -> tuple[SourceProof, tuple[Drift, ...]]:
        proof, drift = super().verify()
        if self._server.in_progress() is None:
            drift = (*drift, self._drift("its server", "an answer", "none"))
        return proof, drift

    def unsettled(self, deadline: float) -> str | None:
        """Waits until no request is in progress and nobody holds a write transaction."""
        while True:
            waiting = self._server.in_progress()
            if waiting == 0:
                return super().unsettled(deadline)
            if waiting is None:
                return "the ERP's server does not answer"
            if time.monotonic() >= deadline:
                return f"{waiting} requests are in progress"
            time.sleep(_POLL_SECONDS)

    def unplug(self, source: str) -> None:
        """The server has ended, and the database is gone."""
        self._server.withdraw()
        super().unplug(source)


def with_caches_outside(
    refine: Callable[[Schema], Schema] | None,
) -> Callable[[Schema], Schema]:
    """The refined schema; what the server says of its own caches is outside by default."""

    def refined(schema: Schema) -> Schema:
        logical = schema if refine is None else refine(schema)
        types = (
            replace(each, outside=_BECAUSE) if each.source_table in CACHES else each
            for each in logical.types
        )
        return replace(logical, types=tuple(types))

    return refined
