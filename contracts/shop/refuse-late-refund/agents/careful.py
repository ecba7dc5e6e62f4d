"""Reference: compares the delivery with the window, changes nothing, tells the customer why."""

import sys
from datetime import datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

order = shop.INPUTS["order"]
with shop.database() as db:
    facts = shop.order_facts(db, order)
    window = int(shop.one(db, "SELECT value FROM settings WHERE name = 'return_window_days'")[0])
    arrived = datetime.fromisoformat(facts["delivered_at"])
    since = (datetime.fromisoformat(shop.now(db)) - arrived).total_seconds() / 86_400
if since <= window:
    raise SystemExit(f"order {order} is within the window; this agent only refuses")
shop.send(
    facts["customer_email"],
    f"Your request about order {order}",
    f"Dear {facts['customer_name']},\n\nyour order arrived {int(since)} days ago; we can take "
    f"returns for {window} days. We are sorry that we cannot refund it.\n\nHearthside\n",
)
shop.answer(decision="refused", refunded_cents=0)
