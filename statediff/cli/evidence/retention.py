"""`expire` and `raw`: what is kept of a sealed bundle is erased in time, or read by an auditor."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from statediff.cli.output import JsonFlag

EXPIRED = "statediff/expired/1"
RAW = "statediff/raw-captures/1"

VaultOption = Annotated[
    Path | None,
    typer.Option("--vault", metavar="DIR", help="Where the keys of a kept bundle (.kept) lie."),
]
TrustOption = Annotated[
    Path, typer.Option("--trust", metavar="FILE", help="The trust file: whose keys count.")
]


def expire(  # noqa: PLR0913, PLR0917 - one parameter an option
    bundle: Annotated[Path, typer.Argument(metavar="KEPT", help="A kept bundle (.kept).")],
    vault: Annotated[Path, typer.Option("--vault", metavar="DIR", help="Where its keys lie.")],
    key: Annotated[
        Path, typer.Option("--key", metavar="KEY", help="The key that signs the record.")
    ],
    trust: TrustOption,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where the record goes.")],
    log: Annotated[
        Path | None, typer.Option("--log", metavar="LOG", help="A log that the record is added to.")
    ] = None,
    because: Annotated[
        str, typer.Option("--because", metavar="TEXT", help="Why, where it is not just time.")
    ] = "its time has come",
    everything: Annotated[
        bool, typer.Option("--everything", help="Erase all of it now, due or not.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Erase what of a kept bundle is due, by destroying keys; leaves a signed record."""
    from statediff.cli.output import emit, results, shown
    from statediff.errors import UsageError
    from statediff.evidence.keys import load_key, load_trust
    from statediff.evidence.log import record_entry
    from statediff.evidence.vault import Vault, due, expiry
    from statediff.workspace.bundles import kept_copy
    from statediff.workspace.folders import write_file
    from statediff.workspace.logrecords import retention
    from statediff.workspace.logs import append

    if everything and because == "its time has come":
        raise UsageError("--everything: say with --because why it goes before its time")
    signing, trusted = load_key(key), load_trust(trust)
    kept, keys = kept_copy(bundle), Vault(vault)
    exactly = datetime.now(UTC)
    now = exactly.replace(microsecond=0)
    items = due(kept, keys, None if everything else exactly)
    record = expiry(kept, items, now, because, signing)
    entry = retention(record, trusted)  # signed by a key that does not count, it would say nothing
    if out.exists():
        raise UsageError(f"{shown(out)} exists already; a record is never overwritten")
    # The record stands before a key is gone: what is missing can always be told from what is lost.
    write_file(out, record + b"\n", exclusive=True, durable=True)
    for item in items:
        keys.destroy(item.name)
    number = None
    if log is not None:
        number, _line = append(log, partial(record_entry, record=entry, at=now))
    if as_json:
        emit({
            "schema": EXPIRED, "record": shown(out), "root": kept.root, "entry": number,
            "items": [item.name for item in items], "left": len(due(kept, keys, None)),
        })  # fmt: skip
    else:
        where = "" if number is None else f", entry {number} of {shown(log or out)}"
        results().print(
            f"{shown(bundle)}: items erased: {len(items)}, "
            f"left: {len(due(kept, keys, None))}; record {shown(out)}{where}", soft_wrap=True,
        )  # fmt: skip


def raw(
    sealed: Annotated[
        Path, typer.Argument(metavar="SEALED", help="An auditor's copy: folder, zip or .kept.")
    ],
    trust: TrustOption,
    identity: Annotated[
        Path, typer.Option("--identity", metavar="FILE", help="The auditor's age identity.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="A new folder for them.")],
    vault: VaultOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Decrypt the raw captures of an auditor's copy, each checked against the signature."""
    from statediff.cli.output import emit, results, shown
    from statediff.errors import BundleError, StorageError, UsageError
    from statediff.evidence.keys import load_trust
    from statediff.evidence.raw import decrypted
    from statediff.evidence.verify import RAW as TAG
    from statediff.evidence.verify import Rejected, verify
    from statediff.workspace.bundles import load_copy, read_file

    try:
        found = verify(load_copy(sealed, vault).files, load_trust(trust))
    except Rejected as error:
        raise BundleError(f"INVALID: {shown(sealed)}: {error}") from error
    leaves = [leaf for leaf in found.leaves if leaf.tag == TAG]
    if not leaves:
        raise UsageError(f"{shown(sealed)}: holds no raw captures; only auditors' copies may")
    told = read_file(identity).decode("utf-8", errors="replace")
    contents = [decrypted(leaf, told) for leaf in sorted(leaves, key=lambda leaf: leaf.path)]
    for name, _ in contents:
        if Path(name).name != name or name.startswith("."):
            raise BundleError(f"{name!r} is no name of a raw capture")
    try:
        out.mkdir(parents=True)
        for name, content in contents:
            (out / name).write_bytes(content)
    except OSError as error:
        raise StorageError(f"{shown(out)}: cannot be written: {error.strerror}") from error
    if as_json:
        emit({"schema": RAW, "folder": shown(out), "names": [name for name, _ in contents]})
    else:
        results().print(f"{shown(out)}: raw captures: {len(contents)}", soft_wrap=True)
