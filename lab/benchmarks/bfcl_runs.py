"""Runs of BFCL's tasks that are right or wrong by how they are made.

Each is made from the task's ground truth, carried out, and kept only where what it did shows that
it is what its kind says: a repetition is right where nothing came of it, wrong where something did.
Two outcomes are the same where the records are, whatever the order, the keys that a system mints,
what it drew by chance, and its counters.
"""

from __future__ import annotations

import ast
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from statediff_lab.importers.bfcl.checker import Checker
from statediff_lab.importers.bfcl.contract import rests
from statediff_lab.importers.bfcl.format import Course, Made, Task, atoms, course_of
from statediff_lab.importers.bfcl.layout import BOOKKEEPING, BY_NAME, POSITION, REST, Document

from statediff.errors import AdapterError

Turns = list[list[str]]
RIGHT: Final = "right"
AT_END: Final = "right at the end"
WRONG: Final = "wrong"
NOBODY: Final = "no-such-thing"


@dataclass(frozen=True)
class Kind:
    """One kind of run: what it is by how it is made, and what it must have done to be one."""

    name: str
    is_: str
    make: Callable[[Task, random.Random], Iterator[Turns]]
    shows: Callable[[Task, Course], bool]


def made_runs(task: Task, checker: Checker) -> Iterator[dict[str, Any]]:
    """One run of each kind that can be made of the task, as a line of a file of runs."""
    for kind in KINDS:
        rng = random.Random(f"{task.name} {kind.name}")
        tried: set[str] = set()
        for turns in kind.make(task, rng):
            if json.dumps(turns) in tried or len(tried) > 8:
                continue
            tried.add(json.dumps(turns))
            try:
                done = checker.run(task.name, turns, states=True)
            except AdapterError:
                continue
            if kind.shows(task, course_of(done)):
                yield {
                    "run_id": f"{task.name}/{kind.name}",
                    "task": task.name,
                    "agent": kind.name,
                    **done,
                }
                break


# ---------------------------------------------------------------- what a run shows


def outcome(task: Task, document: Document, *, prose: bool = True) -> Counter[str]:
    """The records as far as they count; without sentences, if wanted."""
    found: Counter[str] = Counter()
    for name, records in document.items():
        table = BY_NAME[name]
        left = {POSITION, *BOOKKEEPING.get(name, ()), *table.refers}
        if table.minted:
            left.add(table.key)
        if not prose:
            left |= table.prose
        for record in records:
            kept = {n: v for n, v in record.items() if n not in left}
            if table.minted and REST in kept:
                kept[REST] = {n: v for n, v in kept[REST].items() if n != "id"}
            kept = {n: v for n, v in kept.items() if not set(atoms(v)) & task.drawn}
            found[f"{name} {json.dumps(kept, sort_keys=True, default=str)}"] += 1
    return found


def same(task: Task, one: Document, other: Document) -> bool:
    """True if two outcomes are the same."""
    return outcome(task, one) == outcome(task, other)


def same_throughout(task: Task, course: Course) -> bool:
    """The ground truth's outcome after every turn."""
    pairs = zip(course.documents, task.truth.documents, strict=True)
    return all(same(task, *pair) for pair in pairs)


def same_at_end(task: Task, course: Course) -> bool:
    """The ground truth's outcome once all is over."""
    return same(task, course.documents[-1], task.truth.documents[-1])


def _same_and_learnt(task: Task, course: Course) -> bool:
    """The same outcome after every turn, and every result that the ground truth had in it."""
    return same_throughout(task, course) and all(
        not _results(task, truth) - _results(task, made)
        for truth, made in zip(task.truth.turns, course.turns, strict=True)
    )


def _results(task: Task, calls: Sequence[Made]) -> Counter[str]:
    looks = (call for call in calls if not call.writes and not call.moves)
    return Counter(call.result for call in looks if not set(atoms(call.told)) & task.drawn)


def _same_but_sentences(task: Task, course: Course) -> bool:
    pairs = zip(course.documents, task.truth.documents, strict=True)
    return not same_throughout(task, course) and all(
        outcome(task, one, prose=False) == outcome(task, other, prose=False) for one, other in pairs
    )


def _other_at_end(task: Task, course: Course) -> bool:
    return not same_at_end(task, course)


def _always(_task: Task, _course: Course) -> bool:
    return True


# ---------------------------------------------------------------- how it is made


def _truth(task: Task) -> Turns:
    return [[call.text for call in turn] for turn in task.truth.turns]


def _ground_truth(task: Task, _rng: random.Random) -> Iterator[Turns]:
    yield _truth(task)


def _looked_twice(task: Task, _rng: random.Random) -> Iterator[Turns]:
    made = [
        [t for call in turn for t in [call.text] * (1 if call.writes or call.moves else 2)]
        for turn in task.truth.turns
    ]
    if made != _truth(task):
        yield made


def _other_order(task: Task, rng: random.Random) -> Iterator[Turns]:
    places = [(n, at) for n, turn in enumerate(task.truth.turns) for at in range(len(turn) - 1)]
    for n, at in rng.sample(places, len(places)):
        made = _truth(task)
        if made[n][at] != made[n][at + 1]:
            made[n][at : at + 2] = made[n][at : at + 2][::-1]
            yield made


def _with_call(
    task: Task, rng: random.Random, make: Callable[[Made], list[str]]
) -> Iterator[Turns]:
    """A write replaced by the calls that `make` gives; none where it gives none."""
    places = [
        (n, at)
        for n, turn in enumerate(task.truth.turns)
        for at, call in enumerate(turn)
        if call.writes
    ]
    for n, at in rng.sample(places, len(places)):
        calls = make(task.truth.turns[n][at])
        if calls:
            made = _truth(task)
            made[n][at : at + 1] = calls if calls != [""] else []
            yield made


def _refused_first(task: Task, rng: random.Random) -> Iterator[Turns]:
    yield from _with_call(task, rng, lambda call: _two(_reworded(call, lambda _: NOBODY), call))


def _two(first: str, call: Made) -> list[str]:
    return [first, call.text] if first else []


def _reworded(call: Made, change: Callable[[str], str], words: int = 1) -> str:
    """The call with its first argument of so many words changed; empty where there is none."""
    tree = ast.parse(call.text, mode="eval")
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and len(str(node.value).split()) >= words:  # type: ignore[attr-defined]  # above
            node.value = change(str(node.value))  # type: ignore[attr-defined]  # a constant
            return ast.unparse(tree)
    return ""


def _other_words(task: Task, rng: random.Random) -> Iterator[Turns]:
    def other(text: str) -> str:
        return text[:-1] if text[-1] in ".!?" else f"{text}."

    yield from _with_call(task, rng, lambda call: [t for t in [_reworded(call, other, 3)] if t])


def _repeated(task: Task, rng: random.Random) -> Iterator[Turns]:
    yield from _with_call(task, rng, lambda call: [call.text, call.text])


def _missing(task: Task, rng: random.Random) -> Iterator[Turns]:
    yield from _with_call(task, rng, lambda _: [""])


def _fewer_looks(task: Task, _rng: random.Random) -> Iterator[Turns]:
    made = [
        [
            call.text
            for at, call in enumerate(turn)
            if call.writes or call.moves or not rests(call, turn[at + 1 :])
        ]
        for turn in task.truth.turns
    ]
    if made != _truth(task):
        yield made


DETOURS: Final = (
    ("touch(file_name='scratch.tmp')", "rm(file_name='scratch.tmp')"),
    ("mkdir(dir_name='scratch')", "rmdir(dir_name='scratch')"),
    ("add_to_watchlist(stock='OMEG')", "remove_stock_from_watchlist(symbol='OMEG')"),
    ("follow_user(username_to_follow='zed')", "unfollow_user(username_to_unfollow='zed')"),
    ("setHeadlights(mode='on')", "setHeadlights(mode='off')"),
)


def _detour(task: Task, rng: random.Random) -> Iterator[Turns]:
    """Something done and undone at the end of a turn."""
    numbers = [n for n, turn in enumerate(task.truth.turns) if turn]
    for n in rng.sample(numbers, min(2, len(numbers))):
        for pair in rng.sample(DETOURS, len(DETOURS)):
            made = _truth(task)
            made[n] += pair
            yield made


def _undone(task: Task, course: Course) -> bool:
    return _same_and_learnt(task, course) and any(
        len(made) == len(truth) + 2 and all(call.writes for call in made[-2:])
        for made, truth in zip(course.turns, task.truth.turns, strict=True)
    )


def _late(task: Task, rng: random.Random) -> Iterator[Turns]:
    """A turn's work is done at the beginning of the next."""
    turns = task.truth.turns
    numbers = [n for n in range(len(turns) - 1) if any(c.writes for c in turns[n]) and turns[n + 1]]
    for n in rng.sample(numbers, len(numbers)):
        made = _truth(task)
        made[n], made[n + 1] = [], [*made[n], *made[n + 1]]
        yield made


def _premature(task: Task, rng: random.Random) -> Iterator[Turns]:
    numbers = [n for n in range(1, len(task.messages)) if any(task.truth.turns[n:])]
    for n in rng.sample(numbers, len(numbers)):
        yield [*_truth(task)[:n], *([] for _ in task.messages[n:])]


def _nothing(task: Task, _rng: random.Random) -> Iterator[Turns]:
    yield [[] for _ in task.messages]


STRAY: Final = (
    "touch(file_name='stray.txt')",
    "post_tweet(content='Everything must go')",
    "retweet(tweet_id=0)",
    "send_message(receiver_id='USR002', message='Ignore what I said')",
    "delete_message(receiver_id='USR003')",
    "close_ticket(ticket_id=1)",
    "create_ticket(title='Nothing')",
    "withdraw_funds(amount=1)",
    "cancel_order(order_id=12446)",
    "add_to_watchlist(stock='SYNX')",
    "lockDoors(unlock=True, door=['driver'])",
    "fillFuelTank(fuelAmount=0.5)",
    "activateParkingBrake(mode='engage')",
    "adjustClimateControl(temperature=11.0)",
)


def _stray(task: Task, rng: random.Random) -> Iterator[Turns]:
    """A call that nobody asked for, in any turn."""
    for call in rng.sample(STRAY, len(STRAY)):
        made = _truth(task)
        made[rng.randrange(len(made))].append(call)
        yield made


def _wrote_more(task: Task, course: Course) -> bool:
    return _other_at_end(task, course) and any(
        len(made) == len(truth) + 1 and made[-1].writes
        for made, truth in zip(course.turns, task.truth.turns, strict=True)
    )


KINDS: Final = (
    Kind("ground-truth", RIGHT, _ground_truth, _always),
    Kind("looked-twice", RIGHT, _looked_twice, _same_and_learnt),
    Kind("other-order", RIGHT, _other_order, _same_and_learnt),
    Kind("refused-first", RIGHT, _refused_first, _same_and_learnt),
    Kind("repeated-write", RIGHT, _repeated, _same_and_learnt),
    Kind("done-and-undone", RIGHT, _detour, _undone),
    Kind("other-punctuation", RIGHT, _other_words, _same_but_sentences),
    Kind("fewer-looks", RIGHT, _fewer_looks, same_throughout),
    Kind("turn-late", AT_END, _late, same_at_end),
    Kind("premature-end", WRONG, _premature, _always),
    Kind("nothing-done", WRONG, _nothing, _always),
    Kind("missing-write", WRONG, _missing, _other_at_end),
    Kind("doubled-write", WRONG, _repeated, _other_at_end),
    Kind("stray-write", WRONG, _stray, _wrote_more),
)
BY_KIND: Final[Mapping[str, Kind]] = {kind.name: kind for kind in KINDS}
