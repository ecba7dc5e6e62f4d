"""Read trust files and the keys in them (R-TRUST)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .basics import Refused, instant, is_hex, is_number, members, need, read_free, sha_hex

LIMIT = 1_048_576
OLDER = "statediff/trust/1"
NEWER = "statediff/trust/1.1"
PRIME = 2**255 - 19
EIGHTH = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
SMALL_ORDER = {0, 1, PRIME - 1, EIGHTH, PRIME - EIGHTH}


@dataclass(frozen=True)
class Key:
    """One entry of a trust file."""

    name: str
    raw: bytes
    roles: tuple[str, ...]
    begins: datetime | None
    ends: datetime | None

    @property
    def id(self) -> str:
        """The id of the key: the hex of the hash of its bytes."""
        return sha_hex(self.raw)

    def counts(self, moment: datetime) -> bool:
        """Tell whether the key counts at the moment (R-TRUST-7)."""
        early = self.begins is not None and moment < self.begins
        late = self.ends is not None and moment >= self.ends
        return not early and not late


@dataclass(frozen=True)
class Trust:
    """A trust file: its keys, and how many of them must sign a copy together."""

    keys: list[Key]
    threshold: int


def _is_word(value: Any) -> bool:
    if not isinstance(value, str) or not 1 <= len(value) <= 200:
        return False
    for letter in value:
        code = ord(letter)
        if code <= 0x1F or 0x7F <= code <= 0x9F or code in (0x2028, 0x2029):
            return False
        if 0xD800 <= code <= 0xDFFF:
            return False
    return True


def _is_strong(raw: bytes) -> bool:
    y = int.from_bytes(raw, "little") % 2**255
    return y < PRIME and y not in SMALL_ORDER


def _key(value: Any) -> Key:
    entry = members(value, "name key roles from until", "R-TRUST-3")
    need(is_hex(entry["key"], 64), "R-TRUST-4")
    need(_is_strong(bytes.fromhex(entry["key"])), "R-TRUST-4 small order")
    need(isinstance(entry["roles"], list), "R-TRUST-3")
    need(_is_word(entry["name"]) and all(_is_word(role) for role in entry["roles"]), "R-TRUST-5")
    begins = None if entry["from"] is None else instant(entry["from"], "R-TRUST-6")
    ends = None if entry["until"] is None else instant(entry["until"], "R-TRUST-6")
    return Key(entry["name"], bytes.fromhex(entry["key"]), tuple(entry["roles"]), begins, ends)


def _threshold(document: dict[str, Any], keys: list[Key]) -> int:
    if document["format"] == OLDER:
        return 1
    threshold = document["threshold"]
    most = sum("evaluator" in key.roles for key in keys)
    need(is_number(threshold) and 1 <= threshold <= most, "R-TRUST-2 threshold")
    return int(threshold)


def read_trust(data: bytes) -> Trust:
    """Return what a trust file says, or refuse it."""
    need(len(data) <= LIMIT, "R-CAP-1 trust file")
    document = read_free(data)
    need(isinstance(document, dict) and document.get("format") in (OLDER, NEWER), "R-TRUST-2")
    more = " threshold" if document["format"] == NEWER else ""
    members(document, "format keys" + more, "R-TRUST-2")
    need(isinstance(document["keys"], list), "R-TRUST-2")
    keys = [_key(entry) for entry in document["keys"]]
    need(len({key.raw for key in keys}) == len(keys), "R-TRUST-4 a key twice")
    return Trust(keys, _threshold(document, keys))


def find_key(keys: list[Key], keyid: Any, role: str, why: str) -> Key:
    """Return the key with this id and role."""
    for key in keys:
        if key.id == keyid and role in key.roles:
            return key
    raise Refused(why)
