"""Reset, its proof, and the verification of a bundle: a trial's work beside capture and diff."""

from __future__ import annotations

import hashlib
import shutil
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
from statediff.packs import PackSource, contract_folder, sandbox_pack
from statediff.systems.base.sandbox import EmbeddedSandbox
from statediff.systems.sqlite.sandbox import EmbeddedDatabase
from statediff_lab.bench.capturing import now
from statediff_lab.bench.registry import (
    BenchPlan,
    BenchRow,
    Wrong,
    measure,
    time_in_turn,
    time_row,
)

_DDL = "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, pad TEXT);"
_SEED = """
INSERT INTO item WITH RECURSIVE s(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM s WHERE n < {rows})
SELECT n, printf('item %d', n), printf('%.60c', 'x') FROM s;
"""


@measure("reset", "reset")
def sqlite_reset(plan: BenchPlan) -> Iterator[BenchRow]:
    """Putting an embedded database back, and proving it, over copying its file."""
    folder = plan.folder / "reset"
    folder.mkdir(exist_ok=True)
    ddl, seed = folder / "ddl.sql", folder / "seed.sql"
    ddl.write_text(_DDL)
    seed.write_text(_SEED.format(rows=plan.slow_rows))
    files = {"ddl": ddl, "seed": seed}
    system = EmbeddedDatabase(PackSource("db", "sqlite", None, files), (), folder / "own")
    system.start()
    system.reset()

    def check(name: str, found: object) -> None:
        if name == "proof" and found:
            raise Wrong(f"a fresh reset is not proven: {found}")

    taken = time_in_turn(
        {
            "copy": lambda: shutil.copyfile(system.file, folder / "copy"),
            "reset": system.reset,
            "proof": lambda: system.verify()[1],
        },
        plan.repeats,
        check,
    )
    system.stop()
    note = f"{plan.slow_rows:,} rows; the floor is copying the file"
    yield time_row("reset, SQLite", "reset", taken["reset"], floor=taken["copy"], note=note)
    yield time_row(
        "proof of the reset, SQLite", "reset", taken["proof"], floor=taken["copy"], note=note
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
