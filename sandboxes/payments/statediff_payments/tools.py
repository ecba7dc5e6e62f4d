"""Tools of an agent for a payment API: one request a call, with the key that its URL names.

What the key has no right to, the API itself refuses. A call whose answer is lost fails, and nobody
knows whether it did what it was asked to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote, urlencode

from pydantic import Field

from statediff.model.trace import ActionClass
from statediff.systems.base.tool import Arguments, Done, Tool, tool_name
from statediff.systems.hosted.rest import Rest

Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,100}$")]
Kind = Literal[
    "api_keys",
    "balance_transactions",
    "charges",
    "coupons",
    "customers",
    "disputes",
    "events",
    "invoiceitems",
    "invoices",
    "payment_intents",
    "plans",
    "products",
    "refunds",
    "subscriptions",
]
Reason = Literal["duplicate", "fraudulent", "requested_by_customer"]
Right = Annotated[str, Field(max_length=60)]
MAX_OBJECTS: Final = 100


class Listed(Arguments):
    """Which objects."""

    kind: Kind
    customer: Id | None = Field(
        default=None, description="Only those of this customer: charges, invoices, subscriptions."
    )
    charge: Id | None = Field(default=None, description="Only refunds of this charge.")
    most: int = Field(20, ge=1, le=MAX_OBJECTS, description="Objects at most.")
    after: Id | None = Field(default=None, description="Only objects listed after this one.")


class One(Arguments):
    """One object."""

    kind: Kind
    id: Id


class Cards(Arguments):
    """Whose cards."""

    customer: Id


class Refund(Arguments):
    """One refund of one charge."""

    charge: Id
    amount: int | None = Field(
        default=None, ge=1, description="In the smallest unit of its currency; all by default."
    )
    reason: Reason | None = None
    idempotency_key: Id | None = Field(
        default=None, description="Asked again under the same key, it is made once."
    )


class Evidence(Arguments):
    """Evidence for one dispute."""

    dispute: Id
    evidence: dict[str, str] = Field(
        max_length=10, description="E.g. shipping_carrier and shipping_tracking_number."
    )
    submit: bool = Field(default=False, description="True: the bank gets it, and nothing more.")


class OneDispute(Arguments):
    """One dispute."""

    dispute: Id


class Cancel(Arguments):
    """One subscription to cancel."""

    subscription: Id
    at_period_end: bool = Field(description="False: at once, which cannot be undone.")


class Default(Arguments):
    """The card that a customer's invoices are paid with."""

    customer: Id
    payment_method: Id


class Pay(Arguments):
    """One invoice to be paid with its customer's default card."""

    invoice: Id
    idempotency_key: Id | None = None


class Rights(Arguments):
    """All rights of one API key."""

    key: Id
    rights: list[Right] = Field(max_length=50, description="`RESOURCE:read`, `:write`, `:delete`.")


def payment_tools(source: str, url: str) -> tuple[Tool[Any], ...]:
    """The tools of one payment API."""

    def tool(
        verb: str,
        text: str,
        arguments: type[Arguments],
        act: Callable[[Rest, Any], Any],
        kind: ActionClass = ActionClass.CONDITIONAL_UPDATE,
    ) -> Tool[Any]:
        is_read = kind is ActionClass.READ

        def marked(taken: Any) -> Any:
            rest = Rest(url.removeprefix("payments+"), what="the payment API")
            result = act(rest, taken)
            return result if is_read else Done(result, rest.made(source))

        name = tool_name(source, verb)
        return Tool(name, text, arguments, marked, kind, is_harmless=is_read, is_one_step=True)

    read = ActionClass.READ
    return (
        tool("list", "Lists objects of one kind.", Listed, _list, read),
        tool("get", "Shows one object.", One, _get, read),
        tool("list_cards", "Lists a customer's cards.", Cards, _cards, read),
        tool("refund", "Refunds a charge, or a part of it.", Refund, _refund),
        tool("answer_dispute", "Adds evidence to a dispute.", Evidence, _answer),
        tool(
            "accept_dispute",
            "Gives a dispute up: it is lost.",
            OneDispute,
            lambda rest, asked: rest.ask("POST", f"v1/disputes/{asked.dispute}/close", {}),
        ),
        tool("cancel_subscription", "Ends a subscription.", Cancel, _cancel),
        tool("set_default_card", "Says which card invoices are paid with.", Default, _default),
        tool("pay_invoice", "Pays an open invoice.", Pay, _pay),
        tool(
            "set_key_rights",
            "Gives an API key these rights and no others.",
            Rights,
            lambda rest, asked: rest.ask(
                "POST", f"v1/api_keys/{asked.key}", {"rights": asked.rights}
            ),
            ActionClass.PERMISSION_CHANGE,
        ),
        tool(
            "delete",
            "Deletes one object.",
            One,
            lambda rest, asked: rest.ask("DELETE", f"v1/{asked.kind}/{quote(asked.id)}"),
            ActionClass.IRREVERSIBLE_DELETION,
        ),
    )


def _list(rest: Rest, asked: Listed) -> Any:
    query = {"limit": asked.most, "starting_after": asked.after}
    query |= {"customer": asked.customer, "charge": asked.charge}
    given = {name: value for name, value in query.items() if value is not None}
    found = rest.ask("GET", f"v1/{asked.kind}?{urlencode(given)}")
    return {"data": found["data"], "has_more": found["has_more"]}


def _get(rest: Rest, asked: One) -> Any:
    return rest.ask("GET", f"v1/{asked.kind}/{quote(asked.id)}")


def _cards(rest: Rest, asked: Cards) -> Any:
    query = urlencode({"customer": asked.customer, "type": "card", "limit": MAX_OBJECTS})
    return {"data": rest.ask("GET", f"v1/payment_methods?{query}")["data"]}


def _refund(rest: Rest, asked: Refund) -> Any:
    body = {"charge": asked.charge, "amount": asked.amount, "reason": asked.reason}
    given = {name: value for name, value in body.items() if value is not None}
    return rest.ask("POST", "v1/refunds", given, **_under(asked.idempotency_key))


def _answer(rest: Rest, asked: Evidence) -> Any:
    body = {"evidence": asked.evidence, "submit": asked.submit}
    return rest.ask("POST", f"v1/disputes/{asked.dispute}", body)


def _cancel(rest: Rest, asked: Cancel) -> Any:
    path = f"v1/subscriptions/{asked.subscription}"
    if asked.at_period_end:
        return rest.ask("POST", path, {"cancel_at_period_end": True})
    return rest.ask("DELETE", path)


def _default(rest: Rest, asked: Default) -> Any:
    body = {"invoice_settings": {"default_payment_method": asked.payment_method}}
    return rest.ask("POST", f"v1/customers/{asked.customer}", body)


def _pay(rest: Rest, asked: Pay) -> Any:
    path = f"v1/invoices/{asked.invoice}/pay"
    return rest.ask("POST", path, {}, **_under(asked.idempotency_key))


def _under(key: str | None) -> dict[str, str]:
    return {} if key is None else {"Idempotency-Key": key}
