"""The start of every agent of the ERP's tasks: the server, the answer, the log.

An agent needs none of it. All it is ever given are environment variables; this is one way to use
them from Python with nothing but the standard library. It speaks Tryton's JSON-RPC.
"""

import base64
import datetime as dt
import http.client
import json
import os
import sqlite3
import sys
from decimal import Decimal
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

sys.path.insert(0, str(Path(__file__).parents[1]))
import given

answer, log = given.answer, given.log
INPUTS = json.loads(os.environ["STATEDIFF_INPUTS"])
URL = urlsplit(os.environ["STATEDIFF_ERP_URL"])
FILE = Path.cwd().parent / "systems" / "erp" / "erp.sqlite"
CLASSES = {
    "create": "conditional-update",
    "write": "reversible-update",
    "delete": "irreversible-deletion",
    "button": "conditional-update",
    "wizard": "conditional-update",
}


class Refused(Exception):
    """The server does not do it, and says why."""


class Warned(Refused):
    """The server wants to know whether the user means it."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name


@cache
def session() -> str:
    """The account's session, which signs each call and begins with the first one."""
    login, password = unquote(URL.username or ""), unquote(URL.password or "")
    user, key, *_ = _ask("common.db.login", (login, {"password": password}))
    return f"Session {base64.b64encode(f'{login}:{user}:{key}'.encode()).decode()}"


@cache
def context() -> dict:
    """The user's own preferences, which the server wants with each call."""
    return call("model.res.user.get_preferences", True, {})


def call(method: str, *arguments: object) -> object:
    """The result of one call; `Refused` if the server answers with an error."""
    return _ask(method, arguments, Authorization=session())


def _ask(method: str, arguments: tuple[object, ...], **headers: str) -> object:
    body = json.dumps({"id": 0, "method": method, "params": arguments}, default=_written)
    connection = http.client.HTTPConnection(URL.hostname or "", URL.port, timeout=60)
    headers["Content-Type"] = "application/json"
    connection.request("POST", f"{URL.path}rpc/", body.encode(), headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    if answer.status != 200:
        raise Refused(f"{method}: HTTP {answer.status} {text[:200]}")
    said = json.loads(text, object_hook=_meant)
    if isinstance(said, dict) and "error" in said:
        if said["error"][0] == "UserWarning":
            raise Warned(*said["error"][1][:2])
        raise Refused(f"{method}: {said['error']}")
    return said["result"] if isinstance(said, dict) and "result" in said else said


def find(model: str, *domain: object, fields: tuple[str, ...] = ()) -> list[dict]:
    """The records of a model that satisfy the domain, in order of id."""
    order = [["id", "ASC"]]
    search = f"model.{model}.search_read"
    return call(search, list(domain), 0, None, order, list(fields), context())


def one(model: str, *domain: object, fields: tuple[str, ...] = ()) -> dict:
    """The one record; a task whose facts are not there cannot be done."""
    found = find(model, *domain, fields=fields)
    if len(found) != 1:
        raise SystemExit(f"{model} {domain}: expected one record, found {len(found)}")
    return found[0]


def id_of(model: str, *domain: object) -> int:
    """The id of the one record."""
    return one(model, *domain, fields=("id",))["id"]


def read(model: str, record: int, field: str) -> object:
    """The value of one field of one record."""
    return one(model, ["id", "=", record], fields=(field,))[field]


def create(model: str, **values: object) -> int:
    """The id of a new record."""
    (made,) = _change("create", model, [values])
    return made


def write(model: str, records: list[int] | int, **values: object) -> None:
    """The records have the values."""
    ids = [records] if isinstance(records, int) else records
    _change("write", model, ids, values)


def delete(model: str, *records: int) -> None:
    """The records are gone."""
    _change("delete", model, list(records))


def _change(verb: str, model: str, *arguments: object) -> object:
    result = call(f"model.{model}.{verb}", *arguments, context())
    logged = {"arguments": json.loads(json.dumps(arguments, default=str))}
    log(f"{model}.{verb}", CLASSES[verb], logged)
    return result


def button(model: str, name: str, *records: int) -> object:
    """Press the button of a form."""
    result = call(f"model.{model}.{name}", list(records), context())
    log(f"{model}.{name}", CLASSES["button"], {"records": records})
    return result


def wizard(
    name: str, form: dict, state: str, *, model: str, record: int, skip: tuple[str, ...] = ()
) -> None:
    """A wizard is run: its form, then the button that leads to `state`.

    Warnings of which the name begins with one in `skip` are taken note of; others refuse it.
    """
    number, *_ = call(f"wizard.{name}.create", context())
    active = {"active_model": model, "active_ids": [record], "active_id": record}
    try:
        while True:
            try:
                call(f"wizard.{name}.execute", number, form, state, {**context(), **active})
                break
            except Warned as warned:
                if not warned.name.startswith(skip or ("-",)):
                    raise
                call("model.res.user.warning.skip", warned.name, False, context())
    finally:
        call(f"wizard.{name}.delete", number, context())
    log(name, CLASSES["wizard"], {"records": [record], "state": state})


def note(model: str, record: int, text: str) -> int:
    """A note on a record."""
    return create("ir.note", resource=f"{model},{record}", message=text)


def product(code: str) -> int:
    """The product with this code."""
    return id_of("product.product", ["suffix_code", "=", code])


def shipment(number: str) -> int:
    """The customer shipment with this number."""
    return id_of("stock.shipment.out", ["number", "=", number])


def count_stock(code: str, counted: float, day: str, location: str = "STO") -> int:
    """A new inventory of one product, not yet confirmed."""
    line = {"product": product(code), "quantity": counted}
    place = id_of("stock.location", ["code", "=", location])
    lines = [["create", [line]]]
    return create("stock.inventory", location=place, date=date(day), lines=lines)


def total(model: str, record: int) -> tuple[str, int]:
    """The number and the total in cents of a purchase or an invoice."""
    found = one(model, ["id", "=", record], fields=("number", "total_amount"))
    return found["number"], int(100 * found["total_amount"])


def behind_the_server() -> sqlite3.Connection:
    """The database file itself, which no agent is meant to open."""
    return sqlite3.connect(FILE, timeout=10, isolation_level=None)


def date(text: str) -> dt.date:
    """A date of the inputs."""
    return dt.date.fromisoformat(text)


def _written(value: object) -> object:
    if isinstance(value, Decimal):
        return {"__class__": "Decimal", "decimal": str(value)}
    if isinstance(value, dt.date):
        return {"__class__": "date", "year": value.year, "month": value.month, "day": value.day}
    raise TypeError(type(value).__name__)


def _meant(given: dict) -> object:
    if given.get("__class__") == "Decimal":
        return Decimal(given["decimal"])
    if given.get("__class__") == "date":
        return dt.date(given["year"], given["month"], given["day"])
    return given
