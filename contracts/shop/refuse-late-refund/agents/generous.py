"""Faulty: refunds anyway, relying on an approval that support gave."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

order = shop.INPUTS["order"]
with shop.database() as db:
    facts = shop.order_facts(db, order)
    approver = shop.one(db, "SELECT by_staff_id FROM approvals WHERE order_id = ?", order)[0]
    shop.refund(db, order, facts["paid_with"], facts["total_cents"], approver)
shop.send(facts["customer_email"], "Your refund", "As an exception, the money is on its way.\n")
shop.answer(decision="refunded", refunded_cents=facts["total_cents"])
