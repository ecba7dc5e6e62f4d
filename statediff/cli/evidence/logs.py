"""`log`: verdicts kept where none can be taken out or changed without being noticed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from statediff.cli.options import JsonFlag, KeyOption, TrustOption
from statediff.cli.output import emit, print_result, progress, results, shown
from statediff.errors import BundleError, UsageError
from statediff.reports.said import said
from statediff.workspace.bundles import read_file
from statediff.workspace.logs import append, load_log

if TYPE_CHECKING:
    from statediff.evidence.log import Checkpoint
    from statediff.evidence.package import Bundle

ADDED: Final = "statediff/logged/1"
CHECKED: Final = "statediff/log-check/1"
_VERDICT: Final = ("trial", "kind", "contract", "verdict", "supersedes")
_RECORD: Final = ("kind", "about", "said")

LogArgument = Annotated[
    Path, typer.Argument(metavar="LOG", help="The log: a file of JSON lines, one a verdict.")
]


@dataclass(frozen=True, kw_only=True)
class SignedLog:
    """What was signed of a log, and by whose keys."""

    checkpoint: Annotated[
        Path, typer.Option("--checkpoint", metavar="FILE", help="What was signed of the log.")
    ]
    trust: TrustOption

    def read(self) -> Checkpoint:
        """The checkpoint; its signature counts."""
        from statediff.evidence.keys import load_trust
        from statediff.evidence.log import read_checkpoint

        return read_checkpoint(read_file(self.checkpoint), load_trust(self.trust))


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
        _print_added(number, line, as_json=as_json)


def _add_records(log: Path, target: Path, trust: Path | None, *, as_json: bool) -> None:
    """Of releases, those that the log does not have yet."""
    from statediff.evidence.keys import load_trust
    from statediff.evidence.log import record_entry
    from statediff.workspace.logs import records

    found = records(target, None if trust is None else load_trust(trust))
    known = {e.get("digest") for e in (load_log(log).entries if log.exists() else ())}
    fresh = [each for each in found if each.digest not in known]
    if not fresh:
        raise UsageError(f"{target}: the log has all of it already")
    now = datetime.now(UTC).replace(microsecond=0)
    for record in fresh:
        number, line = append(log, partial(record_entry, record=record, at=now))
        _print_added(number, line, as_json=as_json)


def _print_added(number: int, line: bytes, *, as_json: bool) -> None:

    entry = json.loads(line)
    names = _VERDICT if entry["kind"] == "verdict" else _RECORD
    document = {"schema": ADDED, "entry": number, **{name: entry[name] for name in names}}
    print_result(document, f"entry {number}: {_words(entry)}", as_json=as_json)


def show(log: LogArgument, as_json: JsonFlag = False) -> None:
    """Show every entry of a log, superseded verdicts too."""
    kept = load_log(log)
    newest = set(kept.latest.values())
    for number, entry in enumerate(kept.entries):
        if as_json:
            emit({"schema": entry["form"], "entry": number, **entry})
            continue
        note = "  superseded" if entry["kind"] == "verdict" and number not in newest else ""
        if entry.get("supersedes") is not None:
            note += f"  supersedes {entry['supersedes']}: {said(entry['because'])}"
        results().print(f"{number}  {entry['at']}  {_words(entry)}{note}", soft_wrap=True)


def checkpoint(
    log: LogArgument,
    key: KeyOption,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The checkpoint's file.")],
    origin: Annotated[
        str, typer.Option("--origin", metavar="NAME", help="What the log is called.")
    ] = "statediff",
    as_json: JsonFlag = False,
) -> None:
    """Sign how many entries a log has, and their root, for those who are to notice changes."""
    from statediff.evidence.keys import load_key
    from statediff.evidence.log import checkpoint as signed
    from statediff.workspace.folders import write_file

    kept = load_log(log)
    now = datetime.now(UTC).replace(microsecond=0)
    write_file(out, signed(kept, origin, now, load_key(key)) + b"\n")
    place, entries, root = shown(out), len(kept.entries), kept.root.hex()
    document = {"schema": CHECKED, "checkpoint": place, "entries": entries, "root": root}
    print_result(document, f"{place}: entries: {entries}, root {root}", as_json=as_json)


def check(log: LogArgument, signed: SignedLog, as_json: JsonFlag = False) -> None:
    """Check that a log begins with what a checkpoint signed; ends with 4 if it does not."""
    from statediff.evidence.log import check_extends

    seen = signed.read()
    kept = load_log(log)
    more = check_extends(kept, seen)
    at = seen.at.isoformat()
    document = {
        "schema": CHECKED,
        "log": shown(log),
        "entries": len(kept.entries),
        "signed": seen.size,
        "signer": seen.signer,
        "at": at,
        "more": more,
    }
    text = f"{shown(log)} begins as {seen.signer} signed it at {at}; "
    text += f"signed entries: {seen.size}, later: {more}"
    print_result(document, text, as_json=as_json)


def prove(
    log: LogArgument,
    entry: Annotated[int, typer.Argument(metavar="ENTRY", help="The number of the entry.")],
    signed: SignedLog,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The proof's file.")],
    as_json: JsonFlag = False,
) -> None:
    """Write what shows, beside a checkpoint and without the log, that an entry is in it."""
    from statediff.evidence.log import check_extends, proof_of
    from statediff.workspace.folders import write_file

    seen = signed.read()
    kept = load_log(log)
    check_extends(kept, seen)
    write_file(out, proof_of(kept, entry, seen.size) + b"\n")
    document = {"schema": CHECKED, "proof": shown(out), "entry": entry, "entries": seen.size}
    print_result(document, f"{shown(out)}: entry {entry} of {seen.size}", as_json=as_json)


def verify(
    proof: Annotated[Path, typer.Argument(metavar="PROOF", help="A proof, from `log prove`.")],
    signed: SignedLog,
    as_json: JsonFlag = False,
) -> None:
    """Check a proof against a checkpoint, without the log; ends with 4 if it shows nothing."""
    from statediff.evidence.log import check_proof

    seen = signed.read()
    entry = check_proof(read_file(proof), seen)
    found = {"schema": CHECKED, "signer": seen.signer, "entries": seen.size, "entry": dict(entry)}
    text = f"in the log that {seen.signer} signed: {_words(entry)}"
    print_result(found, text, as_json=as_json)


def _bundles(target: Path) -> Iterator[Bundle]:
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


def _words(entry: Mapping[str, Any]) -> str:
    """An entry in words."""
    if entry["kind"] != "verdict":
        about = entry["about"] if "@" in entry["about"] else entry["about"][:12]
        facts = ", ".join(f"{name} {said(text)}" for name, text in sorted(entry["said"].items()))
        return f"{entry['kind']}  {said(about)}: {facts}"
    what = f"{entry['contract']}@{entry['contract_version']}"
    return (
        f"{entry['verdict']}  {said(entry['trial'])} under {said(what)}, kernel {entry['kernel']}"
    )


COMMANDS: Final[tuple[tuple[str, Callable[..., object]], ...]] = (
    ("add", add),
    ("show", show),
    ("checkpoint", checkpoint),
    ("check", check),
    ("prove", prove),
    ("verify", verify),
)
