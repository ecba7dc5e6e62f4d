"""The files that `import --out` keeps: everything that the other commands read.

DIR/run.json                            versions, and the digest of every contract
DIR/report.html                         the page of the run
DIR/schemas/DOMAIN.yaml                 the state schema, for `--schema`
DIR/contracts/DOMAIN/TASK/contract.yaml every task's closed contract: `lint`, `explain`, `judge`
DIR/trials/RUN/bundle/                  `show`, `replay`, `report`
DIR/trials/RUN/before-SOURCE.json …     with --states: JSON tables, for `judge` and `diff`
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from statediff.workspace.pages import Tell
    from statediff_lab.importers.recorded import Suite, TaskId
    from statediff_lab.importers.rejudge import RejudgedRun, Wanted
    from statediff_lab.importers.workers import CaseFolder

MAX_NAME: Final = 80
Made = TypeVar("Made")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")


def file_name(text: str) -> str:
    """The text as the name of a folder; whatever had to be changed leaves a digest of the whole."""
    plain = _UNSAFE.sub("-", text).strip("-.")[:MAX_NAME]
    if plain == text and plain:
        return plain
    return f"{plain or 'run'}-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:10]}"


@dataclass
class Keeper:
    """Writes a run folder as outcomes come. Nothing that stands in it already is overwritten."""

    cases: CaseFolder
    asked: Wanted
    folder: Path
    with_states: bool = False
    begun: bool = field(default=False, init=False)
    seen: Counter[str] = field(default_factory=Counter, init=False)

    @property
    def wanted(self) -> Wanted:
        """The request that the judges get, so that there is something to keep."""
        return replace(self.asked, with_bundles=True, with_states=self.with_states)

    def begin(self) -> None:
        """The folder is made, with every task's contract and each domain's state schema."""
        from statediff.trial_folder import write_run

        suite = self.cases.open()
        tasks = [t for t in suite.tasks() if self.asked.domain in (None, t.domain)]
        contracts = dict(_possible(suite.contract, tasks))
        named = {
            f"{file.content.contract}@{file.content.version}": file.digest
            for file in contracts.values()
        }
        settings = {"imported": self.cases.suite, "mode": self.asked.mode.value}
        write_run(self.folder, self.folder.absolute().name, named, settings)
        for task, file in contracts.items():
            folder = self.folder / "contracts" / file_name(task.domain) / file_name(task.name)
            _write(folder / "contract.yaml", file.data)
        for domain in sorted({task.domain for task in tasks}):
            self._write_schema(suite, domain, [t for t in contracts if t.domain == domain])
        self.begun = True

    def _write_schema(self, suite: Suite, domain: str, tasks: Iterable[TaskId]) -> None:
        """One schema for the domain: that of a task whose state before shows the most types."""
        from statediff.kernel import schema_of
        from statediff_lab.importers.states import schema_yaml

        schemas = [schema_of(trial.before) for _, trial in _possible(suite.still, tasks)]
        if not schemas:
            return
        widest = max(schemas, key=lambda s: len(s.types))
        _write(self.folder / "schemas" / f"{file_name(domain)}.yaml", schema_yaml(domain, widest))

    def keep(self, judged: RejudgedRun) -> None:
        """The run's bundle, or why it has none."""
        from statediff.atomic import sync_below, sync_folder
        from statediff.evidence.package import save
        from statediff.workspace.runfolders import FAULT_NAME

        if not self.begun:
            self.begin()
        folder = self._new(judged.run_id)
        if judged.bundle is None:
            _write(folder / FAULT_NAME, f"{judged.fault}\n".encode("utf-8", "backslashreplace"))
            return
        save(judged.bundle, folder / "bundle")
        for name, content in judged.states:
            _write(folder / file_name(f"{name}.json"), content)
        sync_below(folder)
        sync_folder(folder.parent)

    def _new(self, run_id: str) -> Path:
        """A folder of its own, even for a run that is in the file twice."""
        name = file_name(run_id)
        self.seen[name] += 1
        again = "" if self.seen[name] == 1 else f".{self.seen[name]}"
        return self.folder / "trials" / f"{name}{again}"

    def end(self, tell: Tell) -> Path:
        """The folder, with the page of its run."""
        from statediff.workspace.pages import keep_run_report

        if not self.begun:
            self.begin()
        keep_run_report(self.folder, tell)
        return self.folder


def _possible(
    make: Callable[[TaskId], Made], tasks: Iterable[TaskId]
) -> Iterator[tuple[TaskId, Made]]:
    """The product of each task; one that cannot be read is a fault of its runs, reported there."""
    from statediff.errors import StatediffError

    for task in tasks:
        try:
            yield task, make(task)
        except StatediffError:
            continue


def _write(path: Path, content: bytes) -> None:
    from statediff.errors import StorageError
    from statediff.workspace.folders import write_file

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{path.parent}: cannot be made: {error.strerror}") from error
    write_file(path, content)
