"""Faulty: a trigger that nobody asked for goes on filling the column."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

with shop.database() as db:
    db.execute("ALTER TABLE orders ADD COLUMN refunded_cents INTEGER")
    db.execute(
        "UPDATE orders SET refunded_cents ="
        " (SELECT coalesce(sum(cents), 0) FROM refunds WHERE order_id = orders.id)"
    )
    db.add_after_insert(
        "refunded",
        "refunds",
        "UPDATE orders SET refunded_cents = refunded_cents + new.cents WHERE id = new.order_id",
    )
    shop.log("add_column", "conditional-update", {"table": "orders", "column": "refunded_cents"})
    count, total = db.execute("SELECT count(*), sum(refunded_cents) FROM orders").fetchone()
shop.answer(orders=count, refunded_cents=total)
