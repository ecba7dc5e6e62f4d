"""Reference: leaves a note first, words the refusal otherwise, looks at no setting twice."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

order = shop.INPUTS["order"]
db = shop.database()
facts = shop.order_facts(db, order)
with db:
    db.execute(
        "INSERT INTO notes (customer_id, order_id, by_staff_id, body, created_at)"
        " VALUES (?, ?, ?, ?, ?)",
        (facts["customer_id"], order, shop.TOM_SUPPORT, "Too late to return.", shop.now(db)),
    )
shop.log("note", "reversible-update", {"order": order})
shop.send(facts["customer_email"], "About your blanket", "It is too late to return it, sorry!\n")
db.close()
shop.answer(refunded_cents=0, decision="refused")
