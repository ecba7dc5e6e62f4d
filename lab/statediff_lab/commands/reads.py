"""Check a read-side configuration, make worlds and questions, judge recorded reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from statediff.cli.faults import USAGE
from statediff.cli.options import (
    JsonFlag,
    MaxTurnsOption,
    ModelCosts,
)
from statediff.cli.output import emit, print_result, progress, results
from statediff.errors import StorageError, UsageError
from statediff.reports.said import said
from statediff.workspace.folders import shown

if TYPE_CHECKING:
    from statediff.workspace.agents import AgentOptions
    from statediff_lab.reads.questions import Question
    from statediff_lab.reads.scores import ReadRun, Scores
    from statediff_lab.reads.verdict import ReadMode, RunCard, TrackSummary
    from statediff_lab.reads.world import Pack

CHECKED = "statediff/reads-check/1"
JUDGED = "statediff/reads-judged/1"
SUMMARY = "statediff/reads-summary/1"
QUESTION = "statediff/reads-question/1"
ARTIFACT = "statediff/reads-artifact/1"
_CONFIG, _EVENTS, _ARTIFACTS = "config.yaml", "events.jsonl", "artifacts.jsonl"
_PROBLEM = ("line", "column", "severity", "code", "message", "hint")

FolderArgument = Annotated[
    str,
    typer.Argument(
        metavar="PACK",
        help="A shipped pack's name, or a folder with config.yaml, events.jsonl, artifacts.jsonl.",
    ),
]


def check(pack: FolderArgument, as_json: JsonFlag = False) -> int:
    """Find what is wrong with a configuration before any agent runs; ends with 2 if anything is."""
    from statediff_lab.reads.checks import probe, problems
    from statediff_lab.reads.generate import generate

    found = _pack(pack)
    listed = problems(found.config, found.corpus)
    probed = probe(generate(found.corpus, found.config.content).questions)
    shortcuts = [each for each in probed if each.beats_chance]
    errors = sum(problem.severity == "error" for problem in listed)
    document = {
        "form": CHECKED,
        "reads": found.config.content.reads,
        "ok": not errors,
        "problems": [{name: getattr(each, name) for name in _PROBLEM} for each in listed],
        "shortcuts": [
            {"track": s.track.value, "questions": s.questions, "right": s.right} for s in shortcuts
        ],
    }
    lines = [
        f"{p.line}:{p.column}: {p.severity} {p.code}: {said(str(p.message), 2000)}" for p in listed
    ]
    lines += [
        f"warning shortcut: words alone answer {s.right} of {s.questions} {s.track.value} questions"
        for s in shortcuts
    ]
    events, artifacts = len(found.corpus.events), len(found.corpus.artifacts)
    verdict = f"{errors} errors" if errors else "ok"
    name = said(found.config.content.reads)
    lines.append(f"{name}: {verdict}; {events} events, {artifacts} artifacts")
    print_result(document, "\n".join(lines), as_json=as_json)
    return USAGE if errors else 0


def world(
    pack: FolderArgument,
    out: Annotated[Path, typer.Option("--out", help="The folder to write; it must not exist.")],
) -> int:
    """Write a pack's configuration, event log and artifacts into a folder, to begin from."""
    import json

    from statediff.reads.index import show_instant as at
    from statediff_lab.reads.gate import whole

    found = _pack(pack)
    events = (
        {
            "id": e.id,
            "type": e.type,
            "at": at(e.at),
            "actors": list(e.actors),
            "facts": dict(e.facts),
            "artifacts": list(e.artifacts),
        }
        for e in found.corpus.events
    )
    artifacts = (
        {**whole(a), "recorded_at": at(a.recorded_at)} for a in found.corpus.artifacts.values()
    )
    try:
        out.mkdir(parents=True)
        (out / _CONFIG).write_bytes(found.config.document.data)
        for name, rows in ((_EVENTS, events), (_ARTIFACTS, artifacts)):
            with (out / name).open("w", encoding="utf-8") as stream:
                stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    except OSError as error:
        raise StorageError(f"{out} cannot be written: {error.strerror}") from error
    results().print(f"written: {shown(out)}", soft_wrap=True)
    return 0


def questions(
    pack: FolderArgument,
    with_truth: Annotated[
        bool, typer.Option("--truth", help="Give the truth too; never show this to an agent.")
    ] = False,
) -> int:
    """Print the questions as JSON lines: what, of whom, as of when, and the answer's shape."""
    from statediff.reads.index import show_instant
    from statediff_lab.reads.generate import generate
    from statediff_lab.reads.questions import ANSWER_SCHEMAS

    found = _pack(pack)
    made = generate(found.corpus, found.config.content)
    for question in made.questions:
        asked = question.asked
        line: dict[str, Any] = {
            "form": QUESTION,
            "id": asked.id,
            "track": asked.track.value,
            "actor": asked.actor,
            "as_of": show_instant(asked.as_of),
            "text": asked.text,
            "answer": ANSWER_SCHEMAS[asked.track],
        }
        if with_truth:
            truth = {
                name: sorted(value) if isinstance(value, frozenset) else value
                for name, value in vars(question.truth).items()
            }
            line |= {"bucket": question.bucket.value, "truth": truth, "spec": question.spec}
        emit(line)
    for shortage in made.shortages:
        progress().print(f"short: {shortage}", soft_wrap=True)
    return 0


def window(
    pack: FolderArgument,
    question: Annotated[str, typer.Argument(help="The question's id, e.g. q003.")],
) -> int:
    """Print what context mode puts before an agent: all that the question's actor may read."""
    from statediff_lab.reads.gate import whole
    from statediff_lab.reads.gate import window as offered
    from statediff_lab.reads.generate import generate

    found = _pack(pack)
    asked = {q.asked.id: q.asked for q in generate(found.corpus, found.config.content).questions}
    if question not in asked:
        raise UsageError(f"there is no question {question[:60]!r}; `reads questions` names them")
    for artifact in offered(found.corpus, found.config.content, asked[question]):
        emit({"form": ARTIFACT, **whole(artifact)})
    return 0


@dataclass(frozen=True, kw_only=True)
class Answerer:
    """Who answers the questions."""

    base_url: Annotated[
        str | None,
        typer.Option(
            "--base-url", metavar="URL", help="A model at this OpenAI-compatible endpoint."
        ),
    ] = None
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="With --base-url: which model.")
    ] = None
    costs: ModelCosts
    max_turns: MaxTurnsOption = None
    agent_mcp: Annotated[
        str | None,
        typer.Option("--agent-mcp", metavar="CMD", help="A program that gets the tools by MCP."),
    ] = None
    agent: Annotated[
        str | None,
        typer.Option("--agent", metavar="MODULE:FUNCTION", help="A Python function."),
    ] = None
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.1, metavar="SECONDS", help="For each question.")
    ] = 600.0
    trust_trace: Annotated[
        bool,
        typer.Option(
            "--trust-trace",
            help="You answer for it that the program or function reads by its tools only.",
        ),
    ] = False

    def options(self) -> AgentOptions:
        """As `run` takes them; `UsageError` where nobody, or two, are to answer."""
        from statediff.workspace.agents import AgentOptions

        return AgentOptions(
            named=self.agent,
            mcp=self.agent_mcp,
            base_url=self.base_url,
            model=self.model,
            **vars(self.costs),
            max_turns=self.max_turns,
            timeout_seconds=self.timeout,
        )


def run(
    pack: FolderArgument,
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="The runs, JSON lines; a new file.")
    ],
    answerer: Answerer,
    mode: Annotated[str, typer.Option("--mode", help="tool, context or zero-shot.")] = "tool",
    question: Annotated[
        list[str] | None,
        typer.Option("--question", metavar="ID", help="Only this one; may be given again."),
    ] = None,
) -> int:
    """Have a model or an agent answer the questions, and keep what it read for `reads judge`."""
    import json
    from datetime import UTC, datetime

    from statediff_lab.reads.generate import generate
    from statediff_lab.reads.questioning import Asking, put_questions
    from statediff_lab.reads.runs import run_line
    from statediff_lab.reads.verdict import ReadMode

    reading = _mode(mode)
    found, options = _pack(pack), answerer.options()
    asked = [q.asked for q in generate(found.corpus, found.config.content).questions]
    wanted = set(question or ()) or {each.id for each in asked}
    if unknown := sorted(wanted - {each.id for each in asked}):
        raise UsageError(f"there is no question {unknown[0][:60]!r}; `reads questions` names them")
    asking = Asking(
        found.corpus,
        found.config.content,
        has_tools=reading is ReadMode.TOOL,
        is_context=reading is ReadMode.CONTEXT,
        is_trusted=options.base_url is not None or answerer.trust_trace,
    )
    agent = options.agent(Path("contract.yaml"))
    number = missing = 0
    try:
        with out.open("x", encoding="utf-8") as stream:
            chosen = (each for each in asked if each.id in wanted)
            for each in put_questions(chosen, agent, asking, lambda: datetime.now(UTC)):
                line = run_line(each.question, each.answer, each.trace, has_log=asking.has_tools)
                stream.write(json.dumps(line, ensure_ascii=False) + "\n")
                stream.flush()
                number, missing = number + 1, missing + (each.answer is None)
                why = f"no answer: {each.error}" if each.answer is None else "answered"
                progress().print(said(f"{each.question}  {why}", 300), soft_wrap=True)
    except OSError as error:
        raise StorageError(f"{out} cannot be written: {error.strerror}") from error
    results().print(f"{number} runs, {missing} without an answer: {shown(out)}", soft_wrap=True)
    return 0


def _mode(mode: str) -> ReadMode:
    from statediff_lab.reads.verdict import ReadMode

    if mode not in {each.value for each in ReadMode}:
        raise UsageError(f"--mode: expected tool, context or zero-shot, found {mode!r}")
    return ReadMode(mode)


def judge(
    pack: FolderArgument,
    runs: Annotated[Path, typer.Argument(help="Recorded runs, JSON lines; see docs/reads.md.")],
    mode: Annotated[str, typer.Option("--mode", help="tool, context or zero-shot.")] = "tool",
    floor: Annotated[
        Path | None,
        typer.Option(
            "--floor",
            metavar="FILE",
            help="Zero-shot runs of the same questions; the gap to them is reported.",
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Judge recorded runs: whether each answer is right, and was validly reachable."""
    from statediff.model.verdict import Verdict
    from statediff_lab.reads.generate import generate
    from statediff_lab.reads.runs import load_runs
    from statediff_lab.reads.scores import Scorer
    from statediff_lab.reads.verdict import ReadMode, summary
    from statediff_lab.reads.verdict import judge as judge_run

    _mode(mode)
    found = _pack(pack)
    made = generate(found.corpus, found.config.content).questions
    scorer = Scorer(found.corpus, found.config.content, made)
    cases = tuple(load_runs(runs, made, found.config.zone))
    if ReadMode(mode) is ReadMode.CONTEXT:
        cases = tuple(_by_citations(found, made, case) for case in cases)
    cards = [judge_run(scorer, case, ReadMode(mode)) for case in cases]
    floors: dict[Any, float | None] = {}
    if floor is not None:
        below = load_runs(floor, made, found.config.zone)
        lowest = summary([judge_run(scorer, case, ReadMode.ZERO_SHOT) for case in below])
        floors = {each.track: each.answer for each in lowest}
    for card in cards:
        print_result(_card(card), _card_text(card), as_json=as_json)
    tracks = [_track(each, floors.get(each.track)) for each in summary(cards)]
    lines = [line for track in tracks for line in _track_lines(track)]
    document = _exact({"form": SUMMARY, "runs": len(cards), "tracks": tracks})
    if as_json or tracks:
        print_result(document, "\n".join(lines), as_json=as_json)
    verdicts = Counter(card.verdict for card in cards)
    if verdicts[Verdict.DIVERGE]:
        return 1
    return 3 if verdicts[Verdict.INCONCLUSIVE] or not cards else 0


def _by_citations(pack: Pack, questions: Sequence[Question], case: ReadRun) -> ReadRun:
    """The run as context mode sees it: each citation read from the window, or from nowhere."""
    from dataclasses import replace

    from statediff_lab.reads.gate import citing
    from statediff_lab.reads.gate import window as offered
    from statediff_lab.reads.scores import listed_texts

    held = offered(pack.corpus, pack.config.content, questions[case.question].asked)
    cited = listed_texts(case.answer, "evidence") if case.answer else ()
    return replace(case, trace=citing(frozenset(artifact.id for artifact in held), cited))


def _card_text(card: RunCard) -> str:

    invalid = "  state-invalid-correct" if card.is_state_invalid_correct else ""
    rulings = dict.fromkeys((r.truth.value, r.code, r.because) for r in card.rulings if r.code)
    lines = [f"{card.verdict.value:13} {card.question.asked.id}{invalid}"]
    lines += [f"    {truth} {code}: {said(because, 500)}" for truth, code, because in rulings]
    return "\n".join(lines)


def _track(scores: TrackSummary, floor: float | None) -> dict[str, Any]:
    return {
        "track": scores.track.value,
        "runs": scores.runs,
        "answer": scores.answer,
        "trajectory": scores.trajectory,
        "combined": scores.combined,
        "adjusted": scores.adjusted,
        "actor_rate": scores.actor_rate,
        "subsystem_rate": scores.subsystem_rate,
        "horizon_rate": scores.horizon_rate,
        "coverage": scores.coverage,
        **_of_links(scores),
        "valid": scores.valid,
        "lucky": scores.lucky,
        "state_invalid_correct": scores.state_invalid_correct,
        **{verdict.value: count for verdict, count in scores.verdicts.items()},
        **_gap(scores.answer, floor),
        "buckets": {
            bucket.value: {"runs": of.runs, "answer": of.answer, "correct": of.correct}
            for bucket, of in scores.buckets.items()
        },
    }


def _of_links(scores: TrackSummary) -> dict[str, float]:
    """The accuracies of counterfactuals; nothing on the other tracks."""
    if scores.direction is None or scores.events is None:
        return {}
    return {"direction": scores.direction, "events": scores.events}


def _track_lines(track: dict[str, Any]) -> list[str]:
    numbers = (f"{n} {v}" for n, v in track.items() if n not in ("track", "buckets"))
    buckets = (
        f"  {name}: runs {of['runs']}, answer {of['answer']}, correct {of['correct']}"
        for name, of in track["buckets"].items()
    )
    return [f"{track['track']}: {', '.join(numbers)}", *buckets]


def _gap(answer: float | None, floor: float | None) -> dict[str, float]:
    """How much better than without any evidence; nothing where there is no floor."""
    if answer is None or floor is None:
        return {}
    return {"floor": floor, "gap": round(answer - floor, 6)}


def _card(card: RunCard) -> Any:
    measured = card.measured
    return _exact(
        {
            "form": JUDGED,
            "question": card.question.asked.id,
            "track": card.question.asked.track.value,
            "mode": card.mode.value,
            "verdict": card.verdict.value,
            "state_invalid_correct": card.is_state_invalid_correct,
            "correct": card.is_correct,
            "answer": card.answer,
            "trajectory": None if measured is None else measured.trajectory,
            "combined": None if measured is None else measured.combined,
            "adjusted": None if measured is None else measured.adjusted,
            "violation_rate": None if measured is None else measured.rate,
            "counted": None if measured is None else _counted(measured),
            "named": None if card.named is None else card.named._asdict(),
            "tier": card.tier,
            "way": card.way,
            "findings": [
                {"rule": r.rule, "truth": r.truth.value, "code": r.code.value, "because": r.because}
                for r in card.rulings
                if r.code
            ],
        }
    )


def _counted(scores: Scores) -> dict[str, int]:
    return {
        "calls": scores.calls,
        "actor": scores.actor_violations,
        "subsystem": scores.subsystem_violations,
        "horizon": scores.horizon_violations,
        "needed": scores.needed,
        "fetched": scores.fetched,
    }


def _exact(value: Any) -> Any:
    """Floats as texts of at most six decimals: JSON of ours holds none."""
    if isinstance(value, float):
        return f"{value:.6f}".rstrip("0").rstrip(".")
    if isinstance(value, dict):
        return {name: _exact(each) for name, each in value.items()}
    return [_exact(each) for each in value] if isinstance(value, list) else value


def _pack(name: str) -> Pack:
    from statediff_lab.reads.config import load_config
    from statediff_lab.reads.log import load_corpus
    from statediff_lab.reads.world import Pack, load_pack, pack_in

    folder = Path(name)
    if not folder.is_dir():
        return load_pack(name)
    if (folder / "world.yaml").is_file():
        return pack_in(folder)
    config = load_config(folder / _CONFIG)
    return Pack(config, load_corpus(folder / _EVENTS, folder / _ARTIFACTS, config.zone))


COMMANDS: Final[tuple[tuple[str, Callable[..., object]], ...]] = (
    ("check", check),
    ("world", world),
    ("questions", questions),
    ("window", window),
    ("run", run),
    ("judge", judge),
)
