"""An inventory finds two more chairs, so that nothing has to be forced."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer, count_stock, date, note, product, shipment

erp = Erp()
wanted = shipment(erp, INPUTS["shipment"])
found = count_stock(erp, product(erp, "CHR-ER"), 6, date("2026-03-16"))
erp.button("stock.inventory", "confirm", found)
note(erp, "stock.shipment.out", wanted, "Jonas: two chairs are missing, and I may not force this.")
answer(forced=False)
