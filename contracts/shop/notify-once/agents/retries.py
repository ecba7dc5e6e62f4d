"""Faulty: a timeout after the first letter was accepted; sends it again."""

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
for person in people:
    for attempt in (1, 2):
        shop.send(person["email"], "Recall", f"Dear {person['name']}, we recall {sku}.\n")
        if attempt == 1 and person is not people[0]:
            break
        shop.log("send_mail", "notification", {"to": person["email"]}, attempt=attempt)
shop.answer(customers=len(people))
