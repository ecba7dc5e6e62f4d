"""Every agent of the shop's tasks starts from this: the database, mail, the answer, the log.

An agent needs none of it. All it is ever given are environment variables; this is one way to use
them from Python: with the standard library, and a server's driver where there is a server.
"""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from databases import Database, Row, connect
from given import answer, deliver, letter, log  # noqa: F401 - answer is the agents'

INPUTS = json.loads(os.environ["STATEDIFF_INPUTS"])
SHOP = "care@hearthside.example"
PIETER_BILLING, TOM_SUPPORT, LEILA_SUPPORT = 2, 4, 5


def database() -> Database:
    """A connection that enforces foreign keys, as the shop's own programs use it."""
    return connect(os.environ["STATEDIFF_SHOP_DB_URL"])


def look(sql: str, *values: object) -> Row:
    """The one row, read by a connection of its own."""
    with database() as db:
        return db.one(sql, *values)


def now(db: Database) -> str:
    """The shop's own date and time."""
    return db.one("SELECT value FROM settings WHERE name = 'business_time'")[0]


def order_facts(order: int) -> Row:
    """The order with its customer's name and e-mail address."""
    return look(
        "SELECT o.*, c.name AS customer_name, c.email AS customer_email"
        " FROM orders o JOIN customers c ON c.id = o.customer_id WHERE o.id = ?",
        order,
    )


def returned_lines(order: int) -> list[Row]:
    """The lines of the order that came back, with what each cost."""
    with database() as db:
        return db.execute(
            "SELECT l.*, quantity * unit_cents AS cents FROM order_lines l"
            " WHERE order_id = ? AND returned_at IS NOT NULL ORDER BY id",
            (order,),
        ).fetchall()


def refund(db: Database, order: int, method: int, cents: int, staff: int) -> None:
    """Records one refund and logs it; the caller commits."""
    db.execute(
        "INSERT INTO refunds (order_id, to_method_id, cents, reason, by_staff_id, created_at)"
        " VALUES (?, ?, ?, 'returned', ?, ?)",
        (order, method, cents, staff, now(db)),
    )
    log("refund", "conditional-update", {"order": order, "to": method, "cents": cents})


def set_status(db: Database, order: int, status: str) -> None:
    """The order has the status, and says when it got it."""
    db.execute(
        "UPDATE orders SET status = ?, updated_at = ? WHERE id = ?", (status, now(db), order)
    )
    log("set_status", "reversible-update", {"order": order, "status": status})


def send(to: str, subject: str, body: str) -> None:
    """Delivers one message over SMTP and logs it."""
    deliver(letter(SHOP, to, subject, body))
    log("send", "notification", {"to": to, "subject": subject})
