"""Reference: an empty inventory, its line by itself, confirmed before the reason is noted."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer, date, note, number_of, product

erp = Erp()
goods, day = product(erp, INPUTS["product"]), date(INPUTS["date"])
storage = erp.one("stock.location", ["code", "=", "STO"])["id"]
inventory = erp.create("stock.inventory", location=storage, date=day)
line = erp.create("stock.inventory.line", inventory=inventory, product=goods)
erp.write("stock.inventory.line", line, quantity=INPUTS["counted"])
erp.button("stock.inventory", "confirm", inventory)
note(erp, "stock.inventory", inventory, INPUTS["reason"])
answer(inventory=number_of(erp, "stock.inventory", inventory), missing=2)
