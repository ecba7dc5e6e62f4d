"""Drafts of a state schema and a contract, from states at hand or from runs that were seen.

1. A schema is drafted from every state, and all runs are read by it.
2. A contract is drafted from what the right runs share, and from what idle runs did.
3. It is judged before anybody sees it: every right run MATCHes, also at another hour and with other
   random keys; no idle run does, and no wrong one. Where a wrong one does, a clause is added that
   tells it from the right ones. What is still refused is not written.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from statediff.contract.authoring.drafting import (
    Draft,
    Seen,
    draft_contract,
    draft_schema,
    profiles_of,
    use_of,
)
from statediff.contract.authoring.inferring import Run
from statediff.contract.document.profiles import WhoseRun
from statediff.contract.document.refinement import refine
from statediff.contract.document.schemafile import parse_schema_file
from statediff.contract.file import parse_contract
from statediff.errors import UsageError
from statediff.kernel import TrialFacts, comparison, schema_of
from statediff.meta.another import another_run
from statediff.meta.proposals import proposals, proven
from statediff.meta.reference import Reference
from statediff.model.delta import Op
from statediff.model.paths import at
from statediff.model.readings import Capture, Timeline
from statediff.model.schema import SCHEMA_OBJECT_PREFIXES, Kind, Schema
from statediff.model.state import Coverage, State
from statediff.model.trace import NoAnswer, Trace
from statediff.model.values import Digested, Unobserved, Value, printable
from statediff.model.verdict import Judgement, Truth, Verdict
from statediff.packs import CONTRACT_FILE
from statediff.systems.relational.schema import MAY_WRITE
from statediff.workspace import folders
from statediff.workspace.contracts import SCHEMA_FILE
from statediff.workspace.inputs import Refinements, StateFile, capture_pair, one_capture, unrefined

SHOWN: Final = 4
"""Clauses that are named of a draft that is not written."""


class SeenRun(NamedTuple):
    """One run: the states at its ends, and when it was, where that was noted."""

    before: Capture
    after: Capture
    timeline: Timeline | None = None


class Examples(NamedTuple):
    """The runs that a draft rests on."""

    right: tuple[SeenRun, ...] = ()
    wrong: tuple[SeenRun, ...] = ()
    idle: tuple[SeenRun, ...] = ()

    @property
    def every(self) -> tuple[SeenRun, ...]:
        return (*self.right, *self.wrong, *self.idle)


Reading = Callable[[Refinements], Examples]
"""The runs as a schema shows them."""


@dataclass(frozen=True)
class Drafted:
    """A draft that its own judge approves, and the schema that it is read by."""

    schema_text: str
    draft: Draft
    examples: Examples
    right: tuple[Reference, ...] = ()
    remarks: tuple[str, ...] = ()

    def doubtful(
        self, before: Sequence[str], after: Sequence[str]
    ) -> tuple[tuple[Sequence[str], Capture], ...]:
        """The two sides of the first right run, as messages about odd states take them."""
        first = self.examples.right[0]
        return (before, first.before), (after[: len(before)], first.after)

    @property
    def files(self) -> dict[str, str]:
        """The files of it; no schema file where the sources' own names say it all."""
        named = {SCHEMA_FILE: self.schema_text} if _has_entities(self.schema_text) else {}
        return {**named, CONTRACT_FILE: self.draft.text}


def runs_of_states(
    before: Sequence[str], right: Sequence[str], wrong: Sequence[str] = (), idle: Sequence[str] = ()
) -> Reading:
    """Reads runs that all began with the same states: each names the states after, in turn.

    A source that is named again begins the next run. `UsageError` where a run lacks a source.
    """
    kinds = [_in_turn(before, each) for each in (right, wrong, idle)]

    def read(refined: Refinements) -> Examples:
        alike = refined is unrefined
        found = (
            tuple(SeenRun(*capture_pair(before, after, refined, alike=alike)) for after in runs)
            for runs in kinds
        )
        return Examples(*found)

    return read


def _in_turn(before: Sequence[str], after: Sequence[str]) -> list[list[str]]:
    runs: list[dict[str, str]] = []
    names = (
        [StateFile.parse(text).source for text in after] if len(before) > 1 else [""] * len(after)
    )
    for name, text in zip(names, after, strict=True):
        run = next((run for run in runs if name not in run), None)
        if run is None:
            runs.append(run := {})
        run[name] = text
    for run in runs:
        if len(run) != len(before):
            raise UsageError(
                f"a run has {len(run)} states after it, and there are {len(before)} before; name "
                "each source once a run: NAME=STATE"
            )
    return [list(run.values()) for run in runs]


def draft(
    name: str, read: Reading, alone: Callable[[], Capture], sandbox: str | None = None
) -> Drafted:
    """The draft of the runs; `alone` is what was there before, read without what came after.

    `UsageError` where no contract was found that its own judge approves.
    """
    raw = read(unrefined)
    schema_text = _schema_text(raw, name.rpartition("/")[2], alone)
    seen = raw if not _has_entities(schema_text) else read(refinements_of(schema_text))
    return draft_of(name, seen, sandbox, schema_text=schema_text)


def draft_of(
    name: str,
    seen: Examples,
    sandbox: str | None = None,
    base: Capture | None = None,
    schema_text: str = "",
) -> Drafted:
    """The draft of runs as they are read, or of a base state where there is none."""
    found = draft_contract(name, seen_in(seen, sandbox, base))
    return _approved(Drafted(schema_text, found, seen))


def redraft(drafted: Drafted, free: Container[str], closing: Iterable[str] = ()) -> Drafted:
    """The draft of the same runs, in which places are free, and further clauses hold."""
    found = draft_contract(drafted.draft.name, drafted.draft.seen, free)
    return _approved(replace(drafted, draft=_closed(found, closing)))


def draft_of_states(
    name: str, states: Sequence[str], sandbox: str | None = None
) -> tuple[Capture, Drafted]:
    """The states, and the draft of them, where no run is known."""
    text = draft_schema(name.rpartition("/")[2], _parts(one_capture(states, unrefined)))
    captured = one_capture(states, refinements_of(text))
    return captured, draft_of(name, Examples(), sandbox, captured, text)


def _schema_text(seen: Examples, name: str, alone: Callable[[], Capture]) -> str:
    """The drafted state schema of what was there before and after the runs."""
    first = _parts(seen.every[0].before)
    last = [part for run in seen.every for part in _parts(run.after)]
    rows = {t.type.source_table: t.row_count for _, s in first for t in s.tables.values()}
    if all(rows.get(t.source_table) for _, s in last for t in s.schema.types):
        return draft_schema(name, first, last)
    # Of a table without rows, a file says no columns; a pair has those of either side.
    types = (t for _, state in _parts(alone()) for t in state.schema.types)
    return draft_schema(name, first, last, {t.source_table: {*t.by_name} for t in types})


def _parts(capture: Capture) -> list[tuple[str, State]]:
    return [(part.reading.source, part.state) for part in capture.parts]


def refinements_of(schema_text: str) -> Refinements:
    """The refinement of each source by a drafted schema."""
    if not _has_entities(schema_text):
        return unrefined
    file = parse_schema_file(schema_text.encode(), SCHEMA_FILE)
    return lambda source: refine(file, source)


def seen_in(seen: Examples, sandbox: str | None, base: Capture | None) -> Seen:
    """The material of a draft: a state, or the changes of runs."""
    captures = [c for run in seen.every for c in run[:2]] or ([] if base is None else [base])
    sources = tuple(part.reading.source for part in captures[0].parts)
    schema = schema_of(*captures)
    used = _used(schema, seen)
    right, idle = (
        tuple([_without_profiles(_run(run), run, used) for run in each])
        for each in (seen.right, seen.idle)
    )
    unread = _unread([run.before for run in seen.every] or captures)
    unseen = {name: why for name, why in _unseen(*captures).items() if name not in unread}
    followed = [s for s in sources if right and not any(r.after.history.gap(s) for r in seen.right)]
    return Seen(schema, sources, right, idle, sandbox, unseen, unread, used, followed)


def _run(seen: SeenRun) -> Run:
    found = comparison(seen.before, seen.after)
    schema = schema_of(seen.before, seen.after)
    return Run(schema, found.diff.deltas, found.before, found.after, seen.timeline)


def _used(schema: Schema, seen: Examples) -> dict[str, Mapping[str, Value]]:
    """The profiles that fit, each with who acted in all right runs; without a run, nobody did.

    A run whose times were not noted shows nothing that a profile can decide.
    """
    found: dict[str, Mapping[str, Value]] = {}
    for name, profile in profiles_of(schema.by_name).items():
        whose = profile.user
        users = [_users(whose, _run(run)) for run in seen.right]
        common = set.intersection(*users) if users else set[Value]()
        if len(common) == 1 or not seen.every:
            found[name] = {whose.input: common.pop() if common else _nobody(schema, whose)}
    return found if all(run.timeline for run in seen.every) else {}


def _nobody(schema: Schema, whose: WhoseRun) -> Value:
    """A key that no user has."""
    name, _, path = whose.field.partition(".")
    field = schema.by_name[name].by_name.get(path)
    return "nobody" if field is not None and field.kind is Kind.TEXT else 0


def _users(whose: WhoseRun, run: Run) -> set[Value]:
    """Who acted in a run, by the rows that a login of each leaves."""
    name, _, path = whose.field.partition(".")
    field, *steps = path.split(".")
    keys = {d.key for d in run.deltas if d.type == name and d.op in (Op.CREATE, Op.UPDATE)}
    rows = [row for key in keys if (row := run.after.tables[name].row(key)) is not None]
    held = [at(row[field], tuple(steps)) for row in rows if row.items() >= whose.when.items()]
    return {
        int(each) if str(each).isdecimal() else each for each in held if isinstance(each, int | str)
    }


def _without_profiles(run: Run, seen: SeenRun, used: Mapping[str, Mapping[str, Value]]) -> Run:
    """The changes of the run that no profile explains."""
    if not used:
        return run
    judgement = _reference("profiles", _PROFILED + use_of(used), seen).judged()
    kept = {one for one, by in judgement.explained_by if not by}
    return replace(run, deltas=tuple(d for d in run.deltas if d.id in kept))


_PROFILED: Final = """
contract: drafts/profiles
version: 1.0.0
owner: statediff
intent: Show what a framework does by itself.
noop: true
"""


def _unread(captures: Sequence[Capture]) -> dict[str, str]:
    """Each type, and each field of one, of which not all was read before a run, and why."""
    found: dict[str, str] = {}
    for part in (part for capture in captures for part in capture.parts):
        for name, table in part.state.tables.items():
            cause = printable(table.enumeration.cause or "unread")[:200]
            if table.enumeration.cause == MAY_WRITE:
                continue  # no draft leaves out what the run may have written
            if not table.enumeration.is_complete:
                found.setdefault(name, cause)
            elif not all(chunk.is_fully_observed for chunk in table.chunks):
                cells = (cell for _, row in table.rows() for cell in row.items())
                for field, cell in cells:
                    if isinstance(cell, Unobserved) and not isinstance(cell, Digested):
                        found.setdefault(f"{name}.{field}", printable(cell.cause)[:200])
    return found


def _unseen(*captures: Capture) -> dict[str, str]:
    """Each type by which no run can be decided, and why.

    Some capture saw nothing of it; or of schema objects, which an account may see in part, not all.
    """
    found: dict[str, str] = {}
    for part in (part for capture in captures for part in capture.parts):
        for name, table in part.state.tables.items():
            listed = table.enumeration
            is_partial = name.startswith(SCHEMA_OBJECT_PREFIXES) and not listed.is_complete
            is_left = is_partial or listed.coverage is Coverage.UNOBSERVED
            if is_left and listed.cause != MAY_WRITE:
                found.setdefault(name, printable(listed.cause or "unread")[:200])
    return found


# ---------------------------------------------------------------- judged before it is written


def _approved(drafted: Drafted) -> Drafted:
    """The draft, with what tells wrong runs from right ones; `UsageError` where nothing does."""
    if not drafted.draft.clauses:
        return drafted
    text, seen = drafted.draft.text, drafted.examples
    right, wrong, idle = (
        [_reference(f"{kind} run {n}", text, run) for n, run in enumerate(runs, 1)]
        for kind, runs in zip(("right", "wrong", "idle"), seen, strict=True)
    )
    judgements, draft = [(run, run.judged()) for run in right], drafted.draft
    if draft.seen.followed and any(j.verdict is not Verdict.MATCH for _, j in judgements):
        loose = replace(draft, seen=replace(draft.seen, followed=()))  # they undid something
        return _approved(replace(drafted, draft=loose))
    for run, judgement in judgements:
        _require_match(run.name, judgement)
    if len(right) == 1:  # further right runs are others, at another hour
        later = another_run(right[0], drafted.draft.seen.runs[0])
        _require_match(f"{right[0].name} at another hour", later.judged())
    passing = [run for run in (*wrong, *idle) if run.judged().verdict is Verdict.MATCH]
    if passing:
        mutants = [
            (run, tuple(proposals(right[0], judgements[0][1], run.judged()))) for run in passing
        ]
        closing = proven(right[0].contract, right, mutants)
        if not closing:
            raise UsageError(
                f"{passing[0].name} would MATCH as the right ones do, and no clause tells it from "
                "them; nothing was written. Is it wrong for something that the states do not show?"
            )
        drafted = replace(drafted, draft=_closed(drafted.draft, [closing]))
        file = parse_contract(drafted.draft.text.encode(), "the draft")
        right = [replace(run, contract=file) for run in right]
    return replace(drafted, right=tuple(right), remarks=tuple(_remarks(drafted.draft)))


def _reference(name: str, text: str, run: SeenRun) -> Reference:
    return Reference(
        name,
        parse_contract(text.encode(), "the draft"),
        before=run.before,
        after=run.after,
        trace=Trace(cause="no trace was given"),
        answer=NoAnswer("none was given"),
        timeline=run.timeline,
        facts=TrialFacts.offline(),
    )


def _require_match(name: str, judgement: Judgement) -> None:
    if judgement.verdict is Verdict.MATCH:
        return
    wrong = [f"{f.clause}: {f.sentence}" for f in judgement.findings if f.truth is not Truth.HOLDS]
    raise UsageError(
        f"the draft gives {name} {judgement.verdict.value}, so nothing was written: "
        f"{'; '.join(wrong[:SHOWN])}. Give a further right run"
    )


def _closed(found: Draft, closing: Iterable[str]) -> Draft:
    """The draft with the clauses of each text, YAML by section."""
    added, section = dict(found.added), ""
    for line in (line for text in closing for line in text.splitlines()):
        if line.startswith(" "):
            added[section] = (*added.get(section, ()), line)
        else:
            section = line.rstrip(":")
    return replace(found, added=added)


def _remarks(draft: Draft) -> Iterator[str]:
    """Remarks on the runs, for the owner."""
    fitting = profiles_of(draft.seen.schema.by_name)
    if fitting and not draft.seen.used:
        yield (
            f"these are tables of {', '.join(fitting)}; `watch --draft` notes when a run was and "
            "who logged in, so that the contract can `use` it"
        )
    if len(draft.seen.runs) == 1:
        yield "one run cannot tell the task from what happens beside it; give a second right run"
    once = sorted(
        {
            change.type
            for clause in draft.clauses
            for change in clause.changes
            if not change.is_common and {m.of.number for m in change.members} == {0}
        }
    )
    if once and len(draft.seen.runs) > 1:
        yield (
            f"only the first run changed {', '.join(once)}; if that is what the program does when "
            "it starts for the first time, start it once before the runs"
        )


# ---------------------------------------------------------------- files


def _has_entities(schema_text: str) -> bool:
    return bool(schema_text) and not schema_text.rstrip().endswith("entities: {}")


def require_new(out: Path, names: Sequence[str]) -> None:
    """None of the files is there yet; `UsageError` names one that is."""
    for name in sorted(names):
        if (out / name).exists():
            raise UsageError(
                f"{printable(str(out / name))}: exists already and nothing is overwritten; "
                "choose another folder"
            )


def next_step(target: str) -> str:
    """The next step with a drafted contract."""
    return (
        f"next: read {target}, say what must change, then "
        f"`statediff check {target}`; remove `reviewed: false` when it is right"
    )


def write_drafts(out: Path, files: Mapping[str, str]) -> list[str]:
    """The files are in the folder; their paths as messages show them."""
    require_new(out, list(files))
    out.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        folders.write_file(out / name, text.encode())
    return [folders.shown(out / name) for name in sorted(files)]
