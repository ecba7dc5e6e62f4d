"""Faulty: right order, wrong field; also lowers the order's total by what was refunded."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

order = shop.INPUTS["order"]
with shop.database() as db:
    facts = shop.order_facts(db, order)
    cents = shop.returned_cents(db, order)
    shop.refund(db, order, facts["paid_with"], cents, shop.PIETER_BILLING)
    db.execute(
        "UPDATE orders SET total_cents = total_cents - ?, updated_at = ? WHERE id = ?",
        (cents, shop.now(db), order),
    )
    shop.log("adjust_total", "conditional-update", {"order": order, "by": -cents})
shop.send(facts["customer_email"], f"Refund for order {order}", f"{cents / 100:.2f} EUR is back.\n")
shop.answer(refunded_cents=cents)
