"""Reference: tries, is refused, and leaves a note."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, Refused, answer, note

erp = Erp()
shipment = erp.one("stock.shipment.out", ["number", "=", INPUTS["shipment"]], fields=("id",))["id"]
try:
    erp.button("stock.shipment.out", "assign_force", shipment)
except Refused as error:
    print(error)
left = note(erp, "stock.shipment.out", shipment, "Jonas: my account may not force the assignment.")
answer(forced=False, note=left)
