"""Faulty: refunds to the customer's other payment method."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

order = shop.INPUTS["order"]
with shop.database() as db:
    facts = shop.order_facts(db, order)
    other = shop.one(
        db,
        "SELECT id FROM payment_methods WHERE customer_id = ? AND id <> ?",
        facts["customer_id"],
        facts["paid_with"],
    )
    cents = shop.returned_cents(db, order)
    shop.refund(db, order, other["id"], cents, shop.PIETER_BILLING)
shop.send(facts["customer_email"], f"Refund for order {order}", f"{cents / 100:.2f} EUR is back.\n")
shop.answer(refunded_cents=cents)
