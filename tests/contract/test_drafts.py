"""The law of drafts, on a few generated applications; `tests.contract.drafts` tries 500."""

import re
import sqlite3
from pathlib import Path

import pytest

from tests.contract.applications import RIGHT, Application
from tests.contract.drafts import drafted, judged, tried

_STAMP = re.compile(r"(\bat|_at|modified|created)$")
SAMPLE = (6, 17, 25, 38, 98)
"""Sequences, audit tables, random keys, an unlink, stamps in texts, rows without a key."""


@pytest.mark.parametrize("number", SAMPLE)
def test_a_draft_matches_its_own_run_and_the_same_run_at_another_hour(number: int) -> None:
    found = tried(number, is_seeded=False)
    assert (found.errors, found.own, found.again) == ([], "MATCH", "MATCH")


def test_what_a_fault_alters_beside_a_stamp_the_draft_catches() -> None:
    found = tried(6)
    assert sum(found.seeded.values()) > 50
    assert set(found.survived) <= {"off-by-one", "wrong-value", "twin"}
    missed = [line.split(":")[0] for line in found.survivors if "is wrong" in line]
    assert all(_STAMP.search(target) for target in missed), missed


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


def test_a_draft_names_stamps_sums_audit_rows_and_places_inside_json(tmp_path: Path) -> None:
    before, after = made(tmp_path / "a", SHOP), made(tmp_path / "b", SHOP, ADDED)
    file = drafted(tmp_path / "task", before, after)
    text = (tmp_path / "task" / "contract.yaml").read_text()
    assert "is: >-\n      count(c for c in after.order_line if c.order == it.id)" in text
    assert "sum(c.quantity * c.cents for c in after.order_line if c.order == it.id)" in text
    assert "settings.c: 3" in text
    assert 'new.updated_at > timestamp("2026-01-02T10:00:00Z")' in text
    assert "  - id: only-added-to\n    update: [audit_log]" in text
    later = ADDED.replace("2026-03-01", "2026-06-07").replace("9b5a5af9", "00c0ffee")
    for number, script in enumerate(("", *WRONG)):
        run = made(tmp_path / f"c{number}", SHOP, later, script.replace("9b5a", "00c0"))
        verdict = judged(file, tmp_path / "task", before, run)
        assert (verdict == "MATCH") is (script == ""), (script, verdict)
