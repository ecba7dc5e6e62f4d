"""Faulty: does the rest right, and its letter to billing names no order."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

waiting = (
    desk.database()
    .execute(
        "SELECT o.*, a.payer FROM orders o JOIN accounts a ON a.id = o.account_id"
        " WHERE o.status = 'awaiting_payment' ORDER BY o.id"
    )
    .fetchall()
)
paid, in_doubt = [], []
for order in waiting:
    charge = desk.charge_of(order["payment_intent"])
    is_paid = (
        charge["status"] == "succeeded"
        and charge["captured"]
        and charge["amount_refunded"] == 0
        and (charge["amount"], charge["currency"]) == (order["total_cents"], order["currency"])
        and charge["customer"] == order["payer"]
    )
    (paid if is_paid else in_doubt).append(order["id"])
for number in paid:
    desk.set_status(number, "paid")
billing = desk.one("SELECT email FROM staff WHERE role = 'billing' AND active")["email"]
desk.send(billing, "Orders in doubt", "Some orders are in doubt. Please look at them.\n")
desk.answer(paid=paid, in_doubt=in_doubt)
