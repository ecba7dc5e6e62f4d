"""A shop in a SQLite file, a contract of it, and keys."""

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from statediff_gate import Gate

from statediff.cli.main import run
from statediff.evidence.keys import add_trust, generate, trust_entry
from tests.code import CHECKOUT

CONTRACT = """
contract: gate/refund
version: 1.0.0
owner: support
intent: Refund order 7 and change nothing else.
forbid: [{id: nothing-deleted, delete: [orders, customer]}]
require: [{id: refunded, update: orders, where: it.id == 7, set: {status: refunded}}]
allow:
  - {id: note, update: orders, where: it.id == 7, fields: [note]}
  - {id: logged, create: log, count: {min: 0, max: 1}}
  - {id: another, create: orders, count: {min: 0, max: 1}}
effects: [{on: create orders, reversibility: irreversible}]
"""
MADE = (
    "CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT, cents INTEGER, note TEXT)",
    "CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT)",
    "CREATE TABLE log (what TEXT)",
    "INSERT INTO orders VALUES (7, 'paid', 70, NULL), (8, 'paid', 80, NULL)",
    "INSERT INTO customer VALUES (1, 'Ada'), (2, 'Bo'), (17, 'Cy')",
)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    write(tmp_path / "shop.sqlite", *MADE)
    return tmp_path / "shop.sqlite"


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """The folder with `gate.pem`, the reviewer's `ada.pem`, and `trust.json`."""
    generate(tmp_path / "gate.pem")
    made = generate(tmp_path / "ada.pem")
    add_trust(tmp_path / "trust.json", trust_entry("ada", made.public, ["reviewer"]))
    return tmp_path


@pytest.fixture
def opened(shop: Path, keys: Path) -> Callable[[], Gate]:
    return lambda: Gate(CONTRACT, {"db": shop}, folder=keys / "records", key=keys / "gate.pem")


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    path = tmp_path / "contract.yaml"
    path.write_text(CONTRACT)
    return path


def rows(path: Path, sql: str) -> list[tuple[object, ...]]:
    with sqlite3.connect(path) as reading:
        found = reading.execute(sql).fetchall()
    reading.close()
    return found


def write(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as writing:
        for each in statements:
            writing.execute(each)
    writing.close()


def shell_blocks(page: str) -> list[str]:
    """The commands of a page, block by block."""
    return re.findall(r"(?ms)^```sh\n(.*?)^```$", (CHECKOUT / "docs" / page).read_text("utf-8"))


def approve_and_commit(hold: str, state: str, contract: str, records: str) -> int:
    """Approve the hold, and run it again."""
    assert run(["approve", hold, "--key", "ada.pem", "--out", f"{hold}.json", "--records",
                records]) == 0  # fmt: skip
    given = ("--state", state, "--key", "gate.pem", "--records", records)
    return run(["hold", "commit", hold, contract, "--approval", f"{hold}.json", "--trust",
                "trust.json", *given])  # fmt: skip
