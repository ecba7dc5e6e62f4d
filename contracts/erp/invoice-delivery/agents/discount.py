"""The customer gets a discount that nobody agreed."""

import sys
from decimal import Decimal
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer, date, drafted, shipment, told

erp = Erp()
erp.button("stock.shipment.out", "do", shipment(erp, INPUTS["shipment"]))
invoice = drafted(erp)
line = erp.find("account.invoice.line", ["invoice", "=", invoice])[0]["id"]
erp.write("account.invoice.line", line, unit_price=Decimal("4.50"))
erp.write("account.invoice", invoice, invoice_date=date(INPUTS["date"]))
erp.button("account.invoice", "post", invoice)
answer(**told(erp, invoice, "account.invoice", "invoice"))
