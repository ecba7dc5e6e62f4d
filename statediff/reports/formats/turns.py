"""A trial turn by turn, one JSON line each: what was called, what changed, what the gate said.

For those who work on the agent: each line holds the turn's calls with their results, the changes
that are known to be theirs, the truth of the turn's gate, and how often a tool was right the first
time and how often after a repair [TV §3.6, §3.8]. A call is repaired by one of the same tool that
succeeds, in the same turn, and within as many attempts as the contract grants, if it grants any
number (`actions.count`). A log without turns is one turn. Where the harness spoke for the user,
a line is a message, `of` the contract's turn that it belongs to and `attempt` its attempt there;
the turn's last one has the gate.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from statediff.contract.yaml.reader import read_document
from statediff.evidence.documents import answer_from
from statediff.evidence.package import Bundle
from statediff.model.trace import NoAnswer
from statediff.model.values import decode
from statediff.reports.attribution import Makers
from statediff.reports.formats.format import ReportFormat, Takes
from statediff.reports.plain import json_lines, plain
from statediff.reports.record import Record, reading

Json = Any
SCHEMA: Final = "statediff/turn/1"


def turn_lines(bundle: Bundle, where: str = "the bundle") -> Iterator[Json]:
    """One object a turn, in order; `BundleError` if the bundle contradicts itself."""
    with reading(where):
        record = Record(bundle)
        trace, judged = record.trace, record.judgement
        makers = Makers(judged, trace, record.history)
        truths = {clause["clause"]: clause["truth"] for clause in judged["clauses"]}
        contract = read_document(bundle.files["contract.yaml"], "contract.yaml").value
        gates = _gates(contract)
        window = (contract.get("actions") or {}).get("count")
        turns = trace["turns"] or [{"message": None, "calls_before": 0, "reply": None}]
        ends = [turn["calls_before"] for turn in turns[1:]] + [len(trace["actions"])]
        last = {turn["gate"]: at for at, turn in enumerate(turns, start=1) if "gate" in turn}
        for number, (turn, end) in enumerate(zip(turns, ends, strict=True), start=1):
            gate = turn.get("gate", number)
            is_judged = bool(trace["turns"]) and last.get(gate, number) == number
            calls = trace["actions"][turn["calls_before"] : end]
            own = {call["id"] for call in calls}
            yield {
                "schema": SCHEMA,
                "trial": bundle.manifest["trial"],
                "turn": number,
                "message": turn["message"],
                "calls": [_call(call) for call in calls],
                "reply": _reply(turn["reply"]),
                "changes": [d["id"] for d in judged["deltas"] if d["action"] in own],
                "attributed": makers.is_told,
                "gate": truths.get(gates.get(gate, "")) if is_judged else None,
                **({"of": gate, "attempt": turn["attempt"]} if "gate" in turn else {}),
                "repair": repair(calls, window),
            }


def first_failed_turn(bundle: Bundle) -> int | None:
    """The number of the first turn that is known to fail its gate; None where none is.

    `BundleError` if the bundle contradicts itself.
    """
    with reading("the bundle"):
        if bundle.document("trace.json")["turns"] is None:
            return None
        clauses = bundle.document("judgement.json")["clauses"]
        failed = {clause["clause"] for clause in clauses if clause["truth"] == "FAILS"}
        gates = _gates(read_document(bundle.files["contract.yaml"], "contract.yaml").value)
        return min((number for number, gate in gates.items() if gate in failed), default=None)


def repair(calls: list[Json], window: int | None = None) -> Json:
    """How many tools were right the first time, and how many in the end; of how many.

    Right in the end is a tool of which one of the first `window` calls succeeds: what the contract
    takes for a repair (`actions.count`); None: any of its calls.
    """
    tries: dict[str, int] = {}
    right_at: dict[str, int] = {}
    for call in calls:
        tool = call["tool"]
        tries[tool] = tries.get(tool, 0) + 1
        if call["error"] is None:
            right_at.setdefault(tool, tries[tool])
    return {
        "tools": len(tries),
        "first_attempt": sum(at == 1 for at in right_at.values()),
        "after_repair": sum(window is None or at <= window for at in right_at.values()),
        "failed_calls": sum(call["error"] is not None for call in calls),
        "window": window,
    }


def _gates(contract: Json) -> dict[int, str]:
    """The number of a turn → the clause that is its gate."""
    return {
        number: str(turn.get("id") or f"turns-{number}")
        for number, turn in enumerate(contract.get("turns") or (), start=1)
    }


def _call(call: Json) -> Json:
    values = {name: plain(decode(call[name])) for name in ("arguments", "result")}
    kept = ("id", "tool", "class", "error", "principal", "attempt")
    return {**{name: call[name] for name in kept}, **values}


def _reply(reply: Json) -> Json:
    if reply is None:
        return None
    said = answer_from(reply)
    return None if isinstance(said, NoAnswer) else plain(said)


FORMAT: Final = ReportFormat(name="turns", takes=Takes.TURNS, write=json_lines)
