"""Faulty: a timeout after the first message was accepted; sends the refusal again."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

order = shop.INPUTS["order"]
with shop.database() as db:
    facts = shop.order_facts(db, order)
for attempt in (1, 2):
    try:
        shop.send(facts["customer_email"], "Your request", "It is too late to return it, sorry.\n")
        if attempt == 1:
            raise TimeoutError("no acknowledgement in time")
        shop.log("send_mail", "notification", {"order": order}, attempt=attempt)
    except TimeoutError as error:
        shop.log("send_mail", "notification", {"order": order}, attempt=attempt, error=str(error))
shop.answer(decision="refused", refunded_cents=0)
