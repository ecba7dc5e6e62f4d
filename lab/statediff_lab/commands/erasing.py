"""`expire`: what of a kept bundle is due is erased, by destroying its keys."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from statediff.cli.options import JsonFlag, TrustOption
from statediff.cli.output import print_result
from statediff.errors import UsageError
from statediff.model.values import printable
from statediff.workspace.folders import shown

if TYPE_CHECKING:
    from statediff.evidence.vault import Item, Vault
    from statediff.evidence.verify import Verified
    from statediff_lab.leftovers import Leftovers
    from statediff_lab.retained import ChunkKey, ChunkKeys

EXPIRED: Final = "statediff/expired/1"
IN_TIME: Final = "its time has come"
"""Why something is erased, unless somebody says more."""


@dataclass(frozen=True, kw_only=True)
class ErasureOptions:
    """Why something is erased, and how much of it."""

    because: Annotated[
        str, typer.Option("--because", metavar="TEXT", help="Why, where it is not just time.")
    ] = IN_TIME
    everything: Annotated[
        bool, typer.Option("--everything", help="Erase all of it now, due or not.")
    ] = False
    look: Annotated[
        list[Path] | None,
        typer.Option("--look", metavar="DIR", help="Look here too for what stays readable."),
    ] = None

    def require_reason(self) -> None:
        """Raise `UsageError` where something goes before its time without a reason."""
        if self.everything and self.because == IN_TIME:
            raise UsageError("--everything: say with --because why it goes before its time")


def expire(
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
    *,
    erasure: ErasureOptions,
    as_json: JsonFlag = False,
) -> None:
    """Erase what of a kept bundle is due, by destroying keys; leaves a signed record.

    The bundle is verified first. What stays readable elsewhere is listed.
    """
    from statediff.evidence.keys import load_key, load_trust
    from statediff.evidence.log import record_entry
    from statediff.evidence.vault import Vault, check_kept, due, expiry
    from statediff.workspace.bundles import load_kept
    from statediff.workspace.folders import write_file
    from statediff.workspace.logs.files import append, retention
    from statediff_lab.retained import chunk_keys

    erasure.require_reason()
    signing, trusted = load_key(key), load_trust(trust)
    kept, keys = load_kept(bundle), Vault(vault)
    found, exactly = check_kept(kept, keys, trusted), datetime.now(UTC)
    items = due(kept, keys, None if erasure.everything else exactly)
    places, copies = _places(found, [bundle.parent, *(erasure.look or ())])
    chunks = chunk_keys(found, places, keys)
    gone = [key for key in chunks.keys if erasure.everything or key.until <= exactly]
    now, names = exactly.replace(microsecond=0), [key.name for key in gone]
    record = expiry(kept, items, now, erasure.because, signing, names)
    entry = retention(record, trusted)  # signed by a key that does not count, it would say nothing
    if out.exists():
        raise UsageError(f"{shown(out)} exists already; a record is never overwritten")
    # The record is there before a key is gone: what is missing is always known from what is lost.
    write_file(out, record + b"\n", exclusive=True, durable=True)
    _destroy(items, keys, gone)
    left = check_kept(kept, keys, trusted)
    removed = _remove_withheld(found, left, places)
    readable = _readable(found, set(left.disclosed), places, copies)
    number = None if log is None else append(log, partial(record_entry, record=entry, at=now))[0]
    erased = {
        "schema": EXPIRED,
        "record": shown(out),
        "root": kept.root,
        "entry": number,
        "items": [item.name for item in items],
        "left": len(due(kept, keys, None)),
        "removed": list(map(shown, removed)),
        **_chunks_document(chunks, gone),
    }
    where = shown(out) if log is None else f"{shown(out)}, entry {number} of {shown(log)}"
    text = f"{shown(bundle)}: items erased: {len(items)}, left: {erased['left']}; record {where}"
    _print_erased(erased, text, readable, as_json=as_json)


def _destroy(items: Sequence[Item], vault: Vault, chunks: Sequence[ChunkKey]) -> None:
    """The keys of the bundle's items and of the chunks are gone."""
    for item in items:
        vault.destroy(item.name)
    for each in chunks:
        each.vault.destroy(each.name)


def _remove_withheld(found: Verified, left: Verified, folders: list[Path]) -> list[Path]:
    """Remove what the bundle does not show from beside its copies, once its answer is erased."""
    from statediff_lab.leftovers import withheld_files

    removed: list[Path] = []
    if any(leaf.path == "answer.json#" for leaf in left.leaves):
        return removed
    for path in withheld_files(found, folders):
        with contextlib.suppress(OSError):
            path.unlink()
            removed.append(path)
    return removed


def _chunks_document(chunks: ChunkKeys, gone: Sequence[ChunkKey]) -> dict[str, Any]:
    """The keys of chunks, each with whether it is gone, and what was left alone."""
    keys = [
        {
            "source": key.source,
            "trial": shown(key.trial),
            "key": key.name,
            "erased": key in gone,
        }
        for key in chunks.keys
    ]
    return {"chunks": keys, "untouched": list(chunks.untouched)}


def _print_erased(erased: dict[str, Any], text: str, readable: Leftovers, *, as_json: bool) -> None:
    """Print what is gone, and where it may still be read."""
    files, looked = [shown(path) for path in readable.files], list(map(shown, readable.looked))
    lines = [
        text,
        *(
            f"chunks of {key['source']} in {key['trial']}: "
            + ("unreadable now, in every copy" if key["erased"] else "their time is not over")
            for key in erased["chunks"]
        ),
        *(f"left alone: {each}" for each in erased["untouched"]),
        *(f"removed, what the bundle does not show: {each}" for each in erased["removed"]),
        *(f"may still be read in: {path}" for path in files),
        *(f"still copied to: {url}" for url in readable.copies),
        *([f"not looked into: {readable.unread} files"] if readable.unread else []),
        f"looked in: {', '.join(looked)}; copies elsewhere are not reached",
    ]
    rest = {
        "readable": files,
        "copies": list(readable.copies),
        "looked": looked,
        "unread": readable.unread,
    }
    print_result({**erased, **rest}, "\n".join(map(printable, lines)), as_json=as_json)


def _places(found: Verified, folders: list[Path]) -> tuple[list[Path], tuple[str, ...]]:
    """The folders to look in for what was captured and judged, and the URLs it was copied to."""
    from statediff.evidence.canonical import write
    from statediff.workspace import stores
    from statediff_lab.leftovers import known_places

    copies: tuple[str, ...] = ()
    manifests = [leaf.value[0] for leaf in found.leaves if leaf.path == "manifest.json#"]
    if stores.DEFAULT.exists() and manifests:
        digest = hashlib.sha256(write(manifests[0])).hexdigest()
        with stores.open_store(None) as store:
            runs, copies = known_places(store, digest)
        folders = [*folders, *runs, stores.DEFAULT.parent]
    return folders, copies


def _readable(
    found: Verified, stays: set[bytes], folders: list[Path], copies: tuple[str, ...]
) -> Leftovers:
    """The erased values that can be read elsewhere; `stays` are the leaves that were not erased."""
    from statediff_lab.leftovers import leftovers, sought

    erased = [data for data in found.disclosed if data not in stays]
    return leftovers(sought(found, erased), folders, copies)
