"""The agents of shop/add-and-backfill-column: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as shop

REFUNDED = "(SELECT coalesce(sum(cents), 0) FROM refunds WHERE order_id = orders.id)"
TABLE = """
CREATE TABLE orders (
  id {number},
  customer_id INTEGER REFERENCES customers (id) ON DELETE SET NULL,
  paid_with INTEGER REFERENCES payment_methods (id) ON DELETE SET NULL,
  status TEXT NOT NULL{known},
  total_cents INTEGER NOT NULL{positive},
  placed_at {instant} NOT NULL,
  delivered_at {instant},
  updated_at {instant} NOT NULL,
  refunded_cents INTEGER
)"""
CHECKS = {
    "known": """ CHECK (status IN
    ('open', 'shipped', 'delivered', 'returned', 'partially_refunded', 'refunded', 'cancelled'))""",
    "positive": " CHECK (total_cents >= 0)",
}

TYPES = {
    "sqlite": {"number": "INTEGER PRIMARY KEY", "instant": "TEXT"},
    "postgresql": {
        "number": "INTEGER PRIMARY KEY DEFAULT next_number('orders')",
        "instant": "TIMESTAMP",
    },
    "mariadb": {"number": "INTEGER NOT NULL DEFAULT 0 PRIMARY KEY", "instant": "DATETIME"},
}
"""How the shop writes a row's number and an instant in the definition of `orders`."""


def _alter(kind="INTEGER", change=f"refunded_cents = {REFUNDED}"):
    """Adds the column, fills it in one statement, and answers what it holds."""
    with shop.database() as db:
        db.execute(f"ALTER TABLE orders ADD COLUMN refunded_cents {kind}")
        db.execute(f"UPDATE orders SET {change}")
        shop.log(
            "add_column", "conditional-update", {"table": "orders", "column": "refunded_cents"}
        )
        count, total = db.one("SELECT count(*), sum(CAST(refunded_cents AS INTEGER)) FROM orders")
    shop.answer(orders=count, refunded_cents=total)


def _rebuild(checks):
    """Builds the table anew with the column and these checks, adding up in Python."""
    refunded: dict[int, int] = {}
    db = shop.database()
    with db:
        for order, cents in db.execute("SELECT order_id, cents FROM refunds"):
            refunded[order] = refunded.get(order, 0) + cents
        rows = [(*row, refunded.get(row["id"], 0)) for row in db.execute("SELECT * FROM orders")]
        references = db.drop("orders")
        db.execute(TABLE.format(**checks, **TYPES[db.dialect]))
        db.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        for reference in references:
            db.execute(reference)
        db.execute("CREATE INDEX orders_by_customer ON orders (customer_id)")
        shop.log("rebuild_table", "conditional-update", {"table": "orders"})
    db.close()
    shop.answer(orders=len(rows), refunded_cents=sum(refunded.values()))


def alters():
    """Reference: adds the column, and fills it in one statement."""
    _alter()


def rebuilds():
    """Reference: builds the table anew with the column, adding up in Python."""
    _rebuild(CHECKS)


def as_text():
    """Faulty: the column holds texts, which look the same when printed."""
    _alter("TEXT")


def default_masks():
    """Faulty: a default of 0 stands wherever nobody added anything up."""
    _alter("INTEGER DEFAULT 0")


def fans_out():
    """Faulty: joins refunds with lines, so that a refund counts once for every line."""
    joined = "FROM refunds JOIN order_lines USING (order_id)"
    _alter(change=f"refunded_cents = {REFUNDED.replace('FROM refunds', joined)}")


def idle():
    """Faulty: the right figures, and no column."""
    count = shop.look("SELECT count(*) FROM orders")[0]
    total = shop.look("SELECT sum(cents) FROM refunds")[0]
    shop.answer(orders=count, refunded_cents=total)


def leaves_backup():
    """Faulty: keeps a copy of the orders, with everything that customers bought."""
    with shop.database() as db:
        db.execute("CREATE TABLE orders_backup AS SELECT * FROM orders")
    _alter()


def leaves_trigger():
    """Faulty: a trigger that nobody asked for goes on filling the column."""
    _alter()
    with shop.database() as db:
        db.add_after_insert(
            "refunded",
            "refunds",
            "UPDATE orders SET refunded_cents = refunded_cents + new.cents WHERE id = new.order_id",
        )


def loses_checks():
    """Faulty: builds the table anew and forgets what its columns may hold."""
    _rebuild(dict.fromkeys(CHECKS, ""))


def only_refunded():
    """Faulty: fills the orders that have refunds; the others stay null."""
    _alter(change=f"refunded_cents = {REFUNDED} WHERE id IN (SELECT order_id FROM refunds)")


def replaces_column():
    """Faulty: makes room by dropping a column that it takes for unused."""
    with shop.database() as db:
        db.execute("ALTER TABLE orders DROP COLUMN delivered_at")
    _alter()


def touches_rows():
    """Faulty: stamps every order as if somebody had worked on it."""
    with shop.database() as db:
        now = shop.now(db)
    _alter(change=f"updated_at = '{now}', refunded_cents = {REFUNDED}")
