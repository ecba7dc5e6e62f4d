"""`rubric`: what a model says of runs that matched, and whether it may be used; never a verdict."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from statediff.cli.options import BundleOrRunArgument, JsonFlag, ModelCosts
from statediff.cli.output import print_result
from statediff.errors import UsageError
from statediff.extras import require_extra
from statediff.reports.said import said

if TYPE_CHECKING:
    from collections.abc import Iterator

    from statediff_hosts.protocols.chat import Endpoint, Reply

    from statediff.agents.trial import Budget, Usage
    from statediff_lab.labels import Label
    from statediff_lab.opinions import RubricOpinion
    from statediff_lab.rubrics import Rubric
    from statediff_lab.samples import DrawnTrial

RUBRIC = "statediff/rubric-report/1"
_UNDONE = "trials scored until then keep their opinions, this one has none"


@dataclass(frozen=True, kw_only=True)
class ScoringOptions:
    """Which model is asked, how often, and by which seeds."""

    base_url: Annotated[
        str, typer.Option("--base-url", metavar="URL", help="An OpenAI-compatible endpoint.")
    ]
    model: Annotated[str, typer.Option("--model", metavar="NAME", help="Which model is asked.")]
    times: Annotated[
        int, typer.Option("-k", "--times", min=1, max=100, help="How often each trial is scored.")
    ] = 1
    seed: Annotated[
        int, typer.Option("--seed", min=0, max=2**31, help="Of the first scoring; then the next.")
    ] = 0


def rubric(
    target: BundleOrRunArgument,
    scoring: ScoringOptions,
    costs: ModelCosts,
    rubric_file: Annotated[
        Path,
        typer.Option("--rubric", metavar="FILE", help="What is asked: `criteria`, and a `floor`."),
    ],
    trust: Annotated[
        Path | None,
        typer.Option("--trust", metavar="FILE", help="Whose adjudications count for precision."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Ask a model about trials that MATCH, by a rubric; no verdict changes.

    Each opinion is kept as `rubric.json` beside the bundle; a trial that was asked the same
    already is not asked again. Ends with 0 whatever the model says.
    """
    for package in ("statediff_hosts", "openai"):
        require_extra("agents", package, "lab rubric")
    from statediff_hosts.protocols.chat import endpoint_of

    from statediff.evidence.keys import load_trust
    from statediff.workspace.agents import budget_of
    from statediff_lab.labels import labels_in, settled_label
    from statediff_lab.rubrics import read_rubric
    from statediff_lab.samples import draw_trials

    budget = budget_of(costs.price_in, costs.price_out, costs.max_cost, _UNDONE)
    asking = _Asking(
        endpoint_of(scoring.base_url, scoring.model, costs.key_env),
        scoring.times,
        scoring.seed,
        budget,
        read_rubric(rubric_file),
    )
    keys = None if trust is None else load_trust(trust)
    found: dict[tuple[str, str, str], list[tuple[bool | None, Label]]] = {}
    lines: list[dict[str, Any]] = []
    for trial in sorted(draw_trials([target], None, 0), key=lambda each: each.folder.name):
        line, opinion = _ask(trial, asking)
        lines.append(line)
        if opinion is not None:
            judge = (line["contract"], line["version"], str(asking.rubric.floor))
            labels = found.setdefault(judge, [])
            label = (
                None
                if keys is None
                else settled_label(*labels_in(trial.folder, trial.digest, keys))
            )
            if label is not None:
                labels.append((opinion.passes, label))
    precision = [_precision(judge, labels) for judge, labels in sorted(found.items())]
    used = asking.spent()
    document = {"schema": RUBRIC, "model": scoring.model, "trials": lines, "precision": precision}
    text = "\n".join(_lines(lines, precision, used)).replace(" None", " undefined")
    print_result({**document, "usage": used.as_json()}, text, as_json=as_json)


@dataclass
class _Asking:
    """Who is asked how often, and what that has taken so far."""

    endpoint: Endpoint
    times: int
    seed: int
    budget: Budget
    rubric: Rubric
    used: Usage | None = None

    def replies(self, talk: list[dict[str, str]]) -> Iterator[Reply]:
        """The replies, counted."""
        from statediff_hosts.protocols.chat import replies

        for reply in replies(self.endpoint, talk, self.times, self.seed, self.budget):
            self.used = reply.usage if self.used is None else self.used + reply.usage
            yield reply

    def spent(self) -> Usage:
        """The usage of this command, and its cost where that is known."""
        from statediff.agents.trial import Usage

        used = self.used or Usage()
        return replace(used, cost=self.budget.prices.cost(used))


def _ask(trial: DrawnTrial, asking: _Asking) -> tuple[dict[str, Any], RubricOpinion | None]:
    """The line that is shown of a trial, and the opinion if there is one."""
    from statediff.kernel import replay
    from statediff_lab.opinions import MAX_SHOWN
    from statediff_lab.reports.blind_case import opinion_line, run_text

    bundle = trial.read()
    facts = bundle.manifest
    line: dict[str, Any] = {
        "trial": str(facts["trial"]),
        "contract": str(facts["contract"]),
        "version": str(facts["contract_version"]),
        "verdict": str(facts["verdict"]),
        "opinion": None,
        "not_asked": None,
    }
    if line["verdict"] != "MATCH":
        return {**line, "not_asked": f"the verdict is {line['verdict']}"}, None
    replay(bundle)  # the gates have passed, whatever the manifest says
    shown = run_text(bundle, str(trial.path))
    if len(shown) > MAX_SHOWN:
        why = f"its record has {len(shown)} characters, more than {MAX_SHOWN}"
        return {**line, "not_asked": why}, None
    opinion = _opinion(trial, shown, asking)
    return {**line, "opinion": opinion_line(opinion)}, opinion


def _opinion(trial: DrawnTrial, shown: str, asking: _Asking) -> RubricOpinion:
    """The opinion that lies beside the bundle, if it answers this; else one that does from now."""
    from statediff.evidence.canonical import write
    from statediff.workspace import folders
    from statediff_lab.opinions import (
        RUBRIC_FILE,
        RubricOpinion,
        messages,
        opinion_in,
        prompt_digest,
        score_answer,
        unanswered,
    )

    asked = asking.rubric
    talk = messages(asked.criteria, shown)
    digest = prompt_digest(talk)
    path = trial.folder / RUBRIC_FILE
    there = opinion_in(path)
    if there is not None:
        seeds = [each.seed for each in there.scorings]
        is_same = (there.bundle, there.model, there.prompt_digest, there.criteria) == (
            trial.digest,
            asking.endpoint.model,
            digest,
            asked.criteria,
        ) and seeds == list(range(asking.seed, asking.seed + asking.times))
        if is_same:
            return there
        raise UsageError(
            f"{folders.shown(path)}: holds the opinion of {there.model!r}, scored {len(seeds)} "
            "times, on this or another bundle; nothing is overwritten: move it away, or ask the "
            "same again"
        )
    scorings = tuple(
        unanswered(reply.seed, reply.refusal)
        if reply.said is None
        else score_answer(reply.seed, reply.said, asked.criteria)
        for reply in asking.replies(talk)
    )
    opinion = RubricOpinion(trial.digest, asking.endpoint.model, digest, asked.criteria, scorings)
    folders.write_file(path, write(opinion.document()) + b"\n")
    return opinion


def _precision(
    judge: tuple[str, str, str], labels: list[tuple[bool | None, Label]]
) -> dict[str, Any]:
    from statediff_lab.opinions import trust

    contract, version, floor = judge
    known = trust(labels, Fraction(floor))
    share = known.precision
    return {
        "contract": contract,
        "version": version,
        "floor": float(known.floor),
        "right": share.hits,
        "passed": share.total,
        "precision": round(share.hits / share.total, 4) if share.total else None,
        "low": float(share.low),
        "high": float(share.high),
        "used": known.is_used,
    }


def _lines(
    lines: list[dict[str, Any]], precision: list[dict[str, Any]], used: Usage
) -> Iterator[str]:

    for line in lines:
        opinion = line["opinion"]
        if opinion is None:
            yield f"{said(line['trial'])}  not asked: {said(line['not_asked'])}"
            continue
        times = len(opinion["seeds"])
        yield (
            f"{said(line['trial'])}  rubric: mean {opinion['mean']}, sd {opinion['sd']}, "
            f"spread {opinion['spread']} of {times} scoring{'s' * (times != 1)}"
        )
        for name, entry in opinion["criteria"].items():
            because = f": {said(entry['because'][0], 200)}" if entry["because"] else ""
            yield f"  {said(name)} met {entry['met']} of {times}{because}"
        yield from (f"  no score: {said(fault, 200)}" for fault in opinion["faults"])
    for found in precision:
        yield (
            f"{said(found['contract'])} {said(found['version'])}: what the model passes, reviewers "
            f"find right {found['right']} of {found['passed']} times, 95 % interval "
            f"{found['low']} to {found['high']}, floor {found['floor']}: "
            + ("used" if found["used"] else "shown, not used")
        )
    if used.requests:
        yield _costs(used)


def _costs(used: Usage) -> str:
    """The requests that were made, and what they cost."""
    counts = "tokens not counted by the server"
    if used.tokens_in is not None and used.tokens_out is not None:
        counts = f"{used.tokens_in} tokens in, {used.tokens_out} out"
    cost = f"cost {used.cost:f}" if used.cost is not None else "cost not known"
    return f"asked {used.requests} time{'s' * (used.requests != 1)}: {counts}, {cost}"
