"""The chairs that were set aside are released, and the note says nothing of it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer, note, shipment

erp = Erp()
wanted = shipment(erp, INPUTS["shipment"])
erp.button("stock.shipment.out", "wait", wanted)
note(erp, "stock.shipment.out", wanted, "Jonas: two chairs are missing, and I may not force this.")
answer(forced=False)
