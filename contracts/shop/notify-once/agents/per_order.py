"""Faulty: a letter an order; who bought two is told twice."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

AFFECTED = """
    SELECT c.id, c.name, c.email FROM customers c
    JOIN orders o ON o.customer_id = c.id AND o.status IN ('delivered', 'shipped')
    JOIN order_lines l ON l.order_id = o.id
    JOIN products p ON p.id = l.product_id
    WHERE p.sku = ? ORDER BY c.id
"""
sku = shop.INPUTS["sku"]
with shop.database() as db:
    people = db.execute(AFFECTED, (sku,)).fetchall()
for person in people:
    shop.send(person["email"], "Recall", f"Dear {person['name']}, we recall {sku}.\n")
shop.answer(customers=len(people))
