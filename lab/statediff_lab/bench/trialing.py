"""The verification of a bundle: a trial's work beside reset, capture and diff."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from statediff.agents.command import CommandAgent
from statediff.capture.store import DiskChunks
from statediff.contract.file import load_contract
from statediff.evidence.keys import SigningKey
from statediff.evidence.package import Bundle
from statediff.evidence.seal import SEED_BYTES, seal
from statediff.evidence.verify import Signer, Verified, verify
from statediff.harness import TrialPlan, run_trial
from statediff.kernel import replay
from statediff.packs import contract_folder, sandbox_pack
from statediff.systems.base.sandbox import EmbeddedSandbox
from statediff_lab.bench.capturing import now
from statediff_lab.bench.registry import (
    BenchPlan,
    BenchRow,
    Wrong,
    measure,
    time_in_turn,
    time_row,
)


@measure("verify", "verify")
def bundle_verification(plan: BenchPlan) -> Iterator[BenchRow]:
    """Verifying a sealed bundle, and replaying it, over reading and hashing its bytes."""
    bundle = _judged_bundle(plan.folder)
    key = SigningKey(Ed25519PrivateKey.generate())
    sealed = seal(bundle, bytes(SEED_BYTES), now().replace(microsecond=0), key.public, key.sign)
    trust = (Signer("bench", key.public, ("evaluator",), None, None),)

    def floor() -> None:
        for content in sealed.files.values():
            hashlib.sha256(content).digest()

    def right(name: str, found: object) -> None:
        if isinstance(found, Verified) and found.status != "VALID":
            raise Wrong(f"{name}: our own bundle is {found.status}")

    taken = time_in_turn(
        {
            "floor": floor,
            "verify": lambda: verify(sealed.files, trust),
            "replay": lambda: replay(bundle),
        },
        plan.repeats,
        right,
    )
    size = sum(map(len, sealed.files.values()))
    note = f"a trial of shop, {size:,} bytes; the floor is SHA-256 of them"
    yield time_row(
        "verify a sealed bundle", "verify", taken["verify"], floor=taken["floor"], note=note
    )
    yield time_row("replay a bundle", "verify", taken["replay"], floor=taken["floor"], note=note)


def _judged_bundle(folder: Path) -> Bundle:
    task = contract_folder("shop/refund-returned-order")
    agent = CommandAgent(task.agent("careful"), name="careful")
    with EmbeddedSandbox(sandbox_pack("shop"), folder / "shop") as sandbox:
        trial = run_trial(
            sandbox,
            load_contract(task.contract),
            agent,
            TrialPlan("bench", folder / "trial"),
            clock=now,
            store=DiskChunks(folder / "trial-chunks"),
        )
    return trial.evaluated.bundle
