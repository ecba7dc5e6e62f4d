"""Instants kept as text: another spelling is another value, unless a rule reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from statediff.errors import ContractError
from tests.judged_files import database, judged, sentences, tables

NOTHING = "forbid:\n  - {id: kept, delete: session}\n"
READ = "canonicalize:\n  - {use: instant@1, on: [session.at], because: the application parses it}\n"
STATED = (
    "schema: s\nversion: 1.0.0\nentities:\n  session:\n    fields:\n"
    '      at: {type: timestamp, form: "%s"}\n'
)
Z = "YYYY-MM-DDThh:mm:ssZ"
BEFORE = "2026-01-01T09:00:00Z"
RESPELLED = ["2026-01-01T10:00:00+01:00", "2026-01-01T09:00:00+00:00", "2026-01-01 09:00:00Z",
             "2026-01-01T09:00:00.000Z", "2026-01-01T09:00Z"]  # fmt: skip


def sqlite(folder: Path, name: str, *texts: object, declared: str = "DATETIME") -> Path:
    rows = ", ".join(f"({i}, {'NULL' if t is None else repr(t)})" for i, t in enumerate(texts, 1))
    return database(
        folder / name,
        f"CREATE TABLE session (id INTEGER PRIMARY KEY, at {declared})",
        f"INSERT INTO session VALUES {rows}",
    )


def json_tables(folder: Path, name: str, *texts: object) -> Path:
    rows: list[dict[str, Any]] = [{"id": i, "at": t} for i, t in enumerate(texts, 1)]
    return tables(folder / name, {"session": rows})


@pytest.mark.parametrize("text", RESPELLED)
def test_another_spelling_is_a_delta_in_sqlite_without_a_schema(text: str, tmp_path: Path) -> None:
    before = sqlite(tmp_path, "a.db", BEFORE, BEFORE)
    after = sqlite(tmp_path, "b.db", text, BEFORE)
    done = judged(tmp_path, NOTHING, before, after)
    assert done.verdict.value == "DIVERGE"
    assert any("session 1 at" in s and text in s for s in sentences(done))
    allowed = judged(tmp_path, READ + NOTHING, before, after)
    assert allowed.verdict.value == "MATCH"


@pytest.mark.parametrize("text", RESPELLED)
def test_another_spelling_is_a_delta_where_the_schema_states_the_form(
    text: str, tmp_path: Path
) -> None:
    for side, declared in (("sqlite", "TEXT"), ("json", "")):
        one = (BEFORE, BEFORE)
        two = (text, BEFORE)
        if side == "sqlite":
            before = sqlite(tmp_path, "a.db", *one, declared=declared)
            after = sqlite(tmp_path, "b.db", *two, declared=declared)
        else:
            before, after = json_tables(tmp_path, "a.json", *one), json_tables(
                tmp_path, "b.json", *two
            )  # fmt: skip
        assert judged(tmp_path, NOTHING, before, after, STATED % Z).verdict.value == "DIVERGE"
        read = judged(tmp_path, READ + NOTHING, before, after, STATED % Z)
        assert read.verdict.value == "MATCH"


def test_a_value_in_another_form_is_undefined_where_a_clause_needs_an_instant(
    tmp_path: Path,
) -> None:
    body = (
        "allow:\n  - {id: moved, update: session}\n"
        "forbid:\n  - id: late\n"
        '    that: after.session[1].at > timestamp("2026-01-01T00:00:00Z")\n'
    )
    before = sqlite(tmp_path, "a.db", "2025-01-01T09:00:00Z", BEFORE)
    plain = sqlite(tmp_path, "b.db", "2025-06-01T09:00:00Z", BEFORE)
    other = sqlite(tmp_path, "c.db", "2025-06-01T09:00:00+14:00", BEFORE)
    schema = STATED % Z
    assert judged(tmp_path, body, before, plain, schema).verdict.value == "MATCH"
    assert judged(tmp_path, body, before, other, schema).verdict.value == "DIVERGE"


def test_several_forms_before_are_texts(tmp_path: Path) -> None:
    before = sqlite(tmp_path, "a.db", BEFORE, "2026-01-01 10:00:00")
    after = sqlite(tmp_path, "b.db", "2026-01-01T10:00:00+01:00", "2026-01-01 10:00:00")
    assert judged(tmp_path, NOTHING, before, after).verdict.value == "DIVERGE"
    assert judged(tmp_path, READ + NOTHING, before, after).verdict.value == "MATCH"
    assert judged(tmp_path, NOTHING, before, before).verdict.value == "MATCH"


def test_a_column_without_a_text_is_written_like_the_others(tmp_path: Path) -> None:
    body = """
require:
  - id: closed
    update: session
    where: it.id == 1
    set: {closed_at: {is: 'timestamp("2026-01-02T09:00:00Z")'}}
"""
    rows = (
        "CREATE TABLE session (id INTEGER PRIMARY KEY, at DATETIME, closed_at DATETIME)",
        f"INSERT INTO session VALUES (1, '{BEFORE}', NULL)",
    )
    before = database(tmp_path / "a.db", *rows)
    for text, verdict in (("2026-01-02T09:00:00Z", "MATCH"), ("2026-01-02 09:00:00Z", "DIVERGE")):
        after = database(tmp_path / "b.db", *rows, f"UPDATE session SET closed_at = '{text}'")
        done = judged(tmp_path, body, before, after, noop=False)
        assert done.verdict.value == verdict, text


def test_a_form_is_one_of_those_there_are_and_of_an_instant(tmp_path: Path) -> None:
    before = sqlite(tmp_path, "a.db", BEFORE)
    for form in ("%Y-%m-%d", "YYYY-MM-DD", "YYYY-MM-DD hh:mm:ss.fffffff", "YYYY-MM-DDThh:mm:ssz"):
        with pytest.raises(ContractError, match="expected a form of instants"):
            judged(tmp_path, NOTHING, before, before, STATED % form)
    text = (STATED % Z).replace("timestamp", "text")
    with pytest.raises(ContractError, match="expected a timestamp, found `at`, which is text"):
        judged(tmp_path, NOTHING, before, before, text)
    twice = (STATED % Z).replace("form:", "zone: UTC, form:")
    with pytest.raises(ContractError, match="expected no offset"):
        judged(tmp_path, NOTHING, before, before, twice)
