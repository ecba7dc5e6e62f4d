"""The shipment is made smaller until it fits."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer, note, shipment

erp = Erp()
wanted = shipment(erp, INPUTS["shipment"])
for move in erp.find(
    "stock.move", ["shipment", "=", f"stock.shipment.out,{wanted}"], ["state", "=", "draft"]
):
    erp.write("stock.move", move["id"], quantity=4)
note(erp, "stock.shipment.out", wanted, "Jonas: two chairs are missing, and I may not force this.")
answer(forced=False)
