"""The terminal report of one trial, from its bundle and nothing else.

In order: the verdict in a sentence, the three results, every clause, each finding with its
witness, the changes and what explains them, what was left out and why, the readings with their
ages, the answer beside the state, what was read, the numbers. Nothing here interprets markup, and
every text passes `record.said`: an agent's values cannot colour, move or hide anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from statediff.evidence.package import Bundle
from statediff.model.trace import NoAnswer
from statediff.model.values import Map, Observed, same
from statediff.reports.attribution import Makers, listing
from statediff.reports.covered import UNREVIEWED, covered
from statediff.reports.damage import leading
from statediff.reports.ending import UNKNOWN, AgentRecord
from statediff.reports.lists import list_notes
from statediff.reports.readside import read_side
from statediff.reports.record import (
    OPERATIONS,
    Record,
    both_shown,
    delta_name,
    delta_sides,
    disagreement,
    entity_name,
    fields_of,
    key_of,
    named_entity,
    reading,
    reservations,
    said,
    shown,
)
from statediff.reports.tables import grid
from statediff.suite.spans import QUESTIONS

Json = Any
STYLES: Final = {"MATCH": "bold green", "DIVERGE": "bold red", "INCONCLUSIVE": "bold yellow"}
MARKS: Final = {"HOLDS": ("✔", "green"), "FAILS": ("✘", "red"), "UNKNOWN": ("?", "yellow")}
MAX_PATH: Final = 1_000
"""Characters of a path that are printed."""
MAX_FINDINGS: Final = 20
MAX_CHANGES: Final = 30
MAX_FIELDS: Final = 12


def trial_report(
    bundle: Bundle,
    where: str = "the bundle",
    agent: AgentRecord | None = None,
    *,
    whole: bool = False,
) -> Group:
    """The report, every clause that holds named where it is `whole`; `agent` ran the trial.

    `BundleError` if the bundle contradicts itself.
    """
    with reading(where):
        return Group(*_report(Record(bundle), agent or UNKNOWN, whole=whole))


def verdict_text(verdict: str) -> Text:
    """The verdict in its colour."""
    return Text(said(verdict, 20), style=STYLES.get(verdict, ""))


def verdict_sentence(record: Record) -> str:
    """The verdict of this trial, in words."""
    notes = reservations(record.trial)
    if not covered(record.contract).is_reviewed:
        notes = [UNREVIEWED, *notes]
    return "".join(f"Note: {each}. " for each in notes) + _sentence(record)


def _sentence(record: Record) -> str:
    clauses = record.judgement["clauses"]
    total = len(clauses)
    first = leading(record.judgement)
    if first is None:
        limit = covered(record.contract).limit
        return f"All {total} clauses hold{limit and f', and nothing else changed{limit}'}."
    number = _count(clauses, first["truth"])
    told = f"First, {said(first['clause'])}: {said(first['sentence'])}."
    if first["truth"] == "FAILS":
        return f"{number} of {total} clauses {_fail(number)}. {told}"
    cause = f" (cause: {said(first['origin'] or 'unknown')})."
    return f"No clause fails, but {number} of {total} cannot be decided. {told[:-1]}{cause}"


def _fail(number: int) -> str:
    return "fails" if number == 1 else "fail"


def _count(clauses: Json, truth: str) -> int:
    return sum(clause["truth"] == truth for clause in clauses)


def _report(record: Record, agent: AgentRecord, *, whole: bool) -> Iterator[RenderableType]:
    judged = record.judgement
    manifest, trial = record.manifest, record.trial
    head = verdict_text(judged["verdict"])
    head.append(
        f"  {said(manifest['contract'])} {said(manifest['contract_version'])}", style="bold"
    )
    head.append(f"  agent {said(trial['agent'], 80)}, trial {said(trial['id'], 80)}")
    yield head
    yield Text(verdict_sentence(record))
    makers = Makers(judged, record.trace, record.history)
    if who := makers.first():
        yield Text(f"Done by: {who}.")
    yield from _ended(agent)
    yield Text()
    yield _results(judged["results"])
    if told := disagreement(judged["clauses"]):
        yield Text(told)
    problems = [f for f in judged["findings"] if f["truth"] != "HOLDS"]
    deltas = [*judged["deltas"], *judged["during"]]
    yield from _section("Findings", _findings(problems, deltas, makers))
    yield from _section("Clauses", _clauses(judged["clauses"], whole=whole))
    yield from _section("Changes", _changes(record, makers))
    yield from _section("On the way", map(Text, record.course))
    if makers.is_told:
        yield from _section("What was done", _doings(makers))
    yield from _section("Each call", _calls(makers))
    yield from _section("Excluded", _hidden(judged["hidden"]))
    yield from _section("Unknown", _doubts(judged["doubts"]))
    yield from _section("Captures", [_readings(record)])
    yield from _section("Answer", _answer(record))
    yield from _section("What was read", _reads(record))
    yield from _section("Numbers", [_numbers(judged["metrics"])])


def _section(title: str, body: Iterable[RenderableType]) -> Iterator[RenderableType]:
    parts = list(body)
    if parts:
        yield Text()
        yield Text(title, style="bold")
        for part in parts:
            yield Padding(part, (0, 0, 0, 2), expand=False)


def _mark(truth: str) -> Text:
    sign, style = MARKS.get(truth, ("?", ""))
    return Text(sign, style=style)


def _results(results: Json) -> Text:
    line = Text()
    for name, title in _RESULTS.items():
        if (found := results[name]) is None:
            continue  # no clause is about it
        line.append(" · " if line else "").append(f"{title}: ")
        line.append(_ENDS.get(found, said(found, 20)), STYLES.get(found, "dim"))
    return line


_RESULTS: Final = {"outcome": "state", "task": "answer", "tool": "tool calls"}
_ENDS: Final = {
    "MATCH": "holds",
    "DIVERGE": "fails",
    "INCONCLUSIVE": "unknown",
}


def _ended(agent: AgentRecord) -> Iterator[Text]:
    if agent.command:
        yield Text(f"Program: {agent.command}")
    if agent.ending is not None:
        yield Text(f"The agent failed: {agent.ending.error}", style="bold")
        yield from (Text(f"  {line}", style="dim") for line in agent.ending.lines)


def _clauses(clauses: Json, *, whole: bool) -> Iterator[RenderableType]:
    """A row a clause; of those that hold, only the names unless all are wanted."""
    table = grid(4)
    holding = [] if whole else [c for c in clauses if c["truth"] == "HOLDS"]
    for clause in clauses:
        if whole or clause["truth"] != "HOLDS":
            table.add_row(
                _mark(clause["truth"]),
                Text(said(clause["clause"], 100)),
                Text(said(clause["stage"], 20), style="dim"),
                Text(said(clause["sentence"])),
            )
    if table.row_count:
        yield table
    if holding:
        line = _mark("HOLDS")
        line.append(f" {len(holding)} hold: ")
        line.append(", ".join(said(clause["clause"], 100) for clause in holding), style="dim")
        yield line


def _findings(findings: Json, deltas: Json, makers: Makers) -> Iterator[RenderableType]:
    by_id = {delta["id"]: delta for delta in deltas}
    for finding in findings[:MAX_FINDINGS]:
        head = _mark(finding["truth"])
        head.append(f" {said(finding['clause'], 100)}", style="bold")
        head.append(f"  {said(finding['code'], 60)}", style="dim")
        if finding["component"] != "policy":
            head.append(f"  owned by: {said(finding['component'])}", style="dim")
        if finding["origin"]:
            head.append(f"  cause: {said(finding['origin'])}", style="dim")
        yield head
        body: list[RenderableType] = [Text(said(finding["sentence"]))]
        if done_by := makers.at(finding):
            body.append(Text(f"done by: {listing(done_by)}", style="bold"))
        missing = [cause for cause in finding["missing"] if cause not in finding["sentence"]]
        body.extend(Text(f"missing: {said(cause)}") for cause in missing[:8])
        body.extend(_comparisons(finding["witness"]["comparisons"]))
        body.extend(_witness_rows(finding["witness"]["rows"]))
        body.extend(_captured(by_id[name] for name in finding["deltas"][:8] if name in by_id))
        if finding["evidence"]:
            evidence = ", ".join(said(e, 60) for e in finding["evidence"][:8])
            body.append(Text(f"evidence: {evidence}", style="dim"))
        yield Padding(Group(*body), (0, 0, 0, 2), expand=False)
    yield from _more(findings, MAX_FINDINGS)


def _comparisons(comparisons: Json) -> Iterator[Text]:
    for entry in comparisons[:8]:
        line = Text(f"{said(entry['text'], 200)}", style="italic")
        if "reach" in entry["operator"]:  # its right side is a path, which nobody can guess
            line.append(f": {said(entry['left'], 100)}", style="not italic bold")
            line.append(f" {said(entry['operator'], 20)} {said(entry['right'], MAX_PATH)}")
            yield line
            continue
        line.append(f": {said(entry['left'], 100)}", style="not italic bold")
        line.append(f" against {said(entry['right'], 100)}", style="not italic bold")
        yield line


def _witness_rows(rows: Json) -> Iterator[RenderableType]:
    """The entities of a witness, each with its values before and after side by side."""
    entities: dict[str, dict[str, dict[str, Observed]]] = {}
    for row in rows[:12]:
        name = named_entity(row)
        entities.setdefault(name, {})[said(row["side"], 20)] = fields_of(row)
    for name, unsorted in entities.items():
        sides = dict(sorted(unsorted.items(), key=lambda side: side[0] != "before"))
        table = grid(1 + len(sides))
        table.add_row(Text(name), *(Text(side, style="dim") for side in sides))
        for at, field in enumerate(_interesting(sides)):
            if at == MAX_FIELDS:
                table.add_row(Text("…", style="dim"))
                break
            values = [fields[field] for fields in sides.values() if field in fields]
            differs = len(values) > 1 and not same(values[0], values[1])
            is_pair = differs and len(values) == 2
            known = iter(both_shown(*values) if is_pair else map(shown, values))
            words = [next(known) if field in fields else "" for fields in sides.values()]
            cells = (Text(word, "bold" if differs else "") for word in words)
            table.add_row(Text(f"  {said(field, 60)}", style="dim"), *cells)
        yield table


def _interesting(sides: dict[str, dict[str, Observed]]) -> list[str]:
    """The fields to show: those that differ first, those that are null everywhere never."""
    names = list(dict.fromkeys(name for fields in sides.values() for name in fields))
    values = {name: [side[name] for side in sides.values() if name in side] for name in names}
    differ = [n for n in names if any(not same(values[n][0], v) for v in values[n][1:])]
    return differ + [n for n in names if n not in differ and any(v is not None for v in values[n])]


def _captured(deltas: Iterable[Json]) -> Iterator[Text]:
    """Both forms of each value that ν changed."""
    for delta in deltas:
        if delta["path"] and any(
            delta[side] != delta[f"raw_{side}"] for side in ("before", "after")
        ):
            before, after = delta_sides(delta)
            yield Text(f"{delta_name(delta)}: {before} → {after}")


def _changes(record: Record, makers: Makers) -> Iterator[RenderableType]:
    deltas = record.judgement["deltas"]
    if not deltas:
        yield Text("nothing changed", style="dim")
        return
    table = grid(5)
    notes = list_notes(deltas, record.fragments)
    for delta in deltas[:MAX_CHANGES]:
        by = record.explained.get(delta["id"], [])
        before, after = delta_sides(delta)
        if delta["path"]:
            what = f"{before} → {after}"
        else:
            what = after if delta["op"] in ("create", "link") else before
        why = Text(", ".join(said(b, 60) for b in by)) if by else Text("unexplained", style="red")
        sign, _ = OPERATIONS[delta["op"]]
        who = Text(makers.of(delta), style="dim")
        table.add_row(Text(sign), Text(delta_name(delta)), Text(what), why, who)
    yield table
    yield from _more(deltas, MAX_CHANGES)
    yield from (Text(note, style="dim") for note in list(notes.values())[:MAX_CHANGES])


def _doings(makers: Makers) -> Iterator[RenderableType]:
    """Calls that changed or broke something; how many others there were."""
    doings = list(makers.doings())
    telling = sorted((d for d in doings if d.changes or d.breaks), key=lambda d: not d.breaks)
    for doing in telling[:MAX_CHANGES]:
        line = _mark("FAILS" if doing.breaks else "HOLDS")
        line.append(f" {doing.title}", style="bold")
        if doing.changes:
            line.append(f"  {listing(doing.changes)}")
        if doing.breaks:
            line.append(f"  breaks {listing(doing.breaks)}", style="red")
        yield line
    yield from _more(telling, MAX_CHANGES)
    if quiet := len(doings) - len(telling):
        yield Text(f"{quiet} of {len(doings)} left no change", style="dim")


def _calls(makers: Makers) -> Iterator[RenderableType]:
    """Each recorded call by itself, the wrong ones first; nothing where none was recorded."""
    judged = sorted(makers.spans, key=lambda span: _ORDER.index(span.truth))
    table = grid(1 + len(QUESTIONS))
    table.add_row("", *(Text(name, style="dim") for name in QUESTIONS))
    for span in judged[:MAX_CHANGES]:
        told = (_mark(truth) if truth else Text("–", style="dim") for _, truth in span.truths)
        table.add_row(Text(makers.title(span.call)), *told)
    if judged:
        yield table
    yield from _more(judged, MAX_CHANGES)


_ORDER: Final = ("FAILS", "UNKNOWN", "HOLDS")


def _hidden(hidden: Json) -> Iterator[RenderableType]:
    table = grid(3)
    for entry in hidden[:MAX_CHANGES]:
        before, after = delta_sides(entry["delta"])
        what = f"{before} → {after}" if entry["delta"]["path"] else ""
        table.add_row(Text(delta_name(entry["delta"])), Text(what), Text(said(entry["rule"])))
    if hidden:
        yield table
    yield from _more(hidden, MAX_CHANGES)


def _doubts(doubts: Json) -> Iterator[RenderableType]:
    for doubt in doubts[:MAX_CHANGES]:
        place = said(doubt["type"], 100)
        if doubt["key"] is not None:
            place = entity_name(doubt["type"], key_of(doubt))
        path = "" if doubt["path"] is None else f" {said(doubt['path'], 60)}"
        yield Text(f"{place}{path}: {said(doubt['cause'])}")
    yield from _more(doubts, MAX_CHANGES)


def _more(listed: Json, limit: int) -> Iterator[Text]:
    if len(listed) > limit:
        yield Text(f"and {len(listed) - limit} more; all are in the bundle", style="dim")


def _readings(record: Record) -> Table:
    table = grid(4)
    for entry in record.readings():
        table.add_row(
            Text(said(entry.side, 20)), Text(said(entry.source, 100)), Text(said(entry.age)),
            Text(said(entry.state)),
        )  # fmt: skip
    return table


def _answer(record: Record) -> Iterator[RenderableType]:
    """The agent's answer, and beside it the values that its claims were compared with."""
    answer = record.answer
    if isinstance(answer, NoAnswer):
        yield Text(f"none: {said(answer.cause)}", style="dim")
    elif isinstance(answer, Map):
        table = grid(2)
        for name, value in answer.items[:MAX_FIELDS]:
            table.add_row(Text(said(name, 60), style="dim"), Text(shown(value, 200)))
        yield table
    else:
        yield Text(shown(answer, 200))
    for finding in record.judgement["findings"]:
        if finding["stage"] == "answer":
            line = _mark(finding["truth"])
            line.append(f" {said(finding['clause'], 100)}: {said(finding['sentence'])}")
            yield line


def _reads(record: Record) -> Iterator[RenderableType]:
    """Every call that read, the citations, and what was never fetched."""
    side = read_side(record.contract, record.judgement, record.trace, record.answer)
    if side is None:
        return
    yield Text(f"{side.actor}: {side.tally}")
    for call in side.calls[:MAX_CHANGES]:
        line = _mark("FAILS") if call.fault else Text("·", style="dim")
        line.append(f" {call.call}", style="bold").append(f" {call.verb} {call.about}")
        line.append(f"  {call.outcome}", style="dim")
        yield line.append(f"  {call.fault}", style="red") if call.fault else line
    yield from _more(side.calls, MAX_CHANGES)
    for source, way in side.cited[:MAX_FINDINGS]:
        yield Text(f"cited {source}: {way}")
    yield from _more(side.cited, MAX_FINDINGS)
    for clause, sentence in side.missed[:MAX_FINDINGS]:
        yield Text(f"{clause}: {sentence}")
    yield from _more(side.missed, MAX_FINDINGS)


def _numbers(metrics: Json) -> Text:
    def number(name: str) -> str:
        found = metrics[name]
        return "undefined" if found is None else said(found, 40).removesuffix("/1")

    return Text(
        f"precision {number('precision')}: of the changes that count, the share that was required\n"
        f"recall {number('recall')}: of the required changes, the share that happened\n"
        f"forbidden effects {number('forbidden_effect_rate')}: the weight of forbidden and "
        "unexplained changes among all"
    )
