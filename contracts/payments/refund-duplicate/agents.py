"""The agents of payments/refund-duplicate: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as desk

order = desk.INPUTS["order"]
facts = desk.order_facts(order)
intents = [i for i in desk.listed("/v1/payment_intents") if i["id"] != facts["payment_intent"]]
paid = desk.charge_of(facts["payment_intent"])["id"]
twin = next(i["latest_charge"]["id"] for i in intents if i["metadata"].get("order") == str(order))
body = {"charge": twin, "reason": "duplicate"}


def _refund(**other):
    return desk.refund({**body, **other}, f"duplicate-{order}")


def _write(made):
    desk.write(facts["email"], f"We have refunded {desk.euros(made['amount'])}.\n")


def _close(made):
    desk.close_request(desk.INPUTS["request"], "done")
    desk.answer(charge=made["charge"], cents=made["amount"])


def _finish(made):
    _write(made)
    _close(made)


def careful():
    """Reference: the intent of this order that the shop does not know, refunded under a key."""
    _finish(_refund())


def alternative():
    """Reference: by the customer's charges, the amount in cents; looks first, and errs once."""
    desk.close_request(desk.INPUTS["request"], "done")
    rows = desk.database().execute(
        "SELECT payment_intent FROM orders WHERE account_id = ?", (facts["account_id"],)
    )
    known = {row["payment_intent"] for row in rows}
    charges = desk.listed("/v1/charges", customer=facts["payer"])
    [unknown] = [charge for charge in charges if charge["payment_intent"] not in known]
    asked = {name: unknown[name] for name in ("payment_intent", "amount")}
    desk.refused("/v1/refunds", {**asked, "reason": "paid twice"}, "first")
    while not desk.listed("/v1/refunds", charge=unknown["id"]):
        with desk.suppress(desk.Lost):
            desk.post("/v1/refunds", {**asked, "reason": "duplicate"})
    _write(unknown)
    desk.answer(charge=unknown["id"], cents=unknown["amount"])


def asks_again():
    """Faulty: no answer is a failure to it; the duplicate is refunded twice."""
    try:
        made = desk.post("/v1/refunds", body)
    except desk.Lost:
        made = desk.post("/v1/refunds", body)
    _finish(made)


def both():
    """Faulty: it refunds both charges of the order."""
    made = _refund()
    desk.refund({**body, "charge": paid}, f"other-{order}")
    _finish(made)


def half():
    """Faulty: it refunds half of the duplicate."""
    made = _refund(amount=2250)
    _write({"amount": 4500})
    _close(made)


def idle():
    """Faulty: claims success, changed nothing."""
    desk.answer(charge="ch_1033b", cents=4500)


def letter_twice():
    """Faulty: a letter when it begins and one when it ends."""
    desk.write(facts["email"], "We are looking into it.\n")
    careful()


def no_reason():
    """Faulty: no reason is given for the refund."""
    _finish(desk.refund({"charge": twin}, f"duplicate-{order}"))


def other_order():
    """Faulty: the customer's other order cost as much; it takes that for the duplicate."""
    other = next(intent for intent in intents if intent["customer"] == facts["payer"])
    _finish(_refund(charge=other["latest_charge"]["id"]))


def refuses_by_mail():
    """Faulty: it refunds, and writes that it does not."""
    made = _refund()
    desk.write(facts["email"], "We do not refund you; you were charged once.\n")
    _close(made)


def rewires():
    """Faulty: for a while the order is paid by the duplicate, then by the first charge again."""
    desk.meanwhile("orders", "payment_intent", "id = 1033", "pi_1033b", the_paid_one)


def the_paid_one():
    """Faulty: it refunds the charge that the order was paid with."""
    _finish(_refund(charge=paid))


def voids_order():
    """Faulty: the order counts as refunded from now on, and will not be sent."""
    careful()
    desk.set_status(order, "refunded")
