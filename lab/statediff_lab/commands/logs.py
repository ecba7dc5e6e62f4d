"""`log`: verdicts kept where none can be taken out or changed without being noticed."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from statediff.cli.options import JsonFlag, KeyOption, TrustOption
from statediff.cli.output import emit, print_result, progress, results
from statediff.errors import BundleError, UsageError
from statediff.extras import require_extra
from statediff.reports.said import said
from statediff.workspace.bundles import read_file
from statediff.workspace.folders import shown
from statediff.workspace.logs.files import append, load_log, require_in_order, secret_of

if TYPE_CHECKING:
    from statediff.evidence.checkpoints import Checkpoint
    from statediff.evidence.package import Bundle
    from statediff.evidence.verify import Signer

ADDED: Final = "statediff/logged/1"
CHECKED: Final = "statediff/log-check/1"
ORIGIN: Final = "statediff"
_VERDICT: Final = ("trial", "kind", "contract", "verdict", "supersedes")
_RECORD: Final = ("kind", "about", "said")

LogArgument = Annotated[
    Path, typer.Argument(metavar="LOG", help="The log: a file of JSON lines, one a verdict.")
]


OriginOption = Annotated[
    str,
    typer.Option("--origin", metavar="NAME", help="What the log is called, and has to be called."),
]


@dataclass(frozen=True, kw_only=True)
class Believed:
    """Which signatures under a checkpoint count, and how many there have to be."""

    trust: TrustOption
    origin: OriginOption = ORIGIN
    witnesses: Annotated[
        int,
        typer.Option(
            "--witnesses", metavar="N", min=0, help="How many trusted witnesses signed too."
        ),
    ] = 0

    timestamp: Annotated[
        Path | None,
        typer.Option("--timestamp", metavar="FILE", help="A token of `log stamp` over it."),
    ] = None
    authorities: Annotated[
        Path | None,
        typer.Option(
            "--authorities",
            metavar="FILE",
            help="Root certificates (PEM) of the time stamping authorities that count.",
        ),
    ] = None

    def keys(self) -> tuple[Signer, ...]:
        """The trust file's keys."""
        from statediff.evidence.keys import load_trust

        return load_trust(self.trust)

    def read(self, file: Path) -> Checkpoint:
        """The checkpoint in the file; its signatures count."""
        from statediff.evidence.checkpoints import read_checkpoint

        return self.accept(read_checkpoint(read_file(file), self.keys(), self.origin))

    def accept(self, seen: Checkpoint) -> Checkpoint:
        """The checkpoint, where enough witnesses signed it and its token counts; `BundleError`."""
        if len(seen.witnesses) < self.witnesses:
            raise BundleError(
                f"checkpoint: witnesses that are trusted and signed: {len(seen.witnesses)}, "
                f"wanted: {self.witnesses}"
            )
        return replace(seen, stamped_at=self._stamped_at(seen))

    def _stamped_at(self, seen: Checkpoint) -> datetime | None:
        from statediff.evidence.timestamps import read_roots, stamped_at

        if (self.timestamp is None) != (self.authorities is None):
            raise UsageError("a time stamp counts by its authority: --timestamp and --authorities")
        if self.timestamp is None or self.authorities is None:
            return None
        roots = read_roots(read_file(self.authorities), shown(self.authorities))
        return stamped_at(read_file(self.timestamp), seen, roots)


CheckpointOption = Annotated[
    Path, typer.Option("--checkpoint", metavar="FILE", help="What was signed of the log.")
]


def add(
    log: LogArgument,
    target: Annotated[
        Path,
        typer.Argument(
            metavar="BUNDLE|RUN|FILE",
            help="A bundle's folder, a trial's, or a run's; or a sealed copy, a label, a "
            "resolution, the record of an erasure, released.yaml; or what a study registered, "
            "or the labels of a pass.",
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
    from statediff.evidence.log import verdict_entry
    from statediff.evidence.seal import is_sealed
    from statediff.kernel import replay

    if target.is_file() or is_sealed(target):
        if because is not None:
            raise UsageError("--because is for verdicts; a file says itself why")
        _add_records(log, target, trust, as_json=as_json)
        return
    if trust is not None:
        raise UsageError("--trust is for signed files; a verdict is replayed")
    secret = secret_of(log)
    run = _registered_run(target, secret)
    for bundle in _bundles(target):
        replay(bundle)
        now = datetime.now(UTC).replace(microsecond=0)
        entry = partial(
            verdict_entry, bundle=bundle, at=now, because=because, secret=secret, run=run
        )
        number, line = append(log, entry)
        _print_added(number, line, as_json=as_json)


def _registered_run(target: Path, secret: bytes) -> str | None:
    """The name, under the log's secret, that the run was registered by: this, or the trial's."""
    from statediff.evidence.log import keyed
    from statediff.workspace.runfolders import facts_digest, run_of

    folder = run_of(target)
    return None if folder is None else keyed(secret, facts_digest(folder))


def _add_records(log: Path, target: Path, trust: Path | None, *, as_json: bool) -> None:
    """Add the releases that the log does not have yet."""
    from statediff.evidence.keys import load_trust
    from statediff.evidence.log import record_entry
    from statediff.workspace.logs.files import records

    found = records(target, None if trust is None else load_trust(trust), secret_of(log))
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
    origin: OriginOption = ORIGIN,
    witness: Annotated[
        list[str] | None,
        typer.Option(
            "--witness", metavar="URL", help="Ask this witness to sign too; may be given again."
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Sign how many entries a log has, and their root, for those who are to notice changes.

    Where the file holds a checkpoint of this log already, the log must go on from it.
    """
    from statediff.evidence.checkpoints import checkpoint as signed
    from statediff.evidence.keys import load_key
    from statediff.workspace.folders import write_file

    require_extra("http", "httpx", "what answers over HTTP")
    from statediff_lab.witnesses import ask, require_next

    kept, secret = load_log(log), load_key(key)
    require_in_order(log, kept)
    now = datetime.now(UTC).replace(microsecond=0)
    require_next(out, kept, origin, secret)
    data = signed(kept, origin, now, secret)
    for url in witness or ():
        data = ask(url, kept, data)
        progress().print(f"signed by the witness at {said(url)}", soft_wrap=True)
    write_file(out, data)
    place, entries, root = shown(out), len(kept.entries), kept.root.hex()
    document = {"schema": CHECKED, "checkpoint": place, "entries": entries, "root": root}
    document["witnesses"] = list(witness or ())
    print_result(document, f"{place}: entries: {entries}, root {root}", as_json=as_json)


def check(
    log: LogArgument, checkpoint: CheckpointOption, by: Believed, as_json: JsonFlag = False
) -> None:
    """Check that a log begins with what a checkpoint signed; ends with 4 if it does not."""
    from statediff.evidence.checkpoints import check_extends

    seen = by.read(checkpoint)
    kept = load_log(log)
    require_in_order(log, kept)
    more = check_extends(kept, seen)
    at = seen.at.isoformat()
    document = {
        "schema": CHECKED,
        "log": shown(log),
        "origin": seen.origin,
        "entries": len(kept.entries),
        "signed": seen.size,
        "signer": seen.signer,
        "at": at,
        "more": more,
        "witnesses": [{"name": w.name, "at": w.at.isoformat()} for w in seen.witnesses],
        "stamped_at": None if seen.stamped_at is None else seen.stamped_at.isoformat(),
    }
    text = f"{shown(log)} begins as {seen.signer} signed it at {at}; "
    text += f"signed entries: {seen.size}, later: {more}{_witnessed(seen)}"
    print_result(document, text, as_json=as_json)


def stamp(
    checkpoint: Annotated[
        Path, typer.Argument(metavar="CHECKPOINT", help="A checkpoint, from `log checkpoint`.")
    ],
    by: Believed,
    authority: Annotated[
        str, typer.Option("--authority", metavar="URL", help="A time stamping authority.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The token's file.")],
    as_json: JsonFlag = False,
) -> None:
    """Have a time stamping authority say when a checkpoint was there (RFC 3161).

    The authority learns the SHA-256 of the checkpoint's text and nothing else.
    """
    from statediff.evidence.timestamps import request
    from statediff.workspace.folders import write_file

    require_extra("http", "httpx", "what answers over HTTP")
    from statediff_lab.witnesses import ask_time

    seen = by.read(checkpoint)
    write_file(out, ask_time(authority, request(seen)))
    document = {"schema": CHECKED, "timestamp": shown(out), "entries": seen.size}
    text = f"{shown(out)}: over {seen.size} entries; check it with --timestamp and --authorities"
    print_result(document, text, as_json=as_json)


def compare(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="The older checkpoint.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="The newer one.")],
    by: Believed,
    log: Annotated[
        Path | None, typer.Option("--log", metavar="LOG", help="The log, if it is at hand.")
    ] = None,
    proof: Annotated[
        Path | None,
        typer.Option(
            "--proof", metavar="FILE", help="What --log wrote, where the log is not at hand."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="With --log: write the proof for others."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Check that one checkpoint's log goes on from another's; ends with 4 if it does not."""
    from statediff.evidence.checkpoints import check_consistent, check_extends, consistency_of
    from statediff.workspace.folders import write_file

    if (log is None) == (proof is None) and log is not None:
        raise UsageError("say either --log LOG or --proof FILE")
    if out is not None and log is None:
        raise UsageError("--out writes the proof that --log makes; say --log LOG")
    earlier = replace(by, timestamp=None, authorities=None).read(old)
    later = by.read(new)
    shows = None if proof is None else read_file(proof)
    if log is not None:
        kept = load_log(log)
        check_extends(kept, later)
        shows = consistency_of(kept, earlier, later) if earlier.size <= later.size else None
    more = check_consistent(earlier, later, shows)
    if out is not None and shows is not None:
        write_file(out, shows + b"\n")
    document = {"schema": CHECKED, "origin": later.origin, "old": earlier.size, "new": later.size}
    text = f"{said(later.origin)}: the {later.size} entries of {later.at.isoformat()} begin with "
    text += f"the {earlier.size} of {earlier.at.isoformat()}; later: {more}{_witnessed(later)}"
    print_result(document, text, as_json=as_json)


def missing(log: LogArgument, as_json: JsonFlag = False) -> int:
    """List runs that were registered before their trials, and the trials without a verdict here.

    Trials that were made more than once are listed too. Ends with 1 if there are any of either.
    """
    from statediff.evidence.log import made_again

    kept, is_short = load_log(log), False
    repeated = sorted(made_again(kept))
    for run in kept.registered.values():
        names = sorted(set(run.names) - run.judged)
        again = [name for name in repeated if run.plans(name)]
        is_short |= bool(run.missing or again)
        document = {
            "schema": "statediff/registered/1",
            "entry": run.entry,
            "run": run.run,
            "trials": run.trials,
            "missing": run.missing,
            "names": names,
            "made_again": again,
        }
        text = f"entry {run.entry}: run {said(run.run)}: trials: {run.trials}, "
        text += f"without a verdict: {run.missing}{_listed(names)}"
        if again:
            text += f"; made more than once{_listed(again)}"
        print_result(document, text, as_json=as_json)
    return int(is_short)


def _listed(names: list[str]) -> str:
    return f": {', '.join(map(said, names))}" if names else ""


def prove(
    log: LogArgument,
    entry: Annotated[int, typer.Argument(metavar="ENTRY", help="The number of the entry.")],
    checkpoint: CheckpointOption,
    by: Believed,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The proof's file.")],
    as_json: JsonFlag = False,
) -> None:
    """Write what shows, without the log, that an entry is in it; the checkpoint is part of it."""
    from statediff.evidence.checkpoints import check_extends, proof_of
    from statediff.workspace.folders import write_file

    seen = by.read(checkpoint)
    kept = load_log(log)
    check_extends(kept, seen)
    write_file(out, proof_of(kept, entry, read_file(checkpoint), seen.size))
    document = {"schema": CHECKED, "proof": shown(out), "entry": entry, "entries": seen.size}
    print_result(document, f"{shown(out)}: entry {entry} of {seen.size}", as_json=as_json)


def verify(
    proof: Annotated[Path, typer.Argument(metavar="PROOF", help="A proof, from `log prove`.")],
    by: Believed,
    checkpoint: Annotated[
        Path | None,
        typer.Option("--checkpoint", metavar="FILE", help="The checkpoint that is meant."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Check that a proof shows an entry, without the log; ends with 4 if it shows nothing."""
    from statediff.evidence.checkpoints import check_proof

    signed = None if checkpoint is None else read_file(checkpoint)
    entry, seen = check_proof(read_file(proof), by.keys(), origin=by.origin, signed=signed)
    by.accept(seen)
    found = {
        "schema": CHECKED,
        "origin": seen.origin,
        "signer": seen.signer,
        "entries": seen.size,
        "entry": dict(entry),
    }
    text = f"in the log that {seen.signer} signed: {_words(entry)}{_witnessed(seen)}"
    print_result(found, text, as_json=as_json)


def witness(
    logs: Annotated[
        Path, typer.Option("--trust", metavar="FILE", help="Whose logs are signed: evaluators'.")
    ],
    key: KeyOption,
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Of the witness, like example.com/ada.")
    ],
    state: Annotated[
        Path,
        typer.Option("--state", metavar="DIR", help="Where it keeps what it signed last of each."),
    ],
    origin: Annotated[
        list[str] | None,
        typer.Option("--origin", metavar="NAME", help="A log that it signs; may be given again."),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="On 127.0.0.1 [default: any].")
    ] = 0,
) -> None:
    """Serve a witness until Ctrl-C: it signs a log's checkpoint if it goes on from the last one.

    It speaks C2SP's tlog-witness: POST /add-checkpoint.
    """
    from statediff.evidence.keys import load_key, load_trust

    require_extra("http", "httpx", "what answers over HTTP")
    from statediff_lab.witnesses import Witness, serve

    kept = Witness(state, name, load_key(key), load_trust(logs), frozenset(origin or (ORIGIN,)))
    with serve(kept, port) as url:
        progress().print(f"witness {said(name)} at {url}; Ctrl-C ends it", soft_wrap=True)
        threading.Event().wait()


def _witnessed(seen: Checkpoint) -> str:
    names = ", ".join(said(each.name) for each in seen.witnesses)
    text = f"; signed by {names} too" if names else ""
    return text + (f"; stamped {seen.stamped_at.isoformat()}" if seen.stamped_at else "")


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
