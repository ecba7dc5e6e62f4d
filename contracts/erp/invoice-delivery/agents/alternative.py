"""Reference: validates the invoice of the sale, and posts it on the day of the ERP."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer, shipment, told

erp = Erp()
sent = shipment(erp, INPUTS["shipment"])
erp.button("stock.shipment.out", "do", sent)
customer = erp.one("stock.shipment.out", ["id", "=", sent], fields=("customer",))["customer"]
invoice = erp.one("account.invoice", ["party", "=", customer], ["state", "=", "draft"])["id"]
erp.button("account.invoice", "validate_invoice", invoice)
erp.button("account.invoice", "post", invoice)
answer(**told(erp, invoice, "account.invoice", "invoice"))
