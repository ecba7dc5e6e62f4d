"""What the commands say of a bundle that an older kernel judged."""

from __future__ import annotations

from pathlib import Path

from statediff.kernel import KERNEL
from tests.cli.conftest import Call

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "bundles" / "kernel-6"


def test_it_verifies_and_is_shown_and_replay_names_the_release_that_it_needs(
    statediff: Call,
) -> None:
    sealed, trust = str(FOLDER / "sealed"), ("--trust", str(FOLDER / "trust.json"))
    told = statediff("verify", sealed, *trust)
    assert (told.code, told.out.split()[0]) == (0, "VALID")
    told = statediff("replay", sealed, *trust)
    assert told.code == 4
    needed = f"judged by kernel 6, this is kernel {KERNEL}; install statediff 0.1.0 to replay it"
    assert needed in told.err
    assert "item 2 created" in statediff("show", sealed, *trust).out
