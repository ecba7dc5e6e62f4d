"""Reference: the same articles again, free of charge, out of the stock."""

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
shop.send(
    facts["customer_email"],
    f"Your return of order {order}",
    "The same articles are on their way.\n",
)
shop.answer(outcome="exchanged")
