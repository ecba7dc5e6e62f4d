"""`log`: verdicts kept where none can be taken out or changed without being noticed."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from statediff.cli.output import JsonFlag

if TYPE_CHECKING:
    from statediff.evidence.log import Log
    from statediff.evidence.package import Bundle

ADDED = "statediff/logged/1"
CHECKED = "statediff/log-check/1"

LogArgument = Annotated[
    Path, typer.Argument(metavar="LOG", help="The log: a file of JSON lines, one a verdict.")
]
TrustOption = Annotated[
    Path, typer.Option("--trust", metavar="FILE", help="The trust file: whose keys count.")
]
CheckpointOption = Annotated[
    Path, typer.Option("--checkpoint", metavar="FILE", help="What was signed of the log.")
]


def add(
    log: LogArgument,
    target: Annotated[
        Path,
        typer.Argument(metavar="BUNDLE|RUN", help="A bundle's folder, a trial's, or a run's."),
    ],
    because: Annotated[
        str | None,
        typer.Option("--because", metavar="TEXT", help="Why what was judged is judged again."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Replay a bundle, or every bundle of a run, and append the verdicts to a log."""
    from statediff.cli.output import emit, results
    from statediff.evaluate import replay
    from statediff.evidence.log import read_log, verdict_entry

    for bundle in _bundles(target):
        replay(bundle)
        with _opened(log) as descriptor:
            content = _content(descriptor)
            # A torn line was never acknowledged; the next entry takes its place.
            whole = content[: content.rfind(b"\n") + 1]
            kept = read_log(whole)
            now = datetime.now(UTC).replace(microsecond=0)
            line = verdict_entry(kept, bundle, now, because)
            os.ftruncate(descriptor, len(whole))
            os.lseek(descriptor, len(whole), os.SEEK_SET)
            _write(descriptor, line + b"\n")
            os.fsync(descriptor)
        number = len(kept.entries)
        manifest = bundle.manifest
        if as_json:
            emit({
                "schema": ADDED, "entry": number, "trial": manifest["trial"],
                "contract": manifest["contract"], "verdict": manifest["verdict"],
                "supersedes": kept.latest.get(_evidence(bundle)),
            })  # fmt: skip
        else:
            results().print(f"entry {number}: {_told(manifest)}", soft_wrap=True)


def show(log: LogArgument, as_json: JsonFlag = False) -> None:
    """Show every verdict of a log, those superseded too."""
    from statediff.cli.output import emit, results
    from statediff.reports.record import said

    kept = _read(log)
    newest = set(kept.latest.values())
    for number, entry in enumerate(kept.entries):
        if as_json:
            emit({"schema": entry["form"], "entry": number, **entry})
            continue
        note = "" if number in newest else "  superseded"
        if entry["supersedes"] is not None:
            note += f"  supersedes {entry['supersedes']}: {said(entry['because'])}"
        results().print(f"{number}  {entry['at']}  {_told(entry)}{note}", soft_wrap=True)


def checkpoint(
    log: LogArgument,
    key: Annotated[
        Path, typer.Option("--key", metavar="KEY", help="The secret key, from `statediff keygen`.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The checkpoint's file.")],
    origin: Annotated[
        str, typer.Option("--origin", metavar="NAME", help="What the log is called.")
    ] = "statediff",
    as_json: JsonFlag = False,
) -> None:
    """Sign how many entries a log has, and their root; give it to whoever shall notice changes."""
    from statediff.cli.folders import write_file
    from statediff.cli.output import emit, results, shown
    from statediff.evidence.keys import load_key
    from statediff.evidence.log import checkpoint as signed

    kept = _read(log)
    now = datetime.now(UTC).replace(microsecond=0)
    write_file(out, signed(kept, origin, now, load_key(key)) + b"\n")
    if as_json:
        emit({
            "schema": CHECKED, "checkpoint": shown(out), "entries": len(kept.entries),
            "root": kept.root.hex(),
        })  # fmt: skip
    else:
        results().print(
            f"{shown(out)}: entries: {len(kept.entries)}, root {kept.root.hex()}", soft_wrap=True
        )


def check(
    log: LogArgument, checkpoint: CheckpointOption, trust: TrustOption, as_json: JsonFlag = False
) -> None:
    """Check that a log begins with what a checkpoint signed; ends with 4 if it does not."""
    from statediff.cli.output import emit, results, shown
    from statediff.evidence.keys import load_trust
    from statediff.evidence.log import check_extends, read_checkpoint

    seen = read_checkpoint(_bytes(checkpoint), load_trust(trust))
    kept = _read(log)
    more = check_extends(kept, seen)
    if as_json:
        emit({
            "schema": CHECKED, "log": shown(log), "entries": len(kept.entries), "signed": seen.size,
            "signer": seen.signer, "at": seen.at.isoformat(), "more": more,
        })  # fmt: skip
    else:
        results().print(
            f"{shown(log)} begins as {seen.signer} signed it at {seen.at.isoformat()}; "
            f"signed entries: {seen.size}, later: {more}", soft_wrap=True,
        )  # fmt: skip


def prove(
    log: LogArgument,
    entry: Annotated[int, typer.Argument(metavar="ENTRY", help="The number of the entry.")],
    checkpoint: CheckpointOption,
    trust: TrustOption,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The proof's file.")],
    as_json: JsonFlag = False,
) -> None:
    """Write what shows, beside a checkpoint and without the log, that an entry is in it."""
    from statediff.cli.folders import write_file
    from statediff.cli.output import emit, results, shown
    from statediff.evidence.keys import load_trust
    from statediff.evidence.log import check_extends, proof_of, read_checkpoint

    seen = read_checkpoint(_bytes(checkpoint), load_trust(trust))
    kept = _read(log)
    check_extends(kept, seen)
    write_file(out, proof_of(kept, entry, seen.size) + b"\n")
    if as_json:
        emit({"schema": CHECKED, "proof": shown(out), "entry": entry, "entries": seen.size})
    else:
        results().print(f"{shown(out)}: entry {entry} of {seen.size}", soft_wrap=True)


def verify(
    proof: Annotated[Path, typer.Argument(metavar="PROOF", help="A proof, from `log prove`.")],
    checkpoint: CheckpointOption,
    trust: TrustOption,
    as_json: JsonFlag = False,
) -> None:
    """Check a proof against a checkpoint, without the log; ends with 4 if it shows nothing."""
    from statediff.cli.output import emit, results
    from statediff.evidence.keys import load_trust
    from statediff.evidence.log import check_proof, read_checkpoint

    seen = read_checkpoint(_bytes(checkpoint), load_trust(trust))
    entry = check_proof(_bytes(proof), seen)
    if as_json:
        emit({"schema": CHECKED, "signer": seen.signer, "entries": seen.size, "entry": dict(entry)})
    else:
        results().print(f"in the log that {seen.signer} signed: {_told(entry)}", soft_wrap=True)


def _bundles(target: Path) -> Iterator[Bundle]:
    from statediff.cli.bundles import load_bundle
    from statediff.cli.output import progress
    from statediff.cli.runfolders import is_run, trials
    from statediff.errors import BundleError
    from statediff.reports.record import said

    if not is_run(target):
        yield load_bundle(target)[0]
        return
    for trial in trials(target):
        if trial.bundle is not None:
            yield trial.bundle
        elif trial.is_broken:
            raise BundleError(f"{trial.name}: {trial.why}")
        else:
            progress().print(f"{said(trial.name)}: no verdict: {said(trial.why)}")


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    """The file, made if need be, which nobody else appends to until it is closed."""
    from statediff.errors import StorageError

    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StorageError(f"{path}: the log cannot be opened: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    except OSError as error:
        raise StorageError(f"{path}: the log cannot be written: {error.strerror}") from error
    finally:
        os.close(descriptor)


def _content(descriptor: int) -> bytes:
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        return file.read()


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _read(path: Path) -> Log:
    from statediff.evidence.log import read_log

    return read_log(_bytes(path))


def _bytes(path: Path) -> bytes:
    from statediff.errors import UsageError

    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error


def _told(entry: Mapping[str, Any]) -> str:
    """A verdict in words, from an entry or a manifest."""
    from statediff.reports.record import said

    what = f"{entry['contract']}@{entry['contract_version']}"
    return (
        f"{entry['verdict']}  {said(entry['trial'])} under {said(what)}, kernel {entry['kernel']}"
    )


def _evidence(bundle: Bundle) -> str:
    from statediff.evidence.log import evidence_of

    return evidence_of(bundle)


COMMANDS: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("add", add), ("show", show), ("checkpoint", checkpoint), ("check", check), ("prove", prove),
    ("verify", verify),
)  # fmt: skip
