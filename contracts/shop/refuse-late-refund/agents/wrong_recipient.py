"""Faulty: refuses to another customer of the same name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

order = shop.INPUTS["order"]
with shop.database() as db:
    facts = shop.order_facts(db, order)
    namesake = shop.one(
        db,
        "SELECT email FROM customers WHERE name = ? AND id <> ?",
        facts["customer_name"],
        facts["customer_id"],
    )
shop.send(namesake["email"], f"Your request about order {order}", "It is too late, sorry.\n")
shop.answer(decision="refused", refunded_cents=0)
