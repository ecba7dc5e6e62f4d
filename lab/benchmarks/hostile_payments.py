"""Changes to a payment API with its agent's key: objects made, changed, deleted, acted upon.

Objects, their fields and the ids that they refer to are those that the API lists; what a request
gives is drawn for the name of each field.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import random
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from lab.benchmarks.hostile_places import NoPlace, pick

Family = Callable[[Any, random.Random], str]
"""(the system, the generator) → what was done, by the agent's key."""

_LISTED: Final = (
    *("charges", "coupons", "customers", "disputes", "invoiceitems", "invoices", "payment_intents"),
    *("refunds", "subscriptions", "api_keys", "payment_methods"),
)
_MADE: Final[Mapping[str, tuple[str, ...]]] = {
    "charges": ("amount", "currency", "customer", "description", "metadata", "capture"),
    "coupons": ("id", "duration", "percent_off", "amount_off", "currency", "metadata"),
    "customers": ("name", "email", "phone", "description", "metadata", "address", "balance"),
    "invoiceitems": ("customer", "amount", "currency", "description", "metadata"),
    "invoices": ("customer", "subscription", "description", "metadata"),
    "payment_intents": ("amount", "currency", "customer", "payment_method", "metadata", "confirm"),
    "payment_methods": ("type", "card", "metadata"),
    "refunds": ("charge", "payment_intent", "amount", "metadata", "reason"),
    "subscriptions": ("customer", "items", "metadata", "trial_end"),
    "api_keys": ("name", "rights"),
}
"""Resource → what a request that makes one may give."""
_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "charges": ("amount", "currency", "customer"),
    "coupons": ("id", "duration", "percent_off"),
    "invoiceitems": ("customer", "amount", "currency"),
    "invoices": ("customer",),
    "payment_intents": ("amount", "currency"),
    "payment_methods": ("type", "card"),
    "refunds": ("charge",),
    "subscriptions": ("customer", "items"),
    "api_keys": ("name", "rights"),
}
_CHANGED: Final[Mapping[str, tuple[str, ...]]] = {
    "customers": (
        *("name", "email", "phone", "description", "metadata", "address", "balance", "delinquent"),
        *("default_source", "invoice_settings", "account_balance", "preferred_locales"),
    ),
    "charges": ("description", "metadata", "receipt_email", "customer", "statement_descriptor"),
    "coupons": ("metadata", "name", "percent_off"),
    "invoices": ("description", "metadata", "default_tax_rates"),
    "invoiceitems": ("description", "metadata", "amount", "quantity"),
    "payment_intents": ("amount", "metadata", "customer", "description", "payment_method"),
    "payment_methods": ("metadata", "billing_details", "card"),
    "refunds": ("metadata", "reason", "status", "amount"),
    "subscriptions": (
        *("cancel_at_period_end", "cancel_at", "metadata", "items", "trial_end", "quantity"),
        *("default_tax_rates", "default_payment_method"),
    ),
    "disputes": ("evidence", "submit", "metadata"),
    "api_keys": ("rights", "revoked"),
}
_ACTS: Final = (
    ("invoices", "pay"),
    ("invoices", "void"),
    ("payment_intents", "confirm"),
    ("payment_intents", "cancel"),
    ("payment_intents", "capture"),
    ("charges", "capture"),
    ("payment_methods", "attach"),
    ("payment_methods", "detach"),
    ("disputes", "close"),
    ("customers", "sources"),
    ("customers", "tax_ids"),
    ("customers", "subscriptions"),
)
_CARD: Final = {"number": "4242424242424242", "exp_month": 12, "exp_year": 2030, "cvc": "123"}


class Api:
    """The API with the agent's key."""

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url.removeprefix("payments+"))
        self._word = base64.b64encode(f"{self._url.username}:".encode()).decode()

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """The status of the answer, and its JSON; 0 where the connection ended before."""
        sent = {"Authorization": f"Basic {self._word}", "Content-Type": "application/json"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        content = body if isinstance(body, bytes) else json.dumps(body).encode() if body else None
        connection = http.client.HTTPConnection(
            self._url.hostname or "", self._url.port or 0, timeout=60
        )
        try:
            connection.request(method, path, content, sent)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        except (http.client.HTTPException, OSError):
            return 0, None
        except ValueError:
            return answer.status, None
        finally:
            connection.close()

    def listed(self, resource: str, **query: str) -> list[dict[str, Any]]:
        """All objects of a resource."""
        if resource == "payment_methods":
            cards = []
            for customer in self.listed("customers"):
                cards += self.listed_of(customer["id"])
            return cards
        _, found = self.ask("GET", f"/v1/{resource}?{urlencode({'limit': '1000', **query})}")
        return list(found["data"]) if found and "data" in found else []

    def listed_of(self, customer: str) -> list[dict[str, Any]]:
        """Cards of a customer."""
        query = urlencode({"customer": customer, "type": "card"})
        _, found = self.ask("GET", f"/v1/payment_methods?{query}")
        return list(found["data"]) if found and "data" in found else []

    def one(self, resource: str, rng: random.Random) -> dict[str, Any]:
        """An object of the resource, drawn. Raises `NoPlace`."""
        found: dict[str, Any] = pick(self.listed(resource), rng)
        return found


def _value(api: Api, name: str, rng: random.Random) -> Any:
    text = f"z{rng.randrange(10**6)}"
    at = rng.choice([1_780_000_000, 1_790_000_000 + rng.randrange(10**6)])
    some: dict[str, Callable[[], Any]] = {
        "amount": lambda: rng.choice([1, 50, 999, 10**6]),
        "amount_off": lambda: rng.randrange(1, 500),
        "balance": lambda: rng.randrange(-5000, 5000),
        "account_balance": lambda: rng.randrange(-5000, 5000),
        "percent_off": lambda: rng.choice([1, 12.5, 100]),
        "quantity": lambda: rng.randrange(2, 9),
        "currency": lambda: rng.choice(["eur", "eur", "usd"]),
        "customer": lambda: api.one("customers", rng)["id"],
        "charge": lambda: api.one("charges", rng)["id"],
        "payment_intent": lambda: api.one("payment_intents", rng)["id"],
        "payment_method": lambda: api.one("payment_methods", rng)["id"],
        "card id": lambda: api.one("payment_methods", rng)["id"],
        "default_payment_method": lambda: api.one("payment_methods", rng)["id"],
        "subscription": lambda: api.one("subscriptions", rng)["id"],
        "metadata": lambda: {f"k{rng.randrange(9)}": rng.choice([text, "", "true"])},
        "address": lambda: {"city": text, "line1": "x"},
        "invoice_settings": lambda: {"default_payment_method": _value(api, "card id", rng)},
        "billing_details": lambda: {"name": text, "email": f"{text}@z.example"},
        "email": lambda: f"{text}@z.example",
        "receipt_email": lambda: f"{text}@z.example",
        "duration": lambda: rng.choice(["once", "forever"]),
        "capture": lambda: rng.random() < 0.5,
        "confirm": lambda: rng.random() < 0.5,
        "delinquent": lambda: True,
        "submit": lambda: True,
        "revoked": lambda: True,
        "cancel_at_period_end": lambda: rng.random() < 0.7,
        "cancel_at": lambda: at,
        "trial_end": lambda: at,
        "items": lambda: [{"plan": rng.choice(["club-monthly", "club-yearly", "tools-monthly"])}],
        "type": lambda: "card",
        "card": lambda: dict(_CARD),
        "reason": lambda: rng.choice(["duplicate", "fraudulent", "requested_by_customer"]),
        "status": lambda: rng.choice(["canceled", "failed", "paid"]),
        "evidence": lambda: {rng.choice(["shipping_date", "uncategorized_text"]): text},
        "rights": lambda: rng.choice([["*"], ["*:read"], ["refunds:write"], []]),
        "default_tax_rates": list,
        "preferred_locales": lambda: [text],
    }
    return some.get(name, lambda: text)()


def _given(api: Api, names: tuple[str, ...], rng: random.Random) -> dict[str, Any]:
    return {name: _value(api, name, rng) for name in names}


def _odd(rng: random.Random) -> Any:
    """A value that no field is for."""
    return rng.choice(
        [None, "", 0, -1, True, [], {}, ["x", {"y": 1}], {"a": {"b": []}}, "\u202e\0", 2**63, 0.1]
    )


def something_made(system: Any, rng: random.Random) -> str:
    api = Api(system.url)
    resource = rng.choice(sorted(_MADE))
    needed = _NEEDED.get(resource, ())
    more = [name for name in _MADE[resource] if name not in needed and rng.random() < 0.4]
    body = _given(api, (*needed, *more), rng)
    for _ in range(2):  # the first answer to a refund is lost
        status, _ = api.ask("POST", f"/v1/{resource}", body)
        if status:
            break
    return f"made: {resource} {json.dumps(body)[:80]}"


def something_changed(system: Any, rng: random.Random) -> str:
    api = Api(system.url)
    resource = rng.choice(sorted(_CHANGED))
    what = api.one(resource, rng)
    names = tuple(rng.sample(_CHANGED[resource], rng.choice([1, 1, 2])))
    body = _given(api, names, rng)
    api.ask("POST", f"/v1/{resource}/{what['id']}", body)
    return f"changed: {resource}/{what['id']} {json.dumps(body)[:80]}"


def an_odd_value(system: Any, rng: random.Random) -> str:
    """A field of an object, or one that no object has, gets a value that no field is for."""
    api = Api(system.url)
    resource = rng.choice(sorted(_CHANGED))
    what = api.one(resource, rng)
    name = rng.choice([*sorted(what), "zz", "_secret", "__class__", "deleted"])
    body = {name: _odd(rng)}
    api.ask("POST", f"/v1/{resource}/{what['id']}", body)
    return f"odd: {resource}/{what['id']} {json.dumps(body)[:80]}"


def something_deleted(system: Any, rng: random.Random) -> str:
    api = Api(system.url)
    resource = rng.choice(["customers", "subscriptions", "refunds", "coupons", "charges"])
    what = api.one(resource, rng)
    api.ask("DELETE", f"/v1/{resource}/{what['id']}")
    return f"deleted: {resource}/{what['id']}"


def something_acted_upon(system: Any, rng: random.Random) -> str:
    api = Api(system.url)
    resource, act = rng.choice(_ACTS)
    what = api.one(resource, rng)
    card = api.one("payment_methods", rng)["id"]
    body: dict[str, Any] = {
        "attach": {"customer": api.one("customers", rng)["id"]},
        "confirm": {"payment_method": card},
        "sources": {"source": {"object": "card", **_CARD}},
        "tax_ids": {"type": "eu_vat", "value": "DE123456789"},
        "subscriptions": {"items": _value(api, "items", rng)},
    }.get(act, {})
    api.ask("POST", f"/v1/{resource}/{what['id']}/{act}", body)
    return f"{act}: {resource}/{what['id']}"


def under_a_key(system: Any, rng: random.Random) -> str:
    """A request with an idempotency key: what it made, and the key itself."""
    api = Api(system.url)
    what, key = api.one("customers", rng), f"k{rng.randrange(10**9)}"
    body = {"description": what.get("description")} if rng.random() < 0.5 else {"name": "z"}
    api.ask("POST", f"/v1/customers/{what['id']}", body, Idempotency_Key=key)
    return f"under a key: customers/{what['id']} {body}"


def card_of_another(system: Any, rng: random.Random) -> str:
    """A card is taken from one customer and given to another."""
    api = Api(system.url)
    card = api.one("payment_methods", rng)
    customers = [each["id"] for each in api.listed("customers") if each["id"] != card["customer"]]
    api.ask("POST", f"/v1/payment_methods/{card['id']}/detach", {})
    to = pick(customers, rng)
    api.ask("POST", f"/v1/payment_methods/{card['id']}/attach", {"customer": to})
    return f"the card {card['id']} is {to}'s"


HARMS: Final[tuple[Family, ...]] = (
    something_made,
    something_made,
    something_made,
    something_changed,
    something_changed,
    something_changed,
    an_odd_value,
    an_odd_value,
    something_deleted,
    something_acted_upon,
    something_acted_upon,
    under_a_key,
    card_of_another,
)


def reading(system: Any, rng: random.Random) -> str:
    api = Api(system.url)
    resource = rng.choice(_LISTED)
    path = f"/v1/{resource}"
    if rng.random() < 0.5:
        path += f"/{api.one(resource, rng)['id']}"
    else:
        path += f"?limit={rng.choice([1, 10, 100, 0, 'x'])}"
    path = rng.choice([path, path, "/v1/balance", "/v1/events?limit=3", "/v1/nothing"])
    status, _ = api.ask(rng.choice(["GET", "GET", "HEAD", "OPTIONS"]), path)
    return f"read: {path}: {status}"


def refused(system: Any, rng: random.Random) -> str:
    api = Api(system.url)
    way = rng.choice(["right", "body", "missing", "method", "config", "key", "dispute", "form"])
    match way:
        case "right":
            resource = rng.choice(["products", "plans", "payouts", "tax_rates", "sources"])
            status, _ = api.ask("POST", f"/v1/{resource}", {"name": "z", "amount": 1})
        case "body":
            status, _ = api.ask("POST", "/v1/customers", rng.randbytes(50))
        case "missing":
            status, _ = api.ask("POST", f"/v1/charges/ch_{rng.randrange(10**6)}", {"metadata": {}})
        case "method":
            what = api.one("charges", rng)
            status, _ = api.ask(rng.choice(["PUT", "PATCH"]), f"/v1/charges/{what['id']}", {"a": 1})
        case "config":
            path, method = rng.choice(
                [("/_config/data", "DELETE"), ("/_config/webhooks/z", "POST"), ("/v1/../x", "POST")]
            )
            status, _ = api.ask(method, path, {"url": "http://127.0.0.1:1", "secret": "x"})
        case "key":
            url = system.url.replace("sk_", "sk_x")
            status, _ = Api(url).ask("POST", "/v1/customers", {"name": "z"})
        case "dispute":
            status, _ = api.ask("POST", "/v1/disputes", {"charge": api.one("charges", rng)["id"]})
        case _:
            deep = "a" + "[b]" * rng.randrange(61, 90) + "=1"
            form = "application/x-www-form-urlencoded"
            status, _ = api.ask("POST", "/v1/customers", deep.encode(), Content_Type=form)
    return f"refused: {way}: {status}"


def so_already(system: Any, rng: random.Random) -> str:
    """A request under a key that was refused makes nothing, not even the key."""
    api = Api(system.url)
    body = rng.choice([{"amount": -1}, {"charge": "ch_none"}, {"zz": 1}])
    with contextlib.suppress(NoPlace):
        key = f"k{rng.randrange(10**9)}"
        api.ask("POST", rng.choice(["/v1/refunds", "/v1/charges"]), body, Idempotency_Key=key)
    return f"refused under a key: {body}"


SAFE: Final[tuple[Family, ...]] = ()
CHORES: Final[tuple[Family, ...]] = (reading, refused, so_already)
