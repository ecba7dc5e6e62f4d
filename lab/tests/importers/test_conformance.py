"""Our own readers keep what the kit asks of every reader; the kit finds one that does not."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from statediff_lab.importers.conformance import ImporterSuite
from statediff_lab.importers.recorded import Compat, Labels, RecordedRun, SeededChange, TaskId

from lab.tests.importers.conftest import SAMPLES
from lab.tests.importers.ledger.suite import Ledger, open_cases
from statediff.errors import InputError


class TestAgentDiff(ImporterSuite):
    reader = "agent-diff"
    sample = SAMPLES / "agent-diff"


class TestTau2(ImporterSuite):
    reader = "tau2"
    sample = SAMPLES / "tau2"


@pytest.mark.slow
class TestTau2WithCorrections(ImporterSuite):
    reader = "tau2"
    sample = SAMPLES / "tau2-sample"


class TestLedger(ImporterSuite):
    reader = open_cases
    sample = Path(__file__).parent / "ledger" / "sample"


# ---------------------------------------------------------------- readers that lie


class Liar(Ledger):
    """A sound reader, to be given one fault."""

    kept: ClassVar[list[Any]] = []


class Forgetful(Liar):
    """Numbers runs as they come, so that a second reading has other ids."""

    def run(self, domain: str, line: Mapping[str, Any]) -> tuple[RecordedRun, Labels]:
        run, labels = super().run(domain, line)
        self.kept.append(None)
        return replace(run, run_id=f"{len(self.kept)}"), labels


class Scribbler(Liar):
    """Leaves an index beside the runs."""

    def tasks(self) -> Sequence[TaskId]:
        (self.files[0].path.parent / "index.json").write_text("{}")
        return super().tasks()


class Careless(Liar):
    """Takes every line for a run of a task, whatever it holds."""

    def run(self, domain: str, line: Mapping[str, Any]) -> tuple[RecordedRun, Labels]:
        task = TaskId(domain, str(line.get("task", "pay-bob")))
        labels = Labels(compat=line.get("passed"), official=line.get("passed"))
        return RecordedRun(str(line.get("run_id")), task, "", line), labels


class Crashing(Liar):
    """Takes it for granted that a run has an agent with a name."""

    def run(self, domain: str, line: Mapping[str, Any]) -> tuple[RecordedRun, Labels]:
        run, labels = super().run(domain, line)
        return replace(run, agent=line["agent"].upper()), labels


class Peeking(Liar):
    """Judges by the recorded verdict, which it remembers."""

    def run(self, domain: str, line: Mapping[str, Any]) -> tuple[RecordedRun, Labels]:
        self.passed = line.get("passed")
        return super().run(domain, line)

    def compat(self, run: RecordedRun, seeded: Sequence[SeededChange] = ()) -> Compat:
        return Compat(bool(self.passed))


class Leaking(Liar):
    """Leaves the recorded verdict in the run under another name."""

    def run(self, domain: str, line: Mapping[str, Any]) -> tuple[RecordedRun, Labels]:
        run, labels = super().run(domain, line)
        return replace(run, raw={**run.raw, "ok": line.get("passed")}), labels


class Hoarding(Liar):
    """Keeps every run."""

    def run(self, domain: str, line: Mapping[str, Any]) -> tuple[RecordedRun, Labels]:
        self.kept.append(line)
        return super().run(domain, line)


class Lenient(Liar):
    """Takes a file of accounts that cannot be read for an empty one."""

    def __init__(self, folder: Path) -> None:
        try:
            super().__init__(folder)
        except InputError:
            (folder / "accounts.json").write_text('{"ada": 0, "bob": 0, "eve": 0}')
            super().__init__(folder)


LIARS = {
    Forgetful: "reading_again",
    Scribbler: "nothing_in_the_folder",
    Careless: "a_damaged_line",
    Crashing: "a_member_of_any_other_shape",
    Peeking: "no_judge_sees",
    Leaking: "no_judge_sees",
    Hoarding: "runs_that_were_judged",
    Lenient: "damage_to_any_other_file",
}


@pytest.mark.parametrize("liar", LIARS)
def test_the_kit_finds_a_reader_that_lies(liar: type[Liar], tmp_path: Path) -> None:
    class Kit(TestLedger):
        reader = liar

    folder = tmp_path / "sample"
    shutil.copytree(Kit.sample, folder, copy_function=shutil.copyfile)
    [name] = [name for name in dir(Kit) if name.startswith(f"test_{LIARS[liar]}")]
    with pytest.raises(KeyError if liar is Crashing else AssertionError):
        getattr(Kit(), name)(folder)
