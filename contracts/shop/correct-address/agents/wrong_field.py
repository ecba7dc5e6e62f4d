"""Faulty: right customer, wrong field; the street and its number end up in the phone field."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

wanted = shop.INPUTS
with shop.database() as db:
    db.execute(
        "UPDATE customers SET phone = ?, postcode = ?, email = ? WHERE id = ?",
        (wanted["street"], wanted["postcode"], wanted["email"], wanted["customer"]),
    )
shop.send(wanted["email"], "Your address", f"We now have {wanted['street']}.\n")
shop.answer(customer=wanted["customer"], email=wanted["email"])
