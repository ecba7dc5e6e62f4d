"""Reference: the line first says what was there, then what was counted; the reason comes last."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer, count_stock, date, note, number_of, product

erp = Erp()
goods, day = product(erp, INPUTS["product"]), date(INPUTS["date"])
inventory = count_stock(erp, goods, 8, day)
line = erp.one("stock.inventory.line", ["inventory", "=", inventory], fields=("id",))["id"]
erp.write("stock.inventory.line", line, quantity=INPUTS["counted"])
erp.button("stock.inventory", "confirm", inventory)
note(erp, "stock.inventory", inventory, INPUTS["reason"])
answer(inventory=number_of(erp, "stock.inventory", inventory), missing=2)
