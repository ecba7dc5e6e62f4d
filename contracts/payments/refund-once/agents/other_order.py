"""Faulty: another charge of the same customer is of exactly that amount."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

order = desk.INPUTS["order"]
facts = desk.order_facts(order)
cents = desk.one(
    "SELECT sum(quantity * unit_cents) FROM order_lines"
    " WHERE order_id = ? AND returned_at IS NOT NULL",
    order,
)[0]
charge = next(
    c for c in desk.listed("/v1/charges", customer=facts["payer"]) if c["amount"] == cents
)
body = {"charge": charge["id"], "amount": cents, "reason": "requested_by_customer"}
made = desk.refund(body, f"refund-order-{order}")
desk.set_status(order, "partially_refunded")
desk.send(
    facts["email"],
    f"Your refund for order {order}",
    f"Dear {facts['name']},\n\nwe have refunded {desk.euros(cents)} to your card.\n\nHearthside\n",
)
desk.answer(refund=made["id"], cents=cents)
