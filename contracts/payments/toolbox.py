"""The start of every agent of the payment desk: shop, payment API, mail, answer, log.

An agent needs none of it. All it is ever given are environment variables; this is one way to use
them from Python with nothing but the standard library.
"""

import base64
import http.client
import json
import os
import sqlite3
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress  # noqa: F401 - the agents'
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlencode, urlsplit

sys.path.insert(0, str(Path(__file__).parents[1]))
import given

INPUTS = json.loads(os.environ["STATEDIFF_INPUTS"])
answer, log = given.answer, given.log
SHOP = "care@hearthside.example"
NOW = "2026-03-16 09:00:00"
PAYMENT_DESK = 4
API = urlsplit(os.environ["STATEDIFF_PAYMENTS_URL"].removeprefix("payments+"))
ORIGIN = f"http://{API.hostname}:{API.port}"
"""`payments+http://KEY@HOST:PORT`: the key is the user's name, there is no password."""


class Refused(Exception):
    """The payment API refuses what it is asked; its message."""


class Lost(Exception):
    """The connection ended before the API answered: nobody knows whether it did what was asked."""


def ask(method: str, path: str, body: object = None, idempotency_key: str = "") -> dict:
    """The JSON that the API answers."""
    word = base64.b64encode(f"{API.username}:".encode()).decode()
    headers = {"Authorization": f"Basic {word}", "Content-Type": "application/json"}
    if idempotency_key:
        headers["Idempotency-Key"] = idempotency_key
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(ORIGIN + path, content, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        raise Refused(f"{error.code} {error.read().decode(errors='replace')}") from error
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        raise Lost(str(error)) from error


def get(path: str, **query: object) -> dict:
    """One object, or one page of a list."""
    return ask("GET", path + (f"?{urlencode(query)}" if query else ""))


def listed(path: str, **query: object) -> list[dict]:
    """All objects of a list."""
    return get(path, limit=1000, **query)["data"]


def post(path: str, body: object, idempotency_key: str = "", kind: str = "") -> dict:
    """Makes or changes an object and logs the call, whatever became of it."""
    call = {"path": path, "body": body, **({"key": idempotency_key} if idempotency_key else {})}
    try:
        made = ask("POST", path, body or {}, idempotency_key)
    except (Refused, Lost) as error:
        log("payments_post", kind or "conditional-update", call, error=str(error))
        raise
    log("payments_post", kind or "conditional-update", call)
    return made


def refused(path: str, body: object, idempotency_key: str) -> None:
    """The API refuses it; it keeps the key."""
    try:
        post(path, body, idempotency_key)
    except Refused:
        return
    raise SystemExit(f"{path}: not refused")


def delete(path: str) -> dict:
    """Deletes an object and logs it."""
    gone = ask("DELETE", path)
    log("payments_delete", "irreversible-deletion", {"path": path})
    return gone


def refund(body: dict, idempotency_key: str) -> dict:
    """One refund, asked for under one key until there is an answer: made once."""
    for _ in range(3):
        try:
            return post("/v1/refunds", body, idempotency_key)
        except Lost:
            continue
    raise SystemExit("the payment API does not answer")


def database() -> sqlite3.Connection:
    """The shop's database; `with` commits, foreign keys are enforced."""
    place = os.environ["STATEDIFF_SHOP_DB_URL"].removeprefix("sqlite:///")
    connection = sqlite3.connect(place)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def one(sql: str, *values: object) -> sqlite3.Row:
    """The one row; a task whose facts are not there cannot be done."""
    row = database().execute(sql, values).fetchone()
    if row is None:
        raise SystemExit(f"nothing found: {sql} {values}")
    return row


def change(sql: str, *values: object, kind: str = "conditional-update") -> None:
    """One statement in a transaction of its own, logged."""
    with database() as db:
        db.execute(sql, values)
    log("shop_db_execute", kind, {"sql": sql, "values": list(values)})


def meanwhile(table: str, column: str, row: str, value: object, work: Callable[[], None]) -> None:
    """Another agent does its work while a field holds the value; then it holds what it did before.

    No log has that.
    """
    with database() as db:
        held = db.execute(f"SELECT {column} FROM {table} WHERE {row}").fetchone()[0]
        db.execute(f"UPDATE {table} SET {column} = ? WHERE {row}", (value,))
    work()
    with database() as db:
        db.execute(f"UPDATE {table} SET {column} = ? WHERE {row}", (held,))


def order_facts(order: int) -> sqlite3.Row:
    """The order with its customer's name, address and id at the payment API."""
    return one(
        "SELECT o.*, a.name, a.email, a.payer FROM orders o JOIN accounts a ON a.id = o.account_id"
        " WHERE o.id = ?",
        order,
    )


def charge_of(intent: str) -> dict:
    """The charge that a payment intent led to."""
    return get(f"/v1/payment_intents/{intent}")["latest_charge"]


def set_status(order: int, status: str) -> None:
    """The order has the status, and says when it got it."""
    change("UPDATE orders SET status = ?, updated_at = ? WHERE id = ?", status, NOW, order)


def close_request(request: int, status: str, reason: str | None = None) -> None:
    """The customer's request is closed."""
    change(
        "UPDATE requests SET status = ?, reason = ?, closed_at = ? WHERE id = ?",
        status,
        reason,
        NOW,
        request,
    )


def send(to: str, subject: str, body: str) -> None:
    """Delivers one message over SMTP and logs it."""
    given.deliver(given.letter(SHOP, to, subject, body))
    log("send", "notification", {"to": to, "subject": subject})


def write(to: str, body: str) -> None:
    """Delivers a message with the subject that the task gives."""
    send(to, INPUTS["subject"], body)


def instant(seconds: int) -> str:
    """As the shop writes what the API counts in seconds."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def euros(cents: int) -> str:
    """As a customer reads it."""
    return f"{cents / 100:.2f} EUR"
