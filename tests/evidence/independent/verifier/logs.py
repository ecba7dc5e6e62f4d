"""Read logs: entries, roots, and what they say of registrations and copies (R-LOG)."""

from __future__ import annotations

import re
from typing import Any

from .basics import (
    Refused,
    canonical,
    is_hex,
    is_number,
    members,
    need,
    read_canonical,
    sha,
    sha_hex,
    texts,
)

RECORDS = ("adjudication", "registration", "release", "resolution", "retention", "roots", "seal")
VERDICT = (
    "form kind at because bundle contract contract_digest contract_version evidence kernel "
    "supersedes trial verdict"
)
TEXTS = "at bundle contract contract_digest contract_version evidence kernel trial verdict"


def _check_record(entry: dict[str, Any]) -> None:
    members(entry, "form kind at about digest said", "R-LOG-2")
    need(entry["form"] == "statediff/entry/1" and is_hex(entry["digest"], 64), "R-LOG-2")
    need(isinstance(entry["said"], dict), "R-LOG-2")
    for text in (entry["about"], entry["at"], *entry["said"].values()):
        need(isinstance(text, str) and len(text) <= 4000, "R-LOG-2")


def _check_verdict(entry: dict[str, Any]) -> None:
    need(entry.get("form") in ("statediff/entry/1", "statediff/entry/2"), "R-LOG-3")
    has_run = entry["form"] == "statediff/entry/2"
    members(entry, VERDICT + (" run" if has_run else ""), "R-LOG-3")
    need(entry["kind"] == "verdict", "R-LOG-3")
    texts(entry, TEXTS, "R-LOG-3")
    need(not has_run or isinstance(entry["run"], str), "R-LOG-3")
    need(entry["because"] is None or isinstance(entry["because"], str), "R-LOG-4")
    need(entry["supersedes"] is None or is_number(entry["supersedes"]), "R-LOG-4")
    need((entry["because"] is None) == (entry["supersedes"] is None), "R-LOG-4")


def _registration(said: dict[str, str]) -> list[str]:
    trials = said.get("trials", "")
    need(re.fullmatch("[0-9]{1,7}", trials) is not None, "R-LOG-5")
    names = said["names"].split(" ") if said.get("names") else []
    need(not names or len(names) == int(trials), "R-LOG-5")
    need("" not in names, "R-LOG-5 an empty name")
    need(len(set(names)) == len(names), "R-LOG-5")
    return names


def read_log(data: bytes) -> list[dict[str, Any]]:
    """Return the entries of a log, or refuse it."""
    need(data == b"" or data.endswith(b"\n"), "R-LOG-1")
    entries: list[dict[str, Any]] = []
    digests: set[tuple[str, str]] = set()
    latest: dict[str, int] = {}
    registered: dict[str, list[str]] = {}
    for number, line in enumerate(data.split(b"\n")[:-1]):
        need(line != b"", "R-LOG-1")
        entry = read_canonical(line)
        need(isinstance(entry, dict), "R-LOG-1")
        kind = entry.get("kind")
        if isinstance(kind, str) and kind in RECORDS:
            _check_record(entry)
            need((kind, entry["digest"]) not in digests, "R-LOG-2 twice")
            digests.add((kind, entry["digest"]))
            if kind == "registration":
                registered[entry["digest"]] = _registration(entry["said"])
        else:
            _check_verdict(entry)
            need(entry["supersedes"] == latest.get(entry["evidence"]), "R-LOG-4")
            latest[entry["evidence"]] = number
            if "run" in entry:
                need(entry["run"] in registered, "R-LOG-6")
                names = registered[entry["run"]]
                need(not names or entry["trial"] in names, "R-LOG-6 trial")
        entries.append(entry)
    return entries


def entry_hash(line: bytes) -> bytes:
    """Return the hash of an entry (R-LOG-7)."""
    return sha(b"\0" + line)


def log_root(hashes: list[bytes]) -> bytes:
    """Return the root of a log (RFC 6962 2.1)."""
    if not hashes:
        return sha(b"")
    stack: list[tuple[int, bytes]] = []
    for item in hashes:
        size = 1
        while stack and stack[-1][0] == size:
            item = sha(b"\1" + stack.pop()[1] + item)
            size *= 2
        stack.append((size, item))
    root = stack.pop()[1]
    while stack:
        root = sha(b"\1" + stack.pop()[1] + root)
    return root


def goes_on(data: bytes, size: int, root: bytes) -> int:
    """Return how many entries come after a checkpoint, or refuse (R-LOG-8)."""
    lines = data.split(b"\n")[:-1]
    if len(lines) < size:
        raise Refused("R-LOG-8 fewer entries")
    need(log_root([entry_hash(line) for line in lines[:size]]) == root, "R-LOG-8 root")
    return len(lines) - size


def missing_trials(entries: list[dict[str, Any]]) -> list[list[Any]]:
    """Return of each registration its run and how many trials have no verdict."""
    trials: dict[str, set[str]] = {}
    for entry in entries:
        if "run" in entry:
            trials.setdefault(entry["run"], set()).add(entry["trial"])
    missing: list[list[Any]] = []
    for entry in entries:
        if entry["kind"] == "registration":
            said, found = entry["said"], trials.get(entry["digest"], set())
            missing.append([said.get("run", ""), int(said["trials"]) - len(found)])
    return missing


def logged(entries: list[dict[str, Any]], trial: str, states: Any) -> list[int | None]:
    """Return the numbers of the entry of the roots and of the verdict (R-LOG-9)."""
    first: int | None = None
    verdict: int | None = None
    digest = None if states is None else sha_hex(canonical([trial, states]))
    for number, entry in enumerate(entries):
        if first is None and digest is not None and entry.get("digest") == digest:
            first = number
        if verdict is None and entry["kind"] == "verdict" and entry["trial"] == trial:
            verdict = number
    return [first, verdict]
