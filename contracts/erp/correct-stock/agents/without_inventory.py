"""Two pieces are moved away by hand, without a count."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer, date, product

erp = Erp()
goods, day = product(erp, INPUTS["product"]), date(INPUTS["date"])
storage = erp.one("stock.location", ["code", "=", "STO"])["id"]
lost = erp.one("stock.location", ["type", "=", "lost_found"])["id"]
unit = erp.one("product.uom", ["name", "=", "Unit"])["id"]
move = erp.create(
    "stock.move",
    product=goods,
    unit=unit,
    quantity=2,
    from_location=storage,
    to_location=lost,
    planned_date=day,
    effective_date=day,
)
erp.button("stock.move", "do", move)
answer(inventory="2", missing=2)
