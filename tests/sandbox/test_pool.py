"""Workers with a sandbox each: apart from each other, and all stopped in the end."""

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from statediff.conformance import clock
from statediff.errors import SandboxError
from statediff.packs import sandbox_pack
from statediff.sandbox.embedded import EmbeddedSandbox
from statediff.sandbox.pool import SandboxPool


def shop(work: Path) -> EmbeddedSandbox:
    return EmbeddedSandbox(sandbox_pack("shop"), work)


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[SandboxPool[EmbeddedSandbox]]:
    with SandboxPool(shop, 3, tmp_path) as started:
        yield started


def refunds(sandbox: EmbeddedSandbox, statement: str = "") -> int:
    file = sandbox.access().urls["shop-db"].removeprefix("sqlite:///")
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(statement)
        found: int = connection.execute("SELECT count(*) FROM refunds").fetchone()[0]
    return found


def test_nobody_shares_a_sandbox_and_everybody_can_put_his_back(
    pool: SandboxPool[EmbeddedSandbox],
) -> None:
    taken: set[int] = set()
    lock = threading.Lock()

    def trial(_: int) -> int:
        with pool.lease() as sandbox:
            with lock:
                assert id(sandbox) not in taken
                taken.add(id(sandbox))
            sandbox.reset()
            assert sandbox.verify(clock).ok
            left = refunds(sandbox, "DELETE FROM refunds")
            with lock:
                taken.remove(id(sandbox))
        return left

    with ThreadPoolExecutor(3) as workers:
        assert list(workers.map(trial, range(24))) == [0] * 24


def test_a_sandbox_comes_back_from_a_worker_that_failed(
    pool: SandboxPool[EmbeddedSandbox],
) -> None:
    for _ in range(6):
        with contextlib.suppress(ZeroDivisionError), pool.lease() as sandbox:
            sandbox.reset()
            assert sandbox.verify(clock).ok
            refunds(sandbox, "DELETE FROM refunds")
            raise ZeroDivisionError


def test_all_are_stopped_when_one_cannot_start(tmp_path: Path) -> None:
    made: list[EmbeddedSandbox] = []

    def make(work: Path) -> EmbeddedSandbox:
        if len(made) == 1:
            work.parent.mkdir(exist_ok=True)
            work.write_text("a file where its folder should be")
        made.append(EmbeddedSandbox(sandbox_pack("shop"), work / "inside" if made else work))
        return made[-1]

    with pytest.raises(SandboxError), SandboxPool(make, 3, tmp_path):
        pass
    for sandbox in made:
        with pytest.raises(SandboxError, match="is not running"):
            sandbox.access()
