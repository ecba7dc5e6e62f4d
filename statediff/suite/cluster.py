"""Trials on a Dask cluster: on the machines that somebody started workers on, or on this one.

A worker has as many places for trials as it was started with: `dask worker … --resources
sandbox=1`. Dask itself tries nothing again: `retries=0`, and a scheduler that gives the task of a
lost worker to another one is refused (`allowed-failures`). Two equal tasks are two (`pure=False`).

Workers come and go: where there is none now, one is waited for, `ROOM_SECONDS` at most.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from statediff.errors import HarnessError, UsageError
from statediff.model.values import printable
from statediff.suite.workers import Workers

RESOURCE: Final = "sandbox"
LOCAL: Final = "local"
CONNECT_SECONDS: Final = 20
LOOK_SECONDS: Final = 1.0
CLOSE_SECONDS: Final = 30.0
"""How long the workers of this one command may take to end."""
GONE_SECONDS: Final = 60.0
"""How long a scheduler may be out of reach."""
ROOM_SECONDS: Final = 300.0
"""How long no worker at all may have room for a sandbox: a nanny, or somebody, starts another."""
_SETTING: Final = "distributed.scheduler.allowed-failures"
_VARIABLE: Final = "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES"


@contextmanager
def on_cluster(
    address: str, number: int, tell: Callable[[str], None] = lambda _: None
) -> Iterator[Workers]:
    """The workers of the scheduler at `address`; for `local`, so many processes and a scheduler.

    `tell` is told, once, that workers are waited for. `UsageError` where there is no such cluster,
    or one that must not be used.
    """
    try:
        import dask  # noqa: PLC0415 - an extra
        from distributed import Client, LocalCluster  # noqa: PLC0415 - an extra, and slow
        from distributed.scheduler import KilledWorker  # noqa: PLC0415 - as above
    except ModuleNotFoundError as error:
        raise UsageError(
            f"--scheduler needs {error.name}; get it with `pip install statediff[cluster]`"
        ) from error
    # It tells of every worker that ends; so do we, in one line.
    for name in ("distributed", "distributed.nanny", "distributed.worker", "distributed.scheduler"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with dask.config.set({_SETTING: 0}):
        if address == LOCAL:
            cluster = LocalCluster(  # type: ignore[no-untyped-call]  # it has no annotations
                n_workers=number, threads_per_worker=1, processes=True, dashboard_address=None,
                resources={RESOURCE: 1}, host="127.0.0.1", silence_logs=logging.CRITICAL,
            )  # fmt: skip
            try:
                with Client(cluster) as client:  # type: ignore[no-untyped-call]
                    yield _workers(client, (KilledWorker,), tell)
            finally:
                # All that has a verdict is on the disk: nobody waits for ever for workers to end.
                # Those that have not are killed when this process ends, and reapers clean up.
                with suppress(TimeoutError):
                    cluster.close(timeout=CLOSE_SECONDS)
            return
        with _connected(Client, address) as client:
            yield _workers(client, (KilledWorker,), tell)


def _connected(client: Any, address: str) -> Any:
    if "://" not in address:
        raise UsageError(
            f"--scheduler {printable(address)[:80]!r}: expected `{LOCAL}`, or the address of a "
            "scheduler such as tcp://host:8786"
        )
    try:
        found = client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError, ImportError) as error:
        raise UsageError(
            f"{printable(address)[:80]}: no scheduler answers: {error}; start one with "
            f"`{_VARIABLE}=0 dask scheduler`"
        ) from error
    allowed = found.run_on_scheduler(_allowed_failures)
    if allowed != 0:
        found.close()
        raise UsageError(
            f"{printable(address)[:80]}: this scheduler gives a task to another worker up to "
            f"{allowed} times when one is lost; trials must not be repeated unseen. Start it with "
            f"{_VARIABLE}=0"
        )
    return found


def _allowed_failures(dask_scheduler: Any) -> int:
    return int(dask_scheduler.allowed_failures)


def _workers(
    client: Any, lost: tuple[type[BaseException], ...], tell: Callable[[str], None]
) -> Workers:
    room = _Room(client, tell)
    executor = client.get_executor(pure=False, retries=0, resources={RESOURCE: 1})
    # What is at work on another machine cannot be ended from here; it ends by itself, and counts.
    # None is handed over ahead: Dask takes what waits at a lost worker for lost, too.
    return Workers(executor, room, lambda: executor.shutdown(wait=False), lost)


class _Room:
    """How many trials a cluster makes at once; workers come and go."""

    def __init__(self, client: Any, tell: Callable[[str], None]) -> None:
        self._client = client
        self._tell = tell
        self._found = 0
        self._looked_at = 0.0
        self._seen_at = self._had_at = time.monotonic()
        self._is_told = False

    def __call__(self) -> int:
        now = time.monotonic()
        if now - self._looked_at < LOOK_SECONDS:
            return self._found
        self._looked_at = now
        try:
            found = self._client.scheduler_info(n_workers=-1)["workers"].values()
            is_seen = self._client.status == "running"
        except (OSError, TimeoutError, RuntimeError):
            is_seen, found = False, ()
        if is_seen:
            self._seen_at = now
        elif now - self._seen_at > GONE_SECONDS:
            raise HarnessError(
                "the scheduler is gone; what has a verdict is kept: say the same with --resume"
            )
        self._found = int(sum(each.get("resources", {}).get(RESOURCE, 0) for each in found))
        if self._found:
            self._had_at, self._is_told = now, False
        elif is_seen:
            self._miss(now - self._had_at)
        return self._found

    def _miss(self, seconds: float) -> None:
        """No worker has room, for so long."""
        started = f"start some with `dask worker ADDRESS --nthreads 1 --resources {RESOURCE}=1`"
        if seconds > ROOM_SECONDS:
            raise HarnessError(
                f"the cluster has had no worker with room for a sandbox for {ROOM_SECONDS:.0f} s; "
                f"{started}, and say the same with --resume: what has a verdict is kept"
            )
        if seconds > CONNECT_SECONDS and not self._is_told:
            self._is_told = True
            self._tell(
                "the cluster has no worker with room for a sandbox; one is waited for until "
                f"{ROOM_SECONDS:.0f} s have passed: {started}"
            )
