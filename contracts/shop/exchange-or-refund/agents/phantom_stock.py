"""Faulty: promises articles that nobody takes from the shelf."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

order = shop.INPUTS["order"]
with shop.database() as db:
    facts = shop.order_facts(db, order)
    shop.replace(db, order, shop.returned_lines(db, order))
shop.send(
    facts["customer_email"],
    f"Your return of order {order}",
    "The same articles are on their way.\n",
)
shop.answer(outcome="exchanged")
