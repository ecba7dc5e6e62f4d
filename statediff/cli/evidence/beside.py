"""Demands of `verify` on the proof of a log and the time stamp inside a copy."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statediff.cli.options import opt
from statediff.evidence import verify as v
from statediff.evidence.checkpoints import check_proof
from statediff.workspace.bundles import read_file
from statediff.workspace.folders import shown

if TYPE_CHECKING:
    from statediff.evidence.seal import Sealed
    from statediff.evidence.verify import Signer, Verified


@dataclass(frozen=True, kw_only=True)
class BesideOptions:
    """Demands on the proof and the time stamp in a copy."""

    origin: str | None = opt("NAME", "The log that must have it, by its proof.")
    witnesses: int = opt("N", "How many witnesses signed that log.", default=0, min=0)
    authorities: Path | None = opt(
        "FILE", "Root certificates (PEM): one of theirs must have stamped it."
    )

    def facts(self, copy: Sealed, found: Verified, trust: Sequence[Signer]) -> dict[str, Any]:
        """The log and the time that the copy shows; `BundleError` for a token of nobody's."""
        from statediff.evidence.timestamps import read_roots, stamped_at

        sealed_in = stamp = None
        if found.logged is not None:
            names = None  # who is not asked for does not decide: as in the verifiers in one file
            if self.witnesses:
                seen = check_proof(copy.files[v.PROOF], trust)[1]
                names = [each.name for each in seen.witnesses]
            own = {**vars(found.logged), "at": found.logged.at.isoformat()}
            sealed_in = {**own, "witnesses": names}
        if found.stamped_at is not None:
            stamp = {"at": found.stamped_at.isoformat(), "counts": False}
            if self.authorities is not None:
                roots = read_roots(read_file(self.authorities), shown(self.authorities))
                stamped_at(copy.files[v.STAMP], copy.files["envelope.json"], roots)
                stamp["counts"] = True
        late = _late(copy, found, trust, is_stamp_asked=self.authorities is not None)
        return {"sealed_in": sealed_in, "stamp": stamp, "late": late}

    def unmet(self, found: Verified, facts: Mapping[str, Any]) -> list[str]:
        """Each demand that the copy does not meet, or does not show that it meets."""
        lacks = []
        if found.logged is None and (self.origin is not None or self.witnesses):
            lacks.append("no proof that a log has this seal is in this copy")
        elif found.logged is not None:
            if self.origin not in (None, found.logged.origin):
                lacks.append(f"it is in the log {found.logged.origin}, not in {self.origin}")
            if len(names := facts["sealed_in"]["witnesses"] or []) < self.witnesses:
                lacks.append(f"trusted witnesses of the log: {len(names)}, not {self.witnesses}")
        if self.authorities is not None and facts["stamp"] is None:
            lacks.append("no time stamp is in this copy")
        is_time_asked = self.authorities is not None or self.origin is not None or self.witnesses
        return [*lacks, *(facts["late"] if is_time_asked else ())]

    @staticmethod
    def lines(facts: Mapping[str, Any]) -> list[str]:
        """The facts in words."""
        lines = []
        if (log := facts["sealed_in"]) is not None:
            by = ", ".join([log["signer"], *(log["witnesses"] or ())])
            entry = f"entry {log['entry']} of {log['entries']}"
            lines.append(f"in the log {log['origin']}: {entry}, signed by {by} at {log['at']}")
        if (stamp := facts["stamp"]) is not None:
            how = "" if stamp["counts"] else "; by whom was not checked: name --authorities"
            lines.append(f"time stamp: {stamp['at']}{how}")
        return lines


def _late(
    copy: Sealed, found: Verified, trust: Sequence[Signer], *, is_stamp_asked: bool
) -> list[str]:
    """Each key of the seal that no longer counted when the log, or the authority, saw the seal.

    The time of sealing is the signer's own word: with a key whose time is over it is an early one.
    """
    ids = {each["keyid"] for each in json.loads(copy.files["envelope.json"])["signatures"]}
    times = {} if found.logged is None else {"logged": found.logged.at}
    if found.stamped_at is not None and is_stamp_asked:
        times["stamped"] = found.stamped_at
    return [
        f"it was {how} at {at}, when the key of {signer.name} did not count"
        for how, at in times.items()
        for signer in trust
        if v.key_id(signer.key) in ids
        and signer.valid_until is not None
        and at >= signer.valid_until
    ]
