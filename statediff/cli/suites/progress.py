"""The report of a run, while it goes on and at its end: trials in the order of the schedule."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from rich.text import Text

from statediff.cli.faults import INTERRUPTED, exit_code
from statediff.cli.output import emit, note, progress, results, say, tell_no_page
from statediff.model.verdict import Verdict
from statediff.reports.said import said
from statediff.reports.text import verdict_text
from statediff.suite.records import FAILURES, VERDICTS, Ended, Trial
from statediff.workspace.folders import shown
from statediff.workspace.pages import Tell, keep_run_report

if TYPE_CHECKING:
    from rich.live import Live

    from statediff.workspace.episodes import Played

PLAIN_SECONDS: Final = 30.0
"""How often progress is reported where it cannot be shown in place."""


@dataclass
class Report:
    """Tells of each trial as it ends, and sums up over all that were scheduled."""

    as_json: bool
    order: tuple[str, ...]
    """The names of all scheduled trials."""
    folder: Path
    finished: list[Played] = field(default_factory=list)
    kept: dict[str, Trial] = field(default_factory=dict)
    """Trials that had ended before this command, or are not its business."""
    is_interrupted: bool = False
    is_out_of_money: bool = False
    tried_again: int = 0
    """Attempts that failed around the agent and were followed by another."""
    _ended: Counter[Ended] = field(default_factory=Counter)
    _spent: int = 0
    _untold: dict[str, Played] = field(default_factory=dict)
    _next: int = 0
    _live: Live | None = None
    _began: float = field(default_factory=time.monotonic)
    _told_at: float = field(default_factory=time.monotonic)

    @property
    def no_page(self) -> Tell:
        return tell_no_page

    def keep(self, trial: Trial) -> None:
        """The trial is counted, and nobody makes it now."""
        self.kept[trial.name] = trial
        self._count(trial)

    def suspects(self) -> list[str]:
        """The trials to judge again: those that rest on a feed which a later scan contradicted.

        A feed, or what pages tell, is trusted again from the last scan that agreed with it.
        """
        found: set[str] = set()
        unproven: dict[tuple[str, str], list[str]] = {}
        for finished in self.finished:
            for check in finished.checks:
                since = unproven.setdefault((finished.sandbox, check.source), [])
                if check.disagreement:
                    found.update(since)
                if check.by_scan:
                    since.clear()
                elif check.by_feed or check.by_pages:
                    since.append(finished.trial)
        return sorted(found)

    def add(self, finished: Played) -> None:
        """The trial has ended; it is shown when those before it have been."""
        self.finished.append(finished)
        self._count(finished.record)
        self._untold[finished.trial] = finished
        while self._next < len(self.order):
            name = self.order[self._next]
            if name not in self._untold and name not in self.kept:
                break
            self._next += 1
            if name in self._untold:
                self._tell(self._untold.pop(name))
        self.looked()

    def looked(self) -> None:
        """Progress is shown as of now: in place on a terminal, else as a line now and then."""
        now = time.monotonic()
        if self._live is not None:
            # One line, however narrow: what goes on below it would move otherwise.
            line = Text(self._progress(now), no_wrap=True, overflow="ellipsis")
            self._live.update(line)
        elif now - self._told_at > PLAIN_SECONDS:
            self._told_at = now
            note(self._progress(now))

    def note(self, text: str) -> None:
        """The words stand on standard error, above what is shown in place."""
        door = progress() if self._live is None else self._live.console
        door.print(text, soft_wrap=True)

    def __enter__(self) -> Self:
        self._began = self._told_at = time.monotonic()
        door = progress()
        if door.is_terminal and len(self.order) > 1:
            from rich.live import Live

            # What is printed to the same terminal goes above it.
            self._live = Live(
                console=door, transient=True, refresh_per_second=4, redirect_stderr=False
            )
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _progress(self, now: float) -> str:
        """Done, verdicts, remaining time, rate, and cost where it is known; the last may be cut."""
        counts = self.counts()
        done = len(self.finished)
        left = counts["scheduled"] - done - len(self.kept)
        told = [f"{done + len(self.kept)}/{counts['scheduled']}"]
        told += [f"{n} {name}" for name in (*VERDICTS, Ended.FAULT) if (n := counts[name])]
        seconds = now - self._began
        if done and seconds > 0:
            rate = done / seconds
            told.append(f"{_span(left / rate)} left")
            told.append(f"{rate:.1f}/s" if rate >= 1 else f"{60 * rate:.1f}/min")
        if self._spent:
            told.append(f"cost {self._spent / 10**9:.4g}")
        return "  ".join(told)

    def _count(self, trial: Trial) -> None:
        self._ended[trial.ended] += 1
        self._spent += trial.cost_nano or 0

    def _tell(self, finished: Played) -> None:
        if self.as_json:
            emit(finished.as_json())
            return
        line = Text(said(finished.trial, 100) + "  ")
        if finished.verdict is None:
            line.append("fault", style="bold red").append(f"  {said(finished.fault, 2000)}")
        else:
            verdict = verdict_text(finished.verdict.value)
            line.append(verdict).append(" " * (14 - len(verdict)))
            line.append(finished.line)
            for each in finished.not_kept:
                line.append(f"\n    {said(each, 300)}", "yellow")
        door = results() if self._live is None or not results().is_terminal else self._live.console
        door.print(line, soft_wrap=True)

    def counts(self) -> dict[str, int]:
        """How the scheduled trials ended; the numbers add up to `scheduled`."""
        ended = self._ended
        found = {end.value: ended[end] for end in (*VERDICTS, Ended.FAULT)}
        damaged = {end.value: ended[end] for end in FAILURES[1:-1] if ended[end]}
        told = sum(found.values()) + sum(damaged.values())
        return {
            "scheduled": len(self.order),
            **found,
            **damaged,
            "not_run": len(self.order) - told,
        }

    def causes(self) -> dict[str, int]:
        """Trials that a failure around the agent left without a verdict, by its kind."""
        found = Counter(f.record.cause for f in self.finished if f.verdict is None)
        return {str(cause): number for cause, number in sorted(found.items())}

    def end(self) -> int:
        """Shows the summary. Returns the exit code of the run."""
        for name in self.order:  # what is left after an interrupt
            if name in self._untold:
                self._tell(self._untold.pop(name))
        counts, suspects = self.counts(), self.suspects()
        page = keep_run_report(self.folder, self.no_page)
        if self.as_json:
            summary: dict[str, Any] = {**counts, "interrupted": self.is_interrupted}
            if suspects:
                summary["judge_again"] = suspects
            if self.kept:
                summary["kept"] = len(self.kept)
            if self.tried_again:
                summary["tried_again"] = self.tried_again
            if self.causes():
                summary["causes"] = self.causes()
            where = None if page is None else shown(page)
            emit({"summary": {**summary, "run": shown(self.folder), "report": where}})
            return self._exit_code(counts)
        say(self._summary(counts))
        for line in self._notes(counts, suspects):
            say(line)
        return self._exit_code(counts)

    def _summary(self, counts: dict[str, int]) -> str:
        told = ", ".join(
            f"{number} {name.replace('_', ' ')}"
            for name, number in counts.items()
            if number and name != "scheduled"
        )
        lead = "interrupted; " if self.is_interrupted else ""
        plural = "trial" if counts["scheduled"] == 1 else "trials"
        return f"{lead}{counts['scheduled']} {plural}: {told}   {shown(self.folder)}"

    def _notes(self, counts: dict[str, int], suspects: list[str]) -> Iterable[str]:
        if self.kept and self.finished:
            yield f"{len(self.finished)} of them now, {len(self.kept)} before"
        if self.tried_again:
            yield f"{self.tried_again} attempts failed around the agent and were made again"
        for cause, number in self.causes().items():
            yield f"{number} without a verdict: {cause}"
        if self.is_out_of_money:
            yield "--max-cost is reached"
        if counts["not_run"] or counts["fault"]:
            yield "the same command with --resume makes those that have no verdict"
        if suspects:
            yield (
                "a scan contradicted a feed; judge these again, with --authoritative: "
                + ", ".join(suspects)
            )

    def _exit_code(self, counts: dict[str, int]) -> int:
        if self.is_interrupted:
            return INTERRUPTED
        decided = sum(counts[end.value] for end in VERDICTS)
        return exit_code(
            (Verdict(end.value) for end in VERDICTS if counts[end.value]),
            has_fault=decided < counts["scheduled"] or any(x.is_unobserved for x in self.finished),
        )


def _span(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
