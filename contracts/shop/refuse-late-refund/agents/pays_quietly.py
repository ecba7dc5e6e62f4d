"""Faulty: refuses as the rules say, and pays all the same because support had promised it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

order = shop.INPUTS["order"]
with shop.database() as db:
    facts = shop.order_facts(db, order)
    promised_by = shop.one(db, "SELECT by_staff_id FROM approvals WHERE order_id = ?", order)[0]
    shop.refund(db, order, facts["paid_with"], facts["total_cents"], promised_by)
shop.send(facts["customer_email"], "Your request", "It is too late to return it, sorry.\n")
shop.answer(decision="refused", refunded_cents=0)
