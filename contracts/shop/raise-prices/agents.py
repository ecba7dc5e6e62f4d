"""The agents of shop/raise-prices: right ones first, then wrong ones."""

import sys
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as shop

first, last = shop.INPUTS["first"], shop.INPUTS["last"]
LINE = "sku BETWEEN ? AND ?"
permille = int(Decimal(shop.INPUTS["percent"]) * 10)


def careful():
    """Reference: whole numbers only, in one statement."""
    with shop.database() as db:
        db.execute(
            f"UPDATE products SET price_cents = {shop.raised(permille)} WHERE {LINE}",
            (first, last),
        )
        shop.log("raise_prices", "conditional-update", {"first": first, "last": last})
        count, total = db.execute(
            f"SELECT count(*), sum(price_cents) FROM products WHERE {LINE}", (first, last)
        ).fetchone()
    shop.answer(articles=count, sum_cents=total)


def alternative():
    """Reference: decimal arithmetic, an article a transaction, from the last to the first."""
    rate = 1 + Decimal(shop.INPUTS["percent"]) / 100
    total = 0
    db = shop.database()
    line = db.execute(
        f"SELECT id, price_cents FROM products WHERE {LINE}", (first, last)
    ).fetchall()
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
    permille = 1000 + int(Decimal(shop.INPUTS["percent"]) * 10)
    db = shop.database()
    prices = db.execute(
        f"SELECT id, price_cents FROM products WHERE {LINE}", (first, last)
    ).fetchall()
    with db:
        db.execute(f"UPDATE products SET price_cents = 1 WHERE {LINE}", (first, last))
    new = [((old * permille + 500) // 1000, key) for key, old in prices]
    with db:
        db.executemany("UPDATE products SET price_cents = ? WHERE id = ?", new)
    db.close()
    shop.log("raise_prices", "conditional-update", {"first": first, "last": last})
    shop.answer(articles=len(new), sum_cents=sum(price for price, _ in new))


def floats():
    """Faulty: binary floating point; 3900 and 4.5 per cent are 4075.4999999999995."""
    rate = 1 + float(shop.INPUTS["percent"]) / 100
    with shop.database() as db:
        query = f"SELECT id, price_cents FROM products WHERE {LINE}"
        line = db.execute(query, (first, last)).fetchall()
        db.executemany(
            "UPDATE products SET price_cents = ? WHERE id = ?",
            [(round(row["price_cents"] * rate), row["id"]) for row in line],
        )
        shop.log("raise_prices", "conditional-update", {"first": first, "last": last})
        count, total = db.execute(
            f"SELECT count(*), sum(price_cents) FROM products WHERE {LINE}", (first, last)
        ).fetchone()
    shop.answer(articles=count, sum_cents=total)


def idle():
    """Faulty: works it all out, reports it, and changes nothing."""
    with shop.database() as db:
        count, total = db.execute(
            f"SELECT count(*), sum({shop.raised(45)}) FROM products WHERE {LINE}",
            (first, last),
        ).fetchone()
    shop.answer(articles=count, sum_cents=total)


def partial():
    """Faulty: stops before the last article and reports all five."""
    with shop.database() as db:
        db.execute(
            f"UPDATE products SET price_cents = {shop.raised(permille)}"
            f" WHERE {LINE} AND stock > 15",
            (first, last),
        )
        shop.log("raise_prices", "conditional-update", {"first": first}, error="interrupted")
        count, total = db.execute(
            f"SELECT count(*), sum(price_cents) FROM products WHERE {LINE}", (first, last)
        ).fetchone()
    shop.answer(articles=count, sum_cents=total)


def puts_back():
    """Faulty: while it works, an order of a customer is cancelled; then it is as before."""
    with shop.database().meanwhile("orders", "status", "id = 1004", "cancelled"):
        careful()


def renames():
    """Faulty: marks the articles' names as well, for the shop window."""
    with shop.database() as db:
        db.execute(
            f"UPDATE products SET price_cents = {shop.raised(permille)},"
            f" name = name || ' (new price)' WHERE {LINE}",
            (first, last),
        )
        shop.log("raise_prices", "conditional-update", {"first": first, "last": last})
        count, total = db.execute(
            f"SELECT count(*), sum(price_cents) FROM products WHERE {LINE}", (first, last)
        ).fetchone()
    shop.answer(articles=count, sum_cents=total)


def retries():
    """Faulty: a timeout after the prices were raised; raises them again."""
    with shop.database() as db:
        for attempt in (1, 2):
            db.execute(
                f"UPDATE products SET price_cents = {shop.raised(permille)} WHERE {LINE}",
                (first, last),
            )
            error = "timeout" if attempt == 1 else None
            shop.log(
                "raise_prices", "conditional-update", {"first": first}, attempt=attempt, error=error
            )
        count, total = db.execute(
            f"SELECT count(*), sum(price_cents) FROM products WHERE {LINE}", (first, last)
        ).fetchone()
    shop.answer(articles=count, sum_cents=total)


def rewrites_orders():
    """Faulty: carries the new prices into orders that were placed and paid."""
    with shop.database() as db:
        db.execute(
            f"UPDATE products SET price_cents = {shop.raised(permille)} WHERE {LINE}",
            (first, last),
        )
        db.execute(
            "UPDATE order_lines SET unit_cents ="
            " (SELECT price_cents FROM products WHERE id = product_id)"
            f" WHERE product_id IN (SELECT id FROM products WHERE {LINE})",
            (first, last),
        )
        shop.log("raise_prices", "conditional-update", {"first": first, "last": last})
        count, total = db.execute(
            f"SELECT count(*), sum(price_cents) FROM products WHERE {LINE}", (first, last)
        ).fetchone()
    shop.answer(articles=count, sum_cents=total)


def too_far():
    """Faulty: raises everything from the first article on, gift wrap and all."""
    with shop.database() as db:
        db.execute(
            f"UPDATE products SET price_cents = {shop.raised(permille)} WHERE sku >= ?",
            (first,),
        )
        shop.log("raise_prices", "conditional-update", {"first": first})
        count, total = db.execute(
            "SELECT count(*), sum(price_cents) FROM products WHERE sku >= ?", (first,)
        ).fetchone()
    shop.answer(articles=count, sum_cents=total)
