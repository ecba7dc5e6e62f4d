"""A trial for a judge who does not see the verdict: a reviewer who is blind, or a model.

A reviewer's dossier has the intent and the clauses in English, every change with both sides, what
was left out, the readings, the answer and the calls. Not the verdict, not a clause's truth, not a
finding, not what explains a change: a reviewer who has seen those is no independent reviewer
[SSD §V].
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from statediff.contract.yaml.reader import read_document
from statediff.evidence.package import Bundle
from statediff.model.trace import NoAnswer
from statediff.model.values import decode
from statediff.reports.formats.turns import turn_lines
from statediff.reports.plain import dumps, plain, plain_judgement
from statediff.reports.record import Record, delta_name, delta_sides, reading, said, shown
from statediff_lab.opinions import RubricOpinion

Json = Any
MAX_LISTED: Final = 200
_SIGNS: Final = {"create": "+", "link": "+", "delete": "−", "unlink": "−"}


def dossier(bundle: Bundle) -> Group:
    """The dossier of a trial; `BundleError` if the bundle contradicts itself."""
    with reading("the bundle"):
        record = Record(bundle)
        contract = read_document(bundle.files["contract.yaml"], "contract.yaml").value
        parts = {
            "Intent": [Text(said(contract.get("intent", ""), 2000))],
            "What was asked": list(_clauses(record.judgement["clauses"])),
            "What changed": list(_changes(record.judgement["deltas"])),
            "What was left out of the comparison": list(hidden_lines(record.judgement["hidden"])),
            "What was read": list(_readings(record)),
            "What the agent answered": list(answer_lines(record)),
            "What the agent did, as far as it was recorded": list(_calls(bundle)),
        }
        return Group(*sections(parts))


def sections(parts: Mapping[str, list[Text]]) -> Iterator[RenderableType]:
    """The lines under their titles, each part cut where it is long."""
    for title, lines in parts.items():
        yield Text(title, style="bold")
        for line in lines[:MAX_LISTED] or [Text("nothing", style="dim")]:
            yield Padding(line, (0, 0, 0, 2), expand=False)
        if len(lines) > MAX_LISTED:
            more = f"and {len(lines) - MAX_LISTED} more; all are in the bundle"
            yield Padding(Text(more, style="dim"), (0, 0, 0, 2))
        yield Text()


def _clauses(clauses: Json) -> Iterator[Text]:
    for clause in clauses:
        yield Text(f"{said(clause['clause'], 100)}: {said(clause['sentence'])}")


def _changes(deltas: Json) -> Iterator[Text]:
    for delta in deltas:
        yield change(delta)


def change(delta: Json) -> Text:
    """One delta on a line: its sign, what it is of, and both sides or the one that there is."""
    before, after = delta_sides(delta)
    if delta["path"]:
        what = f"{before} → {after}"
    else:
        what = after if delta["op"] in ("create", "link") else before
    return Text(f"{_SIGNS.get(delta['op'], '~')} {delta_name(delta)}  {what}")


def hidden_lines(hidden: Json) -> Iterator[Text]:
    """The changes that were left out, each with the rule that says so."""
    for entry in hidden:
        line = change(entry["delta"])
        line.append(f"  by {said(entry['rule'])}")
        yield line


def _readings(record: Record) -> Iterator[Text]:
    for entry in record.readings():
        yield Text(f"{entry.side} {said(entry.source, 100)}: {said(entry.state)}, {entry.age}")


def answer_lines(record: Record) -> Iterator[Text]:
    """The agent's answer, or why there is none."""
    if isinstance(record.answer, NoAnswer):
        yield Text(f"none: {said(record.answer.cause)}")
    else:
        yield Text(shown(record.answer, 400))


def _calls(bundle: Bundle) -> Iterator[Text]:
    for action in bundle.document("trace.json")["actions"]:
        line = f"{said(action['id'], 60)} {said(action['tool'], 100)}"
        line += f" {shown(decode(action['arguments']), 200)}"
        error = "" if action["error"] is None else f"  error: {said(action['error'])}"
        yield Text(line + error)


_DELTA: Final = ("op", "type", "key", "path", "before", "after", "action")
_TURN: Final = ("message", "calls", "reply")


def run_text(bundle: Bundle, where: str = "the bundle") -> str:
    """The task, the answer, the changes and the turns, as one line of JSON; no verdict."""
    with reading(where):
        contract = read_document(bundle.files["contract.yaml"], "contract.yaml").value
        answer = Record(bundle).answer
        deltas = plain_judgement(bundle, where)["deltas"]
        return dumps(
            {
                "task": contract.get("prompt") or contract["intent"],
                "answer": None if isinstance(answer, NoAnswer) else plain(answer),
                "changes": [{name: delta[name] for name in _DELTA} for delta in deltas],
                "turns": [{n: turn[n] for n in _TURN} for turn in turn_lines(bundle, where)],
            }
        )


def opinion_line(opinion: RubricOpinion) -> Json:
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
        "mean": _round(opinion.mean),
        "sd": _round(deviation),
        "spread": _round(opinion.spread),
    }


def _round(figure: Any) -> float | None:
    return None if figure is None else round(float(figure), 4)
