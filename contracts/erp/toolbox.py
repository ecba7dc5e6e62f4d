"""What every agent of the ERP's tasks starts from: the server, the answer, the log.

An agent needs none of it. All it is ever given are environment variables; this is one way to use
them from Python with nothing but the standard library. It speaks Tryton's JSON-RPC.
"""

import base64
import datetime as dt
import http.client
import json
import os
import sqlite3
from decimal import Decimal
from pathlib import Path
from urllib.parse import unquote, urlsplit

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


class Erp:
    """One account on the server; signed in once, with a session from then on."""

    def __init__(self) -> None:
        self.login = unquote(URL.username or "")
        password = {"password": unquote(URL.password or "")}
        self._session = ""
        self.user, key, *_ = self.call("common.db.login", self.login, password)
        word = base64.b64encode(f"{self.login}:{self.user}:{key}".encode()).decode()
        self._session = f"Session {word}"
        self.context = self.call("model.res.user.get_preferences", True, {})

    def call(self, method: str, *arguments: object) -> object:
        """The result of one call; `Refused` if the server answers with an error."""
        body = json.dumps({"id": 0, "method": method, "params": arguments}, default=_written)
        headers = {"Content-Type": "application/json"}
        if self._session:
            headers["Authorization"] = self._session
        connection = http.client.HTTPConnection(URL.hostname or "", URL.port, timeout=60)
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

    def find(self, model: str, *domain: object, fields: tuple[str, ...] = ()) -> list[dict]:
        """The records of a model that satisfy the domain, in order of id."""
        return self.call(
            f"model.{model}.search_read", list(domain), 0, None, [["id", "ASC"]],
            list(fields), self.context,
        )  # fmt: skip

    def one(self, model: str, *domain: object, fields: tuple[str, ...] = ()) -> dict:
        """The one record; a task whose facts are not there cannot be done."""
        found = self.find(model, *domain, fields=fields)
        if len(found) != 1:
            raise SystemExit(f"{model} {domain}: expected one record, found {len(found)}")
        return found[0]

    def create(self, model: str, **values: object) -> int:
        """The id of a new record."""
        (made,) = self._change("create", model, [values])
        return made

    def write(self, model: str, records: list[int] | int, **values: object) -> None:
        """The records have the values."""
        ids = [records] if isinstance(records, int) else records
        self._change("write", model, ids, values)

    def delete(self, model: str, *records: int) -> None:
        """The records are gone."""
        self._change("delete", model, list(records))

    def button(self, model: str, name: str, *records: int) -> object:
        """What the button of a form does."""
        result = self.call(f"model.{model}.{name}", list(records), self.context)
        log(f"{model}.{name}", CLASSES["button"], {"records": records})
        return result

    def wizard(
        self,
        name: str,
        values: dict,
        state: str,
        *,
        model: str,
        records: tuple[int, ...],
        skip: tuple[str, ...] = (),
    ) -> None:
        """A wizard is run: its form `values`, then the button that leads to `state`.

        Warnings of which the name begins with one in `skip` are taken note of; others refuse it.
        """
        session, *_ = self.call(f"wizard.{name}.create", self.context)
        context = {**self.context, "active_model": model, "active_ids": records}
        context["active_id"] = records[0] if records else None
        try:
            while True:
                try:
                    self.call(f"wizard.{name}.execute", session, values, state, context)
                    break
                except Warned as warned:
                    if not warned.name.startswith(skip or ("-",)):
                        raise
                    self.call("model.res.user.warning.skip", warned.name, False, self.context)
        finally:
            self.call(f"wizard.{name}.delete", session, self.context)
        log(name, CLASSES["wizard"], {"records": records, "state": state})

    def _change(self, verb: str, model: str, *arguments: object) -> object:
        result = self.call(f"model.{model}.{verb}", *arguments, self.context)
        log(
            f"{model}.{verb}",
            CLASSES[verb],
            {"arguments": json.loads(json.dumps(arguments, default=str))},
        )
        return result


def note(erp: Erp, model: str, record: int, text: str) -> int:
    """A note on a record."""
    return erp.create("ir.note", resource=f"{model},{record}", message=text)


def account(erp: Erp, code: str) -> int:
    """The account with this code."""
    return erp.one("account.account", ["code", "=", code], fields=("id",))["id"]


def entry(
    erp: Erp, like: dict, text: str, *lines: tuple[int, object, object], post: bool = True
) -> str:
    """A new entry, of lines (account, debit, credit), in the month and journal of another.

    Its number; its id where it is not posted.
    """
    made = erp.create(
        "account.move",
        period=like["period"],
        journal=like["journal"],
        date=dt.date(2026, like.get("month", 3), 16),
        description=text,
        lines=[
            ["create", [
                {"account": each, "debit": Decimal(debit), "credit": Decimal(credit)}
                for each, debit, credit in lines
            ]],
        ],
    )  # fmt: skip
    if not post:
        return str(made)
    erp.button("account.move", "post", made)
    return erp.one("account.move", ["id", "=", made], fields=("number",))["number"]


def product(erp: Erp, code: str) -> int:
    """The product with this code."""
    return erp.one("product.product", ["suffix_code", "=", code], fields=("id",))["id"]


def shipment(erp: Erp, number: str) -> int:
    """The customer shipment with this number."""
    return erp.one("stock.shipment.out", ["number", "=", number], fields=("id",))["id"]


def count_stock(
    erp: Erp, product: int, counted: float, day: dt.date, *, location: str = "STO"
) -> int:
    """A new inventory of one product, not yet confirmed."""
    place = erp.one("stock.location", ["code", "=", location], fields=("id",))["id"]
    line = {"product": product, "quantity": counted}
    return erp.create("stock.inventory", location=place, date=day, lines=[["create", [line]]])


def order(
    erp: Erp, supplier: str, product: int, *lines: tuple[float, str], confirm: bool = True
) -> int:
    """A purchase from a supplier, of lines (quantity, unit price), confirmed."""
    party = erp.one("party.party", ["name", "=", supplier], fields=("id",))["id"]
    address = erp.one("party.address", ["party", "=", party], fields=("id",))["id"]
    unit = erp.one("product.uom", ["name", "=", "Unit"], fields=("id",))["id"]
    made = erp.create(
        "purchase.purchase",
        party=party,
        invoice_address=address,
        invoice_method="fulfillment",
        lines=[
            ["create", [
                {"product": product, "unit": unit, "quantity": each, "unit_price": Decimal(price)}
                for each, price in lines
            ]],
        ],
    )  # fmt: skip
    if confirm:
        erp.button("purchase.purchase", "quote", made)
        erp.button("purchase.purchase", "confirm", made)
    return made


def number_of(erp: Erp, model: str, record: int) -> str:
    """The number that the server gave a record."""
    return erp.one(model, ["id", "=", record], fields=("number",))["number"]


def told(
    erp: Erp, record: int, model: str = "purchase.purchase", name: str = "purchase"
) -> dict[str, object]:
    """The number and the total in cents of a purchase or an invoice, as an answer."""
    found = erp.one(model, ["id", "=", record], fields=("number", "total_amount"))
    return {name: found["number"], "total_cents": int(100 * found["total_amount"])}


def drafted(erp: Erp) -> int:
    """The one invoice that is a draft."""
    return erp.one("account.invoice", ["state", "=", "draft"], fields=("id",))["id"]


def behind_the_server() -> sqlite3.Connection:
    """The database file itself, which no agent is meant to open."""
    return sqlite3.connect(FILE, timeout=10, isolation_level=None)


def date(text: str) -> dt.date:
    """A date of the inputs."""
    return dt.date.fromisoformat(text)


def answer(**names: object) -> None:
    """Hands in the answer."""
    Path(os.environ["STATEDIFF_ANSWER"]).write_text(json.dumps(names), encoding="utf-8")


def log(tool: str, action_class: str, arguments: dict[str, object], **more: object) -> None:
    """One line in the trace."""
    line = {"tool": tool, "class": action_class, "arguments": arguments, **more}
    with Path(os.environ["STATEDIFF_TRACE"]).open("a", encoding="utf-8") as trace:
        trace.write(json.dumps(line, default=str) + "\n")


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
