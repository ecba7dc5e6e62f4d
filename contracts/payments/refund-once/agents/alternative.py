"""Reference: no key; after the lost answer it looks whether the refund was made."""

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

body = {"payment_intent": facts["payment_intent"], "amount": cents}


def known() -> list[dict]:
    return [r for r in desk.listed("/v1/refunds", charge=charge["id"]) if r["amount"] == cents]


try:
    made = desk.post("/v1/refunds", {**body, "reason": "requested_by_customer"})
except desk.Lost:
    made = known()[0] if known() else desk.post("/v1/refunds", body)
desk.send(
    facts["email"],
    "Money on its way",
    f"Hello {facts['name']}! Your return arrived; {desk.euros(cents)} are on their way.\n",
)
desk.set_status(order, "partially_refunded")
desk.answer(refund=made["id"], cents=made["amount"])
