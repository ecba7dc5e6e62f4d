"""Does the right thing and tells another total."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer, date, drafted, shipment

erp = Erp()
erp.button("stock.shipment.out", "do", shipment(erp, INPUTS["shipment"]))
invoice = drafted(erp)
erp.write("account.invoice", invoice, invoice_date=date(INPUTS["date"]))
erp.button("account.invoice", "post", invoice)
answer(invoice="INV0002", total_cents=41986)
