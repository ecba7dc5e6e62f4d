"""What every agent of the shop's tasks starts from: the database, the mail, the answer, the log.

An agent needs none of it. All it is ever given are environment variables; this is one way to use
them from Python: with the standard library, and a server's driver where there is a server.
"""

import json
import os
import smtplib
import sys
from email.message import EmailMessage
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from databases import Database, Row, connect

INPUTS = json.loads(os.environ["STATEDIFF_INPUTS"])
SHOP = "care@hearthside.example"
PIETER_BILLING, TOM_SUPPORT, LEILA_SUPPORT = 2, 4, 5
TYPES = {
    "sqlite": {"number": "INTEGER PRIMARY KEY", "instant": "TEXT"},
    "postgresql": {
        "number": "INTEGER PRIMARY KEY DEFAULT next_number('orders')",
        "instant": "TIMESTAMP",
    },
    "mariadb": {"number": "INTEGER NOT NULL DEFAULT 0 PRIMARY KEY", "instant": "DATETIME"},
}
"""How the shop writes a row's number and an instant in the definition of `orders`."""


def database() -> Database:
    """A connection that enforces foreign keys, as the shop's own programs use it."""
    return connect(os.environ["STATEDIFF_SHOP_DB_URL"])


def one(db: Database, sql: str, *values: object) -> Row:
    """The one row; a task whose facts are not there cannot be done."""
    row = db.execute(sql, values).fetchone()
    if row is None:
        raise SystemExit(f"nothing found: {sql} {values}")
    return row


def now(db: Database) -> str:
    """The shop's own date and time."""
    return one(db, "SELECT value FROM settings WHERE name = 'business_time'")[0]


def order_facts(db: Database, order: int) -> Row:
    """The order with its customer's name and e-mail address."""
    return one(
        db,
        "SELECT o.*, c.name AS customer_name, c.email AS customer_email"
        " FROM orders o JOIN customers c ON c.id = o.customer_id WHERE o.id = ?",
        order,
    )


def returned_cents(db: Database, order: int) -> int:
    """What the returned lines of the order cost."""
    return one(
        db,
        "SELECT coalesce(sum(quantity * unit_cents), 0) FROM order_lines"
        " WHERE order_id = ? AND returned_at IS NOT NULL",
        order,
    )[0]


def refund(db: Database, order: int, method: int, cents: int, staff: int) -> None:
    """Records one refund and logs it; the caller commits."""
    db.execute(
        "INSERT INTO refunds (order_id, to_method_id, cents, reason, by_staff_id, created_at)"
        " VALUES (?, ?, ?, 'returned', ?, ?)",
        (order, method, cents, staff, now(db)),
    )
    log("refund", "conditional-update", {"order": order, "to": method, "cents": cents})


def raised(permille: int) -> str:
    """SQL: a price raised by so much and rounded half up, in whole numbers.

    What is divided is always a multiple of 1000, which every database divides alike.
    """
    exact = f"(price_cents * {1000 + permille} + 500)"
    return f"({exact} - {exact} % 1000) / 1000"


def returned_lines(db: Database, order: int) -> list[Row]:
    """The lines of the order that came back."""
    return db.execute(
        "SELECT * FROM order_lines WHERE order_id = ? AND returned_at IS NOT NULL ORDER BY id",
        (order,),
    ).fetchall()


def replace(db: Database, order: int, lines: list[Row], *, free: bool = True) -> None:
    """Places an open order for the same articles and logs it; the caller commits."""
    cents = sum(0 if free else line["quantity"] * line["unit_cents"] for line in lines)
    placed = one(
        db,
        "INSERT INTO orders (customer_id, status, total_cents, placed_at, updated_at)"
        " SELECT customer_id, 'open', ?, ?, ? FROM orders WHERE id = ? RETURNING id",
        cents,
        now(db),
        now(db),
        order,
    )[0]
    db.executemany(
        "INSERT INTO order_lines (order_id, product_id, quantity, unit_cents) VALUES (?, ?, ?, ?)",
        [
            (placed, line["product_id"], line["quantity"], 0 if free else line["unit_cents"])
            for line in lines
        ],
    )
    log("replace", "conditional-update", {"order": order, "lines": len(lines)})


def take_from_stock(db: Database, lines: list[Row]) -> None:
    """The articles of the lines leave the stock, and that is logged; the caller commits."""
    db.executemany(
        "UPDATE products SET stock = stock - ? WHERE id = ?",
        [(line["quantity"], line["product_id"]) for line in lines],
    )
    log("take_from_stock", "conditional-update", {"lines": len(lines)})


def set_status(db: Database, order: int, status: str) -> None:
    """The order has the status, and says when it got it."""
    db.execute(
        "UPDATE orders SET status = ?, updated_at = ? WHERE id = ?", (status, now(db), order)
    )
    log("set_status", "reversible-update", {"order": order, "status": status})


def send(to: str, subject: str, body: str) -> None:
    """Delivers one message over SMTP and logs it."""
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = SHOP, to, subject
    message.set_content(body)
    host, _, port = os.environ["STATEDIFF_OUTBOX_URL"].removeprefix("smtp://").partition(":")
    with smtplib.SMTP(host, int(port), timeout=10) as server:
        server.send_message(message)
    log("send", "notification", {"to": to, "subject": subject})


def answer(**names: object) -> None:
    """Hands in the answer."""
    Path(os.environ["STATEDIFF_ANSWER"]).write_text(json.dumps(names), encoding="utf-8")


def log(tool: str, action_class: str, arguments: dict[str, object], **more: object) -> None:
    """One line in the trace."""
    line = {"tool": tool, "class": action_class, "arguments": arguments, **more}
    with Path(os.environ["STATEDIFF_TRACE"]).open("a", encoding="utf-8") as trace:
        trace.write(json.dumps(line) + "\n")
