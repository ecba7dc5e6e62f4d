"""The agents of erp/invoice-delivery: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as erp

INVOICE, SHIPMENT = "account.invoice", "stock.shipment.out"


def _ship(number=erp.INPUTS["shipment"]):
    erp.button(SHIPMENT, "do", erp.shipment(number))


def _draft():
    return erp.id_of(INVOICE, ["state", "=", "draft"])


def _date(invoice, day=erp.INPUTS["date"]):
    erp.write(INVOICE, invoice, invoice_date=erp.date(day))


def _post(invoice):
    erp.button(INVOICE, "post", invoice)


def _report(invoice):
    number, cents = erp.total(INVOICE, invoice)
    erp.answer(invoice=number, total_cents=cents)


def _finish(invoice, day=erp.INPUTS["date"]):
    _date(invoice, day)
    _post(invoice)
    _report(invoice)


def careful():
    """Reference: marks the shipment as done, dates the invoice that the ERP makes, posts it."""
    _ship()
    _finish(_draft())


def alternative():
    """Reference: validates the invoice of the sale, and posts it on the day of the ERP."""
    _ship()
    customer = erp.read(SHIPMENT, erp.shipment(erp.INPUTS["shipment"]), "customer")
    invoice = erp.id_of(INVOICE, ["party", "=", customer], ["state", "=", "draft"])
    erp.button(INVOICE, "validate_invoice", invoice)
    _post(invoice)
    _report(invoice)


def backdated():
    """The invoice is of the day of the order."""
    _ship()
    _finish(_draft(), "2026-03-10")


def discount():
    """The customer gets a discount that nobody agreed."""
    _ship()
    invoice = _draft()
    line = erp.find("account.invoice.line", ["invoice", "=", invoice])[0]["id"]
    erp.write("account.invoice.line", line, unit_price=erp.Decimal("4.50"))
    _finish(invoice)


def false_claim():
    """Does the right thing and tells another total."""
    careful()
    erp.answer(invoice="INV0002", total_cents=41986)


def idle():
    """Claims the invoice, and does nothing."""
    erp.answer(invoice="INV0002", total_cents=31986)


def invoices_twice():
    """A retry after a timeout: the invoice is copied and posted too."""
    _ship()
    invoice = _draft()
    _finish(invoice)
    (copy,) = erp.call("model.account.invoice.copy", [invoice], {}, erp.context())
    _date(copy)
    _post(copy)


def left_as_draft():
    """The invoice is a draft."""
    _ship()
    _date(_draft())
    erp.answer(invoice="INV0002", total_cents=31986)


def wrong_shipment():
    """The shipment to somebody else is marked and invoiced."""
    _ship("3")
    _finish(_draft())
