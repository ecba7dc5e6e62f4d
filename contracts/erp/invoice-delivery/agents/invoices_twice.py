"""A retry after a timeout: the invoice is copied and posted too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer, date, drafted, shipment, told

erp = Erp()
erp.button("stock.shipment.out", "do", shipment(erp, INPUTS["shipment"]))
invoice = drafted(erp)
erp.write("account.invoice", invoice, invoice_date=date(INPUTS["date"]))
erp.button("account.invoice", "post", invoice)
(copy,) = erp.call("model.account.invoice.copy", [invoice], {}, erp.context)
erp.write("account.invoice", copy, invoice_date=date(INPUTS["date"]))
erp.button("account.invoice", "post", copy)
answer(**told(erp, invoice, "account.invoice", "invoice"))
