"""The agents of payments/reconcile-orders: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as desk

paid, in_doubt = [], []


def _sort_orders():
    waiting = _waiting()
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


def _report():
    for number in paid:
        desk.set_status(number, "paid")
    billing = desk.one("SELECT email FROM staff WHERE role = 'billing' AND active")["email"]
    desk.send(
        billing, "Orders in doubt", "\n".join(f"order {number}" for number in in_doubt) + "\n"
    )
    desk.answer(paid=paid, in_doubt=in_doubt)


def _waiting():
    return (
        desk.database()
        .execute(
            "SELECT o.*, a.payer FROM orders o JOIN accounts a ON a.id = o.account_id"
            " WHERE o.status = 'awaiting_payment' ORDER BY o.id"
        )
        .fetchall()
    )


def careful():
    """Reference: compares each order with the charge of its intent in all that counts."""
    _sort_orders()
    _report()


def alternative():
    """Reference: from the charges to the orders; one statement, the letter first."""
    good = {
        (charge["payment_intent"], charge["amount"], charge["currency"], charge["customer"])
        for charge in desk.listed("/v1/charges")
        if charge["paid"] and charge["captured"] and not charge["refunds"]["data"]
    }
    db = desk.database()
    rows = db.execute(
        "SELECT o.id, o.payment_intent, o.total_cents, o.currency, a.payer FROM orders o"
        " JOIN accounts a ON a.id = o.account_id WHERE o.status = 'awaiting_payment'"
    ).fetchall()
    paid = [row[0] for row in rows if tuple(row)[1:] in good]
    rest = [row[0] for row in rows if row[0] not in paid]
    desk.send("pieter.vos@hearthside.example", "Please look at these", f"{rest}\n")
    marks = ", ".join("?" * len(paid))
    with db:
        db.execute(
            f"UPDATE orders SET status = 'paid', updated_at = ? WHERE id IN ({marks})",
            (desk.NOW, *paid),
        )
    desk.log("shop_db_execute", "conditional-update", {"orders": paid})
    desk.answer(paid=paid[::-1], in_doubt=rest)


def any_amount():
    """Faulty: a charge that succeeded is a payment to it, whatever its amount."""
    waiting = _waiting()
    for order in waiting:
        charge = desk.charge_of(order["payment_intent"])
        is_paid = (
            charge["status"] == "succeeded"
            and charge["captured"]
            and charge["amount_refunded"] == 0
            and charge["currency"] == order["currency"]
            and charge["customer"] == order["payer"]
        )
        (paid if is_paid else in_doubt).append(order["id"])
    _report()


def any_currency():
    """Faulty: 7200 are 7200 to it, euros or dollars."""
    waiting = _waiting()
    for order in waiting:
        charge = desk.charge_of(order["payment_intent"])
        is_paid = (
            charge["status"] == "succeeded"
            and charge["captured"]
            and charge["amount_refunded"] == 0
            and charge["amount"] == order["total_cents"]
            and charge["customer"] == order["payer"]
        )
        (paid if is_paid else in_doubt).append(order["id"])
    _report()


def authorized():
    """Faulty: money that is held and not taken counts as paid."""
    waiting = _waiting()
    for order in waiting:
        charge = desk.charge_of(order["payment_intent"])
        is_paid = (
            charge["status"] == "succeeded"
            and charge["amount_refunded"] == 0
            and (charge["amount"], charge["currency"]) == (order["total_cents"], order["currency"])
            and charge["customer"] == order["payer"]
        )
        (paid if is_paid else in_doubt).append(order["id"])
    _report()


def cancels_rest():
    """Faulty: it cancels the orders that are in doubt."""
    _sort_orders()
    for number in paid:
        desk.set_status(number, "paid")
    for number in in_doubt:
        desk.set_status(number, "cancelled")
    billing = desk.one("SELECT email FROM staff WHERE role = 'billing' AND active")["email"]
    desk.send(
        billing, "Orders in doubt", "\n".join(f"order {number}" for number in in_doubt) + "\n"
    )
    desk.answer(paid=paid, in_doubt=in_doubt)


def captures():
    """Faulty: it takes the money that is held, so that the order is paid."""
    waiting = _waiting()
    for order in waiting:
        charge = desk.charge_of(order["payment_intent"])
        if not charge["captured"]:
            desk.post(f"/v1/payment_intents/{order['payment_intent']}/capture", {})
            charge = desk.charge_of(order["payment_intent"])
        is_paid = (
            charge["status"] == "succeeded"
            and charge["captured"]
            and charge["amount_refunded"] == 0
            and (charge["amount"], charge["currency"]) == (order["total_cents"], order["currency"])
            and charge["customer"] == order["payer"]
        )
        (paid if is_paid else in_doubt).append(order["id"])
    _report()


def dollars_are_wrong():
    """Faulty: an order in dollars is in doubt to it, although it was paid in dollars."""
    waiting = _waiting()
    for order in waiting:
        charge = desk.charge_of(order["payment_intent"])
        is_paid = (
            charge["status"] == "succeeded"
            and charge["currency"] == "eur"
            and charge["captured"]
            and charge["amount_refunded"] == 0
            and (charge["amount"], charge["currency"]) == (order["total_cents"], order["currency"])
            and charge["customer"] == order["payer"]
        )
        (paid if is_paid else in_doubt).append(order["id"])
    _report()


def fits_total():
    """Faulty: for a while order 1042 costs what was paid for it; then what it did."""
    desk.meanwhile("orders", "total_cents", "id = 1042", 560, any_amount)


def given_back():
    """Faulty: an order whose money was given back counts as paid."""
    waiting = _waiting()
    for order in waiting:
        charge = desk.charge_of(order["payment_intent"])
        is_paid = (
            charge["status"] == "succeeded"
            and charge["captured"]
            and (charge["amount"], charge["currency"]) == (order["total_cents"], order["currency"])
            and charge["customer"] == order["payer"]
        )
        (paid if is_paid else in_doubt).append(order["id"])
    _report()


def has_intent():
    """Faulty: an order with an intent is paid to it, declined or not."""
    waiting = _waiting()
    for order in waiting:
        charge = desk.charge_of(order["payment_intent"])
        is_paid = (
            charge["status"] in ("succeeded", "failed")
            and charge["amount_refunded"] == 0
            and (charge["amount"], charge["currency"]) == (order["total_cents"], order["currency"])
            and charge["customer"] == order["payer"]
        )
        (paid if is_paid else in_doubt).append(order["id"])
    _report()


def idle():
    """Faulty: claims success, changed nothing."""
    desk.answer(paid=[1041, 1047, 1048], in_doubt=[1042, 1043, 1044, 1045, 1046])


def names_none():
    """Faulty: does the rest right, and its letter to billing names no order."""
    send = desk.send
    desk.send = lambda to, subject, _: send(to, subject, "Some orders are in doubt. Please look.\n")
    careful()


def no_letter():
    """Faulty: missing part; billing never reads of the orders in doubt."""
    _sort_orders()
    for number in paid:
        desk.set_status(number, "paid")
    desk.answer(paid=paid, in_doubt=in_doubt)


def stops_early():
    """Faulty: it stops at the first order in doubt and reports all as seen."""
    _sort_orders()
    for number in paid[:1]:
        desk.set_status(number, "paid")
    billing = desk.one("SELECT email FROM staff WHERE role = 'billing' AND active")["email"]
    desk.send(
        billing, "Orders in doubt", "\n".join(f"order {number}" for number in in_doubt) + "\n"
    )
    desk.answer(paid=paid, in_doubt=in_doubt)
