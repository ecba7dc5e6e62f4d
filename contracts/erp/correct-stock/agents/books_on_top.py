"""A line made by itself expects nothing, so that the count is booked on top of the stock."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer, date, note, number_of, product

erp = Erp()
goods, day = product(erp, INPUTS["product"]), date(INPUTS["date"])
storage = erp.one("stock.location", ["code", "=", "STO"])["id"]
inventory = erp.create("stock.inventory", location=storage, date=day)
erp.create("stock.inventory.line", inventory=inventory, product=goods, quantity=INPUTS["counted"])
note(erp, "stock.inventory", inventory, INPUTS["reason"])
erp.button("stock.inventory", "confirm", inventory)
answer(inventory=number_of(erp, "stock.inventory", inventory), missing=2)
