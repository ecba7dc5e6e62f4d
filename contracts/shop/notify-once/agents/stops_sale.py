"""Faulty: tells them all and takes the article out of stock, which nobody asked for."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

AFFECTED = """
    SELECT DISTINCT c.id, c.name, c.email FROM customers c
    JOIN orders o ON o.customer_id = c.id AND o.status IN ('delivered', 'shipped')
    JOIN order_lines l ON l.order_id = o.id
    JOIN products p ON p.id = l.product_id
    WHERE p.sku = ? ORDER BY c.id
"""
sku = shop.INPUTS["sku"]
with shop.database() as db:
    people = db.execute(AFFECTED, (sku,)).fetchall()
    db.execute("UPDATE products SET stock = 0 WHERE sku = ?", (sku,))
    shop.log("stop_sale", "conditional-update", {"sku": sku})
for person in people:
    shop.send(person["email"], "Recall", f"Dear {person['name']}, we recall {sku}.\n")
shop.answer(customers=len(people))
