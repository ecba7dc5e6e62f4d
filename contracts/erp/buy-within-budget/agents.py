"""The agents of erp/buy-within-budget: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as erp

CHEAP, USUAL = "Paperworks Rhine", "Nordic Stationery"  # 2.95 from 200 pieces on; 3.05
COPIED = ("product", "unit", "quantity", "from_location", "to_location", "company", "currency")
PAPER, PURCHASE = erp.INPUTS["product"], "purchase.purchase"


def _line(code, quantity, price):
    unit = erp.id_of("product.uom", ["name", "=", "Unit"])
    goods = {"product": erp.product(code), "unit": unit}
    return {**goods, "quantity": quantity, "unit_price": erp.Decimal(price)}


def _order(quantity=erp.INPUTS["quantity"], price="2.95", supplier=CHEAP):
    party = erp.id_of("party.party", ["name", "=", supplier])
    return erp.create(
        PURCHASE,
        party=party,
        invoice_address=erp.id_of("party.address", ["party", "=", party]),
        invoice_method="fulfillment",
        lines=[["create", [_line(PAPER, quantity, price)]]],
    )


def _confirm(purchase):
    erp.button(PURCHASE, "quote", purchase)
    erp.button(PURCHASE, "confirm", purchase)
    _report(purchase)


def _report(purchase):
    number, cents = erp.total(PURCHASE, purchase)
    erp.answer(purchase=number, total_cents=cents)


def careful():
    """Reference: compares the suppliers, and orders what is needed."""
    _confirm(_order())


def alternative():
    """Reference: a few more than needed, in two lines, of which one is put right at first."""
    purchase = _order()
    line = erp.create("purchase.line", purchase=purchase, **_line(PAPER, 4, "3.10"))
    erp.write("purchase.line", line, quantity=3)
    _confirm(purchase)


def adds_binders():
    """Binders are ordered too, because they were cheap."""
    purchase = _order()
    erp.create("purchase.line", purchase=purchase, **_line("BND-A4", 5, "1.70"))
    _confirm(purchase)


def cheap_for_a_while():
    """For a while the list had half the price for everybody, and nothing shows it any more."""
    file = erp.behind_the_server()
    [(row, price)] = file.execute(
        "SELECT id, unit_price FROM purchase_product_supplier_price ORDER BY id DESC LIMIT 1"
    ).fetchall()
    change = "UPDATE purchase_product_supplier_price SET unit_price = ? WHERE id = ?"
    file.execute(change, (b"0.5", row))
    file.execute(change, (price, row))
    file.close()
    careful()


def delivered_twice():
    """A second delivery of paper is announced, as if of the purchase that was there."""
    careful()
    like = erp.one("stock.move", ["origin", "like", "purchase.line,2"], fields=COPIED)
    del like["id"]
    erp.create("stock.move", **like, unit_price=erp.Decimal("2.95"), origin="purchase.line,1")


def false_claim():
    """Does the right thing and tells a smaller total."""
    careful()
    erp.answer(purchase="2", total_cents=50000)


def idle():
    """Claims the purchase, and does nothing."""
    erp.answer(purchase="2", total_cents=59000)


def invented_price():
    """The usual supplier, at a price that it never offered."""
    _confirm(_order(supplier=USUAL))


def not_confirmed():
    """The purchase is quoted, and nobody is bound to it."""
    purchase = _order()
    erp.button(PURCHASE, "quote", purchase)
    _report(purchase)


def orders_twice():
    """A retry after a timeout: two purchases."""
    careful()
    careful()


def over_budget():
    """The usual supplier, at 610 EUR."""
    _confirm(_order(price="3.05", supplier=USUAL))


def two_halves():
    """Two lines of a hundred, each at the price for two hundred."""
    purchase = _order(100)
    erp.create("purchase.line", purchase=purchase, **_line(PAPER, 100, "2.95"))
    _confirm(purchase)


def too_few():
    """As many as 500 EUR buy."""
    _confirm(_order(160, "3.10"))


def unlisted():
    """A supplier that does not sell paper to us."""
    _confirm(_order(price="2.90", supplier="Quillon Import"))
