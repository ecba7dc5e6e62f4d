"""Faulty: does either of what is right, and so gives everything twice."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

order = shop.INPUTS["order"]
with shop.database() as db:
    facts = shop.order_facts(db, order)
    lines = shop.returned_lines(db, order)
    shop.replace(db, order, lines)
    shop.take_from_stock(db, lines)
    shop.refund(db, order, facts["paid_with"], shop.returned_cents(db, order), shop.PIETER_BILLING)
shop.send(
    facts["customer_email"],
    f"Your return of order {order}",
    "New articles and your money are on their way.\n",
)
shop.answer(outcome="exchanged")
