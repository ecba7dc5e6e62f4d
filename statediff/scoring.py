"""States judged from Python: one pair with the whole judgement, or many against one state before.

`Judged` is a judged trial. A `Judge` keeps a contract and the state before: its `score` is what a
trainer needs of each run, its `so_far` what a guard needs on the way, its `judge` the whole.

A function imports what it alone uses, so that a program that names a `Judge` loads nothing that
judges before there is one.
"""

from __future__ import annotations

import io
import json
import pickle
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property, lru_cache, partial
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from statediff import kernel
from statediff.errors import ContractError, InputError, StatediffError, UsageError
from statediff.evidence.package import NO_BUNDLE, Bundle
from statediff.later import Later, later
from statediff.model.strictjson import Flaw, Limits, read_tree
from statediff.model.trace import NoAnswer, RunEnding, Trace
from statediff.model.values import Value
from statediff.model.verdict import Judgement, Verdict
from statediff.scores import Score, Standing, score_of, standing_of, unread

if TYPE_CHECKING:
    from statediff.contract.file import ContractFile
    from statediff.kernel import Evaluated, Prepared
    from statediff.model.graph import Graph
    from statediff.model.readings import Capture
    from statediff.parallel import Processes
    from statediff.workspace.batches import Evidence, Recorder, Written
    from statediff.workspace.cases import Chosen
    from statediff.workspace.warm import After, State


class Given(Enum):
    """The placeholder for an argument that was not given, in every process."""

    NOTHING = "nothing"


NOT_GIVEN: Final = Given.NOTHING
WIDTH: Final = 100


@dataclass(frozen=True)
class Judged(Later):
    """A judged trial: its bundle, and what the bundle says.

    Of two states that were judged here it is packed when somebody asks for more than the verdict.

    It is neither true nor false: a verdict has three values. Compare `verdict`.
    """

    bundle: Bundle
    _verdict: Verdict | None = field(default=None, repr=False, compare=False)

    @staticmethod
    def of(done: Evaluated) -> Judged:
        """A trial that was judged just now."""
        made = Judged(NO_BUNDLE, done.judgement.verdict)
        return later(made, "bundle", lambda: done.bundle)

    @property
    def verdict(self) -> Verdict:
        """MATCH, DIVERGE or INCONCLUSIVE."""
        return self._verdict or Verdict(self.bundle.manifest["verdict"])

    @property
    def contract(self) -> str:
        """Its name."""
        return str(self.bundle.manifest["contract"])

    @cached_property
    def document(self) -> Mapping[str, Any]:
        """The judgement as plain JSON: `statediff show --json`."""
        from statediff.reports.plain import plain_judgement

        found: Mapping[str, Any] = plain_judgement(self.bundle, "")
        return found

    @property
    def results(self) -> Mapping[str, str | None]:
        """The results of tool, task and outcome by themselves; None where no clause is about it."""
        found = self.bundle.document("judgement.json")["results"]
        return {name: found[name] for name in ("tool", "task", "outcome")}

    @property
    def findings(self) -> tuple[Mapping[str, Any], ...]:
        """Findings that do not hold, violations first, each with code, clause and witness."""
        return tuple(f for f in self.document["findings"] if f["truth"] != "HOLDS")

    @property
    def line(self) -> str:
        """The one thing worth knowing first."""
        from statediff.reports.line import trial_line

        return trial_line(self.bundle)

    def text(self, width: int = WIDTH) -> str:
        """The report of `statediff show`, without colours."""
        from rich.console import Console

        from statediff.reports.text import trial_report

        written = io.StringIO()
        console = Console(
            file=written,
            width=width,
            color_system=None,
            highlight=False,
            markup=False,
            emoji=False,
        )
        console.print(trial_report(self.bundle))
        return "\n".join(line.rstrip() for line in written.getvalue().splitlines()) + "\n"

    def assert_match(self) -> None:
        """Nothing where the verdict is MATCH; else `AssertionError` with the whole report."""
        if self.verdict is not Verdict.MATCH:
            raise AssertionError(self.text())

    def html(self) -> str:
        """The report as one page that needs nothing else."""
        from statediff.reports.html import trial_html

        return trial_html(self.bundle)

    def graph(self, of: Collection[str] | None = None, limit: int | None = None) -> Graph:
        """The changes and their neighborhood, as a `networkx.MultiDiGraph`.

        `of` names deltas or entities, for the neighborhood of these alone. docs/graph.md has its
        attributes; `UsageError` where more than `limit` entities changed.
        """
        from statediff.model.graph import MAX_NODES
        from statediff.reports.graph import trial_graph

        return trial_graph(self.bundle, of, MAX_NODES if limit is None else limit)

    def save(self, folder: str | Path) -> Path:
        """The bundle lies in the folder, whole. Nothing there is overwritten: `UsageError`."""
        from statediff.workspace.folders import keep_bundle

        keep_bundle(self.bundle, Path(folder))
        return Path(folder)

    def __bool__(self) -> bool:
        raise TypeError(
            "a judged trial is neither true nor false: INCONCLUSIVE is no pass and no failure; "
            "compare `.verdict` with Verdict.MATCH, DIVERGE or INCONCLUSIVE"
        )

    def __repr__(self) -> str:
        return f"<{self.verdict.value} {self.contract}: {self.line}>"


class JudgedPair(NamedTuple):
    """A judged run, and what it was judged from."""

    before: Capture
    after: Capture
    answer: Value | NoAnswer
    judgement: Judgement


class Judge:
    """A contract and the state before, kept: many states after are judged against them.

    `before` and each `after` are what `judge` takes; the state before is read once, and stays as it
    was. A `Judge` may be used by many threads, and in a process that was forked or spawned from
    this one.
    """

    def __init__(
        self,
        contract: ContractFile | str | Path,
        before: State,
        *,
        schema: str | Path | None = None,
    ) -> None:
        """`UsageError` where the contract or the state cannot be read.

        `ContractError` where the contract fits no run that begins in the state, whatever it does.
        Of JSON, CSV and the like, whose types both states of a run decide, the first run says it.
        """
        from statediff.packs import known_sandbox
        from statediff.workspace.warm import keep

        self.contract = contract_of(contract)
        beside = schema_of(contract, self.contract, schema)
        self._kept = keep(before, beside, known_sandbox(self.contract))
        self._prepared: dict[int, Prepared] = {}
        known = self._kept.known()
        if known is not None:
            error = kernel.binding_error(self.contract, known, untyped=self._kept.untyped)
            error = error or self._prepare(known).null_run
            if error is not None:
                raise error

    def score(
        self,
        after: After,
        *,
        answer: Any = NOT_GIVEN,
        trace: str | Path | None = None,
        complete_trace: bool = False,
        ended: str | None = None,
    ) -> Score:
        """The run's verdict and reward; nothing is packed. Raises as `judge` does."""
        before, last = self._kept.captures(after)
        said, calls = self._beside(answer, trace, complete_trace)
        ending = None if ended is None else RunEnding.named(ended)
        prepared = self._prepare(before)
        return score_of(prepared.judgement(last, trace=calls, answer=said, ending=ending))

    def so_far(
        self,
        now: After,
        *,
        trace: str | Path | None = None,
        complete_trace: bool = False,
    ) -> Standing:
        """How the run stands if it goes on from the state `now`, while its systems are at rest.

        The clauses are those of `score`, without what only an end can show: what is required, the
        answer, how the run ended. `trace` has the calls so far. Raises as `judge` does.
        """
        before, last = self._kept.captures(now)
        _, calls = self._beside(NOT_GIVEN, trace, complete_trace)
        return standing_of(self._prepare(before).so_far(last, trace=calls))

    def judged(
        self,
        after: After,
        answer: Any = NOT_GIVEN,
        trace: str | Path | None = None,
        complete_trace: bool = False,
    ) -> JudgedPair:
        """The judgement of a run, with what it was judged from. Raises as `judge` does."""
        before, last = self._kept.captures(after)
        said, calls = self._beside(answer, trace, complete_trace)
        found = self._prepare(before).judgement(last, trace=calls, answer=said)
        return JudgedPair(before, last, said, found)

    def before(self, after: After) -> Capture:
        """The state before, as it is compared with a state after."""
        return self._kept.captures(after)[0]

    def _prepare(self, before: Capture) -> Prepared:
        """The contract over a capture before, which is one of few as long as states are alike."""
        known = self._prepared.get(id(before))
        if known is None or known.before is not before:
            known = kernel.prepare(self.contract, before, facts=kernel.TrialFacts.offline())
            if len(self._prepared) >= _PREPARED:
                self._prepared.clear()
            self._prepared[id(before)] = known
        return known

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_prepared": {}}

    def judge(
        self,
        after: After,
        *,
        answer: Any = NOT_GIVEN,
        trace: str | Path | None = None,
        complete_trace: bool = False,
        ended: str | None = None,
    ) -> Judged:
        """The whole judgement, with its bundle: what `statediff.judge` gives of the two states."""
        before, last = self._kept.captures(after)
        said, calls = self._beside(answer, trace, complete_trace)
        return Judged.of(
            kernel.evaluate(
                self.contract,
                before,
                last,
                trace=calls,
                answer=said,
                facts=kernel.TrialFacts.offline(ended),
                packs_later=True,
            )
        )

    def score_many(
        self,
        afters: Iterable[After],
        *,
        answers: Iterable[Any] | None = None,
        workers: int = 1,
        evidence: Evidence | None = None,
    ) -> list[Score]:
        """The scores of many runs, in their order, by so many processes.

        A run whose state cannot be read or judged is INCONCLUSIVE, and the others are judged all
        the same. `ContractError` where the contract does not fit. With several workers a program
        needs `if __name__ == "__main__":`. They read files themselves; states that are neither
        tables nor files are judged in this process.

        With `evidence`, a folder has what each verdict was judged from, under one signature.
        """
        if workers < 1:
            raise UsageError(f"{workers} workers: expected 1 or more")
        runs = _paired(afters, answers)
        if evidence is None:
            return [score for score, _, _ in self._each(runs, workers, None)]
        from statediff.workspace.batches import book

        found: list[Score] = []
        with book(evidence, self.contract) as batch:
            for score, written, run in self._each(runs, workers, batch.recorder):
                batch.add(score, written, partial(self.before, run[0]))
                found.append(score)
        return found

    def _each(
        self, runs: Iterator[_Run], workers: int, recorder: Recorder | None
    ) -> Iterator[tuple[Score, Written | None, _Run]]:
        """The score of each run, the record of it, and the run, in their order."""
        if workers == 1 or not self._kept.is_portable:
            yield from ((*_score_or_why(self, recorder, *run), run) for run in runs)
            return
        from statediff.parallel import Processes, Start, in_order

        work = partial(_score_there, pickle.dumps((self, recorder)))
        start = Start("forkserver", _JUDGING)
        waiting: deque[list[_Run]] = deque()

        def pieces() -> Iterator[list[bytes]]:
            rest = iter(runs)
            while piece := list(islice(rest, _PIECE)):
                waiting.append(piece)
                yield [self._packed(*run) for run in piece]

        def lost(piece: list[bytes]) -> list[_Scored | None]:
            # Only the run at which the process died is lost.
            alone = in_order(executor, workers, work, ([run] for run in piece), _died)
            return [score for [score] in alone]

        with closing_down(Processes(workers, start)) as executor:
            for scores in in_order(executor, 2 * workers, work, pieces(), lost):
                for scored, run in zip(scores, waiting.popleft(), strict=True):
                    yield (*(scored or _score_or_why(self, recorder, *run)), run)

    def _packed(self, after: Any, answer: Any) -> bytes:
        """The part of a run that another process needs; nothing of one that is judged here."""
        try:
            return pickle.dumps((self._kept.brief(after), answer))
        except Exception:  # noqa: BLE001 - whatever it is, `score` says it
            return b""

    async def score_async(
        self,
        after: After,
        *,
        answer: Any = NOT_GIVEN,
        trace: str | Path | None = None,
        complete_trace: bool = False,
        ended: str | None = None,
    ) -> Score:
        """`score` in a thread, while the loop goes on."""
        import asyncio

        work = partial(self.score, after, answer=answer, trace=trace, ended=ended)
        return await asyncio.to_thread(work, complete_trace=complete_trace)

    def _beside(
        self, answer: Any, trace: str | Path | None, complete_trace: bool
    ) -> tuple[Value | NoAnswer, Trace]:
        """The agent's answer, and its calls."""
        from statediff.workspace import inputs

        said = answer_of(answer, self.contract.content.answer.form)
        return said, inputs.trace_from(None if trace is None else Path(trace), complete_trace)


_JUDGING: Final = (
    __name__,
    "statediff.kernel.trial",
    "statediff.agents.handover",
    "statediff.workspace.batches",
    "statediff.workspace.warm",
)
"""Modules that a process that scores imports before it is forked."""
_PREPARED: Final = 32
"""Captures before over which a contract is kept prepared."""
_Run: TypeAlias = tuple[Any, Any]
"""A state after and what the agent said."""
_Scored: TypeAlias = "tuple[Score, Written | None]"
"""A score, and what is written of its run; of one that was not read there is nothing."""
_MISSING: Final = object()
_PIECE: Final = 64
"""Runs that are handed to another process at once."""


def _paired(afters: Iterable[After], answers: Iterable[Any] | None) -> Iterator[_Run]:
    if answers is None:
        yield from ((after, NOT_GIVEN) for after in afters)
        return
    for after, answer in zip_longest(afters, answers, fillvalue=_MISSING):
        if after is _MISSING or answer is _MISSING:
            raise UsageError("there are not as many answers as states: give one each")
        yield after, answer


def _score_there(judge: bytes, runs: list[bytes]) -> list[_Scored | None]:
    """The scores, in another process; None of a run that the first process has to judge."""
    try:
        here, recorder = _judge_here(judge)
    except InputError:  # the state before has changed since the first process read it
        return [None] * len(runs)
    return [_score_or_none(here, recorder, run) for run in runs]


def _score_or_none(judge: Judge, recorder: Recorder | None, run: bytes) -> _Scored | None:
    try:
        after, answer = pickle.loads(run)  # noqa: S301 - what `score_many` wrote
        if recorder is None:
            return judge.score(after, answer=answer), None
        found = judge.judged(after, answer)
        written = replace(recorder.written(*found), captured=None)
    except Exception:  # noqa: BLE001 - whatever it is, the first process finds and says it
        return None
    return score_of(found.judgement), written


def _score_or_why(judge: Judge, recorder: Recorder | None, after: Any, answer: Any) -> _Scored:
    try:
        if recorder is None:
            return judge.score(after, answer=answer), None
        found = judge.judged(after, answer)
    except ContractError:
        raise
    except Exception as error:  # noqa: BLE001 - one bad run takes no other with it
        return unread(error), None
    return score_of(found.judgement), recorder.written(*found)


@lru_cache(maxsize=4)
def _judge_here(judge: bytes) -> tuple[Judge, Recorder | None]:
    """The judge of another process, made once in this one."""
    found: tuple[Judge, Recorder | None] = pickle.loads(judge)  # noqa: S301 - what `score_many` wrote
    return found


def _died(_: list[bytes]) -> list[_Scored | None]:
    return [(unread(StatediffError("the process that judged the run ended")), None)]


@contextmanager
def closing_down(executor: Processes) -> Iterator[Processes]:
    """The executor; it ends with the block, and begins nothing more after a fault."""
    try:
        yield executor
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def load_contract(
    named: str | Path,
    *,
    case: str | None = None,
    cases: str | Path | None = None,
    inputs: Mapping[str, Any] | None = None,
) -> ContractFile:
    """The contract in a file, in a text of several lines, or of a pack, by its name.

    With `case`, the contract of that case, from its own `cases:` or the file `cases`; `inputs`
    replace those of the contract. `ContractError` names every problem with its line.
    """
    from statediff.contract.file import parse_contract
    from statediff.workspace.cases import Chosen, load_case
    from statediff.workspace.contracts import contract_path

    chosen = chosen_cases(case or (), cases, inputs)
    if _is_text(named):
        if chosen != Chosen():
            raise UsageError("a contract in a text has no cases: write its inputs into the text")
        return parse_contract(str(named).encode("utf-8"), "contract.yaml")
    return load_case(contract_path(str(named)), chosen)


def answer_of(answer: Any, form: str) -> Value | NoAnswer:
    """The agent's answer, given as JSON or as the file that holds it; `InputError` otherwise.

    What an agent can say and no answer can be (too long or too deep, NaN, half of a surrogate pair)
    is no answer: so a run cannot end without a verdict by what it says.
    """
    from statediff.agents.handover import as_answer

    if answer is NOT_GIVEN:
        return NoAnswer("none was given")
    if isinstance(answer, Path):
        from statediff.workspace import inputs

        return inputs.answer_from(answer, form)
    said = as_answer(answer)
    if isinstance(said, NoAnswer):
        try:
            json.dumps(answer)
        except TypeError as error:  # which no agent says
            message = f"the answer: expected JSON, found something else: {error}"
            raise InputError(message) from None
        except (ValueError, RecursionError):
            pass
    return said


def chosen_cases(
    names: str | Sequence[str], file: str | Path | None, inputs: Mapping[str, Any] | None
) -> Chosen:
    """The cases that are named, and the inputs that replace theirs."""
    from statediff.workspace.cases import Chosen

    try:
        given = read_tree(json.dumps(dict(inputs or {}), allow_nan=False).encode(), Limits())
    except (TypeError, ValueError, RecursionError, Flaw) as error:
        raise InputError(f"the inputs: expected values as JSON has them: {error}") from None
    return Chosen(
        file=None if file is None else Path(file),
        names=(names,) if isinstance(names, str) else tuple(names),
        inputs=given,
    )


def _is_text(contract: ContractFile | str | Path) -> bool:
    return isinstance(contract, str) and "\n" in contract


def schema_of(
    contract: ContractFile | str | Path, file: ContractFile, given: str | Path | None
) -> str | Path | None:
    """The state schema file: the one given, else the one beside the contract's own file."""
    from statediff.workspace.contracts import schema_of_contract

    if _is_text(contract):
        return given
    return schema_of_contract(Path(file.source.file), file, given)


def contract_of(contract: ContractFile | str | Path) -> ContractFile:
    """The contract, loaded if it is not yet."""
    return load_contract(contract) if isinstance(contract, str | Path) else contract
