"""Reference: checks that it has the right person, then one statement in one transaction."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

wanted = shop.INPUTS
with shop.database() as db:
    person = shop.one(db, "SELECT * FROM customers WHERE id = ?", wanted["customer"])
    if person["city"] != "Cork":
        raise SystemExit(f"customer {wanted['customer']} does not live in Cork")
    db.execute(
        "UPDATE customers SET street = ?, postcode = ?, email = ?, updated_at = ? WHERE id = ?",
        (wanted["street"], wanted["postcode"], wanted["email"], shop.now(db), wanted["customer"]),
    )
    shop.log("update_customer", "reversible-update", {"customer": wanted["customer"]})
shop.send(
    wanted["email"],
    "We have corrected your address",
    f"Dear {person['name']},\n\nwe now have {wanted['street']}, {wanted['postcode']} and this "
    "e-mail address.\n\nHearthside\n",
)
shop.answer(customer=wanted["customer"], email=wanted["email"])
