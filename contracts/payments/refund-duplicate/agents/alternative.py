"""Reference: by the charges of the customer; the amount in so many cents, and looks first."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

order = desk.INPUTS["order"]
facts = desk.order_facts(order)
desk.close_request(desk.INPUTS["request"], "done")
mine = desk.listed("/v1/charges", customer=facts["payer"])
known = {
    row["payment_intent"]
    for row in desk.database().execute(
        "SELECT payment_intent FROM orders WHERE account_id = ?", (facts["account_id"],)
    )
}
[unknown] = [charge for charge in mine if charge["payment_intent"] not in known]
body = {
    "payment_intent": unknown["payment_intent"],
    "amount": unknown["amount"],
    "reason": "duplicate",
}
while not desk.listed("/v1/refunds", charge=unknown["id"]):
    try:
        desk.post("/v1/refunds", body)
    except desk.Lost:
        continue
desk.send(facts["email"], "45 EUR are yours again", "You paid twice by mistake; sorry.\n")
desk.answer(charge=unknown["id"], cents=unknown["amount"])
