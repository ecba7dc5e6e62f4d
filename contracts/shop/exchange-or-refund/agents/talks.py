"""Faulty: tells the customer that it is settled; nothing is."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

order = shop.INPUTS["order"]
with shop.database() as db:
    facts = shop.order_facts(db, order)
shop.send(facts["customer_email"], f"Your return of order {order}", "Your money is on its way.\n")
shop.answer(outcome="refunded")
