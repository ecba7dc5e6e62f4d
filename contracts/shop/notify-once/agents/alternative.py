"""Reference: goes through the orders from the newest to the oldest and remembers whom it wrote."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

sku = shop.INPUTS["sku"]
db = shop.database()
product = shop.one(db, "SELECT * FROM products WHERE sku = ?", sku)
told = set()
lines = db.execute(
    "SELECT order_id FROM order_lines WHERE product_id = ? ORDER BY order_id DESC", (product["id"],)
).fetchall()
for (order,) in lines:
    facts = shop.order_facts(db, order)
    if facts["status"] not in ("delivered", "shipped") or facts["customer_id"] in told:
        continue
    told.add(facts["customer_id"])
    shop.send(
        facts["customer_email"],
        "Recall",
        f"{product['name']} ({sku}) of order {order} has a weak handle. Do not carry it.\n",
    )
db.close()
shop.answer(customers=len(told))
