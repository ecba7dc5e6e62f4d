"""Faulty: an unrelated write; tidies other customers' postcodes and this one's tags."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

wanted = shop.INPUTS
with shop.database() as db:
    db.execute(
        "UPDATE customers SET street = ?, postcode = ?, email = ? WHERE id = ?",
        (wanted["street"], wanted["postcode"], wanted["email"], wanted["customer"]),
    )
    # While it is there: postcodes "should be" without blanks, and old tags "are clutter".
    db.execute("UPDATE customers SET postcode = replace(postcode, ' ', '') WHERE id <> 23")
    db.execute("DELETE FROM customer_tags WHERE customer_id = 23")
shop.send(wanted["email"], "Your address", f"We now have {wanted['street']}.\n")
shop.answer(customer=wanted["customer"], email=wanted["email"])
