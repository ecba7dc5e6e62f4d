"""numpy and pyarrow, imported without what a process of our own never needs."""

from __future__ import annotations

import os
import sys
from importlib.abc import MetaPathFinder
from typing import Final


class _NoPandas(MetaPathFinder):
    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ImportError("not now")


_THREADS: Final = "OPENBLAS_NUM_THREADS"


def import_sparingly() -> None:
    """For processes that are ours alone, before anything else imports the two.

    numpy starts a thread a processor for matrices, each of which spins. pyarrow imports pandas at
    its first array, if it can, which takes a fifth of a second to a whole one. It cannot yet. A
    source's own function may import pandas; to pyarrow its series are sequences.
    """
    threads = os.environ.get(_THREADS)
    os.environ[_THREADS] = "1"
    try:
        import pyarrow as pa  # noqa: PLC0415 - it is what is imported here
    finally:
        del os.environ[_THREADS]
        if threads is not None:
            os.environ[_THREADS] = threads
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, finder := _NoPandas())
        try:
            pa.array([0])
        finally:
            sys.meta_path.remove(finder)
