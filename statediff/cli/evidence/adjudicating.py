"""`adjudicate`, `resolve` and `agreement`: what people say of trials, signed and compared."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from statediff.cli.output import JsonFlag
from statediff.suite.review_terms import Cause, Component, Failure, Label

if TYPE_CHECKING:
    from statediff.evidence.package import Bundle
    from statediff.suite.agreement import Rates
    from statediff.suite.labels import Given

LABELLED = "statediff/labelled/1"
AGREEMENT = "statediff/agreement/2"

TargetArgument = Annotated[
    Path, typer.Argument(metavar="BUNDLE|RUN", help="A bundle's folder, a trial's, or a run's.")
]
KeyOption = Annotated[
    Path, typer.Option("--key", metavar="KEY", help="The reviewer's secret key, from `keygen`.")
]
TrustOption = Annotated[
    Path, typer.Option("--trust", metavar="FILE", help="The trust file: whose keys count.")
]


def adjudicate(  # noqa: PLR0913, PLR0917 - one parameter an option
    target: TargetArgument,
    key: KeyOption,
    label: Annotated[
        Label | None, typer.Option("--label", help="Whether the run was right; asked if missing.")
    ] = None,
    cause: Annotated[Cause | None, typer.Option("--cause", help="Whose fault it is.")] = None,
    stage: Annotated[
        Component | None, typer.Option("--stage", help="Where an evaluator failure lies.")
    ] = None,
    correctable: Annotated[
        bool | None,
        typer.Option(
            "--correctable/--not-correctable",
            help="Whether the evidence shows the evaluator's failure.",
        ),
    ] = None,
    failure: Annotated[
        list[Failure] | None,
        typer.Option("--failure", help="In which way the evaluation failed; may be given again."),
    ] = None,
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="Why, in words.")] = "",
    seconds: Annotated[
        int, typer.Option("--seconds", help="How long the review took, where it is not asked here.")
    ] = 0,
    blind: Annotated[
        bool, typer.Option("--blind", help="Verdict and findings were not shown, and are not.")
    ] = False,
    size: Annotated[
        int | None,
        typer.Option("--sample", metavar="N", help="Of a run: so many trials, stratified."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the sample.")] = 0,
    as_json: JsonFlag = False,
) -> None:
    """Label trials as a reviewer: shows each and asks, or takes --label; signs what is said."""
    from statediff.cli.output import emit, results, shown
    from statediff.errors import UsageError
    from statediff.evidence.keys import load_key
    from statediff.suite.labels import Given, keep, sign_label
    from statediff.workspace.runfolders import is_run
    from statediff.workspace.sampling import drawn

    signing = load_key(key)
    if label is None and (as_json or not sys.stdin.isatty()):
        raise UsageError("nobody can be asked here; say with --label what the run was")
    if label is None and (cause is not None or failure or note or seconds):
        raise UsageError(
            "--cause, --failure, --note and --seconds go with --label; otherwise they are asked"
        )
    if size is not None and not is_run(target):
        raise UsageError("--sample is for a run; this is one bundle")
    ways = tuple(sorted(set(failure or ())))
    for trial in drawn([target], size, seed):
        if label is None:
            given = _asked(trial.read(), blind)
        else:
            given = Given(
                label,
                seconds,
                blind,
                cause=cause,
                stage=stage,
                is_correctable=correctable,
                note=note,
                failures=ways,
            )
        now = datetime.now(UTC).replace(microsecond=0)
        path = keep(trial.folder, sign_label(trial.digest, given, now, signing))
        if as_json:
            emit({
                "schema": LABELLED, "bundle": trial.digest, "label": given.label.value,
                "kept": shown(path),
            })  # fmt: skip
        else:
            results().print(f"{given.label.value}: {shown(path)}", soft_wrap=True)


def resolve(
    target: Annotated[
        Path, typer.Argument(metavar="BUNDLE", help="A bundle's folder, or a trial's with one.")
    ],
    label: Annotated[Label, typer.Option("--label", help="What the run was, after all.")],
    because: Annotated[str, typer.Option("--because", metavar="TEXT", help="Why.")],
    key: KeyOption,
    trust: TrustOption,
    as_json: JsonFlag = False,
) -> None:
    """Settle labels that disagree; every label it settles is named in it."""
    from statediff.cli.output import emit, results, shown
    from statediff.evidence.keys import load_key, load_trust
    from statediff.suite.labels import keep, kept, sign_resolution
    from statediff.workspace.bundles import load_bundle

    bundle, folder = load_bundle(target)
    labels, _ = kept(folder.parent, bundle.digest, load_trust(trust))
    now = datetime.now(UTC).replace(microsecond=0)
    path = keep(folder.parent, sign_resolution(labels, label, because, now, load_key(key)))
    if as_json:
        emit({
            "schema": LABELLED, "bundle": bundle.digest, "label": label.value, "kept": shown(path),
            "settles": len(labels),
        })  # fmt: skip
    else:
        results().print(
            f"{label.value}, which settles {len(labels)}: {shown(path)}", soft_wrap=True
        )


def agreement(target: TargetArgument, trust: TrustOption, as_json: JsonFlag = False) -> None:
    """Show how far reviewers agree with each other, and verdicts with what they settled.

    Every verdict that contradicts a settled label is listed; error rates are by domain.
    """
    from statediff.cli.output import emit, results
    from statediff.evidence.keys import load_trust
    from statediff.reports.record import said
    from statediff.suite import agreement as of
    from statediff.suite.labels import kept, settled
    from statediff.workspace.sampling import drawn

    keys = load_trust(trust)
    votes, seconds, causes, ways, blind = [], [], Counter[str](), Counter[str](), 0
    judged: list[of.Settled] = []
    for trial in drawn([target], None, 0):
        labels, resolutions = kept(trial.folder, trial.digest, keys)
        found = settled(labels, resolutions)
        if found is None:
            continue
        votes.append({each.reviewer: each.given.label for each in labels})
        seconds += [each.given.seconds for each in labels if each.given.seconds]
        blind += sum(each.given.blind for each in labels)
        causes.update(each.given.cause.value for each in labels if each.given.cause is not None)
        ways.update(way.value for each in labels for way in each.given.failures)
        facts = trial.read().manifest
        contract, version, digest, kernel, verdict = (
            str(facts[name])
            for name in ("contract", "contract_version", "contract_digest", "kernel", "verdict")
        )
        judged.append(
            of.Settled(
                trial=str(facts["trial"]),
                contract=contract,
                version=version,
                digest=digest,
                kernel=kernel,
                verdict=verdict,
                label=found,
                bundle=trial.digest,
            )
        )
    verdicts: dict[tuple[str, str, str], list[tuple[str, Label]]] = {}
    for each in judged:
        judge = (each.contract, each.version, each.kernel)
        verdicts.setdefault(judge, []).append((each.verdict, each.label))
    trials, kappa = of.fleiss(votes)
    document: dict[str, Any] = {
        "schema": AGREEMENT, "trials": len(votes), "labels": sum(map(len, votes)), "blind": blind,
        "pairs": [
            {"one": p.one, "other": p.other, "trials": p.trials, "agree": p.agree,
             "kappa": _number(p.kappa)} for p in of.pairs(votes)
        ],
        "fleiss": {"trials": trials, "kappa": _number(kappa)},
        "median_seconds": of.median_seconds(seconds),
        "causes": dict(sorted(causes.items())), "failures": dict(sorted(ways.items())),
        # Another contract or kernel is another evaluator: its verdicts are counted by themselves.
        "verdicts": [
            {"contract": contract, "version": version, "kernel": kernel,
             **asdict(of.against(members))}
            for (contract, version, kernel), members in sorted(verdicts.items())
        ],
        "domains": [_rates(each) for each in of.rates(judged)],
        "disagreements": [
            {**asdict(each), "label": each.label.value, "kind": each.disagreement}
            for each in sorted(judged, key=lambda each: (each.contract, each.trial, each.bundle))
            if each.disagreement is not None
        ],
    }  # fmt: skip
    if as_json:
        emit(document)
        return
    told = [f"labelled trials: {len(votes)}, labels: {document['labels']}, given blind: {blind}"]
    told += [
        f"{p['one']} and {p['other']} agree on {p['agree']} of {p['trials']}, kappa {p['kappa']}"
        for p in document["pairs"]
    ]
    told.append(f"all reviewers, over {trials} trials: Fleiss' kappa {_number(kappa)}")
    told.append(f"median time of a review: {document['median_seconds']} s")
    told += [f"cause: {name} {count}" for name, count in document["causes"].items()]
    told += [f"failure: {name} {count}" for name, count in document["failures"].items()]
    for judge in document["verdicts"]:
        told.append(
            f"verdicts under {said(judge['contract'])} {said(judge['version'])}, "
            f"kernel {said(judge['kernel'])}"
        )
        told += [f"  {name} {judge[name]}" for name in _COUNTED]
    told += [line for row in of.rates(judged) for line in _rates_told(row)]
    told += [
        f"{row['kind']}: {said(row['trial'])} of {said(row['contract'])} {said(row['version'])}: "
        f"{said(row['verdict'])}, was {row['label']}"
        for row in document["disagreements"]
    ]
    results().print("\n".join(told).replace("None", "undefined"), soft_wrap=True)


_COUNTED = (
    "agree", "false_acceptances", "false_rejections", "inconclusive", "unresolvable",
)  # fmt: skip


_RATES = ("error", "false_negatives", "false_positives")


def _rates(row: Rates) -> dict[str, Any]:
    shares = {name: getattr(row, name) for name in _RATES}
    return {
        "domain": row.domain, "kernel": row.kernel, "contracts": list(row.contracts),
        "decided": row.decided,
        **{
            name: None if share is None else {
                "wrong": share.hits, "of": share.total,
                "low": float(share.low), "high": float(share.high),
            } for name, share in shares.items()
        },
    }  # fmt: skip


def _rates_told(row: Rates) -> Iterator[str]:
    from statediff.reports.record import said

    yield f"domain {said(row.domain)}, kernel {said(row.kernel)}: {row.decided} decided"
    for name in _RATES:
        share = getattr(row, name)
        what = name.replace("_", " ")
        if share is None:
            yield f"  {what}: no figure, a contract is there in two versions"
        elif not share.total:
            yield f"  {what}: none of that kind"
        else:
            low, high = (f"{100 * float(end):.1f}" for end in (share.low, share.high))
            yield f"  {what}: {share.hits} of {share.total}, 95 % interval {low} to {high} %"


def _asked(bundle: Bundle, blind: bool) -> Given:
    """What the person at the terminal says, and how long they took."""
    from statediff.cli.output import results
    from statediff.reports.blind_case import dossier
    from statediff.reports.text import trial_report
    from statediff.suite.labels import Given

    results().print(dossier(bundle) if blind else trial_report(bundle))
    began = time.monotonic()
    label = Label(_choice("The run was", [each.value for each in Label]))
    given = Given(label, 0, blind)
    if not blind and label is not Label.CORRECT:
        said = _choice("The cause is", ["none", *(each.value for each in Cause)])
        given = replace(given, cause=None if said == "none" else Cause(said))
        if given.cause is Cause.EVALUATOR:
            stage = Component(_choice("It failed at", [each.value for each in Component]))
            can = _choice("The evidence shows it", ["yes", "no"]) == "yes"
            given = replace(given, stage=stage, is_correctable=can)
    note = typer.prompt("Why, in words", default="", show_default=False, err=True)
    return replace(given, note=str(note), seconds=round(time.monotonic() - began))


def _choice(question: str, options: list[str]) -> str:
    """One of the options; a beginning that fits only one will do."""
    while True:
        said = str(typer.prompt(f"{question} ({', '.join(options)})", err=True)).strip()
        fits = [option for option in options if said and option.startswith(said)]
        if len(fits) == 1 or said in options:
            return said if said in options else fits[0]


def _number(kappa: Any) -> float | None:
    return None if kappa is None else round(float(kappa), 4)
