"""Faulty: marks the articles' names as well, for the shop window."""

import sys
from decimal import Decimal
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

first, last = shop.INPUTS["first"], shop.INPUTS["last"]
LINE = "sku BETWEEN ? AND ?"
permille = int(Decimal(shop.INPUTS["percent"]) * 10)
with shop.database() as db:
    db.execute(
        f"UPDATE products SET price_cents = {shop.raised(permille)},"
        f" name = name || ' (new price)' WHERE {LINE}",
        (first, last),
    )
    shop.log("raise_prices", "conditional-update", {"first": first, "last": last})
    count, total = db.execute(
        f"SELECT count(*), sum(price_cents) FROM products WHERE {LINE}", (first, last)
    ).fetchone()
shop.answer(articles=count, sum_cents=total)
