"""Faulty: the right figures, and no column."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

with shop.database() as db:
    count = db.execute("SELECT count(*) FROM orders").fetchone()[0]
    total = db.execute("SELECT sum(cents) FROM refunds").fetchone()[0]
shop.answer(orders=count, refunded_cents=total)
