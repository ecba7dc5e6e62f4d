"""The audit of a verifier by files: a state before, the state after a right run, and what judges.

Each run is shown as a copy of the right state with its changes made in it, and the copy is read
again for our own judge: the database's triggers may have made more of a change, or less.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from types import EllipsisType
from typing import Any, Final

from statediff.contract.file import ContractFile, load_contract, parse_contract
from statediff.errors import InputError, StatediffError, UsageError
from statediff.kernel import TrialFacts
from statediff.meta.checkpoint import Form, checkpoint, digest_of
from statediff.meta.evidence_faults import false_claims, missing_readings
from statediff.meta.reach import UNREACHABLE
from statediff.meta.reference import Reference
from statediff.meta.world import World, in_order
from statediff.model.schema import SCHEMA_OBJECT_PREFIXES
from statediff.model.trace import NoAnswer, Trace
from statediff.model.values import printable
from statediff.model.verdict import Verdict
from statediff.systems.base.rows import plain
from statediff.workspace import drafts
from statediff.workspace.contracts import contract_path, schema_of_contract
from statediff.workspace.inputs import (
    Refinements,
    StateFile,
    answer_from,
    capture_pair,
    distinct_states,
    one_capture,
    refinements,
    unrefined,
)
from statediff_lab.audit import files
from statediff_lab.audit.copies import Copies, places_of, with_states
from statediff_lab.audit.dumps import is_dump
from statediff_lab.audit.folders import Refused, Unwritable
from statediff_lab.audit.holes import Holes
from statediff_lab.audit.ordering import in_order_of_keys
from statediff_lab.audit.places import Place, Shown, words_of
from statediff_lab.audit.suites import Effort, audit_from
from statediff_lab.audit.tasks import FileTask, WrongRun
from statediff_lab.audit.tries import (
    Exhibit,
    Group,
    Heard,
    TaskAudit,
    Untriable,
    follows,
    judged,
    seeded,
    show_all,
)
from statediff_lab.audit.verifiers import (
    Opinion,
    Said,
    Verifier,
    command,
    function,
    sql,
    tests_in,
)
from statediff_lab.importers.sweep import changes_of

SECONDS: Final = 60.0


def verifier_of(named: str, seconds: float = SECONDS, at: str = "") -> Verifier:
    """A verifier of a scheme or a command; `at`: where it finds a state. `UsageError`."""
    scheme, _, rest = named.partition(":")
    match scheme:
        case "python":
            return function(rest)
        case "sql":
            return sql(Path(rest), seconds)
        case "contract":
            return _contract(contract_path(rest))
        case "pytest":
            return tests_in(rest, seconds, at)
        case _:
            return command(named, seconds, at)


def _contract(path: Path) -> Verifier:
    file = load_contract(path)
    refined = refinements(schema_of_contract(path, file, None))

    def ask(shown: Shown) -> Opinion:
        before, after = (
            [f"{name}={path}" for name, path in each.items()]
            for each in (shown.before, shown.state)
        )
        try:
            pair = capture_pair(before, after, refined)
            answer = answer_from(shown.answer, file.content.answer.form)
            verdict = _reference("audit", file, *pair, answer).judged().verdict
        except StatediffError as error:
            return Opinion(Said.FAIL, str(error))
        return Opinion(Said.PASS if verdict is Verdict.MATCH else Said.FAIL, verdict.value)

    return ask


def _reference(name: str, file: ContractFile, before: Any, after: Any, answer: Any) -> Reference:
    return Reference(
        name,
        file,
        before=before,
        after=after,
        trace=Trace(cause="no trace was given"),
        answer=answer,
        timeline=None,
        facts=TrialFacts(name, agent="unknown", isolation="unknown"),
    )


def audit_task(effort: Effort, seconds: float, task: FileTask) -> TaskAudit:
    """One task, audited or as it was kept, until a file that its words name is another.

    `UsageError` where its files are not what they must be.
    """
    if effort.keep is None:
        return _audit(effort, seconds, task)
    beside = [each for each in (task.answer, task.contract, task.schema) if each is not None]
    words = {str(k): _plain(v) for k, v in asdict(task).items()}
    beside += [each for text in (task.verifier, task.solution) if text for each in _own_files(text)]
    held = [_digest(state) for state in task.states]
    asked = [words, digest_of(beside), *held, effort.seed, effort.each, seconds, str(effort.holes)]
    form = Form("audit", partial(audit_from, effort.holes))
    make = lambda: [_audit(effort, seconds, task)]  # noqa: E731 - said once
    (found,) = checkpoint(effort.keep, task.name, asked, make, form)
    return found


def _plain(value: object) -> str:
    """The text without the passwords of URLs."""
    return re.sub(r"(://[^:/@\s]*):[^@/\s]*@", r"\1@", str(value))


def _digest(state: str) -> str:
    """The digest of what a state holds now: a running database, or files."""
    path = Path(state.rpartition("=")[2])
    if not is_dump(path):
        file = StateFile.parse(state)
        if file.url is not None:
            readings = (part.reading for part in one_capture([state], unrefined).parts)
            return " ".join(str(reading.digest) for reading in readings)
        path = file.path
    return digest_of([path, *path.rglob("*")])


def audit_or_fault(effort: Effort, seconds: float, task: FileTask) -> TaskAudit:
    """Audit a task of several, or say why it could not be; the others have their figures."""
    try:
        return audit_task(effort, seconds, task)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other tasks have their figures
        what = "" if isinstance(error, StatediffError) else f"{type(error).__name__}: "
        fault = printable(f"{what}{error}")
        return TaskAudit(task.domain or task.name, task.name, fault=fault)


def _own_files(verifier: str) -> Iterator[Path]:
    scheme, _, rest = verifier.partition(":")
    if scheme == "python":
        verifier_of(verifier)  # imports it
        yield Path(str(sys.modules[rest.partition(":")[0]].__file__))
    named = rest if scheme in ("sql", "contract", "pytest") else verifier
    yield from (Path(word) for word in words_of(named, "--verifier") if Path(word).is_file())


def _evidence(task: FileTask, right: Reference) -> Iterator[tuple[str, str]]:
    """Yields what the figures rest on: digests of each state, the contract and the verifier."""
    for side, capture in (("before", right.before), ("after", right.after)):
        for part in capture.parts:
            yield f"{side} {part.reading.source}", str(part.reading.digest)
    yield "contract", right.contract.digest
    yield "verifier", _plain(task.verifier)
    for path in _own_files(task.verifier):
        yield path.name, f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


def _audit(effort: Effort, seconds: float, task: FileTask) -> TaskAudit:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="statediff-audit-")))
        holes = Holes(effort.holes, task.name)
        if effort.keep is not None:
            holes.clear()
        verifier = verifier_of(task.verifier, seconds, task.at)
        task = with_states(task, seconds, folder, stack)
        showing = _Showing(task, verifier, folder)
        stack.callback(showing.copies.close)
        judgement = showing.right.judged()
        if judgement.verdict is not Verdict.MATCH:
            raise UsageError(
                f"{printable(task.name)}: the run that should be right gets "
                f"{judgement.verdict.value} under its contract; give a right run, or --contract"
            )
        world = World(showing.right, judgement, effort.seed)
        tries, untried = show_all(showing.exhibits(world, effort.each), holes.keep)
        text = showing.right.contract.data.decode()
        holes.describe(text, showing.schema_text)
        left = (*untried, *in_order(world.untried))
        return TaskAudit(
            task.domain or task.name,
            task.name,
            tries=tries,
            untried=left,
            contract=text,
            evidence=tuple(_evidence(task, showing.right)),
        )


def right_run(task: FileTask) -> tuple[Reference, str, Refinements]:
    """The right run under its contract, the drafted schema's text, and what that says of a source.

    Without a contract it is drafted from the run, and from nothing else.
    """
    before, after = list(task.before), list(task.after)
    schema_text = ""
    if task.contract is not None:
        path = contract_path(str(task.contract))
        file = load_contract(path)
        refined = refinements(schema_of_contract(path, file, task.schema))
        pair = capture_pair(before, after, refined)
    else:
        name = re.sub(r"[^a-z0-9]+", "-", task.name.lower()).strip("-") or "task"
        read = drafts.runs_of_states(before, after)
        drafted = drafts.draft(f"audit/{name}", read, lambda: one_capture(before, unrefined))
        schema_text = drafted.schema_text
        refined = drafts.refinements_of(schema_text)
        pair = capture_pair(before, after, refined)
        file = parse_contract(drafted.draft.text.encode(), "the draft")
    answer = answer_from(task.answer, file.content.answer.form)
    return _reference(task.name, file, *pair, answer), schema_text, refined


class _Showing:
    """Shows runs of one task to its verifier, one copy of the state at a time."""

    def __init__(self, task: FileTask, verifier: Verifier, folder: Path) -> None:
        self._task = task
        self._verifier = verifier
        self._folder = folder
        self._files = distinct_states(task.after, "--after")
        self._first = places_of(task.before, "--before")
        self._after = places_of(task.after, "--after")
        self.copies = Copies(folder)
        for file in self._files:
            if file.url is None and not (file.path.is_file() or file.path.is_dir()):
                raise UsageError(
                    f"{printable(file.label)}: expected a SQLite file, JSON tables, a folder or "
                    "the URL of a database; an audit writes the states that it shows"
                )
        if (task.right or task.wrong) and len(self._files) > 1:
            raise UsageError("other right runs, and wrong ones, are of tasks with one source")
        self.right, self.schema_text, self._refined = right_run(task)

    def exhibits(self, world: World, each: int) -> Iterator[Exhibit]:
        """Every run that is shown, in order."""
        others = [self._read([state]) for state in self._task.right]
        if world.touched and not self.right.contract.content.noop:
            idle, silent = (partial(self._ask_copy, self._first, answer=a) for a in (..., None))
            words = "nothing was done, and nothing said"
            yield Exhibit(group=Group.NOTHING, kind="null-run", sentence=words, ask=silent)
            if self._task.answer is not None:
                words = "nothing was done; all was said"
                yield Exhibit(group=Group.NOTHING, kind="answer-alone", sentence=words, ask=idle)
        asks: list[tuple[str, str, Callable[[], Heard]]] = [
            ("right-run", "the task was done right", partial(self._ask_copy, self._after)),
            ("written-anew", "the right state, in other bytes", self._ask_anew),
        ]
        for number, state in enumerate(self._task.right, start=1):
            ask = partial(self._ask_copy, self._at(state))
            asks.append(("other-right-run", f"right run {number}", ask))
        for kind, words, asking in asks:
            yield Exhibit(group=Group.RIGHT, kind=kind, sentence=words, ask=asking)
        for wrong in self._task.wrong:
            yield Exhibit(
                group=Group.BESIDE,
                kind=wrong.kind,
                target=wrong.run or Path(wrong.after).stem,
                sentence=f"{wrong.run or Path(wrong.after).name} is known to be wrong",
                ask=partial(self._ask_wrong, wrong),
            )
        yield from self._unseen(world, each)
        for fault in false_claims(world):
            if judged(fault.mutant) is Verdict.MATCH:
                world.leave("other answers", "the contract leaves them open")
                continue
            yield Exhibit(
                group=Group.IN_TASK,
                kind="false-claim",
                target=fault.target,
                sentence=fault.sentence,
                ask=partial(self._ask_claim, fault.mutant),
            )
        yield from seeded(world, each, self._show, others)

    def _unseen(self, world: World, each: int) -> Iterator[Exhibit]:
        blanks = {fault.target: fault.mutant for fault in missing_readings(world)}
        for file in self._files:
            for kind, what in (("state-removed", "is gone"), ("state-cut", "breaks off half-way")):
                yield Exhibit(
                    group=Group.UNSEEN,
                    kind=kind,
                    target=file.source,
                    sentence=f"the state of {file.source} {what}",
                    ask=partial(self._ask_spoiled, file.source, kind, blanks.get(file.source)),
                )
        types = [each for each in world.types if not each.name.startswith(SCHEMA_OBJECT_PREFIXES)]
        for entity in world.rng.sample(types, min(each or len(types), len(types))):
            yield Exhibit(
                group=Group.UNSEEN,
                kind="table-removed",
                target=entity.name,
                sentence=f"there is no {entity.source_table} at all",
                ask=partial(self._ask_without, entity.source_table),
            )

    def _at(self, state: str) -> dict[str, Place]:
        file = StateFile.parse(state)
        return {self._files[0].source: file.url or file.path}

    def _read(self, states: Sequence[str]) -> Reference:
        pair = capture_pair(list(self._task.before), list(states), self._refined)
        return replace(self.right, before=pair[0], after=pair[1])

    def _ask(
        self,
        state: dict[str, Place],
        run: Reference | None = None,
        *,
        answer: Path | None | EllipsisType = ...,
    ) -> Heard:
        """Its word on the states; with the right run's answer, unless another is given."""
        if run is None:
            run = self._read([f"{name}={path}" for name, path in state.items()])
        paths = {name: path for name, path in state.items() if isinstance(path, Path)}
        held = {name: path for name, path in paths.items() if path.exists()}
        answer = self._task.answer if isinstance(answer, EllipsisType) else answer
        kept = self._folder / "asked"
        shutil.rmtree(kept, ignore_errors=True)
        if held:  # what was shown, whatever is done to it
            shutil.copytree(self._folder / "shown", kept, symlinks=True)
        before = self.copies.made(self._first, "before")
        shown = Shown(before=before, state=state, answer=answer)
        opinion = self._verifier(shown)
        return Heard(opinion, run, {n: kept / p.relative_to(p.parents[1]) for n, p in held.items()})

    def _ask_copy(
        self, state: Mapping[str, Place], answer: Path | None | EllipsisType = ...
    ) -> Heard:
        return self._ask(self.copies.made(state), answer=answer)

    def _ask_wrong(self, wrong: WrongRun) -> Heard:
        run = self._read([wrong.after])
        if not changes_of(self.right, run):
            raise Untriable("its state is that of the right run")
        return self._ask(self.copies.made(self._at(wrong.after)))

    def _ask_anew(self) -> Heard:
        state = self.copies.made(self._after)
        for path in state.values():
            if isinstance(path, str):
                raise Untriable("a server writes its files as it likes")
            _write(files.write_anew, path)
        return self._ask(state)

    def _ask_spoiled(self, source: str, kind: str, blank: Reference | None) -> Heard:
        state = self.copies.made(self._after)
        place = state[source]
        if isinstance(place, str):
            if kind == "state-cut":
                raise Untriable("a database that runs does not break off")
            self.copies.serving(source, str(self._after[source])).remove()
        elif kind == "state-removed":
            files.remove(place)
        else:
            files.cut(place)
        return self._ask(state, blank)

    def _ask_claim(self, mutant: Reference) -> Heard:
        said, place = mutant.answer, self._folder / "answer.json"
        if not isinstance(said, NoAnswer):
            is_text = mutant.contract.content.answer.form == "text"
            text = str(said) if is_text else json.dumps(plain(said), default=float)
            place.write_text(text, encoding="utf-8")
        answer = None if isinstance(said, NoAnswer) else place
        return self._ask(self.copies.made(self._after), mutant, answer=answer)

    def _ask_without(self, table: str) -> Heard:
        state = self.copies.made(self._after)
        for source, path in state.items():
            if isinstance(path, str):
                _write(self.copies.serving(source, str(self._after[source])).remove_table, table)
            else:
                _write(files.remove_table, path, table)
        return self._ask(state)

    def _show(self, mutant: Reference) -> Heard:
        state = self.copies.made(self._after)
        changes = changes_of(self.right, mutant)
        for part in self.right.after.parts:
            keys = files.keys_of(part.state.schema.types)
            own = [change for change in changes if change.type in keys and not follows(change.type)]
            own = files.without_computed(own, part.state.schema.types)
            own = in_order_of_keys(own, part.state.schema.types)
            source = part.reading.source
            place = state[source]
            if isinstance(place, str):
                _write(self.copies.serving(source, str(self._after[source])).write, own, keys)
            else:
                _write(files.write_changes, place, own, keys)
        try:
            run = self._read([f"{name}={path}" for name, path in state.items()])
        except InputError as error:
            raise Untriable(f"the state cannot be read any more: {error}") from error
        if not changes_of(self.right, run):
            raise Untriable("the system makes nothing of it")
        return self._ask(state, run)


def _write(write: Callable[..., None], *what: Any) -> None:
    try:
        write(*what)
    except Refused as error:
        raise Untriable(f"{UNREACHABLE}: {error}") from error
    except Unwritable as error:
        raise Untriable(str(error)) from error
