"""Check what an observer signed, and compare what a copy shows with it (R-OBS)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from .basics import (
    COPY_DEPTH,
    canonical,
    instant,
    is_hex,
    members,
    need,
    read_canonical,
    sha_hex,
    signed_by,
    texts,
    unbase64,
)
from .sealed import PAYLOAD_TYPE, SMALL, Copy, rest
from .trust import Trust, find_key

REST = "observation.json#"
PARTS = "agent answer ending schema states times trace trial".split()
FILES = dict.fromkeys(("ending", "trial"), "trial.json")
FILES |= {name: name + ".json" for name in ("answer", "schema", "trace")}
FILES |= {"states": "captures.json", "times": "timeline.json"}
LISTS = {"states": ("before", "after"), "trace": ("actions",)}
HIDDEN = object()


def _payload(envelope: Any, copy: Copy, trust: Trust) -> dict[str, Any]:
    """Return the statement, once its one signature is an observer's (R-OBS-1 to R-OBS-4)."""
    found = members(envelope, "payload payloadType signatures", "R-OBS-1")
    texts(found, "payload payloadType", "R-OBS-1")
    need(len(canonical(found)) <= SMALL and found["payloadType"] == PAYLOAD_TYPE, "R-OBS-1")
    signatures = found["signatures"]
    need(isinstance(signatures, list) and len(signatures) == 1, "R-OBS-1")
    signature = members(signatures[0], "keyid sig", "R-OBS-1")
    texts(signature, "keyid sig", "R-OBS-1")
    key = find_key(trust.keys, signature["keyid"], "observer", "R-OBS-2")
    payload, kind = unbase64(found["payload"]), PAYLOAD_TYPE.encode()
    message = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
    need(signed_by(key.raw, unbase64(signature["sig"]), message), "R-OBS-2")
    need(key.id not in copy.keys, "R-OBS-2 it sealed")
    document = read_canonical(payload, COPY_DEPTH)
    said = members(document, "_type predicate predicateType subject", "R-OBS-3")
    need(said["_type"] == "https://in-toto.io/Statement/v1", "R-OBS-3")
    need(said["predicateType"] == "urn:statediff:observation:1", "R-OBS-3")
    predicate = members(said["predicate"], "at trial", "R-OBS-3")
    texts(predicate, "at trial", "R-OBS-3")
    moment = instant(predicate["at"], "R-OBS-3")
    need(key.counts(moment), "R-OBS-2 the key does not count")
    need(predicate["trial"] == copy.manifest["trial"], "R-OBS-4")
    later = moment - instant(copy.manifest["sealed_at"])
    need(later <= timedelta(minutes=5), "R-OBS-4 after the sealing")
    return said


def _digests(subject: Any) -> dict[str, list[str]]:
    need(isinstance(subject, list), "R-OBS-5")
    bound: dict[str, list[str]] = {}
    for value in subject:
        entry = members(value, "digest name", "R-OBS-5")
        digest = members(entry["digest"], "sha256", "R-OBS-5")["sha256"]
        need(is_hex(digest, 64) and isinstance(entry["name"], str), "R-OBS-5")
        name = entry["name"].split("/")[0]
        known = bound.setdefault(name, [])
        need(entry["name"] == (f"{name}/{len(known)}" if known else name), "R-OBS-5")
        known.append(digest)
    need(list(bound) in (PARTS, [*PARTS, "undisclosed"]), "R-OBS-5 parts")
    return bound


def _shown(copy: Copy, name: str) -> Any:
    """Return a part as the copy shows it (R-OBS-7)."""
    file = FILES.get(name)
    if file is None or file + "#" not in copy.leaves:
        return HIDDEN
    document, cuts = rest(copy.leaves[file + "#"])
    for array in LISTS.get(name, ()):
        paths = [f"{file}#/{array}/{n}" for n in range(dict(cuts).get("/" + array, 0))]
        if not all(path in copy.leaves for path in paths):
            return HIDDEN
        document = {**document, array: [copy.leaves[path] for path in paths]}
    if name not in ("ending", "states", "trial"):
        return document
    need(isinstance(document, dict), "R-OBS-7")
    if name == "ending":
        return document.get("ending")
    if name == "trial":
        return {key: value for key, value in document.items() if key != "ending"}
    history = document.get("history")
    need(isinstance(history, dict), "R-OBS-7")
    seen = {key: history.get(key) for key in ("readings", "transactions")}
    return {"history": seen, **{key: document.get(key) for key in ("after", "before", "roots")}}


def _check_part(copy: Copy, name: str, opening: Any, digests: list[str]) -> None:
    need(isinstance(opening, list) and len(opening) == 2 + (name == "agent"), "R-OBS-6")
    need(opening[0] == name and is_hex(opening[1], 32), "R-OBS-6")
    value = opening[2] if name == "agent" else _shown(copy, name)
    if name == "agent":
        known = members(value, "configuration model name version", "R-OBS-6").values()
        need(all(part is None or isinstance(part, str) for part in known), "R-OBS-6")
    if value is HIDDEN or (name == "ending" and value is None):
        return
    need(sha_hex(bytes.fromhex(opening[1]) + canonical(value)) in digests, "R-OBS-7 " + name)


def check_observed(copy: Copy, trust: Trust) -> None:
    """Refuse a copy that shows another thing than was observed, if it shows an observation."""
    if REST not in copy.leaves:
        return
    document, cuts = rest(copy.leaves[REST])
    found = members(document, "envelope opened", "R-OBS-1")
    bound = _digests(_payload(found["envelope"], copy, trust)["subject"])
    need(dict(cuts).get("/opened") == len(bound), "R-OBS-6 openings")
    if "manifest.json#" in copy.leaves:
        inner = copy.document("manifest.json")
        need(("undisclosed" in inner) == ("undisclosed" in bound), "R-OBS-5 undisclosed")
    for number, (name, digests) in enumerate(bound.items()):
        opening = copy.leaves.get(f"{REST}/opened/{number}", HIDDEN)
        if opening is not HIDDEN and name != "undisclosed":
            _check_part(copy, name, opening, digests)
