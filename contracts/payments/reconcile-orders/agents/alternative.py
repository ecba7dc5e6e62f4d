"""Reference: from the charges to the orders; one statement, the letter first."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

good = {
    (charge["payment_intent"], charge["amount"], charge["currency"], charge["customer"])
    for charge in desk.listed("/v1/charges")
    if charge["paid"] and charge["captured"] and not charge["refunds"]["data"]
}
db = desk.database()
rows = db.execute(
    "SELECT o.id, o.payment_intent, o.total_cents, o.currency, a.payer FROM orders o"
    " JOIN accounts a ON a.id = o.account_id WHERE o.status = 'awaiting_payment'"
).fetchall()
paid = [row[0] for row in rows if tuple(row)[1:] in good]
rest = [row[0] for row in rows if row[0] not in paid]
desk.send("pieter.vos@hearthside.example", "Please look at these", f"{rest}\n")
marks = ", ".join("?" * len(paid))
with db:
    db.execute(
        f"UPDATE orders SET status = 'paid', updated_at = ? WHERE id IN ({marks})",
        (desk.NOW, *paid),
    )
desk.log("shop_db_execute", "conditional-update", {"orders": paid})
desk.answer(paid=paid[::-1], in_doubt=rest)
