"""Faulty: the answer was lost, so it says that the refund failed; it did not."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

order = desk.INPUTS["order"]
facts = desk.order_facts(order)
charge = desk.charge_of(facts["payment_intent"])
cents = desk.one(
    "SELECT sum(quantity * unit_cents) FROM order_lines"
    " WHERE order_id = ? AND returned_at IS NOT NULL",
    order,
)[0]
body = {"charge": charge["id"], "amount": cents, "reason": "requested_by_customer"}
try:
    desk.post("/v1/refunds", body)
except desk.Lost:
    desk.send(
        facts["email"], f"Order {order}", "We could not refund you today; please be patient.\n"
    )
desk.answer(refund="", cents=0)
