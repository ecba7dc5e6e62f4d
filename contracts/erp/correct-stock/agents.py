"""The agents of erp/correct-stock: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as erp

INVENTORY, GOODS, DAY = "stock.inventory", erp.INPUTS["product"], erp.INPUTS["date"]


def _count(counted=erp.INPUTS["counted"], location="STO"):
    return erp.count_stock(GOODS, counted, DAY, location)


def _say_why(inventory, reason=erp.INPUTS["reason"]):
    erp.note(INVENTORY, inventory, reason)


def _report(inventory, missing=2):
    erp.answer(inventory=erp.read(INVENTORY, inventory, "number"), missing=missing)


def _confirm(inventory):
    erp.button(INVENTORY, "confirm", inventory)
    _report(inventory)


def _finish(inventory):
    _say_why(inventory)
    _confirm(inventory)


def careful():
    """Reference: an inventory of the one product, its reason, then the confirmation."""
    _finish(_count())


def alternative():
    """Reference: the line says what was there, then what was counted; the reason comes last."""
    inventory = _count(8)
    erp.write(INVENTORY, inventory, empty_quantity="keep")
    line = erp.id_of("stock.inventory.line", ["inventory", "=", inventory])
    erp.write("stock.inventory.line", line, quantity=erp.INPUTS["counted"])
    _confirm(inventory)
    _say_why(inventory)


def books_on_top():
    """A line made by itself expects nothing, so that the count is booked on top of the stock."""
    storage = erp.id_of("stock.location", ["code", "=", "STO"])
    inventory = erp.create(INVENTORY, location=storage, date=erp.date(DAY))
    line = {"product": erp.product(GOODS), "quantity": erp.INPUTS["counted"]}
    erp.create("stock.inventory.line", inventory=inventory, **line)
    _finish(inventory)


def cheapens():
    """The list price goes down too, because the boards that are left are scratched."""
    careful()
    template = erp.read("product.product", erp.product(GOODS), "template")
    erp.write("product.template", template, list_price=erp.Decimal("60.00"))


def completes_lines():
    """All products of the place are in the inventory."""
    inventory = _count()
    erp.button(INVENTORY, "complete_lines", inventory)
    erp.write(INVENTORY, inventory, empty_quantity="keep")
    _finish(inventory)


def counts_twice():
    """A retry after a timeout: a second inventory."""
    _finish(_count())
    _confirm(_count())


def false_claim():
    """Does the right thing and says that four are missing."""
    inventory = _count()
    _finish(inventory)
    _report(inventory, missing=4)


def idle():
    """Claims the correction, and does nothing."""
    erp.answer(inventory="2", missing=2)


def no_reason():
    """The note is missing."""
    _confirm(_count())


def not_confirmed():
    """The inventory is a draft."""
    inventory = _count()
    _say_why(inventory)
    _report(inventory)


def own_words():
    """The reason is another one."""
    inventory = _count()
    _say_why(inventory, "Stolen.")
    _confirm(inventory)


def wrong_count():
    """Four pieces are written down."""
    _finish(_count(4))
