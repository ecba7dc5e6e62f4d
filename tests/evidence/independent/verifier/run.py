"""Answer the vectors of a folder, and say where the answers differ."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from .answer import meets, verify
from .basics import Refused
from .kept import read_kept
from .logs import goes_on, logged, missing_trials, read_log
from .notes import read_checkpoint
from .opening import CannotTell
from .proofs import verify_consistency, verify_proof
from .releases import verify_release
from .replay import replay
from .sealed import read_zip
from .statements import verify_expiry, verify_label
from .trust import Key, Trust, read_trust

Files = dict[str, bytes]
Options = dict[str, Any]
COPIES = ("bundle", "zip", "kept")
FAULTS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def _copy(kind: str, files: Files, options: Options, trust: Trust) -> tuple[str, Any]:
    log = None
    if kind == "zip":
        files = read_zip(files["sealed.zip"])
    elif kind == "kept":
        vault = {name[6:-4]: data for name, data in files.items() if name.startswith("vault/")}
        files = read_kept(files["bundle.kept"], vault if options["vault"] else None)
    elif "log" in files:
        files = dict(files)
        log = files.pop("log")
    copy, status, answer = verify(files, trust)
    if log is not None:
        answer["logged"] = logged(read_log(log), copy.manifest["trial"], answer["states"])
    return (status if meets(copy, options) else "UNMET"), answer


def _log(files: Files, options: Options, keys: list[Key]) -> dict[str, Any]:
    checkpoint = read_checkpoint(files["checkpoint"], keys, options["origin"])
    entries = read_log(files["log"])
    later = goes_on(files["log"], checkpoint.size, checkpoint.root)
    return {"entries": len(entries), "later": later, "missing": missing_trials(entries)}


def _statement(kind: str, files: Files, keys: list[Key]) -> dict[str, Any]:
    if kind == "label":
        return verify_label(files["statement.json"], keys)
    if kind == "expiry":
        return verify_expiry(files["statement.json"], keys)
    if kind == "release":
        return verify_release(files["released.yaml"], keys)
    raise Refused("a kind that is not known")


def _of_log(kind: str, files: Files, options: Options, keys: list[Key]) -> dict[str, Any]:
    if kind == "checkpoint":
        return read_checkpoint(files["checkpoint"], keys, options["origin"]).answer()
    if kind == "proof":
        return verify_proof(files["proof"], files.get("checkpoint"), keys, options["origin"])
    if kind == "consistency":
        return verify_consistency(files["old"], files["new"], files.get("proof"), keys)
    if kind == "log":
        return _log(files, options, keys)
    return _statement(kind, files, keys)


def answer_vector(kind: str, trust: bytes, files: Files, options: Options) -> tuple[str, Any, str]:
    """Return what is said of a vector, what was found, and why it was refused."""
    try:
        trusted = read_trust(trust)
        if kind in COPIES:
            return (*_copy(kind, files, options, trusted), "")
        if kind == "replay":
            return "REPRODUCED", replay(files, trusted), ""
        return "ACCEPTED", _of_log(kind, files, options, trusted.keys), ""
    except CannotTell as error:
        return "CANNOT TELL", None, str(error)
    except Refused as error:
        return "INVALID" if kind in COPIES else "REFUSED", None, str(error)


def check_vector(folder: Path, vector: dict[str, Any]) -> str:
    """Return how the answer to a vector differs from the index; nothing if it does not."""
    kind, expect, wanted = vector["kind"], vector["expect"], vector["answer"]
    files = {name: (folder / path).read_bytes() for name, path in vector["files"].items()}
    trust = (folder / vector["trust"]).read_bytes()
    try:
        got, found, why = answer_vector(kind, trust, files, vector["options"])
    except FAULTS as error:
        got, found, why = "CRASH", None, repr(error)
    # This program takes two of three steps; what only the third sees, it does not refuse.
    beyond = kind == "replay" and vector["options"]["step"] == "whole"
    if beyond and (got == "CANNOT TELL" or (got, expect) == ("REPRODUCED", "REFUSED")):
        return ""
    if got != expect:
        return f"{kind} {vector['name']}: expected {expect}, got {got} {why} {vector['rules']}"
    if wanted is not None and wanted != found:
        return f"{kind} {vector['name']}: expected {json.dumps(wanted)}, got {json.dumps(found)}"
    return ""


def check_folder(folder: Path) -> tuple[dict[str, tuple[int, int]], list[str]]:
    """Return of each kind how many vectors agree, of how many, and all differences."""
    index = json.loads((folder / "index.json").read_bytes())
    good: Counter[str] = Counter()
    total: Counter[str] = Counter()
    differences: list[str] = []
    for vector in index["vectors"]:
        difference = check_vector(folder, vector)
        total[vector["kind"]] += 1
        if difference:
            differences.append(difference)
        else:
            good[vector["kind"]] += 1
    return {kind: (good[kind], count) for kind, count in sorted(total.items())}, differences


def main(folder: Path) -> int:
    """Print figures and differences; return 0 if all vectors agree, else 1."""
    figures, differences = check_folder(folder)
    for difference in differences:
        print(difference)
    for kind, (good, count) in figures.items():
        print(f"{kind:12} {good:4} of {count:4}")
    total = sum(count for _, count in figures.values())
    print(f"{'all':12} {total - len(differences):4} of {total:4}")
    return 1 if differences or not total else 0
