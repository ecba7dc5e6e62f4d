"""Faulty: works it all out, reports it, and changes nothing."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

first, last = shop.INPUTS["first"], shop.INPUTS["last"]
LINE = "sku BETWEEN ? AND ?"
with shop.database() as db:
    count, total = db.execute(
        f"SELECT count(*), sum({shop.raised(45)}) FROM products WHERE {LINE}",
        (first, last),
    ).fetchone()
shop.answer(articles=count, sum_cents=total)
