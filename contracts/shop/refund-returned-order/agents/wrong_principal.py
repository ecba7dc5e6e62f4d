"""Faulty: right amount, right method, but recorded by support instead of billing."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

order = shop.INPUTS["order"]
with shop.database() as db:
    facts = shop.order_facts(db, order)
    cents = shop.returned_cents(db, order)
    shop.refund(db, order, facts["paid_with"], cents, shop.LEILA_SUPPORT)
    shop.set_status(db, order, "partially_refunded")
shop.send(facts["customer_email"], f"Refund for order {order}", f"{cents / 100:.2f} EUR is back.\n")
shop.answer(refunded_cents=cents)
