"""Faulty: binary floating point; 3900 and 4.5 per cent are 4075.4999999999995."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

first, last = shop.INPUTS["first"], shop.INPUTS["last"]
LINE = "sku BETWEEN ? AND ?"
rate = 1 + float(shop.INPUTS["percent"]) / 100
with shop.database() as db:
    query = f"SELECT id, price_cents FROM products WHERE {LINE}"
    line = db.execute(query, (first, last)).fetchall()
    db.executemany(
        "UPDATE products SET price_cents = ? WHERE id = ?",
        [(round(row["price_cents"] * rate), row["id"]) for row in line],
    )
    shop.log("raise_prices", "conditional-update", {"first": first, "last": last})
    count, total = db.execute(
        f"SELECT count(*), sum(price_cents) FROM products WHERE {LINE}", (first, last)
    ).fetchone()
shop.answer(articles=count, sum_cents=total)
