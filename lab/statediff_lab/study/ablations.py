"""The whole judge with one part gone: the inputs are changed, never the judge [SSD §V].

A section is dropped from the contract, or the captures are made to say what a judge without that
part would believe. The changed contract has bytes, and so a digest, of its own, and says `noop`:
an evaluator that would pass a run in which nothing happens is to be measured, not refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from statediff.contract.clauses.access import READS
from statediff.contract.clauses.alternatives import BranchClauses
from statediff.contract.clauses.patterns import Clause
from statediff.contract.document.contract import KINDS, Evidence, OpenFrame
from statediff.contract.file import ContractFile
from statediff.meta.reference import Reference, rebuild, with_state
from statediff.model.batches import Row
from statediff.model.lookalikes import skeleton
from statediff.model.readings import NO_HISTORY, SourceCapture
from statediff.model.state import COMPLETE, State, Table
from statediff.model.values import Observed

MAX_NAME: Final = 200
"""Characters of a text that can be somebody's or something's name."""
_ASSERTING: Final = tuple(s for kind in KINDS if kind is not READS for s in kind.sections)
"""The sections of a contract that judge what was done, not what was read."""
_OPEN: Final = OpenFrame(open="the study asks what is missed without the frame")


def without_canonicalization(run: Reference) -> Reference:
    """ν is the identity, for natural keys too; what lies outside Ω stays outside."""
    content = run.contract.content
    raw = tuple(
        rule.model_copy(update={"match_on": dict.fromkeys(rule.match_on)})
        for rule in content.identify
    )
    return _with(run, "canonicalization", canonicalize=(), identify=raw)


def without_labels(run: Reference) -> Reference:
    """Nothing is forbidden by name, irreversible or in need of authorization (Γ and Λ)."""
    dropped = {"forbid": (), "effects": ()} | _branches(run.contract, lambda _: {"forbid": ()})
    return _with(run, "labels", **dropped)


def without_frame(run: Reference) -> Reference:
    """A change that no clause explains is nobody's matter."""
    return _with(run, "frame", frame=_OPEN)


def without_history(run: Reference) -> Reference:
    """Only the two ends of the run are looked at."""
    content = run.contract.content
    evidence = {
        name: rule.model_copy(update={"history": None}) for name, rule in content.evidence.items()
    }
    changed = _sections(run.contract, _at_the_ends)
    ended = run
    if run.after.history != NO_HISTORY:
        ended = replace(run, after=replace(run.after, history=NO_HISTORY))
    steps = tuple(s for s in content.steps if s.always is None)
    return _with(ended, "history", evidence=evidence, steps=steps, **changed)


def without_freshness(run: Reference) -> Reference:
    """A reading counts however old it is, and whether or not its source had come to rest."""
    evidence = {
        name: rule.model_copy(update={"max_age": None})
        for name, rule in run.contract.content.evidence.items()
    }
    ageless = run if run.timeline is None else replace(run, timeline=None)
    return _with(ageless, "freshness", evidence=evidence)


def without_evidence(run: Reference) -> Reference:
    """Whatever was delivered is the whole truth; what was not is as it was before.

    Of two sources that differ the first is believed.
    """
    known = {part.reading.source: part.state for part in run.before.parts}
    parts = tuple(_believe(part, known.get(part.reading.source)) for part in run.after.parts)
    believed = replace(run.with_parts(parts), timeline=None)
    return _with(believed, "evidence", evidence=_first_is_right(believed))


def without_identity(run: Reference) -> Reference:
    """No natural key pairs entities that have no stable one."""
    return _with(run, "identity", identify=())


def trusting_names(run: Reference) -> Reference:
    """A name is taken for the one it looks like; of several entities with one name, the first.

    What a resolver does that matches by similarity.
    """
    names = _Names(run)
    natural = {rule.type: tuple(rule.match_on) for rule in run.contract.content.identify}
    earlier = {part.reading.source: part.state for part in run.before.parts}
    if natural:  # a type that has such a rule has one entity a name on both sides
        before = tuple(_each_row(part, None, dict, natural) for part in run.before.parts)
        run = replace(run, before=replace(run.before, parts=before))
        earlier = {}
    after = tuple(
        _each_row(
            part,
            earlier.get(part.reading.source),
            lambda row: {name: names.known(value) for name, value in row.items()},
            natural,
        )
        for part in run.after.parts
    )
    if all(new is old for new, old in zip(after, run.after.parts, strict=True)):
        return run
    return run.with_parts(after)


def only(run: Reference, name: str, *sections: str) -> Reference:
    """The contract's sections of these names alone, over captures that are believed.

    What an ordinary benchmark asserts: nothing is forbidden, nothing else is looked at.
    """
    content = run.contract.content
    fields = type(content).model_fields
    gone: dict[str, Any] = {
        each: fields[each].get_default(call_default_factory=True)
        for each in _ASSERTING
        if each not in sections
    }
    if "any_of" in sections:
        gone |= _branches(run.contract, lambda _: {"forbid": (), "allow": ()})
    believed = without_evidence(run)
    return _with(believed, name, frame=_OPEN, **gone)


# ---------------------------------------------------------------- contracts


def _with(run: Reference, name: str, **update: Any) -> Reference:
    file = run.contract
    if all(getattr(file.content, section) == value for section, value in update.items()):
        return run
    content = file.content.model_copy(update={**update, "noop": True})
    # Compiled contracts are kept by digest: another content needs other bytes.
    data = file.data + f"\n# as a study judges it: {name}\n".encode()
    return replace(run, contract=ContractFile(data, file.source, content))


def _sections(file: ContractFile, change: Any) -> dict[str, Any]:
    """Every list of clauses with each clause changed, those of branches too."""
    content = file.content
    changed: dict[str, Any] = {
        name: tuple(change(clause) for clause in getattr(content, name))
        for name in ("forbid", "require", "allow")
    }
    return changed | _branches(
        file,
        lambda branch: {
            name: tuple(change(clause) for clause in getattr(branch, name))
            for name in ("forbid", "require", "allow")
        },
    )


def _branches(file: ContractFile, change: Any) -> dict[str, Any]:
    content = file.content

    def each(branches: Mapping[str, BranchClauses]) -> dict[str, BranchClauses]:
        return {n: b.model_copy(update=change(b)) for n, b in branches.items()}

    found: dict[str, Any] = {}
    if content.any_of is not None:
        found["any_of"] = each(content.any_of)
    return found


def _at_the_ends(clause: Clause) -> Clause:
    return clause.model_copy(update={"during": None})


def _first_is_right(run: Reference) -> dict[str, Evidence]:
    """Every source must report, and each decides the types that it is the first to deliver.

    Whether a history is required stays as it was: that is no matter of belief.
    """
    parts = (*run.before.parts, *run.after.parts)
    first: dict[str, str] = {}
    for part in parts:
        for name in part.state.tables:
            first.setdefault(name, part.reading.source)
    kept = run.contract.content.evidence
    return {
        source: Evidence(
            authority=tuple(sorted(n for n, s in first.items() if s == source)),
            history=kept[source].history if source in kept else None,
        )
        for source in sorted({part.reading.source for part in parts})
    }


# ---------------------------------------------------------------- captures


def _believe(part: SourceCapture, before: State | None) -> SourceCapture:
    tables = {
        name: _whole(table, None if before is None else before.tables.get(name))
        for name, table in part.state.tables.items()
    }
    state = State(part.state.schema, tables)
    reading = replace(
        part.reading,
        is_complete=True,
        cause=None,
        digest=state.digest(),
        acknowledgement=False,
        is_agent_influenced=False,
    )
    return SourceCapture(reading, state)


def _whole(table: Table, before: Table | None) -> Table:
    if table.enumeration.is_complete:
        return table
    if not table.row_count and before is not None:
        return replace(before, enumeration=COMPLETE)
    return replace(table, enumeration=COMPLETE)


@lru_cache(maxsize=1024)  # the trials of a task share the tables before
def _shapes(table: Table) -> Mapping[str, str]:
    """The texts of a table that could be names, by what each looks like."""
    texts = {
        value
        for _, row in table.rows()
        for value in row.values()
        if isinstance(value, str) and len(value) <= MAX_NAME
    }
    return {_look(text): text for text in sorted(texts, reverse=True)}


@lru_cache(maxsize=65_536)
def _look(text: str) -> str:
    return skeleton(text)


class _Names:
    """Names that stand before the run or in the contract's inputs, found by what they look like."""

    def __init__(self, run: Reference) -> None:
        inputs = run.contract.content.inputs.values()
        self._inputs = {_look(text): text for text in inputs if isinstance(text, str)}
        self._tables = [t for part in run.before.parts for t in part.state.tables.values()]

    def known(self, value: Observed) -> Observed:
        """The known name that the value looks like; the value where it looks like none."""
        if not isinstance(value, str) or len(value) > MAX_NAME:
            return value
        look = _look(value)
        named = [shapes[look] for t in self._tables if look in (shapes := _shapes(t))]
        named += [self._inputs[look]] if look in self._inputs else []
        return value if value in named or not named else named[0]


RowChange = Callable[[Row], Row]


def _each_row(
    part: SourceCapture,
    earlier: State | None,
    change: RowChange,
    named: Mapping[str, tuple[str, ...]],
) -> SourceCapture:
    """The source with every row changed that is in no chunk of `earlier`."""
    tables = dict(part.state.tables)
    for name, table in part.state.tables.items():
        old = None if earlier is None else earlier.tables.get(name)
        if not table.enumeration.is_complete or (old is not None and old.chunks == table.chunks):
            continue
        rows = [row for _, row in table.rows()]
        made = _first_rows(
            [_with_key(table, row, change(row)) for row in rows], named.get(name, ())
        )
        if made != rows:
            tables[name] = rebuild(table, made)
    if all(tables[name] is table for name, table in part.state.tables.items()):
        return part
    return with_state(part, State(part.state.schema, tables))


def _with_key(table: Table, row: Row, changed: Row) -> Row:
    """A key is nobody's name: it stays."""
    return {**changed, **{name: row[name] for name in table.type.key}}


def _first_rows(rows: list[Row], natural: tuple[str, ...]) -> list[Row]:
    """The rows without those whose natural key a row above them has."""
    if not natural:
        return rows
    found: dict[tuple[str, ...], Row] = {}
    for row in rows:
        found.setdefault(tuple(repr(row.get(name)) for name in natural), row)
    return list(found.values())
