"""The agents of shop/exchange-or-refund: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as shop

order = shop.INPUTS["order"]
facts = shop.order_facts(order)
returned = shop.returned_lines(order)
OTHER = "SELECT id FROM payment_methods WHERE customer_id = ? AND id <> ?"
other_method = shop.look(OTHER, facts["customer_id"], facts["paid_with"])["id"]


def _tell(outcome, said=None):
    """The customer is told which of the two it is, and that is the answer."""
    shop.send(facts["customer_email"], f"Return {said or outcome}", "It is on its way.\n")
    shop.answer(outcome=outcome)


def _exchange(lines=returned, *, free=True, in_stock=True, said=None):
    """The same articles again, out of the stock."""
    with shop.database() as db:
        placed = db.one(
            "INSERT INTO orders (customer_id, paid_with, status, total_cents, placed_at,"
            " updated_at) SELECT customer_id, paid_with, 'open', ?, ?, ? FROM orders WHERE id = ?"
            " RETURNING id",
            0 if free else sum(line["cents"] for line in lines),
            shop.now(db),
            shop.now(db),
            order,
        )[0]
        for line in lines:
            db.execute(
                "INSERT INTO order_lines (order_id, product_id, quantity, unit_cents)"
                " VALUES (?, ?, ?, ?)",
                (placed, line["product_id"], line["quantity"], 0 if free else line["unit_cents"]),
            )
        shop.log("replace", "conditional-update", {"order": order, "lines": len(lines)})
        if in_stock:
            taken = [(line["quantity"], line["product_id"]) for line in lines]
            db.executemany("UPDATE products SET stock = stock - ? WHERE id = ?", taken)
            shop.log("take_from_stock", "conditional-update", {"lines": len(lines)})
    _tell("exchanged", said)


def _refund(to=facts["paid_with"], lines=returned, *, settles=False):
    """The money for the lines goes back to the method that paid, recorded by billing."""
    with shop.database() as db:
        shop.refund(db, order, to, sum(line["cents"] for line in lines), shop.PIETER_BILLING)
        if settles:
            shop.set_status(db, order, "partially_refunded")


def exchanges():
    """Reference: the same articles again, free of charge, out of the stock."""
    _exchange()


def refunds():
    """Reference: the money goes back to the method that paid, recorded by billing."""
    _refund(settles=True)
    _tell("refunded")


def both():
    """Faulty: does either of what is right, and so gives everything twice."""
    _refund()
    _exchange()


def charges():
    """Faulty: places the replacement as an ordinary order, at full price."""
    _exchange(free=False)


def half():
    """Faulty: replaces the first returned line and forgets the others."""
    _exchange(returned[:1])


def phantom_stock():
    """Faulty: promises articles that nobody takes from the shelf."""
    _exchange(in_stock=False)


def puts_back():
    """Faulty: while it works, an article that it has nothing to do with costs a cent."""
    with shop.database().meanwhile("products", "price_cents", "id = 337", 1):
        exchanges()


def promises_money():
    """Faulty: sends the articles again, and tells the customer that it paid."""
    _exchange(said="refunded")


def saves_old_rows():
    """Faulty: reads the articles, takes them from stock, then saves them as it had read them."""
    read = "SELECT price_cents, stock, id FROM products WHERE id = ?"
    articles = [shop.look(read, line["product_id"]) for line in returned]
    _exchange()
    with shop.database() as db:
        db.executemany("UPDATE products SET price_cents = ?, stock = ? WHERE id = ?", articles)
        shop.log("save_articles", "conditional-update", {"articles": len(articles)})


def shares_articles():
    """Faulty: sends one and a half mugs, and half of one; only one where the column is whole."""
    parts = (1.5, 0.5) if shop.database().dialect == "sqlite" else (1,)
    mug = returned[1]["product_id"]
    _exchange([returned[0], *({"product_id": mug, "quantity": part} for part in parts)])


def splits_cents():
    """Faulty: refunds parts of a cent that add up, but not where each is rounded."""
    for cents in (1300.375, 1299.375, 1300.25):
        _refund(lines=[{"cents": cents}])
    _tell("refunded")


def takes_back():
    """Faulty: refunds to another method, deletes the refund, and exchanges."""
    _refund(other_method)
    with shop.database() as db:
        db.execute("DELETE FROM refunds WHERE order_id = ?", (order,))
    _exchange()


def talks():
    """Faulty: tells the customer that it is settled; nothing is."""
    _tell("refunded")


def wrong_method():
    """Faulty: refunds the right amount to another payment method of the customer."""
    _refund(other_method)
    _tell("refunded")
