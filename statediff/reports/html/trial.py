"""The page of one trial: all a reviewer asks of a bundle, from the bundle and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

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
from statediff.reports.html.cells import (
    VALUE,
    Cell,
    cell,
    cut,
    first,
    name,
    place,
    rest,
)
from statediff.reports.html.changes import (
    Change,
    Group,
    Standings,
    anchor_of,
    change,
    counts,
    groups,
)
from statediff.reports.html.clauses import (
    Allowed,
    Canonical,
    Effect,
    Stage,
    Witnesses,
    allowed,
    effects,
    stages,
)
from statediff.reports.html.graph import Picture, picture
from statediff.reports.html.words import Sign
from statediff.reports.levels import disagreement
from statediff.reports.lists import list_notes
from statediff.reports.readside import ReadSide, read_side
from statediff.reports.record import Reading, Record, parsed, reading, reservations

if TYPE_CHECKING:
    from statediff.reports.html.sealed import Seal

Json = Any
MAX_ACTIONS: Final = 2_000
MAX_HIDDEN: Final = 2_000
MAX_DOUBTS: Final = 1_000
MAX_UNEXPLAINED: Final = 100
MAX_LINES: Final = 3_000
STEPS: Final = {
    "reset_verified_at": "the reset was proven",
    "agent_started_at": "the agent started",
    "first_action_at": "its first action could happen",
    "agent_finished_at": "the agent ended",
    "settled_at": "all systems had settled",
}


MAX_MEMBERS: Final = 60
MAX_CHANGES: Final = 20


@dataclass(frozen=True, kw_only=True)
class Action:
    """One call of the trace, or one transaction where nobody recorded calls."""

    id: str
    tool: str
    kind: str
    arguments: tuple[tuple[str, Cell], ...]
    result: Cell
    error: str
    principal: str
    attempt: int
    when: str
    parent: str
    changes: str
    breaks: tuple[str, ...]
    judged: tuple[tuple[str, str], ...] = ()
    """Each question about the call by itself that a clause asks, and its truth."""

    @property
    def is_unrecorded(self) -> bool:
        """Whether nothing is known of the call but what it changed."""
        cells = (*(cell for _, cell in self.arguments), self.result)
        return all(cell.kind == "unobserved" and cell.note == cells[0].note for cell in cells)


def action_view(doing: Doing) -> Action:
    """A call as a page shows it."""
    action = doing.document
    arguments = decode(action["arguments"])
    members = arguments.items if isinstance(arguments, Map) else (("", arguments),)
    times = [decode(action[step]) for step in ("started_at", "finished_at")]
    known = [show(moment) for moment in times if moment is not None]
    return Action(
        id=name(action["id"]),
        tool=name(action["tool"]),
        kind=name(action["class"]),
        arguments=tuple((name(key), cell(value)) for key, value in members[:MAX_MEMBERS]),
        result=cell(decode(action["result"])),
        error=cut(action["error"] or ""),
        principal=name(action["principal"] or ""),
        attempt=int(action["attempt"]),
        when=" to ".join(known),
        parent=name(action.get("parent") or ""),
        changes=cut(listing(doing.changes, MAX_CHANGES), 4000),
        breaks=doing.breaks[:MAX_CHANGES],
        judged=()
        if doing.span is None
        else tuple((name, truth) for name, truth in doing.span.truths if truth is not None),
    )


@dataclass(frozen=True)
class Excluded:
    """A difference that is not judged, with the rule that says so."""

    change: Change
    rule: str
    by: str


@dataclass(frozen=True)
class Doubt:
    """A place of which nothing is known."""

    place: str
    path: str
    cause: str
    source: str
    stage: str


@dataclass(frozen=True)
class Said:
    """One name of the answer."""

    name: str
    value: Cell


@dataclass(frozen=True)
class Message:
    """One turn: what the user said, how many calls it led to, and the agent's reply."""

    text: str
    calls: int
    reply: Cell


@dataclass(frozen=True)
class Number:
    """One metric; `value` is "not defined" where it has none."""

    title: str
    value: str
    exact: str
    meaning: str


@dataclass(frozen=True)
class Changes:
    """What changed, and what the contract makes of it."""

    total: int
    counts: tuple[tuple[Sign, int], ...]
    unexplained: tuple[Change, ...]
    more_unexplained: str
    picture: Picture | None
    groups: tuple[Group, ...]
    more: str


@dataclass(frozen=True)
class Outside:
    """What is not judged, by rule, and what is not known."""

    rules: tuple[tuple[str, str, str], ...]
    excluded: tuple[Excluded, ...]
    more_excluded: str
    doubts: tuple[Doubt, ...]
    more_doubts: str


@dataclass(frozen=True)
class Trial:
    """A trial as its page shows it."""

    title: str
    verdict: Sign
    tally: str
    course: tuple[str, ...]
    """How the run stood on its way, in sentences."""
    lead: str
    reason: str
    asked: str
    done_by: str
    results: tuple[tuple[str, Sign, str], ...]
    facts: tuple[tuple[str, str], ...]
    intent: str
    inputs: tuple[tuple[str, Cell], ...]
    stages: tuple[Stage, ...]
    allowed: tuple[Allowed, ...]
    effects: tuple[Effect, ...]
    frame_is_open: str
    changes: Changes
    outside: Outside
    readings: tuple[Reading, ...]
    steps: tuple[tuple[str, str], ...]
    unsettled: tuple[tuple[str, str], ...]
    receipt: str
    trace_note: str
    actions: tuple[Action, ...]
    more_actions: str
    answer_missing: str
    answer: tuple[Said, ...]
    more_answer: str
    claims: Stage | None
    numbers: tuple[Number, ...]
    contract: tuple[str, ...]
    more_contract: str
    reads: ReadSide | None
    """What the run read, where the contract says something of it."""
    turns: tuple[Message, ...] = ()
    """What the user and the agent said, where the log has it."""
    more_turns: str = ""
    duration: str = ""
    """How long the agent worked; empty where nobody measured it."""
    beside: Beside = NOTHING
    """What is not in the bundle: the agent's process, and the pages beside this one."""
    seal: Seal | None = None
    """The sealed copy that the page is made from and carries."""

    @property
    def menu(self) -> dict[str, str]:
        """Anchor → title of the sections that say something; the page has these and no others."""
        agent = self.beside.agent
        is_about_calls = any(title == words.CALLS for title, *_ in self.results)
        is_known = agent.command or agent.exit or agent.ending or agent.outputs or self.duration
        sections = (
            ("task", "Task", True),
            ("clauses", "Clauses", True),
            ("unexplained", "Unexplained", self.changes.unexplained),
            ("graph", "Graph", self.changes.picture),
            ("changes", "All changes", True),
            ("answer", "Answer", self.claims or not self.answer_missing),
            ("agent", "Agent", is_known or self.turns),
            ("actions", "Tool calls", self.actions or is_about_calls),
            ("reads", "Read", self.reads),
            ("excluded", "Excluded", self.outside.rules),
            ("unknown", "Unknown", self.outside.doubts),
            ("readings", "Captures", True),
            ("numbers", "Numbers", True),
            ("contract", "Contract", True),
            ("verify", "Verify", self.seal),
            ("replay", "Reproduce", True),
        )
        return {anchor: title for anchor, title, is_filled in sections if is_filled}


def trial_view(bundle: Bundle, where: str, stand: type[Standings] = Standings) -> Trial:
    """What the page of the bundle shows; `BundleError` if the bundle contradicts itself.

    `stand` says what the contract makes of each change.
    """
    with reading(where):
        return _view(parsed(bundle), stand)


_EVIDENCE: Final = ("trace.json", "timeline.json", "captures.json")


def _view(bundle: Bundle, stand: type[Standings]) -> Trial:
    record, manifest = Record(bundle), bundle.manifest
    judged, trial, fragments = record.judgement, record.trial, record.fragments
    trace, timeline, captures = map(bundle.document, _EVIDENCE)
    contract = _compiled(bundle)
    rule_of = _Rules(contract)
    frame_is_open = contract is not None and contract.contract.frame_is_open
    standings = stand(judged, _sections(judged, contract), frame_is_open)
    changes = _changes(bundle, judged, standings, rule_of, fragments)
    why = words.reason(judged)
    makers = Makers(judged, trace, captures["history"])
    doings = list(makers.doings())
    judged_stages = stages(judged, Witnesses(fragments, rule_of, _canonical(contract)), makers)
    answer, lines = answer_from(bundle.document("answer.json")), _lines(bundle)
    said = [] if isinstance(answer, NoAnswer) else _said(answer)
    return Trial(
        title=f"{name(manifest['contract'])} {name(manifest['contract_version'])}",
        verdict=words.verdict_of(judged["verdict"], bundle.files["contract.yaml"]),
        tally=words.tally(judged["clauses"]),
        course=record.course,
        lead=why.lead,
        reason=cut(why.found),
        asked=cut(why.asked),
        done_by=cut(makers.first()),
        results=tuple(
            (title, words.result(judged["results"][key]), meaning)
            for key, title, meaning in words.RESULTS
            if judged["results"][key] is not None
        ),
        facts=tuple(_facts(manifest, trial, bundle)),
        intent="" if contract is None else cut(contract.contract.document.intent.strip(), 4000),
        inputs=() if contract is None else tuple(
            (name(key), cell(value)) for key, value in contract.contract.inputs.items()
        ),
        stages=judged_stages,
        allowed=() if contract is None else allowed(contract.contract, standings),
        effects=() if contract is None else effects(contract.contract),
        frame_is_open=_open_frame(contract),
        changes=changes,
        outside=_outside(judged, standings, rule_of),
        readings=tuple(record.readings()),
        steps=tuple(_steps(timeline)),
        unsettled=tuple((name(s), cut(c)) for s, c in timeline["unsettled"]) if timeline else (),
        receipt=_receipt(trial),
        trace_note=_trace_note(trace, captures),
        actions=tuple(action_view(d) for d in first(doings, MAX_ACTIONS)),
        more_actions=rest(doings, MAX_ACTIONS, "actions"),
        answer_missing=cut(answer.cause) if isinstance(answer, NoAnswer) else "",
        answer=tuple(said[:MAX_MEMBERS]),
        more_answer=rest(said, MAX_MEMBERS, "members of the answer"),
        claims=next((s for s in judged_stages if s.name == "answer"), None),
        numbers=tuple(_number(*entry, judged["metrics"]) for entry in words.NUMBERS),
        contract=lines[:MAX_LINES],
        more_contract=rest(lines, MAX_LINES, "lines of the contract"),
        turns=tuple(_messages(trace)),
        more_turns=rest(trace["turns"] or (), MAX_MEMBERS, "turns"),
        duration=_duration(timeline),
        reads=read_side(bundle.files["contract.yaml"], judged, trace, answer),
    )  # fmt: skip


def _changes(
    bundle: Bundle, judged: Json, standings: Standings, rule_of: _Rules, fragments: Json
) -> Changes:
    deltas = judged["deltas"]
    loose = [d for d in deltas if d["id"] in standings.loose]
    listed = groups(deltas, standings, rule_of, list_notes(deltas, fragments))
    return Changes(
        total=len(deltas),
        counts=counts(standings.of(d) for d in deltas),
        unexplained=tuple(
            replace(
                change(d, standings.of(d), standings.clauses(d), rule_of),
                anchor=anchor_of(d["id"]),
            )
            for d in first(loose, MAX_UNEXPLAINED)
        ),
        more_unexplained=rest(loose, MAX_UNEXPLAINED, "such changes"),
        picture=picture(judged, standings, lambda drawn: trial_content(bundle, drawn)),
        groups=listed,
        more=rest(deltas, sum(len(c) for g in listed for _, c in g.chunks), "changes"),
    )


def _outside(judged: Json, standings: Standings, rule_of: _Rules) -> Outside:
    hidden, doubts = judged["hidden"], judged["doubts"]
    excluded = tuple(
        Excluded(
            change=change(h["delta"], standings.of(h["delta"]), (), rule_of),
            rule=cut(h["rule"]),
            by="outside the boundary" if h["by"] == "boundary" else "equal once canonicalized",
        )
        for h in first(hidden, MAX_HIDDEN)
    )
    return Outside(
        rules=rule_of.listed,
        excluded=excluded,
        more_excluded=rest(hidden, MAX_HIDDEN, "differences"),
        doubts=tuple(
            Doubt(
                place=place(d),
                path=name(d["path"] or ""),
                cause=cut(d["cause"]),
                source=name(d["source"]),
                stage=name(d["stage"]),
            )
            for d in first(doubts, MAX_DOUBTS)
        ),
        more_doubts=rest(doubts, MAX_DOUBTS, "places"),
    )


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
    """What ν does, by place: the words that say which rule changed a value."""

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


def _open_frame(compiled: Compiled | None) -> str:
    frame = None if compiled is None else compiled.contract.document.frame
    return "" if frame is None or isinstance(frame, str) else cut(frame.open)


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


def _messages(trace: Json) -> Iterator[Message]:
    turns = trace["turns"] or []
    ends = [*(turn["calls_before"] for turn in turns[1:]), len(trace["actions"])]
    for turn, end in list(zip(turns, ends, strict=False))[:MAX_MEMBERS]:
        reply = answer_from(turn["reply"])
        told = Cell("no reply", "null") if isinstance(reply, NoAnswer) else cell(reply, 2_000)
        yield Message(cut(turn["message"], 2_000), end - turn["calls_before"], told)


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


def _said(answer: Any) -> list[Said]:
    if isinstance(answer, Map):
        return [Said(name(key), cell(value, 2 * VALUE)) for key, value in answer.items]
    return [Said("", cell(answer, 2 * VALUE))]


def _number(key: str, title: str, meaning: str, metrics: Json) -> Number:
    text = metrics[key]
    if text is None:
        return Number(title, "not defined", "", meaning)
    above, below = (int(part) for part in str(text).split("/"))
    if below <= 0:
        raise ValueError(f"{key} is {text}")
    value = Fraction(above, below)
    return Number(title, f"{float(value):.0%}", f"{above} of {below}", meaning)


def _lines(bundle: Bundle) -> tuple[str, ...]:
    text = bundle.files["contract.yaml"].decode("utf-8", "replace")
    return tuple(cut(line, 2000) for line in text.split("\n"))
