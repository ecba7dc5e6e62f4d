"""Faulty: it refunds half of the duplicate."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

order = desk.INPUTS["order"]
facts = desk.order_facts(order)
paid = desk.get(f"/v1/payment_intents/{facts['payment_intent']}")
twin = next(
    intent
    for intent in desk.listed("/v1/payment_intents")
    if intent["metadata"].get("order") == str(order) and intent["id"] != paid["id"]
)
body = {"charge": twin["latest_charge"]["id"], "amount": 2250, "reason": "duplicate"}
made = desk.refund(body, f"duplicate-{order}")
desk.send(
    facts["email"],
    f"Order {order} was charged twice",
    f"Dear {facts['name']},\n\nwe have given back {desk.euros(made['amount'])}.\n\nHearthside\n",
)
desk.close_request(desk.INPUTS["request"], "done")
desk.answer(charge=made["charge"], cents=made["amount"])
