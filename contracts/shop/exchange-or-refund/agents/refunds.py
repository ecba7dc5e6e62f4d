"""Reference: the money goes back to the method that paid, recorded by billing."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

order = shop.INPUTS["order"]
with shop.database() as db:
    facts = shop.order_facts(db, order)
    cents = shop.returned_cents(db, order)
    shop.refund(db, order, facts["paid_with"], cents, shop.PIETER_BILLING)
    shop.set_status(db, order, "partially_refunded")
shop.send(facts["customer_email"], f"Your return of order {order}", "Your money is on its way.\n")
shop.answer(outcome="refunded")
