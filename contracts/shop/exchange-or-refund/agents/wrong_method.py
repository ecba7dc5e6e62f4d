"""Faulty: refunds the right amount to another payment method of the customer."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

order = shop.INPUTS["order"]
with shop.database() as db:
    facts = shop.order_facts(db, order)
    other = shop.one(
        db,
        "SELECT id FROM payment_methods WHERE id <> ? ORDER BY customer_id <> ?, id",
        facts["paid_with"],
        facts["customer_id"],
    )
    cents = shop.returned_cents(db, order)
    shop.refund(db, order, other["id"], cents, shop.PIETER_BILLING)
shop.send(facts["customer_email"], f"Your return of order {order}", "Your money is on its way.\n")
shop.answer(outcome="refunded")
