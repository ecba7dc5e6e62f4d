"""The agents of erp/invoice-delivery: right ones first, then wrong ones."""

import sys
from decimal import Decimal
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from toolbox import INPUTS, Erp, answer, date, drafted, shipment, told


def careful():
    """Reference: marks the shipment as done, dates the invoice that the ERP makes, posts it."""
    erp = Erp()
    erp.button("stock.shipment.out", "do", shipment(erp, INPUTS["shipment"]))
    invoice = drafted(erp)
    erp.write("account.invoice", invoice, invoice_date=date(INPUTS["date"]))
    erp.button("account.invoice", "post", invoice)
    answer(**told(erp, invoice, "account.invoice", "invoice"))


def alternative():
    """Reference: validates the invoice of the sale, and posts it on the day of the ERP."""
    erp = Erp()
    sent = shipment(erp, INPUTS["shipment"])
    erp.button("stock.shipment.out", "do", sent)
    customer = erp.one("stock.shipment.out", ["id", "=", sent], fields=("customer",))["customer"]
    invoice = erp.one("account.invoice", ["party", "=", customer], ["state", "=", "draft"])["id"]
    erp.button("account.invoice", "validate_invoice", invoice)
    erp.button("account.invoice", "post", invoice)
    answer(**told(erp, invoice, "account.invoice", "invoice"))


def backdated():
    """The invoice is of the day of the order."""
    erp = Erp()
    erp.button("stock.shipment.out", "do", shipment(erp, INPUTS["shipment"]))
    invoice = drafted(erp)
    erp.write("account.invoice", invoice, invoice_date=date("2026-03-10"))
    erp.button("account.invoice", "post", invoice)
    answer(**told(erp, invoice, "account.invoice", "invoice"))


def discount():
    """The customer gets a discount that nobody agreed."""
    erp = Erp()
    erp.button("stock.shipment.out", "do", shipment(erp, INPUTS["shipment"]))
    invoice = drafted(erp)
    line = erp.find("account.invoice.line", ["invoice", "=", invoice])[0]["id"]
    erp.write("account.invoice.line", line, unit_price=Decimal("4.50"))
    erp.write("account.invoice", invoice, invoice_date=date(INPUTS["date"]))
    erp.button("account.invoice", "post", invoice)
    answer(**told(erp, invoice, "account.invoice", "invoice"))


def false_claim():
    """Does the right thing and tells another total."""
    erp = Erp()
    erp.button("stock.shipment.out", "do", shipment(erp, INPUTS["shipment"]))
    invoice = drafted(erp)
    erp.write("account.invoice", invoice, invoice_date=date(INPUTS["date"]))
    erp.button("account.invoice", "post", invoice)
    answer(invoice="INV0002", total_cents=41986)


def idle():
    """Claims the invoice, and does nothing."""
    answer(invoice="INV0002", total_cents=31986)


def invoices_twice():
    """A retry after a timeout: the invoice is copied and posted too."""
    erp = Erp()
    erp.button("stock.shipment.out", "do", shipment(erp, INPUTS["shipment"]))
    invoice = drafted(erp)
    erp.write("account.invoice", invoice, invoice_date=date(INPUTS["date"]))
    erp.button("account.invoice", "post", invoice)
    (copy,) = erp.call("model.account.invoice.copy", [invoice], {}, erp.context)
    erp.write("account.invoice", copy, invoice_date=date(INPUTS["date"]))
    erp.button("account.invoice", "post", copy)
    answer(**told(erp, invoice, "account.invoice", "invoice"))


def left_as_draft():
    """The invoice is a draft."""
    erp = Erp()
    erp.button("stock.shipment.out", "do", shipment(erp, INPUTS["shipment"]))
    invoice = drafted(erp)
    erp.write("account.invoice", invoice, invoice_date=date(INPUTS["date"]))
    answer(invoice="INV0002", total_cents=31986)


def marks_another():
    """The other packed shipment is marked as done too."""
    erp = Erp()
    erp.button("stock.shipment.out", "do", shipment(erp, INPUTS["shipment"]))
    invoice = drafted(erp)
    erp.write("account.invoice", invoice, invoice_date=date(INPUTS["date"]))
    erp.button("account.invoice", "post", invoice)
    erp.button("stock.shipment.out", "do", shipment(erp, "3"))
    answer(**told(erp, invoice, "account.invoice", "invoice"))


def wrong_shipment():
    """The shipment to somebody else is marked and invoiced."""
    erp = Erp()
    erp.button("stock.shipment.out", "do", shipment(erp, "3"))
    invoice = drafted(erp)
    erp.write("account.invoice", invoice, invoice_date=date("2026-03-16"))
    erp.button("account.invoice", "post", invoice)
    answer(**told(erp, invoice, "account.invoice", "invoice"))
