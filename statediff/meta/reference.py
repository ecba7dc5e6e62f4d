"""A reference trial as faults see it, and as a run's folder holds it.

Its rows are by type and key, edited as a whole and put back. An edit of an entity is made in every
source that delivers it, so that what is seeded is a change of the world and not a contradiction
between two looks at it (that is a fault of its own).

`recorded_trials` reads what a run kept in its folder. The bundle of a trial holds only what its
decision read. The states are those of `states.json`, which names chunks of the run's store; each is
refused where its digest is another than was read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

from pydantic import BaseModel, TypeAdapter
from pydantic import Field as Described

from statediff.contract.file import ContractFile
from statediff.contract.yaml.reader import read_document
from statediff.errors import AdapterError, BundleError, InputError, StorageError, UsageError
from statediff.evidence import documents as doc
from statediff.evidence.disclosure.undisclosed import whole
from statediff.evidence.documents import EndingShape, check_shape, trace_from
from statediff.evidence.package import Bundle, load
from statediff.evidence.shapes import Text, check
from statediff.kernel import TrialFacts, judgement_of
from statediff.model.batches import Row
from statediff.model.patch import patched
from statediff.model.readings import (
    Capture,
    History,
    Reading,
    SourceCapture,
    Timeline,
    Transaction,
)
from statediff.model.schema import EntityType, merge_schemas
from statediff.model.state import (
    Enumeration,
    LayeredChunks,
    MemoryChunks,
    State,
    Table,
    build_table,
)
from statediff.model.trace import NoAnswer, RunEnding, Trace
from statediff.model.values import ABSENT, Key, Value, is_value, printable, same
from statediff.model.verdict import Judgement, Verdict
from statediff.trial_folder import trial_captures, vault_of

Rows = dict[Key, Row]
Change = Callable[[Rows], None]
"""Edits the rows of one type in place."""

MAX_ROWS = 20_000
"""Rows a type may have for faults to be seeded into it; editing holds them all in memory."""


@dataclass(frozen=True)
class Reference:
    """A trial with everything judging needs; frozen, and so is every mutant made of it."""

    name: str
    contract: ContractFile
    _: KW_ONLY
    before: Capture
    after: Capture
    trace: Trace
    answer: Value | NoAnswer
    timeline: Timeline | None
    facts: TrialFacts
    ending: str = ""
    """How its agent ended, where it did not end well."""

    def judged(self) -> Judgement:
        """The judgement; `ContractError` where the contract does not fit what was captured."""
        return judgement_of(
            self.contract,
            self.before,
            self.after,
            trace=self.trace,
            answer=self.answer,
            timeline=self.timeline,
            facts=self.facts,
        )

    @cached_property
    def types(self) -> Mapping[str, EntityType]:
        """Every type that some source delivers after the run."""
        schema = merge_schemas(tuple(part.state.schema for part in self.after.parts))
        return schema.by_name

    def rows(self, type_name: str) -> Rows:
        """The entities after the run, as the first source that delivers the type shows them."""
        return self._rows(self.after, type_name)

    def rows_before(self, type_name: str) -> Rows:
        """The entities before the run."""
        return self._rows(self.before, type_name)

    def is_as_before(self, type_name: str) -> bool:
        """True if both states hold the very same chunks of the type, whose rows then are equal."""
        before, after = (
            [(table.type, table.chunks) for table in _tables(capture, type_name)[:1]]
            for capture in (self.before, self.after)
        )
        return before == after

    def is_editable(self, type_name: str) -> bool:
        """True if the type was captured, and small enough to be held."""
        tables = [t for t in _tables(self.after, type_name) if t.enumeration.is_complete]
        return bool(tables) and all(table.row_count <= MAX_ROWS for table in tables)

    def edited(self, changes: Mapping[str, Change], only_source: str | None = None) -> Reference:
        """The trial with the rows of some types edited after the run, in every source or in one."""
        return self.with_parts(edited(self.after, changes, only_source).parts)

    def with_parts(self, parts: tuple[SourceCapture, ...]) -> Reference:
        """The trial with other states after.

        A source whose state is another one came there in one transaction: what a feed saw of the
        reference is no history of the mutant.
        """
        return self._ending(parts, frozenset())

    def in_one_transaction(self) -> Reference:
        """The trial with the history that a mutant has: each source came to its end at once."""
        sources = frozenset(reading.source for reading in self.after.history.readings)
        return self._ending(self.after.parts, sources)

    def _ending(self, parts: tuple[SourceCapture, ...], at_once: Collection[str]) -> Reference:
        ends = {part.reading.source: part.state for part in parts}
        history = self.after.history
        kept: list[Transaction] = []
        readings: list[Reading] = []
        for reading in history.readings:
            source, own = reading.source, history.of(reading.source)
            end = ends.get(source)
            is_moved = end is not None and (source in at_once or reading.digest != end.digest())
            if end is None or not reading.is_complete or not is_moved:
                kept += own
                readings.append(reading)
                continue
            kept.append(Transaction(f"{source}/1", source, reading.position or "", None, end))
            readings.append(replace(reading, digest=end.digest()))
        told = History(tuple(readings), tuple(kept))
        return replace(self, after=replace(self.after, parts=parts, history=told))

    def passing(self, changes: Mapping[str, Change]) -> Reference | None:
        """The trial with the edits made half-way through it, in every source, and undone at once.

        None where no complete history tells of such a source.
        """
        history = self.after.history
        kept: list[Transaction] = []
        is_made = False
        starts = {part.reading.source: part for part in self.before.parts}
        for source in (reading.source for reading in history.readings):
            own = history.of(source)
            start = starts.get(source)
            if start is None or not changes.keys() & set(start.state.tables):
                kept += own
                continue
            if history.gap(source) is not None:
                return None
            half = len(own) // 2
            state = own[half - 1].state if half else start.state
            passing = _edit(SourceCapture(start.reading, state), changes).state
            is_made = True
            kept += own[:half]
            kept += (
                Transaction(f"{source}/{name}", source, "", None, each)
                for name, each in (("made", passing), ("undone", state))
            )
            kept += own[half:]
        if not is_made:
            return None
        told = replace(history, transactions=tuple(kept))
        return replace(self, after=replace(self.after, history=told))

    def _rows(self, capture: Capture, type_name: str) -> Rows:
        for table in _tables(capture, type_name):
            return dict(rows_of(table))
        return {}


@lru_cache(maxsize=512)  # every mutant of a reference shares its tables
def rows_of(table: Table) -> Mapping[Key, Row]:
    """The entities of a table. Shared: neither it nor a row of it may be changed."""
    return dict(table.rows())


def _tables(capture: Capture, type_name: str) -> list[Table]:
    return [p.state.tables[type_name] for p in capture.parts if type_name in p.state.tables]


def edited(
    capture: Capture, changes: Mapping[str, Change], only_source: str | None = None
) -> Capture:
    """The capture with the rows of some types edited, in every source or in one."""
    parts = (
        part if only_source not in (None, part.reading.source) else _edit(part, changes)
        for part in capture.parts
    )
    return replace(capture, parts=tuple(parts))


def _edit(part: SourceCapture, changes: Mapping[str, Change]) -> SourceCapture:
    tables = dict(part.state.tables)
    for name, change in changes.items():
        if name in tables:
            tables[name] = _edited(tables[name], change)
    return with_state(part, State(part.state.schema, tables))


def _edited(table: Table, change: Change) -> Table:
    """The table with its rows edited: only the chunks that hold them are written again."""
    known = rows_of(table)
    rows = dict(known)
    change(rows)
    gone = [row for key, row in known.items() if rows.get(key) is not row]
    come = [_whole(table, row) for key, row in rows.items() if known.get(key) is not row]
    made = patched(replace(table, store=LayeredChunks(table.store)), gone, come)
    # The judge has to find what differs: nothing tells it.
    return replace(made, origin=None)


def _whole(table: Table, row: Row) -> Row:
    return {field.name: row.get(field.name) for field in table.type.fields}


def rebuild(table: Table, rows: Iterable[Row], enumeration: Enumeration | None = None) -> Table:
    """The table with these rows, cut as before."""
    kept = table.enumeration if enumeration is None else enumeration
    whole = [_whole(table, row) for row in rows]
    return build_table(table.type, whole, MemoryChunks(), like=table, enumeration=kept)


def with_state(part: SourceCapture, state: State) -> SourceCapture:
    """The part with another state, and a reading that vouches for it."""
    digest = None if part.reading.digest is None else state.digest()
    return SourceCapture(replace(part.reading, digest=digest), state)


def differs(a: Row, b: Row) -> tuple[str, ...]:
    """The fields of which the two rows say different things."""
    return tuple(sorted(n for n in {*a, *b} if not same(a.get(n), b.get(n))))


def is_known(row: Row) -> bool:
    """True if every field of the row was observed, or is known not to be there."""
    return all(value is ABSENT or is_value(value) for value in row.values())


Json = Any
_READ: Final = ("trace.json", "answer.json", "timeline.json", "trial.json")


def recorded_trials(folder: Path, *files: ContractFile) -> tuple[Reference, ...]:
    """The trials of a run's folder, or the one of a trial's, that get MATCH under their contract.

    A contract with cases has a file for each. Trials of other contracts are passed over. Raises
    `UsageError` if none is left, or one that should be there cannot be read.
    """
    if (folder / "run.json").exists():
        folders = sorted(each for each in (folder / "trials").glob("*") if each.is_dir())
        run = folder
    elif runs := sorted(each.parent.name for each in folder.glob("*/run.json")):
        raise UsageError(
            f"{printable(str(folder))}: expected one run's folder, found a folder of {len(runs)}; "
            f"the newest is {printable(str(folder / runs[-1]))}"
        )
    else:
        folders, run = [folder], folder.parent.parent
    by_name = {file.content.contract: file for file in files}
    found = [
        trial for each in folders if (trial := _matching_trial(each, by_name, run)) is not None
    ]
    if not found:
        first = files[0].content.contract
        raise UsageError(
            f"{printable(str(folder))}: expected a trial of {first} that gets "
            f"MATCH; found none in {len(folders)}; name another run, or do the task right in one"
        )
    return tuple(found)


def _matching_trial(
    folder: Path, by_name: Mapping[str, ContractFile], run: Path
) -> Reference | None:
    """The trial in a folder if it gets MATCH; its documents have the shapes that readers need."""
    try:
        bundle = load(folder / "bundle")
        judged = read_document(bundle.files["contract.yaml"], "contract.yaml")
        file = by_name.get(str(judged.value.get("contract")))
        if file is None:
            return None
        trial = stored_trial(folder, bundle, file, run)
        return trial if trial.judged().verdict is Verdict.MATCH else None
    except (OSError, AdapterError, BundleError, InputError, StorageError) as error:
        raise UsageError(
            f"{printable(str(folder))}: cannot be read as a recorded trial: {error}; expected "
            "what `run` writes"
        ) from error


def stored_trial(folder: Path, bundle: Bundle, file: ContractFile, run: Path) -> Reference:
    """The trial of a bundle with its whole states, which its folder names, under the contract.

    The chunks are those of the run; what `retain` limits is read by the keys in its vault.

    `BundleError` where its documents have not the shapes that readers need, `OSError` where there
    are none.
    """
    before, after = trial_captures(folder, run, vault_of(run))
    judged = whole(bundle)
    content = {name: judged.document(name) for name in _READ}
    for name in _READ:
        check_shape(content[name], name)
    return Reference(
        folder.name,
        file,
        before=before,
        after=after,
        trace=trace_from(content["trace.json"]),
        answer=doc.answer_from(content["answer.json"]),
        timeline=doc.timeline_from(content["timeline.json"]),
        facts=facts_from(content["trial.json"]),
    )


class _Facts(BaseModel):
    id: Text
    agent: Text
    sandbox: Text | None
    isolation: Text
    seed: Annotated[Text, Described(pattern=r"^-?[0-9]{1,20}$")]
    receipt: dict[Text, Any]
    sources: list[Text]
    ending: EndingShape | None = None


def facts_from(document: Json) -> TrialFacts:
    """The facts that `TrialFacts.as_json` turned into this JSON. Raises `BundleError`."""
    facts = in_shape(_Facts, document, "trial.json")
    return TrialFacts(
        facts.id,
        facts.agent,
        facts.sandbox,
        facts.isolation,
        int(facts.seed),
        facts.receipt,
        tuple(facts.sources),
        ending=None if facts.ending is None else RunEnding(**facts.ending),
    )


Shape = TypeVar("Shape", bound=BaseModel)


def in_shape(shape: type[Shape], document: Json, name: str) -> Shape:
    """The document in its shape. Raises `BundleError`, which names the place."""
    found: Shape = check(document, TypeAdapter(shape), name)
    return found
