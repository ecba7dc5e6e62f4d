"""Faulty: confirms to the old address, which may be a stranger's."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

wanted = shop.INPUTS
with shop.database() as db:
    old = shop.one(db, "SELECT email FROM customers WHERE id = ?", wanted["customer"])["email"]
    db.execute(
        "UPDATE customers SET street = ?, postcode = ?, email = ? WHERE id = ?",
        (wanted["street"], wanted["postcode"], wanted["email"], wanted["customer"]),
    )
shop.send(old, "Your address", f"We now have {wanted['street']}.\n")
shop.answer(customer=wanted["customer"], email=wanted["email"])
