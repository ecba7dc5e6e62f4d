"""This version's answers to a vector, as the index of vectors says them, by kind."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from statediff_lab.labels import Flagged, Labelled, read_signed

from statediff.contract.authoring.versions import read_releases
from statediff.errors import BundleError, ContractError, InputError, NotReplayable, UsageError
from statediff.evidence import verify as v
from statediff.evidence.checkpoints import (
    Checkpoint,
    check_consistent,
    check_extends,
    check_proof,
    read_checkpoint,
)
from statediff.evidence.demands import Demands
from statediff.evidence.log import read_log, roots_entries
from statediff.evidence.seal import opened
from statediff.evidence.vault import Vault, read_expiry, read_kept, restored
from statediff.kernel import replay
from statediff.workspace.logs.releases import check_release

Files = Mapping[str, bytes]
Options = Mapping[str, Any]
Trust = tuple[v.Signer, ...]
Answer = tuple[str, Any]
"""What it is, and what it says; None of what is refused."""
DEMANDS = ("contract", "min_kernel", "isolation")


def answer(kind: str, files: Files, trust: bytes, options: Options) -> Answer:
    """The answer to one vector."""
    refused = "INVALID" if kind in ("bundle", "zip", "kept") else "REFUSED"
    try:
        return KINDS[kind](files, v.read_trust(trust), options)
    except (v.Rejected, BundleError, ContractError, InputError, NotReplayable):
        return refused, None


def _bundle(files: Files, trust: Trust, options: Options) -> Answer:
    copy = {name: data for name, data in files.items() if name != "log"}
    found = v.verify(copy, trust)
    said = {
        "verdict": found.manifest["verdict"],
        "signers": list(found.signers),
        "withheld": dict(found.withheld),
        "states": found.states and dict(found.states),
    }
    if "log" in files:
        trial, states = found.manifest["trial"], found.states or {}
        entries = roots_entries(read_log(files["log"]), trial, states)
        said["logged"] = list(entries)
    unmet = list(Demands(**{k: x for k, x in options.items() if k in DEMANDS}).unmet(found))
    return ("UNMET" if unmet else found.status), said


def _zip(files: Files, trust: Trust, options: Options) -> Answer:
    return _bundle(v.unzipped(files["sealed.zip"]), trust, options)


def _kept(files: Files, trust: Trust, options: Options) -> Answer:
    kept = read_kept(files["bundle.kept"])
    if not options["vault"]:
        return _bundle(kept.copy.files, trust, {})
    with tempfile.TemporaryDirectory() as folder:
        for name, key in files.items():
            if name.startswith("vault/"):
                Path(folder, name.removeprefix("vault/")).write_bytes(key)
        return _bundle(restored(kept, Vault(Path(folder))).files, trust, {})


def _label(files: Files, trust: Trust, _options: Options) -> Answer:
    found = read_signed(files["statement.json"], trust)
    by = found.reviewer if isinstance(found, Labelled) else found.by
    said: dict[str, Any] = {"bundle": found.bundle, "by": by, "at": found.at.isoformat()}
    if isinstance(found, Flagged):
        return "ACCEPTED", {**said, "is_unreliable": found.is_unreliable}
    given = found.given.label if isinstance(found, Labelled) else found.label
    return "ACCEPTED", {**said, "label": given.value}


def _expiry(files: Files, trust: Trust, _options: Options) -> Answer:
    payload, by = read_expiry(files["statement.json"], trust)
    return "ACCEPTED", {"root": payload["root"], "items": payload["items"], "by": by}


def _release(files: Files, trust: Trust, _options: Options) -> Answer:
    found = read_releases(files["released.yaml"], "released.yaml")
    return "ACCEPTED", {
        name: list(check_release(name, entry, trust)) for name, entry in found.items()
    }


def _seen(found: Checkpoint) -> dict[str, Any]:
    return {
        "origin": found.origin,
        "size": found.size,
        "root": found.root.hex(),
        "at": found.at.isoformat(),
        "by": found.signer,
        "witnesses": [[w.name, w.at.isoformat()] for w in found.witnesses],
    }


def _checkpoint(files: Files, trust: Trust, options: Options) -> Answer:
    return "ACCEPTED", _seen(read_checkpoint(files["checkpoint"], trust, options["origin"]))


def _proof(files: Files, trust: Trust, options: Options) -> Answer:
    entry, seen = check_proof(
        files["proof"], trust, origin=options["origin"], signed=files.get("checkpoint")
    )
    return "ACCEPTED", {"entry": dict(entry), **_seen(seen)}


def _consistency(files: Files, trust: Trust, _options: Options) -> Answer:
    old, new = (read_checkpoint(files[name], trust) for name in ("old", "new"))
    try:
        return "ACCEPTED", {"later": check_consistent(old, new, files.get("proof"))}
    except UsageError as error:  # who asks has to say what shows it
        raise BundleError(str(error)) from error


def _log(files: Files, trust: Trust, options: Options) -> Answer:
    seen = read_checkpoint(files["checkpoint"], trust, options["origin"])
    log = read_log(files["log"])
    later = check_extends(log, seen)
    missing = [[each.run, each.missing] for each in log.registered.values()]
    return "ACCEPTED", {"entries": len(log.lines), "later": later, "missing": missing}


def _replay(files: Files, trust: Trust, _options: Options) -> Answer:
    return "REPRODUCED", {"verdict": replay(opened(v.verify(files, trust))).verdict.value}


KINDS: Mapping[str, Callable[[Files, Trust, Options], Answer]] = {
    "bundle": _bundle,
    "checkpoint": _checkpoint,
    "consistency": _consistency,
    "expiry": _expiry,
    "kept": _kept,
    "label": _label,
    "log": _log,
    "proof": _proof,
    "release": _release,
    "replay": _replay,
    "zip": _zip,
}
