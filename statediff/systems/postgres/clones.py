"""Clones of a pristine database, made and digested in the background before they are needed."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

import psycopg

from statediff.systems.containers.prepared import STARTS
from statediff.systems.postgres.proof import Connection, Files, stand_still

PRISTINE: Final = "pristine"
STEP_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Spare:
    """A clone that nobody has used, or that is being made."""

    name: str
    made: Future[None]
    files: Future[Files | None]
    wanted: threading.Event

    def known_files(self) -> Files | None:
        """What its files were while it stood still; None where it was wanted before."""
        try:
            return self.files.result(STEP_SECONDS)
        except (psycopg.Error, TimeoutError):
            return None


class Spares:
    """One spare at hand at a time; the databases that were used before are dropped meanwhile."""

    def __init__(self, name: str, admin: Callable[[], AbstractContextManager[Connection]]) -> None:
        self.own: set[str] = {PRISTINE}
        """Databases that come and go behind the one that is used; exact names, none ever given
        twice, and none forgotten while somebody may still read a list in which it stands."""
        self._admin = admin
        self._spare: Spare | None = None
        self._used: list[str] = []
        self._worker = ThreadPoolExecutor(1, thread_name_prefix=f"clones of {name}")

    def prepare(self) -> Spare:
        """A clone is at hand, or being made."""
        if self._spare is None:
            name = f"spare_{secrets.token_hex(8)}"
            self.own.add(name)
            wanted = threading.Event()
            made = self._worker.submit(self._make_at_leisure, name, wanted)
            self._spare = self._begun(name, made, wanted)
        return self._spare

    def first(self) -> str:
        """The name of a whole clone, which is at hand once it is adopted."""
        name = f"spare_{secrets.token_hex(8)}"
        self._make(name)
        return name

    def adopt(self, name: str) -> None:
        """The clone so called, which was made before, is at hand."""
        self.own.add(name)
        made: Future[None] = Future()
        made.set_result(None)
        self._spare = self._begun(name, made, threading.Event())

    def _begun(self, name: str, made: Future[None], wanted: threading.Event) -> Spare:
        return Spare(name, made, self._worker.submit(self._digest, name, wanted), wanted)

    def take(self) -> Spare:
        """The clone, whole; it is the caller's. Raises `psycopg.Error` or `TimeoutError`."""
        spare = self.prepare()
        spare.wanted.set()
        self._spare = None
        spare.made.result(STEP_SECONDS)
        return spare

    def retired(self) -> str:
        """A name for the database that was used until now: it will be dropped under it."""
        name = f"used_{secrets.token_hex(8)}"
        self.own.add(name)
        self._used.append(name)
        return name

    def close(self) -> None:
        """Nothing is being made any more."""
        if self._spare is not None:
            self._spare.wanted.set()
        self._worker.shutdown(wait=True, cancel_futures=True)

    def _make_at_leisure(self, name: str, wanted: threading.Event) -> None:
        STARTS.rest(wanted)
        self._make(name)

    def _make(self, name: str) -> None:
        with self._admin() as admin:
            while self._used:
                admin.execute(f"DROP DATABASE IF EXISTS {self._used[-1]} WITH (FORCE)".encode())
                self._used.pop()
            admin.execute(
                f"CREATE DATABASE {name} TEMPLATE {PRISTINE} STRATEGY file_copy"
                " ALLOW_CONNECTIONS false".encode()
            )

    def _digest(self, name: str, wanted: threading.Event) -> Files | None:
        if wanted.is_set():
            return None
        with self._admin() as admin:
            return stand_still(admin, name, wanted.wait)
