"""`attach`: a proof of a log and a time stamp inside a copy; what `verify` asks of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from statediff.cli.options import JsonFlag, TrustOption
from statediff.cli.output import print_result, shown
from statediff.errors import BundleError, UsageError
from statediff.extras import require_extra
from statediff.model.values import printable
from statediff.workspace.bundles import load_copy, read_file

if TYPE_CHECKING:
    from statediff.evidence.seal import Sealed
    from statediff.evidence.verify import Signer, Verified

ATTACHED: Final = "statediff/attached/1"


@dataclass(frozen=True, kw_only=True)
class BesideOptions:
    """What the proof and the time stamp in a copy have to show."""

    origin: Annotated[
        str | None,
        typer.Option("--origin", metavar="NAME", help="The log that must have it, by its proof."),
    ] = None
    witnesses: Annotated[
        int,
        typer.Option("--witnesses", metavar="N", min=0, help="How many witnesses signed that log."),
    ] = 0
    authorities: Annotated[
        Path | None,
        typer.Option(
            "--authorities",
            metavar="FILE",
            help="Root certificates (PEM): one of theirs must have stamped it.",
        ),
    ] = None

    def facts(self, copy: Sealed, found: Verified, trust: Sequence[Signer]) -> dict[str, Any]:
        """What the copy shows of a log and of a time; `BundleError` for a token of nobody's."""
        from statediff.evidence import verify as v
        from statediff.evidence.checkpoints import check_proof
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
    import json

    from statediff.evidence import verify as v

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


def attach(
    sealed: Annotated[
        Path, typer.Argument(metavar="SEALED", help="A sealed bundle: folder, zip or .kept.")
    ],
    trust: TrustOption,
    out: Annotated[
        Path,
        typer.Option("--out", metavar="PATH", help="Where it goes: a folder, a .zip or a .kept."),
    ],
    log: Annotated[
        Path | None,
        typer.Option("--log", metavar="LOG", help="The log that has it, by `log add`."),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option("--checkpoint", metavar="FILE", help="What was signed of that log since."),
    ] = None,
    authority: Annotated[
        str | None,
        typer.Option("--authority", metavar="URL", help="A time stamping authority to ask."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Put a proof that a log has it, and a time stamp, into a sealed copy.

    The authority learns the SHA-256 of the envelope and nothing else.
    """
    from statediff.evidence import verify as v
    from statediff.evidence.keys import load_trust
    from statediff.evidence.seal import Sealed
    from statediff.evidence.vault import SUFFIX

    if (sealed.suffix == SUFFIX) != (out.suffix == SUFFIX):
        raise UsageError(f"a kept bundle stays one: {SUFFIX} and an --out of that name go together")
    if (log is None) != (checkpoint is None):
        raise UsageError("a proof takes both: --log LOG and --checkpoint FILE")
    copy, keys = load_copy(sealed, None), load_trust(trust)
    files = dict(copy.files)
    try:
        found = v.verify(files, keys)
        if log is not None and checkpoint is not None:
            files[v.PROOF] = _proof(copy, found, log, read_file(checkpoint))
        if authority is not None:
            from statediff.evidence.timestamps import request

            require_extra("http", "httpx", "what answers over HTTP")
            from statediff.workspace.logs.witnesses import ask_time

            files[v.STAMP] = ask_time(authority, request(files["envelope.json"]))
        if files == dict(copy.files):
            raise UsageError("nothing to attach: name --log and --checkpoint, or --authority")
        again = v.verify(files, keys)  # nothing goes in that a reader would refuse
    except v.Rejected as error:
        raise BundleError(printable(f"INVALID: {shown(sealed)}: {error}")) from error
    _save(sealed, Sealed(files), out)
    facts = BesideOptions().facts(Sealed(files), again, keys)
    lines = [f"{shown(out)}: {', '.join(sorted(set(files) - set(v.FILES)))}"]
    lines += BesideOptions.lines(facts)
    document = {"schema": ATTACHED, "copy": shown(out), **facts}
    print_result(document, "\n".join(map(printable, lines)), as_json=as_json)


def _save(of: Path, copy: Sealed, out: Path) -> None:
    """The copy, or the kept bundle that has it."""
    from statediff.evidence.seal import save
    from statediff.evidence.vault import SUFFIX, kept_bytes
    from statediff.workspace.bundles import load_kept
    from statediff.workspace.folders import write_file

    if of.suffix != SUFFIX:
        save(copy, out)
        return
    if out.exists():
        raise UsageError(f"{shown(out)} exists already; nothing is overwritten")
    write_file(out, kept_bytes(replace(load_kept(of), copy=copy)))


def _proof(copy: Sealed, found: Verified, log: Path, signed: bytes) -> bytes:
    """That the log has the copy's seal, by a checkpoint that was signed since."""
    from statediff.evidence.checkpoints import proof_of
    from statediff.evidence.log import SEAL, seal_record
    from statediff.evidence.notes import read_head, read_note
    from statediff.workspace.logs.files import load_log

    kept, digest = load_log(log), seal_record(copy, found).digest
    entry = next(
        (n for n, e in enumerate(kept.entries) if (e["kind"], e.get("digest")) == (SEAL, digest)),
        None,
    )
    if entry is None:
        raise UsageError(f"{shown(log)}: does not have this seal; `statediff log add` it first")
    size = read_head(read_note(signed)).size
    if entry >= size:
        raise UsageError(f"the checkpoint is older than entry {entry}; sign another")
    return proof_of(kept, entry, signed, size)
