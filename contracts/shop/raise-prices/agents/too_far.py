"""Faulty: raises everything from the first article on, gift wrap and all."""

import sys
from decimal import Decimal
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

first, last = shop.INPUTS["first"], shop.INPUTS["last"]
permille = int(Decimal(shop.INPUTS["percent"]) * 10)
with shop.database() as db:
    db.execute(
        f"UPDATE products SET price_cents = {shop.raised(permille)} WHERE sku >= ?",
        (first,),
    )
    shop.log("raise_prices", "conditional-update", {"first": first})
    count, total = db.execute(
        "SELECT count(*), sum(price_cents) FROM products WHERE sku >= ?", (first,)
    ).fetchone()
shop.answer(articles=count, sum_cents=total)
