"""Faulty: the column holds texts, which look the same when printed."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

with shop.database() as db:
    db.execute("ALTER TABLE orders ADD COLUMN refunded_cents TEXT")
    db.execute(
        "UPDATE orders SET refunded_cents ="
        " (SELECT coalesce(sum(cents), 0) FROM refunds WHERE order_id = orders.id)"
    )
    shop.log("add_column", "conditional-update", {"table": "orders", "column": "refunded_cents"})
    count, total = db.execute(
        "SELECT count(*), sum(CAST(refunded_cents AS INTEGER)) FROM orders"
    ).fetchone()
shop.answer(orders=count, refunded_cents=total)
