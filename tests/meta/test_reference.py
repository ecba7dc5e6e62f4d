"""Recorded trials as references: read as they ran, and refused where somebody damaged them."""

import hashlib
import random
from pathlib import Path

import pytest

from statediff.capture.store import DiskChunks
from statediff.errors import UsageError
from statediff.evidence.canonical import write
from statediff.evidence.documents import capture_document
from statediff.evidence.histories import seen_document
from statediff.evidence.package import Bundle, save
from statediff.evidence.states import states_document
from statediff.meta.reference import Reference, Rows, rebuild, recorded_trials
from statediff.meta.stage_cases import bundle_of
from statediff.model.verdict import Verdict
from tests.evidence.mutants import restructured
from tests.meta.test_mutate import TIGHT, watched

READ = ("answer.json", "timeline.json", "trace.json", "trial.json")


def documents(run: Reference) -> dict[str, bytes]:
    captures = {
        "before": capture_document(run.before),
        "after": capture_document(run.after),
        "during": seen_document(run.after.history),
    }
    whole = bundle_of(run)
    return {
        "captures.json": write(captures),
        "states.json": write(states_document((run.before, run.after))),
        **{name: whole.files[name] for name in READ},
    }


def folder_of(run: Reference, folder: Path, content: dict[str, bytes]) -> Path:
    """A run's folder with that one trial; `content` by the name of each document."""
    trial = folder / "trials" / "trial-1"
    trial.mkdir(parents=True)
    (folder / "run.json").write_text("{}")
    store = DiskChunks(folder / "chunks")
    states = [part.state for side in (run.before, run.after) for part in side.parts]
    states += [transaction.state for transaction in run.after.history.transactions]
    for table in (table for state in states for table in state.tables.values()):
        for chunk in table.chunks:
            store.put(table.store.get(chunk))
    for name in ("captures.json", "states.json"):
        (trial / name).write_bytes(content[name] + b"\n")
    whole = bundle_of(run)
    files = {**whole.files, **{name: content[name] for name in READ}}
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())}
    save(Bundle({**whole.manifest, "files": digests}, files), trial / "bundle")
    return folder


def test_a_trial_of_a_run_is_read_as_it_ran(tmp_path: Path) -> None:
    run = watched(TIGHT)
    [found] = recorded_trials(folder_of(run, tmp_path / "run", documents(run)), run.contract)
    assert found.judged().verdict is Verdict.MATCH
    assert (found.before.readings, found.after.readings) == (
        run.before.readings, run.after.readings
    )  # fmt: skip
    assert [t.state.digest() for t in found.after.history.transactions] == [
        t.state.digest() for t in run.after.history.transactions
    ]
    assert (found.timeline, found.answer, found.trace) == (run.timeline, run.answer, run.trace)


@pytest.mark.parametrize("name", ["captures.json", "states.json", *READ])
def test_a_damaged_document_is_an_error_of_the_caller_and_nothing_else(
    name: str, tmp_path: Path, drawn_seed: int
) -> None:
    run = watched(TIGHT)
    whole = documents(run)
    for number in range(15):
        rng = random.Random(f"{drawn_seed} {name} {number}")
        content = {**whole, name: restructured(whole[name], rng) or b""}
        try:
            found = recorded_trials(folder_of(run, tmp_path / str(number), content), run.contract)
        except UsageError:
            continue
        assert all(trial.judged().verdict is Verdict.MATCH for trial in found)


def test_an_edit_writes_what_writing_every_row_again_would(drawn_seed: int) -> None:
    run = watched(TIGHT)
    rng = random.Random(drawn_seed)
    tables = run.after.parts[0].state.tables
    edited = 0
    for name, table in tables.items():
        rows = run.rows(name)
        if table.type.is_keyless or not rows:
            continue
        victim, copied = rng.choice(sorted(rows)), rng.choice(sorted(rows))
        column = next(f.name for f in table.type.fields if f.name not in table.type.key)

        def change(held: Rows, gone=victim, kept=copied, column=column) -> None:  # type: ignore[no-untyped-def]
            held[kept] = {**held[kept], column: None}
            del held[gone]

        expected = dict(rows)
        change(expected)
        mutant = run.edited({name: change})
        made = mutant.after.parts[0].state.tables[name]
        assert made.chunks == rebuild(table, expected.values()).chunks
        assert made.origin is None
        assert mutant.rows(name) == expected
        edited += 1
    assert edited
