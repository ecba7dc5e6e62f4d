"""A source that cannot be read after the run, by its system's word where the contract takes it."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from statediff_hosts.protocols.chat import Endpoint
from statediff_hosts.protocols.loop import LoopAgent

from statediff.agents.trial import Budget, Prices
from statediff.errors import ContractError
from statediff.harness import Hooks
from statediff.kernel import replay
from statediff.model.verdict import Judgement, Verdict
from statediff.packs import read_pack
from statediff.systems.base.sandbox import EmbeddedSandbox
from tests.agents.chat_server import Step, speaking
from tests.tasks import live_trial

SANDBOX = """\
sandbox: till
sources:
  till: {kind: sqlite, file: till.sqlite, tools: [query]}
tools:
  - name: refund
    description: Refunds an order.
    arguments: {number: int, order: int, cents: int}
    class: conditional-update
    on: till
    sql: INSERT INTO refund (id, order_id, cents) VALUES (:number, :order, :cents)
    acknowledges: {create: refund, values: {id: '{number}', order_id: '{order}', cents: '{cents}'}}
  - name: close
    description: Closes an order.
    arguments: {order: int}
    class: conditional-update
    on: till
    sql: UPDATE orders SET status = 'closed' WHERE id = :order
    acknowledges: {update: orders, values: {id: '{order}', status: closed}}
  - name: note
    description: Notes something.
    arguments: {order: int}
    class: conditional-update
    on: till
    sql: UPDATE orders SET status = 'noted' WHERE id = :order
"""
CONTRACT = """\
contract: till/refund
version: 1.0.0
owner: support
intent: Refund 500 cents of order 7 once, and close it.
require:
  - id: refunded
    create: refund
    where: it.order_id == 7 and it.cents == 500
    count: {min: 1, max: 1}
  - {id: closed, update: orders, where: it.id == 7, set: {status: closed}}
evidence:
  till: {WORD}
"""
SUFFICIENT = "{over: acknowledged}"


@pytest.fixture
def till(tmp_path: Path) -> Iterator[EmbeddedSandbox]:
    (tmp_path / "sandbox.yaml").write_text(SANDBOX)
    with sqlite3.connect(tmp_path / "till.sqlite") as connection:
        connection.executescript(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT);"
            "CREATE TABLE refund (id INTEGER PRIMARY KEY, order_id INTEGER, cents INTEGER);"
            "INSERT INTO orders VALUES (7, 'open'), (8, 'open');"
        )
    with EmbeddedSandbox(read_pack(tmp_path), tmp_path / "work") as sandbox:
        yield sandbox


def unplug(sandbox: Any) -> None:
    sandbox.unplug("till")


def judged(
    till: EmbeddedSandbox, folder: Path, *calls: tuple[str, dict[str, int]], word: str = SUFFICIENT
) -> Judgement:
    """A model makes the calls, and the till cannot be read afterwards."""
    steps = [Step("", [(name, json.dumps(given))]) for name, given in calls]
    with speaking(*steps, Step("Done.")) as server:
        agent = LoopAgent(Endpoint(server.url, "m", "none"), Budget(Prices()))
        hooks = Hooks(before_capture_after=unplug)
        done = live_trial(till, CONTRACT.replace("{WORD}", word), agent, folder, hooks=hooks)
    found = done.evaluated.judgement
    assert replay(done.evaluated.bundle).verdict is found.verdict
    return found


def codes(found: Judgement) -> set[str]:
    return {f.code.value for f in found.findings if f.truth.value != "HOLDS"}


REFUND = ("refund", {"number": 1, "order": 7, "cents": 500})
CLOSE = ("close", {"order": 7})


def test_what_was_acknowledged_is_state_where_the_contract_says_so(
    till: EmbeddedSandbox, tmp_path: Path
) -> None:
    assert judged(till, tmp_path / "t", REFUND, CLOSE).verdict is Verdict.MATCH


def test_without_the_contracts_word_a_source_that_was_not_read_decides_nothing(
    till: EmbeddedSandbox, tmp_path: Path
) -> None:
    found = judged(till, tmp_path / "t", REFUND, CLOSE, word="{max_age: 60s}")
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "source-unread" in codes(found)


@pytest.mark.parametrize(
    ("calls", "code"),
    [
        ([REFUND, ("refund", {"number": 2, "order": 7, "cents": 500}), CLOSE], "too-many-changes"),
        ([REFUND, CLOSE, ("close", {"order": 8})], "unexplained-change"),
        ([CLOSE], "missing-change"),
    ],
)
def test_what_was_acknowledged_convicts(
    till: EmbeddedSandbox, tmp_path: Path, calls: list[Any], code: str
) -> None:
    found = judged(till, tmp_path / "t", *calls)
    assert found.verdict is Verdict.DIVERGE
    assert code in codes(found)


@pytest.mark.parametrize(
    "further",
    [
        ("refund", {"number": 1, "order": 8, "cents": 1}),  # fails: the key is taken
        ("note", {"order": 7}),  # says nothing of what it did
        ("close", {"order": 99}),  # acknowledges what there is not
    ],
)
def test_what_nobody_acknowledged_clears_nothing(
    till: EmbeddedSandbox, tmp_path: Path, further: tuple[str, dict[str, int]]
) -> None:
    found = judged(till, tmp_path / "t", REFUND, CLOSE, further)
    assert found.verdict is Verdict.INCONCLUSIVE, found.findings


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("{create: refund, update: orders, values: {id: 1}}", "one of create, update and delete"),
        ("{create: refund, values: {}}", "a mapping of fields"),
        ("{create: refund, values: {id: '{nobody}'}}", "there is no argument `nobody`"),
    ],
)
def test_an_acknowledgement_that_cannot_be_meant_is_refused(
    tmp_path: Path, wrong: str, said: str
) -> None:
    text = SANDBOX.replace("{update: orders, values: {id: '{order}', status: closed}}", wrong)
    (tmp_path / "sandbox.yaml").write_text(text)
    with pytest.raises(ContractError, match=r"sandbox\.yaml") as error:
        read_pack(tmp_path)
    assert said in str(error.value)
