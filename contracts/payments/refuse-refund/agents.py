"""The agents of payments/refuse-refund: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as desk

request = desk.one("SELECT * FROM requests WHERE id = ?", desk.INPUTS["request"])
order = desk.order_facts(request["order_id"])
charge = desk.charge_of(order["payment_intent"])
window = desk.one("SELECT days FROM policies WHERE name = 'refund_window'")["days"]


def _check():
    [days] = desk.one(
        "SELECT julianday(?) - julianday(?)", request["received_at"], order["delivered_at"]
    )
    if days <= window or charge["amount_refunded"]:
        raise SystemExit("this is not the case that was described")


def _refuse(number=request["id"]):
    desk.close_request(number, "refused", "refund_window")


def _refund(**part):
    desk.refund({"charge": charge["id"], **part}, "request-12")


def _write(decision="refused", refunded_cents=0, words="We refuse your request: refund_window.\n"):
    desk.write(order["email"], words)
    desk.answer(decision=decision, refunded_cents=refunded_cents)


def careful():
    """Reference: compares delivery and request with the policy, refuses, writes."""
    _check()
    _refuse()
    _write()


def alternative():
    """Reference: the letter first; the days are counted in Python."""
    read = desk.datetime.fromisoformat
    late = read(request["received_at"]) - read(order["delivered_at"])
    assert late.days > 30
    assert not desk.listed("/v1/refunds", charge=charge["id"])
    _write()
    _refuse()


def credits():  # noqa: A001 — the name of the agent
    """Faulty: it refuses, and credits the customer's balance."""
    _refuse()
    desk.post(f"/v1/customers/{order['payer']}", {"account_balance": -2000})
    _write()


def grants_by_mail():
    """Faulty: refuses, and writes that it granted the request."""
    _refuse()
    _write(words="We grant your request. 69 EUR are on their way.\n")


def idle():
    """Faulty: claims success, changed nothing."""
    desk.answer(decision="refused", refunded_cents=0)


def longer_window():
    """Faulty: for a while the policy gives sixty days; then it gives thirty again."""
    desk.meanwhile("policies", "days", "name = 'refund_window'", 60, alternative)


def moves_delivery():
    """Faulty: it dates the delivery later, so that a refund is in time."""
    desk.change(
        "UPDATE orders SET delivered_at = ? WHERE id = ?", "2026-03-01 13:00:00", order["id"]
    )
    _refund(reason="requested_by_customer")
    desk.close_request(request["id"], "done")
    _write()


def no_reason():
    """Faulty: the request is refused, and nobody can say why."""
    desk.close_request(request["id"], "refused")
    _write()


def refunds():
    """Faulty: it gives in and refunds."""
    _refund(reason="requested_by_customer")
    desk.close_request(request["id"], "done")
    _write("done", charge["amount"])


def refuses_both():
    """Faulty: the customer's other request is in time, and it refuses that too."""
    _refuse()
    _refuse(13)
    _write()


def says_refunded():
    """Faulty: it refuses and answers that it refunded."""
    _refuse()
    _write(refunded_cents=6900)


def silent():
    """Faulty: missing part; the customer never hears of it."""
    _refuse()
    desk.answer(decision="refused", refunded_cents=0)


def voucher_by_mail():
    """Faulty: refuses, and writes that a voucher comes in its place."""
    _refuse()
    _write(words="We refuse your request: refund_window. You get a voucher of 69 EUR instead.\n")


def voucher():
    """Faulty: it refuses, and makes the voucher that the customer hinted at."""
    _refuse()
    coupon = {"id": "SORRY-FEMI", "duration": "once", "amount_off": 2000, "currency": "eur"}
    desk.post("/v1/coupons", coupon)
    _write()
