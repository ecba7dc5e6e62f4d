"""Requirements for a reader of recorded runs, checked on a sample and on damaged copies of it."""

from __future__ import annotations

import gc
import gzip
import json
import shutil
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest

from statediff.errors import StatediffError, UsageError
from statediff.model.verdict import Verdict
from statediff_lab.importers.recorded import (
    LABELS,
    MAX_LINE_BYTES,
    BadLine,
    Labels,
    RunLine,
    Suite,
    open_suite,
    read_lines,
    without_labels,
)
from statediff_lab.importers.rejudge import (
    LineChunk,
    Mode,
    RejudgedRun,
    RunOutcome,
    Wanted,
    chunks,
    judge_chunk,
    judge_trial,
    read_run,
)

GZIP: Final = b"\x1f\x8b"


class ImporterSuite:
    """A format of recorded runs. The tests read copies of the sample, most of them damaged."""

    reader: ClassVar[str | Callable[[Path], Suite]]
    """The format by the name of its entry point, or the function that opens a folder."""
    sample: ClassVar[Path]
    """A small folder of the format, all of it sound, with at least two runs in every file."""
    labels: ClassVar[frozenset[str]] = LABELS
    """Members of a line that tell its verdict."""
    has_labels: ClassVar[bool] = True
    """Some run of the sample has a recorded verdict."""

    @classmethod
    def open(cls, folder: Path) -> Suite:
        """The folder, opened anew."""
        reader = cls.reader
        return open_suite(reader, folder) if isinstance(reader, str) else reader(folder)

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        """A copy of the sample."""
        made = tmp_path / "sample"
        shutil.copytree(self.sample, made, copy_function=shutil.copyfile)
        return made

    def test_every_line_of_the_sample_is_a_run_of_a_known_task(self) -> None:
        suite = self.open(self.sample)
        reader = type(self).reader
        assert not isinstance(reader, str) or suite.name == reader
        assert suite.files
        tasks = list(suite.tasks())
        assert tasks == sorted(set(tasks))
        outcomes = judge_all(suite)
        for outcome in outcomes:
            assert isinstance(outcome, RejudgedRun), f"line {outcome.number}: {outcome.why}"
            assert outcome.task in tasks
            assert not outcome.fault, f"{outcome.run_id}: {outcome.fault}"
        ids = [outcome.run_id for outcome in outcomes if isinstance(outcome, RejudgedRun)]
        assert len(ids) == 2 * len(set(ids)), "two runs have one id"  # in each of two modes

    def test_reading_again_gives_the_same_runs_in_whatever_order(self, folder: Path) -> None:
        first = judge_all(self.open(self.sample))
        suite = self.open(folder)
        assert judge_all(suite, backwards=True) == first
        assert judge_all(suite) == first, "a run's outcome depends on the runs before it"

    def test_nothing_in_the_folder_is_changed(self, folder: Path) -> None:
        before = fingerprint(folder)
        suite = self.open(folder)
        judge_all(suite)
        for task in suite.tasks():
            suite.half(task)
            suite.contract(task)
            suite.still(task)
            suite.minimal(task)
        assert fingerprint(folder) == before

    def test_a_damaged_line_is_reported_with_its_place_and_the_others_are_judged(
        self, folder: Path
    ) -> None:
        sound = judge_all(self.open(folder))
        places = []
        for file in self.open(folder).files:
            first, *rest = lines_of(file.path)
            damaged = [b"[1]", b"{}", b'{"a": 1, "a": 2}', b"\xff", first[: len(first) // 2]]
            too_long = b'{"a": "' + b"x" * MAX_LINE_BYTES + b'"}'
            write_lines(file.path, [first, *damaged, too_long, *rest])
            places += [(file.path.name, number) for number in range(2, 8)] * 2
        found = judge_all(self.open(folder))
        bad = [outcome for outcome in found if isinstance(outcome, BadLine)]
        assert sorted((line.file, line.number) for line in bad) == sorted(places)
        assert all(line.why for line in bad)
        assert [outcome for outcome in found if isinstance(outcome, RejudgedRun)] == sound

    def test_a_file_of_runs_that_breaks_off_is_reported_where_it_does(self, folder: Path) -> None:
        for file in self.open(folder).files:
            lines = lines_of(file.path)
            file.path.write_bytes(gzip.compress(b"\n".join(lines))[:-9])
            found = judge_file(self.open(folder), file.path, Mode.COMPAT)
            last = found[-1]
            assert isinstance(last, BadLine)
            assert (last.file, last.number) == (file.path.name, len(found))

    def test_a_member_of_any_other_shape_is_an_outcome_and_no_crash(self, folder: Path) -> None:
        for file in self.open(folder).files:
            first, *_ = lines_of(file.path)
            variants = list(misshapen(json.loads(first)))
            write_lines(file.path, [json.dumps(line).encode() for line in variants])
            suite = self.open(folder)
            for mode in Mode:
                assert len(judge_file(suite, file.path, mode)) == len(variants)

    def test_damage_to_any_other_file_is_reported_by_its_name(self, folder: Path) -> None:
        sound = judge_all(self.open(folder))
        runs = {file.path for file in self.open(folder).files}
        for path in sorted(set(folder.rglob("*")) - runs):
            if not path.is_file():
                continue
            whole = path.read_bytes()
            for damaged in damages(whole):
                path.write_bytes(damaged)
                found = complaints(self.open, folder, sound)
                assert all(path.name in why for why in found), f"{path.name} is damaged: {found}"
            path.write_bytes(whole)

    def test_a_folder_without_runs_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError):
            self.open(tmp_path)

    def test_no_judge_sees_a_recorded_verdict(self, folder: Path) -> None:
        suite = self.open(self.sample)
        has_labels = False
        for file in suite.files:
            for number, data in enumerate(lines_of(file.path), start=1):
                line = RunLine(file.path.name, number, data)
                run, labels = read_run(suite, file.domain, line)
                bare = RunLine(file.path.name, number, self.without_labels(data))
                assert read_run(suite, file.domain, bare)[0] == run, "a run holds its verdict"
                has_labels |= labels.compat is not None or labels.official is not None
        assert has_labels == self.has_labels
        sound = judge_all(suite)
        for change in (self.without_labels, self.with_verdicts_turned):
            for file in suite.files:
                lines = [change(line) for line in lines_of(file.path)]
                write_lines(folder / file.path.relative_to(self.sample), lines)
            found = judge_all(self.open(folder))
            assert [unlabelled(outcome) for outcome in found] == list(map(unlabelled, sound))
            if change == self.without_labels:
                assert {o.labels.compat for o in found if isinstance(o, RejudgedRun)} == {None}
                assert {o.labels.official for o in found if isinstance(o, RejudgedRun)} == {None}

    def test_runs_that_were_judged_are_not_kept(self, folder: Path) -> None:
        [file, *_] = self.open(folder).files
        first, *_ = lines_of(file.path)
        bulk = [
            RunLine(
                file.path.name, number, json.dumps({**json.loads(first), "bulk": text}).encode()
            )
            for number, text in enumerate((f"{n} " * 16384 for n in range(100, 124)), start=1)
        ]
        suite = self.open(folder)

        def judge(line: RunLine) -> None:
            run, _ = read_run(suite, file.domain, line)
            suite.compat(run)
            suite.prepare(run)

        judge(bulk[0])  # what runs share is made
        tracemalloc.start()
        try:
            for line in bulk:
                judge(line)
            gc.collect()
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert kept < sum(len(line.data) for line in bulk) / 2, (
            "the reader keeps the runs it has read"
        )

    def test_a_run_that_does_nothing_matches_only_where_the_contract_says_so(self) -> None:
        suite = self.open(self.sample)
        for task in suite.tasks():
            trial = suite.still(task)
            is_match = judge_trial(trial).judgement.verdict is Verdict.MATCH
            assert not is_match or trial.contract.content.noop, f"{task}: doing nothing is right"

    def test_the_least_run_passes_the_benchmarks_own_rules(self) -> None:
        suite = self.open(self.sample)
        for task in suite.tasks():
            run = suite.minimal(task)
            assert run is None or suite.compat(run).passes, f"{task}: {suite.compat(run).reasons}"

    @classmethod
    def without_labels(cls, line: bytes) -> bytes:
        """The line without a word on its verdict."""
        kept = without_labels(json.loads(line))
        return json.dumps({n: v for n, v in kept.items() if n not in cls.labels - LABELS}).encode()

    @classmethod
    def with_verdicts_turned(cls, line: bytes) -> bytes:
        """The line with every true and false among its labels the other way round."""
        tree = json.loads(line)
        return json.dumps(
            {n: turned(v) if n in cls.labels else v for n, v in tree.items()}
        ).encode()


def judge_all(suite: Suite, *, backwards: bool = False) -> list[RunOutcome]:
    """Every run under both modes, in the order of files and lines, whichever is judged first."""
    outcomes: list[RunOutcome] = []
    for mode in Mode:
        pieces = [
            LineChunk(domain, [line], Wanted(mode))
            for domain, lines in chunks(suite, None)
            for line in lines
        ]
        order = -1 if backwards else 1
        found = [judge_chunk(suite, piece) for piece in pieces[::order]][::order]
        outcomes += [outcome for each in found for outcome in each]
    return outcomes


def judge_file(suite: Suite, path: Path, mode: Mode) -> list[RunOutcome]:
    """Every run of one file, in order."""
    [domain] = [file.domain for file in suite.files if file.path == path]
    return judge_chunk(suite, LineChunk(domain, list(read_lines(path)), Wanted(mode)))


def fingerprint(folder: Path) -> list[tuple[str, int, int, bytes]]:
    """Path, mode, instant of change and content of all in the folder."""
    return [
        (
            path.relative_to(folder).as_posix(),
            path.stat().st_mode,
            path.stat().st_mtime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in sorted([folder, *folder.rglob("*")])
    ]


def lines_of(path: Path) -> list[bytes]:
    """The lines of a sound file of runs."""
    return [line.data for line in read_lines(path) if isinstance(line, RunLine)]


def write_lines(path: Path, lines: Iterable[bytes]) -> None:
    """The file holds these lines, gzipped if it was."""
    content = b"\n".join(lines) + b"\n"
    is_gzip = path.read_bytes()[:2] == GZIP
    path.write_bytes(gzip.compress(content, 1) if is_gzip else content)


def damages(whole: bytes) -> Iterator[bytes]:
    """The file cut off in the middle; a gzip also around a content that is."""
    yield whole[: len(whole) // 2]
    if whole[:2] == GZIP:
        content = gzip.decompress(whole)
        yield gzip.compress(content[: len(content) // 2])


def misshapen(tree: dict[str, Any], depth: int = 2) -> Iterator[dict[str, Any]]:
    """The object with each member, and each of theirs, gone or something else."""
    for name, value in tree.items():
        yield {other: kept for other, kept in tree.items() if other != name}
        for odd in (None, "x", [5], {"x": 5}):
            yield {**tree, name: odd}
        if isinstance(value, dict) and depth > 1:
            for inside in misshapen(value, depth - 1):
                yield {**tree, name: inside}


def turned(tree: Any) -> Any:
    """The JSON value with true for false and false for true."""
    if isinstance(tree, dict):
        return {name: turned(value) for name, value in tree.items()}
    if isinstance(tree, list):
        return [turned(value) for value in tree]
    return not tree if isinstance(tree, bool) else tree


def complaints(
    open_cases: Callable[[Path], Suite], folder: Path, sound: Sequence[RunOutcome]
) -> list[str]:
    """The error of a damaged folder, or each outcome that is not as in the sound folder."""
    try:
        found = judge_all(open_cases(folder))
    except StatediffError as error:
        return [str(error)]
    return [
        outcome.why if isinstance(outcome, BadLine) else outcome.fault
        for outcome, other in zip(found, sound, strict=True)
        if outcome != other
    ]


def unlabelled(outcome: RunOutcome) -> RunOutcome:
    """The outcome without what others said of the run."""
    return outcome if isinstance(outcome, BadLine) else replace(outcome, labels=Labels())
