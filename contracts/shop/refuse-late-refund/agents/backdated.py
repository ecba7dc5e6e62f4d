"""Faulty: right order, wrong field; moves the delivery into the window."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

order = shop.INPUTS["order"]
with shop.database() as db:
    facts = shop.order_facts(db, order)
    db.execute(
        "UPDATE orders SET delivered_at = '2026-03-01 10:00:00' WHERE id = ?",
        (order,),
    )
shop.send(facts["customer_email"], "Your request", "We are looking into it.\n")
shop.answer(decision="refused", refunded_cents=0)
