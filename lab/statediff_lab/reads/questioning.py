"""`reads run`: an agent answers questions about what somebody could read, through the gate.

Any agent that acts by tools will do: it gets `search` and `fetch` of the question's gate, and no
system. The gate keeps the record. In context mode the agent gets no tools and all that its actor
may read at once; in zero-shot mode the question alone.

A model has nothing but the tools. A program runs on this machine, where the artifacts are too: what
it read past the gate nobody would see, so its record has a gap unless the caller answers for it.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from statediff.agents.trial import Agent, Trial
from statediff.capture.source import Clock
from statediff.model.trace import NoAnswer
from statediff.model.values import Map, Value
from statediff.reads.index import Index, show_instant
from statediff.reads.library import as_json
from statediff_lab.reads.config import EvaluationConfig
from statediff_lab.reads.gate import Gate, ReadTrace, whole, window
from statediff_lab.reads.log import Corpus
from statediff_lab.reads.questions import ANSWER_SCHEMAS, Asked

PAST_THE_GATE: Final = "the program could have read the artifacts past the gate, on this machine"
NOTHING_GIVEN: Final = "the agent was given nothing to read"


@dataclass(frozen=True)
class Asking:
    """How questions are put: tools, or all of the cone at once (`is_context`), or neither."""

    corpus: Corpus
    config: EvaluationConfig
    has_tools: bool = True
    is_context: bool = False
    is_trusted: bool = True
    """True if nothing can be read past the gate, or the caller answers for that."""


@dataclass(frozen=True)
class Answered:
    """The outcome of one question. `answer` None: there was none that could be read."""

    question: str
    answer: Mapping[str, Any] | None
    trace: ReadTrace
    error: str | None


def put_questions(
    asked: Iterator[Asked], agent: Agent, asking: Asking, clock: Clock
) -> Iterator[Answered]:
    """Each question's answer and reads, as they come. `AdapterError`: no agent is to be had."""
    index = Index(asking.corpus.artifacts.values()) if asking.has_tools else None
    for each in asked:
        yield _put(each, agent, asking, index, clock)


def prompt_of(asked: Asked, asking: Asking) -> str:
    """All that the agent reads of one question."""
    lines = [
        f"You answer for {asked.actor}, as of {show_instant(asked.as_of)}.",
        f"Nothing that came later counts, and nothing that {asked.actor} may not read.",
        asked.text,
        "Answer in JSON with these members; `evidence` has the ids of what you rest on: "
        + json.dumps(ANSWER_SCHEMAS[asked.track]),
    ]
    if asking.is_context:
        held = window(asking.corpus, asking.config, asked)
        lines.append("This is all that may be read, an artifact a line:")
        lines += (json.dumps(whole(artifact), ensure_ascii=False) for artifact in held)
    elif asking.has_tools:
        lines.append("`search` names artifacts, `fetch` gives one whole.")
    return "\n".join(lines)


def _put(asked: Asked, agent: Agent, asking: Asking, index: Index | None, clock: Clock) -> Answered:
    gate = None if index is None else Gate(asking.corpus, index, asking.config, asked)
    with tempfile.TemporaryDirectory(prefix="statediff-question-") as made:
        folder = Path(made)
        trial = Trial(
            prompt=prompt_of(asked, asking),
            inputs={},
            urls={},
            folder=folder,
            answer_path=folder / "answer.json",
            trace_path=folder / "trace.jsonl",
            library=gate,
        )
        run = agent.run(trial, clock)
    answer = _answer(run.answer)
    error = run.error or (run.answer.cause if isinstance(run.answer, NoAnswer) else None)
    if gate is None:
        return Answered(asked.id, answer, ReadTrace(gap=NOTHING_GIVEN), error)
    told = gate.trace()
    gap = told.gap or (None if asking.is_trusted else PAST_THE_GATE)
    return Answered(asked.id, answer, ReadTrace(told.calls, gap), error)


def _answer(answer: Value | NoAnswer) -> Mapping[str, Any] | None:
    return as_json(answer) if isinstance(answer, Map) else None
