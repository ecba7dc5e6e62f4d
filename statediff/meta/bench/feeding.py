"""The state after by PostgreSQL's feed with its guard, by `benchmarks/feeds.py` of a checkout.

Two ratios: how its time grows from a table to one ten times as large, and how much faster it is
than our own scan. That program fills the server, watches, and checks the feed against a scan.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping

from statediff.errors import StatediffError
from statediff.meta.bench.registry import Limit, NotRun, Plan, Row, Wrong, measure


@measure("feed-postgres", "delta")
def postgres_feed(plan: Plan) -> Iterator[Row]:
    """After-capture by feed at two sizes, and beside a scan at the smaller one."""
    try:
        feeds = importlib.import_module("benchmarks.feeds")
    except ImportError as error:
        raise NotRun(
            f"it runs from a checkout, with Docker and the extra docker ({error})"
        ) from error
    try:
        small = feeds.after_by_feed(plan.rows, plan.repeats, plan.repeats)
        large = feeds.after_by_feed(plan.large_rows, plan.repeats, 0)
    except StatediffError as error:
        raise NotRun(str(error)) from error
    except AssertionError as error:
        raise Wrong(f"the feed and a scan disagree: {error}") from error
    yield from _rows(plan, small, large)


def _rows(plan: Plan, small: Mapping[str, float], large: Mapping[str, float]) -> Iterator[Row]:
    note = f"medians of {plan.repeats}, 10 changes in one transaction, the guard included"
    for name, limit, value, floor, is_faster in (
        (
            f"after-capture by feed, {plan.large_rows:,} rows", Limit(1.5),
            large["feed"], small["feed"], False,
        ),
        (
            f"after-capture by feed, {plan.rows:,} rows", Limit(50, is_most=False),
            small["feed"], small["scan"], True,
        ),
    ):  # fmt: skip
        ratio = float(f"{floor / value if is_faster else value / floor:.4g}")
        beside = "our own scan" if is_faster else f"the same at {plan.rows:,} rows"
        told = f"beside {beside}; {note}"
        yield Row(name, "delta", value, "ms", floor, ratio, limit, note=told)
