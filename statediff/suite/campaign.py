"""Episodes carried out by workers, each reported as it ends; and the sandboxes they keep running.

1. The workers get as many episodes as they have room for, and no more.
2. What ends is reported; what may well end otherwise is begun anew, a bounded number of times.
3. A lost worker costs the one episode that it was at.

Whatever ends the iteration early, Ctrl-C too: no further episode begins, those that run are asked
to end and have ended, and what they had finished is still reported.

Workers are threads of this process, processes of its own, or a Dask cluster: all are executors.
None of them tries anything twice by itself: the caller decides that. A worker of a cluster has as
many places for trials as it was started with: `dask worker … --resources sandbox=1`. Dask itself
tries nothing again: `retries=0`, and a scheduler that gives the task of a lost worker to another
one is refused (`allowed-failures`). Two equal tasks are two (`pure=False`). Workers come and go:
where there is none now, one is waited for, `ROOM_SECONDS` at most.

A process keeps its sandboxes running from one trial to the next. A lease is exclusive. A sandbox in
which something failed is ended and not handed out again. Everything is in one temporary folder; a
reaper removes it and ends the agents in it should this process be killed (see
`statediff.systems.base.reaper`).
"""

from __future__ import annotations

import logging
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    CancelledError,
    Executor,
    Future,
    wait,
)
from concurrent.futures import ThreadPoolExecutor as Threads
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from multiprocessing import util
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from statediff.errors import (
    AdapterError,
    HarnessError,
    SandboxError,
    StorageError,
    UnprovenBase,
    UsageError,
)
from statediff.harness import AT_LARGE
from statediff.model.values import printable
from statediff.packs import SandboxPack, sandbox_pack
from statediff.parallel import Inline, Processes, Start
from statediff.suite.pins import pack_digest
from statediff.systems.base.folders import clear
from statediff.systems.base.privacy import unreadable_memory
from statediff.systems.base.reaper import Reaper
from statediff.systems.base.sandbox import EmbeddedSandbox
from statediff.total import in_any_case

IDLE_SECONDS: Final = 30.0
MOST_FAILURES: Final = 3
"""So often a sandbox may fail to start, one time after the other, before nobody tries it again."""
_SandboxKey = tuple[str, str]
"""A sandbox's name and variant."""


class SandboxPool:
    """Sandboxes by name and variant, started when they are first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: dict[_SandboxKey, list[EmbeddedSandbox]] = {}
        self._root: Path | None = None
        self._reaper: Reaper | None = None
        self._lost: dict[_SandboxKey, tuple[type[SandboxError], str]] = {}
        """Those whose base is gone, or that do not start, with the cause; nobody waits for them."""
        self._failures: Counter[_SandboxKey] = Counter()
        self._made = 0
        self._leased = 0
        self._idle_since = time.monotonic()

    @contextmanager
    def lease(
        self, name: str, variant: str, expected: str | None = None
    ) -> Iterator[EmbeddedSandbox]:
        """A running sandbox that nobody else has, as its last user left it.

        `expected` is the digest of its files; `UnprovenBase` where they, or the base, are others.
        """
        with self._lock:
            if (lost := self._lost.get((name, variant))) is not None:
                raise lost[0](lost[1])
            self._leased += 1
            free = self._free.get((name, variant))
            sandbox = free.pop() if free else None
        is_sound, at_large = False, len(AT_LARGE)
        is_started = sandbox is not None
        try:
            if sandbox is None:
                pack = sandbox_pack(name, variant)
                _require_unchanged(pack, expected)
                sandbox = EmbeddedSandbox(pack, self._place())
                sandbox.start()
                self._failures[(name, variant)] = 0
                is_started = True
            yield sandbox
            is_sound = len(AT_LARGE) == at_large  # what may run still knows where this one is
        except (AdapterError, StorageError):
            is_sound = True  # nothing is wrong with the sandbox
            raise
        except UnprovenBase as error:
            self._lost[(name, variant)] = UnprovenBase, str(error)
            raise
        except SandboxError as error:
            if not is_started:
                self._failures[(name, variant)] += 1
                if self._failures[(name, variant)] >= MOST_FAILURES:
                    self._lost[(name, variant)] = SandboxError, str(error)
            raise
        finally:
            # After an interrupt, for one, nobody knows what is half done in it.
            if sandbox is not None and not is_sound:
                _stop(sandbox)
            with self._lock:
                if sandbox is not None and is_sound:
                    self._free.setdefault((name, variant), []).append(sandbox)
                self._leased -= 1
                self._idle_since = time.monotonic()

    def close(self, idle_seconds: float = 0.0) -> bool:
        """No sandbox is running, unless one is leased or was within so many seconds."""
        with self._lock:
            if self._leased or time.monotonic() - self._idle_since < idle_seconds:
                return False
            ended = [sandbox for free in self._free.values() for sandbox in free]
            self._free.clear()
            self._lost.clear()
            self._failures.clear()
            root, self._root = self._root, None
            reaper, self._reaper = self._reaper, None
        for sandbox in ended:
            _stop(sandbox)
        if root is not None:
            clear(str(root))
        if reaper is not None:
            reaper.release()
        return True

    def _place(self) -> Path:
        """A folder for one more sandbox; the reaper knows of it."""
        with self._lock:
            if self._root is None:
                self._root = Path(tempfile.mkdtemp(prefix="statediff-"))
                self._reaper = Reaper(clear, str(self._root))
            self._made += 1
            return self._root / str(self._made)


def _require_unchanged(pack: SandboxPack, expected: str | None) -> None:
    """The files of the sandbox are those that a run began with. `UnprovenBase`."""
    if expected is not None and pack_digest(pack) != expected:
        raise UnprovenBase(
            f"{pack.title}: {pack.file}, or a file that it names, has changed since the run was "
            "begun; undo that, or begin a new run"
        )


def _stop(sandbox: EmbeddedSandbox) -> None:
    # It failed already, or nobody waits for it; `clear` has the rest.
    in_any_case(sandbox.stop, lambda _: None)


POOL = SandboxPool()
"""Those of this process."""
# At the end of a worker's process too, where `atexit` is not asked.
util.Finalize(None, POOL.close, exitpriority=100)


def close_when_idle() -> None:
    """From now on sandboxes that nobody has used for a while are ended, by a thread.

    For the processes of a cluster: the process that wanted the sandboxes may be gone, unseen.
    """

    def watch() -> None:
        while True:
            time.sleep(IDLE_SECONDS / 4)
            POOL.close(IDLE_SECONDS)

    with _WATCHING:
        if not any(each.name == _WATCH for each in threading.enumerate()):
            threading.Thread(target=watch, name=_WATCH, daemon=True).start()


_WATCH = "statediff-idle-sandboxes"
_WATCHING = threading.Lock()


END_SECONDS: Final = 15.0
"""How long a worker that was asked to end may take; its reaper removes what it leaves."""


@dataclass(frozen=True)
class Workers:
    """An executor, and what must be known of it to make trials on it."""

    executor: Executor
    slots: Callable[[], int]
    """How many trials it makes at once, as of now."""
    halt: Callable[[], None]
    """Ask running work to end, and wait where that is possible."""


@contextmanager
def in_this_process(number: int, halt: Callable[[], None]) -> Iterator[Workers]:
    """So many threads; one is the caller's own, so that Ctrl-C reaches it at once."""
    executor: Executor = Inline() if number == 1 else Threads(number, thread_name_prefix="trial")

    def end() -> None:
        halt()
        executor.shutdown(wait=True, cancel_futures=True)

    try:
        yield Workers(executor, lambda: number, end)
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


@contextmanager
def processes(number: int, preload: Sequence[str] = ()) -> Iterator[Workers]:
    """So many processes. One that ends takes the trial with it that it was at, and no other.

    `preload` are the modules that what they do needs.
    """
    start = Start("forkserver", (__name__, *preload), END_SECONDS, _close_sandboxes)
    executor = Processes(number, start)

    def end() -> None:
        executor.halt()
        executor.shutdown(wait=True, cancel_futures=True)

    try:
        with unreadable_memory():  # as the workers' is, while their agents run
            yield Workers(executor, lambda: number, end)
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _close_sandboxes() -> None:
    POOL.close()


RESOURCE: Final = "sandbox"
LOCAL: Final = "local"
CONNECT_SECONDS: Final = 20
CLUSTER_LOOK_SECONDS: Final = 1.0
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

    `tell` learns, once, that workers are waited for. `UsageError` where there is no such cluster,
    or one that must not be used.
    """
    try:
        import dask  # noqa: PLC0415 - an extra
        from distributed import Client, LocalCluster  # noqa: PLC0415 - an extra, and slow
        from distributed.security import Security  # noqa: PLC0415 - as above
    except ModuleNotFoundError as error:
        raise UsageError(
            f"--scheduler needs {error.name}; get it with `pip install statediff[cluster]`"
        ) from error
    # It tells of every worker that ends; so do we, in one line.
    for name in ("distributed", "distributed.nanny", "distributed.worker", "distributed.scheduler"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with dask.config.set({_SETTING: 0}):
        if address == LOCAL:
            # A scheduler runs programs for all who reach it: here for this command only.
            cluster = LocalCluster(  # type: ignore[no-untyped-call]  # it has no annotations
                security=Security.temporary(),  # type: ignore[no-untyped-call]  # as above
                protocol="tls",
                n_workers=number,
                threads_per_worker=1,
                processes=True,
                dashboard_address=None,
                resources={RESOURCE: 1},
                host="127.0.0.1",
                silence_logs=logging.CRITICAL,
            )
            try:
                with Client(cluster) as client:  # type: ignore[no-untyped-call]  # dask has no types
                    yield _cluster_workers(client, tell)
            finally:
                # All that has a verdict is on the disk: nobody waits for ever for workers to end.
                # Those that have not are killed when this process ends, and reapers clean up.
                with suppress(TimeoutError):
                    cluster.close(timeout=CLOSE_SECONDS)
            return
        with _connect(Client, address) as client:
            yield _cluster_workers(client, tell)


def _connect(client: Any, address: str) -> Any:
    if "://" not in address:
        raise UsageError(
            f"--scheduler {printable(address)[:80]!r}: expected `{LOCAL}`, or the address of a "
            "scheduler such as tls://host:8786"
        )
    try:
        found = client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError, ImportError) as error:
        raise UsageError(
            f"{printable(address)[:80]}: no scheduler answers: {error}; start one with "
            f"`{_VARIABLE}=0 dask scheduler`"
        ) from error
    allowed = found.run_on_scheduler(_failures_allowed)
    if allowed != 0:
        found.close()
        raise UsageError(
            f"{printable(address)[:80]}: this scheduler gives a task to another worker up to "
            f"{allowed} times when one is lost; trials must not be repeated unseen. Start it with "
            f"{_VARIABLE}=0"
        )
    return found


def _failures_allowed(dask_scheduler: Any) -> int:
    return int(dask_scheduler.allowed_failures)


def _cluster_workers(client: Any, tell: Callable[[str], None]) -> Workers:
    room = _ClusterRoom(client, tell)
    executor = client.get_executor(pure=False, retries=0, resources={RESOURCE: 1})
    # What is at work on another machine cannot be ended from here; it ends by itself, and counts.
    # None is handed over ahead: Dask takes what waits at a lost worker for lost, too.
    return Workers(executor, room, lambda: executor.shutdown(wait=False))


class _ClusterRoom:
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
        if now - self._looked_at < CLUSTER_LOOK_SECONDS:
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


E = TypeVar("E")
O = TypeVar("O")  # noqa: E741 - an outcome, as E is an episode
LOOK_SECONDS: Final = 0.5
"""How often somebody looks up though nothing ended: rooms may have come, and times go on."""


@dataclass(frozen=True)
class CampaignRules(Generic[E, O]):
    """An episode, as far as its worker needs to know."""

    play: Callable[[E], O]
    """A function of a module: workers may be other processes."""
    lost: Callable[[E, BaseException], O]
    """The outcome of an episode whose worker ended."""
    again: Callable[[E, O], E | None]
    """The episode to try instead of an outcome that does not count yet; None if it counts."""
    goes_on: Callable[[], bool] = lambda: True
    """True if another episode may begin."""
    looked: Callable[[], None] = lambda: None
    """Called now and then while nothing ends."""


def carry_out(episodes: Iterable[E], workers: Workers, rules: CampaignRules[E, O]) -> Generator[O]:
    """The outcome of every episode, in the order in which they end."""
    left, first = iter(episodes), deque[E]()
    running: dict[Future[O], E] = {}
    try:
        while True:
            is_all = _fill(left, first, running, workers, rules)
            if not running and is_all:
                return
            if not running:  # there is no worker now; one may come
                time.sleep(LOOK_SECONDS)
            done, _ = wait(running, LOOK_SECONDS, FIRST_COMPLETED)
            rules.looked()
            for future in done:
                episode = running.pop(future)
                outcome = _outcome(future, episode, rules)
                other = rules.again(episode, outcome)
                if other is None:
                    yield outcome
                else:
                    first.append(other)
    except KeyboardInterrupt:
        _halt(running, workers)
        for future, episode in running.items():
            if not future.cancelled() and future.exception() is None:
                outcome = future.result()
                if rules.again(episode, outcome) is None:
                    yield outcome
        raise
    finally:
        _halt(running, workers)


def _fill(
    left: Iterator[E],
    first: deque[E],
    running: dict[Future[O], E],
    workers: Workers,
    rules: CampaignRules[E, O],
) -> bool:
    """As many run as there is room for, those that are tried again first; whether these are all."""
    slots = workers.slots()
    if not slots and not running:
        # Nobody waits for a worker that there is nothing for.
        if rules.goes_on() and not first:
            first.extend(islice(left, 1))
        return not first or not rules.goes_on()
    while len(running) < slots:
        if not rules.goes_on():
            return True
        if first:
            episode = first.popleft()
        else:
            try:
                episode = next(left)
            except StopIteration:
                return True
        running[workers.executor.submit(rules.play, episode)] = episode
    return False


def _outcome(future: Future[O], episode: E, rules: CampaignRules[E, O]) -> O:
    # Asked for before it is raised: an interrupt of ours is none of the worker's.
    error = CancelledError() if future.cancelled() else future.exception()
    # What an episode itself raises is for the caller of the run; all else befell its worker.
    if error is not None and isinstance(error, Exception) and not isinstance(error, UsageError):
        return rules.lost(episode, error)
    return future.result()


def _halt(running: dict[Future[O], E], workers: Workers) -> None:
    waiting = [future for future in running if not future.done()]
    for future in waiting:
        future.cancel()
    if waiting:
        workers.halt()
