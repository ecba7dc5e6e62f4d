"""Faulty: tells the customer of the next order."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

order = shop.INPUTS["order"]
with shop.database() as db:
    facts = shop.order_facts(db, order)
    stranger = shop.order_facts(db, order + 1)
    cents = shop.returned_cents(db, order)
    shop.refund(db, order, facts["paid_with"], cents, shop.PIETER_BILLING)
shop.send(stranger["customer_email"], f"Refund for order {order}", f"{cents / 100:.2f} EUR.\n")
shop.answer(refunded_cents=cents)
