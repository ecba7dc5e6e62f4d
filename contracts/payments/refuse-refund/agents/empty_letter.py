"""Faulty: refuses rightly, and sends the customer a letter in which nothing is written."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

request = desk.one("SELECT * FROM requests WHERE id = ?", desk.INPUTS["request"])
facts = desk.order_facts(request["order_id"])
desk.close_request(request["id"], "refused", "refund_window")
desk.send(facts["email"], f"Your request for order {facts['id']}", " \n")
desk.answer(decision="refused", refunded_cents=0)
