"""Faulty: a letter each, and the last line of every one lists all who bought it."""

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
buyers = ", ".join(person["name"] for person in people)
for person in people:
    shop.send(
        person["email"],
        f"Please stop using your {sku}",
        f"Dear {person['name']},\n\nwe recall the article {sku}.\n\nIt goes to {buyers}.\n",
    )
shop.answer(customers=len(people))
