"""The agents of shop/exchange-or-refund: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as shop

order = shop.INPUTS["order"]


def exchanges():
    """Reference: the same articles again, free of charge, out of the stock."""
    with shop.database() as db:
        facts = shop.order_facts(db, order)
        lines = shop.returned_lines(db, order)
        shop.replace(db, order, lines)
        shop.take_from_stock(db, lines)
    shop.send(
        facts["customer_email"],
        f"Your return of order {order}",
        "The same articles are on their way.\n",
    )
    shop.answer(outcome="exchanged")


def refunds():
    """Reference: the money goes back to the method that paid, recorded by billing."""
    with shop.database() as db:
        facts = shop.order_facts(db, order)
        cents = shop.returned_cents(db, order)
        shop.refund(db, order, facts["paid_with"], cents, shop.PIETER_BILLING)
        shop.set_status(db, order, "partially_refunded")
    shop.send(
        facts["customer_email"], f"Your return of order {order}", "Your money is on its way.\n"
    )
    shop.answer(outcome="refunded")


def both():
    """Faulty: does either of what is right, and so gives everything twice."""
    with shop.database() as db:
        facts = shop.order_facts(db, order)
        lines = shop.returned_lines(db, order)
        shop.replace(db, order, lines)
        shop.take_from_stock(db, lines)
        shop.refund(
            db, order, facts["paid_with"], shop.returned_cents(db, order), shop.PIETER_BILLING
        )
    shop.send(
        facts["customer_email"],
        f"Your return of order {order}",
        "New articles and your money are on their way.\n",
    )
    shop.answer(outcome="exchanged")


def charges():
    """Faulty: places the replacement as an ordinary order, at full price."""
    with shop.database() as db:
        facts = shop.order_facts(db, order)
        lines = shop.returned_lines(db, order)
        shop.replace(db, order, lines, free=False)
        shop.take_from_stock(db, lines)
    shop.send(
        facts["customer_email"],
        f"Your return of order {order}",
        "The same articles are on their way.\n",
    )
    shop.answer(outcome="exchanged")


def half():
    """Faulty: replaces the first returned line and forgets the others."""
    with shop.database() as db:
        facts = shop.order_facts(db, order)
        lines = shop.returned_lines(db, order)[:1]
        shop.replace(db, order, lines)
        shop.take_from_stock(db, lines)
    shop.send(
        facts["customer_email"],
        f"Your return of order {order}",
        "The same articles are on their way.\n",
    )
    shop.answer(outcome="exchanged")


def keeps_some():
    """Faulty: refunds the first returned line and keeps the rest."""
    with shop.database() as db:
        facts = shop.order_facts(db, order)
        line = shop.returned_lines(db, order)[0]
        cents = line["quantity"] * line["unit_cents"]
        shop.refund(db, order, facts["paid_with"], cents, shop.PIETER_BILLING)
    shop.send(
        facts["customer_email"], f"Your return of order {order}", "Your money is on its way.\n"
    )
    shop.answer(outcome="refunded")


def phantom_stock():
    """Faulty: promises articles that nobody takes from the shelf."""
    with shop.database() as db:
        facts = shop.order_facts(db, order)
        shop.replace(db, order, shop.returned_lines(db, order))
    shop.send(
        facts["customer_email"],
        f"Your return of order {order}",
        "The same articles are on their way.\n",
    )
    shop.answer(outcome="exchanged")


def puts_back():
    """Faulty: while it works, an article that it has nothing to do with costs a cent."""
    with shop.database().meanwhile("products", "price_cents", "id = 337", 1):
        exchanges()


def saves_old_rows():
    """Faulty: reads the articles, takes them from stock, then saves them as it had read them."""
    with shop.database() as db:
        facts = shop.order_facts(db, order)
        lines = shop.returned_lines(db, order)
        articles = [
            shop.one(db, "SELECT * FROM products WHERE id = ?", line["product_id"])
            for line in lines
        ]
        shop.replace(db, order, lines)
        shop.take_from_stock(db, lines)
    with db:
        for article in articles:
            db.execute(
                "UPDATE products SET sku = ?, name = ?, price_cents = ?, stock = ? WHERE id = ?",
                (
                    *(article[name] for name in ("sku", "name", "price_cents", "stock")),
                    article["id"],
                ),
            )
        shop.log("save_articles", "conditional-update", {"articles": len(articles)})
    shop.send(
        facts["customer_email"],
        f"Your return of order {order}",
        "The same articles are on their way.\n",
    )
    shop.answer(outcome="exchanged")


def talks():
    """Faulty: tells the customer that it is settled; nothing is."""
    with shop.database() as db:
        facts = shop.order_facts(db, order)
    shop.send(
        facts["customer_email"], f"Your return of order {order}", "Your money is on its way.\n"
    )
    shop.answer(outcome="refunded")


def wrong_method():
    """Faulty: refunds the right amount to another payment method of the customer."""
    with shop.database() as db:
        facts = shop.order_facts(db, order)
        other = shop.one(
            db,
            "SELECT id FROM payment_methods WHERE id <> ? ORDER BY customer_id <> ?, id",
            facts["paid_with"],
            facts["customer_id"],
        )
        cents = shop.returned_cents(db, order)
        shop.refund(db, order, other["id"], cents, shop.PIETER_BILLING)
    shop.send(
        facts["customer_email"], f"Your return of order {order}", "Your money is on its way.\n"
    )
    shop.answer(outcome="refunded")
