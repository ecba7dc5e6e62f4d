"""Faulty: it gives in and refunds."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

request = desk.one("SELECT * FROM requests WHERE id = ?", desk.INPUTS["request"])
facts = desk.order_facts(request["order_id"])
window = desk.one("SELECT days FROM policies WHERE name = 'refund_window'")["days"]
days = desk.one("SELECT julianday(?) - julianday(?)", request["received_at"], facts["delivered_at"])
charge = desk.charge_of(facts["payment_intent"])
if days[0] <= window or charge["amount_refunded"]:
    raise SystemExit("this is not the case that was described")
desk.refund({"charge": charge["id"], "reason": "requested_by_customer"}, "request-12")
desk.close_request(request["id"], "done")
desk.send(
    facts["email"],
    f"Your request for order {facts['id']}",
    f"Dear {facts['name']},\n\nrefunds end {window} days after delivery, so we cannot make one.\n\n"
    "Hearthside\n",
)
desk.answer(decision="done", refunded_cents=charge["amount"])
