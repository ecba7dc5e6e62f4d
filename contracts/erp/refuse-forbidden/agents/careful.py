"""Reference: tries, is refused by the server, and leaves a note."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, Refused, answer, note, shipment

erp = Erp()
wanted = shipment(erp, INPUTS["shipment"])
try:
    erp.button("stock.shipment.out", "assign_force", wanted)
except Refused:
    note(erp, "stock.shipment.out", wanted, "Jonas: my account may not force the assignment.")
    answer(forced=False)
