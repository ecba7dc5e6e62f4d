"""Long work done piece by piece, by one process or several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import typer

Piece = TypeVar("Piece")
Done = TypeVar("Done")

Keep = Annotated[
    Path | None,
    typer.Option(
        "--keep",
        metavar="FOLDER",
        help="Keep what each piece of the work gave, and go on from there the next time.",
    ),
]


def worked(
    work: Callable[[Piece], Done], pieces: Sequence[Piece], jobs: int,
    tell: Callable[[Piece, Done], None],
) -> list[Done]:  # fmt: skip
    """What the work made of each piece, in their order; `tell` hears of each as soon as it is done.

    `work` is a function of a module. An interrupt lets the pieces in hand end and begins no other.
    """
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed

    from statediff.importers.workers import uninterrupted

    found: dict[int, Done] = {}
    if jobs == 1 or len(pieces) == 1:
        for at, piece in enumerate(pieces):
            found[at] = work(piece)
            tell(piece, found[at])
        return list(found.values())
    # Spawned, not forked: a fork copies the locks of Arrow's threads, held or not.
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _deaf) as pool:
        with uninterrupted():
            futures = {pool.submit(work, piece): at for at, piece in enumerate(pieces)}
        try:
            for future in as_completed(futures):
                at = futures[future]
                found[at] = future.result()
                tell(pieces[at], found[at])
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    return [found[at] for at in range(len(pieces))]


def _deaf() -> None:
    """An interrupt is the parent's to answer: what is in hand ends, and nothing else begins."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
