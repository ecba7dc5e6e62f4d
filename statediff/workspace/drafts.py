"""Drafts of a state schema and a contract, from states at hand or from a run that was seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from statediff.contract.authoring.drafting import Seen, draft_schema
from statediff.contract.document.refinement import refine
from statediff.contract.document.schemafile import parse_schema_file
from statediff.errors import UsageError
from statediff.kernel import comparison, schema_of
from statediff.model.readings import Capture
from statediff.model.state import State
from statediff.model.values import Digested, Unobserved, printable
from statediff.packs import CONTRACT_FILE
from statediff.systems.relational.schema import MAY_WRITE
from statediff.workspace import folders
from statediff.workspace.contracts import SCHEMA_FILE
from statediff.workspace.inputs import Refinements, capture_pair, one_capture, unrefined


def schema_text_of(states: Sequence[str], name: str, after: Sequence[str] = ()) -> str:
    """The drafted state schema of the states as they are, and as they are after a run."""
    if not after:
        return draft_schema(name, _parts(one_capture(states, unrefined)))
    pair = capture_pair(states, after, unrefined, alike=True)
    return schema_text_between(*pair, name, lambda: one_capture(states, unrefined))


def schema_text_between(
    before: Capture, after: Capture, name: str, alone: Callable[[], Capture]
) -> str:
    """The drafted state schema of what was there before and after a run.

    `alone` is what was there before, read without what was there after.
    """
    first, last = _parts(before), _parts(after)
    if any(not table.row_count for _, state in first for table in state.tables.values()):
        # Of a table without rows, a file says no columns; a pair has those of either side.
        types = (t for _, state in _parts(alone()) for t in state.schema.types)
        known = {t.source_table: {*t.by_name} for t in types}
        return draft_schema(name, first, last, known)
    return draft_schema(name, first, last)


def _parts(capture: Capture) -> list[tuple[str, State]]:
    return [(part.reading.source, part.state) for part in capture.parts]


def refinements_of(schema_text: str) -> Refinements:
    """What a drafted schema says of each source."""
    if not _has_entities(schema_text):
        return unrefined
    file = parse_schema_file(schema_text.encode(), SCHEMA_FILE)
    return lambda source: refine(file, source)


def seen_between(before: Capture, after: Capture | None, sandbox: str | None = None) -> Seen:
    """What a draft is made of: a state, or what changed between two."""
    sources = tuple(part.reading.source for part in before.parts)
    if after is None:
        return Seen(schema_of(before), sources, (), sandbox, unseen=_unseen(before))
    found = comparison(before, after)
    deltas, schema, unseen = found.diff.deltas, schema_of(before, after), _unseen(before)
    return Seen(schema, sources, deltas, sandbox, found.before, found.after, unseen)


def _unseen(before: Capture) -> dict[str, str]:
    """Each type, and each field of one, of which not all was read before the run, and why."""
    found: dict[str, str] = {}
    for part in before.parts:
        for name, table in part.state.tables.items():
            if table.enumeration.cause == MAY_WRITE:
                continue  # no draft leaves out what the run may have written
            if not table.enumeration.is_complete:
                found.setdefault(name, printable(table.enumeration.cause or "unread")[:200])
                continue
            if all(chunk.is_fully_observed for chunk in table.chunks):
                continue
            for _, row in table.rows():
                for field, cell in row.items():
                    if isinstance(cell, Unobserved) and not isinstance(cell, Digested):
                        found.setdefault(f"{name}.{field}", printable(cell.cause)[:200])
    return found


def files_of(schema_text: str, contract_text: str) -> dict[str, str]:
    """The files of a draft; there is no schema file where the sources' own names say it all."""
    named = {SCHEMA_FILE: schema_text} if _has_entities(schema_text) else {}
    return {**named, CONTRACT_FILE: contract_text}


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
    """What its reader does with a drafted contract."""
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
