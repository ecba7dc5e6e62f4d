"""`show`, `replay` and `export`: what bundles say, for people, for proof and for other tools."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from statediff.cli.options import CopyKeys, CopyTrustOption, IdentityOption, JsonFlag, Loudness
from statediff.cli.output import emit, print_result, print_trial, progress, results, shown
from statediff.errors import BundleError, InputError, UsageError
from statediff.workspace.bundles import load_bundle, partial_copy
from statediff.workspace.runfolders import agent_of, count_scheduled, is_run, run_facts, trials

if TYPE_CHECKING:
    from statediff.evidence.verify import Verified

ShownArgument = Annotated[
    Path,
    typer.Argument(
        metavar="BUNDLE", help="A bundle's folder, a trial's that holds one, or a sealed copy."
    ),
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
    typer.Argument(
        metavar="BUNDLE|RUN|TASK",
        help="A bundle's folder, a trial's, or a run's; for `--as harbor` a contract, for "
        "`--as in-toto` and `--as scitt` a sealed copy.",
    ),
]


def show(bundle: ShownArgument, keys: CopyKeys, how: Loudness) -> int:
    """Show a bundle: verdict, clauses, findings, changes, readings."""
    copy = partial_copy(bundle, keys.trust, keys.vault)
    if copy is not None:
        from statediff.reports.copies import copy_lines, review_in

        if how.as_json:
            leaves = {leaf.path: leaf.value for leaf in copy.leaves if leaf.path == "summary#"}
            emit({"schema": COPY, "bundle": shown(bundle), **copy.manifest,
                  "clauses": leaves["summary#"]["clauses"], "review": review_in(copy),
                  "withheld": dict(copy.withheld)})  # fmt: skip
            return 0
        for line in copy_lines(copy, shown(bundle)):
            results().print(line, soft_wrap=True, markup=False, highlight=False)
        return 0
    found, folder = load_bundle(bundle, keys.trust, keys.vault)
    if how.as_json:
        from statediff.reports.plain import plain_judgement

        emit(plain_judgement(found, shown(folder)))
    else:
        print_trial(found, shown(folder), how, agent_of(folder))
    return 0


@dataclass(frozen=True, kw_only=True)
class CheckedAgainst:
    """What a bundle is checked against beside itself."""

    contract: Annotated[
        str | None,
        typer.Option("--contract", metavar="FILE", help="It was judged by these very bytes."),
    ] = None
    chunks: Annotated[
        Path | None,
        typer.Option("--chunks", metavar="RUN", help="Its state roots are those of this run's."),
    ] = None


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
    from statediff.cli.faults import exit_code
    from statediff.kernel import modules_digest
    from statediff.kernel import replay as decide_again
    from statediff.workspace.rechecking import require_chunks, require_contract

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
        from statediff.reports.text import verdict_text

        line = verdict_text(verdict.value)
        line.append(f"  reproduced from {shown(folder)} by kernel {found.manifest['kernel']}", "")
        results().print(line, soft_wrap=True)
    return exit_code([verdict])


def _replay_copy(copy: Verified, path: Path, *, as_json: bool) -> int:
    """Say what follows from a copy that withholds parts; `BundleError` where it contradicts it."""
    from dataclasses import asdict

    from statediff.reports.copies import decide_copy

    decided = decide_copy(copy)
    if decided.disputed:
        raise BundleError(f"{shown(path)}: the copy contradicts itself: {decided.disputed[0]}")
    verdict = copy.manifest["verdict"]
    if as_json:
        emit({"schema": REPLAY, "bundle": shown(path), "reproduced": False, "verdict": verdict,
              "decided": asdict(decided), "withheld": dict(copy.withheld)})  # fmt: skip
        return WITHHELD
    tags = ", ".join(f"{count} {tag}" for tag, count in copy.withheld.items())
    results().print(
        f"{verdict} follows from the {decided.clauses} clauses as they are signed; comparisons "
        f"decided again: {decided.compared}, with a side that is withheld: {decided.withheld}",
        soft_wrap=True,
    )
    progress().print(
        f"{shown(path)}: this copy withholds leaves that the decision rests on: {tags}",
        soft_wrap=True,
    )
    return WITHHELD


@dataclass(frozen=True, kw_only=True)
class SealedExport:
    """Of a sealed copy: by whose keys, and who signs the statement anew."""

    trust: CopyTrustOption = None
    key: Annotated[
        Path | None,
        typer.Option("--key", metavar="KEY", help="For scitt: the secret key that sealed it."),
    ] = None
    issuer: Annotated[
        str | None,
        typer.Option("--issuer", metavar="NAME", help="For scitt [default: the key's name]."),
    ] = None


def _choices() -> str:
    """Every format, as help shows a choice; asked for only when this command is made."""
    from statediff.reports.formats.format import names

    return f"<{'|'.join((*names(), *OTHERS))}>"


def _form(form: str) -> str:
    from statediff.reports.formats.format import names

    if form not in (*names(), *OTHERS):
        known = ", ".join(map(repr, (*names(), *OTHERS)))
        raise ValueError(f"{form!r} is not one of {known}.")
    return form


def export(
    target: ExportedArgument,
    form: Annotated[
        str, typer.Option("--as", metavar=_choices(), parser=_form, help="The form of the export.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="The file [default: standard output]; of tasks the folder that holds them.",
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
    from statediff.reports.formats.format import Takes, format_of
    from statediff.workspace.folders import write_file

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
    read = {Takes.TRIALS: _trials, Takes.TURNS: _turns, Takes.SPANS: _spans}[chosen.takes]
    objects, count, not_run = read(target)
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
    import base64
    import json

    from statediff.evidence.keys import load_key, load_trust
    from statediff.evidence.seal import is_sealed
    from statediff.evidence.verify import Rejected, key_id, verify
    from statediff.workspace.bundles import load_copy
    from statediff.workspace.folders import write_file

    if not is_sealed(target) or options.trust is None:
        raise UsageError(f"--as {form} is of a sealed copy; `statediff sign` it, name --trust FILE")
    if (form == SCITT) != (options.key is not None) or (options.key is None and options.issuer):
        raise UsageError("--as scitt is signed anew, with --key KEY; --as in-toto takes none")
    sealed = load_copy(target, None)
    try:
        found = verify(sealed.files, load_trust(options.trust))
    except Rejected as error:
        raise BundleError(f"{shown(target)}: INVALID: {error}") from error
    data = sealed.files["envelope.json"] + b"\n"
    if options.key is not None:
        from statediff.evidence.foreign.scitt import signed_statement

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
    from statediff.entrypoints import plug_ins

    found = plug_ins("statediff.exports").get(HARBOR)
    if found is None:
        raise UsageError(f"--as {HARBOR} comes with `pip install statediff[{HARBOR}]`")
    export_tasks: Callable[[str, Path], Iterable[Path]] = found.load()  # type: ignore[assignment]  # as the group says
    places = [shown(folder) for folder in export_tasks(str(target), out)]
    written = {"schema": EXPORT, "export": shown(out), "as": HARBOR, "tasks": places}
    print_result(written, "\n".join(places), as_json=as_json)


def _trials(target: Path) -> tuple[Sequence[Any], int, int]:
    """Every trial of the run or bundle; how many there are, and how many were never run."""
    from statediff.reports.formats.exports import exported, without_verdict

    if not is_run(target):
        bundle, folder = load_bundle(target)
        return [exported(bundle, str(bundle.manifest["trial"]), str(folder))], 1, 0
    found = []
    for trial in trials(target):
        try:
            found.append(
                without_verdict(trial.name, trial.why)
                if trial.bundle is None
                else exported(trial.bundle, trial.name, str(trial.folder))
            )
        except (BundleError, InputError) as error:
            found.append(without_verdict(trial.name, str(error)))
    return found, len(found), count_scheduled(run_facts(target), len(found)) - len(found)


def _turns(target: Path) -> tuple[Sequence[Any], int, int]:
    """Every turn of every trial that was judged; how many trials were, and were not."""
    from statediff.reports.formats.turns import turn_lines

    if is_run(target):
        every = list(trials(target))
        found = [(each.bundle, each.folder) for each in every if each.bundle is not None]
        missing = count_scheduled(run_facts(target), len(every)) - len(found)
    else:
        found, missing = [load_bundle(target)], 0
    lines: list[Any] = []
    for bundle, folder in found:
        lines += turn_lines(bundle, str(folder))
    return lines, len(found), missing


def _spans(target: Path) -> tuple[Sequence[Any], int, int]:
    """Every trial as a document of OTLP; how many there are, and how many were never run."""
    from statediff.reports.formats.otlp import fault_span, trial_spans

    if not is_run(target):
        bundle, folder = load_bundle(target)
        document = trial_spans(bundle, str(bundle.manifest["trial"]), str(folder))
        return [document], 1, 0
    run = target.absolute().name
    lines = [
        fault_span(run, trial.name, trial.why)
        if trial.bundle is None
        else trial_spans(trial.bundle, trial.name, str(trial.folder))
        for trial in trials(target)
    ]
    left = count_scheduled(run_facts(target), len(lines)) - len(lines)
    lines += [
        fault_span(run, f"not run {number}", "it was scheduled and not run")
        for number in range(left)
    ]
    return lines, len(lines) - left, left
