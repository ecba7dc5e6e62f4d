"""The diff of two large states with ten changes, beside datacompy and a polars join.

    python benchmarks/diff.py [--rows 1000000] [--repeats 7] [--json]

All contenders start from inputs in memory in their own best form (ours: chunked Arrow; theirs: one
polars frame with the key marked as sorted) and must name the same ten changes. Times are medians
of interleaved runs in one process. Memory is the rise of peak resident memory over the loaded
inputs, one process each. The main measure does not use stored digests: every byte is compared.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import logging
import os
import platform
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from statediff.diff import DiffOptions, diff
from statediff.model.delta import Op
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.state import CHUNK_KEYS, MemoryChunks, State, Table, encode_rows

ORDER = EntityType(
    "order",
    ("id",),
    (
        Field("id", Kind.INT),
        Field("customer", Kind.INT, reference="customer"),
        Field("quantity", Kind.INT),
        Field("weight", Kind.FLOAT),
        Field("discount", Kind.FLOAT),
        Field("price", Kind.DECIMAL),
        Field("status", Kind.TEXT),
        Field("email", Kind.TEXT),
        Field("paid", Kind.BOOL),
        Field("updated_at", Kind.TIMESTAMP),
    ),
)
NAMES = [field.name for field in ORDER.fields]
UPDATED = ["customer", "quantity", "weight", "price", "status", "updated_at"]
NEW: dict[str, Any] = {
    "customer": -1, "quantity": -1, "weight": -1.5, "price": "-1.00", "status": "changed",
    "updated_at": datetime(2031, 1, 1, tzinfo=UTC),
}  # fmt: skip
Changes = set[tuple[str, int, str]]
"""(operation, id, field or empty)."""


# --- inputs --------------------------------------------------------------------------------------


def schema() -> pa.Schema:
    """The Arrow schema of the chunks, with the forms that statediff marks columns with."""
    sample = {
        "id": 1, "customer": 1, "quantity": 1, "weight": 1.0, "discount": 1.0,
        "price": Decimal("1.00"), "status": "", "email": "", "paid": True,
        "updated_at": datetime(2026, 1, 1, tzinfo=UTC),
    }  # fmt: skip
    return encode_rows(ORDER, [((1,), sample)]).schema


def columns(start: int, stop: int) -> dict[str, pa.Array]:
    """Rows `start` to `stop` of the base, freshly allocated; ids are even."""
    n = np.arange(start, stop, dtype=np.int64)
    mixed = (n * 2654435761) % 4294967296
    statuses = np.array(["new", "paid", "packed", "shipped", "returned"])
    cents = (mixed % 90000 + 100).tolist()
    return {
        "id": pa.array(n * 2),
        "customer": pa.array(mixed % 50000),
        "quantity": pa.array(mixed % 9 + 1),
        "weight": pa.array((mixed % 1000) / 8),
        "discount": pa.array((mixed % 7) / 7, mask=mixed % 5 == 0),
        "price": pa.array([f"{c // 100}.{c % 100:02d}" for c in cents]),
        "status": pa.array(statuses[mixed % 5]),
        "email": pa.array([f"customer{m}@example.org" for m in (mixed % 50000).tolist()]),
        "paid": pa.array(mixed % 3 == 0),
        "updated_at": pa.array(
            1_767_225_600_000_000 + mixed * 1000, type=pa.timestamp("us", tz="UTC")
        ),
    }


def plan(rows: int) -> tuple[dict[int, str], set[int], set[int]]:
    """Updated row → field, deleted rows, and rows after which a new one stands; spread evenly."""
    places = [rows * (2 * i + 1) // 20 for i in range(10)]
    return dict(zip(places[:6], UPDATED, strict=True)), set(places[6:8]), set(places[8:])


def wanted(rows: int) -> Changes:
    """The ten changes."""
    updated, deleted, created = plan(rows)
    changes = {("update", 2 * at, name) for at, name in updated.items()}
    changes |= {("delete", 2 * at, "") for at in deleted}
    return changes | {("create", 2 * at + 1, "") for at in created}


def changed(part: dict[str, pa.Array], start: int, rows: int) -> dict[str, pa.Array]:
    """The part with the changes that fall into it."""
    updated, deleted, created = plan(rows)
    size = len(part["id"])
    if not any(start <= at < start + size for at in (*updated, *deleted, *created)):
        return part
    lists = {name: array.to_pylist() for name, array in part.items()}
    for at in reversed(range(start, start + size)):
        if at in updated:
            lists[updated[at]][at - start] = NEW[updated[at]]
        for name, values in lists.items():
            if at in created:
                values.insert(at - start + 1, 2 * at + 1 if name == "id" else values[at - start])
            if at in deleted:
                del values[at - start]
    return {name: pa.array(values, part[name].type) for name, values in lists.items()}


def parts(rows: int, is_after: bool) -> Iterator[dict[str, pa.Array]]:
    """One state, chunk by chunk."""
    for start in range(0, rows, CHUNK_KEYS):
        part = columns(start, min(start + CHUNK_KEYS, rows))
        yield changed(part, start, rows) if is_after else part


def state(rows: int, is_after: bool) -> State:
    """One state in our form."""
    store = MemoryChunks()
    form = schema()
    chunks = tuple(
        store.put(pa.RecordBatch.from_arrays([part[name] for name in NAMES], schema=form))
        for part in parts(rows, is_after)
    )
    cuts = tuple((2 * at,) for at in range(CHUNK_KEYS, rows, CHUNK_KEYS))
    table = Table(ORDER, chunks, cuts, store)
    return State(Schema("bench", "1", (ORDER,)), {"order": table})


def frame(rows: int, is_after: bool) -> Any:
    """One state as a polars frame, contiguous, with the key marked as sorted."""
    import polars as pl  # noqa: PLC0415 - other contenders' memory is measured without it

    table = pa.concat_tables([pa.table(part) for part in parts(rows, is_after)])
    loaded = pl.from_arrow(table.combine_chunks())
    assert isinstance(loaded, pl.DataFrame)
    return loaded.rechunk().with_columns(pl.col("id").set_sorted())


# --- contenders ----------------------------------------------------------------------------------


def ours(trust_digests: bool) -> Callable[[State, State], Changes]:
    """Our diff, with or without the digests that the store computed when the state was put."""
    options = DiffOptions(trust_digests=trust_digests)

    def run(before: State, after: State) -> Changes:
        found = diff(before, after, options=options)
        names = {Op.CREATE: "create", Op.DELETE: "delete", Op.UPDATE: "update"}
        return {(names[d.op], int(str(d.key[0])), d.path) for d in found.deltas}

    return run


def polars_join(before: Any, after: Any) -> Changes:
    """One full join, then the rows that are on one side only or differ in a column."""
    import polars as pl  # noqa: PLC0415 - other contenders' memory is measured without it

    others = NAMES[1:]
    differs = {name: pl.col(name).ne_missing(pl.col(f"{name}_after")) for name in others}
    one_sided = pl.col("id").is_null() | pl.col("id_after").is_null()
    found = (
        before.lazy()
        .join(after.lazy(), on="id", how="full", suffix="_after")
        .filter(one_sided | pl.any_horizontal(differs.values()))
        .with_columns(**{f"{name}_differs": expr for name, expr in differs.items()})
        .collect()
    )
    changes: Changes = set()
    for row in found.iter_rows(named=True):
        if row["id"] is None:
            changes.add(("create", row["id_after"], ""))
        elif row["id_after"] is None:
            changes.add(("delete", row["id"], ""))
        else:
            changes |= {("update", row["id"], n) for n in others if row[f"{n}_differs"]}
    return changes


def polars_anti(before: Any, after: Any) -> Changes:
    """An inner join for the updates, two anti joins for the rest."""
    import polars as pl  # noqa: PLC0415 - other contenders' memory is measured without it

    others = NAMES[1:]
    differs = {name: pl.col(name).ne_missing(pl.col(f"{name}_after")) for name in others}
    one, two = before.lazy(), after.lazy()
    ids = pl.col("id")
    updated, gone, new = pl.collect_all(
        [
            one.join(two, on="id", suffix="_after")
            .filter(pl.any_horizontal(differs.values()))
            .select(ids, **differs),
            one.select(ids).join(two.select(ids), on="id", how="anti"),
            two.select(ids).join(one.select(ids), on="id", how="anti"),
        ]
    )
    changes: Changes = {("delete", key, "") for key in gone["id"]}
    changes |= {("create", key, "") for key in new["id"]}
    for row in updated.iter_rows(named=True):
        changes |= {("update", row["id"], n) for n in others if row[n]}
    return changes


def datacompy_polars(before: Any, after: Any) -> Changes:
    """Datacompy's polars comparison and its own accessors for what differs."""
    import datacompy  # noqa: PLC0415 - other contenders' memory is measured without it

    found = datacompy.PolarsCompare(before, after, join_columns="id")
    changes: Changes = {("delete", key, "") for key in found.df1_unq_rows["id"]}
    changes |= {("create", key, "") for key in found.df2_unq_rows["id"]}
    for row in found.all_mismatch().iter_rows(named=True):
        for name in NAMES[1:]:
            if row[f"{name}_df1"] != row[f"{name}_df2"]:
                changes.add(("update", row["id"], name))
    return changes


def memcmp(before: State, after: State) -> Callable[[], int]:
    """A plain memcmp of all bytes of both states, chunk by chunk: the floor."""
    compare = ctypes.CDLL(None).memcmp
    compare.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    spans = []
    for one, two in zip(*(s.tables["order"].batches() for s in (before, after)), strict=True):
        for left, right in zip(one.columns, two.columns, strict=True):
            for a, b in zip(left.buffers(), right.buffers(), strict=True):
                if a is not None and b is not None:
                    spans.append((a.address, b.address, min(a.size, b.size)))

    def run() -> int:
        return sum(compare(*span) != 0 for span in spans)

    return run


CONTENDERS: dict[str, tuple[Callable[[int, bool], Any], Callable[[Any, Any], Changes]]] = {
    "statediff": (state, ours(trust_digests=False)),
    "statediff, stored digests": (state, ours(trust_digests=True)),
    "polars full join": (frame, polars_join),
    "polars inner + anti joins": (frame, polars_anti),
    "datacompy (polars)": (frame, datacompy_polars),
}


# --- measuring -----------------------------------------------------------------------------------


def times(rows: int, repeats: int) -> dict[str, list[float]]:
    """Seconds per contender, interleaved; checks that each finds the ten changes."""
    inputs: dict[Any, tuple[Any, Any]] = {}
    for load, _ in CONTENDERS.values():
        if load not in inputs:
            inputs[load] = load(rows, False), load(rows, True)
    floor = memcmp(*inputs[state])
    taken: dict[str, list[float]] = {name: [] for name in ("memcmp", *CONTENDERS)}
    right = wanted(rows)
    for repeat in range(repeats + 1):  # the first round warms up
        for name, seconds in taken.items():
            gc.collect()
            started = time.perf_counter()
            if name == "memcmp":
                floor()
            else:
                load, run = CONTENDERS[name]
                found = run(*inputs[load])
            elapsed = time.perf_counter() - started
            if name != "memcmp" and found != right:
                raise SystemExit(f"{name} found {sorted(found ^ right)[:5]} wrong or missing")
            if repeat:
                seconds.append(elapsed)
    return taken


def child(name: str, rows: int) -> dict[str, int]:
    """Peak resident memory over the loaded inputs while one contender runs once, in bytes."""
    load, run = CONTENDERS[name]
    before, after = load(rows, False), load(rows, True)
    size = sum(
        s.estimated_size() if load is frame
        else sum(batch.nbytes for batch in s.tables["order"].batches())
        for s in (before, after)
    )  # fmt: skip
    # A comparison of nothing loads the code, so that only the work is measured.
    run(load(20, False), load(20, True))
    gc.collect()
    pa.default_memory_pool().release_unused()
    arrow = pa.total_allocated_bytes()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets the peak
    loaded = resident("VmRSS")
    found = run(before, after)
    peak = resident("VmHWM")
    assert found == wanted(rows)
    kept = pa.total_allocated_bytes() - arrow
    return {"input_bytes": size, "peak_bytes": max(0, peak - loaded), "arrow_kept_bytes": kept}


def resident(what: str) -> int:
    """A line of /proc/self/status in bytes."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(what):
            return int(line.split()[1]) * 1024
    raise SystemExit(f"/proc/self/status has no {what}; memory is measured on Linux only")


def main() -> None:
    """Measure, and print a table or one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", choices=list(CONTENDERS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    if arguments.child:
        print(json.dumps(child(arguments.child, arguments.rows)))
        return
    rows = arguments.rows
    memory = {}
    for name in CONTENDERS:
        command = [sys.executable, __file__, "--rows", str(rows), "--child", name]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        memory[name] = json.loads(done.stdout)
    taken = times(rows, arguments.repeats)
    results = {
        name: {"median_seconds": statistics.median(t), "min_seconds": min(t), "max_seconds": max(t)}
        | memory.get(name, {})
        for name, t in taken.items()
    }
    machine = {
        "cores": os.cpu_count(), "architecture": platform.machine(),
        "python": platform.python_version(), "pyarrow": pa.__version__,
    }  # fmt: skip
    if arguments.json:
        print(json.dumps({"rows": rows, "columns": 10, "machine": machine, "results": results}))
        return
    ours_median = results["statediff"]["median_seconds"]
    print(f"{rows:,} rows × 10 columns, 10 changes, {machine}")
    print(f"{'':28}{'median':>12}{'range':>22}{'× ours':>9}{'peak over inputs':>24}")
    for name, found in results.items():
        low, high = found["min_seconds"] * 1000, found["max_seconds"] * 1000
        line = f"{name:28}{found['median_seconds'] * 1000:9.1f} ms{low:11.1f} – {high:.1f}"
        line = f"{line:62}{found['median_seconds'] / ours_median:9.1f}"
        if "peak_bytes" in found:
            share = found["peak_bytes"] / found["input_bytes"]
            line += f"{found['peak_bytes'] / 1e6:12.1f} MB ({share:.1%})"
        print(line)


if __name__ == "__main__":
    main()
