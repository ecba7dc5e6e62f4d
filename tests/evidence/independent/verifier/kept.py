"""Open kept bundles (R-KEPT)."""

from __future__ import annotations

from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from .basics import (
    COPY_DEPTH,
    Refused,
    canonical,
    instant,
    is_hex,
    members,
    need,
    read_canonical,
    sha_hex,
    unbase64,
)
from .sealed import LARGE, check_manifest, check_names

NEVER = "9999-12-31T23:59:59.999999+00:00"


def item_name(root: str, until: str | None) -> str:
    """Return the name of the item for a root and an end (R-KEPT-3)."""
    if until is None:
        text = NEVER
    else:
        text = instant(until, "R-KEPT-2").isoformat()
    return sha_hex(canonical([root, text]))[:32]


def _decrypt(key: bytes, data: bytes, root: str, name: str) -> bytes:
    need(len(key) == 32, "R-KEPT-4 length of a key")
    extra = b"statediff/kept/1\0" + root.encode() + b"\0" + name.encode()
    try:
        return ChaCha20Poly1305(key).decrypt(bytes(12), data, extra)
    except (InvalidTag, ValueError) as error:
        raise Refused("R-KEPT-4 a key that does not open its item") from error


def _leaves(plain: bytes) -> list[Any]:
    parts = plain.split(b"\n")
    need(all(parts), "R-KEPT-5 an empty part")
    return [read_canonical(part, COPY_DEPTH) for part in parts]


def _put_back(data: bytes, opened: list[Any]) -> bytes:
    need(len(data) <= LARGE, "R-CAP-1 leaves")
    document = members(read_canonical(data, COPY_DEPTH), "disclosed withheld", "R-LEAF leaves.json")
    disclosed, withheld = document["disclosed"], document["withheld"]
    need(isinstance(disclosed, list) and isinstance(withheld, list), "R-LEAF leaves.json")
    need(all(is_hex(item, 64) for item in withheld), "R-LEAF-3")
    order = [sha_hex(b"\0" + canonical(leaf)) for leaf in disclosed]
    need(order == sorted(order) and withheld == sorted(set(withheld)), "R-KEPT-5 order")
    found = {sha_hex(b"\0" + canonical(leaf)): leaf for leaf in opened}
    need(len(found) == len(opened), "R-KEPT-5 a leaf twice")
    need(set(found) <= set(withheld), "R-KEPT-5 a leaf that is not withheld")
    left = sorted(item for item in withheld if item not in found)
    need(len(left) == len(withheld) - len(found), "R-LEAF-5")
    whole = sorted(disclosed + opened, key=lambda leaf: sha_hex(b"\0" + canonical(leaf)))
    return canonical({"disclosed": whole, "withheld": left})


def read_kept(data: bytes, vault: dict[str, bytes] | None) -> dict[str, bytes]:
    """Return the files of the copy in a kept bundle, with what its keys open put back."""
    document = members(read_canonical(data), "format copy items", "R-KEPT-1")
    need(document["format"] == "statediff/kept/1", "R-KEPT-1")
    need(isinstance(document["copy"], dict) and isinstance(document["items"], list), "R-KEPT-1")
    files = {name: unbase64(text) for name, text in document["copy"].items()}
    check_names(files)
    root = check_manifest(files["manifest.json"])["tree"]["root"]
    names: set[str] = set()
    opened: list[Any] = []
    for value in document["items"]:
        item = members(value, "name until data", "R-KEPT-2")
        need(is_hex(item["name"], 32), "R-KEPT-2")
        need(item["until"] is None or isinstance(item["until"], str), "R-KEPT-2")
        secret = unbase64(item["data"])
        need(item["name"] == item_name(root, item["until"]), "R-KEPT-3")
        need(item["name"] not in names, "R-KEPT-3 a name twice")
        names.add(item["name"])
        if vault is not None and item["name"] in vault:
            opened += _leaves(_decrypt(vault[item["name"]], secret, root, item["name"]))
    if vault is not None:
        files["leaves.json"] = _put_back(files["leaves.json"], opened)
    return files
