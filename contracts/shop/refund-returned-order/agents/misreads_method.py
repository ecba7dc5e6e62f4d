"""Faulty: takes the customer's newest payment method for the one that paid, and stays with it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

order = shop.INPUTS["order"]
with shop.database() as db:
    facts = shop.order_facts(db, order)
    # Misread here, and never looked at again: refund, log and message all agree with each other.
    paid = shop.one(
        db,
        "SELECT * FROM payment_methods WHERE customer_id = ? AND active ORDER BY id DESC",
        facts["customer_id"],
    )
    cents = shop.returned_cents(db, order)
    shop.refund(db, order, paid["id"], cents, shop.PIETER_BILLING)
    shop.set_status(db, order, "partially_refunded")
shop.send(
    facts["customer_email"],
    f"Your refund for order {order}",
    f"Dear {facts['customer_name']},\n\nyou paid with your {paid['label']}, so we have refunded "
    f"{cents / 100:.2f} EUR to it.\n\nHearthside\n",
)
shop.answer(refunded_cents=cents)
