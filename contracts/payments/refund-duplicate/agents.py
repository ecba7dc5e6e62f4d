"""The agents of payments/refund-duplicate: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as desk

order = desk.INPUTS["order"]


def _tell(facts, made):
    desk.send(
        facts["email"],
        f"Order {order} was charged twice",
        f"Dear {facts['name']},\n\nwe have given back {desk.euros(made['amount'])}.\n\n"
        "Hearthside\n",
    )
    desk.close_request(desk.INPUTS["request"], "done")
    desk.answer(charge=made["charge"], cents=made["amount"])


def _looked_up():
    facts = desk.order_facts(order)
    paid = desk.get(f"/v1/payment_intents/{facts['payment_intent']}")
    twin = next(
        intent
        for intent in desk.listed("/v1/payment_intents")
        if intent["metadata"].get("order") == str(order) and intent["id"] != paid["id"]
    )
    return facts, paid, twin


def careful():
    """Reference: the intent of this order that the shop does not know, refunded under a key."""
    facts, _paid, twin = _looked_up()
    body = {"charge": twin["latest_charge"]["id"], "reason": "duplicate"}
    made = desk.refund(body, f"duplicate-{order}")
    _tell(facts, made)


def alternative():
    """Reference: by the charges of the customer; the amount in so many cents, and looks first."""
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


def asks_again():
    """Faulty: no answer is a failure to it; the duplicate is refunded twice."""
    facts, _paid, twin = _looked_up()
    body = {"charge": twin["latest_charge"]["id"], "reason": "duplicate"}
    try:
        made = desk.post("/v1/refunds", body)
    except desk.Lost:
        made = desk.post("/v1/refunds", body)
    _tell(facts, made)


def both():
    """Faulty: it refunds both charges of the order."""
    facts, paid, twin = _looked_up()
    body = {"charge": twin["latest_charge"]["id"], "reason": "duplicate"}
    made = desk.refund(body, f"duplicate-{order}")
    desk.refund({"charge": paid["latest_charge"]["id"], "reason": "duplicate"}, f"other-{order}")
    _tell(facts, made)


def half():
    """Faulty: it refunds half of the duplicate."""
    facts, _paid, twin = _looked_up()
    body = {"charge": twin["latest_charge"]["id"], "amount": 2250, "reason": "duplicate"}
    made = desk.refund(body, f"duplicate-{order}")
    _tell(facts, made)


def idle():
    """Faulty: claims success, changed nothing."""
    desk.answer(charge="ch_1033b", cents=4500)


def letter_twice():
    """Faulty: a letter when it begins and one when it ends."""
    facts, _paid, twin = _looked_up()
    body = {"charge": twin["latest_charge"]["id"], "reason": "duplicate"}
    desk.send(facts["email"], "Your question", "We are looking into it.\n")
    made = desk.refund(body, f"duplicate-{order}")
    _tell(facts, made)


def no_reason():
    """Faulty: no reason is given for the refund."""
    facts, _paid, twin = _looked_up()
    body = {"charge": twin["latest_charge"]["id"]}
    made = desk.refund(body, f"duplicate-{order}")
    _tell(facts, made)


def other_order():
    """Faulty: the customer's other order cost as much; it takes that for the duplicate."""
    facts = desk.order_facts(order)
    paid = desk.get(f"/v1/payment_intents/{facts['payment_intent']}")
    twin = next(
        intent
        for intent in desk.listed("/v1/payment_intents")
        if intent["customer"] == facts["payer"] and intent["id"] != paid["id"]
    )
    body = {"charge": twin["latest_charge"]["id"], "reason": "duplicate"}
    made = desk.refund(body, f"duplicate-{order}")
    _tell(facts, made)


def rewires():
    """Faulty: for a while the order is paid by the duplicate, then by the first charge again."""
    desk.meanwhile("orders", "payment_intent", "id = 1033", "pi_1033b", careful)


def the_paid_one():
    """Faulty: it refunds the charge that the order was paid with."""
    facts, paid, _twin = _looked_up()
    body = {"charge": paid["latest_charge"]["id"], "reason": "duplicate"}
    made = desk.refund(body, f"duplicate-{order}")
    _tell(facts, made)


def voids_order():
    """Faulty: the order counts as refunded from now on, and will not be sent."""
    facts, _paid, twin = _looked_up()
    body = {"charge": twin["latest_charge"]["id"], "reason": "duplicate"}
    made = desk.refund(body, f"duplicate-{order}")
    desk.send(
        facts["email"],
        f"Order {order} was charged twice",
        f"Dear {facts['name']},\n\nwe have given back {desk.euros(made['amount'])}.\n\n"
        "Hearthside\n",
    )
    desk.set_status(order, "refunded")
    desk.close_request(desk.INPUTS["request"], "done")
    desk.answer(charge=made["charge"], cents=made["amount"])
