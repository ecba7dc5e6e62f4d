"""The payment API's rows for those who write contracts: types, fields, keys, references.

An owner's names: a payment intent's `latest_charge` points to a charge, a refund's `charge` to what
it gives back. Instants are instants. Money is an integer of the currency's smallest unit, beside
its `currency`. What an object holds that no field is for is in `other`, by name.
"""

from __future__ import annotations

from typing import Final

from statediff.model.schema import EntityType, Field, Kind, Purpose

OTHER: Final = "other"
_KINDS: Final = {
    "": Kind.TEXT,
    "int": Kind.INT,
    "bool": Kind.BOOL,
    "at": Kind.TIMESTAMP,
    "list": Kind.LIST,
    "map": Kind.MAP,
    "decimal": Kind.DECIMAL,
    "micros": Kind.TIMESTAMP,
}
_MONEY: Final = "amount:int currency"
_SPECS: Final = {
    "api_key": "name rights:list revoked:bool created:at",
    "balance": "available:map pending:map",
    "balance_transaction": f"{_MONEY} type source fee:int available_on:at created:at",
    "card": "customer>customer brand exp_month:int exp_year:int fingerprint name metadata:map"
    " created:at",
    "charge": f"{_MONEY} status captured:bool amount_refunded:int customer>customer"
    " payment_intent>payment_intent payment_method invoice>invoice description failure_code"
    " balance_transaction>balance_transaction metadata:map created:at",
    "coupon": "amount_off:int percent_off:decimal currency duration duration_in_months:int"
    " metadata:map created:at",
    "customer": "name email phone description default_payment_method default_source"
    " account_balance:int delinquent:bool address:map metadata:map created:at",
    "dispute": f"{_MONEY} charge>charge reason status evidence:map due_by:at submission_count:int"
    " created:at",
    "event": "type data:map created:at",
    "idempotency_key": "method path request_digest status:int created:at",
    "invoice": "customer>customer subscription>subscription payment_intent>payment_intent status"
    " currency subtotal:int tax:int total:int lines:list description date:at metadata:map"
    " created:at",
    "invoiceitem": f"{_MONEY} customer>customer invoice>invoice subscription>subscription"
    " plan>plan description proration:bool metadata:map created:at",
    "line_item": f"{_MONEY} type invoice>invoice subscription>subscription plan>plan quantity:int"
    " description proration:bool period:map created:at",
    "payment_intent": f"{_MONEY} status customer>customer payment_method latest_charge>charge"
    " invoice>invoice capture_method client_secret metadata:map created:at",
    "payment_method": "customer>customer type card:map sepa_debit:map billing_details:map"
    " metadata:map created:at",
    "payout": f"{_MONEY} status method destination description arrival_date:at metadata:map"
    " created:at",
    "plan": f"{_MONEY} product>product interval interval_count:int nickname active:bool"
    " usage_type metadata:map created:at",
    "product": "name type active:bool description metadata:map created:at",
    "refund": f"{_MONEY} charge>charge payment_intent>payment_intent reason status"
    " balance_transaction>balance_transaction metadata:map created:at recorded_at:micros",
    "setup_intent": "customer>customer status payment_method usage metadata:map created:at",
    "source": "type currency status usage owner:map sepa_debit:map metadata:map created:at",
    "subscription": "customer>customer status items:list quantity:int cancel_at_period_end:bool"
    " cancel_at:at ended_at:at current_period_start:at current_period_end:at trial_end:at"
    " latest_invoice>invoice start_date:at metadata:map created:at",
    "subscription_item": "plan>plan subscription=_subscription>subscription quantity:int"
    " tax_rates:list metadata:map created:at",
    "tax_id": "customer>customer country type value verification:map created:at",
    "tax_rate": "display_name percentage:decimal inclusive:bool active:bool jurisdiction"
    " description metadata:map created:at",
    "token": "type card>card created:at",
}
"""Class of localstripe → its fields: `NAME`, `NAME=ATTRIBUTE`, then `:KIND` or `>TYPE`."""
_NAMES: Final = {"invoiceitem": "invoice_item", "line_item": "invoice_line"}
"""Class → type, where an owner says another word."""
_HOLDS: Final = {"api_key": Purpose.PERMISSIONS, "event": Purpose.HISTORY}
INSIDE: Final = {"customer": {"default_payment_method": "invoice_settings"}}
"""Type → field → the attribute within which the API keeps it."""


def _field(word: str) -> Field:
    text, _, target = word.partition(">")
    text, _, kind = text.partition(":")
    name, _, attribute = text.partition("=")
    return Field(name, _KINDS[kind], reference=target or None, column=attribute)


def _type(kind: str, spec: str) -> EntityType:
    fields = (
        Field("id", Kind.TEXT, is_nullable=False),
        *(_field(word) for word in spec.split()),
        Field(OTHER, Kind.MAP, is_nullable=False),
    )
    name = _NAMES.get(kind, kind)
    return EntityType(name, ("id",), fields, table=kind, holds=_HOLDS.get(kind))


TYPES: Final = tuple(
    sorted((_type(kind, spec) for kind, spec in _SPECS.items()), key=lambda t: t.name)
)
BY_CLASS: Final = {each.source_table: each for each in TYPES}
IN_MICROSECONDS: Final = frozenset({"recorded_at"})
"""Fields of the kind `micros`: instants that are not in whole seconds."""
