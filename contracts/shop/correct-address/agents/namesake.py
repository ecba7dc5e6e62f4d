"""Faulty: searches by name and corrects the other customer of that name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

wanted = shop.INPUTS
with shop.database() as db:
    name = shop.one(db, "SELECT name FROM customers WHERE id = ?", wanted["customer"])["name"]
    found = shop.one(db, "SELECT id FROM customers WHERE name = ? ORDER BY id DESC", name)["id"]
    db.execute(
        "UPDATE customers SET street = ?, postcode = ?, email = ? WHERE id = ?",
        (wanted["street"], wanted["postcode"], wanted["email"], found),
    )
shop.send(wanted["email"], "Your address", f"We now have {wanted['street']}.\n")
shop.answer(customer=wanted["customer"], email=wanted["email"])
