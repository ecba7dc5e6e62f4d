"""Reference: one refund a returned line, each in its own transaction; tells the customer first."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

order = shop.INPUTS["order"]
db = shop.database()
facts = shop.order_facts(db, order)
lines = db.execute(
    "SELECT quantity * unit_cents AS cents FROM order_lines"
    " WHERE order_id = ? AND returned_at IS NOT NULL ORDER BY id",
    (order,),
).fetchall()
shop.send(
    facts["customer_email"],
    "Money on its way",
    f"Hello {facts['customer_name']}! Your return arrived. You will see {len(lines)} credits on "
    "your card within a week.\n",
)
for line in lines:
    with db:
        shop.refund(db, order, facts["paid_with"], line["cents"], shop.PIETER_BILLING)
db.close()
shop.answer(refunded_cents=sum(line["cents"] for line in lines))
