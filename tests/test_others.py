"""Trials in a sandbox in which others work while the agent does."""

from __future__ import annotations

import json
import random
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.benchmarks import crowd
from statediff.agents.command import CommandAgent
from statediff.capture.feed import Feed
from statediff.capture.source import clock
from statediff.contract.file import ContractFile, parse_contract
from statediff.errors import ContractError, UsageError
from statediff.harness import JudgedTrial
from statediff.kernel import replay
from statediff.model.codes import FindingCode
from statediff.model.state import MemoryChunks
from statediff.model.verdict import Truth, Verdict
from statediff.packs import agent_command, sandbox_pack
from statediff.reports.record import reservations
from statediff.systems.base.others import Others, WriterBusy, WriterEnded
from statediff.systems.base.sandbox import EmbeddedSandbox
from statediff.systems.sqlite.writer import SqliteWriter
from statediff.workspace.undoing import undo
from tests.tasks import live_trial

RESTOCK = crowd.PROJECT / "restock"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedSandbox]:
    pack = sandbox_pack(str(crowd.SANDBOX))
    with EmbeddedSandbox(pack, tmp_path_factory.mktemp("crowd")) as sandbox:
        yield sandbox


def tried(sandbox: EmbeddedSandbox, file: ContractFile, agent: str, folder: Path) -> JudgedTrial:
    return live_trial(sandbox, file, CommandAgent(agent_command(RESTOCK, agent), 60.0), folder)


@pytest.mark.parametrize(
    ("task", "agent", "verdict"),
    [
        ("restock", "halves", "MATCH"),
        ("restock", "lost_update", "DIVERGE"),
        ("restock", "as_till", "DIVERGE"),
        ("restock", "by_trigger", "DIVERGE"),
        ("correct-address", "whole_row", "DIVERGE"),
        ("cancel-stale", "all_held", "DIVERGE"),
    ],
)
def test_others_are_never_the_agents_and_its_harm_is(
    shop: EmbeddedSandbox, tmp_path: Path, task: str, agent: str, verdict: str
) -> None:
    trial, found = crowd.attempt(shop, task, agent, tmp_path / "t", 7)
    assert found.verdict.value == verdict
    assert not found.is_blame
    assert not found.is_miss
    [said] = reservations({"receipt": trial.observed.receipt.as_json()})
    assert "beside others, whose transactions are not judged: desk" in said
    assert sum(n for _, n in trial.observed.receipt.others) == found.others > 0


def test_random_trials_have_no_false_blame_and_no_missed_harm() -> None:
    found = list(crowd.trials(2, random.randrange(1000)))
    assert not any(each.is_blame or each.is_miss for each in found)


class Unfollowed(EmbeddedSandbox):
    """The same where no feed is attached."""

    def feeds(self) -> tuple[Feed, ...]:
        return ()


@pytest.mark.parametrize("agent", ["atomic", "beside"])
def test_without_a_feed_nobody_knows_whose_changes_are_whose(tmp_path: Path, agent: str) -> None:
    text = (RESTOCK / "contract.yaml").read_text().replace("{history: required}", "{}")
    file = parse_contract(text.encode(), str(RESTOCK / "contract.yaml"))
    with Unfollowed(sandbox_pack(str(crowd.SANDBOX)), tmp_path / "shop") as sandbox:
        judgement = tried(sandbox, file, agent, tmp_path / "t").evaluated.judgement
    assert judgement.verdict is Verdict.INCONCLUSIVE
    causes = {str(cause) for finding in judgement.findings for cause in finding.causes}
    assert any("others worked in it, and what is theirs is not known" in each for each in causes)


@pytest.mark.parametrize(("who", "verdict"), [("agent", "MATCH"), ("system", "DIVERGE")])
def test_what_nobody_else_made_is_by_the_agent_whatever_its_log_says(
    shop: EmbeddedSandbox, tmp_path: Path, who: str, verdict: str
) -> None:
    text = (RESTOCK / "contract.yaml").read_text()
    text = text.replace("    fields: [stock]", f"    fields: [stock]\n    by: {who}")
    file = parse_contract(text.encode(), str(RESTOCK / "contract.yaml"))
    trial = tried(shop, file, "atomic", tmp_path / "t")
    assert trial.evaluated.judgement.verdict.value == verdict
    with pytest.raises(UsageError, match="what is left could be theirs"):
        undo(shop, file, trial.observed, clock=clock, store=MemoryChunks())


def test_a_contract_with_turns_is_refused_where_others_work(
    shop: EmbeddedSandbox, tmp_path: Path
) -> None:
    text = (
        RESTOCK / "contract.yaml"
    ).read_text() + "turns:\n  - {prompt: Go on., require: ['true']}\n"
    file = parse_contract(text.encode(), str(RESTOCK / "contract.yaml"))
    with pytest.raises(UsageError, match="take a sandbox without `others`"):
        tried(shop, file, "atomic", tmp_path / "t")


def test_what_others_do_is_drawn_from_the_seed(shop: EmbeddedSandbox) -> None:
    drawn = []
    for _ in range(2):
        shop.reset()
        others = shop.others("1/t")
        assert others is not None
        others.entries = {"web": others.entries["web"]}
        with others:
            while len(others.deeds) < 5:
                pass
        drawn.append([(d.operation, d.values) for d in others.deeds[:5]])
    assert drawn[0] == drawn[1]


# ---------------------------------------------------------------- one after the other

HALL = """\
CREATE TABLE seat (id INTEGER PRIMARY KEY, state TEXT, day INTEGER, note TEXT);
INSERT INTO seat VALUES (1, 'held', 90, ''), (2, 'held', 90, ''), (3, 'held', 90, '');
"""
RENEW = "UPDATE seat SET day = 150 WHERE id = 2 AND day < 100"
REMARK = "UPDATE seat SET note = 'theirs' WHERE id = 3 AND note = 'mine'"
AFTER = " AND EXISTS (SELECT 1 FROM seat WHERE id = 1 AND state = 'free')"
FREE = """\
contract: hall/free
version: 1.0.0
owner: us
intent: Free the seats that were held until day 99. Others hold them longer meanwhile.
sandbox: ./sandbox.yaml
require:
  - id: freed
    update: seat
    where: it.state == "held" and it.day < 100
    set: {state: free}
    count: every
"""
WAITING = """\
import os, sqlite3, time
db = sqlite3.connect(os.environ["STATEDIFF_HALL_URL"].removeprefix("sqlite:///"), timeout=20)
db.isolation_level = None
def until(sql):
    while not db.execute(sql).fetchone():
        time.sleep(0.002)
"""


@pytest.mark.parametrize(
    ("operation", "lines", "extra", "verdict"),
    [
        (  # when the agent began it was to be freed; when the agent came to it, it was not
            RENEW + AFTER,
            """
db.execute("UPDATE seat SET state = 'free' WHERE id = 1")
until("SELECT 1 FROM seat WHERE id = 2 AND day = 150")
db.execute("UPDATE seat SET state = 'free' WHERE id = 3")
""",
            "",
            "INCONCLUSIVE",
        ),
        (  # an agent that looks and writes at once has one reading
            RENEW,
            """
until("SELECT 1 FROM seat WHERE id = 2 AND day = 150")
db.execute("UPDATE seat SET state = 'free' WHERE day < 100")
""",
            "",
            "MATCH",
        ),
        (
            RENEW,
            """
until("SELECT 1 FROM seat WHERE id = 2 AND day = 150")
db.execute("UPDATE seat SET state = 'free'")
""",
            "",
            "DIVERGE",
        ),
        (  # which of its remarks is the agent's doing is unknown
            REMARK,
            """
db.execute("UPDATE seat SET state = 'free'")
db.execute("UPDATE seat SET note = 'mine' WHERE id = 3")
until("SELECT 1 FROM seat WHERE id = 3 AND note = 'theirs'")
db.execute("UPDATE seat SET note = 'again' WHERE id = 3")
""",
            "",
            "INCONCLUSIVE",
        ),
        (  # over its transactions the first remark is one
            REMARK,
            """
db.execute("UPDATE seat SET state = 'free'")
db.execute("UPDATE seat SET note = 'mine' WHERE id = 3")
until("SELECT 1 FROM seat WHERE id = 3 AND note = 'theirs'")
db.execute("UPDATE seat SET note = 'again' WHERE id = 3")
""",
            "evidence:\n  hall: {history: required}\n",
            "DIVERGE",
        ),
    ],
)
def test_the_order_of_both_is_known_and_what_depends_on_it_is_not_guessed(
    tmp_path: Path, operation: str, lines: str, extra: str, verdict: str
) -> None:
    (tmp_path / "hall.sql").write_text(HALL)
    document = {
        "sources": {"hall": {"kind": "sqlite", "dump": "hall.sql"}},
        "others": {
            "desk": {"on": "hall", "per_second": 200, "operations": {"do": {"sql": operation}}}
        },
    }
    (tmp_path / "sandbox.yaml").write_text(json.dumps(document))
    (tmp_path / "agent.py").write_text(WAITING + lines)
    file = parse_contract((FREE + extra).encode(), str(tmp_path / "contract.yaml"))
    command = CommandAgent((sys.executable, "-B", str(tmp_path / "agent.py")), 60.0)
    with EmbeddedSandbox(sandbox_pack(str(tmp_path / "sandbox.yaml")), tmp_path / "w") as sandbox:
        trial = live_trial(sandbox, file, command, tmp_path / "t")
    assert trial.observed.run.exit_code == 0, trial.observed.run.stderr.text
    judgement = trial.evaluated.judgement
    assert judgement.verdict.value == verdict
    is_by_time = operation.startswith(RENEW) and verdict == "INCONCLUSIVE"
    codes = {finding.code for finding in judgement.findings if finding.truth is Truth.UNKNOWN}
    assert (FindingCode.EVIDENCE_UNSETTLED in codes) == is_by_time
    assert replay(trial.evaluated.bundle).verdict.value == verdict


# ---------------------------------------------------------------- who made a transaction


@pytest.fixture
def database(tmp_path: Path) -> Path:
    place = tmp_path / "db.sqlite"
    with sqlite3.connect(place) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
        connection.execute("INSERT INTO t VALUES (1, 1)")
    return place


def frames(database: Path) -> int:
    """The position of the last transaction in the log."""
    size = database.with_name(database.name + "-wal").stat().st_size
    return (size - 32) // (4096 + 24)


def test_a_writer_names_its_transaction_and_only_its_own(database: Path) -> None:
    agent = sqlite3.connect(database, isolation_level=None)
    writer = SqliteWriter("db", database)
    writer.begin()
    writer.execute("UPDATE t SET n = ? WHERE id = 1", [2])
    assert writer.commit() == str(frames(database))
    writer.begin()
    writer.execute("UPDATE t SET n = ? WHERE id = 1", [2])  # as it is already: no transaction
    assert writer.commit() is None
    agent.execute("UPDATE t SET n = 9")
    writer.begin()
    with pytest.raises(WriterBusy):
        writer.execute("INSERT INTO t VALUES (1, 1)", [])
    writer.rollback()
    agent.execute("CREATE TRIGGER mine AFTER UPDATE ON t BEGIN DELETE FROM t; END")
    with pytest.raises(WriterEnded, match="changed the definitions"):
        writer.begin()
    assert agent.execute("SELECT n FROM t").fetchall() == [(9,)]
    writer.close()
    agent.close()


# ---------------------------------------------------------------- the sandbox file


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ("{on: no, operations: {a: {sql: DELETE FROM t}}}", "names no system of this sandbox"),
        ("{on: db, operations: {a: {sql: 'DELETE FROM t WHERE n = :n'}}}", "no argument `n`"),
        ("{on: db, operations: {a: {sql: 'DELETE FROM t WHERE n = ?'}}}", "not `\\?`"),
        (
            "{on: db, operations: {a: {draw: {n: {from: 1, one_of: [2]}}, sql: DELETE FROM t}}}",
            "needs one of",
        ),
        ("{on: db, operations: {a: {draw: {n: {from: 2, to: 1}}, sql: SELECT 1}}}", "is less"),
        ("{on: db, operations: {}}", "found an empty mapping"),
    ],
)
def test_what_is_wrong_with_others_is_named_at_its_place(
    tmp_path: Path, others: str, message: str
) -> None:
    (tmp_path / "a.sql").write_text("CREATE TABLE t (n INTEGER);")
    place = tmp_path / "sandbox.yaml"
    place.write_text(f"sources:\n  db: {{kind: sqlite, dump: a.sql}}\nothers:\n  x: {others}\n")
    with pytest.raises(ContractError, match=message):
        sandbox_pack(str(place))


def test_a_system_in_which_nobody_else_can_work_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    place = tmp_path / "sandbox.yaml"
    place.write_text(
        "sources:\n  out: {kind: files, tree: out}\n"
        "others:\n  x: {on: out, operations: {a: {sql: DELETE FROM t}}}\n"
    )
    with (
        EmbeddedSandbox(sandbox_pack(str(place)), tmp_path / "work") as sandbox,
        pytest.raises(UsageError, match="others can work in sources of the kind sqlite"),
    ):
        sandbox.others("1")


def test_a_query_without_rows_leaves_the_operation_out(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("CREATE TABLE t (n INTEGER PRIMARY KEY);")
    place = tmp_path / "sandbox.yaml"
    document = {
        "sources": {"db": {"kind": "sqlite", "dump": "a.sql"}},
        "others": {
            "x": {
                "on": "db",
                "per_second": 1000,
                "operations": {
                    "none": {"draw": {"n": "SELECT n FROM t"}, "sql": "DELETE FROM t"},
                    "some": {"draw": {"n": {"one_of": [3]}}, "sql": "INSERT INTO t VALUES (:n)"},
                },
            }
        },
    }
    place.write_text(json.dumps(document))
    with EmbeddedSandbox(sandbox_pack(str(place)), tmp_path / "work") as sandbox:
        others = sandbox.others("1")
        assert isinstance(others, Others)
        with others:
            while len(others.deeds) < 2:
                pass
    operations = [deed.operation for deed in others.deeds]
    assert operations == ["some", "none"] * (len(operations) // 2) + ["some"] * (
        len(operations) % 2
    )
    [work] = others.work()
    assert work.gap is None
    assert len(work.transactions) == len(operations)
