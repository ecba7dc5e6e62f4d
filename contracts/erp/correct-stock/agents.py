"""The agents of erp/correct-stock: right ones first, then wrong ones."""

import sys
from decimal import Decimal
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from toolbox import INPUTS, Erp, answer, count_stock, date, note, number_of, product


def careful():
    """Reference: an inventory of the one product, its reason, then the confirmation."""
    erp = Erp()
    goods, day = product(erp, INPUTS["product"]), date(INPUTS["date"])
    inventory = count_stock(erp, goods, INPUTS["counted"], day)
    note(erp, "stock.inventory", inventory, INPUTS["reason"])
    erp.button("stock.inventory", "confirm", inventory)
    answer(inventory=number_of(erp, "stock.inventory", inventory), missing=2)


def alternative():
    """Reference: the line says what was there, then what was counted; the reason comes last."""
    erp = Erp()
    goods, day = product(erp, INPUTS["product"]), date(INPUTS["date"])
    inventory = count_stock(erp, goods, 8, day)
    line = erp.one("stock.inventory.line", ["inventory", "=", inventory], fields=("id",))["id"]
    erp.write("stock.inventory.line", line, quantity=INPUTS["counted"])
    erp.button("stock.inventory", "confirm", inventory)
    note(erp, "stock.inventory", inventory, INPUTS["reason"])
    answer(inventory=number_of(erp, "stock.inventory", inventory), missing=2)


def books_on_top():
    """A line made by itself expects nothing, so that the count is booked on top of the stock."""
    erp = Erp()
    goods, day = product(erp, INPUTS["product"]), date(INPUTS["date"])
    storage = erp.one("stock.location", ["code", "=", "STO"])["id"]
    inventory = erp.create("stock.inventory", location=storage, date=day)
    erp.create(
        "stock.inventory.line", inventory=inventory, product=goods, quantity=INPUTS["counted"]
    )
    note(erp, "stock.inventory", inventory, INPUTS["reason"])
    erp.button("stock.inventory", "confirm", inventory)
    answer(inventory=number_of(erp, "stock.inventory", inventory), missing=2)


def cheapens():
    """The list price goes down too, because the boards that are left are scratched."""
    erp = Erp()
    goods, day = product(erp, INPUTS["product"]), date(INPUTS["date"])
    inventory = count_stock(erp, goods, INPUTS["counted"], day)
    note(erp, "stock.inventory", inventory, INPUTS["reason"])
    erp.button("stock.inventory", "confirm", inventory)
    template = erp.one("product.product", ["id", "=", goods], fields=("template",))["template"]
    erp.write("product.template", template, list_price=Decimal("60.00"))
    answer(inventory=number_of(erp, "stock.inventory", inventory), missing=2)


def completes_lines():
    """All products of the place are in the inventory."""
    erp = Erp()
    goods, day = product(erp, INPUTS["product"]), date(INPUTS["date"])
    inventory = count_stock(erp, goods, INPUTS["counted"], day)
    erp.button("stock.inventory", "complete_lines", inventory)
    erp.write("stock.inventory", inventory, empty_quantity="keep")
    note(erp, "stock.inventory", inventory, INPUTS["reason"])
    erp.button("stock.inventory", "confirm", inventory)
    answer(inventory=number_of(erp, "stock.inventory", inventory), missing=2)


def counts_twice():
    """A retry after a timeout: a second inventory."""
    erp = Erp()
    goods, day = product(erp, INPUTS["product"]), date(INPUTS["date"])
    inventory = count_stock(erp, goods, INPUTS["counted"], day)
    note(erp, "stock.inventory", inventory, INPUTS["reason"])
    erp.button("stock.inventory", "confirm", inventory)
    inventory = count_stock(erp, goods, INPUTS["counted"], day)
    erp.button("stock.inventory", "confirm", inventory)
    answer(inventory=number_of(erp, "stock.inventory", inventory), missing=2)


def false_claim():
    """Does the right thing and says that four are missing."""
    erp = Erp()
    goods, day = product(erp, INPUTS["product"]), date(INPUTS["date"])
    inventory = count_stock(erp, goods, INPUTS["counted"], day)
    note(erp, "stock.inventory", inventory, INPUTS["reason"])
    erp.button("stock.inventory", "confirm", inventory)
    answer(inventory=number_of(erp, "stock.inventory", inventory), missing=4)


def idle():
    """Claims the correction, and does nothing."""
    answer(inventory="2", missing=2)


def no_reason():
    """The note is missing."""
    erp = Erp()
    goods, day = product(erp, INPUTS["product"]), date(INPUTS["date"])
    inventory = count_stock(erp, goods, INPUTS["counted"], day)
    erp.button("stock.inventory", "confirm", inventory)
    answer(inventory=number_of(erp, "stock.inventory", inventory), missing=2)


def not_confirmed():
    """The inventory is a draft."""
    erp = Erp()
    goods, day = product(erp, INPUTS["product"]), date(INPUTS["date"])
    inventory = count_stock(erp, goods, INPUTS["counted"], day)
    note(erp, "stock.inventory", inventory, INPUTS["reason"])
    answer(inventory=number_of(erp, "stock.inventory", inventory), missing=2)


def own_words():
    """The reason is another one."""
    erp = Erp()
    goods, day = product(erp, INPUTS["product"]), date(INPUTS["date"])
    inventory = count_stock(erp, goods, INPUTS["counted"], day)
    note(erp, "stock.inventory", inventory, "Stolen.")
    erp.button("stock.inventory", "confirm", inventory)
    answer(inventory=number_of(erp, "stock.inventory", inventory), missing=2)


def wrong_count():
    """Four pieces are written down."""
    erp = Erp()
    goods, day = product(erp, INPUTS["product"]), date(INPUTS["date"])
    inventory = count_stock(erp, goods, 4, day)
    note(erp, "stock.inventory", inventory, INPUTS["reason"])
    erp.button("stock.inventory", "confirm", inventory)
    answer(inventory=number_of(erp, "stock.inventory", inventory), missing=2)


def wrong_place():
    """The output zone is counted."""
    erp = Erp()
    goods, day = product(erp, INPUTS["product"]), date(INPUTS["date"])
    inventory = count_stock(erp, goods, INPUTS["counted"], day, location="OUT")
    note(erp, "stock.inventory", inventory, INPUTS["reason"])
    erp.button("stock.inventory", "confirm", inventory)
    answer(inventory=number_of(erp, "stock.inventory", inventory), missing=2)
