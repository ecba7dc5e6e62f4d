"""A bundle is held against the states that its run kept: the two ends, and all that was between."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from statediff.capture.store import DiskChunks
from statediff.errors import BundleError, UsageError
from statediff.evidence import documents as doc
from statediff.evidence.canonical import write
from statediff.evidence.histories import seen_document
from statediff.evidence.package import Bundle
from statediff.evidence.states import states_document
from statediff.kernel import replay
from statediff.model.readings import Capture
from statediff.workspace.rechecking import require_chunks
from tests.evidence.test_roots import BEFORE, MADE, after, forged
from tests.histories import seen, told
from tests.judging import DIVERGE, MATCH, capture, item, part, run, state

NEVER = "forbid:\n  - {id: never, create: item, during: run}\n"
COPIED = """\
require:
  - {id: same, that: "count(i for i in after.item) == count(i for i in before.item)"}
"""


def keep(folder: Path, bundle: Bundle, before: Capture, end: Capture) -> Path:
    """A run's folder with the states of the bundle's trial."""
    store = DiskChunks(folder / "chunks")
    states = [part.state for side in (before, end) for part in side.parts]
    for each in [*states, *(step.state for step in end.history.transactions)]:
        for table in each.tables.values():
            for batch in table.batches():
                store.put(batch)
    trial = folder / "trials" / str(bundle.manifest["trial"])
    trial.mkdir(parents=True)
    captures = {
        "before": doc.capture_document(before),
        "after": doc.capture_document(end),
        "during": seen_document(end.history),
    }
    (trial / "captures.json").write_bytes(write(captures))
    (trial / "states.json").write_bytes(write(states_document((before, end))))
    return folder


def went(*between: Any) -> tuple[Capture, Capture]:
    """A source that went through these states and came back."""
    states = [state(rows) for rows in (BEFORE, *between, BEFORE)]
    end = told(capture("after", part("after", states[-1])), ("db", seen("db", states[1:])))
    return capture("before", part("before", states[0])), end


def test_a_state_between_the_ends_that_was_misstated_is_found_by_the_chunks(
    tmp_path: Path,
) -> None:
    true, lie = went(after(MADE)), went(after(item(4, 40, owner=1), gone=4))
    one, two = (run(NEVER, *sides).bundle for sides in (true, lie))
    assert [one.manifest["verdict"], two.manifest["verdict"]] == [DIVERGE.value, MATCH.value]
    folder = keep(tmp_path / "run", one, *true)
    require_chunks(one, folder)
    signed = forged(one, two)  # both ends, and so the roots, are the same
    assert replay(signed).verdict is MATCH
    with pytest.raises(BundleError, match=r"fragments\.json: not what the states"):
        require_chunks(signed, folder)


def test_a_type_of_two_sources_that_was_misstated_is_found_by_the_chunks(tmp_path: Path) -> None:
    def sides(*of: Any) -> list[Capture]:
        return [
            capture(side, *(part(side, state(each, source=name), name) for name in ("db", "copy")))
            for side, each in zip(("before", "after"), of, strict=True)
        ]

    true, lie = sides(BEFORE, after(gone=4)), sides(BEFORE, BEFORE)
    one, two = (run(COPIED, *each).bundle for each in (true, lie))
    assert [one.manifest["verdict"], two.manifest["verdict"]] == [DIVERGE.value, MATCH.value]
    folder = keep(tmp_path / "run", one, *true)
    require_chunks(one, folder)
    signed = forged(one, two, "roots")
    assert replay(signed).verdict is MATCH
    with pytest.raises(BundleError, match="not what the states"):
        require_chunks(signed, folder)


def test_states_that_cannot_be_read_are_no_proof(tmp_path: Path) -> None:
    sides = went(after(MADE))
    bundle = run(NEVER, *sides).bundle
    with pytest.raises(UsageError, match="holds no such trial"):
        require_chunks(bundle, tmp_path)
    folder = keep(tmp_path / "run", bundle, *sides)
    path = folder / "trials" / str(bundle.manifest["trial"]) / "captures.json"
    kept = json.loads(path.read_bytes())
    kept["during"]["transactions"][0]["state"] = "0" * 64
    path.write_bytes(write(kept))
    with pytest.raises(BundleError, match="cannot be read"):
        require_chunks(bundle, folder)
