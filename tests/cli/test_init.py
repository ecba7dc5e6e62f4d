"""`init` drafts what a person then finishes; whatever the data holds, the draft can be read."""

import io
import json
import re
import sqlite3
import threading
from pathlib import Path
from textwrap import dedent
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pygit2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.contract.authoring.drafting import Seen, draft_contract, draft_schema, singular
from statediff.contract.authoring.inferring import Run
from statediff.contract.document.load import parse_document
from statediff.contract.document.schemafile import parse_schema_file
from statediff.model.delta import Delta, Op
from statediff.model.schema import (
    MAIL_TYPES,
    SCHEMA_OBJECT_PREFIXES,
    EntityType,
    Field,
    Kind,
    Schema,
)
from statediff.model.state import MemoryChunks, State, build_table
from tests.cli.conftest import Call

SHOP = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, is_active INTEGER);
CREATE TABLE visits (id INTEGER PRIMARY KEY, customer_id INTEGER, at TEXT, seen TEXT);
INSERT INTO customers VALUES (1, 'Ada', 1), (2, 'Bo', 0);
INSERT INTO visits VALUES (1, 1, '2026-01-01 10:00:00', '2026-01-01T10:00:00Z');
"""


def database(path: Path, *further: str) -> str:
    with sqlite3.connect(path) as db:
        db.executescript(SHOP + ";".join(further))
    db.close()
    return f"shop={path}"


def test_the_draft_of_a_right_run_matches_that_run_and_no_other(
    statediff: Call, tmp_path: Path
) -> None:
    before = database(tmp_path / "a.db")
    right = database(tmp_path / "b.db", "UPDATE customers SET name = 'Eve' WHERE id = 2")
    wrong = database(tmp_path / "c.db", "DELETE FROM customers WHERE id = 1")
    said = statediff("init", before, "--after", right, "--name", "shop/rename", "--json")
    assert said.code == 0
    assert said.json["files"] == ["contract.yaml", "schema.yaml"]
    assert said.json["changes"] == 1
    same = statediff("init", before, "--after", before, "--out", "same")
    assert "nothing differs between the two states" in same.out
    schema = (tmp_path / "schema.yaml").read_text()
    assert "{column: customer_id, to: customers}  # no foreign key" in schema
    assert (
        'at: {type: timestamp, zone: UTC, form: "YYYY-MM-DD hh:mm:ss[.ffffff]"}  # 1 values look'
        in schema
    )
    assert (
        'seen: {type: timestamp, form: "YYYY-MM-DDThh:mm:ss[.ffffff]Z"}  # 1 values look' in schema
    )
    assert "is_active: {type: bool}  # only 0 and 1 were seen" in schema
    judge = ("judge", "contract.yaml", "--schema", "schema.yaml", "--before", before)
    assert statediff(*judge, "--after", right).code == 0
    assert statediff(*judge, "--after", wrong).code == 1
    assert statediff(*judge, "--after", before).code == 1


LIBRARY = """
CREATE TABLE members (id INTEGER PRIMARY KEY, name TEXT, prefs TEXT, note TEXT);
CREATE TABLE loans (id INTEGER PRIMARY KEY, member_id INTEGER REFERENCES members (id), due TEXT);
CREATE TABLE audit (id INTEGER PRIMARY KEY, at TEXT, loan INTEGER, was TEXT);
CREATE TRIGGER moved AFTER UPDATE OF due ON loans BEGIN
    INSERT INTO audit (at, loan, was)
    VALUES (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), new.id, old.due); END;
INSERT INTO members VALUES (1, 'Ada', '{"mail": true, "sms": false}', '[]'), (2, 'Bo', '{}', '-');
INSERT INTO loans VALUES (1, 1, '2026-11-02'), (2, 2, '2026-11-05');
"""
RENEWED = """
UPDATE loans SET due = '2026-11-23' WHERE id = 1;
UPDATE members SET prefs = '{"mail": true, "sms": true}' WHERE id = 1;
"""


def library(path: Path, script: str = "") -> str:
    with sqlite3.connect(path) as db:
        db.executescript(LIBRARY + script)
    db.close()
    return f"db={path}"


def test_members_are_people_and_texts_that_are_all_json_are_json(
    statediff: Call, tmp_path: Path
) -> None:
    before, right = library(tmp_path / "a.db"), library(tmp_path / "b.db", RENEWED)
    other = RENEWED.replace('"mail": true, "sms": true', '"sms":true,"mail":true')
    assert statediff("init", before, "--after", right).code == 0
    schema, contract = (tmp_path / n for n in ("schema.yaml", "contract.yaml"))
    assert "prefs: {type: json}  # 3 values are JSON objects or lists" in schema.read_text()
    assert "note:" not in schema.read_text()  # one of them is none
    assert "prefs.sms: true" in contract.read_text()
    assert "any: [db.grant, db.membership, db.role]\n" in contract.read_text()
    judge = ("judge", "contract.yaml", "--schema", "schema.yaml", "--before", before, "--after")
    assert statediff(*judge, library(tmp_path / "c.db", other)).code == 0
    lost = other.replace(',"mail":true', "")
    assert statediff(*judge, library(tmp_path / "d.db", lost)).code == 1


def test_explain_shows_no_source_that_neither_the_schema_nor_a_clause_names(
    statediff: Call, tmp_path: Path
) -> None:
    before, right = library(tmp_path / "a.db"), library(tmp_path / "b.db", RENEWED)
    assert statediff("init", before, "--after", right, "--out", "task").code == 0
    said = statediff("check", "--explain", "task")
    assert said.code == 0
    boundary = said.out.partition("THE BOUNDARY")[2]
    assert [line.split(":")[0] for line in boundary.splitlines() if line[:1] == "┌"] == ["┌─ db"]
    assert "db.trigger: forbidden" in boundary  # the draft has a clause about it
    assert "schema object" not in boundary
    contract = tmp_path / "task" / "contract.yaml"
    contract.write_text(contract.read_text().replace("forbid:", "forbid:\n  - create: message"))
    assert "message: forbidden" in statediff("check", "--explain", "task").out


def test_mutate_prints_how_to_argue_for_what_no_clause_closes(
    statediff: Call, tmp_path: Path
) -> None:
    before, right = library(tmp_path / "a.db"), library(tmp_path / "b.db", RENEWED)
    assert statediff("init", before, "--after", right, "--out", "task").code == 0
    mutate = ("mutate", "task", "--before", before, "--after", right)
    said = statediff(*mutate)
    assert said.code == 1
    head, yaml = said.out.split(f"write {Path('task', 'cases.yaml')}, with your reason:\n")
    assert "unsaid audit  any value passes in at; survives" in head
    cases = tmp_path / "task" / "cases.yaml"
    cases.write_text(dedent(yaml).replace("…", "the trigger stamps it"))
    argued = statediff(*mutate)
    assert argued.code == 0
    assert "argued: the trigger stamps it" in argued.out
    cases.write_text("survivors:\n- {unsaid audit: at}\n")
    assert "as `- {survivor: unsaid order, because:" in statediff(*mutate).err


@pytest.mark.usefixtures("files")
def test_nothing_is_overwritten(statediff: Call) -> None:
    assert statediff("init", "a.json").code == 0
    said = statediff("init", "a.json")
    assert said.code == 2
    assert "exists already" in said.err


def test_run_refuses_a_draft_unless_told_otherwise(statediff: Call) -> None:
    assert statediff("init", "shop", "--name", "shop/draft").code == 0
    assert statediff("check", "contract.yaml").code == 0
    refused = statediff("run", "contract.yaml", "--agent-cmd", "true")
    assert refused.code == 2
    assert "--allow-unreviewed" in refused.err
    allowed = statediff(
        "run", "contract.yaml", "--agent-cmd", "true", "--allow-unreviewed", "--json"
    )
    assert json.loads(allowed.out.splitlines()[0])["verdict"] == "MATCH"


def repository(path: Path) -> pygit2.Repository:
    made = pygit2.init_repository(path, bare=True)
    who = pygit2.Signature("Ada", "ada@x.example", 1_767_225_600, 0)
    tree = made.TreeBuilder().write()
    made.create_commit("refs/heads/main", who, who, "first", tree, [])
    return made


def test_repositories_and_folders_are_states(statediff: Call, tmp_path: Path) -> None:
    one, two = (repository(tmp_path / name) for name in ("one", "two"))
    main = two.references["refs/heads/main"].target
    two.references.create("refs/tags/v1", main)
    said = statediff("diff", "--before", "one", "--after", "two", "--json")
    assert [d["id"] for d in said.json["deltas"]] == ["git.ref[refs/tags/v1]"]
    assert statediff("init", "one", "--after", "two").code == 0
    drafted = (tmp_path / "contract.yaml").read_text()
    assert "delete: [git.commit, git.tag]" in drafted
    assert "create: git.ref" in drafted
    assert statediff("judge", "contract.yaml", "--before", "one", "--after", "two").code == 0
    del one
    for name, text in (("a", "draft"), ("b", "final")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "note.txt").write_text(text)
    found = statediff("diff", "--before", "x=a", "--after", "x=b", "--json").json["deltas"]
    assert {d["id"] for d in found} == {"file[note.txt].digest", "file[note.txt].text"}
    assert statediff("diff", "--before", "x=a", "--after", "x=one").code == 2


@pytest.mark.parametrize(
    ("plural", "one"),
    [("orders", "order"), ("categories", "category"), ("addresses", "address"), ("boxes", "box"),
     ("status", "status"), ("order_lines", "order_line"), ("s", "s"), ("", "")],
)  # fmt: skip
def test_a_table_is_named_in_the_singular(plural: str, one: str) -> None:
    assert singular(plural) == one or plural == "s"


NAMES = st.one_of(
    st.sampled_from(
        ["on", "null", "a: b", "{x}", "%YAML", "# x", "order", "orders", "'", '"', "é"]
    ),
    st.text(min_size=1, max_size=12).filter(
        lambda text: text.isprintable() and not text.startswith(SCHEMA_OBJECT_PREFIXES)
        and text not in MAIL_TYPES  # no draft names them
    ),
)  # fmt: skip
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.text(max_size=12),
    st.sampled_from(["yes", "{{7*7}}", "- x", "&a", "*a", "!!int 3", "\n# x", "it.id == 1", "1e3"]),
)  # fmt: skip


@given(st.lists(NAMES, min_size=1, max_size=4, unique=True), st.data())
def test_whatever_names_and_values_a_state_holds_the_draft_is_a_valid_one(
    names: list[str], data: st.DataObject
) -> None:
    types = tuple(
        EntityType(name, ("id",), (Field("id", Kind.ANY), Field("v", Kind.ANY)))
        for name in sorted(names)
    )
    rows = {t.name: [{"id": 1, "v": data.draw(VALUES)}] for t in types}
    tables = {t.name: build_table(t, rows[t.name], MemoryChunks()) for t in types}
    schema = Schema("world", "1", types, (("db", tuple(t.name for t in types)),))
    drafted = parse_schema_file(
        draft_schema("world", [("db", State(schema, tables))]).encode(), "schema.yaml"
    )
    assert drafted.content.entities.keys() == set(names)
    deltas = tuple(
        Delta(
            op,
            t.name,
            (data.draw(VALUES),),
            "v",
            before=None,
            after=rows[t.name][0]["v"],
            raw_before=None,
            raw_after=None,
            evidence=(),
        )
        for t in types
        for op in (Op.UPDATE, Op.DELETE)
    )
    empty = State(schema, {})
    run = Run(schema, deltas, empty, State(schema, tables))
    text = draft_contract("drafts/x", Seen(schema, ("db",), (run,))).text
    _, content = parse_document(text.encode(), "contract.yaml")
    assert content.reviewed is False


def test_init_asks_and_keeps_the_answers(
    statediff: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, one, two = (
        database(tmp_path / f"{name}.db", *scripts)
        for name, scripts in (
            ("a", ()),
            ("b", ("UPDATE customers SET name = 'tok-a1' WHERE id = 2",)),
            ("c", ("UPDATE customers SET name = 'tok-b2' WHERE id = 2",)),
        )
    )
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    said = statediff("init", before, "--after", one, "--after", two, "--ask", "--out", "task")
    assert said.code == 0
    assert "customers.name differs between the right runs. May it hold anything?" in said.err
    assert 'any: ["customers.name"]' in (tmp_path / "task" / "answers.yaml").read_text()
    assert "matches(" not in (tmp_path / "task" / "contract.yaml").read_text()


def test_init_asks_on_a_page(
    statediff: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = {n: f"UPDATE customers SET name = 'tok-{n}' WHERE id = 2" for n in ("a1", "b2")}
    before, one, two = (
        database(tmp_path / f"{name}.db", *script)
        for name, script in (("a", ()), *((n, (each,)) for n, each in scripts.items()))
    )
    pages: list[str] = []

    def browse(link: str) -> None:
        with urlopen(link, timeout=60) as answer:
            root, page = answer.geturl(), answer.read().decode()
        while number := re.search(r'name="number" value="(\d+)"', page):
            pages.append(page)
            sent = urlencode({"number": number[1], "answer": "yes"}).encode()
            origin = root.rsplit("/", 2)[0]
            with urlopen(Request(root, sent, {"Origin": origin}), timeout=60) as answer:
                page = answer.read().decode()
        pages.append(page)

    monkeypatch.setattr(
        "webbrowser.open", lambda link: threading.Thread(target=browse, args=(link,)).start()
    )
    said = statediff("init", before, "--after", one, "--after", two, "--page", "--out", "task")
    assert said.code == 0
    assert "customers.name differs between the right runs" in pages[0]
    assert "That was the last question" in pages[-1]
    assert 'any: ["customers.name"]' in (tmp_path / "task" / "answers.yaml").read_text()
    assert statediff("init", before, "--page", "--port", "99999", "--out", "x").code == 2


def test_a_run_that_makes_a_table_drafts_too(statediff: Call, tmp_path: Path) -> None:
    made = "CREATE TABLE score (customer INTEGER, points INTEGER)"
    before = database(tmp_path / "a.db")
    right, wrong = (
        database(tmp_path / f"{n}.db", made, f"INSERT INTO score VALUES ({n}, 4)") for n in (1, 2)
    )
    assert statediff("init", before, "--after", right, "--out", "task").code == 0
    judge = ("judge", "task", "--before", before, "--after")
    assert [statediff(*judge, run).code for run in (right, wrong)] == [0, 1]


def test_a_clause_that_one_example_supports_is_named(statediff: Call, tmp_path: Path) -> None:
    rename = "UPDATE customers SET name = 'Eve' WHERE id = 2"
    visit = "INSERT INTO visits (customer_id) VALUES (1)"
    before, one, two = (
        database(tmp_path / f"{name}.db", *scripts)
        for name, scripts in (("a", ()), ("b", (rename,)), ("c", (rename, visit)))
    )
    assert statediff("init", before, "--after", one, "--after", two, "--out", "task").code == 0
    assert "only one example supports this clause" in statediff("check", "task").out
