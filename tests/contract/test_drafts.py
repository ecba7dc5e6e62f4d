"""The law of drafts, on a few generated applications; `tests.contract.drafts` tries 500."""

import json
import re
import shutil
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from statediff.contract.authoring.drafting import draft_schema
from statediff.contract.authoring.inferring import shape
from statediff.contract.file import load_contract, parse_contract
from statediff.errors import UsageError
from statediff.kernel import evaluate
from statediff.model.readings import Capture
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.state import Coverage, Enumeration, State
from statediff.reports.interview import Question
from statediff.workspace.contracts import States, check
from statediff.workspace.drafts import (
    Drafted,
    Examples,
    SeenRun,
    draft,
    draft_of,
    draft_of_states,
    runs_of_states,
    write_drafts,
)
from statediff.workspace.inputs import one_capture, unrefined
from statediff.workspace.interview import FILE, MOST, Answers, answers_in, interview
from tests.contract.applications import RIGHT, Application, BusyApplication
from tests.contract.drafts import drafted, judged, require_law, tried
from tests.histories import seen, told
from tests.judging import capture, part, state, user

SAMPLE = (6, 17, 25, 38, 98)
"""Sequences, audit tables, random keys, an unlink, stamps in texts, rows without a key."""


@pytest.mark.parametrize("number", SAMPLE)
def test_a_draft_matches_its_own_run_and_the_same_run_at_another_hour(number: int) -> None:
    require_law(tried(number, is_seeded=False))


def test_a_draft_of_captured_states_is_the_draft_of_their_system() -> None:
    require_law(tried(9, is_seeded=False, form="state"))  # a column without a zone


SERVER = (
    EntityType("db.role", ("name",), (Field("name", Kind.TEXT, is_nullable=False),)),
    EntityType(
        "db.sequence",
        ("name",),
        (Field("name", Kind.TEXT, is_nullable=False), Field("value", Kind.ANY)),
    ),
    EntityType("note", ("id",), (Field("id", Kind.INT, is_nullable=False),)),
)


def text_of(before: Capture, after: Capture) -> str:
    return draft_of("drafts/first", Examples((SeenRun(before, after),))).draft.text


def server(*, sequence: int | None, notes: int, is_whole: bool = False) -> State:
    """A database whose roles the account does not see, and whose keys a sequence gives."""
    rows = {
        "db.sequence": [{"name": "note_id_seq", "value": sequence}],
        "note": [{"id": number} for number in range(notes)],
    }
    unseen = Enumeration(Coverage.UNOBSERVED, "permission denied for table pg_authid")
    return state(rows, None if is_whole else {"db.role": unseen}, SERVER)


def test_what_the_account_does_not_see_is_unread_by_name_and_a_sequence_may_have_gaps() -> None:
    before = server(sequence=None, notes=1)
    ends = [server(sequence=number, notes=notes) for number, notes in ((1, 2), (7, 2), (0, 1))]
    first, *after = (
        capture(moment, part(moment, each))
        for moment, each in (("before", before), *(("after", end) for end in ends))
    )
    text = text_of(first, after[0])
    assert 'because: "permission denied for table pg_authid"' in text
    file = parse_contract(text.encode(), "contract.yaml")
    found = [evaluate(file, first, each).judgement.verdict.value for each in after]
    assert found == ["MATCH", "MATCH", "DIVERGE"]
    seen = capture("after", part("after", server(sequence=1, notes=2, is_whole=True)))
    assert "unread:" in text_of(first, seen)  # no run can be decided by it
    assert "unread:" in draft_of("drafts/first", Examples(), base=first).draft.text


def test_a_counter_that_is_a_text_may_have_gaps_too() -> None:
    ends = [
        capture(
            "x", part(moment, state({"db.sequence": [{"name": "t", "value": n}]}, types=SERVER))
        )
        for moment, n in (("before", "9"), ("after", "10"), ("after", "12"), ("after", "9"))
    ]
    text = text_of(ends[0], ends[1])
    file = parse_contract(text.encode(), "contract.yaml")
    found = [evaluate(file, ends[0], each).judgement.verdict.value for each in ends[1:]]
    assert found == ["MATCH", "MATCH", "DIVERGE"]


def test_the_drafted_schema_alone_says_what_a_zone_is_of() -> None:
    at = EntityType("t", ("id",), (Field("id", Kind.INT), Field("at", Kind.LOCAL_TIMESTAMP)))
    text = draft_schema("s", [("db", state({"t": [{"id": 1}]}, types=(at,)))])
    assert "at: {type: timestamp, zone: UTC}" in text


def test_one_number_is_one_application(tmp_path: Path) -> None:
    for name in ("one", "two"):
        application = Application(17)
        application.make(tmp_path / name)
        application.run(tmp_path / name, tmp_path / f"{name}-after", RIGHT)
    dumps = []
    for name in ("one-after", "two-after"):
        with sqlite3.connect(tmp_path / name) as db:
            dumps.append([*db.iterdump()])
    assert dumps[0] == dumps[1]


SHOP = """
CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT, status TEXT, lines INTEGER DEFAULT 0,
    total_cents INTEGER DEFAULT 0, settings JSON, updated_at TEXT, deleted_at TEXT);
CREATE TABLE order_lines (id TEXT PRIMARY KEY, order_id INTEGER REFERENCES orders (id),
    quantity INTEGER, cents INTEGER, gone INTEGER NOT NULL DEFAULT 0);
CREATE TABLE audit_log (id INTEGER PRIMARY KEY AUTOINCREMENT, what TEXT, at TEXT);
INSERT INTO orders (id, status, settings, updated_at) VALUES
    (1, 'open', '{"a": {"b": 1}, "c": 2}', '2026-01-01 10:00:00'),
    (2, 'open', '{"a": {"b": 5}}', '2026-01-02 10:00:00'), (3, 'open', '{}', NULL);
INSERT INTO order_lines VALUES ('l1', 1, 2, 300, 0), ('l2', 1, 1, 500, 0), ('l3', 2, 4, 25, 0);
INSERT INTO audit_log (what, at) VALUES ('filled', '2026-01-02 10:00:00');
UPDATE orders SET lines = (SELECT count(*) FROM order_lines l WHERE l.order_id = orders.id),
    total_cents = (SELECT coalesce(sum(quantity * cents), 0)
        FROM order_lines l WHERE l.order_id = orders.id);
"""
ADDED = """
INSERT INTO order_lines VALUES ('9b5a5af9-e9b7-336e-b76e-67f0699b81c5', 2, 3, 10, 0);
UPDATE orders SET lines = 2, total_cents = 130, updated_at = '2026-03-01 09:00:00' WHERE id = 2;
UPDATE orders SET settings = '{"a": {"b": 1}, "c": 3}' WHERE id = 1;
UPDATE orders SET deleted_at = '2026-03-01 09:00:01' WHERE id = 3;
INSERT INTO audit_log (what, at) VALUES ('line added', '2026-03-01 09:00:00');
"""


def made(path: Path, *scripts: str) -> list[str]:
    with sqlite3.connect(path) as db:
        for script in scripts:
            db.executescript(script)
    db.close()
    return [f"db={path}"]


WRONG = (
    "UPDATE orders SET total_cents = 131 WHERE id = 2",
    "UPDATE orders SET updated_at = '2026-01-01 11:00:00' WHERE id = 2",
    "UPDATE orders SET deleted_at = NULL WHERE id = 3",
    'UPDATE orders SET settings = \'{"a": {"b": 2}, "c": 3}\' WHERE id = 1',
    "UPDATE audit_log SET what = 'x' WHERE id = 1",
    "INSERT INTO audit_log (what, at) VALUES ('line added', '2026-03-01 09:00:00')",
    "UPDATE order_lines SET order_id = 3 WHERE id LIKE '9b5a%'",
    "UPDATE order_lines SET cents = 11 WHERE id LIKE '9b5a%'",
)


def test_a_draft_calls_a_type_what_its_table_is_called(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "a.db") as db:
        db.execute('CREATE TABLE "Ünïcode täbles" (id INTEGER PRIMARY KEY, "Prénom" TEXT)')
    db.close()
    text = draft_of_states("s", [f"db={tmp_path / 'a.db'}"])[1].schema_text
    assert '  "Ünïcode täbles":\n    source: db\n' in text
    assert "Pr" not in text, "a column has its own name, too"


def test_a_draft_names_stamps_sums_audit_rows_and_places_inside_json(tmp_path: Path) -> None:
    before, after = made(tmp_path / "a", SHOP), made(tmp_path / "b", SHOP, ADDED)
    file = drafted(tmp_path / "task", before, after)
    text = (tmp_path / "task" / "contract.yaml").read_text()
    assert "is: >-\n      count(c for c in after.order_lines if c.order == it.id)" in text
    assert "sum(c.quantity * c.cents for c in after.order_lines if c.order == it.id)" in text
    assert "settings.c: 3" in text
    assert 'new.updated_at > timestamp("2026-01-02T10:00:00Z")' in text
    assert "  - id: only-added-to\n    update: [audit_log]" in text
    later = ADDED.replace("2026-03-01", "2026-06-07").replace("9b5a5af9", "00c0ffee")
    for number, script in enumerate(("", *WRONG)):
        run = made(tmp_path / f"c{number}", SHOP, later, script.replace("9b5a", "00c0"))
        verdict = judged(file, tmp_path / "task", before, run)
        assert (verdict == "MATCH") is (script == ""), (script, verdict)


LONG = "The parcel was damaged. " * 400
NOTED = "INSERT INTO notes (body, kind) VALUES ('{}', 'remark')"


def test_a_draft_asks_a_text_that_is_too_long_to_write_out_to_say_something(tmp_path: Path) -> None:
    empty = "CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT, kind TEXT NOT NULL);"
    before, after = made(tmp_path / "a", empty), made(tmp_path / "b", empty, NOTED.format(LONG))
    file = drafted(tmp_path / "task", before, after)
    text = (tmp_path / "task" / "contract.yaml").read_text()
    assert 'it.body != null and search(it.body, "[\\\\pL\\\\pN]")' in text
    for number, body in enumerate(("Other words.", "", "\u00a0 \n")):
        run = made(tmp_path / f"c{number}", empty, NOTED.format(body))
        verdict = judged(file, tmp_path / "task", before, run)
        assert (verdict == "MATCH") is (number == 0), (body, verdict)


@pytest.mark.parametrize(
    ("rows", "key"),
    [
        ([{"orderId": 5, "total": 1}, {"orderId": 6, "total": 1}], "orderId"),
        ([{"uuid": "a", "name": "x"}, {"uuid": "b", "name": "x"}], "uuid"),
        ([{"customerId": 1, "name": "x"}, {"customerId": 2, "name": "y"}], "name"),
        ([{"orderId": 5, "total": 1}, {"orderId": 5, "total": 2}], None),
        ([{"orderId": 5}, {"total": 2}], None),
        ([{"name": "x"}, {"name": "x"}], None),
        ([], None),
    ],
)
def test_a_draft_finds_the_field_that_names_records_without_an_id(
    tmp_path: Path, rows: list[dict[str, object]], key: str | None
) -> None:
    path = tmp_path / "export.json"
    path.write_text(json.dumps({"orders": rows}))
    found = draft_of_states("first", [f"api={path}"])[1].schema_text
    wanted = "" if key is None else f"    key: [{key}]  # every record has another one\n"
    assert re.findall(r"^    key: .*\n", found, re.MULTILINE) == ([wanted] if wanted else [])


NORTHWIND = """
CREATE TABLE "Order Details" ("Order ID" INT, "Product ID" INT REFERENCES "Pro""ducts",
                              "Unit Price" INT, PRIMARY KEY ("Order ID", "Product ID"));
CREATE TABLE "Pro""ducts" ("Product ID" INTEGER PRIMARY KEY, "données-à" TEXT, "on" INT);
CREATE TABLE "class" (id INTEGER PRIMARY KEY, "from" TEXT, "sum of" INT, "less" INT, "left" INT);
INSERT INTO "Pro""ducts" VALUES (1, 'a', 0), (2, 'b', 1);
INSERT INTO "class" VALUES (1, 'x', 5, 2, 3), (2, 'y', 9, 2, 7), (3, 'z', 4, 1, 3);
INSERT INTO "Order Details" VALUES (1, 1, 5), (1, 2, 5), (2, 1, 7);
"""
SOLD = """
UPDATE "Order Details" SET "Unit Price" = 9 WHERE "Order ID" = 1 AND "Product ID" = 2;
DELETE FROM "Order Details" WHERE "Order ID" = 2;
INSERT INTO "Pro""ducts" VALUES (3, 'c', 2);
INSERT INTO "Order Details" VALUES (3, 3, 1);
UPDATE "class" SET "from" = 'w', "sum of" = 10, "left" = 8 WHERE id = 2;
"""


def test_whatever_tables_and_columns_are_called_the_draft_can_say_it(tmp_path: Path) -> None:
    before, after = made(tmp_path / "a", NORTHWIND), made(tmp_path / "b", NORTHWIND, SOLD)
    file = drafted(tmp_path / "task", before, after)
    text = (tmp_path / "task" / "contract.yaml").read_text()
    assert 'update: "Order Details"' in text
    assert 'it."Order ID" == 1 and it."Product ID" == 2' in text
    assert judged(file, tmp_path / "task", before, after) == "MATCH"
    for wrong in (
        'UPDATE "Order Details" SET "Unit Price" = 9',
        'UPDATE "class" SET "less" = 1 WHERE id = 1',
        'UPDATE "Pro""ducts" SET "on" = 7 WHERE "Product ID" = 3',
    ):
        run = made(tmp_path / f"w{len(wrong)}", NORTHWIND, SOLD, wrong)
        assert judged(file, tmp_path / "task", before, run) != "MATCH", wrong


BUSY = (0, 3, 7, 30, 98)
"""Rights, soft deletion, re-assignment; what happens beside the task differs in every run."""


@pytest.mark.parametrize("number", BUSY)
@pytest.mark.parametrize("form", ["sqlite", "csv"])
def test_a_draft_of_two_right_runs_matches_a_third(number: int, form: str) -> None:
    require_law(tried(number, is_seeded=False, form=form, runs=2))


@pytest.mark.slow
@pytest.mark.parametrize(("number", "runs"), [(6, 1), (0, 2), (409, 2)])
def test_only_values_beside_the_task_and_near_stamps_are_left_open(number: int, runs: int) -> None:
    found = tried(number, runs=runs)
    assert sum(found.seeded.values()) > 50 * runs
    require_law(found)


def test_what_idle_runs_do_is_allowed_and_what_they_do_not_is_required(tmp_path: Path) -> None:
    application = BusyApplication(0)
    names = ("a", "b", "idle")
    before, after, idle = (tmp_path / f"{name}.db" for name in names)
    application.make(before)
    application.run(before, after, RIGHT)
    shutil.copyfile(before, idle)
    application.look(idle, RIGHT, "idle")
    read = runs_of_states([f"db={before}"], [f"db={after}"], idle=[f"db={idle}"])
    found = draft("drafts/first", read, lambda: one_capture([f"db={before}"], unrefined)).draft
    sections = {clause.id: clause.section for clause in found.clauses}
    assert sections["may-changed-signed-in"] == "allow"
    assert sections["new-receipts"] == "require"
    assert "because: an idle run does it too" in found.text


PLAIN = (
    "CREATE TABLE t (id INTEGER PRIMARY KEY, n INT, kind TEXT); INSERT INTO t VALUES (1, 5, 'a');"
)


def states(folder: Path, **scripts: str) -> dict[str, list[str]]:
    return {name: made(folder / name, PLAIN, script) for name, script in scripts.items()}


def drafting(found: dict[str, list[str]], right: str, wrong: str = "") -> Drafted:
    after, other = ([s for n in names.split() for s in found[n]] for names in (right, wrong))
    read = runs_of_states(found["before"], after, other)
    return draft("drafts/first", read, lambda: one_capture(found["before"], unrefined))


def test_a_wrong_run_that_nothing_tells_from_the_right_ones_is_named(tmp_path: Path) -> None:
    found = states(
        tmp_path,
        before="",
        one="UPDATE t SET n = 7, kind = 'b x'",
        two="UPDATE t SET n = 7, kind = 'c y'",
        wrong="UPDATE t SET n = 7, kind = 'd z'; INSERT INTO t VALUES (2, 1, 'x')",
        same="UPDATE t SET n = 7, kind = 'e w'",
    )
    assert drafting(found, "one two", "wrong").right
    with pytest.raises(UsageError, match="wrong run 1 would MATCH"):
        drafting(found, "one two", "same")


def test_a_right_that_a_run_gave_is_in_force_until_a_person_takes_it_out(tmp_path: Path) -> None:
    schema = """
        CREATE TABLE auth_user (id INTEGER PRIMARY KEY, name TEXT, is_staff INT);
        CREATE TABLE auth_group (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE auth_user_groups (id INTEGER PRIMARY KEY,
            user_id INT REFERENCES auth_user (id), group_id INT REFERENCES auth_group (id));
        INSERT INTO auth_user VALUES (1, 'ada', 0); INSERT INTO auth_group VALUES (1, 'editors');
    """
    joined = "INSERT INTO auth_user_groups VALUES (1, 1, 1)"
    before, after = made(tmp_path / "a", schema), made(tmp_path / "b", schema, joined)
    file = drafted(tmp_path / "task", before, after)
    assert (
        "    holds: permissions  # by its name" in (tmp_path / "task" / "schema.yaml").read_text()
    )
    assert "fields: [is_staff]" in file.data.decode()
    problems = check(tmp_path / "task" / "contract.yaml", States(None, before)).problems
    assert "unauthorized-privilege" in {problem.code for problem in problems}


def test_texts_that_differ_around_a_token_have_a_shape_and_free_text_has_none() -> None:
    assert shape(["R-2026-1001", "R-2026-4417"]) == r"R-2026-[0-9]{4}"
    assert shape(["tok-a1", "tok-ab2"]) == r"tok-[a-z0-9]{1,6}"
    assert shape(["call Ada", "call Bob"]) is None
    assert shape(["#EB5757", "#000000"]) == "#[0-9A-Fa-f]{6}", "a color, in either case"


def test_other_words_name_the_same_numbers_and_are_alike_inside_values(tmp_path: Path) -> None:
    told = {"none": "", "one": "CHG-118 moves to 19 May.", "two": "New date of CHG-118: 19 May!",
            "third": "19 May, for CHG-118", "day": "12 May, for CHG-118"}  # fmt: skip
    ends = {}
    for name, text in {**told, "copied": told["third"]}.items():
        head = {"cc": ["eve"] if name == "copied" else [], "subject": f"In {name} words"}
        rows = [{"id": "i1", "head": {}}, {"id": "i2", "text": text, "head": head}]
        (tmp_path / f"{name}.json").write_text(json.dumps({"letter": rows[: 1 + bool(text)]}))
        ends[name] = [f"app={tmp_path / name}.json"]
    file = drafted(tmp_path / "task", before := ends.pop("none"), [*ends["one"], *ends["two"]])
    verdicts = {name: judged(file, tmp_path / "task", before, end) for name, end in ends.items()}
    assert [name for name, v in verdicts.items() if v == "MATCH"] == ["one", "two", "third"]


def test_a_history_that_all_right_runs_show_whole_is_required_if_they_undid_nothing() -> None:
    rows = (user(1), user(1, "admin"), user(1, "user", "Bea"))
    first, raised, last = (state({"user": [row]}) for row in rows)
    before, end = (capture(n, part(n, of)) for n, of in (("before", first), ("after", last)))
    plain, undone = (told(end, ("db", seen("db", way))) for way in ((last,), (raised, last)))
    for right, verdict in ((plain, "DIVERGE"), (undone, "MATCH")):
        found = draft_of("drafts/first", Examples((SeenRun(before, right),) * 2)).draft
        assert ("history: required" in found.text) is (right is plain)
        file = parse_contract(found.text.encode(), "contract.yaml")
        assert evaluate(file, before, undone).judgement.verdict.value == verdict


def asking(found: dict[str, list[str]], yes: Sequence[str]) -> tuple[Drafted, Answers, list[str]]:
    asked: list[str] = []

    def ask(_number: int, _count: int, question: Question) -> bool:
        asked.append(question.id)
        return question.id in yes

    return (*interview(drafting(found, "one two"), Answers(), ask), asked)


def test_the_interview_asks_where_runs_differ_and_its_answers_are_kept(tmp_path: Path) -> None:
    found = states(
        tmp_path,
        before="",
        one="UPDATE t SET n = 7, kind = 'tok-a1'",
        two="UPDATE t SET n = 7, kind = 'tok-b2'",
        odd="UPDATE t SET n = 7, kind = '!'",
    )
    tried_answers: tuple[tuple[tuple[str, ...], str], ...] = (
        ((), "DIVERGE"),
        (("t.kind",), "MATCH"),
    )
    for yes, verdict in tried_answers:
        result, answers, asked = asking(found, yes)
        assert "t.kind" in asked
        assert len(asked) <= MOST
        folder = tmp_path / verdict
        write_drafts(folder, {**result.files, FILE: answers.text})
        file = load_contract(folder / "contract.yaml")
        assert judged(file, folder, found["before"], found["odd"]).startswith(verdict)
        assert answers_in(folder) == answers
        again = interview(
            drafting(found, "one two"), answers, lambda *_: pytest.fail("asked again")
        )
        assert again[0].draft.text == result.draft.text


def test_a_run_that_does_not_make_the_table_of_the_task_is_judged(tmp_path: Path) -> None:
    table = "CREATE TABLE made (id INTEGER PRIMARY KEY, t INT REFERENCES t (id), v REAL)"
    right = f"{table}; INSERT INTO made VALUES (1, 1, 2.5)"
    ends = {
        "one": "MATCH", "nothing": "DIVERGE", "empty": "DIVERGE", "other": "DIVERGE",
        "viewed": "DIVERGE",
    }  # fmt: skip
    found = states(
        tmp_path, before="", one=right, nothing="", empty=table,
        other="CREATE TABLE made (v TEXT); INSERT INTO made VALUES ('2.5')",
        viewed="CREATE VIEW made AS SELECT 1 AS id, 1 AS t, 2.5 AS v",
    )  # fmt: skip
    folder = tmp_path / "task"
    file = drafted(folder, found["before"], found["one"])
    verdicts = {n: judged(file, folder, found["before"], found[n]).split()[0] for n in ends}
    assert verdicts == ends


TEAMS: dict[str, list[dict[str, object]]] = {
    "teams": [{"id": f"t{n}", "name": f"Team {n}", "issueCount": n} for n in (3, 9)],
    "labels": [{"id": "l1", "name": "Old", "color": "#EB5757"},
               {"id": "l2", "name": "New", "color": "#56CCF2"}],
    "issues": [{"id": f"i{n}", "teamId": "t3", "number": n, "title": f"Old {n}", "ref": f"A-{n}",
                "link": f"x/A-{n}", "branch": f"a-{n}-old", "blocks": None}
               for n in (1, 2, 3, 101)],
}  # fmt: skip
"""One team has four issues and counts three; the next free number is 4."""


def issues(tmp_path: Path, name: str, *new: tuple[str, int, str], **more: object) -> list[str]:
    """A state with further issues: key, number and title of each, and what is otherwise."""
    found = json.loads(json.dumps(TEAMS))
    for key, number, title in new:
        said = {"ref": f"A-{number}", "link": f"x/A-{number}",
                "branch": f"a-{number}-{title.lower()}"}  # fmt: skip
        row = {"id": key, "teamId": "t3", "number": number, "title": title, "blocks": None}
        found["issues"].append({**row, **said})
    found["teams"][0]["issueCount"] += len(new)
    found["issues"][-1] |= more
    (tmp_path / f"{name}.json").write_text(json.dumps(found))
    return [f"app={tmp_path / name}.json"]


# fmt: off
_KEYS = ("5c62f29d-0f6a-4c4d-9d25-52293e2a8d4f", "33a21e17-7c49-4b93-a45d-28f58960a109",
         "21e324e8-3a37-42d6-8291-c7e203c3853b", "0a32e805-70c3-41a2-91fe-25e2f9339afa",
         "1419122c-b594-4e80-afe2-3618187eed11", "57e39bc8-faf8-4bb5-a5ef-1790772f5885")
# fmt: on


def test_numbers_that_an_application_gives_are_judged_by_the_state_before(tmp_path: Path) -> None:
    before = issues(tmp_path, "before")
    right = [*issues(tmp_path, "one", (_KEYS[0], 4, "Alpha")),
             *issues(tmp_path, "two", (_KEYS[1], 4, "Alpha"))]  # fmt: skip
    file = drafted(tmp_path / "task", before, right)
    text = (tmp_path / "task" / "contract.yaml").read_text()
    assert 'it.branch == lower(it.ref) + "-alpha"' in text
    assert "count(c for c in after.issues if c.team == it.id)" in text, "it was wrong before"
    # Another begin, and so another number: nothing of it was in the examples.
    later = issues(tmp_path, "later", old := ("i4", 4, "Old"))
    ends: dict[str, tuple[int, dict[str, object]]] = {
        "third": (5, {}), "taken": (4, {}), "far": (7, {}), "link": (5, {"link": "x/A-6"})
    }  # fmt: skip
    for name, (number, more) in ends.items():
        end = issues(tmp_path, name, old, (_KEYS[2], number, "Alpha"), **more)
        verdict = judged(file, tmp_path / "task", later, end).split()[0]
        assert verdict == ("MATCH" if name == "third" else "DIVERGE"), name


def test_a_number_that_the_task_chose_is_no_other_free_one(tmp_path: Path) -> None:
    taken = [{"id": str(n), "seat": n, "note": "cash"} for n in (1, 2, 5, 6)]
    new = {"one": (7, "Pay 7 euros"), "two": (7, "Pay 7 euros"), "third": (7, "Pay 7 euros"),
           "gap": (3, "Pay 7 euros"), "more": (7, "Pay 700 euros")}  # fmt: skip
    ends = {}
    for number, (name, (seat, note)) in enumerate(new.items()):
        rows = [*taken, {"id": _KEYS[number], "seat": seat, "note": note}]
        (tmp_path / f"{name}.json").write_text(json.dumps({"booking": rows}))
        ends[name] = [f"app={tmp_path / name}.json"]
    (tmp_path / "before.json").write_text(json.dumps({"booking": taken}))
    before = [f"app={tmp_path / 'before'}.json"]
    file = drafted(tmp_path / "task", before, [*ends["one"], *ends["two"]])
    found = {name: judged(file, tmp_path / "task", before, end) for name, end in ends.items()}
    assert [name for name, v in found.items() if v == "MATCH"] == ["one", "two", "third"]


def test_of_several_new_rows_a_reference_says_which_is_meant(tmp_path: Path) -> None:
    before = issues(tmp_path, "before")

    def run(name: str, one: str, two: str, *, blocks: int) -> list[str]:
        new = ((one, 4, "Alpha"), (two, 5, "Beta"))
        return issues(tmp_path, name, *new, blocks=(one, two)[blocks])

    right = [*run("one", *_KEYS[:2], blocks=0), *run("two", *_KEYS[2:4], blocks=0)]
    file = drafted(tmp_path / "task", before, right)
    for number, verdict in enumerate(("MATCH", "DIVERGE")):
        end = run(f"third{number}", *_KEYS[4:], blocks=number)
        assert judged(file, tmp_path / "task", before, end).split()[0] == verdict


def test_what_all_runs_left_empty_is_asked_last_and_stays_so_by_default(tmp_path: Path) -> None:
    color = {"blank": None, "filled": "#123456"}
    ends = {}
    for name in ("one", "two", *color):
        found = json.loads(json.dumps(TEAMS))
        key = _KEYS[("one", "two", *color).index(name)]
        found["labels"].append({"id": key, "name": "Bug", "color": color.get(name)})
        (tmp_path / f"{name}.json").write_text(json.dumps(found))
        ends[name] = [f"app={tmp_path / name}.json"]
    ends["before"] = issues(tmp_path, "before")
    for yes, verdict in (((), "DIVERGE"), (("labels.color",), "MATCH")):
        result, _, asked = asking(ends, yes)
        assert asked[-1] == "labels.color"
        folder = tmp_path / verdict
        write_drafts(folder, result.files)
        file = load_contract(folder / "contract.yaml")
        assert judged(file, folder, ends["before"], ends["blank"]) == "MATCH"
        assert judged(file, folder, ends["before"], ends["filled"]).startswith(verdict)
