"""The shipment to somebody else is marked and invoiced."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import Erp, answer, date, drafted, shipment, told

erp = Erp()
erp.button("stock.shipment.out", "do", shipment(erp, "3"))
invoice = drafted(erp)
erp.write("account.invoice", invoice, invoice_date=date("2026-03-16"))
erp.button("account.invoice", "post", invoice)
answer(**told(erp, invoice, "account.invoice", "invoice"))
