"""Faulty: refunds the first returned line and keeps the rest."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

order = shop.INPUTS["order"]
with shop.database() as db:
    facts = shop.order_facts(db, order)
    line = shop.returned_lines(db, order)[0]
    cents = line["quantity"] * line["unit_cents"]
    shop.refund(db, order, facts["paid_with"], cents, shop.PIETER_BILLING)
shop.send(facts["customer_email"], f"Your return of order {order}", "Your money is on its way.\n")
shop.answer(outcome="refunded")
