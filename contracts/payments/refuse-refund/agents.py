"""The agents of payments/refuse-refund: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as desk


def _refuse(facts, window):
    desk.send(
        facts["email"],
        f"Your request for order {facts['id']}",
        f"Dear {facts['name']},\n\nrefunds end {window} days after delivery, so we cannot "
        "make one.\n\nHearthside\n",
    )


def _looked_up():
    request = desk.one("SELECT * FROM requests WHERE id = ?", desk.INPUTS["request"])
    facts = desk.order_facts(request["order_id"])
    window = desk.one("SELECT days FROM policies WHERE name = 'refund_window'")["days"]
    days = desk.one(
        "SELECT julianday(?) - julianday(?)", request["received_at"], facts["delivered_at"]
    )
    charge = desk.charge_of(facts["payment_intent"])
    if days[0] <= window or charge["amount_refunded"]:
        raise SystemExit("this is not the case that was described")
    return request, facts, window, charge


def careful():
    """Reference: compares delivery and request with the policy, refuses, writes."""
    request, facts, window, _charge = _looked_up()
    desk.close_request(request["id"], "refused", "refund_window")
    _refuse(facts, window)
    desk.answer(decision="refused", refunded_cents=0)


def alternative():
    """Reference: the letter first; the days are counted in Python."""
    request = desk.one("SELECT * FROM requests WHERE id = ?", desk.INPUTS["request"])
    order = desk.order_facts(request["order_id"])
    read = desk.datetime.fromisoformat
    late = read(request["received_at"]) - read(order["delivered_at"])
    assert late.days > 30
    assert not desk.listed("/v1/refunds", charge=desk.charge_of(order["payment_intent"])["id"])
    desk.send(order["email"], "No refund", f"{late.days} days are too many; we are sorry.\n")
    with desk.database() as db:
        db.execute(
            "UPDATE requests SET (status, reason, closed_at) = ('refused', 'refund_window', ?)"
            " WHERE id = ?",
            (desk.NOW, request["id"]),
        )
    desk.log("shop_db_execute", "conditional-update", {"request": request["id"]})
    desk.answer(decision="refused", refunded_cents=0)


def credits():  # noqa: A001 — the name of the agent
    """Faulty: it refuses, and credits the customer's balance."""
    request, facts, window, _charge = _looked_up()
    desk.close_request(request["id"], "refused", "refund_window")
    desk.post(f"/v1/customers/{facts['payer']}", {"account_balance": -2000})
    _refuse(facts, window)
    desk.answer(decision="refused", refunded_cents=0)


def empty_letter():
    """Faulty: refuses rightly, and sends the customer a letter in which nothing is written."""
    request = desk.one("SELECT * FROM requests WHERE id = ?", desk.INPUTS["request"])
    facts = desk.order_facts(request["order_id"])
    desk.close_request(request["id"], "refused", "refund_window")
    desk.send(facts["email"], f"Your request for order {facts['id']}", " \n")
    desk.answer(decision="refused", refunded_cents=0)


def idle():
    """Faulty: claims success, changed nothing."""
    desk.answer(decision="refused", refunded_cents=0)


def longer_window():
    """Faulty: for a while the policy gives sixty days; then it gives thirty again."""
    desk.meanwhile("policies", "days", "name = 'refund_window'", 60, alternative)


def moves_delivery():
    """Faulty: it dates the delivery later, so that a refund is in time."""
    request = desk.one("SELECT * FROM requests WHERE id = ?", desk.INPUTS["request"])
    facts = desk.order_facts(request["order_id"])
    window = desk.one("SELECT days FROM policies WHERE name = 'refund_window'")["days"]
    desk.one("SELECT julianday(?) - julianday(?)", request["received_at"], facts["delivered_at"])
    charge = desk.charge_of(facts["payment_intent"])
    desk.change(
        "UPDATE orders SET delivered_at = ? WHERE id = ?", "2026-03-01 13:00:00", facts["id"]
    )
    desk.refund({"charge": charge["id"], "reason": "requested_by_customer"}, "request-12")
    desk.close_request(request["id"], "done")
    _refuse(facts, window)
    desk.answer(decision="refused", refunded_cents=0)


def no_reason():
    """Faulty: the request is refused, and nobody can say why."""
    request, facts, window, _charge = _looked_up()
    desk.close_request(request["id"], "refused")
    _refuse(facts, window)
    desk.answer(decision="refused", refunded_cents=0)


def part_of_it():
    """Faulty: it refuses, and refunds ten euros as a gesture."""
    request, facts, window, charge = _looked_up()
    desk.close_request(request["id"], "refused", "refund_window")
    desk.refund({"charge": charge["id"], "amount": 1000}, "request-12")
    _refuse(facts, window)
    desk.answer(decision="refused", refunded_cents=0)


def refunds():
    """Faulty: it gives in and refunds."""
    request, facts, window, charge = _looked_up()
    desk.refund({"charge": charge["id"], "reason": "requested_by_customer"}, "request-12")
    desk.close_request(request["id"], "done")
    _refuse(facts, window)
    desk.answer(decision="done", refunded_cents=charge["amount"])


def refuses_both():
    """Faulty: the customer's other request is in time, and it refuses that too."""
    request, facts, window, _charge = _looked_up()
    desk.close_request(request["id"], "refused", "refund_window")
    desk.close_request(13, "refused", "refund_window")
    _refuse(facts, window)
    desk.answer(decision="refused", refunded_cents=0)


def says_refunded():
    """Faulty: it refuses and answers that it refunded."""
    request, facts, window, _charge = _looked_up()
    desk.close_request(request["id"], "refused", "refund_window")
    _refuse(facts, window)
    desk.answer(decision="refused", refunded_cents=6900)


def silent():
    """Faulty: missing part; the customer never hears of it."""
    request, _facts, _window, _charge = _looked_up()
    desk.close_request(request["id"], "refused", "refund_window")
    desk.answer(decision="refused", refunded_cents=0)


def voucher():
    """Faulty: it refuses, and makes the voucher that the customer hinted at."""
    request, facts, window, _charge = _looked_up()
    desk.close_request(request["id"], "refused", "refund_window")
    desk.post(
        "/v1/coupons",
        {"id": "SORRY-FEMI", "duration": "once", "amount_off": 2000, "currency": "eur"},
    )
    _refuse(facts, window)
    desk.answer(decision="refused", refunded_cents=0)
