"""Faulty: it pays again with the card that was declined, and calls the membership active."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

request = desk.one("SELECT * FROM requests WHERE id = ?", desk.INPUTS["request"])
account = desk.one("SELECT * FROM accounts WHERE id = ?", request["account_id"])
customer = account["payer"]
cards = desk.listed("/v1/payment_methods", customer=customer, type="card")
newest = max(cards, key=lambda card: card["created"])["id"]
[invoice] = [i for i in desk.listed("/v1/invoices", customer=customer) if i["status"] == "open"]
paid = desk.post(f"/v1/invoices/{invoice['id']}/pay", {})
desk.change(
    "UPDATE memberships SET status = 'active', updated_at = ? WHERE subscription = ?",
    desk.NOW,
    invoice["subscription"],
)
desk.close_request(request["id"], "done")
desk.send(
    account["email"],
    "Your membership is paid",
    f"Dear {account['name']},\n\nyour new card paid {desk.euros(paid['total'])}.\n\nHearthside\n",
)
desk.answer(invoice=invoice["id"], payment_method=newest)
