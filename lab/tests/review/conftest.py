"""A desk with real bundles and a real key, and the server before it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from statediff_lab.review.desk import Case, Desk
from statediff_lab.review.server import DeskServer

from statediff.evidence.keys import SigningKey
from statediff.evidence.package import Bundle, load, save
from statediff.evidence.verify import Signer
from tests.reports.test_html import BUNDLES

ADA = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
BO = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33))))
TRUST = tuple(
    Signer(name, key.public, ("reviewer",), None, None) for name, key in (("Ada", ADA), ("Bo", BO))
)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
KINDS = ("forbidden", "unknown", "match")


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return NOON + timedelta(seconds=int(self.seconds))


MakeDesk = Callable[..., Desk]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make_desk(tmp_path: Path, clock: Clock) -> MakeDesk:
    """A desk with the trials of KINDS, kept on disk; the same trials whenever it is made."""

    def make(
        *, is_blind: bool = True, key: SigningKey = ADA, trust: Any = (),
        bundles: dict[str, Bundle] | None = None,
    ) -> Desk:  # fmt: skip
        cases = []
        given = bundles or {kind: BUNDLES[kind] for kind in KINDS}
        for name, bundle in given.items():
            folder = tmp_path / name
            if not folder.exists():
                save(bundle, folder / "bundle")
            path = folder / "bundle"
            cases.append(Case(bundle.digest, folder, lambda path=path: load(path)))  # type: ignore[misc]
        return Desk(
            cases, key, is_blind=is_blind, clock=clock, now=clock.now, trust=trust
        )  # fmt: skip

    return make


@pytest.fixture
def serve() -> Iterator[Callable[[Desk], DeskServer]]:
    """Serves a desk until the test ends."""
    running: list[tuple[DeskServer, threading.Thread]] = []

    def start(desk: Desk) -> DeskServer:
        server = DeskServer(desk)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        running.append((server, thread))
        return server

    yield start
    for server, thread in running:
        server.shutdown()
        thread.join()
        server.server_close()
