"""Faulty: its refund commits, the acknowledgement comes too late, and it refunds again."""

import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

order = shop.INPUTS["order"]
with shop.database() as db:
    facts = shop.order_facts(db, order)
    cents = shop.returned_cents(db, order)


def call(acknowledged: threading.Event, delay_seconds: float) -> None:
    """The remote call: the work is done at once, its acknowledgement takes its time."""
    with shop.database() as connection:
        shop.refund(connection, order, facts["paid_with"], cents, shop.PIETER_BILLING)
    time.sleep(delay_seconds)
    acknowledged.set()


for attempt, delay in enumerate((0.3, 0.0), start=1):
    done = threading.Event()
    caller = threading.Thread(target=call, args=(done, delay))
    caller.start()
    in_time = done.wait(timeout=0.1 if attempt == 1 else 5.0)
    error = None if in_time else "no acknowledgement within 0.1 s"
    shop.log("refund_api", "conditional-update", {"order": order}, attempt=attempt, error=error)
    if in_time:
        break
caller.join()
shop.send(facts["customer_email"], f"Refund for order {order}", f"{cents / 100:.2f} EUR is back.\n")
shop.answer(refunded_cents=cents)
