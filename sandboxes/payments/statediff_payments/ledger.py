"""The store of localstripe as rows, each change of it as a transaction, and a look past both.

A row is what an object holds: its attributes, what it points to by id, secrets as digests, and a
few things that localstripe works out when it is asked. `Ledger.record` compares all rows with those
of the last time: what differs is one transaction. `look` is the proof's: it walks the objects by
themselves and uses no row.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

from localstripe import resources

from statediff_payments.layer import ApiKey, canonical, digest_of

SECRETS: Final = frozenset({"_card_number", "_sepa_debit_iban", "client_secret"})
_UNSEEN: Final = "_secret"
"""Of an API key: no row has it, since nobody can change it, and each trial has another."""
WORKED_OUT: Final = {
    "charge": ("amount_refunded",),
    "invoice": ("status", "subtotal", "tax", "total"),
    "payment_intent": ("status",),
    "subscription": ("current_period_start", "current_period_end"),
}
"""Class → what is no attribute of its objects and stands in their rows."""

Row = tuple[str, str, str]
"""Class, id, and the values as JSON."""


class Ledger:
    """Rows of the store and what happened to them since the server was forked."""

    def __init__(self) -> None:
        self._recorded: dict[str, int] = {}
        self._rows = {(kind, key): text for kind, key, text in self._read()}
        self.transactions: list[dict[str, Any]] = []
        """Each has its number `n`, `at` (ns, of this machine's clock), and `rows`: those that came
        or changed, and those that went, with null for their values."""

    def record(self) -> list[int]:
        """The numbers of the transactions that were made since the last time: one or none."""
        at = time.time_ns()
        self._note_refunds(at)
        now = {(kind, key): text for kind, key, text in self._read()}
        changed: list[tuple[str, str, str | None]] = [
            (*name, text) for name, text in now.items() if self._rows.get(name) != text
        ]
        changed += [(*name, None) for name in self._rows if name not in now]
        self._rows = now
        if not changed:
            return []
        number = len(self.transactions) + 1
        self.transactions.append({"n": number, "at": at, "rows": changed})
        return [number]

    def rows(self) -> list[Row]:
        """All rows, as they are now."""
        return list(self._read())

    def _note_refunds(self, at: int) -> None:
        for name in list(resources.store):
            if name.startswith("refund:") and name not in self._recorded and self._is_new(name):
                self._recorded[name] = at // 1000

    def _is_new(self, name: str) -> bool:
        kind, _, key = name.partition(":")
        return (kind, key) not in self._rows

    def _read(self) -> Iterator[Row]:
        for name, item in list(resources.store.items()):
            kind, _, key = name.partition(":")
            values = values_of(kind, key, item)
            if kind == "refund":
                values["recorded_at"] = self._recorded.get(name)
            yield kind, key, canonical(values)


def values_of(kind: str, key: str, item: Any) -> dict[str, Any]:
    """The values of one object; its class and the id under which it is kept are no part of it."""
    found = {name: _value(name, value) for name, value in vars(item).items() if name != _UNSEEN}
    if found.get("id") == key:
        del found["id"]
    for name in WORKED_OUT.get(kind, ()):
        try:
            found[name] = _value(name, getattr(item, name))
        except Exception as error:  # noqa: BLE001 - whatever an object was made to hold
            found[name] = f"cannot be worked out: {type(error).__name__}"
    return found


def _value(name: str, value: Any) -> Any:
    if name in SECRETS and isinstance(value, str):
        return digest_of(value)
    if isinstance(value, resources.List):
        return [_value("", each) for each in value._list]
    if isinstance(value, resources.StripeObject):
        return value.id
    if isinstance(value, bytes):
        return digest_of(value.decode("latin-1"))
    if isinstance(value, dict):
        return {str(k): _value(k if isinstance(k, str) else "", v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_value("", each) for each in value]
    return value


def look(agent_secret: str) -> dict[str, str]:
    """Name in the store → a digest of all that the object there holds, whatever it is.

    The secret of the agent's key, another one in each trial, is known by its owner's name.
    """
    return {name: digest_of(_walked(item, agent_secret, ())) for name, item in _items()}


def _items() -> list[tuple[str, Any]]:
    return sorted(resources.store.items(), key=lambda entry: str(entry[0]))


def _walked(value: Any, agent_secret: str, above: tuple[int, ...]) -> str:
    if id(value) in above:
        return "above"
    above = (*above, id(value))
    if isinstance(value, str) and value == agent_secret:
        return "the agent's"
    if isinstance(value, (str, bytes, int, float, bool, type(None))):
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, dict):
        inside = sorted(f"{k!r}={_walked(v, agent_secret, above)}" for k, v in value.items())
        return f"{{{';'.join(inside)}}}"
    if isinstance(value, (list, tuple)):
        return f"[{';'.join(_walked(each, agent_secret, above) for each in value)}]"
    return f"{type(value).__qualname__}({_walked(vars(value), agent_secret, above)})"


def key_named(name: str) -> ApiKey:
    """The API key of this name."""
    found = [
        each for each in resources.store.values() if isinstance(each, ApiKey) and each.name == name
    ]
    return found[0]
