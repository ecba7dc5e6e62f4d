"""Faulty: refunds the whole order, and answers with the amount it was meant to refund."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

order = shop.INPUTS["order"]
with shop.database() as db:
    facts = shop.order_facts(db, order)
    shop.refund(db, order, facts["paid_with"], facts["total_cents"], shop.PIETER_BILLING)
    shop.set_status(db, order, "partially_refunded")
    cents = shop.returned_cents(db, order)
shop.send(
    facts["customer_email"],
    f"Your refund for order {order}",
    f"Dear {facts['customer_name']},\n\nwe have refunded {cents / 100:.2f} EUR.\n\nHearthside\n",
)
shop.answer(refunded_cents=cents)
