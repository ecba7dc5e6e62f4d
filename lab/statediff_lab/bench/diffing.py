"""Diffs of two large states in memory: ours over memcmp, and beside the peers' own best forms."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from statediff.kernel.diff import diff
from statediff.model.delta import Op
from statediff.model.state import State
from statediff_lab.bench.orders import NAMES, Changes, records, state, table, wanted_changes
from statediff_lab.bench.registry import (
    BenchLimit,
    BenchPlan,
    BenchRow,
    NotRun,
    Wrong,
    import_peer,
    measure,
    time_in_turn,
    time_row,
)

_OPS = {Op.CREATE: "create", Op.DELETE: "delete", Op.UPDATE: "update"}


def our_changes(before: State, after: State, *, trust_digests: bool) -> Changes:
    """Our diff, with or without the digests that the store computed when the state was put."""
    found = diff(before, after, trust_digests=trust_digests)
    return frozenset((_OPS[d.op], int(str(d.key[0])), d.path) for d in found.deltas)


def check_changes(right: Changes) -> Callable[[str, Changes | None], None]:
    """A check that a contender named these changes and no others."""

    def check(name: str, found: Changes | None) -> None:
        if found is not None and found != right:
            raise Wrong(
                f"{name} is wrong about {sorted(found ^ right)[:5]}: its times count for nothing"
            )

    return check


def memcmp(before: State, after: State) -> Callable[[], None]:
    """A plain memcmp of all bytes of both states, chunk by chunk: the floor."""
    compare = ctypes.CDLL(None).memcmp
    compare.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    spans = []
    pairs = list(zip(*(s.tables["order"].batches() for s in (before, after)), strict=True))
    for one, two in pairs:
        for left, right in zip(one.columns, two.columns, strict=True):
            for a, b in zip(left.buffers(), right.buffers(), strict=True):
                if a is not None and b is not None:
                    spans.append((a.address, b.address, min(a.size, b.size)))

    def every(_held: object = pairs) -> None:  # what is compared must not be given back
        for span in spans:
            compare(*span)

    return every


@measure("diff-memory", "diff")
def in_memory(plan: BenchPlan) -> Iterator[BenchRow]:
    """Every byte compared, over memcmp; and with the digests that the store has anyway."""
    before, after = state(plan.rows, 0), state(plan.rows, plan.changes)
    taken = time_in_turn(
        {
            "memcmp": memcmp(before, after),
            "every byte": lambda: our_changes(before, after, trust_digests=False),
            "digests": lambda: our_changes(before, after, trust_digests=True),
        },
        max(plan.repeats, 5) * 3,  # milliseconds each
        check_changes(wanted_changes(plan.rows, plan.changes)),
    )
    size = f"{plan.rows:,} x 10, {plan.changes} changes"
    yield time_row("memcmp of both states", "diff", taken["memcmp"], note=f"the floor; {size}")
    yield time_row(
        "diff, no cached digests",
        "diff",
        taken["every byte"],
        floor=taken["memcmp"],
        target=BenchLimit(2),
        note=size,
    )
    yield time_row(
        "diff, stored digests",
        "diff",
        taken["digests"],
        floor=taken["memcmp"],
        target=BenchLimit(5, "value"),
        note=size,
    )


@measure("diff-peers", "diff")
def beside_peers(plan: BenchPlan) -> Iterator[BenchRow]:
    """Each peer that is installed, at the size it can be asked for."""
    yield from _peer(
        "datacompy (polars)", plan, plan.rows, _datacompy, BenchLimit(10, is_most=False)
    )
    yield from _peer("DeepDiff", plan, plan.slow_rows, _deepdiff, BenchLimit(1000, is_most=False))
    yield from _peer("jsonpatch", plan, plan.slow_rows, _jsonpatch, None)


def _peer(
    name: str,
    plan: BenchPlan,
    rows: int,
    make: Callable[[BenchPlan, int], Callable[[], Changes]],
    target: BenchLimit | None,
) -> Iterator[BenchRow]:
    title = f"diff beside {name}"
    try:
        peer = make(plan, rows)
    except NotRun as reason:
        yield BenchRow(title, "diff", None, "ms", target=target, note=f"not run: {reason}")
        return
    before, after = state(rows, 0), state(rows, plan.changes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        taken = time_in_turn(
            {"ours": lambda: our_changes(before, after, trust_digests=False), "peer": peer},
            plan.repeats,
            check_changes(wanted_changes(rows, plan.changes)),
        )
    note = f"{rows:,} x 10, {plan.changes} changes (ratio: how many times faster)"
    yield time_row(title, "diff", taken["ours"], peer=taken["peer"], target=target, note=note)


def _frames(plan: BenchPlan, rows: int) -> list[Any]:
    polars = import_peer("polars")
    return [
        polars.from_arrow(table(rows, changes))
        .rechunk()
        .with_columns(polars.col("id").set_sorted())
        for changes in (0, plan.changes)
    ]


def _datacompy(plan: BenchPlan, rows: int) -> Callable[[], Changes]:
    """Datacompy's polars comparison and its own accessors for what differs."""
    datacompy = import_peer("datacompy")
    before, after = _frames(plan, rows)

    def compare() -> Changes:
        found = datacompy.PolarsCompare(before, after, join_columns="id")
        changes = {("delete", key, "") for key in found.df1_unq_rows["id"]}
        changes |= {("create", key, "") for key in found.df2_unq_rows["id"]}
        for row in found.all_mismatch().iter_rows(named=True):
            for name in NAMES[1:]:
                if row[f"{name}_df1"] != row[f"{name}_df2"]:
                    changes.add(("update", row["id"], name))
        return frozenset(changes)

    return compare


def _deepdiff(plan: BenchPlan, rows: int) -> Callable[[], Changes]:
    """DeepDiff of dictionaries by id, with the settings that fix its blind spots."""
    deepdiff = import_peer("deepdiff")
    before, after = records(rows, 0), records(rows, plan.changes)

    def compare() -> Changes:
        found = deepdiff.DeepDiff(
            before,
            after,
            view="tree",
            ignore_private_variables=False,
            threshold_to_diff_deeper=0,
            zip_ordered_iterables=True,
        )
        changes = set()
        for kind, levels in found.items():
            for level in levels:
                path = level.path(output_format="list")
                operation = {"dictionary_item_added": "create", "dictionary_item_removed": "delete"}
                changes.add(
                    (operation.get(kind, "update"), int(path[0]), path[1] if len(path) > 1 else "")
                )
        return frozenset(changes)

    return compare


def _jsonpatch(plan: BenchPlan, rows: int) -> Callable[[], Changes]:
    """A JSON Patch between the two documents."""
    jsonpatch = import_peer("jsonpatch")
    before, after = records(rows, 0), records(rows, plan.changes)

    def compare() -> Changes:
        operations = {"add": "create", "remove": "delete", "replace": "update"}
        changes = set()
        for step in jsonpatch.make_patch(before, after):
            key, _, name = step["path"][1:].partition("/")
            changes.add((operations[step["op"]], int(key), name))
        return frozenset(changes)

    return compare
