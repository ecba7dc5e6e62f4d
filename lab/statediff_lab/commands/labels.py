"""`review`, `adjudicate`, `resolve`, `flag`, `agreement`: what people say of trials, signed."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from statediff.cli.options import (
    BrowserOption,
    BundleArgument,
    BundleOrRunArgument,
    JsonFlag,
    PageOptions,
    ReviewerKeyOption,
    TrustOption,
)
from statediff.cli.output import print_result, results
from statediff.errors import UsageError
from statediff.reports.said import said
from statediff.workspace.folders import shown
from statediff_lab.labels import Cause, Component, Failure, Label

if TYPE_CHECKING:
    from statediff.evidence.keys import SigningKey
    from statediff.evidence.package import Bundle
    from statediff.evidence.verify import Signer
    from statediff.statistics.binomial import Share
    from statediff_lab.labels import DisagreementRates, Labelled, Review, SettledTrial

LABELLED: Final = "statediff/labelled/1"
AGREEMENT: Final = "statediff/agreement/2"
FLAGGED: Final = "statediff/flagged/1"
REVIEW: Final = "statediff/review/1"
REVIEWED: Final = "statediff/reviewed/1"


@dataclass(frozen=True, kw_only=True)
class LabelOptions:
    """A reviewer's review of a trial, where nobody is asked."""

    label: Annotated[
        Label | None, typer.Option("--label", help="Whether the run was right; asked if missing.")
    ] = None
    cause: Annotated[Cause | None, typer.Option("--cause", help="Whose fault it is.")] = None
    stage: Annotated[
        Component | None, typer.Option("--stage", help="Where an evaluator failure lies.")
    ] = None
    correctable: Annotated[
        bool | None,
        typer.Option(
            "--correctable/--not-correctable",
            help="Whether the evidence shows the evaluator's failure.",
        ),
    ] = None
    failure: Annotated[
        list[Failure] | None,
        typer.Option("--failure", help="In which way the evaluation failed; may be given again."),
    ] = None
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="Why, in words.")] = ""
    seconds: Annotated[
        int, typer.Option("--seconds", help="How long the review took, where it is not asked here.")
    ] = 0

    def given(self, *, blind: bool) -> Review | None:
        """The label with all that is said beside it; None if a person is to be asked."""
        from statediff_lab.labels import Review

        if self.label is not None:
            return Review(
                self.label,
                self.seconds,
                blind,
                cause=self.cause,
                stage=self.stage,
                is_correctable=self.correctable,
                note=self.note,
                failures=tuple(sorted(set(self.failure or ()))),
            )
        if self.cause is not None or self.failure or self.note or self.seconds:
            raise UsageError(
                "--cause, --failure, --note and --seconds go with --label; otherwise they are asked"
            )
        return None


def adjudicate(
    target: BundleOrRunArgument,
    key: ReviewerKeyOption,
    said: LabelOptions,
    blind: Annotated[
        bool, typer.Option("--blind", help="Verdict and findings were not shown, and are not.")
    ] = False,
    size: Annotated[
        int | None,
        typer.Option("--sample", metavar="N", help="Of a run: so many trials, stratified."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the sample.")] = 0,
    look: Annotated[
        int | None,
        typer.Option(
            "--look",
            metavar="N",
            min=0,
            help="Show of each trial only what one evaluator shows, counterbalanced; N is your "
            "number among the reviewers, from 0. Such labels are timed and settle nothing.",
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Label trials as a reviewer: shows each and asks, or takes --label; signs what is said."""
    from statediff.evidence.keys import load_key
    from statediff.workspace.runfolders import is_run
    from statediff_lab.labels import keep_signed, sign_label
    from statediff_lab.reports.evaluator_views import VIEWS
    from statediff_lab.samples import counterbalanced, draw_trials

    signing = load_key(key)
    if said.label is None and (as_json or not sys.stdin.isatty()):
        raise UsageError("nobody can be asked here; say with --label what the run was")
    known = said.given(blind=blind)
    if size is not None and not is_run(target):
        raise UsageError("--sample is for a run; this is one bundle")
    if look is not None and (blind or said.cause is not None):
        raise UsageError(
            "--look shows one evaluator's view and asks for a label: no --blind, no cause"
        )
    trials = draw_trials([target], size, seed)
    views = {} if look is None else counterbalanced([t.digest for t in trials], list(VIEWS), look)
    for trial in trials:
        shown_of = views.get(trial.digest)
        given = _ask(trial.read(), blind, shown_of) if known is None else known
        given = replace(given, shown=shown_of)
        path = keep_signed(trial.folder, sign_label(trial.digest, given, _now(), signing))
        label, place = given.label.value, shown(path)
        labelled = {"schema": LABELLED, "bundle": trial.digest, "label": label, "kept": place}
        print_result(labelled, f"{label}: {place}", as_json=as_json)


def resolve(
    target: BundleArgument,
    label: Annotated[Label, typer.Option("--label", help="What the run was, after all.")],
    because: Annotated[str, typer.Option("--because", metavar="TEXT", help="Why.")],
    key: ReviewerKeyOption,
    trust: TrustOption,
    as_json: JsonFlag = False,
) -> None:
    """Settle labels that disagree; every label it settles is named in it."""
    from statediff.evidence.keys import load_key, load_trust
    from statediff.workspace.bundles import load_bundle
    from statediff_lab.labels import keep_signed, labels_in, sign_resolution

    bundle, folder = load_bundle(target)
    labels, _ = labels_in(folder.parent, bundle.digest, load_trust(trust))
    signed = sign_resolution(labels, label, because, _now(), load_key(key))
    place = shown(keep_signed(folder.parent, signed))
    settled = {"schema": LABELLED, "bundle": bundle.digest, "label": label.value, "kept": place}
    print_result(
        {**settled, "settles": len(labels)},
        f"{label.value}, which settles {len(labels)}: {place}",
        as_json=as_json,
    )


@dataclass
class _Votes:
    """Reviews of the trials that have a settled label, and the verdicts on those."""

    labels: list[dict[str, Label]] = field(default_factory=list)
    """Of each trial, by reviewer."""
    seconds: list[int] = field(default_factory=list)
    causes: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    blind: int = 0
    settled: list[SettledTrial] = field(default_factory=list)

    def add(self, labels: Sequence[Labelled], settled: SettledTrial) -> None:
        """One trial more."""
        self.labels.append({each.reviewer: each.given.label for each in labels})
        self.settled.append(settled)
        for given in (each.given for each in labels):
            self.seconds += [given.seconds] if given.seconds else []
            self.blind += given.blind
            self.causes.update(() if given.cause is None else (given.cause.value,))
            self.failures.update(way.value for way in given.failures)


def agreement(target: BundleOrRunArgument, trust: TrustOption, as_json: JsonFlag = False) -> None:
    """Show how far reviewers agree with each other, and verdicts with what they settled.

    Every verdict that contradicts a settled label is listed; error rates are by domain.
    """
    from statediff.evidence.keys import load_trust

    votes = _votes(target, load_trust(trust))
    document = _agreement(votes)
    text = "\n".join(_agreement_lines(votes, document)).replace("None", "undefined")
    print_result(document, text, as_json=as_json)


def _votes(target: Path, keys: tuple[Signer, ...]) -> _Votes:
    from statediff_lab.labels import SettledTrial, labels_in, settled_label
    from statediff_lab.samples import draw_trials

    votes = _Votes()
    for trial in draw_trials([target], None, 0):
        labels, resolutions = labels_in(trial.folder, trial.digest, keys)
        label = settled_label(labels, resolutions)
        if label is None:
            continue
        facts = trial.read().manifest
        case = SettledTrial(
            trial=str(facts["trial"]),
            contract=str(facts["contract"]),
            version=str(facts["contract_version"]),
            digest=str(facts["contract_digest"]),
            kernel=str(facts["kernel"]),
            verdict=str(facts["verdict"]),
            label=label,
            bundle=trial.digest,
        )
        votes.add(labels, case)
    return votes


def _agreement(votes: _Votes) -> dict[str, Any]:
    from statediff_lab import labels as of

    # Another contract or kernel is another evaluator: its verdicts are counted by themselves.
    verdicts: dict[tuple[str, str, str], list[tuple[str, Label]]] = {}
    for each in votes.settled:
        judge = (each.contract, each.version, each.kernel)
        verdicts.setdefault(judge, []).append((each.verdict, each.label))
    trials, kappa = of.fleiss(votes.labels)
    return {
        "schema": AGREEMENT,
        "trials": len(votes.labels),
        "labels": sum(map(len, votes.labels)),
        "blind": votes.blind,
        "pairs": [
            {**asdict(pair), "kappa": _number(pair.kappa)} for pair in of.pairs(votes.labels)
        ],
        "fleiss": {"trials": trials, "kappa": _number(kappa)},
        "median_seconds": of.median_seconds(votes.seconds),
        "causes": dict(sorted(votes.causes.items())),
        "failures": dict(sorted(votes.failures.items())),
        "verdicts": [
            {**dict(zip(("contract", "version", "kernel"), judge, strict=True)), **asdict(counts)}
            for judge, counts in (
                (judge, of.against(members)) for judge, members in sorted(verdicts.items())
            )
        ],
        "domains": [_rates(each) for each in of.rates(votes.settled)],
        "disagreements": [
            {**asdict(each), "label": each.label.value, "kind": each.disagreement}
            for each in sorted(votes.settled, key=lambda e: (e.contract, e.trial, e.bundle))
            if each.disagreement is not None
        ],
    }


def _agreement_lines(votes: _Votes, document: dict[str, Any]) -> Iterator[str]:
    from statediff_lab.labels import rates

    yield (
        f"labelled trials: {document['trials']}, labels: {document['labels']}, "
        f"given blind: {document['blind']}"
    )
    for p in document["pairs"]:
        yield (
            f"{p['one']} and {p['other']} agree on {p['agree']} of {p['trials']}, "
            f"kappa {p['kappa']}"
        )
    fleiss = document["fleiss"]
    yield f"all reviewers, over {fleiss['trials']} trials: Fleiss' kappa {fleiss['kappa']}"
    yield f"median time of a review: {document['median_seconds']} s"
    yield from (f"cause: {name} {count}" for name, count in document["causes"].items())
    yield from (f"failure: {name} {count}" for name, count in document["failures"].items())
    for judge in document["verdicts"]:
        contract, version, kernel = (said(judge[n]) for n in ("contract", "version", "kernel"))
        yield f"verdicts under {contract} {version}, kernel {kernel}"
        yield from (f"  {name} {judge[name]}" for name in _COUNTED)
    for row in rates(votes.settled):
        yield from _rate_lines(row)
    for row in document["disagreements"]:
        yield (
            f"{row['kind']}: {said(row['trial'])} of {said(row['contract'])} "
            f"{said(row['version'])}: {said(row['verdict'])}, was {row['label']}"
        )


_COUNTED = ("agree", "false_acceptances", "false_rejections", "inconclusive", "unresolvable")
_RATES = ("error", "false_negatives", "false_positives")


def _rates(row: DisagreementRates) -> dict[str, Any]:
    return {
        "domain": row.domain,
        "kernel": row.kernel,
        "contracts": list(row.contracts),
        "decided": row.decided,
        **{name: _rate(getattr(row, name)) for name in _RATES},
    }


def _rate(share: Share | None) -> dict[str, Any] | None:
    if share is None:
        return None
    low, high = float(share.low), float(share.high)
    return {"wrong": share.hits, "of": share.total, "low": low, "high": high}


def _rate_lines(row: DisagreementRates) -> Iterator[str]:

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


def _number(kappa: Any) -> float | None:
    return None if kappa is None else round(float(kappa), 4)


def _ask(bundle: Bundle, blind: bool, evaluator: str | None = None) -> Review:
    """The review of the person at the terminal, and how long they took from when it was shown."""
    from statediff.reports.text import trial_report
    from statediff_lab.labels import Review
    from statediff_lab.reports.blind_case import dossier
    from statediff_lab.reports.evaluator_views import view

    if evaluator is not None:
        shown_now = view(bundle, evaluator)
    else:
        shown_now = dossier(bundle) if blind else trial_report(bundle)
    results().print(shown_now)
    began = time.monotonic()
    label = Label(_choice("The run was", [each.value for each in Label]))
    given = Review(label, 0, blind)
    if not blind and evaluator is None and label is not Label.CORRECT:
        said = _choice("The cause is", ["none", *(each.value for each in Cause)])
        given = replace(given, cause=None if said == "none" else Cause(said))
        if given.cause is Cause.EVALUATOR:
            stage = Component(_choice("It failed at", [each.value for each in Component]))
            can = _choice("The evidence shows it", ["yes", "no"]) == "yes"
            given = replace(given, stage=stage, is_correctable=can)
    asked = "Why, in words" if evaluator is None else "What is wrong, and where"
    note = typer.prompt(asked, default="", show_default=False, err=True)
    return replace(given, note=str(note), seconds=round(time.monotonic() - began))


def _choice(question: str, options: list[str]) -> str:
    """One of the options; a beginning that fits only one will do."""
    while True:
        said = str(typer.prompt(f"{question} ({', '.join(options)})", err=True)).strip()
        fits = [option for option in options if said and option.startswith(said)]
        if len(fits) == 1 or said in options:
            return said if said in options else fits[0]


def flag(
    target: BundleOrRunArgument,
    because: Annotated[
        str, typer.Option("--because", metavar="TEXT", help="Why it cannot be relied on.")
    ],
    key: ReviewerKeyOption,
    contract: Annotated[
        list[str] | None,
        typer.Option("--contract", metavar="PATTERN", help="Of a run: trials of contracts so."),
    ] = None,
    withdraw: Annotated[
        bool, typer.Option("--withdraw", help="Your flag no longer stands; both stay on record.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Flag trials as unreliable, signed; distinguished by `stats`, `compare` and `open` --trust.

    No verdict changes, and every trial is still counted.
    """
    from fnmatch import fnmatchcase

    from statediff.evidence.keys import load_key
    from statediff.workspace.runfolders import is_run
    from statediff_lab.labels import keep_signed, sign_flag
    from statediff_lab.samples import draw_trials

    signing = load_key(key)
    if contract is not None and not is_run(target):
        raise UsageError("--contract is for a run; this is one bundle")
    found = [
        trial
        for trial in draw_trials([target], None, 0)
        if contract is None
        or any(fnmatchcase(str(trial.read().manifest["contract"]), each) for each in contract)
    ]
    if not found:
        raise UsageError(f"{target}: no trial with a bundle is of such a contract")
    for trial in found:
        signed = sign_flag(trial.digest, because, _now(), signing, is_unreliable=not withdraw)
        place = shown(keep_signed(trial.folder, signed))
        facts = {"schema": FLAGGED, "bundle": trial.digest, "unreliable": not withdraw}
        word = "withdrawn" if withdraw else "unreliable"
        print_result({**facts, "kept": place}, f"{word}: {place}", as_json=as_json)


@dataclass(frozen=True, kw_only=True)
class DeskPage(PageOptions):
    """The page of a review, which the browser is only sent to if that is asked for."""

    start: BrowserOption = False


def review(
    targets: Annotated[
        list[Path],
        typer.Argument(
            metavar="BUNDLE|RUN...", help="Bundles, trials, runs, sealed copies; any number."
        ),
    ],
    key: ReviewerKeyOption,
    blind: Annotated[
        bool,
        typer.Option("--blind", help="Verdict and findings are hidden until the label is signed."),
    ] = False,
    size: Annotated[
        int | None, typer.Option("--sample", metavar="N", help="So many trials, stratified.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the sample, and of the order.")] = 0,
    trust: Annotated[
        Path | None,
        typer.Option(
            "--trust",
            metavar="FILE",
            help="Whose keys count: for sealed copies, and to show what others said afterwards.",
        ),
    ] = None,
    *,
    page: DeskPage,
    as_json: JsonFlag = False,
) -> None:
    """Review trials on a local page; every label is signed and kept at once. Ctrl-C ends it."""
    from functools import partial

    from statediff.cli.serving import require_port, serve
    from statediff.evidence.keys import load_key, load_trust
    from statediff_lab.review.desk import Case, Desk
    from statediff_lab.review.server import DeskServer
    from statediff_lab.samples import draw_trials

    signing = load_key(key)
    trusted = () if trust is None else load_trust(trust)
    if trust is not None:
        _require_reviewer(signing, trusted, trust)
    require_port(page.port)
    trials = draw_trials(targets, size, seed, trust)
    if not trials:
        raise UsageError("there is no trial to review; name a run or a bundle that holds one")
    desk = Desk(
        [Case(each.digest, each.folder, each.read) for each in trials],
        signing,
        is_blind=blind,
        clock=time.monotonic,
        now=_now,
        trust=trusted,
    )
    count = len(trials)
    facts = {"trials": count, "blind": blind}
    serve(partial(DeskServer, desk), page, "the review", REVIEW, facts, as_json=as_json)
    signed = sum(each is not None for each in desk.labels())
    document = {"schema": REVIEWED, "trials": count, "signed": signed}
    print_result(document, f"{signed} of {count} signed", as_json=as_json)


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def _require_reviewer(key: SigningKey, trusted: tuple[Signer, ...], trust: Path) -> None:
    """The key's labels will count; it is better known before the work than after."""
    from statediff.evidence.statements import REVIEWER

    if not any(each.key == key.public and REVIEWER in each.roles for each in trusted):
        raise UsageError(
            f"{trust}: does not trust this key as {REVIEWER}, so its labels would not count; "
            "make one with `statediff keygen KEY --name NAME --role reviewer`"
        )
