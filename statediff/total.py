"""Steps of a trial whose agent has begun: a failure is data, and never ends the trial.

What fails is tried once more, by no condition: a busy disk, a full table of descriptors or a lack
of memory may be over. What fails again is handed to the caller, who says what stands for it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Final, TypeVar

from statediff.errors import StatediffError

T = TypeVar("T")
_LONGEST: Final = 300


def twice(step: Callable[[], T], passing: tuple[type[Exception], ...] = ()) -> T:
    """The result of the step, which is tried once more where it fails, and then raises.

    Errors of the types `passing` are raised at once.
    """
    try:
        return step()
    except passing:
        raise
    except ImportError:
        importlib.invalidate_caches()  # a folder that could not be listed counts as empty
    except Exception:  # noqa: BLE001, S110 - the second try says what it is
        pass
    return step()


def in_any_case(
    step: Callable[[], T],
    instead: Callable[[Exception], T],
    passing: tuple[type[Exception], ...] = (),
) -> T:
    """The result of the step, or what `instead` makes of its second failure.

    Errors of the types `passing` go to the caller at once.
    """
    try:
        return twice(step, passing)
    except passing:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, it is data
        return instead(error)


def words_of(error: BaseException) -> str:
    """The error in one line; of the operating system's, without the place where it happened."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = " ".join(str(error).split())[:_LONGEST]
    return text if isinstance(error, StatediffError) else f"{type(error).__name__}: {text}"
