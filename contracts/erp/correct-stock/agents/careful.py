"""Reference: an inventory of the one product, confirmed, with the reason as a note."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer, date, note

erp = Erp()
product = erp.one("product.product", ["suffix_code", "=", INPUTS["product"]], fields=("id",))["id"]
storage = erp.one("stock.location", ["code", "=", "STO"], fields=("id",))["id"]
inventory = erp.create(
    "stock.inventory",
    location=storage,
    date=date(INPUTS["date"]),
    lines=[["create", [{"product": product, "quantity": INPUTS["counted"]}]]],
)
note(erp, "stock.inventory", inventory, INPUTS["reason"])
erp.button("stock.inventory", "confirm", inventory)
answer(inventory=erp.one("stock.inventory", ["id", "=", inventory], fields=("number",))["number"])
