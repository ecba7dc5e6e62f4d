"""Recorded trials as references: what a run kept in its folder, captures and all.

The bundle of a trial holds only what its decision read. The states are those of `states.json`,
which names chunks of the run's store; each is refused where its digest is another than was read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from statediff.capture.store import DiskChunks
from statediff.errors import BundleError, StorageError, UsageError
from statediff.evaluate import ContractFile, TrialFacts
from statediff.evidence import documents as doc
from statediff.evidence.canonical import read
from statediff.evidence.package import load
from statediff.evidence.states import states_from
from statediff.evidence.traces import trace_from
from statediff.meta.reference import Reference
from statediff.model.readings import Capture, History, SourceCapture, Transaction
from statediff.model.state import State
from statediff.model.values import printable
from statediff.model.verdict import Verdict

MAX_BYTES: Final = 256 * 1024 * 1024


def recorded(folder: Path, file: ContractFile) -> tuple[Reference, ...]:
    """The trials of a run's folder, or the one of a trial's, that get MATCH under the contract.

    Trials of other contracts are passed over. Raises `UsageError` if none is left, or one that
    should be there cannot be read.
    """
    if (folder / "run.json").exists():
        kept = sorted(each for each in (folder / "trials").glob("*") if each.is_dir())
        store = DiskChunks(folder / "chunks")
    else:
        kept, store = [folder], DiskChunks(folder.parent.parent / "chunks")
    named = f"contract: {file.content.contract}\n"
    found = [
        trial
        for each in kept
        if (trial := _trial(each, file, store, named)) is not None
        and trial.judged().verdict is Verdict.MATCH
    ]
    if not found:
        raise UsageError(
            f"{printable(str(folder))}: expected a trial of {file.content.contract} that gets "
            f"MATCH; found none in {len(kept)}; name another run, or do the task right in one"
        )
    return tuple(found)


def _trial(folder: Path, file: ContractFile, store: DiskChunks, named: str) -> Reference | None:
    where = printable(str(folder))
    try:
        bundle = load(folder / "bundle")
        if named not in bundle.files["contract.yaml"].decode():
            return None
        captures = _document(folder / "captures.json")
        states = dict(states_from(_document(folder / "states.json"), store))
        facts = bundle.document("trial.json")
        return Reference(
            folder.name,
            file,
            before=Capture(_parts(captures["before"], states)),
            after=Capture(_parts(captures["after"], states), _history(captures["during"], states)),
            trace=trace_from(bundle.document("trace.json")),
            answer=doc.answer_from(bundle.document("answer.json")),
            timeline=doc.timeline_from(bundle.document("timeline.json")),
            facts=TrialFacts(
                facts["id"],
                facts["agent"],
                facts["sandbox"],
                facts["isolation"],
                int(facts["seed"]),
                facts["receipt"],
                tuple(facts["sources"]),
            ),
        )
    except (OSError, BundleError, StorageError) as error:
        raise UsageError(f"{where}: cannot be read as a recorded trial: {error}") from error
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(
            f"{where}: damaged: {type(error).__name__}: {error}; expected what `run` writes"
        ) from error


def _document(path: Path) -> Any:
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path.name} has more than {MAX_BYTES} bytes")
    return read(path.read_bytes().removesuffix(b"\n"), path.name)


def _parts(told: Any, states: dict[str, State]) -> tuple[SourceCapture, ...]:
    return tuple(
        SourceCapture(doc.reading_from(each["reading"]), states[each["state"]]) for each in told
    )


def _history(told: Any, states: dict[str, State]) -> History:
    return History(
        tuple(doc.reading_from(each) for each in told["readings"]),
        tuple(
            Transaction(
                each["id"], each["source"], each["position"],
                doc.instant_or_none(each["committed_at"]), states[each["state"]],
                tuple(each.get("names", ())),
            )
            for each in told["transactions"]
        ),
    )  # fmt: skip
