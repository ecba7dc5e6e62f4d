"""Right ways and wrong ones of a task on a real application, under a contract by hand and a draft.

A run is watched: the contract is judged with the times that were noted. A draft is made of two
watched runs, as `watch --draft` makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import statediff
from statediff.workspace.drafts import Examples, SeenRun, draft, draft_of_states, write_drafts
from statediff.workspace.inputs import Refinements, unrefined
from statediff.workspace.watching import Watch, Watched

MOST = 8
"""Lines that a contract may say by hand of what a framework does beside the task."""
Act = Callable[[], object]


@dataclass
class Task:
    """A task's requirement, its contract's words by hand on the noise, and the ways to do it."""

    requires: str
    noise: str
    ways: Sequence[Act]
    harms: Mapping[str, Act]


@dataclass
class Desk:
    """An application whose database is put back before every run."""

    state: str
    renew: Act
    folder: Path

    def schema(self) -> Path:
        """The state schema that `init` drafts, with what the profile says of packed fields."""
        self.renew()
        write_drafts(self.folder / "first", draft_of_states("t/first", [self.state])[1].files)
        return self.folder / "first" / "schema.yaml"

    def verdict(self, contract: str | Path, schema: Path, *acts: Act) -> str:
        self.renew()
        with statediff.watch(contract, schema=schema, settle_seconds=0, db=self.state[3:]) as run:
            for act in acts:
                act()
        assert run.judged is not None
        return f"{run.judged.verdict.value} {run.judged.line}"

    def try_by_hand(self, task: Task, use: str) -> None:
        """Every right way is MATCH, every harm after it and doing nothing are DIVERGE."""
        assert len((use + task.noise).strip().splitlines()) <= MOST
        head = "contract: t/hand\nversion: 1.0.0\nowner: desk\nintent: Do the task and no more.\n"
        said = f"{head}{use}require: [{task.requires}]\nallow:\n{task.noise}"
        self._try(said, self.schema(), task)

    def try_drafted(self, task: Task) -> None:
        """The same of a draft from one run of each way; each way is done a third time."""
        seen: list[tuple[Watch, Watched]] = []
        for way in task.ways:
            self.renew()
            watch = Watch([self.state], unrefined)
            way()
            seen.append((watch, watch.finish(0)))

        def read(refined: Refinements) -> Examples:
            runs = [w if refined is unrefined else at.reread(w, refined) for at, w in seen]
            return Examples(tuple(SeenRun(run.before, run.after, run.timeline) for run in runs))

        found = draft("t/drafted", read, lambda: seen[0][0].before)
        assert "use: [" in found.draft.text
        written = self.folder / "drafted"
        write_drafts(written, found.files)
        self._try(written / "contract.yaml", written / "schema.yaml", task)

    def _try(self, contract: str | Path, schema: Path, task: Task) -> None:
        found = [self.verdict(contract, schema, way) for way in task.ways]
        assert [each.split()[0] for each in found] == ["MATCH"] * len(task.ways), found
        wrong = {"nothing": self.verdict(contract, schema)}
        for name, harm in task.harms.items():
            wrong[name] = self.verdict(contract, schema, task.ways[0], harm)
        assert len(wrong) > MOST
        passed = {name: said for name, said in wrong.items() if not said.startswith("DIVERGE")}
        assert not passed
