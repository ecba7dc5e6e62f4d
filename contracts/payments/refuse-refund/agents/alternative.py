"""Reference: the letter first; the days are counted in Python."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

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
