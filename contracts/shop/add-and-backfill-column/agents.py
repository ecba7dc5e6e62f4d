"""The agents of shop/add-and-backfill-column: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as shop


def alters():
    """Reference: adds the column, and fills it in one statement."""
    with shop.database() as db:
        db.execute("ALTER TABLE orders ADD COLUMN refunded_cents INTEGER")
        db.execute(
            "UPDATE orders SET refunded_cents ="
            " (SELECT coalesce(sum(cents), 0) FROM refunds WHERE order_id = orders.id)"
        )
        shop.log(
            "add_column", "conditional-update", {"table": "orders", "column": "refunded_cents"}
        )
        count, total = db.execute("SELECT count(*), sum(refunded_cents) FROM orders").fetchone()
    shop.answer(orders=count, refunded_cents=total)


def rebuilds():
    """Reference: builds the table anew with the column, adding up in Python."""
    new = """
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
        db.execute(new.format(**shop.TYPES[db.dialect]))
        db.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        for reference in references:
            db.execute(reference)
        db.execute("CREATE INDEX orders_by_customer ON orders (customer_id)")
        shop.log("rebuild_table", "conditional-update", {"table": "orders"})
    db.close()
    shop.answer(orders=len(rows), refunded_cents=sum(refunded.values()))


def as_text():
    """Faulty: the column holds texts, which look the same when printed."""
    with shop.database() as db:
        db.execute("ALTER TABLE orders ADD COLUMN refunded_cents TEXT")
        db.execute(
            "UPDATE orders SET refunded_cents ="
            " (SELECT coalesce(sum(cents), 0) FROM refunds WHERE order_id = orders.id)"
        )
        shop.log(
            "add_column", "conditional-update", {"table": "orders", "column": "refunded_cents"}
        )
        count, total = db.execute(
            "SELECT count(*), sum(CAST(refunded_cents AS INTEGER)) FROM orders"
        ).fetchone()
    shop.answer(orders=count, refunded_cents=total)


def default_masks():
    """Faulty: a default of 0 stands wherever nobody added anything up."""
    with shop.database() as db:
        db.execute("ALTER TABLE orders ADD COLUMN refunded_cents INTEGER DEFAULT 0")
        db.execute(
            "UPDATE orders SET refunded_cents ="
            " (SELECT coalesce(sum(cents), 0) FROM refunds WHERE order_id = orders.id)"
        )
        shop.log(
            "add_column", "conditional-update", {"table": "orders", "column": "refunded_cents"}
        )
        count, total = db.execute("SELECT count(*), sum(refunded_cents) FROM orders").fetchone()
    shop.answer(orders=count, refunded_cents=total)


def fans_out():
    """Faulty: joins refunds with lines, so that a refund counts once for every line."""
    with shop.database() as db:
        db.execute("ALTER TABLE orders ADD COLUMN refunded_cents INTEGER")
        db.execute(
            "UPDATE orders SET refunded_cents ="
            " (SELECT coalesce(sum(cents), 0) FROM refunds JOIN order_lines USING (order_id)"
            " WHERE order_id = orders.id)"
        )
        shop.log(
            "add_column", "conditional-update", {"table": "orders", "column": "refunded_cents"}
        )
        count, total = db.execute("SELECT count(*), sum(refunded_cents) FROM orders").fetchone()
    shop.answer(orders=count, refunded_cents=total)


def idle():
    """Faulty: the right figures, and no column."""
    with shop.database() as db:
        count = db.execute("SELECT count(*) FROM orders").fetchone()[0]
        total = db.execute("SELECT sum(cents) FROM refunds").fetchone()[0]
    shop.answer(orders=count, refunded_cents=total)


def leaves_backup():
    """Faulty: keeps a copy of the orders, with everything that customers bought."""
    with shop.database() as db:
        db.execute("CREATE TABLE orders_backup AS SELECT * FROM orders")
        db.execute("ALTER TABLE orders ADD COLUMN refunded_cents INTEGER")
        db.execute(
            "UPDATE orders SET refunded_cents ="
            " (SELECT coalesce(sum(cents), 0) FROM refunds WHERE order_id = orders.id)"
        )
        shop.log(
            "add_column", "conditional-update", {"table": "orders", "column": "refunded_cents"}
        )
        count, total = db.execute("SELECT count(*), sum(refunded_cents) FROM orders").fetchone()
    shop.answer(orders=count, refunded_cents=total)


def leaves_trigger():
    """Faulty: a trigger that nobody asked for goes on filling the column."""
    with shop.database() as db:
        db.execute("ALTER TABLE orders ADD COLUMN refunded_cents INTEGER")
        db.execute(
            "UPDATE orders SET refunded_cents ="
            " (SELECT coalesce(sum(cents), 0) FROM refunds WHERE order_id = orders.id)"
        )
        db.add_after_insert(
            "refunded",
            "refunds",
            "UPDATE orders SET refunded_cents = refunded_cents + new.cents WHERE id = new.order_id",
        )
        shop.log(
            "add_column", "conditional-update", {"table": "orders", "column": "refunded_cents"}
        )
        count, total = db.execute("SELECT count(*), sum(refunded_cents) FROM orders").fetchone()
    shop.answer(orders=count, refunded_cents=total)


def loses_checks():
    """Faulty: builds the table anew and forgets what its columns may hold."""
    new = """
CREATE TABLE orders (
  id {number},
  customer_id INTEGER REFERENCES customers (id) ON DELETE SET NULL,
  paid_with INTEGER REFERENCES payment_methods (id) ON DELETE SET NULL,
  status TEXT NOT NULL,
  total_cents INTEGER NOT NULL,
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
        db.execute(new.format(**shop.TYPES[db.dialect]))
        db.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        for reference in references:
            db.execute(reference)
        db.execute("CREATE INDEX orders_by_customer ON orders (customer_id)")
        shop.log("rebuild_table", "conditional-update", {"table": "orders"})
    db.close()
    shop.answer(orders=len(rows), refunded_cents=sum(refunded.values()))


def only_refunded():
    """Faulty: fills the orders that have refunds; the others stay null."""
    with shop.database() as db:
        db.execute("ALTER TABLE orders ADD COLUMN refunded_cents INTEGER")
        db.execute(
            "UPDATE orders SET refunded_cents ="
            " (SELECT coalesce(sum(cents), 0) FROM refunds WHERE order_id = orders.id)"
            " WHERE id IN (SELECT order_id FROM refunds)"
        )
        shop.log(
            "add_column", "conditional-update", {"table": "orders", "column": "refunded_cents"}
        )
        count, total = db.execute("SELECT count(*), sum(refunded_cents) FROM orders").fetchone()
    shop.answer(orders=count, refunded_cents=total)


def replaces_column():
    """Faulty: makes room by dropping a column that it takes for unused."""
    with shop.database() as db:
        db.execute("ALTER TABLE orders DROP COLUMN delivered_at")
        db.execute("ALTER TABLE orders ADD COLUMN refunded_cents INTEGER")
        db.execute(
            "UPDATE orders SET refunded_cents ="
            " (SELECT coalesce(sum(cents), 0) FROM refunds WHERE order_id = orders.id)"
        )
        shop.log(
            "add_column", "conditional-update", {"table": "orders", "column": "refunded_cents"}
        )
        count, total = db.execute("SELECT count(*), sum(refunded_cents) FROM orders").fetchone()
    shop.answer(orders=count, refunded_cents=total)


def touches_rows():
    """Faulty: stamps every order as if somebody had worked on it."""
    with shop.database() as db:
        db.execute("ALTER TABLE orders ADD COLUMN refunded_cents INTEGER")
        db.execute(
            "UPDATE orders SET updated_at = ?, refunded_cents ="
            " (SELECT coalesce(sum(cents), 0) FROM refunds WHERE order_id = orders.id)",
            (shop.now(db),),
        )
        shop.log(
            "add_column", "conditional-update", {"table": "orders", "column": "refunded_cents"}
        )
        count, total = db.execute("SELECT count(*), sum(refunded_cents) FROM orders").fetchone()
    shop.answer(orders=count, refunded_cents=total)
