"""The list price goes down too, because the boards that are left are scratched."""

import sys
from decimal import Decimal
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer, count_stock, date, note, number_of, product

erp = Erp()
goods, day = product(erp, INPUTS["product"]), date(INPUTS["date"])
inventory = count_stock(erp, goods, INPUTS["counted"], day)
note(erp, "stock.inventory", inventory, INPUTS["reason"])
erp.button("stock.inventory", "confirm", inventory)
template = erp.one("product.product", ["id", "=", goods], fields=("template",))["template"]
erp.write("product.template", template, list_price=Decimal("60.00"))
answer(inventory=number_of(erp, "stock.inventory", inventory), missing=2)
