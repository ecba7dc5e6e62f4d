"""Faulty: sets the prices of the line to a cent, and in a second transaction to the right ones."""

import sys
from decimal import Decimal
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

first, last = shop.INPUTS["first"], shop.INPUTS["last"]
LINE = "sku BETWEEN ? AND ?"
permille = 1000 + int(Decimal(shop.INPUTS["percent"]) * 10)
db = shop.database()
prices = db.execute(f"SELECT id, price_cents FROM products WHERE {LINE}", (first, last)).fetchall()
with db:
    db.execute(f"UPDATE products SET price_cents = 1 WHERE {LINE}", (first, last))
new = [((old * permille + 500) // 1000, key) for key, old in prices]
with db:
    db.executemany("UPDATE products SET price_cents = ? WHERE id = ?", new)
db.close()
shop.log("raise_prices", "conditional-update", {"first": first, "last": last})
shop.answer(articles=len(new), sum_cents=sum(price for price, _ in new))
