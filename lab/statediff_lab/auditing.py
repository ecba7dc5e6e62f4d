"""The audit of a verifier by files: a state before, the state after a right run, and what judges.

Each run is shown as a copy of the right state with its changes made in it, and the copy is read
again for our own judge: the database's triggers may have made more of a change, or less.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from types import EllipsisType
from typing import Any, Final

from statediff.contract.file import ContractFile, load_contract, parse_contract
from statediff.errors import InputError, StatediffError, UsageError
from statediff.kernel import TrialFacts
from statediff.meta.cases import document_of
from statediff.meta.checkpoint import Form, checkpoint, digest_of
from statediff.meta.evidence_faults import false_claims, missing_readings
from statediff.meta.reference import Reference
from statediff.meta.world import World, in_order
from statediff.model.schema import SCHEMA_OBJECT_PREFIXES
from statediff.model.trace import NoAnswer, Trace
from statediff.model.values import Value, printable
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
from statediff_lab.audit.folders import Unwritable
from statediff_lab.audit.holes import Holes
from statediff_lab.audit.served import Served
from statediff_lab.audit.suites import Effort, audit_from
from statediff_lab.audit.tries import (
    Exhibit,
    Group,
    Heard,
    TaskAudit,
    Untriable,
    judged,
    seeded,
    show_all,
)
from statediff_lab.audit.verifiers import (
    Opinion,
    Place,
    Said,
    Shown,
    Verifier,
    command,
    function,
    sql,
)
from statediff_lab.importers.sweep import changes_of

SECONDS: Final = 60.0
_TEXTS: Final = frozenset(
    {"task", "domain", "verifier", "before", "after", "answer", "contract", "schema"}
)
_KEYS: Final = _TEXTS | {"right", "wrong"}
WRONG_RUN: Final = "wrong-run"
"""The class of a wrong run that was given without one."""


@dataclass(frozen=True, kw_only=True)
class WrongRun:
    """The state after a run that is known to be wrong."""

    after: str
    run: str = ""
    """Whose, or which; the file's name without one."""
    kind: str = WRONG_RUN


@dataclass(frozen=True, kw_only=True)
class FileTask:
    """One task: where its states lie, and who judges it."""

    name: str
    verifier: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    answer: Path | None = None
    right: tuple[str, ...] = ()
    """States after other right runs; of tasks with one source only."""
    wrong: tuple[WrongRun, ...] = ()
    """Runs that are known to be wrong; of tasks with one source only."""
    domain: str = ""
    """What it is counted with; without one, it is counted alone."""
    contract: Path | None = None
    """Instead of a draft: the contract that says what in the task is harm."""
    schema: Path | None = None


def verifier_of(named: str, seconds: float = SECONDS) -> Verifier:
    """`python:MODULE:FUNCTION`, `sql:FILE`, `contract:FILE`, or a command. `UsageError`."""
    scheme, _, rest = named.partition(":")
    match scheme:
        case "python":
            return function(rest)
        case "sql":
            return sql(Path(rest), seconds)
        case "contract":
            return _contract(contract_path(rest))
        case _:
            return command(named, seconds)


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


def tasks_in(path: Path, verifier: str | None) -> tuple[FileTask, ...]:
    """The tasks that a YAML file lists; paths are from its folder. `UsageError` for what is odd."""
    document = document_of(path)
    listed = document.get("tasks")
    if not isinstance(listed, list) or not listed or not document.keys() <= {"tasks", "verifier"}:
        raise UsageError(f"{printable(str(path))}: expected `tasks`, a list, and maybe `verifier`")
    found = [_task(path, entry, verifier or document.get("verifier")) for entry in listed]
    names = [task.name for task in found]
    if len(set(names)) < len(names):
        raise UsageError(f"{printable(str(path))}: two tasks have one name")
    return tuple(found)


def _task(path: Path, entry: Any, verifier: object) -> FileTask:
    known = entry if isinstance(entry, Mapping) else {}
    verifier = known.get("verifier") or verifier
    right, wrong = known.get("right") or [], known.get("wrong") or []
    is_well = (
        known.keys() <= _KEYS
        and known.keys() >= {"task", "before", "after"}
        and isinstance(verifier, str)
        and isinstance(right, list)
        and isinstance(wrong, list)
        and all(isinstance(v, str) for v in (*(known[n] for n in _TEXTS & known.keys()), *right))
        and all(isinstance(each, str) or _is_wrong_run(each) for each in wrong)
    )
    if not is_well or not isinstance(verifier, str):
        raise UsageError(
            f"{printable(str(path))}: a task has texts under `task`, `before`, `after`, a "
            f"`verifier` of its own or of all, and maybe {', '.join(sorted(_KEYS))[:80]}; found "
            f"{printable(str(entry))[:200]}"
        )

    def place(name: str) -> Path | None:
        return path.parent / known[name] if name in known else None

    def state(text: str) -> str:
        return text if "://" in text else str(path.parent / text)

    def at_place(each: WrongRun) -> WrongRun:
        return replace(each, after=state(each.after))

    return FileTask(
        name=known["task"],
        verifier=verifier,
        before=(state(known["before"]),),
        after=(state(known["after"]),),
        answer=place("answer"),
        right=tuple(map(state, right)),
        wrong=tuple(
            at_place(WrongRun(after=each) if isinstance(each, str) else WrongRun(**each))
            for each in wrong
        ),
        domain=known.get("domain", ""),
        contract=place("contract"),
        schema=place("schema"),
    )


def _is_wrong_run(entry: object) -> bool:
    return (
        isinstance(entry, Mapping)
        and "after" in entry
        and entry.keys() <= {"after", "run", "kind"}
        and all(isinstance(value, str) for value in entry.values())
    )


def audit_task(effort: Effort, seconds: float, task: FileTask) -> TaskAudit:
    """One task, audited or as it was kept; `UsageError` where its files are not what they must be.

    The verifier's own files count where its words name them: changed, nothing that was kept is
    taken.
    """
    if effort.keep is None:
        return _audit(effort, seconds, task)
    states = [*task.before, *task.after, *task.right, *(each.after for each in task.wrong)]
    named = [StateFile.parse(each).path for each in states]
    beside = [each for each in (task.answer, task.contract, task.schema) if each is not None]
    running = [_digest(each) for each in states if StateFile.parse(each).url is not None]
    words = {str(k): str(v) for k, v in asdict(task).items()}
    digest = digest_of([*named, *beside, *_own_files(task.verifier)])
    asked = [words, digest, *running, effort.seed, effort.each, seconds, str(effort.holes)]
    form = Form("audit", partial(audit_from, effort.holes))
    make = lambda: [_audit(effort, seconds, task)]  # noqa: E731 - said once
    (found,) = checkpoint(effort.keep, task.name, asked, make, form)
    return found


def _digest(state: str) -> str:
    """What a running database holds now."""
    capture = one_capture([state], lambda _source: None)
    return " ".join(str(part.reading.digest) for part in capture.parts)


def audit_or_fault(effort: Effort, seconds: float, task: FileTask) -> TaskAudit:
    """Audit a task of several, or say why it could not be; the others have their figures."""
    try:
        return audit_task(effort, seconds, task)
    except StatediffError as error:
        return TaskAudit(task.domain or task.name, task.name, fault=str(error))


def _own_files(verifier: str) -> Iterator[Path]:
    scheme, _, rest = verifier.partition(":")
    if scheme == "python":
        verifier_of(verifier)  # imports it
        file = sys.modules[rest.partition(":")[0]].__file__
        if file is not None:
            yield Path(file)
    for word in shlex.split(rest if scheme in ("sql", "contract") else verifier):
        if Path(word).is_file():
            yield Path(word)


def _audit(effort: Effort, seconds: float, task: FileTask) -> TaskAudit:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="statediff-audit-")))
        showing = _Showing(task, verifier_of(task.verifier, seconds), folder)
        stack.callback(showing.close)
        judgement = showing.right.judged()
        if judgement.verdict is not Verdict.MATCH:
            raise UsageError(
                f"{printable(task.name)}: the run that should be right gets "
                f"{judgement.verdict.value} under its contract; give a right run, or --contract"
            )
        world = World(showing.right, judgement, effort.seed)
        holes = Holes(effort.holes, task.name)
        tries, untried = show_all(showing.exhibits(world, effort.each), holes.keep)
        text = showing.right.contract.data.decode()
        holes.describe(text, showing.schema_text)
        left = (*untried, *in_order(world.untried))
        return TaskAudit(
            task.domain or task.name, task.name, tries=tries, untried=left, contract=text
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
        self._first = {f.source: f.url or f.path for f in distinct_states(task.before, "--before")}
        self._served: dict[tuple[str, str], Served] = {}
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
        nothing, right = Group.NOTHING, Group.RIGHT
        if world.touched and not self.right.contract.content.noop:
            yield self._shown(nothing, "null-run", "nothing was done, and nothing said")
            if self._task.answer is not None:
                yield self._shown(nothing, "answer-alone", "nothing was done; all was said")
        yield self._shown(right, "right-run", "the task was done right")
        yield self._shown(right, "written-anew", "the right state, in other bytes")
        for number, _ in enumerate(others, start=1):
            yield self._shown(right, "other-right-run", f"right run {number}", number - 1)
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

    def _shown(self, group: Group, kind: str, sentence: str, number: int = 0) -> Exhibit:
        asks = {
            "null-run": lambda: self._ask(self._copies(self._first), answer=None),
            "answer-alone": lambda: self._ask(self._copies(self._first)),
            "right-run": lambda: self._ask(self._copies(self._after)),
            "written-anew": self._ask_anew,
            "other-right-run": lambda: self._ask(self._copies(self._other(number))),
        }
        return Exhibit(group=group, kind=kind, sentence=sentence, ask=asks[kind])

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
        types = [t for t in world.types if not t.name.startswith(SCHEMA_OBJECT_PREFIXES)]
        for entity in world.rng.sample(types, min(each or len(types), len(types))):
            yield Exhibit(
                group=Group.UNSEEN,
                kind="table-removed",
                target=entity.name,
                sentence=f"there is no {entity.source_table} at all",
                ask=partial(self._ask_without, entity.source_table),
            )

    @property
    def _after(self) -> dict[str, Place]:
        return {file.source: file.url or file.path for file in self._files}

    def _other(self, number: int) -> dict[str, Place]:
        return self._at(self._task.right[number])

    def _at(self, state: str) -> dict[str, Place]:
        file = StateFile.parse(state)
        return {self._files[0].source: file.url or file.path}

    def _copies(self, states: Mapping[str, Place], folder: str = "shown") -> dict[str, Place]:
        """Copies of the states, each in a folder of its own; the last ones are gone."""
        shutil.rmtree(self._folder / folder, ignore_errors=True)
        found: dict[str, Place] = {}
        for source, path in states.items():
            if isinstance(path, str):
                found[source] = self._serving(source, path).fresh()
                continue
            place = self._folder / folder / source
            place.mkdir(parents=True)
            found[source] = files.copied(path, place)
        return found

    def _serving(self, source: str, url: str) -> Served:
        """Who makes the copies of the database at the URL."""
        if (source, url) not in self._served:
            self._served[source, url] = Served(StateFile.parse(f"{source}={url}"))
        return self._served[source, url]

    def close(self) -> None:
        """No copy is left on a server."""
        for each in self._served.values():
            each.close()

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
        before = self._copies(self._first, "before")
        shown = Shown(before=before, state=state, answer=answer)
        opinion = self._verifier(shown)
        return Heard(opinion, run, {n: kept / p.relative_to(p.parents[1]) for n, p in held.items()})

    def _ask_wrong(self, wrong: WrongRun) -> Heard:
        run = self._read([wrong.after])
        if not changes_of(self.right, run):
            raise Untriable("its state is that of the right run")
        return self._ask(self._copies(self._at(wrong.after)))

    def _ask_anew(self) -> Heard:
        state = self._copies(self._after)
        for path in state.values():
            if isinstance(path, str):
                raise Untriable("a server writes its files as it likes")
            _write(partial(files.write_anew, path))
        return self._ask(state)

    def _ask_spoiled(self, source: str, kind: str, blank: Reference | None) -> Heard:
        state = self._copies(self._after)
        place = state[source]
        if isinstance(place, str):
            if kind == "state-cut":
                raise Untriable("a database that runs does not break off")
            self._serving(source, str(self._after[source])).remove()
        elif kind == "state-removed":
            files.remove(place)
        else:
            files.cut(place)
        return self._ask(state, blank)

    def _ask_claim(self, mutant: Reference) -> Heard:
        said, place = mutant.answer, self._folder / "answer.json"
        if not isinstance(said, NoAnswer):
            text = said if mutant.contract.content.answer.form == "text" else _written(said)
            place.write_text(str(text), encoding="utf-8")
        answer = None if isinstance(said, NoAnswer) else place
        return self._ask(self._copies(self._after), mutant, answer=answer)

    def _ask_without(self, table: str) -> Heard:
        state = self._copies(self._after)
        for source, path in state.items():
            if isinstance(path, str):
                served = self._serving(source, str(self._after[source]))
                _write(partial(served.remove_table, table))
            else:
                _write(partial(files.remove_table, path, table))
        return self._ask(state)

    def _show(self, mutant: Reference) -> Heard:
        state = self._copies(self._after)
        changes = changes_of(self.right, mutant)
        for part in self.right.after.parts:
            keys = files.keys_of(part.state.schema.types)
            own = [change for change in changes if change.type in keys]
            # What the catalogue says follows from the rows, or could not be written as one.
            own = [c for c in own if not c.type.startswith(SCHEMA_OBJECT_PREFIXES)]
            own = files.without_computed(own, part.state.schema.types)
            source = part.reading.source
            place = state[source]
            if isinstance(place, str):
                served = self._serving(source, str(self._after[source]))
                _write(partial(served.write, own, keys))
            else:
                _write(partial(files.write_changes, place, own, keys))
        try:
            run = self._read([f"{name}={path}" for name, path in state.items()])
        except InputError as error:
            raise Untriable(f"the state cannot be read any more: {error}") from error
        if not changes_of(self.right, run):
            raise Untriable("the system makes nothing of it")
        return self._ask(state, run)


def _written(answer: Value) -> str:
    return json.dumps(plain(answer), default=float)


def _write(write: Any) -> None:
    try:
        write()
    except Unwritable as error:
        raise Untriable(str(error)) from error
