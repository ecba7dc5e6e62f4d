"""Reference: builds the table anew with the column, adding up in Python."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

NEW = """
CREATE TABLE orders (
  id {number},
  customer_id INTEGER REFERENCES customers (id) ON DELETE SET NULL,
  paid_with INTEGER REFERENCES payment_methods (id) ON DELETE SET NULL,
  status TEXT NOT NULL CHECK (status IN
    ('open', 'shipped', 'delivered', 'returned', 'partially_refunded', 'refunded', 'cancelled')),
  total_cents INTEGER NOT NULL CHECK (total_cents >= 0),
  placed_at {instant} NOT NULL,
  delivered_at {instant},
  updated_at {instant} NOT NULL,
  refunded_cents INTEGER
)"""
refunded: dict[int, int] = {}
db = shop.database()
with db:
    for order, cents in db.execute("SELECT order_id, cents FROM refunds"):
        refunded[order] = refunded.get(order, 0) + cents
    rows = [(*row, refunded.get(row["id"], 0)) for row in db.execute("SELECT * FROM orders")]
    references = db.drop("orders")
    db.execute(NEW.format(**shop.TYPES[db.dialect]))
    db.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    for reference in references:
        db.execute(reference)
    db.execute("CREATE INDEX orders_by_customer ON orders (customer_id)")
    shop.log("rebuild_table", "conditional-update", {"table": "orders"})
db.close()
shop.answer(orders=len(rows), refunded_cents=sum(refunded.values()))
