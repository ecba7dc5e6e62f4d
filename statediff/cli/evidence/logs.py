"""`log`: verdicts kept where none can be taken out or changed without being noticed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from statediff.cli.output import JsonFlag
from statediff.workspace.bundles import read_file
from statediff.workspace.logs import append, load_log

if TYPE_CHECKING:
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
        typer.Argument(
            metavar="BUNDLE|RUN|FILE",
            help="A bundle's folder, a trial's, or a run's; or a label, a resolution, the record "
            "of an erasure, or released.yaml.",
        ),
    ],
    because: Annotated[
        str | None,
        typer.Option("--because", metavar="TEXT", help="Why what was judged is judged again."),
    ] = None,
    trust: Annotated[
        Path | None,
        typer.Option("--trust", metavar="FILE", help="For a signed file: whose keys count."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Append verdicts to a log, each replayed first; or what a file says somebody did."""
    from statediff.errors import UsageError
    from statediff.evaluate import replay
    from statediff.evidence.log import verdict_entry

    if target.is_file():
        if because is not None:
            raise UsageError("--because is for verdicts; a file says itself why")
        _add_records(log, target, trust, as_json=as_json)
        return
    if trust is not None:
        raise UsageError("--trust is for signed files; a verdict is replayed")
    for bundle in _bundles(target):
        replay(bundle)
        now = datetime.now(UTC).replace(microsecond=0)
        number, line = append(log, partial(verdict_entry, bundle=bundle, at=now, because=because))
        _told_added(number, line, as_json=as_json)


def _add_records(log: Path, target: Path, trust: Path | None, *, as_json: bool) -> None:
    """Of releases, those that the log does not have yet."""
    from statediff.errors import UsageError
    from statediff.evidence.keys import load_trust
    from statediff.evidence.log import record_entry
    from statediff.workspace.logrecords import records

    found = records(target, None if trust is None else load_trust(trust))
    known = {e.get("digest") for e in (load_log(log).entries if log.exists() else ())}
    fresh = [each for each in found if each.digest not in known]
    if not fresh:
        raise UsageError(f"{target}: the log has all of it already")
    now = datetime.now(UTC).replace(microsecond=0)
    for record in fresh:
        number, line = append(log, partial(record_entry, record=record, at=now))
        _told_added(number, line, as_json=as_json)


def _told_added(number: int, line: bytes, *, as_json: bool) -> None:
    from statediff.cli.output import emit, results

    entry = json.loads(line)
    if not as_json:
        results().print(f"entry {number}: {_told(entry)}", soft_wrap=True)
    elif entry["kind"] == "verdict":
        emit({
            "schema": ADDED, "entry": number, "trial": entry["trial"], "kind": "verdict",
            "contract": entry["contract"], "verdict": entry["verdict"],
            "supersedes": entry["supersedes"],
        })  # fmt: skip
    else:
        emit({
            "schema": ADDED, "entry": number, "kind": entry["kind"], "about": entry["about"],
            "said": entry["said"],
        })  # fmt: skip


def show(log: LogArgument, as_json: JsonFlag = False) -> None:
    """Show every entry of a log, superseded verdicts too."""
    from statediff.cli.output import emit, results
    from statediff.reports.record import said

    kept = load_log(log)
    newest = set(kept.latest.values())
    for number, entry in enumerate(kept.entries):
        if as_json:
            emit({"schema": entry["form"], "entry": number, **entry})
            continue
        note = "  superseded" if entry["kind"] == "verdict" and number not in newest else ""
        if entry.get("supersedes") is not None:
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
    from statediff.cli.output import emit, results, shown
    from statediff.evidence.keys import load_key
    from statediff.evidence.log import checkpoint as signed
    from statediff.workspace.folders import write_file

    kept = load_log(log)
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

    seen = read_checkpoint(read_file(checkpoint), load_trust(trust))
    kept = load_log(log)
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
    from statediff.cli.output import emit, results, shown
    from statediff.evidence.keys import load_trust
    from statediff.evidence.log import check_extends, proof_of, read_checkpoint
    from statediff.workspace.folders import write_file

    seen = read_checkpoint(read_file(checkpoint), load_trust(trust))
    kept = load_log(log)
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

    seen = read_checkpoint(read_file(checkpoint), load_trust(trust))
    entry = check_proof(read_file(proof), seen)
    if as_json:
        emit({"schema": CHECKED, "signer": seen.signer, "entries": seen.size, "entry": dict(entry)})
    else:
        results().print(f"in the log that {seen.signer} signed: {_told(entry)}", soft_wrap=True)


def _bundles(target: Path) -> Iterator[Bundle]:
    from statediff.cli.output import progress
    from statediff.errors import BundleError
    from statediff.reports.record import said
    from statediff.workspace.bundles import load_bundle
    from statediff.workspace.runfolders import is_run, trials

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


def _told(entry: Mapping[str, Any]) -> str:
    """An entry in words."""
    from statediff.reports.record import said

    if entry["kind"] != "verdict":
        about = entry["about"] if "@" in entry["about"] else entry["about"][:12]
        facts = ", ".join(f"{name} {said(text)}" for name, text in sorted(entry["said"].items()))
        return f"{entry['kind']}  {said(about)}: {facts}"
    what = f"{entry['contract']}@{entry['contract_version']}"
    return (
        f"{entry['verdict']}  {said(entry['trial'])} under {said(what)}, kernel {entry['kernel']}"
    )


COMMANDS: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("add", add), ("show", show), ("checkpoint", checkpoint), ("check", check), ("prove", prove),
    ("verify", verify),
)  # fmt: skip
