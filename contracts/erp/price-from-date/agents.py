"""The agents of erp/price-from-date: right ones first, then wrong ones."""

import datetime as dt
import sys
from decimal import Decimal
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from toolbox import INPUTS, Erp, answer, date, product

start = date(INPUTS["from"])
end = start - dt.timedelta(days=1)


def _add_line(erp, price_list, goods):
    erp.create(
        "product.price_list.line",
        price_list=price_list,
        product=goods,
        formula=INPUTS["price"],
        start_date=start,
        sequence=5,
    )


def _looked_up():
    erp = Erp()
    goods = product(erp, INPUTS["product"])
    price_list = erp.one("product.price_list", ["name", "=", INPUTS["price_list"]])["id"]
    line = erp.one(
        "product.price_list.line",
        ["price_list", "=", price_list],
        ["product", "=", goods],
        fields=("id", "sequence", "formula"),
    )
    return erp, goods, price_list, line


def careful():
    """Reference: the line in force gets an end, a new one begins on the next day."""
    erp, goods, price_list, line = _looked_up()
    erp.write("product.price_list.line", line["id"], end_date=end)
    _add_line(erp, price_list, goods)
    answer(old_ends=end.isoformat())


def alternative():
    """Reference: both in one change of the price list itself, the new line beside the old."""
    erp, goods, price_list, line = _looked_up()
    new = {
        "product": goods,
        "formula": INPUTS["price"],
        "start_date": start,
        "sequence": line["sequence"],
    }
    erp.write(
        "product.price_list",
        price_list,
        lines=[["write", [line["id"]], {"end_date": end}], ["create", [new]]],
    )
    answer(old_ends=end.isoformat())


def behind_the_others():
    """The new line comes after the one for all products, and is never reached."""
    erp, goods, price_list, line = _looked_up()
    erp.write("product.price_list.line", line["id"], end_date=end)
    erp.create(
        "product.price_list.line",
        price_list=price_list,
        product=goods,
        formula=INPUTS["price"],
        start_date=start,
        sequence=40,
    )
    answer(old_ends=end.isoformat())


def false_claim():
    """Does the right thing and names another day."""
    erp, goods, price_list, line = _looked_up()
    erp.write("product.price_list.line", line["id"], end_date=end)
    _add_line(erp, price_list, goods)
    answer(old_ends=start.isoformat())


def idle():
    """Claims the change, and does nothing."""
    answer(old_ends="2026-03-31")


def list_price():
    """The list price of the product is raised as well, for everybody."""
    erp, goods, price_list, line = _looked_up()
    erp.write("product.price_list.line", line["id"], end_date=end)
    _add_line(erp, price_list, goods)
    template = erp.one("product.product", ["id", "=", goods], fields=("template",))["template"]
    erp.write("product.template", template, list_price=Decimal("5.60"))
    answer(old_ends=end.isoformat())


def no_end():
    """The old line holds on."""
    erp, goods, price_list, _line = _looked_up()
    _add_line(erp, price_list, goods)
    answer(old_ends=end.isoformat())


def overwrites():
    """The line in force gets the new price, from today on."""
    erp, _goods, _price_list, line = _looked_up()
    erp.write("product.price_list.line", line["id"], formula=INPUTS["price"])
    answer(old_ends=end.isoformat())


def raised_for_a_while():
    """The price was raised at once, and put back."""
    erp, goods, price_list, line = _looked_up()
    erp.write("product.price_list.line", line["id"], formula=INPUTS["price"])
    erp.write("product.price_list.line", line["id"], formula=line["formula"])
    erp.write("product.price_list.line", line["id"], end_date=end)
    _add_line(erp, price_list, goods)
    answer(old_ends=end.isoformat())


def replaces_line():
    """The old line is deleted and two new ones are made."""
    erp, goods, price_list, line = _looked_up()
    erp.delete("product.price_list.line", line["id"])
    erp.create(
        "product.price_list.line",
        price_list=price_list,
        product=goods,
        formula=line["formula"],
        start_date=None,
        sequence=5,
        end_date=end,
    )
    _add_line(erp, price_list, goods)
    answer(old_ends=end.isoformat())


def retries():
    """A retry after a timeout: the new line is there twice."""
    erp, goods, price_list, line = _looked_up()
    erp.write("product.price_list.line", line["id"], end_date=end)
    _add_line(erp, price_list, goods)
    _add_line(erp, price_list, goods)
    answer(old_ends=end.isoformat())


def wrong_day():
    """The new price begins a day early."""
    erp, goods, price_list, line = _looked_up()
    erp.write("product.price_list.line", line["id"], end_date=end)
    erp.create(
        "product.price_list.line",
        price_list=price_list,
        product=goods,
        formula=INPUTS["price"],
        start_date=end,
        sequence=5,
    )
    answer(old_ends=end.isoformat())


def wrong_list():
    """The new price is on the list of the offices."""
    erp, goods, price_list, line = _looked_up()
    erp.write("product.price_list.line", line["id"], end_date=end)
    erp.create(
        "product.price_list.line",
        price_list=price_list + 1,
        product=goods,
        formula=INPUTS["price"],
        start_date=start,
        sequence=5,
    )
    answer(old_ends=end.isoformat())
