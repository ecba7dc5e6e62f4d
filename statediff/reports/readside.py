"""A run's reads: each call that searched or fetched, its outcome, and what was never fetched.

For contracts with `access:`, from the calls, the answer and the findings of one bundle. Nothing is
judged here: a call is a leak, or was blocked, where a finding says that it was outside of what the
actor may read. Without findings, as a blind reviewer has the bundle, what was asked and what came
of it remains.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from statediff.contract.file import parse_contract
from statediff.errors import ContractError
from statediff.model.codes import FindingCode
from statediff.model.trace import NoAnswer
from statediff.model.values import Map, Observed, Unobserved, Value, decode, show
from statediff.model.verdict import MAX_CALLS_SHOWN, Stage
from statediff.reads.captured import FETCH, SEARCH, WINDOW
from statediff.reports.said import said

Json = Any
MAX_CALLS: Final = 200
MAX_CITED: Final = 60
MAX_MISSED: Final = 60
_FEW: Final = 5
_NAME: Final = 100
_VERBS: Final = {SEARCH: "searched", FETCH: "fetched", WINDOW: "was offered"}
_OUTSIDE: Final = frozenset(
    {
        FindingCode.ACCESS_VIOLATION,
        FindingCode.SUBSYSTEM_VIOLATION,
        FindingCode.HORIZON_VIOLATION,
    }
)
_MISSED: Final = frozenset(
    {
        FindingCode.EVIDENCE_NOT_RETRIEVED,
        FindingCode.UNSEARCHED_ABSENCE,
        FindingCode.HALLUCINATED_CITATION,
        FindingCode.INVALID_CITATION,
        FindingCode.CITATION_NOT_RETRIEVED,
        FindingCode.EVIDENCE_NOT_CITED,
    }
)


@dataclass(frozen=True)
class ReadCall:
    """One call that read, in words that are safe to print."""

    call: str
    verb: str
    about: str
    outcome: str
    fault: str
    """`leaked`, `blocked` or `not granted`, where a finding says so; else empty."""


@dataclass(frozen=True, kw_only=True)
class ReadSide:
    """The reads and citations of one run; all of it is bounded."""

    actor: str
    tally: str
    calls: tuple[ReadCall, ...]
    more_calls: str
    cited: tuple[tuple[str, str], ...]
    """Each citation, and how it was come by."""
    more_cited: str
    missed: tuple[tuple[str, str], ...]
    """The clause, and what it found never fetched, or cited wrongly."""
    more_missed: str


def read_side(
    contract: bytes, judged: Json, trace: Json, answer: Value | NoAnswer
) -> ReadSide | None:
    """The run's reads; None where no clause is about reads, or the contract cannot be read."""
    stage = Stage.ACCESS.value
    if not any(clause["stage"] == stage for clause in judged["clauses"]):
        return None
    try:
        access = parse_contract(contract, "contract.yaml").content.access
    except ContractError:
        return None
    if access is None:
        return None
    verbs = _VERBS | {r.tool: "searched" if r.finds else "fetched" for r in access.actions if r.in_}
    findings = [f for f in judged["findings"] if f["stage"] == stage and f["truth"] != "HOLDS"]
    outside = {str(name) for f in findings if f["code"] in _OUTSIDE for name in f["evidence"]}
    reads = [a for a in trace["actions"] if str(a["tool"]) in verbs]
    calls = [_call(a, verbs[str(a["tool"])], str(a["id"]) in outside) for a in reads]
    fetched = {name for action in reads if (name := _delivered(action))}
    citing = access.cite
    cited = answer.get(citing) if citing is not None and isinstance(answer, Map) else None
    sources = cited if isinstance(cited, tuple) else ()
    told = [f for f in findings if f["code"] in _MISSED or f["truth"] == "UNKNOWN"]
    as_of = f", as of {said(access.at, 40)}" if access.at else ""
    others = len(trace["actions"]) - len(reads)
    return ReadSide(
        actor=f"For {said(access.actor, _NAME)}{as_of}",
        tally=_tally(calls, others, len(outside) >= MAX_CALLS_SHOWN),
        calls=tuple(calls[:MAX_CALLS]),
        more_calls=_more(calls, MAX_CALLS, "calls"),
        cited=tuple(
            (_text(each), _way(each, fetched, any(r.in_ for r in access.actions)))
            for each in sources[:MAX_CITED]
        ),
        more_cited=_more(sources, MAX_CITED, "citations"),
        missed=tuple((said(f["clause"], _NAME), said(_sentence(f))) for f in told[:MAX_MISSED]),
        more_missed=_more(told, MAX_MISSED, "findings"),
    )


def _call(action: Json, verb: str, is_outside: bool) -> ReadCall:
    arguments, result = decode(action["arguments"]), decode(action["result"])
    found = _named(result)
    if action["error"] is not None:
        verb = "asked for" if verb == _VERBS[FETCH] else verb
        outcome, fault = f"refused: {said(action['error'], 160)}", "blocked"
    elif found is None:
        outcome = "not recorded" if isinstance(result, Unobserved) else "delivered"
        fault = "leaked"
    elif found:
        more = f" and {len(found) - _FEW:,} more" if len(found) > _FEW else ""
        outcome = f"{len(found):,} named: {', '.join(map(_text, found[:_FEW]))}{more}"
        fault = "leaked"
    else:
        outcome, fault = "nothing named", "not granted"
    return ReadCall(
        said(action["id"], _NAME),
        verb,
        _about(str(action["tool"]), arguments),
        outcome,
        fault if is_outside else "",
    )


def _about(tool: str, arguments: Observed) -> str:
    """The call's question; for another tool than the gate's, the tool with its arguments."""
    if not isinstance(arguments, Map):
        return said(tool, _NAME) if tool not in _VERBS else "what was not recorded"
    given = dict(arguments.items)
    if tool == FETCH and "id" in given:
        return _text(given["id"])
    if tool == SEARCH and "query" in given:
        where = given.get("subsystem")
        place = "" if where is None else f" in {_text(where)}"
        return f"{said(show(given['query'], 80), _NAME)}{place}"
    return f"{said(tool, _NAME)} {said(show(arguments, 120), 160)}"


def _named(result: Observed) -> tuple[Observed, ...] | None:
    """The ids that a search or a window names; None where it is no list of them."""
    if not isinstance(result, Map):
        return None
    listed = result.get("results")
    listed = listed if isinstance(listed, tuple) else result.get("artifacts")
    if not isinstance(listed, tuple):
        return None
    return tuple(each.get("id") if isinstance(each, Map) else each for each in listed)


def _delivered(action: Json) -> str:
    """The artifact that a call of `fetch` brought; empty for any other call."""
    arguments = decode(action["arguments"])
    if str(action["tool"]) != FETCH or action["error"] is not None:
        return ""
    found = arguments.get("id") if isinstance(arguments, Map) else None
    return found if isinstance(found, str) else ""


def _way(source: Value, fetched: set[str], has_others: bool) -> str:
    if isinstance(source, str) and source in fetched:
        return "fetched"
    return "not fetched through the gate" if has_others else "never fetched"


def _tally(calls: list[ReadCall], others: int, is_cut: bool) -> str:
    """How many calls there were of each kind, in words."""
    verbs = Counter(call.verb for call in calls)
    faults = Counter(call.fault for call in calls if call.fault)
    refused = sum(call.outcome.startswith("refused") for call in calls)
    parts = [f"{number:,} {verb}" for verb, number in verbs.items()]
    parts += [f"{refused:,} refused"] if refused else []
    parts += [f"{number:,} {fault}" for fault, number in sorted(faults.items())]
    told = (
        f"{len(calls):,} {_calls(len(calls))} read: {', '.join(parts)}."
        if calls
        else "No call read anything."
    )
    if is_cut:
        told += f" Only the first {MAX_CALLS_SHOWN} calls outside of the cone are marked."
    return told + (f" {others:,} {_calls(others)} of other tools." if others else "")


def _calls(number: int) -> str:
    return "call" if number == 1 else "calls"


def _sentence(finding: Json) -> str:
    sentence = str(finding["sentence"])
    return f"not known: {sentence}" if finding["truth"] == "UNKNOWN" else sentence


def _text(value: Observed) -> str:
    return said(value if isinstance(value, str) else show(value, _NAME), _NAME)


def _more(listed: Sequence[object], limit: int, what: str) -> str:
    left = len(listed) - limit
    return f"and {left:,} more {what}; all are in the bundle" if left > 0 else ""
