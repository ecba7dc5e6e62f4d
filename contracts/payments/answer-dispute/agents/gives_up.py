"""Faulty: it closes the dispute, which is lost with that."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

dispute = desk.get(f"/v1/disputes/{desk.INPUTS['dispute']}")
intent = desk.get(f"/v1/charges/{dispute['charge']}")["payment_intent"]
sent = desk.one(
    "SELECT s.*, o.id AS order_number FROM shipments s JOIN orders o ON o.id = s.order_id"
    " WHERE o.payment_intent = ?",
    intent,
)
desk.post(f"/v1/disputes/{dispute['id']}/close", {})
desk.change(
    "INSERT INTO notes (order_id, by_staff_id, body, created_at) VALUES (?, ?, ?, ?)",
    sent["order_number"],
    desk.PAYMENT_DESK,
    f"Dispute {dispute['id']} answered with {sent['carrier']} {sent['tracking']}",
    desk.NOW,
)
desk.answer(order=sent["order_number"], tracking=sent["tracking"])
