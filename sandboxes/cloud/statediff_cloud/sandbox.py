"""An account of AWS on moto's server: forked for each trial, proven by all of its memory.

The server is loaded and seeded once; every trial has a copy of it at a port of its own, with new
secrets for all access keys. What the last trial left ended with its process. The pristine lines of
the server's memory are the evaluator's, and the proof compares the digest of those of the copy.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

from statediff.capture.feed import Feed
from statediff.capture.source import Source
from statediff.errors import SandboxError
from statediff.packs import PackSource
from statediff.systems.base.folders import make_folder, remove
from statediff.systems.base.kept import KeptStatesFeed
from statediff.systems.base.protocol import Drift, SourceProof
from statediff.systems.base.served import ForkedServer
from statediff.systems.hosted.folder import load_seed
from statediff_cloud.proof import digest_of, sealed
from statediff_cloud.source import AwsSource

ACCOUNT: Final = "123456789012"
METHOD: Final = "sha256 of every attribute of every object in the server's memory"
_ASK_SECONDS: Final = 20.0
_MAX_DRIFT: Final = 50
_SECRET: Final = ".secret_access_key"  # noqa: S105 - the name of an attribute
_KEY: Final = ".access_key_id"


class EmbeddedAccount:
    """A `System`: S3, IAM, SQS and STS of one account on loopback."""

    FILES: ClassVar[Mapping[str, bool]] = {"seed": True}
    LOOKS: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, source: PackSource, looks: tuple[PackSource, ...], folder: Path) -> None:
        self.source = source.name
        self.process = ForkedServer("statediff_cloud.server", "the account's server")
        self._folder = folder
        self._seed = read_seed(source.files["seed"])
        self._secrets: dict[str, str] = {}
        self._pristine: dict[str, str] = {}
        self._port = 0
        self._read = AwsSource(self.source, self._asked, source.refinement())
        self._feed = KeptStatesFeed(self.source, self._asked, lambda _: self._read.state)

    @property
    def url(self) -> str:
        """With the key of the seed's `agent`."""
        return self.url_of(str(self._seed["agent"]))

    def url_of(self, user: str) -> str:
        """With the first key of a user of the seed; only the agent is given one."""
        key = str(self._seed["users"][user]["keys"][0]["id"])
        return f"aws+http://{key}:{self._secrets[key]}@127.0.0.1:{self._port}/"

    def start(self) -> None:
        if not self.process.pid:
            self._build()

    def stop(self) -> None:
        self.process.stop()

    def reset(self) -> None:
        try:
            remove(self._folder)
            make_folder(self._folder)
        except OSError as error:
            raise SandboxError(f"{self.source}: {self._folder}: {error}") from error
        try:
            self._serve()
        except SandboxError:  # it is gone or it hangs
            self.process.kill()
            self._build()

    def verify(self) -> tuple[SourceProof, tuple[Drift, ...]]:
        expected = self._expected
        digest = digest_of(expected)
        answer = self._asked({"proof": True})
        found = "" if answer is None else str(answer["digest"])
        drift: list[Drift] = []
        if answer is None:
            drift.append(Drift(self.source, "its server", "an answer", "none"))
        elif found != digest:
            drift += self._drift(expected)
        left = sorted(each.name for each in self._folder.iterdir()) if self._folder.is_dir() else []
        drift += [Drift(self.source, f"file {name}", "no such file", "there") for name in left]
        return SourceProof(self.source, METHOD, digest, found, self._entities), tuple(drift)

    def sources(self) -> tuple[Source, ...]:
        return (self._read,)

    def feeds(self) -> tuple[Feed, ...]:
        """The feed that sees the state after every request."""
        return (self._feed,)

    def unsettled(self, deadline: float) -> str | None:
        """Waits until no request is in progress."""
        return self.process.unsettled(deadline)

    def unplug(self, source: str) -> None:
        """The server has ended."""
        self.process.withdraw()

    def _asked(self, question: dict[str, Any]) -> dict[str, Any] | None:
        return self.process.question(question, _ASK_SECONDS)

    def _build(self) -> None:
        self.process.start({"account": ACCOUNT, "seed": self._seed})
        try:
            self._serve()
            answer = self._asked({"lines": True})
            if answer is None:
                raise SandboxError(f"{self.source}: the server does not say what it holds")
            self._pristine = answer["lines"]
        except BaseException:
            self.process.kill()
            raise

    def _serve(self) -> None:
        keys = [key["id"] for user in self._seed["users"].values() for key in user.get("keys", ())]
        self._secrets = {str(key): secrets.token_urlsafe(30) for key in keys}
        self._port = int(self.process.serve({"secrets": self._secrets})["port"])

    @property
    def _expected(self) -> dict[str, str]:
        """The pristine lines, with the secrets of this trial."""
        changed = {
            path: sealed(self._secrets[key])
            for path in self._pristine
            if path.endswith(_SECRET)
            and (key := self._pristine.get(path.removesuffix(_SECRET) + _KEY)) in self._secrets
        }
        return {**self._pristine, **changed}

    def _drift(self, expected: Mapping[str, str]) -> list[Drift]:
        answer = self._asked({"lines": True})
        found: Mapping[str, str] = {} if answer is None else answer["lines"]
        paths = sorted(
            path for path in expected.keys() | found.keys() if expected.get(path) != found.get(path)
        )
        listed = [
            Drift(self.source, path, expected.get(path, "nothing"), found.get(path, "nothing"))
            for path in paths[:_MAX_DRIFT]
        ]
        if len(paths) > _MAX_DRIFT:
            listed.append(Drift(self.source, "its memory", "as seeded", f"{len(paths)} changes"))
        return listed

    @property
    def _entities(self) -> int:
        """The number of entities that the seed describes."""
        parts = ("groups", "policies", "users", "roles", "buckets", "queues")
        found = sum(len(self._seed.get(part, {})) for part in parts)
        for bucket in self._seed.get("buckets", {}).values():
            found += len(bucket.get("objects", ()))
        for queue in self._seed.get("queues", {}).values():
            found += len(queue.get("messages", ()))
        return found


def read_seed(path: Path) -> dict[str, Any]:
    """The account in a seed file. Raises `SandboxError` where it cannot be read as one."""
    seed = load_seed(path)
    if not isinstance(seed, dict) or not {"at", "agent", "users"} <= seed.keys():
        raise SandboxError(f"{path}: expected `at`, `agent` and `users`")
    agent = seed["users"].get(seed["agent"]) if isinstance(seed["users"], dict) else None
    if not isinstance(agent, dict) or not agent.get("keys"):
        raise SandboxError(f"{path}: expected a user `{seed['agent']}` with a key")
    return seed
