"""Trust under The Update Framework: what its metadata does not vouch for is not believed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from statediff.errors import UsageError
from statediff.evidence.keys import load_trust

tuf = pytest.importorskip("tuf.api.metadata", reason="python-tuf is not installed")
from securesystemslib.signer import CryptoSigner  # noqa: E402 - it comes with python-tuf

SOON = timedelta(days=1)
ROLES = ("root", "timestamp", "snapshot", "targets")


def trust(name: str) -> bytes:
    keys = [{"name": name, "key": "ab" * 32, "roles": ["evaluator"], "from": None, "until": None}]
    return json.dumps({"format": "statediff/trust/1", "keys": keys}).encode()


class Publisher:
    """Somebody who publishes a trust file, with two keys of two for the root and one otherwise."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.metadata = folder, folder / "metadata"
        self.metadata.mkdir(parents=True)
        (folder / "targets").mkdir()
        self.signers = {role: [CryptoSigner.generate_ed25519()] for role in ROLES}
        self.signers["root"].append(CryptoSigner.generate_ed25519())
        self.root = tuf.Root(consistent_snapshot=False, expires=self.until(SOON))
        for role, signers in self.signers.items():
            for signer in signers:
                self.root.add_key(signer.public_key, role)
        self.root.roles["root"].threshold = 2
        self.sign_root()
        shutil.copy(self.metadata / "1.root.json", folder / "root.json")

    def until(self, more: timedelta) -> datetime:
        return datetime.now(UTC).replace(microsecond=0) + more

    def write(self, name: str, signed: Any, signers: Sequence[Any]) -> None:
        found = tuf.Metadata(signed)
        for signer in signers:
            found.sign(signer, append=True)
        found.to_file(str(self.metadata / name))

    def sign_root(self, signers: Sequence[Any] | None = None) -> None:
        self.write(f"{self.root.version}.root.json", self.root, signers or self.signers["root"])

    def rotate(self) -> list[Any]:
        """A root whose second key is another; gives the keys that it was."""
        old, self.root.version = list(self.signers["root"]), self.root.version + 1
        fresh = CryptoSigner.generate_ed25519()
        self.root.revoke_key(old[1].public_key.keyid, "root")
        self.root.add_key(fresh.public_key, "root")
        self.signers["root"] = [old[0], fresh]
        return old

    def publish(self, version: int, name: str, more: timedelta = SOON) -> None:
        data = trust(name)
        (self.folder / "targets" / "trust.json").write_bytes(data)
        target = tuf.TargetFile.from_data("trust.json", data)
        expires = self.until(more)
        for role, signed in (
            ("targets", tuf.Targets(version, expires=expires, targets={"trust.json": target})),
            ("snapshot", tuf.Snapshot(
                version, expires=expires, meta={"targets.json": tuf.MetaFile(version)})),
            ("timestamp", tuf.Timestamp(
                version, expires=expires, snapshot_meta=tuf.MetaFile(version))),
        ):  # fmt: skip
            self.write(f"{role}.json", signed, self.signers[role])


@pytest.fixture
def publisher(tmp_path: Path) -> Publisher:
    made = Publisher(tmp_path / "trust")
    made.publish(1, "Ada")
    return made


def names(publisher: Publisher) -> list[str]:
    return [signer.name for signer in load_trust(publisher.folder)]


def test_the_keys_are_those_of_the_newest_version(publisher: Publisher) -> None:
    assert names(publisher) == ["Ada"]
    publisher.publish(2, "Bo")
    assert names(publisher) == names(publisher) == ["Bo"]


def test_keys_of_the_root_rotate_where_the_old_ones_agree(publisher: Publisher) -> None:
    old = publisher.rotate()
    publisher.sign_root([*old, publisher.signers["root"][1]])
    publisher.publish(2, "Bo")
    assert names(publisher) == ["Bo"]
    publisher.rotate()  # and again, of which the key before the last knows nothing
    publisher.sign_root([old[0], old[1], publisher.signers["root"][1]])
    with pytest.raises(UsageError, match="does not count"):
        names(publisher)


def _without_the_old_keys(publisher: Publisher) -> None:
    publisher.rotate()
    publisher.sign_root()


def _below_the_threshold(publisher: Publisher) -> None:
    publisher.root.version += 1
    publisher.sign_root(publisher.signers["root"][:1])


def _rolled_back(publisher: Publisher) -> None:
    publisher.publish(3, "Bo")
    assert names(publisher) == ["Bo"]
    publisher.publish(2, "Ada")


def _expired(publisher: Publisher) -> None:
    publisher.publish(2, "Bo", -SOON)


def _expired_root(publisher: Publisher) -> None:
    publisher.root.version += 1
    publisher.root.expires = publisher.until(-SOON)
    publisher.sign_root()


def _by_a_stranger(publisher: Publisher) -> None:
    publisher.signers["targets"] = [CryptoSigner.generate_ed25519()]
    publisher.publish(2, "Eve")


def _of_other_bytes(publisher: Publisher) -> None:
    (publisher.folder / "targets" / "trust.json").write_bytes(trust("Eve"))


def _without_a_target(publisher: Publisher) -> None:
    (publisher.folder / "targets" / "trust.json").unlink()


def _without_metadata(publisher: Publisher) -> None:
    (publisher.metadata / "timestamp.json").write_bytes(b"{}")


@pytest.mark.parametrize(
    "harm",
    [
        _without_the_old_keys, _below_the_threshold, _rolled_back, _expired, _expired_root,
        _by_a_stranger, _of_other_bytes, _without_a_target, _without_metadata,
    ],
)  # fmt: skip
def test_what_the_metadata_does_not_vouch_for_is_refused(
    harm: Callable[[Publisher], None], publisher: Publisher
) -> None:
    assert names(publisher) == ["Ada"]
    harm(publisher)
    with pytest.raises(UsageError, match="this trust does not count"):
        names(publisher)


def test_a_rollback_is_seen_by_what_was_read_before(publisher: Publisher) -> None:
    publisher.publish(2, "Bo")
    assert names(publisher) == ["Bo"]
    publisher.publish(1, "Ada")
    with pytest.raises(UsageError, match="does not count"):
        names(publisher)
    shutil.rmtree(publisher.folder / ".seen")  # what a new reader cannot know
    assert names(publisher) == ["Ada"]


def test_the_root_is_the_readers_own(publisher: Publisher, tmp_path: Path) -> None:
    other = Publisher(tmp_path / "other")
    other.publish(1, "Eve")
    shutil.copy(publisher.folder / "root.json", other.folder / "root.json")
    with pytest.raises(UsageError, match="does not count"):
        names(other)
    (publisher.folder / "root.json").unlink()
    with pytest.raises(UsageError, match="cannot be read"):
        names(publisher)
