"""What a model is shown of a run that it judges by a rubric, and what is shown of its opinion."""

from __future__ import annotations

from typing import Any, Final

from statediff.contract.yaml.reader import read_document
from statediff.evidence.package import Bundle
from statediff.model.trace import NoAnswer
from statediff.reports.formats.turns import turn_lines
from statediff.reports.plain import dumps, plain, plain_judgement
from statediff.reports.record import Record, reading
from statediff.suite.rubric import Opinion

Json = Any
_DELTA: Final = ("op", "type", "key", "path", "before", "after", "action")
_TURN: Final = ("message", "calls", "reply")


def run_shown(bundle: Bundle, where: str = "the bundle") -> str:
    """The task, the answer, the changes and the turns, as one line of JSON; no verdict."""
    with reading(where):
        contract = read_document(bundle.files["contract.yaml"], "contract.yaml").value
        answer = Record(bundle).answer
        deltas = plain_judgement(bundle, where)["deltas"]
        return dumps({
            "task": contract.get("prompt") or contract["intent"],
            "answer": None if isinstance(answer, NoAnswer) else plain(answer),
            "changes": [{name: delta[name] for name in _DELTA} for delta in deltas],
            "turns": [{n: turn[n] for n in _TURN} for turn in turn_lines(bundle, where)],
        })  # fmt: skip


def opinion_line(opinion: Opinion) -> Json:
    """An opinion as plain JSON, with what follows from its scorings."""
    deviation = opinion.deviation
    return {
        "model": opinion.model,
        "prompt_digest": opinion.prompt_digest,
        "seeds": [each.seed for each in opinion.scorings],
        "criteria": {
            name: {
                "met": sum(each.fault is None and each.judged[name].is_met for each in scorings),
                "because": [e.judged[name].because for e in scorings if e.fault is None],
            }
            for scorings in (opinion.scorings,)
            for name in opinion.criteria
        },
        "faults": [each.fault for each in opinion.scorings if each.fault is not None],
        "passes": opinion.passes,
        "mean": _rounded(opinion.mean),
        "sd": _rounded(deviation),
        "spread": _rounded(opinion.spread),
    }


def _rounded(figure: Any) -> float | None:
    return None if figure is None else round(float(figure), 4)
