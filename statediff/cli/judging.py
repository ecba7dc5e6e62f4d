"""`judge`: two states under a contract, offline; or those of every case of it."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from rich.text import Text

from statediff.capture.bounds import bound_captures
from statediff.cli.faults import FAULT, exit_code
from statediff.cli.options import (
    BundleOutOption,
    CaseChoice,
    ContractArgument,
    Loudness,
    ObserverOption,
    RootsLogOption,
    SchemaFileOption,
    StatePair,
    flag,
    opt,
    option,
)
from statediff.cli.output import (
    at_work,
    emit,
    note,
    note_done_before,
    note_doubtful,
    note_unread,
    print_result,
    print_trial,
    say,
    tell_no_page,
)
from statediff.errors import StatediffError, StorageError, UsageError
from statediff.evidence.roots import SECRET_BYTES, Roots
from statediff.kernel import Evaluated, TrialFacts, evaluate
from statediff.model.trace import ENDINGS
from statediff.model.values import printable
from statediff.model.verdict import Verdict
from statediff.packs import known_sandbox
from statediff.reports.line import trial_line
from statediff.reports.plain import plain_judgement
from statediff.reports.record import parsed
from statediff.reports.text import verdict_text
from statediff.scores import score_of
from statediff.workspace import folders
from statediff.workspace.cases import load_case, load_named_cases
from statediff.workspace.contracts import contract_path, schema_of_contract
from statediff.workspace.folders import shown, write_file
from statediff.workspace.inputs import answer_from, capture_pair, refinements, trace_from
from statediff.workspace.observers import observer_of
from statediff.workspace.pages import keep_trial_report

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from statediff.contract.file import ContractFile
    from statediff.model.readings import Capture
    from statediff.observing import Observer


@dataclass(frozen=True, kw_only=True)
class AgentRecord:
    """The record of the run between the two states."""

    answer: Path | None = opt("FILE", "The agent's answer, JSON.")
    trace: Path | None = opt(
        "FILE", "The agent's calls: JSON lines, a log of statediff's, or OpenTelemetry."
    )
    complete_trace: bool = flag("The trace holds every call, and the agent did not write it.")
    ended: str | None = opt("HOW", f"How the run ended: {', '.join(ENDINGS)}.")


@dataclass(frozen=True, kw_only=True)
class JudgedFiles:
    """The files that a judgement writes."""

    out: BundleOutOption = None
    reward: Path | None = opt(
        "FILE", "Write the reward and the shares of clauses, JSON; no file if INCONCLUSIVE."
    )
    log: RootsLogOption = None
    observer: ObserverOption = None


def judge(
    contract: ContractArgument,
    states: StatePair,
    during: Annotated[
        list[str] | None,
        option(
            "[NAME=]STATE",
            "Every state a source was in between, in order: one option a state. "
            "Name the state after itself if there was none.",
            "--during",
        ),
    ] = None,
    schema: SchemaFileOption = None,
    *,
    cases: CaseChoice,
    record: AgentRecord,
    written: JudgedFiles,
    how: Loudness,
) -> int:
    """Judge two states under a contract, offline, and keep the bundle.

    Where a state's path has `{case}` in it, the states of every chosen case are judged.
    """
    if written.reward is not None and CASE not in str(written.reward):
        folders.remove_file(written.reward)  # a reward that was there before is not this run's
    path = contract_path(contract)
    folders.require_writable(written.out or folders.BUNDLES)
    given = Given(states, tuple(during or ()), record, written, observer_of(written.observer))
    if given.is_by_case:
        return _judge_cases(path, cases, given, schema, how)
    file = load_case(path, cases.chosen)
    with at_work("reading and judging"):
        evaluated = _judged(file, schema_of_contract(path, file, schema), given)
    return keep_and_show(evaluated, written.out, {}, how)


CASE: Final = "{case}"
"""The part of `judge`'s paths that the name of each case replaces."""


@dataclass(frozen=True)
class Given:
    """The files of a run, as the options name them, and those that its judgement leaves."""

    states: StatePair
    during: tuple[str, ...]
    record: AgentRecord
    written: JudgedFiles
    observer: Observer | None

    @property
    def is_by_case(self) -> bool:
        """True if each case has states of its own."""
        return any(CASE in place for place in (*self.states.before, *self.states.after))

    def of_case(self, name: str) -> Given:
        """Those of one case. The bundle of a case lies in a folder of its own below `--out`."""

        def filled(path: Path | None) -> Path | None:
            return None if path is None else Path(str(path).replace(CASE, name))

        def all_filled(places: Sequence[str]) -> list[str]:
            return [place.replace(CASE, name) for place in places]

        states, record, written = self.states, self.record, self.written
        out = None if written.out is None else written.out / name
        return Given(
            StatePair(before=all_filled(states.before), after=all_filled(states.after)),
            tuple(all_filled(self.during)),
            replace(record, answer=filled(record.answer), trace=filled(record.trace)),
            replace(written, out=out, reward=filled(written.reward)),
            self.observer,
        )


def _judged(file: ContractFile, schema: Path | None, given: Given) -> Evaluated:
    """The judgement of one run; its reward is written. `StatediffError` where it cannot be read."""
    reward, log = given.written.reward, given.written.log
    refined = refinements(schema, known_sandbox(file))
    facts = TrialFacts.offline(given.record.ended)
    captures = capture_pair(given.states.before, given.states.after, refined, given.during)
    note_doubtful((given.states.before, captures[0]), (given.states.after, captures[1]))
    note_unread(file, captures[0])
    trace = trace_from(given.record.trace, given.record.complete_trace)
    answer = answer_from(given.record.answer, file.content.answer.form)
    roots = None if log is None else _registered(log, captures)
    observer = given.observer
    signed = observer and observer.observe([captures], facts, trace, answer, None, roots)
    evaluated = evaluate(file, *captures, trace=trace, answer=answer, facts=facts, roots=roots)
    if signed is not None:
        from statediff.observing import observed_as

        evaluated = observed_as(evaluated, signed)
    note_done_before(file, captures[0], evaluated.judgement)
    if reward is not None:
        _write_reward(evaluated, reward)
    return evaluated


def _judge_cases(
    path: Path, cases: CaseChoice, given: Given, schema: Path | None, how: Loudness
) -> int:
    """Every chosen case under its own contract, a line each; one that cannot be read is a fault."""
    reward = given.written.reward
    if reward is not None and CASE not in str(reward):
        raise UsageError(f"--reward: write {CASE} where the name of each case goes")
    files = load_named_cases(path, cases.chosen)
    if not files:
        raise UsageError(f"{CASE} is a case's name; the contract has no cases, see --cases")
    counts: Counter[str] = Counter()
    with at_work() as count:
        for name, file in files.items():
            one = given.of_case(name)
            if one.written.reward is not None:
                folders.remove_file(one.written.reward)
            try:
                evaluated = _judged(file, schema_of_contract(path, file, schema), one)
                _keep_case(name, evaluated, one.written.out, how)
            except StatediffError as error:
                counts["fault"] += 1
                _show_fault(name, error, how)
            else:
                counts[evaluated.judgement.verdict.value] += 1
            count("cases")
    ends = [verdict.value for verdict in Verdict] + ["fault"]
    words = ", ".join(f"{counts[end]} {end}" for end in ends if counts[end])
    summary = {"scheduled": len(files), **{end.lower(): counts[end] for end in ends}}
    print_result({"summary": summary}, f"{len(files)} cases: {words}", as_json=how.as_json)
    verdicts = [verdict for verdict in Verdict if counts[verdict.value]]
    return exit_code(verdicts, has_fault=counts["fault"] > 0)


def _keep_case(name: str, evaluated: Evaluated, out: Path | None, how: Loudness) -> None:
    folder = out or folders.bundle_folder(evaluated.bundle)
    folders.keep_bundle(evaluated.bundle, folder)
    keep_trial_report(evaluated.bundle, folder, tell_no_page)
    if how.as_json:
        emit({"case": name, **plain_judgement(evaluated.bundle, shown(folder))})
    elif how.verbose:
        print_trial(evaluated.bundle, "the bundle", how)
    else:
        line = Text(f"{name}  ").append(verdict_text(evaluated.judgement.verdict.value))
        line.append(f"  {trial_line(evaluated.bundle)}", "default")
        say(line)


def _show_fault(name: str, error: StatediffError, how: Loudness) -> None:
    message = printable(str(error))
    if how.as_json:
        emit({"case": name, "verdict": None, "error": message})
    else:
        say(Text(f"{name}  fault  {message}"))


def _registered(log: Path, captures: tuple[Capture, Capture]) -> Roots:
    """The roots of both states under a new secret, which are in the log."""
    from statediff.workspace.logs.files import register

    roots = Roots.of(*bound_captures(*captures), secrets.token_bytes(SECRET_BYTES))
    register(log, "offline", roots.by_side)
    return roots


def _write_reward(evaluated: Evaluated, path: Path) -> None:
    """`{"reward": 1.0, section: share of its clauses}`; nothing where there is no reward."""
    score = score_of(evaluated.judgement)
    if score.reward is not None:
        numbers = {"reward": score.reward, **score.parts}
        write_file(path, (json.dumps(numbers) + "\n").encode(), option="--reward")


def keep_and_show(
    evaluated: Evaluated, out: Path | None, more: Mapping[str, Any], how: Loudness
) -> int:
    """The bundle and its page are kept, the verdict is shown; the exit code it stands for."""
    folder = out or folders.bundle_folder(evaluated.bundle)
    bundle, page = parsed(evaluated.bundle), None
    missing, is_kept = more.get("not_kept", []), True
    try:
        folders.keep_bundle(evaluated.bundle, folder)
        page = keep_trial_report(bundle, folder, tell_no_page)
    except StorageError as error:  # the verdict is there; only its bundle is not
        missing, is_kept = [*missing, str(error)], False
    if missing:
        more = {**more, "not_kept": missing}
    for each in missing:
        note(each)
    if how.as_json:
        emit({**plain_judgement(bundle, shown(folder)), **more})
    else:
        print_trial(bundle, "the bundle", how)
        if not how.quiet and is_kept:
            say(f"bundle: {shown(folder)}")
        if page is not None and not how.quiet:
            say(f"report: {shown(page)}")
    code = exit_code([evaluated.judgement.verdict])
    # The verdict is shown, and what it rests on is not kept: that is no pass.
    return FAULT if code == 0 and "not_kept" in more else code
