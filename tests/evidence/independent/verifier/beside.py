"""Check the files beside a copy: proof of a log and time stamp (R-MORE)."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

from .basics import (
    Refused,
    instant,
    members,
    need,
    read_canonical,
    sha_hex,
    signed_by,
    texts,
    unbase64,
)
from .logs import entry_hash
from .notes import Line, check_plain_text, check_timed, key_hash, moment, signature_lines
from .proofs import check_inclusion
from .stamps import read_stamp
from .trust import Key

PROOF = "log.tlog-proof"
STAMP = "stamp.tsr"
LIMIT = 65_536
NUMBER = re.compile("0|[1-9][0-9]{0,14}")
ORIGIN = re.compile("[!-*,-~]{1,200}")
EARLY = timedelta(minutes=5)


def _number(text: str, why: str) -> int:
    need(NUMBER.fullmatch(text) is not None, why)
    return int(text)


def _hash(text: str, why: str) -> bytes:
    data = unbase64(text, why)
    need(len(data) == 32, why)
    return data


def _head(head: str) -> tuple[bytes, int, list[bytes]]:
    """Return entry, index and path of a proof (R-MORE-1)."""
    lines = head.split("\n")
    need(3 <= len(lines) <= 66 and lines[0] == "c2sp.org/tlog-proof@v1", "R-MORE-1 lines")
    need(lines[1].startswith("extra ") and lines[2].startswith("index "), "R-MORE-1 lines")
    entry = unbase64(lines[1][6:], "R-MORE-1 extra")
    index = _number(lines[2][6:], "R-MORE-1 index")
    return entry, index, [_hash(line, "R-MORE-1 path") for line in lines[3:]]


def _check_entry(data: bytes, manifest: dict[str, Any], envelope: bytes) -> None:
    why = "R-MORE-2"
    entry = members(read_canonical(data), "about at digest form kind said", why)
    texts(entry, "about at digest form kind", why)
    said = members(entry["said"], "by contract verdict", why)
    texts(said, "by contract verdict", why)
    need(all(len(text) <= 4000 for text in (entry["at"], *said.values())), "R-MORE-2 length")
    need(entry["form"] == "statediff/entry/1" and entry["kind"] == "seal", why)
    need(entry["about"] == manifest["tree"]["root"], "R-MORE-2 root")
    need(entry["digest"] == sha_hex(envelope), "R-MORE-2 envelope")
    contract = manifest["contract"] + "@" + manifest["contract_version"]
    need(said["contract"] == contract, "R-MORE-2 contract")
    need(said["verdict"] == manifest["verdict"], "R-MORE-2 verdict")


def _content(text: str) -> tuple[str, int, bytes]:
    """Return origin, size and root of a checkpoint (R-MORE-3)."""
    lines = text[:-1].split("\n")
    need(len(lines) >= 3 and all(lines), "R-MORE-3 lines")
    need(ORIGIN.fullmatch(lines[0]) is not None, "R-MORE-3 origin")
    return lines[0], _number(lines[1], "R-MORE-3 size"), _hash(lines[2], "R-MORE-3 root")


def _time(text: str, origin: str, lines: list[Line], keys: list[Key]) -> datetime:
    """Return the time at which the log signed (R-MORE-6)."""
    for key in keys:
        if "evaluator" not in key.roles:
            continue
        plain, timed = (key_hash(origin, kind, key.raw) for kind in (1, 4))
        mine = [(head, sig) for name, head, sig in lines if name == origin]
        if plain not in [head for head, _ in mine]:
            continue
        seconds: int | None = None
        for head, signature in mine:
            if head == plain:
                need(signed_by(key.raw, signature, text.encode()), "R-MORE-6 does not fit")
            if head == timed:
                seconds = check_timed(key, signature, text, "R-MORE-6")
        if seconds is None:
            raise Refused("R-MORE-6 no time")
        need(key.counts(moment(seconds)), "R-MORE-6 does not count")
        return moment(seconds)
    raise Refused("R-MORE-6 no key")


def read_proof(data: bytes, manifest: dict[str, Any], envelope: bytes, keys: list[Key]) -> datetime:
    """Return the time of a log's checkpoint over the envelope, or refuse the proof."""
    head, gap, note = check_plain_text(data, "R-MORE-1").partition("\n\n")
    need(gap != "", "R-MORE-1 no empty line")
    entry, index, path = _head(head)
    _check_entry(entry, manifest, envelope)
    end = note.rfind("\n\n")
    need(end >= 0, "R-MORE-3 no checkpoint")
    text = note[: end + 1]
    origin, size, root = _content(text)
    check_inclusion(entry_hash(entry), index, size, path, root)
    lines = signature_lines(note[end + 2 :], "R-MORE-5")
    need(all(ORIGIN.fullmatch(name) is not None for name, _, _ in lines), "R-MORE-5 name")
    return _time(text, origin, lines, keys)


def check_beside(files: dict[str, bytes], manifest: dict[str, Any], keys: list[Key]) -> None:
    """Refuse a copy of which a file beside it breaks a rule."""
    earliest = instant(manifest["sealed_at"]) - EARLY
    if PROOF in files:
        need(len(files[PROOF]) <= LIMIT, "R-MORE-1 size")
        time = read_proof(files[PROOF], manifest, files["envelope.json"], keys)
        need(time >= earliest, "R-MORE-7 proof")
    if STAMP in files:
        need(len(files[STAMP]) <= LIMIT, "R-MORE-8 size")
        time = read_stamp(files[STAMP], files["envelope.json"])
        need(time >= earliest, "R-MORE-7 stamp")
