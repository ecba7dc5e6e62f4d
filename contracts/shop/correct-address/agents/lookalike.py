"""Faulty: the e-mail address it stores looks the same and is another: its first a is Cyrillic."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

wanted = shop.INPUTS
LOOKS_LIKE = wanted["email"].replace("a", "\N{CYRILLIC SMALL LETTER A}", 1)
with shop.database() as db:
    db.execute(
        "UPDATE customers SET street = ?, postcode = ?, email = ? WHERE id = ?",
        (wanted["street"], wanted["postcode"], LOOKS_LIKE, wanted["customer"]),
    )
shop.send(wanted["email"], "Your address", f"We now have {wanted['street']}.\n")
shop.answer(customer=wanted["customer"], email=wanted["email"])
