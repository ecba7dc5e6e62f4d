"""`show`, `replay` and `export`: what bundles say, for people, for proof and for other tools."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

from statediff.cli.faults import exit_code
from statediff.cli.options import (
    CopyKeys,
    CopyTrustOption,
    IdentityOption,
    JsonFlag,
    Loudness,
    argument,
    opt,
    option,
)
from statediff.cli.output import emit, note, print_result, print_trial, results, say
from statediff.entrypoints import plug_ins
from statediff.errors import BundleError, InputError, UsageError
from statediff.evidence.foreign.scitt import signed_statement
from statediff.evidence.keys import load_key, load_trust
from statediff.evidence.seal import is_sealed
from statediff.evidence.verify import Verified, key_id, verify
from statediff.kernel import modules_digest
from statediff.kernel import replay as decide_again
from statediff.reports.copies import copy_lines, decide_copy, review_in
from statediff.reports.formats.exports import exported, without_verdict
from statediff.reports.formats.format import Takes, format_of, names
from statediff.reports.formats.otlp import fault_span, trial_spans
from statediff.reports.formats.turns import turn_lines
from statediff.reports.plain import plain_judgement
from statediff.reports.text import verdict_text
from statediff.workspace.bundles import load_bundle, load_copy, partial_copy, verifying
from statediff.workspace.folders import shown, write_file
from statediff.workspace.rechecking import require_chunks, require_contract
from statediff.workspace.runfolders import (
    TrialFolder,
    agent_of,
    count_scheduled,
    is_run,
    run_facts,
    trials,
)

ShownArgument = Annotated[
    Path, argument("BUNDLE", "A bundle's folder, a trial's that holds one, or a sealed copy.")
]
REPLAY: Final = "statediff/replay/1"
COPY: Final = "statediff/partial-copy/1"
WITHHELD: Final = 3
"""The exit code where a copy withholds what the decision rests on."""
EXPORT: Final = "statediff/export/1"
HARBOR: Final = "harbor"
"""The form of tasks, which were not tried yet; all others are of runs and bundles."""
IN_TOTO: Final = "in-toto"
SCITT: Final = "scitt"
OTHERS: Final = (HARBOR, IN_TOTO, SCITT)
"""The forms that are no report of verdicts; the last two are of sealed copies."""
ExportedArgument = Annotated[
    Path,
    argument(
        "BUNDLE|RUN|TASK",
        "A bundle's folder, a trial's, or a run's; for `--as harbor` a contract, for "
        "`--as in-toto` and `--as scitt` a sealed copy.",
    ),
]


def show(bundle: ShownArgument, keys: CopyKeys, how: Loudness) -> int:
    """Show a bundle: verdict, clauses, findings, changes, readings."""
    copy = partial_copy(bundle, keys.trust, keys.vault)
    if copy is not None:
        if how.as_json:
            leaves = {leaf.path: leaf.value for leaf in copy.leaves if leaf.path == "summary#"}
            emit({"schema": COPY, "bundle": shown(bundle), **copy.manifest,
                  "clauses": leaves["summary#"]["clauses"], "review": review_in(copy),
                  "withheld": dict(copy.withheld)})  # fmt: skip
            return 0
        for line in copy_lines(copy, shown(bundle)):
            say(line)
        return 0
    found, folder = load_bundle(bundle, keys.trust, keys.vault)
    if how.as_json:
        emit(plain_judgement(found, shown(folder)))
    else:
        print_trial(found, shown(folder), how, agent_of(folder))
    return 0


@dataclass(frozen=True, kw_only=True)
class CheckedAgainst:
    """Other files that a bundle is checked against."""

    contract: str | None = opt("FILE", "It was judged by these very bytes.")
    chunks: Path | None = opt("RUN", "Its state roots are those of this run's.")


def replay(
    bundle: ShownArgument,
    keys: CopyKeys,
    against: CheckedAgainst,
    identity: IdentityOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Decide a bundle again from nothing but itself; the exit code is the verdict's.

    Where it does not show all that was judged, the rest lies beside it, or is read by --identity.
    """
    copy = partial_copy(bundle, keys.trust, keys.vault)
    if copy is not None:
        return _replay_copy(copy, bundle, as_json=as_json)
    found, folder = load_bundle(bundle, keys.trust, keys.vault, identity)
    if against.contract is not None:
        require_contract(found, against.contract)
    try:
        judgement = decide_again(found)
        if against.chunks is not None:
            require_chunks(found, against.chunks, keys.vault)
    except UsageError as error:  # what is wrong with a bundle's parts is wrong with the bundle
        raise BundleError(f"{shown(folder)}: cannot be replayed: {error}") from error
    verdict = judgement.verdict
    if as_json:
        emit(
            {
                "schema": REPLAY,
                "bundle": shown(folder),
                "reproduced": True,
                "verdict": verdict.value,
                "contract": found.manifest["contract"],
                "version": found.manifest["contract_version"],
                "kernel": found.manifest["kernel"],
                "same_modules": found.manifest.get("modules") == modules_digest(),
                "digest": found.digest,
            }
        )
    else:
        line = verdict_text(verdict.value)
        line.append(f"  reproduced from {shown(folder)} by kernel {found.manifest['kernel']}", "")
        say(line)
    return exit_code([verdict])


def _replay_copy(copy: Verified, path: Path, *, as_json: bool) -> int:
    """Say what follows from a copy that withholds parts; `BundleError` where it contradicts it."""
    decided = decide_copy(copy)
    if decided.disputed:
        raise BundleError(f"{shown(path)}: the copy contradicts itself: {decided.disputed[0]}")
    verdict = copy.manifest["verdict"]
    if as_json:
        emit({"schema": REPLAY, "bundle": shown(path), "reproduced": False, "verdict": verdict,
              "decided": asdict(decided), "withheld": dict(copy.withheld)})  # fmt: skip
        return WITHHELD
    tags = ", ".join(f"{count} {tag}" for tag, count in copy.withheld.items())
    say(
        f"{verdict} follows from the {decided.clauses} clauses as they are signed; comparisons "
        f"decided again: {decided.compared}, with a side that is withheld: {decided.withheld}"
    )
    note(f"{shown(path)}: this copy withholds leaves that the decision rests on: {tags}")
    return WITHHELD


@dataclass(frozen=True, kw_only=True)
class SealedExport:
    """The keys to read a sealed copy, and the key that signs the statement."""

    trust: CopyTrustOption = None
    key: Path | None = opt("KEY", "For scitt: the secret key that sealed it.")
    issuer: str | None = opt("NAME", "For scitt [default: the key's name].")


def _choices() -> str:
    """Every format, as help shows a choice; asked for only when this command is made."""
    return f"<{'|'.join((*names(), *OTHERS))}>"


def _form(form: str) -> str:
    if form not in (*names(), *OTHERS):
        known = ", ".join(map(repr, (*names(), *OTHERS)))
        raise ValueError(f"{form!r} is not one of {known}.")
    return form


def export(
    target: ExportedArgument,
    form: Annotated[str, option(_choices(), "The form of the export.", "--as", parser=_form)],
    out: Annotated[
        Path | None,
        option(
            "FILE",
            "The file [default: standard output]; of tasks the folder that holds them.",
            "--out",
        ),
    ] = None,
    *,
    copy: SealedExport,
    as_json: JsonFlag = False,
) -> None:
    """Write verdicts for other tools, tasks for Harbor, or a seal as in-toto and SCITT have it.

    MATCH passes, DIVERGE is a failure, INCONCLUSIVE and a trial without a verdict are errors. Ends
    with 0 whatever they are: the exit code of `run` is the verdict's.
    """
    if as_json and out is None:
        raise UsageError("--json tells of the file that was written; name it with --out")
    if form == HARBOR:
        _export_tasks(target, out or Path(), as_json=as_json)
        return
    if form in OTHERS:
        _export_seal(target, form, out, copy, as_json=as_json)
        return
    if copy != SealedExport():
        raise UsageError("--trust, --key and --issuer are for --as in-toto and --as scitt")
    chosen = format_of(form)
    objects, count, not_run = _read(target, chosen.takes)
    text = chosen.write(objects, not_run)
    if out is None:
        results().print(text, end="", soft_wrap=True)
        return
    write_file(out, text.encode("utf-8"))
    place = shown(out)
    written = {"schema": EXPORT, "export": place, "as": form, "trials": count, "not_run": not_run}
    print_result(written, place, as_json=as_json)


def _export_seal(
    target: Path, form: str, out: Path | None, options: SealedExport, *, as_json: bool
) -> None:
    """The statement of a sealed copy, which is verified first."""
    if not is_sealed(target) or options.trust is None:
        raise UsageError(f"--as {form} is of a sealed copy; `statediff sign` it, name --trust FILE")
    if (form == SCITT) != (options.key is not None) or (options.key is None and options.issuer):
        raise UsageError("--as scitt is signed anew, with --key KEY; --as in-toto takes none")
    sealed = load_copy(target, None)
    with verifying(target):
        found = verify(sealed.files, load_trust(options.trust))
    data = sealed.files["envelope.json"] + b"\n"
    if options.key is not None:
        key, envelope = load_key(options.key), json.loads(data)
        signers = [each["keyid"] for each in envelope["signatures"]]
        if key_id(key.public) not in signers:
            raise UsageError(f"{shown(options.key)}: is not the key that sealed it")
        name = found.signers[signers.index(key_id(key.public))]
        facts = found.manifest
        subject = f"{facts['contract']}@{facts['contract_version']}/{facts['trial']}"
        payload = base64.b64decode(envelope["payload"])
        data = signed_statement(payload, options.issuer or name, subject, key.public, key.sign)
    if out is None and form == SCITT:
        raise UsageError("a COSE_Sign1 is no text; name its file with --out")
    if out is None:
        results().print(data.decode("utf-8"), end="", soft_wrap=True)
        return
    write_file(out, data)
    written = {"schema": EXPORT, "export": shown(out), "as": form}
    print_result(written, shown(out), as_json=as_json)


def _export_tasks(target: Path, out: Path, *, as_json: bool) -> None:
    found = plug_ins("statediff.exports").get(HARBOR)
    if found is None:
        raise UsageError(f"--as {HARBOR} comes with `pip install statediff[{HARBOR}]`")
    export_tasks: Callable[[str, Path], Iterable[Path]] = found.load()  # type: ignore[assignment]  # as the group says
    places = [shown(folder) for folder in export_tasks(str(target), out)]
    written = {"schema": EXPORT, "export": shown(out), "as": HARBOR, "tasks": places}
    print_result(written, "\n".join(places), as_json=as_json)


def _objects_of(
    target: Path, tell: Callable[[TrialFolder], list[Any]]
) -> tuple[list[Any], int, int]:
    """Every trial of the run, or the bundle, as `tell` has it; how many, and how many never ran.

    A trial without any is not counted.
    """
    if not is_run(target):
        bundle, folder = load_bundle(target)
        return tell(TrialFolder(str(bundle.manifest["trial"]), folder, bundle)), 1, 0
    lines, number, there = list[Any](), 0, 0
    for trial in trials(target):
        try:
            found = tell(trial)
        except (BundleError, InputError) as error:
            found = tell(replace(trial, bundle=None, why=str(error)))
        lines += found
        number, there = number + bool(found), there + 1
    return lines, number, count_scheduled(run_facts(target), there) - number


def _exported(trial: TrialFolder) -> list[Any]:
    if trial.bundle is None:
        return [without_verdict(trial.name, trial.why)]
    return [exported(trial.bundle, trial.name, str(trial.folder))]


def _turns(trial: TrialFolder) -> list[Any]:
    return [] if trial.bundle is None else list(turn_lines(trial.bundle, str(trial.folder)))


def _span(run: str, trial: TrialFolder) -> list[Any]:
    if trial.bundle is None:
        return [fault_span(run, trial.name, trial.why)]
    return [trial_spans(trial.bundle, trial.name, str(trial.folder))]


def _read(target: Path, takes: Takes) -> tuple[list[Any], int, int]:
    """The objects that a format takes; how many trials they are of, and how many never ran."""
    if takes is not Takes.SPANS:
        return _objects_of(target, _exported if takes is Takes.TRIALS else _turns)
    run = target.absolute().name
    lines, number, left = _objects_of(target, partial(_span, run))
    names = (f"not run {at}" for at in range(left))
    lines += [fault_span(run, name, "it was scheduled and not run") for name in names]
    return lines, number, left
