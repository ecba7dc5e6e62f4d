"""Faulty: refuses rightly, and sends the customer a letter in which nothing is written."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

order = shop.INPUTS["order"]
with shop.database() as db:
    facts = shop.order_facts(db, order)
shop.send(facts["customer_email"], f"Your request about order {order}", "\n")
shop.answer(decision="refused", refunded_cents=0)
