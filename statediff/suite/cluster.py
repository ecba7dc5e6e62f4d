"""Trials on a Dask cluster: on the machines that somebody started workers on, or on this one.

A worker has as many places for trials as it was started with: `dask worker … --resources
sandbox=1`. Dask itself tries nothing again: `retries=0`, and a scheduler that gives the task of a
lost worker to another one is refused (`allowed-failures`). Two equal tasks are two (`pure=False`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
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
_SETTING: Final = "distributed.scheduler.allowed-failures"
_VARIABLE: Final = "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES"


@contextmanager
def on_cluster(address: str, number: int) -> Iterator[Workers]:
    """The workers of the scheduler at `address`; for `local`, so many processes and a scheduler.

    `UsageError` where there is no such cluster, or one that must not be used.
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
                    yield _workers(client, (KilledWorker,))
            finally:
                # All that has a verdict is on the disk: nobody waits for ever for workers to end.
                # Those that have not are killed when this process ends, and keepers tidy up.
                with suppress(TimeoutError):
                    cluster.close(timeout=CLOSE_SECONDS)
            return
        with _connected(Client, address) as client:
            yield _workers(client, (KilledWorker,))


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


def _workers(client: Any, lost: tuple[type[BaseException], ...]) -> Workers:
    room = _Room(client)
    until = time.monotonic() + CONNECT_SECONDS
    while not room() and time.monotonic() < until:
        time.sleep(LOOK_SECONDS)
    if not room():
        raise UsageError(
            "the cluster has no worker with room for a sandbox; start some with "
            f"`dask worker ADDRESS --nthreads 1 --resources {RESOURCE}=1`"
        )
    executor = client.get_executor(pure=False, retries=0, resources={RESOURCE: 1})
    # What is at work on another machine cannot be ended from here; it ends by itself, and counts.
    return Workers(executor, room, lambda: executor.shutdown(wait=False), lost, ahead=2)


class _Room:
    """How many trials a cluster makes at once; workers come and go."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._found = 0
        self._looked_at = 0.0
        self._seen_at = time.monotonic()

    def __call__(self) -> int:
        if time.monotonic() - self._looked_at < LOOK_SECONDS:
            return self._found
        self._looked_at = time.monotonic()
        try:
            found = self._client.scheduler_info(n_workers=-1)["workers"].values()
            is_seen = self._client.status == "running"
        except (OSError, TimeoutError, RuntimeError):
            is_seen, found = False, ()
        if is_seen:
            self._seen_at = time.monotonic()
        elif time.monotonic() - self._seen_at > GONE_SECONDS:
            raise HarnessError(
                "the scheduler is gone; what has a verdict is kept: say the same with --resume"
            )
        self._found = int(sum(each.get("resources", {}).get(RESOURCE, 0) for each in found))
        return self._found
