"""`attach`: a proof of a log and a time stamp inside a copy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from statediff.cli.evidence.beside import BesideOptions
from statediff.cli.options import JsonFlag, TrustOption
from statediff.cli.output import print_result
from statediff.errors import BundleError, UsageError
from statediff.extras import require_extra
from statediff.model.values import printable
from statediff.workspace.bundles import load_copy, read_file
from statediff.workspace.folders import shown

if TYPE_CHECKING:
    from statediff.evidence.seal import Sealed
    from statediff.evidence.verify import Verified

ATTACHED: Final = "statediff/attached/1"


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
            from statediff_lab.witnesses import ask_time

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
