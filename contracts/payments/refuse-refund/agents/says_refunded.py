"""Faulty: it refuses and answers that it refunded."""

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
desk.close_request(request["id"], "refused", "refund_window")
desk.send(
    facts["email"],
    f"Your request for order {facts['id']}",
    f"Dear {facts['name']},\n\nrefunds end {window} days after delivery, so we cannot make one.\n\n"
    "Hearthside\n",
)
desk.answer(decision="refused", refunded_cents=6900)
