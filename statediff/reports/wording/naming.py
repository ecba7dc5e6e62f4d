"""Names for rows without a key: the natural key by which a contract's `identify` pairs them.

Wording only. A bundle keeps the key of such a row, the digest of its content. Where it shows the
row as well, reports name it by the fields that the contract matches on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from statediff.contract.file import parse_contract
from statediff.errors import AdapterError, BundleError, UsageError
from statediff.evidence.documents import fields_from, key_from
from statediff.evidence.package import Bundle
from statediff.model.explanation import Reason, shown_key
from statediff.model.values import is_value, show

Json: TypeAlias = Any
Names: TypeAlias = Mapping[tuple[str, str], str]
"""(type, its key as a bundle writes it) → what the row is called."""

FRAGMENTS: Final = "fragments.json"
_LIMIT: Final = 40
"""Characters of one field in a name."""


def natural_names(bundle: Bundle) -> Names:
    """The names of the rows of types that the contract identifies; none where there is no such."""
    contract = bundle.files.get("contract.yaml")
    if contract is None or b"identify" not in contract or FRAGMENTS not in bundle.files:
        return {}
    try:
        file = parse_contract(contract, "contract.yaml")
        fields = {rule.type: tuple(rule.match_on) for rule in file.content.identify}
        return _found(bundle.document(FRAGMENTS), fields)
    except (UsageError, AdapterError, BundleError, KeyError, TypeError, ValueError):
        return {}  # a report of a damaged bundle, or of another version's, needs no names


def _found(fragments: Json, fields: Mapping[str, tuple[str, ...]]) -> Names:
    names: dict[tuple[str, str], str] = {}
    for type_name, key, row in _rows(fragments, fields):
        known = dict(fields_from(row))
        values = [known.get(name) for name in fields[type_name]]
        if all(name in known and is_value(known[name]) for name in fields[type_name]):
            said = ", ".join(v if isinstance(v, str) else show(v, _LIMIT) for v in values)
            text = said if len(values) == 1 else f"({said})"
            names.setdefault((type_name, _key_text(key)), text)
            explained = [part.document() for part in shown_key(key_from(key))]
            names.setdefault((type_name, _key_text(explained)), text)
    return names


def _rows(fragments: Json, wanted: Mapping[str, object]) -> Iterator[tuple[str, Json, Json]]:
    for matching in fragments:
        for row in matching["rows"]:
            if row["type"] in wanted and row["fields"] is not None:
                yield row["type"], row["key"], row["fields"]
        for scan in matching["scans"]:
            if scan["type"] in wanted:
                yield from ((scan["type"], key, row) for key, row in scan["members"])


def named(part: Json, names: Names) -> Json:
    """A part of a judgement in which rows are called by name.

    An explanation gets the name in the place of the key, anything else that has a type and a key a
    member `named` beside them.
    """
    if isinstance(part, list):
        return [named(each, names) for each in part]
    if not isinstance(part, dict):
        return part
    found = {name: named(each, names) for name, each in part.items()}
    for of, is_explained in (("entity_type", True), ("type", False)):
        if of in part and "key" in part and isinstance(part["key"], list):
            name = names.get((part[of], _key_text(part["key"])))
            if name is not None and is_explained:
                found["key"] = [Reason.WRITTEN(text=name).document()]
            elif name is not None:
                found["named"] = name
    return found


def _key_text(key: Json) -> str:
    return json.dumps(key, sort_keys=True)
