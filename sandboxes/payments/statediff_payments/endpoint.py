"""An account of Stripe, or of what answers like it, at a URL: the objects that its API lists.

`payments+https://api.stripe.com/`, or `payments+http://HOST:PORT/` of a server such as localstripe;
the secret key is in the URL (`KEY@` or `USER:KEY@`) or in `STATEDIFF_PASSWORD_NAME` of the source
NAME. Every collection is listed page by page, with what belongs to each customer, invoice and
subscription. A collection that the service does not have is empty. An object of a class that no
type is for is an `unknown_object`; what no field is for stays in `other`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar, Final
from urllib.parse import quote

from statediff.capture.source import SourceRuined, SourceUnavailable
from statediff.errors import UsageError
from statediff.model.schema import EntityType, Kind
from statediff.model.values import printable
from statediff.systems.base.urls import account_of, password_variable, url_without_password
from statediff.systems.hosted.api import Api, api
from statediff.systems.hosted.listed import ListedSource, Listing
from statediff.systems.hosted.transport import http_url
from statediff.systems.relational.schema import Refine
from statediff_payments.source import UNKNOWN_OBJECT
from statediff_payments.types import BY_CLASS, INSIDE, OTHER
from statediff_payments.types import TYPES as STORED

PAGE: Final = 100
MAX_OBJECTS: Final = 200_000
_KEPT_INSIDE: Final = ("api_key", "idempotency_key", "token")
"""Classes of which no call lists the objects."""
TYPES: Final = (
    *(each for each in STORED if each.source_table not in _KEPT_INSIDE),
    UNKNOWN_OBJECT,
)
COLLECTIONS: Final[Mapping[str, str]] = {
    "customers": "customer",
    "charges": "charge",
    "payment_intents": "payment_intent",
    "setup_intents": "setup_intent",
    "refunds": "refund",
    "disputes": "dispute",
    "invoices": "invoice",
    "invoiceitems": "invoiceitem",
    "subscriptions?status=all": "subscription",
    "plans": "plan",
    "products": "product",
    "coupons": "coupon",
    "tax_rates": "tax_rate",
    "payouts": "payout",
    "balance_transactions": "balance_transaction",
    "events": "event",
    **dict.fromkeys(
        (
            *("prices", "promotion_codes", "credit_notes", "quotes", "payment_links", "topups"),
            *("transfers", "webhook_endpoints", "checkout/sessions", "subscription_schedules"),
        ),
        "unknown_object",
    ),
}
"""Path of a collection → the class of its objects."""
_INSIDE: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "customer": (
        ("customers/{}/sources", "card"),
        ("customers/{}/tax_ids", "tax_id"),
        ("payment_methods?customer={}&type=card", "payment_method"),
        ("customers/{}/payment_methods", "payment_method"),
    ),
    "invoice": (("invoices/{}/lines", "line_item"),),
    "subscription": (("subscription_items?subscription={}", "subscription_item"),),
}
"""Class → the collections that belong to each of its objects."""
_SECRET: Final = ("client_secret", "secret")
_ABSENT: Final = (404, 405)
_REFUSED_KEY: Final = 401


class PaymentsAccount:
    """The objects that one secret key may list."""

    def __init__(self, name: str, url: str) -> None:
        user, password = account_of(name, url)
        key = password or user
        if key is None:
            raise UsageError(
                f"{printable(url_without_password(url))}: expected the secret key before the host, "
                f"or in {password_variable(name)}"
            )
        self._key = key
        self._base = http_url(url).rstrip("/") + "/v1/"

    def listed(self) -> Listing:
        """All objects, each once."""
        into = Listing()
        seen: set[tuple[str, str]] = set()
        headers = {"Authorization": f"Bearer {self._key}"}
        with api(self._base, "the payment API", headers=headers) as asked:
            balance = asked.ask("balance")
            if balance.status == _REFUSED_KEY:
                raise SourceUnavailable("the payment API does not take the key")
            if balance.is_ok:
                _add({**balance.content, "id": "balance"}, "balance", into, seen)
            for path, kind in COLLECTIONS.items():
                for each in _objects(asked, path, kind, into):
                    _add(each, kind, into, seen)
                    for inner, of in _INSIDE.get(kind, ()):
                        place = inner.format(quote(str(each["id"]), safe=""))
                        for one in _objects(asked, place, of, into):
                            _add(one, of, into, seen)
        return into


def _objects(asked: Api, path: str, kind: str, into: Listing) -> Iterator[dict[str, Any]]:
    """All objects of one collection; none of one that the service does not have."""
    place, _, chosen = path.partition("?")
    query = dict(each.split("=") for each in chosen.split("&") if each)
    if path in COLLECTIONS:  # some lists inside of an object take no `limit`
        query["limit"] = str(PAGE)
    count = 0
    while count < MAX_OBJECTS:
        status, content = asked.ask(place, query)
        if status in _ABSENT:
            return
        if status != 200:
            cause = f"the payment API answers {status} to the list of {place}"
            into.miss(cause, kind, UNKNOWN_OBJECT.name)
            return
        if not isinstance(content, dict) or not isinstance(content.get("data"), list):
            raise SourceRuined("what answers is no payment API")
        found = content["data"]
        yield from found
        count += len(found)
        if not content.get("has_more") or not found:
            return
        query["starting_after"] = str(found[-1]["id"])
    into.miss(f"more than {MAX_OBJECTS} objects are in {place}", kind)


def _add(found: Mapping[str, Any], kind: str, into: Listing, seen: set[tuple[str, str]]) -> None:
    """A row of an object; one that two collections list is one."""
    kind = str(found.get("object", kind))
    if (kind, str(found["id"])) in seen:
        return
    seen.add((kind, str(found["id"])))
    values = {name: _shown(name, each) for name, each in found.items() if name != "object"}
    entity = BY_CLASS.get(kind)
    if entity is None or kind in _KEPT_INSIDE:
        number = values.pop("id")
        into.add(UNKNOWN_OBJECT.name, {"class": kind, "id": number, OTHER: values})
    else:
        into.add(kind, _row(entity, values))


def _row(entity: EntityType, values: dict[str, Any]) -> dict[str, Any]:
    for name, within in INSIDE.get(entity.source_table, {}).items():
        holder = values.get(within)
        if isinstance(holder, dict) and name in holder:
            values[name] = holder.pop(name)
    row: dict[str, Any] = {}
    for field in entity.fields:
        if field.name != OTHER:
            value = values.pop(field.source_column, None)
            is_moment = field.kind is Kind.TIMESTAMP and type(value) is int
            row[field.source_column] = datetime.fromtimestamp(value, UTC) if is_moment else value
    return {**row, OTHER: values}


def _shown(name: str, value: Any) -> Any:
    """A value as a row has it: a list that is listed apart by its ids, a secret by its digest."""
    match value:
        case str() if name in _SECRET:
            return "sha256:" + hashlib.sha256(value.encode()).hexdigest()
        case {"object": "list", "data": list(inner)}:
            return [each.get("id") if isinstance(each, dict) else each for each in inner]
        case dict():
            return {each: _shown(each, one) for each, one in value.items()}
        case list():
            return [_shown("", each) for each in value]
        case _:
            return value


class PaymentsEndpointSource(ListedSource):
    """Customers, charges, refunds, invoices, subscriptions and all else that the API lists."""

    not_observed: ClassVar[tuple[str, ...]] = (
        "API keys, idempotency keys and tokens: no call lists them",
        "payment methods that belong to no customer",
        "events older than the service keeps, and secrets beyond a digest",
    )

    def __init__(self, name: str, url: str, refine: Refine | None = None) -> None:
        account = PaymentsAccount(name, url)
        super().__init__(name, lambda: TYPES, account.listed, refine)
