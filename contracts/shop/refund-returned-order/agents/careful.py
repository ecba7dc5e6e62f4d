"""Reference: looks everything up, writes in one transaction, then tells the customer."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

order = shop.INPUTS["order"]
with shop.database() as db:
    facts = shop.order_facts(db, order)
    approver = shop.one(
        db,
        "SELECT s.id FROM approvals a JOIN staff s ON s.id = a.by_staff_id"
        " WHERE a.order_id = ? AND s.role = 'billing' AND s.active",
        order,
    )
    cents = shop.returned_cents(db, order)
    shop.refund(db, order, facts["paid_with"], cents, approver["id"])
    shop.set_status(db, order, "partially_refunded")
shop.send(
    facts["customer_email"],
    f"Your refund for order {order}",
    f"Dear {facts['customer_name']},\n\nwe have refunded {cents / 100:.2f} EUR for what you "
    "returned, to the card you paid with.\n\nHearthside\n",
)
shop.answer(refunded_cents=cents)
