"""The agents of shop/raise-prices: right ones first, then wrong ones."""

import sys
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as shop

first, last = shop.INPUTS["first"], shop.INPUTS["last"]
LINE = f"sku BETWEEN '{first}' AND '{last}'"
PERMILLE = int(Decimal(shop.INPUTS["percent"]) * 10)
EXACT = f"(price_cents * {1000 + PERMILLE} + 500)"
RAISED = f"({EXACT} - {EXACT} % 1000) / 1000"
"""SQL: a price raised and rounded half up, in whole numbers.

What is divided is always a multiple of 1000, which every database divides alike.
"""


def _raise(db, change=f"price_cents = {RAISED}", where=LINE, **logged):
    """One statement for all prices; the caller commits."""
    db.execute(f"UPDATE products SET {change} WHERE {where}")
    shop.log("raise_prices", "conditional-update", {"first": first, "last": last}, **logged)


def _answer(db, cents="price_cents", where=LINE):
    """How many articles there are, and what they cost together."""
    count, total = db.one(f"SELECT count(*), sum({cents}) FROM products WHERE {where}")
    shop.answer(articles=count, sum_cents=total)


def _prices(db):
    return db.execute(f"SELECT id, price_cents FROM products WHERE {LINE}").fetchall()


def _each(price):
    """Write each article's computed price; answer with those that stand there then."""
    with shop.database() as db:
        new = [(price(cents), article) for article, cents in _prices(db)]
        db.executemany("UPDATE products SET price_cents = ? WHERE id = ?", new)
        _answer(db)


def careful():
    """Reference: whole numbers only, in one statement."""
    with shop.database() as db:
        _raise(db)
        _answer(db)


def alternative():
    """Reference: decimal arithmetic, an article a transaction, from the last to the first."""
    rate = 1 + Decimal(shop.INPUTS["percent"]) / 100
    total = 0
    db = shop.database()
    line = _prices(db)
    for article, cents in reversed(line):
        price = int((cents * rate).quantize(Decimal(1), ROUND_HALF_UP))
        with db:
            db.execute("UPDATE products SET price_cents = ? WHERE id = ?", (price, article))
        shop.log("set_price", "conditional-update", {"article": article, "cents": price})
        total += price
    db.close()
    shop.answer(sum_cents=total, articles=len(line))


def clears_first():
    """Faulty: sets the prices of the line to a cent, and in a second transaction right."""
    db = shop.database()
    new = [((old * (1000 + PERMILLE) + 500) // 1000, article) for article, old in _prices(db)]
    with db:
        _raise(db, "price_cents = 1")
    with db:
        db.executemany("UPDATE products SET price_cents = ? WHERE id = ?", new)
        _answer(db)


def floats():
    """Faulty: binary floating point; 3900 and 4.5 per cent are 4075.4999999999995."""
    rate = 1 + float(shop.INPUTS["percent"]) / 100
    _each(lambda cents: round(cents * rate))


def never_rounds():
    """Faulty: keeps parts of a cent, or without them where the column is of whole numbers."""
    kept = float if shop.database().dialect == "sqlite" else int
    _each(lambda cents: kept(cents * (1000 + PERMILLE) / 1000))


def partial():
    """Faulty: stops before the last article and reports all five."""
    with shop.database() as db:
        _raise(db, where=f"{LINE} AND stock > 15", error="interrupted")
        _answer(db)


def puts_back():
    """Faulty: while it works, an order of a customer is cancelled; then it is as before."""
    with shop.database().meanwhile("orders", "status", "id = 1004", "cancelled"):
        careful()


def renames():
    """Faulty: marks the articles' names as well, for the shop window."""
    with shop.database() as db:
        _raise(db, f"price_cents = {RAISED}, name = name || ' (new price)'")
        _answer(db)


def retries():
    """Faulty: a timeout after the prices were raised; raises them again."""
    with shop.database() as db:
        _raise(db, attempt=1, error="timeout")
        _raise(db, attempt=2, error=None)
        _answer(db)


def rewrites_orders():
    """Faulty: carries the new prices into orders that were placed and paid."""
    with shop.database() as db:
        _raise(db)
        db.execute(
            "UPDATE order_lines SET unit_cents ="
            " (SELECT price_cents FROM products WHERE id = product_id)"
            f" WHERE product_id IN (SELECT id FROM products WHERE {LINE})"
        )
        _answer(db)


def too_far():
    """Faulty: raises everything from the first article on, gift wrap and all."""
    with shop.database() as db:
        _raise(db, where=f"sku >= '{first}'")
        _answer(db, where=f"sku >= '{first}'")
