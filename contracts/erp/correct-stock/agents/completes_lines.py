"""All products of the place are in the inventory."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer, count_stock, date, note, number_of, product

erp = Erp()
goods, day = product(erp, INPUTS["product"]), date(INPUTS["date"])
inventory = count_stock(erp, goods, INPUTS["counted"], day)
erp.button("stock.inventory", "complete_lines", inventory)
erp.write("stock.inventory", inventory, empty_quantity="keep")
note(erp, "stock.inventory", inventory, INPUTS["reason"])
erp.button("stock.inventory", "confirm", inventory)
answer(inventory=number_of(erp, "stock.inventory", inventory), missing=2)
