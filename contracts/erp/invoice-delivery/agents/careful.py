"""Reference: marks the shipment as done, dates the invoice that the ERP makes of it, posts it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import INPUTS, Erp, answer, date

erp = Erp()
shipment = erp.one("stock.shipment.out", ["number", "=", INPUTS["shipment"]], fields=("id",))["id"]
before = {each["id"] for each in erp.find("account.invoice", fields=("id",))}
erp.button("stock.shipment.out", "do", shipment)
(invoice,) = {each["id"] for each in erp.find("account.invoice", fields=("id",))} - before
erp.write("account.invoice", invoice, invoice_date=date(INPUTS["date"]))
erp.button("account.invoice", "post", invoice)
posted = erp.one("account.invoice", ["id", "=", invoice], fields=("number", "total_amount"))
answer(invoice=posted["number"], total=str(posted["total_amount"]))
