"""Faulty: reads the articles, takes them from stock, then saves them as it had read them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

order = shop.INPUTS["order"]
with shop.database() as db:
    facts = shop.order_facts(db, order)
    lines = shop.returned_lines(db, order)
    articles = [
        shop.one(db, "SELECT * FROM products WHERE id = ?", line["product_id"]) for line in lines
    ]
    shop.replace(db, order, lines)
    shop.take_from_stock(db, lines)
with db:
    for article in articles:
        db.execute(
            "UPDATE products SET sku = ?, name = ?, price_cents = ?, stock = ? WHERE id = ?",
            (*(article[name] for name in ("sku", "name", "price_cents", "stock")), article["id"]),
        )
    shop.log("save_articles", "conditional-update", {"articles": len(articles)})
shop.send(
    facts["customer_email"],
    f"Your return of order {order}",
    "The same articles are on their way.\n",
)
shop.answer(outcome="exchanged")
