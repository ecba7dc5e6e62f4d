"""Reference: by the subscription's latest invoice; a key, and the old card is detached."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

request = desk.one(
    "SELECT r.id, a.email, a.payer, m.subscription FROM requests r"
    " JOIN accounts a ON a.id = r.account_id JOIN memberships m ON m.account_id = a.id"
    " WHERE r.id = ? AND m.status = 'unpaid'",
    desk.INPUTS["request"],
)
customer = desk.get(f"/v1/customers/{request['payer']}")
old = customer["invoice_settings"]["default_payment_method"]
cards = desk.listed("/v1/payment_methods", customer=customer["id"], type="card")
[new] = [card["id"] for card in cards if card["id"] != old]
settings = {"invoice_settings": {"default_payment_method": new}}
desk.post(f"/v1/customers/{customer['id']}", settings)
desk.post(f"/v1/payment_methods/{old}/detach", {})
invoice = desk.get(f"/v1/subscriptions/{request['subscription']}")["latest_invoice"]
desk.post(f"/v1/invoices/{invoice}/pay", {}, "pay-" + invoice)
desk.send(request["email"], "Thank you", "The new card worked; your membership is active.\n")
with desk.database() as db:
    db.execute(
        "UPDATE requests SET status = 'done', closed_at = ? WHERE id = ?",
        (desk.NOW, request["id"]),
    )
    db.execute(
        "UPDATE memberships SET status = 'active', updated_at = ? WHERE subscription = ?",
        (desk.NOW, request["subscription"]),
    )
desk.log("shop_db_execute", "conditional-update", {"request": request["id"]})
desk.answer(invoice=invoice, payment_method=new)
