"""Check releases of contracts and their sign-offs (R-REL)."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

import yaml

from .basics import Refused, is_hex, members, need
from .statements import read_statement
from .trust import Key

_PLAIN = re.compile(
    r"~|null|Null|NULL||true|True|TRUE|false|False|FALSE|[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"
    r"|[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
TRAPS = (yaml.TagToken, yaml.AliasToken, yaml.AnchorToken, yaml.DirectiveToken)


def _value(node: Any, depth: int) -> Any:
    need(depth <= 8, "R-REL too deep")
    if isinstance(node, yaml.ScalarNode):
        if node.style is None and _PLAIN.fullmatch(node.value):
            need(node.value in ("~", "null", "Null", "NULL", ""), "R-REL a scalar that is no text")
            return None
        return node.value
    if isinstance(node, yaml.MappingNode):
        result: dict[str, Any] = {}
        for name, value in node.value:
            key = _value(name, depth + 1)
            need(isinstance(key, str) and key not in result, "R-REL a name twice, or no text")
            result[key] = _value(value, depth + 1)
        return result
    raise Refused("R-REL a list")


def read_yaml(data: bytes) -> Any:
    """Read YAML of mappings and texts; anything else is refused."""
    need(len(data) <= 262_144, "R-REL-4 size")
    try:
        text = data.decode("utf-8")
        for token in yaml.scan(text):
            need(not isinstance(token, TRAPS), "R-REL tag or alias")
        node = yaml.compose(text, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise Refused("R-REL not YAML") from error
    return _value(node, 1)


def folded(name: str) -> str:
    """Return a name for comparison: case and runs of white space folded (R-REL-3)."""
    return " ".join(name.casefold().split())


def _text(value: Any, least: int, most: int) -> bool:
    if not isinstance(value, str) or not least <= len(value) <= most:
        return False
    return not any(ord(c) <= 0x1F or ord(c) == 0x7F for c in value)


def _day(value: Any) -> None:
    need(isinstance(value, str), "R-REL day")
    need(re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", value) is not None, "R-REL day")
    try:
        date(*[int(part) for part in value.split("-")])
    except ValueError as error:
        raise Refused("R-REL day") from error


def _some(entry: Any, must: str, may: str) -> dict[str, Any]:
    need(isinstance(entry, dict), "R-REL no mapping")
    need(set(must.split()) <= set(entry) <= set((must + " " + may).split()), "R-REL members")
    found: dict[str, Any] = entry
    return found


def _sign_off(name: str, release: dict[str, Any], keys: list[Key]) -> str:
    review = _some(release["reviewed"], "on signed", "kind by found")
    kind = review.get("kind", "person")
    need(kind in ("person", "second-reading"), "R-REL kind")
    _day(review["on"])
    if kind == "person":
        need("by" in review and "found" not in review, "R-REL a person has by")
        need(_text(review["by"], 2, 200), "R-REL by")
        need(folded(review["by"]) != folded(release["released_by"]), "R-REL-3")
    else:
        need("found" in review and "by" not in review, "R-REL a second reading has found")
        need(_text(review["found"], 10, 1000), "R-REL found")
    need(_text(review["signed"], 1, 4000), "R-REL signed")
    statement = read_statement(review["signed"].encode(), "sign-off", keys)
    payload = members(statement.payload, "format contract digest kind by found on at", "R-REL-2")
    expected = {
        "format": "statediff/sign-off/1",
        "contract": name,
        "digest": release["digest"],
        "kind": kind,
        "by": review.get("by"),
        "found": review.get("found"),
        "on": review["on"],
        "at": payload["at"],
    }
    need(payload == expected, "R-REL-2")
    need("by" not in review or folded(review["by"]) == folded(statement.signer), "R-REL-2 signer")
    return statement.signer


def _release(name: str, value: Any, keys: list[Key]) -> list[str | None]:
    release = _some(value, "digest released_by on", "signed reviewed")
    need(is_hex(release["digest"], 64) and _text(release["released_by"], 2, 200), "R-REL members")
    _day(release["on"])
    need("signed" in release, "R-REL-1 not signed")
    need(_text(release["signed"], 1, 4000), "R-REL signed")
    statement = read_statement(release["signed"].encode(), "release", keys)
    payload = members(statement.payload, "format contract digest by on at", "R-REL-1")
    expected = {
        "format": "statediff/release/1",
        "contract": name,
        "digest": release["digest"],
        "by": release["released_by"],
        "on": release["on"],
        "at": payload["at"],
    }
    need(payload == expected, "R-REL-1")
    need(folded(statement.signer) == folded(release["released_by"]), "R-REL-1 signer")
    signer = _sign_off(name, release, keys) if "reviewed" in release else None
    return [statement.signer, signer]


def verify_release(data: bytes, keys: list[Key]) -> dict[str, Any]:
    """Return who released and signed off each version, or refuse the file (R-REL)."""
    document = {"contracts": {}, **_some(read_yaml(data), "released", "contracts")}
    need(document["released"] == "statediff/released/1", "R-REL format")
    need(isinstance(document["contracts"], dict), "R-REL members")
    answer: dict[str, Any] = {}
    for name, value in document["contracts"].items():
        need(re.fullmatch("[^@]+@[^@]+", name) is not None, "R-REL name")
        answer[name] = _release(name, value, keys)
    return answer
