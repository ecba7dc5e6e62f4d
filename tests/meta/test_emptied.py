"""Texts that say nothing: what is seeded, what passes and what closes it."""

import pytest

from statediff.meta.emptied import BLANKS, emptied_texts, is_free_text
from statediff.meta.fault_classes import class_of
from statediff.meta.mutate import Argued, mutate
from statediff.meta.reference import Reference
from statediff.meta.world import World
from statediff.model.schema import EntityType, Field, Kind
from tests.meta.test_mutate import AFTER, BEFORE, reference

ID = Field("id", Kind.INT, is_nullable=False)
NOTE = EntityType(
    "note",
    ("id",),
    (
        ID,
        Field("kind", Kind.TEXT),
        Field("body", Kind.TEXT),
        Field("status", Kind.TEXT),
        Field("owner", Kind.TEXT, reference="user"),
        Field("data", Kind.TEXT),
    ),
)
USER = EntityType("user", ("id",), (Field("id", Kind.TEXT, is_nullable=False),))
TYPES = (NOTE, USER)
ROW = {
    "id": 7,
    "kind": "a long remark",
    "body": "Done.",
    "status": "open",
    "owner": "Ada Lovelace",
    "data": '{"body": "some words"}',
}
LATER = {"user": [{"id": "Ada Lovelace"}], "note": [ROW]}
BLANK = {"user": []}
SAYS = 'search(it.body, "[\\\\pL\\\\pN]")'


JOINED = "require:\n  - {id: joined, create: user}\n"


def of_note(where: str, section: str = "require") -> Reference:
    """A right run that made a note, which a clause of the section asks for or allows."""
    clause = f"  - id: noted\n    create: note\n    where: >-\n      {where}\n"
    most = "" if section == "require" else "allow:\n"
    return reference(f"{JOINED}{most}{clause}", LATER, types=TYPES, before=BLANK)


def empty(report) -> list[str]:
    return [
        f"{o.fault.operator} {o.fault.target}"
        for o in report.outcomes
        if class_of(o.fault) == "empty-text" and not o.is_as_it_should
    ]


def test_a_text_of_a_required_entity_is_emptied_nulled_and_blanked() -> None:
    run = of_note("it.status == 'open'")
    faults = list(emptied_texts(World(run, run.judged(), 0)))
    rows = [fault.mutant.rows("note")[(7,)] for fault in faults]
    assert [f.id for f in faults] == [
        "emptied note.kind", "emptied note.kind", "blanked note.kind",
        "emptied note.body", "emptied note.body", "blanked note.body",
    ]  # fmt: skip
    assert [row["body"] for row in rows[3:]] == ["", None, f"{BLANKS} "]
    assert [row["status"] for row in rows] == ["open"] * 6


def test_an_entity_that_is_only_allowed_may_be_empty() -> None:
    run = of_note("it.status == 'open'", "allow")
    worded = World(run, run.judged(), 0)
    assert list(emptied_texts(worded)) == []


@pytest.mark.parametrize(
    ("where", "passing"),
    [
        ("it.status == 'open'", {"emptied", "blanked"}),
        ("it.body != null", {"emptied", "blanked"}),
        ("it.body != null and len(it.body) >= 3", {"blanked"}),
        ('it.body != null and search(it.body, "\\\\S")', {"blanked"}),
        (f"it.body != null and {SAYS}", set()),
        ("it.body == 'Done.'", set()),
    ],
)
def test_what_is_asked_of_a_text_decides_which_of_them_pass(where: str, passing: set[str]) -> None:
    found = mutate([of_note(where)], 0, {})
    assert {line.split()[0] for line in empty(found) if line.endswith(".body")} == passing


def test_a_hole_is_one_survivor_a_type_and_the_clause_that_closes_it_asks_for_no_wording() -> None:
    run = of_note("it.status == 'open' and it.kind == 'a long remark'")
    [survivor] = [s for s in mutate([run], 0, {}).survivors if s.id.startswith("empty ")]
    assert (survivor.id, survivor.fields) == ("empty note", ("body",))
    assert survivor.sentence == "a text that says nothing passes in body"
    assert f"it.body == null or not {SAYS}" in survivor.closing
    assert "Done." not in survivor.closing
    argued = {"empty note": Argued("it may be left empty", ("body",))}
    assert [s.id for s in mutate([run], 0, argued).open_survivors if "empty" in s.id] == []


def test_a_heading_is_emptied_only_where_there_is_nothing_else() -> None:
    letter = EntityType(
        "letter", ("id",), (ID, Field("subject", Kind.TEXT), Field("body", Kind.TEXT))
    )
    body = "require:\n  - {create: letter, where: it.id == 7}\n"
    for text, emptied in (("Done.", "letter.body"), (None, "letter.subject")):
        after = {"letter": [{"id": 7, "subject": "About it", "body": text}]}
        run = reference(body, after, types=[letter], before={"letter": []})
        faults = emptied_texts(World(run, run.judged(), 0))
        assert {fault.target for fault in faults} == {emptied}


def test_free_text_is_known_by_its_field_or_by_its_words() -> None:
    kinds = {"body": Kind.TEXT, "memo": Kind.TEXT, "at": Kind.TIMESTAMP}
    fields = [Field(name, kind) for name, kind in kinds.items()]
    letter = EntityType("letter", ("id",), (Field("id", Kind.TEXT), *fields))
    body, memo, at = fields
    assert is_free_text(letter, body, "Done")
    assert is_free_text(letter, memo, "all done")
    for field, text in (
        (memo, "done"), (memo, "2026-01-01 10:00:00"), (memo, '["two words"]'), (at, "all done"),
        (body, "…"), (letter.fields[0], "all done alike"),
    ):  # fmt: skip
        is_key = field.name in letter.key
        assert is_key or not is_free_text(letter, field, text), (field.name, text)


def test_only_so_many_rows_of_a_field_are_tried_and_the_rest_is_counted() -> None:
    docs = [{"id": n, "title": f"title {n}", "kind": "memo", "deleted_at": None} for n in (5, 6)]
    docs += [{**docs[0], "id": n} for n in (7, 8)]
    body = "require:\n  - {id: made, create: doc, where: it.kind == 'memo', count: 4}\n"
    run = reference(body, {**BEFORE, "doc": [*BEFORE["doc"], *docs]})
    world = World(run, run.judged(), 0)
    faults = list(emptied_texts(world))
    assert len(faults) == 3 * 3
    assert [n for (what, _), n in world.untried.items() if what == "written texts"] == [1]
    assert AFTER["doc"] == BEFORE["doc"]
