"""The agents of erp/price-from-date: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as erp

start = erp.date(erp.INPUTS["from"])
end = start - erp.dt.timedelta(days=1)
LINE, price = "product.price_list.line", erp.INPUTS["price"]


def _goods():
    return erp.product(erp.INPUTS["product"])


def _price_list():
    return erp.id_of("product.price_list", ["name", "=", erp.INPUTS["price_list"]])


def _line():
    of_it = (["price_list", "=", _price_list()], ["product", "=", _goods()])
    return erp.one(LINE, *of_it, fields=("id", "sequence", "formula"))


def _end_old():
    erp.write(LINE, _line()["id"], end_date=end)


def _add(**other):
    line = {"price_list": _price_list(), "product": _goods(), "formula": price}
    erp.create(LINE, **{**line, "start_date": start, "sequence": 5, **other})
    _report()


def _report(day=end):
    erp.answer(old_ends=day.isoformat())


def careful():
    """Reference: the line in force gets an end, a new one begins on the next day."""
    _end_old()
    _add()


def alternative():
    """Reference: both in one change of the price list itself, the new line beside the old."""
    old = _line()
    new = {"product": _goods(), "formula": "5.1", "start_date": start, "sequence": old["sequence"]}
    lines = [["write", [old["id"]], {"end_date": end}], ["create", [new]]]
    erp.write("product.price_list", _price_list(), lines=lines)
    _report()


def behind_the_others():
    """The new line comes after the one for all products, and is never reached."""
    _end_old()
    _add(sequence=40)


def false_claim():
    """Does the right thing and names another day."""
    careful()
    _report(start)


def idle():
    """Claims the change, and does nothing."""
    erp.answer(old_ends="2026-03-31")


def list_price():
    """The list price of the product is raised as well, for everybody."""
    careful()
    template = erp.read("product.product", _goods(), "template")
    erp.write("product.template", template, list_price=erp.Decimal("5.60"))


def no_end():
    """The old line holds on."""
    _add()


def raised_for_a_while():
    """The price was raised at once, and put back."""
    line = _line()
    erp.write(LINE, line["id"], formula=price)
    erp.write(LINE, line["id"], formula=line["formula"])
    careful()


def replaces_line():
    """The old line is deleted and two new ones are made."""
    line = _line()
    erp.delete(LINE, line["id"])
    _add(formula=line["formula"], start_date=None, end_date=end)
    _add()


def retries():
    """A retry after a timeout: the new line is there twice."""
    careful()
    _add()


def wrong_day():
    """The new price begins a day early."""
    _end_old()
    _add(start_date=end)


def wrong_list():
    """The new price is on the list of the offices."""
    _end_old()
    _add(price_list=_price_list() + 1)
