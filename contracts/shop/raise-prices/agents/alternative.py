"""Reference: decimal arithmetic, an article a transaction, from the last to the first."""

import sys
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

first, last = shop.INPUTS["first"], shop.INPUTS["last"]
LINE = "sku BETWEEN ? AND ?"
rate = 1 + Decimal(shop.INPUTS["percent"]) / 100
total = 0
db = shop.database()
line = db.execute(f"SELECT id, price_cents FROM products WHERE {LINE}", (first, last)).fetchall()
for article, cents in reversed(line):
    price = int((cents * rate).quantize(Decimal(1), ROUND_HALF_UP))
    with db:
        db.execute("UPDATE products SET price_cents = ? WHERE id = ?", (price, article))
    shop.log("set_price", "conditional-update", {"article": article, "cents": price})
    total += price
db.close()
shop.answer(sum_cents=total, articles=len(line))
