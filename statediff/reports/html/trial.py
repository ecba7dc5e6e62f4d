"""The page of one trial: everything that a reviewer asks of a bundle, from the bundle alone.

A view is the bundle's documents with what a reader needs beside them, by name. The templates bound
each text that a run wrote (`name`, `cut`), and the page escapes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from statediff.contract.file import parse_contract
from statediff.errors import ContractError, InputError
from statediff.evidence.canonical import read
from statediff.evidence.documents import TIMELINE, answer_from, schema_from
from statediff.evidence.package import Bundle
from statediff.kernel import Compiled, compile_contract
from statediff.model.trace import NoAnswer
from statediff.model.values import Map, decode, show
from statediff.reports.attribution import Doing, Makers, listing
from statediff.reports.graph import trial_content
from statediff.reports.html import words
from statediff.reports.html.beside import NOTHING, Beside
from statediff.reports.html.cells import VALUE, Cell, cell, cut, first, name, rest
from statediff.reports.html.changes import Standings, View, change, counts, groups
from statediff.reports.html.clauses import Canonical, Witnesses, allowed, effects, stages
from statediff.reports.html.graph import picture
from statediff.reports.lists import list_notes
from statediff.reports.readside import read_side
from statediff.reports.record import Record, disagreement, parsed, reading, reservations

Json = Any
MAX_ACTIONS: Final = 2_000
MAX_HIDDEN: Final = 2_000
MAX_UNEXPLAINED: Final = 100
MAX_LINES: Final = 3_000
MAX_MEMBERS: Final = 60
MAX_CHANGES: Final = 20
STEPS: Final = {
    "reset_verified_at": "the reset was proven",
    "agent_started_at": "the agent started",
    "first_action_at": "its first action could happen",
    "agent_finished_at": "the agent ended",
    "settled_at": "all systems had settled",
}
_EVIDENCE: Final = ("trace.json", "timeline.json", "captures.json")


def trial_view(
    bundle: Bundle,
    where: str,
    stand: type[Standings] = Standings,
    *,
    beside: Beside = NOTHING,
    seal: View | None = None,
) -> View:
    """Everything that the page of the bundle shows; `BundleError` if the bundle contradicts itself.

    `stand` says what the contract makes of each change; `beside` and `seal` are not in the bundle.
    """
    with reading(where):
        view = {**_view(parsed(bundle), stand), "beside": beside, "seal": seal}
        return {**view, "menu": _menu(view)}


def _menu(view: View) -> dict[str, str]:
    """Anchor → title of the sections that say something; the page has these and no others."""
    agent = view["beside"].agent
    is_about_calls = any(title == words.CALLS for title, *_ in view["results"])
    is_known = agent.command or agent.exit or agent.ending or agent.outputs or view["duration"]
    sections = (
        ("task", "Task", True),
        ("clauses", "Clauses", True),
        ("unexplained", "Unexplained", view["changes"]["unexplained"]),
        ("graph", "Graph", view["changes"]["picture"]),
        ("changes", "All changes", True),
        ("answer", "Answer", view["claims"] or not view["answer_missing"]),
        ("agent", "Agent", is_known or view["turns"]),
        ("actions", "Tool calls", view["actions"] or is_about_calls),
        ("reads", "Read", view["reads"]),
        ("excluded", "Excluded", view["rules"]),
        ("unknown", "Unknown", view["doubts"]),
        ("readings", "Captures", True),
        ("numbers", "Numbers", True),
        ("contract", "Contract", True),
        ("verify", "Verify", view["seal"]),
        ("replay", "Reproduce", True),
    )
    return {anchor: title for anchor, title, is_filled in sections if is_filled}


def _view(bundle: Bundle, stand: type[Standings]) -> View:
    record, manifest = Record(bundle), bundle.manifest
    judged, trial, fragments = record.judgement, record.trial, record.fragments
    trace, timeline, captures = map(bundle.document, _EVIDENCE)
    compiled = _compiled(bundle)
    rule_of = _Rules(compiled)
    standings = stand(
        judged,
        _sections(judged, compiled),
        compiled is not None and compiled.contract.frame_is_open,
    )
    makers = Makers(judged, trace, captures["history"])
    doings = list(makers.doings())
    judged_stages = stages(judged, Witnesses(fragments, rule_of, _canonical(compiled)), makers)
    answer, lines = answer_from(bundle.document("answer.json")), _lines(bundle)
    return {
        "title": f"{name(manifest['contract'])} {name(manifest['contract_version'])}",
        "verdict": words.verdict_of(judged["verdict"], bundle.files["contract.yaml"]),
        "tally": words.tally(judged["clauses"]),
        "course": record.course,
        "why": words.reason(judged),
        "done_by": makers.first(),
        "results": [
            (title, words.result(judged["results"][key]), meaning)
            for key, title, meaning in words.RESULTS
            if judged["results"][key] is not None
        ],
        "facts": list(_facts(manifest, trial, bundle)),
        **_asked(compiled, standings),
        "stages": judged_stages,
        "changes": _changes(bundle, judged, standings, rule_of, fragments),
        "rules": rule_of.listed,
        "excluded": [
            {"change": change(h["delta"], standings.of(h["delta"]), (), rule_of), **h}
            for h in first(judged["hidden"], MAX_HIDDEN)
        ],
        "more_excluded": rest(judged["hidden"], MAX_HIDDEN, "differences"),
        "doubts": judged["doubts"],
        "readings": list(record.readings()),
        "steps": list(_steps(timeline)),
        "unsettled": timeline["unsettled"] if timeline else (),
        "receipt": _receipt(trial),
        "trace_note": _trace_note(trace, captures),
        "actions": [_action(doing) for doing in first(doings, MAX_ACTIONS)],
        "more_actions": rest(doings, MAX_ACTIONS, "actions"),
        "answer_missing": answer.cause if isinstance(answer, NoAnswer) else "",
        **_answered(answer),
        "claims": next((s for s in judged_stages if s["name"] == "answer"), None),
        "numbers": [_number(*entry, judged["metrics"]) for entry in words.NUMBERS],
        "contract": lines[:MAX_LINES],
        "more_contract": rest(lines, MAX_LINES, "lines of the contract"),
        "turns": list(_messages(trace)),
        "more_turns": rest(trace["turns"] or [], MAX_MEMBERS, "turns"),
        "duration": _duration(timeline),
        "reads": read_side(bundle.files["contract.yaml"], judged, trace, answer),
    }


def _asked(compiled: Compiled | None, standings: Standings) -> View:
    """The contract's own words; empty where this version cannot bind it."""
    if compiled is None:
        return {"intent": "", "inputs": (), "allowed": (), "effects": (), "frame_is_open": ""}
    contract, frame = compiled.contract, compiled.contract.document.frame
    return {
        "intent": contract.document.intent.strip(),
        "inputs": [(key, cell(value)) for key, value in contract.inputs.items()],
        "allowed": allowed(contract, standings),
        "effects": effects(contract),
        "frame_is_open": "" if isinstance(frame, str) else frame.open,
    }


def _action(doing: Doing) -> View:
    """One call of the trace, or one transaction where nobody recorded calls."""
    action = doing.document
    arguments = decode(action["arguments"])
    members = arguments.items if isinstance(arguments, Map) else (("", arguments),)
    shown = [(key, cell(value)) for key, value in members[:MAX_MEMBERS]]
    result = cell(decode(action["result"]))
    cells = (*(value for _, value in shown), result)
    times = [decode(action[step]) for step in ("started_at", "finished_at")]
    return {
        **action,
        "parent": action.get("parent"),
        "arguments": shown,
        "result": result,
        "is_unrecorded": all(
            each.kind == "unobserved" and each.note == cells[0].note for each in cells
        ),
        "when": " to ".join(show(moment) for moment in times if moment is not None),
        "changes": listing(doing.changes, MAX_CHANGES),
        "breaks": doing.breaks[:MAX_CHANGES],
        "judged": [
            (question, truth)
            for question, truth in (doing.span.truths if doing.span else ())
            if truth is not None
        ],
    }


def _changes(
    bundle: Bundle, judged: Json, standings: Standings, rule_of: _Rules, fragments: Json
) -> View:
    deltas = judged["deltas"]
    loose = [d for d in deltas if d["id"] in standings.loose]
    listed = groups(deltas, standings, rule_of, list_notes(deltas, fragments))
    return {
        "total": len(deltas),
        "counts": counts(standings.of(d) for d in deltas),
        "unexplained": [
            change(d, standings.of(d), standings.clauses(d), rule_of)
            for d in first(loose, MAX_UNEXPLAINED)
        ],
        "more_unexplained": rest(loose, MAX_UNEXPLAINED, "such changes"),
        "picture": picture(judged, standings, lambda drawn: trial_content(bundle, drawn)),
        "groups": listed,
        "more": rest(deltas, sum(len(c) for g in listed for _, c in g["chunks"]), "changes"),
    }


def _compiled(bundle: Bundle) -> Compiled | None:
    """The contract bound to the schema, for its words; None if this version cannot bind it."""
    return _bound(bundle.files["contract.yaml"], bundle.files["schema.json"])


@lru_cache(maxsize=8)
def _bound(contract: bytes, schema: bytes) -> Compiled | None:
    """Kept: the trials of a run have one contract, and binding it takes longer than a page."""
    try:
        file = parse_contract(contract, "contract.yaml")
        return compile_contract(file, schema_from(read(schema, "schema.json")))
    except (ContractError, InputError):
        return None


def _canonical(compiled: Compiled | None) -> Canonical:
    if compiled is None:
        return lambda _type, row: row
    return compiled.scoped.row


class _Rules:
    """The rules of ν by place: the words that say which rule changed a value."""

    def __init__(self, compiled: Compiled | None) -> None:
        uses = () if compiled is None else compiled.book.uses
        excludes = () if compiled is None else compiled.contract.document.exclude
        self._by_place: dict[tuple[str, str], list[str]] = {}
        for use in uses:
            for field in use.fields:
                self._by_place.setdefault((use.type, field), []).append(cut(use.text))
        self.listed = (
            *(("exclude", name(e.what), cut(e.because)) for e in excludes),
            *(
                (
                    use.rule.id, ", ".join(name(f"{use.type}.{f}") for f in use.places),
                    cut(use.because),
                )
                for use in uses
            ),
        )  # fmt: skip

    def __call__(self, type_name: str, field: str) -> str:
        found = self._by_place.get((type_name, field)) or self._around(type_name, field)
        return "a rule of the contract" if found is None else "; ".join(found)

    def _around(self, type_name: str, path: str) -> list[str] | None:
        """The rules of the field that the path is inside of; the longest field wins."""
        fields = [
            field
            for name_, field in self._by_place
            if name_ == type_name and path.startswith((f"{field}.", f"{field}["))
        ]
        return self._by_place[type_name, max(fields, key=len)] if fields else None


def _sections(judged: Json, compiled: Compiled | None) -> dict[str, str]:
    """The section of each clause that may explain a change."""
    found = {str(c["clause"]): str(c["stage"]) for c in judged["clauses"]}
    if compiled is not None:
        found.update({pattern.id: "allow" for pattern in compiled.contract.allow})
    return found


def _facts(manifest: Json, trial: Json, bundle: Bundle) -> Iterator[tuple[str, str]]:
    yield "Agent", name(trial["agent"])
    yield "Trial", name(trial["id"])
    if trial.get("sandbox"):
        yield "Sandbox", name(trial["sandbox"])
    if told := disagreement(bundle.document("judgement.json")["clauses"]):
        yield "Steps and end", told
    yield "Isolation", name(trial.get("isolation", "unknown"))
    if notes := reservations(trial):
        yield "Note", cut("; ".join(notes))
    yield "Judged by", f"statediff {name(manifest['statediff'])}, kernel {name(manifest['kernel'])}"
    yield "State schema", name(manifest["schema"])
    yield "Contract SHA-256", name(manifest["contract_digest"])
    yield "Bundle SHA-256", bundle.digest


def _steps(timeline: Json) -> Iterator[tuple[str, str]]:
    if timeline is not None:
        for step in TIMELINE:
            moment = decode(timeline[step])
            yield STEPS[step], "not recorded" if moment is None else show(moment)


def _messages(trace: Json) -> Iterator[View]:
    """The user's message, the number of calls it led to, and the agent's reply, turn by turn."""
    turns = trace["turns"] or []
    ends = [*(turn["calls_before"] for turn in turns[1:]), len(trace["actions"])]
    for turn, end in list(zip(turns, ends, strict=False))[:MAX_MEMBERS]:
        reply = answer_from(turn["reply"])
        shown = Cell("no reply", "null") if isinstance(reply, NoAnswer) else cell(reply, 2_000)
        yield {"text": turn["message"], "calls": end - turn["calls_before"], "reply": shown}


def _duration(timeline: Json) -> str:
    ends = (
        [decode(timeline[f"agent_{step}_at"]) for step in ("started", "finished")]
        if timeline
        else []
    )
    match ends:
        case [datetime() as start, datetime() as end]:
            return f"{(end - start).total_seconds():,.3f} s"
        case _:
            return ""


def _receipt(trial: Json) -> str:
    receipt = trial.get("receipt")
    if not receipt:
        return "No reset was recorded: the states were handed over."
    proofs = receipt["proofs"]
    told = "proven" if receipt["ok"] else "NOT proven"
    return (
        f"The reset of {name(receipt['sandbox'])} {name(receipt['version'])} was {told} by digest: "
        f"{receipt['entities']} entities in {len(proofs)} sources."
    )


def _trace_note(trace: Json, captures: Json) -> str:
    kept = "complete" if trace["is_complete"] else f"possibly incomplete: {cut(trace['cause'])}"
    told = [
        f"{name(line['source'])}: {cut(line['gap'])}" if line["gap"] is not None
        else f"{name(line['source'])}: all {len(line['touched'])} transactions"
        for line in captures["history"]["lines"]
    ]  # fmt: skip
    return f"The log is {kept}. What happened between the two captures: {'; '.join(told)}."


def _answered(answer: Any) -> View:
    """The names of the answer with their values; the whole one where it has no names."""
    said = answer.items if isinstance(answer, Map) else (("", answer),)
    said = () if isinstance(answer, NoAnswer) else said
    return {
        "answer": [(key, cell(value, 2 * VALUE)) for key, value in said[:MAX_MEMBERS]],
        "more_answer": rest(said, MAX_MEMBERS, "members of the answer"),
    }


def _number(key: str, title: str, meaning: str, metrics: Json) -> tuple[str, str, str, str]:
    """A metric: its title, its value, the fraction that it is, and what it means."""
    text = metrics[key]
    if text is None:
        return title, "not defined", "", meaning
    above, below = (int(part) for part in str(text).split("/"))
    if below <= 0:
        raise ValueError(f"{key} is {text}")
    return title, f"{float(Fraction(above, below)):.0%}", f"{above} of {below}", meaning


def _lines(bundle: Bundle) -> list[str]:
    return bundle.files["contract.yaml"].decode("utf-8", "replace").split("\n")
