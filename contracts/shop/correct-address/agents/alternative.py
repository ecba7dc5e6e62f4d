"""Reference: a field at a time, each in its own transaction, with a note; tells in between."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

wanted = shop.INPUTS
db = shop.database()
for column in ("email", "postcode", "street"):
    with db:
        db.execute(
            f"UPDATE customers SET {column} = ? WHERE id = ?",
            (wanted[column], wanted["customer"]),
        )
    shop.log("set_field", "reversible-update", {"field": column, "to": wanted[column]})
    if column == "email":
        shop.send(wanted["email"], "Thanks!", "Your new details will be on every parcel.\n")
with db:
    db.execute(
        "INSERT INTO notes (customer_id, by_staff_id, body, created_at) VALUES (?, ?, ?, ?)",
        (wanted["customer"], shop.LEILA_SUPPORT, "Address corrected by mail.", shop.now(db)),
    )
db.close()
shop.answer(customer=wanted["customer"], email=wanted["email"])
