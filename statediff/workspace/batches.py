"""Evidence of a batch, written while many runs are judged, and opened, replayed and verified.

What one run needs of it is worked out where the run was judged, in whatever process; one process
writes. A rollout is opened by judging its two states again, whole: what comes out is the bundle
that a judgement of that run alone would have had, under the state roots of the batch.
"""

from __future__ import annotations

import hashlib
import math
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

from statediff._version import __version__
from statediff.atomic import write_atomically
from statediff.capture.bounds import bound_captures
from statediff.capture.store import DiskChunks
from statediff.contract.file import ContractFile
from statediff.errors import BundleError, NotReplayable, StorageError, UsageError
from statediff.evidence.batches import records as rec
from statediff.evidence.batches import sealing as sealed
from statediff.evidence.canonical import read, write
from statediff.evidence.disclosure.rules import Disclosure
from statediff.evidence.disclosure.undisclosed import whole, withheld
from statediff.evidence.documents import answer_document
from statediff.evidence.keys import load_key
from statediff.evidence.merkle import log_root
from statediff.evidence.package import UNDISCLOSED, Bundle, file_bytes, load
from statediff.evidence.roots import Roots
from statediff.evidence.verify import Signer
from statediff.kernel import (
    KERNEL,
    Evaluated,
    TrialFacts,
    contract_in,
    evaluate,
    modules_digest,
    require_kernel,
)
from statediff.model.readings import Capture
from statediff.model.trace import NoAnswer
from statediff.model.values import Value, printable
from statediff.model.verdict import Judgement, Verdict
from statediff.workspace.folders import keep_bundle

Json = Any
CHUNKS, WHOLE, ANSWER = "chunks", "whole", "answer.json"
MOST_WHOLE: Final = 1000
"""Bundles of a batch that are kept whole; of more, the records are there all the same."""
RARE_SHARE: Final = 0.05
RARE_OF: Final = 20
"""A verdict is rare where fewer than that share of at least so many rollouts have it."""
_KEPT: Final = 32
"""States before of which a process remembers the document."""

Asked = float | Collection[int] | Callable[[int, Any], bool]


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The folder and the key for the evidence that `score_many` writes of its batch.

    `statediff verify` checks the folder; `statediff batch open` makes a bundle of one rollout.
    """

    folder: str | Path
    """A new folder."""
    key: str | Path
    """The file of the key that signs."""
    whole: Asked = 0.0
    """The bundles to keep whole beside the surprising ones: a share from 0 to 1, the numbers of
    rollouts, or a function of a number and its `Score`."""
    expected: Sequence[float | None] = ()
    """The reward that somebody else gave each rollout, or None: to disagree is surprising."""
    at: datetime | None = None
    """When it was signed, aware; now, where it is not given."""

    def __post_init__(self) -> None:
        if isinstance(self.whole, (int, float)) and not 0 <= self.whole <= 1:
            raise UsageError(f"whole={self.whole}: expected a share from 0 to 1")
        if self.at is not None and self.at.tzinfo is None:
            raise UsageError("at: expected an instant with a zone")


@dataclass(frozen=True, kw_only=True)
class Written:
    """The evidence of one judged run in a batch, but for its number."""

    before: str
    """The digest of the document of its state before."""
    content: Mapping[str, Json]
    answer: Json = None
    """The document of the answer that was judged, where `content` does not show all of it."""
    captured: Capture | None = None
    """The state before, in the process that judged it."""


@dataclass(frozen=True)
class Recorder:
    """Makes what is written of a run, in any process."""

    secret: bytes
    folder: Path
    _befores: dict[int, tuple[Capture, str, str]] = field(default_factory=dict)
    _stores: list[DiskChunks] = field(default_factory=list)

    def __getstate__(self) -> dict[str, Any]:
        return {"secret": self.secret, "folder": self.folder, "_befores": {}, "_stores": []}

    @property
    def store(self) -> DiskChunks:
        """The chunks of the batch."""
        if not self._stores:
            self._stores.append(DiskChunks(self.folder / CHUNKS))
        return self._stores[0]

    def written(
        self, before: Capture, after: Capture, answer: Value | NoAnswer, judgement: Judgement
    ) -> Written:
        """The evidence of a judged run."""
        digest, root = self.before(before)[:2]
        roots = Roots.of(*bound_captures(before, after), self.secret).by_side
        judged = answer_document(answer)
        shown = answer_document(Disclosure().value(answer))
        content = {
            "after": rec.after_document(before, after, self.store),
            "answer": shown,
            "roots": [None if roots["before"] == root else roots["before"], roots["after"]],
            **rec.decision(judgement),
        }
        hidden = None if shown == judged else judged
        return Written(before=digest, content=content, answer=hidden, captured=before)

    def before(self, capture: Capture) -> tuple[str, str, bytes | None]:
        """The digest of the document of a state before, its root, and the document if it is new."""
        known = self._befores.get(id(capture))
        if known is not None and known[0] is capture:
            return known[1], known[2], None
        document, root = self.document(capture)
        digest = hashlib.sha256(document).hexdigest()
        if len(self._befores) >= _KEPT:
            self._befores.clear()
        self._befores[id(capture)] = capture, digest, root
        return digest, root, document

    def document(self, capture: Capture) -> tuple[bytes, str]:
        """The document of a state before, and its root."""
        root = Roots.of(capture, capture, self.secret).by_side["before"]
        return write(rec.before_document(capture, root)), root


class Book:
    """A batch while it is written: one process, one rollout after the other."""

    def __init__(self, evidence: Evidence, file: ContractFile) -> None:
        self._evidence = evidence
        self._folder = Path(evidence.folder)
        self._key = load_key(Path(evidence.key))
        self._files = _contract_files(file)
        head = {"contract": file.digest, "kernel": KERNEL, "modules": modules_digest()}
        secret = sealed.secret_of(self._key, head)
        self._facts = {
            "contract": file.content.contract,
            "contract_version": file.content.version,
            "kernel": KERNEL,
            "modules": head["modules"],
            "statediff": __version__,
        }
        self.recorder = Recorder(secret, self._folder)
        self._withheld: dict[int, bytes] = {}
        self._withheld_secret = sealed.secret_of(self._key, head, b"undisclosed\x00")
        self._befores: dict[str, bytes] = {}
        self._hashes: list[bytes] = []
        self._ends: list[int] = [0]
        self._places: list[int] = []
        self._asked: set[int] = set()
        self._decided: list[tuple[str, int | None, str | None]] = []
        self._rollouts = self._begin()

    def _begin(self) -> BinaryIO:
        """The folder is there. `UsageError` where something is in its place."""
        try:
            self._folder.mkdir(parents=True, mode=0o700)
            return (self._folder / sealed.ROLLOUTS).open("xb")
        except FileExistsError:
            place = printable(str(self._folder))
            raise UsageError(f"{place}: is there already, and nothing is overwritten") from None
        except OSError as error:
            place = printable(str(self._folder))
            raise StorageError(f"{place}: cannot be made: {error.strerror}") from error

    def close(self) -> None:
        """No more is written."""
        self._rollouts.close()

    def add(self, score: Any, written: Written | None, captured: Callable[[], Capture]) -> None:
        """The next rollout; without `written` it was not read. `captured` is its state before."""
        number = len(self._hashes)
        expected = self._expected(number)
        record: dict[str, Json] = {
            "n": number, "salt": sealed.salt_of(self.recorder.secret, number), "expected": expected,
        }  # fmt: skip
        if written is None:
            record |= {**rec.UNREAD, "unread": score.why[: rec.MOST_WORDS]}
        else:
            record |= {**written.content, "before": self._before(written, captured)}
            record |= self._withhold(number, written)
        data, digest = sealed.frame(record, list(self._befores.values()))
        self._write(data)
        self._hashes.append(digest)
        self._ends.append(self._ends[-1] + len(data))
        self._places.append(record.get("before", -1) + 1)
        self._decided.append((record["verdict"], record["reward"], expected))
        if self._is_asked(number, score):
            self._asked.add(number)

    def _withhold(self, number: int, written: Written) -> Json:
        """The record's facts about an answer that it does not show; its file gets the rest."""
        if written.answer is None:
            return {}
        hidden = withheld(
            {ANSWER: written.answer}, {ANSWER: written.content["answer"]}, _trial(number),
            self._withheld_secret,
        )  # fmt: skip
        if hidden is None:
            return {}
        facts, self._withheld[number] = hidden
        return {UNDISCLOSED: facts}

    def _expected(self, number: int) -> str | None:
        given = self._evidence.expected
        if not given:
            return None
        if number >= len(given):
            raise UsageError("expected: there are not as many rewards as rollouts")
        reward = given[number]
        if reward is not None and not math.isfinite(reward):
            raise UsageError(f"expected: {reward!r} is no reward")
        return None if reward is None else repr(float(reward))

    def _before(self, written: Written, captured: Callable[[], Capture]) -> int:
        """The number of a state before; a new one is in the folder, with its chunks."""
        if written.before not in self._befores:
            capture = written.captured or captured()
            document, _ = self.recorder.document(capture)
            if hashlib.sha256(document).hexdigest() != written.before:
                raise StorageError("the state before was read in two ways by two processes")
            rec.put_states(capture, self.recorder.store)
            number = len(self._befores)
            if number == sealed.MAX_BEFORES - 10:
                raise UsageError("too many states before of different makes for one batch")
            self._put(f"before-{number}.json", document)
            self._befores[written.before] = document
        return list(self._befores).index(written.before)

    def _is_asked(self, number: int, score: Any) -> bool:
        asked = self._evidence.whole
        if isinstance(asked, (int, float)):
            return sealed.is_sampled(self.recorder.secret, number, asked)
        return asked(number, score) if callable(asked) else number in asked

    def finish(self) -> None:
        """The bundles that are kept whole are there, and the batch is signed."""
        if self._evidence.expected and len(self._evidence.expected) != len(self._hashes):
            raise UsageError("expected: there are not as many rewards as rollouts")
        self.close()
        shutil.rmtree(self._folder / CHUNKS / ".leases", ignore_errors=True)  # of ended processes
        hidden = sealed.Withheld(secret=self._withheld_secret, rollouts=self._withheld)
        if self._withheld:
            self._put(sealed.WITHHELD, hidden.data())
        self._put(sealed.SECRET, self.recorder.secret)
        for name, data in self._files.items():
            self._put(name, data)
        digests = {
            sealed.SECRET: _digest(self.recorder.secret),
            **{name: _digest(data) for name, data in self._files.items()},
            **{f"before-{at}.json": digest for at, digest in enumerate(self._befores)},
        }
        now = self._evidence.at or datetime.now(UTC).replace(microsecond=0)
        manifest = {
            **self._facts,
            "format": sealed.BATCH,
            "at": now.astimezone(UTC).isoformat(),
            "size": len(self._hashes),
            "root": log_root(self._hashes).hex(),
            "verdicts": dict(Counter(verdict for verdict, _, _ in self._decided)),
            "files": digests,
            "whole": [],
        }
        manifest["whole"] = list(self._kept_whole(manifest, hidden))
        for name, data in sealed.sign_batch(manifest, self._key).items():
            self._put(name, data)

    def _kept_whole(self, manifest: Mapping[str, Json], hidden: sealed.Withheld) -> Iterator[Json]:
        """[rollout, digest of its bundle, why] of each bundle that is kept whole."""
        counts = Counter(verdict for verdict, _, _ in self._decided)
        reasons = {
            number: [
                *self._surprises(number, counts),
                *(["asked"] if number in self._asked else []),
            ]
            for number in range(len(self._hashes))
            if self._places[number]
        }
        chosen = [number for number, why in reasons.items() if why]
        chosen.sort(key=lambda number: (number not in self._asked, number))
        if not chosen:
            return
        data = file_bytes(self._folder / sealed.ROLLOUTS, sealed.MAX_FILE_BYTES)
        batch = sealed.Batch(
            folder=self._folder, manifest=manifest, signer="", secret=self.recorder.secret,
            files=self._files, records=sealed.read_records(data, [*self._befores.values()]),
            hashes=tuple(self._hashes), withheld=hidden,
        )  # fmt: skip
        opener = Opener.of(batch)
        for number in sorted(chosen[:MOST_WHOLE]):
            bundle = opener.judged(number).bundle
            keep_bundle(bundle, self._folder / WHOLE / str(number))
            yield [number, bundle.digest, reasons[number]]

    def _surprises(self, number: int, counts: Mapping[str, int]) -> Iterator[str]:
        """Why a rollout is worth a look."""
        verdict, reward, expected = self._decided[number]
        total = len(self._decided)
        if verdict == Verdict.INCONCLUSIVE.value:
            yield "inconclusive"
        elif total >= RARE_OF and counts[verdict] < RARE_SHARE * total:
            yield "rare"
        if expected is not None and (reward is None or float(expected) != reward):
            yield "unexpected"

    def _write(self, data: bytes) -> None:
        try:
            self._rollouts.write(data)
        except OSError as error:
            raise StorageError(f"{self._folder}: cannot be written: {error.strerror}") from error

    def _put(self, name: str, data: bytes) -> None:
        try:
            write_atomically(self._folder / name, data, exclusive=True, mode=0o600)
        except OSError as error:
            raise StorageError(f"{self._folder}: cannot be written: {error.strerror}") from error


@contextmanager
def book(evidence: Evidence, file: ContractFile) -> Iterator[Book]:
    """A batch to write to; it is signed at the end, where nothing went wrong."""
    made = Book(evidence, file)
    try:
        yield made
        made.finish()
    finally:
        made.close()


@dataclass(frozen=True)
class Opener:
    """Judges rollouts of a batch again; states before are read once."""

    batch: sealed.Batch
    file: ContractFile
    store: DiskChunks
    _befores: dict[int, Capture] = field(default_factory=dict)

    @staticmethod
    def of(batch: sealed.Batch) -> Opener:
        """A reader that opens the rollouts of a batch. `ContractError` where it has no contract."""
        return Opener(batch, contract_in(batch.files), DiskChunks(batch.folder / CHUNKS))

    def judged(self, number: int) -> Evaluated:
        """The rollout, judged again from its record, with its bundle.

        `NotReplayable` where its state was not read, its answer is not shown and not at hand, or
        another kernel judged it; `BundleError` where the record says anything else than what comes
        out.
        """
        require_kernel(self.batch.manifest["kernel"])
        record = self.batch.records.record(number)
        if "unread" in record:
            raise NotReplayable(f"rollout {number} was not read: {record['unread']}"[:500])
        try:
            return self._judged(number, record)
        except BundleError as error:
            raise type(error)(f"rollout {number}: {error}") from error
        except (UsageError, StorageError, LookupError, TypeError, ValueError) as error:
            raise BundleError(f"rollout {number}: it cannot be judged again: {error}") from error

    def _judged(self, number: int, record: Mapping[str, Json]) -> Evaluated:
        before, root = self.before(record["before"])
        after = rec.after_from(record["after"], before, self.store)
        judged = self._answer(number, record)
        answer = rec.answer_from(judged)
        says = [rec.after_document(before, after, None), answer_document(answer)]
        if write(says) != write([record["after"], judged]):
            raise BundleError("its states or its answer are written in another way than by us")
        roots = Roots.of(*bound_captures(before, after), self.batch.secret)
        found = [None if roots.by_side["before"] == root else roots.by_side["before"]]
        if record["roots"] != [*found, roots.by_side["after"]]:
            raise BundleError("its rows do not give its state roots")
        done = evaluate(
            self.file,
            before,
            after,
            answer=answer,
            facts=replace(
                TrialFacts.offline(), id=_trial(number), secret=self.batch.withheld.secret
            ),
            roots=roots,
        )
        decided = rec.decision(done.judgement)
        for name, value in decided.items():
            if record[name] != value:
                raise BundleError(f"judged again, its {name} is another: {value}")
        return done

    def _answer(self, number: int, record: Mapping[str, Json]) -> Json:
        """The document of the answer that was judged."""
        manifest = {"trial": _trial(number), UNDISCLOSED: record.get(UNDISCLOSED)}
        hidden = self.batch.withheld.rollouts.get(number)
        return whole(Bundle(manifest, {ANSWER: write(record["answer"])}, hidden)).document(ANSWER)

    def before(self, number: int) -> tuple[Capture, str]:
        """A state before, under the root that its document says. `BundleError`."""
        document = read(self.batch.records.befores[number], f"before-{number}.json")
        if number not in self._befores:
            capture = rec.before_from(document, self.store)
            found = Roots.of(capture, capture, self.batch.secret).by_side["before"]
            if document.get("root") != found:
                raise BundleError(f"before-{number}.json: its rows do not give its root")
            self._befores[number] = capture
        return self._befores[number], document["root"]


def open_batch(folder: Path, trust: Sequence[Signer]) -> Opener:
    """The batch in the folder, verified: signature, records, states before, whole bundles.

    That a verdict follows from its record is for `Opener.judged` to find. `BundleError`.
    """
    batch = sealed.read_batch(folder, trust)
    opener = Opener.of(batch)
    names: set[str] = set()
    for data in batch.records.befores:
        names |= rec.chunk_names(read(data, "a state before"))
    for number in range(len(batch.records)):
        names |= rec.chunk_names(batch.records.record(number).get("after", {}))
    try:
        # Of all bytes: a root may be known in this process from chunks of the same names.
        for digest in sorted(names):
            opener.store.verify(digest)
        for number in range(len(batch.records.befores)):
            opener.before(number)
    except (StorageError, UsageError) as error:
        raise BundleError(f"{CHUNKS}: {error}") from error
    for number, digest, _ in batch.manifest["whole"]:
        bundle = load(folder / WHOLE / str(number))
        record = batch.records.record(number)
        if bundle.digest != digest or bundle.manifest["verdict"] != record["verdict"]:
            raise BundleError(f"{WHOLE}/{number}: not the bundle that was signed")
    return opener


def _contract_files(file: ContractFile) -> dict[str, bytes]:
    return {"contract.yaml": file.data}


def _trial(number: int) -> str:
    return f"rollout-{number}"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
