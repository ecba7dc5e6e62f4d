"""A payment API in a process of its own, forked anew for each trial and proven by a look inside.

The program is loaded once, with the seed's story in its memory; each reset forks it. So there is no
file to put back and nothing an earlier trial can have left. The agent's key is random and lives for
one trial. What "pristine" means is what the first fork showed, kept in the evaluator's memory.

The proof walks the objects of the store by themselves (`ledger.look`); it uses no row, no type and
nothing else that captures state.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

from statediff.capture.feed import Feed
from statediff.capture.source import Source
from statediff.errors import SandboxError
from statediff.model.values import printable
from statediff.packs import PackSource
from statediff.systems.base.folders import make_folder, remove
from statediff.systems.base.protocol import Drift, SourceProof
from statediff.systems.base.served import ForkedServer
from statediff.systems.hosted.folder import load_seed
from statediff_payments.source import NO_ANSWER, PaymentsFeed, PaymentsSource

METHOD: Final = "sha256 of a walk over all objects of the server, one by one"
SCHEME: Final = "payments+http"
READ_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.01
_NOTHING: Final = "not there"


class EmbeddedPayments:
    """A `System`: a payment API that serves on loopback."""

    FILES: ClassVar[Mapping[str, bool]] = {"seed": True}
    LOOKS: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, source: PackSource, looks: tuple[PackSource, ...], folder: Path) -> None:
        self.source = source.name
        self.folder = folder
        self.process = ForkedServer("statediff_payments.server", "the payment API")
        self._own = PaymentsSource(self.source, self._question, source.refinement())
        self._feed = PaymentsFeed(self._own, lambda: self._forks)
        self._order = {"seed": read_seed(source.files["seed"]), "salt": secrets.token_hex(32)}
        self._base: dict[str, str] = {}
        self._secret = ""
        self._port = 0
        self._forks = 0

    @property
    def url(self) -> str:
        return f"{SCHEME}://{self._secret}@127.0.0.1:{self._port}"

    def start(self) -> None:
        if not self.process.pid:
            self.process.start(self._order)
            self._base = {}
            self.reset()

    def stop(self) -> None:
        self.process.stop()

    def reset(self) -> None:
        """Another server is forked; nobody is left who knows a key of the earlier trial."""
        try:
            remove(self.folder)
            make_folder(self.folder)
        except OSError as error:
            raise SandboxError(f"{self.folder} cannot be put back: {error}") from error
        self._secret = f"sk_desk_{secrets.token_hex(16)}"
        self._port = int(self.process.serve_anew({"secret": self._secret})["port"])
        self._forks += 1
        if not self._base:
            self._base = self._look()
            if not self._base:
                raise SandboxError(f"{self.source}: {NO_ANSWER}")

    def verify(self) -> tuple[SourceProof, tuple[Drift, ...]]:
        found = self._look()
        drift = [
            Drift(self.source, "folder", _NOTHING, printable(name))
            for name in sorted(path.name for path in self.folder.iterdir())
        ]
        if not found:
            drift.append(Drift(self.source, "its server", "an answer", "none"))
        else:
            drift += [
                Drift(self.source, _called(name), was or _NOTHING, now or _NOTHING)
                for name in sorted(self._base.keys() | found.keys())
                if (was := self._base.get(name)) != (now := found.get(name))
            ]
        expected, digest = _digest(self._base), _digest(found) if found else ""
        proof = SourceProof(self.source, METHOD, expected, digest, len(self._base))
        return proof, tuple(drift)

    def sources(self) -> tuple[Source, ...]:
        return (self._own,)

    def feeds(self) -> tuple[Feed, ...]:
        """The feed that sees each request that changed something."""
        return (self._feed,)

    def unsettled(self, deadline: float) -> str | None:
        """Waits until no request is in progress and no payment settles later."""
        while True:
            answer = self._question({})
            if answer is None:
                return NO_ANSWER
            waiting = {
                "requests are in progress": answer["in_progress"],
                "payments are not settled": answer["pending"],
            }
            busy = [f"{count} {what}" for what, count in waiting.items() if count]
            if not busy or time.monotonic() >= deadline:
                return "; ".join(busy) or None
            time.sleep(min(_POLL_SECONDS, max(0.0, deadline - time.monotonic())))

    def unplug(self, source: str) -> None:
        """The server has ended."""
        self.process.withdraw()

    def _question(self, question: Mapping[str, Any]) -> dict[str, Any] | None:
        return self.process.question(dict(question), READ_SECONDS)

    def _look(self) -> dict[str, str]:
        answer = self._question({"look": self._secret})
        return {} if answer is None else answer["look"]


def _called(name: str) -> str:
    return printable(name.replace(":", " ", 1)[:120])


def _digest(look: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(look, sort_keys=True).encode()).hexdigest()


def read_seed(path: Path) -> dict[str, Any]:
    """The story in a seed file, with `now`, `keys` and `story`. Raises `SandboxError`."""
    seed = load_seed(path)
    if not isinstance(seed, dict) or not {"now", "keys", "story"} <= seed.keys():
        raise SandboxError(f"{path}: expected `now`, `keys` and `story`")
    return seed
