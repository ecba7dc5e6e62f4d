"""The closed contract of a task, from the states that its ground truth leaves after each turn.

* `require`: what the ground truth has changed in the end, entity by entity; the frame is closed.
* `turns`: after each turn what the ground truth changed in it, and what it was asked to find out.

Nothing is known of a single task. These rules hold for all:

1. A value that the simulator drew by chance, a key that it minted and a counter that it keeps for
   itself may be any.
2. Sentences that the user gives are those words, whatever the punctuation and letters' case. A
   sentence that the user leaves to the agent must have the user's words that the reference has.
3. The order of a list that the user does not see as one means nothing.
4. A look is asked for only where nothing later in its turn rests on it: no later call that writes,
   and no later call whose arguments are from its result. Where the agent is, is nobody's wish.
5. Numbers are equal to six digits after the point.
6. What a look shows is owed in the turn that asks for it: by a call of that turn, or by a reply
   that says it from an earlier call. Where replies are not recorded the latter is unknown.
   `Rules.FIRST` lacks this: any call so far will do.

`Gates.END` asks for the same, but only once all turns are over.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from enum import Enum
from typing import Any, Final

from statediff.contract.file import ContractFile, parse_contract
from statediff.model.schema import Kind
from statediff_lab.importers.bfcl.format import Made, Rules, Task, atoms
from statediff_lab.importers.bfcl.layout import (
    BOOKKEEPING,
    BY_NAME,
    POSITION,
    REST,
    TABLES,
    Document,
    Record,
    TableOf,
    column_name,
)
from statediff_lab.importers.pack import compose_yaml

MAX_LITERAL: Final = 300
_ANY_TURN: Final = "count(c for c in calls) >= 0"
_APART: Final = r"[^\pL\pN]"
_WORD: Final = re.compile(r"[^\W_]+")
_TELLING: Final = 4
"""Letters of a word that says something."""
MAX_WORDS: Final = 12
MAX_IN_WORDS: Final = 2_000
WORDS_AT_ONCE: Final = 25


class Gates(Enum):
    """When a turn's work must be done."""

    TURN = "turn"
    """At the end of the turn."""
    END = "end"
    """At the end of the run."""


def contract_of(task: Task, gates: Gates = Gates.TURN) -> ContractFile:
    """The closed contract of the task."""
    name = f"bfcl/{task.category.replace('_', '-')}/{task.name.rpartition('_')[2]}"
    data = compose_yaml({}, _Composed(task, gates).document(name))
    return parse_contract(data, f"{name}.yaml")


class _Composed:
    """One contract in the making."""

    def __init__(self, task: Task, gates: Gates) -> None:
        self._task = task
        self._gates = gates
        self._said = _words(" ".join(task.messages))
        self._inputs: dict[str, Any] = {}
        self._documents = task.truth.documents
        self._wrote = {
            json.dumps(str(record[name]))[1:-1]
            for document in self._documents[1:]
            for table in _tables(document)
            for record in document[table.name]
            if record not in self._documents[0].get(table.name, ())
            for name in table.prose & record.keys()
            if record[name]
        }
        """The sentences that the agent wrote; a look may show them as it wrote them."""

    def document(self, name: str) -> dict[str, Any]:
        """The contract's keys and values."""
        first, last = self._documents[0], self._documents[-1]
        require = [*self._created(first, last), *self._kept(first, last)]
        turns = list(self._turns())
        head: dict[str, Any] = {
            "contract": name,
            "version": self._task.rules.value,
            "owner": "importer bfcl",
            "intent": f"Do what the user of task {self._task.name} asks, and nothing else.",
        }
        if not require:
            head["noop"] = True
        if self._inputs:
            head["inputs"] = self._inputs
        parts = {
            "exclude": list(_excluded(self._task.systems)),
            "canonicalize": list(_rounded(self._task.systems)),
            "require": require,
            "turns": turns,
        }
        return head | {key: value for key, value in parts.items() if value}

    # ------------------------------------------------------------ the end

    def _created(self, first: Document, last: Document) -> Iterator[dict[str, Any]]:
        for table in _tables(last):
            before = _keyed(table, first)
            made = [r for key, r in _keyed(table, last).items() if key not in before]
            alike = Counter(" and ".join(self._holding(table, r, "it", last, first)) for r in made)
            for number, (where, count) in enumerate(alike.items(), 1):
                clause = {"id": f"{table.name}-{number}", "create": table.name}
                if where:
                    clause["where"] = where
                is_one = len(alike) == 1 or not table.minted
                yield clause | {"count": count if is_one else {"min": count}}
            if len(alike) > 1 and table.minted:
                total = f"count(x for x in created.{table.name}) == {len(made)}"
                yield {"id": f"{table.name}-in-all", "that": total}

    def _kept(self, first: Document, last: Document) -> Iterator[dict[str, Any]]:
        for table in _tables(last):
            now = _keyed(table, last)
            for number, (key, before) in enumerate(_keyed(table, first).items(), 1):
                where = f"it.{table.key} == {_quote(key)}"
                if key not in now:
                    one = f"{table.name}-gone-{number}"
                    yield {"id": one, "delete": table.name, "where": where}
                    continue
                changed = [f for f in _fields(table) if before.get(f) != now[key].get(f)]
                if changed:
                    that = [t for f in changed for t in self._field(table, f, now[key], "new")]
                    yield {
                        "id": f"{table.name}-changed-{number}",
                        "update": table.name,
                        "where": where,
                        "fields": [column_name(f) for f in changed],
                        **({"that": " and ".join(that)} if that else {}),
                    }

    # ------------------------------------------------------------ turn by turn

    def _turns(self) -> Iterator[dict[str, Any]]:
        looked: list[str] = []
        count = len(self._task.messages)
        for number, message in enumerate(self._task.messages, 1):
            looks = list(self._looks(number))
            if self._gates is Gates.TURN:
                then = [*self._states(number), *looks]
            else:
                looked += looks
                then = looked if number == count else []
            unique = list(dict.fromkeys(then))
            yield {"id": f"turn-{number}", "prompt": message, "require": unique or [_ANY_TURN]}

    def _states(self, number: int) -> Iterator[str]:
        """Yields the changes of this turn, as they are after the turn."""
        first, then, now = (self._documents[n] for n in (0, number - 1, number))
        for table in _tables(now):
            was, there, at_first = (_keyed(table, each) for each in (then, now, first))
            for key, record in there.items():
                changed = [f for f in _fields(table) if was.get(key, {}).get(f) != record.get(f)]
                if key in was and not changed:
                    continue
                if key not in at_first:
                    yield self._made_by_now(table, record, now, first)
                    continue
                place = f"now.{table.name}[{_quote(key)}]"
                if key not in was:
                    yield f"exists({place})"
                yield from (t for f in changed for t in self._field(table, f, record, place))
            for key in was:
                if key not in there and key in at_first:
                    yield f"not exists(now.{table.name}[{_quote(key)}])"

    def _made_by_now(self, table: TableOf, record: Record, now: Document, first: Document) -> str:
        """That there are as many such records as the ground truth has made so far."""
        wanted = self._holding(table, record, "x", now, first, "now")
        before = _keyed(table, first)
        made = [r for key, r in _keyed(table, now).items() if key not in before]
        alike = sum(self._holding(table, r, "x", now, first, "now") == wanted for r in made)
        some = f" if {' and '.join(wanted)}" if wanted else ""
        return f"count(x for x in now.{table.name}{some}) >= {alike}"

    def _looks(self, number: int) -> Iterator[str]:
        """Yields what was to be found out in a turn."""
        calls = self._task.truth.turns[number - 1]
        for at, call in enumerate(calls):
            if call.writes or call.moves or call.is_error or call.told in (None, "None", {}):
                continue
            if rests(call, calls[at + 1 :]):
                continue
            is_drawn = any(text in self._task.drawn for text in atoms(call.told))
            tool = f"c.tool == {_quote(call.tool)} and c.error == null"
            shown = tool if is_drawn else self._told(call.result)
            is_late = self._gates is Gates.TURN and number > 1
            if is_late and self._task.rules is not Rules.FIRST:
                said = 'reply != ""' if is_drawn else _says("reply", call)
                now = f"any(c.turn == {number} and {shown} for c in calls)"
                yield f"{now} or (any({shown} for c in calls) and {said})"
            else:
                yield f"any({shown} for c in calls)"

    def _told(self, result: str) -> str:
        if len(result) <= MAX_IN_WORDS and any(text in result for text in self._wrote):
            return _in_words("c.result", _words(result))
        if len(result) <= MAX_LITERAL:
            return f"c.result == {_quote(result)}"
        ends = _quote(result[:MAX_LITERAL]), _quote(result[-MAX_LITERAL:])
        return (
            f"len(c.result) == {len(result)} and starts_with(c.result, {ends[0]}) and "
            f"ends_with(c.result, {ends[1]})"
        )

    # ------------------------------------------------------------ values

    def _holding(
        self,
        table: TableOf,
        record: Record,
        it: str,
        now: Document,
        first: Document,
        root: str = "created",
    ) -> list[str]:
        """That `it` is the record, as far as the task says what it holds."""
        found = [] if table.minted else [f"{it}.{table.key} == {_quote(record[table.key])}"]
        for name in _fields(table):
            target = table.refers.get(name)
            key = str(record.get(name))
            if target is not None and it != "t" and key not in _keyed(BY_NAME[target], first):
                there = _keyed(BY_NAME[target], now).get(key)
                if there is not None:
                    same = self._holding(BY_NAME[target], there, "t", now, first)
                    is_it = _as_key(table, name, it)
                    tests = " and ".join([f"t.id == {is_it}" if is_it else "true", *same])
                    if is_it:
                        found.append(f"any({tests} for t in {root}.{target})")
                    continue
            found += self._field(table, name, record, it)
        return found

    def _field(self, table: TableOf, name: str, record: Record, of: str) -> Iterator[str]:
        """That a field of `of` is what it is in the record; nothing where it may be any."""
        place, value = f"{of}.{column_name(name)}", record.get(name)
        if any(text in self._task.drawn for text in atoms(value) if not text.isalpha()):
            return
        if value is None:
            yield f"{place} == null"
        elif name in table.prose and isinstance(value, str):
            yield from self._prose(place, value)
        elif name == REST and isinstance(value, dict):
            for member in sorted(value.keys() - {"id"} if table.minted else value):
                at = f".{member}" if member.isidentifier() else f"[{_quote(member)}]"
                yield f"{place}{at} == {self._any(value[member])}"
        elif isinstance(value, list) and value:
            yield f"same_items({place}, {self._input(value)})"
        else:
            yield f"{place} == {self._any(value)}"

    def _any(self, value: Any) -> str:
        if isinstance(value, dict | list):
            return self._input(value)
        if value is None:
            return "null"
        return _quote(value) if isinstance(value, str) else _number(value)

    def _prose(self, place: str, text: str) -> Iterator[str]:
        words = _words(text)
        if not words:
            yield f"{place} == {_quote(text)}"
            return
        yield f"{place} != null"
        if _is_within(words, self._said):
            yield _in_words(place, words)
        else:
            said = set(self._said)
            telling = [w for w in words if w in said and (len(w) >= _TELLING or w.isdigit())]
            yield f'{place} != ""'
            yield from _with_words(place, telling)

    def _input(self, value: Any) -> str:
        for name, known in self._inputs.items():
            if known == value:
                return f"input.{name}"
        name = f"value_{len(self._inputs) + 1}"
        self._inputs[name] = value
        return f"input.{name}"


def rests(look: Made, later: Sequence[Made]) -> bool:
    """True if something later in the turn rests on the look, so that it was no end in itself."""
    if any(call.writes for call in later):
        return True
    own = set(atoms(look.parts[1]))
    learnt = {text for text in atoms(look.told) if text not in own and len(text) > 1}
    return any(learnt & set(atoms(call.parts[1])) for call in later)


def _tables(document: Document) -> Iterable[TableOf]:
    return (table for table in TABLES if table.name in document)


def _keyed(table: TableOf, document: Document) -> dict[str, Record]:
    return {str(record[table.key]): record for record in document.get(table.name, ())}


def _fields(table: TableOf) -> list[str]:
    """The columns that count."""
    own = [*table.fields, *([] if "value" in table.fields else ["value"]), REST]
    left = {*BOOKKEEPING.get(table.name, ()), POSITION, table.key}
    if table.shape in ("files", "folders", "words"):
        own = [name for name in own if name in table.fields]
    return [name for name in own if name not in left]


def _as_key(table: TableOf, name: str, it: str) -> str:
    """The field as the key of what it refers to; empty where no expression can say so."""
    return f"{it}.{column_name(name)}" if table.fields.get(name) is Kind.TEXT else ""


def _excluded(systems: Sequence[str]) -> Iterator[dict[str, str]]:
    for table in TABLES:
        if table.system in systems:
            for name in BOOKKEEPING.get(table.name, ()):
                because = "a counter that the simulator keeps, shown by no tool"
                yield {"what": f"{table.name}.{name}", "because": because}
            if table.shape in ("list", "numbered", "letters", "lists"):
                because = "where in the list it is; the order means nothing"
                yield {"what": f"{table.name}.{POSITION}", "because": because}


def _rounded(systems: Sequence[str]) -> Iterator[dict[str, Any]]:
    fields = [
        f"{table.name}.{column_name(name)}"
        for table in TABLES
        if table.system in systems
        for name, kind in table.fields.items()
        if kind is Kind.DECIMAL
    ]
    if fields:
        because = "the last digits of a binary fraction depend on the order of adding"
        yield {"use": "decimal@1", "on": fields, "scale": 6, "because": because}


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _in_words(place: str, words: Sequence[str]) -> str:
    """That a text is these words, whatever is between them.

    A long text is several searches, each with the last word of the one before: RE2 has bounds.
    """
    tests = []
    for at in range(0, max(1, len(words) - 1), WORDS_AT_ONCE - 1):
        some = words[at : at + WORDS_AT_ONCE]
        before = f"^{_APART}*" if not at else f"(?:^|{_APART})"
        after = f"{_APART}*$" if at + WORDS_AT_ONCE >= len(words) else f"(?:$|{_APART})"
        pattern = f"{before}{f'{_APART}+'.join(map(re.escape, some))}{after}"
        tests.append(f"search(lower({place}), {_quote(pattern)})")
    return " and ".join(tests)


def _with_words(place: str, words: Iterable[str]) -> Iterator[str]:
    """That a text has these words somewhere; as many as `MAX_WORDS`."""
    for word in list(dict.fromkeys(words))[:MAX_WORDS]:
        pattern = f"(?:^|{_APART}){re.escape(word)}(?:$|{_APART})"
        yield f"search(lower({place}), {_quote(pattern)})"


def _says(place: str, look: Made) -> str:
    """That a text has the words of what the look shows."""
    words = (word for text in _leaves(look.told) for word in _words(text))
    return " and ".join(_with_words(place, words)) or f'{place} != ""'


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _leaves(each)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def _is_within(part: Sequence[str], whole: Sequence[str]) -> bool:
    return f" {' '.join(part)} " in f" {' '.join(whole)} "


def _quote(text: Any) -> str:
    return json.dumps(str(text), ensure_ascii=False)


def _number(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return format(Decimal(value), "f")
